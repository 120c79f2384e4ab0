"""The density that the audit searches is that of the mechanism that a site runs for the same query."""

from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import PerturbedObjective, perturbed_objective, worst_neighbours
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.records import geometry
from tests import chance
from tests.support import PUBLIC_ROWS, RECORDS, SCHEMA, people, study_of

DRAWS = 900
PRIVATE = people(60)


def query_of(formula: str, public_rows: int, *, share: float = 0.0, epsilon: float = 2.0) -> ObjectiveQuery:
    study = study_of(PRIVATE, people(public_rows, seed=1) if public_rows else None)
    return hdpf.logit(formula, data=study).fit(epsilon=epsilon, se_share=share).query


@pytest.mark.parametrize("formula", ["y ~ x + g", "y ~ 0 + x + k", "y ~ 1"])
@pytest.mark.parametrize("public_rows", [0, PUBLIC_ROWS])
@pytest.mark.parametrize(("weight", "share"), [(1.0, 0.0), (2.5, 0.4)])
def test_the_constants_are_those_of_a_site(formula: str, public_rows: int, weight: float, share: float) -> None:
    query = query_of(formula, public_rows, share=share, epsilon=20.0 if share else 2.0)
    mechanism = perturbed_objective(query, largest_weight=weight)
    person_loss = RegressionPersonLoss(model=query.model, largest_weight=weight, largest_offset=3.0)
    constants = perturbation.calibrate_objective(query, person_loss, records=RECORDS)
    assert (mechanism.rate, mechanism.norm) == (float(constants.noise_rate), constants.sensitivity.norm)
    assert mechanism.ridge.tolist() == [float(query.ridge)] * query.model.geometry.dimension
    assert tuple(mechanism.centre.tolist()) == query.centre


@pytest.mark.parametrize("formula", ["y ~ x + k", "y ~ 0 + x + k"])
def test_rows_have_the_weights_of_a_site(formula: str) -> None:
    query = query_of(formula, PUBLIC_ROWS)
    raw = np.column_stack([np.linspace(-50, 50, 101), np.linspace(400, -400, 101) ** 2])
    design = np.column_stack([np.ones(101), raw]) if query.model.geometry.intercept else raw
    rows = geometry.whiten(query.model.geometry, design)
    found = perturbed_objective(query, largest_weight=2.0).weigh(rows.X)
    np.testing.assert_allclose(found, 2.0 * rows.weights, rtol=1e-12)
    assert found.min() < 0.1


POINTS = np.linspace(-8.0, 8.0, 8001)


def distribution(mechanism: PerturbedObjective) -> np.ndarray:
    """Return the distribution function of released intercepts at `POINTS`, from the density for ``PRIVATE``."""
    points = POINTS[:, None]
    ones = int(PRIVATE["y"].sum())
    X, y, counts = np.ones((2, 1)), np.array([0.0, 1.0]), np.array([len(PRIVATE) - ones, ones])
    shaped = [np.broadcast_to(part, (len(points), *part.shape)) for part in (X, y, counts)]
    heights = mechanism.log_density(points, *shaped)
    below = np.cumsum(np.exp(heights - heights.max()))
    return below / below[-1]


def fits(below: np.ndarray, released: np.ndarray) -> bool:
    """Two Kolmogorov-Smirnov tests, of place and of spread: a wrong spread shows twice as large in the folded one."""
    uniform = np.interp(released, POINTS, below)
    return all(
        chance.follows(each, lambda u: u, alarm=chance.ALARM / 2) for each in (uniform, np.abs(2.0 * uniform - 1.0))
    )


def miss(below: np.ndarray, truth: np.ndarray) -> float:
    """Bound the probability that `fits` accepts a distribution function when another is true, both at `POINTS`."""
    u = np.linspace(0.0, 1.0, 1001)
    moved = np.interp(
        np.interp(u, below, POINTS), POINTS, truth
    )  # the distribution of the uniform numbers under the truth
    ends = [np.interp(np.interp((1 + sign * u) / 2, below, POINTS), POINTS, truth) for sign in (1.0, -1.0)]
    distributions = (moved, ends[0] - ends[1])
    return min(
        chance.miss_of_cdf(
            lambda x: x,
            lambda x, distribution=distribution: np.interp(x, u, distribution),
            DRAWS,
            near=u,
            alarm=chance.ALARM / 2,
        )
        for distribution in distributions
    )


@pytest.mark.entropy
def test_releases_follow_the_density_and_not_that_of_broken_mechanisms() -> None:
    """A false alarm has a probability of 1e-9 at most, and so has each broken mechanism that passes.

    The site computes the release of one query again and again, and its ledger is left out: what charges and records
    is no part of the distribution.
    """
    study = study_of(PRIVATE)
    query, site = hdpf.logit("y ~ 1", data=study).fit(epsilon=1.0, describe=False, se_share=0).query, study.site
    prepared = site._prepare(query, None)
    released = np.array([site._compute(nullcontext, prepared).theta[0] for _ in range(DRAWS)])
    mechanism = perturbed_objective(query)
    right = distribution(mechanism)
    assert fits(right, released)
    for broken in (
        replace(mechanism, rate=2.0 * mechanism.rate),
        replace(mechanism, rate=0.5 * mechanism.rate),
        replace(mechanism, centre=mechanism.centre + 4.0),
        replace(mechanism, weigh=lambda X: np.full(len(X), 3.0)),
    ):
        assert miss(distribution(broken), right) <= chance.ALARM
        assert not fits(distribution(broken), released)


def test_neighbours_cost_what_the_share_for_smoothing_leaves() -> None:
    query = replace(query_of("y ~ x", 0), smoothing_share=Fraction(1, 10))
    left = 0.9 * float(query.epsilon)
    found = worst_neighbours(perturbed_objective(query), tries=1024, polish=8, rounds=60).loss
    assert 0.95 * left < found <= left * (1.0 + 1e-9)


def test_a_query_for_normal_noise_has_another_density() -> None:
    with pytest.raises(hdp.MechanismError, match="normal noise"):
        perturbed_objective(replace(query_of("y ~ x", 0), delta=Fraction(1, 10)))


def test_a_query_that_the_proof_does_not_cover_is_refused() -> None:
    query = query_of("y ~ x", 0)
    tiny = replace(query, model=replace(query.model, loss="squares"), ridge=Fraction(1, 64))
    with pytest.raises(hdp.MechanismError, match="determinant alone"):
        perturbed_objective(tiny, schema=SCHEMA)
    with pytest.raises(hdp.MechanismError, match="schema must be given"):
        perturbed_objective(replace(tiny, ridge=Fraction(64)))

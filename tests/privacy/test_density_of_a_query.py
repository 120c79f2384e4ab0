"""The density that the audit searches is that of the mechanism that a site runs for the same query."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import PerturbedObjective, perturbed_objective
from hdpstats.design import geometry
from hdpstats.mechanisms import objective
from hdpstats.mechanisms.regression import RegressionContrast
from hdpstats.queries import ObjectiveQuery
from tests.support import PUBLIC_ROWS, RECORDS, SCHEMA, people, study_of

ALPHA = 1e-7
"""Probability that right releases contradict the density."""

DRAWS = 600
PRIVATE = people(60)


def query_of(formula: str, public_rows: int, *, share: float = 0.0) -> ObjectiveQuery:
    study = study_of(PRIVATE, people(public_rows, seed=1) if public_rows else None)
    return hdpf.logit(formula, data=study).fit(epsilon=2.0, se_share=share).query


@pytest.mark.parametrize("formula", ["y ~ x + g", "y ~ 0 + x + k", "y ~ 1"])
@pytest.mark.parametrize("public_rows", [0, PUBLIC_ROWS])
@pytest.mark.parametrize(("weight", "share"), [(1.0, 0.0), (2.5, 0.4)])
def test_the_constants_are_those_of_a_site(formula: str, public_rows: int, weight: float, share: float) -> None:
    query = query_of(formula, public_rows, share=share)
    mechanism = perturbed_objective(query, largest_weight=weight)
    contrast = RegressionContrast(model=query.model, largest_weight=weight, largest_offset=3.0)
    constants = objective.calibrate(query, contrast, records=RECORDS)
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


def p_value(mechanism: PerturbedObjective, released: np.ndarray) -> float:
    """Compare released intercepts with the distribution function of the density for ``PRIVATE``.

    Two Kolmogorov-Smirnov tests, of place and of spread: a wrong spread shows twice as large in the folded one.
    """
    points = np.linspace(-8.0, 8.0, 8001)[:, None]
    ones = int(PRIVATE["y"].sum())
    X, y, counts = np.ones((2, 1)), np.array([0.0, 1.0]), np.array([len(PRIVATE) - ones, ones])
    shaped = [np.broadcast_to(part, (len(points), *part.shape)) for part in (X, y, counts)]
    heights = mechanism.log_density(points, *shaped)
    below = np.cumsum(np.exp(heights - heights.max()))
    uniform = np.interp(released, points[:, 0], below / below[-1])
    found = [float(kstest(each, "uniform").pvalue) for each in (uniform, np.abs(2.0 * uniform - 1.0))]
    return min(1.0, 2.0 * min(found))


def test_releases_follow_the_density_and_not_that_of_broken_mechanisms() -> None:
    model = hdpf.logit("y ~ 1", data=study_of(PRIVATE, epsilon=DRAWS))
    results: list[hdp.Result] = [model.fit(epsilon=1.0, replicate=number) for number in range(1, DRAWS + 1)]
    released = np.array([result.release.theta[0] for result in results])
    mechanism = perturbed_objective(results[0].query)
    assert p_value(mechanism, released) > ALPHA
    for broken in (
        replace(mechanism, rate=2.0 * mechanism.rate),
        replace(mechanism, rate=0.5 * mechanism.rate),
        replace(mechanism, centre=mechanism.centre + 4.0),
        replace(mechanism, weigh=lambda X: np.full(len(X), 3.0)),
    ):
        assert p_value(broken, released) < ALPHA


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

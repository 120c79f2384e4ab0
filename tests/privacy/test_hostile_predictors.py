"""However far predictors are, a row contributes no more than its bound to a sum of scores, and what is computed holds.

A score that is not a number would move the gradient that certifies a released point, whatever the row's weight.
"""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats.families.multinomial.bounds import MultinomialPersonLoss
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.families.regression.one_pass import without_covariates
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.minimiser import certified
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation.site import calibrate_objective
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source, whiten
from hdpstats.records.model import MultinomialModel
from hdpstats.solvers import kernels
from hdpstats.solvers.kernels import MOST_STEPS
from hdpstats.solvers.objective import UNIT
from tests.unit.families.hazard.test_bounds import MODELS, people_of
from tests.unit.solvers.test_newton_losses import LOSSES

FAR = [10.0**k for k in (1, 3, 8, 16, 17, 18, 21, 30, 60, 100, 150)]
STRANGE = [math.nan, -math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**52, -(2.0**52), 2.0**63, -(2.0**63)]


@pytest.mark.parametrize("n", [300, 4096, 9000])
def test_nothing_is_rounded_to_more_steps_than_a_score_has(n: int) -> None:
    """By numpy and by the compiled loop: what is not a number, and what is beyond the bound; other rows keep theirs."""
    numbers = np.zeros((n, 1))
    numbers[1:] = np.random.default_rng(n).uniform(-1e9, 1e9, (n - 1, 1))
    rest = int(np.rint(numbers).astype(np.int64).sum())
    for strange in STRANGE:
        numbers[0] = strange
        for kept in (numbers, np.asfortranarray(numbers)):
            with np.errstate(all="ignore"):
                (total,) = kernels.score_sum(kept, np.ones(n), bits=0).tolist()
            assert total - rest == MOST_STEPS
    for ordinary in (2.0**50, -(2.0**50), 0.5, 1.5, -0.5, -(2.0**49) - 1.5, -0.0):
        numbers[0] = ordinary
        for kept in (numbers, np.asfortranarray(numbers)):
            assert kernels.score_sum(kept, np.ones(n), bits=0).tolist() == [rest + int(np.rint(ordinary))]


@pytest.mark.parametrize("n", [300, 4096])
def test_logistic_scores_are_within_their_bound_whatever_a_predictor_is(n: int) -> None:
    """Also where the offset of a row is not a number, as no site's is: in the loops that read rows once, too."""
    y = np.zeros(n)
    for strange in [*STRANGE, *FAR]:
        offset = np.zeros(n)
        offset[0] = strange
        rows = RegressionRows(loss=LogisticLoss(), X=np.ones((n, 1)), y=y, weights=np.ones(n), offset=offset)
        with np.errstate(all="ignore"):
            sums = [each.loss_gradient(np.zeros(1)) for each in (rows, replace(rows, X=np.asfortranarray(rows.X)))]
            read_once = replace(without_covariates(np.ones(n)), y=y, offset=offset, bits=rows.grid_bits)
            sums.append(read_once.loss_gradient(np.zeros(1)))
        for (total,) in sums:
            assert 0 <= total - (n - 1) * 2 ** (rows.grid_bits - 1) <= 2**rows.grid_bits


@pytest.mark.parametrize("name", ["logistic", *LOSSES])
def test_scores_of_one_predictor_are_within_their_bound_however_far_it_is(name: str) -> None:
    loss = LogisticLoss() if name == "logistic" else LOSSES[name]
    outcomes = {"logistic": [0.0, 1.0], "poisson": [0.0, 3.0, 9.0], "exponential": [0.0, -0.0, 1.0, -1.0, 0.3]}
    eta = np.array([sign * size for size in FAR for sign in (-1.0, 1.0)] + [0.0])
    for y in outcomes.get(name, [-0.5, 0.5, 0.1]):
        found = loss.score(eta, np.full(len(eta), y))
        assert np.max(np.abs(found)) <= float(loss.lipschitz) * (1.0 + 2.0**-50), "nor is any not a number"
        curved = loss.curvature(eta, np.full(len(eta), y))
        assert np.min(curved) >= 0.0
        assert np.max(curved) <= float(loss.smoothness) * (1.0 + 2.0**-40)


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_a_person_is_within_its_bound_however_long_coefficients_are(name: str) -> None:
    """As `certified` computes it; beyond the points that Newton's method looks at, too."""
    person_loss, groups = people_of(name)
    D, rng = person_loss.dimension, np.random.default_rng(5)
    for people in (groups[2], groups[-1]):
        for size in FAR:
            theta = size * rng.choice([-1.0, 1.0, 0.3], D)
            with np.errstate(all="raise", under="ignore"):
                found = np.ldexp(people.loss_gradient(theta).astype(np.float64), -people.grid_bits)
            assert np.linalg.norm(found) <= people.count * float(person_loss.euclidean_bound)


SPREAD = 1e9


def tied() -> tuple[MultinomialPersonLoss, ObjectiveQuery]:
    """Return a query whose centre puts two levels' predictors at 10^21, and as near to each other as doubles are."""
    geometry = Geometry(location=(0.0, 0.0), whitening=((1.0, 0.0), (0.0, 1.0)), radius=1.0, leverage=2.0,
                        intercept=True, source=Source.SCHEMA_BOX)  # fmt: skip
    model = MultinomialModel(formula="y ~ x1 + x2", others=2, geometry=geometry)
    query = ObjectiveQuery(
        model=model, centre=(0.0, SPREAD, 0.0, 0.0, SPREAD, 0.0), ridge=Fraction(2**25), epsilon=Fraction(1),
        smoothing_share=Fraction(1, 10), schema_sha256="", public_sha256=None,
    )  # fmt: skip
    return MultinomialPersonLoss(model=model, largest_weight=1.0), query


def with_one_far(geometry: Geometry, n: int) -> MultinomialRows:
    """Return people at the origin and one who is far away and whose weight makes the score no longer than theirs."""
    raw = np.zeros((n, 2))
    raw[0] = 1e12, -1e12
    rows = whiten(geometry, np.column_stack([np.ones(n), raw]))
    return MultinomialRows(others=2, X=np.asfortranarray(rows.X), y=np.zeros(n, dtype=int), weights=rows.weights)


@pytest.mark.parametrize("n", [300, 6000])
def test_a_certified_point_is_as_near_to_the_minimum_as_is_said_where_levels_tie(n: int) -> None:
    """One person moved it by thousands of scores: the smoothing noise is for the distance that is certified."""
    person_loss, query = tied()
    calibration = calibrate_objective(query, person_loss, records=n, relation=Relation.REPLACE_ONE)
    people, ridge, rng = with_one_far(query.model.geometry, n), float(query.ridge), np.random.default_rng(n)
    curvature = ridge + person_loss.curvature(n)
    kinds = [replace(people, X=people.X[i : i + 1], y=people.y[i : i + 1], weights=people.weights[i : i + 1])
             for i in (0, 1)]  # fmt: skip
    for _ in range(20):
        drawn = (
            np.tile(rng.normal(size=3) * calibration.perturbation.size / 8.0, 2)
            + rng.normal(size=6) * UNIT * SPREAD * ridge
        )
        noise = [Fraction(value) for value in drawn.tolist()]
        found = certified(query, people, effort=calibration.effort, perturbation=noise)
        with mpmath.workprec(400):
            theta = [mpmath.mpf(value.numerator) / value.denominator for value in found]
            far, others = (each.exact_loss_gradient(mpmath.mp, theta) for each in kinds)
            slopes = [
                a + (n - 1) * b + ridge * (t - mpmath.mpf(c)) + mpmath.mpf(v.numerator) / v.denominator
                for a, b, t, c, v in zip(far, others, theta, query.centre, noise, strict=True)
            ]
            at_least = float(mpmath.norm(slopes)) / curvature
        assert at_least <= float(calibration.effort.radius)


def test_nobody_s_score_is_off_by_more_than_is_said_where_levels_tie() -> None:
    person_loss, query = tied()
    people, rng = with_one_far(query.model.geometry, 2), np.random.default_rng(1)
    for _ in range(60):
        theta = np.tile(np.array(query.centre[:3]) + rng.uniform(-1e-2, 1e-2, 3), 2)
        theta[0::3] = rng.uniform(-5e4, 5e4, 2)
        rest = np.spacing(theta) * rng.uniform(-0.5, 0.5, 6)
        found = np.ldexp(people.loss_gradient(theta, rest).astype(np.float64), -people.grid_bits)
        with mpmath.workprec(400):
            at = [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(theta.tolist(), rest.tolist(), strict=True)]
            exact = people.exact_loss_gradient(mpmath.mp, at)
            away = float(mpmath.norm([mpmath.mpf(a) - b for a, b in zip(found.tolist(), exact, strict=True)]))
        assert away <= people.sum_error(theta).beside(0.0)
        assert away <= 1.01 * person_loss.rounding(float(np.linalg.norm(theta)), people=2)

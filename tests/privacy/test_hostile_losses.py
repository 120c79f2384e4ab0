"""Losses at their extremes: constants, values and certificates of hostile parameters, tables and outcomes."""

from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.typing import FloatArray
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.formulas.outcome import design_of, response_of
from hdpstats.losses import (
    BoundedSquares,
    ExponentialTimes,
    HuberLoss,
    LogisticLoss,
    PoissonLoss,
    PredictorLoss,
    SmoothedQuantile,
    Tabulated,
)
from hdpstats.schema.table import PrivateTable
from hdpstats.solvers import Penalised, minimise
from hdpstats.solvers.newton import refine
from tests.objectives import linear_objective

HALF = {"lower": -0.5, "upper": 0.5}
STEEP = Tabulated.made((-1.0, 1e-3, 1.0), ((-1.0, -1.0, 1.0, 1.0), (-1.0, 0.5, 0.5, 1.0)), **HALF)
LOSSES: dict[str, PredictorLoss] = {
    "logistic": LogisticLoss(),
    "squares": BoundedSquares(**HALF),
    "huber": HuberLoss(**HALF, c=1e-3),
    "wide huber": HuberLoss(**HALF, c=1e9),
    "quantile": SmoothedQuantile(**HALF, q=0.9, h=1e-3),
    "wide quantile": SmoothedQuantile(**HALF, q=0.5, h=1e3),
    "poisson": PoissonLoss(upper=10.0, cap=10.0),
    "large poisson": PoissonLoss(upper=1.0, cap=1e9),
    "exponential": ExponentialTimes(h=2.0),
    "small exponential": ExponentialTimes(h=0.01),
    "large exponential": ExponentialTimes(h=64.0),
    "own": STEEP,
}


def outcomes(loss: PredictorLoss, n: int, rng: np.random.Generator) -> FloatArray:
    if isinstance(loss, ExponentialTimes):
        return np.where(rng.random(n) < 0.5, -1.0, 1.0) * rng.choice([0.0, 0.3, 1.0], n)
    if isinstance(loss, LogisticLoss | PoissonLoss):
        return rng.integers(0, 2, n).astype(float)
    return rng.choice([-0.5, -0.1, 0.2, 0.5], n)


@pytest.mark.parametrize("name", list(LOSSES))
def test_values_are_integrals_of_scores_however_far_the_predictor(name: str) -> None:
    loss, rng = LOSSES[name], np.random.default_rng(1)
    y = outcomes(loss, 60, rng)
    for start, stop in ((-900.0, -400.0), (-310.0, -290.0), (-3.0, 3.0), (290.0, 310.0), (400.0, 900.0)):
        places = np.linspace(start, stop, 20001)
        wide = np.broadcast_to(places[:, None], (len(places), 8))
        scores = loss.score(wide, y[None, :8])
        area = np.sum(0.5 * (scores[1:] + scores[:-1]) * np.diff(places)[:, None], axis=0)
        change = loss.value(wide[-1], y[:8]) - loss.value(wide[0], y[:8])
        np.testing.assert_allclose(change, area, atol=2e-3 * float(loss.lipschitz), rtol=1e-3)


def test_the_value_of_a_wide_quantile_is_as_exact_as_sampling_takes_it_to_be() -> None:
    loss, rng = SmoothedQuantile(**HALF, q=0.5, h=1e3), np.random.default_rng(2)
    eta, y = rng.uniform(-1, 1, 400), rng.uniform(-0.5, 0.5, 400)
    with mpmath.workprec(200):
        h = mpmath.mpf(loss.h)
        exact = [
            (r + h) ** 2 / (4 * h) - r / 2 for r in (mpmath.mpf(a) - mpmath.mpf(b) for a, b in zip(eta, y, strict=True))
        ]
        errors = np.array([float(abs(mpmath.mpf(v) - e)) for v, e in zip(loss.value(eta, y), exact, strict=True)])
    assert np.all(errors <= 64.0 * 2.0**-53 * (float(loss.lipschitz) * np.abs(eta) + loss.magnitude))


def test_no_persons_hessian_exceeds_its_bound_where_scores_are_large_and_nearly_flat() -> None:
    rng, found = np.random.default_rng(3), 0.0
    for _ in range(40):
        high = 1e9 * rng.uniform(0.5, 0.999)
        low = 0.7 * high
        rising = tuple((high + k * np.spacing(high)).item() for k in range(4))
        other = tuple((-low + k * np.spacing(low)).item() for k in range(4))
        loss = Tabulated.made((0.0, 1.0, 0.0), (rising, other), lower=0.0, upper=1.0)
        grid = float(loss.smoothness) * 2.0**-24
        for eta, y in zip(rng.uniform(0, 3, 40), rng.uniform(0, 1, 40), strict=True):
            one = RegressionRows(
                loss=loss, X=np.ones((1, 1)), y=np.array([y]), weights=np.ones(1), offset=np.array([eta])
            )
            found = max(found, abs(one.stacked_hessian(np.zeros(1), grid=grid)[0]) * grid)
        assert found <= float(loss.smoothness) * (1.0 + 2.0**-20)
        found = 0.0


def problem(loss: PredictorLoss, y: FloatArray, *, columns: int, ridge: float, seed: int) -> Penalised:
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(len(y)), np.clip(rng.normal(size=(len(y), columns - 1)), -3, 3)])
    return linear_objective(
        loss=loss,
        X=X,
        y=y,
        weights=np.ones(len(y)),
        offset=np.zeros(len(y)),
        ridge=np.full(columns, ridge),
        centre=np.zeros(columns),
        linear=5.0 * rng.laplace(size=columns),
    )


@pytest.mark.covering(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["squares", "huber", "quantile", "poisson", "exponential", "own"])
def test_kinks_send_no_iteration_round_in_circles(name: str, seed: int) -> None:
    loss = LOSSES[name]
    y = outcomes(loss, 60, np.random.default_rng(100 + seed))
    for ridge in (1e-3, 1e-2):
        objective = problem(loss, y, columns=10, ridge=ridge, seed=seed)
        solution = minimise(objective, start=np.zeros(10))
        assert solution.gradient_norm <= 4.0 * objective.gradient_error(solution.theta)


@pytest.mark.parametrize("start", [0.0, pytest.param(50.0, marks=pytest.mark.wide)])
def test_a_search_that_goes_on_in_higher_precision_ends_from_anywhere(start: float) -> None:
    loss = SmoothedQuantile(**HALF, q=0.3, h=1e-2)
    y = outcomes(loss, 25, np.random.default_rng(5))
    objective = problem(loss, y, columns=6, ridge=1e-4, seed=7)
    radius = Fraction(minimise(objective, start=np.zeros(6)).radius) / 2**30
    assert refine(objective, start=np.full(6, start), radius=radius).radius <= radius


@pytest.mark.parametrize("far", [1.0, 1e9])
def test_the_certificate_in_higher_precision_counts_where_a_table_begins(far: float) -> None:
    """A far outcome cancels against a far start: places err in proportion to them, whatever the predictor is."""
    row = tuple(np.linspace(-1.0, 1.0, 401).tolist())
    loss = Tabulated.made((-far, 1e-3, 1.0), (row, row), lower=0.0, upper=far)
    objective = linear_objective(
        loss=loss,
        X=np.array([[1.0], [0.7]]),
        y=np.full(2, far),
        weights=np.ones(2),
        offset=np.zeros(2),
        ridge=np.ones(1),
        centre=np.zeros(1),
        linear=np.zeros(1),
    )
    for bits in (106, 212):
        with mpmath.workprec(bits):
            theta = [mpmath.mpf("0.3")]
            rough = objective.rows.exact_loss_gradient(mpmath.mp, theta)[0]
        with mpmath.workprec(600):
            exact = objective.rows.exact_loss_gradient(mpmath.mp, theta)[0]
            assert abs(rough - exact) <= mpmath.mpf(2) ** (4 - bits) * objective.rows.exact_sizes(0.3)


def test_an_outcome_at_its_bound_is_scaled_to_its_range_and_no_last_bit_beyond() -> None:
    rng, beyond = np.random.default_rng(9), 0
    for low, high in rng.uniform(-9.0, 9.0, (400, 2)):
        if not low < high:
            continue
        schema = hdp.Schema(
            y=hdp.Continuous(float(low), float(high), complete=True), x=hdp.Continuous(0, 1, complete=True)
        )
        response = response_of(design_of("y ~ x", "squares", schema), "squares", schema)
        table = PrivateTable.from_frame(pd.DataFrame({"y": [low, high], "x": [0.0, 1.0]}), schema).admit(["y", "x"])
        y = response.of(table)
        assert response.lower <= y.min() <= y.max() <= response.upper
        beyond += bool(np.any(np.abs(response.unclipped(table)) > 0.5))
    assert beyond, "no bounds were found whose scaling rounds outwards: the test tests nothing"

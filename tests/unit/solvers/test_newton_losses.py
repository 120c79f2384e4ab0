"""Certificates of the solver for losses that are no likelihoods: bounds in exact arithmetic, and the last resort."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import (
    BoundedSquares,
    ExponentialTimes,
    HuberLoss,
    PoissonLoss,
    PredictorLoss,
    SmoothedQuantile,
    Tabulated,
)
from hdpstats.losses.located import LEAST_WIDTH
from hdpstats.solvers import Penalised, minimise
from hdpstats.solvers.newton import refine
from tests.objectives import linear_objective

ROW = tuple(np.tanh(np.linspace(-2.0, 2.0, 41)).tolist())
LOSSES: dict[str, PredictorLoss] = {
    "squares": BoundedSquares(lower=-0.5, upper=0.5),
    "huber": HuberLoss(lower=-0.5, upper=0.5, c=0.1),
    "median": SmoothedQuantile(lower=-0.5, upper=0.5, q=0.5, h=0.02),
    "0.9-quantile": SmoothedQuantile(lower=-0.5, upper=0.5, q=0.9, h=0.004),
    "poisson": PoissonLoss(upper=9.0, cap=9.0),
    "exponential": ExponentialTimes(h=2.0),
    "own": Tabulated.made((-2.0, 0.1, 1.0), (ROW, ROW), lower=-0.5, upper=0.5),
}


def problem(name: str, *, rows: int, ridge: float, noise: float, seed: int = 0) -> Penalised:
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 3))])
    eta = X @ np.array([0.05, 0.1, -0.05, 0.02])
    y = (eta + 0.1 * rng.normal(size=rows)).clip(-0.5, 0.5)
    if name == "poisson":
        y = rng.poisson(np.exp(eta)).clip(0, 9).astype(float)
    if name == "exponential":
        y = rng.uniform(0.0, 1.0, rows) * rng.choice([-1.0, 1.0], rows)
    return linear_objective(
        loss=LOSSES[name],
        X=X,
        y=y,
        weights=rng.uniform(0.1, 1.0, rows),
        offset=0.02 * rng.normal(size=rows),
        ridge=np.full(4, ridge),
        centre=0.1 * rng.normal(size=4),
        linear=noise * rng.normal(size=4),
    )


def exactly(task: Penalised, theta: np.ndarray) -> list[mpmath.mpf]:
    sums = task.rows.exact_loss_gradient(mpmath.mp, [mpmath.mpf(value) for value in theta.tolist()])
    parts = zip(sums, task.ridge.tolist(), theta.tolist(), task.centre.tolist(), task.linear.tolist(), strict=True)
    return [s + mpmath.mpf(r) * (mpmath.mpf(t) - mpmath.mpf(c)) + mpmath.mpf(b) for s, r, t, c, b in parts]


@pytest.mark.parametrize("name", list(LOSSES))
def test_the_float_gradient_errs_by_no_more_than_its_bound(name: str) -> None:
    task, rng = problem(name, rows=120, ridge=2.0, noise=3.0), np.random.default_rng(1)
    for size in (0.0, 0.1, 1.0, 100.0):
        theta = size * rng.normal(size=4)
        with mpmath.workprec(200):
            pairs = zip(task.gradient(theta).tolist(), exactly(task, theta), strict=True)
            away = mpmath.sqrt(sum(((mpmath.mpf(g) - e) ** 2 for g, e in pairs), mpmath.mpf(0)))
            assert float(away) <= task.gradient_error(theta)


@pytest.mark.covering(1)
@pytest.mark.parametrize("noise", [0.0, 5.0, 500.0])
@pytest.mark.parametrize("name", list(LOSSES))
def test_floats_reach_a_tiny_certified_radius(name: str, noise: float) -> None:
    for seed in range(5):
        task = problem(name, rows=2000, ridge=3.0, noise=noise, seed=seed)
        solution = minimise(task, start=task.centre)
        assert solution.radius < 1e-8 * (1.0 + float(np.linalg.norm(solution.theta)))


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("name", list(LOSSES))
def test_the_last_resort_converges_and_agrees(name: str) -> None:
    task = problem(name, rows=60, ridge=1.0, noise=2.0)
    wanted = Fraction(1, 10**22)
    refined = refine(task, start=np.zeros(4), radius=wanted)
    assert refined.radius <= wanted
    solution = minimise(task, start=task.centre)
    away = np.linalg.norm([float(a) - b for a, b in zip(refined.theta, solution.theta.tolist(), strict=True)])
    assert away <= solution.radius
    with mpmath.workprec(300):
        theta = [mpmath.mpf(value.numerator) / value.denominator for value in refined.theta]
        sums = task.rows.exact_loss_gradient(mpmath.mp, theta)
        parts = zip(sums, task.ridge.tolist(), theta, task.centre.tolist(), task.linear.tolist(), strict=True)
        left = [s + mpmath.mpf(r) * (t - mpmath.mpf(c)) + mpmath.mpf(b) for s, r, t, c, b in parts]
        assert float(mpmath.sqrt(sum((each**2 for each in left), mpmath.mpf(0)))) <= 1.1e-22


def test_the_last_resort_finds_the_narrowest_window_from_afar(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 288 gradients; of a window ten thousand times as narrow, which is refused, 839."""
    monkeypatch.setitem(LOSSES, "narrow", SmoothedQuantile(lower=-0.5, upper=0.5, q=0.5, h=LEAST_WIDTH))
    task, asked = problem("narrow", rows=60, ridge=1.0, noise=2.0), []
    exact = RegressionRows.exact_loss_gradient
    monkeypatch.setattr(RegressionRows, "exact_loss_gradient", lambda *given: asked.append(1) or exact(*given))
    refined = refine(task, start=np.zeros(4), radius=Fraction(1, 10**22))
    assert refined.radius <= Fraction(1, 10**22)
    assert len(asked) < 700

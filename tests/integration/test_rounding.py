"""Errors of predictors and of gradients, searched on hostile rows in exact arithmetic, and with wrong constants."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats._base.typing import FloatArray
from hdpstats.families.multinomial import rows as several_predictors
from hdpstats.families.multinomial.rows import several_error
from hdpstats.families.regression import rows as module
from hdpstats.families.regression.bounds import RegressionPersonLoss
from hdpstats.families.regression.rows import row_error
from hdpstats.losses import LogisticLoss
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import RegressionModel
from hdpstats.solvers import Penalised, kernels
from hdpstats.solvers.kernels import coefficient_parts, compensated, predictor_error
from hdpstats.solvers.objective import UNIT, RowBounds, integer_bits
from tests.objectives import changed, linear_objective, multinomial_objective
from tests.unit.solvers.test_newton_losses import LOSSES

SEEDS = range(12)


def cancelling(D: int, rows: int, *, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return rows (n, D), coefficients, their rest and offsets, such that predictors are small or not at all.

    Coefficients have sizes from 1 to 10^6 and both signs, numbers of rows too; the last number of a row is what takes
    away its predictor, some to its last bits.
    """
    rng = np.random.default_rng(seed)
    theta = rng.choice([-1.0, 1.0], D) * 10.0 ** rng.uniform(0.0, 6.0, D)
    theta[-1] = rng.uniform(0.5, 1.0) * np.max(np.abs(theta))
    rest = theta * rng.uniform(-1.0, 1.0, D) * UNIT
    X = (
        rng.choice([-1.0, 1.0], (rows, D))
        * rng.uniform(0.5, 1.0, (rows, D))
        * 10.0 ** rng.uniform(-3.0, 0.0, (rows, D))
    )
    offset = rng.choice([0.0, 1.0, 700.0, -1e5], rows) * rng.uniform(0.5, 1.0, rows)
    wanted = rng.choice([0.0, 1e-9, 1.0, -1.0, 3.0, 40.0], rows)
    X[:, -1] = (wanted - offset - X[:, :-1] @ theta[:-1]) / theta[-1]
    return X, theta, rest, offset


def tiny(D: int, rows: int, *, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return rows some of whose products, numbers and coefficients are below the least normal double."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, D)) * 10.0 ** rng.uniform(-320.0, -150.0, (rows, D))
    theta = rng.standard_normal(D) * 10.0 ** rng.uniform(-320.0, 50.0, D)
    return X, theta, np.zeros(D), np.where(rng.random(rows) < 0.5, 0.0, rng.standard_normal(rows) * 1e-300)


def exactly(X: FloatArray, theta: FloatArray, rest: FloatArray, offset: FloatArray) -> list[Fraction]:
    """Return predictors as exact numbers."""
    coefficients = [Fraction(a) + Fraction(b) for a, b in zip(theta.tolist(), rest.tolist(), strict=True)]
    return [
        Fraction(o) + sum((Fraction(a) * b for a, b in zip(x, coefficients, strict=True)), Fraction(0))
        for x, o in zip(X.tolist(), offset.tolist(), strict=True)
    ]


def excess(found: FloatArray, X: FloatArray, theta: FloatArray, rest: FloatArray, offset: FloatArray) -> float:
    """Return the largest error of predictors less the last rounding, over its bound."""
    T = np.abs(offset) + np.abs(X) @ np.abs(theta)
    bounds = predictor_error(len(theta), T)
    worst = Fraction(0)
    for each, exact, bound in zip(found.tolist(), exactly(X, theta, rest, offset), bounds.tolist(), strict=True):
        beyond = abs(Fraction(each) - exact) - abs(exact) * Fraction(UNIT)
        worst = max(worst, beyond / (Fraction(bound) * (1 + Fraction(UNIT))))
    return float(worst)


@pytest.mark.parametrize("D", [1, 2, 5, 21])
@pytest.mark.parametrize("make", [cancelling, tiny])
def test_predictors_err_by_no_more_than_their_bound(make, D: int) -> None:
    largest = 0.0
    for seed in SEEDS:
        given = make(D, 30, seed=seed)
        X, theta, rest, offset = given
        found = compensated(X, coefficient_parts(theta, rest), offset)
        kept, places = np.asfortranarray(np.resize(X, (600, D))), np.resize(offset, 600)
        many = compensated(kept, coefficient_parts(theta, rest), places)
        np.testing.assert_array_equal(many[:30], found)
        largest = max(largest, excess(found, *given))
    assert largest <= 1.0
    assert largest > 0.005 or make is tiny


@pytest.mark.parametrize("wrong", ["plain", "no rest", "no second sum", "no tail"])
def test_the_bound_of_predictors_notices_what_is_left_out(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, theta, rest, offset = cancelling(5, 30, seed=1)
    parts = coefficient_parts(theta, rest)
    if wrong == "plain":
        found = kernels.row_products(X, theta) + offset
    elif wrong == "no rest":
        found = compensated(X, coefficient_parts(theta), offset)
    elif wrong == "no tail":
        found = compensated(X, parts * np.array([[1.0], [1.0], [0.0]]), offset)
    else:
        found = kernels.compensated_pairs(X, parts, offset)[0]
    assert excess(found, X, theta, rest, offset) > 100.0


def linear(name: str, *, seed: int, rows: int = 40, D: int = 4) -> tuple[Penalised, FloatArray, FloatArray]:
    """Return a problem without ridge and perturbation on hostile rows, with coefficients and their rest."""
    X, theta, rest, offset = cancelling(D, rows, seed=seed)
    rng = np.random.default_rng(seed)
    loss = LogisticLoss() if name == "logistic" else LOSSES[name]
    y = rng.choice([0.0, 1.0] if name == "logistic" else [-0.5, 0.5, 0.1], rows)
    if name == "poisson":
        y = rng.choice([0.0, 3.0, 9.0], rows)
    if name == "exponential":
        y = rng.choice([0.0, -0.0, 1.0, -1.0, 0.3], rows)
    zero = np.zeros(D)
    task = linear_objective(
        loss=loss, X=X, y=y, weights=10.0 ** rng.uniform(-3.0, 0.0, rows), offset=offset,
        ridge=zero, centre=zero, linear=zero,
    )  # fmt: skip
    return task, theta, rest


def off(task: Penalised, theta: FloatArray, rest: FloatArray | None) -> float:
    """Return the distance of the computed gradient of a sum of losses from the exact one."""
    with mpmath.workprec(400):
        none = np.zeros_like(theta) if rest is None else rest
        coefficients = [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(theta.tolist(), none.tolist(), strict=True)]
        exact = task.rows.exact_loss_gradient(mpmath.mp, coefficients)
        found = task.gradient(theta, rest).tolist()
        return float(mpmath.norm([mpmath.mpf(a) - b for a, b in zip(found, exact, strict=True)]))


@pytest.mark.parametrize("name", ["logistic", *LOSSES])
def test_gradients_on_hostile_rows_err_by_no_more_than_their_bound(name: str) -> None:
    """Coefficients of 10^6, predictors of size 1 that they leave: the bound no longer knows the first of these."""
    largest = 0.0
    for seed in SEEDS:
        task, theta, rest = linear(name, seed=seed)
        found, bound = off(task, theta, rest), task.gradient_error(theta)
        assert found <= bound
        largest = max(largest, found / bound)
        lengths = task.rows.weights @ np.linalg.norm(task.rows.X, axis=1)
        units = task.rows.loss.scaled_curvature + (task.rows.loss.ulps + 24.0) * float(task.rows.loss.lipschitz)
        assert bound <= 2.0 * units * UNIT * lengths + math.ldexp(len(task.rows.y), -task.rows.grid_bits)
    assert largest > 0.005


@pytest.mark.parametrize("wrong", ["plain predictors", "no rest"])
def test_gradients_without_compensation_break_the_bound(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task, theta, rest = linear("logistic", seed=3)

    def plain(X: FloatArray, parts: FloatArray, offset: FloatArray, rows: slice = kernels.ALL) -> FloatArray:
        return kernels.row_products(X, parts[0], rows) + offset[rows]

    if wrong == "plain predictors":
        monkeypatch.setattr(kernels, "compensated", plain)
        monkeypatch.setattr(kernels, "loaded", lambda _loop: False)  # a loop computes predictors and scores at once
    else:
        monkeypatch.setattr(module, "coefficient_parts", lambda theta, rest: coefficient_parts(theta))
    assert off(task, theta, rest) > task.gradient_error(theta)


def test_a_coarser_grid_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What 64 bits in all would leave of a score where there are 2^27 rows, under the bound for 50 bits."""
    task, theta = linear("logistic", seed=0)[0], np.zeros(4)
    bound = task.gradient_error(theta)
    monkeypatch.setattr(module, "score_bits", lambda summand: integer_bits(2**27, summand))
    assert off(changed(task), theta, None) > bound


def largest_predictors(others: int, rows: int, *, seed: int) -> tuple[Penalised, FloatArray, FloatArray]:
    """Return rows whose predictors of several levels are of size 10^8 and nearly equal."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0.5, 1.0, rows), rng.standard_normal((rows, 2))])
    common = np.array([rng.choice([-1.0, 1.0]) * 1e8, 3e7, -2e7]) * rng.uniform(0.5, 1.0, 3)
    theta = np.concatenate([common + rng.standard_normal(3) for _ in range(others)])
    zero = np.zeros(3 * others)
    task = multinomial_objective(
        others=others, X=X, y=rng.integers(0, others + 1, rows), weights=10.0 ** rng.uniform(-3.0, 0.0, rows),
        ridge=zero, centre=zero, linear=zero,
    )  # fmt: skip
    return task, theta, theta * rng.uniform(-1.0, 1.0, 3 * others) * UNIT


@pytest.mark.parametrize("others", [1, 2, 5])
def test_gradients_of_several_predictors_err_by_no_more_than_their_bound(others: int) -> None:
    largest = 0.0
    for seed in SEEDS:
        task, theta, rest = largest_predictors(others, 30, seed=seed)
        found, bound = off(task, theta, rest), task.gradient_error(theta)
        assert found <= bound
        largest = max(largest, found / bound)
        lengths = float(task.rows.weights @ np.linalg.norm(task.rows.X, axis=1))
        assert bound <= 100.0 * UNIT * lengths + math.ldexp(30.0 * math.sqrt(len(theta)), -task.rows.grid_bits)
    assert largest > 0.005


def test_differences_of_rounded_predictors_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each predictor compensated and rounded once, as for one predictor: differences lose what they are about."""
    task, theta, rest = largest_predictors(2, 30, seed=1)
    pairs = several_predictors.residuals_of_pairs
    monkeypatch.setattr(
        several_predictors, "residuals_of_pairs", lambda own, left, y: pairs(own + left, np.zeros_like(left), y)
    )
    assert off(task, theta, rest) > task.gradient_error(theta)


def test_the_public_bound_is_that_of_the_largest_rows() -> None:
    """`RegressionPersonLoss.rounding` bounds `gradient_error` of rows at the bounds of the geometry."""
    rng = np.random.default_rng(4)
    geometry = Geometry(location=(0.0,) * 3, whitening=tuple(map(tuple, np.eye(3).tolist())), radius=2.0, leverage=5.0,
                        intercept=True, source=Source.SCHEMA_BOX)  # fmt: skip
    model = RegressionModel(formula="y ~ a + b + c", loss="logistic", geometry=geometry, weights=None, offset=None)
    person_loss = RegressionPersonLoss(model=model, design=None, largest_weight=1.0, largest_offset=0.5)
    z = rng.standard_normal((500, 3))
    z *= 2.0 / np.linalg.norm(z, axis=1, keepdims=True)
    X = np.column_stack([np.ones(500), z])
    zero = np.zeros(4)
    task = linear_objective(
        loss=LogisticLoss(), X=X, y=rng.integers(0, 2, 500).astype(float), weights=np.ones(500),
        offset=np.full(500, 0.5), bounds=RowBounds(summand=math.sqrt(5.0), root=1.2),
        ridge=zero, centre=zero, linear=zero,
    )  # fmt: skip
    for size in (1.0, 1e3, 1e9, 1e14):
        theta = np.array([size, 0.0, 0.0, 0.0])
        own, public = task.gradient_error(theta), person_loss.rounding(size, people=500)
        assert own <= public * (1.0 + 2.0**-10) <= 1.1 * own


def test_the_length_of_coefficients_enters_at_the_square_of_the_unit_only() -> None:
    for of_size in (
        lambda size: row_error(LogisticLoss(), 20, sizes=size),
        lambda size: several_error(4, 20, sizes=size),
    ):
        assert of_size(1e5) <= 1.05 * of_size(0.0)
        assert of_size(1e9) >= 2.0 * of_size(0.0), "it is not nothing"

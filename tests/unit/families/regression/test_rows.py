"""The gradient in exact integers: its error bound, its independence of the order of rows, its range."""

import math

import mpmath
import numpy as np
import pytest

from hdpstats._base.typing import FloatArray
from hdpstats.families.regression import rows as module
from hdpstats.losses import LogisticLoss
from hdpstats.solvers import Penalised
from hdpstats.solvers.kernels import PIECE
from hdpstats.solvers.objective import integer_bits, score_bits
from tests.objectives import changed, value_of
from tests.unit.solvers.problems import exact_gradient, make, problems

PROBLEMS = problems()
CASES = [(name, size) for name in PROBLEMS for size in (0.0, 1e-8, 1.0, 30.0, 1e4)]


def gradient_distance(objective: Penalised, theta: FloatArray) -> float:
    """Return the distance of the computed gradient from the exact one."""
    exact = exact_gradient(objective, [mpmath.mpf(value) for value in theta.tolist()])
    with mpmath.workprec(400):
        computed = objective.gradient(theta).tolist()
        return float(mpmath.norm([mpmath.mpf(a) - b for a, b in zip(computed, exact, strict=True)]))


@pytest.mark.covering(1)
@pytest.mark.parametrize(("name", "size"), CASES)
def test_the_error_bound_holds(name: str, size: float) -> None:
    objective, rng = PROBLEMS[name], np.random.default_rng(7)
    theta = size * rng.standard_normal(len(objective.ridge))
    assert gradient_distance(objective, theta) <= objective.gradient_error(theta)


def test_the_error_bound_is_not_absurd() -> None:
    for name, objective in PROBLEMS.items():
        theta = np.ones(len(objective.ridge))
        scale = float(np.sum(objective.rows.weights * np.linalg.norm(objective.rows.X, axis=1)))
        scale += float(np.linalg.norm(objective.ridge * (1.0 + np.abs(objective.centre))))
        scale += float(np.linalg.norm(objective.linear))
        reach = float(
            np.max(np.linalg.norm(objective.rows.X, axis=1) * 3.0 + np.abs(objective.rows.offset), initial=1.0)
        )
        assert objective.gradient_error(theta) <= 1e-13 * scale * reach + 1e-16, name


def test_cancellation_comes_within_a_small_factor_of_the_bound() -> None:
    # A large offset that the predictor takes away again: the error that the bound is about.
    rng = np.random.default_rng(13)
    largest = 0.0
    for offset in rng.uniform(1e7, 1e9, 60).tolist():
        x = float(rng.uniform(0.5, 1.0))
        objective = make([[x]], [1.0], ridge=1e-3, offset=[offset])
        theta = np.array([-offset / x])
        found, bound = gradient_distance(objective, theta), objective.gradient_error(theta)
        assert found <= bound
        largest = max(largest, found / bound)
    assert largest > 0.02


def test_a_gradient_in_single_precision_breaks_the_bound() -> None:
    objective = PROBLEMS["ordinary"]
    coarse = changed(objective, X=objective.rows.X.astype(np.float32).astype(float))
    theta = np.ones(4)
    assert np.linalg.norm(coarse.gradient(theta) - objective.gradient(theta)) > objective.gradient_error(theta)


def big(n: int) -> Penalised:
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 4)) * [1.0, 30.0, 1e-3, 5.0]])
    return make(
        X,
        rng.integers(0, 2, n),
        ridge=1.0,
        weights=rng.uniform(0.0, 3.0, n),
        offset=rng.uniform(-2.0, 2.0, n),
    )


def reordered(objective: Penalised, order: np.ndarray) -> Penalised:
    columns = {name: getattr(objective.rows, name)[order] for name in ("X", "y", "weights", "offset")}
    return changed(objective, **columns)


@pytest.mark.parametrize("n", [17, 1000, 3 * PIECE + 5])
def test_the_order_of_rows_changes_no_bit_of_the_sum(n: int) -> None:
    objective, rng = big(n), np.random.default_rng(9)
    theta = np.array([0.1, 2.0, -0.3, 7.0, 0.5])
    for order in (np.arange(n)[::-1], rng.permutation(n), np.roll(np.arange(n), 1)):
        shuffled = reordered(objective, order)
        assert shuffled.rows.grid_bits == objective.rows.grid_bits
        assert np.array_equal(shuffled.gradient(theta), objective.gradient(theta))


def test_a_float_sum_would_depend_on_the_order() -> None:
    objective, order = big(1000), np.random.default_rng(9).permutation(1000)
    theta = np.array([0.1, 2.0, -0.3, 7.0, 0.5])
    score = objective.rows.weights * objective.rows.loss.score(objective.rows.predictor(theta), objective.rows.y)
    terms = objective.rows.X * score[:, None]
    assert not np.array_equal(np.add.accumulate(terms)[-1], np.add.accumulate(terms[order])[-1])


@pytest.mark.parametrize("rows", [0, 1, 3, 10**3, 10**7, 2**38])
@pytest.mark.parametrize("summand", [0.0, 1e-300, 1.0, 1.5, 2.0**20, 1e15, 1e200])
def test_integers_cannot_overflow(rows: int, summand: float) -> None:
    bits = integer_bits(rows, summand)
    largest = mpmath.mpf(summand) * mpmath.mpf(2) ** bits + 0.5
    assert rows * largest < mpmath.mpf(2) ** 62
    assert largest < mpmath.mpf(2) ** 51
    # No coarser than needed: four times as fine would overflow, or be too fine for one of them.
    assert max(rows, 2048) * max(mpmath.mpf(summand), 1) * mpmath.mpf(2) ** (bits + 2) > mpmath.mpf(2) ** 61


@pytest.mark.parametrize("summand", [0.0, 1e-300, 2.0**-100, 1e-5, 1.0, 1.5, 2.0**20, 1e15, 1e200])
def test_a_score_keeps_fifty_bits(summand: float) -> None:
    bits = score_bits(summand)
    largest = mpmath.mpf(max(summand, 2.0**-100)) * mpmath.mpf(2) ** bits
    assert mpmath.mpf(2) ** 49 < largest <= mpmath.mpf(2) ** 50


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e9, 1e15, 1e30])
def test_the_largest_summands_add_up(size: float) -> None:
    # Every row contributes its bound: all scores are 1, all signs agree.
    n = 16 * PIECE + 77
    objective = make(np.full((n, 1), size), np.zeros(n), ridge=1.0, weights=np.full(n, 5.0), offset=np.full(n, 800.0))
    total = float(objective.gradient(np.zeros(1))[0])
    assert total == pytest.approx(5.0 * size * n, rel=1e-12)


@pytest.mark.parametrize("finer", [2, 13])
def test_too_fine_a_grid_would_overflow(monkeypatch: pytest.MonkeyPatch, finer: int) -> None:
    """52 bits for 50: sums of `SUMMED` rows overflow. 63 bits: so does a single score."""
    monkeypatch.setattr(module, "score_bits", lambda summand: score_bits(summand) + finer)
    n = 16 * PIECE
    objective = make(np.ones((n, 1)), np.zeros(n), weights=np.ones(n), offset=np.full(n, 800.0))
    assert float(objective.gradient(np.zeros(1))[0]) != pytest.approx(n, rel=0.5)


def test_value_gradient_and_hessian_belong_together() -> None:
    for name in ("ordinary", "fractional outcomes", "weights of zero", "no rows"):
        objective, step = PROBLEMS[name], 1e-5
        D = len(objective.ridge)
        theta = np.linspace(-0.5, 0.5, D)
        for j, e in enumerate(np.eye(D) * step):
            slope = (value_of(objective, theta + e) - value_of(objective, theta - e)) / (2.0 * step)
            slope_of_score = (objective.gradient(theta + e) - objective.gradient(theta - e)) / (2.0 * step)
            assert objective.gradient(theta)[j] == pytest.approx(slope, rel=1e-6, abs=1e-6)
            assert objective.hessian(theta)[j] == pytest.approx(slope_of_score, rel=1e-6, abs=1e-6)


def test_the_loss_is_used_as_given() -> None:
    assert isinstance(PROBLEMS["ordinary"].rows.loss, LogisticLoss)
    assert math.isfinite(value_of(PROBLEMS["ordinary"], np.zeros(4)))

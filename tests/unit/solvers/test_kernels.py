"""Passes over rows: exact sums that are the same bits however rows are kept, ordered, cut up and shared by threads."""

import math
from collections.abc import Iterator
from typing import final

import numba
import numpy as np
import pytest

from hdpstats._base.compiled import Loops, loaded
from hdpstats.families.parted import PartedRows
from hdpstats.losses import BY_NAME, LogisticLoss, logistic
from hdpstats.losses.logistic import logistic_residual
from hdpstats.mechanisms import loading
from hdpstats.schema.partitions import InMemory
from hdpstats.sites.site import MOST_PEOPLE
from hdpstats.solvers import Penalised, kernels
from hdpstats.solvers.objective import ROUGH, RowBounds
from tests.objectives import changed, linear_objective


@pytest.fixture(params=[(0, 3), (1, 1), (257, 4), (513, 1), (4096 + 3, 3)])
def problem(request):
    rng = np.random.default_rng(3)
    n, D = request.param
    scale = 10.0 ** rng.uniform(-8, 4, size=(n, D))
    return rng.standard_normal((n, D)) * scale, rng.standard_normal(n), rng.standard_normal(D)


def test_rows_and_columns_agree_bit_for_bit(problem):
    X, residual, theta = problem
    kept = np.asfortranarray(X)
    np.testing.assert_array_equal(kernels.row_products(X, theta), kernels.row_products(kept, theta))
    parts = kernels.coefficient_parts(theta, theta * 2.0**-55)
    pairs = [kernels.compensated_pairs(each, parts, residual) for each in (X, kept)]
    for found in zip(*pairs, strict=True):
        np.testing.assert_array_equal(*found)
    for bits in (0, 30):
        whole = kernels.grid_sum(X, residual, bits=bits)
        np.testing.assert_array_equal(whole, kernels.grid_sum(kept, residual, bits=bits))
        np.testing.assert_array_equal(
            kernels.curvature_sum(X, np.abs(residual) * 1e-8, bits=bits // 3),
            kernels.curvature_sum(kept, np.abs(residual) * 1e-8, bits=bits // 3),
        )


def test_sums_are_exact(problem):
    X, residual, _ = problem
    exact = [sum(int(v) for v in np.rint(column * residual * 2.0**30)) for column in X.T]
    assert kernels.grid_sum(np.asfortranarray(X), residual, bits=30).tolist() == exact


@pytest.mark.parametrize("D", [1, 3, 4, 9])
@pytest.mark.parametrize("n", [512, 513, 4096 + kernels.BLOCK - 1])
def test_logistic_scores_in_one_pass_are_those_of_three(n: int, D: int) -> None:
    rng = np.random.default_rng(n + D)
    X = rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-8, 2, size=(n, D))
    X[: 4 * D] = np.resize([0.0, -0.0, 1e50, -1e50], (4 * D, D))
    y, offset, theta = rng.integers(0, 2, n).astype(float), rng.standard_normal(n), rng.standard_normal(D)
    parts = kernels.coefficient_parts(theta, theta * rng.uniform(-(2.0**-53), 2.0**-53, D))
    weights = rng.uniform(0, 1, n) / np.maximum(1.0, np.abs(X).max(axis=1))
    for rows in (slice(None), slice(5, n - 200), slice(3, 4), slice(7, 7)):
        three = kernels.logistic_sum(X, y, weights, offset, parts, rows, bits=40)
        one = kernels.logistic_sum(np.asfortranarray(X), y, weights, offset, parts, rows, bits=40)
        np.testing.assert_array_equal(one, three)
        residual = weights * logistic_residual(kernels.compensated(X, parts, offset), y)
        assert one.tolist() == [sum(int(v) for v in np.rint((c * (residual * 2.0**40))[rows])) for c in X.T]


@pytest.mark.parametrize("D", [1, 4])
@pytest.mark.parametrize("n", [3, 4096 + kernels.BLOCK + 1])
def test_sums_of_squares_are_those_of_rounded_entries(n: int, D: int) -> None:
    rng = np.random.default_rng(n + D)
    X, numbers = rng.standard_normal((n, D)), rng.uniform(0.0, 2.0**20, (2, n))
    X[0], numbers[0, :3] = 1.0, (0.5, 1.5, 2.5)  # halves go to even neighbours
    i, j = np.triu_indices(D)
    for rows in (slice(None), slice(2, n), slice(1, 1)):
        scaled = numbers[:, rows], numbers[:, rows] * math.sqrt(2.0)
        pairs = (X[:, i] * X[:, j])[rows]
        wanted = [
            [int(v) for v in np.rint(pairs * np.where(i == j, one[:, None], two[:, None])).sum(axis=0)]
            for one, two in zip(*scaled, strict=True)
        ]
        for kept in (X, np.asfortranarray(X)):
            assert kernels.square_sums(kept, *scaled, rows).tolist() == wanted


def test_a_summand_of_the_largest_size_is_exact():
    X = np.full((600, 1), 2.0**50 - 1.0, order="F")
    X[::2] *= -1.0
    X[-1] = 2.0**50 - 3.0
    assert kernels.grid_sum(X, np.ones(600), bits=0).tolist() == [-2]


def test_halves_go_to_even_neighbours():
    X = np.asfortranarray(np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, 0.75] * 100)[:, None])
    single = [int(kernels.grid_sum(np.full((600, 1), value), np.ones(600), bits=0)[0]) for value in X[:8, 0]]
    assert single == [0, 1200, 1200, 0, -1200, -1200, 0, 600]
    assert kernels.grid_sum(X, np.ones(800), bits=0).tolist() == [100]


def objective_of(n: int, D: int, *, loss: str = "logistic", kept: str = "F", rows: int = 0) -> Penalised:
    """Return a private problem: rows of many sizes, with weights that bound them."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    weights = 1.0 / np.maximum(1.0, (X * X).sum(axis=1))
    return linear_objective(
        loss=LogisticLoss() if loss == "logistic" else BY_NAME[loss].made((0.1,), (), lower=0.0, upper=1.0),
        X=np.array(X, order=kept),
        y=rng.integers(0, 2, n).astype(float),
        weights=weights,
        offset=rng.uniform(-1, 1, n),
        ridge=np.full(D, 2.0),
        centre=np.zeros(D),
        linear=rng.standard_normal(D),
        bounds=RowBounds(summand=1.0, root=1.0, rows=rows),
    )


THETA = np.array([0.3, -1.0, 2.0, 0.1])
REST = THETA * np.array([0.9, 0.4, -1.0, 0.7]) * 2.0**-53


def sums(objective: Penalised) -> tuple[list[int], list[list[int]]]:
    """Return what steps and certificates of a minimisation are made of."""
    whole = objective.rows.loss_hessian(THETA, rows=len(objective.rows.y))
    return objective.rows.loss_gradient(THETA, REST).tolist(), whole.tolist()


@pytest.fixture
def threads() -> Iterator[None]:
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.usefixtures("threads")
def test_no_order_no_border_no_thread_and_no_cut_changes_a_bit(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row meets every lane and border: orders, sizes of pieces, parts, numbers of threads, ways to keep rows."""
    n = 3 * 4096 + 517
    objective, rng = objective_of(n, 4, loss=loss), np.random.default_rng(0)
    right = sums(objective)
    assert sums(changed(objective, X=np.ascontiguousarray(objective.rows.X))) == right
    for order in (rng.permutation(n), np.arange(n)[::-1], *(np.roll(np.arange(n), k) for k in (1, 3, 511))):
        columns = {name: getattr(objective.rows, name)[order] for name in ("y", "weights", "offset")}
        assert sums(changed(objective, X=np.asfortranarray(objective.rows.X[order]), **columns)) == right
    for cuts in ([5], [511, 1024, 1025], [4095, 4097, 8192]):
        parts = []
        for rows in np.split(np.arange(n), cuts):
            columns = {name: getattr(objective.rows, name)[rows] for name in ("y", "weights", "offset")}
            bounds = RowBounds(summand=1.0, root=1.0, rows=n)
            part = changed(objective, X=np.asfortranarray(objective.rows.X[rows]), bounds=bounds, **columns)
            parts.append((part.rows.loss_gradient(THETA, REST), part.rows.loss_hessian(THETA, rows=len(rows))))
        assert tuple(sum(part).tolist() for part in zip(*parts, strict=True)) == right
    most = numba.config.NUMBA_NUM_THREADS
    for piece, shared, count in ((1, n, 1), (64, 1, most), (1000, 1, most), (4096, 1, most), (4096, 1, 1)):
        if piece > 1:
            monkeypatch.setattr(kernels, "PIECE", piece)
        monkeypatch.setattr(kernels, "SMALLEST_THREAD", shared)
        numba.set_num_threads(count)
        assert sums(objective) == right


@pytest.mark.parametrize("D", [1, 2, 5, 9])
def test_a_row_contributes_the_same_at_every_place(D: int) -> None:
    """One row among rows of weight 0 at every place of a vector, at borders of pieces, and alone."""
    n, theta = 4096 + 9, np.linspace(-1.0, 1.0, D)
    objective = objective_of(n, D)
    borders = [border + near for border in (128, 512, kernels.BLOCK, 4096) for near in range(-2, 2)]
    for place in (*range(40), *borders, n - 9, *range(n - 8, n)):
        weights = np.zeros(n)
        weights[place] = objective.rows.weights[place]
        some = changed(objective, weights=weights)
        only = {name: getattr(objective.rows, name)[place : place + 1] for name in ("y", "weights", "offset")}
        alone = changed(
            objective, X=objective.rows.X[place : place + 1], bounds=RowBounds(summand=1.0, root=1.0, rows=n), **only
        )
        np.testing.assert_array_equal(some.rows.loss_gradient(theta), alone.rows.loss_gradient(theta))
        np.testing.assert_array_equal(some.rows.loss_hessian(theta, rows=n), alone.rows.loss_hessian(theta, rows=1))


def test_sums_in_floats_would_depend_on_the_order() -> None:
    # What makes the comparisons above able to fail.
    objective = objective_of(5000, 4)
    score = objective.rows.weights * objective.rows.loss.score(objective.rows.predictor(THETA), objective.rows.y)
    terms = objective.rows.X * score[:, None]
    assert not np.array_equal(np.add.accumulate(terms)[-1], np.add.accumulate(terms[::-1])[-1])


def test_exact_curvatures_are_those_of_floats_up_to_their_rounding() -> None:
    objective = objective_of(9000, 4)
    plain = changed(objective, bounds=None).hessian(THETA)
    assert np.abs(objective.hessian(THETA) - plain).max() < 2e-4 * np.abs(plain).max()
    assert np.array_equal(objective.rough_hessian(THETA), objective.hessian(THETA))
    many = objective_of(2 * ROUGH, 4)
    rough, exact = many.rough_hessian(THETA), many.hessian(THETA)
    assert 0 < np.abs(rough - exact).max() < 0.1 * np.abs(exact).max()


@pytest.mark.parametrize("size", [1e-30, 1.0, 3.0, 1e8])
def test_the_largest_curvatures_are_added_exactly(size: float) -> None:
    n = 2 * kernels.PIECE
    X, bits = np.full((n, 2), size, order="F"), kernels.root_bits(size, rows=n)
    total = sum(
        kernels.curvature_sum(X, np.ones(n // 2), rows, bits=bits) for rows in (slice(n // 2), slice(n // 2, n))
    )
    root = int(np.rint(math.ldexp(size, bits)))
    assert root <= 2**kernels.ROOT_BITS
    assert total.tolist() == [[n * root**2] * 2] * 2


@pytest.mark.parametrize("rows", [1, 2**26, 2**26 + 1, 2**27, MOST_PEOPLE])
def test_sums_over_the_largest_tables_do_not_overflow(rows: int) -> None:
    """Eight rows have the largest curvature that rows can have; that of all rows would be so many times as large."""
    bounds = RowBounds(summand=1.0, root=0.5 * (1.0 - 2.0**-30), rows=rows)
    few = changed(objective_of(8, 3), X=np.ones((8, 3)), weights=np.ones(8), offset=np.zeros(8), bounds=bounds)
    curvature = int(few.rows.loss_hessian(np.zeros(3), rows=8)[0, 0])
    assert curvature >= 8 * 2**30
    assert curvature * max(rows, 8) // 8 <= 2**62


@final
class Repeated(InMemory):
    """So many partitions, all of them the same one."""

    times = 2**36

    def total(self, count):
        return count(self._made) * self.times


def test_scores_of_more_people_than_there_are_keep_fifty_bits_and_add_up() -> None:
    """All scores of 2^40 rows are 1: sums of 2^90, whose last bits are there, and doubles of them."""
    part = changed(objective_of(16, 3), X=np.ones((16, 3)), weights=np.ones(16), y=np.zeros(16))
    rows = PartedRows(parts=Repeated(part.rows, rows=2**40), bounds=RowBounds(summand=1.0, root=1.0, rows=2**40))
    every = rows.penalised(ridge=part.ridge, centre=part.centre)
    theta = np.full(3, 1e9)
    assert rows.grid_bits == part.rows.grid_bits == 50
    assert rows.loss_gradient(theta).tolist() == [2**90] * 3
    np.testing.assert_array_equal(every.gradient(theta), 2.0**40 + part.ridge * theta)


def test_sums_in_64_bits_hold_the_largest_scores_of_their_rows() -> None:
    assert kernels.SUMMED * (2**50 + 2**12) < 2**63
    assert kernels.PIECE <= kernels.SUMMED
    assert kernels.SUMMED % kernels.BLOCK == 0
    n = 3 * kernels.SUMMED + 5
    whole = changed(objective_of(n, 3), X=np.ones((n, 3), order="F"), weights=np.ones(n), y=np.zeros(n))
    assert whole.rows.loss_gradient(np.full(3, 1e9)).tolist() == [n * 2**50] * 3
    numbers = np.full(n, 2.0**50)
    assert kernels.score_sum(np.ones((n, 1)), numbers, bits=0).tolist() == [n * 2**50]


class TestLogisticResidual:
    def test_compiled_and_numpy_agree_bit_for_bit(self) -> None:
        rng = np.random.default_rng(5)
        eta = np.concatenate(
            [10.0 ** rng.uniform(-9, 3.5, 3000) * rng.choice([-1, 1], 3000), [0.0, -0.0, 700.0, -700.0]]
        )
        eta = np.concatenate([eta, [np.inf, -np.inf, np.nan, 1e308, -1e308]])
        y = rng.integers(0, 2, len(eta)).astype(float)
        whole = logistic_residual(eta, y)
        few = np.concatenate([logistic_residual(eta[k : k + 7], y[k : k + 7]) for k in range(0, len(eta), 7)])
        np.testing.assert_array_equal(whole.view(np.int64), few.view(np.int64))
        for shift in range(1, 9):
            np.testing.assert_array_equal(logistic_residual(eta[shift:], y[shift:]), whole[shift:])

    def test_it_is_the_logistic_function_to_a_few_units(self) -> None:
        import mpmath

        rng = np.random.default_rng(6)
        eta = np.concatenate([rng.normal(0, 6, 500), rng.uniform(-690, 690, 500)])
        for y in (0.0, 1.0):
            for value, x in zip(logistic_residual(eta, np.full(1000, y)), eta, strict=True):
                with mpmath.workprec(200):
                    exact = 1 / (1 + mpmath.exp(-mpmath.mpf(float(x)))) - y
                    assert abs(mpmath.mpf(float(value)) - exact) <= 5 * mpmath.mpf(2) ** -53


def test_few_rows_take_loaded_loops_and_have_the_same_bits(monkeypatch):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((50, 3)), (rng.random(50) < 0.5).astype(float)
    parts = kernels.coefficient_parts(np.array([0.3, -2.0, 1e3]), np.full(3, 1e-17))
    given = (X, y, np.full(50, 0.5), np.linspace(-1.0, 1.0, 50), parts, slice(7, 41))

    def found():
        own, rest = kernels.compensated_pairs(X, parts, given[3], given[5])
        return own, rest, logistic.logistic_residual(own, y[given[5]]), kernels.logistic_sum(*given, bits=40)

    with monkeypatch.context() as without:
        for module in (kernels, logistic):
            without.setattr(module, "loaded", lambda loop: False)
        by_numpy = found()
    loading.load([Loops.REGRESSIONS], in_files=False)
    assert all(loaded(each) for each in (kernels._compensated, kernels._logistic_sum))
    for one, other in zip(by_numpy, found(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("shape", [(1, 30), (30, 1), (30, 2), (1, 1)])
def test_residuals_of_outcomes_that_are_spread_over_predictors(shape):
    loading.load([Loops.REGRESSIONS], in_files=False)
    eta, y = np.linspace(-3.0, 3.0, shape[0] * shape[1]).reshape(shape), np.array([1.0])
    for given in (y, np.broadcast_to(y, shape), y[0]):
        assert np.array_equal(logistic.logistic_residual(eta, given), logistic.logistic_residual(eta, np.ones(shape)))
    several = np.tile([1.0, 0.0], 15)
    assert logistic.logistic_residual(np.zeros((2, 1)), several).tolist() == [(0.5 - several).tolist()] * 2

"""Public geometries: whitening, shrinkage, boxes, and the way back to the design's coefficients."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf as reference_shrinkage

from hdpstats.formulas.design import whitened_matrix
from hdpstats.records.geometry import Geometry, Source, from_box, from_public, ledoit_wolf, mallows_weights, whiten


def design(n, d, *, intercept=True, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((d, d))
    columns = rng.standard_normal((n, d)) @ mixing * 10.0 ** rng.uniform(-2.0, 3.0, d) + rng.uniform(-50.0, 50.0, d)
    return np.column_stack([np.ones(n), columns]) if intercept else columns


def public(X, *, intercept=True, radius=2.0):
    columns = X[:, int(intercept) :]
    return from_public(X, lower=columns.min(axis=0), upper=columns.max(axis=0), intercept=intercept, radius=radius)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_public_rows_become_round(d):
    X = design(20_000, d)
    z = whiten(public(X), X).X[:, 1:]
    assert np.abs(z.mean(axis=0)).max() < 1e-8
    assert np.abs(np.cov(z.T).reshape(d, d) - np.eye(d)).max() < 0.05


@pytest.mark.parametrize("intercept", [False, True])
def test_sums_in_another_order_give_the_same_numbers(intercept):
    X = design(5000, 5, intercept=intercept)
    assert public(np.random.default_rng(1).permutation(X), intercept=intercept) == public(X, intercept=intercept)


@pytest.mark.parametrize("intercept", [False, True])
def test_public_rows_are_whitened_by_columns_to_the_same_bits(intercept):
    X = design(5000, 5, intercept=intercept)
    geometry = public(X, intercept=intercept)
    one, two = whiten(geometry, X), whitened_matrix(geometry, X)
    assert np.array_equal(one.X, two.X)
    assert np.array_equal(one.weights, two.weights)
    assert two.X.T.flags.c_contiguous


def test_rows_that_are_only_scaled_are_not_round():
    X = design(20_000, 3)
    scaled = (X[:, 1:] - X[:, 1:].mean(axis=0)) / X[:, 1:].std(axis=0)
    assert np.abs(np.cov(scaled.T) - np.eye(3)).max() > 0.2


def test_without_an_intercept_nothing_is_centred():
    X = design(20_000, 2, intercept=False)
    geometry = public(X, intercept=False)
    assert geometry.location == (0.0, 0.0)
    z = whiten(geometry, X).X
    assert z.shape == X.shape
    assert np.abs(z.T @ z / len(z) - np.eye(2)).max() < 0.05


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["public", "box"])
def test_coefficients_go_back_to_the_design(intercept, kind):
    X = design(200, 4, intercept=intercept)
    columns = X[:, int(intercept) :]
    lower, upper = columns.min(axis=0).tolist(), columns.max(axis=0).tolist()
    geometry = public(X, intercept=intercept) if kind == "public" else from_box(lower, upper, intercept=intercept)
    theta = np.random.default_rng(1).standard_normal(X.shape[1])
    predictor = whiten(geometry, X).X @ theta
    assert X @ (geometry.to_raw() @ theta) == pytest.approx(predictor, rel=1e-9, abs=1e-9 * np.abs(predictor).max())
    wrong = geometry.to_raw().T @ theta
    symmetric = kind == "box" and not intercept
    assert symmetric or X @ wrong != pytest.approx(predictor, rel=1e-3)


@pytest.mark.parametrize(("n", "d"), [(3, 2), (10, 10), (40, 3), (500, 8), (5, 20)])
def test_shrinkage_is_ledoit_and_wolf_s(n, d):
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    expected, _ = reference_shrinkage(rows, assume_centered=True)
    assert ledoit_wolf(rows) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert ledoit_wolf(rows) != pytest.approx(rows.T @ rows / n, rel=1e-6)


def test_shrinkage_without_columns_or_spread():
    assert ledoit_wolf(np.zeros((5, 0))).shape == (0, 0)
    assert not ledoit_wolf(np.zeros((5, 3))).any()


def test_constant_and_repeated_public_columns_are_whitened_all_the_same():
    X = design(100, 3)
    X[:, 2], X[:, 3] = 7.0, X[:, 1]
    geometry = from_public(X, lower=[-1e4, 0.0, -1e4], upper=[1e4, 10.0, 1e4], intercept=True, radius=1.0)
    assert np.all(np.isfinite(whiten(geometry, X).X))
    constant = from_public(np.ones((5, 2)), lower=[1.0], upper=[1.0], intercept=True, radius=1.0)
    assert np.all(np.isfinite(whiten(constant, np.ones((5, 2))).X))


@pytest.mark.parametrize("intercept", [True, False])
def test_the_box_scales_every_admitted_row_into_the_cube(intercept):
    rng = np.random.default_rng(3)
    lower, upper = np.array([-3.0, 0.0, 5.0, 20.0, 2.0]), np.array([1.0, 1.0, 9.0, 90.0, 2.0])
    geometry = from_box(lower.tolist(), upper.tolist(), intercept=intercept)
    corners = np.where(rng.uniform(size=(500, 5)) < 0.5, lower, upper)
    inside = rng.uniform(lower, upper, size=(500, 5))
    columns = np.concatenate([corners, inside])
    X = np.column_stack([np.ones(1000), columns]) if intercept else columns
    rows = whiten(geometry, X)
    z = rows.X[:, int(intercept) :]
    assert np.abs(z).max() <= 1.0 + 1e-12
    assert np.abs(z).max() > 1.0 - 1e-12
    # No admitted row is weighted down.
    assert rows.weights.min() >= 1.0 - 1e-12
    assert geometry.source is Source.SCHEMA_BOX


def test_a_declared_row_norm_weights_longer_rows_down():
    geometry = from_box([-1.0] * 4, [1.0] * 4, intercept=True, row_norm=1.0)
    X = np.array([[1.0, 0.5, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    assert whiten(geometry, X).weights.tolist() == pytest.approx([1.0, 1.0, 2.0 / 5.0])
    assert (geometry.radius, geometry.leverage) == (1.0, 2.0)


@pytest.mark.parametrize("intercept", [True, False])
def test_weights_keep_radius_and_leverage_for_every_row(intercept):
    geometry = replace(
        from_box([-1.0], [1.0], intercept=intercept), radius=1.3, leverage=float(intercept) + 2.0 * 1.3**2
    )
    square = np.concatenate([[0.0, 5e-324, 1e-300, 1e300], np.geomspace(1e-12, 1e12, 5000)])
    weights = mallows_weights(square, geometry)
    assert np.all((weights > 0.0) & (weights <= 1.0))
    assert np.all(weights * np.sqrt(square) <= geometry.radius * (1.0 + 1e-15))
    assert np.all(weights * (float(intercept) + square) <= geometry.leverage * (1.0 + 1e-15))
    assert np.all(weights[square <= 1.3**2] == 1.0)


@pytest.mark.parametrize("leverage", [1e-12, 1.0, 1e13])
@pytest.mark.parametrize("scale", [1e-14, 1.0, 1e14])
def test_rows_beyond_squares_of_doubles_keep_finite_norms_and_exact_bounds(leverage, scale):
    """A formula can take a row to 1e150 and a geometry can scale it by 1e15, where a square overflows."""
    geometry = replace(from_box([-1.0], [1.0], intercept=True), radius=1e-6, leverage=leverage, whitening=((scale,),))
    sizes = np.concatenate([-np.geomspace(1e-300, 1e150, 300), np.geomspace(1e-300, 1e150, 300)])
    rows = whiten(geometry, np.column_stack([np.ones(600), sizes]))
    norm = np.abs(rows.X[:, 1])
    assert np.all(np.isfinite(norm**2))
    assert np.all(rows.weights > 0.0)
    assert np.all(rows.weights * norm <= 1e-6 * (1.0 + 1e-15))
    assert np.all(rows.weights * (1.0 + norm**2) <= leverage * (1.0 + 1e-15))


def test_a_row_s_image_depends_on_that_row_alone():
    X = design(500, 5)
    geometry = public(X)
    whole = whiten(geometry, X)
    for i in (0, 1, 250, 499):
        alone = whiten(geometry, X[[i]])
        assert np.array_equal(alone.X[0], whole.X[i])
        assert alone.weights[0] == whole.weights[i]
    order = np.random.default_rng(2).permutation(500)
    assert np.array_equal(whiten(geometry, X[order]).X, whole.X[order])


def test_no_rows_and_no_slopes():
    geometry = from_box([], [], intercept=True)
    assert whiten(geometry, np.ones((3, 1))).X.tolist() == [[1.0]] * 3
    assert whiten(geometry, np.ones((0, 1))).X.shape == (0, 1)
    assert geometry.to_raw().tolist() == [[1.0]]


def test_geometries_survive_a_round_trip():
    for geometry in (
        public(design(50, 3)),
        from_box([0.1], [math.pi], intercept=False),
        from_box([], [], intercept=True),
    ):
        assert Geometry.from_dict(geometry.to_dict()) == geometry

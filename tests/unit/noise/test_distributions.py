"""Variances of the noise distributions against direct sums over fine lattices."""

import itertools
import math

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise.distributions import ball_variance, box_variance, cylinder_variance


def summed_variances(dimension: int, rate: float, radius: float | None) -> list[float]:
    """Variances from a sum of exp(-rate K) over a grid of points; K is the ball's norm or the cylinder's."""
    reach, points = 26.0 / rate, {1: 20001, 2: 1201, 3: 121}[dimension]
    axis = np.linspace(-reach, reach, points)
    scales = [1.0] + [1.0 if radius is None else radius] * (dimension - 1)
    grids = np.meshgrid(*(axis * scale for scale in scales), indexing="ij")
    if radius is None:
        norm = np.sqrt(sum(x**2 for x in grids))
    else:
        norm = np.maximum(np.abs(grids[0]), np.sqrt(sum(x**2 for x in grids[1:])) / radius)
    weights = np.exp(-rate * norm)
    return [float((x**2 * weights).sum() / weights.sum()) for x in grids]


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(("dimension", "rate"), list(itertools.product([1, 2, 3], [0.5, 2.0])))
def test_ball(dimension: int, rate: float) -> None:
    expected = [ball_variance(dimension, rate)] * dimension
    assert summed_variances(dimension, rate, None) == pytest.approx(expected, rel=0.02)
    assert summed_variances(dimension, 1.1 * rate, None) != pytest.approx(expected, rel=0.02)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(("dimension", "radius"), list(itertools.product([2, 3], [0.3, 1.0, 2.0])))
def test_cylinder(dimension: int, radius: float) -> None:
    expected = cylinder_variance(dimension, 0.7, radius).tolist()
    assert summed_variances(dimension, 0.7, radius) == pytest.approx(expected, rel=0.02)
    assert summed_variances(dimension, 0.77, radius) != pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_box(dimension: int) -> None:
    axis = np.linspace(-40.0, 40.0, {1: 20001, 2: 1201, 3: 121}[dimension])
    grids = np.meshgrid(*[axis] * dimension, indexing="ij")
    weights = np.exp(-0.7 * np.max(np.abs(grids), axis=0))
    expected = float((grids[0] ** 2 * weights).sum() / weights.sum())
    assert box_variance(dimension, 0.7) == pytest.approx(expected, rel=0.02)
    assert box_variance(dimension, 0.77) != pytest.approx(expected, rel=0.02)


def test_one_dimension_is_laplace_in_all() -> None:
    assert ball_variance(1, 0.5) == 8.0
    assert box_variance(1, 0.5) == 8.0
    assert cylinder_variance(1, 0.5, 3.0).tolist() == [8.0]


@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
def test_the_cylinder_has_less_total_variance_than_the_ball_around_it(radius: float) -> None:
    for dimension in (2, 3, 10, 50):
        around = ball_variance(dimension, 1.0 / math.hypot(1.0, radius)) * dimension
        assert cylinder_variance(dimension, 1.0, radius).sum() < around


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="dimension"):
        ball_variance(0, 1.0)
    with pytest.raises(ArgumentError, match="rate"):
        ball_variance(2, 0.0)
    with pytest.raises(ArgumentError, match="radius"):
        cylinder_variance(2, 1.0, -1.0)

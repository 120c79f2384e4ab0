"""What rounding onto the lattice adds to a sensitivity: the allowances suffice, and are needed."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hdpstats.noise.exact import sqrt_up
from tests.known_noise import snap

coordinates = st.floats(-100, 100)
grids = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1, 2**20), Fraction(7, 5)])
pairs = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        st.lists(coordinates, min_size=size, max_size=size),
        st.lists(coordinates, min_size=size, max_size=size),
    )
)


def square(values: list[Fraction]) -> Fraction:
    return sum((value * value for value in values), Fraction(0))


def differences(p: list[float], q: list[float]) -> list[Fraction]:
    return [Fraction(x) - Fraction(y) for x, y in zip(p, q, strict=True)]


def lattice_differences(p: list[float], q: list[float], grid: Fraction) -> list[Fraction]:
    return [Fraction(x - y) for x, y in zip(snap(p, grid), snap(q, grid), strict=True)]


@given(pairs, grids)
def test_ball(pair: tuple[list[float], list[float]], grid: Fraction) -> None:
    p, q = pair
    allowed = sqrt_up(square(differences(p, q))) / grid + sqrt_up(Fraction(len(p)))
    assert square(lattice_differences(p, q, grid)) <= allowed**2


@given(pairs, grids, grids, st.sampled_from([Fraction(1, 20), Fraction(1, 3), Fraction(2)]))
def test_cylinder(
    pair: tuple[list[float], list[float]], grid_axis: Fraction, grid_ball: Fraction, radius: Fraction
) -> None:
    p, q = pair
    moved = differences(p, q)
    sensitivity = max(abs(moved[0]), sqrt_up(square(moved[1:])) / radius)
    allowed = sensitivity + max(grid_axis, grid_ball * sqrt_up(Fraction(len(p) - 1)) / radius)
    axis = lattice_differences(p[:1], q[:1], grid_axis)
    ball = lattice_differences(p[1:], q[1:], grid_ball)
    assert abs(axis[0]) * grid_axis <= allowed
    assert square(ball) * (grid_ball / radius) ** 2 <= allowed**2


def test_the_ball_needs_all_of_its_allowance() -> None:
    below, size = math.nextafter(0.5, 0.0), 9
    moved = square(differences([0.5] * size, [below] * size))
    rounded = square(lattice_differences([0.5] * size, [below] * size, Fraction(1)))
    assert moved < Fraction(1, 10**30)
    assert rounded == size


def test_a_small_radius_needs_more_than_the_allowance_of_a_ball() -> None:
    below, covariates = math.nextafter(0.5, 0.0), 10
    radius, grid = Fraction(1, 20), Fraction(1)
    rounded = lattice_differences([0.5] * covariates, [below] * covariates, grid)
    inflation = sqrt_up(square(rounded)) * grid / radius
    assert inflation > sqrt_up(Fraction(covariates + 1)) * grid
    assert inflation <= grid * sqrt_up(Fraction(covariates)) / radius

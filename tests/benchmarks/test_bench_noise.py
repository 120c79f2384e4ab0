"""Cost of one draw on the grids that mechanisms use."""

from fractions import Fraction

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hdpstats.noise import BallNoise, CylinderNoise, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.exact import lift, power_of_two_below, round_down, sqrt_up

GRID = Fraction(1, 2**20)


def test_two_sided_geometric(benchmark: BenchmarkFixture) -> None:
    noise = TwoSidedGeometric(rate=round_down(GRID, 64))
    assert isinstance(benchmark(noise.draw), int)


@pytest.mark.parametrize("dimension", [1, 2, 5, 10, 20, 50])
def test_ball(benchmark: BenchmarkFixture, dimension: int) -> None:
    root = sqrt_up(Fraction(dimension))
    grid = power_of_two_below(GRID / root)
    noise = BallNoise(dimension=dimension, rate=round_down(1 / (1 / grid + root), 64))
    assert len(benchmark(noise.draw)) == dimension


@pytest.mark.parametrize("dimension", [1, 2, 5, 10, 20, 50])
def test_cylinder(benchmark: BenchmarkFixture, dimension: int) -> None:
    noise = CylinderNoise(
        dimension=dimension,
        rate=round_down(1 / (1 + GRID), 64),
        radius=Fraction(1),
        grid_axis=GRID,
        grid_ball=power_of_two_below(GRID / sqrt_up(Fraction(max(1, dimension - 1)))),
    )
    assert len(benchmark(noise.draw)) == dimension


@pytest.mark.parametrize("dimension", [1, 10, 50])
def test_normal(benchmark: BenchmarkFixture, dimension: int) -> None:
    noise = RoundedNormal(dimension=dimension, sd=Fraction(10, 3), grid=GRID)
    assert len(benchmark(noise.draw)) == dimension


def test_laying_out_a_ball(benchmark: BenchmarkFixture) -> None:
    noise = benchmark(BallNoise, dimension=50, rate=GRID)
    assert noise.dimension == 50


def test_lift(benchmark: BenchmarkFixture) -> None:
    points = [3**index for index in range(50)]
    assert benchmark(lambda: lift(points, GRID)).shape == (50,)

"""Goodness of fit of the lattice noise to its exact distribution in one to three dimensions.

Every check has a proven level of 1e-9 (`tests.chance`), and must reject a scale that is wrong by a factor 1.5: that
it misses one has a probability of 1e-9 at most, which `chance.tells` computes. Samplers with a step left out have
distributions that are not written down: in 30 runs with other seeds the relative entropy of each exceeded the threshold
by 8 to 24 standard deviations of those runs.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, TwoSidedGeometric, discrete, knorm
from tests import chance

DRAWS = 8000
REACH = {1: 400, 2: 60, 3: 20}
RARE = 1e-7

Norm = Callable[[np.ndarray], np.ndarray]

pytestmark = pytest.mark.entropy


def ball_norm(rate: Fraction, wrong: float = 1.0) -> Norm:
    return lambda z: wrong * float(rate) * np.linalg.norm(z, axis=1)


def cylinder_norm(noise: CylinderNoise, wrong: float = 1.0) -> Norm:
    axis, side = float(noise.grid_axis), float(noise.grid_ball / noise.radius)
    rate = wrong * float(noise.rate)
    return lambda z: rate * np.maximum(axis * np.abs(z[:, 0]), side * np.linalg.norm(z[:, 1:], axis=1))


def box_norm(rate: Fraction, wrong: float = 1.0) -> Norm:
    return lambda z: wrong * float(rate) * np.max(np.abs(z), axis=1)


def distribution_of(dimension: int, norm: Norm) -> chance.OutcomeDistribution:
    """Return P[z] ∝ exp(-norm(z)) on all points in reach, the rarest as one; beyond it lies less than 1e-12."""
    axis = np.arange(-REACH[dimension], REACH[dimension] + 1)
    points = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    heights = np.exp(-norm(points))
    heights /= heights.sum()
    often = heights > RARE
    return chance.OutcomeDistribution(
        dict(zip(map(tuple, points[often].tolist()), heights[often].tolist(), strict=True)),
        outside=float(heights[~often].sum()),
    )


def tells(noise: BallNoise | BoxNoise | CylinderNoise, norm: Callable[[float], Norm]) -> None:
    """Assert that draws have a norm's distribution, and that scales 1.5 times as large or as small are told from it."""
    right, *wrong = (distribution_of(noise.dimension, norm(w)) for w in (1.0, 1.5, 1 / 1.5))
    chance.tells(right, [noise.draw() for _ in range(chance.enough(right, *wrong))], *wrong)


def fits(draws: Sequence[tuple[int, ...]], norm: Norm) -> bool:
    return distribution_of(len(draws[0]), norm).fits(draws)


def undecided(digits: int, estimate: float, error: float) -> bool | None:
    return None


BALLS = [
    (1, Fraction(1, 4)),
    (1, Fraction(1)),
    (2, Fraction(1, 3)),
    (2, Fraction(7, 10)),
    (2, Fraction(2)),
    (3, Fraction(1)),
    (3, Fraction(3, 2)),
]


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(("dimension", "rate"), BALLS)
def test_ball(dimension: int, rate: Fraction) -> None:
    tells(BallNoise(dimension=dimension, rate=rate), partial(ball_norm, rate))


CYLINDERS = [
    CylinderNoise(dimension=dimension, rate=rate, radius=radius, grid_axis=axis, grid_ball=side)
    for dimension, rate, radius, axis, side in [
        (1, Fraction(1, 2), Fraction(2), Fraction(2, 3), Fraction(1)),
        (2, Fraction(1), Fraction(2), Fraction(1, 2), Fraction(1)),
        (2, Fraction(1), Fraction(3, 2), Fraction(1), Fraction(1)),
        (2, Fraction(1), Fraction(1, 3), Fraction(1, 2), Fraction(1, 8)),
        (3, Fraction(3, 2), Fraction(2), Fraction(1), Fraction(3, 2)),
        (3, Fraction(3, 2), Fraction(3, 2), Fraction(3, 4), Fraction(1)),
        (3, Fraction(3, 2), Fraction(1, 3), Fraction(1), Fraction(1, 4)),
    ]
]


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("noise", CYLINDERS, ids=lambda noise: f"{noise.dimension}-{noise.radius}")
def test_cylinder(noise: CylinderNoise) -> None:
    tells(noise, partial(cylinder_norm, noise))


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(
    ("dimension", "rate"),
    [(1, Fraction(1, 4)), (2, Fraction(1, 3)), (2, Fraction(2)), (3, Fraction(2)), (3, Fraction(5, 2))],
)
def test_box(dimension: int, rate: Fraction) -> None:
    tells(BoxNoise(dimension=dimension, rate=rate), partial(box_norm, rate))


@pytest.mark.wide
def test_a_box_is_neither_a_ball_nor_independent_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = BoxNoise(dimension=2, rate=Fraction(1))
    draws = [noise.draw() for _ in range(DRAWS)]
    others = (ball_norm(Fraction(1)), lambda z: np.abs(z).sum(axis=1))
    chance.tells(distribution_of(2, box_norm(Fraction(1))), draws, *(distribution_of(2, norm) for norm in others))
    monkeypatch.setattr(knorm, "bernoulli", lambda *_: True)
    assert not fits([noise.draw() for _ in range(DRAWS)], box_norm(Fraction(1)))


@pytest.mark.wide
def test_a_box_without_the_last_geometric_number_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # d instead of d + 1 numbers: the distribution of a shell's radius, not of the cube around it.
    noise, original, steps = BoxNoise(dimension=2, rate=Fraction(1, 2)), knorm.geometric, itertools.count()
    monkeypatch.setattr(knorm, "geometric", lambda *rate: 0 if next(steps) % 3 == 0 else original(*rate))
    assert not fits([noise.draw() for _ in range(DRAWS)], box_norm(Fraction(1, 2)))


def test_distributions_hold_when_integers_decide_every_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete, "decide_in_doubles", undecided)
    solid = BallNoise(dimension=3, rate=Fraction(3, 2))
    tells(solid, partial(ball_norm, solid.rate))
    tells(CYLINDERS[2], partial(cylinder_norm, CYLINDERS[2]))


@pytest.mark.wide
def test_rejection_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knorm, "bernoulli_exp_roots", lambda *_: True)
    disc = BallNoise(dimension=2, rate=Fraction(7, 10))
    assert not fits([disc.draw() for _ in range(2 * DRAWS)], ball_norm(disc.rate))
    assert not fits([CYLINDERS[2].draw() for _ in range(DRAWS)], cylinder_norm(CYLINDERS[2]))


def test_independent_coordinates_are_not_ball_noise() -> None:
    axis = TwoSidedGeometric(rate=Fraction(7, 10))
    draws = [(axis.draw(), axis.draw()) for _ in range(DRAWS)]
    chance.tells(
        distribution_of(2, lambda z: 0.7 * np.abs(z).sum(axis=1)), draws, distribution_of(2, ball_norm(Fraction(7, 10)))
    )


@pytest.mark.wide
def test_a_cylinder_is_not_the_ball_around_it() -> None:
    noise = CylinderNoise(
        dimension=2, rate=Fraction(1), radius=Fraction(1), grid_axis=Fraction(1, 2), grid_ball=Fraction(1, 2)
    )
    draws = [noise.draw() for _ in range(3 * DRAWS)]
    chance.tells(distribution_of(2, cylinder_norm(noise)), draws, distribution_of(2, ball_norm(Fraction(1, 2))))

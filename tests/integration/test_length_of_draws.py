"""Draws of noise are so long in a rehearsal that a draw is hardly ever longer; their distributions are the same."""

import io
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, RoundedNormal, TwoSidedGeometric, exact
from hdpstats.noise.discrete import PermuteAndFlip
from hdpstats.noise.exact import WHOLE, spare
from hdpstats.noise.normal import PROPOSALS, TiltedNormal
from tests import chance

STEP = Fraction(1, 1024)


class Source:
    """A seeded source of bytes that counts how often it is read: that is what a draw takes."""

    def __init__(self, seed: int) -> None:
        self._ready = io.BytesIO(np.random.default_rng(seed).bytes(10**6))
        self.reads = 0

    def __call__(self, count: int) -> bytes:
        self.reads += 1
        found = self._ready.read(count)
        assert len(found) == count
        return found


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source(1)
    monkeypatch.setattr(exact, "system_bytes", made)
    return made


DISTRIBUTIONS: dict[str, Callable[[], object]] = {
    "ball": BallNoise(dimension=9, rate=STEP).draw,
    "cylinder": CylinderNoise(dimension=4, rate=Fraction(1), radius=Fraction(2), grid_axis=STEP, grid_ball=STEP).draw,
    "axis": CylinderNoise(dimension=1, rate=Fraction(1), radius=Fraction(2), grid_axis=STEP, grid_ball=STEP).draw,
    "box": BoxNoise(dimension=3, rate=STEP).draw,
    "normal": RoundedNormal(dimension=30, sd=Fraction(5), grid=STEP).draw,
    "numbers": lambda: TwoSidedGeometric(rate=STEP).draws(60),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_rehearsed_draw_is_longer_than_any_of_many(source: Source, name: str) -> None:
    draw, reads = DISTRIBUTIONS[name], []
    for _ in range(150):
        before = source.reads
        plain = draw()
        reads.append(source.reads - before)
    before = source.reads
    with rehearsing():
        rehearsed = draw()
    assert np.shape(rehearsed) == np.shape(plain)
    assert source.reads - before > 1.2 * max(reads)
    assert source.reads - before < 100 * np.mean(reads)


@pytest.mark.parametrize(("lower", "upper"), [(-50, 50), (-1, 1000), (-1000, 0), (0, 3)])
@pytest.mark.parametrize("slope", [Fraction(0), Fraction(1, 40), Fraction(30)])
def test_a_rehearsed_tilted_number_makes_twice_the_proposals_of_the_least_favourable(
    monkeypatch: pytest.MonkeyPatch, source: Source, lower: int, upper: int, slope: Fraction
) -> None:
    distribution = TiltedNormal(lower=lower, upper=upper, slope=slope, curvature=Fraction(1, 900))
    plain, proposals = TiltedNormal.exponent, [0]
    blocks = "hdpstats.noise.normal.below"

    def spy(bound: int) -> int:
        proposals[0] += 1
        return exact.below(bound)

    monkeypatch.setattr(blocks, spy)
    drawn = [distribution.draw() for _ in range(200)]
    assert proposals[0] / 200 < 0.6 * PROPOSALS
    proposals[0] = 0
    with rehearsing():
        rehearsed = [distribution.draw() for _ in range(200)]
    assert proposals[0] >= 200 * PROPOSALS
    assert min(*drawn, *rehearsed) >= lower
    assert max(*drawn, *rehearsed) <= upper
    # The distribution is the same: a false alarm has 1e-9. Which wrong distributions such a check finds is computed in
    # `test_tilted.py`.
    assert chance.OutcomeDistribution(
        {k: math.exp(-float(plain(distribution, k))) for k in range(lower, upper + 1)}
    ).fits(rehearsed)


def test_the_number_of_coins_of_a_choice_does_not_depend_on_the_costs(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    coins = []

    def spy(numerator: int, denominator: int) -> bool:
        coins.append(numerator)
        return numerator == 0

    monkeypatch.setattr("hdpstats.noise.discrete.bernoulli_exp", spy)
    for costs in ([0] * 20, [10**9] * 19 + [0], list(range(20))):
        coins.clear()
        assert costs[PermuteAndFlip(rate=Fraction(1)).draw(costs)] == 0
        assert len(coins) == 20


def test_nothing_is_added_outside_of_a_rehearsal() -> None:
    assert spare(10**6) == 0
    with rehearsing():
        assert spare(10**6) == 64 + 16 * 1000
    assert WHOLE >= 23  # exceeded with a probability below 2^-30


def log_mgf_of_geometric(log_mgf: float, keeps: float) -> float:
    """Return the log moment generating function of a sum of a geometric number of summands."""
    goes_on = (1.0 - keeps) * math.exp(log_mgf) if log_mgf < 50.0 else math.inf
    return math.log(keeps) + log_mgf - math.log1p(-goes_on) if goes_on < 1.0 else math.inf


def ball(s: float, dimension: int) -> float:
    """Return the log moment generating function of what a draw takes, a coordinate being geometric."""
    if dimension == 1:
        return log_mgf_of_geometric(s, 0.28)
    halves = ball(s, dimension // 2) + ball(s, dimension - dimension // 2)
    return log_mgf_of_geometric(halves, 2.0**-0.5)


def cylinder(s: float, dimension: int) -> float:
    return log_mgf_of_geometric(log_mgf_of_geometric(s, 0.28) + ball(s, dimension - 1), math.exp(-1.0))


@pytest.mark.parametrize("distribution", [ball, cylinder])
@pytest.mark.parametrize("dimension", [2, 3, 10, 465])
def test_the_tails_that_are_claimed(distribution: Callable[[float, int], float], dimension: int) -> None:
    mean = distribution(1e-9, dimension) / 1e-9
    rates = [share / mean for share in np.linspace(0.01, 0.99, 99).tolist()]
    for bits, times in ((20, 16.5), (30, 23.5), (60, 44.5)):
        quantile = min((distribution(s, dimension) + bits * math.log(2.0)) / s for s in rates)
        assert quantile <= times * mean


@pytest.mark.parametrize("count", [1, 10, 1000, 10**6])
def test_the_tail_of_many_numbers_that_is_claimed(count: int) -> None:
    rates = np.linspace(1e-4, -math.log(0.72), 3000, endpoint=False).tolist()
    bound = min((count * log_mgf_of_geometric(s, 0.28) + 60.0 * math.log(2.0)) / s for s in rates)
    assert bound * 0.28 <= count + 64 + 8 * math.isqrt(count)

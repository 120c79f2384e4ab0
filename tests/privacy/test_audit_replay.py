"""Planted leaks are caught by a replay, and what does not leak is not blamed."""

import logging
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.audit import add_noise, record_and_replay
from hdpstats.noise import BallNoise, BoxNoise, CylinderNoise, PermuteAndFlip, RoundedNormal, TwoSidedGeometric

ONE = [30, 40, 50, 60]
OTHER = [30, 40, 50, 1000]
NOISE = TwoSidedGeometric(rate=Fraction(1, 100))


def clipped(ages):
    return [min(max(age, 0), 100) for age in ages]


def right(ages):
    total = sum(clipped(ages)) + NOISE.draw()
    return {"mean": total / 4, "large": total > 150}


def skips_the_clip(ages):
    return sum(ages) + NOISE.draw()


def bound_from_the_data(ages):
    return sum(ages) + TwoSidedGeometric(rate=Fraction(1, max(ages))).draw()


def counts_in_a_warning(ages):
    warnings.warn(f"{sum(age > 100 for age in ages)} values were clipped", stacklevel=1)
    return right(ages)


def counts_in_a_log(ages):
    logging.getLogger("study").info("%d values were clipped", sum(age > 100 for age in ages))
    return right(ages)


def uses_a_draw_twice(ages):
    z = NOISE.draw()
    return sum(clipped(ages)) + z, sum(age > 65 for age in ages) + z


def keeps_a_draw(ages):
    z = np.random.default_rng(1).laplace(size=2)
    return add_noise([1.0, 2.0], lambda: z, rate=1.0), add_noise([len(ages)] * 2, lambda: z, rate=1.0)


def draws_more_where_it_is_large(ages):
    return [sum(clipped(ages)) + NOISE.draw() for _ in range(1 + (max(ages) > 100))]


def orders_by_size(ages):
    names = sorted(["first", "second"], key=lambda name: max(ages) * (name == "first"), reverse=max(ages) > 100)
    return {name: place for place, name in enumerate(names)}


def raises(ages):
    if max(ages) > 100:
        raise ValueError("too old")
    return right(ages)


def prints_a_total(ages):
    print(sum(ages))


def test_noise_that_covers_its_input_is_accepted():
    found = record_and_replay(right, ONE, OTHER)
    assert found.keeps(epsilon=1.0)
    assert found.epsilon == pytest.approx(0.4)  # 60 becomes 100
    assert "cost epsilon = 0.4" in str(found)


@pytest.mark.parametrize(
    ("leak", "what"),
    [
        (bound_from_the_data, "the distribution of a draw"),
        (counts_in_a_warning, "warnings"),
        (counts_in_a_log, "log lines"),
        (uses_a_draw_twice, "used twice"),
        (keeps_a_draw, "used twice"),
        (draws_more_where_it_is_large, "how many there are"),
        (orders_by_size, "what is returned"),
        (raises, "the error"),
        (prints_a_total, "what is printed"),
    ],
)
def test_a_planted_leak_is_caught_and_named(leak, what):
    found = record_and_replay(leak, ONE, OTHER)
    assert what in str(found)
    assert not found.keeps(epsilon=1e9)


def test_a_skipped_clip_costs_more_than_is_claimed():
    found = record_and_replay(skips_the_clip, ONE, OTHER)
    assert found.epsilon == pytest.approx(9.4)
    assert not found.keeps(epsilon=1.0)


def test_each_noise_counts_in_its_own_norm():
    step = Fraction(1, 4)
    cases = [
        (BallNoise(dimension=2, rate=step), 5 / 4),
        (BoxNoise(dimension=2, rate=step), 4 / 4),
        (CylinderNoise(dimension=2, rate=step, radius=Fraction(2), grid_axis=step, grid_ball=step), 3 / 16),
    ]
    for noise, loss in cases:
        found = record_and_replay(
            lambda q, noise=noise: [a + z for a, z in zip(q, noise.draw(), strict=True)], [0, 0], [3, -4]
        )
        assert found.epsilon == pytest.approx(loss)
    normal = RoundedNormal(dimension=2, sd=Fraction(10), grid=step)
    found = record_and_replay(lambda q: [z - a for a, z in zip(q, normal.draw(), strict=True)], [0, 0], [3, -4])
    assert (found.epsilon, found.mu) == (0.0, pytest.approx(5 / 40))
    assert found.keeps(mu=0.125)
    choice = record_and_replay(lambda costs: PermuteAndFlip(rate=Fraction(1, 8)).draw(costs), [5, 5, 9], [6, 4, 10])
    assert choice.epsilon == pytest.approx(2 / 8)
    several = record_and_replay(lambda q: [a + z for a, z in zip(q, NOISE.draws(2), strict=True)], [0, 0], [3, -4])
    assert several.epsilon == pytest.approx(0.07)


def test_other_samplers_are_followed_where_they_are_named():
    def answer(values, rate=0.5):
        noisy = add_noise(np.sum(values, axis=0), lambda: np.random.default_rng(1).laplace(0, 2, 2), rate=rate)
        return noisy, bool(noisy[0] > 0)

    found = record_and_replay(answer, [[1.0, 2.0]], [[0.0, 0.0]])
    assert found.epsilon == pytest.approx(1.5)
    assert add_noise(1.0, lambda: 2.0, rate=1.0) == 3.0
    assert (
        record_and_replay(lambda v: add_noise(v, lambda: np.zeros(len(v)), rate=1.0), [1.0], [1.0, 2.0]).epsilon
        == math.inf
    )


def test_what_is_recorded_must_run():
    with pytest.raises(ArgumentError, match="must run on data before it is replayed: ValueError: too old"):
        record_and_replay(raises, OTHER, ONE)


def test_samplers_are_themselves_again_afterwards():
    before = [kind.draw for kind in (BallNoise, TwoSidedGeometric, PermuteAndFlip)]
    record_and_replay(right, ONE, OTHER)
    assert [kind.draw for kind in (BallNoise, TwoSidedGeometric, PermuteAndFlip)] == before
    assert type(NOISE.draw()) is int

"""Exponential tilting: given averages, the penalty, rows that count for nothing, many problems at a time."""

import numpy as np
import pytest

from hdpstats.raking.tilting import tilted_weights, tilts

RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(200, 3))
BASE = RNG.exponential(size=(4, 200))
TARGETS = RNG.uniform(-0.6, 0.6, size=(4, 3))


def found(**options):
    return tilts(FEATURES, BASE, TARGETS, start=np.zeros(3), steps=30, **options)


def test_tilted_rows_have_the_averages():
    weights = tilted_weights(FEATURES, BASE, found())
    assert weights.sum(axis=1) == pytest.approx(np.ones(4))
    assert weights @ FEATURES == pytest.approx(TARGETS, abs=1e-9)


def test_a_penalty_leaves_averages_short_by_penalty_times_tilt():
    penalty = np.array([0.1, 1.0, 0.0])
    tilt = found(penalty=penalty)
    means = tilted_weights(FEATURES, BASE, tilt) @ FEATURES
    assert means + penalty * tilt == pytest.approx(TARGETS, abs=1e-9)


def test_averages_beyond_all_rows_end_at_the_largest_tilt():
    tilt = tilts(FEATURES, BASE[:1], np.full((1, 3), 50.0), start=np.zeros(3), steps=30, largest=6.0)
    assert tilt.tolist() == [[6.0, 6.0, 6.0]]


def test_many_at_a_time_are_as_each_alone():
    alone = [tilts(FEATURES, BASE[[k]], TARGETS[[k]], start=np.zeros(3), steps=30)[0] for k in range(4)]
    assert found() == pytest.approx(np.array(alone), abs=1e-8)


def test_rows_of_weight_zero_count_for_nothing_wherever_they_lie():
    far = np.append(FEATURES, [[1e4, 1e4, 1e4]], axis=0)
    base = np.column_stack([BASE, np.zeros(4)])
    tilt = tilts(far, base, TARGETS, start=np.zeros(3), steps=30)
    assert tilt == pytest.approx(found(), abs=1e-8)
    assert (tilted_weights(far, base, tilt)[:, -1] == 0.0).all()

"""Released Hessians and squared scores: what noise and few public people do where much was cut away."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.inference import draws
from hdpstats.inference.released_sandwich import _completed, _noise
from hdpstats.public.sandwich import sandwich_side
from hdpstats.records.sandwich import SandwichPart
from tests.unit.inference.sides import BETA, public_side

RARE = np.array([-3.6, *BETA[1:]])


def asked(scores):
    return SandwichPart(share=Fraction(1, 10), curvature=4.0, scores=scores)


def test_noise_of_a_completed_matrix_is_what_draws_of_it_have():
    rng, n = np.random.default_rng(4), 1000
    root = rng.standard_normal((3, 3))
    whole = root @ root.T + 0.2 * np.eye(3)
    cut = 0.3 * whole + 0.1 * np.diag([1.0, 0.4, 0.2])
    noise = draws.symmetric(draws.generator("a" * 64), 3, sd=20.0, count=40_000)
    found = np.var(_completed(n * cut + noise, whole, cut, records=n), axis=0)
    assert _noise(whole - cut, np.linalg.inv(cut), sd=20.0) == pytest.approx(found, rel=0.04)
    assert np.all(np.diag(found) > 5.0 * np.diag(np.var(noise, axis=0)))


def test_squared_scores_of_a_rare_outcome_are_expectations_by_the_model():
    side, rng, part = public_side(), np.random.default_rng(2), asked(0.3)
    p = side.loss.mean(side.X @ RARE)
    without = sandwich_side(side).cut_moments(RARE, part)
    outcomes = (rng.random((4000, len(p))) < p).astype(float)
    lengths, found = np.sum(side.X**2, axis=1), []
    for y in outcomes:
        square = side.mallows**2 * (y - p) ** 2
        cut = np.minimum(square, part.scores / lengths)
        found.append([side.X.T @ (each[:, None] * side.X) / len(p) for each in (square, cut)])
    whole, cut = np.mean(found, axis=0)
    for with_outcomes in (side, replace(side, y=outcomes[0])):
        full, short = (each.J for each in sandwich_side(with_outcomes).cut_moments(RARE, part))
        assert full == pytest.approx(whole, rel=0.1, abs=0.02 * np.trace(whole))
        assert short == pytest.approx(cut, rel=0.1, abs=0.02 * np.trace(cut))
        assert short == pytest.approx(without[1].J)
    assert np.trace(cut) < 0.4 * np.trace(whole)


def test_weightings_of_public_people_weigh_all_four_averages():
    side, part = sandwich_side(public_side(n=80)), asked(0.3)
    shares = np.array([np.full(80, 1 / 80), np.arange(80) / np.sum(np.arange(80))])
    for plain, stacked in zip(
        side.cut_moments(BETA, part), side.cut_moments(BETA, part, row_weights=shares), strict=True
    ):
        for one, many in ((plain.H, stacked.H), (plain.J, stacked.J)):
            assert many.shape == (2, 3, 3)
            assert many[0] == pytest.approx(one)
            assert np.abs(many[1] - one).max() > 0.01 * np.abs(one).max()


def test_what_is_no_regression_tells_of_no_squared_scores():
    assert sandwich_side(None) is None
    assert sandwich_side(public_side()) is not None

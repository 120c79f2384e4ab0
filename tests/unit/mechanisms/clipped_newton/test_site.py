"""One round: the total map, exact sums, constants derived a second time, noise as announced."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.clipped_newton import site as gradient
from hdpstats.mechanisms.score_sums import grid_sum
from hdpstats.noise.knorm import BallNoise
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.gaussian import mu_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel
from tests import chance, rounds

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)

noisy_sums = partial(rounds.noisy_sums, scores=gradient.clipped_scores, release=ClippedNewtonRelease)


def make_query(*, clip=Fraction(2.7), delta=DELTA, share=Fraction(1, 4), slopes=2):
    geometry = from_box([-1.0] * slopes, [1.0] * slopes, intercept=True)
    return ClippedNewtonQuery(
        model=RegressionModel(formula="y ~ x", loss="logistic", geometry=geometry),
        theta=(0.1,) + (-0.2,) * slopes,
        clip=clip,
        epsilon=EPSILON,
        delta=delta,
        mu_squared=mu_of(EPSILON, delta) ** 2 * share if delta else Fraction(0),
        schema_sha256="a" * 64,
        public_sha256=None,
    )


def make_people(n=50, slopes=2):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, slopes)) * 3.0])
    return RegressionRows(
        loss=LogisticLoss(), X=X, y=(rng.uniform(size=n) < 0.4).astype(float), weights=np.ones(n), offset=np.zeros(n)
    )


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("slopes", [1, 30])
def test_the_constants_are_those_of_the_docstring(relation, slopes):
    query = make_query(slopes=slopes)
    found = gradient.calibrate(query, relation=relation, total=Fraction(1))
    persons = {Relation.REPLACE_ONE: 2, Relation.ADD_OR_REMOVE_ONE: 1}[relation]
    grid = Fraction(2) * Fraction(1, 2**30)  # the largest power of two below 2.7, and its 2^30-th part
    assert found.grid == grid
    exact = persons * (2.7 * (1 + 2.0**-40) + float(grid) * math.sqrt(slopes + 1) / 2)
    assert float(found.sensitivity.value) == pytest.approx(exact, rel=1e-15)
    assert found.noise.sd >= found.sensitivity.value / mu_of(EPSILON, DELTA) * 2
    assert found.noise_sd == pytest.approx(exact / float(mu_of(EPSILON, DELTA)) * 2, rel=1e-12)
    assert (found.event.ran, found.event.mu_squared) == (MechanismName.GRADIENT, query.mu_squared)
    assert (found.event.epsilon, found.event.delta) == (EPSILON, DELTA)


@pytest.mark.parametrize("relation", list(Relation))
def test_without_a_delta_the_noise_is_pure(relation):
    found = gradient.calibrate(make_query(delta=Fraction(0)), relation=relation, total=Fraction(1))
    assert isinstance(found.noise, BallNoise)
    assert found.event.cost.epsilon == EPSILON
    assert found.event.delta == found.event.mu_squared == 0
    # rate per lattice step times the lattice steps that a person moves is epsilon, and hardly less.
    assert 1 - Fraction(1, 10**9) <= found.noise.rate * (found.sensitivity.value / found.grid) / EPSILON <= 1
    assert found.noise_sd == pytest.approx(2.0 * float(found.sensitivity.value), rel=1e-9)  # sqrt(D + 1) = 2


def test_more_coefficients_than_the_margin_covers_are_refused():
    with pytest.raises(MechanismError, match="2000"):
        gradient.calibrate(replace_dimension(2001), relation=Relation.REPLACE_ONE, total=Fraction(1))
    assert gradient.calibrate(replace_dimension(2000), relation=Relation.REPLACE_ONE, total=Fraction(1)).grid > 0


def replace_dimension(dimension):
    query = make_query(slopes=1)
    geometry = from_box([-1.0] * (dimension - 1), [1.0] * (dimension - 1), intercept=True)
    return replace(query, model=replace(query.model, geometry=geometry), theta=(0.0,) * dimension)


def test_short_scores_stay_and_long_ones_are_shortened():
    scores = np.array([[3.0, 4.0], [0.3, 0.4], [-30.0, -40.0], [0.0, 0.0], [1e-300, 0.0]])
    found = gradient.clipped(scores, 2.5)
    assert found == pytest.approx(
        np.array([[1.5, 2.0], [0.3, 0.4], [-1.5, -2.0], [0.0, 0.0], [1e-300, 0.0]]), rel=1e-15
    )


@pytest.mark.parametrize("n", [512, 128 * 5 + 1])
def test_scores_are_clipped_alike_however_they_are_kept_and_wherever_they_stand(n):
    rng = np.random.default_rng(n)
    scores = rng.standard_normal((n, 3)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    extremes = [math.nan, math.inf, -math.inf, 1e300, -1.7e308, 5e-324, 0.0, -0.0]
    scores[:: n // 16, 1] = np.resize(extremes, len(scores[:: n // 16]))
    scores[-1] = [1.0, 2.0, math.nan]
    found = gradient.clipped(np.asfortranarray(scores), 2.5)
    np.testing.assert_array_equal(found, gradient.clipped(scores, 2.5))
    np.testing.assert_array_equal(found, np.concatenate([gradient.clipped(row[None, :], 2.5) for row in scores]))
    assert np.array_equal(grid_sum(found, grid=2.0**-29), np.rint(found * 2.0**29).sum(axis=0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, -1.7e308])
def test_a_score_that_is_not_finite_spoils_nobody_else_s(bad):
    # 1e300 is finite, but its square is not: 1 / infinity times it must be 0, and no NaN.
    scores = np.array([[1.0, 0.5], [bad, 1.0], [0.2, -0.1]])
    found = gradient.clipped(scores, 2.5)
    assert np.array_equal(found[[0, 2]], scores[[0, 2]])
    assert np.all(np.isfinite(found))
    assert np.linalg.norm(found[1]) <= 2.5 * (1 + 2.0**-40)


def test_no_clipped_score_is_longer_than_is_counted():
    # Fails if the clip were an exact bound: floats exceed it, by less than the margin.
    rng = np.random.default_rng(5)
    excess = 0.0
    for dimension, rows in ((1, 400), (3, 400), (40, 400), (2000, 20)):
        scores = rng.standard_normal((rows, dimension)) * 10.0 ** rng.uniform(-2, 12, (rows, 1))
        clip = float(rng.uniform(0.5, 5.0))
        for row in gradient.clipped(scores, clip):
            square = sum((Fraction(value) ** 2 for value in row.tolist()), Fraction(0))
            assert square <= (Fraction(clip) * gradient.ROUNDING) ** 2
            excess = max(excess, float(square / Fraction(clip) ** 2 - 1))
    assert 0.0 < excess < 2.0**-40


def test_the_sum_is_exact_whatever_the_order():
    rng = np.random.default_rng(6)
    rows = gradient.clipped(rng.standard_normal((20_000, 3)) * 5.0, 2.7)
    grid = float(gradient.calibrate(make_query(), relation=Relation.REPLACE_ONE, total=Fraction(1)).grid)
    total = grid_sum(rows, grid=grid)
    assert np.array_equal(total, grid_sum(rows[rng.permutation(len(rows))], grid=grid))
    by_hand = [sum(round(Fraction(value) / Fraction(grid)) for value in column) for column in rows.T.tolist()]
    assert total.tolist() == by_hand


def test_the_largest_sum_fits_into_the_integers():
    # 2^31 people at the clip: the sum of that many largest numbers stays below 2^63.
    query = make_query(clip=Fraction(math.nextafter(4.0, 0.0)))
    grid = gradient.calibrate(query, relation=Relation.REPLACE_ONE, total=Fraction(1)).grid
    assert 2**31 * (query.clip * gradient.ROUNDING / grid + 1) < 2**63


@pytest.mark.entropy
def test_a_round_is_the_sum_of_clipped_scores_plus_lattice_noise_of_the_announced_size():
    query, people = make_query(), make_people()
    calibration = gradient.calibrate(query, relation=Relation.REPLACE_ONE, total=Fraction(1))
    exact = gradient.clipped(people.scores(np.array(query.theta)), float(query.clip)).sum(axis=0)
    drawn = noisy_sums(query, calibration, people, count=400)
    assert np.all(drawn / float(calibration.grid) == np.rint(drawn / float(calibration.grid)))
    errors = (drawn - exact) / calibration.noise_sd
    # 1200 standard normal numbers: exact tails, a false alarm of 1e-9 in two checks. Noise 1.5 times too small or too
    # large, or a sum that is wrong by half a standard deviation, passes with no more.
    alarm = chance.ALARM / 2
    assert chance.square_sum_fits(errors, 1.0, alarm=alarm)
    assert max(chance.miss_of_gamma_sum(600, factor, alarm=alarm) for factor in (2.25, 1 / 2.25)) <= chance.ALARM
    assert abs(errors.sum()) < chance.normal_reach(alarm=alarm) * math.sqrt(errors.size)
    assert 0.5 * math.sqrt(errors.size) > 2 * chance.normal_reach(alarm=alarm)


def test_scores_are_those_of_the_query_s_coefficients():
    # Fails if a round were evaluated at zero or with an unclipped sum.
    query, people = make_query(clip=Fraction(2.0**-20)), make_people()
    calibration = gradient.calibrate(query, relation=Relation.REPLACE_ONE, total=Fraction(1))
    (found,) = noisy_sums(query, calibration, people)
    assert np.all(np.abs(found) < 50 * 2.0**-20 + 20 * calibration.noise_sd)
    seen = []

    class Spy:
        def cut_scores(self, theta, cut):
            seen.append(theta)
            return cut(np.zeros((1, 3)))

    noisy_sums(query, calibration, Spy())
    assert seen[0].tolist() == list(query.theta)

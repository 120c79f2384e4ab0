"""The clip of scores: how it grows with people and epsilon, what it may do, and what that is without a clip."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.outcomes import ListedOutcomes, ResidualOutcomes, centred_residuals
from hdpstats.losses import BoundedSquares, LogisticLoss
from hdpstats.mechanisms.clipped_newton.clip import Clipping
from hdpstats.mechanisms.clipped_newton.expectations import expected, response_of, score_quantile
from hdpstats.mechanisms.clipped_newton.matching import MISSED, Averaging
from hdpstats.mechanisms.score_sums import clipped
from hdpstats.public.row_weights import UnseenPeople

THETA = np.array([-0.5, 0.8])
SLOPES = np.arange(3)
RNG = np.random.default_rng(30)
X = np.column_stack([np.ones(800), RNG.exponential(size=800) - 1.0])
NOISE = 30.0
"""Standard deviations per unit of the clip: about those of epsilon .3."""


ONCE = Averaging(costs=(1.0,), noise=1.0, first=0.0, slopes=SLOPES)
"""One round, asked at the truth."""


def binary(X=X):
    return ListedOutcomes(loss=LogisticLoss(), X=X, weights=np.ones(len(X)), offset=np.zeros(len(X)))


def clipping(**options):
    given = {"apart": 0.15, "unit": 1.0, "unseen": None, "costs": (0.1, 0.3, 0.6), "grows": 0.0} | options
    return Clipping(outcomes=binary(), theta=THETA, own=np.array([1]), blocks=[np.arange(2)], first=0, **given)


def test_the_clip_grows_until_it_cuts_nobody():
    found = [float(clipping().chosen([(people, NOISE)])) for people in (1_000, 30_000, 10**6, 10**8)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(score_quantile(binary(), THETA, level=0.95), rel=0.01)
    assert found[-1] >= score_quantile(binary(), THETA, level=1.0)


def test_a_clip_reaches_far_people_whose_residuals_may_be_larger():
    """Where the model does not bound residuals they may grow by a public one for each standard deviation."""
    far = UnseenPeople(X=np.array([[1.0, 12.0]]), shares=np.array([1e-4]), farthest=12.0)
    bounded, grown = (clipping(unseen=far, grows=each) for each in (0.0, 1.0))
    g, _, chances = bounded._cells
    root = np.sqrt(float(chances @ np.sum(g**2, axis=1)) / 2.0)
    length = np.hypot(1.0, 12.0)
    assert bounded._longest == pytest.approx(max(root * length, np.max(np.linalg.norm(g, axis=1))))
    assert grown._longest == pytest.approx(root * length * np.hypot(1.0, length))
    assert grown.chosen([(10**7, NOISE)]) >= 3 * bounded.chosen([(10**7, NOISE)])


def test_a_clip_is_found_where_most_public_people_have_no_weight():
    """The quantile from which clips are tried is 0 there."""
    few = ListedOutcomes(loss=LogisticLoss(), X=X, weights=1.0 * (np.arange(len(X)) % 25 == 0), offset=np.zeros(len(X)))
    assert score_quantile(few, THETA, level=0.95) == 0.0
    found = float(replace(clipping(), outcomes=few).chosen([(10**8, NOISE)]))
    assert 0.0 < found <= 2.0 * score_quantile(few, THETA, level=1.0)


def test_several_sites_have_one_clip_that_of_all_their_people():
    alone, several = (clipping().chosen(sites) for sites in ([(20_000, NOISE)], [(20_000, NOISE)] * 30))
    assert several > alone
    assert clipping().chosen([(600_000, NOISE)]) >= several


def test_without_a_clip_only_the_distance_counts():
    longest = Fraction(score_quantile(binary(), THETA, level=1.0))
    found = clipping().allowance(longest, clipping().averaging(longest, [(1_000, 1e4)]))
    # The first round is asked .2 from the truth, of which a fifth is missed; and so on. Noise says how they count.
    first, second = 0.2, MISSED * 0.2
    third = MISSED * (0.1 * first + 0.3 * second) / 0.4
    assert found.share == pytest.approx(0.0, abs=1e-12)
    assert np.sqrt(found.covariance[1, 1]) == pytest.approx(
        MISSED * (0.1 * first + 0.3 * second + 0.6 * third), rel=1e-6
    )
    once = clipping(costs=(1.0,))
    found = once.allowance(longest, once.averaging(longest, [(1_000, 1e4)]))
    assert found.covariance[1, 1] == pytest.approx((MISSED * 0.2) ** 2, rel=1e-6)


def test_what_distances_hide_falls_as_people_become_many():
    longest = Fraction(score_quantile(binary(), THETA, level=1.0))
    hidden = [
        np.sqrt(clipping().allowance(longest, clipping().averaging(longest, [(people, NOISE)])).covariance[1, 1])
        for people in (1_000, 30_000, 10**6, 10**8)
    ]
    assert hidden == sorted(hidden, reverse=True)
    assert hidden[-1] < 0.3 * hidden[0]


def test_rounds_are_averaged_by_the_noise_of_all_sites_for_each_person():
    """Two sites that are alike have half of the noise of one; a site that is nearly all noise changes nothing."""
    longest = Fraction(score_quantile(binary(), THETA, level=1.0))
    alone, two, and_noise = (
        clipping().averaging(longest, sites).noise
        for sites in ([(20_000, NOISE)], [(20_000, NOISE)] * 2, [(20_000, NOISE), (1, 1e6)])
    )
    assert two == pytest.approx(alone / 2.0)
    assert and_noise == pytest.approx(alone, rel=1e-3)
    information = expected(binary(), THETA, asked=[(THETA, 1.0)], clip=float(longest)).information[1, 1]
    assert alone == pytest.approx((NOISE * float(longest) / (20_000 * information)) ** 2, rel=1e-2)


def test_the_allowance_holds_what_the_clip_does_to_people_whose_slope_changes():
    """Private people like the public ones, but that those with a large covariate have another slope by ``tau``."""
    tau, outcomes = 0.3, binary()
    eta = X @ THETA + tau * np.maximum(X[:, 1] - 1.0, 0.0)
    chance = 1.0 / (1.0 + np.exp(-eta))
    ordinary = root_of(lambda theta: X.T @ (1.0 / (1.0 + np.exp(-X @ theta)) - chance))
    for level in (0.5, 0.8, 0.95):
        clip = score_quantile(outcomes, THETA, level=level)

        def sum_at(theta, clip=clip):
            at = outcomes.gradients(theta, slice(0, len(X)))
            short = clipped(at.reshape(-1, 2), clip).reshape(at.shape)
            return np.mean((1.0 - chance)[:, None] * short[:, 0] + chance[:, None] * short[:, 1], axis=0)

        theta = ordinary
        for _ in range(30):  # asked at the solution itself, so that only the clip counts
            told = expected(outcomes, theta, asked=[(theta, 1.0)], clip=clip)
            theta = theta + response_of(told.information) @ (told.mean - sum_at(theta))
        found = clipping(apart=tau).allowance(Fraction(clip), ONCE)
        assert 0.1 * abs(theta[1] - ordinary[1]) < np.sqrt(found.covariance[1, 1])
        assert abs(theta[1] - ordinary[1]) < 2.0 * np.sqrt(found.covariance[1, 1])


def root_of(score):
    theta = THETA
    for _ in range(40):
        steps = 1e-5 * np.eye(2)
        slope = np.column_stack([(score(theta + s) - score(theta - s)) / 2e-5 for s in steps])
        theta = theta - np.linalg.solve(slope, score(theta))
    return theta


def test_without_a_clip_scores_of_squares_have_a_mean_of_zero_at_the_prediction():
    """Also where predictions plus residuals leave the declared range."""
    y = np.clip(RNG.exponential(size=800) + 0.4 * X[:, 1], 0.0, 5.0)
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    outcomes = ResidualOutcomes(
        loss=BoundedSquares(lower=0.0, upper=5.0),
        X=X,
        weights=np.ones(800),
        offset=np.zeros(800),
        residuals=centred_residuals(y - X @ theta),
        theta=theta,
    )
    assert expected(outcomes, theta, asked=[(theta, 1.0)], clip=1e6).mean == pytest.approx(0.0, abs=1e-12)


@pytest.mark.wide
def test_clipped_fits_to_real_people_are_off_by_less_than_an_error():
    """At the 95 % quantile of scores, without an allowance, they are off by 8 standard errors."""
    people, public = (
        frame.assign(nodes=frame["nodes"].clip(upper=40))
        for frame in (hdp.datasets.load_rotterdam().dropna(subset=["event3"]), hdp.datasets.load_gbsg())
    )
    schema = hdp.Schema(
        event3=hdp.Binary(complete=True),
        age=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 40, complete=True),
        hormon=hdp.Binary(complete=True),
    )
    formula = "event3 ~ age + nodes + hormon"
    private = people.iloc[np.arange(100_000) % len(people)].reset_index(drop=True)
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=400, delta=1e-4))
    ordinary = hdpf.logit(formula, hdp.Study(public=people, schema=schema)).fit_public().params
    model = hdpf.logit(formula, study)
    result = model.fit(epsilon=50, delta=1e-6, mechanism="clipped_newton").private_only
    assert np.max(np.abs(result.params - ordinary) / result.bse) < 1.0
    told = model.plan(50, delta=1e-6, mechanism="clipped_newton").frame
    assert told["private_only"].to_numpy() == pytest.approx(result.bse.to_numpy(), rel=0.4)

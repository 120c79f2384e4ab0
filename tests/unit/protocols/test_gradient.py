"""Rounds as data flow: consistent whatever the clip, with the covariance that is announced, and one query at a time."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.design.geometry import from_box
from hdpstats.losses import Logistic
from hdpstats.mechanisms.gradient import clipped
from hdpstats.privacy.event import PrivacyEvent, Ran
from hdpstats.privacy.gaussian import delta_of_square, mu_of
from hdpstats.protocols.gradient import PROPORTIONS, Rounds, advance, check_enough, clip_at, costs_of
from hdpstats.protocols.matching import Answer, Matched, expected, match, score_quantile
from hdpstats.protocols.moments import PublicFit
from hdpstats.protocols.outcomes import BinaryOutcomes
from hdpstats.queries import GradientQuery, GradientRelease, RegressionModel

TRUTH = np.array([-0.5, 0.8, -0.4])
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)


def people(rng, n):
    return np.column_stack([np.ones(n), rng.standard_normal((n, 2))])


def binary(X):
    return BinaryOutcomes(loss=Logistic(), X=X, weights=np.ones(len(X)), offset=np.zeros(len(X)))


def flat_fit(theta=TRUTH + 0.7):
    return PublicFit(theta=theta, covariance=1e6 * np.eye(3), information=1e-6 * np.eye(3))


def test_expectations_are_sums_over_people_and_outcomes():
    made, theta, clip = binary(people(np.random.default_rng(0), 5)), TRUTH, 0.9
    asked = [(TRUTH + 0.3, 0.25), (TRUTH - 0.2, 0.75)]
    rows, slopes, weights = [], [], []
    for x in made.X:
        for y in (0.0, 1.0):
            g = np.zeros(3)
            for at, share in asked:
                s = (1.0 / (1.0 + np.exp(-x @ at)) - y) * x
                g += share * s * min(1.0, clip / np.linalg.norm(s))
            p = 1.0 / (1.0 + np.exp(-x @ theta))
            rows.append(g)
            slopes.append((y - p) * x)
            weights.append((p if y else 1.0 - p) / 5.0)
    rows, slopes, weights = np.array(rows), np.array(slopes), np.array(weights)
    found = expected(made, theta, asked=asked, clip=clip)
    assert found.mean == pytest.approx(weights @ rows, abs=1e-14)
    assert found.information == pytest.approx(-(weights[:, None] * rows).T @ slopes, abs=1e-14)
    assert found.covariance == pytest.approx(np.cov(rows.T, aweights=weights, ddof=0), abs=1e-14)
    given_people = (weights[:, None] * rows * 5.0).reshape(5, 2, 3).sum(axis=1)
    assert found.between == pytest.approx(np.cov(given_people.T, ddof=1), abs=1e-14)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.95])
def test_clipping_leaves_no_bias_where_people_are_alike(level):
    # Sums that equal their expectation under TRUTH must give TRUTH back, however hard scores were clipped.
    made, n = binary(people(np.random.default_rng(1), 300)), 10_000
    starts = [TRUTH + 0.7, TRUTH + np.array([0.1, -0.2, 0.1]), TRUTH + 0.02]
    clip = score_quantile(made, TRUTH, level=level)
    answers = [
        Answer(
            theta=start, total=n * expected(made, TRUTH, asked=[(start, 1.0)], clip=clip).mean, noise_sd=1.0 / (k + 1)
        )
        for k, start in enumerate(starts)
    ]
    found = match(made, flat_fit(), answers, clip=clip, records=n)
    assert found.private == pytest.approx(TRUTH, abs=1e-6)
    assert found.pooled == pytest.approx(TRUTH, abs=1e-5)
    # The control: a clipped score of mean zero at the truth, as an unclipped one has, is wrong by much more.
    bias = expected(made, TRUTH, asked=[(TRUTH, 1.0)], clip=clip)
    assert np.max(np.abs(np.linalg.solve(bias.information, bias.mean))) > 1e-3


def drawn(rng, *, n, n_public, start, clip, noise_sd):
    """Return the private estimate of one simulated fit with its parts."""
    X = people(rng, n)
    y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-X @ TRUTH))).astype(float)
    scores = (1.0 / (1.0 + np.exp(-X @ start)) - y)[:, None] * X
    total = clipped(scores, clip).sum(axis=0) + rng.normal(0.0, noise_sd, 3)
    answers = [Answer(theta=start, total=total, noise_sd=noise_sd)]
    return match(binary(people(rng, n_public)), flat_fit(start), answers, clip=clip, records=n)


@pytest.mark.parametrize("noise_sd", [0.1, 40.0])
def test_the_announced_covariance_is_that_of_the_errors(noise_sd):
    rng, repeats = np.random.default_rng(2), 300
    start, clip, n, n_public = TRUTH + np.array([0.3, -0.5, 0.4]), 1.2, 2000, 300
    sizes, without = [], []
    for _ in range(repeats):
        found = drawn(rng, n=n, n_public=n_public, start=start, clip=clip, noise_sd=noise_sd)
        error = np.linalg.solve(found.response, found.private - TRUTH)
        noise = found.noise * np.eye(3)
        sizes.append(error @ np.linalg.solve(found.sampling + noise, error))
        at = expected(binary(people(rng, n_public)), TRUTH, asked=[(start, 1.0)], clip=clip)
        without.append(error @ np.linalg.solve(n * at.covariance, error))
    # Chi-squared with 3 degrees of freedom: mean 3, standard error of a mean of 300 sqrt(6 / 300) = .14.
    assert np.mean(sizes) == pytest.approx(3.0, abs=0.6)
    assert np.mean(without) > 4.2  # the control: neither noise nor the sampling of public people


def test_noise_that_drowns_the_sum_leaves_the_public_fit():
    rng = np.random.default_rng(3)
    fit = PublicFit(theta=TRUTH + 0.2, covariance=0.01 * np.eye(3), information=100.0 * np.eye(3))
    answers = [Answer(theta=fit.theta, total=rng.normal(0.0, 1e7, 3), noise_sd=1e7)]
    found = match(binary(people(rng, 200)), fit, answers, clip=1.0, records=1000)
    assert found.pooled == pytest.approx(fit.theta, abs=1e-3)
    assert np.all(np.isfinite(found.private))


def test_a_public_fit_that_is_far_off_loses_its_say():
    rng, n = np.random.default_rng(4), 200_000
    made = binary(people(rng, 400))
    fit = PublicFit(theta=TRUTH + 1.5, covariance=0.01 * np.eye(3), information=100.0 * np.eye(3))
    start, clip = TRUTH + 0.05, 1.5
    total = n * expected(made, TRUTH, asked=[(start, 1.0)], clip=clip).mean
    found = match(made, fit, [Answer(theta=start, total=total, noise_sd=50.0)], clip=clip, records=n)
    assert np.min(np.diag(found.between)) > 0.5
    assert found.pooled == pytest.approx(TRUTH, abs=0.02)
    assert found.private == pytest.approx(TRUTH, abs=1e-3)


def test_the_quantile_of_scores_counts_outcomes_by_their_probability():
    made = binary(np.array([[1.0, 0.0, 0.0]] * 4))
    theta = np.array([np.log(0.1 / 0.9), 0.0, 0.0])  # p = .1: the score is .9 with probability .1, else .1
    assert score_quantile(made, theta, level=0.89) == pytest.approx(0.1)
    assert score_quantile(made, theta, level=0.95) == pytest.approx(0.9)
    assert clip_at(made, theta, level=0.95) == Fraction(231, 256)  # .9 up to 8 binary digits


@pytest.mark.parametrize("rounds", PROPORTIONS)
def test_rounds_share_all_that_may_be_spent(rounds):
    costs = costs_of(EPSILON, DELTA, rounds=rounds)
    whole = mu_of(EPSILON, DELTA) ** 2
    assert len(costs) == rounds
    assert (1 - Fraction(1, 10**15)) * whole <= sum(costs) <= whole
    assert delta_of_square(EPSILON, sum(costs)) <= DELTA
    assert sorted(costs) == list(costs)


def test_without_a_delta_there_is_one_round():
    assert costs_of(EPSILON, Fraction(0), rounds=1) == (Fraction(0),)
    with pytest.raises(MechanismError, match="needs a delta"):
        costs_of(EPSILON, Fraction(0), rounds=3)


def test_too_few_public_people_are_refused():
    check_enough(binary(people(np.random.default_rng(5), 36)))
    with pytest.raises(MechanismError, match=r"12 .* per coefficient, here 36, and there are 35") as caught:
        check_enough(binary(people(np.random.default_rng(5), 35)))
    assert caught.value.available == ("objective",)


def make_state(**changes):
    made = binary(people(np.random.default_rng(6), 100))
    fit = PublicFit(theta=TRUTH + 1 / 3, covariance=0.1 * np.eye(3), information=10.0 * np.eye(3))
    geometry = from_box([-1.0, -1.0], [1.0, 1.0], intercept=True)
    fields = {
        "model": RegressionModel(formula="y ~ x", loss="logistic", geometry=geometry),
        "outcomes": made,
        "fit": fit,
        "records": 5000,
        "records_sd": 0.0,
        "clip": Fraction(1),
        "costs": costs_of(EPSILON, DELTA, rounds=3),
        "epsilon": EPSILON,
        "delta": DELTA,
        "schema_sha256": "a" * 64,
        "public_sha256": "b" * 64,
        "replicate": 4,
    }
    return Rounds(**(fields | changes))


def answered(query, *, noise_sd=30.0, shift=0.0):
    state = make_state()
    total = 5000 * expected(state.outcomes, TRUTH, asked=[(np.array(query.theta), 1.0)], clip=1.0).mean
    event = PrivacyEvent(ran=Ran.GRADIENT, epsilon=EPSILON, delta=DELTA, mu_squared=query.mu_squared)
    numbers = tuple((total * (1.0 + shift)).tolist())
    return GradientRelease(total=numbers, noise_sd=noise_sd, grid=2.0**-30, records=5000, events=(event,))


def rounds_of(state, **options):
    asked, releases = [], []
    while isinstance(step := advance(state, asked, releases), GradientQuery):
        asked.append(step)
        releases.append(answered(step, **options))
    return asked, releases, step


def test_a_fit_is_a_query_for_every_cost_and_then_the_estimates():
    state = make_state()
    asked, _, found = rounds_of(state)
    assert [query.mu_squared for query in asked] == list(state.costs)
    assert [query.ahead for query in asked] == [sum(state.costs[1:]), state.costs[2], 0]
    assert {(query.clip, query.replicate, query.public_sha256) for query in asked} == {(1, 4, "b" * 64)}
    assert np.array(asked[0].theta) == pytest.approx(state.fit.theta, abs=2.0**-20)
    distances = [np.linalg.norm(np.array(query.theta) - TRUTH) for query in asked]
    assert distances[1] < 0.2 * distances[0]
    assert isinstance(found, Matched)
    assert found.pooled == pytest.approx(TRUTH, abs=0.02)


def test_the_same_releases_give_the_same_queries_whatever_the_last_bits():
    # A site charges a query whose coefficients differ in the last bit: that must not hang on a linear algebra library.
    state = make_state()
    whole = [query.to_json() for query in rounds_of(state)[0]]
    assert [query.to_json() for query in rounds_of(state, shift=1e-13)[0]] == whole
    assert all(value * 2**20 == round(value * 2**20) for query in rounds_of(state)[0] for value in query.theta)


def test_rounds_count_by_their_precision():
    state = make_state()
    asked, releases, _ = rounds_of(state)
    # A round that was spoiled by noise that it announces changes nothing; one that hides it does.
    spoiled = replace(releases[0], total=tuple(value + 2000.0 for value in releases[0].total), noise_sd=1e6)
    clean = advance(state, asked, releases)
    assert advance(state, asked, [spoiled, *releases[1:]]).pooled == pytest.approx(clean.pooled, abs=0.01)
    hidden = advance(state, asked, [replace(spoiled, noise_sd=30.0), *releases[1:]]).pooled
    assert np.max(np.abs(hidden - clean.pooled)) > 0.1


def test_a_fit_of_one_round_ends_after_it():
    state = make_state(costs=costs_of(EPSILON, DELTA, rounds=1))
    asked = [advance(state, [], [])]
    assert asked[0].ahead == 0
    assert isinstance(advance(state, asked, [answered(asked[0])]), Matched)

"""Rounds as data flow: queries for every site from public state and releases, at what each site is to be charged."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.families.outcomes import ListedOutcomes
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.clipped_newton import ClippedNewtonRelease
from hdpstats.mechanisms.clipped_newton.expectations import expected, score_quantile
from hdpstats.mechanisms.clipped_newton.matching import Averaging, Matched
from hdpstats.mechanisms.clipped_newton.request import (
    PROPORTIONS,
    Rounds,
    advance,
    answers_of,
    check_enough,
    clip_at,
    costs_of,
)
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import delta_of_square, mu_of
from hdpstats.public.moments import PublicFit
from hdpstats.public.row_weights import Allowance
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel

TRUTH = np.array([-0.5, 0.8, -0.4])
SLOPES = np.arange(3)
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)


def people(rng, n):
    return np.column_stack([np.ones(n), rng.standard_normal((n, 2))])


def binary(X):
    return ListedOutcomes(loss=LogisticLoss(), X=X, weights=np.ones(len(X)), offset=np.zeros(len(X)))


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


def site(records=5000, *, epsilon=EPSILON, delta=DELTA, rounds=3):
    costs = costs_of(epsilon, delta, rounds=rounds)
    return SiteRounds(records=records, records_sd=0.0, epsilon=epsilon, delta=delta, costs=costs)


def make_state(sites=None):
    made = binary(people(np.random.default_rng(6), 100))
    fit = PublicFit(theta=TRUTH + 1 / 3, covariance=0.1 * np.eye(3), information=10.0 * np.eye(3))
    geometry = from_box([-1.0, -1.0], [1.0, 1.0], intercept=True)
    return Rounds(
        model=RegressionModel(formula="y ~ x", loss="logistic", geometry=geometry),
        outcomes=made,
        fit=fit,
        clip=Fraction(1),
        averaging=Averaging(costs=(0.1, 0.3, 0.6), noise=1e6, first=0.2, slopes=SLOPES),
        allowance=Allowance(share=0.0, covariance=np.zeros((3, 3))),
        sites={"A": site()} if sites is None else sites,
        schema_sha256="a" * 64,
        public_sha256="b" * 64,
        replicate=4,
    )


def answered(query, *, records=5000, noise_sd=30.0, shift=0.0):
    state = make_state()
    total = records * expected(state.outcomes, TRUTH, asked=[(np.array(query.theta), 1.0)], clip=1.0).mean
    event = PrivacyEvent(
        ran=MechanismName.GRADIENT, epsilon=query.epsilon, delta=query.delta, mu_squared=query.mu_squared
    )
    numbers = tuple((total * (1.0 + shift)).tolist())
    return ClippedNewtonRelease(total=numbers, noise_sd=noise_sd, grid=2.0**-30, records=records, events=(event,))


def rounds_of(state, *, silent=lambda name, rounds: False, **options):
    """Return queries, releases and estimates of a fit; ``silent`` says who does not answer in which round."""
    asked, releases = [], []
    while not isinstance(step := advance(state, asked, releases), Matched):
        given = {
            name: answered(query, records=state.sites[name].records, **options)
            for name, query in step.items()
            if not silent(name, len(asked) + 1)
        }
        asked.append(step)
        releases.append(given)
    return asked, releases, step


def test_a_fit_is_a_query_for_every_cost_and_then_the_estimates():
    state = make_state()
    rounds, _, found = rounds_of(state)
    assert [list(each) for each in rounds] == [["A"]] * 3
    asked, costs = [each["A"] for each in rounds], state.sites["A"].costs
    assert [query.mu_squared for query in asked] == list(costs)
    assert [query.ahead for query in asked] == [sum(costs[1:]), costs[2], 0]
    assert {(query.clip, query.replicate, query.public_sha256) for query in asked} == {(1, 4, "b" * 64)}
    assert np.array(asked[0].theta) == pytest.approx(state.fit.theta, abs=2.0**-20)
    distances = [np.linalg.norm(np.array(query.theta) - TRUTH) for query in asked]
    assert distances[1] < 0.2 * distances[0]
    assert found.pooled == pytest.approx(TRUTH, abs=0.02)


def test_the_same_releases_give_the_same_queries_whatever_the_last_bits():
    # A site charges a query whose coefficients differ in the last bit: that must not hang on a linear algebra library.
    state = make_state()
    whole = [each["A"].to_json() for each in rounds_of(state)[0]]
    assert [each["A"].to_json() for each in rounds_of(state, shift=1e-13)[0]] == whole
    assert all(value * 2**20 == round(value * 2**20) for each in rounds_of(state)[0] for value in each["A"].theta)


def test_rounds_count_by_their_precision():
    state = make_state()
    asked, releases, _ = rounds_of(state)
    first, rest = releases[0]["A"], releases[1:]
    # A round that was spoiled by noise that it announces changes nothing; one that hides it leads far, and counts less.
    spoiled = replace(first, total=tuple(value + 2000.0 for value in first.total), noise_sd=1e6)
    clean = advance(state, asked, releases)
    assert advance(state, asked, [{"A": spoiled}, *rest]).pooled == pytest.approx(clean.pooled, abs=0.01)
    hidden = advance(state, asked, [{"A": replace(spoiled, noise_sd=30.0)}, *rest]).pooled
    assert 0.005 < np.max(np.abs(hidden - clean.pooled)) < 0.05
    # Before they are read, rounds count by what they cost.
    told = answers_of(state, asked, releases)["A"]
    assert [share for _, share in told.asked] == pytest.approx([0.1, 0.3, 0.6], rel=1e-3)


def test_a_fit_of_one_round_ends_after_it():
    state = make_state({"A": site(rounds=1)})
    asked = [advance(state, [], [])]
    assert asked[0]["A"].ahead == 0
    assert isinstance(advance(state, asked, [{"A": answered(asked[0]["A"])}]), Matched)


def test_every_site_is_asked_at_the_same_place_for_its_own_epsilon():
    frugal = Fraction(1, 2)
    state = make_state({"A": site(), "B": site(800, epsilon=frugal), "C": site()})
    rounds, releases, found = rounds_of(state)
    assert [list(each) for each in rounds] == [["A", "B", "C"]] * 3
    for each in rounds:
        assert len({(query.theta, query.clip, query.model) for query in each.values()}) == 1
    for name in state.sites:
        asked = [each[name] for each in rounds]
        # What a site is to be charged is what it is charged alone: neither k times as much, nor a k-th of it.
        alone = mu_of(asked[0].epsilon, DELTA) ** 2
        assert (1 - Fraction(1, 10**15)) * alone <= sum(query.mu_squared for query in asked) <= alone
        assert [query.ahead for query in asked] == [asked[1].mu_squared + asked[2].mu_squared, asked[2].mu_squared, 0]
    assert {query.epsilon for query in (each["B"] for each in rounds)} == {frugal}
    assert found.pooled == pytest.approx(TRUTH, abs=0.02)
    assert len(found.weights) == 3
    assert [list(each) for each in releases] == [["A", "B", "C"]] * 3


def test_a_site_that_missed_a_round_is_out_of_the_later_ones_and_what_it_answered_counts():
    state = make_state({"A": site(), "B": site(), "C": site()})
    rounds, releases, found = rounds_of(state, silent=lambda name, rounds: name == "B" and rounds == 2)
    assert [list(each) for each in rounds] == [["A", "B", "C"], ["A", "B", "C"], ["A", "C"]]
    assert len(found.weights) == 3
    assert found.pooled == pytest.approx(TRUTH, abs=0.02)
    # The first answer of B is there: spoiling it changes the estimate.
    spoiled = replace(releases[0]["B"], total=tuple(value + 500.0 for value in releases[0]["B"].total))
    again = advance(state, rounds, [{**releases[0], "B": spoiled}, *releases[1:]])
    assert np.max(np.abs(again.pooled - found.pooled)) > 0.01


def test_a_site_that_never_answered_is_left_out():
    state = make_state({"A": site(), "B": site()})
    rounds, _, found = rounds_of(state, silent=lambda name, rounds: name == "B")
    alone = rounds_of(make_state({"A": site()}))[2]
    assert list(rounds[1]) == ["A"]
    assert np.array_equal(found.pooled, alone.pooled)
    assert found.weights == (1.0,)


def test_without_any_answer_there_is_no_estimate():
    state = make_state()
    with pytest.raises(MechanismError, match="no site answered"):
        advance(state, [advance(state, [], [])], [{}])


def test_the_next_queries_hang_on_public_state_and_releases_alone():
    # Same releases, same queries, whatever order the answers came in.
    state = make_state({"A": site(), "B": site(800)})
    rounds, releases, _ = rounds_of(state)
    shuffled = [dict(reversed(each.items())) for each in releases]
    for length in range(3):
        again = advance(state, rounds[:length], shuffled[:length])
        assert {name: query.to_json() for name, query in again.items()} == {
            name: query.to_json() for name, query in rounds[length].items()
        }

"""Public people with all their outcomes: probabilities, scores, and how long people would be followed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats.families import outcomes as listed
from hdpstats.families.hazard.bounds import HazardPeople
from hdpstats.families.hazard.outcomes import SurvivalOutcomes, followed_as_public, followed_to_horizon
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.families.multinomial.bounds import MultinomialPeople
from hdpstats.families.outcomes import LevelOutcomes, ListedOutcomes, ResidualOutcomes, centred_residuals
from hdpstats.families.regression.bounds import RegressionPeople
from hdpstats.losses import LINKS, BoundedSquares, LogisticLoss, PoissonLoss
from hdpstats.mechanisms.clipped_newton.expectations import expected

Q, E, P = 5, 3, 2


def make_spells(link, n=7, *, seed=0):
    rng = np.random.default_rng(seed)
    entry = rng.integers(0, 3, n)
    return CappedSpells(
        loss=LINKS[link],
        A=rng.uniform(-0.5, 0.5, (Q, E)),
        Z=rng.standard_normal((n, P)),
        entry=entry,
        last=np.full(n, Q),
        cause=np.zeros(n, dtype=np.int64),
        weights=rng.uniform(0.3, 1.0, n),
        offset=rng.uniform(-0.5, 0.5, n),
        cap_baseline=np.full((1, Q), 0.7),
        cap_slopes=np.zeros((1, P)),
        margin=0.0,
        total=1e4,
    )


def make_survival(link, n=7, *, seed=0):
    spells = make_spells(link, n, seed=seed)
    K = np.random.default_rng(seed + 1).uniform(size=(n, Q)) * (np.arange(1, Q + 1) > spells.entry[:, None])
    return SurvivalOutcomes(spells=spells, followed=K / K.sum(axis=1, keepdims=True), whole=n + 3)


def make_binary(n=7):
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return ListedOutcomes(loss=LogisticLoss(), X=X, weights=rng.uniform(0.3, 1.0, n), offset=rng.uniform(-1, 1, n))


def make_counts(n=7):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    loss = PoissonLoss(upper=6.0, cap=6.0)
    return ListedOutcomes(loss=loss, X=X, weights=rng.uniform(0.3, 1.0, n), offset=rng.uniform(-1, 3, n))


def make_levels(n=7):
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    return LevelOutcomes(others=2, X=X, weights=rng.uniform(0.3, 1.0, n))


def make_residuals(n=7):
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return ResidualOutcomes(
        loss=BoundedSquares(lower=-0.5, upper=0.5),
        X=X,
        weights=rng.uniform(0.3, 1.0, n),
        offset=0.1 * rng.uniform(-1, 1, n),
        residuals=centred_residuals(0.15 * rng.standard_normal(40)),
        theta=np.array([0.02, 0.05, -0.1]),
    )


MADE = {
    **{link: make_survival(link) for link in LINKS},
    "binary": make_binary(),
    "counts": make_counts(),
    "levels": make_levels(),
}
THETA = np.array([-1.2, 0.4, 0.3, 0.5, -0.6])


def theta_for(made):
    return THETA[: made.dimension]


@pytest.mark.parametrize("name", MADE)
def test_probabilities_add_up_to_one(name):
    made = MADE[name]
    distribution = made.distribution(theta_for(made), slice(0, made.people))
    assert np.all(distribution.probability >= 0.0)
    assert distribution.probability.shape == (made.people, made.size)
    assert distribution.probability.sum(axis=1) == pytest.approx(np.ones(made.people), abs=1e-13)


@pytest.mark.parametrize("name", MADE)
def test_the_score_is_the_slope_of_the_log_probability(name):
    made, everybody = MADE[name], slice(0, MADE[name].people)
    theta, step = theta_for(made), 1e-6
    distribution = made.distribution(theta, everybody)
    possible = distribution.probability > 0.0
    for j in range(made.dimension):
        shift = step * np.eye(made.dimension)[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.log(made.distribution(theta + shift, everybody).probability)
            down = np.log(made.distribution(theta - shift, everybody).probability)
            slope = (up - down) / (2 * step)
        assert distribution.score[:, :, j][possible] == pytest.approx(slope[possible], abs=2e-7)


def test_binary_gradients_are_what_a_site_computes():
    made = MADE["binary"]
    found = made.gradients(THETA[:3], slice(0, made.people))
    for y in (0, 1):
        people = RegressionPeople(
            loss=made.loss, X=made.X, y=np.full(made.people, float(y)), weights=made.weights, offset=made.offset
        )
        assert found[:, y] == pytest.approx(people.scores(THETA[:3]), abs=1e-15)


def test_residuals_are_those_of_public_rows_about_what_the_model_predicts():
    made, at = make_residuals(), np.array([0.1, -0.05, 0.02])
    found = made.gradients(at, slice(0, made.people))
    predicted = made.X @ made.theta + made.offset
    for k in (0, 13, 39):
        y = np.clip(predicted + made.residuals[k], -0.5, 0.5)
        people = RegressionPeople(loss=made.loss, X=made.X, y=y, weights=made.weights, offset=made.offset)
        assert found[:, k] == pytest.approx(people.scores(at), abs=1e-14)
    assert np.mean(made.residuals) == pytest.approx(0.0, abs=1e-12)
    assert np.all(np.diff(made.residuals) > 0.0)
    moved = made.at(made.theta + np.array([0.0, 0.3, 0.0]))
    assert moved.gradients(at, slice(0, 7)).shape == found.shape
    assert not np.allclose(moved.gradients(at, slice(0, 7)), found)


@pytest.mark.parametrize("clip", [10.0, 0.15])
def test_the_information_of_residuals_is_the_slope_of_the_expectation(clip):
    made, asked, step = make_residuals(), np.array([0.03, 0.02, -0.06]), 1e-3
    found = expected(made, made.theta, asked=[(asked, 1.0)], clip=clip)
    for j in range(3):
        shift = step * np.eye(3)[j]
        up, down = (expected(made, made.theta + sign * shift, asked=[(asked, 1.0)], clip=clip) for sign in (1, -1))
        slope = (up.mean - down.mean) / (2.0 * step)
        assert -found.information[:, j] == pytest.approx(slope, rel=0.15, abs=0.03)


def test_many_residuals_become_quantiles_and_equal_ones_are_moved_apart():
    many = centred_residuals(np.random.default_rng(0).standard_normal(5000))
    assert len(many) == 200
    assert np.std(many) == pytest.approx(1.0, abs=0.03)
    assert np.all(np.diff(centred_residuals(np.zeros(50))) > 0.0)


def test_gradients_of_counts_and_levels_are_what_a_site_computes():
    counts, levels = MADE["counts"], MADE["levels"]
    found = counts.gradients(THETA[:3], slice(0, counts.people))
    for y in range(7):
        people = RegressionPeople(
            loss=counts.loss, X=counts.X, y=np.full(7, float(y)), weights=counts.weights, offset=counts.offset
        )
        assert found[:, y] == pytest.approx(people.scores(THETA[:3]), abs=1e-13)
    found = levels.gradients(THETA[:4], slice(0, levels.people))
    for y in range(3):
        people = MultinomialPeople(others=2, X=levels.X, y=np.full(7, y), weights=levels.weights)
        assert found[:, y] == pytest.approx(people.scores(THETA[:4]), abs=1e-15)


@pytest.mark.parametrize("link", sorted(LINKS))
def test_survival_gradients_are_what_a_site_computes(link):
    made = MADE[link]
    found = made.gradients(THETA, slice(0, made.people))
    n, spells = made.people, made.spells
    for outcome in range(2 * Q):
        last, event = outcome % Q + 1, int(outcome < Q)
        there = spells.entry < last
        whole = CappedSpells(
            **{name: getattr(spells, name) for name in ("loss", "A", "Z", "entry", "weights", "offset")},
            last=np.maximum(np.full(n, last), spells.entry),
            cause=np.full(n, event),
            **{name: getattr(spells, name) for name in ("cap_baseline", "cap_slopes", "margin", "total")},
        )
        people = HazardPeople(spells=whole, person=np.arange(n), number=n)
        assert found[there, outcome] == pytest.approx(people.scores(THETA)[there], abs=1e-14)


@pytest.mark.parametrize("link", sorted(LINKS))
def test_probabilities_are_those_of_a_simulation(link):
    # Draws event and censoring one interval after the other: fails if events did not come before censorings.
    made, rng, draws = make_survival(link, n=1), np.random.default_rng(3), 40_000
    spells = made.spells
    eta = spells.predictor(THETA, slice(0, 1), slice(0, Q), 0)[0]
    p = spells.loss.hazard(eta)
    would = rng.choice(np.arange(1, Q + 1), draws, p=made.followed[0])
    fails = rng.uniform(size=(draws, Q)) < p
    fails[:, : spells.entry[0]] = False
    first = np.where(fails.any(axis=1), fails.argmax(axis=1) + 1, Q + 1)
    counted = [np.mean((first == s) & (s <= would)) for s in range(1, Q + 1)]
    counted += [np.mean((would == c) & (first > c)) for c in range(1, Q + 1)]
    expected = made.distribution(THETA, slice(0, 1)).probability[0]
    assert np.array(counted) == pytest.approx(expected, abs=5.0 * 0.5 / np.sqrt(draws))


@pytest.mark.parametrize("name", MADE)
def test_blocks_cover_everybody_once(name, monkeypatch):
    made = MADE[name]
    monkeypatch.setattr(listed, "NUMBERS", 3 * made.size * made.dimension)
    parts = list(made.blocks())
    assert len(parts) == 3
    assert np.concatenate([np.arange(made.people)[part] for part in parts]).tolist() == list(range(made.people))
    whole = made.gradients(theta_for(made), slice(0, made.people))
    assert np.concatenate([made.gradients(theta_for(made), part) for part in parts]) == pytest.approx(whole, abs=1e-15)


def histories():
    row = st.tuples(st.integers(0, Q - 1), st.integers(1, Q), st.integers(0, 1)).filter(lambda each: each[0] < each[1])
    return st.lists(row, min_size=1, max_size=12)


@given(histories())
def test_how_long_people_would_be_followed_is_a_distribution_that_fits_what_was_seen(rows):
    entry, last, event = (np.array(column) for column in zip(*rows, strict=True))
    K = followed_as_public(entry=entry, last=last, event=event, intervals=Q)
    assert np.all(K >= 0.0)
    assert K.sum(axis=1) == pytest.approx(np.ones(len(rows)), abs=1e-12)
    for i, (_, ends, happened) in enumerate(rows):
        if happened:
            assert not K[i, : ends - 1].any()
        else:
            assert K[i, ends - 1] == 1.0


def test_on_average_it_is_the_product_limit_estimate():
    # Efron's self-consistency; fails if events were taken to come after censorings of the same interval.
    rng = np.random.default_rng(4)
    n = 400
    censor, fail = rng.integers(1, Q + 1, n), rng.geometric(0.2, n)
    event, last = (fail <= censor).astype(int), np.minimum(fail, censor)
    K = followed_as_public(entry=np.zeros(n, dtype=int), last=last, event=event, intervals=Q)
    stays, survival = [], 1.0
    for c in range(1, Q + 1):
        at_risk = np.sum((last > c) | ((last == c) & (event == 0)))
        survival *= 1.0 - np.sum((last == c) & (event == 0)) / at_risk
        stays.append(survival)
    beyond = 1.0 - np.cumsum(K.mean(axis=0))
    assert beyond[:-1] == pytest.approx(np.array(stays)[:-1], abs=1e-12)


def test_late_entrants_are_at_risk_of_censoring_from_their_entry_on():
    # Two enter at 0, one leaves after 1; two enter at 1, one leaves after 2 and one has the event in 2.
    entry, last, event = np.array([0, 0, 1, 1]), np.array([1, 3, 2, 2]), np.array([0, 0, 0, 1])
    K = followed_as_public(entry=entry, last=last, event=event, intervals=3)
    assert K[3].tolist() == pytest.approx([0.0, 0.5, 0.5])  # at risk of leaving after 2: the second and the third


def test_administrative_follow_up_ends_at_the_horizon():
    assert followed_to_horizon(np.array([0, 2]), 3).tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("made", [MADE["logit"], MADE["binary"], make_residuals()])
def test_scores_are_kept_only_where_coefficients_do_not_change_them(made):
    asked, kept = [(0.1 * np.cos(np.arange(made.dimension)), 1.0)], {}
    for shift in (0.0, 0.2):
        theta = asked[0][0] + shift
        found, anew = (expected(made, theta, asked=asked, clip=0.3, kept=each) for each in (kept, None))
        assert np.array_equal(found.mean, anew.mean)
        assert np.array_equal(found.information, anew.information)
    assert bool(kept) == made.fixed

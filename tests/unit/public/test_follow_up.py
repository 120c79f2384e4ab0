"""Concordance, product-limit curves and Brier scores against definitions written as loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats.public.follow_up import (
    FollowUp,
    _dominated,
    brier_scores,
    concordance,
    integrated_brier,
    kaplan_meier,
    reaches,
)
from tests.examples import examples


def simulate(seed, n=60, causes=1, *, ties=6, entry=False, weights=False, people=None):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, ties - 1, n).astype(float) if entry else None
    low = np.zeros(n) if start is None else start
    return FollowUp(
        time=low + rng.integers(1, ties, n),
        cause=rng.integers(0, causes + 1, n),
        causes=causes,
        entry=start,
        weights=rng.uniform(0.5, 3.0, n) if weights else None,
        person=None if people is None else rng.integers(0, people, n),
    )


def pairs(rows, score, cause):
    """Credit and weight of every usable pair (event row, other row)."""
    w = rows.case_weights
    start = np.zeros(len(w)) if rows.entry is None else rows.entry
    event = rows.cause == cause
    for i in np.flatnonzero(event):
        for j in range(len(w)):
            later = rows.time[j] > rows.time[i] or (rows.time[j] == rows.time[i] and not event[j])
            if later and start[j] < rows.time[i]:
                yield i, j, w[i] * w[j], float(score[i] > score[j]) + 0.5 * float(score[i] == score[j])


def value_by_hand(rows, score, cause=1):
    found = [(weight, credit) for _, _, weight, credit in pairs(rows, score, cause)]
    total = sum(weight for weight, _ in found)
    return sum(weight * credit for weight, credit in found) / total, total


def error_by_hand(rows, score, cause=1, *, step=1e-6):
    """Infinitesimal jackknife: derivatives in the weights, by differences."""
    w = rows.case_weights
    influence = np.zeros(len(w))
    for k in range(len(w)):
        ends = [
            value_by_hand(replace(rows, weights=w + sign * step * np.eye(len(w))[k]), score, cause)[0]
            for sign in (1, -1)
        ]
        influence[k] = w[k] * (ends[0] - ends[1]) / (2 * step)
    if rows.person is not None:
        influence = np.array([influence[rows.person == person].sum() for person in np.unique(rows.person)])
    return np.sqrt(np.sum(influence**2))


KINDS = {
    "plain": {},
    "no ties": {"ties": 10_000},
    "entry": {"entry": True, "ties": 9},
    "weights": {"weights": True},
    "causes": {"causes": 2},
    "people": {"people": 15, "entry": True, "weights": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_concordance_is_the_share_of_ordered_pairs(kind, seed):
    rows = simulate(seed, **KINDS[kind])
    score = np.random.default_rng(seed + 100).integers(0, 8, len(rows.time)).astype(float)
    for cause in range(1, rows.causes + 1):
        found = concordance(rows, score, cause=cause)
        value, total = value_by_hand(rows, score, cause)
        assert found.value == pytest.approx(value, rel=1e-12)
        assert found.pairs == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_its_standard_error_is_the_infinitesimal_jackknife(kind):
    rows = simulate(5, n=25, **KINDS[kind])
    score = np.random.default_rng(6).integers(0, 8, len(rows.time)).astype(float)
    assert concordance(rows, score).std_error == pytest.approx(error_by_hand(rows, score), rel=1e-6)


def test_the_direction_of_the_score():
    rows = FollowUp(time=np.arange(1.0, 6.0), cause=np.ones(5, dtype=np.int64), causes=1)
    assert concordance(rows, -rows.time).value == 1.0
    assert concordance(rows, rows.time).value == 0.0
    assert concordance(rows, np.zeros(5)).value == 0.5


def test_without_usable_pairs_there_is_no_concordance():
    for cause in ([0, 0], [1, 1]):
        rows = FollowUp(time=np.ones(2), cause=np.array(cause), causes=1)
        found = concordance(rows, np.arange(2.0))
        assert np.isnan(found.value)
        assert np.isnan(found.std_error)
        assert found.pairs == 0.0


@examples(200)
@given(
    data=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=40),
    limits=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=20),
)
def test_weights_below_two_limits(data, limits):
    first, second, w = (np.array(part) for part in zip(*data, strict=True))
    a, b = (np.array(part) for part in zip(*limits, strict=True))
    expected = [w[(first < x) & (second < y)].sum() for x, y in limits]
    assert _dominated(first, second, w.astype(float), a, b).tolist() == expected


def curves_by_hand(rows):
    """Survival and incidence at every distinct time, by loops over risk sets."""
    w, alive = rows.case_weights, 1.0
    start = np.full(len(w), -1.0) if rows.entry is None else rows.entry
    S, F, found = [], [], np.zeros(rows.causes)
    for time in np.unique(rows.time):
        n = w[(start < time) & (rows.time >= time)].sum()
        d = np.array([w[(rows.time == time) & (rows.cause == k + 1)].sum() for k in range(rows.causes)])
        found = found + alive * d / n
        alive *= 1.0 - d.sum() / n
        S.append(alive)
        F.append(found)
    return np.array(S), np.array(F)


@pytest.mark.parametrize("kind", KINDS)
def test_product_limit_curves(kind):
    rows = simulate(1, n=200, **KINDS[kind])
    S, F = curves_by_hand(rows)
    curves = kaplan_meier(rows)
    np.testing.assert_allclose(curves.survival, S, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(curves.incidence, F, rtol=1e-12)
    np.testing.assert_allclose(curves.survival + curves.incidence.sum(axis=1), 1.0, rtol=1e-12)


def test_without_censoring_errors_are_those_of_shares():
    """The variance of a share: F (1 - F) / n, for every cause."""
    rng = np.random.default_rng(3)
    n = 400
    rows = FollowUp(time=rng.integers(1, 9, n).astype(float), cause=rng.integers(1, 4, n), causes=3)
    curves = kaplan_meier(rows)
    F = curves.incidence
    for k in range(3):
        share = [np.mean((rows.time <= time) & (rows.cause == k + 1)) for time in curves.times]
        np.testing.assert_allclose(F[:, k], share)
    # at the last time nobody remains, and what happened before decides
    np.testing.assert_allclose(curves.std_error[:-1], np.sqrt(F * (1.0 - F) / n)[:-1], rtol=1e-10)


def test_with_one_cause_the_error_is_greenwoods():
    rows = simulate(8, n=300, ties=12)
    curves = kaplan_meier(rows)
    n = np.array([(rows.time >= time).sum() for time in curves.times])
    d = np.array([((rows.time == time) & (rows.cause == 1)).sum() for time in curves.times])
    keep = n > d
    greenwood = curves.survival[keep] * np.sqrt(np.cumsum(d[keep] / (n[keep] * (n[keep] - d[keep]))))
    np.testing.assert_allclose(curves.std_error[keep, 0], greenwood, rtol=1e-10)


def test_censoring_comes_after_events_of_the_same_time():
    rows = FollowUp(time=np.array([1.0, 1, 2, 2, 3]), cause=np.array([1, 0, 1, 0, 0]), causes=1)
    np.testing.assert_allclose(kaplan_meier(rows).uncensored, [3 / 4, 3 / 8, 0.0])


def test_curves_between_their_times():
    rows = FollowUp(time=np.array([1.0, 2, 4]), cause=np.array([1, 1, 0]), causes=1)
    curves = kaplan_meier(rows)
    times = np.array([0.5, 1.0, 1.5, 2.0, 9.0])
    np.testing.assert_allclose(curves.at(curves.survival, times, start=1.0), [1, 2 / 3, 2 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(curves.at(curves.survival, times, start=1.0, before=True), [1, 1, 2 / 3, 2 / 3, 1 / 3])


def brier_by_hand(rows, incidence, time, cause):
    """Graf's score of one time, with G as a function."""
    w = rows.case_weights
    left = np.unique(rows.time)

    def stays(time):
        """P(C >= time)."""
        G = 1.0
        for t in left[left < time]:
            n = w[rows.time >= t].sum() - w[(rows.time == t) & (rows.cause > 0)].sum()
            if n > 0:
                G *= 1.0 - w[(rows.time == t) & (rows.cause == 0)].sum() / n
        return G

    total = 0.0
    for i in range(len(w)):
        if rows.time[i] <= time and rows.cause[i] > 0:
            total += w[i] * (float(rows.cause[i] == cause) - incidence[i]) ** 2 / stays(rows.time[i])
        elif rows.time[i] >= time:
            total += w[i] * incidence[i] ** 2 / stays(time)
    return total / w.sum()


@pytest.mark.parametrize("kind", ["plain", "no ties", "weights", "causes"])
def test_brier_scores_are_their_definition(kind):
    rows = simulate(2, n=80, **KINDS[kind])
    times = np.quantile(rows.time, [0.2, 0.5, 0.8, 1.0])
    incidence = np.random.default_rng(3).uniform(size=(80, 4))
    for cause in range(1, rows.causes + 1):
        found = brier_scores(rows, incidence, times, cause=cause)
        expected = [brier_by_hand(rows, incidence[:, place], time, cause) for place, time in enumerate(times)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_brier_scores_estimate_what_they_would_be_without_censoring():
    """Inverse-probability weights undo censoring that is independent: an average over many rows."""
    rng = np.random.default_rng(11)
    n = 40_000
    risk = rng.uniform(0.5, 2.0, n)
    death, censoring = rng.exponential(1.0 / risk), np.minimum(rng.exponential(2.0, n), 1.5)
    times = np.array([0.5, 1.0, 1.5])
    incidence = 1.0 - np.exp(-0.8 * np.outer(risk, times))
    seen = FollowUp(time=np.minimum(death, censoring), cause=(death <= censoring).astype(np.int64), causes=1)
    whole = np.mean(((death[:, None] <= times) - incidence) ** 2, axis=0)
    np.testing.assert_allclose(brier_scores(seen, incidence, times), whole, rtol=0.03)


def test_brier_scores_are_missing_beyond_the_rows():
    rows = FollowUp(time=np.array([1.0, 2.0, 3.0]), cause=np.array([1, 1, 0]), causes=1)
    found = brier_scores(rows, np.full((3, 2), 0.5), np.array([3.0, 3.1]))
    assert np.isnan(found).tolist() == [False, True]
    for cause, known in (([1, 0, 1], False), ([1, 1, 1], True)):
        assert reaches(replace(rows, cause=np.array(cause)), np.array([3.1])).tolist() == [known]


def test_the_integral_of_brier_scores():
    value, until = integrated_brier(np.array([1.0, 3.0, 4.0]), np.array([0.1, 0.2, np.nan]))
    assert value == pytest.approx((0.5 * 0.1 + 2 * 0.15) / 3)
    assert until == 3.0
    assert np.isnan(integrated_brier(np.array([1.0]), np.array([np.nan]))).all()


def test_some_of_the_rows():
    rows = simulate(4, entry=True, weights=True, people=9)
    keep = rows.time > 3
    part = rows.take(keep)
    for name in ("time", "cause", "entry", "weights", "person"):
        np.testing.assert_array_equal(getattr(part, name), getattr(rows, name)[keep])

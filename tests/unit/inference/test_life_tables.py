"""Curves and tests read from tables of events: derivatives, variances, equality with other ways to compute them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy

from hdpstats.inference.life_tables import (
    LifeTable,
    crossing_of,
    incidence,
    incidence_at,
    limits_of_crossing,
    multiple_of_error,
    rest_of_hazard,
    restricted_mean,
    slopes_within,
    survival,
    survival_at,
)
from hdpstats.inference.log_rank import log_hazard_ratios, noisy_score

CUTS = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 7.0, 8.0, 9.0, 10.0, 12.0])
J = len(CUTS) - 1


def table(*, causes=1, late=False, sd=2.0, scale=1.0, rate=0.1):
    """A table whose rates are the same in all intervals: smoothing changes nothing."""
    missed = np.full((2, J), 0.5)
    for _ in range(30):  # until exposures are what the table takes them for
        found = _table(missed, causes=causes, late=late, sd=sd, scale=scale, rate=rate)
        missed = found.missed
    return found


def _table(missed, *, causes, late, sd, scale, rate):
    at_risk, entered = 4000.0 * scale, 60.0 * scale if late else 0.0
    events, censored = np.empty((J, causes)), np.empty(J)
    for j in range(J):
        censored[j] = 0.04 * at_risk
        exposed = at_risk - missed[0][j] * censored[j] + missed[1][j] * entered
        events[j] = rate / causes * exposed
        at_risk += entered - censored[j] - events[j].sum()
    return LifeTable(
        cuts=CUTS,
        events=events,
        censored=censored,
        stayed=at_risk,
        entered=np.full(J, entered) if late else None,
        sd=sd,
    )


def cells_of(found):
    parts = [found.events.ravel(), found.censored, [found.stayed]]
    return np.concatenate(parts if found.entered is None else [*parts, found.entered])


def with_cells(found, cells):
    """Return the same table with other counts."""
    K = found.events.shape[1]
    return replace(
        found,
        events=cells[: J * K].reshape(J, K),
        censored=cells[J * K : J * K + J],
        stayed=float(cells[J * K + J]),
        entered=None if found.entered is None else cells[J * K + J + 1 :],
    )


def derivative(found, of):
    """Return the derivatives (m, cells) of what is computed from a table, by differences.

    What people miss of an interval's hazard is known, as the covariance takes it.
    """

    def changed(cells):
        other = with_cells(found, cells)
        other.__dict__["missed"] = found.missed
        return of(other)

    cells, rows = cells_of(found), []
    for place in range(len(cells)):
        up, down = cells.copy(), cells.copy()
        up[place] += 0.01
        down[place] -= 0.01
        rows.append((changed(up) - changed(down)) / 0.02)
    return np.array(rows).T


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("causes", [1, 3])
def test_the_noise_of_curves_is_that_of_their_derivative(causes, late):
    found = table(causes=causes, late=late)
    L = derivative(found, lambda each: each.cumulated)
    np.testing.assert_allclose(found.cumulated_noise, found.sd**2 * L @ L.T, rtol=1e-4, atol=1e-12)
    for cause in range(causes):
        L = derivative(found, lambda each, cause=cause: each.incidence(cause).value)
        without = replace(found, sd=0.0)
        without.__dict__.update(rates=found.rates, exposed=found.exposed)
        noise = found.incidence(cause).covariance - without.incidence(cause).covariance
        np.testing.assert_allclose(noise, found.sd**2 * L @ L.T, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("peto", [False, True])
def test_the_noise_of_the_score_is_that_of_its_derivative(peto):
    groups = [table(scale=1.0), table(scale=0.3, late=True), table(scale=0.5)]
    found = noisy_score([groups], peto=peto)
    weight = noisy_score([groups], peto=peto).noise
    expected = np.zeros((3, 3))
    for place in range(3):
        L = derivative(groups[place], lambda each, place=place: noisy_score(
            [[*groups[:place], each, *groups[place + 1 :]]]
        ).total)  # fmt: skip
        expected += groups[place].sd ** 2 * L @ L.T
    if peto:
        assert (np.diag(weight) < np.diag(expected)).all()
    else:
        np.testing.assert_allclose(weight, expected, rtol=5e-3, atol=1e-6)
    assert found.total.sum() == pytest.approx(0.0, abs=1e-6)


def test_sampling_variances_are_greenwoods():
    """With one cause the variance of incidence is that of survival, and both are those of multinomial counts."""
    found = table(sd=0.0)
    S, F = survival(found, 1.96), incidence(found, 0, 1.96)
    np.testing.assert_allclose(S.value + F.value, 1.0)
    np.testing.assert_allclose(S.std_error, F.std_error, rtol=1e-9)
    r = 0.1
    expected = np.sqrt(np.cumsum(r / ((1 - r) * found.exposed)))
    np.testing.assert_allclose((S.std_error / S.value)[1:], expected, rtol=1e-9)


@pytest.mark.parametrize("times", [100, pytest.param(400, marks=pytest.mark.wide)])
def test_counts_below_zero_are_kept_and_curves_stay_monotone(times):
    rng = np.random.default_rng(2)
    base = table(scale=0.02, sd=4.0)
    totals = []
    for _ in range(times):
        found = with_cells(base, cells_of(base) + rng.normal(0, 4.0, len(cells_of(base))))
        H = found.cumulated
        assert (np.diff(H) >= 0).all()
        band = survival(found, 1.96)
        assert (band.low <= band.value + 1e-12).all()
        assert (band.value <= band.high + 1e-12).all()
        assert (np.diff(band.low) <= 0).all()
        totals.append(np.exp(-H[-1]))
    assert np.mean(totals) == pytest.approx(np.exp(-base.cumulated[-1]), abs=0.06)


def test_people_at_risk_are_those_who_have_not_left():
    found = table(late=True)
    assert found.at_risk[0] == pytest.approx(4000.0)
    assert found.at_risk[-1] == pytest.approx(found.stayed)
    change = 60.0 - found.censored - found.events.sum(axis=1)
    np.testing.assert_allclose(np.diff(found.at_risk), change)
    left, came = found.missed
    np.testing.assert_allclose(found.exposed, found.at_risk[:-1] - left * found.censored + came * 60.0)
    np.testing.assert_allclose([left, came], 0.5, atol=0.05)


@pytest.mark.parametrize("upto", [12.0, 9.0, 6.3, 0.5])
def test_the_restricted_mean_is_the_area_and_its_error_that_of_the_derivative(upto):
    found = table(scale=0.2)
    mean, error = restricted_mean(found, upto)
    fine = np.linspace(0.0, upto, 200_001)
    S = survival_at(found, fine, 1.96).value
    assert mean == pytest.approx(np.trapezoid(S, fine), rel=1e-6)
    gradient = np.array([
        (restricted_mean(_changed(found, place, 1e-5), upto)[0] - mean) / 1e-5 for place in range(len(CUTS))
    ])  # fmt: skip
    expected = np.sqrt(gradient @ found.cumulated_covariance @ gradient)
    assert error == pytest.approx(expected, rel=0.03)


def _changed(found, place, amount):
    """Return a table whose cumulative hazard is raised at one cut."""
    changed = with_cells(found, cells_of(found))
    H = found.cumulated.copy()
    H[place] += amount
    changed.__dict__["cumulated"] = H
    return changed


def test_levels_are_reached_where_the_line_crosses():
    S = np.array([1.0, 0.8, 0.8, 0.5, 0.2])
    cuts = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert crossing_of(S, cuts, 0.5) == pytest.approx(3.0)
    assert crossing_of(S, cuts, 0.8) == pytest.approx(1.0)
    assert crossing_of(S, cuts, np.sqrt(0.8 * 0.5)) == pytest.approx(2.5)
    assert crossing_of(S, cuts, 0.1) == np.inf
    assert crossing_of(np.zeros(5), cuts, 0.5) == pytest.approx(0.0, abs=1e-2)


def test_hazard_ratios_are_those_of_the_hazards():
    one, other = table(sd=0.0), table(sd=0.0, rate=0.05)
    beta, covariance = log_hazard_ratios(lambda b: noisy_score([[one, other]], beta=b), 2)
    exact = np.log(other.cumulated[-1] / one.cumulated[-1])
    assert beta[0] == pytest.approx(exact, abs=0.005)
    assert covariance[0, 0] == pytest.approx(1 / one.events.sum() + 1 / other.events.sum(), rel=0.15)


def test_a_table_of_nobody_has_no_hazard_ratio():
    nobody = with_cells(table(), np.zeros(2 * J + 1))
    beta, _ = log_hazard_ratios(lambda b: noisy_score([[nobody, nobody]], beta=b), 2)
    assert np.isnan(beta).all()
    assert np.isfinite(survival(nobody, 1.96).std_error).all()


def life_table(events, censored, stayed, *, sd=0.0, **options):
    events, censored = np.array(events, dtype=float), np.array(censored, dtype=float)
    cuts = np.arange(len(events) + 1.0)
    return LifeTable(
        cuts=cuts, events=events[:, None], censored=censored, stayed=stayed, entered=None, sd=sd, **options
    )


def test_variances_follow_a_steep_hazard_where_counts_show_it():
    """Six intervals: a moving average of seven is one hazard for all of them."""
    events = [10.0, 20.0, 60.0, 150.0, 250.0, 280.0]
    found = life_table(events, [0.0] * 6, 230.0)
    h = np.array(events) / found.at_risk[:-1]
    greenwood = np.cumsum(h / ((1 - h) * found.at_risk[:-1]))
    np.testing.assert_allclose(np.diag(found.cumulated_sampling)[1:], greenwood, rtol=0.1)
    hidden = life_table(events, [0.0] * 6, 230.0, sd=150.0)
    assert hidden.rates[0, 0] > 2 * h[0]


def test_with_few_people_left_the_upper_limit_counts_one_more():
    """Both of two people fail: Clopper and Pearson's upper limit of their survival is .84."""
    found = life_table([98.0, 2.0], [0.0, 0.0], 0.0)
    before = survival(found, 1.96).high[1]
    assert survival(found, 1.96).high[2] > 0.3 * before
    many = life_table([9800.0, 100.0], [0.0, 0.0], 100.0)
    assert survival(many, 1.96).high[2] / survival(many, 1.96).value[2] < 1.3


@pytest.mark.wide
def test_intervals_without_people_do_not_move_the_others():
    rng, true, found = np.random.default_rng(4), np.exp(-np.arange(4) / 5), []
    for _ in range(200):
        events, censored = np.zeros(6), np.zeros(6)
        at_risk = 500.0
        for j in range(3):
            events[j], censored[j] = at_risk * (1 - np.exp(-0.2)) * 0.85, at_risk * 0.3
            at_risk -= events[j] + censored[j]
        censored[2] += at_risk
        true = np.exp(-life_table(events, censored, 0.0).cumulated[:4])
        noisy = life_table(events + rng.normal(0, 3, 6), censored + rng.normal(0, 3, 6), rng.normal(0, 3), sd=3.0)
        found.append(survival(noisy, 1.96).value[:4] - true)
        assert not noisy.stated[6] or noisy.at_risk[5] > 10
    assert np.abs(np.mean(found, axis=0)).max() < 0.01


def test_nothing_is_stated_where_people_at_risk_are_lost_in_the_noise():
    assert life_table([50.0, 20.0, 1.0], [20.0, 9.0, 0.0], 0.0, sd=2.0).stated.tolist() == [True, True, True, False]
    assert life_table([50.0, 20.0, 1.0], [20.0, 9.0, 0.0], 0.0).stated.all()


def test_a_curve_near_one_has_limits_of_its_noise():
    """A cumulated hazard below its error: on the logarithmic scale alone the lower limit would be about .2."""
    found = survival(life_table([0.5, 10.0, 10.0], [0.0] * 3, 180.0, sd=4.0), 1.96)
    assert found.value[1] > 0.99
    assert found.low[1] > 1.0 - 9.0 * found.std_error[1]


def test_lower_limits_count_that_noise_may_have_kept_people_at_risk():
    found = life_table([150.0, 60.0, 20.0], [20.0, 10.0, 5.0], 15.0, sd=6.0)
    assert found.added_by_noise[0] == 0.0
    assert 0.0 < found.added_by_noise[2] < found.at_risk[2] / 2
    fewer = replace(found, besides=-found.added_by_noise)
    assert fewer.exposed[2] < 0.85 * found.exposed[2]
    s = np.sqrt(np.diag(fewer.cumulated_covariance))
    assert survival(found, 1.96).low[3] <= np.exp(-fewer.cumulated[3] - 1.96 * s[3])
    assert replace(found, sd=0.0).added_by_noise.max() == 0.0


def test_limits_of_quantiles_are_ends_of_intervals():
    band = survival(life_table([30.0, 30.0, 30.0, 5.0], [0.0] * 4, 5.0), 1.96)
    cuts = np.arange(5.0)
    assert limits_of_crossing(band, cuts, 0.5) == (1.0, 3.0)
    assert band.low[1] > 0.5 >= band.low[2]
    assert band.high[3] <= 0.5 < band.high[2]
    assert limits_of_crossing(band, cuts, float(band.low[4]) / 2) == (np.inf, np.inf)
    assert limits_of_crossing(band, cuts, 0.999) == (0.0, 1.0)


def test_who_leaves_at_the_ends_is_exposed_for_the_whole_interval():
    events, censored = [10.0, 9.0], [20.0, 30.0]
    whole = life_table(events, censored, 31.0, within=False)
    np.testing.assert_allclose(np.exp(-whole.cumulated), np.cumprod([1, 0.9, 1 - 9 / 70]))
    assert whole.unknown_exposure.tolist() == [0.0, 0.0]
    noisy = replace(table(late=True), within=False)
    L = derivative(noisy, lambda each: each.cumulated)
    np.testing.assert_allclose(noisy.cumulated_noise, noisy.sd**2 * L @ L.T, rtol=0.05, atol=1e-9)


def test_equal_hazards_give_no_score_where_censoring_differs():
    """Constant hazards of .3 in both groups, of censoring 1 and 0: events are in proportion to the time spent."""
    tables = []
    for censoring in (1.0, 0.0):
        at_risk, events, censored = 1000.0, [], []
        for _ in range(3):
            leaving = at_risk * -np.expm1(-0.3 - censoring)
            events.append(leaving * 0.3 / (0.3 + censoring))
            censored.append(leaving - events[-1])
            at_risk -= leaving
        tables.append(life_table(events, censored, at_risk))
    found = noisy_score([tables])
    np.testing.assert_allclose(found.total, 0.0, atol=1e-6 * found.observed.sum())


def exact_table(H, cuts, people=1e6, causes=1):
    """The table of so many people with a cumulative hazard, nobody censored before the last cut, without noise."""
    S = np.exp(-H(cuts))
    deaths = people * -np.diff(S)
    return LifeTable(
        cuts=cuts, events=np.repeat(deaths[:, None] / causes, causes, axis=1), censored=np.zeros(len(deaths)),
        stayed=people * S[-1], entered=None, sd=0.0,
    )  # fmt: skip


SHAPES = {
    "rising": lambda t: (t / 4.0) ** 2,
    "falling": lambda t: (t / 6.0) ** 0.4,
    "rising, then falling": lambda t: np.log1p((t / 3.0) ** 3),
    "a third at once": lambda t: np.where(t > 0.0, 0.4 + 0.05 * t, 0.0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_bands_between_ends_hold_curves_whose_hazard_changes_within_intervals(shape):
    """A million people: limits at ends are next to exact, and only their widening in between holds the true curve."""
    H, cuts = SHAPES[shape], np.linspace(0.0, 6.0, 9)
    found, times = exact_table(H, cuts), np.linspace(0.0, 6.0, 2001)
    band, true = survival_at(found, times, 1.96), np.exp(-H(times))
    assert (band.low <= true + 1e-12).all()
    assert (true - 1e-12 <= band.high).all()
    assert np.abs(band.value - true).max() > 10 * np.nanmax(band.std_error)
    two = exact_table(H, cuts, causes=2)
    one, half = incidence_at(two, 1, times, 1.96), (1.0 - true) / 2.0
    assert (one.low <= half + 1e-12).all()
    assert (half - 1e-12 <= one.high).all()


def test_between_ends_bands_stay_within_what_every_hazard_allows_and_meet_the_ends():
    for found in (table(), table(sd=0.0), life_table([30.0, 90.0, 5.0], [10.0, 0.0, 4.0], 200.0, sd=3.0)):
        cuts, z = found.cuts, 1.96
        ends, F = survival(found, z), incidence(found, 0, z)
        at_ends, F_at_ends = survival_at(found, cuts, z), incidence_at(found, 0, cuts, z)
        for name in ("value", "std_error", "low", "high"):
            np.testing.assert_allclose(getattr(at_ends, name), getattr(ends, name), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(F_at_ends.value, F.value, rtol=1e-12)
        times = np.linspace(cuts[0], cuts[-1], 997)[1:-1]
        after = np.searchsorted(cuts, times)
        band = survival_at(found, times, z)
        assert (ends.low[after] - 1e-12 <= band.low).all()
        assert (band.high <= ends.high[after - 1] + 1e-12).all()
        assert ((band.low <= band.value) & (band.value <= band.high)).all()


def test_in_the_first_interval_the_limit_is_that_at_its_end_less_what_the_second_hazard_adds():
    found = life_table([60.0, 10.0, 8.0], [0.0] * 3, 122.0, sd=3.0)
    H, ends, times = found.cumulated, survival(found, 1.96), np.array([0.05, 0.4, 0.8])
    highest = -np.log(ends.low[1])
    expected = highest - (H[2] - H[1]) * (1.0 - times)
    np.testing.assert_allclose(-np.log(survival_at(found, times, 1.96).low), expected, rtol=1e-9)


def test_with_one_interval_a_band_is_what_every_hazard_allows():
    found = life_table([30.0], [0.0], 70.0)
    band, ends = survival_at(found, np.array([0.5]), 1.96), survival(found, 1.96)
    assert (band.low[0], band.high[0]) == (pytest.approx(ends.low[1]), 1.0)
    assert band.value[0] == pytest.approx(np.sqrt(0.7))


def test_after_the_last_stated_end_nothing_is_drawn():
    found = life_table([50.0, 20.0, 1.0], [20.0, 9.0, 0.0], 0.0, sd=2.0)
    band = survival_at(found, np.array([1.5, 2.0, 2.01, 3.0]), 1.96)
    for part in (band.value, band.std_error, band.low, band.high):
        assert np.isfinite(part).tolist() == [True, True, False, False]


def test_incidences_go_on_in_proportion_to_hazards_of_causes():
    found = exact_table(lambda t: 0.3 * t, np.linspace(0.0, 6.0, 4), causes=2)
    times = np.array([0.5, 1.9, 2.0, 3.3, 6.0])
    F = incidence_at(found, 0, times, 1.96).value
    np.testing.assert_allclose(F, (1.0 - np.exp(-0.3 * times)) / 2.0, rtol=1e-9)


def counted(H, uncensored, intervals, people=5000.0):
    """The table of so many people of a cumulative hazard, and a share not censored, at times up to 6: exact."""
    fine = np.linspace(0.0, 6.0, 12_001)
    S, G = np.exp(-H(fine)), uncensored(fine)
    place = np.arange(12_000) * intervals // 12_000
    events = np.bincount(place, -np.diff(S) * (G[1:] + G[:-1]) / 2.0, intervals) * people
    censored = np.bincount(place, -np.diff(G) * (S[1:] + S[:-1]) / 2.0, intervals) * people
    return LifeTable(
        cuts=np.linspace(0.0, 6.0, intervals + 1), events=events[:, None], censored=censored,
        stayed=people * S[-1] * G[-1], entered=None, sd=0.0,
    )  # fmt: skip


UNCENSORED = {
    "from 2 to 8": lambda t: np.clip((8.0 - t) / 6.0, 0.0, 1.0),
    "at a constant rate": lambda t: np.exp(-t / 3.0),
}


@pytest.mark.parametrize("intervals", [3, 4, 6, 8])
@pytest.mark.parametrize("uncensored", UNCENSORED)
@pytest.mark.parametrize("shape", SHAPES)
def test_limits_count_that_no_table_says_when_in_an_interval_people_left(shape, uncensored, intervals):
    """Of 5,000 people without noise: what estimates are off by leaves the interval its level, at every end."""
    found = counted(SHAPES[shape], UNCENSORED[uncensored], intervals)
    off = np.abs(found.cumulated - SHAPES[shape](found.cuts))
    assert (off <= found.cumulated_unknown + 1e-3).all()
    band = survival(found, 1.96)
    assert ((band.low < np.exp(-SHAPES[shape](found.cuts))) & (np.exp(-SHAPES[shape](found.cuts)) < band.high))[
        1:
    ].all()


def test_exposures_follow_hazards_that_change_within_intervals():
    found = counted(SHAPES["rising"], UNCENSORED["from 2 to 8"], 4)
    true, h = np.exp(-SHAPES["rising"](found.cuts)), found.events[:, 0] / (found.at_risk[:-1] - found.censored / 2.0)
    actuarial = np.append(1.0, np.cumprod(1.0 - h))
    assert np.abs(actuarial - true).max() > 0.012
    assert np.abs(np.exp(-found.cumulated) - true).max() < 0.006


def test_what_censored_people_miss_is_the_mean_of_what_each_misses():
    hazard, fine = np.array([0.8]), (np.arange(20_000) + 0.5) / 20_000
    passed = 0.8 * (fine + 0.5 * (fine**2 - fine) / 2.0)
    each = -np.expm1(-(0.8 - passed)) / -np.expm1(-0.8)
    expected = np.average(each, weights=1.0 - 0.7 * (fine - 0.5))
    assert rest_of_hazard(hazard, np.array([0.5]), np.array([-0.7]))[0] == pytest.approx(expected, abs=2e-4)
    assert rest_of_hazard(np.array([1e-12]), np.zeros(1), np.zeros(1))[0] == pytest.approx(0.5)


def test_slopes_are_those_of_numbers_per_time_as_far_as_they_are_no_chance():
    cuts, exact = np.array([0.0, 1.0, 3.0, 4.0]), np.zeros(3)
    amounts = np.array([1.0, 5.0, 4.0])
    np.testing.assert_allclose(slopes_within(amounts, cuts, exact), [1.0, 2.0 / 2.5, 1.0 / 4.0])
    assert slopes_within(np.array([0.0, 6.0, -4.0]), cuts, exact).tolist() == [0.0, 0.0, 0.0]
    assert slopes_within(amounts, cuts, 1e9 * np.ones(3)) == pytest.approx(0.0, abs=1e-6)
    # between the first two the difference of numbers per time is 1.5 of variance 1 + 1/4
    found = slopes_within(amounts, cuts, np.ones(3))[0]
    assert found == pytest.approx(1.0 / (1.0 + 1.25 / 1.5**2))
    assert slopes_within(np.array([3.0]), cuts[:2], exact[:1]).tolist() == [0.0]


@pytest.mark.parametrize("off", [0.0, 0.3, 1.0, 3.9, 4.1, 50.0])
@pytest.mark.parametrize("z", [0.8, 1.96, 3.0])
def test_a_multiple_of_the_error_keeps_its_level_where_an_estimate_is_off(z, off):
    found = multiple_of_error(z, np.array([off]))[0]
    held = scipy.stats.norm.cdf(found - off) - scipy.stats.norm.cdf(-found - off)
    assert held == pytest.approx(2.0 * scipy.stats.norm.cdf(z) - 1.0, abs=1e-5)

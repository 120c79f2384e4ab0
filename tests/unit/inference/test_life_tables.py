"""Curves and tests read from tables of events: derivatives, variances, equality with other ways to compute them."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.inference.life_tables import (
    LifeTable,
    crossing_of,
    incidence,
    restricted_mean,
    survival,
    survival_between,
)
from hdpstats.inference.log_rank import noisy_score
from hdpstats.public.log_rank import log_hazard_ratios

CUTS = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 7.0, 8.0, 9.0, 10.0, 12.0])
J = len(CUTS) - 1


def table(*, causes=1, late=False, sd=2.0, scale=1.0, rate=0.1):
    """A table whose rates are the same in all intervals: smoothing changes nothing."""
    at_risk, entered = 4000.0 * scale, 60.0 * scale if late else 0.0
    events, censored = np.empty((J, causes)), np.empty(J)
    for j in range(J):
        censored[j] = 0.04 * at_risk
        exposed = at_risk - censored[j] / 2 + entered / 2
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
    """Return the derivatives (m, cells) of what is computed from a table, by differences."""
    cells, rows = cells_of(found), []
    for place in range(len(cells)):
        up, down = cells.copy(), cells.copy()
        up[place] += 0.01
        down[place] -= 0.01
        rows.append((of(with_cells(found, up)) - of(with_cells(found, down))) / 0.02)
    return np.array(rows).T


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("causes", [1, 3])
def test_the_noise_of_curves_is_that_of_their_derivative(causes, late):
    found = table(causes=causes, late=late)
    L = derivative(found, lambda each: each.cumulated)
    np.testing.assert_allclose(found.cumulated_noise, found.sd**2 * L @ L.T, rtol=1e-4, atol=1e-12)
    for cause in range(causes):
        L = derivative(found, lambda each, cause=cause: each.incidence(cause)[0])
        np.testing.assert_allclose(found.incidence(cause)[2], found.sd**2 * L @ L.T, rtol=1e-4, atol=1e-12)


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
        np.testing.assert_allclose(weight, expected, rtol=1e-3, atol=1e-6)
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


def test_counts_below_zero_are_kept_and_curves_stay_monotone():
    rng = np.random.default_rng(2)
    base = table(scale=0.02, sd=4.0)
    totals = []
    for _ in range(400):
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
    np.testing.assert_allclose(found.exposed, found.at_risk[:-1] - found.censored / 2 + 30.0)


@pytest.mark.parametrize("upto", [12.0, 9.0, 6.3, 0.5])
def test_the_restricted_mean_is_the_area_and_its_error_that_of_the_derivative(upto):
    found = table(scale=0.2)
    mean, error = restricted_mean(found, upto)
    fine = np.linspace(0.0, upto, 200_001)
    S = survival_between(np.exp(-found.cumulated), CUTS, fine)
    assert mean == pytest.approx(np.trapezoid(S, fine), rel=1e-6)
    gradient = np.array([
        (restricted_mean(_bent(found, place, 1e-5), upto)[0] - mean) / 1e-5 for place in range(len(CUTS))
    ])  # fmt: skip
    expected = np.sqrt(gradient @ found.cumulated_covariance @ gradient)
    assert error == pytest.approx(expected, rel=0.03)


def _bent(found, place, amount):
    """Return a table whose cumulative hazard is raised at one cut."""
    bent = with_cells(found, cells_of(found))
    H = found.cumulated.copy()
    H[place] += amount
    bent.__dict__["cumulated"] = H
    return bent


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

"""Weighted fits of hazards warn of a likelihood without a maximum, and of no other."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from hdpstats.families.hazard.likelihood import Likelihood, fit_hazard
from hdpstats.families.hazard.public_fit import PublicSpells, hazard_likelihood
from hdpstats.losses import LINKS

INTERVALS = 6
LINE = np.column_stack([np.ones(INTERVALS), np.linspace(-1.0, 1.0, INTERVALS)])


def spells(seed, *, link="cloglog", m=3_000, df=3.0, separated=False):
    """Return spells with covariates of heavy tails (t with few degrees of freedom), log hazard ratios .5 and -.25."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_t(df, (m, 2))
    p = LINKS[link].hazard(np.clip(LINE[:, 1] + (Z @ [0.5, -0.25])[:, None], -30.0, 30.0))
    happened = rng.random((m, INTERVALS)) < p
    cause = happened.any(axis=1).astype(np.int64)
    last = np.where(happened.any(axis=1), happened.argmax(axis=1) + 1, INTERVALS)
    if separated:
        cause, last = (Z[:, 0] > 0.0).astype(np.int64), np.ones(m, dtype=np.int64)
    return PublicSpells(
        X=np.column_stack([np.ones(m), Z]),
        row=np.arange(m),
        weights=np.ones(m),
        offset=np.zeros(m),
        person=np.arange(m),
        entry=np.zeros(m, dtype=np.int64),
        exit=last,
        cause=cause,
        people=m,
    )


def likelihood(rows, *, link="cloglog", decided=False):
    """Return the fit, the baseline a straight line."""
    return hazard_likelihood(rows, LINE, link=link, causes=1, terms=tuple("abcd"), decided=decided)


def test_people_of_very_different_hazards_are_not_taken_for_separated():
    rows = spells(3)
    data = rows.data(LINE, rows.X[:, 1:], cause=1)
    assert not fit_hazard(data, "cloglog").converged  # the bound proves nothing: whether there is a maximum is decided
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = likelihood(rows)
    assert found.values == pytest.approx(likelihood(rows, decided=True).values, rel=1e-9)


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("link", LINKS)
def test_separated_people_are_warned_of(link):
    with pytest.warns(RuntimeWarning, match="no maximum"):
        likelihood(spells(3, link=link, separated=True), link=link)


def test_people_never_at_risk_do_not_loosen_the_bound():
    rows = spells(4, m=300)
    data = rows.data(LINE, rows.X[:, 1:] / 10.0, cause=1)
    first = np.arange(300) == 0
    never = replace(data, exit=np.where(first, 0, data.exit), offset=50.0 * first)
    without = data.take(slice(1, None))
    assert fit_hazard(never, "cloglog").self_concordance == pytest.approx(
        fit_hazard(without, "cloglog").self_concordance, rel=1e-6
    )


@pytest.mark.parametrize("link", LINKS)
def test_people_far_away_are_fitted_to_the_maximum(link):
    rows = spells(5, link=link, m=60, df=1.0)
    data = rows.data(LINE, rows.X[:, 1:], cause=1)
    assert not fit_hazard(data, link).converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = likelihood(rows, link=link)
    gradient = Likelihood(data, LINKS[link]).gradient(found.values)
    assert float(np.sqrt(gradient @ found.sampling @ gradient)) < 1e-3  # steps that are left, in standard errors


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_a_miscoded_value_that_hides_the_others_is_warned_of(link, decided):
    """Beside 1e9 all others are equal to so many digits that their direction is taken for flat."""
    rows = spells(7, link=link, m=1_500, df=1e6)
    X = rows.X.copy()
    X[0, 1] = 1e9
    with pytest.warns(RuntimeWarning, match="very far from the others"):
        likelihood(replace(rows, X=X), link=link, decided=decided)
    X[0, 1] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        likelihood(replace(rows, X=X), link=link, decided=decided)

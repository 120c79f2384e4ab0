"""Simulated trials follow the distribution that they state."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm

from hdpstats._base.errors import HdpError
from hdpstats.families.hazard.likelihood import HazardData, fit_hazard
from hdpstats.papers.trials import autoregressive, discrete_trial, eight_interval_trial, unit_ball_trial

TRIALS = {"unit ball": unit_ball_trial, "eight intervals": eight_interval_trial}
HAZARD = {"logit": lambda x: 1 / (1 + np.exp(-x)), "cloglog": lambda x: 1 - np.exp(-np.exp(x)), "probit": norm.cdf}


def maximum_likelihood(trial):
    rows = trial.frame
    data = HazardData(
        A=trial.baseline,
        Z=rows[list(trial.covariates)].to_numpy(),
        entry=np.zeros(len(rows), dtype=np.int64),
        exit=rows["time"].to_numpy(),
        event=rows["event"].to_numpy(),
        weights=np.ones(len(rows)),
        offset=np.zeros(len(rows)),
    )
    return fit_hazard(data, trial.link)


@pytest.mark.parametrize("make", TRIALS.values(), ids=TRIALS)
def test_the_same_seed_gives_the_same_trial_and_another_seed_another(make):
    pd.testing.assert_frame_equal(make(50, seed=3).frame, make(50, seed=3).frame)
    assert not make(50, seed=3).frame.equals(make(50, seed=4).frame)


@pytest.mark.wide
@pytest.mark.parametrize("make", TRIALS.values(), ids=TRIALS)
def test_the_truth_lies_where_the_likelihood_says(make):
    """The Wald statistic of the truth is chi-squared: fails if an interval, an event or the censoring is off by one."""
    trial = make(20_000, seed=11)
    estimate = maximum_likelihood(trial)
    error = estimate.theta - np.concatenate([trial.alpha, trial.beta])
    assert chi2.sf(error @ estimate.information @ error, len(error)) > 1e-4


@pytest.mark.parametrize("link", HAZARD)
def test_hazards_are_those_of_the_link(link):
    """Events among those at risk, by interval, agree with the hazards; so does `survival`."""
    A, alpha = np.eye(3), np.array([-1.0, -0.5, -1.5])
    trial = discrete_trial(40_000, seed=5, baseline=A, alpha=alpha, beta=[0.0], link=link, censoring=(2, 3))
    time, event = trial.frame["time"].to_numpy(), trial.frame["event"].to_numpy()
    expected = HAZARD[link](alpha)
    for s in (1, 2, 3):
        at_risk = time >= s
        observed = np.mean(event[at_risk & (time == s)].sum() / at_risk.sum())
        sd = np.sqrt(expected[s - 1] * (1 - expected[s - 1]) / at_risk.sum())
        assert abs(observed - expected[s - 1]) < 4.5 * sd
    survival = trial.survival(trial.frame.iloc[:2])
    np.testing.assert_allclose(survival, np.tile(np.cumprod(1 - expected), (2, 1)), rtol=1e-12)


def test_censoring_is_uniform_on_the_intervals_named():
    never = discrete_trial(12_000, seed=2, baseline=np.eye(5), alpha=np.full(5, -40.0), beta=[1.0], censoring=(2, 4))
    assert not never.frame["event"].any()
    counts = never.frame["time"].value_counts()
    assert set(counts.index) == {2, 3, 4}
    assert chi2.sf(((counts - 4000) ** 2 / 4000).sum(), 2) > 1e-4


def test_without_censoring_everybody_is_followed_to_the_horizon():
    trial = discrete_trial(200, seed=2, baseline=np.eye(5), alpha=np.full(5, -40.0), beta=[1.0])
    assert set(trial.frame["time"]) == {5}


@pytest.mark.parametrize("make", TRIALS.values(), ids=TRIALS)
def test_nothing_is_changed_by_the_schema_that_comes_with_it(make):
    trial = make(5000, seed=1)
    for name, column in trial.schema.items():
        np.testing.assert_array_equal(column.admit(trial.frame[name]).values, trial.frame[name])


def test_covariates_of_the_unit_ball_trial_are_in_it_and_some_on_its_surface():
    norms = np.linalg.norm(unit_ball_trial(2000, seed=9).frame[["x1", "x2", "x3"]], axis=1)
    assert norms.max() <= 1 + 1e-12
    assert 0.5 < np.mean(norms > 1 - 1e-12) < 0.95


def test_autoregressive_covariates_have_the_correlations_stated():
    rows = discrete_trial(
        20_000, seed=4, baseline=np.eye(2), alpha=[-1, -1], beta=np.zeros(4), covariates=autoregressive
    ).frame[["x1", "x2", "x3", "x4"]]
    expected = 0.4 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    np.testing.assert_allclose(np.corrcoef(rows.T), expected, atol=0.03)


def test_draws_beyond_the_bound_are_clipped_before_events_are_drawn():
    trial = discrete_trial(4000, seed=8, baseline=np.eye(1), alpha=[0.0], beta=[100.0], bound=1e-3)
    assert trial.frame["x1"].abs().max() == 1e-3
    assert 0.4 < trial.frame["event"][trial.frame["x1"] > 0].mean() < 0.6


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0},
        {"seed": -1},
        {"link": "log"},
        {"bound": 0},
        {"alpha": [1.0, 2.0, 3.0]},
        {"baseline": [1.0, 2.0]},
        {"beta": [[1.0]]},
        {"censoring": (0, 2)},
        {"censoring": (2, 1)},
        {"censoring": (1, 3)},
    ],
)
def test_a_wrong_argument_is_named(change):
    arguments = {"n": 5, "seed": 1, "baseline": np.eye(2), "alpha": [-1.0, -1.0], "beta": [1.0]} | change
    with pytest.raises(HdpError, match="|".join([*change, "baseline"])):
        discrete_trial(arguments.pop("n"), **arguments)

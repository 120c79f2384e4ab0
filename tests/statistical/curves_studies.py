"""The studies behind ``vignettes/validation/survival-curves.md``: curves and tests read from noisy tables.

People are drawn, counted as a site counts them, and given noise of the mechanism's distribution from a generator with a
seed; the package reads the tables. That a site counts and adds noise as it must is tested elsewhere.
"""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np

import hdpstats.api as hdp
from hdpstats.inference.life_tables import LifeTable, crossing_of, incidence, restricted_mean, survival
from hdpstats.inference.log_rank import noisy_score
from hdpstats.public.follow_up import FollowUp, kaplan_meier
from hdpstats.public.log_rank import log_hazard_ratios

CURVES, TESTS, POWER = 1000, 2000, 500
Z = 1.959963984540054
HORIZON = 2557.0
FEWEST = 4.0


@cache
def rotterdam(group):
    """Return the population of the first designs: a smoothed hazard of relapse or death, and of censoring, by group."""
    frame = hdp.datasets.load_rotterdam()
    own = frame[frame["hormon"] == group]
    time, event = own["time"].to_numpy(dtype=float), own["event"].to_numpy() == 1
    edges = np.linspace(0.0, HORIZON, 57)
    place = np.minimum(np.searchsorted(edges[1:], time), 55)
    at_risk = np.array([np.clip(time - a, 0.0, b - a).sum() for a, b in itertools.pairwise(edges)])
    rates = [np.bincount(place, which & (time < HORIZON), 56) / at_risk for which in (event, ~event)]
    kernel = np.ones(5) / 5
    return edges, *(np.convolve(np.pad(rate, 2, mode="edge"), kernel, "valid") for rate in rates)


def times_of(rng, n, edges, rates):
    """Return times (n,) of piecewise constant rates; infinity beyond the horizon."""
    H = np.append(0.0, np.cumsum(rates * np.diff(edges)))
    drawn = rng.exponential(1.0, n)
    return np.where(drawn < H[-1], np.interp(drawn, H, edges), np.inf)


def people(rng, n, group, ratio=1.0, causes=1):
    """Return times of the end of follow-up and what ended it: 0 for nothing."""
    edges, event, censoring = rotterdam(group)
    failed, left = times_of(rng, n, edges, ratio * event), times_of(rng, n, edges, censoring)
    time = np.minimum(failed, left)
    what = np.where(failed <= left, rng.integers(1, causes + 1, n), 0)
    return np.minimum(time, 2 * HORIZON), np.where(time <= HORIZON, what, 0)


def truth(group, cuts):
    edges, event, _ = rotterdam(group)
    return np.exp(-np.interp(cuts, edges, np.append(0.0, np.cumsum(event * np.diff(edges)))))


def table(rng, time, what, cuts, epsilon, causes=1):
    """Return the noisy table of people under replace-one; without noise where epsilon is infinite."""
    J, width = len(cuts) - 1, causes + 1
    interval = np.searchsorted(cuts[1:], time, side="left")
    inside = np.minimum(interval, J - 1) * width + np.where(what > 0, what - 1, causes)
    cell = np.where(interval >= J, J * width, inside)
    counts, sd = np.bincount(cell, minlength=J * width + 1).astype(float), 0.0
    if np.isfinite(epsilon):
        p = -np.expm1(-epsilon / 2)
        counts += rng.geometric(p, len(counts)) - rng.geometric(p, len(counts))
        sd = float(np.sqrt(2 * (1 - p)) / p)
    inner = counts[:-1].reshape(J, width)
    return LifeTable(
        cuts=cuts, events=inner[:, :-1], censored=inner[:, -1], stayed=float(counts[-1]), entered=None, sd=sd
    )


def cuts_of(intervals):
    return np.linspace(0.0, HORIZON, intervals + 1)


def curves(n, group, intervals, epsilon):
    """Return errors and coverage of survival, and coverage of the restricted mean and the median."""
    cuts, true = cuts_of(intervals), truth(group, cuts_of(intervals))[1:]
    fine = np.linspace(0.0, HORIZON, 20_000)
    mean = float(np.trapezoid(truth(group, fine), fine))
    middle = crossing_of(truth(group, fine), fine, 0.5)
    errors, apart, held, half, of_mean, of_median = [], [], [], [], [], []
    for seed in range(CURVES):
        rng = np.random.default_rng([1, n, group, intervals, seed])
        time, what = people(rng, n, group)
        found = table(rng, time, what, cuts, epsilon)
        band = survival(found, Z)
        rows = kaplan_meier(FollowUp(time=time, cause=what, causes=1))
        errors.append(band.value[1:] - true)
        apart.append(band.value[1:] - rows.at(rows.survival, cuts[1:], start=1.0))
        held.append((band.low[1:] <= true) & (true <= band.high[1:]))
        half.append((band.high[1:] - band.low[1:]) / 2)
        value, error = restricted_mean(found, HORIZON)
        of_mean.append(abs(value - mean) <= Z * error)
        low, high = (crossing_of(part, cuts, 0.5) for part in (band.low, band.high))
        of_median.append(low <= middle <= high)
    return {
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "apart": float(np.sqrt(np.mean(np.square(apart)))),
        "half": float(np.mean(half)),
        "held": float(np.mean(held)),
        "least": float(np.mean(held, axis=0).min()),
        "mean": float(np.mean(of_mean)),
        "median": float(np.mean(of_median)),
    }


def shifted(tables, people):
    """Return tables whose cells, and one for incomplete people, add up to a public number."""
    total = sum(each.events.sum() + each.censored.sum() + each.stayed for each in tables)
    cells = sum(each.events.size + each.censored.size + 1 for each in tables) + 1
    amount = (people - total) / cells
    return [
        replace(each, events=each.events + amount, censored=each.censored + amount, stayed=each.stayed + amount)
        for each in tables
    ]


def patients(intervals, epsilon):
    """Return the distance from Kaplan-Meier's curves of the patients of Rotterdam themselves, by group."""
    frame, cuts = hdp.datasets.load_rotterdam(), cuts_of(intervals)
    time, event = frame["time"].to_numpy(dtype=float), frame["event"].to_numpy(dtype=np.int64)
    groups = [(time[frame["hormon"] == group], event[frame["hormon"] == group]) for group in (0, 1)]
    exact = []
    for own, happened in groups:
        rows = kaplan_meier(FollowUp(time=own, cause=happened, causes=1))
        exact.append(rows.at(rows.survival, cuts[1:], start=1.0))
    found = []
    for seed in range(CURVES):
        rng = np.random.default_rng([4, intervals, seed])
        tables = [table(rng, *each, cuts, epsilon) for each in groups]
        tables = shifted(tables, len(frame) - float(rng.laplace(0.0, 2.0 / epsilon)))
        found.append([survival(each, Z).value[1:] for each in tables])
    return np.sqrt(np.mean(np.square(np.array(found) - exact), axis=(0, 2))).tolist()


def causes(n, intervals, epsilon):
    """Return the error and the coverage of the incidence of one of two causes."""
    cuts, group = cuts_of(intervals), 0
    true = (1.0 - truth(group, cuts)[1:]) / 2
    errors, held = [], []
    for seed in range(CURVES):
        rng = np.random.default_rng([2, n, intervals, seed])
        time, what = people(rng, n, group, causes=2)
        band = incidence(table(rng, time, what, cuts, epsilon, causes=2), 0, Z)
        errors.append(band.value[1:] - true)
        held.append((band.low[1:] <= true) & (true <= band.high[1:]))
    return {
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "held": float(np.mean(held)),
        "least": float(np.mean(held, axis=0).min()),
    }


def rejections(sizes, intervals, epsilon, *, ratio=1.0, peto=False, repeats=TESTS):
    """Return the share of data sets in which the test rejects at 5 %, and how hazard ratios of two groups do."""
    cuts, rejected, logs, held = cuts_of(intervals), [], [], []
    for seed in range(repeats):
        rng = np.random.default_rng([3, *sizes, intervals, seed])
        ratios = [1.0, *[ratio] * (len(sizes) - 1)]
        tables = [
            table(rng, *people(rng, n, 0, ratio=each), cuts, epsilon) for n, each in zip(sizes, ratios, strict=True)
        ]
        rejected.append(noisy_score([tables], peto=peto).test().p_value < 0.05)
        if len(sizes) == 2 and seed < POWER:
            beta, covariance = log_hazard_ratios(lambda b, own=tables: noisy_score([own], beta=b), 2)
            logs.append(beta[0])
            held.append(abs(beta[0] - np.log(ratio)) <= Z * np.sqrt(covariance[0, 0]))
    known = np.isfinite(logs)
    return {
        "rejected": float(np.mean(rejected)),
        "bias": float(np.mean(np.array(logs)[known]) - np.log(ratio)) if known.any() else np.nan,
        "held": float(np.mean(np.array(held)[known])) if known.any() else np.nan,
        "known": float(np.mean(known)) if len(logs) else np.nan,
    }

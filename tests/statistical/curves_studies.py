"""The studies behind ``vignettes/validation/survival-curves.md`` and ``drawn-curves.md``: curves, and tests of them.

For curves read from noisy tables people are drawn, counted as a site counts them, and given noise of the mechanism's
distribution from a generator with a seed; the package reads the tables. That a site counts and adds noise as it must is
tested elsewhere. Curves of models are predicted from fits to drawn people through the public API.
"""

import itertools
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.life_tables import (
    LifeTable,
    crossing_of,
    incidence,
    incidence_at,
    limits_of_crossing,
    restricted_mean,
    survival,
    survival_at,
)
from hdpstats.inference.log_rank import log_hazard_ratios, noisy_score
from hdpstats.public.follow_up import FollowUp, kaplan_meier
from tests.statistical.monte_carlo import together

CURVES, TESTS, POWER, DRAWINGS, FITS = 1000, 2000, 500, 500, 300
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
    cell = np.where((interval >= J) | ((time == cuts[-1]) & (what == 0)), J * width, inside)
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
        rng = np.random.default_rng([2026, 1, n, group, intervals, seed])
        time, what = people(rng, n, group)
        found = known_total(rng, table(rng, time, what, cuts, epsilon), n, cuts, epsilon)
        band = survival(found, Z)
        rows = kaplan_meier(FollowUp(time=time, cause=what, causes=1))
        errors.append(band.value[1:] - true)
        apart.append(band.value[1:] - rows.at(rows.survival, cuts[1:], start=1.0))
        held.append((band.low[1:] <= true) & (true <= band.high[1:]))
        half.append((band.high[1:] - band.low[1:]) / 2)
        value, error = restricted_mean(found, HORIZON)
        of_mean.append(abs(value - mean) <= Z * error)
        low, high = limits_of_crossing(band, cuts, 0.5)
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


def known_total(rng, own, n, cuts, epsilon):
    """Return a group's table shifted by what all cells are off the public number of people of two groups.

    All that counts of the other group, of as many cells, is the sum of their noise.
    """
    if not np.isfinite(epsilon):
        return own
    cells = own.events.size + own.censored.size + 1
    p = -np.expm1(-epsilon / 2)
    other = (rng.geometric(p, cells + 1) - rng.geometric(p, cells + 1)).sum()
    amount = (n - own.events.sum() - own.censored.sum() - own.stayed - other) / (2 * cells + 1)
    return replace(own, events=own.events + amount, censored=own.censored + amount, stayed=own.stayed + amount)


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
        rng = np.random.default_rng([2026, 4, intervals, seed])
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
        rng = np.random.default_rng([2026, 2, n, intervals, seed])
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
        rng = np.random.default_rng([2026, 3, *sizes, intervals, seed])
        ratios = [1.0, *[ratio] * (len(sizes) - 1)]
        tables = [
            table(rng, *people(rng, n, 0, ratio=each), cuts, epsilon) for n, each in zip(sizes, ratios, strict=True)
        ]
        rejected.append(noisy_score([tables], peto=peto).p_value < 0.05)
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


SHAPES = {
    "flat": lambda rng, n: rng.exponential(5.0, n),
    "rising": lambda rng, n: 4.0 * rng.weibull(2.0, n),
    "falling": lambda rng, n: 6.0 * rng.weibull(0.4, n),
    "a third early": lambda rng, n: np.where(rng.random(n) < 0.3, 0.1 * rng.random(n), rng.exponential(12.0, n)),
}
"""Times of events in a horizon of 6, beside those like Rotterdam."""

CENSORED = {
    "spread": lambda rng, n: rng.uniform(2.0, 8.0, n),
    "all by half": lambda rng, n: rng.uniform(0.0, 3.0, n),
    "strong": lambda rng, n: rng.exponential(3.0, n),
    "none": lambda _, n: np.full(n, 7.0),
}


@cache
def truth_of(shape, intervals):
    drawn = np.sort(SHAPES[shape](np.random.default_rng(0), 4_000_000))
    return 1.0 - np.searchsorted(drawn, np.linspace(0.0, 6.0, intervals + 1)[1:]) / len(drawn)


def drawn_table(rng, n, shape, censored, cuts, epsilon, causes=1):
    failed, left = SHAPES[shape](rng, n), CENSORED[censored](rng, n)
    time = np.minimum(failed, left)
    what = np.where((failed <= left) & (time <= 6.0), rng.integers(1, causes + 1, n), 0)
    return table(rng, time, what, cuts, epsilon, causes=causes)


def shapes(n, shape, censored, epsilon, intervals=8, causes=1):
    """Return coverage where something is stated, of survival or of the incidence of one of two causes: mean, least.

    Groups that would not be shown are left out, as for users.
    """
    cuts, true, held, known = np.linspace(0.0, 6.0, intervals + 1), truth_of(shape, intervals), [], []
    true = true if causes == 1 else (1.0 - true) / causes
    for seed in range(CURVES):
        rng = np.random.default_rng(
            [2026, 5, n, list(SHAPES).index(shape), list(CENSORED).index(censored), causes, seed]
        )
        found = drawn_table(rng, n, shape, censored, cuts, epsilon, causes)
        people = found.events.sum() + found.censored.sum() + found.stayed
        if people < FEWEST * found.sd * np.sqrt(found.events.size + intervals + 1):
            continue
        band = survival(found, Z) if causes == 1 else incidence(found, 0, Z)
        held.append((band.low[1:] <= true + 1e-12) & (true - 1e-12 <= band.high[1:]))
        known.append(found.stated[1:])
    held, known = np.array(held), np.array(known)
    often = known.sum(axis=0) >= CURVES / 5
    each = (held & known).sum(axis=0)[often] / known.sum(axis=0)[often]
    return {
        "held": float(each.mean()),
        "least": float(each.min()),
        "shown": len(held) / CURVES,
        "stated": float(known.mean()),
    }


def unequal(sizes, shape, censored, epsilon, intervals=6):
    """Return how often the test rejects equal hazards of groups that are censored differently."""
    cuts, rejected = np.linspace(0.0, 6.0, intervals + 1), []
    for seed in range(TESTS):
        rng = np.random.default_rng([2026, 6, *sizes, list(SHAPES).index(shape), seed])
        tables = [drawn_table(rng, n, shape, each, cuts, epsilon) for n, each in zip(sizes, censored, strict=True)]
        rejected.append(noisy_score([tables]).p_value < 0.05)
    return float(np.mean(rejected))


DRAWN = {
    "flat": lambda t: 0.2 * t,
    "rising": lambda t: (t / 4.0) ** 2,
    "falling": lambda t: (t / 6.0) ** 0.4,
    "rising, then falling": lambda t: np.log1p((t / 3.0) ** 3),
    "a third early": lambda t: -np.log(0.7 * np.exp(-t / 12.0) + 0.3 * np.maximum(1.0 - t / 0.1, 0.0)),
}
"""Cumulative hazards of curves that are drawn, in a horizon of 6. Those that rise cross those that fall."""

PARTS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])
"""Parts of each interval at which a drawn curve is compared with the true one."""


def drawn(n, shape, epsilon, intervals, causes=1):
    """Return coverage of the drawn band at ends of intervals and between: mean, least, and its mean half-width."""
    fine = np.linspace(0.0, 6.0, 60_001)
    H = DRAWN[shape](fine)
    cuts = np.linspace(0.0, 6.0, intervals + 1)
    between = (cuts[:-1, None] + PARTS * np.diff(cuts)[:, None]).ravel()
    times = np.concatenate([cuts[1:], between])
    true = np.exp(-DRAWN[shape](times))
    true = true if causes == 1 else (1.0 - true) / causes
    held, known, width = [], [], []
    for seed in range(DRAWINGS):
        rng = np.random.default_rng([2026, 7, n, list(DRAWN).index(shape), intervals, causes, seed])
        failed = np.interp(rng.exponential(1.0, n), H, fine, right=np.inf)
        left = CENSORED["spread"](rng, n)
        time = np.minimum(failed, left)
        what = np.where((failed <= left) & (time <= 6.0), rng.integers(1, causes + 1, n), 0)
        found = table(rng, time, what, cuts, epsilon, causes=causes)
        band = survival_at(found, times, Z) if causes == 1 else incidence_at(found, 0, times, Z)
        known.append(np.isfinite(band.low))
        held.append((band.low <= true + 1e-12) & (true - 1e-12 <= band.high))
        width.append((band.high - band.low) / 2)
    return at_ends_and_between(np.array(held), np.array(known), np.array(width), intervals)


def at_ends_and_between(held, known, width, intervals):
    """Return coverage, mean and least, and mean half-width at ends and between, from arrays (sets, times)."""
    often = known.sum(axis=0) >= len(known) / 5
    each = np.where(often, (held & known).sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.nan)
    ends = slice(0, intervals), slice(intervals, None)
    wide = np.nanmean(width, axis=0)
    return {
        name: (float(np.nanmean(each[part])), float(np.nanmin(each[part])), float(np.nanmean(wide[part])))
        for name, part in zip(("ends", "between"), ends, strict=True)
    }


PUBLIC = 200
SLOPES = np.array([0.5, -0.4, 0.3])
ARMS = {shape: (shape, shape) for shape in DRAWN} | {"crossing": ("rising", "falling")}
"""The hazards of two groups of people whose curves a model predicts; those that cross are strata."""
SHOWN = pd.DataFrame(
    [(0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), (-1.0, 1.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0)],
    columns=["x1", "x2", "x3", "arm"],
)
"""Whose curves are predicted."""


def hazards_of_people(X, arm, shape, cuts):
    """Return hazards in intervals (n, q) without covariates, and with them, which multiply odds."""
    p = np.array([-np.expm1(-np.diff(DRAWN[each](cuts))) for each in ARMS[shape]])[arm]
    odds = p / (1.0 - p) * np.exp(X @ SLOPES)[:, None]
    return p, odds / (1.0 + odds)


def true_survival(X, arm, shape, cuts, times):
    """Return survival (n, T). Within an interval events are spread as the shape has them."""
    p, hazard = hazards_of_people(X, arm, shape, cuts)
    place = np.clip(np.searchsorted(cuts, times) - 1, 0, len(cuts) - 2)
    rest = np.array([DRAWN[each](times) - DRAWN[each](cuts[place]) for each in ARMS[shape]])[arm]
    S = np.pad(np.cumprod(1.0 - hazard, axis=1), ((0, 0), (1, 0)), constant_values=1.0)
    return S[:, place] * (1.0 + hazard[:, place] * np.expm1(-rest) / p[:, place])


def people_of_model(rng, n, shape, cuts):
    """Return people with the survival of `true_survival`, censored between 2 and 8."""
    X, arm = np.clip(rng.standard_normal((n, 3)), -4.0, 4.0), rng.integers(0, 2, n)
    p, hazard = hazards_of_people(X, arm, shape, cuts)
    happened = rng.random(hazard.shape) < hazard
    first = np.where(happened.any(axis=1), happened.argmax(axis=1), -1)
    fine, failed = np.linspace(0.0, 6.0, 60_001), np.full(n, np.inf)
    for group, each in enumerate(ARMS[shape]):
        own = np.flatnonzero((arm == group) & (first >= 0))
        H, within = DRAWN[each], p[own, first[own]] * rng.random(len(own))
        failed[own] = np.interp(H(cuts[first[own]]) - np.log1p(-within), H(fine), fine)
    left = CENSORED["spread"](rng, n)
    columns = {"time": np.minimum(np.minimum(failed, left), 6.0), "event": (failed <= np.minimum(left, 6.0)) * 1}
    return pd.DataFrame(columns | dict(zip(SHOWN, [*X.T, arm], strict=True)))


def one_model(seed, n, shape, epsilon, intervals):
    """Return whether the bands of predicted curves hold the true ones (rows, times), and their half-widths."""
    rng, cuts = (
        np.random.default_rng([2026, 8, n, list(ARMS).index(shape), intervals, seed]),
        np.linspace(0, 6, intervals + 1),
    )
    people = people_of_model(rng, n + PUBLIC, shape, cuts)
    numbers = {name: hdp.Continuous(-4, 4, complete=True) for name in ("x1", "x2", "x3")}
    schema = hdp.Schema(
        numbers, time=hdp.Duration(6, complete=True), event=hdp.Binary(complete=True), arm=hdp.Binary(complete=True)
    )
    private = people.iloc[PUBLIC:].reset_index(drop=True)
    study = hdp.Study(private=private, public=people.iloc[:PUBLIC], schema=schema, budget=hdp.Budget(epsilon=epsilon))
    strata = " + strata(arm)" if shape == "crossing" else ""
    fit = hdpf.hazard(f"Surv(time, event) ~ x1 + x2 + x3{strata}", study, intervals=intervals).fit(epsilon)
    between = (cuts[:-1, None] + PARTS * np.diff(cuts)[:, None]).ravel()
    times = np.concatenate([cuts[1:], between])
    found = fit.predict_survival(SHOWN, times=times)
    low, high = (found[name].to_numpy().reshape(len(SHOWN), -1) for name in ("conf_low", "conf_high"))
    X, arm = SHOWN[["x1", "x2", "x3"]].to_numpy(), SHOWN["arm"].to_numpy(dtype=np.int64)
    true = true_survival(X, arm, shape, cuts, times)
    return (low <= true + 1e-12) & (true - 1e-12 <= high), (high - low) / 2.0


def modelled(n, shape, epsilon, intervals):
    """Return coverage of predicted curves at ends of intervals and between, and mean half-widths: see `drawn`."""
    work = partial(one_model, n=n, shape=shape, epsilon=epsilon, intervals=intervals)
    found = together(work, range(FITS))
    held, width = (np.array([each[part] for each in found]) for part in (0, 1))
    rows = [
        at_ends_and_between(held[:, row], np.isfinite(width[:, row]), width[:, row], intervals)
        for row in range(len(SHOWN))
    ]
    return {
        part: (
            float(np.mean([each[part][0] for each in rows])),
            min(each[part][1] for each in rows),
            float(np.mean([each[part][2] for each in rows])),
        )
        for part in ("ends", "between")
    }

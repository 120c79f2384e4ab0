"""The studies behind ``vignettes/validation/description.md``: descriptions of the cohort through the public API."""

from collections import defaultdict
from functools import cache

import numpy as np
import pandas as pd

import hdpstats.api as hdp

REPEATS, PLANS = 300, 60
NUMBERS = ("x1", "x2", "x3")
FACTORS = {"f1": (0.5, 0.3, 0.2), "f2": (0.6, 0.25, 0.15), "f3": (0.7, 0.3), "f4": (0.5, 0.5), "f5": (0.85, 0.15)}
MISSING = 0.05
SCHEMA = hdp.Schema(
    {name: hdp.Continuous(0, 10) for name in NUMBERS}
    | {name: hdp.Categorical([f"l{k}" for k in range(len(shares))]) for name, shares in FACTORS.items()}
    | {"g": hdp.Categorical(["a", "b"], complete=True)}
)
KINDS = {"share": "shares", "mean": "means", "sd": "standard deviations", "missing": "missing"}
QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}


def people(rng, n, *, shift=0.0, missing=MISSING):
    """Return people whose standard deviations are about a fifth of the range: two symmetric columns, a skewed one."""
    frame = pd.DataFrame(
        {
            "x1": np.clip(rng.normal(5 + shift, 2, n), 0, 10),
            "x2": np.clip(rng.normal(4 - shift, 2, n), 0, 10),
            "x3": 10 * rng.beta(1.5, 4, n),
            "g": rng.choice(["a", "b"], n),
        }
    )
    for name, shares in FACTORS.items():
        frame[name] = rng.choice([f"l{k}" for k in range(len(shares))], n, p=shares)
    for name in (*NUMBERS, *FACTORS):
        frame.loc[rng.random(n) < missing, name] = None
    return frame


@cache
def population():
    """Return the true numbers by variable, level and statistic."""
    everybody = people(np.random.default_rng(99), 2_000_000, missing=0.0)
    found = {}
    for name in NUMBERS:
        x = everybody[name].to_numpy()
        found |= {(name, None, "mean"): x.mean(), (name, None, "sd"): x.std()}
        found |= {(name, None, key): np.quantile(x, p) for key, p in QUARTILES.items()}
    found |= {(name, f"l{k}", "share"): p for name, shares in FACTORS.items() for k, p in enumerate(shares)}
    return found | {(name, None, "missing"): MISSING for name in (*NUMBERS, *FACTORS)}


def study_of(private, public, schema=SCHEMA):
    return hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=1e6))


PUBLIC = people(np.random.default_rng(7), 500, shift=0.5)


def errors(n, epsilon):
    """Return root mean squared errors against the sample's own numbers, in which noise alone counts; n is public."""
    squares = defaultdict(list)
    columns = [*NUMBERS, *FACTORS]
    for seed in range(REPEATS):
        private = people(np.random.default_rng([1, n, seed]), n)
        table = hdp.describe(study_of(private, PUBLIC), columns, quantiles=False, epsilon=epsilon)
        for row in table.tidy().to_dict("records"):
            name, kind = row["variable"], row["statistic"]
            if kind == "share":
                squares["shares"].append(row["estimate"] - (private[name].dropna() == row["level"]).mean())
            elif kind == "mean":
                squares["means"].append((row["estimate"] - private[name].mean()) / private[name].std())
            elif kind == "missing":
                squares["missing"].append(row["estimate"] - private[name].isna().mean())
    return {kind: float(np.sqrt(np.mean(np.square(values)))) for kind, values in squares.items()}


def coverage(n, epsilon):
    """Return by kind the share of 95 % intervals that hold the population's number, and of numbers that are not N/A.

    The people are in two groups of private sizes.
    """
    held, known = defaultdict(list), defaultdict(list)
    for seed in range(REPEATS):
        private = people(np.random.default_rng([2, n, seed]), n)
        table = hdp.describe(study_of(private, PUBLIC), [*NUMBERS, *FACTORS], by="g", epsilon=epsilon).tidy()
        for row in table[table["statistic"] != "n"].to_dict("records"):
            kind = KINDS.get(row["statistic"], "quartiles")
            known[kind].append(np.isfinite(row["estimate"]))
            if known[kind][-1]:
                true = population()[row["variable"], row["level"], row["statistic"]]
                held[kind].append(row["conf_low"] <= true <= row["conf_high"])
    return {kind: (float(np.mean(held[kind] or np.nan)), float(np.mean(known[kind]))) for kind in known}


def planned(n, epsilon):
    """Return the largest relative difference of the median reported standard error from the planned one.

    Public rows have the private distribution. Quartiles are left out, and numbers that are often N/A.
    """
    public, columns, ratios = people(np.random.default_rng(6), 2000), [*NUMBERS, *FACTORS], []
    for seed in range(PLANS):
        request = hdp.describe(study_of(people(np.random.default_rng([4, n, seed]), n), public), columns, by="g")
        found = request.release(epsilon).tidy()
        expected = request.plan([epsilon]).frame["std_error"].to_numpy(dtype=float)
        box = found["statistic"].isin(["n", *KINDS]).to_numpy()
        ratios.append(np.where(box, found["std_error"].to_numpy(dtype=float) / expected, np.nan))
    ratio = np.array(ratios)
    usual = ratio[:, np.isfinite(ratio).mean(axis=0) > 0.9]
    return float(np.abs(np.nanmedian(usual, axis=0) - 1.0).max()) if usual.size else np.nan


ROTTERDAM = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), nodes=hdp.Continuous(0, 40, complete=True))


def quartiles(n, epsilon):
    """Return by column and quartile the error in interquartile ranges and coverage; patients of Rotterdam, drawn anew.

    ``epsilon`` is that of one column's cells: of two columns a description of five times as much gives each that.
    """
    patients, public = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
    columns = ["age", "nodes"]
    true = {name: patients[name].clip(*((20, 90) if name == "age" else (0, 40))) for name in columns}
    squares, held = defaultdict(list), defaultdict(list)
    for seed in range(REPEATS):
        rows = np.random.default_rng([3, n, seed]).integers(0, len(patients), n)
        private = patients[columns].iloc[rows].reset_index(drop=True)
        table = hdp.describe(study_of(private, public, ROTTERDAM), columns, epsilon=5 * epsilon).tidy()
        for row in table[table["statistic"].isin(QUARTILES)].to_dict("records"):
            name, kind = row["variable"], row["statistic"]
            values = true[name].to_numpy()
            exact = np.quantile(values, QUARTILES[kind], method="inverted_cdf")
            reach = np.subtract(*np.quantile(values, [0.75, 0.25]))
            if np.isfinite(row["estimate"]):
                squares[name, kind].append((row["estimate"] - exact) / reach)
                held[name, kind].append(row["conf_low"] <= exact <= row["conf_high"])
    return {
        key: (float(np.sqrt(np.mean(np.square(values)))), float(np.mean(held[key])), len(values) / REPEATS)
        for key, values in squares.items()
    }

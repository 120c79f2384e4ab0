"""The simulation studies of importance weights: the Adult data of Ji and Elkan, and coverage where truth is known."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.monte_carlo import together

ADULT = Path(os.environ.get("HDPSTATS_ADULT", "adult63.csv.gz"))
"""The Adult census-income data (Becker and Kohavi 1996, CC BY 4.0) in the 63 binary columns of Ji and Elkan (2013):
the file that the environment variable names, else of that name in the working directory."""

CELLS = [(a, g) for a in (0, 1) for g in "xyz"]
PRIVATE_CELLS = np.array([0.25, 0.05, 0.2, 0.1, 0.1, 0.3])
PUBLIC_CELLS = np.array([0.1, 0.2, 0.2, 0.2, 0.2, 0.1])
OUTCOME = np.array([0.1, 0.3, 0.5, 0.7, 0.2, 0.6])
SHIFT = 0.7


@dataclass(frozen=True)
class Case:
    """One design: kind of columns, formula of the ratio, epsilon, records in each sample."""

    name: str
    formula: str
    epsilon: float
    records: int = 2000
    spread: float = 1.0


def adult() -> pd.DataFrame:
    """Return the Adult data with short names, ``private`` and ``income`` among them."""
    frame = pd.read_csv(ADULT).drop(columns="male")
    names = {name: f"v{i}" for i, name in enumerate(frame.columns) if name not in ("private", "income=large")}
    return frame.rename(columns=names | {"income=large": "income"})


def adult_categories() -> tuple[pd.DataFrame, hdp.Schema]:
    """Return the Adult data with a categorical column for each group of dummies, and its schema."""
    frame = pd.read_csv(ADULT)
    groups: dict[str, list[str]] = {}
    for name in frame.columns.drop(["male", "private", "income=large"]):
        groups.setdefault(name.split("=")[0], []).append(name)
    columns, declared = {}, {}
    for name, members in groups.items():
        levels = [member.split("=")[1] for member in members]
        found = frame[members].to_numpy()
        column = name.replace("-", "_")
        columns[column] = np.where(found.any(axis=1), np.array(levels)[found.argmax(axis=1)], "reference")
        declared[column] = hdp.Categorical(["reference", *levels], complete=True)
    table = pd.DataFrame(columns).assign(income=frame["income=large"], private=frame["private"])
    return table, hdp.Schema(declared | {"income": hdp.Binary(complete=True)})


def adult_means(frame: pd.DataFrame, schema: hdp.Schema, formula: str, *, repeats: int, **options) -> pd.DataFrame:
    """Return the estimated mean income of private people, with its standard error, over draws at epsilon 0.1."""
    inside = frame["private"] == 1
    rows = frame.drop(columns="private")
    study = hdp.Study(private=rows[inside], public=rows[~inside], schema=schema, budget=hdp.Budget(epsilon=1000))
    samples = (hdp.importance_weights(study, formula, epsilon=0.1, replicate=k + 1, **options) for k in range(repeats))
    return pd.DataFrame([fields_of(sample.mean("income")) for sample in samples])


def fields_of(estimated) -> dict[str, float]:
    return {"estimate": estimated.estimate, "std_error": estimated.std_error}


def discrete(rng: np.random.Generator, shares: np.ndarray, rows: int) -> pd.DataFrame:
    cell = rng.choice(6, rows, p=shares)
    y = (rng.random(rows) < OUTCOME[cell]).astype(float)
    return pd.DataFrame({"a": cell // 3, "g": np.array(list("xyz"))[cell % 3], "y": y})


def continuous(rng: np.random.Generator, shift: float, spread: float, rows: int) -> pd.DataFrame:
    x = rng.normal(shift, spread, rows)
    z = 0.5 * x + rng.normal(-shift / 2, 1, rows)
    y = (rng.random(rows) < 1 / (1 + np.exp(z - x))).astype(float)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def one_sample(case: Case, seed: int) -> hdp.WeightedSample:
    """Simulate both samples and release weights."""
    rng = np.random.default_rng(seed)
    if case.name == "discrete":
        schema = hdp.Schema(
            a=hdp.Binary(complete=True), g=hdp.Categorical(["x", "y", "z"], complete=True), y=hdp.Binary(complete=True)
        )
        frames = [discrete(rng, shares, case.records) for shares in (PRIVATE_CELLS, PUBLIC_CELLS)]
    else:
        schema = hdp.Schema(
            x=hdp.Continuous(-6, 6, complete=True), z=hdp.Continuous(-6, 6, complete=True), y=hdp.Binary(complete=True)
        )
        frames = [continuous(rng, *distribution, case.records) for distribution in ((SHIFT, case.spread), (0.0, 1.0))]
    study = hdp.Study(private=frames[0], public=frames[1], schema=schema, budget=hdp.Budget(epsilon=100))
    return hdp.importance_weights(study, case.formula, epsilon=case.epsilon)


def one_coverage(case: Case, seed: int) -> dict[str, bool]:
    """Return which 95 % intervals of means hold the truth."""
    sample = one_sample(case, seed)
    covered = {}
    for name, truth in truths(case).items():
        found = sample.mean(name) if name in sample.rows else sample.mean(lambda d, name=name: d["g"] == name)
        covered[f"mean of {name}"] = abs(found.estimate - truth) <= 1.96 * found.std_error
    if case.name == "discrete":
        limits = sample.fit(hdpf.logit, "y ~ a*g").conf_int().to_numpy()
        truth = np.array(saturated())
        covered["coefficients"] = float(np.mean((limits[:, 0] <= truth) & (truth <= limits[:, 1])))
    return covered


def truths(case: Case) -> dict[str, float]:
    """Return the private means."""
    if case.name == "discrete":
        return {
            "a": float(PRIVATE_CELLS[3:].sum()),
            "z": float(PRIVATE_CELLS[[2, 5]].sum()),
            "y": float(PRIVATE_CELLS @ OUTCOME),
        }
    rows = continuous(np.random.default_rng(0), SHIFT, case.spread, 2_000_000)
    return {name: float(rows[name].mean()) for name in ("x", "z", "y")}


def saturated() -> list[float]:
    """Return the coefficients of ``y ~ a*g``: the same in both populations."""
    logit = np.log(OUTCOME / (1 - OUTCOME)).reshape(2, 3)
    base, a = logit[0], logit[1] - logit[0]
    return [base[0], a[0], base[1] - base[0], base[2] - base[0], a[1] - a[0], a[2] - a[0]]


def coverages(case: Case, repeats: int) -> pd.Series:
    """Return the share of intervals that hold the truth, over simulated pairs of samples."""
    found = together(partial(one_coverage, case), range(repeats), chunksize=10)
    return pd.DataFrame(found).astype(float).mean()

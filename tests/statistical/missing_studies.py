"""Simulated studies of missing cells: fits to private rows and to weighted samples against complete cases."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

PRIVATE, PUBLIC, EPSILON = 3_000, 500, 5.0
ARMS = ("Placebo", "Drug")
INTERVALS = 6
LOGIT, HAZARD = "y ~ x + log1p(nodes) + arm", "Surv(time, event) ~ x + log1p(nodes) + arm"
POISSON, SAMPLE = "visits ~ x + log1p(nodes) + arm", "answer ~ high + arm"
CASES = f"{LOGIT}, case weights"
TRUTH = {
    LOGIT: {"Intercept": -1.2, "x": 0.6, "log1p(nodes)": 0.7, "arm[T.Drug]": -0.5},
    HAZARD: {"x": 0.4, "log1p(nodes)": 0.5, "arm[T.Drug]": -0.4},
    POISSON: {"Intercept": -0.2, "x": 0.2, "log1p(nodes)": 0.4, "arm[T.Drug]": -0.3},
    SAMPLE: {"Intercept": -0.5, "high": 0.8, "arm[T.Drug]": -0.6},
}
TRUTH[CASES] = TRUTH[LOGIT]
"""True coefficients, by model."""

NAMES = {
    LOGIT: "logit",
    HAZARD: "hazard",
    POISSON: "Poisson",
    CASES: "logit, case weights",
    SAMPLE: "logit, weighted sample",
}


def people(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows with a binary outcome, and a time of follow-up, of the same covariates."""
    x = rng.normal(size=rows).clip(-3, 3)
    nodes = rng.poisson(np.exp(0.8 + 0.4 * x)).clip(0, 40).astype(float)
    arm = rng.integers(0, 2, rows)
    frame = pd.DataFrame({"x": x, "nodes": nodes, "arm": np.array(ARMS)[arm]})
    frame["y"] = (rng.random(rows) < expit(_predictor(frame, LOGIT))).astype(float)
    rate = 0.25 * np.exp(_predictor(frame, HAZARD) - 0.8)
    event, end = rng.exponential(1.0 / rate), rng.uniform(1.0, 8.0, rows)
    frame = frame.assign(time=np.minimum(event, end), event=(event <= end).astype(float))
    frame["visits"] = rng.poisson(np.exp(_predictor(frame, POISSON))).clip(0, 20).astype(float)
    frame["w"] = 0.5 + 1.5 * rng.random(rows)
    frame["high"] = (x > 0).astype(float)
    b = TRUTH[SAMPLE]
    eta = b["Intercept"] + b["high"] * frame["high"] + b["arm[T.Drug]"] * arm
    return frame.assign(answer=(rng.random(rows) < expit(eta)).astype(float))


def _predictor(frame: pd.DataFrame, formula: str) -> np.ndarray:
    b = TRUTH[formula]
    drug = (frame["arm"] == ARMS[1]).to_numpy(dtype=float)
    own = b["x"] * frame["x"] + b["log1p(nodes)"] * np.log1p(frame["nodes"]) + b["arm[T.Drug]"] * drug
    return own.to_numpy() + b.get("Intercept", 0.0)


@dataclass(frozen=True)
class Lacking:
    """Which cells of which column are missing: a share of them, at random or more often where ``x`` is large."""

    column: str
    share: float
    at_random: bool

    def spoil(self, frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Return the rows with missing cells."""
        chance = np.full(len(frame), self.share)
        if not self.at_random:
            chance = np.clip(2.0 * self.share / (1.0 + np.exp(-1.5 * frame["x"])), 0.0, 1.0)
        return frame.assign(**{self.column: frame[self.column].where(rng.random(len(frame)) >= chance)})


def schema_of(formula: str, **changes: object) -> hdp.Schema:
    """Return the declarations of the columns of a formula; all but the named ones are declared complete."""
    columns: dict[str, object] = {
        "x": hdp.Continuous(-3, 3, complete=True),
        "nodes": hdp.Continuous(0, 40, complete=True),
        "arm": hdp.Categorical(ARMS, complete=True),
    }
    if formula == HAZARD:
        columns |= {"time": hdp.Duration(6, complete=True), "event": hdp.Binary(complete=True)}
    elif formula == POISSON:
        columns["visits"] = hdp.Continuous(0, 20, complete=True)
    elif formula == SAMPLE:
        columns |= {"high": hdp.Binary(complete=True), "answer": hdp.Binary(complete=True)}
    else:
        columns["y"] = hdp.Binary(complete=True)
    if formula == CASES:
        columns["w"] = hdp.Weight(max=2, complete=True)
    return hdp.Schema({**columns, **changes})


def model_of(formula: str, study: hdp.Study) -> object:
    """Return the model of a formula."""
    if formula == HAZARD:
        return hdpf.hazard(formula, data=study, intervals=INTERVALS, baseline="dummies")
    if formula == POISSON:
        return hdpf.poisson(formula, data=study)
    if formula == CASES:
        return hdpf.logit(LOGIT, data=study, weights="w")
    return hdpf.logit(formula, data=study)


def result_of(formula: str, study: hdp.Study) -> hdp.Result:
    """Return the fit: to private rows, or to public rows that are weighted to stand for them."""
    if formula == SAMPLE:
        return hdp.hybrid_weights(study, ["answer", "high", "arm"], epsilon=EPSILON).fit(hdpf.logit, formula)
    return model_of(formula, study).fit(epsilon=EPSILON)


@dataclass(frozen=True)
class Fit:
    """One fit to rows with missing cells: estimates, standard errors and coverage of the coefficients of `TRUTH`."""

    estimate: np.ndarray
    std_error: np.ndarray
    covered: np.ndarray
    complete_cases: np.ndarray
    records: int
    complete: int


def one_fit(
    formula: str, spoiled: pd.DataFrame, public: pd.DataFrame, schema: hdp.Schema, *, complete_cases: bool = True
) -> Fit:
    """Fit private rows, and the complete ones among them without noise."""
    study = hdp.Study(private=spoiled, public=public, schema=schema, budget=hdp.Budget(epsilon=2 * EPSILON))
    result = result_of(formula, study)
    alone, names = result.private_only or result, list(TRUTH[formula])
    limits = alone.conf_int().loc[names].to_numpy()
    truth = np.array(list(TRUTH[formula].values()))
    whole = spoiled.dropna()
    plain = np.full(len(names), np.nan)
    if complete_cases:
        plain = model_of(formula, hdp.Study(public=whole, schema=schema)).fit_public().params[names].to_numpy()
    return Fit(
        estimate=alone.params[names].to_numpy(),
        std_error=alone.bse[names].to_numpy(),
        covered=(limits[:, 0] <= truth) & (truth <= limits[:, 1]),
        complete_cases=plain,
        records=result.facts.records,
        complete=len(whole),
    )


def simulate(formula: str, lacking: Lacking, repeats: int, **changes: object) -> list[Fit]:
    """Simulate data sets and fit each."""
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng(40_000 + seed)
        public, private = people(PUBLIC, rng), people(PRIVATE, rng)
        schema = schema_of(formula, **changes)
        found.append(one_fit(formula, lacking.spoil(private, rng)[list(schema)], public[list(schema)], schema))
    return found

"""Public only, a level that public rows lack, and quantiles of counts: simulated data sets and what intervals hold."""

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import nbinom, poisson

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

FEW = 102
PATIENTS = "event3 ~ age + size + grade3 + log1p(nodes) + hormon"
SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 60, complete=True),
    hormon=hdp.Binary(complete=True),
    event3=hdp.Binary(),
)
ABSENT = "g[T.c]"
LEVELS = hdp.Schema(
    x=hdp.Continuous(-4, 4, complete=True),
    z=hdp.Continuous(-4, 4, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    y=hdp.Binary(complete=True),
)
TRUTH = pd.Series({"Intercept": -1.0, "g[T.b]": 0.4, ABSENT: 1.0, "x": 0.6, "z": -0.4})
COUNTS = hdp.Schema(y=hdp.Continuous(0, 15, complete=True))
DISTRIBUTIONS = {
    "Poisson, mean 2.2 (F(1) = .35, F(2) = .62)": poisson(2.2),
    "Poisson, mean 1.7 (F(1) = .49, F(2) = .76)": poisson(1.7),
    "negative binomial (F(2) = .49, F(3) = .59)": nbinom(1, 0.2),
}


def few_public_rows(seed: int) -> dict[str, float]:
    """Return by term whether 95 % intervals of public only hold the truth: patients of gbsg, outcomes by a model."""
    rng, frame = np.random.default_rng([seed, 1]), hdp.datasets.load_gbsg()
    whole = hdpf.logit(PATIENTS, hdp.Study(public=frame, schema=SCHEMA)).fit_public()
    rows = frame.iloc[rng.integers(0, len(frame), FEW)].reset_index(drop=True)
    p = whole.predict(rows).to_numpy()
    rows["event3"] = (rng.random(FEW) < p).astype(float)
    alone = hdpf.logit(PATIENTS, hdp.Study(public=rows, schema=SCHEMA)).fit_public()
    return held(alone, whole.params)


def held(result: "hdp.Result", truth: "pd.Series[float]") -> dict[str, float]:
    """Return by term whether an interval holds the truth; NaN where there is none."""
    limits = result.conf_int()
    inside = (limits[0] <= truth) & (truth <= limits[1])
    return inside.astype(float).where(limits[0].notna()).to_dict()


def with_levels(rng: np.random.Generator, n: int, share: float) -> pd.DataFrame:
    """Return rows of which a share has level c."""
    x = rng.normal(size=(n, 2)).clip(-4, 4)
    g = np.where(rng.random(n) < share, "c", np.where(rng.random(n) < 0.5, "a", "b"))
    eta = TRUTH["Intercept"] + 0.4 * (g == "b") + TRUTH[ABSENT] * (g == "c") + x @ [0.6, -0.4]
    return pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "g": g, "y": (rng.random(n) < expit(eta)).astype(float)})


def absent_level(job: tuple[float, float, bool, int]) -> dict[str, object]:
    """Return what intervals of the pooled fit hold where public rows lack a level that private people have."""
    share, epsilon, describe, seed = job
    rng = np.random.default_rng([seed, int(1000 * share), 2])
    study = hdp.Study(
        private=with_levels(rng, 4000, share),
        public=with_levels(rng, 300, 0.0),
        schema=LEVELS,
        budget=hdp.Budget(epsilon=20),
    )
    result = hdpf.logit("y ~ g + x + z", study).fit(epsilon, describe=describe)
    inside = held(result, TRUTH[list(result.params.index)])
    others = [value for term, value in inside.items() if term != ABSENT]
    return {
        "share": share,
        "epsilon": epsilon,
        "described": describe,
        "level": inside[ABSENT],
        "others": float(np.mean(others)),
        "error": result.params[ABSENT] - TRUTH[ABSENT],
        "std_error": result.bse[ABSENT],
    }


def count_median(job: tuple[str, float, int]) -> dict[str, object]:
    """Return whether intervals hold the median of a count, and how wide they are."""
    name, epsilon, seed = job
    rng, p = np.random.default_rng([seed, 3]), DISTRIBUTIONS[name].pmf(np.arange(16))
    p[-1] += 1.0 - p.sum()
    median = float(np.searchsorted(np.cumsum(p), 0.5))
    rows = [pd.DataFrame({"y": rng.choice(16, n, p=p)}) for n in (3000, 200)]
    study = hdp.Study(private=rows[0], public=rows[1], schema=COUNTS, budget=hdp.Budget(epsilon=20))
    result = hdpf.quantile("y ~ 1", study).fit(epsilon)
    (low, high), (first, last) = (
        each.conf_int().to_numpy()[0] for each in (result.private_only, result.pooled or result.private_only)
    )
    return {
        "count": name,
        "epsilon": epsilon,
        "private": float(low <= median <= high),
        "pooled": float(first <= median <= last),
        "width": last - first,
    }

"""Simulated studies of survival curves adjusted by overlap weights: designs, one data set, and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.effects_studies import COLUMNS, DIMENSION, FORMULA, OUTCOME, RULE, TREATED

PRIVATE, PUBLIC = 6_000, 300
TIMES = (1.0, 2.0, 3.5, 5.0, 7.0, 10.0)
HORIZON, SCALE = 10.0, 0.12
"""The end of follow-up in years, and the hazard per year of an untreated person in the middle."""

DEATH = 0.4
"""The hazard of the second cause over that of the first, for a person in the middle."""


@dataclass(frozen=True)
class Design:
    """People with five confounders and a time to an event.

    Attributes
    ----------
    name : str
        What a page calls it.
    effect : float
        The logarithm of the hazard ratio of treatment for a person; 0 for the size of the test.
    intercept : float
        Of the propensity: -2.7 treats one in ten.
    shift : float
        How far public covariates are from private ones, in standard deviations.
    missing : float
        The share of cells that private rows lack.
    causes : int
        1, or 2 with a competing cause that depends on covariates in another way.
    slopes : tuple of float
        How the logarithm of the first cause's hazard depends on the covariates.
    """

    name: str
    effect: float = -0.6
    intercept: float = -0.8
    shift: float = 0.0
    missing: float = 0.0
    causes: int = 1
    slopes: tuple[float, ...] = tuple(OUTCOME)

    def people(self, rng: np.random.Generator, rows: int, *, public: bool) -> pd.DataFrame:
        """Return rows without missing cells."""
        moved = self.shift * public * np.array([1.0, -1.0, 0.5, 0.0, 0.5])
        X = (rng.normal(size=(rows, DIMENSION)) + moved).clip(-3, 3)
        treated = (rng.random(rows) < expit(self.intercept + RULE * public + X @ TREATED)).astype(int)
        rates = self.rates(X, treated)  # (K, n)
        event = rng.exponential(size=rows) / rates.sum(axis=0)
        cause = 1 + (rng.random(rows) > rates[0] / rates.sum(axis=0)).astype(int)
        censored = rng.uniform(2.0, 14.0, rows)
        time = np.minimum(np.minimum(event, censored), HORIZON)
        codes = np.where((event <= censored) & (event <= HORIZON), cause, 0)
        return pd.DataFrame(X, columns=COLUMNS).assign(a=treated, time=time, event=np.array(LEVELS)[codes])

    def rates(self, X: np.ndarray, treated: np.ndarray | float) -> np.ndarray:
        """Return hazards (K, n) per year, which are constant in time."""
        first = SCALE * np.exp(X @ np.array(self.slopes) + self.effect * np.asarray(treated))
        other = SCALE * DEATH * np.exp(-X @ OUTCOME / 2.0) * np.ones_like(first)
        return np.stack([first, other])[: self.causes]

    @property
    def schema(self) -> hdp.Schema:
        """The declarations."""
        whole = {"complete": self.missing == 0.0}
        return hdp.Schema(
            a=hdp.Binary(**whole),
            time=hdp.Duration(HORIZON, **whole),
            event=hdp.Categorical(list(LEVELS[: self.causes + 1]), **whole),
            **{name: hdp.Continuous(-3, 3, **whole) for name in COLUMNS},
        )


LEVELS = ("none", "relapse", "death")
REACH = 5.0
"""Up to when restricted means are compared."""

DESIGNS = (
    Design("an effect"),
    Design("one in ten treated", intercept=-2.7),
    Design("public covariates shifted", shift=0.4),
    Design("10 % of rows lack a cell", missing=0.013),
    Design("two causes", causes=2),
)
NULL = Design("no effect", effect=0.0, slopes=(0.5, -0.4, 0.3, 0.0, 0.2))
"""Treatment changes nothing, and depends on what the hazard depends on."""


@cache
def truth_of(design: Design) -> tuple[np.ndarray, float]:
    """Return the incidence of the first cause (2, T) of weighted people, and the difference of restricted means."""
    X = np.random.default_rng(1).normal(size=(100_000, DIMENSION)).clip(-3, 3)
    e = expit(design.intercept + X @ TREATED)
    w = e * (1 - e) / np.sum(e * (1 - e))
    found, means = [], []
    for arm in (0, 1):
        rates = design.rates(X, arm)
        total = rates.sum(axis=0)
        found.append([w @ (rates[0] / total * -np.expm1(-total * t)) for t in TIMES])
        means.append(w @ (-np.expm1(-total * REACH) / total))
    return np.array(found), float(means[1] - means[0])


def one_data_set(design: Design, epsilon: float, seed: int) -> Mapping[str, np.ndarray]:
    """Return errors of incidences at the ends and of the difference of means, reported, planned, and what is held."""
    rng = np.random.default_rng(70_000 + seed)
    private, public = (design.people(rng, rows, public=other) for rows, other in ((PRIVATE, False), (PUBLIC, True)))
    if design.missing:
        private = private.mask(rng.random(private.shape) < design.missing)
    budget = hdp.Budget(epsilon=2 * epsilon)
    study = hdp.Study(private=private, public=public, schema=design.schema, budget=budget)
    weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
    request = hdpf.survfit("Surv(time, event) ~ a", study, times=TIMES, weighting=weighting)
    planned = request.plan(epsilon / 2).frame
    curves = request.fit(epsilon / 2)
    table = curves.tidy()
    if design.causes > 1:
        table = table[table["cause"] == LEVELS[1]]
    truth, apart = truth_of(design)
    values = truth.ravel() if design.causes > 1 else 1.0 - truth.ravel()
    mean = curves.restricted_mean(REACH, differences=True).iloc[0]
    return {
        "error": table["estimate"].to_numpy() - values,
        "std error": table["std_error"].to_numpy(),
        "planned": planned["std_error"].to_numpy() if design.causes == 1 else table["std_error"].to_numpy(),
        "covered": ((table["conf_low"] <= values) & (values <= table["conf_high"])).to_numpy().astype(float),
        "mean error": np.array([mean["estimate"] - apart]),
        "mean std error": np.array([mean["std_error"]]),
        "mean covered": np.array([float(mean["conf_low"] <= apart <= mean["conf_high"])]),
    }


def one_test(epsilon: float, seed: int) -> Mapping[str, float]:
    """Return p-values of weighted and unweighted log-rank tests where treatment changes nothing."""
    rng = np.random.default_rng(90_000 + seed)
    private, public = (NULL.people(rng, rows, public=other) for rows, other in ((PRIVATE, False), (PUBLIC, True)))
    study = hdp.Study(private=private, public=public, schema=NULL.schema, budget=hdp.Budget(epsilon=2 * epsilon))
    weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
    weighted, plain = (
        hdpf.survfit("Surv(time, event) ~ a", study, times=TIMES, weighting=each).fit(epsilon / 2).logrank_test()
        for each in (weighting, None)
    )
    ratio = weighted.hazard_ratios().iloc[0]
    return {
        "p": weighted.p_value,
        "unweighted p": plain.p_value,
        "ratio covered": float(ratio["conf_low"] <= 1.0 <= ratio["conf_high"]),
    }

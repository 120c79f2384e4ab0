"""Simulated studies of treatment effects by overlap weights: designs, one data set, and what it gives."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.special import expit
from scipy.stats import poisson

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

PRIVATE, PUBLIC, DIMENSION = 6_000, 300, 5
COLUMNS = tuple(f"x{place}" for place in range(DIMENSION))
FORMULA = "a ~ " + " + ".join(COLUMNS)
TREATED = np.array([0.8, -0.6, 0.4, 0.0, 0.3])
OUTCOME = np.array([0.7, 0.5, -0.5, 0.4, 0.0])
EFFECT, LARGEST = -0.6, 20
PLANNED = 40
"""Of so many data sets of a setting errors are planned, which hardly vary: a plan takes a third of a set's time."""

RULE = 0.5
"""What public people's chance of treatment has more, in its logit."""


@dataclass(frozen=True)
class Design:
    """People with five confounders.

    Attributes
    ----------
    name : str
        What a page calls it.
    intercept : float
        Of the propensity: -2.7 treats one in ten, 0 a half.
    square : float
        A square in the outcome, which no linear outcome model has.
    shift : float
        How far public covariates are from private ones, in standard deviations.
    missing : float
        The share of cells that private rows lack.
    counts : bool
        Whether the outcome is a count.
    rule : float
        What slopes of the chance of treatment are multiplied by among public people: -1 is the opposite rule.
    """

    name: str
    intercept: float = -0.8
    square: float = 0.0
    shift: float = 0.0
    missing: float = 0.0
    counts: bool = False
    rule: float = 1.0

    def people(self, rng: np.random.Generator, rows: int, *, public: bool) -> pd.DataFrame:
        """Return rows without missing cells."""
        X = self._covariates(rng, rows, public=public)
        slopes = self.rule * TREATED if public else TREATED
        treated = (rng.random(rows) < expit(self.intercept + RULE * public + X @ slopes)).astype(int)
        mean = np.choose(treated, self._means(X))
        y = np.minimum(rng.poisson(mean), LARGEST) if self.counts else rng.random(rows) < mean
        return pd.DataFrame(X, columns=COLUMNS).assign(a=treated, y=y.astype(float))

    def _covariates(self, rng: np.random.Generator, rows: int, *, public: bool) -> np.ndarray:
        moved = self.shift * public * np.array([1.0, -1.0, 0.5, 0.0, 0.5])
        return (rng.normal(size=(rows, DIMENSION)) + moved).clip(-3, 3)

    def _means(self, X: np.ndarray) -> np.ndarray:
        """Return the mean outcome (2, n) without and with treatment, a count before it is cut."""
        eta = X @ OUTCOME + self.square * (X[:, 0] ** 2 - 1)
        both = np.stack([eta, eta + EFFECT])
        return np.exp(0.7 + 0.4 * both) if self.counts else expit(both - 1.0)

    @property
    def schema(self) -> hdp.Schema:
        """The declarations."""
        whole = {"complete": self.missing == 0.0}
        outcome = hdp.Continuous(0, LARGEST, **whole) if self.counts else hdp.Binary(**whole)
        return hdp.Schema(
            a=hdp.Binary(**whole), y=outcome, **{name: hdp.Continuous(-3, 3, **whole) for name in COLUMNS}
        )

    @property
    def truth(self) -> tuple[float, float]:
        """The weighted means without and with treatment."""
        return truth_of(self)


@cache
def truth_of(design: Design) -> tuple[float, float]:
    """Return the weighted means of a population, untreated first, by an average over 200,000 covariates."""
    X = design._covariates(np.random.default_rng(1), 200_000, public=False)
    e = expit(design.intercept + X @ TREATED)
    means = design._means(X)
    if design.counts:  # the mean of a count that is cut: the sum of its survival function
        means = sum(poisson.sf(k, means) for k in range(LARGEST))
    untreated, treated = np.average(means, axis=1, weights=e * (1 - e))
    return float(untreated), float(treated)


DESIGNS = (
    Design("outcome model right"),
    Design("outcome model lacks a square", square=0.6),
    Design("one in ten treated", intercept=-2.7),
    Design("one in fifteen treated", intercept=-3.2),
    Design("half treated", intercept=0.0),
    Design("public people by the opposite rule", rule=-1.0),
    Design("public covariates shifted", shift=0.4),
    Design("10 % of rows lack a cell", missing=0.015),
    Design("counts", counts=True),
)


def one_data_set(design: Design, epsilon: float, seed: int) -> Mapping[str, float]:
    """Return how far estimates are from the truth, what is reported, and whether intervals hold it."""
    rng = np.random.default_rng(50_000 + seed)
    private, public = (design.people(rng, rows, public=other) for rows, other in ((PRIVATE, False), (PUBLIC, True)))
    untreated, treated = design.truth
    free = without_noise(private) - (treated - untreated)
    if design.missing:
        private = private.mask(rng.random(private.shape) < design.missing)
    budget = hdp.Budget(epsilon=epsilon)
    study = hdp.Study(private=private, public=public, schema=design.schema, budget=budget)
    propensity = hdp.propensity(FORMULA, study, epsilon=epsilon / 2)
    weighting, limits = propensity.weights(), propensity.fit.conf_int().to_numpy()
    coefficients = np.array([design.intercept, *TREATED])
    request = hdp.treatment_effect("y ~ a", study, weighting)
    planned = math.nan
    if seed < PLANNED:
        frame = request.plan(epsilon / 2).frame
        planned = float(frame.loc[frame["effect"].str.endswith("difference"), "std_error"].iloc[0])
    table = request.release(epsilon / 2).tidy()
    means, difference = table.iloc[:2], table.iloc[2]
    held = [low <= true <= high for low, high, true in zip(means.conf_low, means.conf_high, design.truth, strict=True)]
    return {
        "error": difference.estimate - (treated - untreated),
        "std error": difference.std_error,
        "planned": planned,
        "without noise": free,
        "covered": float(difference.conf_low <= treated - untreated <= difference.conf_high),
        "ratio covered": float(table.conf_low[3] <= treated / untreated <= table.conf_high[3]),
        "means covered": float(np.mean(held)),
        "propensity covered": float(np.mean((limits[:, 0] <= coefficients) & (coefficients <= limits[:, 1]))),
    }


@dataclass(frozen=True)
class Regression:
    """A weighted regression: a marginal structural model.

    Attributes
    ----------
    name : str
        What a page calls it.
    design : Design
        The people.
    model : str
        A name of `hdpstats.formula.api`.
    formula : str
        Its formula.
    """

    name: str
    design: Design
    model: str
    formula: str

    @property
    def truth(self) -> tuple[float, ...]:
        """The coefficients among weighted people, intercept first."""
        return coefficients_of(self)


FAMILIES = {"logit": sm.families.Binomial, "linear": sm.families.Gaussian, "poisson": sm.families.Poisson}


@cache
def coefficients_of(regression: Regression) -> tuple[float, ...]:
    """Return the coefficients of a regression among 200,000 people in both arms, with their mean outcomes."""
    design = regression.design
    X = design._covariates(np.random.default_rng(1), 200_000, public=False)
    e = expit(design.intercept + X @ TREATED)
    means = design._means(X)
    if design.counts:
        means = sum(poisson.sf(k, means) for k in range(LARGEST))
    rows = pd.concat([pd.DataFrame(X, columns=COLUMNS).assign(a=float(arm), y=means[arm]) for arm in (0, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of outcomes that are no counts
        fit = smf.glm(
            regression.formula, rows, family=FAMILIES[regression.model](), freq_weights=np.tile(e * (1 - e), 2)
        ).fit()
    return tuple(float(value) for value in fit.params)


PLAIN, COUNTS = DESIGNS[0], DESIGNS[-1]
REGRESSIONS = (
    Regression("risks by arm", PLAIN, "logit", "y ~ a"),
    Regression("an effect that differs", PLAIN, "logit", "y ~ a * x0"),
    Regression("one in fifteen treated", DESIGNS[3], "logit", "y ~ a"),
    Regression("10 % of rows lack a cell", DESIGNS[7], "logit", "y ~ a"),
    Regression("means of counts", COUNTS, "linear", "y ~ a"),
    Regression("counts", COUNTS, "poisson", "y ~ a"),
)


def names_of(regression: Regression) -> tuple[str, ...]:
    """Return the names of its coefficients."""
    return {"y ~ a": ("Intercept", "a"), "y ~ a * x0": ("Intercept", "a", "x0", "a:x0")}[regression.formula]


def one_regression(regression: Regression, epsilon: float, seed: int) -> Mapping[str, np.ndarray]:
    """Return how far coefficients are from the truth, what is reported and planned, and whether intervals hold it."""
    design, rng = regression.design, np.random.default_rng(60_000 + seed)
    private, public = (design.people(rng, rows, public=other) for rows, other in ((PRIVATE, False), (PUBLIC, True)))
    if design.missing:
        private = private.mask(rng.random(private.shape) < design.missing)
    budget = hdp.Budget(epsilon=epsilon)
    study = hdp.Study(private=private, public=public, schema=design.schema, budget=budget)
    weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
    model = getattr(hdpf, regression.model)(regression.formula, study, weighting=weighting)
    fit = model.fit(epsilon / 2)
    planned = np.full(len(fit.params), math.nan)
    if seed < PLANNED:
        planned = model.plan(epsilon / 2).frame["std_error"].to_numpy()
    limits, truth = fit.conf_int().to_numpy(), np.array(regression.truth)
    return {
        "error": fit.params.to_numpy() - truth,
        "std error": fit.bse.to_numpy(),
        "planned": planned,
        "covered": ((limits[:, 0] <= truth) & (truth <= limits[:, 1])).astype(float),
    }


def without_noise(rows: pd.DataFrame) -> float:
    """Return the weighted difference of ordinary software."""
    design = sm.add_constant(rows[list(COLUMNS)].to_numpy())
    e = sm.Logit(rows["a"], design).fit(disp=0).predict(design)
    treated = (rows["a"] == 1).to_numpy()
    weights, y = np.where(treated, 1 - e, e), rows["y"].to_numpy()
    return float(np.average(y[treated], weights=weights[treated]) - np.average(y[~treated], weights=weights[~treated]))

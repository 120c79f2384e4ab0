"""Simulated studies of people with several rows and of separate sites: effects, weighted regressions, combinations."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import poisson

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

PEOPLE, PUBLIC, MOST = 2_000, 200, 4
SITES = (("A", 1_500, -0.4), ("B", 1_500, 0.4), ("C", 3_000, 0.0))
"""Name, people, and what is added to the logit of the chance of treatment."""

SCHEMA = hdp.Schema(
    a=hdp.Binary(complete=True),
    x1=hdp.Continuous(-3, 3, complete=True),
    x2=hdp.Continuous(-3, 3, complete=True),
    y=hdp.Binary(),
    k=hdp.Continuous(0, 10),
)
FORMULA = "a ~ x1 + x2"
LARGEST = 10
"""Where counts are cut."""


def count_rate(eta: np.ndarray) -> np.ndarray:
    """Return the expected number, before it is cut."""
    return np.exp(0.5 + 0.5 * eta)


MEANS = {"y": expit, "count": lambda eta: sum(poisson.sf(k, count_rate(eta)) for k in range(LARGEST))}
"""Mean outcomes at a predictor, of those that are drawn from it."""
LINKS = {"logit": logit, "linear": np.asarray, "poisson": np.log}
"""From means to the scale of coefficients."""


@dataclass(frozen=True)
class Visits:
    """People with one to four rows.

    Attributes
    ----------
    name : str
        What a page calls them.
    outcome : str
        ``y``, binary, ``k``, a number, or ``count``, where ``k`` is one.
    ill : bool
        Whether the ill come more often: the number of rows says something of the outcome.
    later : bool
        Whether covariates and treatment change after the first row.
    told : bool
        Whether public rows say whose they are.
    missing : float
        The share of rows without an outcome.
    """

    name: str
    outcome: str = "y"
    ill: bool = False
    later: bool = False
    told: bool = True
    missing: float = 0.0

    def people(self, rng: np.random.Generator, count: int, *, public: bool) -> pd.DataFrame:
        """Return rows."""
        X = rng.normal(size=(count, 2)).clip(-3, 3)
        own = rng.normal(0.0, 0.9, count)
        rule = np.array([-0.5, 0.8]) if public else np.array([0.7, -0.5])
        a = (rng.random(count) < expit(-0.3 + X @ rule)).astype(int)
        chance = expit(own) if self.ill else np.full(count, 0.5)
        number = 1 + rng.binomial(MOST - 1, chance)
        person = np.repeat(np.arange(count), number)
        first = np.diff(person, prepend=-1) > 0
        eta = self.predictor(X, own, a)[person]
        n = len(person)
        frame = pd.DataFrame(
            {
                "id": person,
                "a": a[person],
                "x1": X[person, 0],
                "x2": X[person, 1],
                "y": (rng.random(n) < expit(eta)).astype(float),
                "k": self._numbers(rng, eta),
            }
        )
        if self.later:
            frame["a"] = np.where(first, frame["a"], rng.integers(0, 2, n))
            frame["x1"] = np.where(first, frame["x1"], rng.uniform(-3, 3, n))
        frame.loc[rng.random(n) < self.missing, ["y", "k"]] = np.nan
        return frame if self.told or not public else frame.drop(columns="id")

    def _numbers(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Return what ``k`` is of rows with a predictor."""
        if self.outcome == "count":
            return np.minimum(rng.poisson(count_rate(eta)), LARGEST).astype(float)
        return np.clip(4.0 + eta + rng.normal(size=len(eta)), 0, 10)

    @property
    def column(self) -> str:
        """The column of the outcome."""
        return "y" if self.outcome == "y" else "k"

    @staticmethod
    def predictor(X: np.ndarray, own: np.ndarray, a: np.ndarray | float) -> np.ndarray:
        """Return the predictor of a person's outcomes."""
        return np.asarray(-0.6 + X @ np.array([0.6, 0.4]) + own - 0.6 * a)

    @property
    def truth(self) -> float:
        """The difference of the weighted means of people's means."""
        untreated, treated = means_of(self.outcome)
        return treated - untreated


@cache
def means_of(outcome: str) -> tuple[float, float]:
    """Return the weighted means of people's means had all been untreated, and treated.

    They are averages over 400,000 people; how many rows one has does not change the mean of a person.
    """
    rng = np.random.default_rng(1)
    X, own = rng.normal(size=(400_000, 2)).clip(-3, 3), rng.normal(0.0, 0.9, 400_000)
    e = expit(-0.3 + X @ np.array([0.7, -0.5]))
    means = []
    for arm in (0.0, 1.0):
        eta = Visits.predictor(X, own, arm)
        noise = rng.normal(size=len(eta))
        mean = MEANS[outcome](eta) if outcome in MEANS else np.clip(4.0 + eta + noise, 0, 10)
        means.append(float(np.average(mean, weights=e * (1 - e))))
    return means[0], means[1]


VISITS = (
    Visits("one to four visits"),
    Visits("the ill come more often", ill=True),
    Visits("treatment and covariates change later", later=True),
    Visits("a fifth of outcomes missing", missing=0.2),
    Visits("public rows do not say whose they are", told=False),
    Visits("a number", outcome="k"),
)


def study_of(visits: Visits, epsilon: float, seed: int) -> hdp.Study:
    """Return a study of such people, with a budget of epsilon."""
    rng = np.random.default_rng(seed)
    private, public = (visits.people(rng, n, public=other) for n, other in ((PEOPLE, False), (PUBLIC, True)))
    return hdp.Study(
        private=private,
        public=public,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=epsilon),
        unit="id",
        max_rows_per_unit=MOST,
        n_max=PEOPLE,
    )


def one_data_set(visits: Visits, epsilon: float, seed: int) -> Mapping[str, float]:
    """Return how far the difference is from the truth, what is reported, and whether intervals hold it."""
    study = study_of(visits, epsilon, 80_000 + seed)
    weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
    row = hdp.treatment_effect(f"{visits.column} ~ a", study, weighting, epsilon=epsilon / 2).tidy().iloc[2]
    return {
        "error": row.estimate - visits.truth,
        "std error": row.std_error,
        "covered": float(row.conf_low <= visits.truth <= row.conf_high),
    }


@dataclass(frozen=True)
class Regression:
    """A weighted regression of people with several rows on their treatment: of means of their outcomes.

    Attributes
    ----------
    model : str
        A name of `hdpstats.formula.api`.
    visits : Visits
        The people.
    """

    model: str
    visits: Visits

    @property
    def truth(self) -> float:
        """The treatment's coefficient among weighted people: a difference of the means by arm, under the link."""
        untreated, treated = LINKS[self.model](np.array(means_of(self.visits.outcome)))
        return float(treated - untreated)


REGRESSIONS = tuple(
    Regression(model, Visits("a tenth of outcomes missing", outcome=outcome, missing=0.1))
    for model, outcome in (("logit", "y"), ("linear", "k"), ("poisson", "count"))
)


def one_regression(regression: Regression, epsilon: float, seed: int) -> Mapping[str, float]:
    """Return how far the treatment's coefficient is from the truth, what is reported, and whether limits hold it."""
    visits = regression.visits
    study = study_of(visits, epsilon, 120_000 + seed)
    weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
    model = getattr(hdpf, regression.model)(f"{visits.column} ~ a", study, weighting=weighting)
    fit = model.fit(epsilon / 2)
    (low, high), truth = fit.conf_int().loc["a"], regression.truth
    return {
        "error": fit.params["a"] - truth,
        "std error": fit.bse["a"],
        "covered": float(low <= truth <= high),
    }


@dataclass(frozen=True)
class Sites:
    """Sites that treat by different rules, each with a propensity model of its own.

    Attributes
    ----------
    name : str
        What a page calls them.
    effect : str
        The contrast that is the same at all sites: ``risk difference`` or ``risk ratio``.
    apart : float
        The standard deviation of the sites' own differences about the common one.
    copies : int
        How often each of `SITES` is there.
    between : str or None
        How a variance between sites is estimated.
    """

    name: str
    effect: str
    apart: float = 0.0
    copies: int = 1
    between: str | None = None

    @property
    def truth(self) -> float:
        """The common contrast."""
        return -0.12 if self.effect == "risk difference" else 0.7

    def rows(self, rng: np.random.Generator, count: int, shift: float, own: float) -> pd.DataFrame:
        """Return people of a site."""
        X = rng.normal(size=(count, 2)).clip(-3, 3)
        slopes = np.array([0.7, -0.5]) if shift >= 0 else np.array([-0.3, 0.8])
        a = (rng.random(count) < expit(shift + X @ slopes)).astype(int)
        if self.effect == "risk difference":
            risk = 0.45 + X @ np.array([0.06, 0.04]) + (self.truth + own) * a
        else:
            risk = np.exp(-1.1 + X @ np.array([0.12, 0.08])) * self.truth**a
        y = (rng.random(count) < risk).astype(float)
        return pd.DataFrame({"a": a, "x1": X[:, 0], "x2": X[:, 1], "y": y, "k": 1.0})


SEPARATE = (
    Sites("the same difference", "risk difference"),
    Sites("the same ratio", "risk ratio"),
    Sites("differences differ", "risk difference", apart=0.05, copies=3, between="paule_mandel"),
)


def one_combination(sites: Sites, epsilon: float, seed: int) -> Mapping[str, float]:
    """Return how far the combined contrast is from the truth, whether intervals hold it, and the p-value of Q."""
    rng = np.random.default_rng(90_000 + seed)
    public = sites.rows(rng, PUBLIC, 0.2, 0.0)
    effects = {}
    for name, count, shift in SITES:
        for copy in range(sites.copies):
            private = sites.rows(rng, count, shift, sites.apart * rng.normal())
            study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=epsilon))
            weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
            effects[f"{name}{copy}"] = hdp.treatment_effect("y ~ a", study, weighting, epsilon=epsilon / 2)
    row = hdp.combine_effects(effects, between=sites.between).tidy().set_index("effect").loc[sites.effect]
    log = np.log if sites.effect.endswith("ratio") else np.asarray
    return {
        "error": float(log(row.estimate) - log(sites.truth)),
        "std error": float(row.std_error / row.estimate if log is np.log else row.std_error),
        "covered": float(row.conf_low <= sites.truth <= row.conf_high),
        "differ": float(row.Q_p_value < 0.05),
        "tau": float(row.tau),
    }


FEW = (800, 1_500, 600)
"""People at each of the sites whose errors are drawn from what the sites report, in turn."""

DIFFERENCE = 0.1
"""The mean of such sites' differences."""


@cache
def reported_effects() -> tuple[hdp.TreatmentEffect, ...]:
    """Return effects of nine sites, of which the errors that they report are used, and no values."""
    found = []
    for place in range(9):
        sites, rng = Sites("reported", "risk difference"), np.random.default_rng(70_000 + place)
        private = sites.rows(rng, FEW[place % len(FEW)], SITES[place % len(SITES)][2], 0.0)
        study = hdp.Study(
            private=private, public=sites.rows(rng, PUBLIC, 0.2, 0.0), schema=SCHEMA, budget=hdp.Budget(epsilon=10)
        )
        weighting = hdp.propensity(FORMULA, study, epsilon=5).weights()
        found.append(hdp.treatment_effect("y ~ a", study, weighting, epsilon=5))
    return tuple(found)


def one_average(count: int, tau: float, between: str, seed: int) -> Mapping[str, float]:
    """Return what `one_combination` does, of sites whose differences are drawn: own ones, and errors as reported."""
    rng = np.random.default_rng([seed, count, round(1000 * tau)])
    effects = []
    for effect in reported_effects()[:count]:
        errors = effect.estimate.distribution
        place = effect.estimate.terms.index("risk difference")
        size = np.interp(rng.random(), errors.levels, errors.quantiles[:, place])
        values = effect.estimate.values.copy()
        values[place] = DIFFERENCE + tau * rng.normal() + rng.choice([-1.0, 1.0]) * size
        effects.append(replace(effect, estimate=replace(effect.estimate, values=values)))
    row = hdp.combine_effects(effects, between=between).tidy().iloc[0]
    return {
        "error": float(row.estimate - DIFFERENCE),
        "std error": float(row.std_error),
        "covered": float(row.conf_low <= DIFFERENCE <= row.conf_high),
        "width": float(row.conf_high - row.conf_low),
        "tau": float(row.tau),
    }

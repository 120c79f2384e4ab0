"""Simulated studies of hazard models of people weighted by their chance of treatment: marginal structural models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.formulas.outcome import log_spline
from hdpstats.records.model import TimeGrid
from tests.statistical.adjusted_curves_studies import DESIGNS, HORIZON, PRIVATE, PUBLIC, Design
from tests.statistical.effects_studies import DIMENSION, FORMULA, PLANNED, TREATED

GRID, DF = TimeGrid(tuple(float(s) for s in range(1, int(HORIZON) + 1))), 3
CENSORED = 2.0, 14.0
"""Between which times people are censored evenly, as `Design.people` has it."""

POPULATION = 60_000
"""People in both arms whose expected weighted fit is taken for the truth."""


@dataclass(frozen=True)
class Hazards:
    """A weighted hazard model with the complementary log-log link.

    Attributes
    ----------
    name : str
        What a page calls it.
    design : Design
        The people; hazards of a person are proportional, those of weighted people nearly so.
    terms : tuple of str
        Its terms, the treatment first.
    epsilons : tuple of float
        What propensity model and fit cost together, half each.
    """

    name: str
    design: Design
    terms: tuple[str, ...] = ("a",)
    epsilons: tuple[float, ...] = (1.0,)

    @property
    def formula(self) -> str:
        """Its formula."""
        return f"Surv(time, event) ~ {' + '.join(self.terms)}"

    @property
    def truth(self) -> np.ndarray:
        """The coefficients among weighted people, baseline first."""
        return coefficients_of(self)


HAZARDS = (
    Hazards("a hazard ratio", DESIGNS[0], epsilons=(1.0, 0.3)),
    Hazards("one that differs", DESIGNS[0], ("a", "x0", "a:x0")),
    Hazards("one in ten treated", DESIGNS[1], epsilons=(1.0, 0.3)),
    Hazards("public covariates shifted", DESIGNS[2]),
    Hazards("10 % of rows lack a cell", DESIGNS[3]),
)


@cache
def coefficients_of(hazards: Hazards) -> np.ndarray:
    """Return the coefficients of the weighted fit to all that is expected of people in both arms.

    A person with the hazard ``r`` is at risk in an interval with the chance of not having been censored times
    ``exp(-r s)``, and has the event in it with a chance that censoring within the interval lowers.
    """
    design = hazards.design
    X = np.random.default_rng(1).normal(size=(POPULATION, DIMENSION)).clip(-3, 3)
    e = expit(design.intercept + X @ TREATED)
    low, high = CENSORED
    weights, events, rows = [], [], []
    features = log_spline(GRID, DF)
    for arm in (0, 1):
        rate = design.rates(X, arm)[0]
        own = np.column_stack([{"a": np.full(len(X), arm), "x0": X[:, 0], "a:x0": arm * X[:, 0]}[term]
                               for term in hazards.terms])  # fmt: skip
        for s in range(1, GRID.intervals + 1):
            until, after = (min(1.0, (high - each) / (high - low)) for each in (s - 1, s))
            lost = 1.0 - after / until
            whole = -np.expm1(-rate)
            chance = (1.0 - lost) * whole + lost * (1.0 - whole / rate)
            weight = e * (1 - e) * until * np.exp(-rate * (s - 1))
            if len(hazards.terms) == 1:  # people of an arm are alike
                chance, weight = np.array([weight @ chance / weight.sum()]), np.array([weight.sum()])
            rows.append(np.column_stack([np.tile(features[s - 1], (len(weight), 1)), own[: len(weight)]]))
            weights.append(weight)
            events.append(chance)
    family = sm.families.Binomial(link=sm.families.links.CLogLog())
    model = sm.GLM(np.concatenate(events), np.concatenate(rows), family=family, freq_weights=np.concatenate(weights))
    return np.asarray(model.fit(tol=1e-10).params)


ARMS = pd.DataFrame({"a": [0, 1], "x0": [0.0, 0.0]})


def curves_of(hazards: Hazards, values: np.ndarray) -> np.ndarray:
    """Return survival (2, q) at the ends of intervals at some coefficients, of both arms where x0 is 0."""
    baseline, effect = log_spline(GRID, DF) @ values[:DF], values[DF]
    hazard = np.exp(np.stack([baseline, baseline + effect]))
    return np.exp(-np.cumsum(hazard, axis=1))


def one_hazards(hazards: Hazards, epsilon: float, seed: int) -> Mapping[str, np.ndarray]:
    """Return how far slopes are from the truth, what is reported and planned, and whether intervals hold it."""
    design, rng = hazards.design, np.random.default_rng(110_000 + seed)
    private, public = (design.people(rng, rows, public=other) for rows, other in ((PRIVATE, False), (PUBLIC, True)))
    if design.missing:
        private = private.mask(rng.random(private.shape) < design.missing)
    study = hdp.Study(private=private, public=public, schema=design.schema, budget=hdp.Budget(epsilon=2 * epsilon))
    weighting = hdp.propensity(FORMULA, study, epsilon=epsilon / 2).weights()
    model = hdpf.hazard(hazards.formula, study, intervals=GRID.intervals, df=DF, link="cloglog", weighting=weighting)
    fit = model.fit(epsilon / 2)
    planned = np.full(len(hazards.terms), math.nan)
    if seed < PLANNED:
        planned = model.plan(epsilon / 2).frame["std_error"].to_numpy()[DF:]
    limits, truth = fit.conf_int().loc[list(hazards.terms)].to_numpy(), hazards.truth[DF:]
    curves = fit.predict_survival(ARMS, times=list(GRID.cuts))
    survival = curves_of(hazards, hazards.truth).ravel()
    return {
        "error": fit.params[list(hazards.terms)].to_numpy() - truth,
        "std error": fit.bse[list(hazards.terms)].to_numpy(),
        "planned": planned,
        "covered": ((limits[:, 0] <= truth) & (truth <= limits[:, 1])).astype(float),
        "curve": ((curves["conf_low"] <= survival) & (survival <= curves["conf_high"])).to_numpy().astype(float),
    }

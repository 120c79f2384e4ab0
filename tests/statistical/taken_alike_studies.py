"""Fits that take public rows as they are, though private covariates differ: how far their intervals fall short.

Each is of a kind, and in a situation, of which summaries say what was covered: that they do is checked of each.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.models.estimates import assumed

ROWS, PUBLIC, YEARS = 3000, 300, 5
SLOPES = np.array([0.5, -0.4, 0.6])
NAMES = ["x1", "x2", "g"]
COVARIATES = {
    "x1": hdp.Continuous(-4, 4, complete=True),
    "x2": hdp.Continuous(-4, 4, complete=True),
    "g": hdp.Binary(complete=True),
}
OWN_LOSS, LINEAR, LOGIT = "own logistic loss", "linear, two rows each", "logit, two rows each"
STRATA, LATE, CHANGES = "two strata", "late entry", "covariates that change"
LINKS = ("logit", "cloglog")
HAZARDS = {f"hazard ({link}), {kind}": (link, kind) for kind in (STRATA, LATE, CHANGES) for link in LINKS}
MODELS = (OWN_LOSS, LINEAR, LOGIT, *HAZARDS)
DESCRIBED = (LINEAR, LOGIT)
"""Fits that describe their people, and rake public rows, unless they are told not to."""

WITHIN = 0.33
"""The correlation of a person's two outcomes, given covariates: of binary ones that of normal ones behind them."""

CHANGE = 2
"""After so many years the first covariate changes, where one does."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """Private and public rows, and the model on a study of them."""

    private: pd.DataFrame
    public: pd.DataFrame
    model: object


def covariates(rng: np.random.Generator, rows: int, *, private: bool) -> np.ndarray:
    """Return covariates; private means are moved, spreads .6 and 1.3 times the public ones, a level is rare."""
    z = rng.standard_normal((rows, 2)) * ([0.6, 1.3] if private else [1.0, 1.0])
    z = np.clip(z + ([0.6, -0.4] if private else [0.0, 0.0]), -4, 4)
    return np.column_stack([z, rng.random(rows) < (0.1 if private else 0.4)]).astype(float)


def people(rng: np.random.Generator, rows: int, name: str, *, private: bool) -> pd.DataFrame:
    """Return rows with the outcome of a model."""
    X = covariates(rng, rows, private=private)
    frame, eta = pd.DataFrame(X, columns=NAMES), X @ SLOPES
    if name in HAZARDS:
        link, kind = HAZARDS[name]
        if kind == CHANGES:
            return changing(rng, frame, link, private=private)
        stratum = (rng.random(rows) < (0.7 if private else 0.3)).astype(int)
        entry = np.zeros(rows, dtype=int)
        if kind == LATE:
            entry = rng.integers(0, 3, rows) * (rng.random(rows) < (0.8 if private else 0.3))
        when = entry + rng.geometric(hazard(eta + 0.5 * stratum * (kind == STRATA), link))
        end = np.minimum(np.minimum(when, YEARS), entry + rng.integers(1, 2 * YEARS, rows))
        event = (when == end).astype(float)
        return frame.assign(start=entry.astype(float), time=end - 0.5, event=event, s=np.array(["a", "b"])[stratum])
    if name in DESCRIBED:
        own, twice = rng.standard_normal(rows), []
        for _ in range(2):
            error = np.sqrt(WITHIN) * own + np.sqrt(1.0 - WITHIN) * rng.standard_normal(rows)
            y = np.clip(eta + 1.2 * error, -12, 12) if name == LINEAR else norm.cdf(error) < expit(eta)
            twice.append(frame.assign(y=y.astype(float), who=np.arange(rows)))
        return pd.concat(twice, ignore_index=True).sort_values("who", ignore_index=True)
    return frame.assign(y=(rng.random(rows) < expit(eta)).astype(float))


def hazard(eta: np.ndarray, link: str) -> np.ndarray:
    """Return the chance of the event in a year, given that there was none before."""
    return expit(eta - 2.0) if link == "logit" else -np.expm1(-np.exp(eta - 2.0))


def changing(rng: np.random.Generator, frame: pd.DataFrame, link: str, *, private: bool) -> pd.DataFrame:
    """Return rows of people whose first covariate is drawn anew after some years: one row before, one after it."""
    rows = len(frame)
    later = frame.assign(x1=covariates(rng, rows, private=private)[:, 0])
    first, second = (rng.geometric(hazard(each.to_numpy() @ SLOPES, link)) for each in (frame, later))
    when = np.where(first <= CHANGE, first, CHANGE + second)
    end = np.minimum(np.minimum(when, YEARS), rng.integers(1, 2 * YEARS, rows))
    event, stays = (when == end).astype(float), end > CHANGE
    before = frame.assign(
        start=0.0, time=np.where(stays, CHANGE, end - 0.5), event=np.where(stays, 0.0, event), who=np.arange(rows)
    )
    after = later.assign(start=float(CHANGE), time=end - 0.5, event=event, who=np.arange(rows))[stays]
    return pd.concat([before, after]).sort_values(["who", "start"], ignore_index=True)


def made(seed: int, name: str) -> Made:
    """Return a data set and the model."""
    rng = np.random.default_rng(seed)
    private, public = (people(rng, n, name, private=own) for n, own in ((ROWS, True), (PUBLIC, False)))
    extra = {"y": hdp.Continuous(-12, 12, complete=True) if name == LINEAR else hdp.Binary(complete=True)}
    if name in HAZARDS:
        years = hdp.Duration(YEARS, unit="years", complete=True)
        extra = {"start": years, "time": years, "event": hdp.Binary(complete=True)}
    if "s" in private:
        extra["s"] = hdp.Categorical(["a", "b"], complete=True)
    unit = {"unit": "who", "max_rows_per_unit": 2, "n_max": ROWS} if "who" in private else {}
    study = hdp.Study(
        private=private,
        public=public,
        schema=hdp.Schema({**COVARIATES, **extra}),
        budget=hdp.Budget(epsilon=50),
        **unit,
    )
    return Made(private=private, public=public, model=model_of(name, study))


def model_of(name: str, study: hdp.Study) -> object:
    """Return the model of a kind on a study."""
    terms = " + ".join(NAMES)
    if name in HAZARDS:
        link, kind = HAZARDS[name]
        end, strata = ("time", " + strata(s)") if kind == STRATA else ("start, time", "")
        formula = f"Surv({end}, event) ~ {terms}{strata}"
        return hdpf.hazard(formula, data=study, intervals=list(range(1, YEARS + 1)), link=link)
    if name == OWN_LOSS:
        loss = hdp.losses.Loss(
            value=lambda eta, y: np.logaddexp(0.0, eta) - y * eta,
            score=lambda eta, y: expit(eta) - y,
            lipschitz=1.0,
            smoothness=0.25,
            predictor=(-8.0, 8.0),
            link="logit",
            name="logistic",
        )
        return hdpf.mestimate(f"y ~ {terms}", study, loss=loss)
    return (hdpf.linear if name == LINEAR else hdpf.logit)(f"y ~ {terms}", study)


def covered(seed: int, name: str, *, epsilon: float = 1.0) -> np.ndarray:
    """Return which slopes the 95 % intervals of one data set cover, of a fit that says what such fits cover."""
    model = made(seed, name).model
    result = model.fit(epsilon=epsilon, describe=name not in DESCRIBED)
    said = assumed(model._spec.public_side)
    assert f"In simulations of {model._spec.public_side.covered_unlike.fits}" in said
    assert said in " ".join(str(result.summary()).split()), f"{name}: the summary does not say what is covered"
    limits = result.conf_int().loc[NAMES].to_numpy()
    return (limits[:, 0] <= SLOPES) & (limits[:, 1] >= SLOPES)

"""Models that take public rows as they are, though private covariates differ: how far their intervals fall short."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

ROWS, PUBLIC, YEARS = 3000, 300, 5
SLOPES = np.array([0.5, -0.4, 0.6])
NAMES = ["x1", "x2", "g"]
COVARIATES = {
    "x1": hdp.Continuous(-4, 4, complete=True),
    "x2": hdp.Continuous(-4, 4, complete=True),
    "g": hdp.Binary(complete=True),
}
MODELS = ("own loss", "several rows", "hazard with strata", "hazard with late entry")


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
    eta, frame = X @ SLOPES, pd.DataFrame(X, columns=NAMES)
    if name.startswith("hazard"):
        stratum = (rng.random(rows) < (0.7 if private else 0.3)).astype(int)
        entry = np.zeros(rows, dtype=int)
        if name == "hazard with late entry":
            entry = rng.integers(0, 3, rows) * (rng.random(rows) < (0.8 if private else 0.3))
        hazard = 1 / (1 + np.exp(2.0 - eta - 0.5 * stratum * (name == "hazard with strata")))
        when = entry + rng.geometric(hazard)
        end = np.minimum(np.minimum(when, YEARS), entry + rng.integers(1, 2 * YEARS, rows))
        event = (when == end).astype(float)
        return frame.assign(start=entry.astype(float), time=end - 0.5, event=event, s=np.array(["a", "b"])[stratum])
    if name == "several rows":
        own = 0.7 * rng.standard_normal(rows)
        y = [np.clip(eta + own + rng.standard_normal(rows), -12, 12) for _ in range(2)]
        twice = [frame.assign(y=each, who=np.arange(rows)) for each in y]
        return pd.concat(twice, ignore_index=True).sort_values("who", ignore_index=True)
    return frame.assign(y=(rng.random(rows) < expit(eta)).astype(float))


def made(seed: int, name: str) -> Made:
    """Return a data set and the model."""
    rng = np.random.default_rng(seed)
    private, public = (people(rng, n, name, private=own) for n, own in ((ROWS, True), (PUBLIC, False)))
    end = {"time": hdp.Duration(YEARS, unit="years", complete=True), "event": hdp.Binary(complete=True)}
    several = name == "several rows"
    extra = {"y": hdp.Continuous(-12, 12, complete=True) if several else hdp.Binary(complete=True)}
    if "time" in private:
        extra = end
    if "start" in private:
        strata = hdp.Categorical(["a", "b"], complete=True)
        extra = {"start": hdp.Duration(YEARS, unit="years", complete=True), **end, "s": strata}
    unit = {"unit": "who", "max_rows_per_unit": 2, "n_max": ROWS} if "who" in private else {}
    study = hdp.Study(
        private=private,
        public=public,
        schema=hdp.Schema({**COVARIATES, **extra}),
        budget=hdp.Budget(epsilon=50),
        **unit,
    )
    terms = " + ".join(NAMES)
    if name == "own loss":
        loss = hdp.losses.Loss(
            value=lambda eta, y: np.logaddexp(0.0, eta) - y * eta,
            score=lambda eta, y: expit(eta) - y,
            lipschitz=1.0,
            smoothness=0.25,
            predictor=(-8.0, 8.0),
            link="logit",
            name="logistic",
        )
        model = hdpf.mestimate(f"y ~ {terms}", study, loss=loss)
    elif name == "several rows":
        model = hdpf.linear(f"y ~ {terms}", study)
    elif name == "hazard with strata":
        intervals = list(range(1, YEARS + 1))
        model = hdpf.hazard(f"Surv(time, event) ~ {terms} + strata(s)", data=study, intervals=intervals)
    else:
        intervals = list(range(1, YEARS + 1))
        model = hdpf.hazard(f"Surv(start, time, event) ~ {terms}", data=study, intervals=intervals)
    return Made(private=private, public=public, model=model)


def covered(seed: int, name: str, *, epsilon: float = 1.0) -> np.ndarray:
    """Return which slopes the 95 % intervals of one data set cover."""
    result = made(seed, name).model.fit(epsilon=epsilon)
    limits = result.conf_int().loc[NAMES].to_numpy()
    return (limits[:, 0] <= SLOPES) & (limits[:, 1] >= SLOPES)

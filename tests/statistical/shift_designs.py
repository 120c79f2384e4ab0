"""Data sets of known truth whose private covariates, follow-up or coefficients differ from the public ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.statistical.studies import PATIENTS, patients_schema

PRIVATE, PUBLIC = 2982, 555
YEARS = 6
HAZARD = "Surv(time, event) ~ age + size + grade3 + log1p(nodes) + hormon"


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """One data set: private and public rows, the model, and the true coefficients of the private people."""

    private: pd.DataFrame
    public: pd.DataFrame
    schema: hdp.Schema
    formula: str
    truth: np.ndarray

    def model(self) -> object:
        """Return the model on a study with a large account."""
        study = hdp.Study(
            private=self.private, public=self.public, schema=self.schema, budget=hdp.Budget(epsilon=100, delta=0.01)
        )
        if self.formula.startswith("Surv"):
            return hdpf.hazard(self.formula, data=study, intervals=list(range(1, YEARS + 1)), baseline="dummies")
        return hdpf.logit(self.formula, data=study)


@cache
def _frames() -> Mapping[str, pd.DataFrame]:
    frames = {"rotterdam": hdp.datasets.load_rotterdam(), "gbsg": hdp.datasets.load_gbsg()}
    return {name: frame.assign(nodes=frame["nodes"].clip(0, 40)) for name, frame in frames.items()}


@cache
def _logit_truth() -> np.ndarray:
    study = hdp.Study(public=_frames()["rotterdam"], schema=_schema())
    return hdpf.logit(PATIENTS, data=study).fit_public().params.to_numpy()


def _schema() -> hdp.Schema:
    return hdp.Schema(dict(patients_schema().items()) | {"nodes": hdp.Continuous(0, 40, complete=True)})


def _design(frame: pd.DataFrame) -> np.ndarray:
    size = frame["size"].astype(str)
    columns = [np.ones(len(frame)), frame["age"], size == "20-50", size == ">50", frame["grade3"]]
    return np.column_stack([*columns, np.log1p(frame["nodes"]), frame["hormon"]]).astype(float)


def _sample(rng: np.random.Generator, frame: pd.DataFrame, rows: int) -> pd.DataFrame:
    return frame.sample(rows, replace=True, random_state=rng).reset_index(drop=True)


def patients(seed: int, *, differ: float = 0.0, public: str = "gbsg") -> Data:
    """Return Rotterdam's covariates as private ones; coefficients of public people differ by so many per SD."""
    rng, beta = np.random.default_rng(seed), _logit_truth()
    spread = _design(_frames()["rotterdam"]).std(axis=0)
    other = beta + differ * rng.standard_normal(len(beta)) / np.where(spread > 0, spread, 1.0)

    def with_outcome(name: str, rows: int, at: np.ndarray) -> pd.DataFrame:
        drawn = _sample(rng, _frames()[name], rows)
        event = (rng.random(rows) < expit(_design(drawn) @ at)).astype(float)
        return drawn.assign(event3=event)[list(_schema())]

    private = with_outcome("rotterdam", PRIVATE, beta)
    return Data(
        private=private, public=with_outcome(public, PUBLIC, other), schema=_schema(), formula=PATIENTS, truth=beta
    )


def correlated(seed: int, *, rows: int = 10_000, columns: int = 10, public: int = 200) -> Data:
    """Return correlated columns, AR(0.5), of which private means and standard deviations are moved."""
    rng, k = np.random.default_rng(seed), np.arange(columns)
    root = np.linalg.cholesky(0.5 ** np.abs(k[:, None] - k[None]))
    P, X = (rng.standard_normal((n, columns)) @ root.T for n in (public, rows))
    X = X * np.where(k % 2 == 0, 0.6, 1.4) + np.where(k % 3 == 0, 0.6, np.where(k % 3 == 1, -0.4, 0.0))
    longest = np.quantile(np.linalg.norm(P, axis=1), 0.99)
    X, P = (M / longest / np.maximum(1.0, np.linalg.norm(M / longest, axis=1))[:, None] for M in (X, P))
    beta = rng.standard_normal(columns)
    beta *= 1.5 / np.std(P @ beta)
    names = [f"x{j + 1}" for j in k]
    found = [
        pd.DataFrame(M, columns=names).assign(y=(rng.random(len(M)) < expit(M @ beta)).astype(float)) for M in (X, P)
    ]
    schema = hdp.Schema(
        {name: hdp.Continuous(-1, 1, complete=True) for name in names} | {"y": hdp.Binary(complete=True)}
    )
    return Data(
        private=found[0],
        public=found[1],
        schema=schema,
        formula="y ~ " + " + ".join(names),
        truth=np.concatenate([[0.0], beta]),
    )


def _hazard_schema() -> hdp.Schema:
    covariates = {name: _schema()[name] for name in ("age", "nodes", "size", "grade3", "hormon")}
    follow_up = {"time": hdp.Duration(YEARS, unit="years", complete=True), "event": hdp.Binary(complete=True)}
    return hdp.Schema(covariates | follow_up)


@cache
def _hazard_truth() -> np.ndarray:
    frame = _frames()["rotterdam"]
    years = np.maximum(frame["time"] / 365.25, 0.01)
    frame = frame.assign(time=years.clip(upper=YEARS), event=np.where(years > YEARS, 0, frame["event"]))
    study = hdp.Study(public=frame[list(_hazard_schema())], schema=_hazard_schema())
    model = hdpf.hazard(HAZARD, data=study, intervals=list(range(1, YEARS + 1)), baseline="dummies")
    return model.fit_public().params.to_numpy()


@cache
def _followed(name: str) -> np.ndarray:
    """Return the product-limit distribution of the number of years that patients would be followed (YEARS + 1,)."""
    frame = _frames()[name]
    years, event = frame["time"].to_numpy() / 365.25, frame["event"].to_numpy()
    here = (years[:, None] >= np.arange(YEARS)) & (years[:, None] < np.arange(1, YEARS + 1)) & (event[:, None] == 0)
    stay = np.cumprod(1.0 - here.sum(axis=0) / np.maximum((years[:, None] >= np.arange(YEARS)).sum(axis=0), 1))
    share = -np.diff(np.concatenate([[1.0], stay, [0.0]]))
    share[1] += share[0]
    share[0] = 0.0
    return share / share.sum()


def survivors(seed: int) -> Data:
    """Return Rotterdam's covariates and follow-up as private ones, gbsg's as public ones, with the same hazards."""
    rng, truth = np.random.default_rng(seed), _hazard_truth()

    def with_outcome(name: str, rows: int) -> pd.DataFrame:
        drawn = _sample(rng, _frames()[name], rows)
        followed = rng.choice(YEARS + 1, rows, p=_followed(name))
        hazard = expit(truth[:YEARS] + (_design(drawn)[:, 1:] @ truth[YEARS:])[:, None])
        hit = (rng.random(hazard.shape) < hazard) & (np.arange(YEARS) < followed[:, None])
        event = hit.any(axis=1)
        time = np.where(event, hit.argmax(axis=1) + 1, followed) - 0.5
        return drawn.assign(time=time, event=event.astype(float))[list(_hazard_schema())]

    private = with_outcome("rotterdam", PRIVATE)
    return Data(private=private, public=with_outcome("gbsg", 686), schema=_hazard_schema(), formula=HAZARD, truth=truth)

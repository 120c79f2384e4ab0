"""Populations of real people, from whom rows with their own outcomes are drawn, and the models that are fitted to them.

No model fits them exactly. Public rows are a trial of the same disease (gbsg for Rotterdam), or people who were taken
out of the population: at random, or the more likely the larger a covariate (`SHIFTS`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from statsmodels.datasets import randhie

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

COUNTED = "times"
"""The column with the number of times that a person was drawn."""

SHIFT = 1.0
"""How much the log odds of being public grow with a standard deviation of the covariate."""

FIVE_YEARS = 1826


@dataclass(frozen=True)
class Population:
    """People, those who are public, and what a custodian would declare."""

    people: pd.DataFrame
    public: pd.DataFrame
    columns: dict[str, object]

    @property
    def schema(self) -> hdp.Schema:
        """The declared columns."""
        return hdp.Schema(self.columns)

    @property
    def counted(self) -> hdp.Schema:
        """The same, and how often a person counts."""
        return hdp.Schema(self.columns | {COUNTED: hdp.Weight(1e7)})


def _rotterdam() -> tuple[pd.DataFrame, dict[str, object]]:
    columns = {
        "event3": hdp.Binary(complete=True),
        "age": hdp.Continuous(20, 90, complete=True),
        "nodes": hdp.Continuous(0, 40, complete=True),
        "hormon": hdp.Binary(complete=True),
        "grade3": hdp.Binary(complete=True),
        "size": hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        "logtime": hdp.Continuous(1.5, 9.5, complete=True),
        "time": hdp.Duration(2557, complete=True),
        "event": hdp.Binary(complete=True),
    }
    return _patients(hdp.datasets.load_rotterdam()), columns


def _patients(frame: pd.DataFrame) -> pd.DataFrame:
    kept = frame[frame["event3"].notna()]
    return kept.assign(nodes=kept["nodes"].clip(upper=40), logtime=np.log(kept["time"]))


def _colon() -> tuple[pd.DataFrame, dict[str, object]]:
    frame = hdp.datasets.load_colon()
    known = (frame["etype"] == 2) & frame["nodes"].notna() & ((frame["time"] > FIVE_YEARS) | (frame["status"] == 1))
    frame = frame[known]
    columns = {
        "rx": hdp.Categorical(["Obs", "Lev", "Lev+5FU"], complete=True),
        "age": hdp.Continuous(18, 90, complete=True),
        "male": hdp.Binary(complete=True),
        "nodes": hdp.Continuous(0, 35, complete=True),
        "deep": hdp.Binary(complete=True),
        "dead5": hdp.Binary(complete=True),
        "logtime": hdp.Continuous(1.5, 9.5, complete=True),
        "time": hdp.Duration(2557, complete=True),
        "event": hdp.Binary(complete=True),
    }
    within = (frame["time"] <= FIVE_YEARS) & (frame["status"] == 1)
    made = {
        "male": frame["sex"],
        "deep": frame["extent"] >= 3,
        "dead5": within,
        "logtime": np.log(frame["time"]),
        "event": frame["status"],
    }
    return frame.assign(**{name: np.asarray(values, dtype=np.float64) for name, values in made.items()}), columns


def _nwtco() -> tuple[pd.DataFrame, dict[str, object]]:
    frame = hdp.datasets.load_nwtco()
    columns = {
        "rel": hdp.Binary(complete=True),
        "unfavourable": hdp.Binary(complete=True),
        "stage": hdp.Categorical(["1", "2", "3", "4"], complete=True),
        "years": hdp.Continuous(0, 16, complete=True),
        "edrel": hdp.Duration(3652, complete=True),
    }
    return frame.assign(
        unfavourable=(frame["histol"] == 2) * 1.0, stage=frame["stage"].astype(str), years=frame["age"] / 12.0
    ), columns


def _flchain() -> tuple[pd.DataFrame, dict[str, object]]:
    frame = hdp.datasets.load_flchain()
    frame = frame[(frame["futime"] > FIVE_YEARS) | ((frame["death"] == 1) & (frame["futime"] > 0))]
    columns = {
        "dead5": hdp.Binary(complete=True),
        "age": hdp.Continuous(50, 105, complete=True),
        "male": hdp.Binary(complete=True),
        "logkappa": hdp.Continuous(-5, 4, complete=True),
        "loglambda": hdp.Continuous(-4, 4, complete=True),
        "futime": hdp.Duration(5000, complete=True),
        "death": hdp.Binary(complete=True),
    }
    return frame.assign(
        dead5=((frame["death"] == 1) & (frame["futime"] <= FIVE_YEARS)) * 1.0,
        male=(frame["sex"] == "M") * 1.0,
        logkappa=np.log(frame["kappa"]),
        loglambda=np.log(frame["lambda_"]),
    ), columns


HEALTH = ("excellent", "good", "fair or poor")


def _rand() -> tuple[pd.DataFrame, dict[str, object]]:
    frame = randhie.load_pandas().data
    health = np.select([frame["hlthg"] == 1, (frame["hlthf"] == 1) | (frame["hlthp"] == 1)], HEALTH[1:], HEALTH[0])
    columns = {
        "mdvis": hdp.Continuous(0, 80, complete=True),
        "visited": hdp.Binary(complete=True),
        "logvisits": hdp.Continuous(0, 5, complete=True),
        "lncoins": hdp.Continuous(0, 5, complete=True),
        "idp": hdp.Binary(complete=True),
        "lpi": hdp.Continuous(0, 8, complete=True),
        "physlm": hdp.Continuous(0, 1, complete=True),
        "disea": hdp.Continuous(0, 60, complete=True),
        "health": hdp.Categorical(list(HEALTH), complete=True),
    }
    return frame.assign(health=health, visited=(frame["mdvis"] > 0) * 1.0, logvisits=np.log1p(frame["mdvis"])), columns


LOADED: Mapping[str, Callable[[], tuple[pd.DataFrame, dict[str, object]]]] = {
    "Rotterdam": _rotterdam,
    "colon": _colon,
    "nwtco": _nwtco,
    "flchain": _flchain,
    "RAND": _rand,
}
SHIFTS = {"colon": "age", "nwtco": "years", "flchain": "age", "RAND": "disea"}
"""The covariate of which shifted public people have more."""

PUBLIC_PEOPLE = {"colon": 200}
"""How many people are public, where they are not 500."""

GBSG, RANDOM, SHIFTED, NONE = "gbsg", "random", "shifted", "none"


@cache
def population(data: str, public: str) -> Population:
    """Return a data set whose public people are ``"gbsg"``, a ``"random"`` or ``"shifted"`` part, or ``"none"``.

    The latter are taken out of the population, also where there are to be none, so that it is the same.
    """
    frame, columns = LOADED[data]()
    people = frame[list(columns)].reset_index(drop=True)
    if public == GBSG:
        return Population(people, _patients(hdp.datasets.load_gbsg())[list(columns)].reset_index(drop=True), columns)
    rng, size = np.random.default_rng([30, len(people)]), PUBLIC_PEOPLE.get(data, 500)
    odds = np.ones(len(people))
    if public == SHIFTED:
        covariate = people[SHIFTS[data]]
        odds = np.exp(SHIFT * (covariate - covariate.mean()) / covariate.std()).to_numpy()
    taken = np.zeros(len(people), dtype=bool)
    taken[rng.choice(len(people), size, replace=False, p=odds / odds.sum())] = True
    return Population(people[~taken].reset_index(drop=True), people[taken].reset_index(drop=True), columns)


FORMULAS = {
    ("Rotterdam", "binary"): "event3 ~ age + nodes + hormon + size",
    ("Rotterdam", "number"): "logtime ~ age + nodes + hormon + size",
    ("Rotterdam", "quantity"): "logtime ~ age + nodes + hormon + size",
    ("Rotterdam", "count"): "nodes ~ age + hormon + size",
    ("Rotterdam", "level"): "size ~ age + nodes + hormon",
    ("Rotterdam", "survival"): "Surv(time, event) ~ age + log1p(nodes) + hormon + size",
    ("colon", "binary"): "dead5 ~ rx + age + nodes + deep",
    ("colon", "number"): "logtime ~ rx + age + nodes + deep",
    ("colon", "count"): "nodes ~ age + male + deep",
    ("colon", "survival"): "Surv(time, event) ~ rx + age + nodes + deep",
    ("nwtco", "binary"): "rel ~ unfavourable + stage + years",
    ("nwtco", "number"): "years ~ unfavourable + stage",
    ("nwtco", "level"): "stage ~ unfavourable + years",
    ("nwtco", "survival"): "Surv(edrel, rel) ~ unfavourable + stage + years",
    ("flchain", "binary"): "dead5 ~ age + male + logkappa + loglambda",
    ("flchain", "number"): "logkappa ~ age + male + loglambda",
    ("flchain", "quantity"): "logkappa ~ age + male + loglambda",
    ("flchain", "survival"): "Surv(futime, death) ~ age + male + logkappa + loglambda",
    ("RAND", "binary"): "visited ~ lncoins + idp + lpi + physlm + disea + health",
    ("RAND", "number"): "logvisits ~ lncoins + idp + lpi + physlm + disea + health",
    ("RAND", "count"): "mdvis ~ lncoins + idp + lpi + physlm + disea + health",
    ("RAND", "level"): "health ~ lpi + disea + physlm",
}

LOG_COSH = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-9.0, 9.0),
)


@dataclass(frozen=True)
class Kind:
    """A model, which outcome it has, and how it is fitted."""

    outcome: str
    make: Callable[..., object]
    fit: Mapping[str, object]


def _hazard(link: str) -> Callable[..., object]:
    return lambda formula, data, **options: hdpf.hazard(formula, data, intervals=24, link=link, **options)


def _losses(loss: object) -> Callable[..., object]:
    return lambda formula, data, **options: hdpf.mestimate(formula, data, loss=loss, **options)


CLIPPED = {"delta": 1e-6, "mechanism": "clipped_newton"}
OUTPUT = {"mechanism": "output"}
KINDS = {
    "logit": Kind("binary", hdpf.logit, {}),
    "linear": Kind("number", hdpf.linear, {}),
    "Huber": Kind("number", _losses(hdp.losses.Huber(0.5)), {}),
    "median": Kind("quantity", hdpf.quantile, {}),
    "Poisson": Kind("count", hdpf.poisson, {}),
    "multinomial": Kind("level", hdpf.multinomial, {}),
    "own loss": Kind("number", _losses(LOG_COSH), {}),
    "hazard, cloglog": Kind("survival", _hazard("cloglog"), {}),
    "hazard, logit": Kind("survival", _hazard("logit"), {}),
    "exponential times": Kind("survival", _losses(hdp.losses.Exponential()), {}),
    "logit, public Hessian": Kind("binary", hdpf.logit, {"mechanism": hdp.mechanisms.PublicHessian(rounds=1)}),
    "logit, clipped": Kind("binary", hdpf.logit, CLIPPED),
    "linear, clipped": Kind("number", hdpf.linear, CLIPPED),
    "hazard, clipped": Kind("survival", _hazard("cloglog"), CLIPPED),
    "logit, output": Kind("binary", hdpf.logit, OUTPUT),
    "linear, output": Kind("number", hdpf.linear, OUTPUT),
}

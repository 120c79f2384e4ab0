"""Data sets of known truth whose private covariates correlate where public ones do not, or where both do alike.

What was simulated is kept line by line (`KEPT`): a study that was interrupted goes on where it ended.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.models.own_description import OwnDescription
from tests.statistical.monte_carlo import of_this_code, together

KEPT = Path(__file__).parents[2] / "vignettes" / "_executed" / "correlations.jsonl"
PUBLIC = 400
INTERCEPT, YEARS = -0.5, 6
HOW = ("without", "with")
"""Fits that ask for no products of covariates, and fits as they are by default."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How many people, how much epsilon, which covariates and which model.

    ``private`` and ``public`` are the correlation of the first two covariates, or of ``all_pairs``.
    """

    rows: int
    epsilon: float
    covariates: int
    private: float
    public: float = 0.0
    all_pairs: bool = False
    model: str = "logistic"
    mechanism: str = "objective"
    sites: int = 1


def covariates(rng: np.random.Generator, rows: int, setting: Setting, correlation: float) -> np.ndarray:
    """Return normal covariates (rows, k) of variance 1, cut at 4."""
    R = np.eye(setting.covariates)
    pair = np.ones_like(R, dtype=bool) if setting.all_pairs else np.zeros_like(R, dtype=bool)
    pair[:2, :2] = True
    R[pair & ~np.eye(setting.covariates, dtype=bool)] = correlation
    return np.clip(rng.standard_normal((rows, setting.covariates)) @ np.linalg.cholesky(R).T, -4, 4)


def slopes(setting: Setting) -> np.ndarray:
    """Return the slopes: .5, -.4, and others from .3 to -.3."""
    return np.concatenate([[0.5, -0.4], np.linspace(0.3, -0.3, max(setting.covariates - 2, 0))])


def outcomes(rng: np.random.Generator, X: np.ndarray, setting: Setting) -> dict[str, np.ndarray]:
    """Return the columns of the outcome."""
    n, eta = len(X), INTERCEPT + X @ slopes(setting)
    if setting.model == "logistic":
        return {"y": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)}
    if setting.model == "counts":
        return {"y": np.minimum(rng.poisson(np.exp(0.4 * eta)), 20).astype(float)}
    if setting.model == "multinomial":
        size = np.exp(np.column_stack([np.zeros(n), eta, -0.5 * eta]))
        level = (rng.random(n)[:, None] > np.cumsum(size / size.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
        return {"y": np.array(["a", "b", "c"])[np.minimum(level, 2)]}
    if setting.model == "hazard":
        hazard = 1 / (1 + np.exp(1.5 - (eta - INTERCEPT)))
        when = np.minimum(rng.geometric(hazard), YEARS + 1)
        leaves = rng.integers(1, 2 * YEARS, n)
        end = np.minimum(np.minimum(when, leaves), YEARS)
        return {"time": end - 0.5, "event": ((when <= leaves) & (when <= YEARS)).astype(float)}
    return {"y": np.clip(eta + rng.standard_normal(n), -10, 10)}


def frames(seed: int, setting: Setting) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return private and public rows."""
    rng, found = np.random.default_rng(seed), []
    for rows, correlation in ((setting.rows, setting.private), (PUBLIC, setting.public)):
        X = covariates(rng, rows, setting, correlation)
        found.append(pd.DataFrame(X, columns=names(setting)).assign(**outcomes(rng, X, setting)))
    return found[0], found[1]


def names(setting: Setting) -> list[str]:
    """Return the names of the covariates."""
    return [f"x{k + 1}" for k in range(setting.covariates)]


def model_of(setting: Setting, private: pd.DataFrame, public: pd.DataFrame) -> object:
    """Return the model on a study with a large account at each site."""
    outcome = {
        "logistic": {"y": hdp.Binary(complete=True)},
        "counts": {"y": hdp.Continuous(0, 20, complete=True)},
        "multinomial": {"y": hdp.Categorical(["a", "b", "c"], complete=True)},
        "hazard": {"time": hdp.Duration(YEARS, unit="years", complete=True), "event": hdp.Binary(complete=True)},
    }.get(setting.model, {"y": hdp.Continuous(-10, 10, complete=True)})
    columns = {name: hdp.Continuous(-4, 4, complete=True) for name in names(setting)}
    schema = hdp.Schema({**columns, **outcome})
    parts = {f"site {k + 1}": private.iloc[k :: setting.sites].reset_index(drop=True) for k in range(setting.sites)}
    study = hdp.Study(
        private=private if setting.sites == 1 else parts,
        public=public,
        schema=schema,
        budget=hdp.Budget(epsilon=100, delta=0.01),
    )
    terms = " + ".join(names(setting))
    if setting.model == "hazard":
        return hdpf.hazard(f"Surv(time, event) ~ {terms}", data=study, intervals=list(range(1, YEARS + 1)))
    fits = {
        "logistic": hdpf.logit,
        "counts": hdpf.poisson,
        "multinomial": hdpf.multinomial,
        "median": hdpf.quantile,
        "linear": hdpf.linear,
        "Huber": lambda formula, data: hdpf.linear(formula, data, loss=hdp.losses.Huber()),
    }
    return fits[setting.model](f"y ~ {terms}", data=study)


def truth(setting: Setting) -> np.ndarray:
    """Return the true slopes, of all levels of a multinomial model."""
    beta = slopes(setting)
    return {"counts": 0.4 * beta, "multinomial": np.concatenate([beta, -0.5 * beta])}.get(setting.model, beta)


@contextmanager
def asked(how: str) -> Iterator[None]:
    """Let fits ask for no products, or for what they ask for."""
    before = OwnDescription.affordable
    if how == "without":
        OwnDescription.affordable = lambda self, epsilon, *, records: replace(self, pairs=None)
    try:
        yield
    finally:
        OwnDescription.affordable = before


def one_set(setting: Setting, seed: int, how: str) -> dict[str, list[float]]:
    """Return errors, lengths of 95 % intervals and whether these cover, slope by slope."""
    private, public = frames(seed, setting)
    model = model_of(setting, private, public)
    options = {"mechanism": "clipped_newton", "delta": 1e-6} if setting.mechanism == "clipped scores" else {}
    with asked(how):
        result = model.fit(epsilon=setting.epsilon, **options)
    place = [k for k, term in enumerate(result.params.index) if term.split(":")[-1].strip() in names(setting)]
    limits, estimate = result.conf_int().to_numpy()[place], result.params.to_numpy()[place]
    beta = truth(setting)
    covered = (limits[:, 0] <= beta) & (beta <= limits[:, 1])
    return {
        "error": (estimate - beta).tolist(),
        "length": (limits[:, 1] - limits[:, 0]).tolist(),
        "covered": covered.astype(float).tolist(),
    }


def simulate(
    setting: Setting, seeds: Iterable[int], *, how: Sequence[str] = HOW, kept: Path = KEPT
) -> dict[str, dict[str, np.ndarray]]:
    """Return what `one_set` gives (sets, slopes) for each way to ask; what is kept already is not simulated again."""
    jobs, kept = [(seed, each) for seed in seeds for each in how], of_this_code(kept)
    known = _known(setting, kept)
    left = [job for job in jobs if job not in known]
    step = 64
    for start in range(0, len(left), step):
        part = left[start : start + step]
        found = together(one_set, [setting] * len(part), *zip(*part, strict=True), chunksize=4)
        _keep(setting, part, found, kept)
        known |= dict(zip(part, found, strict=True))
    return {
        each: {
            name: np.array([known[seed, way][name] for seed, way in jobs if way == each])
            for name in ("error", "length", "covered")
        }
        for each in how
    }


def _known(setting: Setting, kept: Path) -> dict[tuple[int, str], dict[str, list[float]]]:
    if not kept.exists():
        return {}
    lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    return {(each["seed"], each["how"]): each["found"] for each in lines if each["setting"] == asdict(setting)}


def _keep(
    setting: Setting, jobs: Sequence[tuple[int, str]], found: Sequence[dict[str, list[float]]], kept: Path
) -> None:
    kept.parent.mkdir(exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for (seed, how), each in zip(jobs, found, strict=True):
            file.write(json.dumps({"setting": asdict(setting), "seed": seed, "how": how, "found": each}) + "\n")

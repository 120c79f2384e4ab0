"""Counts and numbers of known truth whose private covariates differ from the public ones: told, not told, an oracle."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.public import public_rows
from hdpstats.inference.information import PublicInformation
from hdpstats.models import estimates as released
from hdpstats.records.geometry import whiten
from tests.statistical.monte_carlo import together

PRIVATE, PUBLIC = 3000, 250
SLOPES = np.array([1.0, -0.5, 0.25, 0.6])
SCHEMA = hdp.Schema(
    y=hdp.Continuous(-10, 12, complete=True),
    k=hdp.Continuous(0, 15, complete=True),
    x1=hdp.Continuous(-3, 3, complete=True),
    x2=hdp.Continuous(-3, 3, complete=True),
    x3=hdp.Continuous(0, 1, complete=True),
    g=hdp.Binary(complete=True),
    time=hdp.Duration(5.0, complete=True),
    event=hdp.Binary(complete=True),
)
TERMS = "x1 + x2 + x3 + g"
LOG_COSH = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-22.0, 22.0),
    name="log-cosh",
)
MODELS = {
    "Poisson": lambda study: hdpf.poisson(f"k ~ {TERMS}", study),
    "linear": lambda study: hdpf.linear(f"y ~ {TERMS}", study),
    "Huber": lambda study: hdpf.linear(f"y ~ {TERMS}", study, loss=hdp.losses.Huber()),
    "median": lambda study: hdpf.quantile(f"y ~ {TERMS}", study),
    "exponential": lambda study: hdpf.mestimate(f"Surv(time, event) ~ {TERMS}", study, loss=hdp.losses.Exponential()),
    "own": lambda study: hdpf.mestimate(f"y ~ {TERMS}", study, loss=LOG_COSH),
}
MECHANISMS = {
    "objective": {"mechanism": "objective"},
    "clipped scores": {"mechanism": "clipped_newton", "delta": 1e-6},
}
HOW = ("without", "with", "oracle")


def people(rng: np.random.Generator, rows: int, *, private: bool) -> pd.DataFrame:
    """Return rows; of private people means are moved, spreads 0.6 and 1.3 times the public ones, a level is rare."""
    z = rng.multivariate_normal(np.zeros(2), [[1.0, 0.4], [0.4, 1.0]], rows)
    z = (z * [0.6, 1.3] + [0.6, -0.4] if private else z).clip(-3, 3)
    x3, g = rng.uniform(size=rows), (rng.random(rows) < (0.1 if private else 0.4)).astype(float)
    eta = np.column_stack([z, x3, g]) @ SLOPES
    noise = 0.9 * rng.normal(size=rows) * np.where(rng.random(rows) < 0.03, 3.0, 1.0)
    counts = rng.poisson(np.exp(0.2 + 0.4 * eta)).clip(0, 15).astype(float)
    time, leaves = rng.exponential(np.exp(0.5 - 0.4 * eta)), rng.uniform(0.0, 2.0, rows)
    followed = np.minimum(np.minimum(time, leaves), 1.0)
    outcomes = {
        "y": (1.0 + eta + noise).clip(-10, 12),
        "k": counts,
        "time": 5.0 * followed,
        "event": (time <= followed).astype(float),
    }
    return pd.DataFrame(outcomes | {"x1": z[:, 0], "x2": z[:, 1], "x3": x3, "g": g})


def truth(model: str) -> np.ndarray:
    """Return the coefficients, the intercept first."""
    first = {"Poisson": 0.2, "exponential": -0.5 - np.log(5.0)}
    return np.array([first[model], *(0.4 * SLOPES)]) if model in first else np.array([1.0, *SLOPES])


@dataclass(frozen=True)
class Job:
    """One data set for one model and mechanism."""

    model: str
    mechanism: str
    epsilon: float
    seed: int


@contextmanager
def _true_curvature(model: str, spec: object, private: pd.DataFrame) -> Iterator[None]:
    """Let fits take curvature from the private rows themselves: what no release tells, to compare with."""
    table = MODELS[model](hdp.Study(public=private, schema=SCHEMA))._spec.study.public
    rows = public_rows(table, spec.asked.design, spec.response, weights=None, offset=None)

    def oracle(side, known, *, records, records_sd):
        whitened, ones = whiten(side.geometry, rows.X), np.ones(len(rows.X))
        own = replace(
            side, X=whitened.X, mallows=whitened.weights, weights=ones, offset=0.0 * ones, y=rows.y, groups=None
        )
        return _Oracle(public=own, records=float(records), records_sd=records_sd)

    before, released.raked_information = released.raked_information, oracle
    try:
        yield
    finally:
        released.raked_information = before


class _Oracle:
    """Moments over private rows, with no words on them."""

    notes = ()

    def __init__(self, **fields: object) -> None:
        self._of = PublicInformation(**fields)

    def __getattr__(self, name: str) -> object:
        return getattr(self._of, name)


def one_fit(job: Job) -> dict[tuple[str, str], np.ndarray]:
    """Return which intervals hold the truth, by how the fit was told of its people and by estimate."""
    rng = np.random.default_rng(7000 + job.seed)
    private, public = people(rng, PRIVATE, private=True), people(rng, PUBLIC, private=False)
    study = hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=100, delta=1e-3))
    model, beta, options = MODELS[job.model](study), truth(job.model), MECHANISMS[job.mechanism]
    results = {how: model.fit(job.epsilon, describe=how == "with", **options) for how in ("without", "with")}
    if job.mechanism == "objective":
        with _true_curvature(job.model, model._spec, private):
            results["oracle"] = model.fit(job.epsilon, se_share=0, **options)
    found = {}
    for how, result in results.items():
        for name in ("private_only", "pooled"):
            limits = getattr(result, name).conf_int().to_numpy()
            found[how, name] = (limits[:, 0] <= beta) & (beta <= limits[:, 1])
    return found


def simulate(model: str, mechanism: str, epsilon: float, *, repeats: int) -> dict[tuple[str, str], np.ndarray]:
    """Return coverage of each coefficient, by how fits were told and by estimate."""
    jobs = [Job(model, mechanism, epsilon, seed) for seed in range(repeats)]
    found = together(one_fit, jobs)
    return {key: np.mean([each[key] for each in found], axis=0) for key in found[0]}

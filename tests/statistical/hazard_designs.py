"""Simulated survival studies with a known truth, kind and less kind: for accuracy and coverage of hazard models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

import hdpstats.api as hdp
from hdpstats.formulas.outcome import spline
from hdpstats.papers import DiscreteTrial, eight_interval_trial, unit_ball_trial
from hdpstats.records.model import TimeGrid

ROWS = 4
"""People whose survival is predicted: one with covariates 0, the others like everybody."""

EIGHT_SLOPES = (0.5, -0.4, 0.3, 0.0, 0.2, -0.3)
"""The covariates' coefficients of `eight_interval_trial`."""

INVERSE = {"logit": expit, "cloglog": lambda eta: -np.expm1(-np.exp(eta)), "probit": ndtr}

Covariates = Callable[[np.random.Generator, int, int], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """One simulated study: how to declare and to model it, and the truth about its coefficients and survival."""

    study: dict[str, object]
    model: dict[str, object]
    truth: np.ndarray
    is_slope: np.ndarray
    at: pd.DataFrame
    times: np.ndarray
    survival: np.ndarray

    def discrete_hazard(self) -> hdp.DiscreteHazard:
        """Return the model on a study whose account is large."""
        return hdp.DiscreteHazard(
            data=hdp.Study(**self.study, budget=hdp.Budget(epsilon=100, delta=0.01)), **self.model
        )


def trial_scene(trial: DiscreteTrial, *, public: int, baseline: str) -> Scene:
    """Return a trial whose first people are the public ones."""
    frame, q, p = trial.frame, len(trial.baseline), len(trial.beta)
    at, times = frame.iloc[:ROWS], _times(q)
    return Scene(
        study={"private": _reset(frame.iloc[public:]), "public": _reset(frame.iloc[:public]), "schema": trial.schema},
        model={"formula": trial.formula, "intervals": q, "baseline": baseline, "link": trial.link},
        truth=np.concatenate([trial.alpha, trial.beta]),
        is_slope=np.arange(len(trial.alpha) + p) >= len(trial.alpha),
        at=at,
        times=times,
        survival=trial.survival(at)[:, times - 1],
    )


def ball_scene(seed: int, *, records: int) -> Scene:
    """Return the trial with 200 intervals and three covariates in the unit ball, 200 people public."""
    return trial_scene(unit_ball_trial(records + 200, seed=seed), public=200, baseline="spline")


def eight_scene(seed: int, *, records: int) -> Scene:
    """Return the trial with 8 intervals and six correlated covariates, 200 people public."""
    return trial_scene(eight_interval_trial(records + 200, seed=seed), public=200, baseline="dummies")


@dataclass(frozen=True, kw_only=True)
class HazardDesign:
    """How people are drawn: the true model, how long they are followed, and how public people differ.

    ``alphas`` are the coefficients of a spline baseline with three knots and ``betas`` the slopes, of each cause. A
    person is followed for a uniform number of intervals, from ``shortest`` on.
    """

    name: str
    records: int
    public: int
    intervals: int
    alphas: tuple[tuple[float, float, float], ...]
    betas: tuple[tuple[float, ...], ...]
    covariates: Covariates
    bound: float = 4.0
    shortest: int = 1
    baseline: str = "spline"
    link: str = "logit"
    late: bool = False
    varying: bool = False
    weighted: bool = False
    use_public: bool = True
    se_share: float = 0.0
    epsilon: float = 1.0
    public_level: float = 0.0
    public_slopes: float = 0.0

    def scene(self, seed: int) -> Scene:
        """Draw private and public people."""
        rng = np.random.default_rng(seed)
        beta = np.array(self.betas)
        other = beta + self.public_slopes * rng.standard_normal(beta.shape)
        private = self._people(rng, self.records, self._curves, beta)
        public = self._people(rng, self.public, self._curves + self.public_level, other)
        at = np.clip(self.covariates(rng, ROWS, beta.shape[1]), -self.bound, self.bound)
        at[0], times = 0.0, _times(self.intervals)
        hazards = self._hazards(at, np.zeros(ROWS), self._curves, beta)
        frame = pd.DataFrame(at, columns=self._names).assign(**({"o": 0.0} if self.weighted else {}))
        features = self._curves[:, :, None] if self.baseline == "dummies" else np.array(self.alphas)[:, :, None]
        blocks = [np.append(a.ravel(), b) for a, b in zip(features, beta, strict=True)]
        e = len(blocks[0]) - beta.shape[1]
        unit = {"unit": "id", "max_rows_per_unit": 2, "n_max": self.records} if self.varying else {}
        return Scene(
            study={
                "private": private,
                "public": public if self.use_public else None,
                "schema": self._schema,
                **unit,
            },
            model={
                "formula": self.formula,
                "intervals": self.intervals,
                "baseline": self.baseline,
                "link": self.link,
                **({"weights": "w", "offset": "o"} if self.weighted else {}),
                **({} if self.use_public else {"row_norm": 1.0}),
            },
            truth=np.concatenate(blocks),
            is_slope=np.tile(np.arange(len(blocks[0])) >= e, len(blocks)),
            at=frame,
            times=times,
            survival=np.cumprod(1.0 - hazards.sum(axis=2), axis=1)[:, times - 1],
        )

    @property
    def formula(self) -> str:
        """The true model."""
        surv = "Surv(start, time, event)" if self.late or self.varying else "Surv(time, event)"
        return f"{surv} ~ " + " + ".join(self._names)

    @property
    def _names(self) -> list[str]:
        return [f"x{j + 1}" for j in range(len(self.betas[0]))]

    @property
    def _curves(self) -> np.ndarray:
        """The baseline's linear predictors (causes, q)."""
        A = spline(TimeGrid(tuple(float(s + 1) for s in range(self.intervals))))
        return np.array(self.alphas) @ A.T

    @property
    def _schema(self) -> hdp.Schema:
        several = len(self.alphas) > 1
        columns: dict[str, hdp.Column] = {
            name: hdp.Continuous(-self.bound, self.bound, complete=True) for name in self._names
        }
        columns["time"] = hdp.Duration(self.intervals, complete=True)
        columns["event"] = (
            hdp.Categorical(["none", "relapse", "death"], complete=True) if several else hdp.Binary(complete=True)
        )
        if self.late or self.varying:
            columns["start"] = hdp.Duration(self.intervals, complete=True)
        if self.weighted:
            columns |= {"w": hdp.Weight(max=2, complete=True), "o": hdp.Offset(-1, 1, complete=True)}
        return hdp.Schema(columns)

    def _hazards(self, X: np.ndarray, offset: np.ndarray, curves: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Return hazards (n, q, causes)."""
        eta = (X @ beta.T + offset[:, None])[:, None, :] + curves.T[None]
        return INVERSE[self.link](eta)

    def _people(self, rng: np.random.Generator, n: int, curves: np.ndarray, beta: np.ndarray) -> pd.DataFrame:
        drawn, q, p = 3 * n if self.late else n, self.intervals, beta.shape[1]
        X = np.clip(self.covariates(rng, drawn, p), -self.bound, self.bound)
        offset = np.clip(0.4 * rng.standard_normal(drawn), -1.0, 1.0) if self.weighted else np.zeros(drawn)
        hazards = self._hazards(X, offset, curves, beta)
        later, change = X, np.full(drawn, q)
        if self.varying:
            later, change = self.covariates(rng, drawn, p), rng.integers(1, q, drawn)
            late = np.arange(q) >= change[:, None]
            hazards = np.where(late[:, :, None], self._hazards(later, offset, curves, beta), hazards)
        time, cause = _follow(rng, hazards, rng.integers(self.shortest, q, drawn, endpoint=True))
        entry = np.where(rng.random(drawn) < 0.6, rng.integers(0, q // 2, drawn), 0) if self.late else np.zeros(drawn)
        columns = {"id": np.arange(drawn), "start": entry, "time": time, "event": cause, "o": offset}
        frame = pd.DataFrame(columns | dict(zip(self._names, X.T, strict=True)))
        frame["w"] = rng.uniform(0.2, 2.0, drawn)
        if self.varying:
            frame = _split(frame, change, pd.DataFrame(later, columns=self._names))
        elif self.late:
            frame = _reset(frame[frame["time"] > frame["start"]].iloc[:n])
        if len(self.alphas) > 1:
            frame["event"] = np.array(["none", "relapse", "death"])[frame["event"]]
        return frame[[name for name in frame if name in self._schema or (self.varying and name == "id")]]


def _follow(rng: np.random.Generator, hazards: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last interval (n,) and the cause of the event in it, 0 for none, from hazards (n, q, causes)."""
    n, q, _ = hazards.shape
    drawn = rng.random((n, q, 1))
    cause = (drawn < np.cumsum(hazards, axis=2)).sum(axis=2)
    cause = np.where(cause > 0, hazards.shape[2] + 1 - cause, 0)
    first = np.where((cause > 0).any(axis=1), (cause > 0).argmax(axis=1) + 1, q + 1)
    happened = first <= last
    return np.where(happened, first, last), np.where(happened, cause[np.arange(n), np.minimum(first, q) - 1], 0)


def _split(frame: pd.DataFrame, change: np.ndarray, later: pd.DataFrame) -> pd.DataFrame:
    """Return a row per person before the change of covariates, and one after it for those who live to see it."""
    sees = frame["time"].to_numpy() > change
    before = frame.assign(time=np.minimum(frame["time"], change), event=np.where(sees, 0, frame["event"].to_numpy()))
    after = frame.assign(start=change, **dict(later.items()))[sees]
    return _reset(pd.concat([before, after]).sort_values(["id", "start"]))


def _times(q: int) -> np.ndarray:
    return np.unique(np.round(np.linspace(q / 5, q, 5)).astype(int))


def _reset(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.reset_index(drop=True)


def _normal(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.standard_normal((n, p))


def _heavy(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.standard_t(2.5, (n, p))


def _rare(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return (rng.random((n, p)) < np.linspace(0.04, 0.5, p)).astype(float)


_plain = partial(
    HazardDesign,
    records=6_000,
    public=200,
    intervals=20,
    alphas=((-3.2, 1.0, -0.4),),
    betas=((0.6, -0.4, 0.3, 0.0),),
    covariates=_normal,
)

DESIGNS = (
    _plain(name="4 % events", alphas=((-6.1, 1.0, -0.4),), records=20_000, public=500),
    _plain(name="cloglog", link="cloglog"),
    _plain(name="probit", link="probit", alphas=((-1.8, 0.5, -0.2),), betas=((0.3, -0.2, 0.15, 0.0),)),
    _plain(name="a dummy for each interval", baseline="dummies", intervals=12),
    _plain(
        name="heavy tails (t with 2.5 degrees of freedom)", covariates=_heavy, bound=20.0, betas=((0.3, -0.2, 0.1),)
    ),
    _plain(name="0/1 columns, the rarest 4 %", covariates=_rare, bound=1.0, betas=((0.8, -0.6, 0.5, 0.3),)),
    _plain(name="strong effects", betas=((1.2, -0.8, 0.4, 0.0),)),
    _plain(name="late entry", late=True),
    _plain(
        name="two causes",
        alphas=((-3.4, 1.0, -0.4), (-4.2, 2.0, 0.0)),
        betas=((0.6, -0.4, 0.3), (0.0, 0.5, 0.3)),
    ),
    _plain(name="public hazards higher (by 0.5 on the logit scale)", public_level=0.5),
    _plain(name="public coefficients differ (standard deviation 0.3)", public_slopes=0.3),
    _plain(name="case weights and offset", weighted=True),
    _plain(name="covariates that change, two rows per person", varying=True),
    _plain(
        name="no public people, se_share = 0.3", use_public=False, se_share=0.3, epsilon=3.0, records=20_000, bound=2.5
    ),
)

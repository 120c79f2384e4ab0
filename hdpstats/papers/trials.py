"""What the reproduced algorithms share: seeded generators, noise as printed, exact logistic fits. NOT private.

And seeded synthetic survival trials with a known truth, on which estimates and intervals are validated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logit

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import choice, integer, real
from hdpstats.families.regression.rows import ridge_objective
from hdpstats.formulas.outcome import spline
from hdpstats.inference.draws import Generator, generator
from hdpstats.losses import LINKS, LogisticLoss
from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Binary, Continuous, Duration
from hdpstats.schema.schema import Schema
from hdpstats.solvers import minimise

LARGEST_SEED: Final = 2**64 - 1
MOST_DRAWS: Final = 1_000_000


def seeded(seed: int) -> Generator:
    """Return the generator of a seed from 0 to 2^64 - 1."""
    return generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):x}")


def positive(value: float, name: str) -> float:
    """Return an argument that must be a number above 0."""
    return real(value, name=name, lower=0.0, open_lower=True)


def ball_noise(rng: Generator, scale: float, *shape: int) -> FloatArray:
    """Return vectors (..., D) of density proportional to ``exp(-||b|| / scale)``; ``shape`` ends with ``D``."""
    directions = rng.standard_normal(shape)
    lengths = rng.gamma(float(shape[-1]), scale, shape[:-1])
    return np.asarray((lengths / np.linalg.norm(directions, axis=-1))[..., None] * directions)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hospital:
    """Records of a logistic regression: covariates ``X`` (n, p), a constant included where there is one, ``y`` (n,)."""

    X: FloatArray
    y: FloatArray

    @property
    def records(self) -> int:
        """``n``."""
        return len(self.y)


def fit(hospital: Hospital, weights: FloatArray | None = None, *, ridge: float = 1e-6) -> FloatArray:
    """Return logistic coefficients (p,), exact; a ridge of next to nothing where the likelihood has no maximum."""
    objective = ridge_objective(LogisticLoss(), hospital.X, hospital.y, ridge=ridge, weights=weights)
    return minimise(objective, start=objective.centre).theta


LARGEST_TRIAL: Final = 10_000_000
BLOCK: Final = 4_000_000
"""Person-intervals whose hazards are held at a time."""

Covariates = Callable[[Generator, int, int], FloatArray]
"""Draws the covariates (n, p) of so many people; the columns' declared bounds clip them."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DiscreteTrial:
    """A simulated trial and the model it was drawn from, ``link(h_s(x)) = A_s'alpha + x'beta``.

    Attributes
    ----------
    frame : DataFrame
        One row per person: covariates x1, ..., xp; ``time``, the last interval at risk, 1 to q; ``event``, 1 if the
        event happened in it, 0 if the person was censored after surviving it.
    schema : Schema
        What a custodian would declare of these columns; the horizon is q and the unit an interval.
    baseline : (q, e) float64
        Baseline features ``A``.
    alpha, beta : (e,), (p,) float64
        The true coefficients.
    link : str
        A name of `hdpstats.losses.LINKS`.
    """

    frame: pd.DataFrame
    schema: Schema
    baseline: FloatArray
    alpha: FloatArray
    beta: FloatArray
    link: str

    @property
    def covariates(self) -> tuple[str, ...]:
        """The names of the covariates."""
        return tuple(f"x{j}" for j in range(1, len(self.beta) + 1))

    @property
    def formula(self) -> str:
        """The true model as a formula."""
        return "Surv(time, event) ~ " + " + ".join(self.covariates)

    def survival(self, frame: pd.DataFrame) -> FloatArray:
        """Return the true probabilities (rows, q) with which people with these covariates survive intervals 1 to s."""
        eta = frame[list(self.covariates)].to_numpy(dtype=np.float64) @ self.beta
        return _survival(self.baseline @ self.alpha, eta, self.link)


def normal(rng: Generator, n: int, p: int) -> FloatArray:
    """Draw independent standard normal covariates (n, p)."""
    return rng.standard_normal((n, p))


def autoregressive(rng: Generator, n: int, p: int, *, correlation: float = 0.4) -> FloatArray:
    """Draw standard normal covariates (n, p) with correlations ``correlation ** |i - j|``."""
    places = np.arange(p)
    covariance = correlation ** np.abs(places[:, None] - places[None, :])
    return np.asarray(rng.standard_normal((n, p)) @ np.linalg.cholesky(covariance).T)


def unit_ball(rng: Generator, n: int, p: int) -> FloatArray:
    """Draw standard normal covariates (n, p), each row outside the unit ball shortened to length 1."""
    rows = rng.standard_normal((n, p))
    return np.asarray(rows / np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None])


def discrete_trial(
    n: int,
    *,
    seed: int,
    baseline: npt.ArrayLike,
    alpha: npt.ArrayLike,
    beta: npt.ArrayLike,
    link: str = "logit",
    covariates: Covariates = normal,
    bound: float = 5.0,
    censoring: tuple[int, int] | None = None,
) -> DiscreteTrial:
    """Draw a trial in discrete time. NOT private: seeded, for synthetic people only.

    Each person has covariates ``x``, an event time with hazards ``h_s = link^-1(A_s'alpha + x'beta)`` and an
    independent censoring time; both are discrete. Who has the event in interval s is at risk in intervals 1 to s; who
    is censored at c survived c intervals.

    Parameters
    ----------
    n : int
        The number of people.
    seed : int
        The same seed gives the same trial.
    baseline : (q, e) array
        Baseline features, a row per interval.
    alpha, beta : (e,), (p,) arrays
        Coefficients of the baseline and of the covariates.
    link : str
        A name of `hdpstats.losses.LINKS`.
    covariates : callable
        Draws rows from a generator: `normal`, `autoregressive`, `unit_ball` or one's own ``f(rng, n, p)``.
    bound : number
        The declared bound of every covariate; draws beyond it are clipped before the event times are drawn.
    censoring : (first, last), optional
        Censoring times are uniform on these intervals, both included; by default everybody is followed for q intervals.

    Raises
    ------
    ArgumentError
        If an argument is out of range or the shapes do not fit.

    Examples
    --------
    >>> trial = discrete_trial(500, seed=1, baseline=np.eye(4), alpha=[-2.0, -2, -1, -1], beta=[0.7])
    >>> int(trial.frame["time"].max()), trial.formula
    (4, 'Surv(time, event) ~ x1')
    """
    n = integer(n, name="n", lower=1, upper=LARGEST_TRIAL)
    rng = seeded(seed)
    link = choice(link, name="link", options=LINKS)
    bound = positive(bound, "bound")
    A, a, b = (np.asarray(values, dtype=np.float64) for values in (baseline, alpha, beta))
    if A.ndim != 2 or a.shape != A.shape[1:] or b.ndim != 1:
        raise ArgumentError("baseline must be a (q, e) array, alpha an (e,) and beta a (p,) array", argument="baseline")
    X = np.clip(covariates(rng, n, len(b)), -bound, bound)
    last = _censoring(rng, n, len(A), censoring)
    time = _event_times(rng, A @ a, X @ b, link)
    columns = {f"x{j}": X[:, j - 1] for j in range(1, len(b) + 1)}
    event = time <= last
    frame = pd.DataFrame(columns | {"time": np.where(event, time, last), "event": event.astype(np.int64)})
    declared = dict.fromkeys(columns, Continuous(-bound, bound, complete=True))
    horizon = Duration(len(A), unit="intervals", complete=True)
    schema = Schema(declared, time=horizon, event=Binary(complete=True))
    return DiscreteTrial(frame=frame, schema=schema, baseline=A, alpha=a, beta=b, link=link)


def unit_ball_trial(n: int, *, seed: int, censoring: tuple[int, int] | None = (60, 200)) -> DiscreteTrial:
    """Draw a long trial with rare events in each interval: 200 intervals, 3 covariates in the unit ball. NOT private.

    The baseline is the natural cubic spline of Nguyen and Hui (2017, section 3.2) with 3 knots; no hazard exceeds 0.025
    and just under half of the people have the event.

    Examples
    --------
    >>> trial = unit_ball_trial(2000, seed=0)
    >>> bool(0.4 < trial.frame["event"].mean() < 0.55)
    True
    """
    return discrete_trial(
        n,
        seed=seed,
        baseline=spline(TimeGrid(tuple(float(cut) for cut in range(1, 201))), df=3),
        alpha=(-5.6, 0.8, -0.3),
        beta=(1.0, -0.7, 0.5),
        covariates=unit_ball,
        bound=1.0,
        censoring=censoring,
    )


def eight_interval_trial(n: int, *, seed: int, censoring: tuple[int, int] | None = (3, 8)) -> DiscreteTrial:
    """Draw a short trial with frequent events: 8 intervals, 6 correlated covariates. NOT private.

    The hazards of a person with covariates 0 rise evenly from 6 to 12 % an interval; the baseline features are dummies.

    Examples
    --------
    >>> trial = eight_interval_trial(2000, seed=0)
    >>> trial.baseline.shape, len(trial.beta)
    ((8, 8), 6)
    """
    return discrete_trial(
        n,
        seed=seed,
        baseline=np.eye(8),
        alpha=logit(np.linspace(0.06, 0.12, 8)),
        beta=(0.5, -0.4, 0.3, 0.0, 0.2, -0.3),
        covariates=autoregressive,
        censoring=censoring,
    )


def _censoring(rng: Generator, n: int, q: int, censoring: tuple[int, int] | None) -> IntArray:
    """Return the number of intervals (n,) that each person would be followed."""
    if censoring is None:
        return np.full(n, q, dtype=np.int64)
    first = integer(censoring[0], name="censoring", lower=1, upper=q)
    last = integer(censoring[1], name="censoring", lower=first, upper=q)
    return np.asarray(rng.integers(first, last, n, endpoint=True))


def _event_times(rng: Generator, base: FloatArray, eta: FloatArray, link: str) -> IntArray:
    """Return the interval of each person's event (n,), q + 1 where it comes later, by inverting survival."""
    uniform = rng.random(len(eta))
    times = np.empty(len(eta), dtype=np.int64)
    rows = max(1, BLOCK // len(base))
    for start in range(0, len(eta), rows):
        part = slice(start, start + rows)
        times[part] = 1 + np.sum(uniform[part, None] < _survival(base, eta[part], link), axis=1)
    return times


def _survival(base: FloatArray, eta: FloatArray, link: str) -> FloatArray:
    """Return the probabilities (rows, q) of surviving intervals 1 to s."""
    return np.asarray(np.exp(-np.cumsum(LINKS[link].survive(base[None, :] + eta[:, None]).value, axis=1)))

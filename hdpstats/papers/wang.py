r"""The experiments of Wang et al. (2018) on simulated or public records, its algorithms as printed. NOT private.

They are here to reproduce the paper's figures and to measure against.

**Algorithms 1 and 2**: hybrid weights, and a subset chosen by its performance.

Noise is seeded and in floating point, and the paper's analysis is wrong in three places:

1. The sensitivity of the performance :math:`t_i = \|h_D(\theta_i) - h_D(\hat\theta_D)\|` is not 1. The fit
   :math:`\hat\theta_D` changes with a record, and with it *every* predicted probability: `curve_counterexample`.
2. The noisy performances of ``k`` subsets cost ``k`` times the epsilon of one.
3. Which sizes to try is decided by looking at the private records.

The mechanism that replaces them, and may see private records, is `hdpstats.models.hybrid_weights`.

References
----------
Wang M., Ji Z., Kim H.E., Wang S., Xiong L., Jiang X. (2018). Selecting optimal subset to release under differentially
private M-estimators from hybrid datasets. IEEE Transactions on Knowledge and Data Engineering 30(3), 573-584.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import choice, integer
from hdpstats.inference.draws import Generator
from hdpstats.papers.trials import LARGEST_SEED, Hospital, fit, positive, seeded
from hdpstats.schema.columns import Binary, Column, Continuous
from hdpstats.schema.datasets import load_gbsg, load_rotterdam
from hdpstats.schema.schema import Schema
from hdpstats.solvers.nearest_points import nested_nearest

LARGEST: Final = 1_000_000
RESPONSE: Final = "y"

INDICATORS: Final = {
    "age50": ("age", 50.0),
    "age65": ("age", 65.0),
    "meno": ("meno", 0.5),
    "nodes4": ("nodes", 3.5),
    "nodes10": ("nodes", 9.5),
    "grade3": ("grade3", 0.5),
    "hormon": ("hormon", 0.5),
    "pgr20": ("pgr", 19.5),
    "er20": ("er", 19.5),
}
"""Nine covariates of 0 and 1, as many as the paper's two hospitals have: a column, and the value that it exceeds."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """Private records and public ones of the same columns; the columns' names, a constant not among them."""

    private: Hospital
    public: Hospital
    names: tuple[str, ...]
    intercept: bool

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return private and public records as data frames with the outcome ``y``, for `hdpstats.api`."""
        first = int(self.intercept)
        private, public = (
            pd.DataFrame(hospital.X[:, first:], columns=list(self.names)).assign(**{RESPONSE: hospital.y})
            for hospital in (self.private, self.public)
        )
        return private, public

    def schema(self) -> Schema:
        """Return what a custodian would declare: bounds from the public records, widened by half their range."""
        _, public = self.frames()
        columns: dict[str, Column] = {RESPONSE: Binary(complete=True)}
        for name in self.names:
            low, high = float(public[name].min()), float(public[name].max())
            is_binary = set(public[name].unique()) <= {0.0, 1.0}
            lower, upper = 1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low
            columns[name] = Binary(complete=True) if is_binary else Continuous(lower, upper, complete=True)
        return Schema(columns)


def simulated_hospitals(
    dimension: int = 2,
    *,
    private: int = 10_000,
    public: int = 10_000,
    seed: int,
    beta_private: FloatArray | None = None,
    beta_public: FloatArray | None = None,
) -> Pair:
    """Draw the paper's simulation (section 5.1), without a constant. Public covariates vary less, effects are smaller.

    Parameters
    ----------
    dimension
        ``p``: with 2, private covariates are standard normal and the first public one has variance 1/2; otherwise all
        public ones have.
    private, public
        Numbers of records.
    seed
        Of everything.
    beta_private, beta_public : (p,), optional
        The coefficients; by default uniform on (-1, 1) and on (0, 1/2).
    """
    p = integer(dimension, name="dimension", lower=1, upper=1000)
    rng = seeded(seed)
    of_private = rng.uniform(-1.0, 1.0, p) if beta_private is None else np.asarray(beta_private, dtype=np.float64)
    other = rng.uniform(0.0, 0.5, p) if beta_public is None else np.asarray(beta_public, dtype=np.float64)
    spread = np.sqrt(np.array([0.5, 1.0]) if p == 2 else np.full(p, 0.5))
    if of_private.shape != (p,) or other.shape != (p,):
        raise ArgumentError(f"beta_private and beta_public must have {p} numbers", argument="beta_private")
    return Pair(
        private=_drawn(rng, of_private, np.ones(p), integer(private, name="private", lower=1, upper=LARGEST)),
        public=_drawn(rng, other, spread, integer(public, name="public", lower=1, upper=LARGEST)),
        names=tuple(f"x{j + 1}" for j in range(p)),
        intercept=False,
    )


def _drawn(rng: Generator, beta: FloatArray, spread: FloatArray, records: int) -> Hospital:
    X = rng.standard_normal((records, len(beta))) * spread
    return Hospital(X=X, y=(rng.uniform(size=records) < expit(X @ beta)).astype(np.float64))


def breast_cancer_hospitals(public: str = "gbsg") -> Pair:
    """Return node-positive patients of two studies with nine covariates of 0 and 1, one study public, one private.

    They stand for the paper's two hospitals (Sheffield and Edinburgh, myocardial infarction), whose data are not
    published. The outcome is relapse or death within three years; those censored before are left out.
    """
    chosen = choice(public, name="public", options=("gbsg", "rotterdam"))
    frames = {"gbsg": load_gbsg(), "rotterdam": load_rotterdam()}
    other = next(name for name in frames if name != chosen)
    hospitals = {name: _indicators(frame) for name, frame in frames.items()}
    return Pair(private=hospitals[other], public=hospitals[chosen], names=tuple(INDICATORS), intercept=True)


def _indicators(frame: pd.DataFrame) -> Hospital:
    kept = frame[(frame["nodes"] > 0) & frame["event3"].notna()]
    columns = [(kept[name] > above).to_numpy(dtype=np.float64) for name, above in INDICATORS.values()]
    return Hospital(X=np.column_stack([np.ones(len(kept)), *columns]), y=kept["event3"].to_numpy(dtype=np.float64))


def prediction_error(hospital: Hospital, theta: FloatArray, best: FloatArray) -> float:
    """Return the paper's ``t``: how far apart, in Euclidean norm, two coefficients put the records' probabilities."""
    return float(np.linalg.norm(expit(hospital.X @ theta) - expit(hospital.X @ best)))


SHARES: Final = (0.8, 0.2, 1.0)
"""The paper's epsilon_1, epsilon_2 and epsilon_3 in units of its epsilon; their sum is 2."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tradeoff:
    """How the error depends on the number of public points that are kept.

    Attributes
    ----------
    curve : DataFrame
        A row per size: size; ``printed``, the prediction error of Algorithm 2, which divides epsilon_2 by the number of
        sizes; ``unsplit``, if every size were given all of epsilon_2; ``without_noise``.
    public_only : float
        The prediction error of the public records alone.
    chosen : int
        The size that the paper's step 6 chooses.
    coefficients : (k, p) float64
        Of ``printed``, by size.
    best : (p,) float64
        The private fit.
    """

    curve: pd.DataFrame
    public_only: float
    chosen: int
    coefficients: FloatArray
    best: FloatArray


def tradeoff(pair: Pair, sizes: IntArray, *, epsilon: float, seed: int) -> Tradeoff:
    """Run Algorithm 2 at ``epsilon`` (in all 2 epsilon as the paper counts) and evaluate every size. NOT private.

    Parameters
    ----------
    pair : Pair
    sizes : (k,) int64
        Increasing numbers of public points, at most the number of distinct ones.
    epsilon : number
        The paper's; `SHARES` divides it.
    seed : int
        Of the noise.

    Raises
    ------
    ArgumentError
        If sizes do not increase or are more than the distinct public points.
    """
    scale = positive(epsilon, "epsilon")
    rng = seeded(seed)
    points, first = distinct_points(pair)
    sizes = np.asarray(sizes, dtype=np.int64)
    if not sizes.size or np.any(np.diff(sizes) <= 0) or not 1 <= sizes[0] <= sizes[-1] <= len(points):
        raise ArgumentError(f"sizes must increase, from 1 to at most {len(points)}", argument="sizes")
    private, k = rescaled(pair, pair.private), len(sizes)
    counts = _counts(private, points, [len(points)])[0]
    order = np.argsort(-np.maximum(counts + rng.laplace(scale=2.0 / (SHARES[0] * scale), size=len(points)), 0.0))
    best = fit(pair.private)

    def error(theta: FloatArray) -> float:
        return prediction_error(pair.private, theta, best)

    rows, thetas = [], []
    for size, exact in zip(sizes, _counts(private, points[order], sizes.tolist()), strict=True):
        kept = first[order[:size]]
        subset = Hospital(X=pair.public.X[kept], y=pair.public.y[kept])
        noise = rng.laplace(scale=2.0 / (SHARES[1] * scale), size=size)
        weights = {"printed": exact + k * noise, "unsplit": exact + noise, "without_noise": exact.astype(np.float64)}
        fits = {name: fit(subset, np.maximum(counts, 0.0)) for name, counts in weights.items()}
        rows.append({"size": int(size), **{name: error(theta) for name, theta in fits.items()}})
        thetas.append(fits["printed"])
    curve = pd.DataFrame(rows)
    noisy = curve["printed"].to_numpy() + rng.laplace(scale=1.0 / (SHARES[2] * scale), size=k)
    return Tradeoff(
        curve=curve,
        public_only=error(fit(pair.public)),
        chosen=int(sizes[int(np.argmin(noisy))]),
        coefficients=np.array(thetas),
        best=best,
    )


def _counts(rows: FloatArray, points: FloatArray, sizes: Sequence[int]) -> list[IntArray]:
    """Return how many rows are nearest to each of the first points, for each of the sizes."""
    counts = [np.zeros(size, dtype=np.int64) for size in sizes]
    for block in nested_nearest(rows, points, sizes):
        for count, place in zip(counts, block.place, strict=True):
            count += np.bincount(place, minlength=len(count))
    return counts


def distinct_points(pair: Pair) -> tuple[FloatArray, IntArray]:
    """Return the distinct public points, covariates and outcome in [0, 1], and the first record of each."""
    points = rescaled(pair, pair.public)
    _, first = np.unique(points, axis=0, return_index=True)
    kept = np.sort(first)
    return points[kept], kept


def rescaled(pair: Pair, hospital: Hospital) -> FloatArray:
    """Return covariates and outcome in [0, 1] by the public range; what lies outside is clipped (section 3.2)."""
    columns = slice(int(pair.intercept), None)
    public = np.column_stack([pair.public.X[:, columns], pair.public.y])
    low, high = public.min(axis=0), public.max(axis=0)
    values = np.column_stack([hospital.X[:, columns], hospital.y])
    return np.asarray((np.clip(values, low, high) - low)[:, high > low] / (high - low)[high > low])


def grid_fit(pair: Pair, *, epsilon: float, bins: int, seed: int) -> FloatArray:
    """Return coefficients from Lei's perturbed histogram of the private records alone. NOT private: seeded noise.

    ``bins`` classes per covariate between the extremes of both samples, counts plus Laplace noise of scale
    2 / epsilon, the positive part as weights of the centres.
    """
    rng = seeded(seed)
    columns = slice(int(pair.intercept), None)
    X = pair.private.X[:, columns]
    both = np.concatenate([X, pair.public.X[:, columns]])
    low, high = both.min(axis=0), both.max(axis=0)
    place = np.minimum((bins * (X - low) / (high - low)).astype(np.int64), bins - 1)
    shape = (*(bins for _ in range(X.shape[1])), 2)
    counts = np.zeros(shape)
    np.add.at(counts, (*place.T, pair.private.y.astype(np.int64)), 1.0)
    noisy = np.maximum(counts + rng.laplace(scale=2.0 / epsilon, size=shape), 0.0).ravel()
    cells = np.indices(shape).reshape(len(shape), -1).T
    centres = low + (cells[:, :-1] + 0.5) * (high - low) / bins
    constant = [np.ones((len(centres), 1))] if pair.intercept else []
    return fit(Hospital(X=np.hstack([*constant, centres]), y=cells[:, -1].astype(np.float64)), noisy)


def curve_counterexample(records: int) -> tuple[float, float]:
    """Return the performances ``t`` of one candidate on two neighbouring data sets: the paper says they differ by 1.

    Covariates ``(1, u)``: ``records - 1`` (an even number) of them at ``u = 1/n`` with ``y = 1`` and ``u = -1/n`` with
    ``y = 0``, separated. One more at ``u = 1`` with ``y = 1`` agrees, and fitted probabilities go to 0 and 1; at
    ``u = -1`` with ``y = 1`` it contradicts with all its weight, and they stay near 1/2. The candidate is 0, so the
    performances are near ``sqrt(n) / 2`` and near 0.

    >>> agrees, contradicts = curve_counterexample(1001)
    >>> agrees - contradicts > 15
    True
    """
    half = (integer(records, name="records", lower=3, upper=LARGEST_SEED) - 1) // 2
    n = 2 * half + 1
    u = np.concatenate([np.full(half, 1.0 / n), np.full(half, -1.0 / n)])
    y = np.concatenate([np.ones(half), np.zeros(half)])
    performances = []
    for last in (1.0, -1.0):
        X = np.column_stack([np.ones(n), np.append(u, last)])
        hospital = Hospital(X=X, y=np.append(y, 1.0))
        performances.append(prediction_error(hospital, np.zeros(2), fit(hospital, ridge=1e-12)))
    return performances[0], performances[1]

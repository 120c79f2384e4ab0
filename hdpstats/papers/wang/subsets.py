r"""Algorithms 1 and 2 of Wang et al. (2018) as printed: hybrid weights, and a subset chosen by its performance.

NOT private: seeded noise in floating point, and an analysis that is wrong in three places:

1. The sensitivity of the performance :math:`t_i = \|h_D(\theta_i) - h_D(\hat\theta_D)\|` is not 1. The fit
   :math:`\hat\theta_D` changes with a record, and with it *every* predicted probability: `curve_counterexample`.
2. The noisy performances of ``k`` subsets cost ``k`` times the epsilon of one.
3. Which sizes to try is decided by looking at the private records.

What replaces them is in `hdpstats.models.hybrid_weights`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import integer, real
from hdpstats.inference.draws import generator
from hdpstats.papers.trials import LARGEST_SEED
from hdpstats.papers.wang.hospitals import Hospital, Pair, fit, prediction_error
from hdpstats.solvers.nearest import nested_nearest

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
    """Run Algorithm 2 at ``epsilon`` (in all 2 epsilon as the paper counts) and look at every size. NOT private.

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
    scale = real(epsilon, name="epsilon", lower=0.0, open_lower=True)
    rng = generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):064x}")
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
        found = {name: fit(subset, np.maximum(each, 0.0)) for name, each in weights.items()}
        rows.append({"size": int(size), **{name: error(theta) for name, theta in found.items()}})
        thetas.append(found["printed"])
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
    own = np.column_stack([hospital.X[:, columns], hospital.y])
    return np.asarray((np.clip(own, low, high) - low)[:, high > low] / (high - low)[high > low])


def grid_fit(pair: Pair, *, epsilon: float, bins: int, seed: int) -> FloatArray:
    """Return coefficients from Lei's perturbed histogram of the private records alone. NOT private: seeded noise.

    ``bins`` classes per covariate between the extremes of both samples, counts plus Laplace noise of scale
    2 / epsilon, the positive part as weights of the centres.
    """
    rng = generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):064x}")
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
    found = []
    for last in (1.0, -1.0):
        X = np.column_stack([np.ones(n), np.append(u, last)])
        hospital = Hospital(X=X, y=np.append(y, 1.0))
        found.append(prediction_error(hospital, np.zeros(2), fit(hospital, ridge=1e-12)))
    return found[0], found[1]

r"""The importance weights of Ji and Elkan (2013) on public or synthetic records, as printed. NOT private.

They are here to reproduce the paper's figures and to measure against: numpy noise from a seed, floating point as it
comes, any number of draws. The mechanism that may see private records is `hdpstats.models.importance_weights`.

Algorithm 1 is a figure that the published text lacks. What its two theorems say fits one reading: with private
rows ``D`` and public rows ``E`` in :math:`[0, 1]^d` and no constant,

.. math::
    \hat\beta = \arg\min \frac{1}{N_D} \sum_D \log(1 + e^{-\beta'x}) + \frac{1}{N_E} \sum_E \log(1 + e^{\beta'x})
    + \frac{\lambda}{2} \|\beta\|^2 ,

noise with density proportional to :math:`\exp(-N_D \lambda \epsilon \|\delta\| / \sqrt d)`, and weights
:math:`e^{(\hat\beta + \delta)'x}` of the public rows, normalised to sum to 1.

References
----------
Ji Z., Elkan C. (2013). Differential privacy based on importance weighting. Machine Learning 93(1), 163-183.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer
from hdpstats.papers.trials import MOST_DRAWS, Hospital, ball_noise, fit, positive, seeded


def density_ratio(private: FloatArray, public: FloatArray, *, ridge: float) -> FloatArray:
    """Return the coefficients (d,) of the log density ratio of private rows (n, d) to public ones (m, d). Exact.

    >>> private, public = np.array([[1.0], [1.0], [0.0], [1.0]]), np.array([[1.0], [0.0], [0.0], [1.0]])
    >>> bool(density_ratio(private, public, ridge=0.1)[0] > 0)
    True
    """
    if private.ndim != 2 or public.ndim != 2 or private.shape[1] != public.shape[1] or not len(private) * len(public):
        raise ArgumentError("private and public must be tables with the same columns, not empty", argument="private")
    n, m = len(private), len(public)
    people = Hospital(X=np.concatenate([private, public]), y=np.repeat([1.0, 0.0], [n, m]))
    weights = np.repeat([1.0, n / m], [n, m])  # in units of private rows: better scaled than means
    return fit(people, weights, ridge=n * positive(ridge, "ridge"))


def noisy_density_ratio(
    private: FloatArray, public: FloatArray, *, ridge: float, epsilon: float, seed: int, draws: int = 1
) -> FloatArray:
    """Return coefficients (draws, d) with the paper's noise, whose scale is ``sqrt(d) / (N_D lambda epsilon)``."""
    best = density_ratio(private, public, ridge=ridge)
    rng, number, d = seeded(seed), integer(draws, name="draws", lower=1, upper=MOST_DRAWS), len(best)
    scale = np.sqrt(d) / (len(private) * ridge * positive(epsilon, "epsilon"))
    return best + ball_noise(rng, float(scale), number, d)


def weighted_mean(public: FloatArray, values: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return means of ``values`` (m,) under weights ``exp(b'x)`` normalised, for coefficients (..., d): shape (...)."""
    log_weights = coefficients @ public.T
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights @ values / weights.sum(axis=-1))


def variance_bound(
    public: FloatArray, values: FloatArray, coefficients: FloatArray, *, records: int, ridge: float, epsilon: float
) -> tuple[float, float]:
    r"""Return the variance of the weighted mean by Theorem 2, corrected and as printed.

    The derivative of the normalised mean in the coefficients is the weighted covariance of values and columns, half of
    the printed double sum, so that the printed variance is four times too large.
    """
    log_weights = public @ coefficients
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    slope = (weights * (values - weights @ values)) @ public
    d = public.shape[1]
    spread = d / (records * ridge**2) + d * (d + 1) / (records * ridge * epsilon) ** 2
    corrected = float(slope @ slope) * spread
    return corrected, 4.0 * corrected


def dummies(frame: pd.DataFrame, columns: Sequence[str]) -> FloatArray:
    """Return columns of 0 and 1 (n, d), one for each level but the first of each column, as the paper codes Adult.

    Numbers are cut at their quartiles in this frame first.
    """
    coded = []
    for name in columns:
        cells = frame[name]
        if pd.api.types.is_numeric_dtype(cells) and cells.nunique() > 4:
            cells = pd.qcut(cells, 4, duplicates="drop")
        coded.append(pd.get_dummies(cells, drop_first=True).to_numpy(dtype=np.float64))
    return np.concatenate(coded, axis=1)


def radius_counterexample(ridge: float = 0.003) -> float:
    r"""Return how far one record moves the fit, in units of ``R / (N_D lambda)``: the paper's remark allows 1.

    The paper says that :math:`\sqrt d` may be replaced by a bound ``R`` on the norm of the rows. With rows
    :math:`(-c, \pm s)` of the unit circle, a public row opposite to the others' mean, and one private row replaced by
    its mirror image, the two gradients point apart by more than ``R``.

    >>> radius_counterexample() > 1.2
    True
    """
    worst = 0.0
    for angle in np.linspace(0.05, 1.5, 30):
        c, s = float(np.cos(angle)), float(np.sin(angle))
        public = np.array([[-1.0, 0.0]])
        others = np.tile([[1.0, 0.0]], (199, 1))
        moved = [density_ratio(np.concatenate([others, [[-c, side * s]]]), public, ridge=ridge) for side in (1.0, -1.0)]
        worst = max(worst, float(np.linalg.norm(moved[0] - moved[1])) * 200 * ridge)
    return worst

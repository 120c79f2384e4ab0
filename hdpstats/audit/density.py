r"""The exact privacy loss of objective perturbation, and a search for the neighbours where it is largest.

The perturbed minimiser has the density :math:`\nu(b_D(\theta))\,\det\{\Lambda + \sum H_i(\theta)\}` with
:math:`b_D(\theta) = -\Lambda(\theta - c) - \sum \nabla\ell_i(\theta)`, so the log-ratio of two data sets' densities at a point is a
formula, not an estimate. Maximising it over points, rows and neighbours gives a lower bound on the true epsilon.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from hdpstats._base.typing import FloatArray
from hdpstats.losses import Loss
from hdpstats.privacy.sensitivity import BallNorm, Norm


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PerturbedObjective:
    """A mechanism as its density sees it: loss, ridge and centre (D,), noise ``exp(-rate K(b))``, weights of rows.

    ``weigh`` maps rows (n, D) to weights (n,): the Mallows weights, times the largest case weight.
    """

    loss: Loss
    ridge: FloatArray
    centre: FloatArray
    rate: float
    norm: Norm
    weigh: Callable[[FloatArray], FloatArray]

    def log_density(self, theta: FloatArray, X: FloatArray, y: FloatArray, counts: FloatArray) -> float:
        """Return the log density at ``theta`` for rows ``X``, each ``counts`` times, up to a constant."""
        weights, eta = counts * self.weigh(X), X @ theta
        gradient = X.T @ (weights * self.loss.score(eta, y))
        hessian = X.T @ ((weights * self.loss.curvature(eta, y))[:, None] * X) + np.diag(self.ridge)
        noise = -self.ridge * (theta - self.centre) - gradient
        return -self.rate * k_norm(noise, self.norm) + float(np.linalg.slogdet(hessian)[1])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Neighbours:
    """Two data sets that differ in the last row, the point where their densities differ most, and by how much.

    ``counts`` (n,): how many persons share each row; 1 for the last.
    """

    X: FloatArray
    y: FloatArray
    other_X: FloatArray
    other_y: FloatArray
    counts: FloatArray
    theta: FloatArray
    loss: float


def k_norm(vector: FloatArray, norm: Norm) -> float:
    """Return ``K(vector)``."""
    radius = float(norm.radius)
    if isinstance(norm, BallNorm):
        return float(np.linalg.norm(vector)) / radius
    return max(abs(float(vector[0])), float(np.linalg.norm(vector[1:])) / radius)


def privacy_loss(mechanism: PerturbedObjective, pair: Neighbours) -> float:
    """Return ``log p_D(theta) - log p_D'(theta)``."""
    return mechanism.log_density(pair.theta, pair.X, pair.y, pair.counts) - mechanism.log_density(
        pair.theta, pair.other_X, pair.other_y, pair.counts
    )


def worst_neighbours(
    mechanism: PerturbedObjective,
    *,
    slopes: int = 1,
    others: int = 1,
    reach: float = 10.0,
    spread: float = 60.0,
    tries: int = 256,
    polish: int = 12,
) -> Neighbours:
    """Search for the neighbouring data sets and the point of largest privacy loss under replace-one.

    Deterministic: a Sobol design over rows ``|z_j| <= reach``, outcomes, multiplicities up to 10^4 and points
    ``|theta_j| <= spread``, then Nelder-Mead from the best. The data sets share ``others`` distinct rows; the intercept is the first
    column.
    """
    size = (others + 2) * (slopes + 1) + others + slopes + 1
    starts = qmc.Sobol(size, scramble=False).random(2 ** math.ceil(math.log2(tries)))[1:]

    def minus_loss(u: FloatArray) -> float:
        pair = _unpack(np.clip(u, 0.0, 1.0), slopes=slopes, others=others, reach=reach, spread=spread)
        return -privacy_loss(mechanism, pair)

    ranked = sorted(starts, key=minus_loss)[:polish]
    options = {"maxiter": 3000, "xatol": 1e-7, "fatol": 1e-9, "adaptive": True}
    polished = [minimize(minus_loss, start, method="Nelder-Mead", options=options).x for start in ranked]
    best = min([*polished, *ranked], key=minus_loss)
    pair = _unpack(np.clip(best, 0.0, 1.0), slopes=slopes, others=others, reach=reach, spread=spread)
    return replace(pair, loss=privacy_loss(mechanism, pair))


def _unpack(u: FloatArray, *, slopes: int, others: int, reach: float, spread: float) -> Neighbours:
    """Return the neighbours and the point that a vector of the unit cube stands for."""
    cells = (others + 2) * (slopes + 1)
    rows = u[:cells].reshape(others + 2, slopes + 1)
    X = np.column_stack([np.ones(others + 2), reach * (2.0 * rows[:, 1:] - 1.0)])
    y = (rows[:, 0] > 0.5).astype(float)
    counts = np.append(np.floor(10.0 ** (4.0 * u[cells : cells + others])), 1.0)
    theta = spread * (2.0 * u[cells + others :] - 1.0) ** 3
    kept = np.arange(others)
    one, two = np.append(kept, others), np.append(kept, others + 1)
    return Neighbours(
        X=X[one], y=y[one], other_X=X[two], other_y=y[two], counts=counts, theta=theta, loss=math.nan
    )

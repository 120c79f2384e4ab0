"""Raked people in a geometry, with the second moments that no coefficients change.

Columns of rows lie one after the other in memory, (D, B, n): every column is made and read by itself.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas.design import pieces, whiten_columns
from hdpstats.public.squares import weighted_squares
from hdpstats.raking.raking import RakedPeople
from hdpstats.records.geometry import Geometry, mallows_weights


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WhitenedPeople:
    """Raked people in a geometry: rows ``(1, A (x - m))`` (B, n, D) and Mallows weights (B, n).

    As of `RakedPeople.X`, columns of ``X`` lie one after the other in memory.
    """

    raked: RakedPeople
    X: FloatArray
    mallows: FloatArray
    slopes: slice

    @property
    def weights(self) -> FloatArray:
        """The people's weights (B, n)."""
        return self.raked.weights

    @property
    def z(self) -> FloatArray:
        """The rows without the intercept (B, n, d)."""
        return self.X[:, :, self.slopes]

    def predictor(self, theta: FloatArray) -> FloatArray:
        """Return ``x'theta`` of each row (B, n), or (k, B, n) for several coefficients (k, D)."""
        columns = np.moveaxis(self.X, 2, 0)
        predictor = theta @ columns.reshape(len(columns), -1)
        return np.asarray(predictor.reshape(*theta.shape[:-1], *columns.shape[1:]), dtype=np.float64)

    @cached_property
    def share(self) -> FloatArray:
        """How far curvature over them is believed (B, 1, 1)."""
        weights = self.of_people(self.weights)
        effective = np.sum(weights, axis=1) ** 2 / np.sum(weights**2, axis=1)
        return np.asarray((effective / (effective + self.X.shape[2]))[:, None, None])

    def of_people(self, of_rows: FloatArray) -> FloatArray:
        """Return what belongs to people (B, people) of what belongs to their rows (B, n), the same for all of one."""
        person = self.raked.person
        return of_rows if person is None else of_rows[:, np.diff(person, prepend=-1) > 0]

    def added(self, of_rows: FloatArray) -> FloatArray:
        """Return the sums (B, people, k) over each person's rows of what rows have (B, n, k)."""
        person = self.raked.person
        return of_rows if person is None else np.add.reduceat(of_rows, np.flatnonzero(np.diff(person, prepend=-1)), 1)

    @cached_property
    def squares(self) -> FloatArray:
        """``sum_i w_i x_i x_i'`` (B, D, D)."""
        return np.asarray(weighted_squares(self.X, self.weights[None])[0])

    @cached_property
    def rounded(self) -> FloatArray:
        """The same, with that of slopes `rounded`."""
        squares, own, total = self.squares.copy(), self.slopes, np.sum(self.weights, axis=1)
        mean = weighted_sums(self.z, self.weights) / total[:, None]
        squares[:, own, own] = rounded(self.squares[:, own, own], mean=mean, total=total)
        return squares

    def products(self, curvature: FloatArray, along: FloatArray, steps: FloatArray) -> FloatArray:
        """Return ``sum_k M_k s_k`` (B, D) of steps (k, D), ``M_k`` the Hessian of `raked` for a curvature (k, B, n).

        ``along`` (k, B, n) are the predictors of the steps. The Hessian is linear in the curvature: no matrix is made.
        """
        counted, slopes, first = self.weights * curvature, self.slopes, slice(0, self.slopes.start)
        whole = weighted_sums(self.X, np.sum(counted * along, axis=0))
        lengths = np.trace(self.squares[:, slopes, slopes], axis1=1, axis2=2)[:, None]
        level = np.einsum("kbn,bn->bk", counted, np.sum(self.z**2, axis=2)) / lengths
        target = (self.rounded @ (level @ steps)[:, :, None])[:, :, 0]
        left = counted.sum(axis=2).T[:, :, None] - level[:, :, None] * self.rounded[:, None, first, 0]
        target[:, first] += np.sum(left * steps[:, first], axis=1)
        share = self.share[:, 0]
        return np.asarray(share * whole + (1.0 - share) * target)


def whitened_people(geometry: Geometry, people: RakedPeople) -> WhitenedPeople:
    """Return raked people in a geometry."""
    first, (m, A) = int(geometry.intercept), geometry.arrays()
    columns, square = np.require(np.moveaxis(people.X, 2, 0), requirements=("C", "W")), np.zeros(people.weights.shape)
    whitened = np.empty_like(columns)
    whitened[:first] = columns[:first]
    slopes, to = (each[first:].reshape(len(m), -1) for each in (columns, whitened))
    whiten_columns(slopes, m, A, square.reshape(-1), *pieces(len(m)), to)
    return WhitenedPeople(
        raked=people,
        X=np.moveaxis(whitened, 0, 2),
        mallows=mallows_weights(square, geometry),
        slopes=slice(first, None),
    )


def rounded(square: FloatArray, *, mean: FloatArray, total: FloatArray) -> FloatArray:
    """Return second moments (B, p, p) whose covariance is averaged with a multiple of the identity of its trace.

    The identity is the covariance of the public people who were whitened. ``mean`` (B, p) is the average and ``total``
    (B,) the sum of the weights.
    """
    p = square.shape[1]
    if not p:
        return square
    own = total[:, None, None] * mean[:, :, None] * mean[:, None, :]
    level = np.trace(square - own, axis1=1, axis2=2) / p
    return np.asarray(0.5 * (square + own + level[:, None, None] * np.eye(p)))


def weighted_sums(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return ``sum_i w_i x_i`` (B, D) of rows (B, n, D) with weights (B, n)."""
    return np.asarray((np.swapaxes(X, 1, 2) @ w[:, :, None])[:, :, 0])

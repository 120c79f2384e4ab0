"""The public side of a multinomial logistic regression: as that of one predictor, one spread for all levels' slopes.

`multinomial_likelihood` is the ordinary fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.existence import existence, has_maximum, level_rows, longest_of, polished
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.families.regression.likelihood import identified, spread
from hdpstats.families.regression.public import FEWEST_ROWS, likelihood_fit
from hdpstats.formulas import Design
from hdpstats.losses.multinomial import probabilities
from hdpstats.public.invented import completed, unknown_directions
from hdpstats.public.moments import (
    Moments,
    WhitenedRows,
    averaged,
    averaged_sums,
    coefficient_parts,
    each_column,
    shrunk,
    spread_where_unknown,
    squares,
)
from hdpstats.public.row_weights import UnseenPeople, mallows
from hdpstats.raking.curvature import RakeableSide, raked_sums
from hdpstats.raking.people import WhitenedPeople, whitened_people
from hdpstats.raking.variables import PublicVariables, RakedPeople
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry, whiten
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.solvers import Penalised, minimise


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MultinomialSide(WhitenedRows, RakeableSide):
    """Public rows of a multinomial logistic regression in a geometry.

    ``y`` (n,) are the codes of outcomes, None where these are not public. A person has
    ``H = a w (diag p - pp') (x) xx'`` and ``J = a^2 w^2`` times the same: the multinomial variance. ``variables`` are
    the rows by variables.
    """

    others: int
    y: IntArray | None = None
    variables: PublicVariables | None = None

    @property
    def scores(self) -> FloatArray | None:
        """The gradient of each row's loss at the public fit, case weights included; None without outcomes."""
        if self.fit is None or self.y is None:
            return None
        p = probabilities(self.X @ self.fit.theta.reshape(self.others, -1).T)
        apart = self.weights[:, None] * (p - (self.y[:, None] == np.arange(1, self.others + 1)))
        return np.asarray((apart[:, :, None] * self.X[:, None, :]).reshape(len(self.X), -1))

    @property
    def canonical(self) -> bool:
        """Curvature does not depend on outcomes."""
        return True

    @property
    def dimension(self) -> int:
        """M D."""
        return self.others * self.geometry.dimension

    def moments(self, theta: FloatArray, *, records: float, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        D, weight, levelled = self.geometry.dimension, (self.weights * self.mallows)[:, None], self._levelled
        p = probabilities(self.X @ theta.reshape(self.others, D).T)
        if row_weights is None:
            H, J = (self._sum(each * p, p) for each in (weight, weight**2))
            return averaged_sums(H, J, records=records, people=self.people, levelled=levelled)
        i, j = np.triu_indices(self.dimension)
        products = p[:, i // D] * ((i // D == j // D) - p[:, j // D]) * self.X[:, i % D] * self.X[:, j % D]
        return averaged(
            (weight * products, weight**2 * products), records=records, row_weights=row_weights, levelled=levelled
        )

    @property
    def cells(self) -> int:
        """The number of blocks of a person's Hessian."""
        return self.others * (self.others + 1) // 2

    @property
    def covariates(self) -> IntArray:
        """The coordinates of the slopes of all levels."""
        return np.flatnonzero(np.arange(self.dimension) % self.geometry.dimension >= int(self.geometry.intercept))

    @property
    def undetermined(self) -> bool:
        """Whether people do not vary along some direction of the whitened covariates."""
        return unknown_directions(self.X) is not None

    def whitened(self, people: RakedPeople) -> WhitenedPeople:
        """Return raked public people in the geometry."""
        return whitened_people(self.geometry, people)

    def raked_moments(self, theta: FloatArray, *, records: float, people: WhitenedPeople) -> Moments:
        """Return ``H`` and ``J`` of ``records`` people who are raked public ones; see `PublicSide.raked_moments`.

        Each block, of two levels, is shrunk by itself: as if ``diag p - pp'`` did not depend on covariates.
        """
        M, D = self.others, self.geometry.dimension
        weight, pairs = self.weights * people.mallows, [(k, m) for k in range(M) for m in range(k + 1)]
        eta = people.predictor(theta.reshape(M, D)).reshape(M, -1)
        p = probabilities(eta.T).T.reshape(M, *weight.shape)
        variances = np.array([p[k] * ((k == m) - p[m]) for k, m in pairs])
        found = raked_sums(people, np.concatenate([weight * variances, weight**2 * variances]))
        H, J = np.zeros((2, len(weight), self.dimension, self.dimension))
        for whole, blocks in ((H, found[: len(pairs)]), (J, found[len(pairs) :])):
            for (k, m), block in zip(pairs, blocks, strict=True):
                own, other = slice(k * D, (k + 1) * D), slice(m * D, (m + 1) * D)
                whole[:, own, other] = whole[:, other, own] = block
        return Moments(H=records * H, J=records * J)

    def raked_hessian_change(self, theta: FloatArray, steps: FloatArray, *, people: WhitenedPeople) -> FloatArray:
        """Return how curvature over raked people changes; see `RakeableSide.raked_hessian_change`."""
        total = np.zeros((len(people.weights), self.dimension))
        for step in steps:
            for sign in (1.0, -1.0):
                total += sign * self.raked_moments(theta + sign * step, records=1.0, people=people).H @ step
        return total

    def at_radii(self, geometries: Sequence[Geometry], *, records: float) -> Moments:
        """Return the moments at the centre in geometries of other radii; see `WhitenedRows.at_radii`."""
        weights = self.weights * mallows(self.lengths, geometries)
        return Moments(H=records * self._averages(weights), J=records * self._averages(weights**2))

    def with_weights(self, weights: FloatArray) -> FloatArray:
        """Return Hessians of one person under other Mallows weights; see `WhitenedRows.with_weights`."""
        return self._averages(self.weights * weights)

    def _averages(self, weights: FloatArray) -> FloatArray:
        """Return the average Hessians (k, M D, M D) of people at the centre under weights (k, n), shrunk."""
        M, D = self.others, self.geometry.dimension
        p = probabilities(self.X @ self.centre.reshape(M, D).T).T
        found = np.zeros((len(weights), self.dimension, self.dimension))
        for k in range(M):
            for m in range(k + 1):
                own, other = slice(k * D, (k + 1) * D), slice(m * D, (m + 1) * D)
                block = squares(self.X, weights, p[k] * ((k == m) - p[m]) / self.people)
                found[:, own, other] = found[:, other, own] = block
        return shrunk(found, rows=self.people, levelled=self._levelled)

    @property
    def _levelled(self) -> tuple[slice, ...]:
        D, first = self.geometry.dimension, int(self.geometry.intercept)
        return tuple(slice(k * D + first, (k + 1) * D) for k in range(self.others))

    def _sum(self, weighted: FloatArray, p: FloatArray) -> FloatArray:
        """Return the sum over rows of ``w (diag p - pp') (x) xx'``, from ``w p`` and ``p`` (n, M)."""
        blocks = [
            [self.X.T @ ((weighted[:, k] * ((k == m) - p[:, m]))[:, None] * self.X) for m in range(self.others)]
            for k in range(self.others)
        ]
        return np.block(blocks)


def multinomial_side(
    table: PublicTable, design: Design, schema: Schema, *, others: int, weights: str | None
) -> MultinomialSide | None:
    """Return the complete public rows in their own whitening with the public fit; None where they are too few."""
    labelled = design.response in table.names
    covariates = [name for name in design.needs if name != design.response]
    extra = [name for name in (design.response if labelled else None, weights) if name is not None]
    rows = table.admitted([*covariates, *extra])
    if rows.rows < FEWEST_ROWS:
        return None
    found = completed(rows, schema, covariates)
    rows, groups = (rows, None) if found is None else (found.table, found.invented)
    X = design.matrix(rows)
    geometry = design.whitening(X)
    whitened = whiten(geometry, X)
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    fit = None
    if labelled:
        real = np.ones(rows.rows, dtype=bool) if groups is None else groups == 0
        outcome = rows.codes[design.response][real]
        seen = MultinomialRows(others=others, X=whitened.X[real], y=outcome, weights=case[real])
        fit = likelihood_fit(seen, seen, first=int(design.intercept))
        parts = each_column(coefficient_parts(geometry, blocks=others))
        fit = spread_where_unknown(replace(fit, parts=parts), seen.X, repeated=others)
    return MultinomialSide(
        others=others,
        y=rows.codes[design.response] if labelled else None,
        geometry=geometry,
        X=whitened.X,
        mallows=whitened.weights,
        weights=case,
        fit=fit,
        groups=groups,
        unseen=UnseenPeople.of(design, covariates, schema, geometry),
        variables=PublicVariables(table=rows, design=design),
    )


def multinomial_likelihood(
    X: FloatArray, y: IntArray, *, others: int, weights: FloatArray, terms: tuple[str, ...]
) -> Estimate:
    """Return the maximum-likelihood fit to rows ``X`` (n, D) of levels ``y`` (n,) with its model-based covariance.

    A coefficient that the rows do not identify, or whose estimate is infinite, is NaN, as in
    `hdpstats.families.regression.likelihood.maximum_likelihood`.
    """
    present = weights > 0
    kept = identified(X[present])
    columns = X[:, kept]
    scale = np.sqrt(np.maximum(np.mean(columns**2, axis=0), np.finfo(float).tiny))
    rows = MultinomialRows(others=others, X=np.ascontiguousarray(columns / scale), y=y, weights=weights)
    zeros = np.zeros(rows.dimension)
    objective = rows.penalised(ridge=zeros)
    theta = minimise(objective, start=zeros).theta
    covariance: FloatArray = np.asarray(np.linalg.pinv(objective.hessian(theta)))
    infinite = np.zeros(len(theta), dtype=bool)
    if not _is_certain(objective, rows, theta):
        found = existence(level_rows(rows.X[present], y[present], others=others))
        infinite = ~found.finite
        far = polished(theta, found.away, gradient=objective.gradient, hessian=objective.hessian)
        if np.all(found.finite):
            far.warn()
        theta, covariance = far.theta, far.covariance
    factor = np.tile(scale, others)
    values = np.where(infinite, np.nan, theta / factor)
    covariance = covariance / np.outer(factor, factor)
    return spread(np.tile(kept, others), values, covariance, terms=terms, label="maximum likelihood")


def _is_certain(objective: Penalised, rows: MultinomialRows, theta: FloatArray) -> bool:
    """Return whether there is a maximum near where the iteration ended.

    Third derivatives along ``v`` are at most the range of a row's predictors ``0, x'v_1, ...`` times second ones,
    as a third central moment is to a variance; that is at most twice the largest ``|x'v_k|``.
    """
    D, X = rows.X.shape[1], rows.X[rows.weights > 0]

    def longest(inverse: FloatArray) -> float:
        blocks = (inverse[k * D : (k + 1) * D, k * D : (k + 1) * D] for k in range(rows.others))
        return max((longest_of(X, block) for block in blocks), default=0.0)

    return has_maximum(objective.gradient(theta), objective.hessian(theta), longest, bound=2.0)

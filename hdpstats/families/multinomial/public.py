"""The public side of a multinomial logistic regression: as that of one predictor, one spread for all levels' slopes.

The reference is a level like the others: results do not depend on which it is.

`multinomial_likelihood` is the ordinary fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.base import summed
from hdpstats.families.existence import existence, has_maximum, level_rows, longest_of, polished
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.families.regression.clustered import adjusted, clustered_meat
from hdpstats.families.regression.likelihood import identified, spread
from hdpstats.families.regression.public import likelihood_fit, with_invented
from hdpstats.families.several_rows import SeveralRows, row_weights
from hdpstats.formulas import Design
from hdpstats.losses.multinomial import probabilities
from hdpstats.public.enough import FEWEST_ROWS, check_some_vary, least_rows
from hdpstats.public.invented import completed, unknown_directions
from hdpstats.public.moments import (
    Moments,
    WhitenedRows,
    averaged,
    averaged_sums,
    coefficient_parts,
    shrunk,
    spread_where_unknown,
    squares,
)
from hdpstats.public.row_weights import UnseenPeople, mallows
from hdpstats.raking.curvature import RakeableSide, raked_meat, raked_sums
from hdpstats.raking.people import WhitenedPeople, whitened_people
from hdpstats.raking.raking import PublicVariables, RakedPeople
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry, whiten
from hdpstats.schema.persons import by_appearance
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

    **Several rows of a person** (``several``). As in `hdpstats.families.regression.public.WhitenedPublic`: ``t`` (n, M)
    are standardised residuals of the public fit, adjusted for few people. A row's score is the root of the multinomial
    covariance times its residuals; None where nothing is known of correlations within a person. ``J`` is then ``most``
    times what it is for single rows.
    """

    others: int
    y: IntArray | None = None
    variables: PublicVariables | None = None
    t: FloatArray | None = None
    most: float = 1.0

    @property
    def known(self) -> bool:
        """Whether standard errors may rest on `moments`."""
        return not self.several or self.t is not None

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
        if self.several:
            return self._of_people(p, weight[:, 0], records=records, row_weights=row_weights)
        if row_weights is None:
            H, J = (self._sum(each * p, p) for each in (weight, weight**2))
            return averaged_sums(H, J, records=records, people=self.people, levelled=levelled)
        i, j = np.triu_indices(self.dimension)
        products = p[:, i // D] * ((i // D == j // D) - p[:, j // D]) * self.X[:, i % D] * self.X[:, j % D]
        return averaged(
            (weight * products, weight**2 * products), records=records, row_weights=row_weights, levelled=levelled
        )

    def _of_people(
        self, p: FloatArray, weight: FloatArray, *, records: float, row_weights: FloatArray | None
    ) -> Moments:
        """Return the moments of people with several rows; ``row_weights`` (B, people) are of people."""
        count = self.people
        share = np.full((1, count), 1.0 / count) if row_weights is None else row_weights
        of_rows = share if self.person is None else share[:, self.person]
        H = self._blocks(of_rows * weight, p.T)
        if self.t is None or self.person is None:
            J = self.most * self._blocks(of_rows * weight**2, p.T)
        else:
            size = weight[:, None] * np.einsum("nab,nb->na", roots(p)[0], self.t)
            scores = summed(self.person, _of_levels(size, self.X), people=count)
            J = squares(scores, share, np.ones(count))
        H, J = (records * shrunk(each, rows=count, levelled=self._levelled) for each in (H, J))
        return Moments(H=H[0], J=J[0]) if row_weights is None else Moments(H=H, J=J)

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

    def as_raked(self, people: WhitenedPeople) -> "MultinomialSide":
        """Return raked people in place of public ones; see `RakeableSide.as_raked`."""
        weights = self.weights * people.weights[0] * self.people
        return replace(self, X=np.ascontiguousarray(people.X[0]), mallows=people.mallows[0], weights=weights)

    def raked_moments(self, theta: FloatArray, *, records: float, people: WhitenedPeople) -> Moments:
        """Return ``H`` and ``J`` of ``records`` people who are raked public ones; see `PublicSide.raked_moments`.

        Each block, of two levels, is shrunk by itself: as if ``diag p - pp'`` did not depend on covariates.
        """
        weight = self.weights * people.mallows
        p, variances = self._raked_variances(theta, people)
        if self.several and self.t is not None:
            size = weight[:, :, None] * np.einsum("bnkm,nm->bnk", _roots_of(p), self.t)
            scores = [size[:, :, k, None] * people.X for k in range(self.others)]
            H = raked_sums(people, weight * variances)
            J = [raked_meat(people, scores[k], scores[m]) for k, m in self._pairs]
        else:
            H, J = self._raked_blocks(variances, people)
        return Moments(H=records * self._of_blocks(H), J=records * self._of_blocks(J))

    def _raked_blocks(self, variances: FloatArray, people: WhitenedPeople) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return the blocks of both moments of people with one row, for covariances of pairs of levels (k, B, n)."""
        weight = self.weights * people.mallows
        once, twice = weight * variances, weight**2 * variances
        H = raked_sums(people, once)
        return H, H if np.array_equal(once, twice) else raked_sums(people, twice)

    def raked_over(self, places: Sequence[FloatArray], *, records: float, people: WhitenedPeople) -> Moments:
        """Return the mean of `raked_moments` at some coefficients; see `RakeableSide.raked_over`."""
        if len(places) == 1 or (self.several and self.t is not None):
            return RakeableSide.raked_over(self, places, records=records, people=people)
        H, J = self._raked_blocks(self._mean_variances(places, people), people)
        return Moments(H=records * self._of_blocks(H), J=records * self._of_blocks(J))

    def raked_hessian(self, places: Sequence[FloatArray], *, records: float, people: WhitenedPeople) -> FloatArray:
        """Return ``H`` of `raked_over`."""
        blocks = raked_sums(people, self.weights * people.mallows * self._mean_variances(places, people))
        return np.asarray(records * self._of_blocks(blocks))

    def _mean_variances(self, places: Sequence[FloatArray], people: WhitenedPeople) -> FloatArray:
        """Return the mean covariances of each pair of levels (k, B, n) at some coefficients."""
        total = self._raked_variances(places[0], people)[1]
        for each in places[1:]:
            total += self._raked_variances(each, people)[1]
        return total / len(places) if len(places) > 1 else total

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """The levels of each block on or below the diagonal."""
        return [(k, m) for k in range(self.others) for m in range(k + 1)]

    def _raked_variances(self, theta: FloatArray, people: WhitenedPeople) -> tuple[FloatArray, FloatArray]:
        """Return chances (M, B, n) of raked people's rows, and their covariances of each pair of levels (k, B, n)."""
        M, shape = self.others, people.mallows.shape
        eta = people.predictor(theta.reshape(M, -1)).reshape(M, -1)
        p = probabilities(eta.T).T.reshape(M, *shape)
        return p, np.array([p[k] * ((k == m) - p[m]) for k, m in self._pairs])

    def _of_blocks(self, blocks: list[FloatArray]) -> FloatArray:
        """Return matrices (B, M D, M D) from the blocks (B, D, D) of each pair of levels."""
        D = self.geometry.dimension
        whole = np.zeros((len(blocks[0]), self.dimension, self.dimension))
        for (k, m), block in zip(self._pairs, blocks, strict=True):
            own, other = slice(k * D, (k + 1) * D), slice(m * D, (m + 1) * D)
            whole[:, own, other], whole[:, other, own] = block, np.swapaxes(block, 1, 2)
        return whole

    def raked_hessian_change(self, theta: FloatArray, steps: FloatArray, *, people: WhitenedPeople) -> FloatArray:
        """Return how curvature over raked people changes; see `RakeableSide.raked_hessian_change`."""
        total, weight = np.zeros((len(people.weights), self.dimension)), self.weights * people.mallows
        for step in steps:
            ahead, back = (self._raked_variances(at, people)[1] for at in (theta + step, theta - step))
            total += self._of_blocks(raked_sums(people, weight * (ahead - back))) @ step
        return total

    def at_radii(self, geometries: Sequence[Geometry], *, records: float) -> Moments:
        """Return the moments at the centre in geometries of other radii; see `WhitenedRows.at_radii`."""
        if self.several:
            return WhitenedRows.at_radii(self, geometries, records=records)
        weights = self.weights * mallows(self.lengths, geometries)
        return Moments(H=records * self._averages(weights), J=records * self._averages(weights**2))

    def with_weights(self, weights: FloatArray) -> FloatArray:
        """Return Hessians of one person under other Mallows weights; see `WhitenedRows.with_weights`."""
        return self._averages(self.weights * weights)

    def _averages(self, weights: FloatArray) -> FloatArray:
        """Return the average Hessians (k, M D, M D) of people at the centre under weights (k, n), shrunk."""
        p = probabilities(self.X @ self.centre.reshape(self.others, -1).T).T
        found = self._blocks(weights, p, people=self.people)
        return shrunk(found, rows=self.people, levelled=self._levelled)

    def _blocks(self, weights: FloatArray, p: FloatArray, *, people: int = 1) -> FloatArray:
        """Return sums (k, M D, M D) of Hessians at chances (M, n) under weights (k, n), over a number of people."""
        M, D = self.others, self.geometry.dimension
        found = np.zeros((len(weights), self.dimension, self.dimension))
        for k in range(M):
            for m in range(k + 1):
                own, other = slice(k * D, (k + 1) * D), slice(m * D, (m + 1) * D)
                block = squares(self.X, weights, p[k] * ((k == m) - p[m]) / people)
                found[:, own, other] = found[:, other, own] = block
        return found

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
    table: PublicTable,
    design: Design,
    schema: Schema,
    *,
    others: int,
    weights: str | None,
    several: SeveralRows | None = None,
) -> MultinomialSide | None:
    """Return the complete public rows in their own whitening with the public fit; None where they are too few."""
    labelled = design.response in table.names
    covariates = [name for name in design.needs if name != design.response]
    extra = [name for name in (design.response if labelled else None, weights) if name is not None]
    rows = table.admitted([*covariates, *extra])
    if several is not None:
        rows = rows.used(most_rows=several.most_rows)
    if rows.rows < least_rows(others * len(design.names)):
        return None
    person = None if several is None or rows.persons is None else by_appearance(rows.persons)
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    if several is not None and person is not None:
        case = case * row_weights(person, np.ones(rows.rows, dtype=np.bool_), several.correlation)
    found = completed(rows, schema, covariates)
    rows, groups = (rows, None) if found is None else (found.table, found.invented)
    if found is not None:
        case = case[found.source]
        person = None if person is None else with_invented(person, found.source, found.invented)
    X = design.matrix(rows)
    check_some_vary(X, design.names)
    geometry = design.whitening(X)
    whitened = whiten(geometry, X)
    fit, t = None, None
    if labelled:
        real = np.ones(rows.rows, dtype=bool) if groups is None else groups == 0
        outcome = rows.codes[design.response][real]
        seen = MultinomialRows(others=others, X=whitened.X[real], y=outcome, weights=case[real])
        seen = replace(seen, person=None if person is None else person[real])
        meat = None if person is None else partial(_meat_of_people, seen)
        parts = coefficient_parts(geometry, levels=others)
        fit = likelihood_fit(seen, seen, first=int(design.intercept), parts=parts, meat_of_people=meat)
        fit = spread_where_unknown(fit, seen.X, repeated=others)
        if seen.person is not None and seen.count >= FEWEST_ROWS:
            t = np.zeros((rows.rows, others))
            t[real] = _adjusted(seen, fit.theta, np.asarray(np.linalg.pinv(seen.curvature(fit.theta))))
            t[~real] = t[real][np.arange(int(np.sum(~real))) % int(np.sum(real))]
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
        variables=PublicVariables(table=rows, design=design, person=person)
        if several is None or t is not None
        else None,
        several=several is not None,
        person=person,
        t=t,
        most=1.0 if several is None else float(several.total),
    )


def roots(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric roots (n, M, M) of the multinomial covariances ``diag p - pp'``, and their inverses."""
    sizes, vectors = np.linalg.eigh(np.einsum("na,ab->nab", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :])
    sizes = np.sqrt(np.maximum(sizes, LEAST))
    found = (np.einsum("nak,nk,nbk->nab", vectors, each, vectors) for each in (sizes, 1.0 / sizes))
    root, inverse = found
    return np.asarray(root), np.asarray(inverse)


def _roots_of(p: FloatArray) -> FloatArray:
    """Return `roots` (B, n, M, M) of chances (M, B, n)."""
    M, B, n = p.shape
    return roots(np.ascontiguousarray(p.reshape(M, -1).T))[0].reshape(B, n, M, M)


LEAST = 1e-30
"""Variances of levels that are taken for none."""


def _of_levels(size: FloatArray, X: FloatArray) -> FloatArray:
    """Return ``v (x) x`` of rows (n, M D), from ``v`` (n, M) and ``x`` (n, D)."""
    return np.asarray((size[:, :, None] * X[:, None, :]).reshape(len(X), -1))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Standardised:
    """The terms of levels as rows of one predictor: ``X`` (n M, M D), ``person``, ``weights`` and ``t`` (n M,).

    ``variances`` (n, M, M) are those of the levels' indicators under the model.
    """

    X: FloatArray
    person: IntArray
    weights: FloatArray
    t: FloatArray
    variances: FloatArray


def _standardised(rows: MultinomialRows, theta: FloatArray) -> _Standardised:
    """Return rows whose residuals have a variance of 1 each and no correlation, where the model is true."""
    M, person = rows.others, np.arange(len(rows.y)) if rows.person is None else rows.person
    p = probabilities(rows.predictor(theta))
    root, inverse = roots(p)
    residual = p - (rows.y[:, None] == np.arange(1, M + 1))
    return _Standardised(
        X=np.asarray((root[:, :, :, None] * rows.X[:, None, None, :]).reshape(len(p) * M, -1)),
        person=np.repeat(person, M),
        weights=np.repeat(rows.weights, M),
        t=np.einsum("nab,nb->na", inverse, residual).ravel(),
        variances=root @ root,
    )


def _adjusted(rows: MultinomialRows, theta: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return standardised residuals (n, M), each person's adjusted for few people."""
    of = _standardised(rows, theta)
    ones = np.ones(len(of.t))
    found = adjusted(
        of.X, of.person, weights=of.weights, curvatures=ones, scores=of.t, inverse=inverse, variances=of.variances
    )
    return found.reshape(-1, rows.others)


def _meat_of_people(rows: MultinomialRows, theta: FloatArray, inverse: FloatArray | None) -> FloatArray:
    """Return the sum of outer products of people's scores, adjusted for few people where ``inverse`` is given."""
    of = _standardised(rows, theta)
    return clustered_meat(
        of.X,
        of.person,
        weights=of.weights,
        curvatures=np.ones(len(of.t)),
        scores=of.t,
        inverse=inverse,
        variances=of.variances,
    )


def multinomial_likelihood(
    X: FloatArray,
    y: IntArray,
    *,
    others: int,
    weights: FloatArray,
    terms: tuple[str, ...],
    person: IntArray | None = None,
    small_sample: bool = False,
) -> Estimate:
    """Return the maximum-likelihood fit to rows ``X`` (n, D) of levels ``y`` (n,) with its model-based covariance.

    With ``person`` (n,) errors are over people, for a ``small_sample`` corrected.

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
    if person is not None:
        meat = _meat_of_people(replace(rows, person=person), theta, covariance if small_sample else None)
        covariance = covariance @ meat @ covariance
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

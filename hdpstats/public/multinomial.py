"""The public side of a multinomial logistic regression: as `hdpstats.public.fit`, one spread for all levels' slopes."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas import Design
from hdpstats.losses.multinomial import probabilities
from hdpstats.public.fit import FEWEST_ROWS, INTERCEPT_SPREAD, PRIOR_SPREADS
from hdpstats.public.moments import Moments, PublicFit, WhitenedRows, averaged
from hdpstats.records.geometry import whiten
from hdpstats.schema.public import PublicTable
from hdpstats.solvers import minimise
from hdpstats.solvers.linear import MultinomialObjective


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MultinomialSide(WhitenedRows):
    """Public rows of a multinomial logistic regression in a geometry.

    A person has ``H = a w (diag p - pp') (x) xx'`` and ``J = a^2 w^2`` times the same: the multinomial variance.
    """

    others: int

    @property
    def canonical(self) -> bool:
        """Curvature does not depend on outcomes."""
        return True

    @property
    def dimension(self) -> int:
        """M D."""
        return self.others * self.geometry.dimension

    def moments(self, theta: FloatArray, *, records: int, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        D, weight = self.geometry.dimension, (self.weights * self.mallows)[:, None]
        p = probabilities(self.X @ theta.reshape(self.others, D).T)
        i, j = np.triu_indices(self.dimension)
        products = p[:, i // D] * ((i // D == j // D) - p[:, j // D]) * self.X[:, i % D] * self.X[:, j % D]
        first = int(self.geometry.intercept)
        return averaged(
            (weight * products, weight**2 * products),
            records=records,
            row_weights=row_weights,
            levelled=tuple(slice(k * D + first, (k + 1) * D) for k in range(self.others)),
        )


def multinomial_side(table: PublicTable, design: Design, *, others: int, weights: str | None) -> MultinomialSide | None:
    """Return the complete public rows in their own whitening with the public fit; None where they are too few."""
    labelled = design.response in table.names
    covariates = [name for name in design.needs if name != design.response]
    extra = [name for name in (design.response if labelled else None, weights) if name is not None]
    rows = table.admitted([*covariates, *extra])
    if rows.rows < FEWEST_ROWS:
        return None
    X, first = design.matrix(rows), int(design.intercept)
    geometry = design.whitening(X)
    whitened = whiten(geometry, X)
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    fit = _fit(whitened.X, rows.codes[design.response], case, others=others, first=first) if labelled else None
    return MultinomialSide(
        others=others, geometry=geometry, X=whitened.X, mallows=whitened.weights, weights=case, fit=fit
    )


def _fit(X: FloatArray, y: IntArray, case: FloatArray, *, others: int, first: int) -> PublicFit:
    """Return the posterior mode under the prior spread of largest evidence, with its sandwich covariance."""
    best: tuple[float, FloatArray, FloatArray, FloatArray] | None = None
    for spread in PRIOR_SPREADS:
        one = np.full(X.shape[1], spread**-2.0)
        one[:first] = INTERCEPT_SPREAD**-2.0
        ridge = np.tile(one, others)
        zero = np.zeros_like(ridge)
        objective = MultinomialObjective(others=others, X=X, y=y, weights=case, ridge=ridge, centre=zero, linear=zero)
        theta = minimise(objective, start=zero).theta
        H = objective.hessian(theta)
        evidence = 0.5 * (float(np.sum(np.log(ridge))) - float(np.linalg.slogdet(H)[1])) - objective.value(theta)
        if best is None or evidence > best[0]:
            squared = replace(objective, weights=case**2)
            best = evidence, theta, H - np.diag(ridge), squared.hessian(theta)
            curved = H
    _, theta, information, meat = best  # type: ignore[misc]  # there is a spread
    inverse = np.linalg.inv(curved)
    return PublicFit(theta=theta, covariance=inverse @ meat @ inverse, information=information)

"""The public side of a multinomial logistic regression: as `hdpstats.public.fit`, one spread for all levels' slopes."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas import Design
from hdpstats.losses.multinomial import probabilities
from hdpstats.public.fit import FEWEST_ROWS, likelihood_fit
from hdpstats.public.moments import Moments, WhitenedRows, averaged
from hdpstats.records.geometry import whiten
from hdpstats.schema.public import PublicTable
from hdpstats.solvers.objective import MultinomialObjective


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
    X = design.matrix(rows)
    geometry = design.whitening(X)
    whitened = whiten(geometry, X)
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    fit = None
    if labelled:
        zero = np.zeros(others * X.shape[1])
        seen = MultinomialObjective(
            others=others,
            X=whitened.X,
            y=rows.codes[design.response],
            weights=case,
            ridge=zero,
            centre=zero,
            linear=zero,
        )
        fit = likelihood_fit(seen, seen, first=int(design.intercept))
    return MultinomialSide(
        others=others, geometry=geometry, X=whitened.X, mallows=whitened.weights, weights=case, fit=fit
    )

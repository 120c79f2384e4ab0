r"""The public side: rows, whitened rows, and a public fit that is always there.

The public fit is a posterior mode in whitened coordinates under a normal prior whose spread is chosen by the
Laplace evidence of the public rows (MacKay 1992). It exists under separation and collinearity, and its
curvature is the covariance that pooling uses. It costs nothing: no private row takes part.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.data.public import PublicTable
from hdpstats.design import Design
from hdpstats.design.geometry import from_public, leverage_at, mallows_weights, whiten
from hdpstats.losses import Loss
from hdpstats.protocols.moments import Moments, PublicFit, PublicSide, averaged
from hdpstats.queries.geometry import Geometry
from hdpstats.solvers import LinearObjective, minimise

FEWEST_ROWS = 40
"""Public rows needed for a public geometry; fewer give way to the schema's box."""

PRIOR_SPREADS = (0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0)
"""Prior standard deviations of whitened slopes among which the evidence chooses."""

INTERCEPT_SPREAD = 3.0


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicRows:
    """Complete public rows, clipped to the schema's bounds as private rows are.

    ``X`` (n, D) design with the intercept first; ``y`` (n,) or None where the outcome is not public;
    ``weights``, ``offset`` (n,).
    """

    X: FloatArray
    y: FloatArray | None
    weights: FloatArray
    offset: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WhitenedPublic(PublicSide):
    r"""Public rows in a geometry: ``X`` (n, D) whitened, Mallows weights and case weights (n,), and the public fit.

    With case weight ``a`` and Mallows weight ``w`` a person of the model has
    ``H = a w l'' x x'`` and ``J = a^2 w^2 l'' x x'`` in expectation (for a likelihood's loss).
    """

    loss: Loss
    geometry: Geometry
    X: FloatArray
    mallows: FloatArray
    weights: FloatArray
    offset: FloatArray
    fit: PublicFit | None

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.geometry.dimension

    @property
    def people(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def centre(self) -> FloatArray:
        """Where the ridge pulls to: the public fit, or zero without public outcomes."""
        return self.fit.theta if self.fit is not None else np.zeros(self.geometry.dimension)

    def moments(self, theta: FloatArray, *, records: int, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        curvature = self.loss.curvature(self.X @ theta + self.offset, np.zeros(len(self.X)))
        weight = self.weights * self.mallows
        i, j = np.triu_indices(self.X.shape[1])
        products = self.X[:, i] * self.X[:, j]
        return averaged(
            ((weight * curvature)[:, None] * products, (weight**2 * curvature)[:, None] * products),
            records=records,
            row_weights=row_weights,
            levelled=(slice(int(self.geometry.intercept), None),),
        )


def public_rows(table: PublicTable, design: Design, *, weights: str | None, offset: str | None) -> PublicRows:
    """Return the complete public rows of a design; the outcome may be absent as a whole column."""
    extra = [name for name in (weights, offset) if name is not None]
    covariates = [name for name in design.needs if name != design.response]
    outcome = [design.response] if design.response in table.names else []
    rows = table.admitted([*covariates, *outcome, *extra])
    return PublicRows(
        X=design.matrix(rows),
        y=rows.numeric[design.response] if outcome else None,
        weights=rows.numeric[weights] if weights is not None else np.ones(rows.rows),
        offset=rows.numeric[offset] if offset is not None else np.zeros(rows.rows),
    )


def whitened_public(rows: PublicRows, design: Design, loss: Loss) -> WhitenedPublic:
    """Return the public rows in their own whitening (radius 1 until `objective` chooses it), with the public fit."""
    first = int(design.intercept)
    geometry = from_public(
        rows.X,
        lower=design.lower[first:].tolist(),
        upper=design.upper[first:].tolist(),
        intercept=design.intercept,
        radius=1.0,
    )
    whitened = whiten(geometry, rows.X)
    fit = None if rows.y is None else _fit(whitened.X, rows.y, rows, loss, intercept=design.intercept)
    return WhitenedPublic(
        loss=loss,
        geometry=geometry,
        X=whitened.X,
        mallows=whitened.weights,
        weights=rows.weights,
        offset=rows.offset,
        fit=fit,
    )


def with_radius(public: WhitenedPublic, radius: float) -> WhitenedPublic:
    """Return the public rows with the Mallows weights of another radius."""
    intercept = public.geometry.intercept
    geometry = replace(public.geometry, radius=radius, leverage=leverage_at(radius, intercept=intercept))
    square = np.sum(public.X[:, int(intercept) :] ** 2, axis=1)
    return replace(public, geometry=geometry, mallows=mallows_weights(square, geometry))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Mode:
    """A posterior mode with the objective it minimises, the Hessian there, and the Laplace log-evidence."""

    objective: LinearObjective
    theta: FloatArray
    hessian: FloatArray
    evidence: float


def _mode(X: FloatArray, y: FloatArray, rows: PublicRows, loss: Loss, *, ridge: FloatArray) -> _Mode:
    """Return the posterior mode under a normal prior with precisions ``ridge`` (D,)."""
    zero = np.zeros_like(ridge)
    objective = LinearObjective(
        loss=loss, X=X, y=y, weights=rows.weights, offset=rows.offset, ridge=ridge, centre=zero, linear=zero
    )
    theta = minimise(objective, start=zero).theta
    hessian = objective.hessian(theta)
    evidence = 0.5 * (float(np.sum(np.log(ridge))) - float(np.linalg.slogdet(hessian)[1])) - objective.value(theta)
    return _Mode(objective=objective, theta=theta, hessian=hessian, evidence=evidence)


def _fit(X: FloatArray, y: FloatArray, rows: PublicRows, loss: Loss, *, intercept: bool) -> PublicFit:
    """Return the posterior mode under the prior spread of largest evidence, with its sandwich covariance."""
    ridges = [np.full(X.shape[1], spread**-2.0) for spread in PRIOR_SPREADS]
    for ridge in ridges:
        ridge[: int(intercept)] = INTERCEPT_SPREAD**-2.0
    best = max((_mode(X, y, rows, loss, ridge=ridge) for ridge in ridges), key=lambda mode: mode.evidence)
    curvature = loss.curvature(best.objective.predictor(best.theta), y)
    prior = np.diag(best.objective.ridge)
    meat = X.T @ ((rows.weights**2 * curvature)[:, None] * X) + prior
    inverse = np.linalg.inv(best.hessian)
    return PublicFit(theta=best.theta, covariance=inverse @ meat @ inverse, information=best.hessian - prior)

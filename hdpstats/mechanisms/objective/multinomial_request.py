r"""The public side of a multinomial logistic regression, and the query of objective perturbation.

As `hdpstats.public.fit` and `hdpstats.mechanisms.objective.request` for a loss that pays for its determinant. The prior
of the public fit has one spread for the slopes of all levels.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas import Design
from hdpstats.formulas.geometry import at_radius, from_box, from_public, mallows_weights, whiten
from hdpstats.losses.multinomial import probabilities, steepest, trace_bound
from hdpstats.mechanisms.objective.query import ObjectiveQuery
from hdpstats.mechanisms.objective.request import MOST_PAID, PAID, PAID_ALONE, PULL
from hdpstats.mechanisms.objective.site import SMOOTHING_SHARE
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.public.fit import FEWEST_ROWS, INTERCEPT_SPREAD, PRIOR_SPREADS
from hdpstats.public.moments import Moments, PublicFit, PublicSide, averaged
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import MultinomialModel
from hdpstats.schema.public import PublicTable
from hdpstats.solvers import minimise
from hdpstats.solvers.linear import MultinomialObjective


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MultinomialSide(PublicSide):
    r"""Public rows ``X`` (n, D) whitened, Mallows weights and case weights (n,), and the public fit.

    A person has ``H = a w (diag p - pp') (x) xx'`` and ``J = a^2 w^2`` times the same: the multinomial variance.
    """

    others: int
    geometry: Geometry
    X: FloatArray
    mallows: FloatArray
    weights: FloatArray
    fit: PublicFit | None

    @property
    def canonical(self) -> bool:
        """Curvature does not depend on outcomes."""
        return True

    @property
    def dimension(self) -> int:
        """M D."""
        return self.others * self.geometry.dimension

    @property
    def people(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def centre(self) -> FloatArray:
        """Where the ridge pulls to: the public fit, or zero without public outcomes."""
        return self.fit.theta if self.fit is not None else np.zeros(self.dimension)

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
    geometry = from_public(
        X,
        lower=design.lower[first:].tolist(),
        upper=design.upper[first:].tolist(),
        intercept=design.intercept,
        radius=1.0,
    )
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


def side_at(side: MultinomialSide, radius: float) -> MultinomialSide:
    """Return the public rows with the Mallows weights of another radius."""
    intercept = side.geometry.intercept
    geometry = at_radius(side.geometry, radius)
    square = np.sum(side.X[:, int(intercept) :] ** 2, axis=1)
    return replace(side, geometry=geometry, mallows=mallows_weights(square, geometry))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MultinomialTerms:
    """What a query of a multinomial model is about, the public side and the number of records aside."""

    design: Design
    others: int
    weights: str | None
    largest_weight: float
    row_norm: float | None
    relation: Relation
    schema_sha256: str
    public_sha256: str | None


def choose_multinomial(
    asked: MultinomialTerms,
    side: MultinomialSide | None,
    *,
    records: int,
    epsilon: Fraction,
    hessian_share: Fraction,
    replicate: int,
) -> ObjectiveQuery:
    """Return the query for one epsilon. ``side`` is None where the schema's box is the geometry."""
    spent = float(epsilon * (1 - hessian_share - SMOOTHING_SHARE))
    alone = side is None or side.fit is None
    if side is None:
        geometry = _box(asked)
        centre, wanted = np.zeros(asked.others * geometry.dimension), 0.0
    else:
        side = _at_best_radius(side, asked, spent=spent, records=records)
        geometry, centre = side.geometry, side.centre
        wanted = 0.0 if side.fit is None else PULL * _wanted(side, asked, spent=spent, records=records)
    beta = float(trace_bound(asked.others)) * geometry.leverage * asked.largest_weight
    # J is at most trace / ridge, and a twentieth of epsilon where that is.
    least = beta / math.expm1(min((PAID_ALONE if alone else PAID) * spent, MOST_PAID))
    return ObjectiveQuery(
        model=MultinomialModel(
            formula=asked.design.canonical, others=asked.others, geometry=geometry, weights=asked.weights
        ),
        centre=tuple(centre.tolist()),
        ridge=Fraction(max(least, wanted)),
        epsilon=epsilon,
        schema_sha256=asked.schema_sha256,
        public_sha256=asked.public_sha256,
        hessian_share=hessian_share,
        replicate=replicate,
    )


def _distribution(geometry: Geometry, asked: MultinomialTerms, *, spent: float) -> NoiseDistribution:
    """Return about the noise that epsilon buys in a geometry."""
    reach = asked.largest_weight * float(steepest(asked.others)) * math.hypot(geometry.radius, int(geometry.intercept))
    rate = spent / sensitivity_factor(asked.relation) / reach
    return NoiseDistribution(norm=BallNorm(), dimension=asked.others * geometry.dimension, rate=rate)


def _at_best_radius(side: MultinomialSide, asked: MultinomialTerms, *, spent: float, records: int) -> MultinomialSide:
    """Return the public rows at the radius of least predicted variance."""
    norms = np.linalg.norm(side.X[:, int(side.geometry.intercept) :], axis=1)
    if not side.geometry.location:
        return side_at(side, 1.0)
    middle = max(float(np.median(norms)), 1e-3)
    candidates = [side_at(side, middle * factor) for factor in np.geomspace(0.5, 2.0, 9).tolist()]

    def variance(each: MultinomialSide) -> float:
        at = each.moments(each.centre, records=max(records, 1))
        inverse = np.linalg.inv(at.H)
        noise = np.diag(_distribution(each.geometry, asked, spent=spent).variance)
        return float(np.trace(inverse @ (at.J + noise) @ inverse))

    return min(candidates, key=variance)


def _wanted(side: MultinomialSide, asked: MultinomialTerms, *, spent: float, records: int) -> float:
    """Return the ridge of least mean squared error given the public fit."""
    if side.fit is None:
        return 0.0
    at = side.moments(side.centre, records=max(records, 1))
    noise = float(np.mean(_distribution(side.geometry, asked, spent=spent).variance))
    score, bent, spread = (float(np.mean(np.diag(part))) for part in (at.J, at.H, side.fit.covariance))
    return (score + noise) / (bent * spread)


def _box(asked: MultinomialTerms) -> Geometry:
    first = int(asked.design.intercept)
    lower, upper = asked.design.lower[first:].tolist(), asked.design.upper[first:].tolist()
    return from_box(lower, upper, intercept=asked.design.intercept, row_norm=asked.row_norm)

"""The query of objective perturbation: geometry, centre and ridge, all from public facts.

**With public rows.** Whitened by them, centred at the public fit. The radius minimises the predicted mean variance of
the whitened coefficients, ``tr H^-1 (J + B) H^-1 / D`` (``B``: covariance of the noise), over a grid around the median
public row norm. The ridge is the larger of two:

* what makes the determinant free, ``8 beta / epsilon`` where a person is replaced, half of it where one is added or
  removed (`hdpstats.privacy.determinant`);
* 0.3 times the ridge of least mean squared error given the public fit, ``(1 + B / H) H_public``.

The noise is the same for every ridge above the first, and the released point is unshrunk afterwards: a larger ridge
keeps it where the linearisation holds, a smaller one depends less on how well public rows predict the private
curvature ``H``.

**With public rows without outcomes, or without public rows.** Centred at zero with half
the first ridge: the determinant costs 2 to 7 % of the noise, and shrinkage hurts less.

**Losses without a coupling** pay for the determinant (`hdpstats.privacy.determinant`): the first ridge is what makes it
cost a twentieth of epsilon, a seventh without a public fit.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas import Design
from hdpstats.formulas.geometry import from_box
from hdpstats.losses import PredictorLoss, Table
from hdpstats.mechanisms.objective.query import ObjectiveQuery
from hdpstats.mechanisms.objective.site import SMOOTHING_SHARE
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.mechanisms.person_loss.regression import score_norm
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.relation import Relation
from hdpstats.public.fit import WhitenedPublic, with_radius
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import RegressionModel

FREE = 4.0 * (1.0 + 2.0**-10)
"""Ridge over ``beta`` and one person's share of epsilon that makes the determinant free, with a margin for cells."""

PULL = 0.3
"""Share of the ridge of least mean squared error: see the module's docstring."""

CHEAP = 2.0
"""Ridge over the same where there is no public fit to pull to."""

PAID, PAID_ALONE = 1.0 / 20.0, 1.0 / 7.0
"""Shares of epsilon that the determinant of a loss without a coupling may cost, with a public fit and without."""

MOST_PAID = 5.0
"""And no more than this much of it, however large it is: a ridge need not vanish."""


def choose_query(
    design: Design,
    loss: PredictorLoss,
    *,
    public: WhitenedPublic | None,
    records: int,
    epsilon: Fraction,
    schema_sha256: str,
    public_sha256: str | None,
    largest_weight: float = 1.0,
    weights: str | None = None,
    offset: str | None = None,
    row_norm: float | None = None,
    relation: Relation = Relation.REPLACE_ONE,
    hessian_share: Fraction = Fraction(0),
    replicate: int = 1,
    parameters: tuple[float, ...] = (),
    table: Table = (),
) -> ObjectiveQuery:
    """Return the query for one epsilon. ``public`` is None where the schema's box is the geometry.

    ``parameters`` and ``table`` are the loss's numbers in the outcome's unit.
    """
    spent = float(epsilon * (1 - hessian_share - SMOOTHING_SHARE))
    price = _Price(loss=loss, epsilon=spent, persons=sensitivity_factor(relation), largest_weight=largest_weight)
    if public is None:
        geometry = _box(design, row_norm)
        centre = np.zeros(geometry.dimension)
        ridge = price.ridge(geometry, alone=True)
    else:
        public = at_best_radius(public, records=records, rate=price.rate)
        geometry, centre = public.geometry, public.centre
        ridge = _ridge(public, price, records=records)
    return ObjectiveQuery(
        model=RegressionModel(
            formula=design.canonical,
            loss=loss.name,
            geometry=geometry,
            weights=weights,
            offset=offset,
            parameters=parameters,
            table=table,
        ),
        centre=tuple(centre.tolist()),
        ridge=Fraction(ridge),
        epsilon=epsilon,
        schema_sha256=schema_sha256,
        public_sha256=public_sha256,
        hessian_share=hessian_share,
        replicate=replicate,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Price:
    """What epsilon buys, about: ``persons`` is by how many persons neighbours differ."""

    loss: PredictorLoss
    epsilon: float
    persons: int
    largest_weight: float

    @property
    def rate(self) -> float:
        """The rate of the noise, the determinant aside."""
        return self.epsilon / self.persons / (self.largest_weight * float(self.loss.lipschitz))

    def ridge(self, geometry: Geometry, *, alone: bool) -> float:
        """Return the least ridge; ``alone`` where there is no public fit to pull to."""
        beta = float(self.loss.smoothness) * geometry.leverage * self.largest_weight
        if self.loss.coupled:
            return (CHEAP if alone else FREE) * beta * self.persons / self.epsilon
        return beta / math.expm1(min((PAID_ALONE if alone else PAID) * self.epsilon, MOST_PAID))


def noise_distribution(geometry: Geometry, *, rate: float) -> NoiseDistribution:
    """Return the distribution of objective noise for a regression in a geometry."""
    return NoiseDistribution(norm=score_norm(geometry), dimension=geometry.dimension, rate=rate)


def at_best_radius(public: WhitenedPublic, *, records: int, rate: float) -> WhitenedPublic:
    """Return the public rows at the radius of least predicted variance."""
    norms = np.linalg.norm(public.X[:, int(public.geometry.intercept) :], axis=1)
    if not public.geometry.location:
        return with_radius(public, 1.0)
    middle = max(float(np.median(norms)), 1e-3)
    candidates = [with_radius(public, middle * factor) for factor in np.geomspace(0.35, 2.5, 30).tolist()]
    return min(candidates, key=lambda each: _predicted_variance(each, records=records, rate=rate))


def _predicted_variance(public: WhitenedPublic, *, records: int, rate: float) -> float:
    at = public.moments(public.centre, records=max(records, 1))
    meat = at.J + np.diag(noise_distribution(public.geometry, rate=rate).variance)
    inverse = np.linalg.inv(at.H)
    return float(np.trace(inverse @ meat @ inverse))


def _ridge(public: WhitenedPublic, price: _Price, *, records: int) -> float:
    least = price.ridge(public.geometry, alone=public.fit is None)
    if public.fit is None:
        return least
    slopes = slice(int(public.geometry.intercept) if public.geometry.location else 0, None)
    at = public.moments(public.centre, records=max(records, 1))
    noise = _mean(noise_distribution(public.geometry, rate=price.rate).variance[slopes])
    level = _mean(np.diag(at.H)[slopes])
    if not public.loss.robust:
        wanted = (1.0 + noise / level) * _mean(np.diag(public.fit.information)[slopes])
    else:
        wanted = (_mean(np.diag(at.J)[slopes]) + noise) / (level * _mean(np.diag(public.fit.covariance)[slopes]))
    return max(least, PULL * wanted)


def _mean(numbers: FloatArray) -> float:
    return float(np.mean(numbers))


def _box(design: Design, row_norm: float | None) -> Geometry:
    first = int(design.intercept)
    return from_box(
        design.lower[first:].tolist(), design.upper[first:].tolist(), intercept=design.intercept, row_norm=row_norm
    )

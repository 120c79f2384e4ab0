"""The query of objective perturbation: geometry, centre and ridge, all from public facts.

**With public rows.** Whitened by them, centred at the public fit. The radius minimises the predicted mean variance of
the whitened coefficients, ``tr H^-1 (J + B) H^-1 / D`` (``B``: covariance of the noise), over a grid around the median
public row norm. The ridge is the larger of two:

* what makes the determinant free, ``8 beta / epsilon`` where a person is replaced, half of it where one is added or
  removed (`hdpstats.privacy.coupled`);
* 0.3 times the ridge of least mean squared error given the public fit, ``(1 + B / H) H_public``.

The noise is the same for every ridge above the first, and the released point is unshrunk afterwards: a larger ridge
keeps it where the linearisation holds, a smaller one depends less on how well public rows predict the private
curvature ``H``.

**With public rows without outcomes, or without public rows.** Centred at zero with half
the first ridge: the determinant costs 2 to 7 % of the noise, and shrinkage hurts less.
"""

from fractions import Fraction

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.design import Design
from hdpstats.design.geometry import from_box
from hdpstats.losses import Loss
from hdpstats.mechanisms.contrast import sensitivity_factor
from hdpstats.mechanisms.knorm import NoiseLaw
from hdpstats.mechanisms.objective import SMOOTHING_SHARE
from hdpstats.mechanisms.regression import score_norm
from hdpstats.privacy.relation import Relation
from hdpstats.protocols.public import WhitenedPublic, with_radius
from hdpstats.queries import Geometry, ObjectiveQuery, RegressionModel

FREE = 4.0 * (1.0 + 2.0**-10)
"""Ridge over ``beta`` and one person's share of epsilon that makes the determinant free, with a margin for cells."""

PULL = 0.3
"""Share of the ridge of least mean squared error: see the module's docstring."""

CHEAP = 2.0
"""Ridge over the same where there is no public fit to pull to."""


def choose_query(
    design: Design,
    loss: Loss,
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
) -> ObjectiveQuery:
    """Return the query for one epsilon. ``public`` is None where the schema's box is the geometry."""
    share = float(epsilon * (1 - hessian_share - SMOOTHING_SHARE)) / sensitivity_factor(relation)
    if public is None:
        geometry = _box(design, row_norm)
        centre = np.zeros(geometry.dimension)
        ridge = CHEAP * _beta(loss, geometry, largest_weight) / share
    else:
        rate = share / largest_weight
        public = at_best_radius(public, records=records, rate=rate)
        geometry, centre = public.geometry, public.centre
        ridge = _ridge(public, records=records, share=share, largest_weight=largest_weight)
    return ObjectiveQuery(
        model=RegressionModel(
            formula=design.canonical, loss=loss.name, geometry=geometry, weights=weights, offset=offset
        ),
        centre=tuple(centre.tolist()),
        ridge=Fraction(ridge),
        epsilon=epsilon,
        schema_sha256=schema_sha256,
        public_sha256=public_sha256,
        hessian_share=hessian_share,
        replicate=replicate,
    )


def noise_law(geometry: Geometry, *, rate: float) -> NoiseLaw:
    """Return the law of objective noise for a regression in a geometry."""
    return NoiseLaw(norm=score_norm(geometry), dimension=geometry.dimension, rate=rate)


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
    meat = at.J + np.diag(noise_law(public.geometry, rate=rate).variance)
    inverse = np.linalg.inv(at.H)
    return float(np.trace(inverse @ meat @ inverse))


def _ridge(public: WhitenedPublic, *, records: int, share: float, largest_weight: float) -> float:
    beta = _beta(public.loss, public.geometry, largest_weight)
    if public.fit is None:
        return CHEAP * beta / share
    slopes = slice(int(public.geometry.intercept) if public.geometry.location else 0, None)
    H = public.moments(public.centre, records=max(records, 1)).H
    noise = noise_law(public.geometry, rate=share / largest_weight).variance
    level = _mean(np.diag(H)[slopes])
    wanted = PULL * (1.0 + _mean(noise[slopes]) / level) * _mean(np.diag(public.fit.information)[slopes])
    return max(FREE * beta / share, wanted)


def _beta(loss: Loss, geometry: Geometry, largest_weight: float) -> float:
    """Return the bound on one record's Hessian in whitened coordinates."""
    return float(loss.smoothness) * geometry.leverage * largest_weight


def _mean(numbers: FloatArray) -> float:
    return float(np.mean(numbers))


def _box(design: Design, row_norm: float | None) -> Geometry:
    first = int(design.intercept)
    return from_box(
        design.lower[first:].tolist(), design.upper[first:].tolist(), intercept=design.intercept, row_norm=row_norm
    )

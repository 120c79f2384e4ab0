"""The query of objective perturbation: geometry, centre and ridge, all from public facts.

**With public rows.** Whitened by them, centred at the public fit. The radius minimises the predicted mean variance of
the whitened coefficients, ``tr H^-1 (J + B) H^-1 / D`` (``B``: covariance of the noise), over a grid around the median
public row norm. The ridge is the larger of two:

* what makes the determinant free, ``8 beta / epsilon`` (`hdpstats.privacy.coupled`);
* 0.3 times the ridge of least mean squared error given the public fit, ``(1 + B / H) H_public``.

The noise is the same for every ridge above the first, and the released point is unshrunk afterwards: a larger ridge
keeps it where the linearisation holds, a smaller one depends less on how well public rows predict the private
curvature ``H``.

**With public rows without outcomes, or without public rows.** Centred at zero with half the first ridge,
``4 beta / epsilon``: the determinant costs 2 to 7 % of the noise, and shrinkage hurts less.
"""

from fractions import Fraction

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.design import Design
from hdpstats.design.geometry import from_box
from hdpstats.losses import Loss
from hdpstats.mechanisms.objective import SMOOTHING_SHARE, perturbation_variance
from hdpstats.protocols.moments import moments
from hdpstats.protocols.public import WhitenedPublic, with_radius
from hdpstats.queries import Geometry, ObjectiveQuery

FREE = 8.0 * (1.0 + 2.0**-10)
"""Ridge over ``beta / epsilon`` that makes the determinant free, with a margin for lattice cells."""

PULL = 0.3
"""Share of the ridge of least mean squared error: see the module's docstring."""

CHEAP = 4.0
"""Ridge over ``beta / epsilon`` where there is no public fit to pull to."""


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
    hessian_share: Fraction = Fraction(0),
    replicate: int = 1,
) -> ObjectiveQuery:
    """Return the query for one epsilon. ``public`` is None where the schema's box is the geometry."""
    objective_epsilon = float(epsilon * (1 - hessian_share - SMOOTHING_SHARE))
    if public is None:
        geometry = _box(design, row_norm)
        centre = np.zeros(geometry.dimension)
        ridge = CHEAP * _beta(loss, geometry, largest_weight) / objective_epsilon
    else:
        rate = objective_epsilon / (2.0 * largest_weight)
        public = at_best_radius(public, loss, records=records, rate=rate)
        geometry, centre = public.geometry, public.centre
        ridge = _ridge(public, loss, records=records, epsilon=objective_epsilon, largest_weight=largest_weight)
    return ObjectiveQuery(
        formula=design.canonical,
        loss=loss.name,
        geometry=geometry,
        centre=tuple(centre.tolist()),
        ridge=Fraction(ridge),
        epsilon=epsilon,
        schema_sha256=schema_sha256,
        public_sha256=public_sha256,
        hessian_share=hessian_share,
        weights=weights,
        offset=offset,
        replicate=replicate,
    )


def at_best_radius(public: WhitenedPublic, loss: Loss, *, records: int, rate: float) -> WhitenedPublic:
    """Return the public rows at the radius of least predicted variance."""
    norms = np.linalg.norm(public.X[:, int(public.geometry.intercept) :], axis=1)
    if not public.geometry.location:
        return with_radius(public, 1.0)
    middle = max(float(np.median(norms)), 1e-3)
    candidates = [with_radius(public, middle * factor) for factor in np.geomspace(0.35, 2.5, 30).tolist()]
    return min(candidates, key=lambda each: _predicted_variance(each, loss, records=records, rate=rate))


def _predicted_variance(public: WhitenedPublic, loss: Loss, *, records: int, rate: float) -> float:
    at = moments(public, loss, theta=public.centre, records=max(records, 1))
    meat = at.J + np.diag(perturbation_variance(public.geometry, rate=rate))
    inverse = np.linalg.inv(at.H)
    return float(np.trace(inverse @ meat @ inverse))


def _ridge(public: WhitenedPublic, loss: Loss, *, records: int, epsilon: float, largest_weight: float) -> float:
    beta = _beta(loss, public.geometry, largest_weight)
    if public.fit is None:
        return CHEAP * beta / epsilon
    slopes = slice(int(public.geometry.intercept) if public.geometry.location else 0, None)
    H = moments(public, loss, theta=public.centre, records=max(records, 1)).H
    noise = perturbation_variance(public.geometry, rate=epsilon / (2.0 * largest_weight))
    level = _mean(np.diag(H)[slopes])
    wanted = PULL * (1.0 + _mean(noise[slopes]) / level) * _mean(np.diag(public.fit.information)[slopes])
    return max(FREE * beta / epsilon, wanted)


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

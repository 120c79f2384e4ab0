r"""The ridge of output perturbation, and when normal noise is smaller, all from public facts.

The noise on the minimiser has a standard deviation of ``k / lambda`` in each whitened direction. Unshrunk, the error of
a direction with Hessian ``h`` has the variance

.. math:: k^2 (1/\lambda + 1/h)^2 + \{m\, \lambda / (\lambda + h)\}^2 v

beside that of sampling: the noise, unshrunk, and what unshrinking misses where ``h`` is known to a share ``m`` and the
private coefficients lie ``v`` (a variance) from the centre. The first falls with the ridge, the second rises; the ridge
that is chosen makes their mean over directions least. Without public curvature nothing can be unshrunk, and ``m = 1``,
``v = 1``.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.objective import ObjectiveQuery
from hdpstats.mechanisms.objective.site import SMOOTHING_SHARE, normal_sd
from hdpstats.mechanisms.output import OutputQuery
from hdpstats.mechanisms.output.site import noise_variance
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.moments import PublicSide

MISTRUST = 0.3
"""Share of the private curvature that public rows may miss."""

RIDGES = np.geomspace(1e-4, 1e2, 241)
"""Candidate ridges, relative to the mean curvature."""

NEARLY_FREE = 0.97
"""Share of the noise of a free determinant that the ridge leaves."""


def choose_output(
    query: ObjectiveQuery,
    person_loss: PersonLoss,
    side: PublicSide | None,
    *,
    records: int,
    delta: Fraction,
    relation: Relation,
) -> OutputQuery:
    """Return the query of output perturbation with the model and the centre of another query.

    ``delta`` is used where normal noise is smaller than pure noise; else the query asks for pure noise.
    """
    epsilon = query.epsilon * (1 - query.hessian_share)
    variances = [noise_variance(person_loss, epsilon=epsilon, delta=Fraction(0), relation=relation)]
    if delta > 0:
        variances.append(noise_variance(person_loss, epsilon=epsilon, delta=delta, relation=relation))
    h, v, missed = _known(person_loss, side, records=records)
    ridges = float(np.mean(h)) * RIDGES
    errors = [_error(min(variances), ridge, h=h, v=v, missed=missed) for ridge in ridges.tolist()]
    return query.asked_as(
        OutputQuery,
        ridge=Fraction(float(ridges[int(np.argmin(errors))])),
        delta=delta if variances[-1] < variances[0] else Fraction(0),
    )


def with_normal_noise(
    query: ObjectiveQuery, person_loss: PersonLoss, *, variance: float, delta: Fraction, relation: Relation
) -> ObjectiveQuery:
    """Return the query with ``delta`` where normal noise in the objective is smaller than ``variance``, else as it is.

    ``variance`` is the mean over coordinates of the pure noise that the query asks for. The ridge is raised, if need
    be, until the determinant leaves 97 % of the noise.
    """
    epsilon = query.epsilon * (1 - query.hessian_share - SMOOTHING_SHARE)
    kept = delta * (1 - query.epsilon * SMOOTHING_SHARE)
    ridge = query.ridge

    def sd(ridge: Fraction) -> float:
        return float(normal_sd(person_loss, ridge=ridge, epsilon=epsilon, delta=kept, relation=relation))

    free = sd(max(query.ridge, Fraction(10**6) * person_loss.trace / epsilon))
    if free**2 >= variance:
        return query
    ridge = max(ridge, Fraction(float(person_loss.trace / epsilon)))
    while sd(ridge) > free / NEARLY_FREE:
        ridge *= 2
    return replace(query, ridge=ridge, delta=delta) if sd(ridge) ** 2 < variance else query


def _known(person_loss: PersonLoss, side: PublicSide | None, *, records: int) -> tuple[FloatArray, FloatArray, float]:
    """Return curvatures, variances about the centre, and the share of curvature that is not known."""
    D, n = person_loss.dimension, max(records, 1)
    if side is None:
        return np.full(D, n * float(person_loss.trace) / (2.0 * D)), np.ones(D), 1.0
    h = np.diag(side.moments(side.centre, records=n).H)
    return h, np.ones(D) if side.fit is None else np.diag(side.fit.covariance), MISTRUST


def _error(variance: float, ridge: float, *, h: FloatArray, v: FloatArray, missed: float) -> float:
    noise = variance * (1.0 / ridge + 1.0 / h) ** 2
    bias = (missed * ridge / (ridge + h)) ** 2 * v
    return float(np.mean(noise + bias))

r"""The ridge and the share of epsilon for smoothing, chosen together: the least predicted variance from public facts.

A computed minimiser is within a few ``e / lambda`` of the exact one, ``e`` being the float error of a sum over all
people (`hdpstats.mechanisms.minimiser.effort_of`). Smoothing covers that distance with noise of a standard deviation in
proportion to ``e / (lambda s)``, where ``s`` is its share of epsilon. The other errors fall with the number of people,
and ``e`` grows. So with many people both are larger than what else is asked for: ``lambda`` above the first ridge
(`hdpstats.mechanisms.perturbation.request`), and ``s`` above `hdpstats.records.query.LEAST_SMOOTHING`.

Along an eigenvector of the Hessian that is expected, with eigenvalue ``h``, variance ``j`` of the score and ``v`` of
the noise in the objective, the unshrunk estimate errs by

.. math:: \frac{j + v\,(1 - s)^{-2}}{h^2} + \frac{\sigma^2(\lambda)}{s^2} \Big(1 + \frac{\lambda}{h}\Big)^2
          + \Big(\frac{m \lambda}{\lambda + h}\, u\Big)^2 :

sampling and noise in the objective, smoothing, and what unshrinking misses where ``h`` is known to a share ``m`` only
and the private coefficients lie ``u`` from the centre. A larger ridge makes the second smaller and the third larger.
``u`` is the distance that pooling expects beforehand between public and private coefficients (`hdpstats.inference.
pooling.SCALE`), and ``m`` is 1 unless a noisy Hessian tells the curvature: without one and without public rows nothing
is unshrunk, and curvature of public rows may be wrong by as much, as that of gbsg's patients is for Rotterdam's. So
what a ridge does to the estimate stays small beside its standard error where public and private people differ, too.

The mean over eigenvectors, each in units of its first term at the least share, is made least over the first ridge times
powers of the root of two, then in finer steps (`FINER`), and over `SHARES`; where smoothing is next to nothing
(`NEGLIGIBLE`) the first ones do. The
ridge is rounded up to 20 binary digits: machines whose floats differ in the last digits ask the same question. The
first ridge grows with the share, so that a determinant costs the same part of what is left for the objective.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeVar, final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.families.base import PersonLoss
from hdpstats.mechanisms.minimiser import Perturbation, effort_of
from hdpstats.mechanisms.perturbation.site import perturbation_of, smoothing_distribution, smoothing_noise
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.noise.exact import round_down
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.moments import Moments
from hdpstats.records.query import LEAST_SMOOTHING, MOST_SMOOTHING, MinimiserQuery

SHARES: Final = (LEAST_SMOOTHING, *(Fraction(k, 1000) for k in (2, 4, 7, 12, 20, 35, 60)), MOST_SMOOTHING)
"""Shares of epsilon for smoothing among which a query chooses."""

STEPS_OF_TWO: Final = 2
"""Candidate ridges for each factor of two."""

FINER: Final = (1.0 / 4.0, 1.0 / 8.0)
"""Then the best one times, or divided by, two to these powers: steps of accelerated descent are few enough from some
ridge on, and smoothing falls steeply there.
"""

MOST_RIDGES: Final = 80
"""Candidate ridges: up to 2^40 times the first one, while the error falls."""

NEGLIGIBLE: Final = 1e-4
"""Where smoothing is a smaller part of the variance at the first ridge and the least share, these are taken."""

MOST_OF_DELTA: Final = Fraction(1, 2)
"""No more of a delta than this is taken by smoothing (`hdpstats.mechanisms.perturbation.site.kept_delta`)."""

DIGITS: Final = 20
"""Binary digits of a ridge."""

Q = TypeVar("Q", bound=MinimiserQuery)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExpectedPeople:
    """What is expected of private people, before anything is asked.

    Attributes
    ----------
    moments : Moments
        Hessian and covariance of the score (D, D).
    missed : float
        ``m``: the share of the curvature that unshrinking does not know; 1 where nothing is unshrunk.
    apart : float
        ``u``: how far private coefficients may lie from the centre.
    """

    moments: Moments
    missed: float
    apart: float


def with_smoothing(
    query: Q,
    person_loss: PersonLoss,
    expected: ExpectedPeople,
    *,
    records: int,
    relation: Relation,
    ridges: int = MOST_RIDGES,
) -> Q:
    """Return the query with the ridge, at least as large as its own, and the share for smoothing of least error.

    Where floats reach no accuracy with any ridge the query is returned with its own, and refused where it is prepared.
    So it is where the determinant leaves nothing of a smaller part of epsilon, and where no curvature is expected.

    Parameters
    ----------
    query
        A query by objective perturbation with the first ridge and no share.
    person_loss
        The loss of one person.
    expected
        What is expected of private people.
    records
        The public or declared number of people, of which the accuracy of the solver follows.
    relation
        Who is a neighbour of whom.
    ridges
        How many ridges are tried; with 1 it stays as it is.
    """
    inside = perturbation_of(query, person_loss, relation=relation)
    h, axes = np.linalg.eigh(expected.moments.H)
    if not h[-1] > 0.0:
        return query if ridges == 1 else replace(query, ridge=rounded_up(query.ridge))
    h = np.maximum(h, 1e-9 * h[-1])
    scores = np.einsum("ji,jk,ki->i", axes, expected.moments.J, axes)
    noise = (axes**2).T @ variance_of(inside, person_loss)
    whole = (scores + noise) / h**2
    shares = shares_of(query)
    left = np.array([float(query.for_objective / (1 - query.for_errors - share)) for share in shares])
    parts = np.array([float(LEAST_SMOOTHING / share) for share in shares])
    inner = float(np.mean(noise / h**2 / whole))
    first = query.ridge if ridges == 1 else rounded_up(query.ridge)

    def tried(step: float) -> _Tried | None:
        """Return what is best at the first ridge times 2^step; None where floats reach no accuracy."""
        ridge = first if ridges == 1 else rounded_up(query.ridge * Fraction(2.0**step))
        try:
            smoothing = smoothing_variance(query, person_loss, inside, ridge=ridge, records=records)
        except MechanismError:
            return None
        taken = float(ridge) / h
        outer = float(np.mean(smoothing * (1.0 + taken) ** 2 / whole))
        missed = float(np.mean((expected.missed * expected.apart * taken / (1.0 + taken)) ** 2 / whole))
        errors = inner * left**2 + outer * parts**2 + missed
        place = int(np.argmin(errors))
        return _Tried(step=step, ridge=ridge, share=shares[place], error=float(errors[place]), outer=outer)

    found = _least(tried, ridges=ridges)
    if found is None:
        return replace(query, ridge=first)
    ridge, share = found.ridge, found.share
    if ridges > 1:
        ridge = rounded_up(ridge * query.for_objective / (1 - query.for_errors - share))
    if share > LEAST_SMOOTHING:
        with suppress(MechanismError):
            chosen = replace(query, ridge=ridge, smoothing_share=share)
            perturbation_of(chosen, person_loss, relation=relation)
            return chosen
    return replace(query, ridge=ridge)


def shares_of(query: MinimiserQuery) -> tuple[Fraction, ...]:
    """Return the shares a query may have: smoothing never takes most of what the Hessian leaves, or of a delta."""
    left = (1 - query.for_errors) / 2
    enough = MOST_OF_DELTA / query.epsilon if query.delta > 0 else Fraction(1)
    return tuple(share for share in SHARES if share == LEAST_SMOOTHING or share <= min(left, enough))


def variance_of(inside: Perturbation, person_loss: PersonLoss) -> FloatArray:
    """Return the variances (D,) of noise in the objective."""
    D = person_loss.dimension
    if inside.sd > 0:
        return np.full(D, float(inside.sd) ** 2)
    return NoiseDistribution(norm=person_loss.norm, dimension=D, rate=float(inside.rate)).variance


def rounded_up(ridge: Fraction) -> Fraction:
    """Return the least number of `DIGITS` binary digits that is not smaller."""
    return -round_down(-ridge, DIGITS)


def smoothing_variance(
    query: MinimiserQuery, person_loss: PersonLoss, inside: Perturbation, *, ridge: Fraction, records: int
) -> float:
    """Return the variance of each coordinate of the smoothing noise that the query's share gives at another ridge.

    Raises
    ------
    MechanismError
        If floats do not reach the accuracy.
    """
    effort = effort_of(replace(query, ridge=ridge), person_loss, noise=inside.size, records=records)
    noise, grid = smoothing_noise(
        total=effort.radius + inside.cell / ridge,
        dimension=person_loss.dimension,
        epsilon=query.epsilon * query.for_smoothing,
    )
    return float(smoothing_distribution(noise, grid).variance[0])


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Tried:
    """A ridge, 2^step times the first one, with the share and the error that are best there.

    ``outer`` is the part of the error that smoothing would have at the least share.
    """

    step: float
    ridge: Fraction
    share: Fraction
    error: float
    outer: float


def _least(tried: Callable[[float], _Tried | None], *, ridges: int) -> _Tried | None:
    """Return the ridge of least error: in coarse steps while the error falls, then in finer ones about the best."""
    best: _Tried | None = None
    for k in range(ridges):
        found = tried(k / STEPS_OF_TWO)
        if found is None:
            continue
        if best is not None and found.error >= best.error:
            break
        if best is None and found.outer < NEGLIGIBLE:
            return replace(found, share=LEAST_SMOOTHING)
        best = found
    if best is None or ridges == 1:
        return best
    for finer in FINER:
        around = [tried(best.step + each) for each in (-finer, finer) if best.step + each >= 0.0]
        best = min([best, *(each for each in around if each is not None)], key=lambda each: each.error)
    return best

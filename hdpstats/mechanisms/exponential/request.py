"""The query of exponential sampling: box, number of proposals and ridge, all from public facts.

The box reaches five standard errors of the public fit to both sides, in every whitened direction. As many proposals are
made as can be evaluated in some seconds. The ridge is the smallest for which they suffice whatever the private rows are
(`hdpstats.mechanisms.exponential.site`), and not below a tenth of the curvature that public rows predict. Where it is
many times that curvature the draw would be little but the public fit, and the query is refused.
"""

import math
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats.families.base import PersonLoss
from hdpstats.mechanisms.exponential import ExponentialQuery
from hdpstats.mechanisms.exponential.site import LARGEST_CONDITION, acceptance_of, least_proposals
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.public.moments import PublicSide
from hdpstats.records.model import HazardModel

WIDTH = 5.0
"""Half-widths of the box in standard errors of the public fit."""

WORK = 200_000_000
"""Person-intervals that are evaluated in all."""

MOST_PROPOSALS = 10_000

WEAKEST, STRONGEST = 0.1, 20.0
"""Ridges over the mean predicted curvature: none is chosen below the first, none accepted above the second."""


def choose_exponential(
    query: ObjectiveQuery, person_loss: PersonLoss, side: PublicSide | None, *, records: int, delta: Fraction
) -> ExponentialQuery:
    """Return the query of sampling with the model and the centre of another query.

    Raises
    ------
    MechanismError
        If there is no public fit, no delta, or a draw would rarely be accepted.
    """
    if side is None or side.fit is None:
        raise _refusal("sampling needs (40 complete) public rows with the outcome: they say where the box is")
    if delta == 0:
        raise _refusal("sampling needs a delta above 0: with a small probability no proposal is accepted")
    n = max(records, 1)
    cells = query.model.grid.intervals * query.model.causes if isinstance(query.model, HazardModel) else 1
    proposals = max(20, min(MOST_PROPOSALS, WORK // (n * cells)))
    level = float(np.mean(np.diag(side.moments(side.centre, records=n).H)))
    whole = n * float(person_loss.trace)
    condition = min(
        largest_condition(person_loss.dimension, proposals=proposals, epsilon=query.epsilon, delta=delta),
        1.0 + whole / (WEAKEST * level),
        LARGEST_CONDITION * (1.0 - 2.0**-20),
    )
    ridge = whole / (condition - 1.0) if condition > 1.0 else math.inf
    if ridge > STRONGEST * level:
        raise _refusal(
            f"with {person_loss.dimension} coefficients and {proposals} proposals a draw would rarely be accepted "
            "unless the ridge outweighed the private records"
        )
    enough = least_proposals(query.epsilon, delta) / acceptance_of(person_loss.dimension, condition=Fraction(condition))
    return query.asked_as(
        ExponentialQuery,
        ridge=Fraction(ridge * (1.0 + 2.0**-20)),
        delta=delta,
        hessian_share=Fraction(0),
        half_widths=tuple((WIDTH * np.sqrt(np.diag(side.fit.covariance))).tolist()),
        proposals=min(proposals, math.ceil(enough)),
    )


def largest_condition(dimension: int, *, proposals: int, epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest condition number for which so many proposals suffice; below 1 where none does."""
    enough = least_proposals(epsilon, delta) / proposals
    best = acceptance_of(dimension, condition=Fraction(1))
    return float((best / enough) ** (2.0 / dimension)) * (1.0 - 2.0**-20)


def _refusal(reason: str) -> MechanismError:
    return MechanismError(f"{reason}; use mechanism='objective'", available=("objective", "output"))

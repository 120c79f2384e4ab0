"""Noisy Newton steps with clipped scores, as data flow: from public state and the releases so far to the next query.

The first round asks at the public fit, each later one at the estimate that the rounds before it give
(`hdpstats.protocols.matching`), pooled with the public fit. With a delta the rounds share the squared Gaussian
parameter of (epsilon, delta) in the proportions 10, 30 and 60 %: early rounds need only come near, and what they cost
is not lost, as the estimate uses all of them. Without a delta there is one round.

Nothing here sees a site: `advance` is a pure function. Coefficients are rounded to 2^-20 before they are asked at, so
that the last bits of a linear algebra library do not turn the same fit into another one, which would be charged anew.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.noise.lattice import round_down
from hdpstats.privacy.gaussian import mu_of
from hdpstats.protocols.matching import Answer, Matched, match, score_quantile
from hdpstats.protocols.moments import PublicFit
from hdpstats.protocols.outcomes import Outcomes
from hdpstats.queries.gradient import GradientQuery, GradientRelease
from hdpstats.queries.model import AnyModel

PROPORTIONS = {1: (1,), 2: (2, 8), 3: (1, 3, 6), 4: (1, 2, 3, 4)}
"""How the rounds share what they cost together, by their number."""

FEWEST_PER_COEFFICIENT = 12
"""Public people per coefficient without whom expectations over them are worth too little."""

STEP = 2.0**-20
"""Coefficients are asked at multiples of it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rounds:
    """Everything public about a fit by rounds, fixed before the first.

    Attributes
    ----------
    model : AnyModel
        What is fitted.
    outcomes : Outcomes
        Public people in that model's geometry, with all their outcomes.
    fit : PublicFit
        The public fit.
    records, records_sd : int, float
        How many private people there are, and the standard deviation of the noise in that number.
    clip : Fraction
        The longest score of a person.
    costs : tuple of Fraction
        The squared Gaussian parameter of each round; (0,) for one round with pure noise.
    epsilon, delta : Fraction
        What the fit keeps.
    schema_sha256, public_sha256, replicate
        See `Query`.
    """

    model: AnyModel
    outcomes: Outcomes
    fit: PublicFit
    records: int
    records_sd: float
    clip: Fraction
    costs: tuple[Fraction, ...]
    epsilon: Fraction
    delta: Fraction
    schema_sha256: str
    public_sha256: str | None
    replicate: int


def costs_of(epsilon: Fraction, delta: Fraction, *, rounds: int) -> tuple[Fraction, ...]:
    """Return the squared Gaussian parameter of each round: together at most that of (epsilon, delta).

    Raises
    ------
    MechanismError
        If there is no delta and more than one round: pure noise costs too much to be added several times.

    Examples
    --------
    >>> [round(float(cost), 4) for cost in costs_of(Fraction(1), Fraction(1, 10**6), rounds=3)]
    [0.0056, 0.0168, 0.0336]
    """
    if delta == 0:
        if rounds != 1:
            raise MechanismError(
                "the gradient mechanism needs a delta for several rounds: fit(..., delta=1e-6); without one use "
                "mechanism='objective', or hdp.mechanisms.NoisyNewton(rounds=1)",
                available=("objective",),
            )
        return (Fraction(0),)
    whole, parts = mu_of(epsilon, delta) ** 2, PROPORTIONS[rounds]
    return tuple(round_down(whole * part / sum(parts), 60) for part in parts)


def clip_at(outcomes: Outcomes, theta: FloatArray, *, level: float) -> Fraction:
    """Return the quantile of the length of people's scores at the public fit, rounded up to 8 binary digits."""
    mantissa, exponent = math.frexp(score_quantile(outcomes, theta, level=level))
    return Fraction(math.ceil(mantissa * 256.0), 256) * Fraction(2) ** exponent


def check_enough(outcomes: Outcomes) -> None:
    """Raise MechanismError where the public people are too few for expectations over them."""
    needed = FEWEST_PER_COEFFICIENT * outcomes.dimension
    if outcomes.people < needed:
        raise MechanismError(
            f"the gradient mechanism needs {FEWEST_PER_COEFFICIENT} complete public people per coefficient, here "
            f"{needed}, and there are {outcomes.people}; use mechanism='objective', a model with fewer coefficients, "
            "or more public people",
            available=("objective",),
        )


def advance(
    state: Rounds, asked: Sequence[GradientQuery], answered: Sequence[GradientRelease]
) -> GradientQuery | Matched:
    """Return the next query, or after the last round the estimates.

    ``asked`` and ``answered`` are the rounds so far, in their order.
    """
    rounds = len(asked)
    if not rounds:
        return first_query(state)
    answers = [
        Answer(theta=np.array(query.theta), total=np.array(release.total), noise_sd=release.noise_sd)
        for query, release in zip(asked, answered, strict=True)
    ]
    found = match(
        state.outcomes,
        state.fit,
        answers,
        clip=float(state.clip),
        records=state.records,
        records_sd=state.records_sd,
    )
    return found if rounds == len(state.costs) else _query(state, found.pooled, rounds)


def first_query(state: Rounds) -> GradientQuery:
    """Return the first query: at the public fit."""
    return _query(state, state.fit.theta, 0)


def _query(state: Rounds, theta: FloatArray, rounds: int) -> GradientQuery:
    places = np.rint(theta / STEP) * STEP + 0.0
    return GradientQuery(
        model=state.model,
        theta=tuple(places.tolist()),
        clip=state.clip,
        epsilon=state.epsilon,
        delta=state.delta,
        mu_squared=state.costs[rounds],
        ahead=sum(state.costs[rounds + 1 :], Fraction(0)),
        schema_sha256=state.schema_sha256,
        public_sha256=state.public_sha256,
        replicate=state.replicate,
    )

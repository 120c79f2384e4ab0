r"""Noisy Newton steps with clipped scores, as data flow: from public state and the releases so far to the next queries.

The first round asks at the public fit, each later one at the estimate that the rounds before it give
(`hdpstats.mechanisms.clipped_newton.matching`), pooled with the public fit. With a delta the rounds share the squared
Gaussian parameter of (epsilon, delta) in the proportions 10, 30 and 60 %: early rounds need only come near, and what
they cost is not lost, as the estimate uses all of them. Without a delta there is one round.

**Sites.** All are asked at the same coefficients with the same clip; each adds its own noise, for its own epsilon and
delta. A site that missed a round is out of the later ones; the rounds that it answered count.

**Guarantee.** *A person's guarantee is the (epsilon, delta) of the site that keeps the person's record, however many
sites there are.* Proof. Let two tables of all sites be neighbours in a person of site ``j``. The site's answer of round
``t`` is a mechanism :math:`M_{jt}(D_j; q_t)` on its own table, with noise of its own, and
:math:`q_t = \phi_t(r_1, \dots, r_{t-1})` is a function (`advance`) of public state and of the releases
:math:`r_s = (r_{1s}, \dots, r_{ks})` of all sites. The density of a transcript factorises,

.. math:: \prod_t \Big[ p\{r_{jt} \mid D_j, q_t\} \prod_{i \ne j} p\{r_{it} \mid D_i, q_t\} \Big],

as do those of failures, which depend on no record. All factors but those of ``j`` are equal under both tables, so given
the releases of the others site ``j`` runs an adaptive composition of its own rounds and nothing else: exactly
:math:`\sqrt{\sum_t \mu_{jt}^2}`-GDP (Dong, Roth and Su 2022), which the costs of its rounds keep within its epsilon and
delta. The others' releases are post-processing inputs that do not depend on the person. What was spent is neither added
over sites nor divided among them. Two things are used: each person is at one site, and no two sites share noise.

Nothing here sees a site: `advance` is a pure function. Coefficients are rounded to 2^-20 before they are asked at, so
that the last bits of a linear algebra library do not turn the same fit into another one, which would be charged anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.clipped_newton.expectations import score_quantile
from hdpstats.mechanisms.clipped_newton.matching import Matched, match, settled
from hdpstats.mechanisms.clipped_newton.raked import RakedSite
from hdpstats.mechanisms.score_sums import STEP, Answer, FitInRounds, SiteAnswers, rounded_up
from hdpstats.privacy.charging import MU_SQUARED_GRAIN, shared, square_of
from hdpstats.public.moments import PublicFit
from hdpstats.public.outcomes import Outcomes
from hdpstats.records.model import AnyModel

PROPORTIONS = {1: (1,), 2: (2, 8), 3: (1, 3, 6), 4: (1, 2, 3, 4)}
"""How the rounds share what they cost together, by their number."""

FEWEST_PER_COEFFICIENT = 12
"""Public people per coefficient without whom expectations over them are worth too little."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rounds(FitInRounds):
    """Everything public about a fit by rounds, fixed before the first.

    Attributes
    ----------
    model : AnyModel
        What is fitted.
    outcomes : Outcomes
        Public people in that model's geometry, with all their outcomes.
    fit : PublicFit
        The public fit.
    clip : Fraction
        The longest score of a person.
    raked : mapping of str to RakedSite
        The people that sums of sites are compared with, where these were described.
    sites, schema_sha256, public_sha256, replicate
        See `FitInRounds`.
    """

    model: AnyModel
    outcomes: Outcomes
    fit: PublicFit
    clip: Fraction
    raked: Mapping[str, RakedSite] = field(default_factory=dict)


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
                "clipped_newton needs a delta for several rounds: fit(..., delta=1e-6); without one use "
                "mechanism='objective', or hdp.mechanisms.ClippedNewton(rounds=1)",
                available=("objective",),
            )
        return (Fraction(0),)
    return shared(square_of(epsilon, delta), PROPORTIONS[rounds], MU_SQUARED_GRAIN)


def clip_at(outcomes: Outcomes, theta: FloatArray, *, level: float) -> Fraction:
    """Return the quantile of the length of people's scores at the public fit, rounded up to 8 binary digits."""
    return rounded_up(score_quantile(outcomes, theta, level=level))


def check_enough(outcomes: Outcomes) -> None:
    """Raise MechanismError where the public people are too few for expectations over them."""
    needed = FEWEST_PER_COEFFICIENT * outcomes.dimension
    if outcomes.people < needed:
        raise MechanismError(
            f"clipped_newton needs {FEWEST_PER_COEFFICIENT} complete public people per coefficient, here "
            f"{needed}, and there are {outcomes.people}; use mechanism='objective', a model with fewer coefficients, "
            "or more public people",
            available=("objective",),
        )


def advance(
    state: Rounds,
    asked: Sequence[Mapping[str, ClippedNewtonQuery]],
    answered: Sequence[Mapping[str, ClippedNewtonRelease]],
) -> Mapping[str, ClippedNewtonQuery] | Matched:
    """Return the next queries by site, or after the last round the estimates.

    ``asked`` and ``answered`` are the rounds so far, in their order; an answer that is missing was not given.

    Raises
    ------
    MechanismError
        If no site answered the first round.
    """
    if not asked:
        return first_queries(state)
    sites = answers_of(state, asked, answered)
    if not sites:
        raise MechanismError("no site answered: there is nothing to estimate from")
    raked = [state.raked.get(name) for name in sites]
    rounds, known, clip = len(asked), list(sites.values()), float(state.clip)
    remaining = [name for name, site in state.sites.items() if name in answered[-1] and rounds < len(site.costs)]
    if not remaining:
        return match(state.outcomes, state.fit, known, clip=clip, raked=raked)
    pooled = settled(state.outcomes, state.fit, known, clip=clip, raked=raked).pooling.point
    return {name: _query(state, name, pooled, rounds) for name in remaining}


def answers_of(
    state: Rounds,
    asked: Sequence[Mapping[str, ClippedNewtonQuery]],
    answered: Sequence[Mapping[str, ClippedNewtonRelease]],
) -> dict[str, SiteAnswers]:
    """Return what each site answered, in the order of the state: those that answered one round or more."""
    answers: dict[str, list[Answer]] = {name: [] for name in state.sites}
    for queries, releases in zip(asked, answered, strict=True):
        for name, release in releases.items():
            at = np.array(queries[name].theta)
            answers[name].append(Answer(theta=at, total=np.array(release.total), noise_sd=release.noise_sd))
    return {
        name: SiteAnswers(records=site.records, records_sd=site.records_sd, answers=answers[name])
        for name, site in state.sites.items()
        if answers[name]
    }


def first_queries(state: Rounds) -> dict[str, ClippedNewtonQuery]:
    """Return the first queries: at the public fit."""
    return {name: _query(state, name, state.fit.theta, 0) for name in state.sites}


def _query(state: Rounds, name: str, theta: FloatArray, rounds: int) -> ClippedNewtonQuery:
    places = np.rint(theta / STEP) * STEP + 0.0
    return ClippedNewtonQuery(
        model=state.model,
        theta=tuple(places.tolist()),
        clip=state.clip,
        mu_squared=state.sites[name].costs[rounds],
        **state.offered(name, round=rounds),
    )

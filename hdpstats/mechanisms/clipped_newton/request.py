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

What estimates will err by is predicted before a sum is asked for (`expected_estimate`).

**Where the rounds end.** A fit reports what its estimate errs by under the model, at the coefficients where the sums
lead it. With clipped scores these are not those of the ordinary fit to the same people, unless the model holds: counts
that vary more than Poisson ones, or residuals whose spread depends on covariates, have other clipped scores than the
model says. How much that moves coefficients, public outcomes tell: with :math:`\bar g` the average of the public
people's own clipped scores the rounds end near the solution :math:`\theta_*` of

.. math:: E\,m(X; \theta_*) = \bar g - \bar s,

:math:`\bar s` their mean score at the public fit without clipping, which the prior of that fit leaves (`ends_near`).
So predictions are at :math:`\theta_*`, for sums that are asked for at the public fit first and then near
:math:`\theta_*`, and :math:`\theta_* - \theta_{pub}` counts as a difference where the estimate is pooled.

**What it errs by there.** Everything that `hdpstats.mechanisms.clipped_newton.matching` says about errors is known:
the response, the sampling of private people, the noise. Scores at a distance ``d`` from the truth have the mean
:math:`m(x) \approx A_x d`, which differs between people, so that the expectation over few public people errs, with
covariance :math:`\mathrm{cov}(A_x d)\, N^2 / n_{pub}`. The first round is asked at the public fit, ``d`` having its
covariance; each later one at the pooled estimate of those before it, whose covariance is found by the same formula,
round by round. Distances of different rounds are taken to be perfectly correlated, the worst case.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.families.outcomes import Outcomes
from hdpstats.inference.pooling import expected_covariance
from hdpstats.inference.sandwich import PredictedCovariance
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.clipped_newton.expectations import (
    RakedSite,
    expected,
    response_of,
    root_of,
    score_quantile,
)
from hdpstats.mechanisms.clipped_newton.matching import (
    LONGEST,
    Averaging,
    Matched,
    PrivateEstimate,
    at_a_distance,
    linearised,
    match,
    parts_of,
    settled,
    weights_of,
    widened,
)
from hdpstats.mechanisms.score_sums import (
    STEP,
    Answer,
    FitInRounds,
    SiteAnswers,
    SiteRounds,
    clipped,
    rounded_up,
)
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, shared, square_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.public.moments import PublicFit
from hdpstats.public.row_weights import Allowance
from hdpstats.records.model import AnyModel
from hdpstats.solvers.objective import Rows

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
    averaging : Averaging
        How the sums of the rounds are averaged.
    allowance : Allowance
        What the clip takes, and what it and the rounds' distances may do to an estimate.
    raked : mapping of str to RakedSite
        The people that sums of sites are compared with, where these were described.
    sites, schema_sha256, public_sha256, replicate
        See `FitInRounds`.
    """

    model: AnyModel
    outcomes: Outcomes
    fit: PublicFit
    clip: Fraction
    averaging: Averaging
    allowance: Allowance
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


def shares_of(rounds: int) -> tuple[float, ...]:
    """Return the shares of the rounds of a fit in what they cost."""
    proportions = PROPORTIONS[rounds]
    return tuple(part / sum(proportions) for part in proportions)


def noise_of_clip(epsilon: Fraction, delta: Fraction, *, rounds: int, dimension: int, relation: Relation) -> float:
    """Return the standard deviation of the noise in the average of all rounds, for a clip of 1; rounding aside."""
    if delta == 0:
        return float(relation.persons_changed * np.sqrt(dimension + 1.0)) / float(epsilon)
    return float(relation.persons_changed / np.sqrt(float(sum(costs_of(epsilon, delta, rounds=rounds)))))


def clip_at(outcomes: Outcomes, theta: FloatArray, *, level: float) -> Fraction:
    """Return the quantile of the length of people's scores at the public fit, rounded up to 8 binary digits."""
    return rounded_up(score_quantile(outcomes, theta, level=level))


def check_enough(outcomes: Outcomes) -> None:
    """Raise MechanismError where the public people are too few for expectations over them."""
    needed = FEWEST_PER_COEFFICIENT * outcomes.dimension
    people = min(outcomes.people, outcomes.whole)
    if people < needed:
        raise MechanismError(
            f"clipped_newton needs {FEWEST_PER_COEFFICIENT} complete public people per coefficient, here "
            f"{needed}, and there are {people}; use mechanism='objective', a model with fewer coefficients, "
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
    given: dict[str, Any] = {
        "raked": [state.raked.get(name) for name in sites],
        "allowance": state.allowance.covariance,
        "averaging": state.averaging,
    }
    rounds, known, clip = len(asked), list(sites.values()), float(state.clip)
    remaining = [name for name, site in state.sites.items() if name in answered[-1] and rounds < len(site.costs)]
    if not remaining:
        return match(state.outcomes, state.fit, known, clip=clip, **given)
    pooled = settled(state.outcomes, state.fit, known, clip=clip, **given).pooling.point
    return {name: _query(state, name, pooled, rounds) for name in remaining}


def answers_of(
    state: Rounds,
    asked: Sequence[Mapping[str, ClippedNewtonQuery]],
    answered: Sequence[Mapping[str, ClippedNewtonRelease]],
) -> dict[str, SiteAnswers]:
    """Return what each site answered, in the order of the state: those that answered one round or more."""
    answers: dict[str, list[Answer]] = {name: [] for name in state.sites}
    shares = state.averaging.planned[: len(asked)]
    for queries, releases, share in zip(asked, answered, shares, strict=True):
        for name, release in releases.items():
            at, total = np.array(queries[name].theta), np.array(release.total)
            answers[name].append(Answer(theta=at, total=total, noise_sd=release.noise_sd, weight=share))
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


STEPS = 8
"""The most steps towards where the rounds end."""

NEAR = 1e-2
"""A step of this length, in whitened coefficients, is the last one."""


Asked = list[tuple[FloatArray, float]]
"""Where sums are asked for (D,), with the shares of the rounds."""


def ends_near(
    outcomes: Outcomes, fit: PublicFit, people: Rows, *, shares: Sequence[float], clip: float
) -> tuple[FloatArray, Asked]:
    """Return the coefficients (D,) near which rounds of ``shares`` end, and where the rounds are asked.

    ``people`` are the public ones with their own outcomes, ``outcomes`` the same with all that they might have. The
    public fit is returned where no solution is found near it.
    """
    start, first = fit.theta, shares[0]
    pull = people.scores(start).mean(axis=0)
    end, asked = start, [(start, 1.0)]
    for _ in range(1 if len(shares) == 1 else 2):
        own = -pull
        for at, share in asked:
            own = own + share * people.cut_scores(at, lambda scores: clipped(scores, clip)).mean(axis=0)
        found = _solved(outcomes, np.asarray(own), asked=asked, start=end, clip=clip)
        if found is None:
            return start, [(start, 1.0)]
        end = found
        asked = [(start, 1.0)] if len(shares) == 1 else [(start, first), (end, 1.0 - first)]
    return end, asked


def _solved(outcomes: Outcomes, mean: FloatArray, *, asked: Asked, start: FloatArray, clip: float) -> FloatArray | None:
    """Return the coefficients (D,) whose expected clipped score is a mean (D,); None where steps do not lead there."""
    theta = start
    kept: dict[Hashable, FloatArray] = {}
    for _ in range(STEPS):
        at = expected(outcomes, theta, asked=asked, clip=clip, kept=kept)
        step = response_of(at.information) @ (at.mean - mean)
        largest = float(np.max(np.abs(step)))
        theta = theta + step * min(1.0, LONGEST / max(largest, LONGEST))
        if largest < NEAR:
            return np.asarray(theta)
    return None


def expected_estimate(state: Rounds, noise: Mapping[str, float], *, people: Rows | None = None) -> PrivateEstimate:
    """Read the sums that sites are expected to release: what the private estimate after all rounds will err by.

    Parameters
    ----------
    state
        Everything public about the fit, its sites included.
    noise
        The standard deviation of the noise in an average of all rounds by what they cost, by site.
    people
        The public ones with their own outcomes; None where rounds are taken to end at the public fit.
    """
    outcomes, fit, clip, shares = state.outcomes, state.fit, float(state.clip), state.averaging.planned
    of_rounds = np.array(state.averaging.raised)
    theta, asked = fit.theta, [(fit.theta, 1.0)]
    if people is not None:
        theta, asked = ends_near(outcomes, fit, people, shares=shares, clip=clip)
    raised = math.sqrt(of_rounds[-1])
    sites = [_expected_answers(site, asked, noise_sd=raised * noise[name]) for name, site in state.sites.items()]
    cohorts = [state.raked.get(name) for name in state.sites]
    weights = weights_of(outcomes, fit, sites, clip=clip, raked=cohorts)
    parts = parts_of(outcomes, theta, sites, weights, clip=clip, raked=cohorts)

    def read(root: FloatArray, rounds: int) -> PrivateEstimate:
        """Return what the first rounds give, that were asked so far from the truth on average."""
        here, unknown = at_a_distance(outcomes, theta, parts, root=root / sum(shares[:rounds]), clip=clip)
        found = linearised(theta, here, whole=outcomes.whole, allowance=state.allowance.covariance)
        noise = found.noise * float(of_rounds[rounds - 1] / of_rounds[-1])
        return replace(widened(found, here, unknown), theta=theta, noise=noise)

    root = shares[0] * root_of(fit.covariance)
    for rounds in range(1, len(shares)):
        covariance = expected_covariance(read(root, rounds).covariance, fit, apart=theta - fit.theta)
        root = root + shares[rounds] * root_of(covariance)
    return read(root, len(shares))


def _expected_answers(site: SiteRounds, asked: Asked, *, noise_sd: float) -> SiteAnswers:
    """Return what a site is expected to answer where it is asked; ``noise_sd`` is that of the average.

    The sums themselves are left out: they lead to the coefficients that expectations are taken at.
    """
    answers = [
        Answer(theta=at, total=np.zeros_like(at), noise_sd=noise_sd / math.sqrt(share), weight=share)
        for at, share in asked
    ]
    return SiteAnswers(records=site.records, records_sd=site.records_sd, answers=answers)


def covariance_over(
    state: Rounds, noise: Mapping[str, float], places: Sequence[FloatArray], *, known: bool
) -> FloatArray:
    """Return the covariance (D, D) that sums asked for at the truth are expected to give the private estimate.

    It is that by sampling of private people and by noise, with moments averaged over coefficients (D,) that the truth
    may be at. What the public people and the clip add is left out: it is not what private people tell.

    Parameters
    ----------
    state
        Everything public about the fit, its sites included.
    noise
        The standard deviation of the noise in the averaged sum of each site.
    places
        Where the truth may be.
    known
        Whether people are taken to be as they were described, where they were; else to be like the public ones.
    """
    outcomes, fit, clip = state.outcomes, state.fit, float(state.clip)
    cohorts = [state.raked.get(name) if known else None for name in state.sites]

    def asked(at: FloatArray) -> list[SiteAnswers]:
        return [_expected_answers(site, [(at, 1.0)], noise_sd=noise[name]) for name, site in state.sites.items()]

    weights = weights_of(outcomes, fit, asked(fit.theta), clip=clip, raked=cohorts)
    found = [
        linearised(at, parts_of(outcomes, at, asked(at), weights, clip=clip, raked=cohorts), whole=outcomes.whole)
        for at in places
    ]
    information = np.mean([np.linalg.inv(each.response) for each in found], axis=0)
    sums = np.mean([each.scores + each.counting for each in found], axis=0) + found[0].noise * np.eye(len(fit.theta))
    response = np.linalg.inv(information)
    return np.asarray(response @ sums @ response.T)


def with_public_correlations(state: Rounds) -> FloatArray | None:
    """Return one person's information (D, D) at the public fit, at a site that takes correlations of public people.

    None where correlations were described at all sites.
    """
    for name in state.sites:
        cohort = state.raked.get(name)
        if cohort is None or not cohort.correlated:
            outcomes, theta = state.outcomes if cohort is None else cohort.outcomes, state.fit.theta
            found = expected(outcomes, theta, asked=[(theta, 1.0)], clip=float(state.clip)).information
            return np.asarray(0.5 * (found + found.T))
    return None


def of_sums(private: PrivateEstimate) -> PredictedCovariance:
    """Return what an estimate from noisy sums errs by."""
    return PredictedCovariance(sampling=private.by_sampling, privacy=private.by_noise)

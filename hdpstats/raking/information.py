r"""What is known of a site's curvature, over public rows that are raked to what was released about its people.

``H`` and ``J`` are sums over public rows that are raked to the averages (`hdpstats.raking.raking`), in the unchanged
geometry. The best guess is their mean over `AVERAGED` draws of the averages (`hdpstats.raking.posterior`), at equal
weights of the public rows (not their value at the mean of the averages: where these are noisy a variance near its floor
would make :math:`H^{-1}` explode). Draws take weights of the public rows from the Bayesian bootstrap, which sites
share, and averages from the posterior, each site's own: noise, sampling of public rows and what is left of the
difference between private and public people all count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast, final

import numpy as np

from hdpstats._base.compiled import in_threads
from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.information import OverPublicPeople, is_wide
from hdpstats.public.moments import Moments, PublicSide
from hdpstats.public.row_weights import COMMON_CAUSE, Allowance
from hdpstats.raking.curvature import RakeableSide, rakeable
from hdpstats.raking.people import WhitenedPeople
from hdpstats.raking.posterior import CohortPosterior, cohort_posterior, distances, notes_on
from hdpstats.raking.raking import Averages, Raking, raked_variables, raking_at
from hdpstats.records import codec
from hdpstats.records.averages import CohortMoments

Given = TypeVar("Given")
Made = TypeVar("Made")
Side = TypeVar("Side", bound=PublicSide)

AVERAGED, FEWEST = 60, 12
"""Draws of the averages over which curvature is averaged; fewer where that is more than `WORK`.

Half as many where there are many coefficients (`hdpstats.inference.information.WIDE`).
"""

WORK = 250_000
"""Terms of people's losses that such draws may have in all; threads share draws of more: of fewer they cost more.
"""

AT_A_TIME = 32_768
"""Raked people who are computed at a time."""

UNUSABLE = (
    "The description of the private people could not be used for this model: of some terms, public rows that are "
    "re-scaled to it say next to nothing."
)

FARTHEST_RATIO = 100.0
"""By how much more than in the median direction a variance over raked rows may exceed that over public ones.

A treatment that half of the public people and 1 % of the private ones have is at 25 (``vignettes/decisions`` 0057).
"""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RakedInformation(OverPublicPeople):
    """Moments over public rows that are raked to what was released about a site's private people.

    Attributes
    ----------
    public : RakeableSide
        The public side.
    posterior : CohortPosterior
        What is known of their averages.
    raking : Raking
        How rows are raked.
    averaged : tuple of WhitenedPeople
        The draws over which curvature is averaged.
    at_centre : Moments
        The moments at the public centre.
    """

    public: RakeableSide
    posterior: CohortPosterior
    raking: Raking
    averaged: tuple[WhitenedPeople, ...]
    at_centre: Moments

    @property
    def notes(self) -> tuple[str, ...]:
        """What standard errors rest on, and what raking could not mend."""
        own = self.public.taken_from_outcomes
        return (*notes_on(self.raking, dimension=self.public.dimension), *((own,) if own else ()))

    def at(self, theta: FloatArray) -> Moments:
        """Return the moments averaged over what is known of the averages."""
        if np.array_equal(theta, self.public.centre):
            return self.at_centre
        return _mean_moments(self.public, [theta], self.averaged, records=self.records)

    def over(self, places: Sequence[FloatArray]) -> Moments:
        """Return the mean of the same at some coefficients; people are gone through once for all places."""
        if len(places) == 1:
            return self.at(places[0])
        return _mean_moments(self.public, places, self.averaged, records=self.records)

    def hessian_over(self, places: Sequence[FloatArray]) -> FloatArray:
        """Return the Hessian of the same."""
        drawn = _each(
            self.public,
            lambda part: self.public.raked_hessian(places, records=self.records, people=part),
            self.averaged,
            draws=_number(self.averaged),
        )
        return np.asarray(np.concatenate(drawn).mean(axis=0))

    def hessian_change(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return the same of the moments averaged over what is known of the averages."""
        changes = _each(
            self.public,
            lambda part: self.public.raked_hessian_change(theta, steps, people=part),
            self.averaged,
            draws=len(steps) * _number(self.averaged),
        )
        return np.asarray(self.records * np.concatenate(changes).mean(axis=0))

    def given(self, drawn: FloatArray, *, theta: FloatArray, rng: draws.Generator) -> Moments:
        """Return moments under weightings of the public rows and draws of the averages."""
        averages = self.posterior.draw(rng, len(drawn), opposite=True)

        def moments(part: slice) -> Moments:
            people = _whitened(self.public, self.raking, averages, base=drawn, part=part)
            return self.public.raked_moments(theta, records=self.records, people=people)

        return _together(_each(self.public, moments, _parts(self.public, len(drawn)), draws=len(drawn)))


def _each(side: RakeableSide, work: Callable[[Given], Made], parts: Sequence[Given], *, draws: int) -> list[Made]:
    """Return what ``work`` makes of parts of some draws of a side's people, by threads where that is much."""
    if draws * len(side.case_weights) * side.cells > WORK:
        return in_threads(work, parts)
    return [work(part) for part in parts]


def _number(people: Sequence[WhitenedPeople]) -> int:
    """Return the number of draws of people."""
    return sum(len(each.weights) for each in people)


def _together(moments: Sequence[Moments]) -> Moments:
    """Return the moments of all draws (B, D, D)."""
    return Moments(H=np.concatenate([each.H for each in moments]), J=np.concatenate([each.J for each in moments]))


def _mean_moments(
    side: RakeableSide, places: Sequence[FloatArray], people: Sequence[WhitenedPeople], *, records: float
) -> Moments:
    """Return the moments averaged over all draws and some coefficients (D, D)."""
    moments = _together(
        _each(
            side,
            lambda part: side.raked_over(places, records=records, people=part),
            people,
            draws=_number(people),
        )
    )
    return Moments(H=moments.H.mean(axis=0), J=moments.J.mean(axis=0))


def _parts(side: RakeableSide, count: int) -> list[slice]:
    """Return parts of so many draws, each of some draws at a time."""
    step = max(1, AT_A_TIME // len(side.case_weights))
    return [slice(start, start + step) for start in range(0, count, step)]


def _whitened(
    side: RakeableSide, raking: Raking, averages: Averages, *, base: FloatArray, part: slice
) -> WhitenedPeople:
    """Return people of a part of averages (B of each) with base weights (B, n)."""
    return side.whitened(raking.raked(averages.take(part), base=base[part]))


def raked_information(
    public: PublicSide, known: CohortMoments, *, records: int, records_sd: float
) -> RakedInformation | None:
    """Return what is known of a site's curvature; None where its public side cannot be raked, or to no use."""
    side = rakeable(public)
    if side is None or side.variables is None:
        return None
    variables = raked_variables(side.variables, known, case_weights=side.case_weights)
    posterior = cohort_posterior(variables)
    raking = raking_at(variables, posterior.mean)
    rng = draws.generator(codec.sha256(["raked", known.release_sha256]))
    most = max(FEWEST, AVERAGED // 2) if is_wide(side) else AVERAGED
    count = min(most, max(FEWEST, WORK // (len(side.case_weights) * side.cells)))
    base = np.full((count, side.people), 1.0 / side.people)
    averages = posterior.draw(rng, count)
    averaged = tuple(
        _each(
            side,
            lambda part: _whitened(side, raking, averages, base=base, part=part),
            _parts(side, count),
            draws=count,
        )
    )
    weighted = known.weighted and side.rows_of_people is None  # of people with several rows these are counted
    people = known.people if weighted else float(records)
    information = RakedInformation(
        public=side,
        records=people,
        records_sd=known.people_sd if weighted else records_sd,
        posterior=posterior,
        raking=raking,
        averaged=averaged,
        at_centre=_mean_moments(side, [side.centre], averaged, records=people),
    )
    return information if is_usable(side, information.at_centre.H, records=people) else None


def with_described(
    side: Side, sites: Sequence[tuple[int, CohortMoments | None]], *, allowance: Callable[[Side], Allowance]
) -> Allowance:
    """Return the allowance for weights of people (`hdpstats.public.row_weights`) where private ones are described.

    ``allowance`` tells it of a public side, ``sites`` are numbers of people and what is known of these. That of a
    site's people is no less than that of public ones, along any direction. What all sites have in common is taken to be
    the mean by numbers of people.
    """
    alike = allowance(side)
    if all(known is None for _, known in sites):
        return alike

    def of_site(known: CohortMoments | None) -> Allowance:
        described = None if known is None else _as_described(side, known)
        if described is None:
            return alike
        raked, unlike = described
        try:
            return replace(alike if raked is None else alike.at_least(allowance(raked)), unlike=unlike)
        except np.linalg.LinAlgError:  # rows that noise has put together
            return replace(alike, unlike=unlike)

    found, people = [of_site(known) for _, known in sites], [max(records, 1) for records, _ in sites]
    return Allowance(
        share=float(np.average([each.share for each in found], weights=people)),
        covariance=np.average([each.covariance for each in found], axis=0, weights=people),
        unlike=float(np.average([each.unlike for each in found], weights=people)),
    )


def _as_described(side: Side, known: CohortMoments) -> tuple[Side | None, float] | None:
    """Return the side with people raked to the posterior mean of averages, and how unlike public people these are.

    None where it cannot be raked; no side where that is to no use. How unlike they are: see `Allowance`.
    """
    rows = rakeable(side)
    if rows is None or rows.variables is None or not rows.known:
        return None
    variables = raked_variables(rows.variables, known, case_weights=rows.case_weights)
    mean = cohort_posterior(variables).mean
    people = rows.whitened(raking_at(variables, mean).raked(mean, base=np.full((1, rows.people), 1.0 / rows.people)))
    records = max(known.people, 1.0)
    (H,) = rows.raked_hessian([rows.centre], records=records, people=people)
    unlike = COMMON_CAUSE * min(1.0, float(np.max(distances(variables, mean), initial=0.0)) ** 2)
    return cast("Side", rows.as_raked(people)) if is_usable(rows, H, records=records) else None, unlike


def is_usable(public: RakeableSide, raked: FloatArray, *, records: float) -> bool:
    """Return whether raked rows tell of all slopes, compared with public rows as they are.

    ``raked`` (D, D) is their Hessian of so many ``records`` at the public centre.

    Along the principal directions of :math:`H^{-1}` over raked rows relative to that over public ones, both of slopes
    alone and at the public centre, no ratio is above `FARTHEST_RATIO` times their median, or 1 where that is less.
    Where re-scaled rows leave the support of some columns of the design, as those of splines, hardly anything is known
    along these, and their errors would reach all coefficients. The median takes out how long people are followed. It
    rests on public rows and on what was released.
    """
    kept = np.ix_(public.covariates, public.covariates)
    try:
        over_public = np.linalg.inv(public.moments(public.centre, records=max(round(records), 1)).H)[kept]
        root = np.linalg.inv(np.linalg.cholesky(over_public))
        ratios = np.linalg.eigvalsh(root @ np.linalg.inv(raked)[kept] @ root.T)
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(ratios <= FARTHEST_RATIO * max(1.0, *ratios[: (len(ratios) + 1) // 2])))

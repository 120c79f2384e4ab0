r"""From released coefficients to estimates, as far as the curvature of the private likelihoods is known.

**Ties.** Errors of a private quantile of one outcome with ties, such as a count, go through the distribution function,
which has steps, and no density that an error could be divided by. The released point ``theta`` solves

.. math:: n\{\hat F_h(\theta) - q\} + \Lambda(\theta - c) + b = 0,

``F_h`` being the distribution function of the outcome plus uniform noise on [-h, h]. So its level is known,

.. math:: F_h(\theta) = q - \{\Lambda(\theta - c) + b\} / n + s, \qquad s \sim N(0,\, q(1 - q)/n),

with the distribution of the noise ``b``. How far it is from there to the level ``q`` is read from the distribution
function ``G_h`` of public rows: drawn is the ``x`` with :math:`G_h(x) - G_h(\theta)` equal to what is left. The
quantile that R calls type 1, the least ``xi`` with :math:`F(\xi) \ge q`, is within ``h`` of every ``x`` with
:math:`F_h(x) = q`: at :math:`\xi + h` all outcomes up to ``xi`` count whole, so that ``F_h`` is at least ``q``, and at
:math:`\xi - h` only smaller ones count. The error of a draw is that of ``x``, made larger by ``h``: an interval of the
level 95 % holds what 95 % of the draws allow.

Everything is post-processing of a release and of public rows; what is assumed of these is the shape of the distribution
function near the quantile, and no more.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.families.regression.likelihood import is_tied
from hdpstats.families.regression.public import WhitenedPublic
from hdpstats.families.spec import LossSpec
from hdpstats.inference import draws
from hdpstats.inference.combination import InformedPoint, ReleasedPoint, scalar_weight, shares, weighted
from hdpstats.inference.information import Information, PublicInformation, ReleasedInformation, added, released_hessian
from hdpstats.inference.other_correlations import correlations_note
from hdpstats.inference.released_sandwich import SMALLEST, SandwichInformation, with_sandwich
from hdpstats.inference.sandwich import (
    DRAWS,
    PredictedCovariance,
    averaged,
    combine,
    few_persons,
    not_clearly_small,
    of_point,
    planned_covariance,
    undetermined,
)
from hdpstats.inference.unlike_people import PlannedPeople
from hdpstats.losses import SmoothedQuantile
from hdpstats.models.own_description import MARGIN, MOST_PARTS, PARTS, ResidualSd
from hdpstats.public.moments import Coverage, Moments, PublicFit, PublicSide
from hdpstats.public.row_weights import Allowance
from hdpstats.raking.curvature import rakeable
from hdpstats.raking.information import UNUSABLE, RakedInformation, raked_information
from hdpstats.records.estimate import ErrorDistribution, Estimate, Estimates, SiteEstimate

ASSUMED = "Standard errors take private {what} to be distributed as the public ones."
UNLIKE = (
    " In simulations of {fits} (3,000 private and 300 public people, epsilon 1), with private means .6 and .4 standard "
    "deviations away, spreads .6 and 1.3 times the public ones{besides} and a level of 10 % in place of 40 %, 95 % "
    "intervals covered about {percent:.0f} % of the slopes."
)
HIDDEN = "Noise hides private people's own Hessians and squared scores for the most part."
RELEASED = (
    "Standard errors rest on noisy sums of private people's own Hessians and squared scores, and on public rows as far "
    "as noise hides these."
)
UNKNOWN_SD = (
    "Nothing tells how large residuals are: standard errors take them to have the largest standard deviation within "
    "the outcome's declared range, {sd:.3g}. If it is {smaller:.3g}, standard errors and intervals are 5 times as wide "
    "as they need be. Public rows with the outcome tell it; narrower declared bounds help."
)
LARGEST_SD = (
    "Nothing public tells how large residuals are: standard errors take them to have the largest standard deviation "
    "within the outcome's declared range, {sd:.3g}. {times:g} times that of the outcome as described, with allowance "
    "for the noise of the description, is no smaller. Public rows with the outcome tell it."
)
GUESSED_SD = (
    "Nothing tells yet how large residuals are: predictions take a standard deviation of {sd:.3g}. A fit describes its "
    "own outcomes and takes what they tell. Sampling errors are in proportion to it, and at most {ratio:.2g} times as "
    "large."
)
DESCRIBED_SD = (
    "Nothing public tells how large residuals are: standard errors take them to have a standard deviation of {sd} at "
    "all covariates, {times:g} times that of the outcome as described, with allowance for the noise of the "
    "description. That is usually too much, by {times:g} times or more; it is too little where residuals of the few "
    "people who tell a coefficient vary more than {times:g} times as much as the outcome. Public rows with the outcome "
    "tell it."
)
SD_FROM = (
    "Nothing public tells how large residuals are, and released squared scores do only from a standard deviation of "
    "about {least:.3g} on: if it is smaller, standard errors and intervals are wider than they need be. Public rows "
    "with the outcome tell it."
)
UNCLEAR = "The noisy Hessian of se_share is too small against its noise. "
UNCLEAR_SOMEWHERE = "At some sites the noisy Hessian of se_share is too small against its noise. "
TOGETHER = (
    "A site's own Hessian is too small against its noise: all sites' are read together, as if their covariates "
    "were distributed alike."
)
NOT_RELEASED = (
    "Standard errors are NaN: without enough complete public rows (40, and 4 for each coefficient) the curvature of "
    "the likelihood is private. Give the study public rows, or let the fit spend a part of epsilon on a noisy Hessian: "
    "se_share='auto'."
)
NOT_KNOWN = (
    "Standard errors are NaN: between the public fit and the release, public rows tell no curvature along some "
    "direction. Leave out terms in which public rows do not differ, or give the study more public rows."
)
NEEDS_OUTCOMES = (
    "Standard errors are NaN: this loss has no model that gives its curvature. Give the study public rows with the "
    "outcome (40 complete ones, and 4 for each coefficient) whose residuals vary."
)
ALL_UNCLEAR = (
    "Standard errors are NaN: the released Hessian is too small against its noise at this epsilon and number of "
    "records. Give the study public rows, a larger epsilon, a larger se_share, or a declared row_norm; take logarithms "
    "of skewed columns, and declare no wider bounds than needed. A fit with description=hdp.describe(...) knows before "
    "the charge whether columns spread enough."
)


UNDETERMINED = (
    "Public rows say nothing of {names}, and private people too little for a standard error that is of use: NaN. Give "
    "the study public rows with such people, more epsilon, or leave the term out."
)

FEW_PERSONS = (
    "Not estimable: {names}. Private people are predicted to tell less than a few persons (of a rare level, than one "
    "who has it) would without noise: NaN. Merge levels, leave the term out, or take more epsilon."
)

FEW_POOLED = (
    "Not estimable: {names}. Private people and the public fit together are predicted to tell less than a few persons "
    "(of a rare level, than one who has it) would without noise: NaN. Merge levels, leave the term out, or take more "
    "epsilon or public rows."
)

SPARSE = (
    "Public outcomes are sparse near the private coefficients: standard errors rest on few of them, and may be too "
    "small."
)
SPARSE_BELOW = 0.5
"""Curvature of a location's loss near the released point over that at the public fit, in the worst direction.

Of quantiles of age and of nodes at five shifts of real people it was .24 to .32 where few public outcomes were left,
and .74 or more elsewhere.
"""

FLAT = 1e-12
"""Curvature in some direction over the largest, below which it is taken for none."""


def estimates(
    parts: Sequence[ReleasedPoint],
    *,
    T: FloatArray,
    terms: tuple[str, ...],
    meat: float | None = 1.0,
    allowance: FloatArray | None = None,
    unlike: float = 0.0,
) -> Estimates:
    """Return the estimates of a fit at one site or at several, one part each.

    A site's standard errors rest on its released Hessian where there is one that stands clear of its noise, else on
    the public rows (at its query's radius), else on the Hessians of all sites together. Without any of these they are
    NaN, and coefficients stay as released: those of several sites are averaged, with weights that follow from their
    numbers of people and their noise.

    Parameters
    ----------
    parts
        What each site was asked and answered, with its noise, its public side and its number of people.
    T
        From whitened coefficients to those that ``terms`` name (p, D); the same at all sites.
    terms
        Names of the coefficients.
    meat
        Bound on the score's covariance over the Hessian; None where there is none.
    allowance
        The covariance (D, D) of what weights of people may do to the estimates of all sites alike; None without one.
    unlike
        The correlation of that with what separates private from public coefficients.
    """
    for raked in (True, False) if any(part.cohort is not None for part in parts) else (True,):
        read = _read(parts, meat=meat, raked=raked)
        if read is None:
            break
        try:
            return _combined(parts, read, T=T, terms=terms, allowance=allowance, unlike=unlike)
        except np.linalg.LinAlgError:  # flat between the public fit and what was released
            continue
    return _as_released(parts, T=T, terms=terms, meat=meat)


def planned(
    parts: Sequence[ReleasedPoint],
    *,
    stand_ins: Sequence[PublicSide],
    meat: float | None,
) -> tuple[PredictedCovariance, Sequence[Information]]:
    """Return what the private estimate that is read from expected releases errs by, and what is known of curvature.

    What is known is read as for a fit (`estimates`); where nothing is, people are taken to be as ``stand_ins`` of each
    site are. Errors are not drawn: their covariance is in closed form (`hdpstats.inference.sandwich`).
    """
    read = _read(parts, meat=meat, raked=True)
    if read is None:
        alike = [
            PublicInformation(public=side, records=max(part.records, 1))
            for side, part in zip(stand_ins, parts, strict=True)
        ]
        of_sites = [
            of_point(side, noise=part.noise, records=part.records) for side, part in zip(stand_ins, parts, strict=True)
        ]
        return averaged(of_sites), alike
    points = [InformedPoint(part=part, information=each.information) for part, each in zip(parts, read, strict=True)]
    found = planned_covariance(points, centre=stand_ins[0].centre, fit=stand_ins[0].fit)
    return found, [each.information for each in read]


def planned_people(
    spec: LossSpec,
    private: PredictedCovariance,
    *,
    side: PublicSide,
    known: Information,
    noise: Callable[[FloatArray], FloatArray],
    T: FloatArray,
    fit: PublicFit | None,
    apart: FloatArray | float = 0.0,
    weights: Allowance | None = None,
    allowance: FloatArray | None = None,
    told: tuple[bool, bool] = (False, False),
    residuals: tuple[float, float] = (1.0, 1.0),
) -> PlannedPeople | None:
    """Return what predicted errors rest on as far as private people may be unlike ``side``; None where not known.

    ``known`` is the curvature of the site that counts most; ``told`` says whether a given description tells means and
    spreads of covariates, and whether it tells correlations (`told_by_description`). People who are weighted by a
    chance of treatment may differ in that as well: there nothing is returned.
    """
    if spec.overlap is not None:
        return None
    blocks, begin = side.row_blocks
    own = side.geometry.intercept and begin == 0
    return PlannedPeople(
        private=private,
        hessian=lambda theta: known.at(theta).H,
        noise=noise,
        centre=side.centre,
        T=T,
        terms=spec.terms,
        blocks=slopes_of(side),
        intercepts=[int(block[0]) for block in blocks] if own else [],
        canonical=side.canonical,
        fit=fit,
        apart=apart,
        weights=weights,
        allowance=allowance,
        spreads_known=told[0],
        correlations_known=told[1],
        residuals=residuals,
    )


def open_residuals(taken: Sequence[ResidualSd], *, released: bool) -> tuple[float, float]:
    """Return how many times as large as taken residuals may be when a fit reports, at least and at most.

    Where outcomes are to be described yet the declared range may be 2 to `MOST_PARTS` of their standard deviations.
    Where only the range is known, and squared scores are ``released``, these tell smaller residuals, down to `SMALLEST`
    of the largest variance.
    """
    pairs = [_open(each, released=released) for each in taken]
    return min((low for low, _ in pairs), default=1.0), max((high for _, high in pairs), default=1.0)


def _open(taken: ResidualSd, *, released: bool) -> tuple[float, float]:
    if taken.described:
        return 1.0, 1.0
    if taken.unknown:
        return (math.sqrt(SMALLEST), 1.0) if released else (1.0, 1.0)
    return PARTS / MOST_PARTS, taken.largest / taken.value


def told_by_description(known: Sequence[Information], *, described: bool) -> tuple[bool, bool]:
    """Return whether curvature follows means and spreads, and correlations, of private people at all sites.

    Public rows raked to a description do; without public rows stand-ins are made as ``described``.
    """
    before = [each.told if isinstance(each, SandwichInformation) else each for each in known]
    raked = [each for each in before if isinstance(each, RakedInformation)]
    if len(raked) < len(known):
        return described, False
    return True, not any(takes_correlations(each) for each in raked)


def unknown_alone(parts: Sequence[ReleasedPoint], *, T: FloatArray, meat: float | None) -> tuple[int, ...]:
    """Return which coefficients the private estimate is to be without, read from expected releases as from others."""
    read, public = _read(parts, meat=meat, raked=True), parts[0].public
    if read is None or public is None:
        return ()
    sites = [InformedPoint(part=part, information=each.information) for part, each in zip(parts, read, strict=True)]
    unknown = _undetermined(sites, public.fit, T=T) | few_persons(sites, public, T=T)[0]
    return tuple(np.flatnonzero(unknown).tolist())


def _combined(
    parts: Sequence[ReleasedPoint],
    read: Sequence["_Read"],
    *,
    T: FloatArray,
    terms: tuple[str, ...],
    allowance: FloatArray | None,
    unlike: float,
) -> Estimates:
    """Return the estimates with what is known of each site's curvature."""
    public, notes = parts[0].public, [each.note for each in read]
    together = _together_note(notes, alike=assumed(public))
    sites = [InformedPoint(part=part, information=each.information) for part, each in zip(parts, read, strict=True)]
    correlated = "" if public is None else _correlations_note(public, sites, T=T, terms=terms)
    rules = None if public is None else Reportable.of(sites, public, T=T)
    found = combine(
        sites,
        fit=None if public is None else public.fit,
        T=T,
        terms=terms,
        notes=notes,
        note=f"{together} {correlated}" if together and correlated else together,
        allowance=allowance,
        unlike=unlike,
        missing=None if rules is None else rules.missing,
    )
    return found if rules is None else rules.reported(found)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reportable:
    """Which coefficients (p,) of a fit are reported.

    ``undetermined`` are those of which public rows say nothing and private people too little. ``alone`` and ``pooled``
    are slopes that are predicted to rest on less than a few persons, of the private-only and of the pooled estimate.
    """

    public: PublicSide
    T: FloatArray
    undetermined: BoolArray
    alone: BoolArray
    pooled: BoolArray

    @classmethod
    def of(cls, sites: Sequence[InformedPoint], public: PublicSide, *, T: FloatArray) -> "Reportable":
        """Return what is predicted of the coefficients that ``T`` (p, D) maps whitened ones to."""
        alone, pooled = few_persons(sites, public, T=T)
        undetermined = _undetermined(sites, public.fit, T=T)
        return cls(public=public, T=T, undetermined=undetermined, alone=alone, pooled=pooled)

    def missing(self, private: Estimate) -> BoolArray:
        """Return which coefficients (p,) of the private-only estimate are not reported."""
        return self.undetermined | self._few(private, self.alone)

    def reported(self, found: Estimates) -> Estimates:
        """Return the estimates without coefficients that are not reported, private-only and pooled each by itself."""
        told = found.without(self.undetermined, words=UNDETERMINED)
        pooled = told.pooled
        return replace(
            told,
            private_only=told.private_only.without(self._few(told.private_only, self.alone), words=FEW_PERSONS),
            pooled=None if pooled is None else pooled.without(self._few(pooled, self.pooled), words=FEW_POOLED),
        )

    def _few(self, estimate: Estimate, predicted: BoolArray) -> BoolArray:
        """Return which slopes (p,) of an estimate rest on less than a few persons.

        Errors as they were drawn vary with the noise where little is known, and would make a slope NaN or not by
        chance. Only where they are clearly small is a slope kept that the prediction would leave out: coefficients are
        then so far from the public ones that these are no place to predict errors at.
        """
        errors: FloatArray = np.asarray(estimate.bse, dtype=np.float64)
        return np.asarray(predicted & not_clearly_small(errors, self.public, T=self.T))


def _correlations_note(
    public: PublicSide, sites: Sequence[InformedPoint], *, T: FloatArray, terms: tuple[str, ...]
) -> str:
    """Return how far errors would go with other correlations, where those of public rows are taken at some site."""
    rests = [each for each in sites if takes_correlations(each.information)]
    if not rests:
        return ""
    people, all_people = (sum(max(each.part.records, 0.0) for each in some) for some in (rests, sites))
    share = people / all_people if 0.0 < people < all_people else 1.0
    return sensitivity(public, rests[0].information.at(public.centre).H, T=T, terms=terms, share=share)


def sensitivity(public: PublicSide, H: FloatArray, *, T: FloatArray, terms: tuple[str, ...], share: float = 1.0) -> str:
    """Return how far errors would go with other correlations, for a curvature ``H`` (D, D) that takes public ones.

    It is that of a ``share`` of the people.
    """
    slopes = slopes_of(public)
    if not slopes:
        return ""
    return correlations_note(H, T, terms=terms, blocks=slopes, share=share)


def slopes_of(public: PublicSide) -> list[IntArray]:
    """Return the coordinates of slopes of each predictor; none where these are not of one column each."""
    _, slopes = public.sloped_rows
    return [] if any(len(block) != len(public.geometry.location) for block in slopes) else list(slopes)


def takes_correlations(information: Information) -> bool:
    """Return whether curvature takes public rows with their own correlations."""
    if isinstance(information, RakedInformation):
        return not information.raking.variables.pairs.known
    return isinstance(information, PublicInformation)


def _undetermined(sites: Sequence[InformedPoint], fit: PublicFit | None, *, T: FloatArray) -> BoolArray:
    """Return which coefficients (p,) are predicted not to be determined by the private people of all sites."""
    if fit is None or fit.unknown is None:
        return np.zeros(len(T), dtype=bool)
    predicted = averaged(
        [
            of_point(each.part.public, noise=each.part.noise, records=each.part.records, known=each.information)
            for each in sites
            if each.part.public is not None
        ]
    )
    return undetermined(predicted, fit, T=T)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Read:
    """What is known of a site's curvature, and what is to be said about it."""

    information: Information
    note: str | None


def _read(parts: Sequence[ReleasedPoint], *, meat: float | None, raked: bool) -> list[_Read] | None:
    """Return what is known of each site's curvature, over ``raked`` rows or not; None where it is not known of all."""
    if all(part.release.hessian is None for part in parts):
        meat = None
    own = [None if meat is None else _own(part, meat=meat) for part in parts]
    rest = [None if part.public is None else _from_public(part, part.public, raked=raked) for part in parts]
    found = [first or second for first, second in zip(own, rest, strict=True)]
    found = [_with_sandwich(part, each) for part, each in zip(parts, found, strict=True)]
    known = [each for each in found if each is not None]
    if len(known) == len(parts):
        return known
    return None if meat is None else _together(parts, meat=meat)


def _with_sandwich(part: ReleasedPoint, read: _Read | None) -> _Read | None:
    """Return what is known of a site with the Hessians and squared scores that it released, where it did."""
    if read is None or part.public is None or part.release.sandwich is None:
        return read
    known = with_sandwich(read.information, part.public, part.query, part.release, records=part.records)
    hidden = isinstance(known, SandwichInformation) and known.hidden
    return _Read(information=known, note=f"{HIDDEN} {read.note}" if hidden else RELEASED)


def assumed(public: PublicSide | None) -> str:
    """Return what standard errors assume that rest on a public side; nothing without one."""
    if public is None:
        return ""
    return ASSUMED.format(what=public.taken_alike) + measured(public.covered_unlike)


def measured(found: Coverage | None) -> str:
    """Return what a simulation of such fits found, in words; nothing where there was none."""
    if found is None:
        return ""
    return UNLIKE.format(fits=found.fits, besides=found.besides, percent=100.0 * found.share)


def _together_note(notes: Sequence[str | None], *, alike: str) -> str | None:
    """Return what is said of all sites together; ``alike`` is what those assume that rest on public rows."""
    if len(set(notes)) == 1:
        return notes[0]
    if all(each in (None, alike, UNCLEAR + alike) for each in notes):
        return UNCLEAR_SOMEWHERE + alike
    return " ".join(dict.fromkeys(each for each in notes if each is not None))


def _own(part: ReleasedPoint, *, meat: float) -> _Read | None:
    hessian = released_hessian(part.release)
    if hessian is None or not hessian.is_clear:
        return None
    return _Read(information=ReleasedInformation(hessian=hessian, meat=_own_meat(part, meat)), note=None)


def _own_meat(part: ReleasedPoint, meat: float) -> float:
    """Return the smaller of a model's bound on the score's covariance over the Hessian and of a site's own."""
    return meat if part.meat is None else min(meat, part.meat)


def _from_public(part: ReleasedPoint, public: PublicSide, *, raked: bool) -> _Read | None:
    if not public.known:
        return None
    centre, here = (public.moments(at, records=max(part.records, 1)).H for at in (public.centre, part.theta))
    if is_flat(centre) or is_flat(here):
        return None
    found = _over_public(part, public, raked=raked)
    if public.located and float(np.min(np.linalg.eigvals(np.linalg.solve(centre, here)).real)) < SPARSE_BELOW:
        return replace(found, note=f"{found.note} {SPARSE}")
    return found


def _over_public(part: ReleasedPoint, public: PublicSide, *, raked: bool) -> _Read:
    """Return what public people tell of a site's curvature, raked ones where that is possible and wanted."""
    note = assumed(public) if part.release.hessian is None else UNCLEAR + assumed(public)
    if part.cohort is not None and rakeable(public) is not None:
        records = max(part.records, 1)
        told = raked_information(public, part.cohort, records=records, records_sd=part.records_sd)
        if raked and told is not None:
            return _Read(information=told, note=" ".join(told.notes))
        note = f"{note} {UNUSABLE}"
    return _Read(
        information=PublicInformation(public=public, records=max(part.records, 1), records_sd=part.records_sd),
        note=note,
    )


def is_flat(H: FloatArray) -> bool:
    """Return whether public rows tell no curvature in some direction, as where all of them lie on a quantile's line."""
    eigenvalues = np.linalg.eigvalsh(H)
    return bool(eigenvalues[0] <= FLAT * eigenvalues[-1])


def _together(parts: Sequence[ReleasedPoint], *, meat: float) -> list[_Read] | None:
    """Return each site's share, by people, of the released Hessians; None where their sum is not clear of noise."""
    bearers = [(part, hessian) for part in parts if (hessian := released_hessian(part.release)) is not None]
    whole = added([hessian for _, hessian in bearers])
    if not whole.is_clear:
        return None
    people = sum(max(part.records, 1) for part, _ in bearers)
    return [
        _Read(
            information=ReleasedInformation(
                hessian=whole,
                meat=_own_meat(part, meat),
                share=max(part.records, 1) / people,
                relative_sd=part.records_sd / max(part.records, 1),
            ),
            note=TOGETHER,
        )
        for part in parts
    ]


def _as_released(
    parts: Sequence[ReleasedPoint], *, T: FloatArray, terms: tuple[str, ...], meat: float | None
) -> Estimates:
    """Return released coefficients, those of several sites averaged, without standard errors."""
    seen = any(part.public is not None for part in parts)
    missing = NEEDS_OUTCOMES if meat is None else NOT_KNOWN if seen else NOT_RELEASED
    unknown = np.full((len(terms), len(terms)), np.nan)

    def released(theta: FloatArray, parts: Sequence[ReleasedPoint]) -> Estimate:
        unclear = any(part.release.hessian is not None for part in parts)
        return Estimate(
            label="released",
            terms=terms,
            values=T @ theta,
            sampling=unknown,
            privacy=unknown,
            note=ALL_UNCLEAR if unclear else missing,
        )

    curved = [max(part.records, 1) * part.curvature * np.eye(len(part.release.theta)) for part in parts]
    # as if curvature were the same along all directions: it weighs sites, and nothing else
    weights = shares([part.variance(Moments(H=H, J=H)) for part, H in zip(parts, curved, strict=True)])
    return Estimates(
        penalised=None,
        private_only=released(weighted(weights, [part.theta for part in parts]), parts),
        pooled=None,
        sites=tuple(
            SiteEstimate(estimate=released(part.theta, [part]), weight=scalar_weight(share))
            for part, share in zip(parts, weights, strict=True)
        ),
    )


TIED: Final = (
    "The outcome has ties: the interval is for the least value that a share q of private people or more do not exceed, "
    "as quantile(type = 1) in R. It takes outcomes near it to be distributed as in public rows."
)


AS_CONTINUOUS: Final = (
    "The outcome has ties: with case weights, an offset or several sites intervals take it for continuous, and need "
    "not hold its quantile."
)


def has_steps(public: WhitenedPublic) -> bool:
    """Return whether a fit is of a quantile without covariates, of an outcome that is tied in public rows."""
    y, loss = public.y, public.loss
    if not isinstance(loss, SmoothedQuantile) or y is None or not public.geometry.intercept or public.dimension > 1:
        return False
    return is_tied(y)


def is_plain(public: WhitenedPublic) -> bool:
    """Return whether everybody counts alike, without an offset."""
    return not public.offset.any() and bool(np.all(public.weights == 1.0))


def as_continuous(found: Estimates) -> Estimates:
    """Return estimates of a quantile of ties with a note that their errors take the outcome for continuous."""
    return _noted(found, AS_CONTINUOUS)


def with_residual_sds(found: Estimates, taken: Sequence[ResidualSd]) -> Estimates:
    """Return estimates with words on the standard deviations of residuals, by site, where no public row tells them.

    Where private people's own squared scores were released they tell it, down to `SMALLEST` of the largest variance.
    """
    if not taken or bool(np.isnan(found.private_only.sampling).all()):
        return found
    told = found.private_only.note or ""
    if told.startswith(RELEASED):
        return _noted(found, SD_FROM.format(least=math.sqrt(SMALLEST) * max(each.value for each in taken)))
    return _noted(found, residual_sd_words(taken))


def residual_sd_words(taken: Sequence[ResidualSd]) -> str:
    """Return what standard errors assume of residuals at sites, of which public rows tell nothing; else nothing."""
    if not taken:
        return ""
    largest, times = max(taken, key=lambda each: each.value), math.sqrt(MARGIN)
    if largest.unknown and largest.described:
        return LARGEST_SD.format(sd=largest.largest, times=times)
    if largest.unknown:
        return UNKNOWN_SD.format(sd=largest.largest, smaller=largest.largest / 5.0)
    if not largest.described:
        return GUESSED_SD.format(sd=largest.value, ratio=largest.largest / largest.value)
    values = sorted(each.value for each in taken)
    sd = f"{values[-1]:.3g}" if len(values) == 1 else f"{values[0]:.3g} to {values[-1]:.3g} (by site)"
    return DESCRIBED_SD.format(sd=sd, times=times)


def _noted(found: Estimates, words: str) -> Estimates:
    """Return estimates with more words in their notes, those of single sites aside."""

    def noted(each: Estimate) -> Estimate:
        return replace(each, note=words if each.note is None else f"{each.note} {words}")

    return replace(
        found,
        private_only=noted(found.private_only),
        pooled=None if found.pooled is None else noted(found.pooled),
    )


def tied_quantile(found: Estimates, part: ReleasedPoint, public: WhitenedPublic, *, T: FloatArray) -> Estimates:
    """Return the estimates of a quantile without covariates with errors read through the distribution function.

    Parameters
    ----------
    found
        The estimates, whose points stay.
    part
        What one site was asked and answered; one coefficient, the intercept.
    public
        Public rows, for which `has_steps`.
    T
        From the scale of the loss to the outcome's unit (1, 1).
    """
    loss, y = public.loss, public.y
    if not isinstance(loss, SmoothedQuantile) or y is None:
        return found
    drawn, h = T[0, 0] * _drawn(part, loss, y), abs(T[0, 0]) * loss.h
    noise = _share_of_noise(part, loss)

    def with_errors(estimate: Estimate) -> Estimate:
        away = drawn - estimate.values[0]
        error = (away + np.where(away < 0.0, -h, h))[:, None]
        whole = float(np.mean(error**2))
        return replace(
            estimate,
            sampling=np.array([[whole * (1.0 - noise)]]),
            privacy=np.array([[whole * noise]]),
            distribution=ErrorDistribution.of_draws(error),
            note=TIED,
        )

    return replace(
        found,
        private_only=with_errors(found.private_only),
        pooled=None if found.pooled is None else with_errors(found.pooled),
        sites=tuple(replace(each, estimate=with_errors(each.estimate)) for each in found.sites),
    )


def _drawn(part: ReleasedPoint, loss: SmoothedQuantile, y: FloatArray) -> FloatArray:
    """Return the points (B,) that draws of the level put at ``q``."""
    rng, n = draws.generator(part.release.sha256, "tied"), max(part.records, 1)
    theta = float(part.theta[0])
    records = np.maximum(1.0 + part.records_sd / n * rng.standard_normal(DRAWS), 0.05) * n
    noise = part.noise.draw(rng, np.full((DRAWS, 1, 1), n / (2.0 * loss.h)))[:, 0]
    score = np.sqrt(loss.q * (1.0 - loss.q) / records) * rng.standard_normal(DRAWS)
    left = (part.ridge * (theta - float(part.centre[0])) + noise) / records - score
    knots = np.unique(np.concatenate([y - loss.h, y + loss.h, [theta]]))
    share = np.mean(loss.score(knots[:, None], y[None, :]), axis=1) + loss.q
    wanted = share[np.searchsorted(knots, theta)] + left
    return _first_at(share, knots, wanted)


def _first_at(share: FloatArray, knots: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the first points at which a piecewise linear, increasing function reaches levels (B,)."""
    place = np.clip(np.searchsorted(share, wanted - 1e-12), 1, len(knots) - 1)
    rise = share[place] - share[place - 1]
    part = np.clip(np.divide(wanted - share[place - 1], rise, out=np.zeros_like(wanted), where=rise > 0), 0.0, 1.0)
    return np.asarray(knots[place - 1] + part * (knots[place] - knots[place - 1]))


def _share_of_noise(part: ReleasedPoint, loss: SmoothedQuantile) -> float:
    """Return the share of privacy noise in the variance of the level."""
    noise = float(part.noise.covariance(np.full((1, 1), max(part.records, 1) / (2.0 * loss.h)))[0, 0])
    return noise / (noise + max(part.records, 1) * loss.q * (1.0 - loss.q))

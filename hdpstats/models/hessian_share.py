"""Which share of epsilon a fit spends on a noisy Hessian, and whether it would report standard errors: public facts."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.spec import LossSpec
from hdpstats.inference.information import chance_of_clear
from hdpstats.inference.sandwich import PredictedCovariance, averaged
from hdpstats.mechanisms.exponential import ExponentialMechanism
from hdpstats.mechanisms.perturbation import ObjectivePerturbation, OutputPerturbation
from hdpstats.models.estimates import is_flat
from hdpstats.models.own_description import averaged_variables
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords, planned_records
from hdpstats.raking.posterior import redrawn
from hdpstats.records.limits import MOST_WITH_HESSIAN
from hdpstats.records.query import PointQuery, unstack

if TYPE_CHECKING:
    from hdpstats.models.points import PointMechanism

PointOptions = ObjectivePerturbation | OutputPerturbation | ExponentialMechanism

SHARES: Final = tuple(Fraction(k, 20) for k in (1, 2, 3, 4, 6, 8, 10, 12, 14))
"""The shares of epsilon for a noisy Hessian that a fit compares first."""

HALVINGS: Final = 3
"""How often shares half-way between the best one and those beside it are compared: predicted errors do not jump."""

SPREADS: Final = (0.2, 0.3, 0.5, 0.7, 1.0)
"""What the smallest curvature of private people may be, over that of people who are spread evenly over the schema.

In 14 designs, six of them of Rotterdam's patients, it was .29 to .94 in 13; in one, with a skewed number of nodes that
was not made a logarithm, .03.
"""

DESCRIBED: Final = (0.5,)
"""The same over that of people who are spread as a description of the private ones says, each column by itself.

In 14 fits to Rotterdam's patients with descriptions of epsilon .5 and 2, with the number of nodes as it is among the
covariates of eight of them, it was .59 to .94.
"""

SKEWED: Final = 0.03
"""The least smallest curvature among those designs: a share is chosen for it too, where that is cheap.

With this one number the share leaps from .13 to .54 of epsilon between 12,600 and 15,800 people, and errors rise by a
twentieth, which a plan names. With several numbers up to .13 it grows step by step, and a fifth of fits to columns that
spread little has no standard errors in place of a twentieth.
"""

DESIGNS: Final = 14
"""`SKEWED` counts as one in so many."""

OPEN: Final = 12
"""Draws of what the noise leaves open of a description."""

LIKELY: Final = 0.6
"""How likely a fit that chooses the share must be to report standard errors, averaged over `SPREADS`."""

SURE: Final = 0.9
"""The same where a description tells how private people spread, averaged over `DESCRIBED`."""

MORE: Final = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)
"""How many times the epsilon a refusal may name."""

HOPELESS: Final = 0.05
"""The chance, with people spread evenly over the schema, below which a share that was asked for is refused."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StandardErrorPlan:
    """What a fit would spend on standard errors, and whether it would report any: from public facts.

    Attributes
    ----------
    options : PointOptions
        Those of the mechanism, the share settled.
    reported : bool
        Whether standard errors are to be expected.
    refusal : str or None
        Where standard errors are wanted and would be NaN, why: the fit is refused before it is charged.
    risk : str
        What may yet hide a noisy Hessian, in words; empty where it is not known, or nothing more can be known of it.
    """

    options: PointOptions
    reported: bool = True
    refusal: str | None = None
    risk: str = ""


People = Mapping[str, int] | Mapping[str, SiteRecords]
"""The numbers of people of sites as they are known before a fit, or what is known once they were asked for."""


def plan_standard_errors(
    spec: LossSpec, mechanism: "PointMechanism", options: PointOptions, request: FitRequest, people: People
) -> StandardErrorPlan:
    r"""Return the share of epsilon that a fit spends on a noisy Hessian, and whether it would report standard errors.

    Public rows that tell the curvature suffice: the share is 0 unless one was asked for, or for regressions what
    `hdpstats.models.sandwich_share` chooses. Elsewhere it is the one among
    `SHARES`, of those that are likely to give standard errors (`LIKELY`), with the least

    .. math:: \frac{1}{p} \sum_j \log v_j - 3 \log P,

    ``v_j`` being the predicted variance of a coefficient and ``P`` the chance that the Hessian stands clear of its
    noise, averaged over `SPREADS`, and over `SKEWED` with the weight of one in `DESIGNS`; where the request has a
    description, over `DESCRIBED` and what noise leaves open of it. Everything follows from public rows, from
    declarations, and from what was released before.
    """
    known = curvature_is_known(spec)
    if known and request.share is None and spec.releases_sandwich:
        return StandardErrorPlan(options=options)
    if request.share == 0 or known:
        return StandardErrorPlan(options=mechanism.settled(options, request.share or Fraction(0)), reported=known)
    alone = mechanism.settled(options, Fraction(0))
    query = next(_queries(spec, mechanism, alone, request, people))[1]
    if not mechanism.releases_hessian or (spec.meat is None and not request.share):
        return StandardErrorPlan(options=alone, reported=False, refusal=_why_unknown(spec))
    asked = (
        _bought(spec, mechanism, mechanism.settled(options, request.share), request, people) if request.share else None
    )
    if asked is not None and asked.chance((1.0,)) >= HOPELESS:
        return StandardErrorPlan(options=mechanism.settled(options, asked.share), risk=_risk(spec, asked))
    best = _best(spec, mechanism, options, request, people) if query.dimension <= MOST_WITH_HESSIAN else None
    likely = best is not None and best.likely
    if asked is None and best is not None and likely:
        return StandardErrorPlan(options=mechanism.settled(options, best.share), risk=_risk(spec, best))
    return StandardErrorPlan(
        options=mechanism.settled(options, request.share or Fraction(0)),
        reported=False,
        refusal=_why_below_noise(spec, request, best=best, likely=likely),
    )


def curvature_is_known(spec: LossSpec) -> bool:
    """Return whether curvature is known from public rows, at the public fit at least."""
    public = spec.public
    if public is None or not public.known:
        return False
    return not public.located or not is_flat(public.moments(public.centre, records=1).H)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Bought:
    """What a share buys: the Hessian that is expected of all sites' people, its noise, and the coefficients' variances.

    ``H`` (B, D, D) are draws of it where a description of the private people tells it (``described``), else one matrix.
    """

    share: Fraction
    H: FloatArray
    noise_sd: float
    variances: FloatArray
    described: bool = False

    @property
    def likely(self) -> bool:
        """Whether a fit that chooses the share may expect standard errors."""
        return self.chance(DESCRIBED) >= SURE if self.described else self.chance(SPREADS) >= LIKELY

    def chance(self, spreads: Sequence[float]) -> float:
        """Return how likely the Hessian is to stand clear of its noise."""
        return float(np.mean([chance_of_clear(H, noise_sd=self.noise_sd, spreads=spreads) for H in self.H]))

    def times(self, k: float) -> "_Bought":
        """Return what the share would buy with ``k`` times the epsilon, about."""
        return replace(self, noise_sd=self.noise_sd / k)

    @property
    def loss(self) -> float:
        """What the chosen share makes least; infinite where standard errors are out of the question."""
        chance = self.chance(DESCRIBED if self.described else SPREADS)
        if not self.described:
            chance += (self.chance((SKEWED,)) - chance) / DESIGNS
        return float(np.mean(np.log(self.variances))) - 3.0 * math.log(chance) if chance > 0.0 else math.inf


def _best(
    spec: LossSpec, mechanism: "PointMechanism", options: PointOptions, request: FitRequest, people: People
) -> _Bought:
    """Return what the best share buys: of those that are likely to give standard errors, else the largest."""

    def bought(share: Fraction) -> _Bought:
        return _bought(spec, mechanism, mechanism.settled(options, share), request, people)

    def best() -> _Bought | None:
        return min((each for each in found.values() if each.likely), key=lambda each: each.loss, default=None)

    found = {share: bought(share) for share in SHARES}
    for _ in range(HALVINGS):
        least = best()
        if least is None:
            return found[SHARES[-1]]
        shares = sorted(found)
        place = shares.index(least.share)
        for low, high in itertools.pairwise(shares[max(0, place - 1) : place + 2]):
            found[(low + high) / 2] = bought((low + high) / 2)
    return best() or found[SHARES[-1]]


def _queries(
    spec: LossSpec, mechanism: "PointMechanism", options: PointOptions, request: FitRequest, people: People
) -> Iterator[tuple[SiteRecords, PointQuery]]:
    """Yield what is known of each site's people, and the query to it."""
    counted = {name: each for name, each in people.items() if isinstance(each, SiteRecords)}
    before = {name: each for name, each in people.items() if not isinstance(each, SiteRecords)}
    planned = planned_records(spec, request, before, averages=mechanism.rests_on_averages(options), expected=False)
    for site in (*planned.values(), *counted.values()):
        yield site, mechanism.ask(spec, options, site)


def _bought(
    spec: LossSpec, mechanism: "PointMechanism", options: PointOptions, request: FitRequest, people: People
) -> _Bought:
    """Return what the share of options would buy. Sites' Hessians are read together where one is not clear by itself.

    Where some site's is expected to be flat, as that of a mean that is cut to the declared range, it buys nothing.
    """
    points, total, square, described = [], np.zeros(()), 0.0, True
    share = options.share or Fraction(0)
    for site, query in _queries(spec, mechanism, options, request, people):
        release, noise = mechanism.expected(spec, query, site)
        H, sd = unstack(np.array(release.hessian), query.dimension), release.hessian_noise_sd
        if is_flat(H):
            return _Bought(share=share, H=H[None], noise_sd=sd, variances=np.full(len(spec.terms), np.inf))
        inverse = np.linalg.inv(H)
        sampling = np.asarray((spec.meat or 1.0) * inverse, dtype=np.float64)
        points.append(PredictedCovariance(sampling=sampling, privacy=inverse @ noise.covariance(H) @ inverse))
        total = total + _possible(spec, query, site, H)
        square, described = square + sd**2, described and site.cohort is not None
    T = spec.to_terms(query.model)
    variances = np.einsum("ij,jk,ik->i", T, averaged(points).covariance, T)
    return _Bought(share=share, H=total, noise_sd=math.sqrt(square), variances=variances, described=described)


def _possible(spec: LossSpec, query: PointQuery, site: SiteRecords, H: FloatArray) -> FloatArray:
    """Return what a site's Hessian may be (B, D, D), for what noise leaves open of a description; else ``H``."""
    if site.cohort is None:
        return H[None]
    may_be = redrawn(site.cohort, count=OPEN)
    return np.array([spec.expected_moments(query, records=site.records, described=each).H for each in may_be])


UNDESCRIBED: Final = (
    "a column in which private people spread little, for what the schema declares, would hide it and give NaN: "
    "fit(description=hdp.describe(...)) knows before the charge"
)


def _risk(spec: LossSpec, bought: _Bought) -> str:
    """Return what may yet hide a noisy Hessian, where a description could tell."""
    return "" if bought.described or averaged_variables(spec) is None else UNDESCRIBED


ALONE: Final = "se_share=0 asks for coefficients alone"


def _why_unknown(spec: LossSpec) -> str:
    """Return why nothing that a fit could spend would give standard errors."""
    least = spec.least_public_rows
    if spec.meat is None:
        return (
            f"the loss has no model that gives its curvature, and there are not {least} complete public rows with the "
            f"outcome whose residuals vary. Give the study such rows; {ALONE}"
        )
    return (
        f"this mechanism releases no noisy Hessian, and {_too_few(spec)}. Use mechanism='objective', or give the study "
        f"public rows; {ALONE}"
    )


def _too_few(spec: LossSpec) -> str:
    """Return which public rows are not there."""
    least = spec.least_public_rows
    if spec.several is None:
        return f"there are not {least} complete public rows that tell the curvature"
    return (
        f"there are not {least} public people with the outcome and the column {spec.study.unit!r}, whose rows tell "
        "correlations within a person"
    )


def _why_below_noise(spec: LossSpec, request: FitRequest, *, best: _Bought | None, likely: bool) -> str:
    """Return why no noisy Hessian would give standard errors, or not the one that was asked for."""
    p, few = len(spec.terms), _too_few(spec)
    if best is None:
        return f"{few}, and a noisy Hessian of {p} coefficients is too large. Take fewer terms; {ALONE}"
    share = f"with se_share={float(request.share):g}" if request.share else "at any share"
    said = (
        f"{few}, and the noisy Hessian of {p} coefficients that they then need would probably be hidden by its noise "
        f"at epsilon={float(request.epsilon):g} {share}. "
    )
    if likely:
        return f"{said}Use se_share={float(best.share):g} or 'auto'; {ALONE}"
    risky = f"se_share={float(best.share):g} tries it, and may report NaN; " if best.chance((1.0,)) >= HOPELESS else ""
    more = next((k for k in MORE if best.times(k).likely), MORE[-1])
    return (
        f"{said}It takes about {more:g} times the epsilon or the number of records, or fewer terms, public rows, or a "
        f"declared row_norm; {risky}{ALONE}"
    )

r"""The query of objective perturbation for a hazard model: geometry, cap, centre and ridge, all from public facts.

**With public people.** Whitened by them, centred at the public fit, capped relative to it: the loss of an interval
saturates at ``e^d`` times the odds (the cumulative hazard, for cloglog) that the public fit predicts, and a person
whose caps from entry to the horizon add up to more than ``H`` counts by ``H`` over their sum. (Where covariates vary
within a person follow-up ends there: `hdpstats.families.hazard.bounds`.) Radius ``R``, total ``H`` and margin ``d``
minimise the determinant of the slopes' predicted covariance against the ordinary fit, pooled with the public fit. It is
the sum of

* the covariance of sampling;
* that of the noise of all sites, averaged by inverse variance;
* the allowance for what weights and caps may do.

Of values that are nearly as good (`SPARE` for each slope) those of the smallest allowance are taken. With the baseline
counted too, more people would make predicted errors of slopes larger: caps that are good for the one are not best for
the other. All sites of a study have one geometry and one set of caps, from pinned grids that go on to where nobody is
weighed down. Noise grows with ``H`` and ``R``, and falls with the number of people and epsilon.

*Allowance.* That of `hdpstats.public.row_weights` for weights of people: Mallows weights times what the cap leaves.
Its ``tau`` comes from the contrast of public people who are weighted at their median length and by `CONTRASTED` caps,
and is `OVER_TIME` times that of a regression. A
relative cap takes the same share of information from everybody where hazards are those of the public fit, and so does
nothing. Where log hazards are above these by ``y``, it takes more: with :math:`u = e^{y - d}` the curvature is
:math:`(1 + u^2)^{-3/2}` times that of the likelihood, with the logarithmic derivative :math:`3 u^2 / (1 + u^2)` in
``u``. Private hazards are taken to be normal about the public ones on the log scale, with the standard deviation
`PREDICTED` (half of them are wrong by a factor of 1.6 or more), and the part of this that differs with covariates to be
``tau z``: with the mean of :math:`|z| / 2`, .4, the standard deviation along every slope is

.. math:: 0.4\, \tau^2\, E\, \frac{3 u^2}{1 + u^2}.

(Resampled patients of Rotterdam with a trial's as public ones, and the other way round: 1 to 1.3 times this for the
slope that a cap moves most, margins .7 to 2.)

Where follow-up ends, all information that is taken away counts: :math:`M = 1 - H_{all}^{-1} H`.

The ridge is each site's own, the larger of two: one that leaves 97 to 70 % of the rate of noise that a free determinant
would (`hdpstats.privacy.hazard_sensitivity`), the largest that errs nearly least, and 0.3 times the ridge of least mean
squared error given the public fit. A larger one asks for less noise, and unshrinking misses more where curvature is not
that of public people: it rests on hazards, which private people have their own of. So the whole pull is taken to stay,
for slopes `UNKNOWN` from the public ones.

**Without.** The schema's box, a flat cap ``h = H / q`` with ``H = 4`` unless it is declared, centred at the constant
hazard under which half of the people have the event by the horizon.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import NamedTuple, TypeVar, final

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from hdpstats._base.caching import remembered
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.hazard.bounds import HazardPersonLoss
from hdpstats.families.hazard.caps import relative_cap
from hdpstats.families.hazard.public import WEAK, HazardSide
from hdpstats.families.hazard.public_fit import Baseline
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.mechanisms.perturbation.request import (
    NEARLY_FREE,
    PULL,
    Asked,
    Recommended,
    kinds,
    largest_good,
)
from hdpstats.noise.distributions import ball_variance
from hdpstats.privacy.hazard_sensitivity import hazard_loss
from hdpstats.privacy.sensitivity import DOWN, Relation
from hdpstats.public.moments import averages
from hdpstats.public.row_weights import (
    APART,
    SPARE,
    STEPS_OF_TWO,
    Allowance,
    Moved,
    UnseenPeople,
    at_radii,
    contrast_tau,
    kept,
    mallows,
    moved,
)
from hdpstats.records.geometry import Geometry, at_radius, on_grid
from hdpstats.records.model import HazardCap, HazardModel
from hdpstats.records.query import LEAST_SMOOTHING

T = TypeVar("T")

TOTALS = tuple(float(f"{2.0 ** (k / STEPS_OF_TWO):.3g}") for k in range(7 * STEPS_OF_TWO + 1))
MARGINS = tuple(k / 20 for k in range(6, 61))
"""Candidates of totals, from 1 to 128, and of margins; radii are those of `hdpstats.public.row_weights.radii`."""

COARSE, STEPS = 8, (4, 2, 1)
"""The search begins with each so many-th total and margin, and goes on about the best one in steps of so many.

With few candidates, far apart, one more person could make errors larger by half.
"""

ENDED_TOTALS = (1.0, 1.8, 3.0, 6.0, 12.0, 25.0)
ENDED_MARGINS = (0.3, 0.7, 1.2)
ENDED_REACHES = (0.6, 1.0, 1.6, 2.5)
"""The same where follow-up ends; radii relative to the median length of a whitened public row."""

HALF = 0.4
"""The mean of half the size of a standard normal variable."""

PREDICTED, NODES = math.log(2.0), 32
"""Standard deviation of private log hazards about those of the public fit; points of the integral over it."""

LEFT = tuple(0.97 * 0.98**k for k in range(17))
"""How much of the noise of a free determinant a ridge may leave: candidates."""

OVER_TIME = 1.5
"""``tau`` over that of regressions: effects on a hazard change over time too.

Colon's effect of the number of nodes levels off; with 1 it was 1.4 and 2.3 standard errors (epsilon 1 and 3) from that
of the ordinary fit with 300,000 people, with 1.5 1.0 and .1, with 2 .9 and .0. Errors grow by a tenth to a half for it.
"""

UNKNOWN = 0.4
"""How far slopes may be from the public ones where a ridge's whole pull stays: twice `SCALE`, in public units."""

CONTRASTED = 0.7, 2.0
"""Margin and total of the caps whose contrast is computed."""

SEARCHED = 300
"""Public people that the search looks at."""

THINNED = 1000
"""And those of which the allowance is computed."""

MOST_TOTAL, MOST_RADIUS = 1e4, 1e6
"""A total and a radius that weigh nobody down, or next to nobody."""

ARBITRARY = 0.85
"""The same where there is no public fit to pull to."""


def choose_loss(
    person_loss: HazardPersonLoss,
    side: HazardSide,
    sites: Sequence[Asked],
    *,
    total: float | None,
    apart: float,
    share: Fraction,
    relation: Relation,
) -> HazardPersonLoss:
    """Return the loss of one person, in the geometry and under the cap that all sites have.

    Parameters
    ----------
    person_loss
        One person's loss, in any geometry and under any cap.
    side
        The public people.
    sites
        What each site is asked.
    total
        A declared ``H``; None leaves it to the search.
    apart
        ``tau``.
    share
        The share of each epsilon that is for something else.
    relation
        Who is a neighbour of whom.
    """
    few, own = side.thinned(SEARCHED), side.counted

    def best(parts: Sequence[_Tried]) -> _Candidate:
        """Return the one of the smallest allowance among those that are nearly as good as any."""
        candidates = [each for part in parts for each in part.candidates]
        H, J, allowances = (
            np.concatenate(each)
            for each in zip(*((part.H, part.J, part.allowances(apart)) for part in parts), strict=True)
        )
        bounds = [person_loss.bounds_of(each.geometry, total=each.cap.total) for each in candidates]
        gradients = np.array([each.gradient_bound for each in bounds])
        private = []
        for site, times in kinds(sites).items():
            n, epsilon = max(site.records, 1), NEARLY_FREE * float(site.epsilon * (1 - share) * (1 - LEAST_SMOOTHING))
            noise = noise_variance(person_loss, gradients, epsilon=epsilon, relation=relation)
            private.append(_covariance(n * H, n * J, noise) / times)
        volumes = _volumes(_together(private) + allowances, side)
        squares = np.trace(allowances[:, own[:, None], own], axis1=1, axis2=2)
        near = volumes <= np.min(volumes) + len(own) * math.log(SPARE)
        return candidates[int(np.argmin(np.where(near, squares, np.inf)))]

    if not side.weighable or person_loss.time_varying:
        return best([_ended(few, totals=ENDED_TOTALS if total is None else (total,))]).loss(person_loss)
    geometries, totals = _geometries(few), TOTALS if total is None else (total,)

    @cache
    def uncut(margin: float) -> _Uncut:
        """Return what people are expected to say under a margin, once for all radii and totals."""
        return _uncut(few, relative_cap(few, total=MOST_TOTAL, margin=margin, weighs=True))

    def among(margins: Sequence[float], radii: Sequence[Geometry], sums: Sequence[float]) -> _Candidate:
        """Return the best one of some margins, radii and totals."""
        return best([_weighed(few, uncut(margin), radii, totals=sums) for margin in margins])

    found = among(MARGINS[::COARSE], geometries[:: -(COARSE // 2)], totals[::COARSE])
    for step in STEPS:
        found = among(
            _about(MARGINS, found.cap.margin, step=step, most=2),
            _about(geometries, found.geometry, step=max(1, step // 2), most=2),
            _about(totals, found.cap.total, step=max(1, step // 2), most=2),
        )
    return found.loss(person_loss)


def _about(grid: Sequence[T], value: T, *, step: int, most: int) -> Sequence[T]:
    """Return a value of a grid, and at most so many to both sides of it, a step apart."""
    place = grid.index(value)
    return grid[place - step * min(most, place // step) : place + step * most + 1 : step]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Candidate:
    """A geometry and a cap that a person's loss may have."""

    geometry: Geometry
    cap: HazardCap

    def loss(self, person_loss: HazardPersonLoss) -> HazardPersonLoss:
        """Return a person's loss with these."""
        return replace(person_loss, model=replace(person_loss.model, geometry=self.geometry, cap=self.cap))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Tried:
    """Several geometries and caps, with what losses under them are expected to do.

    ``H`` and ``J`` (k, D, D) are of one person, ``moved`` says what weights do, ``own`` (D,) what caps do by
    themselves: a standard deviation along each coordinate, over the square of ``tau``.
    """

    candidates: list[_Candidate]
    H: FloatArray
    J: FloatArray
    moved: Moved
    own: FloatArray

    def allowances(self, apart: float) -> FloatArray:
        """Return the covariances (k, D, D) of the allowances; ``apart`` is ``tau``."""
        return self.moved.covariances(apart) + apart**4 * np.diag(self.own**2)


def _covariance(H: FloatArray, J: FloatArray, noise: FloatArray) -> FloatArray:
    """Return predicted covariances (k, D, D) from moments (k, D, D) and the variance (k,) of noise."""
    identity = np.eye(H.shape[1])
    inverse = np.linalg.inv(H + WEAK * identity)
    return np.asarray(inverse @ (J + noise[:, None, None] * identity) @ inverse)


def _together(covariances: Sequence[FloatArray]) -> FloatArray:
    """Return the covariances (k, D, D) of averages by inverse variance, of kinds of sites."""
    if len(covariances) == 1:
        return covariances[0]
    return np.asarray(np.linalg.inv(np.sum([np.linalg.inv(each) for each in covariances], axis=0)))


def _volumes(private: FloatArray, side: HazardSide) -> FloatArray:
    """Return the log determinants (k,) of the slopes' covariances when private ones are pooled with the public fit.

    Of all coefficients where there are no slopes. That of a part of an inverse is the log determinant of the other part
    of the matrix less that of the whole.
    """
    pooled = np.linalg.inv(private) + np.linalg.inv(side.fit.covariance)
    others = np.setdiff1d(np.arange(side.dimension), side.counted)
    whole, rest = (np.linalg.slogdet(each)[1] for each in (pooled, pooled[:, others[:, None], others]))
    return np.asarray(rest - whole)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Uncut:
    """People whom neither a radius nor a total weighs down: their spells, and what each is expected to say.

    ``H`` and ``J`` are stacked (people, D (D + 1) / 2), ``average`` (D, D) is that of ``H``; ``cap`` has the largest
    total. ``sizes`` are of the people, ``unseen`` of those whom public ones do not show, where there are such.
    """

    cap: HazardCap
    H: FloatArray
    J: FloatArray
    average: FloatArray
    sizes: "_Sizes"
    unseen: "_Sizes | None"


class _Sizes(NamedTuple):
    """What radii and totals weigh people by: squared lengths and sums of caps, up to the horizon (people,)."""

    squares: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, spells: CappedSpells, *, intervals: int) -> "_Sizes":
        """Return those of spells, in their order."""
        return cls(squares=np.sum(spells.Z**2, axis=1), sums=spells.sums_to_horizon(intervals=intervals))

    def of_people(self, person: IntArray, *, people: int) -> "_Sizes":
        """Return those of people (people,) from those of their spells, one each; of others zeros."""
        found = np.zeros((2, people))
        found[:, person] = self
        return _Sizes(*found)

    def weights(self, candidates: Sequence[_Candidate]) -> FloatArray:
        """Return what geometries and caps leave of each person's weight (k, people)."""
        totals = np.array([each.cap.total for each in candidates])[:, None]
        by_radius = mallows(self.squares, [each.geometry for each in candidates])
        return np.asarray(np.minimum(1.0, totals / np.maximum(self.sums, 1e-300)) * by_radius)


def _uncut(side: HazardSide, whole: HazardCap) -> _Uncut:
    """Return people under a cap with the largest total."""
    full = side.at(at_radius(side.geometry, MOST_RADIUS), whole)
    H, J = full.triangles(side.centre)
    (average,) = averages(H, row_weights=np.ones((1, side.people)) / side.people, levelled=side.levelled)
    intervals = len(side.starts)
    return _Uncut(
        cap=whole,
        H=H,
        J=J,
        average=average,
        sizes=_Sizes.of(full.spells, intervals=intervals).of_people(side.rows.person, people=side.people),
        unseen=None if side.unseen is None else _Sizes.of(_unseen(full.spells, side.unseen), intervals=intervals),
    )


def _unseen(spells: CappedSpells, people: UnseenPeople) -> CappedSpells:
    """Return spells of people whom public ones do not show, under the cap of these."""
    X = people.X
    none = np.zeros(len(X), dtype=np.int64)
    return replace(
        spells,
        Z=X[:, 1:],
        entry=none,
        last=none,
        cause=none,
        weights=np.ones(len(X)),
        offset=np.zeros(len(X)),
        whole=None,
    )


def _weighed(side: HazardSide, full: _Uncut, geometries: Sequence[Geometry], *, totals: Sequence[float]) -> _Tried:
    """Return losses of one margin under several totals and in several geometries, of people who are weighed down."""
    caps = [replace(full.cap, total=total) for total in totals]
    return _of_weighed([_Candidate(geometry=geometry, cap=cap) for geometry in geometries for cap in caps], side, full)


def _of_weighed(candidates: list[_Candidate], side: HazardSide, full: _Uncut) -> _Tried:
    """Return what losses do that differ in total and radius alone from people who are not weighed down."""
    average = partial(averages, levelled=side.levelled)
    weights = full.sizes.weights(candidates)
    left = average(full.H, row_weights=weights / side.people)
    means = kept(left, full.average, side.covariates)
    N = average(full.H, row_weights=0.5 * np.abs(weights - means[:, None]) / side.people)
    if side.unseen is not None and full.unseen is not None and len(side.covariates):
        found = side.unseen.moved(full.unseen.weights(candidates), means)[:, 1:, 1:]
        for part in side.levelled:
            N[:, part, part] += float(np.mean(np.diag(full.average)[side.covariates])) * found
    floor = 1e-9 * np.trace(full.average) * np.eye(len(full.average))
    return _Tried(
        candidates=candidates,
        H=left,
        J=average(full.J, row_weights=weights**2 / side.people),
        moved=moved(left + floor, N, shares=1.0 - means),
        own=_own(side, full.cap.margin),
    )


def _own(side: HazardSide, margin: float) -> FloatArray:
    """Return what a relative cap does by itself: a standard deviation (D,) along each slope, over ``tau^2``."""
    z, density = _normal_nodes()
    square, own = np.exp(2.0 * (PREDICTED * z - margin)), np.zeros(side.dimension)
    own[side.covariates] = HALF * float(density @ (3.0 * square / (1.0 + square))) / math.sqrt(2.0 * math.pi)
    return own


@remembered(1)
def _normal_nodes() -> tuple[FloatArray, FloatArray]:
    """Return the points and weights (NODES,) of integrals over a normal variable, up to the root of 2 pi."""
    return hermegauss(NODES)


def _ended(side: HazardSide, *, totals: Sequence[float]) -> _Tried:
    """Return losses under which follow-up ends."""
    lengths = np.linalg.norm(side.spells.Z, axis=1)
    middle = max(float(np.median(lengths)), 1e-3) if lengths.size else 1.0
    radii = [max(middle * reach, 0.05) for reach in ENDED_REACHES] if side.spells.Z.shape[1] else [1.0]
    parts = [
        _of_ended(
            [
                _Candidate(
                    geometry=at_radius(side.geometry, radius), cap=relative_cap(side, total=total, margin=margin)
                )
                for total in totals
                for radius in radii
            ],
            side,
        )
        for margin in ENDED_MARGINS
    ]
    return _Tried(
        candidates=[each for part in parts for each in part.candidates],
        H=np.concatenate([part.H for part in parts]),
        J=np.concatenate([part.J for part in parts]),
        moved=Moved(
            shares=np.concatenate([part.moved.shares for part in parts]),
            matrices=np.concatenate([part.moved.matrices for part in parts]),
        ),
        own=parts[0].own,
    )


def _of_ended(candidates: list[_Candidate], side: HazardSide) -> _Tried:
    """Return what losses of one margin do under which follow-up ends: all that they take away counts."""
    D, cap = side.dimension, replace(candidates[0].cap, total=MOST_TOTAL)
    full = side.at(at_radius(side.geometry, MOST_RADIUS), cap).moments(side.centre, records=1.0).H
    found = [side.at(each.geometry, each.cap).moments(side.centre, records=1.0) for each in candidates]
    H, J = np.array([each.H for each in found]), np.array([each.J for each in found])
    return _Tried(
        candidates=candidates,
        H=H - WEAK * np.eye(D),
        J=J,
        moved=Moved(
            shares=1.0 - kept(H, full, side.covariates),
            matrices=np.linalg.solve(full, full - H),
        ),
        own=_own(side, cap.margin),
    )


def _geometries(side: HazardSide) -> list[Geometry]:
    """Return the geometries to try."""
    lengths = np.linalg.norm(side.spells.Z, axis=1)
    if not side.spells.Z.shape[1]:
        return [at_radius(side.geometry, 1.0)]
    farthest = float(np.max(lengths)) if side.unseen is None else side.unseen.farthest
    middle = max(float(np.median(lengths)), 1e-3)
    return at_radii(side.geometry, middle=middle, farthest=farthest)


def allowance(model: HazardModel, side: HazardSide, *, apart: float) -> Allowance:
    """Return what weights and caps of people may do to an estimate; ``apart`` is ``tau``."""
    asked, few = _Candidate(geometry=model.geometry, cap=model.cap), side.thinned(THINNED)
    whole = replace(model.cap, total=MOST_TOTAL)
    found = _of_weighed([asked], few, _uncut(few, whole)) if model.cap.weighs else _of_ended([asked], few)
    return Allowance(share=float(found.moved.shares[0]), covariance=found.allowances(apart)[0])


def public_tau(side: HazardSide, *, time_varying: bool) -> float:
    """Return ``tau`` as public people tell it, where each of them has one spell (`hdpstats.public.row_weights`)."""
    if time_varying or not side.weighable or not side.covariates.size:
        return OVER_TIME * APART
    margin, total = CONTRASTED
    whole = relative_cap(side, total=MOST_TOTAL, margin=margin, weighs=True)
    middle = max(float(np.median(np.linalg.norm(side.spells.Z, axis=1))), 1e-3)
    weighed = _Candidate(geometry=at_radius(side.geometry, middle), cap=replace(whole, total=total))
    full = side.at(at_radius(side.geometry, MOST_RADIUS), whole)
    influences = full.influences() - side.at(weighed.geometry, weighed.cap).influences()
    few, own = side.thinned(THINNED), side.covariates
    M = _of_weighed([weighed], few, _uncut(few, whole)).moved.matrices[0]
    return OVER_TIME * contrast_tau(influences[:, own], M[own], unit=1.0)


def choose_ridge(
    person_loss: HazardPersonLoss, side: HazardSide, *, records: int, epsilon: Fraction, relation: Relation
) -> Recommended:
    """Return what is recommended to one site that spends ``epsilon`` on objective and smoothing."""
    share, n, model = epsilon * (1 - LEAST_SMOOTHING), max(records, 1), person_loss.model
    moments = side.at(model.geometry, model.cap).moments(side.centre, records=n)
    h, axes = np.linalg.eigh(moments.H)
    scores = np.einsum("ji,jk,ki->i", axes, moments.J, axes)
    gradient = np.array(person_loss.bounds.gradient_bound)
    noise = float(noise_variance(person_loss, gradient, epsilon=float(share), relation=relation))
    level, known = float(np.mean(np.diag(moments.H))), float(np.mean(np.diag(side.fit.information)))
    ridges, errors = [], []
    for left in LEFT:
        free = free_ridge(person_loss, epsilon=share, share=left, relation=relation)
        ridge = max(free, PULL * (1.0 + noise / left**2 / level) * known)
        missed = (ridge / (h + ridge) * side.fit.unit * UNKNOWN) ** 2
        ridges.append(ridge)
        errors.append(float(np.mean(((scores + noise / left**2) / h**2 + missed) / ((scores + noise) / h**2))))
    return Recommended(centre=on_grid(side.centre), ridge=largest_good(ridges, errors))


def choose_flat(
    person_loss: HazardPersonLoss, baseline: Baseline, *, epsilon: Fraction, relation: Relation
) -> Recommended:
    """Return what is recommended for a loss under a flat cap, where there is no public fit."""
    model = person_loss.model
    half = -math.expm1(math.log(0.5) / (model.grid.intervals * model.causes))
    level = float(person_loss.loss.predictor(np.array(half)))
    block = np.concatenate(
        [level * np.linalg.solve(baseline.mixing, baseline.constant), np.zeros(len(model.geometry.location))]
    )
    ridge = free_ridge(person_loss, epsilon=epsilon * (1 - LEAST_SMOOTHING), share=ARBITRARY, relation=relation)
    return Recommended(centre=on_grid(np.tile(block, model.causes)), ridge=ridge)


def noise_variance(
    person_loss: HazardPersonLoss, gradients: FloatArray, *, epsilon: float, relation: Relation
) -> FloatArray:
    """Return the variance of each coordinate of noise that spends ``epsilon`` on gradients of some lengths alone."""
    rates = epsilon / (relation.persons_changed * gradients * person_loss.largest_weight)
    return np.asarray(ball_variance(person_loss.dimension, 1.0) / rates**2)


def free_ridge(person_loss: HazardPersonLoss, *, epsilon: Fraction, share: float, relation: Relation) -> float:
    """Return the smallest ridge (to a hundredth) that leaves ``share`` of the noise of a free determinant.

    It is the smallest one at which `hazard_noise` would certify that rate of the noise.
    """
    bounds, target = person_loss.bounds, float(epsilon) * DOWN
    rate = share * (float(epsilon) / (relation.persons_changed * bounds.gradient_bound)) / DOWN

    def leaves(ridge: float) -> bool:
        """Return whether a ridge per unit of weight does."""
        return hazard_loss(bounds, noise=rate, curvature=1.0 / ridge / DOWN, relation=relation) <= target

    low, high = 0.0, 1e6 * bounds.trace / float(epsilon)
    while high > 1.01 * max(low, 1e-12 * high):
        middle = math.sqrt(low * high) if low > 0 else high / 4.0
        low, high = (low, middle) if leaves(middle) else (middle, high)
    return high * person_loss.largest_weight

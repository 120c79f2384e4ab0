r"""The public side of a hazard model: public people in a geometry and under a cap, and the curvature to expect.

At coefficients ``theta`` the expected Hessian of a person at risk in interval ``s`` is
``{(1 - p) c' + p (-e')} x x'``, and the scores of successive intervals are martingale differences with covariance
``{(1 - p) c^2 + p e^2} x x'``: with a consistent loss they have mean zero given the past. Summed over the intervals in
which public people are at risk these are the moments of `PublicSide`. Where ``theta`` is not the public fit, a public
person is at risk in interval ``s`` more or less often than a private one with the same covariates: the interval counts
by the ratio of the two probabilities of having survived up to it, under ``theta`` and under the public fit. (Scores of
different causes have covariance ``-c_k c_l`` in one interval, a product of two hazards, which is left out.)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
import scipy

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.hazard.caps import UNCAPPED_MARGIN, UNCAPPED_TOTAL, relative_cap
from hdpstats.families.hazard.likelihood import Likelihood
from hdpstats.families.hazard.outcomes import followed_as_public
from hdpstats.families.hazard.public_fit import Baseline, PublicSpells, fit_public, mixed_baseline
from hdpstats.families.hazard.raked import ALMOST, Reached, raked_hazard
from hdpstats.families.hazard.spells import CappedSpells
from hdpstats.formulas.compiler import SurvivalDesign
from hdpstats.losses import LINKS
from hdpstats.public.invented import unknown_directions
from hdpstats.public.moments import Coverage, Moments, PublicFit, averaged, averaged_sums
from hdpstats.public.row_weights import UnseenPeople
from hdpstats.raking.curvature import RakeableSide
from hdpstats.raking.people import WhitenedPeople, whitened_people
from hdpstats.raking.raking import PublicVariables, RakedPeople
from hdpstats.records.geometry import Geometry, mallows_weights, whiten
from hdpstats.records.model import HazardCap

WEAK = 0.1
"""Information added in every direction: of intervals that follow-up never reaches the private people say nothing."""

STRATA = ", a stratum of 70 % in place of 30 %"
LATE = ", late entry of 53 % in place of 20 %"
COVERED = {
    ("strata", "logit"): Coverage(fits="hazard models (logit) with two strata", share=0.88, besides=STRATA),
    ("strata", "cloglog"): Coverage(fits="hazard models (cloglog) with two strata", share=0.88, besides=STRATA),
    ("late entry", "logit"): Coverage(fits="hazard models (logit) with late entry", share=0.88, besides=LATE),
    ("late entry", "cloglog"): Coverage(fits="hazard models (cloglog) with late entry", share=0.89, besides=LATE),
    ("several rows", "logit"): Coverage(fits="hazard models (logit) with a covariate that changes", share=0.87),
    ("several rows", "cloglog"): Coverage(fits="hazard models (cloglog) with a covariate that changes", share=0.90),
}
"""See `hdpstats.public.moments.PublicSide.covered_unlike`: by the link and by why public rows cannot be raked."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class HazardSide(RakeableSide):
    """Public people of a hazard model in a geometry and under a cap.

    Attributes
    ----------
    baseline, geometry, cap
        What a query takes from here.
    spells : CappedSpells
        The spells in that geometry, weighed or ended by the cap; their weights are case weights times Mallows weights,
        times what the cap leaves of them.
    rows : PublicSpells
        The spells as they were, before any cap.
    fit : PublicFit
        The public fit.
    starts : (q,) float64
        Where intervals begin.
    variables : PublicVariables or None
        The people by variables, where each has one spell from time 0.
    unseen : UnseenPeople or None
        People whom the public ones do not show.
    covered_unlike : Coverage or None
        See `hdpstats.public.moments.PublicSide.covered_unlike`.
    """

    baseline: Baseline
    geometry: Geometry
    cap: HazardCap
    spells: CappedSpells
    rows: PublicSpells
    fit: PublicFit
    starts: FloatArray
    variables: PublicVariables | None = None
    unseen: UnseenPeople | None = None
    covered_unlike: Coverage | None = None

    @property
    def dimension(self) -> int:
        """The number of coefficients of all causes."""
        return self.spells.causes * self.spells.block

    @property
    def people(self) -> int:
        """The number of people."""
        return self.rows.people

    @property
    def taken_alike(self) -> str:
        """Covariates and follow-up; of people with late entry, strata or several rows no averages tell of either."""
        if self.variables is not None:
            return "covariates and follow-up"
        return "covariates and follow-up (who enters and leaves when, with which covariates and in which stratum)"

    @property
    def seen(self) -> int:
        """The number of public people."""
        return self.people if self.rows.groups is None else int(np.sum(self.rows.groups == 0))

    @property
    def invented(self) -> IntArray | None:
        """Which people are invented, and for which value."""
        return self.rows.groups

    @property
    def centre(self) -> FloatArray:
        """The public fit."""
        return self.fit.theta

    @property
    def covariates(self) -> IntArray:
        """The coordinates of the slopes of all causes."""
        return self._slopes.ravel()

    @property
    def counted(self) -> IntArray:
        """The same, or all coordinates where there are no slopes."""
        return self.covariates if self.covariates.size else np.arange(self.dimension)

    @property
    def row_blocks(self) -> tuple[Sequence[IntArray], int]:
        """Covariates alone: the intercept of a whitened row stands for the baseline."""
        return [self.covariates], 1

    @property
    def sloped_rows(self) -> tuple[FloatArray, Sequence[IntArray]]:
        """Those of spells, and the slopes of each cause."""
        return self.spells.Z, [*self._slopes]

    @property
    def far_people(self) -> UnseenPeople | None:
        """As many as in regressions: there is no cap that would allow for more."""
        return None if self.unseen is None else self.unseen.unlike(intercept=True)

    @property
    def _slopes(self) -> IntArray:
        """The coordinates of the slopes of each cause (causes, p)."""
        spells = self.spells
        return np.arange(self.dimension).reshape(spells.causes, -1)[:, spells.block - spells.Z.shape[1] :]

    @property
    def levelled(self) -> tuple[slice, ...]:
        """The same, cause by cause."""
        return tuple(slice(own[0], own[-1] + 1) for own in self._slopes if len(own))

    @property
    def undetermined(self) -> bool:
        """Whether people do not vary along some direction of the whitened covariates."""
        return unknown_directions(self.spells.Z) is not None

    @property
    def case_weights(self) -> FloatArray:
        """The people's case weights, where each has one spell."""
        return self.rows.weights

    @property
    def cells(self) -> int:
        """The number of intervals."""
        return len(self.spells.A)

    def moments(self, theta: FloatArray, *, records: float, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        levelled = self.levelled
        if row_weights is None:
            H, J = self._sums_at_fit if np.array_equal(theta, self.fit.theta) else self._sums(theta)
            found = averaged_sums(H, J, records=records, people=self.people, levelled=levelled)
        else:
            found = averaged(self.triangles(theta), records=records, row_weights=row_weights, levelled=levelled)
        return replace(found, H=found.H + WEAK * np.eye(self.dimension))

    def whitened(self, people: RakedPeople) -> WhitenedPeople:
        """Return raked public people in the geometry."""
        return whitened_people(self.geometry, people)

    def as_raked(self, people: WhitenedPeople) -> "HazardSide":
        """Return raked people in place of public ones; see `RakeableSide.as_raked`."""
        rows = replace(self.rows, weights=self.rows.weights * people.weights[0] * self.people)
        spells = replace(self.spells, Z=np.ascontiguousarray(people.z[0]))
        return replace(self, rows=rows, spells=spells).at(self.geometry, self.cap)

    def raked_moments(self, theta: FloatArray, *, records: float, people: WhitenedPeople) -> Moments:
        """Return ``H`` and ``J`` of ``records`` raked public people: see `hdpstats.families.hazard.raked`."""
        found = raked_hazard(
            self.spells,
            theta,
            case_weights=self.case_weights,
            people=people,
            reached=self._reached(people.raked),
            weighs=bool(self.cap.weighs),
        )
        return Moments(H=records * found.H + WEAK * np.eye(self.dimension), J=records * found.J)

    def _reached(self, people: RakedPeople) -> Reached:
        """Return by how many each interval is reached: as described, else as public people are followed."""
        if people.times.size:
            return Reached(at_risk=people.at_risk_at(self.starts))
        rows = self.rows
        followed = followed_as_public(entry=rows.entry, last=rows.exit, event=rows.cause, intervals=self.cells)
        return Reached(uncensored=np.cumsum(followed[:, ::-1], axis=1)[:, ::-1].mean(axis=0)[None])

    def influences(self) -> FloatArray:
        """Return by how much each real person moves the minimum of the criterion from the public fit (people, D).

        To first order, times -1: the inverse of the expected Hessian times the score of the own outcome.
        """
        scores = np.zeros((self.people, self.dimension))
        np.add.at(scores, self.rows.person, self.spells.weights[:, None] * self.spells.scores(self.centre))
        if self.invented is not None:
            scores[self.invented != 0] = 0.0
        H = self.moments(self.centre, records=self.seen).H
        return np.asarray(np.linalg.solve(H, scores.T).T, dtype=np.float64)

    def triangles(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the stacked expected Hessian and score covariance of each person (people, D (D + 1) / 2)."""
        spells, D, person = self.spells, len(theta), self.rows.person
        H, J = np.zeros((2, self.people, D * (D + 1) // 2))
        own = np.array_equal(person, np.arange(self.people))  # of each person one spell
        for part, intervals, of_causes in self._cells(theta):
            hessians, meat = (H[part], J[part]) if own else np.zeros((2, part.stop - part.start, H.shape[1]))
            for cause, (curvature, square) in enumerate(of_causes):
                spells.add_outer(hessians, curvature, part, intervals, cause)
                spells.add_outer(meat, square, part, intervals, cause)
            if not own:
                np.add.at(H, person[part], hessians)
                np.add.at(J, person[part], meat)
        return H, J

    @cached_property
    def _sums_at_fit(self) -> tuple[FloatArray, FloatArray]:
        return self._sums(self.fit.theta)

    def _sums(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of the people's expected Hessians and score covariances (D, D)."""
        H, J = np.zeros((2, len(theta), len(theta)))
        for part, intervals, of_causes in self._cells(theta):
            for cause, (curvature, square) in enumerate(of_causes):
                self.spells.add_sum(H, curvature, part, intervals, cause)
                self.spells.add_sum(J, square, part, intervals, cause)
        return H, J

    def _cells(self, theta: FloatArray) -> Iterator[tuple[slice, slice, list[tuple[FloatArray, FloatArray]]]]:
        """Yield blocks of spells and intervals with the weighted curvature and squared score of each cause."""
        spells, at_fit = self.spells, np.array_equal(theta, self.fit.theta)
        before = np.zeros(len(spells.Z)) if at_fit else self._survived_before(theta)
        for part, intervals in spells.blocks():
            at_risk, weight = spells.at_risk(part, intervals), spells.weights[part, None]
            if not at_fit:
                gain = self._log_survival_gain(theta, part, intervals)
                at_risk *= np.exp(before[part, None] + np.cumsum(gain, axis=1) - gain)
            found = []
            for cause in range(spells.causes):
                eta = spells.predictor(theta, part, intervals, cause)
                cells = spells.loss.cells(eta, spells.log_caps(part, intervals, cause))
                p = spells.loss.hazard(eta)
                curvature = (1.0 - p) * cells.survived_curvature + p * cells.event_curvature
                square = (1.0 - p) * cells.survived**2 + p * cells.event**2
                found.append((weight * at_risk * curvature, weight**2 * at_risk * square))
            yield part, intervals, found

    def _survived_before(self, theta: FloatArray) -> FloatArray:
        """Return what each spell's person gained in log survival in earlier spells (m,)."""
        person = self.rows.person
        gains = np.zeros(len(person))
        if not self._several:
            return gains
        for part, intervals in self.spells.blocks():
            gains[part] = self._log_survival_gain(theta, part, intervals).sum(axis=1)
        whole = np.cumsum(gains) - gains
        return np.asarray(whole - whole[np.searchsorted(person, person)], dtype=np.float64)

    def _log_survival_gain(self, theta: FloatArray, part: slice, intervals: slice) -> FloatArray:
        """Return the log ratio of surviving each interval under ``theta`` and under the public fit, 0 out of risk."""
        gain = np.zeros((part.stop - part.start, intervals.stop - intervals.start))
        whole = part == slice(0, len(self.spells.Z))
        public = self._survivals_at_fit if whole else self._log_survivals(self.fit.theta, part, intervals)
        for here, there in zip(self._log_survivals(theta, part, intervals), public, strict=True):
            gain += here - there
        return gain * self.spells.at_risk(part, intervals)

    def _log_survivals(self, theta: FloatArray, part: slice, intervals: slice) -> list[FloatArray]:
        """Return the log of surviving each interval of a block, of each cause alone."""
        spells = self.spells
        hazards = (
            spells.loss.hazard(spells.predictor(theta, part, intervals, cause)) for cause in range(spells.causes)
        )
        return [np.asarray(np.log1p(-np.minimum(each, ALMOST))) for each in hazards]

    @cached_property
    def _survivals_at_fit(self) -> list[FloatArray]:
        """Those at the public fit, where all spells are one block."""
        return self._log_survivals(self.fit.theta, slice(0, len(self.spells.Z)), slice(0, len(self.spells.A)))

    def at(self, geometry: Geometry, cap: HazardCap) -> "HazardSide":
        """Return the same people at another radius and under another cap."""
        square = np.sum(self.spells.Z**2, axis=1)
        whole = replace(
            self.spells,
            last=self.rows.exit,
            cause=self.rows.cause,
            weights=self.rows.weights * mallows_weights(square, geometry),
            cap_baseline=np.array(cap.baseline),
            cap_slopes=np.array(cap.slopes).reshape(len(cap.baseline), -1),
            margin=cap.margin,
            total=cap.total,
        )
        if cap.weighs:
            spells = whole.weighed(intervals=len(self.starts))
        else:
            spells = whole.ended(self.rows.person, several=self._several)
        return replace(self, geometry=geometry, cap=cap, spells=spells)

    @property
    def weighable(self) -> bool:
        """Whether each person has one spell, so that people can be weighed by their caps up to the horizon."""
        return not self._several

    @property
    def _several(self) -> bool:
        """Whether people may have several spells; those of one stand together."""
        person = self.rows.person
        return bool(np.any(person[1:] == person[:-1]))

    def thinned(self, most: int) -> "HazardSide":
        """Return at most ``most`` of the people, evenly spread over the rows."""
        if self.people <= most:
            return self
        chosen = np.unique(np.linspace(0, self.people - 1, most).astype(np.int64))
        place = np.full(self.people, -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        kept = place[self.rows.person] >= 0
        rows = self.rows.take(kept)
        groups = None if rows.groups is None else rows.groups[chosen]
        rows = replace(rows, person=place[rows.person], people=len(chosen), groups=groups)
        return replace(self, spells=self.spells.take(kept), rows=rows, variables=None)


def measured_coverage(design: SurvivalDesign, *, link: str, causes: int, several: bool) -> Coverage | None:
    """Return what was measured of a hazard model; None of several causes, and of more than one thing in `COVERED`.

    People with ``several`` rows enter late with all rows but the first: this is not late entry.
    """
    of_strata, of_entry = bool(design.strata), design.start is not None and not several
    found = {"strata": of_strata, "late entry": of_entry, "several rows": several}
    kinds = [kind for kind, is_so in found.items() if is_so]
    return COVERED.get((kinds[0], link)) if len(kinds) == 1 and causes == 1 else None


def hazard_side(
    rows: PublicSpells,
    design: SurvivalDesign,
    features: FloatArray,
    *,
    link: str,
    causes: int,
    starts: FloatArray,
    variables: PublicVariables | None = None,
    unseen: Callable[[Geometry], UnseenPeople] | None = None,
    geometry: Geometry | None = None,
    covered_unlike: Coverage | None = None,
) -> HazardSide:
    """Return the public people, in their own whitening where there is no other, hardly capped, with the public fit."""
    geometry = design.covariates.whitening(rows.X) if geometry is None else geometry
    seen = rows.seen
    baseline = mixed_baseline(features)
    Z = whiten(geometry, rows.X).X[:, 1:]
    own = whiten(geometry, seen.X).X[:, 1:]
    fit = fit_public(seen, baseline, geometry, own, link=link, causes=causes)
    whole = CappedSpells(
        loss=LINKS[link],
        A=baseline.mixed,
        Z=Z,
        entry=rows.entry,
        last=rows.exit,
        cause=rows.cause,
        weights=rows.weights,
        offset=rows.offset,
        cap_baseline=np.zeros((causes, len(features))),
        cap_slopes=np.zeros((causes, Z.shape[1])),
        margin=0.0,
        total=1.0,
    )
    nothing = HazardCap(total=1.0, margin=0.0, baseline=(), slopes=())
    side = HazardSide(
        baseline=baseline,
        geometry=geometry,
        cap=nothing,
        spells=whole,
        rows=rows,
        fit=fit,
        starts=starts,
        variables=variables,
        unseen=None if unseen is None else unseen(geometry),
        covered_unlike=covered_unlike,
    )
    return side.at(geometry, relative_cap(side, total=UNCAPPED_TOTAL, margin=UNCAPPED_MARGIN))


NUMBERS = 2**20
"""Numbers of terms that are held at a time, however many spells there are."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SpellScores:
    """The scores of spells (m, D) at some coefficients, and the weighted sum of their Hessians (D, D)."""

    scores: FloatArray
    information: FloatArray


def spell_scores(
    rows: PublicSpells, features: FloatArray, *, values: FloatArray, link: str, causes: int
) -> SpellScores:
    """Return each spell's gradient of minus the log-likelihood, and the weighted information.

    Arguments are those of `public_fit.hazard_likelihood`, with identified coefficients ``values`` (causes (e + p),).
    """
    X, known = rows.X[:, 1:], LINKS[link]
    e, blocks = features.shape[1], values.reshape(causes, -1)
    scores = np.zeros((len(X), values.size))
    size = max(1, NUMBERS // len(features))
    intervals = np.arange(1, len(features) + 1)
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        Z, exit_ = X[part], rows.exit[part, None]
        at_risk = (intervals > rows.entry[part, None]) & (intervals <= exit_)
        for cause, theta in enumerate(blocks):
            eta = features @ theta[:e] + (Z @ theta[e:] + rows.offset[part])[:, None]
            ends = (rows.cause[part, None] == cause + 1) & (intervals == exit_)
            score = np.where(at_risk, np.where(ends, known.event(eta).score, known.survive(eta).score), 0.0)
            block = slice(cause * len(theta), (cause + 1) * len(theta))
            scores[part, block] = np.column_stack([score @ features, score.sum(axis=1)[:, None] * Z])
    information = [
        Likelihood(rows.data(features, X, cause=cause + 1), known).hessian(theta) for cause, theta in enumerate(blocks)
    ]
    return SpellScores(scores=scores, information=scipy.linalg.block_diag(*information))

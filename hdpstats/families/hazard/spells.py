r"""Spells with capped losses under a discrete-time hazard model, never expanded to person-period rows.

A spell at risk in intervals ``entry + 1 .. last`` contributes, for every cause ``k``,

.. math:: \omega_i \Big\{\sum_s \ell_s(\eta_{iks})\Big\}, \qquad \eta_{iks} = A_s'\alpha_k + z_i'\beta_k + o_i,

with the survived loss in every interval but, where the spell ends in an event of cause ``k``, the event's loss in the
last (`hdpstats.losses.hazard_links`). ``theta`` stacks ``(alpha_k, beta_k)`` over causes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.rehearsal import full_length
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.losses import HazardLink
from hdpstats.losses.base import FARTHEST
from hdpstats.solvers.kernels import (
    ALL,
    SPAN,
    STEEPEST,
    TOGETHER,
    Factors,
    Pair,
    add_caps,
    add_curvatures,
    add_scores,
    coefficient_parts,
    compensated_pairs,
    compensated_work,
    exponential,
    product_work,
    row_products,
    to_ratios,
    two_sums,
)

LEAST_SHARE = 2.0**-40
"""The least share of a weight that `CappedSpells.weighed` leaves."""

CELLS = 400_000
"""Spells times intervals that are handled at a time."""


def cap_sums_work(rows: int, *, p: int, q: int, causes: int, functions: float) -> Operations:
    """Return what the sums of the caps of so many spells take at most, by factors and cell by cell."""
    cells = float(rows) * q
    blocks = cells / CELLS + rows // max(1, CELLS // q) / 1.0 + 1.0
    around = 2.0 * causes * product_work(rows, p) + Operations(steps=60.0, functions=2.0 * causes * rows)
    by_factors = Operations(products=(causes + 4.0) * cells)
    by_cells = Operations(
        steps=blocks * (60.0 + 30.0 * causes),
        passes=(16.0 + 8.0 * causes) * cells,
        functions=(1.0 + functions) * causes * cells,
    )
    return around + by_factors + by_cells


def scores_work(rows: int, *, p: int, q: int, e: int, causes: int, functions: float, most: int = 2**62) -> Operations:
    """Return what the scores, or the curvatures, of so many spells take at most, by factors and cell by cell.

    ``most``: how many are handled at a time.
    """
    parts, cells = rows // most + 1.0, float(rows) * q * causes
    blocks = rows // max(1, CELLS // q) + parts
    of_intervals = Operations(steps=100.0 * causes + 20.0, passes=(60.0 + 20.0 * e) * q * causes)
    around = of_intervals + 2.0 * causes * (compensated_work(rows, p) + product_work(rows, p))
    by_factors = Operations(functions=3.0 * causes * rows, products=(6.0 + e) * cells, passes=40.0 * causes * rows)
    sums = (e + 1.0) * 30.0 * math.ceil(math.log(max(q, 2), TOGETHER))  # of `_sums`, whose terms are transposed
    by_cells = Operations(
        steps=causes * (parts * (124.0 + 12.0 * e) + blocks * (184.0 + 12.0 * e + sums)),
        passes=(52.0 + 4.0 * e) * cells + 4.0 * causes * q * e * blocks,
        functions=functions * cells,
    )
    return around + by_factors + by_cells + Operations(passes=3.0 * causes * rows * (p + e))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CauseCoefficients:
    """The coefficients of a cause (0-based), and what they are for all spells alike.

    Attributes
    ----------
    cause : int
        The cause.
    parts : (3, p) float64
        ``beta`` as compensated products need it.
    a : pair of (q,) float64
        ``A_s'alpha``, an unevaluated sum.
    cap : (q,) float64
        ``gamma_s + d``.
    middle : float
        ``r``, near the middle of the exponents ``A_s'alpha - gamma_s - d``.
    E, G : (q,) float64 or None
        The factors of ratios and caps; None where coefficients or caps are too far apart for them.
    """

    cause: int
    parts: FloatArray
    a: Pair
    cap: FloatArray
    middle: float
    E: FloatArray | None
    G: FloatArray | None


Cells = Callable[["CappedSpells", CauseCoefficients, slice, slice], FloatArray]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CappedSpells:
    """Spells with everything about them that is not a coefficient.

    Attributes
    ----------
    loss : HazardLink
        The link's capped losses.
    A : (q, e) float64
        Baseline features, rows of norm at most 1 up to rounding.
    Z : (m, p) float64
        Covariates.
    entry, last : (m,) int64
        At risk in intervals ``entry + 1 .. last``; nowhere where they are equal.
    cause : (m,) int64
        0, or the cause of the event in interval ``last``.
    weights, offset : (m,) float64
        The whole weight of a spell, and its offset.
    cap_baseline, cap_slopes : (causes, q), (causes, p) float64
        The linear predictor at which caps are taken.
    margin, total : float
        ``d`` and the bound ``H`` on a spell's sum of caps, or on that sum times the share of its weight.
    whole : (m,) float64 or None
        The weights without what `weighed` took off; None where they are the same. ``(H + 1) whole`` bounds the sum of a
        spell's weighted caps and its event.
    """

    loss: HazardLink
    A: FloatArray
    Z: FloatArray
    entry: IntArray
    last: IntArray
    cause: IntArray
    weights: FloatArray
    offset: FloatArray
    cap_baseline: FloatArray
    cap_slopes: FloatArray
    margin: float
    total: float
    whole: FloatArray | None = None

    @property
    def most(self) -> FloatArray:
        """The weights (m,) that bound what a spell contributes, once they are multiplied by ``H + 1``."""
        return self.weights if self.whole is None else self.whole

    @property
    def causes(self) -> int:
        """The number of causes."""
        return len(self.cap_baseline)

    @property
    def block(self) -> int:
        """``e + p``."""
        return int(self.A.shape[1] + self.Z.shape[1])

    def log_caps(self, spells: slice, intervals: slice, cause: int) -> FloatArray:
        """Return ``log h`` of a block of spells and intervals for a cause (0-based), each of its own spell alone."""
        level = self._cap_levels(spells, cause)
        return self.loss.caps(self.cap_baseline[cause, intervals] + level[:, None], self.margin)

    def exact_log_caps(self, numbers: MPContext, spell: int, cause: int) -> list[mpf]:
        """Return ``log h`` of a spell in each interval for a cause (0-based), as ratios of gradients have it.

        Where the scale is ``e^eta`` it is the exact sum of two doubles (`hdpstats.solvers.kernels`), else the double of
        `log_caps`.
        """
        own = slice(spell, spell + 1)
        if not self.loss.multiplicative:
            return [numbers.mpf(value) for value in self.log_caps(own, slice(0, len(self.A)), cause)[0].tolist()]
        level = numbers.mpf(float(self._cap_levels(own, cause)[0]))
        return [level + numbers.mpf(value) for value in (self.cap_baseline[cause] + self.margin).tolist()]

    def exact_caps(self, numbers: MPContext, spell: int, cause: int) -> list[tuple[mpf, mpf]]:
        """Return ``log h`` of a spell in each interval for a cause (0-based), and ``k``, the cap of gradients over it.

        Where the scale is ``e^eta`` the cap of gradients is a double, the same one at all coefficients, and the loss
        that they are of has it as its factor (`hdpstats.losses.hazard_links`). What is minimised in other numbers must
        be that loss: else who is counted in doubles and who is not would have minimisers of two losses. Elsewhere ``k``
        is 1, and the bound on errors counts what the cap is off.
        """
        logs = self.exact_log_caps(numbers, spell, cause)
        if not self.loss.multiplicative:
            return [(log_cap, numbers.mpf(1)) for log_cap in logs]
        level = self._cap_levels(slice(spell, spell + 1), cause)
        caps = self._caps(self.cap_baseline[cause] + self.margin, level)[0].tolist()
        pairs = zip(logs, caps, strict=True)
        return [(log_cap, numbers.mpf(cap) / numbers.exp(log_cap)) for log_cap, cap in pairs]

    def predictor(self, theta: FloatArray, spells: slice, intervals: slice, cause: int) -> FloatArray:
        """Return ``eta`` of a block of spells and intervals for a cause (0-based), compensated."""
        total, rest = self._predictor(self.coefficients(theta)[cause], spells, intervals)
        return np.asarray(total + rest)

    def coefficients(self, theta: FloatArray, rest: FloatArray | None = None) -> list[CauseCoefficients]:
        """Return the coefficients ``theta + rest`` of every cause, ``|rest| <= 2^-53 |theta|``, as sums need them."""
        parts = coefficient_parts(theta, rest)
        return [self._coefficients(parts, cause) for cause in range(self.causes)]

    def _coefficients(self, parts: FloatArray, cause: int) -> CauseCoefficients:
        """Return the coefficients of a cause.

        In a rehearsal there are always factors: exponents are cut, and what is added up with them counts for nothing.
        """
        e, first = self.A.shape[1], cause * self.block
        a = two_sums(*compensated_pairs(self.A, parts[:, first : first + e], np.zeros(len(self.A))))
        cap, factors, middle = self.cap_baseline[cause] + self.margin, None, 0.0
        if self._has_factors:
            ratio = two_sums(*_plus(a, -cap))
            middle = 0.5 * (float(np.max(ratio[0])) + float(np.min(ratio[0])))
            ratio = two_sums(*_plus(ratio, np.full(len(cap), -middle)))
            if full_length() or float(np.max(np.abs(ratio[0]))) <= SPAN:
                factors = exponential(ratio, SPAN), np.exp(cap)
        E, G = (None, None) if factors is None else factors
        beta = np.ascontiguousarray(parts[:, first + e : first + self.block])
        return CauseCoefficients(cause=cause, parts=beta, a=a, cap=cap, middle=middle, E=E, G=G)

    def _levels(self, of: CauseCoefficients, spells: slice) -> Pair:
        """Return ``z_i'beta + o_i`` of some spells, an unevaluated sum."""
        return compensated_pairs(self.Z, of.parts, self.offset, spells)

    def _cap_levels(self, spells: slice, cause: int) -> FloatArray:
        """Return ``z_i'delta + o_i`` of some spells, the double that caps are made of."""
        return row_products(self.Z, self.cap_slopes[cause], spells) + self.offset[spells]

    def _predictor(self, of: CauseCoefficients, spells: slice, intervals: slice) -> Pair:
        """Return `predictor` as an unevaluated sum."""
        own, rest = self._levels(of, spells)
        total, left = _plus((own[:, None], rest[:, None]), of.a[0][intervals])
        return total, left + of.a[1][intervals]

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of spells with all intervals: the work on a spell does not depend on its follow-up."""
        size, whole = max(1, CELLS // len(self.A)), slice(0, len(self.A))
        for start in range(0, len(self.Z), size):
            yield slice(start, min(start + size, len(self.Z))), whole

    def at_risk(self, spells: slice, intervals: slice) -> FloatArray:
        """Return 1.0 where a spell is at risk, else 0.0."""
        s = np.arange(intervals.start, intervals.stop) + 1
        inside = (s > self.entry[spells, None]) & (s <= self.last[spells, None])
        return np.asarray(inside, dtype=np.float64)

    def events(self, spells: slice, intervals: slice, cause: int) -> tuple[IntArray, IntArray]:
        """Return the places of the events of a cause (0-based) in a block."""
        cause_here = (self.cause[spells] == cause + 1) & (self.last[spells] > self.entry[spells])
        rows = np.flatnonzero(cause_here)
        return rows, self.last[spells][rows] - 1 - intervals.start

    def ended(self, person: IntArray, *, several: bool = True) -> "CappedSpells":
        """Return the spells with follow-up ended before a person's sum of caps, over all causes, passes ``total``.

        ``person`` (m,) names the person of each spell; the spells of one stand together in the order of time. The sum
        of a person is formed from that person's spells alone, to the last bit. ``several`` says whether a person may
        have more than one: a public fact, that decides how much is computed. In a rehearsal nobody's follow-up ends, as
        what comes after takes the longest then.
        """
        before = np.zeros(len(self.Z))
        whole, fits = self._cap_sums(before=before)
        if several:
            rank = _rank(person)
            order = np.argsort(rank, kind="stable")
            later = np.split(order, np.flatnonzero(np.diff(rank[order])) + 1)[1:]
            for places in later:  # the second spells of everybody, then the third ones
                before[places] = before[places - 1] + whole[places - 1]
            fits = self._cap_sums(before=before)[1]
        last = self.last if full_length() else self.entry + fits
        return replace(self, last=last, cause=np.where(last == self.last, self.cause, 0))

    def weighed(self, *, intervals: int) -> "CappedSpells":
        """Return the spells of weights times ``min(1, H / sum of caps)``, one spell for each person.

        The sum is over causes and intervals from entry to the horizon, whenever follow-up ended: to the last of the
        ``intervals`` of the own stratum. It is formed from the own spell alone, to the last bit. Who would count by
        less than 2^-40 counts for nothing, so that terms stay finite.
        """
        share = np.minimum(1.0, self.total / np.maximum(self.sums_to_horizon(intervals=intervals), 1e-300))
        share[share < LEAST_SHARE] = 0.0
        counts = (share > 0.0) | full_length()
        return replace(
            self,
            last=np.where(counts, self.last, self.entry),
            cause=np.where(counts, self.cause, 0),
            weights=self.weights * share,
            whole=self.weights,
        )

    def sums_to_horizon(self, *, intervals: int) -> FloatArray:
        """Return each spell's sum of caps (m,), over causes and intervals from entry to the end of its stratum."""
        horizon = np.minimum((self.entry // intervals + 1) * intervals, len(self.A))
        with np.errstate(over="ignore"):
            return replace(self, last=horizon)._cap_sums(before=np.zeros(len(self.Z)))[0]

    def _cap_sums(self, *, before: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return each spell's sum of caps (m,), and how many of its intervals fit under ``total`` after ``before``."""
        sums, fits = np.zeros(len(before)), np.zeros(len(before), dtype=np.int64)
        if self._has_factors:
            level = np.stack([self._cap_levels(ALL, cause) for cause in range(self.causes)])
            K = _cap_factors(level)
            add_caps(np.exp(self.cap_baseline + self.margin), K, self.entry, self.last, before, self.total, sums, fits)
            if not full_length():
                return sums, fits
        for part, intervals in self.blocks():
            at_risk = self.at_risk(part, intervals)
            caps = np.zeros_like(at_risk)
            for cause in range(self.causes):
                caps += np.exp(self.log_caps(part, intervals, cause))
            running = np.cumsum(caps * at_risk, axis=1)
            fits[part] = np.sum(at_risk * (before[part, None] + running <= self.total), axis=1)
            sums[part] = running[:, -1]
        return sums, fits

    @property
    def _has_factors(self) -> bool:
        """Whether caps are products of factors (`hdpstats.solvers.kernels`): a public fact.

        Whether hazards are depends on coefficients (`factors`). A rehearsal adds up both by their factors and cell by
        cell, and so takes no less time than either, compilation included.
        """
        largest = float(np.max(np.abs(self.cap_baseline + self.margin), initial=0.0))
        return self.loss.multiplicative and largest <= SPAN and self.total < STEEPEST

    def scores(self, theta: FloatArray, part: slice = ALL) -> FloatArray:
        """Return the gradient of the unweighted loss of some spells (m, causes (e + p)), kept column by column."""
        return self.scores_at(self.coefficients(theta), part)

    def scores_at(self, coefficients: list[CauseCoefficients], part: slice = ALL) -> FloatArray:
        """Return `scores`."""
        e, Z = self.A.shape[1], self.Z[part].T
        out = np.empty((self.causes * self.block, Z.shape[1]))
        for of in coefficients:
            found, first = self._score_sums(of, part), of.cause * self.block
            out[first : first + e] = found[:e]
            np.multiply(found[e], Z, out=out[first + e : first + self.block])
        return out.T

    def _score_sums(self, of: CauseCoefficients, part: slice) -> FloatArray:
        """Return the sums over intervals of a cause's scores times each feature, and of the scores (e + 1, b)."""
        factors = self._factors(of, part)
        if factors is not None:
            found = self._score_sums_of(factors, part, of.cause)
            if not full_length():
                return found
        return self._plain_sums(of, part, CappedSpells._score)

    def _score_sums_of(self, factors: Factors, part: slice, cause: int) -> FloatArray:
        """Return `_score_sums` from factors."""
        found = np.empty((self.A.shape[1] + 1, len(factors.W)))
        places, event = self._ends(part, cause)
        add_scores(factors.E, factors.G, self.A, factors.W, factors.K, self.entry[part], self.last[part] - event, found)
        self._add_events(found, places, np.where(event, -self.loss.saturated(*factors.at(places))[1], 0.0))
        return found

    def curvature_sums(self, of: CauseCoefficients, part: slice, *, bits: int) -> tuple[FloatArray, IntArray]:
        """Return the sums of weighted curvatures as `_score_sums`, and those of each interval in units of 2^-bits."""
        factors = self._factors(of, part)
        if factors is not None:
            found = self._curvature_sums_of(factors, of, part, bits=bits)
            if not full_length():
                return found
        intervals = np.zeros(len(self.A), dtype=np.int64)
        return self._plain_sums(of, part, CappedSpells._curvature, intervals, bits=bits), intervals

    def _curvature_sums_of(
        self, factors: Factors, of: CauseCoefficients, part: slice, *, bits: int
    ) -> tuple[FloatArray, IntArray]:
        """Return `curvature_sums` from factors."""
        found, scale = np.empty((self.A.shape[1] + 1, len(factors.W))), math.ldexp(1.0, bits)
        intervals = np.zeros(len(self.A), dtype=np.int64)
        places, event = self._ends(part, of.cause)
        scaled = factors.K * (self.weights[part] * scale)
        add_curvatures(
            factors.E,
            factors.G,
            self.A,
            factors.W,
            scaled,
            self.entry[part],
            self.last[part] - event,
            found,
            intervals,
        )
        found /= scale
        log_caps = np.clip(of.cap[places] + factors.caps, -FARTHEST, FARTHEST)
        cells = self.loss.cells((of.a[0] + of.a[1])[places] + factors.level, log_caps)
        curvature = np.where(event, cells.event_curvature * self.weights[part], 0.0)
        self._add_events(found, places, curvature)
        np.add.at(intervals, places, np.rint(curvature * scale).astype(np.int64))
        return found, intervals

    def _ends(self, part: slice, cause: int) -> tuple[IntArray, BoolArray]:
        """Return the last interval (0-based) of some spells, and whether it ends in an event of a cause (0-based)."""
        event = (self.cause[part] == cause + 1) & (self.last[part] > self.entry[part])
        return np.maximum(self.last[part] - 1, 0), event

    def _add_events(self, found: FloatArray, places: IntArray, terms: FloatArray) -> None:
        """Add the terms of spells' last intervals to sums over intervals."""
        for row, feature in zip(found, self.A.T, strict=False):
            row += feature[places] * terms
        found[-1] += terms

    def _plain_sums(
        self, of: CauseCoefficients, part: slice, cells: Cells, intervals: IntArray | None = None, bits: int = 0
    ) -> FloatArray:
        """Return the sums over intervals of cells (b, q), times each feature and alone, in numpy."""
        start, stop, _ = part.indices(len(self.Z))
        found, size = np.empty((self.A.shape[1] + 1, stop - start)), max(1, CELLS // len(self.A))
        for first in range(start, stop, size):
            spells = slice(first, min(first + size, stop))
            terms = np.ascontiguousarray(cells(self, of, spells, slice(0, len(self.A))).T)
            for j, feature in enumerate(self.A.T):
                found[j, first - start : spells.stop - start] = _sums(terms * feature[:, None])
            found[-1, first - start : spells.stop - start] = _sums(terms)
            if intervals is not None:
                intervals += np.rint(terms * math.ldexp(1.0, bits)).astype(np.int64).sum(axis=1)
        return found

    def factors(self, theta: FloatArray, part: slice, cause: int) -> Factors | None:
        """Return the factors of a cause's hazards and caps; None where coefficients or caps are too far apart."""
        return self._factors(self.coefficients(theta)[cause], part)

    def _factors(self, of: CauseCoefficients, part: slice) -> Factors | None:
        """Return the factors of some spells."""
        if of.E is None or of.G is None:
            return None
        own, rest = self._levels(of, part)
        caps = self._cap_levels(part, of.cause)
        ratios, level = np.empty_like(own), own + rest
        to_ratios(own, rest, caps, of.middle, ratios)
        return Factors(
            E=of.E,
            G=of.G,
            W=np.exp(ratios) * (1.0 + rest),
            K=_cap_factors(caps),
            level=level,
            caps=caps,
        )

    def _score(self, of: CauseCoefficients, spells: slice, intervals: slice) -> FloatArray:
        """Return the unweighted scores of a block of spells and intervals."""
        total, rest = self._predictor(of, spells, intervals)
        if self.loss.multiplicative:
            c, event = self.loss.saturated(*self._ratios(of, (total, rest), spells, intervals))
        else:
            c, event = self.loss.scores(total + rest, self.log_caps(spells, intervals, of.cause))
        score = c * self.at_risk(spells, intervals)
        where = self.events(spells, intervals, of.cause)
        score[where] = -event[where]
        return np.asarray(score)

    def _ratios(
        self, of: CauseCoefficients, eta: Pair, spells: slice, intervals: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return ratios and caps of a block where the scale is ``e^eta``, to a few units of 2^-53."""
        level = self._cap_levels(spells, of.cause)
        log_cap, missing = two_sums(of.cap[intervals], level[:, None])
        log_ratio, left = _plus(eta, -log_cap)
        return exponential((log_ratio, left - missing), FARTHEST / 4.0), self._caps(of.cap[intervals], level)

    def _caps(self, cap: FloatArray, level: FloatArray) -> FloatArray:
        """Return the caps (b, s) of gradients where the scale is ``e^eta``: of ``gamma_s + d`` and ``z_i'delta + o_i``.

        Where caps are products of factors they are the same doubles as those of `Factors`, so that whether hazards are
        makes no difference to what is minimised.
        """
        if self._has_factors:
            return np.minimum(np.exp(cap) * _cap_factors(level)[:, None], STEEPEST)
        return exponential(two_sums(cap, level[:, None]), FARTHEST)

    def add_outer(self, stacked: FloatArray, weights: FloatArray, spells: slice, intervals: slice, cause: int) -> None:
        """Add ``sum_s weights_is x^s x^s'`` of a block (b, s) to the upper triangles of matrices, row by row.

        ``stacked`` (b, D (D + 1) / 2) are whole matrices, of which the cause has a block.
        """
        A, Z = self.A[intervals], np.ascontiguousarray(self.Z[spells].T)
        e, D, total, of_baseline = A.shape[1], self.causes * self.block, weights.sum(axis=1), (weights @ A).T
        squares, place = (weights @ (A[:, :, None] * A[:, None, :]).reshape(len(A), e * e)).T, 0
        entries = np.empty((self.block * (self.block + 1) // 2, len(weights)))  # those of one entry stand together
        for i in range(self.block):
            row = entries[place : place + self.block - i]
            if i < e:
                row[: e - i] = squares[i * e + i : i * e + e]
                np.multiply(of_baseline[i], Z, out=row[e - i :])
            else:
                np.multiply(Z[i - e], Z[i - e :], out=row)
                row *= total
            place += len(row)
        if self.causes == 1:
            stacked += entries.T
            return
        place = 0
        for i in range(self.block):
            at, left = cause * self.block + i, self.block - i
            first = at * D - at * (at - 1) // 2
            stacked[:, first : first + left] += entries[place : place + left].T
            place += left

    def add_sum(self, matrix: FloatArray, weights: FloatArray, spells: slice, intervals: slice, cause: int) -> None:
        """Add ``sum_is weights_is x_is x_is'`` of a block (b, s) to the cause's block of a matrix (D, D)."""
        A, Z = self.A[intervals], self.Z[spells]
        e, i = A.shape[1], cause * self.block
        cross = A.T @ (weights.T @ Z)
        matrix[i : i + e, i : i + e] += A.T @ (weights.sum(axis=0)[:, None] * A)
        matrix[i : i + e, i + e : i + self.block] += cross
        matrix[i + e : i + self.block, i : i + e] += cross.T
        matrix[i + e : i + self.block, i + e : i + self.block] += Z.T @ (weights.sum(axis=1)[:, None] * Z)

    def take(self, kept: BoolArray | IntArray | slice) -> "CappedSpells":
        """Return some of the spells."""
        rows = {name: getattr(self, name)[kept] for name in ("entry", "last", "cause", "weights", "offset")}
        whole = None if self.whole is None else self.whole[kept]
        return replace(self, Z=self.Z.T[:, kept].T, whole=whole, **rows)

    def curvature(self, theta: FloatArray, spells: slice, intervals: slice, cause: int) -> FloatArray:
        """Return the weighted curvature of a block of spells and intervals for a cause (0-based)."""
        return self._curvature(self.coefficients(theta)[cause], spells, intervals)

    def _curvature(self, of: CauseCoefficients, spells: slice, intervals: slice) -> FloatArray:
        """Return `curvature`."""
        total, rest = self._predictor(of, spells, intervals)
        cells = self.loss.cells(total + rest, self.log_caps(spells, intervals, of.cause))
        curvature = cells.survived_curvature * self.at_risk(spells, intervals)
        where = self.events(spells, intervals, of.cause)
        curvature[where] = cells.event_curvature[where]
        curvature *= self.weights[spells, None]
        return np.asarray(curvature)


def _sums(terms: FloatArray) -> FloatArray:
    """Return sums over intervals of terms (q, b): those of `TOGETHER` intervals first, then of as many such sums.

    A spell's sum depends on its own terms alone, to the last bit: the order in which `numpy.sum` adds would depend on
    how many spells there are.
    """
    while len(terms) > 1:
        parts = terms[::TOGETHER].copy()
        for k in range(1, min(TOGETHER, len(terms))):
            some = terms[k::TOGETHER]
            parts[: len(some)] += some
        terms = parts
    return np.asarray(terms[0])


def _cap_factors(levels: FloatArray) -> FloatArray:
    """Return the factors ``K`` of spells from ``z_i'delta + o_i``."""
    return np.asarray(np.exp(np.clip(levels, SPAN - FARTHEST, FARTHEST - SPAN)))


def _plus(numbers: Pair, others: FloatArray) -> Pair:
    """Return unevaluated sums plus doubles: what is rounded are sums of the lesser parts."""
    total, missing = two_sums(numbers[0], others)
    return total, missing + numbers[1]


def _rank(person: IntArray) -> IntArray:
    """Return the place of each spell among those of its person, from 0; a person's spells stand together."""
    m = len(person)
    first = np.flatnonzero(np.concatenate([[True], person[1:] != person[:-1]])) if m else np.zeros(0, dtype=np.int64)
    return np.asarray(np.arange(m) - np.repeat(first, np.diff(np.append(first, m))), dtype=np.int64)

r"""The public side of a hazard model: spells of public people, their fit, the caps and the curvature to expect.

Baseline features ``A`` (q, e) are mixed to ``A B`` so that they are close to orthogonal over public person-intervals
and their rows have norm at most 1; covariates are whitened by public people. The public fit is a posterior mode, as in
`hdpstats.protocols.public`, with the baseline drawn towards a constant hazard; its covariance is a sandwich, as case
weights are not numbers of people.

At coefficients ``theta`` the expected Hessian of a person at risk in interval ``s`` is
``{(1 - p) c' + p (-e')} x x'``, and the scores of successive intervals are martingale differences with covariance
``{(1 - p) c^2 + p e^2} x x'``: with a consistent loss they have mean zero given the past. Summed over the intervals in
which public people are at risk these are the moments of `PublicSide`. Where ``theta`` is not the public fit, a public
person is at risk in interval ``s`` more or less often than a private one with the same covariates: the interval counts
by the ratio of the two probabilities of having survived up to it, under ``theta`` and under the public fit. (Scores of
different causes have covariance ``-c_k c_l`` in one interval, a product of two hazards, which is left out.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.data.public import PublicTable
from hdpstats.data.spells import spells_of
from hdpstats.design.geometry import from_public, leverage_at, mallows_weights, whiten
from hdpstats.design.survival import SurvivalDesign
from hdpstats.losses import HAZARDS
from hdpstats.protocols.moments import Moments, PublicFit, PublicSide, averaged
from hdpstats.queries import Geometry, HazardCap, TimeGrid
from hdpstats.solvers import CappedSpells
from hdpstats.solvers.hazard import HazardData, fit_hazard
from hdpstats.solvers.hazard.likelihood import Likelihood
from hdpstats.solvers.hazard.links import LINKS

EVENNESS = 0.01
"""Eigenvalues of the baseline's second moments are kept above this share of the largest."""

BASELINE_SPREAD, SLOPE_SPREAD = 3.0, 0.6
"""Prior standard deviations of mixed baseline coefficients and of whitened slopes: fixed, and weak on purpose.

Spreads chosen by evidence are smaller, and their shrinkage biases what is pooled with the private estimate: with 200
public people and eight intervals pooled 95 % intervals of S(t) then covered 0.85.
"""

WEAK = 0.1
"""Information added in every direction: of intervals that follow-up never reaches the private people tell nothing."""

ALMOST = 1.0 - 2.0**-40
"""The largest hazard of whose logarithm of survival use is made."""

UNCAPPED_TOTAL, UNCAPPED_MARGIN = 1e4, 20.0
"""A cap so high that it hardly binds."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Baseline:
    """Baseline features in two coordinates.

    Attributes
    ----------
    features : (q, e) float64
        ``A``: as users know them.
    mixing : (e, e) float64
        ``B``: the model is fitted with ``A B``.
    constant : (e,) float64
        ``kappa`` with ``A kappa = 1``.
    """

    features: FloatArray
    mixing: FloatArray
    constant: FloatArray

    @property
    def mixed(self) -> FloatArray:
        """``A B`` (q, e), rows of norm at most 1."""
        return np.asarray(self.features @ self.mixing, dtype=np.float64)

    def to_terms(self, geometry: Geometry, causes: int) -> FloatArray:
        """Return the matrix from fitted coefficients to those of features and design columns, causes one by one.

        ``z = W (x - m)`` and ``A_s kappa = 1`` turn ``(alpha, beta)`` into ``(B alpha - kappa m'W'beta, W'beta)``.
        """
        raw, e = geometry.to_raw(), len(self.constant)
        block = np.zeros((e + len(raw) - 1, e + len(raw) - 1))
        block[:e, :e] = self.mixing
        block[:e, e:] = np.outer(self.constant, raw[0, 1:])
        block[e:, e:] = raw[1:, 1:]
        return np.asarray(np.kron(np.eye(causes), block), dtype=np.float64)


def mixed_baseline(features: FloatArray, weights: FloatArray) -> Baseline:
    """Return features mixed to be orthogonal under weights of the intervals (q,), with rows of norm at most 1."""
    share = weights / np.sum(weights)
    eigenvalues, vectors = np.linalg.eigh(features.T @ (share[:, None] * features))
    kept = np.maximum(eigenvalues, EVENNESS * eigenvalues[-1])
    mixing = vectors / np.sqrt(kept)
    longest = float(np.max(np.linalg.norm(features @ mixing, axis=1)))
    constant = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
    return Baseline(features=features, mixing=mixing / longest, constant=np.asarray(constant, dtype=np.float64))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicSpells:
    """Spells of complete public rows, clipped to the schema's bounds as private ones are.

    ``X`` (m, 1 + p) design rows of the spells, intercept first; ``weights``, ``offset``, ``person``, ``entry``,
    ``exit``, ``cause`` (m,); ``people`` in number.
    """

    X: FloatArray
    weights: FloatArray
    offset: FloatArray
    person: IntArray
    entry: IntArray
    exit: IntArray
    cause: IntArray
    people: int

    @property
    def followed(self) -> int:
        """How many people are at risk in some interval."""
        return len(np.unique(self.person[self.exit > self.entry]))

    def at_risk(self, intervals: int) -> FloatArray:
        """Return how many spells are at risk in each interval (q,)."""
        steps = np.zeros(intervals + 1)
        np.add.at(steps, self.entry, 1.0)
        np.add.at(steps, self.exit, -1.0)
        return np.asarray(np.cumsum(steps)[:-1], dtype=np.float64)


def public_spells(
    table: PublicTable, design: SurvivalDesign, grid: TimeGrid, *, weights: str | None, offset: str | None
) -> PublicSpells:
    """Return the spells of the complete public rows of a design."""
    extra = [name for name in (weights, offset) if name is not None]
    rows = table.admitted([*design.needs, *extra])
    found = spells_of(rows, start=design.start, stop=design.stop, event=design.event, grid=grid, most_rows=None)
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    shift = rows.numeric[offset] if offset is not None else np.zeros(rows.rows)
    return PublicSpells(
        X=design.covariates.matrix(rows)[found.row],
        weights=case[found.row],
        offset=shift[found.row],
        person=found.person,
        entry=found.entry,
        exit=found.exit,
        cause=found.cause,
        people=found.people,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HazardSide(PublicSide):
    """Public people of a hazard model in a geometry and under a cap.

    Attributes
    ----------
    baseline, geometry, cap
        What a query takes from here.
    spells : CappedSpells
        The spells in that geometry, ended by the cap; their weights are case weights times Mallows weights.
    case_weights : (m,) float64
        The case weights alone.
    causes : (m,) int64
        The cause of each spell's event, before any cap.
    exits : (m,) int64
        Where each spell ends, before any cap.
    person : (m,) int64
        Whose spell it is.
    number : int
        The number of people.
    fit : PublicFit
        The public fit.
    """

    baseline: Baseline
    geometry: Geometry
    cap: HazardCap
    spells: CappedSpells
    case_weights: FloatArray
    causes: IntArray
    exits: IntArray
    person: IntArray
    number: int
    fit: PublicFit

    @property
    def dimension(self) -> int:
        """The number of coefficients of all causes."""
        return self.spells.causes * self.spells.block

    @property
    def people(self) -> int:
        """The number of people."""
        return self.number

    @property
    def centre(self) -> FloatArray:
        """The public fit."""
        return self.fit.theta

    def moments(self, theta: FloatArray, *, records: int, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        p = self.spells.Z.shape[1]
        ends = [(k + 1) * self.spells.block for k in range(self.spells.causes)]
        found = averaged(
            self._triangles(theta),
            records=records,
            row_weights=row_weights,
            levelled=tuple(slice(end - p, end) for end in ends),
        )
        return replace(found, H=found.H + WEAK * np.eye(self.dimension))

    def _triangles(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the stacked expected Hessian and score covariance of each person (people, D (D + 1) / 2)."""
        spells, D = self.spells, len(theta)
        i, j = np.triu_indices(D)
        H, J = np.zeros((self.number, len(i))), np.zeros((self.number, len(i)))
        before = self._survived_before(theta)
        for part, intervals in spells.blocks():
            bend = np.zeros((part.stop - part.start, D, D))
            meat = np.zeros_like(bend)
            gain = self._log_survival_gain(theta, part, intervals)
            lasting = np.exp(before[part, None] + np.cumsum(gain, axis=1) - gain)
            at_risk, weight = lasting * spells.at_risk(part, intervals), spells.weights[part, None]
            for cause in range(spells.causes):
                eta = spells.predictor(theta, part, intervals, cause)
                cells = spells.loss.cells(eta, spells.log_caps(part, intervals, cause))
                p = spells.loss.hazard(eta)
                curvature = (1.0 - p) * cells.survived_curvature + p * cells.event_curvature
                square = (1.0 - p) * cells.survived**2 + p * cells.event**2
                spells.add_outer(bend, weight * at_risk * curvature, part, intervals, cause)
                spells.add_outer(meat, weight**2 * at_risk * square, part, intervals, cause)
            np.add.at(H, self.person[part], bend[:, i, j])
            np.add.at(J, self.person[part], meat[:, i, j])
        return H, J

    def _survived_before(self, theta: FloatArray) -> FloatArray:
        """Return what each spell's person gained in log survival in earlier spells (m,)."""
        gains = np.zeros(len(self.person))
        for part, intervals in self.spells.blocks():
            gains[part] = self._log_survival_gain(theta, part, intervals).sum(axis=1)
        whole = np.cumsum(gains) - gains
        return np.asarray(whole - whole[np.searchsorted(self.person, self.person)], dtype=np.float64)

    def _log_survival_gain(self, theta: FloatArray, part: slice, intervals: slice) -> FloatArray:
        """Return the log ratio of surviving each interval under ``theta`` and under the public fit, 0 out of risk."""
        spells = self.spells
        gain = np.zeros((part.stop - part.start, intervals.stop - intervals.start))
        for cause in range(spells.causes):
            here, public = (
                spells.loss.hazard(spells.predictor(each, part, intervals, cause)) for each in (theta, self.fit.theta)
            )
            gain += np.log1p(-np.minimum(here, ALMOST)) - np.log1p(-np.minimum(public, ALMOST))
        return gain * spells.at_risk(part, intervals)

    def at(self, geometry: Geometry, cap: HazardCap) -> "HazardSide":
        """Return the same people at another radius and under another cap."""
        square = np.sum(self.spells.Z**2, axis=1)
        whole = replace(
            self.spells,
            last=self.exits,
            cause=self.causes,
            weights=self.case_weights * mallows_weights(square, geometry),
            cap_baseline=np.array(cap.baseline),
            cap_slopes=np.array(cap.slopes).reshape(len(cap.baseline), -1),
            margin=cap.margin,
            total=cap.total,
        )
        return replace(self, geometry=geometry, cap=cap, spells=whole.ended(self.person))

    def thinned(self, most: int) -> "HazardSide":
        """Return at most ``most`` of the people, evenly spread over the rows."""
        if self.number <= most:
            return self
        chosen = np.unique(np.linspace(0, self.number - 1, most).astype(np.int64))
        place = np.full(self.number, -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        kept = place[self.person] >= 0
        return replace(
            self,
            spells=self.spells.take(kept),
            case_weights=self.case_weights[kept],
            causes=self.causes[kept],
            exits=self.exits[kept],
            person=place[self.person[kept]],
            number=len(chosen),
        )


def hazard_side(
    rows: PublicSpells, design: SurvivalDesign, features: FloatArray, *, link: str, causes: int
) -> HazardSide:
    """Return the public people in their own whitening (radius 1, hardly capped), with the public fit."""
    covariates = design.covariates
    geometry = from_public(
        rows.X, lower=covariates.lower[1:].tolist(), upper=covariates.upper[1:].tolist(), intercept=True, radius=1.0
    )
    at_risk = rows.at_risk(len(features))
    baseline = mixed_baseline(features, at_risk + 1.0)
    Z = whiten(geometry, rows.X).X[:, 1:]
    fit = _fit(rows, baseline, Z, link=link, causes=causes)
    whole = CappedSpells(
        loss=HAZARDS[link],
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
        case_weights=rows.weights,
        causes=rows.cause,
        exits=rows.exit,
        person=rows.person,
        number=rows.people,
        fit=fit,
    )
    return side.at(geometry, relative_cap(side, total=UNCAPPED_TOTAL, margin=UNCAPPED_MARGIN))


def with_radius(geometry: Geometry, radius: float) -> Geometry:
    """Return a geometry with another radius."""
    return replace(geometry, radius=radius, leverage=leverage_at(radius, intercept=geometry.intercept))


def relative_cap(side: HazardSide, *, total: float, margin: float) -> HazardCap:
    """Return the cap ``margin`` above the public fit."""
    e, block = side.spells.A.shape[1], side.spells.block
    parts = [side.fit.theta[k * block : (k + 1) * block] for k in range(side.spells.causes)]
    return HazardCap(
        total=total,
        margin=margin,
        baseline=tuple(tuple((side.spells.A @ part[:e]).tolist()) for part in parts),
        slopes=tuple(tuple(part[e:].tolist()) for part in parts),
    )


def _fit(rows: PublicSpells, baseline: Baseline, Z: FloatArray, *, link: str, causes: int) -> PublicFit:
    """Return the posterior modes of all causes."""
    fits = [_mode(rows, baseline, Z, link=link, cause=cause + 1) for cause in range(causes)]
    return PublicFit(
        theta=np.concatenate([fit.theta for fit in fits]),
        covariance=_block_diagonal([fit.covariance for fit in fits]),
        information=_block_diagonal([fit.information for fit in fits]),
        parts=_parts(baseline, slopes=Z.shape[1], causes=causes),
    )


def _parts(baseline: Baseline, *, slopes: int, causes: int) -> tuple[FloatArray, ...]:
    """Return the directions in which sources may differ: the level of the hazards, their shape in time, the slopes."""
    e = len(baseline.constant)
    level = np.linalg.solve(baseline.mixing, baseline.constant)
    turned = np.linalg.qr(np.column_stack([level, np.eye(e)]))[0]
    block = np.zeros((e + slopes, e + slopes))
    block[:e, :e], block[e:, e:] = turned, np.eye(slopes)
    parts = (block[:, :1], block[:, 1:e], block[:, e:])
    whole = [np.asarray(np.kron(np.eye(causes), part), dtype=np.float64) for part in parts]
    return tuple(part for part in whole if part.size)


def _mode(rows: PublicSpells, baseline: Baseline, Z: FloatArray, *, link: str, cause: int) -> PublicFit:
    mixed = baseline.mixed
    e, p = mixed.shape[1], Z.shape[1]
    data = HazardData(
        A=mixed,
        Z=Z,
        entry=rows.entry,
        exit=rows.exit,
        event=(rows.cause == cause).astype(np.int64),
        weights=rows.weights,
        offset=rows.offset,
    )
    exposure = float(np.sum(rows.weights * (rows.exit - rows.entry)))
    events = float(np.sum(rows.weights * (rows.cause == cause)))
    level = float(HAZARDS[link].predictor(np.array((events + 0.5) / (exposure + 1.0))))
    constant = np.linalg.solve(baseline.mixing, baseline.constant)
    centre = np.concatenate([level * constant, np.zeros(p)])
    ridge = np.concatenate([np.full(e, BASELINE_SPREAD**-2.0), np.full(p, SLOPE_SPREAD**-2.0)])
    fit = fit_hazard(data, link, ridge=ridge, centre=centre, start=centre)
    squared = Likelihood(replace(data, weights=data.weights**2), LINKS[link], method="direct")
    meat = squared.derivatives(*squared.predictors(fit.theta)).hessian + np.diag(ridge)
    inverse = np.linalg.inv(fit.information + np.diag(ridge))
    return PublicFit(theta=fit.theta, covariance=inverse @ meat @ inverse, information=fit.information)


def _block_diagonal(blocks: Sequence[FloatArray]) -> FloatArray:
    size = sum(len(block) for block in blocks)
    out, first = np.zeros((size, size)), 0
    for block in blocks:
        out[first : first + len(block), first : first + len(block)] = block
        first += len(block)
    return out

r"""Curvature of a hazard model over raked public people, who are followed as private ones are.

Besides covariates two facts shift: who is still at risk, and hazards, which are what is estimated. With :math:`r_s` the
share of private people at risk when interval ``s`` begins (described, :math:`r_1 = 1`), :math:`S_s(x)` the probability
under ``theta`` of surviving interval ``s``, and raked people of weights :math:`w_i`, an interval is reached without
censoring with probability

.. math:: G_s = r_s \Big/ \sum_i w_i S_{s-1}(x_i),

made monotone: censoring is taken not to depend on covariates given the model. Person ``i`` is at risk in ``s`` with
probability :math:`G_s S_{s-1}(x_i)`, as far as the cap does not end follow-up before; ``H`` and ``J`` are the sums over
people and intervals of `hdpstats.public.hazard` with these in place of the public people's own intervals. (Weighting
public people by how long they were followed instead leaves too few of them.) Nothing is expanded to person-period rows
but for the numbers of one block.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.public.expected_cells import StackedFactors, expected_sums, mean_survival
from hdpstats.public.follow_up import without_censoring
from hdpstats.public.moments import Moments
from hdpstats.public.raked_people import WhitenedPeople, rounded
from hdpstats.solvers import CappedSpells
from hdpstats.solvers.capped import CELLS

ALMOST = 1.0 - 2.0**-40
"""The largest hazard of whose logarithm of survival use is made."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reached:
    """By how many each interval is reached: the shares at risk (B, q), or of those whom nothing censors (1, q)."""

    at_risk: FloatArray | None = None
    uncensored: FloatArray | None = None

    def take(self, part: slice) -> "Reached":
        """Return some of the draws."""
        return self if self.at_risk is None else Reached(at_risk=self.at_risk[part])

    def without_censoring(self, surviving: FloatArray) -> FloatArray:
        """Return ``G`` (B, q), given the mean probabilities of surviving what is before (B, q)."""
        if self.at_risk is None:
            return np.ones_like(surviving) if self.uncensored is None else self.uncensored
        return without_censoring(self.at_risk, surviving)


def raked_hazard(
    spells: CappedSpells, theta: FloatArray, *, case_weights: FloatArray, people: WhitenedPeople, reached: Reached
) -> Moments:
    """Return ``H`` and ``J`` (B, D, D) of one private person.

    ``spells`` are the public ones, whitened: one for each person, of the given case weights (n,).
    """
    n, q = len(spells.Z), len(spells.A)
    step, parts = max(1, CELLS // (n * q)), []
    for start in range(0, len(people.weights), step):
        part = slice(start, start + step)
        z, weights = np.ascontiguousarray(people.z[part]), people.weights[part]
        factor = case_weights * people.mallows[part]
        counted = np.stack([weights * factor, weights * factor**2])
        share = weights * case_weights
        share = share / share.sum(axis=1, keepdims=True)
        sums = _sums(raked_spells(spells, z), theta, share=share, counted=counted, reached=reached.take(part))
        parts.append(_moments(spells, z, sums, weights=weights))
    return Moments(H=np.concatenate([each.H for each in parts]), J=np.concatenate([each.J for each in parts]))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sums:
    """Sums of expected curvatures or squared scores, of a cause.

    ``intervals`` (B, q): over people; ``people`` (B, e + 1, n): over intervals, times each feature and without one.
    """

    intervals: FloatArray
    people: FloatArray


def _sums(
    on: CappedSpells, theta: FloatArray, *, share: FloatArray, counted: FloatArray, reached: Reached
) -> list[tuple[_Sums, _Sums]]:
    """Return the sums of curvatures and of squared scores of each cause.

    ``on`` are the people of all draws, ``share`` (B, n) their shares among those who begin, and ``counted`` (2, B, n)
    by how much their curvatures and squared scores count.
    """
    rows = slice(0, len(on.Z))
    factors = [on.factors(theta, rows, cause) for cause in range(on.causes)] if on.loss.multiplicative else [None]
    known = [each for each in factors if each is not None]
    if len(known) < len(factors):
        return _plain_sums(on, theta, share=share, counted=counted, reached=reached)
    stacked = StackedFactors.of(known, people=share.shape[1], cumulative=on.loss.cumulative)
    G = reached.without_censoring(mean_survival(stacked, share))
    G = np.broadcast_to(G, (len(share), len(on.A)))
    intervals, people = expected_sums(stacked, on.A, total=on.total, reached=G, weights=counted)
    return [
        (_Sums(intervals=each[0], people=own[0]), _Sums(intervals=each[1], people=own[1]))
        for each, own in zip(intervals, people, strict=True)
    ]


def _plain_sums(
    on: CappedSpells, theta: FloatArray, *, share: FloatArray, counted: FloatArray, reached: Reached
) -> list[tuple[_Sums, _Sums]]:
    """Return the same cell by cell, in numpy."""
    whole, rows, shape = slice(0, len(on.A)), slice(0, len(on.Z)), (*share.shape, len(on.A))
    caps, lost, terms = np.zeros(shape), np.zeros(shape), []
    for cause in range(on.causes):
        eta, log_caps = on.predictor(theta, rows, whole, cause), on.log_caps(rows, whole, cause)
        hazard, cells = on.loss.hazard(eta), on.loss.cells(eta, log_caps)
        caps += np.exp(log_caps).reshape(shape)
        lost -= np.log1p(-np.minimum(hazard, ALMOST)).reshape(shape)
        bend = (1.0 - hazard) * cells.survived_curvature + hazard * cells.event_curvature
        square = (1.0 - hazard) * cells.survived**2 + hazard * cells.event**2
        terms.append((bend.reshape(shape), square.reshape(shape)))
    survived = np.exp(lost - np.cumsum(lost, axis=2))
    at_risk = survived * (np.cumsum(caps, axis=2) <= on.total)
    at_risk *= reached.without_censoring(np.einsum("bn,bns->bs", share, survived))[:, None, :]
    A = np.column_stack([on.A, np.ones(len(on.A))])

    def added(cells: FloatArray, by: FloatArray) -> _Sums:
        cells = by[:, :, None] * at_risk * cells
        return _Sums(intervals=cells.sum(axis=1), people=np.swapaxes(cells @ A, 1, 2))

    return [(added(bend, counted[0]), added(square, counted[1])) for bend, square in terms]


def _moments(spells: CappedSpells, z: FloatArray, sums: list[tuple[_Sums, _Sums]], *, weights: FloatArray) -> Moments:
    """Return the sums of terms times ``x x'``."""
    D = spells.causes * spells.block
    H, J = np.zeros((len(z), D, D)), np.zeros((len(z), D, D))
    for cause, both in enumerate(sums):
        own = slice(cause * spells.block, (cause + 1) * spells.block)
        for out, each in zip((H, J), both, strict=True):
            out[:, own, own] = _shrunk(spells.A, z, each, weights, dimension=D)
    return Moments(H=H, J=J)


def raked_spells(spells: CappedSpells, z: FloatArray) -> CappedSpells:
    """Return spells of raked people ``z`` (B, n, p) from 0 to the horizon, one after the other."""
    B, n, p = z.shape
    none, last = np.zeros(B * n, dtype=np.int64), np.full(B * n, len(spells.A), dtype=np.int64)
    return replace(
        spells,
        Z=z.reshape(-1, p),
        entry=none,
        last=last,
        cause=none,
        weights=np.ones(B * n),
        offset=np.tile(spells.offset, B),
    )


def _shrunk(A: FloatArray, z: FloatArray, sums: _Sums, weights: FloatArray, *, dimension: int) -> FloatArray:
    """Return matrices (B, e + p, e + p) of sums times ``x x'``, shrunk as `hdpstats.public.moments.raked` shrinks."""
    (q, e), p = A.shape, z.shape[2]
    by_interval = sums.intervals
    found = np.zeros((len(z), e + p, e + p))
    found[:, :e, :e] = (by_interval @ (A[:, :, None] * A[:, None, :]).reshape(q, e * e)).reshape(-1, e, e)
    found[:, :e, e:] = sums.people[:, :e] @ z
    found[:, e:, e:] = np.swapaxes(z, 1, 2) @ (sums.people[:, e, :, None] * z)
    target = found.copy()
    share = weights / weights.sum(axis=1, keepdims=True)
    square = np.swapaxes(z, 1, 2) @ (share[:, :, None] * z)
    own, others = (np.trace(each, axis1=1, axis2=2) for each in (found[:, e:, e:], square))
    level = own / np.where(others > 0.0, others, 1.0)
    mean = np.einsum("bn,bnp->bp", share, z)
    target[:, e:, e:] = level[:, None, None] * rounded(square, mean=mean, total=np.ones(len(z)))
    of_interval = mean * (level / np.maximum(by_interval.sum(axis=1), 1e-300))[:, None]
    target[:, :e, e:] = (by_interval @ A)[:, :, None] * of_interval[:, None, :]
    effective = np.sum(weights, axis=1) ** 2 / np.sum(weights**2, axis=1)
    kept = (effective / (effective + dimension))[:, None, None]
    whole = kept * found + (1.0 - kept) * target
    whole[:, e:, :e] = np.swapaxes(whole[:, :e, e:], 1, 2)
    return np.asarray(whole)

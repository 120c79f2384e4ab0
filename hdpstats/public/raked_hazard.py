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
from hdpstats.public.censoring import without_censoring
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
        terms = _terms(spells, theta, z, weights=weights, case_weights=case_weights, reached=reached.take(part))
        parts.append(_moments(spells, z, terms, weights=weights, factor=case_weights * people.mallows[part]))
    return Moments(H=np.concatenate([each.H for each in parts]), J=np.concatenate([each.J for each in parts]))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Terms:
    """Expected curvature and squared score (B, n, q) of each person and interval, for a cause."""

    curvature: FloatArray
    square: FloatArray


def _terms(
    spells: CappedSpells,
    theta: FloatArray,
    z: FloatArray,
    *,
    weights: FloatArray,
    case_weights: FloatArray,
    reached: Reached,
) -> list[_Terms]:
    """Return the terms of each cause for people ``z`` (B, n, p), at risk as they are expected to be."""
    flat, whole, rows = raked_spells(spells, z), slice(0, len(spells.A)), slice(0, z.shape[0] * z.shape[1])
    shape = (*z.shape[:2], len(spells.A))
    caps, lost, found = np.zeros(shape), np.zeros(shape), []
    for cause in range(spells.causes):
        eta, log_caps = flat.predictor(theta, rows, whole, cause), flat.log_caps(rows, whole, cause)
        hazard, cells = flat.loss.hazard(eta), flat.loss.cells(eta, log_caps)
        caps += np.exp(log_caps).reshape(shape)
        lost -= np.log1p(-np.minimum(hazard, ALMOST)).reshape(shape)
        bend = (1.0 - hazard) * cells.survived_curvature + hazard * cells.event_curvature
        square = (1.0 - hazard) * cells.survived**2 + hazard * cells.event**2
        found.append(_Terms(curvature=bend.reshape(shape), square=square.reshape(shape)))
    survived = np.exp(lost - np.cumsum(lost, axis=2))
    share = weights * case_weights
    surviving = np.einsum("bn,bns->bs", share / share.sum(axis=1, keepdims=True), survived)
    at_risk = survived * (np.cumsum(caps, axis=2) <= spells.total)
    at_risk *= reached.without_censoring(surviving)[:, None, :]
    return [_Terms(curvature=at_risk * each.curvature, square=at_risk * each.square) for each in found]


def _moments(
    spells: CappedSpells, z: FloatArray, terms: list[_Terms], *, weights: FloatArray, factor: FloatArray
) -> Moments:
    """Return the sums of terms times ``x x'``, each person's weighted by ``factor`` (B, n), squared for scores."""
    D = spells.causes * spells.block
    H, J = np.zeros((len(z), D, D)), np.zeros((len(z), D, D))
    for cause, each in enumerate(terms):
        own = slice(cause * spells.block, (cause + 1) * spells.block)
        for out, of_cells, by in ((H, each.curvature, weights * factor), (J, each.square, weights * factor**2)):
            out[:, own, own] = _shrunk(spells.A, z, by[:, :, None] * of_cells, weights, dimension=D)
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


def _shrunk(A: FloatArray, z: FloatArray, terms: FloatArray, weights: FloatArray, *, dimension: int) -> FloatArray:
    """Return sums of ``terms`` (B, n, q) times ``x x'``, shrunk as `hdpstats.public.moments.raked` shrinks."""
    (q, e), p = A.shape, z.shape[2]
    by_interval = terms.sum(axis=1)
    found = np.zeros((len(z), e + p, e + p))
    found[:, :e, :e] = (by_interval @ (A[:, :, None] * A[:, None, :]).reshape(q, e * e)).reshape(-1, e, e)
    found[:, :e, e:] = A.T @ (np.swapaxes(terms, 1, 2) @ z)
    found[:, e:, e:] = np.swapaxes(z, 1, 2) @ (terms.sum(axis=2)[:, :, None] * z)
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

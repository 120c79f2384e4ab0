r"""Curvature of a hazard model over raked public people, who are followed as private ones are.

Besides covariates two facts shift: who is still at risk, and hazards, which are what is estimated. With :math:`r_s` the
share of private people at risk when interval ``s`` begins (described, :math:`r_1 = 1`), :math:`S_s(x)` the probability
under ``theta`` of surviving interval ``s``, and raked people of weights :math:`w_i`, an interval is reached without
censoring with probability

.. math:: G_s = r_s \Big/ \sum_i w_i S_{s-1}(x_i),

made monotone: censoring is taken not to depend on covariates given the model. Person ``i`` is at risk in ``s`` with
probability :math:`G_s S_{s-1}(x_i)`, as far as the cap does not end follow-up before; where people are weighed by their
caps instead, the weights are those of the raked covariates. ``H`` and ``J`` are the sums over
people and intervals of `hdpstats.families.hazard.public` with these in place of the public people's own intervals.
(Weighting public people by how long they were followed instead leaves too few of them.) Nothing is expanded to
person-period rows but for the numbers of one block.

**Compiled sums.** With the factors of `hdpstats.solvers.kernels` the ratio of hazard to cap is :math:`u = E_s W_i`,
the cap :math:`h = G_s K_i`, and :math:`u h` are the odds of the event (logit link) or its cumulative hazard
(complementary log-log link): a cell costs a root and quotients, and one exponential for the latter link alone. Rows are
public, so that sums over people may be reordered.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from hdpstats._base.compiled import compiled_reordered, inlined_reordered
from hdpstats._base.typing import FloatArray
from hdpstats.families.hazard.outcomes import without_censoring
from hdpstats.families.hazard.spells import CELLS, CappedSpells
from hdpstats.public.moments import Moments
from hdpstats.raking.people import WhitenedPeople, rounded
from hdpstats.solvers.kernels import LANES, STEEPEST, Factors

LEAST_SURVIVAL = 2.0**-40
"""The least probability of surviving an interval that is used."""

UNENDED = 1e100
"""A total that no sum of caps passes of somebody who counts."""

LARGEST, TINY = 1e300, 1e-8
"""Odds and cumulative hazards are cut at the first; below the second, a ratio to the hazard is a series."""


class StackedFactors(NamedTuple):
    """Factors of all causes: ``E`` and ``G`` (causes, q), ``W`` and ``K`` (causes, B, n).

    ``cumulative`` says of which link (`HazardLink.cumulative`).
    """

    E: FloatArray
    G: FloatArray
    W: FloatArray
    K: FloatArray
    cumulative: bool

    @classmethod
    def of(cls, causes: list[Factors], *, people: int, cumulative: bool) -> "StackedFactors":
        """Stack the factors of causes, of draws of so many people each."""
        E, G, W, K = (np.stack([getattr(each, name) for each in causes]) for name in ("E", "G", "W", "K"))
        return cls(E=E, G=G, W=W.reshape(len(W), -1, people), K=K.reshape(len(K), -1, people), cumulative=cumulative)


def mean_survival(on: StackedFactors, share: FloatArray) -> FloatArray:
    """Return the mean probability of surviving what is before each interval (B, q), people weighted by (B, n)."""
    out = np.zeros((len(share), on.E.shape[1]))
    _add_survival(*on, share, out)
    return out


def expected_sums(
    on: StackedFactors, A: FloatArray, *, total: float, reached: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sums of expected curvatures and squared scores.

    Parameters
    ----------
    on
        The factors.
    A
        Features of the intervals (q, e).
    total
        The cap on a person's sum of caps: after it nobody is at risk.
    reached
        The probability of reaching each interval without censoring (B, q).
    weights
        By which a person's curvatures and squared scores count (2, B, n).

    Returns
    -------
    tuple of numpy.ndarray
        Of each cause and of both, over people in each interval (causes, 2, B, q), and over intervals for each person,
        times each feature and without one (causes, 2, B, e + 1, n).
    """
    (causes, q), (B, n) = on.E.shape, weights.shape[1:]
    features = np.column_stack([A, np.ones(q)])
    intervals, people = np.zeros((causes, 2, B, q)), np.zeros((causes, 2, B, features.shape[1], n))
    _add_cells(*on, features, total, reached, weights, intervals, people)
    return intervals, people


@compiled_reordered
def _add_survival(
    E: FloatArray,
    G: FloatArray,
    W: FloatArray,
    K: FloatArray,
    cumulative: bool,
    share: FloatArray,
    out: FloatArray,
) -> None:
    causes, B, n = W.shape
    lanes, scales = np.empty(LANES), np.empty((causes, LANES))
    for b in range(B):
        for start in range(0, n, LANES):
            end = min(start + LANES, n)
            alive = lanes[: end - start]
            alive[:] = share[b, start:end]
            for cause in range(causes):
                scales[cause, : end - start] = W[cause, b, start:end] * K[cause, b, start:end]
            for s in range(E.shape[1]):
                whole = 0.0
                for i in range(len(alive)):
                    whole += alive[i]
                out[b, s] += whole
                for cause in range(causes):
                    factor, scale = E[cause, s] * G[cause, s], scales[cause]
                    for i in range(len(alive)):
                        m = min(factor * scale[i], LARGEST)
                        alive[i] *= max(np.exp(-m) if cumulative else 1.0 / (1.0 + m), LEAST_SURVIVAL)


@inlined_reordered
def _set_odds(factor: float, scale: FloatArray, links: FloatArray) -> None:
    """Set hazards, chances to survive, ``psi`` and ``m / p - 1`` (4, lanes) from odds ``m``: the last are 1 and 0."""
    hazard, survived, psi, rest = links[0], links[1], links[2], links[3]
    for i in range(len(scale)):
        m = min(factor * scale[i], LARGEST)
        survived[i] = 1.0 / (1.0 + m)
        hazard[i] = m * survived[i]
        psi[i], rest[i] = 1.0, 0.0


@inlined_reordered
def _set_cumulative(factor: float, scale: FloatArray, links: FloatArray) -> None:
    """Set the same from cumulative hazards ``m``, ``psi = m / (e^m - 1)``."""
    hazard, survived, psi, rest = links[0], links[1], links[2], links[3]
    for i in range(len(scale)):
        m = min(factor * scale[i], LARGEST)
        hazard[i] = -np.expm1(-m)
        survived[i] = 1.0 - hazard[i]
        ratio = m / hazard[i] if m > TINY else 1.0 + 0.5 * m
        psi[i], rest[i] = ratio * survived[i], ratio - 1.0


@inlined_reordered
def _set_cells(
    E_s: float,
    G_s: float,
    w: FloatArray,
    k: FloatArray,
    links: FloatArray,
    at_risk: FloatArray,
    of_curvatures: FloatArray,
    of_square: FloatArray,
    curvatures: FloatArray,
    square: FloatArray,
    alive: FloatArray,
) -> None:
    """Set a cause's terms of one interval, counted as ``of_`` them, and multiply ``alive`` by the chance to survive."""
    hazard, survived, psi, rest = links[0], links[1], links[2], links[3]
    for i in range(len(w)):
        h, u = G_s * k[i], min(E_s * w[i], STEEPEST)
        below = 1.0 / (1.0 + u * u)
        root = np.sqrt(below)
        c, e = h * u * root, psi[i] * root
        curved = survived[i] * c * below + hazard[i] * e * (u * u * below + rest[i])
        squared = survived[i] * c * c + hazard[i] * e * e
        curvatures[i] = of_curvatures[i] * at_risk[i] * curved if at_risk[i] > 0.0 else 0.0
        square[i] = of_square[i] * at_risk[i] * squared if at_risk[i] > 0.0 else 0.0
        alive[i] *= max(survived[i], LEAST_SURVIVAL)


@inlined_reordered
def _add_scaled(factor: float, added: FloatArray, out: FloatArray) -> None:
    for i in range(len(added)):
        out[i] += factor * added[i]


@compiled_reordered
def _add_cells(
    E: FloatArray,
    G: FloatArray,
    W: FloatArray,
    K: FloatArray,
    cumulative: bool,
    A: FloatArray,
    total: float,
    reached: FloatArray,
    weights: FloatArray,
    intervals: FloatArray,
    people: FloatArray,
) -> None:
    (causes, B, n), q, features = W.shape, len(A), np.ascontiguousarray(A.T)
    state, links, scales = np.empty((3, LANES)), np.empty((4, LANES)), np.empty(LANES)
    alive, caps, at_risk, cells = state[0], state[1], state[2], np.zeros((causes, 2, q, LANES))
    for b in range(B):
        for start in range(0, n, LANES):
            end = min(start + LANES, n)
            scale = scales[: end - start]
            of_curvatures, of_square = weights[0, b, start:end], weights[1, b, start:end]
            alive[:], caps[:] = 1.0, 0.0
            for s in range(q):
                for cause in range(causes):
                    _add_scaled(G[cause, s], K[cause, b, start:end], caps)
                for i in range(end - start):
                    at_risk[i] = alive[i] * reached[b, s] if caps[i] <= total else 0.0
                for cause in range(causes):
                    E_s, G_s, w, k = E[cause, s], G[cause, s], W[cause, b, start:end], K[cause, b, start:end]
                    scale[:] = w * k
                    if cumulative:
                        _set_cumulative(E_s * G_s, scale, links)
                    else:
                        _set_odds(E_s * G_s, scale, links)
                    curvatures, square = cells[cause, 0, s], cells[cause, 1, s]
                    _set_cells(E_s, G_s, w, k, links, at_risk, of_curvatures, of_square, curvatures, square, alive)
            for cause in range(causes):
                for which in range(2):
                    own = cells[cause, which]
                    for s in range(q):
                        intervals[cause, which, b, s] += own[s, : end - start].sum()
                    people[cause, which, b, :, start:end] = np.dot(features, own)[:, : end - start]


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
    spells: CappedSpells,
    theta: FloatArray,
    *,
    case_weights: FloatArray,
    people: WhitenedPeople,
    reached: Reached,
    weighs: bool = False,
) -> Moments:
    """Return ``H`` and ``J`` (B, D, D) of one private person.

    ``spells`` are the public ones, whitened: one for each person, of the given case weights (n,). ``weighs`` says
    whether people are weighed down by their caps (`hdpstats.records.model.HazardCap.weighs`).
    """
    n, q = len(spells.Z), len(spells.A)
    step, parts = max(1, CELLS // (n * q)), []
    for start in range(0, len(people.weights), step):
        part = slice(start, start + step)
        z, weights = np.ascontiguousarray(people.z[part]), people.weights[part]
        factor = case_weights * people.mallows[part]
        on = raked_spells(spells, z)
        if weighs:
            factor = factor * on.weighed(intervals=q).weights.reshape(factor.shape)
            on = replace(on, total=UNENDED)
        counted = np.stack([weights * factor, weights * factor**2])
        share = weights * case_weights
        share = share / share.sum(axis=1, keepdims=True)
        sums = _sums(on, theta, share=share, counted=counted, reached=reached.take(part))
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
        curvatures = (1.0 - hazard) * cells.survived_curvature + hazard * cells.event_curvature
        square = (1.0 - hazard) * cells.survived**2 + hazard * cells.event**2
        terms.append((curvatures.reshape(shape), square.reshape(shape)))
    survived = np.exp(lost - np.cumsum(lost, axis=2))
    at_risk = survived * (np.cumsum(caps, axis=2) <= on.total)
    at_risk *= reached.without_censoring(np.einsum("bn,bns->bs", share, survived))[:, None, :]
    A = np.column_stack([on.A, np.ones(len(on.A))])

    def added(cells: FloatArray, by: FloatArray) -> _Sums:
        cells = by[:, :, None] * at_risk * cells
        return _Sums(intervals=cells.sum(axis=1), people=np.swapaxes(cells @ A, 1, 2))

    return [(added(curvatures, counted[0]), added(square, counted[1])) for curvatures, square in terms]


class _Rounded(NamedTuple):
    """Of weighted covariates: their means (B, p), `rounded` second moments (B, p, p) with traces (B,), and sizes (B,).

    Sizes are the numbers of people of equal weights who would say as much.
    """

    mean: FloatArray
    square: FloatArray
    trace: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, z: FloatArray, weights: FloatArray) -> "_Rounded":
        """Compute them from covariates (B, n, p) and weights (B, n)."""
        share = weights / weights.sum(axis=1, keepdims=True)
        square, mean = np.swapaxes(z, 1, 2) @ (share[:, :, None] * z), np.einsum("bn,bnp->bp", share, z)
        trace, size = np.trace(square, axis1=1, axis2=2), 1.0 / np.sum(share**2, axis=1)
        return cls(mean=mean, square=rounded(square, mean=mean, total=np.ones(len(z))), trace=trace, size=size)


def _moments(spells: CappedSpells, z: FloatArray, sums: list[tuple[_Sums, _Sums]], *, weights: FloatArray) -> Moments:
    """Return the sums of terms times ``x x'``."""
    D, like = spells.causes * spells.block, _Rounded.of(z, weights)
    H, J = np.zeros((len(z), D, D)), np.zeros((len(z), D, D))
    for cause, both in enumerate(sums):
        own = slice(cause * spells.block, (cause + 1) * spells.block)
        for out, each in zip((H, J), both, strict=True):
            out[:, own, own] = _shrunk(spells.A, z, each, like, dimension=D)
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


def _shrunk(A: FloatArray, z: FloatArray, sums: _Sums, like: _Rounded, *, dimension: int) -> FloatArray:
    """Return matrices (B, e + p, e + p) of sums times ``x x'``, shrunk as `hdpstats.raking.curvature.raked` shrinks."""
    (q, e), p = A.shape, z.shape[2]
    by_interval = sums.intervals
    found = np.zeros((len(z), e + p, e + p))
    found[:, :e, :e] = (by_interval @ (A[:, :, None] * A[:, None, :]).reshape(q, e * e)).reshape(-1, e, e)
    found[:, :e, e:] = sums.people[:, :e] @ z
    found[:, e:, e:] = np.swapaxes(z, 1, 2) @ (sums.people[:, e, :, None] * z)
    target = found.copy()
    level = np.trace(found[:, e:, e:], axis1=1, axis2=2) / np.where(like.trace > 0.0, like.trace, 1.0)
    target[:, e:, e:] = level[:, None, None] * like.square
    of_interval = like.mean * (level / np.maximum(by_interval.sum(axis=1), 1e-300))[:, None]
    target[:, :e, e:] = (by_interval @ A)[:, :, None] * of_interval[:, None, :]
    kept = (like.size / (like.size + dimension))[:, None, None]
    whole = kept * found + (1.0 - kept) * target
    whole[:, e:, :e] = np.swapaxes(whole[:, :e, e:], 1, 2)
    return np.asarray(whole)

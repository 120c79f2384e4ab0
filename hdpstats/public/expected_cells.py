r"""Expected curvature and squared score of raked people, added over intervals, compiled.

A person is at risk in an interval with some probability (`hdpstats.public.raked_hazard`). With the factors of
`hdpstats.solvers.spell_sums` the ratio of hazard to cap is :math:`u = E_s W_i`, the cap :math:`h = G_s K_i`, and
:math:`u h` are the odds of the event (logit link) or its cumulative hazard (complementary log-log link): a cell costs
a root and quotients, and one exponential for the latter link alone. Rows are public, so that sums over people may be
reordered.
"""

from typing import NamedTuple

import numpy as np

from hdpstats._base.compiled import compiled_reordered
from hdpstats._base.typing import FloatArray
from hdpstats.solvers.spell_sums import LANES, STEEPEST, Factors

LEAST_SURVIVAL = 2.0**-40
"""The least probability of surviving an interval that is used."""

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


@compiled_reordered
def _set_odds(factor: float, scale: FloatArray, links: FloatArray) -> None:
    """Set hazards, chances to survive, ``psi`` and ``m / p - 1`` (4, lanes) from odds ``m``: the last are 1 and 0."""
    hazard, survived, psi, rest = links[0], links[1], links[2], links[3]
    for i in range(len(scale)):
        m = min(factor * scale[i], LARGEST)
        survived[i] = 1.0 / (1.0 + m)
        hazard[i] = m * survived[i]
        psi[i], rest[i] = 1.0, 0.0


@compiled_reordered
def _set_cumulative(factor: float, scale: FloatArray, links: FloatArray) -> None:
    """Set the same from cumulative hazards ``m``, ``psi = m / (e^m - 1)``."""
    hazard, survived, psi, rest = links[0], links[1], links[2], links[3]
    for i in range(len(scale)):
        m = min(factor * scale[i], LARGEST)
        hazard[i] = -np.expm1(-m)
        survived[i] = 1.0 - hazard[i]
        ratio = m / hazard[i] if m > TINY else 1.0 + 0.5 * m
        psi[i], rest[i] = ratio * survived[i], ratio - 1.0


@compiled_reordered
def _set_cells(
    E_s: float,
    G_s: float,
    w: FloatArray,
    k: FloatArray,
    links: FloatArray,
    at_risk: FloatArray,
    of_bend: FloatArray,
    of_square: FloatArray,
    bend: FloatArray,
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
        bend[i] = of_bend[i] * at_risk[i] * curved if at_risk[i] > 0.0 else 0.0
        square[i] = of_square[i] * at_risk[i] * squared if at_risk[i] > 0.0 else 0.0
        alive[i] *= max(survived[i], LEAST_SURVIVAL)


@compiled_reordered
def _add_scaled(factor: float, added: FloatArray, out: FloatArray) -> None:
    for i in range(len(added)):
        out[i] += factor * added[i]


@compiled_reordered
def _add_features(features: FloatArray, cells: FloatArray, people: FloatArray, start: int) -> float:
    """Add cells (lanes,) times each feature (e,) to ``people`` (e, n) from ``start`` on, and return their sum."""
    whole = 0.0
    for j in range(len(features)):
        _add_scaled(features[j], cells, people[j, start : start + len(cells)])
    for i in range(len(cells)):
        whole += cells[i]
    return whole


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
    causes, B, n = W.shape
    state, links, cells, scales = np.empty((3, LANES)), np.empty((4, LANES)), np.empty((2, LANES)), np.empty(LANES)
    alive, caps, at_risk = state[0], state[1], state[2]
    for b in range(B):
        for start in range(0, n, LANES):
            end = min(start + LANES, n)
            bend, square, scale = cells[0, : end - start], cells[1, : end - start], scales[: end - start]
            of_bend, of_square = weights[0, b, start:end], weights[1, b, start:end]
            alive[:], caps[:] = 1.0, 0.0
            for s in range(E.shape[1]):
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
                    _set_cells(E_s, G_s, w, k, links, at_risk, of_bend, of_square, bend, square, alive)
                    intervals[cause, 0, b, s] += _add_features(A[s], bend, people[cause, 0, b], start)
                    intervals[cause, 1, b, s] += _add_features(A[s], square, people[cause, 1, b], start)

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
def _set_cells(
    factors: tuple[float, float],
    w: FloatArray,
    k: FloatArray,
    cumulative: bool,
    at_risk: FloatArray,
    counted: FloatArray,
    cells: FloatArray,
    alive: FloatArray,
) -> None:
    """Set ``cells`` (2, lanes) to a cause's terms in one interval, and multiply ``alive`` by the chance to survive."""
    of_bend, of_square, bend, square = counted[0], counted[1], cells[0], cells[1]
    for i in range(len(w)):
        h, u = factors[1] * k[i], min(factors[0] * w[i], STEEPEST)
        m, below = min(u * h, LARGEST), 1.0 / (1.0 + u * u)
        c, e, steeper = h * u * np.sqrt(below), np.sqrt(below), u * u * below
        if cumulative:
            event = -np.expm1(-m)
            survived, ratio = 1.0 - event, m / event if m > TINY else 1.0 + 0.5 * m
            e *= ratio * survived
            steeper += ratio - 1.0
        else:
            survived = 1.0 / (1.0 + m)
            event = m * survived
        some = at_risk[i] > 0.0
        bend[i] = of_bend[i] * at_risk[i] * (survived * c * below + event * e * steeper) if some else 0.0
        square[i] = of_square[i] * at_risk[i] * (survived * c * c + event * e * e) if some else 0.0
        alive[i] *= max(survived, LEAST_SURVIVAL)


@compiled_reordered
def _add_features(features: FloatArray, cells: FloatArray, people: FloatArray) -> float:
    """Add cells (lanes,) times each feature (e,) to ``people`` (e, lanes), and return their sum."""
    whole = 0.0
    for j in range(len(features)):
        feature, row = features[j], people[j]
        for i in range(len(cells)):
            row[i] += feature * cells[i]
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
    state, cells = np.empty((3, LANES)), np.empty((2, LANES))
    for b in range(B):
        for start in range(0, n, LANES):
            end = min(start + LANES, n)
            alive, caps, at_risk, of_cells = state[0], state[1], state[2, : end - start], cells[:, : end - start]
            for i in range(end - start):
                alive[i] = 1.0
                caps[i] = 0.0
            for s in range(E.shape[1]):
                for cause in range(causes):
                    k = K[cause, b, start:end]
                    for i in range(end - start):
                        caps[i] += G[cause, s] * k[i]
                for i in range(end - start):
                    at_risk[i] = alive[i] * reached[b, s] if caps[i] <= total else 0.0
                for cause in range(causes):
                    w, k, factors = W[cause, b, start:end], K[cause, b, start:end], (E[cause, s], G[cause, s])
                    _set_cells(factors, w, k, cumulative, at_risk, weights[:, b, start:end], of_cells, alive)
                    for of in range(2):
                        found = _add_features(A[s], of_cells[of], people[cause, of, b, :, start:end])
                        intervals[cause, of, b, s] += found

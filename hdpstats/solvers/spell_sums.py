r"""Sums over the intervals of spells, compiled, where the scale of the link and the cap are products.

Where ``g(eta) = e^eta`` (`HazardLink.multiplicative`) the ratio of hazard to cap is a number of the interval times one
of the spell, and so is the cap:

.. math:: u_{is} = E_s W_i, \quad h_{is} = G_s K_i, \qquad E_s = e^{A_s'\alpha - \gamma_s - d - r}, \; W_i =
          e^{z_i'(\beta - \delta) + r}, \; G_s = e^{\gamma_s + d}, \; K_i = e^{z_i'\delta + o_i},

``r`` being the middle of the exponents of ``E``: a cell costs a root and a quotient, and no exponential. Spells are the
lanes of vectors, and all intervals are gone through in their order, whatever a spell's follow-up: sums of a spell
depend on that spell alone, to the last bit (`hdpstats._base.loops`), and the time they take on none.

**Extremes.** The exponents of ``E`` span at most twice `SPAN`, else there are no factors; those of ``G`` are at most
`SPAN` in size. The exponent of ``W`` is clipped to twice `SPAN`, where ``u`` is beyond e^170 or below e^-170 in every
interval: the score is ``h`` or 0 to all digits either way. That of ``K`` is clipped to `FARTHEST` less `SPAN`: beyond,
``h`` is above e^360 in every interval, and there is none in which such a spell is at risk, or below e^-360, which adds
nothing that a double would show. So no spell needs an exception.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.loops import ROUNDER, ROUNDER_BITS, bits_of, compiled
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.losses.hazard import FARTHEST

SPAN = 170.0
"""Size of the exponents of factors of intervals."""

STEEPEST = 1e150
"""Ratios of hazard to cap are cut here: their squares do not overflow, and the score is the cap."""

LANES = 256
"""Spells that are handled at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Factors:
    """Factors of hazards over caps and of caps, and the logarithms of both, of some spells and one cause.

    Attributes
    ----------
    E, G, a, cap : (q,) float64
        ``E_s``, ``G_s``, ``A_s'alpha`` and ``gamma_s + d``.
    W, K, level, caps : (b,) float64
        ``W_i``, ``K_i``, ``z_i'beta + o_i`` and ``z_i'delta + o_i``.
    """

    E: FloatArray
    G: FloatArray
    a: FloatArray
    cap: FloatArray
    W: FloatArray
    K: FloatArray
    level: FloatArray
    caps: FloatArray

    def at(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return predictors and logarithms of caps of each spell in one interval (b,)."""
        return self.a[places] + self.level, np.clip(self.cap[places] + self.caps, -FARTHEST, FARTHEST)


@compiled
def add_scores(
    E: FloatArray,
    G: FloatArray,
    A: FloatArray,
    W: FloatArray,
    K: FloatArray,
    entry: IntArray,
    last: IntArray,
    out: FloatArray,
) -> None:
    """Set ``out`` (e + 1, b): sums over the intervals at risk of ``c A_sj`` for every feature, and of ``c``."""
    e, size = A.shape[1], np.empty(LANES)
    for start in range(0, len(W), LANES):
        end = min(start + LANES, len(W))
        w, k, begins, ends = W[start:end], K[start:end], entry[start:end], last[start:end]
        for j in range(e + 1):
            row = out[j, start:end]
            for i in range(len(w)):
                row[i] = 0.0
        total = out[e, start:end]
        for s in range(len(E)):
            ratio, cap = E[s], G[s]
            for i in range(len(w)):
                u = min(ratio * w[i], STEEPEST)
                c = cap * k[i] * (u / np.sqrt(1.0 + u * u))
                size[i] = c if begins[i] <= s and s < ends[i] else 0.0
                total[i] += size[i]
            for j in range(e):
                feature, row = A[s, j], out[j, start:end]
                for i in range(len(w)):
                    row[i] += feature * size[i]


@compiled
def add_curvatures(
    E: FloatArray,
    G: FloatArray,
    A: FloatArray,
    W: FloatArray,
    K: FloatArray,
    entry: IntArray,
    last: IntArray,
    out: FloatArray,
    intervals: IntArray,
) -> None:
    """Set ``out`` as `add_scores` does, for curvatures ``c / (1 + u^2)``, and add them, rounded, to ``intervals`` (q,).

    They are rounded to integers: ``K`` holds what scales them.
    """
    e, size = A.shape[1], np.empty(LANES)
    for start in range(0, len(W), LANES):
        end = min(start + LANES, len(W))
        w, k, begins, ends = W[start:end], K[start:end], entry[start:end], last[start:end]
        for j in range(e + 1):
            row = out[j, start:end]
            for i in range(len(w)):
                row[i] = 0.0
        total = out[e, start:end]
        for s in range(len(E)):
            ratio, cap, added = E[s], G[s], np.int64(0)
            for i in range(len(w)):
                u = min(ratio * w[i], STEEPEST)
                ratio_to_one = u / np.sqrt(1.0 + u * u)
                c = cap * k[i] * (ratio_to_one / (1.0 + u * u))
                size[i] = c if begins[i] <= s and s < ends[i] else 0.0
                total[i] += size[i]
                added += bits_of(size[i] + ROUNDER) - ROUNDER_BITS
            intervals[s] += added
            for j in range(e):
                feature, row = A[s, j], out[j, start:end]
                for i in range(len(w)):
                    row[i] += feature * size[i]


@compiled
def add_caps(
    G: FloatArray,
    K: FloatArray,
    entry: IntArray,
    last: IntArray,
    before: FloatArray,
    most: float,
    sums: FloatArray,
    fits: IntArray,
) -> None:
    """Set each spell's sum of caps (m,) and how many intervals fit under ``most`` after ``before``.

    ``G`` (causes, q) and ``K`` (causes, m) are the factors of the caps.
    """
    caps = np.empty(LANES)
    for start in range(0, len(entry), LANES):
        end = min(start + LANES, len(entry))
        begins, ends, already = entry[start:end], last[start:end], before[start:end]
        running, fit = sums[start:end], fits[start:end]
        for i in range(len(begins)):
            running[i] = 0.0
            fit[i] = 0
        for s in range(G.shape[1]):
            for i in range(len(begins)):
                caps[i] = 0.0
            for cause in range(len(G)):
                factor, k = G[cause, s], K[cause, start:end]
                for i in range(len(begins)):
                    caps[i] += factor * k[i]
            for i in range(len(begins)):
                inside = begins[i] <= s and s < ends[i]
                running[i] += caps[i] if inside else 0.0
                fit[i] += 1 if inside and already[i] + running[i] <= most else 0

r"""Public rows with wanted correlations: a linear map of numbers, given indicators and weights.

Averages of products of two features, indicators of levels or numbers, tell covariances (`CohortProduct`). Those of two
indicators are met by weights (`hdpstats.raking.raking`). For the others, with ``D`` the centred indicators and ``X``
the centred numbers under the weights, and ``B`` the slopes of ``X`` on ``D``, numbers become

.. math:: x' = \mu + (X - D B) A + D B_t,

:math:`B_t` being the slopes that the wanted covariances give. ``A`` takes the covariance ``S`` of residuals to the
wanted one :math:`S_t`, both in units of standard deviations, and moves them least of all linear maps (Dowson and Landau
1982):

.. math:: A = S^{-1/2} (S^{1/2} S_t S^{1/2})^{1/2} S^{-1/2}.

Where correlations are those of the rows already it is the identity. Wanted correlations are noisy, and may contradict
each other: eigenvalues of their matrix are at least `LEAST_EIGENVALUE`.

References
----------
D. C. Dowson, B. V. Landau (1982), The Fréchet distance between multivariate normal distributions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.records.averages import CohortProduct

LEAST_EIGENVALUE = 0.05
"""The least eigenvalue of a wanted correlation matrix."""

DEPENDENT = 0.003
"""The least eigenvalue of the correlations of public residuals: rows vary less along no direction."""

LEAST_CELL = 0.002
"""The least share of people in each of the four cells of two indicators."""

LARGEST_CORRELATION = 0.95


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pairs:
    """Pairs of features of which averages of products are known.

    Attributes
    ----------
    known : tuple of CohortProduct
        The averages.
    places : (2, kp) int64
        The places of their features: of the indicators, which come first, or of numbers.
    centre, unit : (2, kp) float64
        Of both factors, in the units of the features.
    indicators : int
        How many features are indicators.
    """

    known: tuple[CohortProduct, ...]
    places: IntArray
    centre: FloatArray
    unit: FloatArray
    indicators: int

    @property
    def joint(self) -> BoolArray:
        """Whether both are indicators (kp,)."""
        return np.asarray(np.all(self.places < self.indicators, axis=0))

    def of(self, features: FloatArray) -> FloatArray:
        """Return the products (kp, ...) of features (k, ...), cut as they were."""
        found, factors = np.empty((len(self.known), *features.shape[1:])), dict[tuple[float, ...], FloatArray]()

        def factor(side: int, pair: int) -> FloatArray:
            """Return a factor of a pair; most columns are one of several pairs."""
            place = int(self.places[side, pair])
            key = place, self.centre[side, pair], self.unit[side, pair], self.known[pair].reach
            if key not in factors:
                factors[key] = self._factor(side, pair, features[place])
            return factors[key]

        for pair, product in enumerate(self.known):
            found[pair] = product.of(factor(0, pair), factor(1, pair))
        return found

    def _factor(self, side: int, pair: int, values: FloatArray) -> FloatArray:
        reach = self.known[pair].reach
        return np.asarray(np.clip((values - self.centre[side, pair]) / self.unit[side, pair], -reach, reach))

    def both(self, products: FloatArray, shares: FloatArray) -> FloatArray:
        """Return shares of people (B, kj) who are of both levels of joint pairs.

        ``products`` (B, kp) are averages, ``shares`` (B, kb) those of the levels. A product of two indicators has four
        values, so that its average tells the share; it is cut to what the shares allow.
        """
        found = []
        for pair in np.flatnonzero(self.joint):
            cells = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
            first, second = (self._factor(side, int(pair), each) for side, each in enumerate(cells))
            none, second, first, both = self.known[pair].of(first, second)
            p, q = shares[:, self.places[0, pair]], shares[:, self.places[1, pair]]
            rest = products[:, pair] - none * (1.0 - p - q) - first * p - second * q
            share = rest / (none + both - first - second)
            low, high = np.maximum(p + q - 1.0, 0.0) + LEAST_CELL, np.minimum(p, q) - LEAST_CELL
            found.append(np.minimum(np.maximum(share, low), np.maximum(high, 0.5 * (low + high))))
        return np.column_stack(found) if found else np.zeros((len(shares), 0))

    def covariances(self, products: FloatArray, means: FloatArray) -> FloatArray:
        """Return covariances (B, kp) of features of some means (B, k), as if products (B, kp) had not been cut."""
        first, second = (means[:, self.places[side]] - self.centre[side] for side in (0, 1))
        return np.asarray(self.unit[0] * self.unit[1] * products - first * second)


def pairs_of(
    products: Sequence[CohortProduct],
    places: Mapping[tuple[str, int | None], int],
    *,
    centre: FloatArray,
    scale: FloatArray,
    indicators: int,
) -> Pairs:
    """Return the pairs whose features are both there.

    ``places`` are those of features by column and level; ``centre`` and ``scale`` (k,) their units in those of columns.
    """
    known = [each for each in products if all((one.name, one.level) in places for one in (each.first, each.second))]
    columns = [[getattr(each, side) for each in known] for side in ("first", "second")]
    at = np.array([[places[each.name, each.level] for each in side] for side in columns], dtype=np.int64)
    at = at.reshape(2, len(known))
    return Pairs(
        known=tuple(known),
        places=at,
        centre=(np.array([[each.centre for each in side] for side in columns]).reshape(at.shape) - centre[at])
        / scale[at],
        unit=np.array([[each.unit for each in side] for side in columns]).reshape(at.shape) / scale[at],
        indicators=indicators,
    )


def mixing(pairs: Pairs, covariance: FloatArray, *, deviations: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the linear maps (B, k, kc) from centred features to centred numbers with wanted covariances.

    Parameters
    ----------
    pairs
        The pairs of features.
    covariance
        Of the features (B, k, k) under the weights.
    deviations
        The wanted standard deviations of the numbers (B, kc).
    wanted
        The wanted covariances (B, kp) of pairs; those of two indicators are left as they are.
    """
    kb = pairs.indicators
    own = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 1e-6))
    sds = np.concatenate([own[:, :kb], deviations], axis=1)
    correlation = covariance / (own[:, :, None] * own[:, None, :])
    goal, moved = correlation.copy(), ~pairs.joint
    i, j = pairs.places[:, moved]
    goal[:, i, j] = np.clip(wanted[:, moved] / (sds[:, i] * sds[:, j]), -LARGEST_CORRELATION, LARGEST_CORRELATION)
    goal[:, j, i] = goal[:, i, j]
    goal = _possible(goal)
    among = correlation[:, :kb, :kb] + 1e-6 * np.eye(kb)
    slopes, wanted_slopes = (np.linalg.solve(among, each[:, :kb, kb:]) for each in (correlation, goal))
    residual, to = (
        each[:, kb:, kb:] - np.swapaxes(each[:, :kb, kb:], 1, 2) @ along
        for each, along in ((correlation, slopes), (goal, wanted_slopes))
    )
    A = _transport(residual, to)
    whole = np.concatenate([wanted_slopes - slopes @ A, A], axis=1)
    return np.asarray(whole / own[:, :, None] * deviations[:, None, :])


def _possible(correlation: FloatArray) -> FloatArray:
    """Return correlation matrices (B, k, k) with eigenvalues that are not below `LEAST_EIGENVALUE` by much."""
    eigenvalues, vectors = np.linalg.eigh(correlation)
    if bool(np.all(eigenvalues >= LEAST_EIGENVALUE)):
        return correlation
    kept = (vectors * np.maximum(eigenvalues, LEAST_EIGENVALUE)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    size = np.sqrt(np.diagonal(kept, axis1=1, axis2=2))
    kept = kept / (size[:, :, None] * size[:, None, :])
    low = eigenvalues[:, 0] < LEAST_EIGENVALUE
    return np.where(low[:, None, None], kept, correlation)


def _transport(start: FloatArray, to: FloatArray) -> FloatArray:
    """Return the symmetric matrices (B, k, k) that take a covariance to another."""
    root, inverse = _powers(start, least=DEPENDENT)
    middle, _ = _powers(root @ to @ root, least=1e-6)
    return np.asarray(inverse @ middle @ inverse)


def _powers(square: FloatArray, *, least: float) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric roots of matrices (B, k, k) with eigenvalues of some size at least, and their inverses."""
    eigenvalues, vectors = np.linalg.eigh(0.5 * (square + np.swapaxes(square, 1, 2)))
    root, back = np.sqrt(np.maximum(eigenvalues, least))[:, None, :], np.swapaxes(vectors, 1, 2)
    return (vectors * root) @ back, (vectors / root) @ back

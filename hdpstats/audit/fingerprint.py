r"""The last bits of released doubles, which may tell what a release was computed from.

A sampler that adds floating-point noise to a query can reach other doubles from one query than from another. The
statistic of a double is the exponent of its lowest set bit, the finest dyadic grid on which it lies. Events "lowest bit
at most :math:`2^t` (or above), magnitude below ``s``" are chosen on one part of the releases from two queries and
certified on the other part by Clopper-Pearson limits: a lower bound of epsilon.

References
----------
I. Mironov (2012), On significance of the least significant bits for differential privacy.
S. Haney, D. Desfontaines, L. Hartman, R. Shrestha, M. Hay (2022), Precision-based attacks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import integer, real
from hdpstats.audit.outputs import log_ratio

Sampler = Callable[[float, int], npt.ArrayLike]
"""From a query and a number of releases to so many releases of that query."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """What the last bits of releases certify.

    Attributes
    ----------
    epsilon : float
        The sampler's epsilon is above this, with the confidence that was asked for; 0 where nothing was found.
    event : str
        The event that certifies it, in words.
    shares : (float, float)
        How often the event occurred among releases of the query from which it is likely, and among those of the other.
    """

    epsilon: float
    event: str
    shares: tuple[float, float]

    def __str__(self) -> str:
        one, other = self.shares
        where = f"in {one:.1%} of one query's releases and {other:.1%} of the other's"
        return f"epsilon > {self.epsilon:.2f}: {self.event}, {where}"


def lowest_bit(values: npt.ArrayLike) -> IntArray:
    """Return the exponent of the lowest set bit of each double; 1024 for zero.

    >>> lowest_bit([0.75, 8.0, 0.0]).tolist()
    [-2, 3, 1024]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, 1024, exponent - 53 + trailing).astype(np.int64)


def fingerprint(
    sampler: Sampler, *, queries: tuple[float, float] = (0.0, 1.0), releases: int = 24_000, alpha: float = 1e-9
) -> Fingerprint:
    """Return the largest epsilon that the last bits of releases from two neighbouring queries certify.

    Parameters
    ----------
    sampler
        Takes a query and a number, and returns so many releases: query plus noise.
    queries
        Two queries that one person may move between.
    releases
        How many releases of each query; a third of them chooses the event. What is likely under one query and
        impossible under the other certifies about the logarithm of a thirty-second of this number.
    alpha
        A sampler whose epsilon is not above the bound is contradicted with at most this probability.

    Raises
    ------
    ArgumentError
        If the sampler does not return so many finite numbers, or an argument is out of range.

    Examples
    --------
    A sampler that puts the query on a grid first, and adds whole numbers of steps, leaves nothing in the last bits:

    >>> from fractions import Fraction
    >>> from hdpstats.noise import TwoSidedGeometric
    >>> noise = TwoSidedGeometric(rate=Fraction(1, 1024))
    >>> steps = lambda query, count: [(round(query * 1024) + z) / 1024 for z in noise.draws(count)]
    >>> fingerprint(steps, releases=1000).epsilon <= 1
    True
    """
    count = integer(releases, name="releases", lower=100, upper=10**8)
    alpha = real(alpha, name="alpha", lower=0.0, upper=0.5, open_lower=True)
    drawn = [_released(sampler, float(query), count) for query in queries]
    seen = [(np.abs(values), lowest_bit(values)) for values in drawn]
    train = count // 3
    best = Fingerprint(epsilon=0.0, event="no event", shares=(0.0, 0.0))
    chosen = -math.inf
    sizes = np.concatenate([size[:train] for size, _ in seen])
    for largest in (math.inf, *np.quantile(sizes, [0.05, 0.1, 0.25, 0.5, 0.75]).tolist()):
        for exponent in range(-90, 12, 2):
            for fine in (True, False):
                events = [(size < largest) & ((bit <= exponent) == fine) for size, bit in seen]
                for event, other in (events, events[::-1]):
                    value = _bound(event[:train], other[:train], alpha)
                    if value > chosen:
                        chosen = value
                        best = Fingerprint(
                            epsilon=max(0.0, _bound(event[train:], other[train:], alpha)),
                            event=f"lowest bit {'at most' if fine else 'above'} 2^{exponent}, size below {largest:.3g}",
                            shares=(float(event[train:].mean()), float(other[train:].mean())),
                        )
    return best


def _released(sampler: Sampler, query: float, count: int) -> FloatArray:
    values: Any = np.asarray(sampler(query, count), dtype=np.float64)
    if values.shape != (count,) or not np.all(np.isfinite(values)):
        raise ArgumentError("sampler must return as many finite numbers as it is asked for", argument="sampler")
    return np.asarray(values)


def _bound(event: BoolArray, other: BoolArray, alpha: float) -> float:
    return log_ratio(int(event.sum()), len(event), int(other.sum()), len(other), alpha)

r"""Weights of public rows from private counts, as data flow: public points, candidate sizes, what to ask, how to share.

**Candidates.** Public points in farthest-first order (Gonzalez 1985): of any beginning of it, no public row is farther
than about necessary. Sizes double from `SMALLEST` to `LARGEST`.

**What a size costs.** With ``m`` points the noise in a weighted sum of a function with values of size ``s`` has the
standard deviation :math:`s \sqrt{m v}`, ``v`` being the variance of the noise of a count. Moving people to their points
changes the sum by at most the slope of the function times the sum of distances; as they move in all directions, by far
less. The cost of a size is the sum of distances plus `NOISE_PER_DISTANCE` times :math:`\sqrt{m v}`. That factor is no
consequence of anything: it was found by simulation, where half or twice of it does little. A wrong one costs
accuracy, never privacy.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.privacy.budget import EPSILON_GRAIN, rounded_down
from hdpstats.records.geometry import PointSpace
from hdpstats.schema.public import PublicTable, distinct, embed, space_of
from hdpstats.solvers.nearest_points import farthest_first

SMALLEST, LARGEST = 8, 4096
"""Sizes of the smallest and the largest candidate."""

NOISE_PER_DISTANCE = 4.0
"""Units of distance that one standard deviation of the noise in a sum is worth."""

SHORTEST_REACH = 1e-9


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicPoints:
    """The public rows that are complete in the columns, as points.

    Attributes
    ----------
    space : PointSpace
        Where they lie.
    left_out : tuple of str
        Columns in which they are all the same.
    points : (n, p) float64
        Their points.
    first : (m,) int64
        The first row of each different point.
    """

    space: PointSpace
    left_out: tuple[str, ...]
    points: FloatArray
    first: IntArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidates:
    """Beginnings of an order of public rows.

    Attributes
    ----------
    order : (M,) int64
        Rows, all different points, farthest first.
    sizes : tuple of int
        How many of them each candidate takes.
    reach : float
        No public row is farther from the smallest candidate.
    """

    order: IntArray
    sizes: tuple[int, ...]
    reach: float


def public_points(table: PublicTable, columns: Iterable[str]) -> PublicPoints:
    """Return public rows as points, in a space that they span."""
    rows = table.admitted(columns)
    space, left_out = space_of(columns, table.schema, rows)
    points = embed(space, rows)
    return PublicPoints(space=space, left_out=left_out, points=points, first=distinct(space, rows))


def candidates_of(public: PublicPoints) -> Candidates:
    """Return the candidate sizes, and the order that they begin."""
    sizes = candidate_sizes(len(public.first))
    order, radius = farthest_first(public.points[public.first], sizes[-1])
    return Candidates(order=public.first[order], sizes=sizes, reach=max(float(radius[sizes[0] - 1]), SHORTEST_REACH))


def candidate_sizes(points: int) -> tuple[int, ...]:
    """Return the candidate sizes for a number of different public points, at least 1.

    >>> candidate_sizes(153), candidate_sizes(5)
    ((8, 16, 32, 64, 128, 153), (5,))
    """
    most = min(points, LARGEST)
    doubled = [SMALLEST << step for step in range(math.ceil(math.log2(LARGEST / SMALLEST)) + 1)]
    return (*(size for size in doubled if size < most), most)


def penalties(sizes: Iterable[int], noise_variance: float) -> tuple[float, ...]:
    """Return what each size costs by its noise, in units of distance."""
    return tuple(NOISE_PER_DISTANCE * math.sqrt(size * noise_variance) for size in sizes)


def part_of(epsilon: Fraction, share: Fraction) -> Fraction:
    """Return a part of an epsilon, rounded down to the grain of charges.

    >>> part_of(Fraction(1), Fraction(1, 10))
    Fraction(1, 10)
    """
    return rounded_down(epsilon * share, EPSILON_GRAIN)


def spread_of(public: PublicPoints, support: IntArray, cell: IntArray) -> FloatArray:
    """Return the mean distance (m,) of the public rows of each cell from its point."""
    away = np.linalg.norm(public.points - public.points[support][cell], axis=1)
    return np.asarray(np.bincount(cell, away, minlength=len(support)) / np.bincount(cell, minlength=len(support)))

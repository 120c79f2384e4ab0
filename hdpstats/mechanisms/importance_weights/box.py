r"""Rows in a box: the public coding in which every column is bounded on its own, and how far two rows can be apart.

Two kinds of columns are told apart, by the formula and the schema alone. Indicators of the levels of one category (or
of one combination of categories) exclude each other: at most one of them is 1. All other columns may take any values
within their bounds, whatever the others do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.formulas.design import DesignColumn
from hdpstats.formulas.geometry import LARGEST, Rows
from hdpstats.mechanisms.importance_weights.query import Box


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    r"""How large coded rows are, whatever the person: sums over columns by their type.

    With a row ``x`` (a one first where there is an intercept), its weight ``w``, ``t`` in [0, w] and ``t'`` in [0, w']:

    Attributes
    ----------
    leverage : float
        ``sup w ||x||^2``.
    diameter : float
        ``sup ||t x - t' x'||``.
    """

    leverage: float
    diameter: float


def boxed(box: Box, X: FloatArray) -> Rows:
    """Return the coded rows of design columns ``X`` (n, d) and their weights: each row from itself alone."""
    u = np.empty_like(X)
    weights = np.ones(len(X))
    bounds = zip(box.location, box.scale, box.lower, box.upper, strict=True)
    with np.errstate(all="ignore"):
        for j, (location, scale, lower, upper) in enumerate(bounds):
            column = np.clip((X[:, j] - location) / scale, -LARGEST, LARGEST)
            weights = np.where(column > upper, np.minimum(weights, upper / column), weights)
            weights = np.where(column < lower, np.minimum(weights, lower / column), weights)
            u[:, j] = column
    return Rows(X=np.column_stack([np.ones(len(X)), u]) if box.intercept else u, weights=weights)


def extent(box: Box, columns: Sequence[DesignColumn]) -> Extent:
    r"""Return the extent of coded rows of design columns, in doubles.

    **Leverage.** Of a category with coded indicators ``e`` (the row of a level, or that of none of them) the square is
    at most :math:`N = \max \|e\|^2`; of a number ``u`` with ``w u <= upper`` and ``u <= u_max`` the product ``w u^2``
    is at most ``min(upper, u_max) u_max``, and likewise below 0. With ``w <= 1`` and the intercept they add up.

    **Diameter.** In a numeric column ``t u`` and ``t' u'`` lie within the box: at most its side apart. For the
    intercept and the categories, :math:`(t - t')^2 + \sum \|t e - t' e'\|^2` is convex in ``(t, t')`` on the unit
    square, so a corner is largest: at (1, 1) it is :math:`\sum \max \|e - e'\|^2`, 2 per category with columns of zeros
    and ones, and at (1, 0) it is :math:`1 + \sum N`. Without weights, intercept and centring, for ``m`` categories
    and ``k`` columns in [0, 1], the diameter is :math:`\sqrt{2 m + k}`: not the length :math:`\sqrt{m + k}` of the
    longest row, which two rows with different levels exceed.
    """
    apart, alone, leverage, sides = 0.0, 0.0, 0.0, 0.0
    for members in _categories(columns):
        codes = _patterns(box, members)
        between = codes[:, None, :] - codes[None, :, :]
        apart += float(np.max(np.sum(between**2, axis=-1)))
        longest = float(np.max(np.sum(codes**2, axis=-1)))
        alone, leverage = alone + longest, leverage + longest
    for j in _numbers(columns):
        low, high = ((bound - box.location[j]) / box.scale[j] for bound in (columns[j].lower, columns[j].upper))
        leverage += max(_side(high, box.upper[j]), _side(-low, -box.lower[j]))
        sides += (box.upper[j] - box.lower[j]) ** 2
    one = float(box.intercept)
    return Extent(leverage=one + leverage, diameter=float(np.sqrt(max(apart, one + alone) + sides)))


def _side(largest: float, bound: float) -> float:
    """Return ``sup w u^2`` over ``0 <= u <= largest`` with ``w u <= bound`` and ``w <= 1``."""
    return min(bound, largest) * largest if largest > 0.0 else 0.0


def _patterns(box: Box, members: Sequence[int]) -> FloatArray:
    """Return the coded values (levels + 1, columns) of a category: one level each, and none of them."""
    location, scale = (np.array([values[j] for j in members]) for values in (box.location, box.scale))
    return np.asarray((np.vstack([np.eye(len(members)), np.zeros(len(members))]) - location) / scale)


def _categories(columns: Sequence[DesignColumn]) -> Iterable[list[int]]:
    """Return the places of columns that exclude each other: different combinations of levels of the same columns."""
    groups: dict[tuple[str, ...], list[int]] = {}
    seen: set[tuple[tuple[str, int], ...]] = set()
    for j, column in enumerate(columns):
        combination = tuple(sorted((level.column, level.code) for level in column.levels))
        if is_indicator(column):
            again = (f"{j}",) if combination in seen else ()
            groups.setdefault((*(name for name, _ in combination), *again), []).append(j)
            seen.add(combination)
    return groups.values()


def _numbers(columns: Sequence[DesignColumn]) -> list[int]:
    return [j for j, column in enumerate(columns) if not is_indicator(column)]


def is_indicator(column: DesignColumn) -> bool:
    """Return whether a column says that a row has a level, or a combination of levels, and nothing else."""
    named = [level.column for level in column.levels]
    return bool(named) and not column.expressions and len(set(named)) == len(named)

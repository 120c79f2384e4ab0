"""How far one person moves a description, in integer units: the constants of `hdpstats.mechanisms.description.site`."""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from hdpstats.mechanisms.description.query import UNITS, DescribedColumn, DescriptionQuery
from hdpstats.noise.lattice import sqrt_up
from hdpstats.privacy.sensitivity import Relation

STEPS: Final = 512
"""Of the search for the largest difference of the features of a number."""

STEEPEST: Final = 6
"""No smaller than the slope of what is searched."""


def box_sensitivity(relation: Relation) -> int:
    """Return how far one person moves the sums in the sum over groups of maximum norms, in units."""
    return UNITS * relation.persons_changed // 2


def square_sensitivity(query: DescriptionQuery, relation: Relation) -> Fraction:
    r"""Return the square of how far one person moves the sums in the Euclidean norm, in units.

    A block is at most :math:`\sqrt{d} / 2` long. Under add-or-remove-one that is all; a person who changes the group,
    or ceases to count, moves two blocks at most: :math:`\sqrt{d / 2}`. Within a group squares of differences add up
    over columns (`column_square`). What rounding adds is at most a unit in each of the ``d`` sums.
    """
    dimension = Fraction(query.dimension)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        square = dimension / 4
    else:
        within = sum((column_square(each, complete=query.complete) for each in query.columns), Fraction(0))
        within += 0 if query.at_risk is None else len(query.at_risk.after)
        square = max(within, dimension / 2 if query.groups > 1 else dimension / 4)
    return (UNITS * sqrt_up(square) + sqrt_up(dimension)) ** 2


def column_square(column: DescribedColumn, *, complete: bool) -> Fraction:
    """Return the largest square of the distance of the features of two people of one group in one column.

    Another level moves two features by 1, or one where the other level has none of its own; another number those of
    `number_square`, or the number alone by 1. A cell that is missing moves the count of missing cells by 1, and every
    feature of a value by 1/2.
    """
    alone = column.levels or column.values == 1
    among = min(Fraction(2), Fraction(column.values)) if alone else number_square(column.centre)
    counted = column.features(complete=complete) > column.values
    left_out = Fraction(column.values, 4)
    return max(among, left_out + 1 if counted else left_out)


@lru_cache(maxsize=1024)
def number_square(centre: float) -> Fraction:
    r"""Return an upper bound of :math:`\max_{x, y} (x - y)^2 + (u(x) - u(y))^2`, at most 0.012 above it.

    ``x`` and ``y`` are in [0, 1] and :math:`u(x) = (x - c)^2 / \max(c, 1 - c)^2`. By symmetry let :math:`c \le 1/2`.
    One of the two may then be taken as 1: if :math:`x > y` and :math:`u(x) \ge u(y)`, both terms grow with ``x``; if
    :math:`x > y` and :math:`u(x) < u(y)`, both grow as ``y`` falls to 0, and the pair (1, 1 - x) has the same first
    term and, as :math:`1 - c \ge c`, no smaller a second one. What is left is a function of one number whose slope is
    at most :math:`2 + 4 \cdot 2 \cdot \max_w w (1 - w^2) < 6`, evaluated exactly at ``STEPS`` + 1 places. The centre is
    first rounded to a multiple of 1 / ``UNITS``, so that the work is the same for all: as
    :math:`|du / dc| \le 2 / (1 - c)^2 \le 8`, a centre that is off by ``h`` changes the value by at most 16 ``h``.
    """
    near = Fraction(round(min(centre, 1.0 - centre) * UNITS), UNITS)
    far = 1 - near
    largest = max(
        (1 - y) ** 2 + (1 - ((y - near) / far) ** 2) ** 2 for y in (Fraction(i, STEPS) for i in range(STEPS + 1))
    )
    return largest + Fraction(STEEPEST, 2 * STEPS) + Fraction(16, 2 * UNITS)


def cells_sensitivity(columns: int, relation: Relation) -> int:
    """Return how many people one person is in counts of the cells of so many columns, in the L1 norm.

    It is also the square of the Euclidean norm: each of these counts moves by 1.
    """
    return columns * relation.persons_changed

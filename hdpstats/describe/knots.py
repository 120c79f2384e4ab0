"""Knots of splines at quantiles of the described people: computed from released counts of cells, at no charge."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats.formulas.bases import knot_shares, knots_apart
from hdpstats.formulas.operations import Interval
from hdpstats.mechanisms.description.blocks import FEWEST, DescribedNumbers
from hdpstats.mechanisms.description.estimate import quantiles_of

PLACES: Final = 400
"""The distribution of people is read at so many even shares, where quantiles alone are no knots."""
DIGITS: Final = range(4, 13)
"""The significant digits of knots: the first ones that keep them apart."""


def described_knots(
    numbers: DescribedNumbers, place: int, bounds: Interval, *, function: str, count: int
) -> list[float]:
    """Return knots that `bs`, `ns` or `rcs` of a column takes, whatever public rows there are.

    They increase strictly between the declared bounds. Knots are the quantiles of `knot_shares`; those that coincide or
    lie at a bound are replaced as in `knots_apart`, where the values of people are the quantiles at 400 even shares. A
    knot is added only with people on each side of it, up to the next knots, that are at least 4 standard deviations of
    the noise of one cell.

    Parameters
    ----------
    numbers : DescribedNumbers
        The released numbers, without groups.
    place : int
        The place of the column, which has cells.
    bounds : Interval
        Its declared bounds.
    function : str
        The function.
    count : int
        How many knots.

    Raises
    ------
    ArgumentError
        If there are too few people for the noise, or too few different values.
    """
    column = numbers.query.columns[place]
    found = _quantiles(numbers, place, knot_shares(function, count).tolist())
    if not found:
        raise ArgumentError(
            f"column: too few people for the noise to know quantiles of {column.name!r}; ask for a larger epsilon",
            argument="column",
        )
    values = _quantiles(numbers, place, (np.arange(PLACES) + 0.5) / PLACES)
    people = float(numbers.cells_of(0, column)[: len(column.cuts) + 1].sum())
    noise = PLACES * FEWEST * float(numbers.sds[1]) / people

    def apart(quantiles: list[float]) -> tuple[float, ...]:
        digits = _digits(quantiles, bounds)
        short = [[_short(each, digits) for each in some] for some in (quantiles, values)]
        return knots_apart(*short, ends=bounds, fewest=noise)

    knots = apart(found)
    if len(knots) == count:
        return list(knots)
    fewest = 3 if function == "rcs" else 1
    fewer = (
        each
        for each in range(count - 1, fewest - 1, -1)
        if len(apart(_quantiles(numbers, place, knot_shares(function, each).tolist()))) == each
    )
    most = next(fewer, 0)
    raise ArgumentError(
        f"count: too few different values of {column.name!r}, as far as the noise lets them be known, for {count} "
        f"different knots between its bounds {bounds.lower:.10g} and {bounds.upper:.10g}; "
        f"{f'ask for {most}' if most else 'enter the column without a spline'}, or write knots of your own",
        argument="count",
    )


def _quantiles(numbers: DescribedNumbers, place: int, shares: Iterable[float]) -> list[float]:
    named = {str(j): float(share) for j, share in enumerate(shares)}
    found = quantiles_of(numbers, numbers.group(0), 0, place, alpha=0.05, shares=named)
    return [each.estimate for each in found.values()]


def _digits(quantiles: list[float], bounds: Interval) -> int:
    """Return four digits, or as many as keep quantiles apart that differ, and off the bounds."""

    def apart(values: Iterable[float]) -> int:
        return len({value for value in values if bounds.lower < value < bounds.upper})

    enough = (digits for digits in DIGITS if apart(_short(each, digits) for each in quantiles) == apart(quantiles))
    return next(enough, DIGITS[-1])


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")

r"""The public constants of a description: centres, the cells of quartiles, and the intervals of follow-up.

Half the ends of cells are quantiles of public rows, half are even on the declared range, on the scale of
:math:`\operatorname{asinh}((x - m) / r)` where that range is more than `WIDE` times the interquartile range ``r`` of
public rows about their median ``m``. Where public rows hold whole numbers only, ends lie half-way between two of them,
so that no value is split. Without public rows all ends are even.

A fit that describes its own people cuts numbers to `REACH` public standard deviations about the public mean, inside the
declared bounds (`averaged_columns`).

Follow-up is counted in public intervals, whose ends are given, or are round times up to the horizon.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.time_units import CALENDAR, DAYS, ROUNDED, known_unit
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import integer, real
from hdpstats.mechanisms.description import DescribedColumn, DescribedPairs, RowsOfPerson, number_of_pairs
from hdpstats.mechanisms.description.site import levels_of
from hdpstats.records.averages import CentredColumn
from hdpstats.schema.columns import Column, Duration, NumericColumn
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

FEWEST_PUBLIC: Final = 25
_CLOSE: Final = 1e-6
"""How far ends are rounded at most, in the smallest distance between two of them."""
REACH: Final = 2.5
"""How many public standard deviations from the public mean a fit lets numbers lie."""
LARGEST_PRODUCT: Final = 3.0
"""What products of two standardised columns are cut to. Without that noise would be twice as large."""
FARTHEST: Final = 10.0
"""The largest range that a share of the noise is chosen for: of a level that 1 % have."""
WIDE: Final = 12.0
FEW_CELLS, MANY_CELLS = 12, 24
MANY_PEOPLE: Final = 400.0
"""People of a group times the epsilon of a column's cells from which there are many cells."""


def described_columns(
    schema: Schema, names: Sequence[str], public: PublicTable | None, *, cells: int
) -> tuple[DescribedColumn, ...]:
    """Return the columns as a description sees them; ``cells`` is 0 without quartiles."""
    return tuple(_described(name, schema[name], _numbers(schema[name], name, public), cells) for name in names)


def number_of_cells(people_of_group: float, epsilon: float) -> int:
    """Return the number of cells of a column, given the epsilon of its cells under replace-one.

    >>> number_of_cells(500, 0.1), number_of_cells(5000, 0.1)
    (12, 24)
    """
    return MANY_CELLS if people_of_group * epsilon >= MANY_PEOPLE else FEW_CELLS


def averaged_columns(
    schema: Schema, names: Sequence[str], public: PublicTable
) -> tuple[tuple[DescribedColumn, ...], float]:
    """Return the columns of which a fit asks the averages, and the largest range of one in public standard deviations.

    Left out are columns in which all public rows agree: private people cannot be represented in them. The public
    standard deviation has one more row, spread over the declared range, as in `hdpstats.records.geometry.from_public`.
    """
    found, farthest = [], 0.0
    for name in names:
        rows, levels = public.admitted([name]), levels_of(schema[name])
        values = np.asarray(rows.numeric[name] if name in rows.numeric else rows.codes[name], dtype=np.float64)
        if float(np.ptp(values)) == 0.0:
            continue
        kept, range_of_one = _of_levels(name, levels, values) if levels else _of_numbers(name, schema[name], values)
        found.append(kept)
        farthest = max(farthest, min(range_of_one, FARTHEST))
    return tuple(found), farthest


LEAST_PART: Final = 0.05
"""The smallest share of public people that is a group of numbers of rows of its own, in the query of a fit."""


def ends_of_numbers(most: int, numbers: IntArray | None = None) -> tuple[int, ...]:
    """Return the largest number of rows of each group of people but the last: 1, 2, 4, 8, ... below ``most``.

    With the ``numbers`` of rows of public people (n,) no group has fewer than `LEAST_PART` of these.

    >>> ends_of_numbers(6), ends_of_numbers(6, np.array([1, 1, 5, 6]))
    ((1, 2, 4), (1,))
    """
    ends = [2**k for k in range(most.bit_length()) if 2**k < most]
    if numbers is None:
        return tuple(ends)
    kept: list[int] = []
    for end in ends:
        inside = (numbers <= end) & (numbers > (kept[-1] if kept else 0))
        if min(np.mean(inside), np.mean(numbers > end)) >= LEAST_PART:
            kept.append(end)
    return tuple(kept)


def averaged_rows(most: int, correlation: float, numbers: IntArray) -> tuple[RowsOfPerson, float]:
    """Return how a fit asks for people's rows, and the largest range of a share of people with so many, as above.

    ``numbers`` (n,) are those of public people's rows.
    """
    ends = ends_of_numbers(most, numbers)
    groups = np.searchsorted(np.array(ends), numbers, side="left")
    shares = np.bincount(groups, minlength=len(ends) + 1) / max(len(numbers), 1)
    range_of_one = min(_range_of_shares(shares, len(numbers)), FARTHEST) if ends else 0.0
    return RowsOfPerson(most=most, ends=ends, correlation=correlation), range_of_one


def described_pairs(
    schema: Schema, columns: Sequence[DescribedColumn], public: PublicTable | None, *, most: int | None = None
) -> DescribedPairs | None:
    """Return the pairs of columns of which products are asked; None where there is no pair, or are more than ``most``.

    Centres and units are means and standard deviations of public rows, as `averaged_columns` has them. The indicator
    of a level is never cut. Of a category those of all levels but the last are paired, of two levels that of the
    second. Columns that public rows lack are centred in the middle of what is declared, with a quarter of the range as
    the unit.
    """
    paired = [each for column in columns for each in _centred(column, schema[column.name], public)]
    found = number_of_pairs(paired)
    if found == 0 or (most is not None and found > most):
        return None
    return DescribedPairs(columns=tuple(paired), reach=REACH, largest=LARGEST_PRODUCT)


def _centred(column: DescribedColumn, declared: Column, public: PublicTable | None) -> Iterator[CentredColumn]:
    values = np.zeros(0)
    if public is not None and column.name in public.names:
        rows = public.admitted([column.name])
        cells = rows.numeric[column.name] if column.name in rows.numeric else rows.codes[column.name]
        values = np.asarray(cells, dtype=np.float64)
    if column.levels:
        for level in (1,) if column.levels == 2 else range(column.levels - 1):
            known = float(np.mean(values == level)) if len(values) else 1.0 / column.levels
            yield _of_indicator(column.name, known, len(values), level=level)
    elif column.squares is not None:
        yield _of_indicator(column.name, float(values.mean()) if len(values) else 0.5, len(values), level=None)
    elif isinstance(declared, NumericColumn):
        n, reach = len(values), declared.upper - declared.lower
        mean = float(values.mean()) if n else (declared.lower + declared.upper) / 2.0
        sd = float(np.sqrt((n * values.var() + reach**2 / 12.0) / (n + 1))) if n else reach / 4.0
        yield CentredColumn(name=column.name, centre=_rounded(mean), unit=_rounded(sd))


def _of_indicator(name: str, share: float, rows: int, *, level: int | None) -> CentredColumn:
    sd = math.sqrt((rows * share * (1.0 - share) + 1.0 / 12.0) / (rows + 1))
    unit = max(sd, max(share, 1.0 - share) / REACH)
    return CentredColumn(name=name, centre=_rounded(share), unit=_rounded(1.001 * unit), level=level)


def _rounded(value: float) -> float:
    """Return a number with six digits: a query is the same on machines whose sums differ in a last digit."""
    return float(f"{value:.6g}")


def _of_levels(name: str, levels: int, codes: FloatArray) -> tuple[DescribedColumn, float]:
    shares = np.bincount(codes.astype(np.int64), minlength=levels) / len(codes)
    return DescribedColumn(name=name, levels=levels), _range_of_shares(shares, len(codes))


def _range_of_shares(shares: FloatArray, rows: int) -> float:
    return float(np.max(((rows * shares * (1.0 - shares) + 1.0 / 12.0) / (rows + 1)) ** -0.5))


def _of_numbers(name: str, column: Column, values: FloatArray) -> tuple[DescribedColumn, float]:
    """Return a column of numbers, cut about the public mean, and the larger range of mean and square."""
    if not isinstance(column, NumericColumn):
        raise TypeError(f"{name} holds no numbers")
    n, mean = len(values), float(values.mean())
    if (column.lower, column.upper) == (0.0, 1.0) and bool(np.isin(values, (0.0, 1.0)).all()):
        return DescribedColumn(name=name, squares=False), _range_of_shares(values.mean(keepdims=True), n)
    sd = float(np.sqrt((n * values.var() + (column.upper - column.lower) ** 2 / 12.0) / (n + 1)))
    ends = _short(mean - REACH * sd, mean + REACH * sd)
    lower, upper = max(column.lower, ends[0]), min(column.upper, ends[1])
    (centre,) = _short(float(np.clip((mean - lower) / (upper - lower), 0.0, 1.0)))
    kept = DescribedColumn(name=name, lower=lower, upper=upper, centre=centre)
    return kept, max(upper - lower, ((upper - lower) * kept.far) ** 2 / sd) / sd


def _numbers(column: Column, name: str, public: PublicTable | None) -> FloatArray:
    """Return the public numbers of a column within its bounds; none where they are too few."""
    if public is None or name not in public.numbers or not isinstance(column, NumericColumn):
        return np.zeros(0)
    values = public.numbers[name]
    values = np.clip(values[~np.isnan(values)], column.lower, column.upper)
    return values if len(values) >= FEWEST_PUBLIC else np.zeros(0)


def _described(name: str, column: Column, values: FloatArray, cells: int) -> DescribedColumn:
    levels, complete = levels_of(column), not column.leaves_out
    if levels or not isinstance(column, NumericColumn):
        return DescribedColumn(name=name, levels=levels, complete=complete)
    reach = column.upper - column.lower
    whole = bool(len(values)) and bool((values == np.rint(values)).all()) and reach > 2
    cuts = cuts_between(column.lower, column.upper, values, cells, whole=whole) if cells else ()
    return DescribedColumn(
        name=name,
        lower=column.lower,
        upper=column.upper,
        centre=_short(float(np.clip((values.mean() - column.lower) / reach, 0.0, 1.0)))[0] if len(values) else 0.5,
        complete=complete,
        cuts=cuts,
        whole=whole and bool(cuts),
    )


def cuts_between(lower: float, upper: float, values: FloatArray, cells: int, *, whole: bool) -> tuple[float, ...]:
    """Return the ends between so many cells, or fewer where values repeat."""
    if not len(values):
        even = np.linspace(lower, upper, cells + 1)[1:-1]
        return tuple(sorted(set(_short(*map(float, even)))))
    half = cells // 2
    at = np.arange(1, half + 1) / (half + 1)
    ends = [*np.quantile(values, at, method="inverted_cdf"), *_even(lower, upper, values, cells - half)]
    placed = [np.floor(end) + 0.5 for end in ends] if whole else ends
    return tuple(sorted({short for short in _short(*map(float, placed)) if lower < short < upper}))


def _even(lower: float, upper: float, values: FloatArray, parts: int) -> FloatArray:
    """Return the ends between parts that are even on the declared range, or on a wide one's scale."""
    middle, reach = float(np.median(values)), float(np.subtract(*np.quantile(values, [0.75, 0.25])))
    if reach > 0 and upper - lower > WIDE * reach:
        low, high = np.arcsinh((np.array([lower, upper]) - middle) / reach)
        return np.asarray(middle + reach * np.sinh(np.linspace(low, high, parts + 1)[1:-1]))
    return np.linspace(lower, upper, parts + 1)[1:-1]


def _short(*values: float) -> list[float]:
    """Return numbers with 8 digits, or with as many as keep them apart.

    >>> _short(1 / 3, 1.0), _short(2e9, 2e9 + 1)
    ([0.33333333, 1.0], [2000000000.0, 2000000001.0])
    """
    gaps = np.diff(np.unique(values))
    for digits in range(8, 17):
        short = [float(f"{value:.{digits}g}") for value in values]
        if max(abs(a - b) for a, b in zip(short, values, strict=True)) <= _CLOSE * float(np.min(gaps, initial=np.inf)):
            return short
    return [float(value) for value in values]


SMALLEST_SHARE: Final = 0.02
"""No group is expected to be smaller, when the number of intervals is chosen."""
FEWEST_INTERVALS: Final = 6
MOST_INTERVALS: Final = 28
MOST_ASKED: Final = 200
"""No larger number of even intervals is asked for: it is more likely to be meant as a time."""
PEOPLE_OF_AN_INTERVAL: Final = 60.0
"""People of a group times the square of epsilon that an interval takes: noise is then at most half of sampling."""


MORE, FEWER = 1.25, 2.0
"""How many times more intervals than suit, or fewer, there are where steps of the calendar make it so."""


def checked_times(times: object, column: Column) -> tuple[float, ...] | int | None:
    """Return the ends of intervals that a user gives, without 0, or their number; None stays None."""
    if times is None:
        return None
    if not isinstance(times, Iterable) or isinstance(times, str):
        number = times if isinstance(times, int | float) else 0
        if number > MOST_ASKED:
            raise ArgumentError(
                f"times must be a number of intervals up to {MOST_ASKED}, or their ends; {number:g} is more: a single "
                "end is given with 0 before it",
                argument="times",
            )
        return integer(times, name="times", lower=1, upper=MOST_ASKED)
    ends = tuple(real(each, name="times", lower=0.0) for each in times)
    ends = ends[1:] if ends[:1] == (0.0,) else ends
    if not ends or any(a >= b for a, b in itertools.pairwise(ends)):
        raise ArgumentError("times must be numbers above 0 that increase", argument="times")
    if isinstance(column, Duration) and ends[-1] > column.horizon:
        raise ArgumentError(f"times must end at {column.horizon:g} at most, the declared horizon", argument="times")
    return ends


def number_of_intervals(people: float, epsilon: float) -> int:
    """Return how many intervals suit a group of so many people, at an epsilon under replace-one.

    >>> number_of_intervals(1500, 0.3), number_of_intervals(1500, 1.0), number_of_intervals(10**4, 1.0)
    (6, 25, 28)
    """
    return int(np.clip(round(epsilon**2 * people / PEOPLE_OF_AN_INTERVAL), FEWEST_INTERVALS, MOST_INTERVALS))


def ends_of(
    times: tuple[float, ...] | int | None, column: Column, *, people: float, epsilon: float
) -> tuple[float, ...]:
    """Return the ends of intervals: those that are given, so many even ones, or those that readers expect.

    By default they are months, quarters, half years or years of a known unit, round numbers of others, and the horizon:
    of the steps the one that comes closest to the number of intervals that suits.
    """
    if isinstance(times, tuple):
        return times
    horizon = column.horizon if isinstance(column, Duration) else 0.0
    if times is None:
        unit = column.unit if isinstance(column, Duration) else None
        ends = round_ends(horizon, unit, number_of_intervals(people, epsilon))
    else:
        ends = np.linspace(0.0, horizon, times + 1)[1:]
    return tuple(float(f"{end:.8g}") for end in ends)


def round_ends(horizon: float, unit: str | None, number: int) -> FloatArray:
    """Return round times above 0 and the horizon: about so many of them.

    >>> round_ends(5.0, "years", 6).tolist(), round_ends(2557.0, "days", 6).tolist()[-2:]
    ([1.0, 2.0, 3.0, 4.0, 5.0], [2191.5, 2557.0])
    >>> round_ends(45.0, None, 8).tolist()
    [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0]
    """
    known, suits = known_unit(unit), horizon / number
    calendar = [] if known is None else [days / DAYS[known] for days in CALENDAR]
    steps = [step for step in calendar if suits / MORE <= step <= FEWER * suits]
    if not steps:
        scale = 10.0 ** math.floor(math.log10(suits))
        steps = [size * scale for size in (1.0, 2.0, 5.0, 10.0)]
    step = min(steps, key=lambda each: abs(math.log(each / suits)))
    ends = step * np.arange(1.0, math.ceil(horizon / step * (1.0 - ROUNDED)))
    return np.append(ends, horizon)


def smallest_share(public: PublicTable | None, grouping: Sequence[str], levels: Sequence[int]) -> float:
    """Return the share of people that the smallest group is expected to have, by public rows where they say."""
    groups = math.prod(levels)
    if public is None or not grouping or not set(grouping) <= set(public.names):
        return 1.0 / groups
    table = public.raw(grouping)
    place = np.zeros(table.rows, dtype=np.int64)
    for name, size in zip(grouping, levels, strict=True):
        codes = table.codes[name] if name in table.codes else table.numeric[name].astype(np.int64)
        place = place * size + codes
    counts = np.bincount(place, minlength=groups)
    return max(float(counts.min()) / max(table.rows, 1), SMALLEST_SHARE)

"""Which person a row is of: total maps from the cells of the column that ``unit=`` names to persons.

The rows of a person are protected together. What names a person is a cell's text (`hdpstats.schema.cell_maps.text`), so
that no cell changes whose another row is.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.schema.cell_maps import distinct_texts


def by_appearance(persons: IntArray) -> IntArray:
    """Return persons numbered from 0 in the order of their first rows; less than 0 (nobody) is -1."""
    distinct, first, inverse = np.unique(np.maximum(persons, -1), return_index=True, return_inverse=True)
    first[distinct == -1] = -1
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(distinct))
    return rank[inverse] - int(distinct.size > 0 and distinct[0] == -1)


def persons_of(cells: "pd.Series[Any]") -> IntArray:
    """Return for each cell the number of the person that it names, and -1 where it names nobody.

    Two cells name the same person where their texts are the same (see `hdpstats.schema.cell_maps.text`): 1, 1.0 and "1"
    are one, "1 " is another. Missing cells, blank texts and cells without a text (dates, bytes, whole numbers of 2^53
    or more but in nullable columns) name nobody. Persons are numbered from 0 in the order of their first rows, whatever
    the type of the column. Ids of more than 15 digits are to be read as text or ``Int64``.

    >>> persons_of(pd.Series([7, "7", None, "b", " "], dtype=object))
    array([ 0,  0, -1,  1, -1])
    >>> persons_of(pd.Series([2**53, 7, 2**53])), persons_of(pd.Series([2**53, 7, 2**53], dtype="Int64"))
    (array([-1,  0, -1]), array([0, 1, 0]))
    """
    read, positions = distinct_texts(cells)
    by_name: dict[str, int] = {}
    numbered = [-1 if name is None or not name.strip() else by_name.setdefault(name, len(by_name)) for name in read]
    return by_appearance(np.array(numbered, dtype=np.int64)[positions])


def marks_of(cells: "pd.Series[Any]", key: bytes) -> IntArray:
    """Return for each cell a hash (62 bits) of the text that names a person (see `persons_of`), and -1 where none does.

    It depends on that text and the key (up to 64 bytes) alone, not on the row, nor on any other cell.
    """
    read, positions = distinct_texts(cells)
    numbered = [-1 if name is None or not name.strip() else _mark(name, key) for name in read]
    return np.array(numbered, dtype=np.int64)[positions]


def _mark(name: str, key: bytes) -> int:
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") >> 2


def places_of(
    persons: IntArray, marks: IntArray, columns: Iterable[tuple[FloatArray | IntArray, BoolArray]]
) -> IntArray:
    """Return for each row (n,) its place among the rows of its person, from 0: which are used where there are too many.

    Rows of a person are put in the order of a hash of the person's mark, of the own cells after the map of the schema,
    and of how many rows before have the same cells: ``columns`` are values with which of them are missing. So the first
    ones are those of a random order, of the person's mark and rows alone: no other person's rows, and no order in a
    table or in files, moves a place but among rows whose cells are all the same. As the mark counts, two people with
    the same rows have orders of their own, and as equal rows are told apart, each has the same chance to be among the
    first ones: what is used is like what there is, also where cells have few values.

    >>> ages = np.array([50.0, 51.0, 52.0, 40.0])
    >>> none = np.zeros(4, dtype=bool)
    >>> places_of(np.array([0, 0, 0, 1]), np.array([7, 7, 7, 9]), [(ages, none)])
    array([0, 2, 1, 0])
    >>> places_of(np.array([1, 0, 0, 0]), np.array([9, 7, 7, 7]), [(ages[::-1], none)])
    array([0, 1, 2, 0])
    """
    mixed = _mixed(np.asarray(marks, dtype=np.int64).view(np.uint64))
    for values, missing in columns:
        bits = np.ascontiguousarray(values).view(np.uint64)
        mixed = _mixed(mixed ^ np.where(missing, _ODD, bits))
    equal = _numbered(persons, mixed, within=2)
    return _numbered(persons, _mixed(mixed ^ equal.view(np.uint64)), within=1)


def _numbered(persons: IntArray, mixed: Any, *, within: int) -> IntArray:
    """Return the numbers (n,) of rows from 0, in the order of hashes: among those of a person, or of person and hash.

    ``within`` is how many of the two arrays say what stands together.
    """
    order = np.lexsort((mixed, persons))
    changes = np.ones(len(order), dtype=np.bool_)
    changes[1:] = np.any([np.diff(each[order]) != 0 for each in (persons, mixed)[:within]], axis=0)
    begins = np.flatnonzero(changes)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return numbers


def first_rows(persons: IntArray, complete: BoolArray) -> IntArray:
    """Return one row of each person, by number: the first complete one, else the first; rows of nobody are left out.

    The first is that in the order of the table: which row it is follows from a person's own rows and their order.

    >>> first_rows(np.array([1, 0, 0, -1, 1]), np.array([True, False, True, True, True]))
    array([2, 0])
    """
    order = np.lexsort((np.arange(len(persons)), ~complete, persons))
    return np.asarray(order[np.diff(persons[order], prepend=-1) > 0])


def among_first(persons: IntArray, places: IntArray, counts: BoolArray, *, most_rows: int) -> BoolArray:
    """Return which rows (n,) are among the first ``most_rows`` that count of their person, in the order of places.

    >>> among_first(np.array([0, 0, 0, 1]), np.array([2, 1, 0, 0]), np.array([True, True, False, True]), most_rows=1)
    array([False,  True, False,  True])
    """
    order = np.lexsort((places, ~counts, persons))
    begins = np.flatnonzero(np.diff(persons[order], prepend=-2))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return counts & (persons >= 0) & (place < most_rows)


def means_of(persons: IntArray, values: FloatArray, counts: BoolArray) -> FloatArray:
    """Return the mean of each person's values that count, by number as in `first_rows`; NaN where none does.

    A person's values are added in their order, so that the mean depends on that person's rows alone, to the last bit.
    It is cut to the least and the largest of them.

    >>> means_of(np.array([1, 0, 0, -1]), np.array([1.0, 0.0, 1.0, 9.0]), np.array([True, True, True, True]))
    array([0.5, 1. ])
    """
    named, whose = np.unique(persons[persons >= 0], return_inverse=True)
    own, there = values[persons >= 0], counts[persons >= 0]
    numbers = np.bincount(whose[there], minlength=len(named))
    sums = np.bincount(whose[there], weights=own[there], minlength=len(named))
    means = np.divide(sums, numbers, out=np.full(len(named), np.nan), where=numbers > 0)
    least, largest = np.full(len(named), np.inf), np.full(len(named), -np.inf)
    np.minimum.at(least, whose[there], own[there])
    np.maximum.at(largest, whose[there], own[there])
    return np.asarray(np.where(numbers > 0, np.clip(means, least, largest), np.nan))


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mixed(bits: Any) -> Any:
    """Return hashes (n,) of 64-bit integers, by the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    bits = bits + _ODD
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))

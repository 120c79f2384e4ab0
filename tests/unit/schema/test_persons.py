"""Which person the cells of a column name, whatever they hold."""

import math
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from hdpstats.schema.persons import by_appearance, marks_of, persons_of, places_of


def objects(*cells):
    values = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        values[place] = cell
    return pd.Series(values, dtype=object)


NAMES = [
    ([1, "1", 1.0, np.int8(1), Decimal(1), 1 + 0j], [0, 0, 0, 0, 0, 0]),
    (["1", "1 ", "01", "1.0", 1.5, "1.5", -0.0, "0"], [0, 1, 2, 3, 4, 4, 5, 5]),
    (["b", "a", "b", "A", "\u00e5", "a\u030a"], [0, 1, 0, 2, 3, 4]),
    ([None, math.nan, pd.NA, pd.NaT, "", "  \t", "x"], [-1, -1, -1, -1, -1, -1, 0]),
    ([math.inf, 2**64, 10**400, 2**53, np.uint64(2**63), 2**53 - 1, float(2**53 - 1)], [-1, -1, -1, -1, -1, 0, 0]),
    ([pd.Timestamp("2020-01-01"), b"1", [1], ("a",), object(), uuid.uuid4()], [-1] * 6),
    ([True, "True", False, 1], [0, 0, 1, 2]),
    ([9.0, 3, "nan", "9", "NA"], [0, 1, 2, 0, 3]),
    ([], []),
]


@pytest.mark.parametrize(("cells", "expected"), NAMES)
def test_who_is_who(cells, expected):
    assert persons_of(objects(*cells)).tolist() == expected


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series([7, 3, 7, 5]),
        pd.Series([7.0, 3.0, 7.0, 5.0]),
        pd.Series([7, 3, 7, 5], dtype="Int64"),
        pd.Series(["7", "3", "7", "5"]),
        pd.Series(["7", "3", "7", "5"], dtype="string[pyarrow]"),
        pd.Series(["7", "3", "7", "5"], dtype=pd.CategoricalDtype(["1", "3", "5", "7"])),
        pd.Series([7, 3, 7, 5], dtype=pd.CategoricalDtype([3, 5, 7, 9])),
        pd.Series([7, 3, 7, 5]).astype("int64[pyarrow]"),
        pd.Series([7, 3, 7, 5], dtype="Sparse[int]"),
        pd.Series([7, "3", 7.0, Decimal(5)], dtype=object),
    ],
    ids=lambda cells: str(cells.dtype),
)
def test_persons_are_numbered_by_their_first_rows_whatever_the_type(cells):
    assert persons_of(cells).tolist() == [0, 1, 0, 2]
    assert persons_of(cells).dtype == np.int64


def test_persons_of_some_rows_are_numbered_without_gaps():
    assert by_appearance(np.array([5, -1, 2, 5, -7, 9])).tolist() == [0, -1, 1, 0, -1, 2]
    assert by_appearance(np.array([3, 1])).tolist() == [0, 1]
    assert by_appearance(np.array([-1])).tolist() == [-1]
    assert by_appearance(np.empty(0, dtype=np.int64)).tolist() == []


def test_a_million_rows_of_one_person_are_one_person():
    for cells in (pd.Series(np.full(10**6, 7)), pd.Series(["a"] * 10**6, dtype=object)):
        assert not persons_of(cells).any()


def test_marks_depend_on_the_name_and_the_key_alone():
    key = b"k" * 32
    found = marks_of(pd.Series([7, "7", None, "b", " ", 7.0, "\ud800"], dtype=object), key)
    assert found[0] == found[1] == found[5] != found[3]
    assert found[2] == found[4] == -1
    assert (found[[0, 3, 6]] >= 0).all()
    assert marks_of(pd.Series(["b"]), key)[0] == found[3]
    assert marks_of(pd.Series(["b"]), b"other")[0] != found[3]
    many = marks_of(pd.Series([str(place) for place in range(4000)]), key) % 4
    assert np.abs(np.bincount(many) - 1000).max() < 150


def places(frame):
    missing = np.zeros(len(frame), dtype=bool)
    columns = [(frame[name].to_numpy(dtype=float), missing) for name in ("y", "x")]
    return places_of(persons_of(frame["id"]), marks_of(frame["id"], b"key"), columns)


def few_values(people, rows):
    rng = np.random.default_rng(4)
    whose, n = np.repeat(np.arange(people), rows), people * rows
    return pd.DataFrame({"id": whose, "y": rng.random(n) < 0.3, "x": rng.integers(0, 2, n)}).astype(int)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_rows_that_are_used_are_like_all_rows_where_cells_have_few_values(most):
    frame = few_values(4000, 6)
    used = frame[places(frame) < most]
    assert len(used) == 4000 * most
    for of in (frame["y"], frame["x"], frame["y"] * frame["x"]):
        sd = of.std() * np.sqrt((1 - most / 6) / len(used))
        assert abs(of[used.index].mean() - of.mean()) < 3.0 * sd


def test_equal_rows_are_not_used_together_more_often_than_by_chance():
    frame = pd.DataFrame({"id": np.repeat(np.arange(3000), 4), "y": [0, 0, 0, 1] * 3000, "x": 0})
    ones = frame["y"][places(frame) < 3].groupby(frame["id"]).sum()
    assert ones.mean() == pytest.approx(0.75, abs=0.025)  # three of four rows


def test_a_place_follows_from_the_own_name_and_rows_alone():
    frame = pd.concat([few_values(50, 6)] * 2, ignore_index=True)
    alone, shuffled = frame.assign(place=places(frame)), frame.sample(frac=1.0, random_state=1)
    shuffled = shuffled.assign(place=places(shuffled))
    some = frame[frame["id"] % 7 == 3].iloc[::-1]
    some = some.assign(place=places(some))

    def told(table):
        return table[table["id"] % 7 == 3].sort_values(["id", "place"]).to_numpy().tolist()

    assert told(alone) == told(shuffled) == told(some)

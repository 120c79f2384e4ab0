"""Rows 33-46, 49 and 58 of the attack list: cells that a private table may hold, column type by column type."""

import datetime
import enum
import logging
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hdpstats.schema import cell_maps
from hdpstats.schema.columns import Binary, Categorical, Continuous

NAN = math.nan
NUMBER = Continuous(0, 10, missing=7)
LEVEL = Categorical(["0", "1", "3"], other="0", missing_level="0")


class Hostile:
    """Raises from every method that a reader of cells might call, and lies about its type."""

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("a cell's method was called")

    __float__ = __int__ = __index__ = __complex__ = __str__ = __repr__ = __bool__ = __len__ = __iter__ = _refuse
    __eq__ = __ne__ = __lt__ = __gt__ = __hash__ = __array__ = __format__ = __getattr__ = _refuse
    __class__ = property(lambda self: float)


class HostileType(type):
    """A type whose own hash and comparison raise."""

    def __hash__(cls):
        raise RuntimeError("a type's method was called")

    def __eq__(cls, other):
        raise RuntimeError("a type's method was called")


class HostileFloat(float):
    def __float__(self):
        raise RuntimeError("a cell's method was called")


class Grade(enum.IntEnum):
    THREE = 3


def hostile_of_hostile_type():
    return HostileType("Odd", (), {})()


def objects(*cells):
    values = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        values[place] = cell
    return pd.Series(values, dtype=object)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (3, 3.0),
        (3.5, 3.5),
        (True, 1.0),
        (np.False_, 0.0),
        (np.int8(3), 3.0),
        (np.longlong(3), 3.0),
        (np.float16(0.5), 0.5),
        (np.longdouble("1e400"), math.inf),
        (np.longdouble("0.5"), 0.5),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (5e-324, 5e-324),
        (1e308, 1e308),
        (Decimal("2.5"), 2.5),
        (Decimal("1e999999"), math.inf),
        (Decimal("sNaN"), NAN),
        (Decimal("-Infinity"), -math.inf),
        (Fraction(1, 4), 0.25),
        (Fraction(10**400), math.inf),
        (Fraction(-(10**400)), -math.inf),
        ("3", 3.0),
        (" 4.5 ", 4.5),
        ("-1e3", -1000.0),
        ("1e400", math.inf),
        ("9" * 10_000, math.inf),
        (np.str_("3"), 3.0),
        ("True", 1.0),
        ("FALSE", 0.0),
        ("nan", NAN),
        ("1_0", NAN),
        ("1,5", NAN),
        ("0x10", NAN),
        ("", NAN),
        ("x", NAN),
        ("3\x00", NAN),
        ("\ud800", NAN),
        (None, NAN),
        (NAN, NAN),
        (pd.NA, NAN),
        (pd.NaT, NAN),
        (3 + 0j, 3.0),
        (np.complex128(3), 3.0),
        (np.complex64(0.5), 0.5),
        (complex(math.inf, 0.0), math.inf),
        (3 + 1j, NAN),
        (b"3", NAN),
        (np.bytes_(b"3"), NAN),
        ([3], NAN),
        ((), NAN),
        ({3: 3}, NAN),
        (np.array(3), NAN),
        (np.array([1, 2]), NAN),
        (pd.Timestamp("2020-01-01"), NAN),
        (pd.Timedelta(3), NAN),
        (np.datetime64("2020"), NAN),
        (np.timedelta64(3), NAN),
        (pd.Interval(0, 3), NAN),
        (pd.Period("2020"), NAN),
        (datetime.date(2020, 1, 1), NAN),
        (Grade.THREE, NAN),
        (HostileFloat(3.0), NAN),
        (float, NAN),
        (len, NAN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_number_in_a_cell(cell, expected):
    with np.errstate(all="raise"):
        found = cell_maps.number(cell) if not isinstance(cell, np.longdouble) else cell_maps.numbers(objects(cell))[0]
    assert type(float(found)) is float
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("3", "3"),
        ("3.0", "3.0"),
        (" 3", " 3"),
        ("nan", "nan"),
        ("", ""),
        ("e\u0301", "e\u0301"),
        ("\u202ea", "\u202ea"),
        ("a\x00", "a\x00"),
        (np.str_("a"), "a"),
        (3, "3"),
        (np.uint8(3), "3"),
        (3.0, "3"),
        (np.float32(3), "3"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (Decimal("3.00"), "3"),
        (Decimal("0.50"), "0.5"),
        (Fraction(1, 2), "0.5"),
        (True, "True"),
        (np.False_, "False"),
        (2**53 - 1, "9007199254740991"),
        (1 - 2**53, "-9007199254740991"),
        (2**53, None),
        (-(2**53), None),
        (np.uint64(2**53), None),
        (float(2**53 - 1), "9007199254740991"),
        (float(2**53), None),
        (Decimal(2**53), None),
        (Fraction(2**54 - 1, 2), None),
        (np.complex128(2**53), None),
        ("9007199254740993", "9007199254740993"),
        (10**5000, None),
        (1e300, None),
        (Decimal("1e999999"), None),
        (Decimal("sNaN"), None),
        (Fraction(10**400), None),
        (NAN, None),
        (math.inf, None),
        (None, None),
        (pd.NA, None),
        (pd.NaT, None),
        (b"3", None),
        (["3"], None),
        (3 + 0j, "3"),
        (np.complex64(0.5), "0.5"),
        (3 + 1j, None),
        (datetime.date(2020, 1, 1), None),
        (Grade.THREE, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_text_of_a_cell(cell, expected):
    assert cell_maps.text(cell) == expected


def test_no_method_of_a_foreign_object_is_called():
    for build in (Hostile, hostile_of_hostile_type):
        with pytest.raises(RuntimeError, match="method was called"):
            hash(build()) + hash(type(build()))
        assert math.isnan(cell_maps.number(build()))
        assert cell_maps.text(build()) is None
        assert NUMBER.admit(objects("1", build(), 3)).values.tolist() == [1.0, 7.0, 3.0]
        assert LEVEL.admit(objects("1", build(), 3)).values.tolist() == [1, 0, 2]


THREE = [1, 0, 3]
TYPES = ["int8", "uint8", "int64", "uint64", "float32", "float64", "longdouble", ">i4", ">f8", "object"]
NULLABLE = ["Int8", "Int64", "UInt64", "Float32", "Float64"]
TEXTS = ["object", "str", "string[python]", "string[pyarrow]"]
ARROW_NUMBERS = [pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]
ARROW_TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


def arrow_column(cells, kind):
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(cells, type=kind)))


def columns_of_numbers():
    yield from ((name, pd.Series(THREE).astype(name), False) for name in TYPES)
    yield "float16", pd.Series(np.array(THREE, dtype="float16")), False
    yield "strided", pd.Series(np.array([1, 9, 0, 9, 3, 9])[::2]), False
    yield "sparse float", pd.Series([1.0, 0.0, 3.0]).astype("Sparse[float]"), False
    yield "sparse int", pd.Series(THREE).astype("Sparse[int]"), False
    yield "category of int", pd.Series(THREE).astype("category"), False
    yield "renamed categories", pd.Series(pd.Categorical.from_codes([1, 0, 2], ["0", "1", "3"])), False
    extra = pd.CategoricalDtype(["x", "3", "1", "0", "unused"], ordered=True)
    yield "category with more", pd.Series(pd.Categorical(["1", "0", "3", None], dtype=extra)), True
    yield from ((name, pd.Series([*THREE, None], dtype=name), True) for name in NULLABLE)
    yield from ((name, pd.Series(["1", "0", "3", None], dtype=name), True) for name in TEXTS)
    yield from ((str(kind), arrow_column([*THREE, None], kind), True) for kind in ARROW_NUMBERS)
    yield from ((str(kind), arrow_column(["1", "0", "3", None], kind), True) for kind in ARROW_TEXTS)
    decimals = [Decimal(1), Decimal(0), Decimal(3), None]
    yield "decimal128", arrow_column(decimals, pa.decimal128(10, 2)), True
    yield "float with NaN", pd.Series([1.0, 0.0, 3.0, NAN]), True
    yield "object with x", objects("1", 0, 3.0, "x"), True


@pytest.mark.parametrize(
    ("cells", "has_missing"),
    [pytest.param(cells, has_missing, id=name) for name, cells, has_missing in columns_of_numbers()],
)
def test_the_type_of_a_column_plays_no_part(cells, has_missing):
    last = 1 if has_missing else 0
    with np.errstate(all="raise"):
        numbers, codes, ones = (each.admit(cells).values for each in (NUMBER, LEVEL, Binary(missing=1)))
        absent = [column.admit(cells).missing.tolist() for column in (Continuous(0, 10), Categorical(["0", "1", "3"]))]
    assert numbers.tolist() == [1.0, 0.0, 3.0] + [7.0] * last
    assert codes.tolist() == [1, 0, 2] + [0] * last
    assert ones.tolist() == [1.0, 0.0, 1.0] + [1.0] * last
    assert absent == [[False, False, False] + [True] * last] * 2
    assert (numbers.dtype, codes.dtype, ones.dtype) == (np.float64, np.int64, np.float64)
    assert all(array.flags.writeable and array.flags.c_contiguous for array in (numbers, codes, ones))


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series([True, False, None], dtype="boolean"),
        pd.Series([True, False, None], dtype=object),
        arrow_column([True, False, None], pa.bool_()),
        pd.Series(["True", "False", None], dtype="str"),
        pd.Series([True, False, None], dtype="category"),
    ],
    ids=lambda cells: str(cells.dtype),
)
def test_truth_values(cells):
    assert NUMBER.admit(cells).values.tolist() == [1.0, 0.0, 7.0]
    assert Categorical(["False", "True"], missing_level="True").admit(cells).values.tolist() == [1, 0, 1]


def unreadable_columns():
    day = datetime.datetime(2020, 1, 1)
    yield "complex", pd.Series([3 + 2j, 1j])
    yield "datetime", pd.Series([day, pd.NaT])
    yield "datetime with zone", pd.Series(pd.date_range("2020", periods=2, tz="UTC"))
    yield "timedelta", pd.Series(pd.to_timedelta([1, 3]))
    yield "period", pd.Series(pd.period_range("2020", periods=2, freq="Y"))
    yield "interval", pd.Series(pd.interval_range(0, 2))
    yield "category of dates", pd.Series([day, day]).astype("category")
    yield "bytes", objects(b"1", b"3")
    yield "timestamps", arrow_column([day, None], pa.timestamp("us"))
    yield "dates beyond year 9999", arrow_column([2**31 - 1, 0], pa.int32()).astype(pd.ArrowDtype(pa.date32()))
    yield "times", arrow_column([datetime.time(1), None], pa.time64("ns"))
    yield "lists", arrow_column([[1], None], pa.list_(pa.int64()))
    yield "structures", arrow_column([{"a": 1}, None], pa.struct([("a", pa.int64())]))
    yield "Arrow bytes", arrow_column([b"1", None], pa.binary())
    yield "nulls", arrow_column([None, None], pa.null())


@pytest.mark.parametrize("cells", [pytest.param(cells, id=name) for name, cells in unreadable_columns()])
def test_columns_without_numbers_and_texts_are_missing_throughout(cells, capsys, caplog):
    with caplog.at_level(logging.DEBUG):
        assert NUMBER.admit(cells).values.tolist() == [7.0, 7.0]
        assert LEVEL.admit(cells).values.tolist() == [0, 0]
    assert (capsys.readouterr(), caplog.records) == (("", ""), [])


def column_with_invalid_utf8():
    ends = pa.py_buffer(np.array([0, 1, 3, 4], dtype=np.int32).tobytes())
    return pa.StringArray.from_buffers(3, ends, pa.py_buffer(b"1\xff\xfe3"))


@pytest.mark.parametrize("as_pandas", [True, False] if pd.__version__ >= "3" else [False])  # pandas 2 cannot make one
def test_text_that_is_no_utf8_changes_its_own_cell_only(as_pandas):
    table = pa.table({"a": column_with_invalid_utf8()})
    cells = table.to_pandas()["a"] if as_pandas else pd.Series(pd.arrays.ArrowExtensionArray(table["a"]))
    with pytest.raises(pa.ArrowException):
        cells.to_numpy(dtype=object)  # what a plain reading does
    assert NUMBER.admit(cells).values.tolist() == [1.0, 7.0, 3.0]
    assert LEVEL.admit(cells).values.tolist() == [1, 0, 2]


def test_several_chunks_and_no_chunk():
    chunked = pa.chunked_array([["1", None], [], ["3"]], type=pa.string())
    assert LEVEL.admit(pd.Series(pd.arrays.ArrowExtensionArray(chunked))).values.tolist() == [1, 0, 2]
    empty = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([], type=pa.string())))
    assert LEVEL.admit(empty).values.tolist() == []
    assert NUMBER.admit(empty).values.tolist() == []


@pytest.mark.parametrize("name", ["float64", "Int64", "str", "category", "object", "datetime64[ns]"])
def test_no_rows(name):
    cells = pd.Series([], dtype=name)
    assert NUMBER.admit(cells).values.shape == (0,)
    assert LEVEL.admit(cells).values.shape == (0,)


def test_large_integers_are_read_alike_whatever_the_type():
    exact = [2**53 + 1, 2**63 - 1, -(2**63)]
    texts = [str(value) for value in exact]
    wide = Continuous(-1e12, 1e12)
    plain = cell_maps.numbers(pd.Series(exact, dtype="int64"))
    for cells, found, large in (
        (pd.Series(exact), [None] * 3, True),
        (pd.Series([*exact, None]), [None] * 3, True),
        (objects(*exact), [None] * 3, True),
        (pd.Series(exact).astype("category"), [None] * 3, True),
        (pd.Series(exact).astype("Sparse[int]"), [None] * 3, True),
        (pd.Series([*exact, None], dtype="Int64"), texts, False),
        (pd.Series([*exact, None], dtype="Int64").astype("category"), texts, False),
        (arrow_column([*exact, None], pa.int64()), texts, False),
        (pd.Series([*texts, None]), texts, False),
    ):
        assert cell_maps.numbers(cells)[:3].tolist() == plain.tolist()
        assert cell_maps.texts(cells)[:3] == found
        assert cell_maps.too_large(cells).tolist() == [large] * 3 + [False] * (len(cells) - 3)
        assert np.abs(wide.admit(cells).values).max() == 1e12


def test_only_whole_numbers_without_a_text_are_too_large_for_one():
    cells = objects(2**53, 2**53 - 1, "9007199254740992", 1e300, math.inf, NAN, None, 10**400, "x", b"1", 0.5)
    assert cell_maps.too_large(cells).tolist() == [True, False, False, True] + [False] * 7
    assert cell_maps.too_large(objects()).tolist() == []


def test_negative_zero_is_zero():
    assert math.copysign(1.0, Continuous(-1, 1).admit(pd.Series([-0.0])).values[0]) == 1.0


def test_levels_match_code_point_by_code_point():
    column = Categorical(["none", "é", " a", "nan", "NA", "A"])
    cells = objects("é", "e\u0301", " a", "a", "nan", NAN, "NA", pd.NA, "A", "\u0410", "", "é\x00")
    assert column.admit(cells).values.tolist() == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0, 0]
    assert column.admit(cells.astype("category")).values.tolist() == column.admit(cells).values.tolist()


def test_surrogates_in_python_strings():
    plain = objects("\ud800", "3")
    sparse = objects("\ud800", 1.5, "3").astype(pd.SparseDtype(object, None)).iloc[[0, 2]]
    category = pd.Series(pd.Categorical.from_codes([0, 1], pd.Index(plain, dtype=object)))
    for cells in (plain, sparse, category, pd.Series(plain, dtype="string[python]")):
        assert LEVEL.admit(cells).values.tolist() == [0, 2]
        assert NUMBER.admit(cells).values.tolist() == [7.0, 3.0]


def test_input_arrays_are_not_changed():
    values = np.array([-5.0, 5.0, 50.0, NAN])
    values.flags.writeable = False
    before = values.tobytes()
    admitted = NUMBER.admit(pd.Series(values, copy=False)).values
    admitted[:] = -1.0
    assert values.tobytes() == before


@pytest.mark.parametrize("odd", [1j, 2 + 0j, np.complex64(1j)])
def test_one_complex_cell_does_not_change_the_reading_of_the_others(odd):
    alone, beside = pd.Series([1.5, 2.0, math.nan, 3.0]), pd.Series([1.5, 2.0, math.nan, odd])
    assert beside.dtype.kind == "c"
    assert np.array_equal(cell_maps.numbers(alone)[:3], cell_maps.numbers(beside)[:3], equal_nan=True)
    assert cell_maps.texts(alone)[:3] == cell_maps.texts(beside)[:3] == ["1.5", "2", None]

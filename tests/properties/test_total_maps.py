"""Properties of the total maps: any cell has a value within the declaration, which depends on that cell alone."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, NumericColumn, Offset, Weight
from hdpstats.schema.persons import persons_of
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import PrivateTable
from tests.examples import examples

SCHEMA = Schema(
    age=Continuous(20, 90),
    grade=Categorical(["1", "2", "3", "nan", "a"], other="2", missing_level="3"),
    stage=Categorical(["1", "2", "3", "nan", "a"]),
    status=Binary(),
    coded=Binary(labels=("1", "a")),
    known=Binary(missing=1),
    time=Duration(30, complete=True),
    weight=Weight(0.5, missing=0.25),
    offset=Offset(-2, 2),
)


class Refusing:
    def _refuse(self, *args):
        raise RuntimeError("a cell's method was called")

    __float__ = __int__ = __index__ = __str__ = __repr__ = __bool__ = __eq__ = __hash__ = __len__ = _refuse


class Subclass(float):
    __float__ = Refusing._refuse


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**500), max_value=10**500),
    st.floats(),
    st.floats(width=16).map(np.float16),
    st.floats().map(np.longdouble),
    st.integers(min_value=-(2**63), max_value=2**63 - 1).map(np.int64),
    st.complex_numbers(),
    st.decimals(),
    st.sampled_from([Decimal("sNaN"), Decimal("1e99999"), Fraction(10**400), Fraction(1, 10**400)]),
    st.fractions(),
    st.text(),
    st.text(alphabet="0123456789+-.eE_ naif"),
    st.sampled_from(["1", "2", "3", "1.0", " 3 ", "nan", "NA", "inf", "True", "9" * 5000]),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.integers(), st.integers(), max_size=2),
    st.sampled_from([pd.NA, pd.NaT, np.nan, ..., float, len, np.array([1.0, 2.0]), np.array(3)]),
    st.builds(Refusing),
    st.builds(Subclass, st.floats()),
)
COLUMNS = st.sampled_from(list(SCHEMA))


def objects(cells):
    values = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        values[place] = cell
    return pd.Series(values, dtype=object)


def pairs(cells):
    """Return the value and the missingness of each cell."""
    return list(zip(cells.values.tolist(), cells.missing.tolist(), strict=True))


def check_declared(column, admitted, length):
    assert admitted.shape == (length,)
    if isinstance(column, NumericColumn):
        assert admitted.dtype == np.float64
        assert bool(((column.lower <= admitted) & (admitted <= column.upper)).all())
    else:
        assert admitted.dtype == np.int64
        assert bool(((admitted >= 0) & (admitted < len(column.levels))).all())


@given(name=COLUMNS, cells=st.lists(CELLS, max_size=8))
@examples(400)
def test_any_cells_are_admitted_each_on_its_own(name, cells):
    column = SCHEMA[name]
    with np.errstate(all="raise"):
        admitted = column.admit(objects(cells))
        alone = [pairs(column.admit(objects([cell])))[0] for cell in cells]
    check_declared(column, admitted.values, len(cells))
    assert pairs(admitted) == alone


def typed(cells, name):
    return pd.Series(cells, dtype=name)


FLOATS = st.lists(st.floats(), min_size=1, max_size=8)
TYPED = st.one_of(
    st.builds(typed, FLOATS, st.sampled_from(["float64", "longdouble"])),
    st.builds(typed, st.lists(st.floats(width=32), min_size=1, max_size=8), st.just("float32")),
    st.builds(typed, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.just("int64")),
    st.builds(typed, st.lists(st.integers(-9, 9) | st.none(), min_size=1), st.just("Int64")),
    st.builds(typed, st.lists(st.booleans() | st.none(), min_size=1), st.just("boolean")),
    st.builds(
        typed,
        st.lists(st.sampled_from(["1", "2", "x", "2.5", "", "é"]) | st.none(), min_size=1),
        st.sampled_from(["str", "string[python]", "string[pyarrow]", "category", "object"]),
    ),
    st.builds(typed, st.lists(st.integers(0, 4), min_size=1), st.just("category")),
    FLOATS.map(lambda cells: pd.Series(cells).astype("Sparse[float]")),
    st.lists(st.datetimes(), min_size=1).map(pd.Series),
    st.lists(st.complex_numbers(), min_size=1).map(pd.Series),
)


@given(name=COLUMNS, cells=TYPED, odd=CELLS)
@examples(300)
def test_an_odd_cell_that_changes_the_type_changes_no_other_cell(name, cells, odd):
    column = SCHEMA[name]
    with np.errstate(all="raise"):
        before = column.admit(cells)
        after = column.admit(objects([*cells.astype(object).tolist(), odd]))
    check_declared(column, before.values, len(cells))
    assert pairs(after)[:-1] == pairs(before)


def test_the_distribution_rejects_a_reading_that_depends_on_the_type_of_the_column():
    def naive(cells):
        return cells.astype("str").eq("1").to_numpy()

    numbers = pd.Series([1.0, 2.0])
    assert naive(numbers).tolist() != naive(objects([1, 2.0, "x"]))[:-1].tolist()
    grade = SCHEMA["grade"]
    assert pairs(grade.admit(numbers)) == pairs(grade.admit(objects([1, 2.0, "x"])))[:-1]


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
@examples(100)
def test_a_table_admits_every_row_and_leaves_the_frame_as_it_was(rows):
    schema = Schema({name: SCHEMA[name] for name in ("age", "grade", "status")})
    frame = pd.DataFrame({name: objects([row[place] for row in rows]) for place, name in enumerate(schema)})
    before = [[id(cell) for cell in frame[name].to_numpy()] for name in frame]
    table = PrivateTable.from_frame(frame, schema)
    whole = table.admit(schema)
    assert [[id(cell) for cell in frame[name].to_numpy()] for name in frame] == before
    assert whole.rows == table.rows == len(rows)
    for name, values in {**whole.numeric, **whole.codes}.items():
        check_declared(schema[name], values, len(rows))


@pytest.mark.parametrize("name", list(SCHEMA))
def test_missing_cells_are_missing_or_take_the_declared_value(name):
    column = SCHEMA[name]
    admitted = column.admit(objects([None, math.nan, pd.NA, pd.NaT]))
    filled = column.missing if isinstance(column, NumericColumn) else column.missing_level
    assert admitted.missing.tolist() == [filled is None] * 4
    if isinstance(column, NumericColumn):
        expected = column.lower if filled is None else filled
    else:
        expected = 0 if filled is None else column.levels.index(filled)
    assert admitted.values.tolist() == [expected] * 4


def partition(cells):
    """Return which cells name the same person: for each the place of the first such cell, -1 where it is nobody."""
    with np.errstate(all="raise"):
        found = persons_of(cells).tolist()
    assert sorted(set(found) - {-1}) == list(range(len(set(found) - {-1})))
    assert all(number <= max(found[:place], default=-1) + 1 for place, number in enumerate(found)), "by appearance"
    return [-1 if number < 0 else found.index(number) for number in found]


@given(cells=TYPED, odd=CELLS)
@examples(300)
def test_a_cell_changes_nobody_elses_name(cells, odd):
    before = partition(cells)
    after = partition(objects([*cells.astype(object).tolist(), odd]))
    assert after[:-1] == before
    assert after[-1] in {-1, len(before), *before}


@given(cells=st.lists(CELLS, max_size=8))
@examples(300)
def test_whether_a_time_was_beyond_the_horizon_is_a_matter_of_its_own_cell(cells):
    column = SCHEMA["time"]
    with np.errstate(all="raise"):
        beyond = column.beyond(objects(cells))
        alone = [bool(column.beyond(objects([cell]))[0]) for cell in cells]
    assert beyond.tolist() == alone
    admitted = column.admit(objects(cells))
    assert bool((admitted.values[beyond] == 30.0).all())
    assert not bool((admitted.missing & beyond).any())

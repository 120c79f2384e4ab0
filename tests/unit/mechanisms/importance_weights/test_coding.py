"""Rows in a box: weights that keep them there, and how far two of them can be apart, against brute force."""

import itertools
import math

import numpy as np
import pytest

from hdpstats.formulas import compile_one_sided
from hdpstats.mechanisms.importance_weights import ColumnBox
from hdpstats.mechanisms.importance_weights.coding import boxed, extent, is_indicator
from hdpstats.schema.columns import Binary, Categorical, Continuous
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

SCHEMA = Schema(
    a=Categorical(["x", "y", "z", "u"], complete=True),
    b=Categorical(["p", "q", "r"], complete=True),
    k=Continuous(0, 1, complete=True),
    s=Continuous(-1, 1, complete=True),
    h=Binary(complete=True),
)


def plain(design, *, location=0.0):
    """The box of a design's columns as they are, or centred."""
    columns = design.columns[int(design.intercept) :]
    m = [location] * len(columns)
    return columns, ColumnBox(
        location=tuple(m),
        scale=(1.0,) * len(columns),
        lower=tuple(min(column.lower - location, 0.0) for column in columns),
        upper=tuple(max(column.upper - location, 0.0) for column in columns),
        intercept=design.intercept,
    )


def corners(design, box):
    """The coded rows of all combinations of levels and of bounds of numbers, with weights."""
    numbers = [name for name, _ in design.boxes]
    kinds = [name for name in SCHEMA if isinstance(SCHEMA[name], Categorical) and name in design.needs]
    cells = list(itertools.product(*(range(len(SCHEMA[name].levels)) for name in kinds)))
    values = list(itertools.product(*((SCHEMA[name].lower, SCHEMA[name].upper) for name in numbers)))
    rows = [(cell, value) for cell in cells for value in values]
    table = AdmittedTable(
        numeric={name: np.array([value[i] for _, value in rows], dtype=float) for i, name in enumerate(numbers)},
        codes={name: np.array([cell[i] for cell, _ in rows]) for i, name in enumerate(kinds)},
        rows=len(rows),
    )
    return boxed(box, design.matrix(table)[:, int(design.intercept) :])


def farthest(rows):
    """The largest distance of t x and t' x' over rows and t, t' on a grid of [0, w]."""
    scaled = np.concatenate([t * rows.weights[:, None] * rows.X for t in (0.0, 0.5, 1.0)])
    square = np.sum(scaled**2, axis=1)
    return math.sqrt(float(np.max(square[:, None] + square[None, :] - 2.0 * scaled @ scaled.T)))


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("~ 0 + k + h", math.sqrt(2)),  # k = 2 numbers: sqrt k, the diagonal of the cube
        ("~ 0 + C(a) + C(b) + k", math.sqrt(5)),  # m = 2, k = 1: sqrt(2 m + k), not the longest row's sqrt(m + k)
        ("~ 0 + C(a)", math.sqrt(2)),
        ("~ 0 + s", 2.0),  # signed: 2 R
        ("~ 0 + C(a) + s + k", math.sqrt(7)),
        ("~ 0 + C(a):C(b)", math.sqrt(2)),
    ],
)
def test_the_diameter_by_types_of_columns_is_attained(formula, expected):
    design = compile_one_sided(formula, SCHEMA)
    columns, box = plain(design)
    assert extent(box, columns).diameter == pytest.approx(expected)
    assert farthest(corners(design, box)) == pytest.approx(expected)


def test_the_length_of_a_row_is_no_bound_on_the_distance_of_two():
    design = compile_one_sided("~ 0 + C(a) + C(b) + s", SCHEMA)
    columns, box = plain(design)
    longest = float(np.max(np.linalg.norm(corners(design, box).X, axis=1)))
    assert longest == pytest.approx(math.sqrt(3))
    assert extent(box, columns).diameter > 1.6 * longest


@pytest.mark.parametrize("formula", ["~ C(a) + C(b) + k", "~ C(a)*C(b) + s", "~ a:k + b", "~ k*s + a", "~ 0 + a + s"])
@pytest.mark.parametrize("location", [0.0, 0.3])
def test_bounds_hold_for_every_pair_of_rows(formula, location):
    design = compile_one_sided(formula, SCHEMA)
    columns, box = plain(design, location=location)
    rows, found = corners(design, box), extent(box, columns)
    assert np.max(rows.weights * np.sum(rows.X**2, axis=1)) <= found.leverage * (1 + 1e-12)
    assert farthest(rows) <= found.diameter * (1 + 1e-12)


@pytest.mark.parametrize(
    "formula", ['~ 0 + I(a == "x"):I(a == "y"):b', '~ I(a == "x"):b + I(a == "y"):b', '~ 0 + I(a == "x") + I(b == "p")']
)
@pytest.mark.parametrize("location", [0.0, 0.3])
def test_bounds_hold_for_every_subset_of_columns_that_say_what_a_row_has_not(formula, location):
    """A query may ask for any columns of a formula: those of rows without a level do not exclude each other."""
    design = compile_one_sided(formula, SCHEMA)
    first = int(design.intercept)
    count = len(design.columns) - first
    assert any(level.negated for column in design.columns for level in column.levels)
    numeric, codes = {}, {name: np.repeat(np.arange(4), 3) for name in ("a",)} | {"b": np.tile(np.arange(3), 4)}
    X = design.matrix(AdmittedTable(numeric=numeric, codes=codes, rows=12))[:, first:]
    for size in (1, 2, 3, count):
        for kept in itertools.islice(itertools.combinations(range(count), size), 120):
            columns = [design.columns[first + place] for place in kept]
            m = (location,) * len(kept)
            box = ColumnBox(
                location=m,
                scale=(1.0,) * len(kept),
                lower=tuple(-each for each in m),
                upper=tuple(1.0 - each for each in m),
                intercept=design.intercept,
            )
            rows, found = boxed(box, X[:, list(kept)]), extent(box, columns)
            assert np.max(rows.weights * np.sum(rows.X**2, axis=1)) <= found.leverage * (1 + 1e-12)
            assert farthest(rows) <= found.diameter * (1 + 1e-12)


def test_the_intercept_counts_in_the_leverage():
    for formula, expected in (("~ a + b + k", 4.0), ("~ 0 + a + b + k", 3.0)):
        design = compile_one_sided(formula, SCHEMA)
        columns, box = plain(design)
        assert extent(box, columns).leverage == pytest.approx(expected)
        longest = np.max(np.sum(corners(design, box).X ** 2, axis=1))
        assert longest == pytest.approx(expected)


def test_levels_of_one_category_exclude_each_other_and_nothing_else_does():
    columns = compile_one_sided("~ a + b + C(h) + a:k", SCHEMA).columns[1:]
    assert [is_indicator(column) for column in columns] == [True] * 3 + [True] * 2 + [True] + [False] * 4
    many = Schema(**{f"c{i}": Binary(complete=True) for i in range(9)})
    design = compile_one_sided("~ 0 + " + " + ".join(many), many)
    assert extent(plain(design)[1], design.columns).diameter == pytest.approx(3.0)


def test_rows_beyond_the_box_are_weighted_down_onto_it_and_never_clipped():
    box = ColumnBox(location=(1.0, 0.0), scale=(2.0, 1.0), lower=(-1.0, 0.0), upper=(0.5, 4.0), intercept=True)
    X = np.array([[1.0, 1.0], [5.0, 0.0], [-9.0, 8.0], [1.0, -1.0], [3.0, 4.0], [1e300, 0.0], [-1e300, 1e300]])
    rows = boxed(box, X)
    assert rows.X[:5].tolist() == [[1, 0, 1], [1, 2, 0], [1, -5, 8], [1, 0, -1], [1, 1, 4]]
    assert rows.weights[:5].tolist() == [1.0, 0.25, 0.2, 0.0, 0.5]
    assert np.isfinite(rows.X).all()
    inside = rows.weights[:, None] * rows.X[:, 1:]
    assert np.all(inside <= np.array(box.upper) * (1 + 1e-15))
    assert np.all(inside >= np.array(box.lower) * (1 + 1e-15))


def test_a_row_is_coded_from_itself_alone_to_the_last_bit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 6)) * 3
    box = ColumnBox(
        location=tuple(rng.normal(size=6)),
        scale=tuple(rng.uniform(0.1, 3, 6)),
        lower=(-1.0,) * 6,
        upper=(1.25,) * 6,
        intercept=True,
    )
    whole, other = boxed(box, X), boxed(box, X[::-1])
    assert np.array_equal(whole.X, other.X[::-1])
    assert np.array_equal(whole.weights, other.weights[::-1])
    assert np.array_equal(boxed(box, X[:7]).weights, whole.weights[:7])

"""Rows that are read once give the integers of rows in memory, each row by itself, wherever it stands."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hdpstats.api as hdp
from hdpstats._base.products import LANES, products
from hdpstats.families.regression.bounds import regression_person_loss
from hdpstats.families.regression.one_pass import TILE, add_sizes
from hdpstats.formulas import compile_design
from hdpstats.formulas.design import PIECE
from hdpstats.mechanisms.description import DescribedColumn, DescribedPairs
from hdpstats.mechanisms.description.one_pass import sums_of_pairs
from hdpstats.mechanisms.description.people import in_units, number_in_units, square_in_units, sums_of_stored
from hdpstats.records.averages import CentredColumn
from hdpstats.records.geometry import LARGEST
from hdpstats.records.model import RegressionModel
from hdpstats.schema import cell_maps
from hdpstats.schema.stored_columns import Declared, columns_of
from hdpstats.schema.table import PrivateTable
from hdpstats.solvers.kernels import coefficient_parts, compensated_pairs

SCHEMA = hdp.Schema(
    y=hdp.Binary(),
    x=hdp.Continuous(-3, 4),
    filled=hdp.Continuous(0, 4, missing=1),
    two=hdp.Binary(),
    both=hdp.Binary(missing=1),
    named=hdp.Binary(labels=("no", "yes")),
    k=hdp.Categorical(["a", "b"]),
    w=hdp.Weight(max=2),
    o=hdp.Offset(-1, 1),
    time=hdp.Duration(horizon=5),
)
ODD = (0.0, -0.0, 1.0, -np.inf, np.inf, np.nan, 1e300, 5e-324, 0.5, 3.0, -3.0, 4.0)
ROWS = 5 * TILE + 3


def cells() -> pa.Table:
    """Return rows that have every odd number in every column of doubles, at many places."""
    rng = np.random.default_rng(4)
    numbers = {
        name: np.where(rng.random(ROWS) < 0.5, rng.choice(ODD, ROWS), rng.normal(0, 2, ROWS))
        for name in ("x", "filled", "w", "o", "time")
    }
    binary = {name: rng.choice([0.0, 1.0, -0.0, np.nan, 0.5], ROWS) for name in ("y", "two", "both")}
    texts = {"named": rng.choice(["yes", "no", "?"], ROWS), "k": rng.choice(["a", "b", ""], ROWS)}
    return pa.table(numbers | binary | texts)


def stored(table: pa.Table):
    return columns_of(Declared(dict(SCHEMA)), lambda name: table.column(name).combine_chunks(), rows=len(table))


def test_columns_of_a_file_are_mapped_as_those_of_a_frame() -> None:
    table = cells()
    found = stored(table)
    expected = PrivateTable.from_frame(table.to_pandas(), SCHEMA).admit(SCHEMA)
    for arrays in ("numeric", "codes", "missing", "beyond"):
        assert set(getattr(found, arrays)) == set(getattr(expected, arrays))
        for name, values in getattr(expected, arrays).items():
            own = getattr(found, arrays)[name]
            assert own.dtype == values.dtype
            assert own.tobytes() == values.tobytes(), (arrays, name)
    assert found.complete.tobytes() == expected.complete.tobytes()


@pytest.fixture(
    scope="module",
    params=[
        "x + filled + two + both",
        "x + filled + two",
        "x * k + named",
        "0 + x + two",
        "1",
        "x + filled + two + both + named + time",
        "(x + filled + two + time) * k + both + named",
    ],
)
def loss(request):
    formula = f"y ~ {request.param}"
    geometry = compile_design(formula, SCHEMA).box()
    if "both" in formula:  # a whitening with all its entries, and weights below 1
        size = len(geometry.location)
        root = np.linalg.qr(np.random.default_rng(1).normal(size=(size, size)))[0] * 3.0
        geometry = replace(geometry, whitening=tuple(map(tuple, root.tolist())), radius=1.0, leverage=3.0)
    model = RegressionModel(formula=formula, loss="logistic", geometry=geometry, weights="w", offset="o")
    return regression_person_loss(model, SCHEMA)


def integers(loss, table, theta, people=1_000_000):
    """Return the gradient of rows that are read once, and of rows in memory, on the grid of so many people."""
    bounds = replace(loss._bounds, rows=people)
    kept = replace(loss.people(table), bounds=bounds)
    return loss._stored(bounds, table).loss_gradient(theta), kept.loss_gradient(theta)


@pytest.mark.parametrize("rows", [0, 1, TILE - 1, TILE, TILE + 1, ROWS])
def test_scores_of_rows_that_are_read_once_are_those_of_rows_in_memory(loss, rows: int) -> None:
    table = stored(cells().slice(0, rows))
    for size, people in ((0.3, 1_000_000), (0.3, ROWS), (40.0, ROWS)):  # the finest grid shows the last bits
        theta = size * np.cos(np.arange(loss.dimension))
        once, in_memory = integers(loss, table, theta, people)
        np.testing.assert_array_equal(once, in_memory)
        assert rows < ROWS or np.any(once)


@pytest.mark.covering(cases=4)
def test_the_score_of_a_row_is_the_same_at_every_place(loss) -> None:
    theta = 0.7 * np.cos(np.arange(loss.dimension))
    table = cells()
    for row in range(12):
        own = table.slice(row, 1)
        alone = integers(loss, stored(own), theta)[0]
        for before in (0, 1, LANES - 1, TILE - 1, TILE + 5):
            others = pa.concat_tables([table.slice(40, before), own, table.slice(300, 9)])
            without = pa.concat_tables([table.slice(40, before), table.slice(300, 9)])
            moved = integers(loss, stored(others), theta)[0] - integers(loss, stored(without), theta)[0]
            np.testing.assert_array_equal(moved, alone)


@pytest.mark.parametrize("far", [0.5, 0.7])
@pytest.mark.parametrize("name", ["x", "filled", "two", "both", "time"])
def test_sums_of_a_column_as_it_is_stored_are_those_of_its_values(name: str, far: float) -> None:
    table = stored(cells())
    weights = np.random.default_rng(2).choice([0.0, 0.3, 1.0], ROWS)
    column, terms = SCHEMA[name], {"bounds": (-1.5, column_end(name)), "centre": 1 - far, "far": far}
    lower, upper = terms["bounds"]
    described = DescribedColumn(name=name, lower=lower, upper=upper, centre=1 - far)
    found = sums_of_stored(table.stored, (DescribedColumn(name="k", levels=2), described), weights)
    people = table.numeric[name], table.missing[name], weights
    number = number_in_units(*people, bounds=terms["bounds"])
    assert {each: sums.tolist() for each, sums in found.items()} == {
        name: [number.sum(), square_in_units(*people, **terms | {"far": described.far}).sum()]
    }
    assert column.missing is not None or table.missing[name].any()


def test_rows_lack_what_other_columns_lack() -> None:
    table = stored(cells())
    for but in ((), ("x", "named"), tuple(SCHEMA)):
        expected = np.zeros(ROWS, dtype=bool)
        for name in set(SCHEMA).difference(but):
            expected |= table.missing[name]
        np.testing.assert_array_equal(table.lacking(but=but), expected)
        assert expected.any() == (len(but) < len(SCHEMA))


def test_what_follows_from_declarations_is_found_once_for_each_that_is_given() -> None:
    declared, asked = Declared(dict(SCHEMA)), []

    def count(columns, given):
        asked.append(given)
        return len(columns) + len(given)

    first, second = ["x"], ["x", "two"]
    found = [declared.once(count, each) for each in (first, second, first)]
    assert found == [len(declared.numbers) + 1, len(declared.numbers) + 2, len(declared.numbers) + 1]
    assert asked == [first, second]


def column_end(name: str) -> float:
    """Return an end of what is described, inside the bounds of some columns."""
    return {"x": 2.25, "time": 5.0}.get(name, 0.9)


def test_tiles_are_full_vectors() -> None:
    """Else `products` would write beyond the end of a tile."""
    assert TILE % LANES == PIECE % LANES == 0


@pytest.mark.parametrize(("k", "d"), [(1, 1), (4, 4), (5, 5), (11, 7), (20, 20)])
def test_products_in_lanes_are_sums_in_the_order_of_columns(k: int, d: int) -> None:
    rng = np.random.default_rng(k)
    matrix, columns = rng.normal(size=(k, d)), rng.normal(size=(d, 3 * LANES)) * 10.0 ** rng.integers(-9, 9, (d, 1))
    found, expected = np.empty((k, 3 * LANES)), np.zeros((k, 3 * LANES))
    products(matrix, columns, found)
    for j in range(d):
        expected += matrix[:, j, None] * columns[j]
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("d", [1, 3, 4, 6, 9])
def test_sizes_of_rows_are_sums_in_the_order_of_columns(d: int) -> None:
    rng = np.random.default_rng(d)
    z, theta = rng.normal(size=(d, TILE)), rng.normal(size=d)
    z[0, :3] = 1e60, -1e60, 1.0
    square, eta, rest = rng.random(TILE), rng.normal(size=TILE), np.zeros(TILE)
    kept, squares, parts = np.clip(z, -LARGEST, LARGEST), square.copy(), coefficient_parts(theta, theta * 2.0**-54)
    for column in kept:
        squares += column * column
    sums = compensated_pairs(kept.T, parts, eta)
    add_sizes(z, parts, square, eta, rest)
    for found, expected in ((z, kept), (square, squares), (eta, sums[0]), (rest, sums[1])):
        assert found.tobytes() == expected.tobytes()


def test_a_dictionary_of_texts_is_read_by_its_entries() -> None:
    texts = pa.array(["b", None, "a", "b", "?"])
    kind = SCHEMA["k"]
    for array in (texts, texts.dictionary_encode(), pa.chunked_array([texts.dictionary_encode()])):
        series = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([texts])))
        assert (
            cell_maps.codes(array, levels=kind.levels).tolist() == cell_maps.codes(series, levels=kind.levels).tolist()
        )
        assert kind.admit(array).values.tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, ROWS])
def test_sums_of_pairs_are_those_of_their_features(rows: int) -> None:
    rng = np.random.default_rng(6)
    values = {"a": rng.choice([-9.0, -1.0, 0.0, 0.3, 2.0, 9.0], rows), "b": rng.normal(0, 2, rows)}
    values["k"] = rng.integers(0, 3, rows)
    weights = rng.choice([0.0, 0.3, 1.0], rows)
    columns = [CentredColumn(name="a", centre=0.1, unit=1.5), CentredColumn(name="b", centre=-0.2, unit=0.7)]
    columns += [CentredColumn(name="k", centre=0.4, unit=0.5, level=level) for level in (0, 1)]
    pairs = DescribedPairs(columns=tuple(columns), reach=2.5, largest=3.0)
    factors = [each.of(values[each.name], reach=2.5) for each in columns]
    products = [np.clip(factors[j] * factors[k] / 6.0, -0.5, 0.5) for j, k in pairs.places]
    expected = [int(in_units(weights * each).sum()) for each in products]
    assert sums_of_pairs(values, pairs, weights).tolist() == expected
    assert rows < 255 or all(expected)

"""Rows as points: public ranges only, levels at distance 1, and a point for any cell whatsoever."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SchemaError, SiteError
from hdpstats.records.geometry import PointColumn, PointSpace
from hdpstats.schema.public import PublicTable, check_space, distinct, embed, reach_of, space_of
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-10, 10, complete=True),
    b=hdp.Binary(complete=True),
    t=hdp.Duration(100, complete=True),
    g=hdp.Categorical(["a", "b", "c"], other="c", complete=True),
)
NAMES = ("x", "b", "t", "g")
PUBLIC = PublicTable.from_frame(
    pd.DataFrame({"x": [-2.0, 0.0, 6.0], "b": [0, 1, 1], "t": [5.0, 50.0, 300.0], "g": ["a", "b", "b"]}), SCHEMA
)


def space():
    return space_of(NAMES, SCHEMA, PUBLIC.admitted(NAMES))[0]


def private(**cells):
    frame = pd.DataFrame({"x": [0.0], "b": [1.0], "t": [10.0], "g": ["a"]}, dtype=object).assign(**cells)
    return embed(space(), PrivateTable.from_frame(frame, SCHEMA).admit(NAMES))


def test_ranges_are_those_of_the_public_rows_within_the_schema():
    columns = {column.name: column for column in space().columns}
    assert (columns["x"].lower, columns["x"].upper) == (-2.0, 6.0)
    assert (columns["t"].lower, columns["t"].upper) == (5.0, 100.0)
    assert columns["g"].levels == 3
    assert space().dimension == 6
    assert reach_of(space(), SCHEMA) == pytest.approx(np.sqrt((20 / 8) ** 2 + 1 + (100 / 95) ** 2 + 1))


def test_private_rows_are_clipped_to_the_public_range():
    assert private(x=[-9.0])[0, 0] == 0.0
    assert private(x=[9.0])[0, 0] == 1.0
    assert private(x=[2.0])[0, 0] == 0.5
    assert private(t=[1.0])[0, 2] == 0.0


def test_no_admitted_row_is_farther_from_a_public_point_than_the_reach():
    rows = pd.DataFrame([(x, b, t, g) for x in (-10.0, 10.0) for b in (0, 1) for t in (0, 100) for g in "abc"])
    table = PrivateTable.from_frame(rows.set_axis(NAMES, axis=1), SCHEMA).admit(NAMES)
    apart = embed(space(), table, clip=False)[:, None] - embed(space(), PUBLIC.admitted(NAMES))
    farthest = np.linalg.norm(apart, axis=2).max()
    assert 0.8 * reach_of(space(), SCHEMA) < farthest <= reach_of(space(), SCHEMA)


@pytest.mark.parametrize("clip", [True, False])
def test_a_part_of_the_rows_lies_where_it_does_among_all(clip):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"x": rng.normal(0, 6, 50), "b": 0, "t": rng.uniform(0, 100, 50), "g": rng.choice([*"abc"], 50)}
    )
    table = PrivateTable.from_frame(frame, SCHEMA).admit(NAMES)
    whole = embed(space(), table, clip=clip)
    for part in (slice(0, 7), slice(7, 14), slice(49, 60), slice(50, 60)):
        np.testing.assert_array_equal(embed(space(), table, part=part, clip=clip), whole[part])


def test_a_row_far_away_does_not_move_the_points_of_others():
    """It would if the cube were scaled by the range of all rows."""
    rows = pd.DataFrame({"x": [0.0, 1.0], "b": [1, 0], "t": [10, 20], "g": ["a", "b"]})
    far = rows.copy()
    far.loc[1, ["x", "t"]] = [10.0, 100.0]
    first, second = (embed(space(), PrivateTable.from_frame(frame, SCHEMA).admit(NAMES)) for frame in (rows, far))
    np.testing.assert_array_equal(first[0], second[0])


def test_different_levels_are_at_distance_one_also_a_level_that_no_public_row_has():
    points = embed(space(), PUBLIC.admitted(NAMES))
    levels = points[:, 3:]
    assert np.linalg.norm(levels[0] - levels[1]) == pytest.approx(1.0)
    unseen = private(g=["c"])[:, 3:]
    np.testing.assert_allclose(np.linalg.norm(unseen - levels, axis=1), 1.0)


@pytest.mark.covering(1)
@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("name", NAMES)
def test_any_cell_has_a_point_in_the_cube(corner, name):
    cells = np.empty(1, dtype=object)
    cells[0] = CORNERS[corner]  # pandas 2.2 compares the members of a list
    point = private(**{name: pd.Series(cells, dtype=object)})
    assert point.shape == (1, 6)
    assert np.all((point >= 0) & (point <= 1))


def test_a_column_in_which_public_rows_are_the_same_is_left_out():
    same = PublicTable.from_frame(pd.DataFrame({"x": [3.0, 3.0], "b": [0, 1], "t": [1, 2], "g": ["a", "a"]}), SCHEMA)
    found, left_out = space_of(NAMES, SCHEMA, same.admitted(NAMES))
    assert left_out == ("x", "g")
    assert found.names == ("b", "t")
    nothing, all_of_them = space_of(["x"], SCHEMA, same.admitted(["x"]))
    assert all_of_them == ("x",)
    assert embed(nothing, same.admitted(["x"])).shape == (2, 0)


def test_no_complete_public_row_is_refused():
    empty = PublicTable.from_frame(pd.DataFrame({"x": [np.nan], "b": [0], "t": [1], "g": ["a"]}), SCHEMA)
    with pytest.raises(SchemaError, match="no public row"):
        space_of(NAMES, SCHEMA, empty.admitted(NAMES))


def test_distinct_points_are_named_by_their_first_rows():
    frame = pd.DataFrame({"x": [9.0, 1.0, 6.0, 1.0, 1.0, 8.0], "g": ["a", "a", "a", "b", "a", "a"]})
    rows = PublicTable.from_frame(frame, SCHEMA, ()).admitted(["x", "g"])
    inside, levels = PointColumn(name="x", lower=0.0, upper=6.0), PointColumn(name="g", levels=3)
    assert distinct(PointSpace(columns=(inside, levels)), rows).tolist() == [0, 1, 3]  # 9, 8 and 6 are one point
    assert distinct(PointSpace(columns=(levels,)), rows).tolist() == [0, 3]
    assert distinct(PointSpace(columns=()), rows).tolist() == [0]


def test_points_of_many_levels_take_the_memory_of_one_column():
    """Indicators of 60 levels would be 144 MB, which were sorted for 10 seconds; codes and their order are a few."""
    levels = [f"level {number}" for number in range(60)]
    codes = np.random.default_rng(0).integers(0, 60, 300_000)
    frame = pd.DataFrame({"g": pd.Categorical.from_codes(codes, levels)})
    rows = PublicTable.from_frame(frame, hdp.Schema(g=hdp.Categorical(levels, complete=True))).admitted(["g"])
    tracemalloc.start()
    try:
        assert len(distinct(PointSpace(columns=(PointColumn(name="g", levels=60),)), rows)) == 60
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "columns",
    [
        [PointColumn(name="z")],
        [PointColumn(name="g")],
        [PointColumn(name="g", levels=2)],
        [PointColumn(name="x", levels=3)],
    ],
)
def test_a_space_of_another_schema_is_refused(columns):
    with pytest.raises(SiteError):
        check_space(PointSpace(columns=tuple(columns)), SCHEMA)


@pytest.mark.parametrize(
    "fields", [{"lower": 1.0, "upper": 1.0}, {"upper": float("nan")}, {"upper": float("inf")}, {"levels": 0}]
)
def test_a_column_without_length_is_refused(fields):
    with pytest.raises(MechanismError):
        PointColumn(name="x", **fields)


def test_a_column_comes_once():
    with pytest.raises(MechanismError):
        PointSpace(columns=(PointColumn(name="x"), PointColumn(name="x", upper=2.0)))

"""A histogram: every person in one cell, noise of the relation, refusals before anything is charged."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.histogram import site as histogram
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.noise import TwoSidedGeometric
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.limits import MOST_CELLS
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
SCHEMA = hdp.Schema(
    x=hdp.Continuous(-3, 3, missing=0), g=hdp.Categorical(["a", "b", "c"], complete=True), y=hdp.Binary(complete=True)
)
QUERY = HistogramQuery(
    axes=(Axis(name="x", cuts=(-1.0, 1.0)), Axis(name="g", levels=3), Axis(name="y", cuts=(0.5,))),
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
)


def prepared(query=QUERY, relation=REPLACE, **site_facts):
    return histogram.prepare(query, SiteFacts(schema=SCHEMA, relation=relation, records=100, **site_facts))


def table_of(frame):
    return PrivateTable.from_frame(frame, SCHEMA).admit(prepared().needs)


def counts_of(frame):
    """Return the counts without noise."""
    return np.bincount(histogram.cells_of(QUERY, table_of(frame)), minlength=QUERY.cells)


def test_the_last_axis_is_the_fastest_and_a_cut_belongs_above():
    frame = pd.DataFrame({"x": [-2.0, -1.0, 1.0, 9.0, np.nan], "g": ["a", "b", "c", "a", "?"], "y": [0, 1, 0, 1, None]})
    expected = [0, (1 * 3 + 1) * 2 + 1, (2 * 3 + 2) * 2, (2 * 3 + 0) * 2 + 1, (1 * 3 + 0) * 2]
    assert histogram.cells_of(QUERY, table_of(frame)).tolist() == expected


def test_everybody_counts_once_whatever_the_cells_hold():
    cells = list(CORNERS.values())
    frame = pd.DataFrame({"x": cells, "g": cells[::-1], "y": cells}, dtype=object)
    counts = counts_of(frame)
    assert counts.sum() == len(frame)
    alone = sum(counts_of(frame.iloc[[row]]) for row in range(len(frame)))
    assert counts.tolist() == alone.tolist()


@pytest.mark.parametrize(("relation", "moved"), [(REPLACE, 2), (ADD, 1)])
def test_the_noise_is_for_the_cells_that_one_person_can_change(relation, moved):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=50), "g": rng.choice(list("abc"), 50), "y": rng.integers(0, 2, 50)})
    other = frame.iloc[1:] if relation is ADD else frame.assign(x=frame["x"].where(frame.index > 0, -frame["x"] - 2))
    distance = int(np.abs(counts_of(frame) - counts_of(other)).sum())
    assert distance == moved
    rate = prepared(relation=relation).noise.rate
    assert rate * moved == QUERY.epsilon  # the worst ratio of probabilities is exactly exp(epsilon)
    variance = 2 * math.exp(-rate) / (1 - math.exp(-rate)) ** 2
    assert prepared(relation=relation).noise.variance == pytest.approx(variance)


def test_noise_is_drawn_for_every_cell_and_added(monkeypatch):
    frame = pd.DataFrame({"x": [0.0] * 7, "g": ["b"] * 7, "y": [1] * 7})
    drawn = iter(range(100, 100 + QUERY.cells))
    monkeypatch.setattr(TwoSidedGeometric, "draw", lambda self: next(drawn))
    found = np.array(prepared().compute(table_of(frame)).counts)
    assert found.tolist() == (np.arange(100, 100 + QUERY.cells) + counts_of(frame)).tolist()


def test_queries_and_releases_are_read_from_json_unchanged():
    assert query_from_json(QUERY.to_json()) == QUERY
    release = prepared().compute(table_of(pd.DataFrame({"x": [0.0], "g": ["a"], "y": [1]})))
    assert release_from_json(release.to_json()) == release
    assert release.events[0].epsilon == 1


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ((Axis(name="z", cuts=(0.0,)),), "declares no column 'z'"),
        ((Axis(name="g", cuts=(0.5,)),), "does not fit"),
        ((Axis(name="g", levels=2),), "does not fit"),
        ((Axis(name="x", levels=3),), "does not fit"),
    ],
)
def test_a_grid_of_another_schema_is_refused(axes, reason):
    with pytest.raises(SiteError, match=reason):
        prepared(replace(QUERY, axes=axes))


def test_people_with_several_rows_are_refused():
    with pytest.raises(SiteError, match="several rows"):
        prepared(unit="id", most_rows=3)


@pytest.mark.parametrize(
    "changed",
    [
        {"axes": ()},
        {"axes": (Axis(name="x", cuts=(0.0,)), Axis(name="x", cuts=(1.0,)))},
        {"axes": (Axis(name="x", cuts=tuple(map(float, range(MOST_CELLS)))), Axis(name="y", cuts=(0.5,)))},
        {"epsilon": Fraction(0)},
        {"epsilon": Fraction(1, 10**31)},
        {"delta": Fraction(1, 10)},
    ],
    ids=["no axis", "one column twice", "too many cells", "no epsilon", "endless epsilon", "a delta"],
)
def test_a_query_that_contradicts_itself_cannot_be_written(changed):
    with pytest.raises(MechanismError):
        replace(QUERY, **changed)


@pytest.mark.parametrize("cuts", [(1.0, 0.0), (0.0, 0.0), (math.nan,), (math.inf,)])
def test_cuts_must_increase(cuts):
    with pytest.raises(MechanismError, match="increase"):
        Axis(name="x", cuts=cuts)

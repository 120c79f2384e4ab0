"""Neighbouring people at nearest public points: every constant is attained, and none is exceeded."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.hybrid_weights import (
    UNITS,
    DistanceQuery,
    LossSelectionQuery,
    NeighboursQuery,
    SelectionQuery,
)
from hdpstats.mechanisms.hybrid_weights import site as hybrid_weights
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.public import PublicTable, space_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from hdpstats.solvers import nearest_points as search
from tests.known_noise import choices
from tests.support import CORNERS

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
SCHEMA = hdp.Schema(
    x=hdp.Continuous(-5, 5, complete=True),
    b=hdp.Binary(complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
)
NAMES = ("x", "b", "g")
RNG = np.random.default_rng(7)


def people(number, seed=0, **cells):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"x": rng.normal(0, 2, number), "b": rng.integers(0, 2, number), "g": rng.choice(["a", "b", "c"], number)}
    )
    return frame.assign(**cells)


PUBLIC = PublicTable.from_frame(
    pd.concat([people(30, seed=1, g="a"), people(30, seed=1, g="a"), people(9, seed=2, g="b")], ignore_index=True),
    SCHEMA,
)
"""Public rows of which many come twice, and none of which has the level c."""

SPACE = space_of(NAMES, SCHEMA, PUBLIC.admitted(NAMES))[0]
COMMON = {"epsilon": Fraction(4, 5), "schema_sha256": SCHEMA.sha256, "public_sha256": PUBLIC.sha256}
NEIGHBOURS = NeighboursQuery(space=SPACE, support=None, **COMMON)
SELECTION = SelectionQuery(
    space=SPACE,
    order=(3, 60, 11, 29, 7, 65, 20, 1),
    sizes=(1, 2, 4, 8),
    reach=0.6,
    penalties=(0.0, 0.1, 0.2, 0.3),
    **COMMON,
)
LOSS = LossSelectionQuery(
    formula="b ~ x", candidates=((0.0, 0.0), (0.0, 4.0), (0.0, -4.0)), reach=0.7, **COMMON | {"public_sha256": None}
)
DISTANCE = DistanceQuery(space=SPACE, support=(3, 60, 11), reach=0.4, **COMMON)


def site_facts(relation=REPLACE, **fields):
    return SiteFacts(schema=SCHEMA, relation=relation, records=50, public={PUBLIC.sha256: PUBLIC}, **fields)


def admitted(frame):
    return PrivateTable.from_frame(frame, SCHEMA).admit(NAMES)


def neighbouring(frame, relation, rng):
    """Yield tables that differ from ``frame`` in one person: each corner, the worst rows, and random ones."""
    if relation is ADD:
        yield from (frame.drop(index=row).reset_index(drop=True) for row in range(0, len(frame), 5))
    extreme = [(x, b, g) for x in (-5.0, 5.0, 0.0) for b in (0, 1) for g in ("a", "b", "c")]
    strange = [(CORNERS[name], CORNERS[name], CORNERS[name]) for name in CORNERS]
    drawn = [(float(rng.normal(0, 3)), int(rng.integers(2)), "b") for _ in range(20)]
    for cells in extreme + strange + drawn:
        other = frame.astype(object)
        row = pd.DataFrame({name: pd.Series([cell], dtype=object) for name, cell in zip(NAMES, cells, strict=True)})
        rows = other if relation is ADD else other.iloc[1:]
        yield pd.concat([row, rows], ignore_index=True)


@pytest.mark.parametrize(("relation", "change"), [(REPLACE, 2), (ADD, 1)])
def test_one_person_changes_counts_by_as_much_as_the_noise_covers(relation, change):
    prepared = hybrid_weights.prepare_neighbours(NEIGHBOURS, site_facts(relation))
    frame, worst = people(40), 0
    before = prepared.landscape.counts(admitted(frame))
    assert before.sum() == 40  # everybody once, although points come twice and ties are many
    for other in neighbouring(frame, relation, RNG):
        after = prepared.landscape.counts(admitted(other))
        assert after.sum() == admitted(other).complete.sum() >= 39  # a row with a missing cell is counted nowhere
        worst = max(worst, int(np.abs(after - before).sum()))
    assert worst == change
    assert prepared.noise.rate * worst == NEIGHBOURS.epsilon


def test_points_that_come_twice_are_one_and_ties_count_once():
    prepared = hybrid_weights.prepare_neighbours(NEIGHBOURS, site_facts())
    assert len(prepared.landscape.points) == 39
    tied = people(25, seed=5, x=0.0, b=0, g="c")  # a level that no public row has: far from all alike
    assert np.count_nonzero(prepared.landscape.counts(admitted(tied))) == 1


def test_a_support_that_names_equal_points_counts_everybody_once():
    prepared = hybrid_weights.prepare_neighbours(replace(NEIGHBOURS, support=(0, 30, 5, 35)), site_facts())
    counts = prepared.landscape.counts(admitted(people(40)))
    assert counts.sum() == 40
    assert counts[1] == counts[3] == 0  # the second of two equal points is never the first of the nearest


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_a_choice_of_size_keeps_its_epsilon_and_wastes_nothing(relation):
    """With half the noise the worst neighbours would overspend; the next test finds them with any more than this."""
    prepared = hybrid_weights.prepare_selection(SELECTION, site_facts(relation))
    worst = 0.0
    far = people(12, x=-5.0, b=0, g="a")
    for frame in (people(3), far):
        before = hybrid_weights.distance_units(SELECTION, prepared.landscape, admitted(frame))
        for other in neighbouring(frame, relation, RNG):
            after = hybrid_weights.distance_units(SELECTION, prepared.landscape, admitted(other))
            change = after - before
            assert change.max() - change.min() <= UNITS
            distributions = [choices([*map(int, costs)], prepared.choice.rate) for costs in (before, after)]
            worst = max(worst, float(np.abs(np.log(distributions[0] / distributions[1])).max()))
    assert worst <= float(SELECTION.epsilon) * (1 + 1e-9)
    assert prepared.choice.rate * UNITS == SELECTION.epsilon


def test_the_bound_on_a_choice_of_size_is_attained():
    """A person at a late point and far from the first one moves a difference of costs by all of the reach."""
    schema = hdp.Schema(x=hdp.Continuous(0, 1, complete=True))
    public = PublicTable.from_frame(pd.DataFrame({"x": [0.0, 1.0]}), schema)
    space = space_of(["x"], schema, public.admitted(["x"]))[0]
    query = SelectionQuery(
        space=space,
        order=(0, 1),
        sizes=(1, 2),
        reach=1.0,
        penalties=(0.0, 4.0),
        epsilon=Fraction(1),
        schema_sha256=schema.sha256,
        public_sha256=public.sha256,
    )
    own = SiteFacts(schema=schema, relation=REPLACE, records=1, public={public.sha256: public})
    prepared = hybrid_weights.prepare_selection(query, own)
    costs = []
    for x in (0.0, 1.0):
        table = PrivateTable.from_frame(pd.DataFrame({"x": [x]}), schema).admit(["x"])
        units = hybrid_weights.distance_units(query, prepared.landscape, table)
        costs.append([int(unit) + penalty for unit, penalty in zip(units, prepared.penalties, strict=True)])
    ratios = np.log(choices(costs[0], prepared.choice.rate) / choices(costs[1], prepared.choice.rate))
    assert np.abs(ratios).max() == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("relation", "factor"), [(REPLACE, 2), (ADD, 1)])
def test_a_choice_by_loss_keeps_its_epsilon_and_attains_it(relation, factor):
    prepared = hybrid_weights.prepare_loss(LOSS, site_facts(relation))
    worst, frame = 0, people(5, x=5.0, b=1)
    before = hybrid_weights.excess_units(LOSS, prepared.design, admitted(frame))
    assert before.min() == 0
    assert before.max() <= UNITS
    for other in neighbouring(frame, relation, RNG):
        after = hybrid_weights.excess_units(LOSS, prepared.design, admitted(other))
        change = after.sum(axis=1) - before.sum(axis=1)
        worst = max(worst, int(change.max() - change.min()))
    assert worst == factor * UNITS
    assert prepared.choice.rate * worst == LOSS.epsilon


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_a_distance_moves_by_at_most_its_reach_and_attains_it(relation):
    prepared = hybrid_weights.prepare_distance(DISTANCE, site_facts(relation))

    def total(frame):
        squared = prepared.landscape.squared_distances(admitted(frame))
        return int(hybrid_weights.in_units(squared, DISTANCE.reach).sum())

    at_a_point = PUBLIC.frame().iloc[[3]].reset_index(drop=True)
    frame = pd.concat([at_a_point, people(4)], ignore_index=True)
    worst = max(abs(total(other) - total(frame)) for other in neighbouring(frame, relation, RNG))
    assert worst == UNITS
    assert prepared.noise.rate * worst == DISTANCE.epsilon


def test_rounded_distances_fall_from_each_size_to_the_next_for_everybody():
    prepared = hybrid_weights.prepare_selection(SELECTION, site_facts())
    for _, block in prepared.landscape.neighbours(admitted(people(500)), SELECTION.sizes):
        units = hybrid_weights.in_units(block.squared, SELECTION.reach)
        assert np.all(np.diff(units, axis=0) <= 0)
        assert units.min() >= 0
        assert units.max() <= UNITS


def test_rows_are_mapped_block_by_block_and_counted_as_if_they_were_mapped_at_once(monkeypatch):
    landscape, table, mapped = (
        hybrid_weights.prepare_neighbours(NEIGHBOURS, site_facts()).landscape,
        admitted(people(40)),
        [],
    )
    counts, squared = landscape.counts(table), landscape.squared_distances(table)
    embed = hybrid_weights.embed
    monkeypatch.setattr(search, "BLOCK", 7)
    monkeypatch.setattr(
        hybrid_weights, "embed", lambda *args, **named: mapped.append(embed(*args, **named)) or mapped[-1]
    )
    np.testing.assert_array_equal(landscape.counts(table), counts)
    assert [len(rows) for rows in mapped] == [7, 7, 7, 7, 7, 5]
    np.testing.assert_array_equal(landscape.squared_distances(table), squared)
    assert max(len(rows) for rows in mapped) == 7


def test_the_noise_added_is_the_noise_announced(monkeypatch):
    monkeypatch.setattr(hybrid_weights.TwoSidedGeometric, "draws", lambda self, count: [1000] * count)
    prepared = hybrid_weights.prepare_neighbours(NEIGHBOURS, site_facts())
    release = prepared.compute(admitted(people(40)))
    assert sum(release.counts) == 40 + 1000 * 39
    assert release.noise_variance == prepared.noise.variance
    assert [event.epsilon for event in release.events] == [NEIGHBOURS.epsilon]


@pytest.mark.parametrize("query", [NEIGHBOURS, SELECTION, DISTANCE])
def test_what_a_site_does_not_have_is_refused_unread(query):
    prepare = {
        NEIGHBOURS: hybrid_weights.prepare_neighbours,
        SELECTION: hybrid_weights.prepare_selection,
        DISTANCE: hybrid_weights.prepare_distance,
    }[query]
    with pytest.raises(SiteError, match="put_public"):
        prepare(replace(query, public_sha256="0" * 64), site_facts())
    with pytest.raises(SiteError, match="several rows"):
        prepare(query, site_facts(unit="id", most_rows=3))
    rows = {"order": (999, *SELECTION.order[1:])} if query is SELECTION else {"support": (999,)}
    with pytest.raises(SiteError, match="public rows"):
        prepare(replace(query, **rows), site_facts())


@pytest.mark.parametrize(("formula", "error"), [("x ~ b", MechanismError), ("b ~ x + g", SiteError)])
def test_a_choice_by_loss_needs_its_own_formula(formula, error):
    with pytest.raises(error):
        hybrid_weights.prepare_loss(replace(LOSS, formula=formula), site_facts())


@pytest.mark.parametrize("corner", CORNERS)
def test_any_row_is_counted_once_or_left_out_and_silently(corner):
    cell = CORNERS[corner]
    row = pd.DataFrame({name: pd.Series([cell], dtype=object) for name in NAMES})
    table = admitted(pd.concat([row, people(5).astype(object)], ignore_index=True))
    counts = hybrid_weights.prepare_neighbours(NEIGHBOURS, site_facts()).landscape.counts(table)
    assert counts.sum() == table.complete.sum() >= 5
    assert len(hybrid_weights.prepare_selection(SELECTION, site_facts()).compute(table).events) == 1
    assert 0 <= hybrid_weights.prepare_loss(LOSS, site_facts()).compute(table).choice < 3

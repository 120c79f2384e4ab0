"""How far one person moves a table of events and censorings: a search over neighbours, and broken versions it finds.

The package maps and counts; the search compares the exact integers of people, before noise, with the sensitivities
that the noise is calibrated to.
"""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.families.overlap_weights import weighting_design
from hdpstats.mechanisms.description import UNITS, DescriptionQuery, people, site
from hdpstats.mechanisms.description.public_cells import CrossedColumn, FollowUpCells
from hdpstats.noise import RoundedNormal, TwoSidedGeometric
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable

SCHEMA = hdp.Schema(
    arm=hdp.Categorical(["one", "two", "three"]),
    sex=hdp.Binary(),
    s=hdp.Duration(12),
    t=hdp.Duration(12),
    e=hdp.Categorical(["none", "first", "second"]),
    w=hdp.Weight(max=4),
)
PLAIN = FollowUpCells(time="t", event="e", causes=2, ends=(2.0, 4.0, 8.0, 11.0))
LATE = replace(PLAIN, start="s")
QUERY = DescriptionQuery(follow_up=PLAIN, epsilon=Fraction(7, 10), schema_sha256=SCHEMA.sha256)
GROUPED = replace(QUERY, by="arm", groups=3)


def weighted(*coefficients):
    """Return the query of adjusted curves at coefficients of a propensity model: everybody is complete, or nobody."""
    overlap = OverlapWeights(formula="sex ~ s", columns=("sex", "s"), coefficients=coefficients)
    return replace(QUERY, by="sex", groups=2, complete=True, weighting=overlap)


QUERIES = {
    "everybody": QUERY,
    "groups": GROUPED,
    "crossed groups": replace(GROUPED, groups=6, crossed=(CrossedColumn(name="sex", levels=2),)),
    "late beginnings": replace(GROUPED, follow_up=LATE),
    "one level": replace(GROUPED, follow_up=replace(LATE, causes=1, level=2)),
    "weights": replace(GROUPED, weights="w", largest_weight=4.0),
    "weights, late": replace(QUERY, follow_up=LATE, weights="w", largest_weight=4.0),
    "overlap weights": weighted(-4.0, 0.8),
    "overlap weights of 0 and 1": weighted(-5e5, 1e6),
    "overlap weights, nobody treated": weighted(-1e9, 0.0),
}
CELLS = {
    "arm": ["one", "two", "three", None, "unknown"],
    "sex": [0, 1, None],
    "s": [0.0, 1.0, 2.0, 3.0, 5.0, 10.5, 11.5, 99.0, -3.0, None],
    "t": [0.0, 1.5, 2.0, 3.5, 7.0, 8.0, 10.9, 11.0, 11.5, 12.0, 40.0, -1.0, None],
    "e": ["none", "first", "second", None],
    "w": [0.0, 1.0, 4.0, 9.0, None],
}
FACTS = {relation: SiteFacts(schema=SCHEMA, relation=relation, records=100) for relation in Relation}


def persons(count, seed):
    rng = np.random.default_rng(seed)
    drawn = {name: [cells[place] for place in rng.integers(0, len(cells), count)] for name, cells in CELLS.items()}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in drawn.items()})


def table(query, frame, unit=None):
    """Return the counts without noise."""
    admitted = PrivateTable.from_frame(frame, SCHEMA, unit=unit).admit(query.names)
    return people.follow_up_of(query, people.people_of(query, admitted, design_of(query)))


def design_of(query):
    """Return the design of a query's weighting, where it has one."""
    return None if query.weighting is None else weighting_design(query.weighting, SCHEMA)


@cache
def tables_of_persons(name, count=250):
    """Return the counts of each person alone: people are mapped together, and counted one by one."""
    query, frame = QUERIES[name], persons(count, seed=1)
    mapped = people.people_of(query, PrivateTable.from_frame(frame, SCHEMA).admit(query.names), design_of(query))
    return np.array([people.follow_up_of(query, alone(mapped, [row])) for row in range(count)])


def alone(mapped, rows):
    """Return some of the people."""
    return people.DescribedPeople(
        cells={name: cells[rows] for name, cells in mapped.cells.items()},
        missing={name: cells[rows] for name, cells in mapped.missing.items()},
        group=mapped.group[rows],
        weights=mapped.weights[rows],
        beyond=mapped.beyond[rows],
    )


def claims(query, relation):
    """Return the sensitivity that the noise is calibrated to, in the L1 norm, and its square in the Euclidean one."""
    pure = site.prepare(query, FACTS[relation]).follow_up
    assert isinstance(pure, TwoSidedGeometric)
    square = None
    if not query.is_weighted:
        normal = site.prepare(replace(query, delta=Fraction(1, 10**6)), FACTS[relation])
        assert isinstance(normal.follow_up, RoundedNormal)
        square = normal.follow_up.sd**2 * sum(event.mu_squared for event in normal.events)
    return query.epsilon / pure.rate, square


def moves(tables):
    """Return how far people move a table: in the L1 norm and in squares, replaced and added."""
    apart = (tables[:, None] - tables).astype(float)
    replaced = np.abs(apart).sum(axis=2).max(), (apart**2).sum(axis=2).max()
    alone = np.abs(tables).sum(axis=1).max(), (tables.astype(float) ** 2).sum(axis=1).max()
    return {Relation.REPLACE_ONE: replaced, Relation.ADD_OR_REMOVE_ONE: alone}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", QUERIES)
def test_no_person_moves_a_table_farther_than_claimed_and_one_does(name, relation):
    found, square = moves(tables_of_persons(name))[relation]
    claim, claimed_square = claims(QUERIES[name], relation)
    assert 0.95 * claim <= found <= claim
    if claimed_square is not None:
        assert 0.95 * claimed_square <= square <= claimed_square


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("late", [False, True])
def test_all_rows_of_a_person_move_a_table_as_one_row_does(late):
    query = QUERIES["late beginnings" if late else "groups"]
    facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=100, unit="who", most_rows=5)
    rng, tables = np.random.default_rng(3), []
    others = persons(4, seed=9).assign(who="o")
    rest = table(query, others, unit="who")
    for number in range(120):
        own = persons(int(rng.integers(1, 6)), seed=100 + number).assign(who="p")
        mixed = pd.concat([own, others]).sample(frac=1, random_state=number)
        tables.append(table(query, mixed, unit="who") - rest)
    found = moves(np.array(tables))
    for relation in Relation:
        claim = query.epsilon / site.prepare(query, replace(facts, relation=relation)).follow_up.rate
        assert 0.95 * claim <= found[relation][0] <= claim


def test_the_sum_of_people_is_the_table_of_all():
    frame = persons(40, seed=4)
    for query in QUERIES.values():
        each = sum(table(query, frame.iloc[[row]]) for row in range(len(frame)))
        np.testing.assert_array_equal(table(query, frame), each)
        np.testing.assert_array_equal(table(query, frame.iloc[::-1]), each)
    exits = table(QUERY, frame)
    assert exits.sum() == len(frame)


def test_one_who_lacks_a_cell_weighs_nothing():
    query = QUERIES["overlap weights"]
    frame, tables = persons(250, seed=1), tables_of_persons("overlap weights")
    lacking = frame[["sex", "s", "t", "e"]].isna().any(axis=1)
    assert np.abs(tables[lacking]).max() == 0
    assert tables[~lacking, :-1].max() > 0.9 * UNITS
    assert site.prepare(query, FACTS[Relation.REPLACE_ONE]).follow_up.rate == query.epsilon / (2 * UNITS)


def test_noise_of_people_for_their_weights_is_found(monkeypatch):
    """What would leak: units of weights with noise for whole people in place of units."""
    monkeypatch.setattr(site, "UNITS", 1)
    name = "overlap weights of 0 and 1"
    found = moves(tables_of_persons(name))
    for relation in Relation:
        assert found[relation][0] > claims(QUERIES[name], relation)[0]


def test_a_second_cell_at_the_rate_of_one_is_found(monkeypatch):
    """What would leak: beginnings counted beside ends with noise for ends alone."""
    monkeypatch.setattr(FollowUpCells, "counts_of_person", 1)
    found = moves(tables_of_persons("late beginnings"))
    for relation in Relation:
        assert found[relation][0] > claims(QUERIES["late beginnings"], relation)[0]


def test_weights_are_in_units_of_the_largest():
    row = {"arm": "one", "sex": 0, "s": 0.0, "t": 3.0, "e": "first", "w": 4.0}
    counts = table(QUERIES["weights"], pd.DataFrame([row]))
    assert counts.max() == UNITS
    assert table(QUERIES["weights"], pd.DataFrame([row | {"w": 1.0}])).max() == UNITS // 4


def test_people_are_counted_where_they_belong():
    rows = [
        (0.0, 3.0, "first"), (0.0, 9.0, "none"), (3.0, 40.0, "second"), (5.0, 5.0, "first"), (11.5, 12.0, "none"),
        (1.0, 1.5, "second"), (None, 3.0, "first"), (0.0, 0.0, "first"),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["s", "t", "e"], dtype=object).assign(arm="one", sex=0, w=1.0)
    plain, late = table(QUERY, frame), table(replace(QUERY, follow_up=LATE), frame)
    #                          (0, 2]   (2, 4]   (4, 8]   (8, 11]  on incomplete
    assert plain.tolist() == [1, 1, 0, 2, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0]
    #                         ends of follow-up                     beginnings
    assert late.tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 4]


def test_who_is_censored_at_the_last_end_was_at_risk_until_then():
    rows = [(0.0, 11.0, "none"), (0.0, 11.0, "first"), (0.0, 8.0, "none"), (11.0, 11.5, "first"), (8.0, 11.0, "none")]
    frame = pd.DataFrame(rows, columns=["s", "t", "e"], dtype=object).assign(arm="one", sex=0, w=1.0)
    #                                                 (0, 2]   (2, 4]   (4, 8]   (8, 11]  on incomplete
    assert table(QUERY, frame.iloc[:3]).tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0]
    late = table(replace(QUERY, follow_up=LATE), frame.iloc[3:])
    assert late.tolist() == [0] * 12 + [1] + [0, 0, 1, 0] + [1]


def test_one_level_is_the_event_and_others_are_censored():
    rows = [(0.0, 3.0, "first"), (0.0, 9.0, "second"), (0.0, 3.5, "none"), (0.0, 3.5, "second"), (0.0, 3.0, None)]
    frame = pd.DataFrame(rows, columns=["s", "t", "e"], dtype=object).assign(arm="one", sex=0, w=1.0)
    one = replace(QUERY, follow_up=replace(PLAIN, causes=1, level=2))
    assert table(one, frame).tolist() == [0, 0, 1, 2, 0, 0, 1, 0, 0, 1]
    spells = [("a", 0.0, 3.0, "first"), ("a", 3.0, 7.0, "second"), ("b", 1.0, 3.0, "first"), ("b", 3.0, 9.0, "first")]
    frame = pd.DataFrame(spells, columns=["who", "s", "t", "e"], dtype=object).assign(arm="one", sex=0, w=1.0)
    late = replace(one, follow_up=replace(LATE, causes=1, level=2))
    assert table(late, frame, unit="who").tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0]


def test_several_rows_of_a_person_are_one_span():
    """Rows of one person, in any order: from the first beginning to the first event, or to the last end."""
    query = replace(QUERY, follow_up=LATE)
    rows = [
        ("a", 1.0, 3.0, "none"), ("a", 3.0, 7.0, "first"), ("a", 7.0, 9.0, "second"),
        ("b", 0.0, 1.0, "none"), ("b", 5.0, 9.5, "none"),
        ("c", 0.0, 40.0, "first"), ("d", 3.0, 2.0, "first"), ("e", None, 3.0, "first"), ("e", 2.5, 3.5, "none"),
        (None, 0.0, 3.0, "first"),
    ]  # fmt: skip
    for order in itertools.islice(itertools.permutations(range(len(rows))), 0, 10**6, 99_991):
        frame = pd.DataFrame([rows[k] for k in order], columns=["who", "s", "t", "e"], dtype=object)
        counts = table(query, frame.assign(arm="one", sex=0, w=1.0), unit="who")
        assert counts.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("relation", list(Relation))
def test_normal_noise_keeps_epsilon_and_delta(relation):
    query = replace(QUERIES["late beginnings"], delta=Fraction(1, 10**6))
    prepared = site.prepare(query, FACTS[relation])
    mu_squared = (4 if relation is Relation.REPLACE_ONE else 2) / prepared.follow_up.sd**2
    assert delta_of_square(query.epsilon, mu_squared) <= query.delta

"""Who declares the order of rows: the site, never the query; and what one person moves on every way to blocks."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.mechanisms.statistics import UNITS
from hdpstats.mechanisms.subsample import SubsampleQuery
from hdpstats.mechanisms.subsample import site as subsample
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.persons import marks_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from hdpstats.sites.messages import Facts

EPSILON = Fraction(7, 10)
BLOCKS = 200
SCHEMA = hdp.Schema(x=hdp.Continuous(-1e7, 1e7, missing=0), p=hdp.Continuous(0, 50, complete=True))
BY_ROWS = SubsampleQuery(
    column="x",
    family="normal",
    box=((-1e6, 1e6), (0.5, 2.0)),
    blocks=BLOCKS,
    epsilon=EPSILON,
    schema_sha256=SCHEMA.sha256,
)
SORTED = np.repeat(10.0 * np.arange(BLOCKS), 2)
"""400 people in a file that is sorted by ``x``, two of each value: the spread within every block is 0."""

SHIFTED = np.sort(np.append(SORTED[1:], 10.0 * BLOCKS))
"""One of them replaced, and sorted again: the two people of every block are 10 apart."""


def frame_of(cells, **columns):
    return pd.DataFrame({"x": cells, "p": 1.0} | columns)


def local_site(cells, **declared):
    ledger = hdp.Ledger(None, dataset="order", epsilon=10)
    return hdp.LocalSite(frame_of(cells), schema=SCHEMA, ledger=ledger, **declared)


def site_facts(**fields):
    return SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=2 * BLOCKS, **fields)


def units(cells, *, row_order="arbitrary"):
    prepared = subsample.prepare(BY_ROWS, site_facts(row_order=row_order))
    table = PrivateTable.from_frame(frame_of(cells), SCHEMA).admit(prepared.needs)
    return subsample.units_of_blocks(BY_ROWS, prepared.family, table)


def test_a_sorted_file_is_why_the_order_matters():
    """One person moves the sum by as many times the proven sensitivity as there are blocks."""
    moved = units(SHIFTED).sum(axis=0) - units(SORTED).sum(axis=0)
    assert moved[1] == BLOCKS * UNITS


@pytest.mark.parametrize("declared", [{}, {"row_order": "undeclared"}])
def test_the_attack_on_a_sorted_file_is_refused_by_the_site_and_nothing_is_charged(declared):
    """Whoever asks may write any query; in its text nothing declares an order."""
    site = local_site(SORTED, **declared)
    for refused in (site.answer, site.quote):
        with pytest.raises(hdp.MechanismError, match="the site has not declared that") as caught:
            refused(query_from_json(BY_ROWS.to_json()))
        assert "row_order" in str(caught.value)
        assert "unit=" in str(caught.value)
    assert site.ledger.spent.epsilon == 0
    assert len(site.ledger.history()) == 0


def test_a_site_that_declares_the_order_answers():
    site = local_site(np.random.default_rng(0).permutation(SORTED), row_order="arbitrary")
    assert site.answer(BY_ROWS).blocks == BLOCKS
    assert site.ledger.spent.epsilon == EPSILON


def test_the_declaration_is_a_public_fact_and_no_part_of_who_is_protected():
    declared, undeclared = local_site(SORTED, row_order="arbitrary"), local_site(SORTED)
    assert (declared.terms.row_order, undeclared.terms.row_order) == ("arbitrary", "undeclared")
    assert str(declared.terms) == str(undeclared.terms)  # requests that were answered before keep their identity
    for site in (declared, undeclared):
        facts = Facts(schema=SCHEMA, terms=site.terms, records=site.records, dataset="order", version=1, account="a1")
        assert Facts.from_dict(facts.to_dict()) == facts


def test_a_declaration_must_be_one_of_two_words_and_comes_with_the_rows():
    for value in ("sorted", "", None, True, 1):
        with pytest.raises(hdp.ArgumentError, match="row_order"):
            local_site(SORTED, row_order=value)
    with pytest.raises(hdp.ArgumentError, match="row_order belongs to private rows"):
        hdp.Study(private=local_site(SORTED), row_order="arbitrary")


def test_by_rows_one_person_moves_one_block_by_at_most_the_sensitivity():
    """Every corner in every place, no person's row moving another: exactly once the sensitivity is attained."""
    rate = subsample.prepare(BY_ROWS, site_facts(row_order="arbitrary")).noise.rate
    before, most = units(SORTED), 0
    for row in (0, 1, 57, 398, 399):
        for cell in (-1e7, 1e7, 10.0 * BLOCKS):
            after = units(np.where(np.arange(len(SORTED)) == row, cell, SORTED))
            assert set(np.flatnonzero(np.any(after != before, axis=1))) <= {row // 2}
            most = max(most, int(np.abs(after.sum(axis=0) - before.sum(axis=0)).max()))
    assert most == UNITS
    assert rate * most == EPSILON


NAMED = replace(
    BY_ROWS, column="p", family="exponential", box=((0.7, 0.95),), blocks=2, by="persons", epsilon=Fraction(1)
)


def named_units(people):
    """Return the estimates of both blocks from (name, value) pairs, in their order."""
    names, values = zip(*people, strict=True)
    prepared = subsample.prepare(NAMED, site_facts(unit="id"))
    frame = pd.DataFrame({"id": names, "p": values, "x": 0.0})
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(prepared.needs, key=prepared.key)
    return subsample.units_of_persons(NAMED, prepared.family, table)[:, 0]


def names_of_blocks():
    """Return names that the hash sends to the first block, and to the second."""
    names = [f"person {number}" for number in range(40)]
    block = marks_of(pd.Series(names), bytes.fromhex(NAMED.schema_sha256)) % NAMED.blocks
    return [[name for name, where in zip(names, block, strict=True) if where == each] for each in range(2)]


def test_by_persons_the_worst_neighbours_move_both_blocks_in_one_direction_whatever_the_order():
    """A person whose long time kept one block's rate low is replaced by one whose short time makes the other's high.

    Twice the sensitivity of blocks by rows, which the noise covers; half of it would lose 2 epsilon.
    """
    first, second = names_of_blocks()
    others = [*((name, 0.5) for name in first[:3]), *((name, 1.0) for name in second[:3])]
    before, after = [*others, (first[3], 50.0)], [*others, (second[3], 0.0)]
    for order in (lambda people: people, lambda people: sorted(people, key=lambda each: each[1])):
        moved = int(named_units(order(after)).sum() - named_units(order(before)).sum())
        assert moved == 2 * UNITS
    assert subsample.prepare(NAMED, site_facts(unit="id")).noise.rate * moved == NAMED.epsilon


def test_a_column_that_names_people_is_used_where_it_is_declared_as_the_unit_and_not_otherwise():
    with pytest.raises(hdp.MechanismError, match="have no unit"):
        subsample.prepare(NAMED, site_facts(row_order="arbitrary"))


def test_people_are_marked_before_the_first_answer(monkeypatch):
    """The key of blocks by persons is that of `LocalSite.read`: the answer reads no cell that names somebody."""
    ledger = hdp.Ledger(None, dataset="marks", epsilon=10, unit="who")
    named = frame_of(SORTED, who=[f"p{i}" for i in range(len(SORTED))])
    site = hdp.LocalSite(named, schema=SCHEMA, ledger=ledger, unit="who", max_rows_per_unit=1, n_max=len(SORTED))
    site.read()
    monkeypatch.setattr("hdpstats.schema.table.marks_of", None)
    monkeypatch.setattr("hdpstats.schema.table.persons_of", None)
    assert site.answer(replace(BY_ROWS, by="persons")).blocks == BLOCKS

"""What a computation is said to do at most: known without a row, never less than what it does, whatever is asked."""

import sys
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats._base.work import KINDS
from hdpstats.mechanisms.hybrid_weights import NeighboursQuery
from hdpstats.records.geometry import PointColumn, PointSpace
from hdpstats.schema.table import PrivateTable
from hdpstats.solvers import nearest_points, searches
from tests.questions import SCHEMA, people, questions, site_of

LINES_OF_A_STEP, LINES_OF_A_DRAW = 2.0, 250.0
"""Lines of Python that an operation of the interpreter, and the draw of a number, stand for."""

PRICES = dict.fromkeys(KINDS, 1e-9) | {"steps": 1e-6, "draws": 1e-5}
"""Of about such a size are they on any machine."""

MOST_LINES = (6e5, 2e6)
"""Of questions that are followed line by line, in `make test` and in `make test-wide`."""


def lines_of(task):
    """Return how many lines of Python a task runs."""
    count = 0

    def follow(frame, event, arg):
        nonlocal count
        count += 1
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        task()
    finally:
        sys.settrace(before)
    return count


def lines_said(work):
    """Return the lines that are counted."""
    return LINES_OF_A_STEP * work.steps + LINES_OF_A_DRAW * work.draws


@pytest.fixture(scope="module")
def asked():
    return list(questions(60))


@pytest.mark.parametrize("most", [MOST_LINES[0], pytest.param(MOST_LINES[1], marks=pytest.mark.wide)])
def test_no_computation_runs_more_lines_than_are_counted(asked, most):
    """On costly rows with every loop at its full length; what is too long for this has the same loops as what is not.

    Which numbers are drawn decides a few lines of many: the counts hold for 2^-60 of all draws.
    """
    more, followed = {}, 0
    for name, site, query in asked:
        said = lines_said(site.work(query))
        if said <= most:
            rehearsal = site.rehearsal(query, rows=site.records * site.terms.most_rows)
            rehearsal()
            followed += 1
            more[name] = lines_of(rehearsal) / said
    assert followed >= 25
    assert {name: share for name, share in more.items() if share > 1.0} == {}


def work_of(site, query, rows):
    """Return what a site of so many people would say."""
    with mock.patch.object(hdp.LocalSite, "records", rows):
        return site.work(query)


def test_what_is_counted_grows_with_the_rows_and_needs_none(asked, monkeypatch):
    """A count is a function of public facts: it reads no row, and is the same for all rows of their number."""
    monkeypatch.setattr(PrivateTable, "admit", lambda *_, **__: pytest.fail("rows were read"))
    larger = dict.fromkeys(KINDS, 0)
    for name, site, query in asked:
        if name.startswith("sampling"):  # so few proposals are refused for more people
            continue
        few, many = (work_of(site, query, rows) for rows in (600, 60_000))
        assert few.seconds(PRICES) < many.seconds(PRICES)
        for kind in KINDS:
            larger[kind] += getattr(many, kind) > 10 * getattr(few, kind)
    assert min(larger[kind] for kind in ("passes", "functions", "products", "squares", "sorts")) > 5


def test_a_count_does_not_depend_on_what_rows_hold(asked):
    terms = {"schema": SCHEMA, "ledger": hdp.Ledger(None, dataset="e", epsilon=100), "row_order": "arbitrary"}
    other = hdp.LocalSite(people(60, seed=7), **terms)
    for table in asked[0][1]._public.of(None).values():
        other.put_public(table)
    alike = [(site, query) for _, site, query in asked if site is asked[0][1]]
    assert len(alike) > 30
    assert all(other.work(query) == site.work(query) for site, query in alike[::3])


def neighbours(site, points, dimension):
    """Return a question about the nearest of public points, whose rows the site is given."""
    table = hdp.Study(private=site, public=people(points, 1)).public
    site.put_public(table)
    space = PointSpace(columns=tuple(PointColumn(name=f"x{j}", lower=-3.0, upper=3.0) for j in range(dimension)))
    return NeighboursQuery(
        space=space,
        support=None,
        epsilon=Fraction(1),
        schema_sha256=SCHEMA.sha256,
        public_sha256=table.sha256,
    )


@pytest.mark.parametrize(("limit", "loop"), [("TREE_PAIRS", "search"), ("COMPILED_PAIRS", "kernel")])
def test_the_code_of_a_search_is_loaded_before_the_charge(monkeypatch, limit, loop):
    """It takes seconds to compile, which would be missing in the answer's slot."""
    monkeypatch.setattr(nearest_points, limit, 0)
    monkeypatch.setattr(nearest_points, "TREE_DIMENSION", 7 if loop == "search" else 0)
    site, order = site_of(40), []
    found, charge = getattr(searches, loop), hdp.Ledger.charge

    def noted(*arguments):
        order.append("code")
        return found(*arguments)

    def charged(*arguments, **options):
        order.append("charge")
        return charge(*arguments, **options)

    monkeypatch.setattr(searches, loop, noted)
    monkeypatch.setattr(hdp.Ledger, "charge", charged)
    release = site.answer(neighbours(site, 30, 1))
    assert np.sum(release.counts) != 0
    assert order[0] == "code"
    assert "charge" in order

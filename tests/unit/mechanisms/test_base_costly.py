"""Costly invented rows of a query: those of the survival outcome that the query is about, and a release from them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.mechanisms.base import costly_table, follow_up_of
from hdpstats.mechanisms.registry import prepare
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import ChargedQuery
from hdpstats.schema.site_facts import SiteFacts
from tests.privacy.test_gradient_sensitivity import SCHEMA, hazard_model, make_query, regression_model


@pytest.mark.parametrize(
    ("long", "causes", "unit"), [(False, 1, None), (True, 1, None), (True, 1, "id"), (True, 2, "id")]
)
def test_a_query_about_follow_up_is_answered_from_people_who_are_followed_to_the_end(
    long: bool, causes: int, unit: str | None
) -> None:
    query = make_query(hazard_model(long=long, causes=causes))
    site_facts = SiteFacts(
        schema=SCHEMA, relation=Relation.REPLACE_ONE, records=40, unit=unit, most_rows=3 if unit else 1
    )
    prepared = prepare(query, site_facts)
    table = costly_table(query, site_facts, rows=40 * site_facts.most_rows)
    admitted = table.admit(prepared.needs, key=prepared.key)
    assert follow_up_of(query, SCHEMA).start == ("start" if long else None)
    assert admitted.rows == 40 * site_facts.most_rows
    assert np.max(admitted.numeric["stop"]) == 6.0
    with rehearsing():
        assert len(prepared.compute(admitted).total) == len(query.theta)


def test_a_query_about_no_follow_up_is_answered_from_rows_of_the_schema() -> None:
    query, site_facts = (
        make_query(regression_model()),
        SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=9),
    )
    prepared = prepare(query, site_facts)
    assert follow_up_of(query, SCHEMA) is None
    assert len(prepared.compute(costly_table(query, site_facts, rows=9).admit(prepared.needs)).total) == len(
        query.theta
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class OnAGrid(ChargedQuery):
    kind: ClassVar[str] = "on a grid/1"
    grid: tuple[float, ...]
    public_sha256: str | None = None


def test_a_grid_of_other_numbers_than_times_is_no_follow_up() -> None:
    query = OnAGrid(grid=(0.0, 1.0), epsilon=Fraction(1), schema_sha256=SCHEMA.sha256)
    assert follow_up_of(query, SCHEMA) is None

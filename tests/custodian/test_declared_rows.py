"""More rows than are declared: the custodian's log says so at the start, and nobody else does."""

import logging

import pytest

from hdpstats.custodian import SiteSettings, open_site
from hdpstats.custodian.serving import MORE_ROWS
from tests.custodian.people import RECORDS, SCHEMA, people

MOST_ROWS = 3
PEOPLE = 40
UNDER = {"unit": "who", "max_rows_per_unit": MOST_ROWS, "n_max": PEOPLE}


def opened(institution, caplog, *, rows_of_one, name="declared"):
    rows = PEOPLE - 1 + rows_of_one
    frame = people(rows).assign(who=[f"p{max(0, i - rows_of_one + 1)}" for i in range(rows)])
    path = institution.write(f"{name}-{rows_of_one}", frame, SCHEMA, persons=UNDER)
    with caplog.at_level(logging.WARNING, logger="hdpstats.custodian"):
        site = open_site(SiteSettings.from_yaml(path))
    return site, [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("rows_of_one", [1, MOST_ROWS, (MOST_ROWS - 1) * PEOPLE + 1])
def test_nothing_is_said_where_rehearsals_have_rows_enough(institution, caplog, rows_of_one):
    assert opened(institution, caplog, rows_of_one=rows_of_one)[1] == []


def test_one_person_with_too_many_rows_is_told_to_the_custodian_only(institution, caplog):
    site, said = opened(institution, caplog, rows_of_one=RECORDS)
    assert said == [MORE_ROWS]
    usual, _ = opened(institution, caplog, rows_of_one=1, name="usual")
    assert (str(site), site.terms, site.records) == (str(usual), usual.terms, usual.records)

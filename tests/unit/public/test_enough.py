"""How many public rows a model needs, and what is said where they are few."""

import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.public.enough import few, least_rows, rare_values, rarer

SCHEMA = hdp.Schema(
    x=hdp.Continuous(0, 1), g=hdp.Categorical(["a", "b", "c"]), h=hdp.Binary(), y=hdp.Binary(), z=hdp.Continuous(0, 9)
)


@pytest.fixture(scope="module")
def table():
    frame = pd.DataFrame(
        {
            "x": [0.1, 0.9] * 10,
            "g": ["a"] * 16 + ["b"] * 4,
            "h": [1.0] * 3 + [0.0] * 17,
            "y": [1.0] * 6 + [0.0] * 14,
            "z": [1.0] * 20,
        }
    )
    return hdp.Study(public=frame, schema=SCHEMA).public


def test_the_least_number_follows_from_the_coefficients():
    assert [least_rows(each) for each in (1, 4, 9, 10, 11, 25)] == [40, 40, 40, 40, 44, 100]


def test_rows_events_and_cells_are_each_a_reason():
    assert few(135, 45, [], coefficients=9) is None
    assert few(134, 45, [], coefficients=9) == (
        "Public rows are few for 9 coefficients (134 rows): what they leave open is in the intervals."
    )
    assert "(500 rows, 44 events)" in few(500, 44, [], coefficients=9)
    assert few(500, None, [], coefficients=9) is None
    assert "(4 with g=b)" in few(500, None, [("g=b", 4)], coefficients=9)
    assert few(500, None, [("g=b", 5)], coefficients=9) is None
    assert "for 1 coefficient (10 rows" in few(10, None, [], coefficients=1)


def test_values_that_few_rows_have_are_named_and_lacking_ones_are_not(table):
    assert list(rare_values(table, SCHEMA, ["x", "g", "h"])) == [("g=b", 4), ("h=1", 3)]


def test_events_are_those_of_the_rarer_of_two_outcomes(table):
    assert rarer(table, SCHEMA, "y") == 6
    assert rarer(table, SCHEMA, "z") is None
    assert rarer(hdp.Study(public=pd.DataFrame({"x": [0.5]}), schema=SCHEMA).public, SCHEMA, "y") is None

"""What crosses between a site and its askers, written as JSON and read back."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.privacy.budget import Spend
from hdpstats.schema.public import PublicTable
from hdpstats.sites.forms import CODES, Facts, Quote, code_of, public_from_dict, public_to_dict
from hdpstats.sites.site import SiteTerms
from tests.support import PUBLIC_ROWS, SCHEMA, people


def across(fields):
    """Send JSON values as text."""
    return json.loads(json.dumps(fields, allow_nan=False))


def holes(frame):
    """Return the frame with missing cells, a negative zero, and numbers beyond the schema's bounds."""
    frame = frame.copy()
    frame.loc[3:7, "x"] = np.nan
    frame.loc[5:9, "g"] = None
    frame.loc[0, "x"] = -0.0
    frame.loc[1, "k"] = 1e300
    return frame


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(people(PUBLIC_ROWS), id="rows"),
        pytest.param(holes(people(PUBLIC_ROWS)), id="holes"),
        pytest.param(people(PUBLIC_ROWS)[["x", "g"]], id="without outcome"),
        pytest.param(people(PUBLIC_ROWS).iloc[:0], id="no rows"),
    ],
)
def test_public_rows_keep_every_digit_and_their_hash(frame):
    table = PublicTable.from_frame(frame, SCHEMA, ())
    read = public_from_dict(across(public_to_dict(table)), schema=SCHEMA, unit=None)
    assert (read.sha256, read.rows, read.names) == (table.sha256, table.rows, table.names)
    pd.testing.assert_frame_equal(read.frame(), table.frame())


@pytest.mark.parametrize("unit", ["pid", "k"])
def test_public_rows_keep_whose_they_are(unit):
    """The unit's column may be declared itself, or only name persons."""
    frame = people(PUBLIC_ROWS).assign(pid=[f"p{row % 7}" for row in range(PUBLIC_ROWS)])
    table = PublicTable.from_frame(frame, SCHEMA, (), unit=unit)
    read = public_from_dict(across(public_to_dict(table)), schema=SCHEMA, unit=unit)
    assert read.sha256 == table.sha256
    assert read.raw(["x"]).persons.tolist() == table.raw(["x"]).persons.tolist()


def test_persons_that_are_none_are_refused():
    frame = people(PUBLIC_ROWS).assign(pid=range(PUBLIC_ROWS))
    fields = public_to_dict(PublicTable.from_frame(frame, SCHEMA, (), unit="pid"))
    for persons in ([0] * (PUBLIC_ROWS - 1), ["a"] * PUBLIC_ROWS, [-1] * PUBLIC_ROWS, [10**30] * PUBLIC_ROWS, 5):
        with pytest.raises(hdp.SiteError, match="persons"):
            public_from_dict(fields | {"persons": persons}, schema=SCHEMA, unit="pid")
    with pytest.raises(hdp.SiteError, match="SHA-256"):
        public_from_dict(fields | {"persons": [0] * PUBLIC_ROWS}, schema=SCHEMA, unit="pid")


@pytest.mark.parametrize(
    "declared",
    [
        {"relation": "replace_one", "unit": None, "max_rows_per_unit": None, "n_max": None},
        {"relation": "add_or_remove_one", "unit": None, "max_rows_per_unit": None, "n_max": 500},
        {"relation": "replace_one", "unit": "pid", "max_rows_per_unit": 7, "n_max": 100},
    ],
)
def test_facts_cross(declared):
    facts = Facts(
        schema=SCHEMA, terms=SiteTerms.declared(**declared), records=5, dataset="trial", version=3, account="a1"
    )
    assert Facts.from_dict(across(facts.to_dict())) == facts
    assert list(Facts.from_dict(across(facts.to_dict())).schema) == list(SCHEMA)


def test_facts_of_another_format_are_refused():
    terms = SiteTerms.declared(relation="replace_one", unit=None, max_rows_per_unit=None, n_max=None)
    facts = Facts(schema=SCHEMA, terms=terms, records=5, dataset="trial", version=3, account="a1")
    with pytest.raises(hdp.SiteError, match="version"):
        Facts.from_dict(facts.to_dict() | {"format": 1})


def test_quotes_cross_without_rounding():
    third = Fraction(1, 3)
    quote = Quote(columns=("x",), cost=Spend(third), ahead=Spend(Fraction(0), Fraction(0), third))
    assert Quote.from_dict(across(quote.to_dict())) == quote


def test_every_error_has_the_code_of_its_class():
    for kind in (
        hdp.ArgumentError,
        hdp.BudgetError,
        hdp.FormulaError,
        hdp.InsufficientBudget,
        hdp.LedgerError,
        hdp.MechanismError,
        hdp.SchemaError,
        hdp.SiteError,
    ):
        assert CODES[code_of(kind("words"))].error is kind
    assert code_of(hdp.HdpError("words")) == "failed"

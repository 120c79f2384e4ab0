"""What crosses between a site and its askers, written as JSON and read back."""

import hashlib
import json
import math
import struct
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.privacy.budget import Spend
from hdpstats.schema.public import PublicTable
from hdpstats.sites.messages import CODES, Facts, Quote, code_of, public_from_bytes, public_to_bytes
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
    read = public_from_bytes(public_to_bytes(table), schema=SCHEMA, unit=None)
    assert (read.sha256, read.rows, read.names) == (table.sha256, table.rows, table.names)
    pd.testing.assert_frame_equal(read.frame(), table.frame())


@pytest.mark.parametrize("unit", ["pid", "k"])
def test_public_rows_keep_whose_they_are(unit):
    """The unit's column may be declared itself, or only name persons."""
    frame = people(PUBLIC_ROWS).assign(pid=[f"p{row % 7}" for row in range(PUBLIC_ROWS)])
    table = PublicTable.from_frame(frame, SCHEMA, (), unit=unit)
    read = public_from_bytes(public_to_bytes(table), schema=SCHEMA, unit=unit)
    assert read.sha256 == table.sha256
    assert read.raw(["x"]).persons.tolist() == table.raw(["x"]).persons.tolist()


def parts_of(table):
    """Return the fields of the first line of public rows, and the bytes of their cells."""
    line, _, cells = public_to_bytes(table).partition(b"\n")
    return json.loads(line), cells


def put_together(fields, cells):
    return json.dumps(fields).encode() + b"\n" + cells


def test_persons_that_are_none_are_refused():
    frame = people(PUBLIC_ROWS).assign(pid=range(PUBLIC_ROWS))
    fields, cells = parts_of(PublicTable.from_frame(frame, SCHEMA, (), unit="pid"))
    columns = cells[: -8 * PUBLIC_ROWS]
    for person in (-1, PUBLIC_ROWS, 2**62):
        persons = np.full(PUBLIC_ROWS, person, dtype="<i8").tobytes()
        with pytest.raises(hdp.SiteError, match="persons"):
            public_from_bytes(put_together(fields, columns + persons), schema=SCHEMA, unit="pid")
    with pytest.raises(hdp.SiteError, match="SHA-256"):
        public_from_bytes(put_together(fields, columns + bytes(8 * PUBLIC_ROWS)), schema=SCHEMA, unit="pid")


def test_rows_take_as_many_bytes_as_their_cells():
    """Nothing expands: 8 bytes a number and 4 a level, after a line of names."""
    table = PublicTable.from_frame(people(PUBLIC_ROWS)[["x", "g"]], SCHEMA, ())
    _, cells = parts_of(table)
    assert len(cells) == PUBLIC_ROWS * (8 + 4)
    np.testing.assert_array_equal(np.frombuffer(cells, "<f8", PUBLIC_ROWS), table.numbers["x"])


STRANGE = {
    "as many rows as memory cannot hold": {"rows": 10**15},
    "no number of rows": {"rows": True},
    "fewer rows than none": {"rows": -1},
    "a column twice": {"columns": ["x", "x"]},
    "no columns": {"columns": []},
    "an unknown column": {"columns": ["x", "z"]},
    "a list as a column": {"columns": ["x", ["g"]]},
    "columns that are none": {"columns": "xg"},
    "persons that are not there": {"persons": True},
    "persons that are none": {"persons": 0},
    "another schema": {"schema_sha256": "0" * 64},
    "another hash": {"sha256": "0" * 64},
}


@pytest.mark.parametrize("what", STRANGE)
def test_rows_whose_line_does_not_fit_are_refused(what):
    fields, cells = parts_of(PublicTable.from_frame(people(PUBLIC_ROWS)[["x", "g"]], SCHEMA, ()))
    with pytest.raises(hdp.SiteError, match="public rows"):
        public_from_bytes(put_together(fields | STRANGE[what], cells), schema=SCHEMA, unit=None)


@pytest.mark.parametrize("cells", [b"", b"x", bytes(12 * PUBLIC_ROWS - 1), bytes(12 * PUBLIC_ROWS + 1)])
def test_rows_with_too_few_or_too_many_bytes_are_refused(cells):
    fields, _ = parts_of(PublicTable.from_frame(people(PUBLIC_ROWS)[["x", "g"]], SCHEMA, ()))
    with pytest.raises(hdp.SiteError, match="one cell for each row"):
        public_from_bytes(put_together(fields, cells), schema=SCHEMA, unit=None)


@pytest.mark.parametrize("code", [-2, 3, 2**31 - 1, -(2**31)])
def test_a_position_that_is_no_level_is_refused(code):
    fields, cells = parts_of(PublicTable.from_frame(people(PUBLIC_ROWS)[["x", "g"]], SCHEMA, ()))
    codes = np.array([0] * (PUBLIC_ROWS - 1) + [code], dtype="<i4").tobytes()
    assert fields["columns"] == ["x", "g"]
    with pytest.raises(hdp.SiteError, match="position"):
        public_from_bytes(put_together(fields, cells[: 8 * PUBLIC_ROWS] + codes), schema=SCHEMA, unit=None)


@pytest.mark.parametrize("number", [np.inf, -np.inf])
def test_a_number_that_is_none_is_refused(number):
    fields, _ = parts_of(PublicTable.from_frame(people(PUBLIC_ROWS)[["x"]], SCHEMA, ()))
    cells = np.full(PUBLIC_ROWS, number, dtype="<f8").tobytes()
    with pytest.raises(hdp.SchemaError, match="infinite"):
        public_from_bytes(put_together(fields, cells), schema=SCHEMA, unit=None)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}\n", b"[]\n", b"{", b"\xff\n", b"[" * 100_000 + b"\n", b"[]," * 10**6, b"x" * 2_000_000],
)
def test_what_does_not_begin_with_such_a_line_is_no_table(content):
    """The JSON of earlier versions of the format is among it."""
    with pytest.raises(ValueError) as caught:
        public_from_bytes(content, schema=SCHEMA, unit=None)
    assert not isinstance(caught.value, hdp.HdpError)


def test_the_bytes_of_a_table_never_change():
    """What another version wrote, and its hash, which ledgers name."""
    frame = pd.DataFrame({"x": [0.5, None, -0.0], "g": ["b", None, "a"]})
    table = PublicTable.from_frame(frame, SCHEMA, ())
    fields, cells = parts_of(table)
    assert list(fields) == ["columns", "persons", "rows", "schema_sha256", "sha256"]
    assert cells == struct.pack("<3d3i", 0.5, math.nan, 0.0, 1, -1, 0)
    words = b'["b",null,"a"]'
    digest = hashlib.sha256(b'["g","texts",14]' + words + b'["x","numbers",24]' + cells[:24])
    assert table.sha256 == fields["sha256"] == digest.hexdigest()


@pytest.mark.parametrize("rows", [0, 1, 2**14 - 1, 2**14, 2**14 + 1, 40_000])
def test_the_hash_of_levels_is_that_of_their_list(rows):
    """They are written in parts; the hash is that of the whole list."""
    frame = pd.DataFrame({"g": pd.Series(np.resize(["a", "c", None, "b"], rows), dtype=object)})
    words = json.dumps(frame["g"].tolist(), separators=(",", ":")).encode()
    found = PublicTable.from_frame(frame, SCHEMA, ()).sha256
    assert found == hashlib.sha256(f'["g","texts",{len(words)}]'.encode() + words).hexdigest()


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
    for number, words in ((1, "the site is the older one"), (99, "this package is the older one")):
        with pytest.raises(hdp.SiteError, match=words):
            Facts.from_dict(facts.to_dict() | {"format": number})


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

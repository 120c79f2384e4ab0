"""Private rows that a database returns: the same rows as in a file, and errors that quote no cell."""

import re
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.custodian import open_site, preview, previewing, serving
from hdpstats.custodian.queried_rows import QueriedRows, rows_of
from hdpstats.schema import cell_maps
from tests.custodian.people import PRIVATE
from tests.custodian.test_request_files import SIMPLE, Place

SQL = "SELECT y, x, k, g, time, event, secret FROM people ORDER BY id"
PEOPLE = PRIVATE.assign(id=np.arange(len(PRIVATE)))


def _duckdb(folder):
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.register("given", PEOPLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    (folder / "people.duckdb").chmod(0o600)
    return {"url": "duckdb:///people.duckdb", "sql": SQL}


def _parquet(folder):
    PEOPLE.to_parquet(folder / "people.parquet")
    (folder / "people.parquet").chmod(0o600)
    return {"url": "duckdb://", "sql": SQL.replace("people", "'people.parquet'")}


def _sqlite(folder):
    with sqlite3.connect(folder / "people.db") as connection:
        PEOPLE.to_sql("people", connection, index=False)
    connection.close()
    (folder / "people.db").chmod(0o600)
    return {"url": "sqlite:///people.db", "sql": SQL}


DATABASES = {"duckdb": _duckdb, "parquet": _parquet, "sqlite": _sqlite}


def queried(folder, **entries):
    """Return a section as the settings read it."""
    return QueriedRows.read(entries, name="rows", file=folder / "site.yaml")


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


def served(folder, rows, **entries):
    """Return the place of a hospital whose settings name a database."""
    place = Place(folder, rows=rows, **entries)
    text = re.sub(r"^data: .*\n", "", place.file.read_text(), flags=re.MULTILINE)
    place.file.write_text(text)
    return place


@pytest.mark.parametrize("database", DATABASES)
def test_rows_are_those_of_a_file(folder, database):
    rows = rows_of(queried(folder, **DATABASES[database](folder)), folder)
    assert list(rows) == list(PRIVATE)
    for name in PRIVATE:
        if name == "g":
            assert cell_maps.texts(rows[name]) == cell_maps.texts(PRIVATE[name])
        else:
            assert cell_maps.numbers(rows[name]).tobytes() == cell_maps.numbers(PRIVATE[name]).tobytes()


@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
def test_a_site_answers_from_a_database_and_notices_other_rows(folder, database):
    place = served(folder, DATABASES[database](folder))
    place.ask(*SIMPLE)
    assert f"of data set {'trial'!r}" in preview(place.settings, place.request)
    place.answer()
    assert place.spent == 0.5
    assert place.read().to_json()
    assert open_site(place.settings).records == len(PRIVATE)
    text = place.file.read_text()
    place.file.write_text(text.replace("ORDER BY id", "ORDER BY id DESC"))
    with pytest.raises(hdp.ArgumentError, match="are not those that version 1"):
        open_site(place.settings)
    place.file.write_text(text.replace("FROM people", "FROM people WHERE x > 0"))
    with pytest.raises(hdp.ArgumentError, match="are not those that version 1"):
        open_site(place.settings)


def test_the_same_rows_in_a_file_and_in_a_database_are_one_version(folder):
    place = Place(folder)
    place.ask(*SIMPLE)
    place.answer()
    first = place.release.read_bytes()
    entries = "\n".join(["rows:", "  url: duckdb:///people.duckdb", f"  sql: {SQL}"])
    _duckdb(folder)
    place.file.write_text(place.file.read_text().replace("data: rows.parquet", entries))
    place.answer()
    assert place.release.read_bytes() == first
    assert place.spent == 0.5


@pytest.mark.parametrize("database", DATABASES)
def test_a_query_that_fails_is_an_error_at_the_start_without_a_cell(folder, database):
    entries = DATABASES[database](folder)
    for sql in ("SELECT nothing FROM nowhere ORDER BY 1", "SELECT * FROM (SELECT ORDER BY"):
        with pytest.raises(hdp.ArgumentError, match="the query cannot be read"):
            rows_of(queried(folder, **entries | {"sql": sql}), folder)
    if database != "sqlite":  # which makes a number of any text
        bad = entries["sql"].replace("SELECT y", "SELECT CAST(g AS DOUBLE) AS y")
        with pytest.raises(hdp.ArgumentError) as caught:
            rows_of(queried(folder, **entries | {"sql": bad}), folder)
        assert "ConversionException" in str(caught.value)
        assert "'a'" not in str(caught.value)
        assert caught.value.__cause__ is None
    twice = entries["sql"].replace("SELECT y", "SELECT x AS y, y")
    with pytest.raises(hdp.ArgumentError, match="several columns named y"):
        rows_of(queried(folder, **entries | {"sql": twice}), folder)


def test_a_column_that_the_schema_declares_must_be_there(folder):
    place = served(folder, _duckdb(folder))
    place.file.write_text(place.file.read_text().replace("SELECT y, x", "SELECT x"))
    with pytest.raises(hdp.SchemaError, match="y"):
        open_site(place.settings)


def test_a_query_writes_nothing(folder):
    rows = _duckdb(folder)
    before = (folder / "people.duckdb").read_bytes()
    for sql in ("DELETE FROM people; " + SQL, "CREATE TABLE other AS " + SQL):
        with pytest.raises(hdp.ArgumentError, match="the query cannot be read"):
            rows_of(queried(folder, **rows | {"sql": sql}), folder)
    assert (folder / "people.duckdb").read_bytes() == before


def test_colons_and_percent_signs_in_a_query_are_themselves(folder):
    rows = _sqlite(folder)
    found = rows_of(queried(folder, **rows | {"sql": "SELECT ':x 5%s' AS g FROM people ORDER BY id"}), folder)
    assert set(found["g"]) == {":x 5%s"}


def test_cells_of_a_database_change_no_other_cell(folder):
    with sqlite3.connect(folder / "odd.db") as connection:
        connection.execute("CREATE TABLE odd (id, cell)")
        cells = [1.5, 2, "x", None, b"\xff", 2**60, "3"]
        connection.executemany("INSERT INTO odd VALUES (?, ?)", list(enumerate(cells)))
    connection.close()
    found = rows_of(queried(folder, url="sqlite:///odd.db", sql="SELECT cell FROM odd ORDER BY id"), folder)["cell"]
    expected = [1.5, 2.0, np.nan, np.nan, np.nan, 2.0**60, 3.0]
    np.testing.assert_array_equal(cell_maps.numbers(found), expected)
    alone = [cell_maps.numbers(pd.Series([cell], dtype=object))[0] for cell in found]
    np.testing.assert_array_equal(alone, expected)


def test_an_error_quotes_no_password_wherever_it_stands(folder):
    url = "postgresql://ann:word-1@127.0.0.1:1/base?connect_timeout=1&password=word-2&sslpassword=word-3"
    with pytest.raises(hdp.ArgumentError, match=r"127\.0\.0\.1:1/base") as caught:
        rows_of(queried(folder, url=url, sql=SQL), folder)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("cell", ["1", "one"])
def test_rows_are_counted_as_they_are_read_where_a_database_leaves_some_out(folder, cell):
    with (folder / "people.csv").open("w") as file:
        file.write("id,x\n" + "".join(f"{number},{number}\n" for number in range(30_000)) + f"30000,{cell}\n")
    (folder / "people.csv").chmod(0o600)
    sql = "SELECT * FROM read_csv('people.csv', ignore_errors = true) ORDER BY id"
    place = served(folder, {"url": "duckdb://", "sql": sql})
    assert previewing.number_of_rows(place.settings) == len(serving.private_rows(place.settings))


def test_a_query_may_end_with_a_remark(folder):
    rows = _sqlite(folder)
    asked = queried(folder, **rows | {"sql": rows["sql"] + " -- of the study"})
    assert len(rows_of(asked, folder)) == len(PRIVATE)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"url": "people.duckdb"}, "url must be a URL"),
        ({"url": "duckdb://", "sql": "SELECT 1"}, "must say ORDER BY"),
        ({"url": "duckdb://", "sql": ""}, "sql must be a query"),
        ({"url": "nosuch://host/base"}, "no driver for nosuch"),
        ({"url": "postgresql://host/base", "password_variable": "HDPSTATS_NO_SUCH"}, "not in the environment"),
        ({"url": "postgresql://127.0.0.1:1/base?connect_timeout=1"}, "psycopg: OperationalError"),
    ],
)
def test_what_is_no_database_is_refused(folder, entries, words):
    with pytest.raises(hdp.ArgumentError, match=words):
        rows_of(queried(folder, **{"sql": SQL} | entries), folder)


def test_settings_name_files_or_a_database(folder):
    rows = _duckdb(folder)
    with pytest.raises(hdp.ArgumentError, match="either data must name files"):
        _ = Place(folder, rows=rows).settings
    (folder / "people.duckdb").chmod(0o644)
    place = served(folder, rows)
    with pytest.raises(hdp.ArgumentError, match="rows: others than the owner may read or write"):
        serving.check_files(place.settings)


@pytest.mark.parametrize(
    "source", ["'people.parquet'", "'peo*.parquet'", "read_parquet(['people.parquet'])", "held.people", "text"]
)
def test_files_that_a_query_of_duckdb_opens_are_private(folder, source):
    entries, before = _parquet(folder) | _duckdb(folder) | {"url": "duckdb://"}, ""
    name = "people.duckdb" if source == "held.people" else "people.parquet"
    if source == "held.people":
        before = f"ATTACH '{folder / name}' AS held (READ_ONLY); "
    sql = f"{before}SELECT x FROM {source} ORDER BY id"
    if source == "text":
        sql = "SELECT octet_length(content) AS x FROM read_blob('people.parquet') ORDER BY x"
    asked = queried(folder, **entries | {"sql": sql})
    assert len(rows_of(asked, folder)) in (1, len(PRIVATE))
    (folder / name).chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match=f"rows: others than the owner may read or write .*{name}"):
        rows_of(asked, folder)
    (folder / name).chmod(0o600)
    folder.chmod(0o777)
    with pytest.raises(hdp.ArgumentError, match="rows: others than the owner may write in"):
        rows_of(asked, folder)


def test_files_are_found_in_a_folder_of_any_name(folder):
    other = folder / "o'clock"
    other.mkdir(mode=0o700)
    assert len(rows_of(queried(other, **_parquet(other)), other)) == len(PRIVATE)


def test_a_query_of_duckdb_puts_no_row_into_a_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    memory = "SET memory_limit='40MB'; SET threads=1; "
    large = memory + "SELECT range AS a, hash(range) AS h FROM range(4000000) ORDER BY h"
    with pytest.raises(hdp.ArgumentError, match="duckdb: OutOfMemory"):
        rows_of(queried(folder, url="duckdb://", sql=large), folder)
    assert list(folder.iterdir()) == []


def test_settings_with_a_password_are_read_by_nobody_else(folder):
    place = served(folder, {"url": "postgresql://ann:secret@host/base", "sql": SQL})
    place.file.chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match="settings: others than the owner may read"):
        _ = place.settings

"""Private rows of a PostgreSQL server: its types, its transaction that only reads, and its errors."""

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.custodian.queried_rows import QueriedRows, rows_of
from hdpstats.schema import cell_maps

SQL = "SELECT id, age, weight, male, size, born FROM people ORDER BY id"


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def queried(sql, url, folder):
    """Return the rows of a table, by one query or another."""
    sql(
        "CREATE TABLE people (id bigint, age numeric, weight float8, male boolean, size varchar(9), born date); "
        "INSERT INTO people VALUES (1, 35.50, 'NaN', true, '<=20', '1980-01-01'), "
        "(2, 61, 70.25, false, '20-50', NULL), "
        "(3, NULL, 1e300, NULL, NULL, 'infinity')"
    )

    def section(query=SQL):
        return QueriedRows.read({"url": url, "sql": query}, name="rows", file=folder / "site.yaml")

    return section


def test_types_of_a_server_are_read_cell_by_cell(queried, folder):
    rows = rows_of(queried(SQL.replace(", born", "")), folder)
    assert list(rows) == ["id", "age", "weight", "male", "size"]
    np.testing.assert_array_equal(cell_maps.numbers(rows["age"]), [35.5, 61.0, np.nan])
    np.testing.assert_array_equal(cell_maps.numbers(rows["weight"]), [np.nan, 70.25, 1e300])
    np.testing.assert_array_equal(cell_maps.numbers(rows["male"]), [1.0, 0.0, np.nan])
    assert cell_maps.texts(rows["size"]) == ["<=20", "20-50", None]
    assert cell_maps.texts(rows["id"]) == ["1", "2", "3"]


def test_dates_are_missing_cells_or_the_start_fails(queried, folder):
    rows = rows_of(queried("SELECT born FROM people WHERE id < 3 ORDER BY id"), folder)
    assert np.isnan(cell_maps.numbers(rows["born"])).all()
    with pytest.raises(hdp.ArgumentError, match=r"psycopg: DataError") as caught:  # of a date that Python cannot hold
        rows_of(queried(), folder)
    assert "infinity" not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "WITH gone AS (DELETE FROM people RETURNING id) SELECT id FROM gone ORDER BY id",
        "SELECT size::int AS age FROM people ORDER BY id",
        "SELECT nothing FROM people ORDER BY id",
    ],
)
def test_a_query_that_writes_or_fails_is_refused_without_a_cell(queried, folder, sql, query):
    with pytest.raises(hdp.ArgumentError, match="the query cannot be read") as caught:
        rows_of(queried(query), folder)
    assert "20" not in str(caught.value).replace(str(folder), "").partition("(psycopg")[2]
    assert sql("SELECT count(*) FROM people") == [(3,)]

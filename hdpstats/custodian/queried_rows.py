"""Private rows that a database returns: ``rows: {url: ..., sql: ...}`` in the settings, instead of ``data:``.

The query is the custodian's, in the settings, and no analyst ever adds to it. It is run when the site starts, in one
transaction that only reads; from then on the rows are in this process's memory as those of a file are, and no answer
waits for the database.

**Types come from the schema.** The columns are those that the query names. Their cells are mapped one by one as those
of files are (`hdpstats.schema.cell_maps`): numbers, truth values, decimals and texts are read, anything else (a date,
an array, bytes) is a missing cell. Nothing is inferred from cells. Let the query make numbers of dates: days since an
index date, not the date.

**Rows stay the same as long as the ledger does.** The site keeps a hash of the rows, as of files
(`hdpstats.custodian.serving`), and refuses to start where the database returns others, or the same in another order: so
the query must say ``ORDER BY``, by columns that no two rows agree in. Have it read a snapshot (a table of the study, a
date of extraction), not a table that grows: a corrected cohort is a new version of the data set.

**What goes wrong** (no connection, a query that the database refuses, a column that is not there) is an error when the
site starts or is checked, to its custodian alone. It has the class of the driver's error and not its text, which may
quote a cell.

**Files are the custodian's.** The file of a database, and every file that DuckDB opens for a query, whether the query
names it, a pattern or a database that it attaches, are private files (`hdpstats.custodian.files.check_file`): nobody
else may read, write or replace them. DuckDB itself says which it opened (its log of the file system), so that no name
in a query is overlooked. It writes none: what does not fit into memory is an error, not a file beside the rows.

DuckDB (extra ``databases``) reads its own files (``duckdb:///cohort.duckdb``) and, in memory (``duckdb://``), files of
Parquet and CSV that the query names, relative to the folder of the settings. Any other URL is SQLAlchemy's:
``postgresql://``, ``sqlite:///``, or a dialect that is installed beside this package (SQL Server, Oracle). Passwords
are in an environment variable (``password_variable``), or where PostgreSQL's own library looks for them.
"""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final, final

import pandas as pd
from pydantic import BeforeValidator, ValidationInfo
from sqlalchemy import URL, create_engine
from sqlalchemy.exc import ArgumentError as UrlError
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import NullPool

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats.custodian.files import check_file, files_of_database
from hdpstats.custodian.settings_sections import Name, Section, in_folder, with_password
from hdpstats.ledger.location import locate, shown

DUCKDB: Final = "duckdb"
LONGEST_SQL: Final = 100_000
IN_FILES: Final = frozenset({DUCKDB, "sqlite"})
"""Databases that are files, or nowhere."""


def _url(value: object, info: ValidationInfo) -> str:
    """Return a URL with its password; the file of one in a file is relative to the folder of the settings."""
    if not (isinstance(value, str) and "://" in value):
        raise ValueError("must be a URL, such as postgresql://…, duckdb:///cohort.duckdb or duckdb://")
    try:
        url = locate(value)
    except ArgumentError as error:
        raise ValueError(str(error)) from None
    if url.get_backend_name() in IN_FILES and _named(value):
        return url.set(database=str(in_folder(value.split("://", 1)[1].removeprefix("/"), info))).render_as_string(
            hide_password=False
        )
    return with_password(value, info.data.get("password_variable"))


def _named(url: str) -> bool:
    return url.split("://", 1)[1].removeprefix("/") not in ("", ":memory:")


def _query(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_SQL:
        raise ValueError("must be a query, of no more than 100,000 characters")
    if not re.search(r"\border\s+by\b", value, re.IGNORECASE):
        raise ValueError(
            "must say ORDER BY, by columns that no two rows agree in: the same rows in another order are other rows to "
            "the hash that is kept of them"
        )
    return value


@final
class QueriedRows(Section):
    """Where private rows come from, where that is a database.

    Attributes
    ----------
    password_variable : str or None
        The environment variable that has the password.
    url : str
        The database; see the module.
    sql : str
        The query, whose columns are named as the schema names them.
    """

    password_variable: Name | None = None
    url: Annotated[str, BeforeValidator(_url)]
    sql: Annotated[str, BeforeValidator(_query)]

    @property
    def files(self) -> tuple[Path, ...]:
        """The file of the database and those that are read beside it; none where it is at a server or nowhere."""
        place = locate(self.url)
        if place.get_backend_name() not in IN_FILES or not place.database:
            return ()
        path = Path(str(place.database))
        if place.get_backend_name() == DUCKDB:
            return path, Path(f"{os.path.realpath(path)}.wal")
        return files_of_database(path)


@forgets_rows
def rows_of(queried: QueriedRows, folder: Path) -> pd.DataFrame:
    """Return the rows of the query, each column in the types that the database has for it.

    Parameters
    ----------
    queried
        The database and the query.
    folder
        What names of files in a query of DuckDB are relative to.

    Raises
    ------
    ArgumentError
        See the module. It quotes no cell, and names no file but one that others may read or write.
    """
    frame = _fetched(queried, queried.sql, folder)
    twice = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
    if twice:
        raise ArgumentError(f"rows: the query has several columns named {', '.join(twice)}", argument="rows")
    return frame


def _fetched(queried: QueriedRows, sql: str, folder: Path) -> pd.DataFrame:
    url = locate(queried.url)
    try:
        if url.get_backend_name() != DUCKDB:
            return _from_sqlalchemy(url, sql)
        frame, opened = _from_duckdb(url, sql, folder)
    except (ImportError, NoSuchModuleError, UrlError) as error:
        raise ArgumentError(
            f"rows: there is no driver for {url.drivername}: {_remedy(url, error)}", argument="rows"
        ) from None
    except Exception as error:  # a driver's error, whose text may quote a cell
        kind = type(getattr(error, "orig", None) or error)
        raise ArgumentError(
            f"rows: the query cannot be read from {shown(url)} "
            f"({kind.__module__.partition('.')[0]}: {kind.__name__}); run it there as this user to see why",
            argument="rows",
        ) from None
    for file in opened:
        check_file(file, name="rows", private=True)
    return frame


def _remedy(url: URL, error: Exception) -> str:
    if url.get_backend_name() == DUCKDB:
        return "pip install '.[databases]' in a clone of hdpstats"
    return f"install what SQLAlchemy needs for it ({getattr(error, 'name', None) or url.drivername})"


def _from_duckdb(url: URL, sql: str, folder: Path) -> tuple[pd.DataFrame, tuple[Path, ...]]:
    """Read by DuckDB, whose Arrow types are kept, and return which files it opened.

    It loads no extension, and writes nothing.
    """
    import duckdb

    options: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",  # cells of people would be in files there, for everybody to read
    }
    with duckdb.connect(url.database or ":memory:", read_only=bool(url.database), config=options) as connection:
        quoted = str(folder).replace("'", "''")
        connection.execute(f"SET file_search_path = '{quoted}'")
        connection.execute("CALL enable_logging('FileSystem', storage='memory')")
        table = connection.sql(sql).to_arrow_table()
        connection.execute("CALL disable_logging()")
        found = connection.execute("SELECT DISTINCT message FROM duckdb_logs WHERE type = 'FileSystem'").fetchall()
    names = {str(json.loads(message)["path"]) for (message,) in found}
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame, tuple(Path(name).absolute() for name in sorted(names))


def _from_sqlalchemy(url: URL, sql: str) -> pd.DataFrame:
    """Read by SQLAlchemy: each column as Python's objects, whatever pandas would make of it."""
    engine = create_engine(url, poolclass=NullPool)
    options: dict[str, Any] = {"no_parameters": True}  # a colon or % in the query is itself
    if engine.dialect.name == "postgresql":
        options["postgresql_readonly"] = True
    with engine.connect().execution_options(**options) as connection:
        found = connection.exec_driver_sql(sql)
        names, rows = list(found.keys()), found.fetchall()
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    series = [pd.Series(list(cells), dtype=object) for cells in columns]
    return pd.DataFrame(dict(enumerate(series)), index=range(len(rows))).set_axis(names, axis="columns")

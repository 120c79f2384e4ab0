"""Private rows in Parquet files, read in parts: more of them than memory holds, from one file or many.

A name with ``*``, ``?`` or ``[``, a folder, or a list of files stands for the rows of all of them, in the order of the
files' names (of a list in its own order). What exists under a name with such characters is meant itself. No file may be
named twice, also not by a link: a person has one row. When they are opened, labels of columns and numbers of rows are
read from their footers, and no cell. Each query then reads the columns that it needs, `BATCH` rows at a time, row group
by row group, as often as it passes over the rows, and keeps none of them.

Cells are mapped by `hdpstats.schema.cell_maps`, cell by cell, as those of a data frame are: the same numbers to the
last bit, whatever types the files store them in, and also where the files differ in that.

**Whole numbers that pandas wrote** from a numpy column would have been written as floats had one cell been missing. The
file says from which type each column was written. Whole numbers of 2^53 or more in such a column are read as floats
are, so that they have no text (see `hdpstats.schema.cell_maps`). Those of other writers and of pandas' nullable types
have one.

**What is left to whoever holds the files.** They must not change while a site has them, nor be linked or moved: each
pass compares their size, times and entry in the file system with those at opening, and a computation on other files
fails after its charge, with no words about them. How long a pass takes depends on what is stored (a column of texts is
longer to read than one of numbers); see ``vignettes/decisions`` 0058.

**People with several rows** (``unit=``) are refused here: all rows of a person must be mapped together, and nothing
says in which partitions they are.
"""

import hmac
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import escape, glob, has_magic
from os import PathLike, fspath, stat
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.compiled import several_threads
from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError, SiteError, forgets_rows
from hdpstats.records import codec
from hdpstats.schema import cell_maps
from hdpstats.schema.columns import Column
from hdpstats.schema.partitions import Engine, ReadInParts, in_this_process, run_on_workers
from hdpstats.schema.schema import Schema, check_names
from hdpstats.schema.stored_columns import Declared, columns_of
from hdpstats.schema.table import AdmittedTable, PrivateRows

BATCH = 2**17
"""Rows that are mapped at a time."""

BUFFER = 2**16
"""Bytes of a column that are read at a time: a row group is never in memory as a whole."""

MOST_WHOLE = 2**30
"""Bytes of admitted columns that a mechanism which is no sum over partitions may have in memory."""

ABSENT = "reading Parquet needs pyarrow: pip install pyarrow"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Where rows are: a row group of a file, None for a file without any; and `_state` of the file at opening.

    ``coded`` are the columns that were written as texts in a dictionary. Arrow raises where such a text is not valid
    UTF-8, unless it is told to read them so (`hdpstats.schema.cell_maps`). ``of_numpy`` are the columns of `_of_numpy`.
    """

    path: str
    group: int | None
    state: tuple[int, ...]
    coded: tuple[str, ...]
    of_numpy: tuple[str, ...]


def state_of(path: str | Path) -> tuple[int, ...]:
    """Return what tells a file from another one that took its name: size, times, and the number of its entry.

    The device is not among them: another machine numbers it otherwise.
    """
    kept = stat(path)
    return kept.st_size, kept.st_mtime_ns, kept.st_ctime_ns, kept.st_ino


@final
class ParquetTable(PrivateRows):
    """Private rows in Parquet files.

    Made by `open`. Nothing is kept of them but their names, the numbers of their rows and the schema.
    """

    __slots__ = ("_engine", "_groups", "_rows", "_schema")

    def __init__(self, *, groups: Sequence[RowGroup], schema: Schema, rows: int, engine: Engine) -> None:
        self._groups, self._schema, self._rows, self._engine = tuple(groups), schema, rows, engine

    @classmethod
    @forgets_rows
    def open(
        cls,
        files: Sequence[Path],
        schema: Schema,
        *,
        unit: str | None = None,
        engine: Engine = in_this_process,
        name: str = "private",
    ) -> "ParquetTable":
        """Register files of private rows. Reads their footers only: labels, and numbers of rows.

        Parameters
        ----------
        files : sequence of Path
            At least one, in the order of the rows.
        schema : Schema
            The declared columns, each of which every file must have exactly once.
        unit : str, optional
            Must be None: see the module.
        engine : Engine
            Where partitions are read (`hdpstats.schema.partitions.engine_of`).
        name : str
            The argument that errors name.

        Raises
        ------
        ArgumentError
            A file is no Parquet file that can be read, or is named twice, pyarrow is absent, or people have several
            rows.
        SchemaError
            A declared column is absent from a file or there several times.

        Examples
        --------
        >>> import pandas, tempfile
        >>> from hdpstats.schema.columns import Continuous
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number, ages in enumerate(([35, 120], [None, 61.5])):
        ...         pandas.DataFrame({"age": ages}).to_parquet(Path(folder, f"{number}.parquet"))
        ...     table = ParquetTable.open(files_of(folder, name="private"), Schema(age=Continuous(20, 90)))
        ...     rows = table.admit(["age"])
        ...     print(rows.rows, rows.map(lambda part: part.numeric["age"].tolist()))
        4 [[35.0, 90.0], [20.0, 61.5]]
        """
        if unit is not None:
            raise ArgumentError(
                f"{name}: people with several rows (unit=) cannot be read in partitions, as nothing says in which ones "
                "the rows of a person are; name one file, which is read into memory, or keep one row per person",
                argument="unit",
            )
        groups: list[RowGroup] = []
        rows = 0
        identities: set[object] = set()
        for path in files:
            in_file, count, identity = _row_groups(path, schema, name=name)
            if not identities.isdisjoint(identity):
                raise ArgumentError(
                    f"{name} names a file twice (in a list with a pattern, or by a link): each person would have "
                    "several rows, and one row per person is protected; name every file once",
                    argument=name,
                )
            identities |= identity
            groups += in_file
            rows += count
        return cls(groups=groups, schema=schema, rows=rows, engine=engine)

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self._schema

    @property
    def rows(self) -> int:
        """The number of rows, valid or not, that the files' footers state. Public under ``replace_one`` only."""
        return self._rows

    def admit(self, names: Iterable[str], *, key: bytes | None = None) -> ReadInParts[AdmittedTable]:  # noqa: ARG002
        """Return the named columns as partitions, each mapped through the schema when it is read."""
        columns = {name: self._schema[name] for name in check_names(self._schema, names)}
        load = partial(_tables, columns)
        return ReadInParts(self._groups, load=load, rows=self._rows, engine=self._engine)

    def check_whole(self, columns: int, *, rows: int) -> None:
        """Refuse to hold more than `MOST_WHOLE` bytes: 9 for each cell."""
        if 9 * columns * rows > MOST_WHOLE:
            raise MechanismError(
                f"this computation is no sum over partitions: it needs {columns} columns of {rows:,} rows in memory, "
                f"more than the {MOST_WHOLE:,} bytes that private rows in partitions may take; name one file, which is "
                "read into memory, or ask for a fit that is added over partitions: mechanism 'objective', 'output' or "
                "'clipped_newton', of a model with one linear predictor and without late entry",
                available=("objective", "output", "clipped_newton"),
            )

    def load(self, load: Callable[[], None]) -> None:
        """Load compiled code in this process and on every worker that there is now."""
        load()
        if not run_on_workers(self._engine, load):
            raise MechanismError(
                "compiled code cannot be loaded on a worker of the cluster, or a worker was lost, and nothing was "
                "charged; run hdpstats.mechanisms.loading.load there, which says why"
            )

    def check_unchanged(self) -> None:
        """Refuse to read files whose size, times or entry in the file system are not those at opening."""
        for path, state in {group.path: group.state for group in self._groups}.items():
            try:
                same = state_of(path) == state
            except OSError:
                same = False
            if not same:
                raise SiteError("a file of private rows has changed since it was opened; open the site again")

    def read(self) -> None:
        """Read and map every declared column once: whoever holds the rows sees whether they can be."""
        self.admit(self._schema).total(_count)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed hash of all that mechanisms read: that of the same rows in memory.

        Arrays are hashed one after the other, each in a pass over its own column.
        """
        digest = hmac.new(key, self._schema.sha256.encode(), "sha256")
        here = ParquetTable(groups=self._groups, schema=self._schema, rows=self._rows, engine=in_this_process)
        for kind in ("numeric", "codes", "missing", "beyond"):
            for name in sorted(self._schema):
                pieces: list[Any] = here.admit([name]).map(partial(_array, kind, name))
                if pieces[0] is not None:
                    digest.update(codec.dumps([name, str(pieces[0].dtype), self._rows]).encode())
                    for piece in pieces:
                        digest.update(np.ascontiguousarray(piece).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"<private rows in Parquet files: {len(self._schema)} declared columns>"


def _count(table: AdmittedTable) -> int:
    return table.rows


def _array(kind: str, name: str, table: AdmittedTable) -> Any:
    return getattr(table, kind).get(name)


def is_in_parts(private: object) -> bool:
    """Return whether a source names rows to be read in parts: a list of files, a pattern or a folder."""
    if isinstance(private, list | tuple):
        return True
    if not isinstance(private, str | PathLike):
        return False
    try:
        return Path(private).is_dir() or (has_magic(fspath(private)) and not Path(private).is_file())
    except (OSError, ValueError):  # no file has such a name
        return False


def files_of(private: object, *, name: str) -> list[Path]:
    """Return the files that a path, a pattern, a folder or a list of paths names, those of a pattern by name.

    Raises
    ------
    ArgumentError
        There is none, or something else is named. It quotes no text: it may be a cell, given by mistake.
    """
    if isinstance(private, list | tuple) and private:
        return [file for source in private for file in files_of(source, name=name)]
    paths: list[Path] = []
    if isinstance(private, str | PathLike):
        try:
            place = Path(private)
            paths = [place] if place.is_file() else _matching(place / "*.parquet" if place.is_dir() else place)
            paths = paths if all(path.is_file() for path in paths) else []
        except (OSError, ValueError):
            paths = []
    if not paths:
        raise ArgumentError(
            f"{name} must name Parquet files (a file, a folder, 'folder/*.parquet' or a list of files), and there is "
            "none of that name",
            argument=name,
        )
    return paths


def _matching(pattern: Path) -> list[Path]:
    """Return what matches a pattern, by name; a folder that exists is meant itself, whatever characters it has."""
    folder = next((folder for folder in pattern.parents if folder.is_dir()), Path())
    return [Path(path) for path in sorted(glob(str(Path(escape(str(folder))) / pattern.relative_to(folder))))]


def _row_groups(path: Path, schema: Schema, *, name: str) -> tuple[list[RowGroup], int, set[object]]:
    """Return the row groups of a file and the number of its rows, from its footer; and what only this file has."""
    try:
        from pyarrow import ArrowException, parquet
        from pyarrow.types import is_dictionary
    except ImportError:
        raise ArgumentError(ABSENT, argument=name) from None
    try:
        kept, state = stat(path), state_of(path)
        with parquet.ParquetFile(path) as file:
            labels, groups, rows = file.schema_arrow.names, file.num_row_groups, file.metadata.num_rows
            coded = tuple(column.name for column in file.schema_arrow if is_dictionary(column.type))
            unread, of_numpy = _unread(file, coded), _of_numpy(file.schema_arrow)
    except (ValueError, OSError, ArrowException):
        raise ArgumentError(f"{name} names a file that is no Parquet file that can be read", argument=name) from None
    for what, wrong in (("lack", 0), ("repeat", 2)):
        odd = [column for column in schema if min(labels.count(column), 2) == wrong]
        if odd:
            raise SchemaError(
                f"a file of private rows {what}s declared columns: {', '.join(map(repr, odd))}; every file must have "
                "each of them once",
                columns=tuple(odd),
            )
    odd = [column for column in schema if column in unread]
    if odd:
        raise SchemaError(
            "a file of private rows holds texts of a dictionary in lists, in extension types, or encoded as "
            f"differences, which Arrow cannot read cell by cell: {', '.join(map(repr, odd))}; write these columns as "
            "plain texts",
            columns=tuple(odd),
        )
    numbers, resolved = range(groups) if groups else [None], str(path.resolve())
    identity: set[object] = {resolved}
    if kept.st_ino:  # a hard link is another path; some file systems number no files
        identity.add((kept.st_dev, kept.st_ino))
    return (
        [RowGroup(path=resolved, group=group, state=state, coded=coded, of_numpy=of_numpy) for group in numbers],
        rows,
        identity,
    )


def _of_numpy(schema: Any) -> tuple[str, ...]:
    """Return the columns of whole numbers that pandas would have written as floats had one cell been missing.

    These are columns of 64 bits that were neither nullable integers nor Arrow's: of smaller ones every number is kept.
    """
    from pyarrow.types import is_int64, is_uint64

    try:
        written = {column["field_name"]: str(column["numpy_type"]) for column in schema.pandas_metadata["columns"]}
    except (TypeError, KeyError, ValueError):  # pandas did not write it
        return ()
    return tuple(
        column.name
        for column in schema
        if (is_int64(column.type) or is_uint64(column.type))
        and not written.get(column.name, "Int64").endswith(("Int64", "[pyarrow]"))
    )


def frame_of(path: Path) -> pd.DataFrame:
    """Return the rows of one file in the types in which they are stored: to convert a cell can fail.

    Columns of whole numbers that pandas wrote from a numpy type have that type again.

    Raises
    ------
    ImportError
        Without pyarrow.
    ValueError, OSError
        It is no Parquet file that can be read.
    """
    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    from pyarrow.parquet import read_schema  # after pandas, whose error says what is lacking

    for name in set(_of_numpy(read_schema(path))).intersection(frame):
        cells: Any = frame[name]
        frame[name] = cell_maps.numbers(cells) if cells.hasnans else cells.to_numpy(dtype=cells.dtype.numpy_dtype)
    return frame


def rows_in(path: Path, *, name: str) -> pd.DataFrame:
    """Return the rows of one file by `frame_of`; what cannot be read is an `ArgumentError` without a text of it."""
    try:
        return frame_of(path)
    except ImportError:
        raise ArgumentError("reading Parquet needs pyarrow: pip install pyarrow", argument=name) from None
    except (ValueError, OSError):
        raise ArgumentError(f"{name} is not a Parquet file that can be read", argument=name) from None


def _unread(file: Any, coded: Sequence[str]) -> set[str]:
    """Return the columns with dictionaries of texts of which Arrow raises where one text, or any, is odd."""
    from pyarrow.types import is_dictionary

    unread = {
        column.name for column in file.schema_arrow if not is_dictionary(column.type) and _has_dictionary(column.type)
    }
    for group in range(file.num_row_groups if coded else 0):
        chunks = map(file.metadata.row_group(group).column, range(file.metadata.num_columns))
        odd = {chunk.path_in_schema for chunk in chunks if any("DELTA" in name for name in chunk.encodings)}
        unread |= odd.intersection(coded)
    return unread


def _has_dictionary(kind: Any) -> bool:
    """Return whether an Arrow type is a dictionary or has one inside, in fields or in an extension type's storage."""
    from pyarrow import BaseExtensionType
    from pyarrow.types import is_dictionary

    if isinstance(kind, BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    return is_dictionary(kind) or any(_has_dictionary(kind.field(place).type) for place in range(kind.num_fields))


def _tables(columns: Mapping[str, Column], source: RowGroup) -> Iterator[AdmittedTable]:
    """Read a row group, `BATCH` rows at a time; at least one table, and all rows that its footer states."""
    from pyarrow import parquet

    if state_of(source.path) != source.state:
        raise OSError("the file has changed since it was opened")
    coded, declared = [name for name in source.coded if name in columns], Declared(columns)
    with parquet.ParquetFile(source.path, pre_buffer=False, buffer_size=BUFFER, read_dictionary=coded) as file:
        rows = 0 if source.group is None else file.metadata.row_group(source.group).num_rows
        if not rows:
            yield _admitted(declared, file.schema_arrow.empty_table(), source.of_numpy)
            return
        read = 0
        groups, labels = [source.group], list(columns)
        for batch in file.iter_batches(BATCH, row_groups=groups, columns=labels, use_threads=several_threads()):
            read += batch.num_rows
            yield _admitted(declared, batch, source.of_numpy)
            del batch  # its memory is free for the next one
        if read != rows:
            raise OSError("the file has other rows than its footer states")


def _admitted(declared: Declared, batch: Any, of_numpy: Collection[str]) -> AdmittedTable:
    """Map columns of a batch of Arrow arrays; each cell by itself, whole numbers of ``of_numpy`` columns as floats."""
    places = {label: place for place, label in enumerate(batch.schema.names)}

    def cells(name: str) -> Any:
        column = batch.column(places[name])
        return column.cast("double", safe=False) if name in of_numpy else column

    return columns_of(declared, cells, rows=batch.num_rows)

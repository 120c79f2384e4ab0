"""The schema: which columns there are and what each may hold, never learned from private rows.

Which columns of a frame are declared is told from their labels only, never from a cell (`check_frame`, `select`).
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpError, SchemaError
from hdpstats._base.validation import shown, text
from hdpstats.display import grid, page
from hdpstats.records import codec
from hdpstats.records.codec import Json
from hdpstats.schema import dictionary
from hdpstats.schema.columns import Binary, Categorical, Column, Duration, NumericColumn, column_of

LONGEST_NAME = 100
_SHOWN_LEVELS = 8


def _check_name(name: object) -> str:
    word = text(name, name="a column name", longest=LONGEST_NAME)
    if word == "Intercept":
        raise SchemaError("no column can be called 'Intercept'; rename the column", column=word)
    if word != word.strip() or not word.isprintable() or set(word) & {"`", '"'}:
        raise SchemaError(
            f"the column name {word!r} must not begin or end with a blank, nor hold a backtick, a double "
            "quote or a character that does not print; rename the column",
            column=word,
        )
    return word


def _check_column(name: str, column: object) -> Column:
    if not isinstance(column, Column):
        raise SchemaError(
            f"column {name!r} must be declared by a kind of column such as Continuous(0, 100) or Binary(), "
            f"not {type(column).__name__}",
            column=name,
        )
    return column


def _range(column: Column) -> str:
    """Write what a column may hold, for people."""
    if isinstance(column, Categorical):
        levels = " | ".join(column.levels[:_SHOWN_LEVELS])
        return levels + (f" | ... ({len(column.levels)} levels)" if len(column.levels) > _SHOWN_LEVELS else "")
    if not isinstance(column, NumericColumn):
        return ""
    unit = f" {column.unit}" if isinstance(column, Duration) and column.unit else ""
    return f"{column.lower:.12g} to {column.upper:.12g}{unit}"


def _missing(column: Column) -> str:
    """Write what becomes of a missing private cell, for people."""
    if column.complete:
        return "none: complete"
    if isinstance(column, NumericColumn):
        return "left out" if column.missing is None else f"{column.missing:.12g}"
    if not isinstance(column, Categorical):
        return ""
    blank = "left out" if column.missing_level is None else column.missing_level
    return blank if column.other is None else f"{blank}; other labels: {column.other}"


@final
class Schema(Mapping[str, Column]):
    """The declared columns of a table, an immutable mapping from name to `Column`.

    The custodian writes it from the study protocol or a code book. Private rows are mapped into it by total
    functions: values beyond bounds are clipped, and a row with a missing or uninterpretable cell among the columns of a
    model is left out of it, unless the schema says by name what fills the cell in (`hdpstats.schema.columns`).

    Parameters
    ----------
    mapping : mapping of str to Column, optional
        Columns by name, for names that are not Python identifiers.
    **columns : Column
        Columns by name.

    Raises
    ------
    SchemaError
        If no column is declared, one is declared twice, or a name cannot be used.

    Examples
    --------
    >>> from hdpstats.schema.columns import Binary, Continuous
    >>> schema = Schema({"tumour size": Continuous(0, 120)}, hormon=Binary())
    >>> list(schema), schema["tumour size"].upper
    (['tumour size', 'hormon'], 120.0)
    """

    __slots__ = ("_columns", "_sha256")

    def __init__(self, mapping: Mapping[str, Column] | None = None, /, **columns: Column) -> None:
        listed = {} if mapping is None else mapping
        if not isinstance(listed, Mapping):
            raise SchemaError("a schema is made from a mapping of column names to columns, or from keywords")
        twice = sorted(set(listed) & set(columns))
        if twice:
            raise SchemaError(f"declared twice: {', '.join(twice)}", columns=tuple(twice))
        declared = {_check_name(name): column for name, column in {**listed, **columns}.items()}
        if not declared:
            raise SchemaError("a schema needs at least one column, for example Schema(age=Continuous(18, 100))")
        self._columns = {name: _check_column(name, column) for name, column in declared.items()}
        declarations = {name: column.declaration() for name, column in self._columns.items()}
        self._sha256 = codec.sha256(dictionary.document(declarations))

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __hash__(self) -> int:
        return hash(self._sha256)

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical form of the schema, 64 hex digits; order and labels of columns play no part."""
        return self._sha256

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the columns that have one."""
        return {name: column.label for name, column in self._columns.items() if column.label is not None}

    def with_labels(self, mapping: Mapping[str, str | None] | None = None, /, **labels: str | None) -> "Schema":
        """Return the schema with other labels of some columns, None for no label.

        What tables call a column is no part of what is declared about it: the schema has the same hash and equals this
        one, and what was fitted under it is answered from the ledger, for nothing.

        Raises
        ------
        SchemaError
            If a column is not declared, or a label is no line of text.

        Examples
        --------
        >>> from hdpstats.schema.columns import Continuous
        >>> schema = Schema(age=Continuous(20, 90))
        >>> schema.with_labels(age="Age (years)").labels, schema.with_labels(age="Age (years)") == schema
        ({'age': 'Age (years)'}, True)
        """
        given = {**(mapping or {}), **labels}
        check_names(self, given)
        entries = {name: column.declaration() for name, column in self._columns.items()}
        for name, label in {**self.labels, **given}.items():
            entries[name]["label"] = label
        return self.from_dict(dictionary.document(entries))

    def label(self, name: str) -> str:
        """Return what tables call a column: its label, or its name where it has none."""
        return self[name].label or name

    def leaves_out(self, names: Iterable[str]) -> bool:
        """Return whether rows may be left out because of the named columns: how many are complete is then private."""
        return any(self[name].leaves_out for name in names)

    def to_dict(self) -> dict[str, Json]:
        """Return the schema as plain data with its labels, as it is written to YAML or JSON."""
        return dictionary.document({name: column.to_dict() for name, column in self._columns.items()})

    @classmethod
    def from_dict(cls, entries: Mapping[str, object]) -> "Schema":
        """Read what `to_dict` returned; anything unknown is refused."""
        columns: dict[str, Column] = {}
        for name, entry in dictionary.columns(entries).items():
            try:
                columns[name] = column_of(entry)
            except HdpError as error:
                raise SchemaError(f"column {name!r}: {error}", column=name) from None
        return cls(columns)

    def to_yaml(self, path: str | PathLike[str]) -> None:
        """Write the schema as a data dictionary in YAML."""
        dictionary.write(path, self.to_dict())

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> "Schema":
        """Read a data dictionary in YAML; unknown entries and repeated ones are a `SchemaError`."""
        return cls.from_dict(dictionary.read(path))

    @classmethod
    def from_public(cls, public_frame: pd.DataFrame, /, **declared: Column) -> "Schema":
        """Declare the given columns, and derive every other column of a public frame from its rows.

        Numbers become `Continuous` between their extremes, rounded outward to two significant digits of the
        number or of the width, whichever is finer; columns of 0 and 1, of 1 and 2 and of truth values become
        `Binary`; texts become `Categorical` with their distinct values in sorted order (the first is the
        reference). Bounds from public rows are a choice, not a fact about the private rows: values beyond them
        will be clipped, so the custodian should review them.

        Columns that name people or rows (all cells differ: texts, consecutive whole numbers, or whole numbers of
        a column called ``id`` or the like), and dates, are left out with a warning. What is taken for granted,
        such as that 2 means yes, is written to the standard error.

        Parameters
        ----------
        public_frame : DataFrame
            Rows that anybody may see. Never pass private rows: the schema would disclose their extremes.
        **declared : Column
            Columns that are declared as they are, whether or not the frame has them.

        Raises
        ------
        SchemaError
            If a column to derive is constant, has no value, or holds neither numbers, truth values nor texts.

        Examples
        --------
        >>> from hdpstats.schema.columns import Duration
        >>> public = pd.DataFrame({"age": [23, 58, 81], "grade": ["2", "3", "2"]})
        >>> schema = Schema.from_public(public, time=Duration(horizon=2557, unit="days"))
        >>> schema["age"].lower, schema["grade"].levels
        (23.0, ('2', '3'))
        """
        return cls(dictionary.derived_columns(public_frame, declared))

    def synthetic(
        self,
        n: int,
        *,
        public: pd.DataFrame | None = None,
        unit: str | None = None,
        max_rows_per_unit: int = 1,
        follow_up: Sequence[str] | None = None,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Return invented rows, to try code on before anything is spent; no private row is involved.

        A column of the public rows is drawn from its public cells, missing ones included, others evenly from what is
        declared, none missing. Columns are drawn apart from each other: no association in invented rows means anything.
        Durations and binary columns of a row come from one public row, so that events belong to their times
        (`hdpstats.schema.synthetic`).

        The rows are marked, ``attrs["hdpstats"] == "invented"``. A `Study` of them takes a ``budget=``, not the ledger
        of a data set, and summaries say that no number is a finding.

        Parameters
        ----------
        n
            How many rows, at most a million.
        public
            Public rows.
        unit, max_rows_per_unit
            The column that names the person, where people have several rows, and the most rows of one person; the
            column is added.
        follow_up
            The columns of a survival outcome, as ``Surv()`` takes them, ``("time", "event")`` or ``("start", "stop",
            "event")``: without public rows, spells of a person then follow each other, and only the last one may end in
            an event.
        seed
            A number that makes them others; the same rows each time with the same one.

        Returns
        -------
        pandas.DataFrame
            With a column for each that is declared.

        Raises
        ------
        ArgumentError, SchemaError
            An argument is none, or public rows do not have the declared values.

        Examples
        --------
        >>> from hdpstats.schema.columns import Binary, Continuous
        >>> schema = Schema(age=Continuous(20, 90), event=Binary())
        >>> rows = schema.synthetic(100)
        >>> list(rows), rows.attrs["hdpstats"], bool(rows["age"].between(20, 90).all())
        (['age', 'event'], 'invented', True)
        """
        from hdpstats.schema.synthetic import invented_rows  # which reads schemas itself

        return invented_rows(
            self,
            n,
            public=public,
            unit=unit,
            max_rows_per_unit=max_rows_per_unit,
            follow_up=follow_up,
            seed=seed,
        )

    def _headers(self) -> tuple[str, ...]:
        return ("column", "kind", "range or levels", "missing cells", *(["label"] if self.labels else []))

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (name, column.kind, _range(column), _missing(column), column.label or "")
            for name, column in self._columns.items()
        ]
        return [row[: len(self._headers())] for row in rows]

    def __repr__(self) -> str:
        rows = [self._headers(), *self._rows()]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return page("Schema", self.as_html(), badges=[f"{len(self)} declared columns"])

    def as_html(self) -> str:
        """Return the table of columns as HTML."""
        return grid(self._headers(), self._rows())


def check_names(schema: Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without repetition, in order, after checking that the schema declares each."""
    listed = tuple(dict.fromkeys(names))
    unknown = [name for name in listed if name not in schema]
    if unknown:
        raise SchemaError(
            f"not declared: {', '.join(map(repr, unknown))}; the schema declares {', '.join(schema)}",
            columns=tuple(unknown),
        )
    return listed


def locate(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the positions of the columns that each name labels, an empty list where it labels none."""
    places: dict[str, list[int]] = {name: [] for name in names}
    for place, label in enumerate(frame.columns):
        if isinstance(label, str) and label in places:
            places[label].append(place)
    return places


def check_frame(frame: object, *, name: str) -> pd.DataFrame:
    """Return a plain DataFrame over the same cells, or raise if the argument is none."""
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(f"{name} must be a pandas DataFrame, not {type(frame).__name__}", argument=name)
    return pd.DataFrame(frame)


def check_unique(places: Mapping[str, list[int]]) -> None:
    """Raise if a declared name labels several columns."""
    repeated = [name for name, positions in places.items() if len(positions) > 1]
    if repeated:
        raise SchemaError(
            f"several columns are called {', '.join(map(repr, repeated))}; keep one of each",
            columns=tuple(repeated),
        )


def _copy(cells: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a copy. Pandas 2 compares the objects in what ``array`` gives, and to compare a cell may raise."""
    values = cells.to_numpy() if isinstance(cells.dtype, np.dtype) else cells.array
    return pd.Series(values, dtype=cells.dtype, copy=True)


def select(plain: pd.DataFrame, schema: Schema) -> dict[str, "pd.Series[Any]"]:
    """Return copies of the declared columns of a private frame, looking at labels only."""
    places = locate(plain, schema)
    missing = [name for name, positions in places.items() if not positions]
    if missing:
        folded = {label.strip().casefold() for label in plain.columns if isinstance(label, str)}
        near = [name for name in missing if name.casefold() in folded]
        hint = f" ({', '.join(map(repr, near))} up to case or blanks: rename)" if near else ""
        raise SchemaError(
            f"the private rows lack declared columns: {', '.join(map(repr, missing))}{hint}; "
            "add them, or leave them out of the schema",
            columns=tuple(missing),
        )
    check_unique(places)
    return {name: _copy(plain.iloc[:, place]) for name, (place,) in places.items()}


def select_unit(plain: pd.DataFrame, unit: str, *, whose: str) -> "pd.Series[Any]":
    """Return a copy of the column that names the person, which the schema need not declare."""
    places = locate(plain, [unit])
    check_unique(places)
    if not places[unit]:
        raise SchemaError(f"the {whose} rows lack the column {unit!r} that names the person (unit=)", columns=(unit,))
    return _copy(plain.iloc[:, places[unit][0]])


def declared_column(schema: Schema, name: object, *, kind: str, argument: str) -> str | None:
    """Return the name of a column that is declared as a kind, or None where none is given."""
    if name is None:
        return None
    if not isinstance(name, str) or name not in schema or schema[name].kind != kind:
        raise SchemaError(
            f"{argument} must name a column that the schema declares as {kind.capitalize()}(...), not {shown(name)}",
            argument=argument,
        )
    return name


def labels_of(schema: Schema, name: str) -> tuple[str, ...]:
    """Return the texts of a column's levels: "0" and "1" of a binary one without labels."""
    column = schema[name]
    if isinstance(column, Categorical):
        return column.levels
    return (column.labels or ("0", "1")) if isinstance(column, Binary) else ()


def group_labels(grouping: Sequence[str], schema: Schema) -> tuple[str | None, ...]:
    """Return the labels of the combinations of levels: ``"arm=A, sex=1"``, of one column the levels themselves."""
    labels = [labels_of(schema, name) for name in grouping]
    if len(labels) < 2:
        return labels[0] if labels else (None,)
    return tuple(
        ", ".join(f"{name}={label}" for name, label in zip(grouping, each, strict=True))
        for each in itertools.product(*labels)
    )

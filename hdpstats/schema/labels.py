"""Labels of columns: which columns of a frame are declared, looking at labels only, never at a cell."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats.schema.schema import Schema


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
    repeated = [name for name, found in places.items() if len(found) > 1]
    if repeated:
        raise SchemaError(
            f"several columns are called {', '.join(map(repr, repeated))}; keep one of each",
            columns=tuple(repeated),
        )


def _copy(cells: "pd.Series[Any]") -> "pd.Series[Any]":
    return pd.Series(cells.array, dtype=cells.dtype, copy=True)


def select(plain: pd.DataFrame, schema: Schema) -> dict[str, "pd.Series[Any]"]:
    """Return copies of the declared columns of a private frame, looking at labels only."""
    places = locate(plain, schema)
    missing = [name for name, found in places.items() if not found]
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

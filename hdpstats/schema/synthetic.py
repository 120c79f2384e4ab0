"""Invented rows, to try code on before anything is spent: drawn from the schema and from public rows, and marked so.

What a row holds follows from the schema, the public rows and a seed: these functions are never given a private row.

* A column of the public rows is drawn from its public cells as they are, missing ones and those beyond the bounds
  included; any other from the declared values, each as likely as any other, none missing.
* Columns are drawn apart from each other, so that no association in invented rows means anything. Times and the events
  that end them are not: all durations and binary columns of a row come from one public row (or, with several rows of a
  person, from the rows of one public person), so that times follow each other and events belong to their times.
* Without public rows durations of a row are in the order in which they are declared; with ``follow_up`` its spells
  follow each other, an event happens in a person's last row only, and nobody has one at the horizon.

**The mark.** A frame of invented rows has ``attrs["hdpstats"] == "invented"``. A study of such a frame must have a
budget of its own, never the ledger of a data set; the account is called `INVENTED_DATASET`, which every result names,
and the summary of a fit begins its notes with `INVENTED_NOTE`. Writing rows to a file and reading them again, or some
operations of pandas, lose the mark.

Numbers in [0, 1) are made from the seed by SHAKE-256 (`hdpstats.schema.datasets.shares`): they are the same in every
version of numpy, and protect nobody.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.validation import integer
from hdpstats.schema.columns import Binary, Categorical, Duration
from hdpstats.schema.datasets import cells, shares
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

MARK: Final = ("hdpstats", "invented")
"""What the ``attrs`` of a frame of invented rows hold."""

INVENTED_DATASET: Final = "invented rows"
"""What the account of a study of invented rows calls its data set."""

INVENTED_NOTE: Final = (
    "The private rows are INVENTED: drawn from the schema and public rows, to try code on. No number here is a finding."
)

MOST: Final = 1_000_000
"""The most invented rows at once."""


def mark(frame: pd.DataFrame) -> pd.DataFrame:
    """Mark rows as invented, and return them."""
    frame.attrs[MARK[0]] = MARK[1]
    return frame


def is_invented(rows: object) -> bool:
    """Whether rows are marked as invented.

    >>> is_invented(mark(pd.DataFrame({"age": [40]}))), is_invented(pd.DataFrame({"age": [40]}))
    (True, False)
    """
    return isinstance(rows, pd.DataFrame) and rows.attrs.get(MARK[0]) == MARK[1]


def invented_rows(
    schema: Schema,
    n: int,
    *,
    public: pd.DataFrame | None = None,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    follow_up: Sequence[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Return ``n`` invented rows; see `Schema.synthetic`."""
    rows = integer(n, name="n", lower=1, upper=MOST)
    number = integer(seed, name="seed", lower=0, upper=10**9)
    most = integer(max_rows_per_unit, name="max_rows_per_unit", lower=1, upper=10**6)
    if most > 1 and unit is None:
        raise ArgumentError("max_rows_per_unit needs unit, the column that names the person", argument="unit")
    outcome = _outcome(schema, follow_up)
    table = None if public is None else PublicTable.from_frame(public, schema, required=(), unit=unit)
    persons, numbers = _persons(rows, most, f"{number} persons")
    columns: dict[str, Any] = {}
    together = [name for name, column in schema.items() if isinstance(column, Duration | Binary)]
    together = list(dict.fromkeys([*together, *outcome]))
    if table is not None:
        frame = table.frame()
        known = [name for name in together if name in table.names]
        places = _places_of_persons(table, persons, numbers, f"{number} together")
        for name in schema:
            if name in table.names:
                chosen = places if name in known else _places(rows, table.rows, f"{number} {name}")
                columns[name] = frame[name].iloc[chosen].reset_index(drop=True)
    invented = [name for name in schema if name not in columns]
    columns |= {name: cells(schema[name], f"synthetic {number} {name}", rows) for name in invented}
    if set(together) <= set(invented):
        columns |= _ordered([name for name in together if isinstance(schema[name], Duration)], columns)
        columns |= _followed(outcome, columns, schema, persons, numbers)
    made = pd.DataFrame({name: columns[name] for name in schema})
    if unit is not None:
        made[unit] = [f"person-{person + 1}" for person in persons]
    return mark(made)


def _outcome(schema: Schema, follow_up: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of a survival outcome: (time, event) or (start, stop, event)."""
    if follow_up is None:
        return ()
    names = tuple(follow_up) if not isinstance(follow_up, str) else ()
    if len(names) not in (2, 3) or not set(names) <= set(schema):
        raise ArgumentError(
            "follow_up must name declared columns as Surv() does: (time, event) or (start, stop, event)",
            argument="follow_up",
        )
    return names


def _persons(rows: int, most: int, name: str) -> tuple[IntArray, IntArray]:
    """Return which person each row is of, and the number of the row among hers; persons have 1 to ``most`` rows."""
    several = 1 + (most * shares(name, rows)).astype(np.int64)
    persons = np.repeat(np.arange(rows), several)[:rows]
    first = np.searchsorted(persons, persons)
    return persons, np.arange(rows) - first


def _places(rows: int, public: int, name: str) -> IntArray:
    return np.minimum((public * shares(f"synthetic {name}", rows)).astype(np.int64), public - 1)


def _places_of_persons(table: PublicTable, persons: IntArray, numbers: IntArray, name: str) -> IntArray:
    """Return a public row for each row: those of one public person for those of an invented one, as far as they go."""
    if table.persons is None:
        return _places(len(persons), table.rows, name)
    of_person = np.argsort(table.persons, kind="stable")
    ordered = table.persons[of_person]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    chosen = _places(len(persons), len(starts), name)[persons]
    return np.asarray(of_person[starts[chosen] + np.minimum(numbers, lengths[chosen] - 1)])


def _ordered(names: Sequence[str], columns: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Return durations of a row in the order in which they are declared."""
    if len(names) < 2:
        return {}
    values = np.sort(np.column_stack([columns[name] for name in names]), axis=1)
    return {name: values[:, place] for place, name in enumerate(names)}


def _followed(
    outcome: Sequence[str], columns: Mapping[str, Any], schema: Schema, persons: IntArray, numbers: IntArray
) -> dict[str, Any]:
    """Return an outcome whose spells follow each other, with an event in a person's last row at most."""
    if not outcome:
        return {}
    *times, event = outcome
    stop = np.asarray(columns[times[-1]], dtype=np.float64)
    order = np.lexsort((stop, persons))  # rows of a person follow one another already: her times ascend now
    made: dict[str, Any] = {times[-1]: stop[order]}
    if len(times) == 2:
        made[times[0]] = np.where(numbers == 0, 0.0, np.r_[0.0, stop[order][:-1]])
    last = np.r_[persons[1:] != persons[:-1], True]
    column, happened = schema[event], columns[event]
    none = column.levels[0] if isinstance(column, Categorical) else _no_event(column)
    made[event] = np.where(last, happened, np.full(len(last), none, dtype=np.asarray(happened).dtype))
    return made


def _no_event(column: object) -> Any:
    labels = column.labels if isinstance(column, Binary) else None
    return 0.0 if labels is None else labels[0]

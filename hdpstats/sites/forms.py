"""What a site shows and is shown, as JSON values: its public facts, and public rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import SiteError
from hdpstats.schema.columns import Binary, NumericColumn
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites.site import SiteTerms

FORMAT = 3
"""The number of this format; a site and an asker with different ones do not talk."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """The public facts about a site.

    Attributes
    ----------
    schema : Schema
        What the custodian declares about the columns.
    terms : SiteTerms
        Who is protected.
    records : int
        The public number of people, else the declared one.
    dataset, version : str, int
        The custodian's name of the data, and their revision.
    """

    schema: Schema
    terms: SiteTerms
    records: int
    dataset: str
    version: int

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return {
            "format": FORMAT,
            "schema": self.schema.to_dict(),
            "terms": {"relation": self.terms.relation.value, **self.terms.arguments()},
            "records": self.records,
            "dataset": self.dataset,
            "version": self.version,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Facts":
        """Read what `to_dict` wrote, or raise a `SiteError`."""
        if fields.get("format") != FORMAT:
            raise SiteError("the site speaks another version of hdpstats' format; both sides need the same one")
        return cls(
            schema=Schema.from_dict(fields["schema"]),
            terms=SiteTerms.declared(**fields["terms"]),
            records=int(fields["records"]),
            dataset=str(fields["dataset"]),
            version=int(fields["version"]),
        )


def cells(column: "pd.Series[Any]") -> list[float | str | None]:
    """Return the cells of a column of numbers or of levels as JSON values: None where one is missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = [*column.cat.categories.tolist(), None]
        return [levels[code] for code in column.cat.codes.tolist()]
    return [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in column.tolist()]


def public_to_dict(table: PublicTable) -> dict[str, Any]:
    """Return public rows as JSON values, with their SHA-256 and that of the schema they were checked against."""
    frame = table.frame()
    persons = table.raw(()).persons
    return {
        "schema_sha256": table.schema.sha256,
        "sha256": table.sha256,
        "rows": table.rows,
        "columns": {name: cells(frame[name]) for name in table.names},
        "persons": None if persons is None else persons.tolist(),
    }


def public_from_dict(fields: Mapping[str, Any], *, schema: Schema, unit: str | None) -> PublicTable:
    """Read what `public_to_dict` wrote and check it as any public rows, or raise a `SiteError`.

    The rows must have the SHA-256 that they are said to have: what was put is what queries will name.
    """
    if set(fields) != {"schema_sha256", "sha256", "rows", "columns", "persons"}:
        raise SiteError("public rows must come with exactly their columns, persons, number and hashes")
    columns, rows, persons = fields["columns"], fields["rows"], fields["persons"]
    if fields["schema_sha256"] != schema.sha256:
        raise SiteError("the public rows were checked against another schema than this site's")
    if not isinstance(columns, dict) or not set(columns) <= set(schema) or not isinstance(rows, int):
        raise SiteError("public rows must have declared columns only, and a number of rows")
    if not all(_is_column(schema, name, listed, rows) for name, listed in columns.items()):
        raise SiteError("a public column must be a list of a number or a level for each row, null where it is missing")
    frame = pd.DataFrame({name: pd.Series(listed, dtype=object) for name, listed in columns.items()}, index=range(rows))
    if unit is not None and persons is not None and unit not in frame:
        if not _are_whole(persons, rows):
            raise SiteError("persons must be a list of a whole number for each row")
        frame[unit] = np.array(persons, dtype=np.int64)
    table = PublicTable.from_frame(frame, schema, (), unit=None if persons is None else unit)
    if table.sha256 != fields["sha256"]:
        raise SiteError("the public rows do not have the SHA-256 that they are said to have")
    return table


def _is_column(schema: Schema, name: str, listed: object, rows: int) -> bool:
    column = schema[name]
    labelled = isinstance(column, Binary) and column.labels is not None
    kind = float if isinstance(column, NumericColumn) and not labelled else str
    return (
        isinstance(listed, list) and len(listed) == rows and all(cell is None or type(cell) is kind for cell in listed)
    )


def _are_whole(persons: object, rows: int) -> bool:
    whole = isinstance(persons, Sequence) and len(persons) == rows and all(type(each) is int for each in persons)
    return whole and all(0 <= each < max(rows, 1) for each in persons)  # type: ignore[attr-defined]

"""Invented rows, drawn from the schema alone."""

from typing import Any

from hdpstats._base import canonical
from hdpstats.inference import draws
from hdpstats.schema.columns import Binary, Categorical, Column, NumericColumn
from hdpstats.sites.forms import Facts


def dummy_columns(facts: Facts, *, rows: int, seed: int) -> dict[str, list[Any]]:
    """Return columns of invented rows: every declared value equally likely, columns independent of each other.

    A function of the schema, the terms and the arguments: it has never seen a row. With a unit, persons have one to
    ``max_rows_per_unit`` rows each.
    """
    rng = draws.generator(canonical.sha256({"dummy": facts.schema.sha256, "rows": rows, "seed": seed}))
    columns = {name: _cells(column, rows, rng) for name, column in facts.schema.items()}
    unit = facts.terms.unit
    if unit is not None:
        named: list[str] = []
        while len(named) < rows:
            several = int(rng.integers(1, min(facts.terms.most_rows, 10) + 1))
            named += [f"person-{len(named) + 1}"] * several
        columns[unit] = named[:rows]
    return columns


def _cells(column: Column, rows: int, rng: draws.Generator) -> list[Any]:
    if isinstance(column, Categorical):
        return [column.levels[place] for place in rng.integers(0, len(column.levels), rows).tolist()]
    if isinstance(column, Binary):
        return [float(value) for value in rng.integers(0, 2, rows).tolist()]
    if isinstance(column, NumericColumn):
        return [float(value) for value in rng.uniform(column.lower, column.upper, rows).tolist()]
    raise TypeError(f"{type(column).__name__} is no kind of column")

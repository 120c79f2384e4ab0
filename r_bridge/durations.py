"""Durations of R (``difftime``), which carry their own unit, in the units that a schema declares.

A factor of two units is public: cells are multiplied one by one, and missing ones stay missing. A duration in a column
without a declared unit of time is refused by the column's name, as its bare numbers would mean something else.
"""

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

import hdpstats.api as hdp
from hdpstats.api import ArgumentError, SchemaError

LENGTHS: Final = {
    "secs": 1.0 / 86_400.0,
    "mins": 1.0 / 1440.0,
    "hours": 1.0 / 24.0,
    "days": 1.0,
    "weeks": 7.0,
    "months": 365.25 / 12.0,
    "years": 365.25,
}
"""The units of R and of schemas, in days."""
_NAMES: Final = {"minutes": "mins", "minute": "mins", "min": "mins", "seconds": "secs", "second": "secs", "sec": "secs"}


def in_declared_units(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments whose tables have durations in the units of the schema that is among the arguments.

    Raises
    ------
    SchemaError
        If the schema declares no unit of time for a column of durations.
    ArgumentError
        If an argument that is no table is a duration: its unit would be lost.
    """
    _check_plain(given)
    schema = next(filter(None, map(_schema, given.values())), None)
    if schema is None:
        return dict(given)
    return {name: _converted(value, schema) for name, value in given.items()}


def _check_plain(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if isinstance(value, dict):
            _check_plain(value)
        elif isinstance(value, pd.Series) and _unit(value.attrs.get("r_column")) is not None:
            raise ArgumentError(
                f"{name} must be plain numbers in the declared unit of time, not a difftime: "
                f'as.numeric({name}, units = "days") gives days',
                argument=name,
            )


def check_declared(frame: object, declared: Mapping[str, Any]) -> None:
    """Refuse columns of durations that are to get a declaration from their numbers: these would be without a unit."""
    for name, unit in _units(frame).items():
        if name not in declared:
            raise SchemaError(
                f"column {name!r} is a difftime in {unit}: declare it, by "
                f'{name} = dp_duration(horizon, unit = "{unit}") or in another unit, or make it numbers by '
                f'as.numeric({name}, units = "{unit}")',
                column=name,
            )


def _schema(value: object) -> hdp.Schema | None:
    """Return the schema that an argument is or has."""
    found = value if isinstance(value, hdp.Schema) else getattr(value, "schema", None)
    return found if isinstance(found, hdp.Schema) else None


def _converted(value: Any, schema: hdp.Schema) -> Any:
    if isinstance(value, dict):
        return {key: _converted(each, schema) for key, each in value.items()}
    units = {name: unit for name, unit in _units(value).items() if name in schema}
    if not units:
        return value
    factors = {name: _factor(name, unit, schema[name]) for name, unit in units.items()}
    found = value.assign(**{name: value[name] * factor for name, factor in factors.items()})
    kept = {name: each for name, each in value.attrs["r_columns"].items() if name not in factors}
    found.attrs = {**value.attrs, "r_columns": kept}
    return found


def _factor(name: str, unit: str, column: object) -> float:
    """Return how many declared units one unit of a column of durations is."""
    declared = getattr(column, "unit", None)
    own = None if declared is None else _known(declared)
    if own is None:
        reason = (
            "the schema declares no unit of time for it" if declared is None else f"its declared unit is {declared!r}"
        )
        raise SchemaError(
            f'column {name!r} is a difftime in {unit}, and {reason}: declare dp_duration(horizon, unit = "{unit}"), '
            f'or make it numbers by as.numeric({name}, units = "{unit}")',
            column=name,
        )
    return LENGTHS[unit] / LENGTHS[own]


def _known(unit: str) -> str | None:
    name = unit.strip().lower()
    name = _NAMES.get(name, name.rstrip("s") + "s")
    return name if name in LENGTHS else None


def _units(frame: object) -> dict[str, str]:
    """Return the units of a table's columns of durations."""
    kept = frame.attrs.get("r_columns", {}) if isinstance(frame, pd.DataFrame) else {}
    units = {name: _unit(each) for name, each in kept.items()}
    return {name: unit for name, unit in units.items() if unit is not None}


def _unit(kept: Any) -> str | None:
    """Return the unit of what R kept of a vector, where that is a duration."""
    attributes = {} if kept is None else kept["attributes"]
    kinds = attributes.get("class", {}).get("values", ())
    return attributes["units"]["values"][0] if "difftime" in kinds and "units" in attributes else None

"""Durations of R (``difftime``), which carry their own unit, in the units that a schema declares.

**Public rows.** Cells are multiplied by the factor of the two units one by one, and missing ones stay missing. A
duration in a column without a declared unit of time is refused by the column's name, as its bare numbers would mean
something else. The same holds for times of a ``Surv`` that was made of durations: it keeps their unit.

**Private rows.** They may not have durations. Where two times are subtracted, R chooses the unit by the smallest
difference of all rows and divides by its length: one person's cell changes the unit, and with it the last digits of
everybody's. What was rounded once cannot be undone, so that no factor gives the same numbers for every unit: 28 days
become 4 weeks from one unit and a little more or less from another, which is another interval. Such columns are refused
by their class; of the unit, which would say something about that person, nothing is said.
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
OF_R: Final = ("secs", "mins", "hours", "days", "weeks")
"""The units of R."""
_NAMES: Final = {"minutes": "mins", "minute": "mins", "min": "mins", "seconds": "secs", "second": "secs", "sec": "secs"}


def in_declared_units(given: Mapping[str, Any], *, private: str = "private") -> dict[str, Any]:
    """Return arguments whose tables have durations in the units of the schema that is among the arguments.

    Parameters
    ----------
    given
        The arguments by name.
    private
        The name of the one that has private rows, if any has.

    Raises
    ------
    SchemaError
        If private rows have a column of durations, or the schema declares no unit of time for a public one.
    ArgumentError
        If an argument that is no table is a duration: its unit would be lost.
    """
    _check_plain(given)
    schema = next(filter(None, map(_schema, given.values())), None)
    _check_private(given.get(private), schema)
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


def _check_private(rows: object, schema: hdp.Schema | None) -> None:
    """Refuse private rows with durations that may be read: by the class of a column, whatever its unit and cells."""
    if isinstance(rows, dict):
        for rows_of in rows.values():
            _check_private(rows_of, schema)
        return
    for name in _units(rows):
        if schema is None or name in schema:
            declared = None if schema is None else _known(getattr(schema[name], "unit", None) or "")
            unit = declared if declared in OF_R else "days"
            months = "" if declared in (None, unit) else f" / {LENGTHS[declared]:g}"
            raise SchemaError(
                f"column {name!r} of the private rows is made of a difftime, whose unit, and with it everybody's last "
                "digits, R may choose by the cell of one person. Make it numbers from the two times instead: "
                f'as.numeric(difftime(end, start, units = "{unit}")){months}. Converting the difftime is too late',
                column=name,
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
    schema = value if isinstance(value, hdp.Schema) else getattr(value, "schema", None)
    return schema if isinstance(schema, hdp.Schema) else None


def _converted(value: Any, schema: hdp.Schema) -> Any:
    if isinstance(value, dict):
        return {key: _converted(item, schema) for key, item in value.items()}
    units = {name: unit for name, unit in _units(value).items() if name in schema}
    if not units:
        return value
    factors = {name: _factor(name, unit, schema[name]) for name, unit in units.items()}
    converted = value.assign(**{name: value[name] * factor for name, factor in factors.items()})
    notes = {"r_columns": value.attrs.get("r_columns", {}), "r_surv": value.attrs.get("r_surv", {})}
    kept = {name: note for name, note in notes["r_columns"].items() if name not in factors}
    whole = {
        name: columns_of
        for name, columns_of in notes["r_surv"].items()
        if not set(_times(name, columns_of)) & set(factors)
    }
    converted.attrs = {**value.attrs, "r_columns": kept, "r_surv": whole}
    return converted


def _factor(name: str, unit: str, column: object) -> float:
    """Return how many declared units one unit of a column of durations is."""
    declared = getattr(column, "unit", None)
    own_unit = None if declared is None else _known(declared)
    if own_unit is None:
        reason = (
            "the schema declares no unit of time for it" if declared is None else f"its declared unit is {declared!r}"
        )
        raise SchemaError(
            f'column {name!r} is a difftime in {unit}, and {reason}: declare dp_duration(horizon, unit = "{unit}"), '
            f'or make it numbers by as.numeric({name}, units = "{unit}")',
            column=name,
        )
    return LENGTHS[unit] / LENGTHS[own_unit]


def _known(unit: str) -> str | None:
    name = unit.strip().lower()
    name = _NAMES.get(name, name.rstrip("s") + "s")
    return name if name in LENGTHS else None


def _units(frame: object) -> dict[str, str]:
    """Return the units of a table's columns of durations."""
    attrs = frame.attrs if isinstance(frame, pd.DataFrame) else {}
    units = {name: _unit(note) for name, note in attrs.get("r_columns", {}).items()}
    for name, survival in attrs.get("r_surv", {}).items():
        units |= _times(name, survival)
    return {name: unit for name, unit in units.items() if unit is not None}


def _times(name: str, survival: Any) -> dict[str, str | None]:
    """Return the units of the columns of times of a ``Surv``, which has attributes of what it was made of."""
    made = survival["attributes"].get("inputAttributes", {"names": [], "values": []})
    units = {}
    for argument, attributes in zip(made["names"] or [], made["values"], strict=True):
        named = dict(zip(attributes["names"] or [], attributes["values"], strict=True))
        units[argument] = named["units"]["values"][0] if "units" in named else None
    columns = [column for column in survival["columns"] if column != "status"]
    return {f"{name}.{column}": units.get(unit) for column, unit in zip(columns, ("time", "time2"), strict=False)}


def _unit(kept: Any) -> str | None:
    """Return the unit of what R kept of a vector, where that is a duration."""
    attributes = {} if kept is None else kept["attributes"]
    kinds = attributes.get("class", {}).get("values", ())
    return attributes["units"]["values"][0] if "difftime" in kinds and "units" in attributes else None

"""The data dictionary: a schema as a YAML file that a custodian can read, edit and keep.

::

    format: hdpstats schema
    version: 2
    columns:
      age: {kind: continuous, lower: 20, upper: 90}
      size: {kind: categorical, levels: ['<=20', '20-50', '>50']}
      hormon: {kind: binary, complete: true}

Version 2 leaves a row with a missing cell out unless the dictionary says what fills the cell in; version 1 filled every
missing cell. The version is a part of the schema's hash, and so of every query: a release under one meaning is never
handed out for the other.

`derived_columns` proposes declarations from public rows: bounds rounded outward, levels in alphabetical order. What
names people and what are dates is left out.
"""

import math
import re
import warnings
from collections.abc import Hashable, Mapping
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import yaml

from hdpstats._base.errors import HdpError, HdpWarning, SchemaError
from hdpstats._base.progress import note
from hdpstats._base.typing import FloatArray
from hdpstats.records.codec import Json
from hdpstats.schema import cell_maps
from hdpstats.schema.columns import Binary, Categorical, Column, Continuous

FORMAT: Final = "hdpstats schema"
VERSION: Final = 2
_SIGNIFICANT_DIGITS = 2
DATE: Final = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]\d{1,2}:\d{2}.*)?\s*")
"""Texts that are dates."""
_ARITHMETIC = Context(prec=50, traps=[])


class UniqueKeys(yaml.SafeLoader):
    """PyYAML's safe loader, except that an entry given twice is an error instead of a silent overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return the mapping of a node whose keys are all different, as texts."""
        keys = [key.value for key, _ in node.value]
        if len(keys) != len({str(key) for key in keys}):
            raise yaml.constructor.ConstructorError(None, None, "an entry is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


class _Escaping(yaml.SafeDumper):
    """PyYAML's safe dumper, except that text with characters that do not print is quoted and escaped.

    PyYAML writes some of them (the line breaks of Unicode) as they are, and reads them back as blanks.
    """


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Escaping.add_representer(str, _represent_text)


def document(columns: Mapping[str, Json]) -> dict[str, Json]:
    """Return the declarations of columns with the format's name and version around them."""
    return {"format": FORMAT, "version": VERSION, "columns": dict(columns)}


def columns(entries: Mapping[str, object]) -> dict[str, Any]:
    """Return the declarations of columns in a document, after checking what is around them."""
    if not isinstance(entries, Mapping) or set(entries) != {"format", "version", "columns"}:
        raise SchemaError("a data dictionary has exactly the entries 'format', 'version' and 'columns'")
    if entries["format"] == FORMAT and entries["version"] == 1 and isinstance(entries["version"], int):
        raise SchemaError(
            "a data dictionary of version 1 filled missing cells in; since version 2 their rows are left out, unless "
            "'missing', 'missing_level' or 'other' says what fills them in: review the entries and write 'version: 2'"
        )
    if entries["format"] != FORMAT or entries["version"] != VERSION:
        raise SchemaError(f"a data dictionary must say 'format: {FORMAT}' and 'version: {VERSION}'")
    declared = entries["columns"]
    if not isinstance(declared, Mapping) or not all(isinstance(name, str) for name in declared):
        raise SchemaError("'columns' must map names to declarations; put names such as 'no' or '1' in quotes")
    return dict(declared)


def write(path: str | PathLike[str], entries: Mapping[str, Json]) -> None:
    """Write a document as YAML, in UTF-8."""
    shown = yaml.dump(dict(entries), Dumper=_Escaping, sort_keys=False, allow_unicode=True, width=110)
    Path(path).write_text(shown, encoding="utf-8", newline="\n")


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a document from YAML, with the safe loader; text that is no YAML is a `SchemaError`."""
    try:
        entries = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=UniqueKeys)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SchemaError(f"the data dictionary cannot be read: {error}") from None
    if not isinstance(entries, dict):
        raise SchemaError("a data dictionary has the entries 'format', 'version' and 'columns'")
    return entries


def round_outward(value: float, *, rounding: str, width: float = math.inf) -> float:
    """Round towards the given side, to two significant digits of a number or of the width of its range.

    Whichever is finer: so years keep their digits, and a small lower bound stays above 0.

    >>> round_outward(2659.0, rounding=ROUND_CEILING), round_outward(-0.0314, rounding=ROUND_FLOOR)
    (2700.0, -0.032)
    >>> round_outward(1994.0, rounding=ROUND_CEILING, width=34.0)
    1994.0
    """
    exact = Decimal(repr(float(value)))
    if exact.is_zero():
        return 0.0
    digits = exact.adjusted()
    if 0.0 < width < math.inf:
        digits = min(digits, Decimal(repr(float(width))).adjusted())
    step = Decimal(1).scaleb(digits - _SIGNIFICANT_DIGITS + 1, context=_ARITHMETIC)
    return float(exact.quantize(step, rounding=rounding, context=_ARITHMETIC))


def _from_numbers(values: FloatArray) -> Column:
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SchemaError("it holds an infinite value")
    if low == high:
        raise SchemaError("it is constant")
    if np.isin(values, (0.0, 1.0)).all():
        return Binary()
    if np.isin(values, (1.0, 2.0)).all():
        return Binary(labels=("1", "2"))
    return Continuous(
        round_outward(low, rounding=ROUND_FLOOR, width=high - low),
        round_outward(high, rounding=ROUND_CEILING, width=high - low),
    )


def _from_texts(values: list[str | None]) -> Column:
    levels = sorted({value for value in values if value is not None})
    if len(levels) == 1:
        raise SchemaError("it is constant")
    return Categorical(levels)


def derived_column(cells: "pd.Series[Any]") -> Column:
    """Return the declaration that fits the public cells of one column."""
    present = cells[cells.notna().to_numpy()]
    if len(present) == 0:
        raise SchemaError("it has no value")
    is_text = [isinstance(cell, str) for cell in present.to_numpy(dtype=object)]
    if all(is_text) or isinstance(present.dtype, pd.CategoricalDtype):
        texts = cell_maps.texts(present)
        if None not in texts:
            return _from_texts(texts)
    elif any(is_text):
        raise SchemaError("it mixes texts with other values")
    else:
        values = cell_maps.numbers(present)
        if not np.isnan(values).any():
            return _from_numbers(values)
    raise SchemaError("it holds something other than numbers, truth values or texts")


_ID: Final = re.compile(r"(.*[ _.-])?(id|pid|patno|patientno|patid|subjid|usubjid|mrn|nhs|ssn|uuid)", re.IGNORECASE)
"""Names of columns that name people."""
_ENOUGH: Final = 20
"""Cells from which it is no chance that all differ."""
_FEW: Final = 10
"""Whole numbers that are no more than so many different ones may be codes."""


def left_out(name: str, cells: "pd.Series[Any]") -> str:
    """Return why a public column is no variable of a model: it names people, or holds dates; empty where it may be one.

    >>> left_out("patient_id", pd.Series(range(1000, 1030)))
    'it names people or rows (30 different values in 30 cells)'
    """
    present = cells[cells.notna().to_numpy()]
    dtype = present.dtype.categories.dtype if isinstance(present.dtype, pd.CategoricalDtype) else present.dtype
    texts = cell_maps.texts(present)
    dated = [text is not None and DATE.fullmatch(text) for text in texts]
    if len(present) and (dtype.kind == "M" or all(dated) or all(isinstance(cell, date) for cell in present)):
        return "it holds dates, which are no numbers: add the days since a fixed date, or the age at it"
    different = len(set(texts))
    if len(present) < _ENOUGH or different < len(present) or None in texts:
        return ""
    numbers = cell_maps.numbers(present)
    consecutive = bool(np.ptp(numbers) == len(numbers) - 1) and bool(np.all(numbers == np.round(numbers)))
    is_text = all(isinstance(cell, str) for cell in present.to_numpy(dtype=object))
    named = bool(_ID.fullmatch(name)) and bool(is_text or np.all(numbers == np.round(numbers)))
    if named or consecutive or (is_text and np.isnan(numbers).all()):
        return f"it names people or rows ({different} different values in {len(present)} cells)"
    return ""


def assumption(column: Column, cells: "pd.Series[Any]") -> str:
    """Return what a derived declaration takes for granted, and what to write otherwise; empty for nothing."""
    if isinstance(column, Binary) and column.labels == ("1", "2"):
        return "1 is taken for 0 (no), 2 for 1 (yes); the other way round it is Binary(labels=('2', '1'))"
    if isinstance(column, Continuous):
        present = cells[cells.notna().to_numpy()]
        values = np.unique(cell_maps.numbers(present))
        if len(present) >= _ENOUGH and len(values) <= _FEW and np.all(values == np.round(values)):
            shown = ", ".join(f"{value:g}" for value in values)
            return f"{shown} are taken for measurements; if they are codes declare Categorical([...])"
    return ""


def derived_columns(frame: pd.DataFrame, declared: Mapping[str, Column]) -> dict[str, Column]:
    """Return the declared columns and, derived from the public rows, the other columns of the frame.

    The order is the frame's, followed by declared columns that the frame does not have. What is left out is named in a
    warning, and what is taken for granted is written to the standard error.
    """
    if not isinstance(frame, pd.DataFrame):
        raise SchemaError(f"from_public needs a DataFrame of public rows, not {type(frame).__name__}")
    if not frame.columns.is_unique:
        raise SchemaError("the public frame has several columns of the same name; rename them")
    result: dict[str, Column] = {}
    skipped: list[str] = []
    assumed: list[str] = []
    for place, name in enumerate(frame.columns):
        if name in declared:
            result[name] = declared[name]
            continue
        cells = frame.iloc[:, place]
        reason = left_out(str(name), cells)
        if reason:
            skipped.append(f"{name}: {reason}")
            continue
        try:
            result[name] = derived_column(cells)
            words = assumption(result[name], cells)
            assumed += [f"  {name}: {words}"] if words else []
        except HdpError as error:
            raise SchemaError(
                f"no declaration can be derived from the public column {name!r}: {error}; declare it, for "
                f"example {name}=Continuous(lower, upper), or drop it from the frame",
                column=name,
            ) from None
    if skipped:
        warnings.warn(f"left out of the schema: {'; '.join(skipped)}", HdpWarning, stacklevel=3)
    if assumed:
        note("\n".join(["assumed of public rows:", *assumed]))
    return {**result, **declared}

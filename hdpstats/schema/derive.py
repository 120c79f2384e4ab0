"""Derive declarations of columns from public rows. Never from private ones."""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pandas as pd

from hdpstats._base.errors import HdpError, SchemaError
from hdpstats._base.typing import FloatArray
from hdpstats.schema import coerce
from hdpstats.schema.columns import Binary, Categorical, Column, Continuous

_SIGNIFICANT_DIGITS = 2
_ARITHMETIC = Context(prec=50, traps=[])


def round_outward(value: float, *, rounding: str) -> float:
    """Round to two significant digits towards the given side.

    >>> round_outward(2659.0, rounding=ROUND_CEILING), round_outward(-0.0314, rounding=ROUND_FLOOR)
    (2700.0, -0.032)
    """
    exact = Decimal(repr(float(value)))
    if exact.is_zero():
        return 0.0
    step = Decimal(1).scaleb(exact.adjusted() - _SIGNIFICANT_DIGITS + 1, context=_ARITHMETIC)
    return float(exact.quantize(step, rounding=rounding, context=_ARITHMETIC))


def _from_numbers(values: FloatArray) -> Column:
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SchemaError("it holds an infinite value")
    if low == high:
        raise SchemaError("it is constant")
    if np.isin(values, (0.0, 1.0)).all():
        return Binary()
    return Continuous(round_outward(low, rounding=ROUND_FLOOR), round_outward(high, rounding=ROUND_CEILING))


def _from_texts(values: list[str | None]) -> Column:
    levels = sorted({value for value in values if value is not None})
    if len(levels) == 1:
        raise SchemaError("it is constant")
    return Categorical(levels)


def column(cells: "pd.Series[Any]") -> Column:
    """Return the declaration that fits the public cells of one column."""
    present = cells[cells.notna().to_numpy()]
    if len(present) == 0:
        raise SchemaError("it has no value")
    is_text = [isinstance(cell, str) for cell in present.to_numpy(dtype=object)]
    if all(is_text) or isinstance(present.dtype, pd.CategoricalDtype):
        texts = coerce.texts(present)
        if None not in texts:
            return _from_texts(texts)
    elif any(is_text):
        raise SchemaError("it mixes texts with other values")
    else:
        values = coerce.numbers(present)
        if not np.isnan(values).any():
            return _from_numbers(values)
    raise SchemaError("it holds something other than numbers, truth values or texts")


def columns(frame: pd.DataFrame, declared: Mapping[str, Column]) -> dict[str, Column]:
    """Return the declared columns and, derived from the public rows, the other columns of the frame.

    The order is the frame's, followed by declared columns that the frame does not have.
    """
    if not isinstance(frame, pd.DataFrame):
        raise SchemaError(f"from_public needs a DataFrame of public rows, not {type(frame).__name__}")
    if not frame.columns.is_unique:
        raise SchemaError("the public frame has several columns of the same name; rename them")
    result: dict[str, Column] = {}
    for place, name in enumerate(frame.columns):
        if name in declared:
            result[name] = declared[name]
            continue
        try:
            result[name] = column(frame.iloc[:, place])
        except HdpError as error:
            raise SchemaError(
                f"no declaration can be derived from the public column {name!r}: {error}; declare it, for "
                f"example {name}=Continuous(lower, upper), or drop it from the frame",
                column=name,
            ) from None
    return {**result, **declared}

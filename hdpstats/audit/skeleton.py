"""Skeleton invariance: what a caller can observe of a fit, apart from the noisy numbers, is the same on neighbours.

No statistics: names, shapes, types, warnings, log lines, printed text and exceptions are compared exactly. It
is the test that catches levels taken from data, dropped rows, convergence flags and errors that disclose data.
"""

import contextlib
import dataclasses
import io
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

NOISY = "number"
"""What stands for a float in a skeleton: floats may differ between neighbours, nothing else may."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """Everything a caller sees of one call."""

    result: Any
    exception: tuple[str, ...] | None
    warned: tuple[tuple[str, str], ...]
    printed: str
    logged: tuple[tuple[str, str, str], ...]


def skeleton(value: Any) -> Any:
    """Return the shape of a value: every float replaced by a mark, NaN and infinity kept apart, text kept."""
    if isinstance(value, float | np.floating):
        return NOISY if np.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        finite = np.isfinite(value).tolist() if value.dtype.kind == "f" else skeleton(value.tolist())
        return ("array", value.shape, str(value.dtype), finite)
    if isinstance(value, pd.Series):
        return ("series", str(value.name), str(value.dtype), list(map(str, value.index)), skeleton(value.to_numpy()))
    if isinstance(value, pd.DataFrame):
        return ("frame", [skeleton(value.iloc[:, place]) for place in range(value.shape[1])])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: skeleton(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): skeleton(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [skeleton(item) for item in value]
    return repr(value)


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.name, record.levelname, record.getMessage()))


def observe(call: Callable[[], Any]) -> Observation:
    """Run a call and return all that can be seen of it."""
    printed, keep = io.StringIO(), _Keep()
    root = logging.getLogger()
    level, result, exception = root.level, None, None
    root.addHandler(keep)
    root.setLevel(logging.NOTSET)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            try:
                result = skeleton(call())
            except Exception as error:
                exception = (type(error).__name__, str(error), repr(error.__cause__), repr(error.__context__))
    finally:
        root.removeHandler(keep)
        root.setLevel(level)
    warned = tuple((each.category.__name__, str(each.message)) for each in caught)
    return Observation(
        result=result, exception=exception, warned=warned, printed=printed.getvalue(), logged=tuple(keep.records)
    )

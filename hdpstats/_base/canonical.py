"""Canonical JSON: one spelling per value, so that a hash of it names the value.

Floats are written with their shortest exact decimal form, keys are sorted, NaN and infinities are refused.
"""

import hashlib
import json
from fractions import Fraction
from typing import Any

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def _encode(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def dumps(value: object) -> str:
    """Return the canonical JSON text of a value made of dicts, lists, numbers, strings and fractions."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_encode)


def loads(text: str) -> Any:
    """Read JSON text; ValueError for NaN and infinities, and for what is nested too deeply."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def sha256(value: object) -> str:
    """Return the SHA-256 (64 hex digits) of the canonical JSON of a value."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()

"""Entries of a settings file: every one is known, and has the type it should have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import integer, text
from hdpstats.data.dictionary import UniqueKeys


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML document of named entries, none given twice; else raise an `ArgumentError`."""
    try:
        entries = yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeys)  # noqa: S506  (a SafeLoader)
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ArgumentError(f"the settings {path} cannot be read: {error}", argument="settings") from None
    return section(entries, name="the settings")


def section(entries: object, *, name: str) -> dict[str, Any]:
    """Return a mapping from texts, or raise."""
    if not isinstance(entries, Mapping) or not all(isinstance(key, str) for key in entries):
        raise ArgumentError(f"{name} must be a mapping from names to values", argument=name)
    return dict(entries)


def known(entries: object, *, name: str, needed: set[str], allowed: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    """Return a section that has the needed entries and none but those and the allowed ones."""
    found = section(entries, name=name)
    missing, strange = sorted(needed - set(found)), sorted(set(found) - needed - allowed)
    if missing:
        raise ArgumentError(f"{name} lack {', '.join(map(repr, missing))}", argument=name)
    if strange:
        possible = ", ".join(sorted(needed | allowed))
        raise ArgumentError(
            f"{name} must not have {', '.join(map(repr, strange))}; known are {possible}", argument=name
        )
    return found


def words(value: object, *, name: str) -> tuple[str, ...]:
    """Return a list of texts."""
    if not isinstance(value, list):
        raise ArgumentError(f"{name} must be a list", argument=name)
    return tuple(text(each, name=name, longest=200) for each in value)


def whole(entries: Mapping[str, Any], key: str, *, default: int, lower: int, upper: int) -> int:
    """Return a whole number within bounds, or its default."""
    return integer(entries.get(key, default), name=key, lower=lower, upper=upper)

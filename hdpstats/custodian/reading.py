"""Entries of a settings file: every one is known, and has the type it should have."""

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import exact, integer, text
from hdpstats.ledger.location import locate
from hdpstats.privacy.budget import Budget
from hdpstats.schema.dictionary import UniqueKeys


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


def known(
    entries: object, *, name: str, needed: AbstractSet[str] = frozenset(), allowed: AbstractSet[str] = frozenset()
) -> dict[str, Any]:
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


def amount(value: object, *, name: str) -> Fraction:
    """Return an exact number; ``1e-6``, which YAML takes for a text, too."""
    try:
        return exact(Decimal(value) if isinstance(value, str) else value, name=name)
    except InvalidOperation:
        raise ArgumentError(f"{name} must be a number", argument=name) from None


def budget(entries: object, *, name: str) -> Budget:
    """Return an epsilon and a delta, 0 where it is left out."""
    found = known(entries, name=name, needed={"epsilon"}, allowed={"delta"})
    return Budget(**{key: amount(value, name=f"{name}: {key}") for key, value in found.items()})


def whole(entries: Mapping[str, Any], key: str, *, default: int, lower: int, upper: int) -> int:
    """Return a whole number within bounds, or its default."""
    return integer(entries.get(key, default), name=key, lower=lower, upper=upper)


def with_password(url: str, variable: object, *, name: str) -> str:
    """Return a database URL with the password that an environment variable holds, if one is named."""
    if variable is None:
        return url
    word = os.environ.get(text(variable, name=f"{name}: password_variable", longest=200))
    if word is None:
        raise ArgumentError(
            f"{name}: password_variable names {variable!r}, which is not in the environment; set it",
            argument=name,
        )
    return locate(url).set(password=word).render_as_string(hide_password=False)

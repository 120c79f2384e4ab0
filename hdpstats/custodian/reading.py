"""Files that a site is given: who may read and write them, and entries of settings, each known and of its type."""

import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import exact, integer, real, text
from hdpstats.ledger.location import locate
from hdpstats.privacy.budget import Budget
from hdpstats.schema.dictionary import UniqueKeys

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITING = stat.S_IWGRP | stat.S_IWOTH


def mode_of(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def check_secret(path: Path, *, name: str) -> None:
    """Refuse a file that others than its owner may read or write: a private key, private rows, a password."""
    if path.exists() and mode_of(path) & _OTHERS:
        raise ArgumentError(
            f"{name}: others than the owner may read or write {path} (mode {mode_of(path):04o}); it must be its "
            f"owner's alone: chmod 600 {path}",
            argument=name,
        )


def check_trusted(path: Path, *, name: str) -> None:
    """Refuse a file that others than its owner may write: what a site relies on must be its custodian's own words."""
    if path.exists() and mode_of(path) & _WRITING:
        raise ArgumentError(
            f"{name}: others than the owner may write {path} (mode {mode_of(path):04o}), so that it may not say what "
            f"the custodian wrote: look at it, and chmod go-w {path}",
            argument=name,
        )


def closed_to_others(path: Path) -> bool:
    """Take the permissions of others away from a file, and return whether there were any.

    Raises
    ------
    ArgumentError
        They cannot be taken away.
    """
    if not (path.exists() and mode_of(path) & _OTHERS):
        return False
    try:
        path.chmod(mode_of(path) & ~_OTHERS)
    except OSError:
        raise ArgumentError(
            f"others than the owner may read or write {path}, and this process may not change that: chmod 600 {path}",
            argument="ledger",
        ) from None
    return True


def write_durably(path: Path, text: str) -> None:
    """Replace a file as a whole, for its owner alone: written to a second file, flushed, and renamed.

    Raises
    ------
    OSError
        It cannot be written.
    """
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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


def numbers(entries: object, bounds: Mapping[str, tuple[float, float]], *, name: str) -> dict[str, Any]:
    """Return a section of numbers, each between its bounds: a whole number where these are.

    What is left out is not returned: it has the default of the record that the numbers are for.
    """
    found = known(entries, name=name, allowed=bounds.keys())
    for key, value in found.items():
        least, most = bounds[key]
        if isinstance(least, int) and isinstance(most, int):
            found[key] = integer(value, name=key, lower=least, upper=most)
        else:
            found[key] = real(value, name=key, lower=least, upper=most)
    return found


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

"""Sections of settings: each entry known and of its type."""

import os
from abc import ABC
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import exact
from hdpstats.custodian.files import check_file
from hdpstats.ledger.location import locate
from hdpstats.schema.dictionary import UniqueKeys


class Section(BaseModel, ABC):
    """Entries of the settings with a name each: all of them known, and of their types; what is left out has a default.

    Its types say what a value may be; paths are relative to the folder of the settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    @classmethod
    def read(cls, entries: object, *, name: str, file: Path | None = None) -> Self:
        """Return the entries of a section in a settings file.

        Raises
        ------
        ArgumentError
            An entry is missing, unknown or of the wrong type. It quotes no value.
        """
        try:
            return cls.model_validate(entries, context=file)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise ArgumentError("; ".join(_in_words(name, each["loc"], each["msg"]) for each in faults), argument=name)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, entries: Any) -> Any:
        if not isinstance(entries, Mapping) or not all(isinstance(key, str) for key in entries):
            raise ValueError("must be a mapping from names to values")
        options = [field.alias or name for name, field in cls.model_fields.items()]
        strange = [repr(key) for key in entries if key not in options]
        if strange:
            raise ValueError(f"must not have {', '.join(strange)}; known are {', '.join(sorted(options))}")
        return entries


def _in_words(name: str, path: tuple[int | str, ...], message: str) -> str:
    """Return what is wrong with an entry, in the words of this package's errors."""
    words = message.removeprefix("Value error, ")
    for theirs, ours in (("Input should", "must"), ("String should", "must"), ("Field required", "is missing")):
        words = words.replace(theirs, ours)
    return f"{': '.join(map(str, path or (name,)))} {words}"


def in_folder(value: object, info: ValidationInfo) -> Path:
    """Return a path of the settings, which is relative to their folder."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be the name of a file")
    return (info.context or Path("settings")).resolve().parent / value


def existing(value: object, info: ValidationInfo) -> Path:
    """Return the path of a file that is there."""
    path = in_folder(value, info)
    try:
        if path.is_file():
            return path
    except OSError as error:
        raise ValueError(f"must be a file that this process reaches; {path}: {error.strerror}") from None
    raise ValueError(f"must be a file; there is none at {path}")


def trusted(value: object, info: ValidationInfo, *, name: str) -> Path:
    """Return the path of a file that is there and that others may not write."""
    path = existing(value, info)
    check_file(path, name=name)
    return path


def _amount(value: object) -> Fraction:
    """Return an exact number; ``1e-6``, which YAML takes for a text, too."""
    try:
        return exact(Decimal(value) if isinstance(value, str) else value, name="it")
    except InvalidOperation:
        raise ValueError("must be a number") from None


File = Annotated[Path, BeforeValidator(existing)]
Amount = Annotated[Fraction, BeforeValidator(_amount)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def read_yaml(path: Path) -> Any:
    """Read a YAML document without entries that are given twice; else raise an `ArgumentError`."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeys)  # noqa: S506  (a SafeLoader)
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ArgumentError(f"the settings {path} cannot be read: {error}", argument="settings") from None


def with_password(url: str, variable: str | None) -> str:
    """Return a database URL with the password that an environment variable holds, if one is named."""
    if variable is None:
        return url
    word = os.environ.get(variable)
    if word is None:
        raise ValueError(f"password_variable names {variable!r}, which is not in the environment; set it")
    return locate(url).set(password=word).render_as_string(hide_password=False)

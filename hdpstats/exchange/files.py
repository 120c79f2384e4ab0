"""Files of others: how they are opened, how long they may be, and how they are signed."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import shown
from hdpstats.exchange.questions import UNREADABLE
from hdpstats.records import codec

Place = str | PathLike[str]

LONGEST: Final = 64_000_000
"""Bytes of a file that is read: public rows of 16 MB are no longer as JSON (`hdpstats.custodian.settings.Limits`)."""
MOST_CONTAINERS: Final = 10 * codec.MOST_CONTAINERS
"""Its lists and objects: those of several answers."""
MOST_KEYS: Final = 5 * MOST_CONTAINERS
"""The keys of its objects."""
MOST_ITEMS: Final = 4_500_000
"""Their items together: public rows of 16 MB are no more, as a cell takes four bytes there, and other items are few."""
MOST_DIGITS: Final = 400
"""Digits in a row of a number: written out, the largest float has 309. Time to read them is that of their square."""
_KEY: Final = re.compile(r"[0-9a-f]{16}")
_VALUE: Final = re.compile(r"[0-9a-f]{128}")
_PART: Final = 1 << 20
"""Bytes that are counted at once."""
_AS_ZERO: Final = bytes.maketrans(b"123456789", b"0" * 9)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FileSignature:
    """The signature of a request or a release file: what its key is called, and the value, in hexadecimal digits."""

    key: str
    value: str

    def __post_init__(self) -> None:
        """Refuse what is no signature."""
        for text, pattern in ((self.key, _KEY), (self.value, _VALUE)):
            if not isinstance(text, str) or not pattern.fullmatch(text):
                raise ArgumentError("signature must have a key of 16 and a value of 128 digits", argument="signature")

    def to_dict(self) -> dict[str, str]:
        """Return the fields."""
        return {"key": self.key, "value": self.value}


class Unreadable(ArgumentError):  # noqa: N818  (what a caller needs to know of it)
    """The system does not read a file now: it is not there, is not to be read by this process, or its disk fails."""


def read_bytes(path: Place, *, name: str, folder: int | None = None) -> bytes:
    """Return the bytes of an ordinary file, as many as are read at most and one more.

    A pipe or a device is refused unread: reading one might never end. In an open ``folder`` no link is followed.

    Raises
    ------
    Unreadable
        There is no such file, or the system cannot read it now.
    ArgumentError
        It is no ordinary file.
    """
    place = Path(path)
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if folder is None else os.O_NOFOLLOW)
        number = os.open(place, flags, dir_fd=folder)
        with os.fdopen(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise ArgumentError(f"{name}: {shown(str(place))} is not an ordinary file", argument=name)
            return file.read(LONGEST + 1)
    except OSError as error:
        raise Unreadable(f"{name}: {shown(str(place))} cannot be read: {error.strerror}", argument=name) from None


def fields_in(content: bytes, *, name: str, format: str, place: Place) -> tuple[dict[str, Any], str]:  # noqa: A002
    """Return the fields of JSON text with a format, and the text without the line's end.

    Its lists, objects, keys, items and the digits of its numbers are counted before it is read: memory and time are in
    proportion to what is expected.

    Raises
    ------
    ArgumentError
        It is something else, or of another format.
    """
    where = shown(str(place))
    if len(content) > LONGEST:
        raise ArgumentError(
            f"{name}: {where} is longer than {LONGEST // 10**6} MB, which no {name} of hdpstats is", argument=name
        )
    counts, is_long = _outside_texts(content)
    if is_long:
        raise ArgumentError(
            f"{name}: {where} is not a {name} file of hdpstats: it has a number of more than {MOST_DIGITS} digits",
            argument=name,
        )
    try:
        containers, keys, items = counts[ord("[")] + counts[ord("{")], counts[ord(":")], counts[ord(",")]
        if containers > MOST_CONTAINERS or keys > MOST_KEYS or items > MOST_ITEMS:
            raise ValueError("too many parts")
        text = content.decode().removesuffix("\n")
        fields = codec.loads(text)
        written = fields["format"]
    except UNREADABLE:
        raise ArgumentError(f"{name}: {where} is not a {name} file of hdpstats", argument=name) from None
    if written != format:
        raise ArgumentError(
            f"{name}: {where} has the format {shown(written)}, and this version of hdpstats reads {format!r}; write it "
            "anew with this version, or read it with the version that wrote it",
            argument=name,
        )
    return fields, text


def _outside_texts(content: bytes) -> "tuple[np.ndarray[Any, np.dtype[np.int64]], bool]":
    """Return how often each byte is outside of the texts of JSON, and whether more than `MOST_DIGITS` digits follow."""
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    counts, within = np.zeros(256, dtype=np.int64), False
    too_long, before, is_long = b"0" * (MOST_DIGITS + 1), b"", False
    for begin in range(0, len(plain), _PART):
        part = np.frombuffer(plain, dtype=np.uint8, count=min(_PART, len(plain) - begin), offset=begin)
        texts = np.logical_xor.accumulate(part == ord('"')) ^ within
        outside = part[~texts]
        counts += np.bincount(outside, minlength=256)
        digits = before + outside.tobytes().translate(_AS_ZERO)
        is_long, before = is_long or too_long in digits, digits[-MOST_DIGITS:]
        within = bool(texts[-1])
    return counts, is_long


def other_version(fields: Mapping[str, Any]) -> str:
    """Return what to say of a file that cannot be read, where another version of hdpstats says that it wrote it."""
    written = fields.get("hdpstats")
    if not isinstance(written, str) or written == __version__:
        return ""
    return (
        f". It says that hdpstats {shown(written)} wrote it, and this is {__version__}: an older version does not read "
        "all that a newer one writes"
    )

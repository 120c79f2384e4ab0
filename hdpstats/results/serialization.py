"""Results as versioned JSON, exact to the last bit; never pickle.

A float is written in its shortest exact decimal form, NaN as null, a fraction as a string (`hdpstats.records.codec`).
"""

import json
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.records import codec
from hdpstats.records.codec import from_dict, to_dict


class Saved:
    """A record that is kept as JSON text, in a file or handed on: with the version of its format."""

    __slots__ = ()
    _format: ClassVar[int]
    _what: ClassVar[str]
    """What a file holds, for messages: "a result"."""

    @classmethod
    def _shortened(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return what is written of the entries of a record."""
        return entries

    @classmethod
    def _completed(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of a record from what `_shortened` left of them."""
        return entries

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the JSON text, and write it to a file where a path is given. Nothing is rounded."""
        entries = self._shortened(to_dict(self))
        text = json.dumps({"format": self._format} | entries, allow_nan=False, separators=(",", ":"))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, path_or_text: str | PathLike[str]) -> Self:
        """Read what `to_json` wrote, from a file or from the text itself.

        Raises
        ------
        ArgumentError
            If there is no such file, or the text is something else, or of a format that this version does not read.
        """
        text = _text_of(path_or_text)
        try:
            document = codec.loads(text)
            found = document.pop("format")
            record = from_dict(cls, cls._completed(document)) if found == cls._format else None
        except (HdpError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise ArgumentError(f"this is not {cls._what} that hdpstats wrote", argument="path_or_text") from None
        if record is None:
            raise ArgumentError(
                f"this is not {cls._what} that this version of hdpstats reads: it reads format {cls._format}, not "
                f"{found!r}",
                argument="path_or_text",
            )
        return record


def _text_of(path_or_text: str | PathLike[str]) -> str:
    """Return JSON text as it is, or the content of the file of that name."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return path_or_text
    path = Path(path_or_text)
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(path)!r}", argument="path_or_text")
    return path.read_text(encoding="utf-8")

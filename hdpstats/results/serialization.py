"""Results as versioned JSON, exact to the last bit; never pickle.

A float is written in its shortest exact decimal form, NaN as null, a fraction as a string (`hdpstats.records.codec`).
"""

import json
from os import PathLike
from pathlib import Path
from typing import TypeVar

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.records.codec import from_dict, to_dict

_T = TypeVar("_T")


def write(record: object, *, version: int, path: str | PathLike[str] | None) -> str:
    """Return the JSON text of a record with the version of its format, and write it to a file where one is named."""
    text = json.dumps({"format": version} | to_dict(record), allow_nan=False, separators=(",", ":"))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def read(cls: type[_T], path_or_text: str | PathLike[str], *, version: int, what: str) -> _T:
    """Read what `write` wrote, from a file or from the text itself; ArgumentError when it is something else."""
    text = _text_of(path_or_text)
    try:
        document = canonical.loads(text)
        found = document.pop("format")
        record = from_dict(cls, document) if found == version else None
    except (HdpError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ArgumentError(f"this is not {what} that hdpstats wrote", argument="path_or_text") from None
    if record is None:
        raise ArgumentError(
            f"this is not {what} that this version of hdpstats reads: it reads format {version}, not {found!r}",
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

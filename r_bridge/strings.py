"""Text between R and Python, whole vectors at a time.

R's ``writeBin`` and ``readBin`` turn a character vector into bytes that end with a zero, and back: ten times faster
than element by element, and total: what is no UTF-8 is replaced, where rpy2 would raise.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import rpy2.rinterface as ri
from rpy2.rinterface_lib import openrlib

from hdpstats.api import ArgumentError
from r_bridge.numbers import cells_of, integers
from r_bridge.session import helper

_CHUNK = 100_000
_WRITE = """function(x) {
  x <- enc2utf8(as.vector(x))
  if (!l10n_info()[["UTF-8"]]) Encoding(x) <- "bytes" # else writeBin() would translate
  writeBin(x, raw())
}"""
_READ = """function(bytes, n, ascii) {
  x <- readBin(bytes, "character", n)
  if (!ascii) Encoding(x) <- "UTF-8"
  x
}"""


def raw_bytes(vector: Any) -> bytes:
    """Return the bytes of a raw vector."""
    return bytes(openrlib.ffi.buffer(openrlib.rlib.RAW(vector.__sexp__._cdata), len(vector)))


def from_r_strings(vector: Any) -> list[str | None]:
    """Return a character vector's elements, None for NA."""
    texts: list[str | None] = []
    for first in range(0, len(vector), _CHUNK):
        size = min(_CHUNK, len(vector) - first)
        part = (
            vector
            if size == len(vector)
            else helper("function(x, i, n) x[seq.int(i, length.out = n)]")(
                vector, integers([first + 1]), integers([size])
            )
        )
        texts += raw_bytes(helper(_WRITE)(part)).decode(errors="replace").split("\0")[:-1]
    missing = cells_of(helper("is.na")(vector))
    for place in np.flatnonzero(missing):
        texts[place] = None
    return texts


def to_r_strings(texts: Iterable[str | None], *, name: str = "a text") -> Any:
    """Return a character vector; None becomes NA.

    Raises
    ------
    ArgumentError
        If a text has a zero character, which R cannot hold.
    """
    listed = list(texts)
    joined = "".join([f"{'' if text is None else text}\0" for text in listed])
    if joined.count("\0") != len(listed):
        raise ArgumentError(f"{name} holds a zero character, which R cannot", argument=name)
    encoded = joined.encode(errors="replace")
    raw = ri.ByteSexpVector.from_memoryview(memoryview(encoded))
    vector = helper(_READ)(raw, integers([len(listed)]), ri.BoolSexpVector([encoded.isascii()]))
    places = np.flatnonzero([text is None for text in listed])
    if len(places):
        places = integers(places + 1)
        vector = helper("function(x, i) { x[i] <- NA_character_; x }")(vector, places)
    return vector

"""Joint draws of the errors of coefficients: what tests and intervals of any contrast of them need."""

import base64
import binascii
import zlib
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray

_LITTLE_ENDIAN = np.dtype("<f4")
_LEVEL = 6
"""Of compression: a higher one takes longer and gains nothing on random numbers."""
_LARGEST = 2**28
"""Bytes of draws that are read, whatever a file says."""


def _decompressed(content: bytes, size: int) -> bytes:
    """Return so many bytes, and read no more than these."""
    if not 0 <= size <= _LARGEST:
        raise ValueError("there are more numbers than are read")
    reader = zlib.decompressobj()
    found = reader.decompress(content, size + 1)
    if len(found) != size or not reader.eof or reader.unused_data:
        raise ValueError("there are not as many numbers as the shape says")
    return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class ErrorDraws:
    """Draws of the errors of coefficients, a row each, in single precision: 24 bits are far below their own noise.

    As JSON they are the numbers' bytes, little-endian: the first bytes of all numbers row by row, then the second ones
    and so on, compressed by zlib, in base 64. A file keeps them exactly.

    Examples
    --------
    >>> drawn = ErrorDraws.of(np.array([[1.0, 2.0]]))
    >>> ErrorDraws.from_dict(drawn.to_dict()).exact.tolist()
    [[1.0, 2.0]]
    """

    values: NDArray[np.float32]

    @property
    def exact(self) -> FloatArray:
        """The draws in double precision (B, p)."""
        return np.asarray(self.values, dtype=np.float64)

    @classmethod
    def of(cls, draws: FloatArray) -> "ErrorDraws":
        """Round draws (B, p)."""
        with np.errstate(over="ignore"):
            return cls(np.asarray(draws, dtype=np.float32))

    def through(self, L: FloatArray) -> FloatArray:
        """Return draws (B, k) of the errors of ``L beta``, for ``L`` (k, p); NaN where an error it uses is."""
        used = (L != 0.0).any(axis=0)
        return np.asarray(self.values[:, used].astype(np.float64) @ L[:, used].T)

    def to_dict(self) -> dict[str, Any]:
        """Return the draws as JSON values."""
        content = self.values.astype(_LITTLE_ENDIAN).tobytes()
        planes = np.frombuffer(content, dtype=np.uint8).reshape(-1, _LITTLE_ENDIAN.itemsize).T.tobytes()
        return {
            "shape": list(self.values.shape),
            "float32": base64.b64encode(zlib.compress(planes, _LEVEL)).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "ErrorDraws":
        """Read what `to_dict` wrote."""
        try:
            rows, columns = entries["shape"]
            size = int(rows) * int(columns) * _LITTLE_ENDIAN.itemsize
            planes = _decompressed(base64.b64decode(entries["float32"], validate=True), size)
            content = np.frombuffer(planes, dtype=np.uint8).reshape(_LITTLE_ENDIAN.itemsize, -1).T.tobytes()
            numbers = np.frombuffer(content, dtype=_LITTLE_ENDIAN).reshape(rows, columns)
        except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
            raise ArgumentError("draws must be a shape and as many numbers in base 64", argument="draws") from None
        return cls(numbers.astype(np.float32))

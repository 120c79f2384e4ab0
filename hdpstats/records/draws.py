"""Joint draws of the errors of coefficients: what tests and intervals of any contrast of them need."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray

_LITTLE_ENDIAN = np.dtype("<f4")


@final
@dataclass(frozen=True, slots=True, eq=False)
class ErrorDraws:
    """Draws of the errors of coefficients, a row each, in single precision: 24 bits are far below their own noise.

    As JSON they are the numbers' bytes, little-endian, row by row, in base 64, so that a file keeps them exactly.

    Examples
    --------
    >>> ErrorDraws.of(np.array([[1.0, 2.0]])).to_dict()
    {'shape': [1, 2], 'float32': 'AACAPwAAAEA='}
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
        return {"shape": list(self.values.shape), "float32": base64.b64encode(content).decode("ascii")}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "ErrorDraws":
        """Read what `to_dict` wrote."""
        try:
            rows, columns = entries["shape"]
            content = base64.b64decode(entries["float32"], validate=True)
            numbers = np.frombuffer(content, dtype=_LITTLE_ENDIAN).reshape(rows, columns)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise ArgumentError("draws must be a shape and as many numbers in base 64", argument="draws") from None
        return cls(numbers.astype(np.float32))

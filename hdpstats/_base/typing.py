"""Array types by what they hold; the mark of a field that a record leaves out."""

from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ExactArray = npt.NDArray[np.object_]
"""Integers of Python, which have no largest one."""

LEFT_OUT: Final = "left out where None"
"""Marks a field whose key is left out of JSON where it is None, and only then (`hdpstats.records.codec`)."""

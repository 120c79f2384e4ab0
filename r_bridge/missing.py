"""The bit patterns that stand for missing values in R, and the one that tells R's NaN from R's NA in Python."""

from typing import Final

NA_INTEGER: Final = -(2**31)
NA_INTEGER64: Final = -(2**63)
NA_BITS: Final = 0x7FF00000000007A2
NAN_BITS: Final = 0x7FF8000000000000
NAN_FROM_R: Final = 0x7FF80000000007A3
"""What R's NaN becomes in Python, where any other NaN stands for a missing value and becomes NA."""

LOW: Final = 0xFFFFFFFF
"""R tells NA from NaN by the lower half of the bits."""

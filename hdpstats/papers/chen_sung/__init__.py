"""The algorithms of Chen and Sung, as printed and as corrected, on simulated parties. NOT private.

They are here to reproduce the paper and to measure against: their noise comes from a seed, and as printed their scale
is wrong in two of four. What may see private records is `hdpstats.models.Distribution`.

References
----------
W.-N. Chen, J. Sung, Differentially private parameter estimation from distributed sources.
"""

from hdpstats.papers.chen_sung.algorithms import (
    Trial,
    csaa,
    cssa,
    dsaa,
    dssa,
    events,
    exponential_times,
    repeat_dsaa,
    repeat_dssa,
)
from hdpstats.papers.chen_sung.formulas import (
    best_blocks,
    mse_blocks,
    mse_blocks_printed,
    mse_statistics,
    mse_statistics_printed,
)

__all__ = [
    "Trial",
    "best_blocks",
    "csaa",
    "cssa",
    "dsaa",
    "dssa",
    "events",
    "exponential_times",
    "mse_blocks",
    "mse_blocks_printed",
    "mse_statistics",
    "mse_statistics_printed",
    "repeat_dsaa",
    "repeat_dssa",
]

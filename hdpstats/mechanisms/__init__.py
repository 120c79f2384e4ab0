"""What a site computes with private rows: each mechanism states its guarantee and proves it.

A mechanism has two stages. ``calibrate`` sees public facts only and refuses what its proof does not cover,
before anything is charged. ``run`` sees the rows; it never raises, warns or branches on them in a way that a caller
could see.
"""

from hdpstats.mechanisms.objective import Calibration, calibrate, run
from hdpstats.mechanisms.rows import PrivateRows

__all__ = ["Calibration", "PrivateRows", "calibrate", "run"]

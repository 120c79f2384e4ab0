r"""How long a draw of noise may take, and what its time discloses.

Every sampler of this package proposes and keeps, and every loop in it ends at each turn with a probability that is
known beforehand. So a draw has no longest time, and the time of one draw varies about its mean.

**What the time discloses.** Proposals that are not kept, and how many there were, are independent of the one that is
kept, hence of the noise; and they are independent of all records. A draw that takes very long because of them discloses
nothing. What depends on the size of the noise is the number of coins of the proposal that *is* kept: a
coordinate at z takes about ``rate |z|`` coins for exp(-1) (`hdpstats.noise.geometric`), in `hdpstats.noise.normal`
|z| / sd coins for exp(-1/2). More than u of them have probability at most :math:`e^{-u}` for a coordinate, so 42 are
exceeded with a probability below :math:`2^{-60}`; the mean of a whole draw is above that for all but a few
coordinates, and a coin takes a microsecond.

**Public lengths.** In a rehearsal (`hdpstats._base.loops`) a draw is made as often as its time is ever exceeded by
one draw:

* a vector that is kept or rejected as a whole (ball, cylinder, box): `WHOLE` times. The moment generating functions of
  the halves give, for each dimension (tested up to 465), that a draw takes more than 16, 23 and 44 times its mean with
  probabilities below :math:`2^{-20}`, :math:`2^{-30}` and :math:`2^{-60}`. (With a fourth of its proposals kept, a
  number that is geometric exceeds 16 times its mean with a probability below :math:`2^{-23}`.)
* ``n`` independent numbers: `spare` (n) more; one number takes microseconds and is drawn once. With at least .28 of its
  proposals kept, the sum of n geometric numbers of proposals exceeds the mean of :math:`n + 64 + 8 \sqrt n` of them
  with a probability below :math:`2^{-60}` (Chernoff's bound); the other :math:`8 \sqrt n` allow as much for the
  rehearsal itself.
"""

import math
from collections.abc import Callable
from typing import Final, TypeVar

from hdpstats._base.loops import full_length

WHOLE: Final = 32
"""How often a vector is drawn in a rehearsal that is kept or rejected as a whole."""

_T = TypeVar("_T")


def at_length(draw: Callable[[], _T]) -> _T:
    """Return a draw; in a rehearsal the last of `WHOLE`."""
    for _ in range(WHOLE - 1 if full_length() else 0):
        draw()
    return draw()


def spare(count: int) -> int:
    """Return how many numbers are drawn in a rehearsal beside so many independent ones; none else.

    >>> spare(100)
    0
    """
    return 64 + 16 * math.isqrt(count) if full_length() else 0

"""Numbers of more than 53 binary digits, for as many threads as there are.

Unevaluated sums of two doubles (`two_sum`) have twice as many, numbers of mpmath any number.

Precision belongs to a context; mpmath's global one, which all threads share, is not used. Constants (pi, log 2) are
kept by mpmath for all contexts in two variables each, which are not written at once: a thread that reads between the
two computes with another constant. They are computed here, when the module is loaded, to more digits than are ever
asked for, and every context comes from here.
"""

from mpmath import MPContext
from mpmath.libmp import ln2_fixed, pi_fixed

from hdpstats._base.typing import FloatArray

MOST_DIGITS = 2**14
"""Binary digits to which constants are computed beforehand."""

ln2_fixed(MOST_DIGITS)
pi_fixed(MOST_DIGITS)


def numbers_of(digits: int) -> MPContext:
    """Return a context of its own, whose numbers have so many binary digits."""
    context = MPContext()
    context.prec = digits
    return context


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rounded sums and what is missing, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)

"""Certified bounds in integer arithmetic: square roots, and exp(-x), to any precision.

A number x is enclosed at precision p by integers l <= 2^p x <= h. Every step rounds outwards.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt


def root_bounds(number: int, precision: int) -> tuple[int, int]:
    """Return the integers next to 2^precision sqrt(number), equal where the root is representable."""
    shifted = number << (2 * precision)
    root = isqrt(shifted)
    return root, root + (root * root != shifted)


def root_sum_bounds(terms: Sequence[tuple[Fraction, int]], precision: int) -> tuple[int, int]:
    """Return integers l <= 2^precision sum_i c_i sqrt(n_i) <= h for terms (c_i, n_i) with n_i >= 0.

    Each root carries as many more digits as its coefficient has before the point, so h - l <= 2 len(terms).
    """
    lower = upper = 0
    for coefficient, number in terms:
        top, bottom = coefficient.numerator, coefficient.denominator
        extra = max(0, top.bit_length() - bottom.bit_length() + 1)
        low, high = root_bounds(number, precision + extra)
        if top < 0:
            low, high = high, low
        lower += top * low // (bottom << extra)
        upper -= -top * high // (bottom << extra)
    return lower, upper


def exp_bounds(lower: int, upper: int, *, precision: int) -> tuple[int, int]:
    """Return integers that enclose 2^precision exp(-x) for x in [lower, upper] 2^-precision, lower >= 0."""
    return _exp_minus(upper, precision)[0], min(_exp_minus(lower, precision)[1], 1 << precision)


def _exp_minus(x: int, precision: int) -> tuple[int, int]:
    """Enclose 2^precision exp(-x 2^-precision) for an integer x >= 0.

    With y = x 2^-(precision + halvings) <= 1/16, the series of exp(y) is summed with all roundings downwards
    and with all upwards. Its tail after a term t is at most t y (1 + y + ...) <= t/15, less than the one unit
    added. The reciprocals are squared `halvings` times, each time rounded outwards; guard digits absorb the
    doubling of the errors.
    """
    halvings = max(0, x.bit_length() - precision + 4)
    scale = precision + halvings + 8
    one, y = 1 << scale, x << 8
    low = high = term_low = term_high = one
    index = 0
    while term_high > 1:
        index += 1
        term_low = term_low * y // (index << scale)
        term_high = -(-term_high * y // (index << scale))
        low += term_low
        high += term_high
    low, high = (one << scale) // (high + 1), -(-(one << scale) // low)
    for _ in range(halvings):
        low, high = low * low >> scale, -(-high * high >> scale)
    guard = scale - precision
    return low >> guard, -(-high >> guard)

"""Exact draws of single numbers: coins, the discrete Laplace distribution, and a private choice among candidates.

**Coins.** Bernoulli(p) for rational p, for p = exp(-x) with rational x, and with irrational x >= 0. A coin for an
irrational p compares a uniform real U in [0, 1), known so far to n binary digits, with p. A certified floating-point
interval around p decides all but about 2^-40 of the comparisons. The others reveal *more digits of the same U* and
enclose p in integer arithmetic of growing precision until the interval of U lies on one side of p. Digits already seen
are never drawn anew, so the coin shows heads with probability exactly p, and it ends with probability one after an
expected constant number of steps. No value of the exponent raises.

**Certified bounds** of square roots and of exp(-x) are computed in integer arithmetic, to any precision: a number x is
enclosed at precision p by integers l <= 2^p x <= h, and every step rounds outwards.

**Work.** However large the exponent is, more than ``u`` whole units of it are looked at with probability at most
exp(-u), and more than ``k`` terms of the rest with probability at most 1/k!: 42 and 21 are exceeded with probabilities
below 2^-60. More than 192 digits of U are revealed with a probability below 2^-100.

**The discrete Laplace (two-sided geometric) distribution.** The number of coins grows with |z|, so the time of a single
draw discloses something about the noise (Jin et al. 2022): no analyst may measure the time of a single release. How
long a draw may take is in `hdpstats.noise.exact`.

**Permute-and-flip**, a private choice among candidates. Candidates come in a random order, and each is taken with
probability exp(-rate gap), its gap being how much more it costs than the cheapest; the first one taken is the choice.
The cheapest is taken when its turn comes, so there is one. The coins of those whose turn comes later change nothing;
they are thrown as well, so that the number of coins does not disclose at which turn the choice was made. The
distribution is that of the candidate with the least noisy cost, where independent exponential noise of this rate is
subtracted from each cost (Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang 2021).

Given the noise of all others, candidate i is the choice with probability min(1, exp(-rate t)), t being
its cost less the least noisy cost of the others. Where a person changes any *difference* of two costs by at most R, t
changes by at most R, and the probability by a factor of at most exp(rate R): with rate epsilon / R the choice is
epsilon-DP. A common change of all costs cancels.

Its expected cost is never above that of the exponential mechanism with the same guarantee (McKenna and Sheldon 2020).

References
----------
C. L. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy, Algorithms 1 and 2.
A. Ghosh, T. Roughgarden, M. Sundararajan (2012), Universally utility-maximizing privacy mechanisms.
J. Jin, E. McMurtry, B. Rubinstein, O. Ohrimenko (2022), Are we there yet? Timing and floating-point attacks
    on differential privacy systems.
McKenna and Sheldon (2020), Permute-and-flip: a new mechanism for differentially private selection.
Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang (2021), The permute-and-flip mechanism is identical to
    report-noisy-max with exponential noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.work import Operations
from hdpstats.noise.exact import below, bits, most_drawn, positive_rational, spare


def root_bounds(number: int, precision: int) -> tuple[int, int]:
    """Return the integers next to 2^precision sqrt(number), equal where the root is representable."""
    shifted = number << (2 * precision)
    root = math.isqrt(shifted)
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


Bounds = Callable[[int], tuple[int, int]]
"""Certified bounds of a number x: precision p -> integers l <= 2^p x <= h, with h - l bounded for all p."""

_DIGITS = 64
_ULP = 2.0**-_DIGITS
_WIDER, _NARROWER = 1.0 + 2.0**-40, 1.0 - 2.0**-40
_TINY = 2.0**-1000
_EXP_ONE_LOWER, _EXP_ONE_UPPER = exp_bounds(1 << _DIGITS, 1 << _DIGITS, precision=_DIGITS)


def bernoulli(numerator: int, denominator: int) -> bool:
    """Return True with probability exactly numerator/denominator, in [0, 1]."""
    return below(denominator) < numerator


def bernoulli_exp_one() -> bool:
    """Return True with probability exactly exp(-1)."""
    digits = bits(_DIGITS)
    if digits < _EXP_ONE_LOWER:
        return True
    if digits >= _EXP_ONE_UPPER:
        return False
    return decide_exactly(digits, _DIGITS, lambda precision: (1 << precision, 1 << precision))


def bernoulli_exp(numerator: int, denominator: int) -> bool:
    """Return True with probability exactly exp(-numerator/denominator), for a rational exponent >= 0.

    Integer arithmetic only. Whole units of the exponent are coins for exp(-1). For the rest x < 1,
    the first k >= 1 at which a coin for x/k shows tails is odd with probability exp(-x) (Canonne, Kamath
    & Steinke 2020, Alg. 1).
    """
    while numerator >= denominator:
        if not bernoulli_exp_one():
            return False
        numerator -= denominator
    trials = 1
    while below(denominator * trials) < numerator:
        trials += 1
    return trials % 2 == 1


def bernoulli_exp_real(estimate: float, error: float, bounds: Bounds) -> bool:
    """Return True with probability exactly exp(-x), for a real exponent x >= 0.

    Parameters
    ----------
    estimate, error
        Doubles with ``|x - estimate| <= error``.
    bounds
        Certified bounds of x for the comparisons that doubles cannot decide.
    """
    digits = bits(_DIGITS)
    decision = decide_in_doubles(digits, estimate, error)
    return decide_exactly(digits, _DIGITS, bounds) if decision is None else decision


def bernoulli_exp_roots(estimate: float, magnitude: float, terms: Sequence[tuple[Fraction, int]]) -> bool:
    """Return True with probability exactly exp(-x), x = sum_i c_i sqrt(n_i) >= 0.

    Parameters
    ----------
    estimate, magnitude
        The sum of the terms and the sum of their absolute values in doubles. A product of a rounded
        coefficient and a rounded root is within 2^-51 of its size, and sums of three such terms within 2^-50
        of the magnitude, so 2^-48 of it (and 2^-60 for what underflows) bounds the error.
    terms
        Pairs (c_i, n_i) of a rational and an integer n_i >= 0: the exact exponent.
    """
    return bernoulli_exp_real(estimate, magnitude * 2.0**-48 + 2.0**-60, partial(root_sum_bounds, terms))


def decide_in_doubles(digits: int, estimate: float, error: float) -> bool | None:
    """Compare a uniform U, of which 64 digits are known, with exp(-x); None where doubles cannot decide.

    The margin 2^-40 covers the rounding of ``estimate ± error`` (at most 2^-43 relative in exp while exp is
    above 2^-1000), the conversion of the digits (2^-53) and the error of the C library's exp, for which it
    leaves 2^-41; the libraries in use stay below 2^-52. The upper bound never falls below 2^-1000, so that no
    exponent, however large, makes heads impossible.
    """
    lower = math.exp(-(estimate + error)) * _NARROWER
    if (digits + 1) * _ULP <= lower:
        return True
    upper = max(math.exp(min(error - estimate, 0.0)) * _WIDER, _TINY)
    if digits * _ULP >= upper:
        return False
    return None


def decide_exactly(digits: int, known: int, bounds: Bounds) -> bool:
    """Compare a uniform U with exp(-x) in integers.

    U is known to be in [digits, digits + 1) 2^-known; each round at least doubles the number of known digits.
    """
    while True:
        precision = 2 * known + 64
        digits = (digits << (precision - known)) | bits(precision - known)
        known = precision
        lower, upper = bounds(precision)
        heads, tails = exp_bounds(max(lower, 0), max(upper, 0), precision=precision)
        if digits + 1 <= heads:
            return True
        if digits >= tails:
            return False


def geometric(numerator: int, denominator: int) -> int:
    """Draw y >= 0 with P[y] ∝ exp(-y numerator/denominator), both at least 1. Integer arithmetic only.

    With t the denominator, u uniform below t is kept with probability exp(-u/t) and v counts heads of coins for exp(-1)
    until tails, so u + t v is geometric: P[x] ∝ exp(-x/t). Its quotient by the numerator s has P[y] ∝ exp(-y s/t). A
    u is kept with probability at least 1 - exp(-1).
    """
    while True:
        offset = below(denominator)
        if bernoulli_exp(offset, denominator):
            break
    units = 0
    while bernoulli_exp_one():
        units += 1
    return (offset + denominator * units) // numerator


def discrete_laplace(numerator: int, denominator: int) -> int:
    """Draw z with P[z] ∝ exp(-|z| numerator/denominator), both at least 1. Integer arithmetic only.

    A geometric number with a random sign, the second zero rejected. A pair is kept with probability at least 1/2.
    """
    while True:
        magnitude = geometric(numerator, denominator)
        negative = bits(1)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def length_of(rate: Fraction) -> float:
    """Return how many draws with a rate of few digits a draw with this one takes: integers of its length are compared.

    >>> round(length_of(Fraction(1, 2**256)), 2)
    1.5
    """
    return 1.25 + (rate.numerator.bit_length() + rate.denominator.bit_length()) / 1028.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSidedGeometric:
    """Integer noise with P[z] = tanh(rate/2) exp(-rate |z|), exact for a rational rate > 0.

    Adding it to an integer query that one person moves by at most Δ is (rate Δ)-differentially private, pure:
    the probabilities of any output differ by a factor of at most exp(rate Δ).

    Attributes
    ----------
    rate
        Privacy loss (nats) per unit of the query; converted to a `Fraction`, exactly.

    Raises
    ------
    ArgumentError
        If the rate is not in [2^-256, 2^256].

    Examples
    --------
    >>> from fractions import Fraction
    >>> noise = TwoSidedGeometric(rate=Fraction(1, 2))
    >>> isinstance(noise.draw(), int)
    True
    >>> round(noise.variance, 3)
    7.835
    """

    rate: Fraction

    def __post_init__(self) -> None:
        """Convert the rate to a fraction and refuse rates that are none."""
        object.__setattr__(self, "rate", positive_rational(self.rate, name="rate"))

    def draw(self) -> int:
        """Return one draw."""
        return discrete_laplace(self.rate.numerator, self.rate.denominator)

    def draws(self, count: int) -> list[int]:
        """Return independent draws."""
        return [self.draw() for _ in range(count + spare(count))][:count]

    def work(self, count: int = 1) -> Operations:
        """Return what so many draws take at most."""
        return Operations(draws=length_of(self.rate) * most_drawn(count))

    @property
    def variance(self) -> float:
        """2 exp(-rate) / (1 - exp(-rate))^2, in squared units of the query."""
        rate = float(self.rate)
        return 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip:
    """A choice among candidates by integer costs, exact for a rational rate > 0: see the module.

    Where one person changes any difference of two costs by at most R, it is (rate R)-differentially private, pure.

    Attributes
    ----------
    rate
        Privacy loss (nats) per unit of a difference of costs; converted to a `Fraction`, exactly.

    Raises
    ------
    ArgumentError
        If the rate is not in [2^-256, 2^256].

    Examples
    --------
    >>> PermuteAndFlip(rate=Fraction(1)).draw([10**9, 0, 10**9])
    1
    """

    rate: Fraction

    def __post_init__(self) -> None:
        """Convert the rate to a fraction and refuse rates that are none."""
        object.__setattr__(self, "rate", positive_rational(self.rate, name="rate"))

    def work(self, candidates: int) -> Operations:
        """Return what a draw takes at most."""
        return Operations(draws=2.0 * length_of(self.rate) * most_drawn(candidates))

    def draw(self, costs: Sequence[int]) -> int:
        """Return the place of the chosen cost, of one cost or more; the less, the better."""
        if not costs:
            raise ArgumentError("costs must name at least one candidate", argument="costs")
        least, waiting, taken = min(costs), list(range(len(costs))), []
        while waiting:
            place = waiting.pop(below(len(waiting)))
            if bernoulli_exp((costs[place] - least) * self.rate.numerator, self.rate.denominator):
                taken.append(place)
        return taken[0]

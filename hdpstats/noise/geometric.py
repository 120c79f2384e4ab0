"""The discrete Laplace (two-sided geometric) distribution on the integers, sampled exactly.

The number of coins grows with |z|, so the time of a single draw discloses something about the noise (Jin et
al. 2022): no analyst may measure the time of a single release. How long a draw may take is in `hdpstats.noise.length`.

References
----------
A. Ghosh, T. Roughgarden, M. Sundararajan (2012), Universally utility-maximizing privacy mechanisms.
C. L. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy, Algorithm 2.
J. Jin, E. McMurtry, B. Rubinstein, O. Ohrimenko (2022), Are we there yet? Timing and floating-point attacks
    on differential privacy systems.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats.noise.bernoulli import bernoulli_exp, bernoulli_exp_one
from hdpstats.noise.entropy import below, bits
from hdpstats.noise.lattice import positive_rational
from hdpstats.noise.length import spare


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

    @property
    def variance(self) -> float:
        """2 exp(-rate) / (1 - exp(-rate))^2, in squared units of the query."""
        rate = float(self.rate)
        return 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2

"""Amounts of privacy: what is offered (`Budget`) and what is spent (`Spend`), in exact arithmetic.

A release with Gaussian noise costs ``mu_squared``, the square of its parameter of Gaussian differential
privacy (`hdpstats.privacy.gaussian`), because that is what adds up; all other releases with epsilon and delta.

Floats are read through their shortest decimal form: 0.1 is 1/10, and ten times 0.1 is exactly 1. What one release is
asked to cost is rounded down to a public grain, and what it is charged is rounded up to it
(`hdpstats.privacy.charging`): a third of 1 is 0.333333333, and three of them fit in 1.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, final

from hdpstats._base.errors import ArgumentError, BudgetError
from hdpstats._base.validation import exact

EPSILON_GRAIN: Final = Fraction(1, 10**9)
"""The unit of charges without Gaussian noise."""

DELTA_GRAIN: Final = Fraction(1, 10**30)
"""The unit of deltas: far below any delta in use, and 30 digits at most."""

SMALLEST_EPSILON = Fraction(1, 10**6)
LARGEST_SENSIBLE_EPSILON = Fraction(50)


def decimal(value: Fraction) -> str:
    """Write a fraction as a person would: '0.1', '3', '1e-06', or 12 significant digits when it does not end."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"


def rounded_down(value: Fraction, grain: Fraction) -> Fraction:
    """Return the largest multiple of a grain that is no larger."""
    return math.floor(value / grain) * grain


@final
@dataclass(frozen=True, slots=True)
class Spend:
    """An amount of privacy loss, possibly zero, in exact fractions: three sums that are kept apart.

    Attributes
    ----------
    epsilon, delta
        The cost (epsilon in nats) of everything that is not Gaussian. No account affords a delta of 1 or more.
    mu_squared
        The cost of Gaussian noise: the squared parameter of Gaussian differential privacy.
    asked
        The (epsilon, delta) that the Gaussian part was asked to keep, by itself or with other rounds of the same fit;
        ``None`` without one. It is no further cost, and amounts that differ in it only are equal.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)
    asked: "Budget | None" = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Convert to exact fractions and refuse negative amounts; a sum of deltas may be 1 or more."""
        amounts = {name: exact(getattr(self, name), name=name) for name in ("epsilon", "delta", "mu_squared")}
        if not min(amounts.values()) >= 0:
            shown = ", ".join(f"{name} = {value}" for name, value in amounts.items())
            raise ArgumentError(
                f"an amount of privacy needs epsilon >= 0, delta >= 0 and mu_squared >= 0, not {shown}",
                argument="epsilon",
            )
        for name, value in amounts.items():
            object.__setattr__(self, name, value)

    def times(self, count: int) -> "Spend":
        """Return what so many releases of this cost amount to."""
        return replace(self, epsilon=count * self.epsilon, delta=count * self.delta, mu_squared=count * self.mu_squared)

    def __add__(self, other: "Spend") -> "Spend":
        """Composition: epsilons, deltas and squares add (Dwork et al. 2006; Dong, Roth and Su 2022)."""
        asked = [spend.asked for spend in (self, other) if spend.asked is not None]
        widest = Budget(max(each.epsilon for each in asked), max(each.delta for each in asked)) if asked else None
        return Spend(self.epsilon + other.epsilon, self.delta + other.delta, self.mu_squared + other.mu_squared, widest)

    def __str__(self) -> str:
        gaussian = f", mu = {math.sqrt(self.mu_squared):.6g}" if self.mu_squared else ""
        return f"epsilon = {decimal(self.epsilon)}, delta = {decimal(self.delta)}{gaussian}"


NOTHING = Spend(Fraction(0))


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """A total that a custodian offers: ``epsilon`` > 0 (nats) and 0 <= ``delta`` < 1, exact fractions.

    >>> Budget(epsilon=3.0)
    Budget(epsilon=Fraction(3, 1), delta=Fraction(0, 1))
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Convert to exact fractions and refuse amounts that are no budget."""
        epsilon, delta = exact(self.epsilon, name="epsilon"), exact(self.delta, name="delta")
        if not epsilon > 0:
            raise ArgumentError(
                f"epsilon must be above 0, not {decimal(epsilon)}; a budget that allows nothing is no budget",
                argument="epsilon",
            )
        if not 0 <= delta < 1:
            raise ArgumentError(f"delta must be in [0, 1), not {decimal(delta)}", argument="delta")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def __str__(self) -> str:
        return f"epsilon = {decimal(self.epsilon)}, delta = {decimal(self.delta)}"


def release_epsilon(value: object, *, allow_large_epsilon: bool = False) -> Fraction:
    """Return the epsilon of one release, on the grain: in [1e-6, 50], or any larger finite number when allowed.

    Above 50 the odds of any statement about a person may change by a factor e^50: there is no protection
    left, and the number is more likely a mistake than intended.
    """
    epsilon = exact(value, name="epsilon")
    if not epsilon >= SMALLEST_EPSILON:
        raise ArgumentError(
            f"epsilon must be at least 1e-6, not {decimal(epsilon)}: below it the noise hides any data",
            argument="epsilon",
        )
    if epsilon > LARGEST_SENSIBLE_EPSILON and not allow_large_epsilon:
        raise BudgetError(
            f"epsilon = {decimal(epsilon)} for one release is above 50, which protects nobody; "
            "ask for less, or say allow_large_epsilon=True",
            argument="epsilon",
        )
    if epsilon > 10**6:
        raise ArgumentError(f"epsilon must be at most 1e6, not {decimal(epsilon)}", argument="epsilon")
    return rounded_down(epsilon, EPSILON_GRAIN)


def release_delta(value: object) -> Fraction:
    """Return the delta of one release, on the grain: in [0, 1).

    >>> release_delta(1e-6)
    Fraction(1, 1000000)
    """
    delta = exact(value, name="delta")
    if not 0 <= delta < 1:
        raise ArgumentError(f"delta must be in [0, 1), not {value!r}", argument="delta")
    if 0 < delta < DELTA_GRAIN:
        raise ArgumentError(f"delta must be 0 or at least 1e-30, not {decimal(delta)}", argument="delta")
    return rounded_down(delta, DELTA_GRAIN)

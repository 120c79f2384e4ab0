r"""What a release is charged: multiples of a public grain, and not less than the floor of its account.

A proof gives a release some (epsilon, delta) or mu_squared. An account is charged the next multiple of `GRAIN` at or
above that, and at least the account's floor, which its custodian sets: so sums have few digits whatever was asked, and
an account can be charged only so often. What is charged is never less than what the proof says, so that every claim
about sums of charges holds for the releases (all guarantees are monotone in epsilon, delta and mu). A release below the
floor is not refused: it is charged the floor, which `plan`, quotes, refusals, results and histories show.

**The floor of Gaussian releases.** A pure release is charged at least ``epsilon``, so that a total of ``E`` takes at
most ``E / epsilon`` of them. A Gaussian one is charged at least the same part of what the whole account affords in its
own unit, :math:`(\epsilon / E)\, \mu(E, D)^2` with ``D`` the total's delta, so that no more than ``E / epsilon`` of
these are taken either: a part set aside within the total affords at most :math:`\mu(E, D)^2`. An account therefore
takes at most ``2 E / epsilon`` charges, of whatever kinds.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import exact
from hdpstats.privacy.budget import DELTA_GRAIN, EPSILON_GRAIN, NOTHING, Budget, Spend, decimal, rounded_down
from hdpstats.privacy.gaussian import mu_of

MU_SQUARED_GRAIN: Final = Fraction(1, 10**18)
"""The unit of charges for Gaussian noise: one part in 10^7 of the mu_squared of (0.0001, 1e-6)."""

USUAL_FLOOR: Final = Fraction(1, 10**4)
"""The least epsilon of a charge where the custodian says nothing, or the total where that is less."""

LARGEST_TOTAL: Final = 10**12
"""The largest epsilon of a total or a cap."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The least that one release is charged in an account: ``epsilon`` without Gaussian noise, else ``mu_squared``."""

    epsilon: Fraction
    mu_squared: Fraction

    @classmethod
    def of(cls, total: Budget, epsilon: object = None) -> "Floor":
        """Return the floor of an account with a total: a custodian's epsilon, on the grain, or the usual one.

        >>> floor = Floor.of(Budget(1, Fraction(1, 10**6)))
        >>> floor.epsilon, round(float(floor.mu_squared) ** 0.5, 4)
        (Fraction(1, 10000), 0.0024)
        """
        least = min(USUAL_FLOOR, total.epsilon) if epsilon is None else exact(epsilon, name="floor")
        if not 0 < least <= total.epsilon:
            raise ArgumentError(
                f"floor must be above 0 and at most the total's epsilon of {decimal(total.epsilon)}, not "
                f"{decimal(least)}: it is the least that one release is charged",
                argument="floor",
            )
        least = _up(least, EPSILON_GRAIN)
        if total.delta == 0:
            return cls(epsilon=least, mu_squared=MU_SQUARED_GRAIN)
        return cls(epsilon=least, mu_squared=_up(least / total.epsilon * _affordable(total), MU_SQUARED_GRAIN))

    def charged(self, cost: Spend) -> Spend:
        """Return what a release of some cost is charged: at least the cost and the floor, in multiples of the grain.

        A release with both kinds of noise whose epsilon is below the floor is raised in mu_squared.
        """
        epsilon, mu_squared = _up(cost.epsilon, EPSILON_GRAIN), _up(cost.mu_squared, MU_SQUARED_GRAIN)
        if epsilon < self.epsilon and mu_squared > 0:
            mu_squared = max(mu_squared, self.mu_squared)
        elif mu_squared == 0:
            epsilon = max(epsilon, self.epsilon)
        asked = cost.asked
        if asked is not None:
            asked = Budget(_up(asked.epsilon, EPSILON_GRAIN), _up(asked.delta, DELTA_GRAIN))
        return Spend(epsilon, _up(cost.delta, DELTA_GRAIN), mu_squared, asked)

    def charged_together(self, costs: Iterable[Spend]) -> Spend:
        """Return what several releases are charged together, one by one."""
        return sum((self.charged(cost) for cost in costs), NOTHING)

    def admits(self, amount: Spend) -> bool:
        """Whether an amount may be that of a charge."""
        return self.charged(replace(amount, asked=None)) == amount


def square_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu_squared on the grain that keeps (epsilon, delta); see `hdpstats.privacy.gaussian.mu_of`.

    Raises
    ------
    MechanismError
        Unless 0 < delta < 1 and epsilon > 0.
    ArgumentError
        If it is below the grain: epsilon or delta is too small for Gaussian noise.
    """
    square = rounded_down(mu_of(epsilon, delta) ** 2, MU_SQUARED_GRAIN)
    if square == 0:
        raise ArgumentError(
            f"epsilon = {decimal(epsilon)} and delta = {decimal(delta)} are too small for Gaussian noise; raise one of "
            "them, or ask for a mechanism with a pure guarantee",
            argument="delta",
        )
    return square


def shared(amount: Fraction, parts: Iterable[int], grain: Fraction) -> tuple[Fraction, ...]:
    """Return an amount in proportion to whole numbers, each part on a grain; the last one has what is left over.

    >>> [str(part) for part in shared(Fraction(1), (1, 1, 1), Fraction(1, 10))]
    ['3/10', '3/10', '2/5']
    """
    whole = tuple(parts)
    first = [rounded_down(amount * part / sum(whole), grain) for part in whole[:-1]]
    return (*first, amount - sum(first, Fraction(0)))


def agreed(amount: Budget, *, name: str) -> Budget:
    """Return an amount that a custodian sets, a total, a cap or a part, if it has few enough digits.

    Its epsilon is rounded down to the grain of epsilons, its delta to that of deltas: no charge can use the rest.

    Raises
    ------
    ArgumentError
        If it is larger than `LARGEST_TOTAL`, or epsilon is below the grain.
    """
    epsilon, delta = rounded_down(amount.epsilon, EPSILON_GRAIN), rounded_down(amount.delta, DELTA_GRAIN)
    if not 0 < epsilon <= LARGEST_TOTAL:
        raise ArgumentError(
            f"{name} must have an epsilon of {decimal(EPSILON_GRAIN)} to {LARGEST_TOTAL}, not "
            f"{decimal(amount.epsilon)}: charges are multiples of {decimal(EPSILON_GRAIN)}",
            argument="epsilon",
        )
    return Budget(epsilon, delta)


def _up(value: Fraction, grain: Fraction) -> Fraction:
    return math.ceil(value / grain) * grain


@lru_cache(maxsize=256)
def _affordable(total: Budget) -> Fraction:
    return mu_of(total.epsilon, total.delta) ** 2

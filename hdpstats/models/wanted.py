"""The inverse of a plan: the smallest epsilon at which a fit would report standard errors that are wanted.

Predicted standard errors fall as epsilon grows, so that the smallest of `CANDIDATES` is found by bisection. Nothing is
spent. Where even the largest does not do, what is missing is records, not epsilon.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.models.points import Prediction
from hdpstats.privacy.budget import LARGEST_SENSIBLE_EPSILON

CANDIDATES: Final = tuple(
    value
    for exponent in range(-3, 2)
    for digits in range(100, 1000)
    if (value := Fraction(digits) * Fraction(10) ** (exponent - 2)) <= LARGEST_SENSIBLE_EPSILON
)
"""Numbers of three digits from 0.001 to the largest epsilon of a release that needs no permission."""

MOSTLY = 0.1
"""Where noise is a smaller share of the private estimate's variance, sampling error is what stays."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedError:
    """What a fit would report of one coefficient: its standard error, and the share of noise in the private variance.

    ``std_error`` is infinite where none would be reported.
    """

    std_error: float
    noise: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A standard error that is wanted of a coefficient, and what reaches it.

    Attributes
    ----------
    term, std_error : str, float
        What is wanted.
    epsilon : float or None
        The smallest epsilon that reaches it; None where none does.
    best : ExpectedError
        What the largest epsilon would give.
    """

    term: str
    std_error: float
    epsilon: float | None
    best: ExpectedError

    def __str__(self) -> str:
        wanted = f"{self.term}: a standard error of {self.std_error:g}"
        if self.epsilon is not None:
            least = " or less" if self.epsilon == float(CANDIDATES[0]) else ""
            return f"{wanted} needs epsilon = {self.epsilon:g}{least}"
        at = f"{wanted} is out of reach: {self.best.std_error:.3g} at epsilon = {float(CANDIDATES[-1]):g}"
        if self.best.noise < MOSTLY:
            return f"{at}, nearly all of it sampling error; it takes more records"
        return f"{at}, where privacy noise is still {self.best.noise:.0%} of the private estimate's variance"


def expected_of(terms: Sequence[str], found: Prediction) -> dict[str, ExpectedError]:
    """Return what a prediction says of each coefficient."""
    errors = found.errors
    noise = errors.privacy**2 / (errors.sampling**2 + errors.privacy**2)
    reported = errors.reported if found.reported else np.full(len(terms), np.inf)
    return {
        term: ExpectedError(std_error=float(error), noise=float(share))
        for term, error, share in zip(terms, reported, noise, strict=True)
    }


def checked_wanted(std_error: object, terms: Sequence[str]) -> dict[str, float]:
    """Return the standard errors that are wanted, by coefficient, or raise ArgumentError."""
    names = ", ".join(map(repr, terms))
    if not isinstance(std_error, Mapping) or not std_error:
        raise ArgumentError(
            f"std_error must be a dictionary from coefficients to standard errors, such as {{{terms[-1]!r}: 0.1}}",
            argument="std_error",
        )
    unknown = [name for name in std_error if name not in terms]
    if unknown:
        raise ArgumentError(
            f"std_error names {', '.join(map(repr, unknown))}, and the coefficients are {names}", argument="std_error"
        )
    return {
        str(name): real(value, name=f"std_error[{name!r}]", lower=1e-12, upper=1e12)
        for name, value in std_error.items()
    }


def smallest_epsilons(
    wanted: Mapping[str, float], expected: Callable[[Fraction], Mapping[str, ExpectedError]]
) -> tuple[Wanted, ...]:
    """Return the smallest epsilon for each coefficient; ``expected`` says what a fit would report at an epsilon."""
    known: dict[Fraction, Mapping[str, ExpectedError]] = {}

    def at(epsilon: Fraction, term: str) -> ExpectedError:
        if epsilon not in known:
            known[epsilon] = expected(epsilon)
        return known[epsilon][term]

    def smallest(term: str, std_error: float) -> float | None:
        if at(CANDIDATES[-1], term).std_error > std_error:
            return None
        low, high = -1, len(CANDIDATES) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(CANDIDATES[middle], term).std_error <= std_error else (middle, high)
        return float(CANDIDATES[high])

    return tuple(
        Wanted(term=term, std_error=value, epsilon=smallest(term, value), best=at(CANDIDATES[-1], term))
        for term, value in wanted.items()
    )

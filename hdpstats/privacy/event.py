"""What ran: the private events inside one release. Their meaning never changes; a new mechanism is a new name."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import final

from hdpstats._base.errors import MechanismError
from hdpstats.privacy.budget import Budget, Spend, decimal
from hdpstats.privacy.gaussian import delta_of_square


class MechanismName(StrEnum):
    """The mechanisms whose proofs the package holds, by name."""

    OBJECTIVE = "objective perturbation (K-norm noise, coupled analysis)"
    OBJECTIVE_PAYING = "objective perturbation (K-norm noise, determinant paid for)"
    GAUSSIAN_OBJECTIVE = "objective perturbation (Gaussian noise)"
    OUTPUT = "output perturbation (L2 K-norm noise on the certified minimiser)"
    GAUSSIAN_OUTPUT = "output perturbation (Gaussian noise on the certified minimiser)"
    SMOOTHING = "lattice noise on the solution (covers solver error and floating point)"
    HESSIAN = "L2 K-norm noise on the weighted Hessian at the released coefficients"
    GRADIENT = "noisy gradient sum (Gaussian)"
    GRADIENT_PURE = "noisy gradient sum (L2 K-norm noise)"
    SCORE = "noisy sum of logistic scores of rows cut to a length (Gaussian)"
    SCORE_PURE = "noisy sum of logistic scores of rows cut to a length (L2 K-norm noise)"
    SAMPLING = "exponential mechanism by rejection (certified acceptance)"
    COUNT = "two-sided geometric noise on the number of records"
    HISTOGRAM = "two-sided geometric noise on the cells of a histogram"
    SELECTION = "permute-and-flip choice among public candidates"
    CURVE = "two-sided geometric noise on a performance curve"
    STATISTICS = "box noise on sums of clipped sufficient statistics"
    SUBSAMPLE = "box noise on projected estimates from blocks of people"
    DISTANCE = "two-sided geometric noise on a sum of clipped distances"
    DESCRIPTION = "box noise on sums of centred features of groups"
    GAUSSIAN_DESCRIPTION = "Gaussian noise on sums of centred features of groups"
    GAUSSIAN_HISTOGRAM = "Gaussian noise on the cells of a histogram"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyEvent:
    """One mechanism that ran on the private rows, with the (epsilon, delta) that its proof gives it.

    An event with ``mu_squared`` above 0 is sqrt(mu_squared)-Gaussian differentially private, and that is what it
    costs. Its epsilon and delta are then what it was asked to keep: a pair that its mu implies, or the pair of the
    whole fit of which it is one round. They are not added to those of other events.

    Raises
    ------
    MechanismError
        If the mu of a Gaussian event does not imply its epsilon and delta.
    """

    ran: MechanismName
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse a Gaussian event that claims more than its mu implies."""
        if self.mu_squared and not (
            self.epsilon > 0 and delta_of_square(self.epsilon, self.mu_squared) <= self.delta < 1
        ):
            raise MechanismError(
                f"Gaussian noise of mu = {math.sqrt(self.mu_squared):.6g} does not imply (epsilon, delta) = "
                f"({float(self.epsilon):g}, {float(self.delta):g})",
                ran=self.ran.value,
            )

    @property
    def cost(self) -> Spend:
        """What the event costs: mu_squared if it is Gaussian, else epsilon and delta."""
        if self.mu_squared == 0:
            return Spend(self.epsilon, self.delta)
        return Spend(Fraction(0), mu_squared=self.mu_squared, asked=Budget(self.epsilon, self.delta))

    @property
    def price(self) -> str:
        """What the event costs, in words: 'mu = 0.236704', 'epsilon = 0.85', 'epsilon = 1, delta = 1e-06'."""
        if self.mu_squared:
            return f"mu = {math.sqrt(self.mu_squared):.6g}"
        return f"epsilon = {decimal(self.epsilon)}" + (f", delta = {decimal(self.delta)}" if self.delta else "")

    def __str__(self) -> str:
        return f"{self.ran.value}, {self.price}"

r"""Composition: what several releases cost together, what each is charged, and what is left of a total.

A proof gives a release some (epsilon, delta) or mu_squared. An account is charged the next multiple of a grain
(`EPSILON_GRAIN`, `DELTA_GRAIN`, `MU_SQUARED_GRAIN`) at or above that, and at least the account's floor, which its
custodian sets: so sums have few digits whatever was asked, and an account can be charged only so often. What is charged
is never less than what the proof says, so that every claim about sums of charges holds for the releases (all guarantees
are monotone in epsilon, delta and mu). A release below the floor is not refused: it is charged the floor, which `plan`,
quotes, refusals, results and histories show.

**The floor of Gaussian releases.** A pure release is charged at least ``epsilon``, so that a total of ``E`` takes at
most ``E / epsilon`` of them. A Gaussian one is charged at least the same part of what the whole account affords in its
own unit, :math:`(\epsilon / E)\, \mu(E, D)^2` with ``D`` the total's delta, so that no more than ``E / epsilon`` of
these are taken either: a part set aside within the total affords at most :math:`\mu(E, D)^2`. An account therefore
takes at most ``2 E / epsilon`` charges, of whatever kinds.

**What is left.** An account is charged by an analyst who chooses every charge after seeing the releases before it.
Releases without Gaussian noise are counted by their sums of epsilon and delta; Gaussian ones by their sum of
``mu_squared``, which as ``m`` amounts to the epsilon :math:`e_G(\delta; \sqrt m)` at a delta. If the sums were fixed
in advance, all would be covered by the total (epsilon, delta) as soon as

.. math:: \sum \epsilon_i + e_G(\delta - \textstyle\sum \delta_i; \sqrt{\sum \mu_j^2}) \le \epsilon.

They are not: the analyst chooses. If the account merely checked this inequality before each charge, the analyst could
spend a part of the total on Gaussian noise, see whether its outcome happened to be a revealing one, and then ask for a
pure release with what is left if it was, and for further Gaussian ones if it was not. At (1, 1e-6), a first Gaussian
release of a tenth of the affordable ``mu_squared`` and then the better of the two reaches delta = 1.66e-6. So an
account is **divided**, once, before the first Gaussian release: a part (epsilon_G, delta_G) is set aside for Gaussian
releases,

.. math:: \delta_{GDP}(\epsilon_G; \sqrt{\sum \mu_j^2}) \le \delta_G, \qquad
          \sum \epsilon_i \le \epsilon - \epsilon_G, \qquad \sum \delta_i \le \delta - \delta_G,

and the inequality above holds whatever is charged. The division may depend on all releases before it, as these are
not Gaussian. The custodian declares it, or else the first Gaussian release does: what that was asked to keep is set
aside, and half of what is then left.

*Proof.* Fix two neighbouring data sets and the analyst's strategy, let ``P`` and ``Q`` be the distributions of what
the analyst sees, and :math:`H_t = \sup_E\, P(E) - e^t Q(E)`. From a state in which at most ``(e, d)`` and ``m`` remain
to be charged,

.. math:: H_t \le \delta_{GDP}(t - e; \sqrt m) + d \qquad \text{for every real } t,

by induction over the releases to come, of which each leaves a state for the others. (i) The next release is
(e', d')-DP: there is a part of its distribution under the first data set, of mass at least 1 - d', whose density is at
most exp(e') times that under the second. Hence :math:`H_t \le d' + \sup H_{t - e'}` of the rest, which by induction is
at most :math:`d' + \delta_{GDP}(t - e; \sqrt m) + d - d'`. (ii) It is mu-GDP, with densities ``p`` and ``q``: then
:math:`H_t \le \int p\, H_{t + \log(q/p)} \le d + \int p\, f(e^t q / p)`, with
:math:`f(s) = \delta_{GDP}(\log s - e; \sqrt{m - \mu^2})`. That ``f`` is convex, so the integral is an f-divergence,
and it is largest for the normal distributions N(mu, 1) and N(0, 1) (Dong, Roth and Su 2022), for which it is the value
for the composition of two Gaussian mechanisms, :math:`\delta_{GDP}(t - e; \sqrt m)`. At the time of the division, when
``(e_0, d_0)`` has been spent, the bound at :math:`t = \epsilon - e_0` is at most :math:`\delta - d_0`; case (i) again
takes it back to the beginning. An analyst who chooses each amount after seeing the releases before it is thereby
covered.

**What was spent so far** (`Balance.spent`) is the sum of epsilons and deltas, and, from the first Gaussian release on,
the *whole* part that is set aside for these. It is meant for stopping: for every strategy, every rule when to stop,
every event ``A`` of transcripts and every fixed (e, d),

.. math:: P(A,\ \text{spent} \le (e, d)) \le e^e\, Q(A,\ \text{spent} \le (e, d)) + d.

*Proof.* Let an account with the total (e, d) refuse the first charge after which spent would exceed it, and from there
on answer nothing. It is charged as above: before its first Gaussian release, charges sum to (e_0, d_0), the part
(epsilon_G, delta_G) that this release counts was fixed by then, and it is accepted only if
:math:`e_0 + \epsilon_G \le e` and :math:`d_0 + \delta_G \le d`; later charges leave that part alone and sum to the
rest at most. So it is (e, d)-DP. Transcripts that end with spent at most (e, d) are transcripts of it, as spent never
decreases. The least epsilon that the Gaussian releases imply, :math:`e_G(\delta_G; \sqrt{\sum \mu_j^2})`, has no such
property: it covers one inspection at a fixed time, and an analyst who inspects after each of nine doublings of
:math:`\sum \mu_j^2`, and stops when the outcome is revealing for the epsilon reached so far, attains 7.2 times
delta_G.

References
----------
J. Dong, A. Roth, W. J. Su (2022), Gaussian differential privacy.
A. Smith, A. Thakurta (2022), Fully adaptive composition for Gaussian differential privacy.
R. Rogers, A. Roth, J. Ullman, S. Vadhan (2016), Privacy odometers and filters: pay-as-you-go composition.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Self, final

from hdpstats._base.caching import remembered
from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import exact
from hdpstats.privacy.budget import DELTA_GRAIN, EPSILON_GRAIN, NOTHING, Budget, Spend, decimal, rounded_down
from hdpstats.privacy.gaussian import delta_of_square, mu_of


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """A total, what was charged to it, and its division between Gaussian releases and all others.

    Attributes
    ----------
    total
        What all releases may cost together.
    charged
        The sums of what was charged: epsilon and delta of releases without Gaussian noise, mu_squared of those with.
    gaussian
        The part of the total that is set aside for Gaussian releases; ``None`` while the account is not divided.

    Raises
    ------
    ArgumentError
        If the part has no delta or exceeds what was left of the total.
    """

    total: Budget
    charged: Spend = NOTHING
    gaussian: Budget | None = None

    def __post_init__(self) -> None:
        """Refuse a part that is none."""
        part, charged = self.gaussian, self.charged
        if part is None:
            return
        within = part.epsilon + charged.epsilon <= self.total.epsilon
        if not (within and 0 < part.delta <= self.total.delta - charged.delta):
            raise ArgumentError(
                "the part set aside for Gaussian releases must have a delta above 0 and stay within the total of "
                f"{self.total}, not {part}",
                argument="gaussian",
            )

    def divided_for(self, cost: Spend) -> Self:
        """Return the account divided for a cost with a Gaussian part if it can be and is not yet; else as it is.

        Set aside are the epsilon and delta that the Gaussian part was asked to keep, and half of what is left besides
        that and the rest of the cost; all of it for a part that was asked nothing. They are on the grain of charges.
        """
        asked, before = cost.asked, self.remaining
        epsilon_left, delta_left = before.epsilon - cost.epsilon, before.delta - cost.delta
        if self.gaussian is not None or cost.mu_squared == 0 or not (epsilon_left > 0 and delta_left > 0):
            return self
        epsilon, delta = (epsilon_left, delta_left) if asked is None else (asked.epsilon, asked.delta)
        if not (epsilon <= epsilon_left and 0 < delta <= delta_left):
            return self
        return replace(
            self,
            gaussian=Budget(
                _between(epsilon, epsilon_left, EPSILON_GRAIN),
                _between(delta, delta_left, DELTA_GRAIN),
            ),
        )

    def affords(self, cost: Spend) -> bool:
        """Whether a further cost stays within the total, for all that may follow; exact, in this division."""
        mu_squared, left = self.charged.mu_squared + cost.mu_squared, self.remaining
        if not (cost.epsilon <= left.epsilon and cost.delta <= left.delta):
            return False
        if cost.mu_squared == 0:
            return True
        part = self.gaussian
        return part is not None and delta_of_square(part.epsilon, mu_squared) <= part.delta

    def plus(self, cost: Spend) -> Self:
        """Return the account after a charge."""
        return replace(self, charged=self.charged + cost)

    @property
    def remaining(self) -> Spend:
        """What further releases without Gaussian noise may cost together."""
        part = self.gaussian
        epsilon, delta = (Fraction(0), Fraction(0)) if part is None else (part.epsilon, part.delta)
        return Spend(self.total.epsilon - epsilon - self.charged.epsilon, self.total.delta - delta - self.charged.delta)

    @property
    def gaussian_spent(self) -> Spend:
        """What counts as spent on Gaussian releases: the whole part set aside, from the first of them on."""
        part = self.gaussian
        if part is None or self.charged.mu_squared == 0:
            return NOTHING
        return Spend(part.epsilon, part.delta)

    @property
    def gaussian_affordable(self) -> Fraction:
        """The mu_squared that all Gaussian releases may cost together in this division; 0 while there is none."""
        part = self.gaussian
        return Fraction(0) if part is None else mu_of(part.epsilon, part.delta) ** 2

    @property
    def gaussian_remaining(self) -> Fraction:
        """The mu_squared that further Gaussian releases may cost together in this division; 0 while there is none."""
        return max(Fraction(0), self.gaussian_affordable - self.charged.mu_squared)

    @property
    def spent(self) -> Spend:
        """An (epsilon, delta) that holds for everything charged so far, whenever somebody stops: see the module.

        The sums of epsilons and deltas, plus `gaussian_spent`.
        """
        return Spend(self.charged.epsilon, self.charged.delta) + self.gaussian_spent


def _between(least: Fraction, most: Fraction, grain: Fraction) -> Fraction:
    """Return the middle of two amounts on a grain, or the least where that is larger."""
    return max(least, rounded_down((least + most) / 2, grain))


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


@remembered(256)
def _affordable(total: Budget) -> Fraction:
    return mu_of(total.epsilon, total.delta) ** 2

"""A private choice among candidates by permute-and-flip, exact.

Candidates come in a random order, and each is taken with probability exp(-rate gap), its gap being how much more it
costs than the cheapest; the first one taken is the choice. The cheapest is taken when its turn comes, so there is one.
The coins of those whose turn comes later change nothing; they are thrown as well, so that the number of coins does not
disclose at which turn the choice was made.

**Distribution.** It is that of the candidate with the least noisy cost, where independent exponential noise of this
rate is subtracted from each cost (Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang 2021).

**Guarantee.** Given the noise of all others, candidate i is the choice with probability min(1, exp(-rate t)), t being
its cost less the least noisy cost of the others. Where a person changes any *difference* of two costs by at most R, t
changes by at most R, and the probability by a factor of at most exp(rate R): with rate epsilon / R the choice is
epsilon-DP. A common change of all costs cancels.

Its expected cost is never above that of the exponential mechanism with the same guarantee (McKenna and Sheldon 2020).

References
----------
McKenna and Sheldon (2020), Permute-and-flip: a new mechanism for differentially private selection.
Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang (2021), The permute-and-flip mechanism is identical to
    report-noisy-max with exponential noise.
"""

from collections.abc import Sequence
from fractions import Fraction

from hdpstats._base.errors import ArgumentError
from hdpstats.noise.bernoulli import bernoulli_exp
from hdpstats.noise.entropy import below
from hdpstats.noise.lattice import positive_rational


def permute_and_flip(costs: Sequence[int], rate: Fraction) -> int:
    """Return the place of the chosen cost: integer arithmetic and the operating system's entropy only.

    Parameters
    ----------
    costs
        One integer for each candidate; the less the better.
    rate
        Privacy loss (nats) per unit of a difference of costs, rational.

    Examples
    --------
    >>> permute_and_flip([10**9, 0, 10**9], Fraction(1))
    1
    """
    if not costs:
        raise ArgumentError("costs must name at least one candidate", argument="costs")
    loss = positive_rational(rate, name="rate")
    least, waiting, taken = min(costs), list(range(len(costs))), []
    while waiting:
        place = waiting.pop(below(len(waiting)))
        if bernoulli_exp((costs[place] - least) * loss.numerator, loss.denominator):
            taken.append(place)
    return taken[0]

"""How large a query may be: public limits, checked when a query is made or prepared, before anything is charged.

They bound memory, the size of a release, and the time that a site must set aside for an answer; no proof of a guarantee
needs them. Each is well above what an analysis asks for.

======================================  ===================================================================
`MOST_CELLS`                            cells of a histogram: numbers of noise, about 10 microseconds each
`MOST_COEFFICIENTS`                     coefficients of a model, whose Hessian has their square
`MOST_WITH_HESSIAN`                     coefficients where a noisy Hessian is released: D (D + 1) / 2 numbers
`MOST_FEATURES`                         numbers of a table of baseline features: intervals times features
`MOST_CAUSES`                           causes of an event
`MOST_PROPOSALS`, `MOST_EVALUATIONS`    proposals of a sampler, and proposals times people
`MOST_CANDIDATES`                       candidates of a choice or of a performance curve
`MOST_POINTS`                           public points of a histogram of neighbours, a distance or a choice
`MOST_COORDINATES`                      coordinates of a point, a categorical column having one for each level
`MOST_NUMBERS`                          points times coordinates
`MOST_PUBLIC_NUMBERS`                   public rows times columns of a density ratio
`MOST_BLOCKS`                           blocks of an estimate by blocks
======================================  ===================================================================

**Bytes.** A release holds at most `MOST_POINTS` noisy numbers, the counts of neighbours; all others hold fewer. Each is
an integer whose digits are those of the noise (its scale is at most 2^20 over epsilon) or a double, below 40
characters where epsilon is at least 1e-12: 40 times `MOST_POINTS` bytes in all.

**Later charges.** The asker writes what later queries of a fit will cost, and a site only checks that they could be
charged. So they are bounded in number, size and digits, and Gaussian noise must say which (epsilon, delta) it was asked
to keep, one that its ``mu_squared`` does imply and does not fall far short of: an account is checked as if it were
divided for that pair (`hdpstats.privacy.composition`).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Final

from hdpstats._base.errors import MechanismError
from hdpstats.privacy.budget import Budget, Spend
from hdpstats.privacy.gaussian import delta_of_square
from hdpstats.records.codec import AtMost

MOST_CELLS = 2**18
MOST_COEFFICIENTS = 2000
MOST_WITH_HESSIAN = 150
MOST_FEATURES = 10**6
MOST_CAUSES = 50
MOST_PROPOSALS = 10**6
MOST_EVALUATIONS = 10**10
MOST_CANDIDATES = 100
MOST_POINTS = 2**20
MOST_COORDINATES = 2000
MOST_NUMBERS = 2**27
MOST_PUBLIC_NUMBERS = 2**22
MOST_BLOCKS = 2**17

MOST_AHEAD: Final = 64
"""The largest number of later charges that a query may announce, and of rounds of a fit."""

MOST_SITES: Final = 1000
"""The largest number of sites of a fit."""

Ahead = Annotated[tuple[Spend, ...], AtMost(size=MOST_AHEAD, what="costs in ahead")]
"""Later charges of a query, one by one; a longer list is refused unread."""

AtMostRounds: Final = AtMost(size=MOST_AHEAD, what="rounds of a fit")
"""Marks the queries or releases of a fit in rounds; more of them are refused unread."""

LARGEST_AMOUNT: Final = 10**12
"""The largest epsilon or mu_squared of a query: as much as the largest total of an account."""

MOST_DENOMINATOR: Final = 10**100
"""The largest denominator of an amount that lies ahead."""

WIDEST: Final = 100
"""How many times their mu_squared the (epsilon, delta) that later charges were asked to keep may imply, at most.

The rounds of a fit use all of it, up to rounding.
"""


def check_ahead(ahead: Sequence[Spend], *, pure: bool = False) -> None:
    """Refuse what may not lie ahead of a query.

    Parameters
    ----------
    ahead
        Later charges, one by one.
    pure
        Whether they must be epsilons alone.

    Raises
    ------
    MechanismError
        If there are too many, one is too large or has too many digits, or Gaussian noise does not say which
        (epsilon, delta) it was asked to keep, or says one that its mu_squared does not imply or falls far short of.
    """
    if len(ahead) > MOST_AHEAD:
        raise MechanismError(f"ahead must be a list of at most {MOST_AHEAD} costs")
    for cost in ahead:
        asked = () if cost.asked is None else (cost.asked.epsilon, cost.asked.delta)
        _check_amounts((cost.epsilon, cost.delta, cost.mu_squared, *asked))
        if cost.delta >= 1:
            raise MechanismError("a delta in ahead must be below 1")
        if pure and (cost.delta or cost.mu_squared):
            raise MechanismError("ahead must hold epsilons alone: later questions of this kind are pure")
        if (cost.mu_squared > 0) != (cost.asked is not None):
            raise MechanismError(
                "ahead must say which (epsilon, delta) Gaussian noise was asked to keep, and nothing of the kind for "
                "other noise; give asked with mu_squared, and only with it"
            )
        if cost.asked is not None and not _implied(cost.mu_squared, cost.asked):
            raise MechanismError(
                "ahead holds Gaussian noise whose mu_squared does not imply the (epsilon, delta) that it was asked to "
                "keep; give less mu_squared, or a larger pair"
            )
    together = sum(ahead, Spend(Fraction(0)))
    if together.asked is not None and _implied(WIDEST * together.mu_squared, together.asked):
        raise MechanismError(
            f"ahead was asked to keep an (epsilon, delta) that more than {WIDEST} times its mu_squared would keep; "
            "give the pair of the fit that these charges are for"
        )


def _check_amounts(amounts: Sequence[Fraction]) -> None:
    if max(amounts) > LARGEST_AMOUNT or max(amount.denominator for amount in amounts) > MOST_DENOMINATOR:
        raise MechanismError(
            f"amounts in ahead must be at most {LARGEST_AMOUNT}, as fractions with denominators of at most 100 digits; "
            "ask for less, or round them"
        )


def _implied(mu_squared: Fraction, asked: Budget) -> bool:
    return delta_of_square(asked.epsilon, mu_squared) <= asked.delta

"""The part of a fit's epsilon that is spent on the number of people who count, where that is private."""

import math
from collections.abc import Sequence
from fractions import Fraction

from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.budget import EPSILON_GRAIN, rounded_down
from hdpstats.privacy.relation import Relation
from hdpstats.sites import Study

SHARE = Fraction(1, 50)
"""Part of a fit's epsilon that is spent on the number of people: a standard deviation of 71 people at epsilon 1.

The number sets scales (radius, ridge, the curvature to expect), on which an estimate depends smoothly, so that a
relative error of it is about one of the standard errors.
"""

LEAST_SHARE, MOST_SHARE = Fraction(1, 100), Fraction(1, 10)
"""Bounds of the part of epsilon spent on the number of complete rows, where the number of all rows is public."""

SHARE_GRAIN = Fraction(1, 10_000)
"""Such a part has four digits."""

RELATIVE_ERROR = Fraction(1, 20)
"""The standard deviation of the number of complete rows, over that of all rows, which that part is to reach."""


def left_for_fit(study: Study, needs: Sequence[str], epsilon: Fraction, *, records: int) -> Fraction:
    """Return what is left of an epsilon once the number of people who count is charged for, where it is private.

    Under ``add_or_remove_one`` it always is. Under ``replace_one`` it is where rows may be left out, as some column of
    the model is not declared complete: the part is then what gives a relative error of `RELATIVE_ERROR`, between
    `LEAST_SHARE` and `MOST_SHARE`. It follows from public numbers.
    """
    return epsilon - rounded_down(epsilon * share_of_count(study, needs, epsilon, records=records), EPSILON_GRAIN)


def share_of_count(study: Study, needs: Sequence[str], epsilon: Fraction, *, records: int) -> Fraction:
    """Return the part of epsilon that is spent on the number of people who count; 0 where that is public."""
    if study.relation is not Relation.REPLACE_ONE:
        return SHARE
    if not study.schema.leaves_out(needs):
        return Fraction(0)
    exact = Fraction(math.isqrt(2 * 10**12), 10**6) / (RELATIVE_ERROR * max(records, 1) * epsilon)
    return min(max(rounded_down(exact, SHARE_GRAIN), LEAST_SHARE), MOST_SHARE)


def count_sd(epsilon: Fraction) -> float:
    """Return the standard deviation of the noise in a number of people on which some epsilon is spent."""
    return TwoSidedGeometric(rate=epsilon).variance ** 0.5 if epsilon else 0.0

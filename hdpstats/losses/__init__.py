"""PersonLoss functions: each knows its value, its derivatives and, with proof, its own constants.

A mechanism uses the constants and nothing else, so every loss works with every mechanism whose conditions
it meets. `options` holds what a user names, `own` checks a loss that a user brings.
"""

from hdpstats.losses.base import Loss, Table
from hdpstats.losses.counts import ExponentialTimes, PoissonLoss
from hdpstats.losses.hazard import HAZARDS, HazardLoss
from hdpstats.losses.located import BoundedSquares, HuberLoss, Located, SmoothedQuantile
from hdpstats.losses.logistic import Logistic
from hdpstats.losses.means import MEANS
from hdpstats.losses.tabulated import Tabulated

BY_NAME: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (Logistic, BoundedSquares, HuberLoss, SmoothedQuantile, PoissonLoss, ExponentialTimes, Tabulated)
}
"""The losses a query may name; `Loss.made` makes one of the query's numbers."""

__all__ = [
    "BY_NAME",
    "HAZARDS",
    "MEANS",
    "BoundedSquares",
    "ExponentialTimes",
    "HazardLoss",
    "HuberLoss",
    "Located",
    "Logistic",
    "Loss",
    "PoissonLoss",
    "SmoothedQuantile",
    "Table",
    "Tabulated",
]

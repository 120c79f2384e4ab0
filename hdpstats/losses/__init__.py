"""Contrast functions: each knows its value, its derivatives and, with proof, its own constants.

A mechanism uses the constants and nothing else, so every loss works with every mechanism whose conditions
it meets.
"""

from hdpstats.losses.base import Loss
from hdpstats.losses.hazard import HAZARDS, HazardLoss
from hdpstats.losses.logistic import Logistic

BY_NAME: dict[str, Loss] = {loss.name: loss for loss in (Logistic(),)}
"""The losses a query may name."""

__all__ = ["BY_NAME", "HAZARDS", "HazardLoss", "Logistic", "Loss"]

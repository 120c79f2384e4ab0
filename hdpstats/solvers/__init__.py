"""Numerical minimisation with a certificate, exact nearest points, orders of points, weights with given averages.

Nothing here knows privacy.
"""

from hdpstats.solvers.capped import CappedSpells
from hdpstats.solvers.newton import Solution, minimise
from hdpstats.solvers.objective import LinearObjective, Objective, ridge_objective
from hdpstats.solvers.several_predictors import HazardObjective

__all__ = ["CappedSpells", "HazardObjective", "LinearObjective", "Objective", "Solution", "minimise", "ridge_objective"]

"""Numerical minimisation with a certificate, exact nearest points, orders of points, weights with given averages.

Nothing here knows privacy, or a family of models.
"""

from hdpstats.solvers.newton import Solution, minimise
from hdpstats.solvers.objective import Objective

__all__ = ["Objective", "Solution", "minimise"]

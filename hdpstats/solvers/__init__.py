"""Numerical minimisation with a certificate; nothing here knows privacy."""

from hdpstats.solvers.newton import Solution, minimise
from hdpstats.solvers.objective import Objective

__all__ = ["Objective", "Solution", "minimise"]

"""Exact fits of discrete-time hazards that never expand people into intervals."""

from hdpstats.solvers.hazard.data import HazardData, HazardFit
from hdpstats.solvers.hazard.fit import fit_hazard

__all__ = ["HazardData", "HazardFit", "fit_hazard"]

"""Exact fits of discrete-time hazards that never expand people into intervals."""

from hdpstats.solvers.hazard.fit import fit_hazard
from hdpstats.solvers.hazard.likelihood import HazardData, HazardFit

__all__ = ["HazardData", "HazardFit", "fit_hazard"]

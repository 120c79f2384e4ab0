"""Exact fits of discrete-time hazards that never expand people into intervals."""

from hdpstats.solvers.hazard.likelihood import HazardData, HazardFit, Likelihood, fit_hazard

__all__ = ["HazardData", "HazardFit", "Likelihood", "fit_hazard"]

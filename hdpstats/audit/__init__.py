"""Searches for a violation of a guarantee: exact privacy losses, worst neighbours, lower bounds on epsilon, skeletons.

For users who want to see for themselves, and for the package's own tests. A search can refute a claim; it cannot prove
one: proofs are in docstrings and in ``vignettes/explanation``.

* ``density``: The exact privacy loss of objective perturbation, and a search for the neighbours where it is largest.
* ``outputs``: What outputs on neighbouring data sets show: a lower bound on epsilon, and whether anything but numbers
  differs.
"""

from hdpstats.audit.density import Neighbours, PerturbedObjective, perturbed_objective, privacy_loss, worst_neighbours
from hdpstats.audit.outputs import Observation, epsilon_lower_bound, observe, skeleton

__all__ = [
    "Neighbours",
    "Observation",
    "PerturbedObjective",
    "epsilon_lower_bound",
    "observe",
    "perturbed_objective",
    "privacy_loss",
    "skeleton",
    "worst_neighbours",
]


def __dir__() -> list[str]:
    return __all__

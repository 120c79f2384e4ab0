"""Searches for a violation of a guarantee: losses, neighbours, lower bounds on epsilon, last bits, replays.

For users who want to see for themselves, and for the package's own tests. A search can refute a claim; it cannot prove
one: proofs are in docstrings and in ``vignettes/explanation``.

* ``cases``: Small questions of every kind that the package answers: what replays and the table of guarantees run.
* ``density``: The exact privacy loss of objective perturbation, and a search for the neighbours where it is largest.
* ``fingerprint``: The last bits of released doubles, which may tell what a release was computed from.
* ``guarantees``: The table of guarantees: of everything that the package offers, its proof, and what searches found.
* ``laws``: The exact distribution of a sampler: its code is run for all outcomes of its coins.
* ``noise_laws``: The exact distributions of the noise mechanisms on neighbouring inputs; wrong coins planted.
* ``noise_mechanisms``: What draws of each noise mechanism show: lower bounds of epsilon, last bits.
* ``outputs``: What outputs on neighbouring data sets show: a lower bound on epsilon, and whether anything but numbers
  differs.
* ``page``: The table of guarantees as a page.
* ``qualification``: Whether this installation computes what it should, with a report for a validation file.
* ``replay``: Record an answer on one data set, replay it on a neighbour: what differs must be inputs of noise alone.
* ``scale``: Whether the noise that a computation draws is as large as its claim says.
* ``sensitivity``: A search for the neighbours between which a statistic moves most, against a claim.
"""

from hdpstats.audit.density import Neighbours, PerturbedObjective, perturbed_objective, privacy_loss, worst_neighbours
from hdpstats.audit.fingerprint import Fingerprint, fingerprint
from hdpstats.audit.outputs import Observation, epsilon_lower_bound, observe, skeleton
from hdpstats.audit.replay import NoiseInput, Replay, add_noise, record_and_replay
from hdpstats.audit.scale import FoundScale, noise_scale
from hdpstats.audit.sensitivity import FoundSensitivity, sensitivity_search

__all__ = [
    "Fingerprint",
    "FoundScale",
    "FoundSensitivity",
    "Neighbours",
    "NoiseInput",
    "Observation",
    "PerturbedObjective",
    "Replay",
    "add_noise",
    "epsilon_lower_bound",
    "fingerprint",
    "noise_scale",
    "observe",
    "perturbed_objective",
    "privacy_loss",
    "record_and_replay",
    "sensitivity_search",
    "skeleton",
    "worst_neighbours",
]


def __dir__() -> list[str]:
    return __all__

"""The algorithms of Nguyen and Hui (2017) on public or synthetic data, as printed and corrected. NOT private.

They are here to reproduce the paper's figures and to measure against: numpy noise from a seed, floating point as it
comes, scales and follow-up learned from the data, any number of draws. The mechanisms that may see private records are
those of `hdpstats.models`.

* ``perturbation``: Algorithms 1 and 2 of Nguyen and Hui (2017): output and objective perturbation of a discrete-time
  regression.
* ``sampling``: Algorithms 3 and 4 of Nguyen and Hui (2017): one draw from a tempered posterior, by a preconditioned
  Langevin chain.

References
----------
Nguyen T.T., Hui S.C. (2017). Differentially private regression for discrete-time survival analysis. arXiv:1708.07436.

Li C., Chen C., Carlson D., Carin L. (2016). Preconditioned stochastic gradient Langevin dynamics for deep neural
networks. AAAI 30.
"""

from hdpstats.papers.nguyen_hui.perturbation import (
    Counterexample,
    Patients,
    determinant_bound,
    determinant_bound_tight,
    fit,
    gradient_sensitivity,
    objective_perturbation,
    output_perturbation,
    prepare,
    relative_error,
    smallest_ridge,
    theorem_4_4_counterexample,
)
from hdpstats.papers.nguyen_hui.sampling import psgld, target_covariance

__all__ = [
    "Counterexample",
    "Patients",
    "determinant_bound",
    "determinant_bound_tight",
    "fit",
    "gradient_sensitivity",
    "objective_perturbation",
    "output_perturbation",
    "prepare",
    "psgld",
    "relative_error",
    "smallest_ridge",
    "target_covariance",
    "theorem_4_4_counterexample",
]

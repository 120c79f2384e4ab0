"""The importance weights of Ji and Elkan (2013) on public or synthetic records, as printed. NOT private.

They are here to reproduce the paper's figures and to measure against: numpy noise from a seed, floating point as it
comes, any number of draws. The mechanism that may see private records is `hdpstats.models.importance_weights`.

References
----------
Ji Z., Elkan C. (2013). Differential privacy based on importance weighting. Machine Learning 93(1), 163-183.
"""

from hdpstats.papers.ji_elkan.weighting import (
    density_ratio,
    dummies,
    noisy_density_ratio,
    radius_counterexample,
    variance_bound,
    weighted_mean,
)

__all__ = [
    "density_ratio",
    "dummies",
    "noisy_density_ratio",
    "radius_counterexample",
    "variance_bound",
    "weighted_mean",
]

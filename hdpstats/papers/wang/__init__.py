"""The experiments of Wang et al. (2018) on simulated or public records, its algorithms as printed. NOT private.

They are here to reproduce the paper's figures and to measure against. The mechanism that may see private records is
`hdpstats.models.hybrid_weights`.

References
----------
Wang M., Ji Z., Kim H.E., Wang S., Xiong L., Jiang X. (2018). Selecting optimal subset to release under differentially
private M-estimators from hybrid datasets. IEEE Transactions on Knowledge and Data Engineering 30(3), 573-584.
"""

from hdpstats.papers.wang.hospitals import (
    Hospital,
    Pair,
    breast_cancer_hospitals,
    fit,
    prediction_error,
    simulated_hospitals,
)
from hdpstats.papers.wang.subsets import Tradeoff, curve_counterexample, distinct_points, grid_fit, rescaled, tradeoff

__all__ = [
    "Hospital",
    "Pair",
    "Tradeoff",
    "breast_cancer_hospitals",
    "curve_counterexample",
    "distinct_points",
    "fit",
    "grid_fit",
    "prediction_error",
    "rescaled",
    "simulated_hospitals",
    "tradeoff",
]

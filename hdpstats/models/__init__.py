"""Models that users plan and fit: regressions, hazards, distributions, and weights of public rows.

A class for users (`regression`, `hazard`, `estimators`) is thin. Its base class `model.Model` plans and fits, by a
table from each mechanism to the functions that fit and that predict errors; they are in `points`, `rounds`,
`public_hessian`, `histogram` and `distribution_spec`. A ``..._spec`` checks the arguments, prepares the public side and
makes queries. `request` holds what is asked for. `site_records` has what is known of people before a fit, with
`own_description`; `private_result` puts together what sites gave. `plan` shows predicted errors,
`evaluation` counts how a fit does on private people, `arrays` makes a study of arrays. `hybrid_weights` and
`importance_weights` weight public rows; `weighted` fits models to them, and to noisy histograms. ``fit``, ``evaluate``
and the functions for weights are all that spends here.
"""

from hdpstats.models.estimators import Distribution, MEstimator
from hdpstats.models.hazard import DiscreteHazard
from hdpstats.models.hybrid_weights import hybrid_weights
from hdpstats.models.importance_weights import importance_weights
from hdpstats.models.plan import Plan
from hdpstats.models.regression import Linear, Logit, Quantile

__all__ = [
    "DiscreteHazard",
    "Distribution",
    "Linear",
    "Logit",
    "MEstimator",
    "Plan",
    "Quantile",
    "hybrid_weights",
    "importance_weights",
]

"""Models that users plan and fit: regressions, hazards, distributions, and weights of public rows.

A class for users (`regression`, `hazard`, `distribution`) is thin: its base class `model.Model` plans and fits; its
``..._spec`` checks the arguments, prepares the public side and makes queries. `fit_methods` has the table of fit
methods, from a mechanism to the functions that fit and that predict errors; they are in `points`, `rounds`, `weighted`
and `distribution_spec`. `request` holds what is asked for, and whether it was asked before. `site_records` has what is
known of people before a fit, with `cohort`; `private_result` puts together what sites gave. `plan` shows predicted
errors, `evaluation` counts how a fit does on private people, `arrays` makes a study of arrays. `hybrid_weights` and
`importance_weights` weight public rows; `weighted` fits models to them, and to noisy histograms. `description`
describes the private cohort, `description_plan` predicts how exactly; `survival_curves` asks for curves from such a
table, `curves_plan` predicts them. ``fit``, ``evaluate``, ``describe`` with an epsilon and the functions for weights
are all that spends.
"""

from hdpstats.models.curves_formula import survfit
from hdpstats.models.curves_plan import CurvesPlan
from hdpstats.models.description import DescriptionRequest, describe
from hdpstats.models.description_plan import DescriptionPlan
from hdpstats.models.distribution import Distribution
from hdpstats.models.hazard import DiscreteHazard
from hdpstats.models.hybrid_weights import hybrid_weights
from hdpstats.models.importance_weights import importance_weights
from hdpstats.models.mestimator import MEstimator
from hdpstats.models.plan import Plan
from hdpstats.models.regression import Linear, Logit, Quantile
from hdpstats.models.survival_curves import CurvesRequest

__all__ = [
    "CurvesPlan",
    "CurvesRequest",
    "DescriptionPlan",
    "DescriptionRequest",
    "DiscreteHazard",
    "Distribution",
    "Linear",
    "Logit",
    "MEstimator",
    "Plan",
    "Quantile",
    "describe",
    "hybrid_weights",
    "importance_weights",
    "survfit",
]

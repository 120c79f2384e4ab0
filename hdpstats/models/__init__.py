"""The front desk: models that check what is asked, plan it, and fit it. ``fit`` is the only verb that spends.

A model class (``logit``, ``linear``, ``hazard``) is thin: ``front_desk`` plans and fits, its specification
(``regression`` with a loss from ``chosen``, ``multinomial``, ``hazard_specification``) checks and asks, ``plan``
predicts, ``fit`` reads the answers (``points``, ``gradient`` and ``newton`` know the mechanisms, ``conversation`` asks
round by round, ``counting`` finds the number of people, ``contributions`` puts the sites together), ``evaluation`` says
how a fit does on private people, ``arrays`` makes a study of arrays.
"""

from hdpstats.models.distribution import Distribution
from hdpstats.models.hazard import DiscreteHazard
from hdpstats.models.hybrid_weights import hybrid_weights
from hdpstats.models.importance_weights import importance_weights
from hdpstats.models.linear import Linear
from hdpstats.models.logit import Logit
from hdpstats.models.mestimator import MEstimator
from hdpstats.models.plan import Plan
from hdpstats.models.quantile import Quantile

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

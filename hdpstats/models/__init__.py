"""The front desk: models that check what is asked, plan it, and fit it. ``fit`` is the only verb that spends.

A model class (``logit``, ``hazard``) is thin: its specification (``regression``, ``hazard_specification``) checks and
asks, ``plan`` predicts, ``fit`` reads the answer (``points`` and ``gradient`` know the mechanisms, ``counting`` the
number of people), ``evaluation`` says how a fit does on private people, ``arrays`` makes a study of arrays.
"""

from hdpstats.models.hazard import DiscreteHazard
from hdpstats.models.logit import Logit
from hdpstats.models.plan import Plan

__all__ = ["DiscreteHazard", "Logit", "Plan"]

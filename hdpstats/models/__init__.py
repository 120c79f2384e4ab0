"""The front desk: models that check what is asked, plan it, and fit it. ``fit`` is the only verb that spends.

A model class (``logit``) is thin: ``regression`` checks and asks, ``plan`` predicts, ``fit`` reads the answer,
``arrays`` makes a study of arrays.
"""

from hdpstats.models.logit import Logit
from hdpstats.models.plan import Plan

__all__ = ["Logit", "Plan"]

"""The front desk: models that check what is asked, plan it, and fit it. ``fit`` is the only verb that spends."""

from hdpstats.models.logit import Logit
from hdpstats.models.plan import Plan

__all__ = ["Logit", "Plan"]

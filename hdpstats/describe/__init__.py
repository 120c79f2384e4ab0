"""Descriptions of the private cohort, and survival curves by group: what is asked, what to expect, what was found.

``request`` has `describe`, which reads the arguments and asks the sites, and ``survival_curves`` has `survfit`, which
asks for a table of follow-up by group and reads curves from it; ``adjusting`` says how those of weighted people err.
``plan`` predicts how exact both are. ``description`` is the result, with its first table; ``balance`` compares two
arms before and after weighting; ``tables`` makes data frames and texts of its numbers, ``knots`` finds knots of
splines in them. The query, what a site computes, the noise with its proof and the statistics that are read from a
release are those of one mechanism: `hdpstats.mechanisms.description`. The curves themselves, which models have too, are
`hdpstats.results.survival_curves`.
"""

from hdpstats.describe.balance import Balance, BalanceRequest
from hdpstats.describe.description import Description
from hdpstats.describe.plan import CurvesPlan, DescriptionPlan
from hdpstats.describe.request import DescriptionRequest, describe
from hdpstats.describe.survival_curves import CurvesRequest, survfit
from hdpstats.describe.tables import FirstTable

__all__ = [
    "Balance",
    "BalanceRequest",
    "CurvesPlan",
    "CurvesRequest",
    "Description",
    "DescriptionPlan",
    "DescriptionRequest",
    "FirstTable",
    "describe",
    "survfit",
]

"""What a fit gives back: released and public numbers only, with tables, plots and text made from them.

``facts`` says what was fitted, ``result`` is the object that a user holds; the other modules compute for it.
"""

from hdpstats.public.check import PublicCheck
from hdpstats.results.aggregated import Aggregate
from hdpstats.results.aggregation import aggregate
from hdpstats.results.checking import check_public
from hdpstats.results.evaluation import Evaluation
from hdpstats.results.facts import HazardFacts, ModelFacts
from hdpstats.results.fit_record import Purchase
from hdpstats.results.result import Result
from hdpstats.results.sites import SiteContribution
from hdpstats.results.weighted_facts import SampleFacts
from hdpstats.results.weighted_sample import WeightedSample
from hdpstats.results.weighted_tables import Estimated

__all__ = [
    "Aggregate",
    "Estimated",
    "Evaluation",
    "HazardFacts",
    "ModelFacts",
    "PublicCheck",
    "Purchase",
    "Result",
    "SampleFacts",
    "SiteContribution",
    "WeightedSample",
    "aggregate",
    "check_public",
]

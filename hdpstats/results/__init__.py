"""What a fit gives back: released and public numbers only, with tables, plots and text made from them.

``facts`` says what was fitted, ``result`` is the object that a user holds; the other modules compute for it.
"""

from hdpstats.inference.weighted_moments import Estimated
from hdpstats.public.follow_up import PublicCheck
from hdpstats.results.aggregated import Aggregate
from hdpstats.results.aggregation import aggregate
from hdpstats.results.evaluation import NOT_CHECKED, DeferredCheck, Evaluation, check_public
from hdpstats.results.facts import HazardFacts, ModelFacts, RowWeights, SampleFacts
from hdpstats.results.population import FittedRows
from hdpstats.results.result import Result
from hdpstats.results.sites import Released, SiteContribution
from hdpstats.results.survival_curves import LogRankTest, SurvivalCurves
from hdpstats.results.weighted_sample import WeightedSample

__all__ = [
    "NOT_CHECKED",
    "Aggregate",
    "DeferredCheck",
    "Estimated",
    "Evaluation",
    "FittedRows",
    "HazardFacts",
    "LogRankTest",
    "ModelFacts",
    "PublicCheck",
    "Released",
    "Result",
    "RowWeights",
    "SampleFacts",
    "SiteContribution",
    "SurvivalCurves",
    "WeightedSample",
    "aggregate",
    "check_public",
]

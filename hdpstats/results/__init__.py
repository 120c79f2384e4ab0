"""What a fit gives back: released and public numbers only, with tables, plots and text made from them.

``result`` is the object that a user holds, and ``facts`` says what was fitted; ``sites`` is what each site gave.
``prediction`` predicts, ``contrasts`` tests linear hypotheses, ``disagreement`` private against public coefficients.
``standardised_means`` averages predictions over the rows of ``population``; ``average_effects`` and
``marginal_effects`` are made of such averages. ``hazard_curves`` has the curves of hazard models with their gradients.
``summary``, ``tables``, ``plots``, ``survival_plots`` (on a ``time_axis``) and ``comparison`` (with other software)
show all that, ``reporting`` says it in words. ``survival_curves`` is what `survfit` gives: a ``group_curves`` for each
group, shown by ``curve_tables``. ``evaluation`` is how a model does on private people, ``weighted_sample`` public rows
with weights, ``aggregated`` what ``aggregation`` makes of results in groups. ``model_matrix`` is a result as R sees it.
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

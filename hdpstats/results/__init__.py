"""What a fit gives back: released and public numbers only, with tables, plots and text made from them.

``facts`` says what was fitted, ``result`` is the object that a user holds; the other modules compute for it.

* ``adjustment``: How results of weighted people were adjusted: what they rest on besides their own releases, and how
  they err.
* ``aggregated``: An aggregate: an estimate for every group of a tree of results, with its tables and its forest plot.
* ``aggregation``: Results in groups of groups, such as schools in states in a country: one estimate per group, level
  by level.
* ``average_effects``: Average effects: how standardised means differ between values of a variable, with intervals by
  the drawn errors.
* ``combined_effects``: Treatment effects of separate sites in one: by inverse variance, each contrast on its own scale.
* ``comparison``: A result beside a reference: estimates and standard errors term by term, from any software.
* ``contrasts``: Tests of linear hypotheses about coefficients, in statsmodels' words: z-tests, joint Wald tests,
  pairs of levels.
* ``curve_tables``: The report that survival curves show of themselves, and a model's survival, averaged over people,
  beside them.
* ``disagreement``: Whether private people have the coefficients that public rows tell: Cochran's Q of both estimates.
* ``evaluation``: How a fitted model does on private people, from one noisy table, and on public rows, when that is
  first asked for.
* ``group_curves``: The survival of one group, read from a noisy table of private people or from public rows: one form
  for both.
* ``hazard_curves``: Curves of a discrete-time hazard model with their gradients, as arrays and as tables.
* ``labels``: What tables, figures and pages call coefficients and groups: the labels of the schema, where columns have
  one.
* ``margeff``: Marginal effects: average slopes of columns of the design, as statsmodels' ``get_margeff`` has
  them.
* ``model_matrix``: A result as R's generics see it: names and order of coefficients, terms, and the design of public
  rows.
* ``plots``: Plots of results: coefficients, weights, calibration, and standardised differences of groups or of
  people.
* ``population``: The rows that effects are averaged over: a frame, the public rows of a fit, or what has rows of its
  own.
* ``prediction``: What a fitted model says about public rows: predictions, hazards and survival, as tables and plots.
* ``propensity``: A private propensity model, and the overlap weights that follow from it: post-processing of what was
  released.
* ``regression_table``: A paper's table of regressions: estimates of several models side by side, with reference levels
  and counts.
* ``reporting``: What readers of a paper and output checkers are told of a result.
* ``sites``: What the sites of a fit released, and what each contributed: public facts, as records, a table, rows of a
  summary.
* ``standardised_means``: Standardised means: averages over rows of what a model predicts if a variable had one value.
* ``summary``: The report of a result, and the blocks that it shares with those of other kinds: coefficients,
  guarantees.
* ``survival_curves``: Survival curves of groups of private people, from one noisy table of events, beside those of
  public rows.
* ``survival_plots``: Figures of survival curves and of hazard models: lines with bands, medians, the test, the
  numbers at risk below.
* ``tables``: Tables of a result in others' words: broom's columns, ratios, the columns that the maketables package
  asks for.
* ``time_axis``: The axis of time of survival plots: a unit that fits, round ticks, and the numbers at risk below.
* ``treatment_effect``: The effect of a treatment among people weighted by their chance of it: means by arm and their
  contrasts.
* ``weighted_sample``: Public rows with weights that make them stand for the private ones: charged once, analysed any
  number of times.
"""

from hdpstats.inference.weighted_moments import Estimated
from hdpstats.public.follow_up import PublicCheck
from hdpstats.results.aggregated import Aggregate
from hdpstats.results.aggregation import aggregate
from hdpstats.results.combined_effects import CombinedEffect, combine_effects
from hdpstats.results.evaluation import NOT_CHECKED, DeferredCheck, Evaluation, check_public
from hdpstats.results.facts import HazardFacts, ModelFacts, RowsOfPeople, RowWeights, SampleFacts
from hdpstats.results.population import FittedRows
from hdpstats.results.propensity import Propensity, Weighting
from hdpstats.results.regression_table import RegressionTable, regression_table
from hdpstats.results.result import Result
from hdpstats.results.sites import Released, SiteContribution
from hdpstats.results.survival_curves import LogRankTest, SurvivalCurves
from hdpstats.results.treatment_effect import TreatmentEffect
from hdpstats.results.weighted_sample import WeightedSample

__all__ = [
    "NOT_CHECKED",
    "Aggregate",
    "CombinedEffect",
    "DeferredCheck",
    "Estimated",
    "Evaluation",
    "FittedRows",
    "HazardFacts",
    "LogRankTest",
    "ModelFacts",
    "Propensity",
    "PublicCheck",
    "RegressionTable",
    "Released",
    "Result",
    "RowWeights",
    "RowsOfPeople",
    "SampleFacts",
    "SiteContribution",
    "SurvivalCurves",
    "TreatmentEffect",
    "WeightedSample",
    "Weighting",
    "aggregate",
    "check_public",
    "combine_effects",
    "regression_table",
]

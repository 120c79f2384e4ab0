"""Models that users plan and fit: regressions, hazards, distributions, and weights of public rows.

A class for users is thin. Its base class `model.Model` plans and fits, by one object for each mechanism
(`fit_mechanism.FitMechanism`): a fit reads what sites answer, a plan what they are expected to answer. A ``spec``
(`hdpstats.families`) checks the arguments, prepares the public side and makes queries.
``fit``, ``evaluate`` and the functions for weights are all that spends here.

* ``arrays``: From arrays, as statsmodels takes them, to a formula and a study.
* ``compiling``: Loops over rows, compiled before anybody waits for them.
* ``distribution``: Fits of a distribution's parameters: every site is asked once, and answers, or expected ones, are
  read together.
* ``estimates``: From released coefficients to estimates, as far as the curvature of the private likelihoods is known.
* ``estimators``: M-estimation with a loss of the package or of the user, and parameters of a distribution.
* ``evaluation``: How a fitted model does on private people: risk groups from public ones, one noisy table, statistics
  of it.
* ``fit_mechanism``: A mechanism as fits and plans use it: one object that asks sites, and reads what they answer or
  are expected to.
* ``hazard``: Discrete-time survival analysis on private and public records.
* ``hessian_share``: Which share of epsilon a fit spends on a noisy Hessian, and whether it would report standard
  errors: public facts.
* ``histogram``: Models fitted to a noisy histogram of their columns (Lei 2011): fits and predictions.
* ``hybrid_steps``: What is asked for weights of public rows, in which order, and what the answers give.
* ``hybrid_weights``: Weights of public rows that make them stand for private people: counts of nearest public points,
  released once.
* ``importance_weights``: Weights of public rows from a density ratio: released once, analysed as often as one likes.
* ``model``: What every model does: plan, fit, and fit public rows alone; by which mechanisms, and which where none is
  named.
* ``own_description``: What a fit would ask of its own people, beside their number, and what it knows of a site once
  it was answered.
* ``plan``: A plan: what standard errors a fit would have at each epsilon, as a table, in words and as a plot.
* ``points``: Mechanisms that release the coefficients by one query to each site: what is asked, expected, and read.
* ``private_result``: What the sites of a fit gave, and the result: its estimates with queries, releases, guarantee
  and sites.
* ``propensity``: A private propensity model: a logistic regression of treatment, with coefficients from private people
  alone.
* ``public_hessian``: Logistic regressions by Newton steps with a public Hessian: rounds, predictions, results.
* ``regression``: Logistic, linear and quantile regression on private and public records.
* ``request``: What a fit asks for, checked before anything is charged: epsilon, delta, mechanism, draw and
  description.
* ``rounds``: Fits by noisy Newton steps with clipped scores: rounds, predictions, results.
* ``sandwich_share``: Which share of epsilon a fit spends on its private people's own Hessians and squared scores:
  public facts only.
* ``site_records``: What is known of the people of each site before its part in a fit, and what is left of epsilon
  then.
* ``treatment_effect``: The effect of a treatment among people weighted by their chance of it: what is asked, expected
  and read.
* ``weighted``: Models fitted to a weighted public sample: post-processing, with errors that count sampling and
  privacy noise.
"""

from hdpstats.models.compiling import warm_up
from hdpstats.models.estimators import Distribution, MEstimator
from hdpstats.models.hazard import DiscreteHazard
from hdpstats.models.hybrid_weights import hybrid_weights
from hdpstats.models.importance_weights import importance_weights
from hdpstats.models.plan import Plan
from hdpstats.models.propensity import PropensityRequest, SplitPlan, propensity
from hdpstats.models.regression import Linear, Logit, Quantile
from hdpstats.models.treatment_effect import TreatmentEffectPlan, TreatmentEffectRequest, treatment_effect

__all__ = [
    "DiscreteHazard",
    "Distribution",
    "Linear",
    "Logit",
    "MEstimator",
    "Plan",
    "PropensityRequest",
    "Quantile",
    "SplitPlan",
    "TreatmentEffectPlan",
    "TreatmentEffectRequest",
    "hybrid_weights",
    "importance_weights",
    "propensity",
    "treatment_effect",
    "warm_up",
]

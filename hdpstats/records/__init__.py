"""Records that every layer may hold: what queries and releases have in common, models as public numbers, estimates.

The records of one mechanism are in its own package, `hdpstats.mechanisms`. None of them knows a solver or a data frame.

* ``codec``: JSON values of records, made and read back from the types of their fields; canonical JSON and its hash.
* ``estimate``: Coefficients with their uncertainty, in statsmodels' words; the estimates of a fit, and whether its
  sites agree.
* ``geometry``: How a row becomes a bounded row of a design, or a point among public ones: geometry that is public.
* ``limits``: How large a query may be: public limits, checked when a query is made or prepared, before anything is
  charged.
* ``model``: What a query is about: a model of linear predictors, written down as public numbers.
* ``query``: What every query and every release has, and what those have that release coefficients at once.
* ``recipe``: The recipe of queries: how a version of the package makes questions to sites from what a user writes.
* ``sandwich``: What a query asks, and a release says, of the two parts of a sandwich: private people's Hessians and
  squared scores.
* ``saved``: Results as versioned JSON, exact to the last bit (never pickle), and their large values: data frames,
  drawn errors.
* ``several``: Queries and releases of fits that consist of several: rounds of noisy sums of scores, and sites by
  their names.
* ``overlap_weights``: How people are weighted by their chance of treatment: overlap weights at public coefficients.

* ``averages``: What is known of a private cohort: averages of its variables over complete people, with the noise in
  them.
"""

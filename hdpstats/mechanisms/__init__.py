"""What a site computes with private rows: each mechanism states its guarantee and proves it.

Each mechanism is a package. The package itself holds the option that users choose, the query that crosses to a site and
the release that answers it; ``site`` computes and proves, ``request`` chooses a query from public facts, ``estimate``
reads releases. A mechanism sees one person's loss as a `hdpstats.families.base.PersonLoss`, which each family has, and
works in two stages. ``prepare`` sees public facts only and refuses what its proof does not cover, before anything is
charged. ``compute`` sees the rows; it never raises, warns or branches on them in a way that a caller could see.
``registry`` lists every mechanism once, with its options, query, release and models. ``minimiser`` and ``score_sums``
are what several need.

* ``base``: What every mechanism offers a site: a check without rows and a computation with them; rows on which it
  costs most.
* ``clipped_newton``: Newton steps with noisy sums of clipped scores, solved against public people.
* ``count``: A noisy number of people.
* ``description``: A description of the cohort: by group, numbers of people, shares, moments, quartiles and follow-up.
* ``evaluation``: How a fitted model does on private people: a noisy table of risk group and outcome.
* ``exponential``: The exponential mechanism: one draw from the tempered posterior on a box.
* ``histogram``: A noisy histogram on a public grid.
* ``hybrid_weights``: Weights of public rows that make them stand for private people, from noisy counts of nearest
  points.
* ``importance_weights``: Weights of public rows from a density ratio: a logistic regression of who is private.
* ``loading``: Compiled code that private rows need from a number of rows on, loaded before anything is charged.
* ``perturbation``: Noise before or after the penalised sum of losses is minimised: objective and output perturbation.
* ``public_hessian``: Newton steps with a public Hessian and noisy private gradients.
* ``statistics``: Noisy sums of the sufficient statistics of an exponential family.
* ``subsample``: Subsample and aggregate: a noisy mean of estimates from disjoint blocks of people.
* ``treatment_effect``: Outcomes of two arms of people who are weighted by their chance of treatment: a noisy table of
  weighted cells.
"""

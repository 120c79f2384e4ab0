"""Discrete-time hazard models with capped losses.

* ``bounds``: The loss of one person under a discrete-time hazard model, with capped losses
  (`hdpstats.losses.hazard_links`).
* ``caps``: Caps of discrete-time hazard models: how much one person's loss may weigh in each interval.
* ``kernels``: Kernels: sums over the intervals that spells survive, by person and interval, from tables, or in closed
  form.
* ``likelihood``: Minus the log-likelihood of a discrete-time hazard by the kernel that suits the data, and its
  minimum.
* ``outcomes``: Public spells with every outcome of follow-up: the event in each interval, or censoring after each.
* ``public``: The public side of a hazard model: public people in a geometry and under a cap, and the curvature to
  expect.
* ``public_fit``: A hazard model on public people alone: their spells, their baseline features and their fit.
* ``raked``: Curvature of a hazard model over raked public people, who are followed as private ones are.
* ``rows``: Spells of a hazard model: capped losses with a predictor for each interval at risk, exactly added.
* ``spec``: A hazard model on a study: intervals, baseline and caps from public facts, the query that a fit asks.
* ``spells``: Spells with capped losses under a discrete-time hazard model, never expanded to person-period rows.
* ``weighted``: The public side of a hazard model among people who are weighted by their chance of treatment.
"""

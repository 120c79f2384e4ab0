"""Losses of one linear predictor.

* ``bounds``: The loss of one linear predictor, person by person.
* ``clustered``: The covariance of a fit to public people with several rows: a sandwich with people in its middle.
* ``likelihood``: Ordinary fits to public rows by any loss: what R's ``lm``, ``glm``, ``survreg``, ``rq`` and ``rlm``
  compute.
* ``one_pass``: Logistic scores of rows that are read once: one pass from stored cells to integers, with no copy of
  the design.
* ``public``: The public side: rows, whitened rows, and a public fit that is always there.
* ``rows``: Rows of a regression: losses of one linear predictor, exactly added.
* ``spec``: A regression on a study: the loss with all its numbers, the public side, the query that a fit asks.
* ``weighted``: The public side of a regression among people who are weighted by their chance of treatment.
"""

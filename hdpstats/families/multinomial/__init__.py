"""Multinomial logistic regression.

* ``bounds``: The loss of one person under a multinomial logistic regression (`hdpstats.losses.multinomial`).
* ``public``: The public side of a multinomial logistic regression: as that of one predictor, one spread for all
  levels' slopes.
* ``rows``: Rows of a multinomial regression: losses with a predictor for each level beside the reference, exactly
  added.
* ``spec``: A multinomial logistic regression on a study.
"""

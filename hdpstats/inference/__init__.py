"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise.

``released`` reads released coefficients, with ``information`` about curvature and noise, by the Monte Carlo of
``sandwich``, which also predicts errors. ``combination`` combines the sites of one fit and pools them with the public
fit; ``meta_analysis`` combines estimates of several studies and tests whether they agree. ``weighted_moments`` has the
errors of weighted public rows, ``life_tables`` the curves of noisy tables, ``log_rank`` their test. ``draws`` is the
only source of random numbers.
"""

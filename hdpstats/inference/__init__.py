"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise.

``information`` is what is known of the curvature of private likelihoods and of a release's noise, ``sandwich`` makes
standard errors of it by Monte Carlo, and predicts them. ``released_sandwich`` has moments that were released
themselves; ``other_correlations`` says how far errors would go with other correlations of covariates, and
``unlike_people`` between which errors a plan's may lie if private people are unlike public ones.
``combination`` combines the sites of one fit, and ``pooling`` pools them with the public fit;
``meta_analysis`` combines estimates of several studies, with their heterogeneity.
``weighted_moments`` has the errors of weighted public rows, ``life_tables`` the curves of noisy tables, ``log_rank``
the log-rank test of these and of public rows. ``overlap_errors`` has the errors of means of two arms under overlap
weights, by stacked estimating equations, and ``weighted_hazards`` those of hazards. ``draws`` is the only source of
random numbers.
"""

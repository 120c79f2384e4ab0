"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise.

``objective`` reads released coefficients, by the Monte Carlo of ``sandwich`` with what ``information`` knows of the
curvature and ``noise`` of the noise. ``combination`` combines the sites of one fit and pools them with the public fit;
``across_sites`` combines estimates of several studies and tests whether they agree. ``weighted_moments`` has the errors
of weighted public rows, and ``simplex`` projects noisy counts. ``draws`` is the only source of random numbers.
"""

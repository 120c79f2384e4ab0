"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise.

``objective`` reads released coefficients, by the Monte Carlo of ``sandwich`` with what ``information`` knows of the
curvature and ``noise`` of the noise; ``combination`` and ``across_sites`` combine sites, ``pooling`` private and public
sources, and ``heterogeneity`` says whether sites agree. Weights of public rows have a distribution of ``weights``, and
``simplex`` projects noisy counts. ``draws`` is the only source of random numbers.
"""

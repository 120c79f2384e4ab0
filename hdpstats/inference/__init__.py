"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise.

``objective`` reads released coefficients, by the Monte Carlo of ``sandwich`` with what ``information`` knows of the
curvature and ``noise`` of the noise; ``gradient`` reads rounds of clipped scores. ``likelihood`` and
``hazard_likelihood`` fit public rows alone; ``planning`` predicts standard errors before anything is spent. How a model
does is told by ``public_check`` on public rows (``discrimination``, ``follow_up``) and by ``noisy_table`` on private
ones. Weights of public rows have a distribution of ``weights``: that of counts is ``histogram_distribution``, by
the projections of ``simplex``; that of importance weights is ``density_ratio_distribution``.
``estimate`` is what they return, ``draws`` the only source of random numbers.
"""

from hdpstats.records.estimate import ErrorDistribution, Estimate

__all__ = ["ErrorDistribution", "Estimate"]

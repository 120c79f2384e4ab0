"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise.

``objective`` reads a release, by the Monte Carlo of ``sandwich`` with what ``information`` knows of the curvature;
``likelihood`` fits public rows alone; ``planning`` predicts standard errors before anything is spent. ``estimate`` is
what they return, ``draws`` the only source of random numbers.
"""

from hdpstats.inference.estimate import ErrorLaw, Estimate

__all__ = ["ErrorLaw", "Estimate"]

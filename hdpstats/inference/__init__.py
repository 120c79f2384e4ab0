"""From released and public numbers to estimates with standard errors that count sampling *and* privacy noise."""

from hdpstats.inference.estimate import ErrorLaw, Estimate

__all__ = ["ErrorLaw", "Estimate"]

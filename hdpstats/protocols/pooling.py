"""How far apart two sources may be: random effects, as in a meta-analysis (DerSimonian and Laird 1986)."""

import numpy as np

from hdpstats._base.typing import FloatArray

BETWEEN = np.concatenate([[0.0], np.geomspace(1e-4, 30.0, 80)])
"""Candidate values of the between-sources variance, in whitened coordinates."""


def between_variance(difference: FloatArray, covariance: FloatArray) -> float:
    """Return the maximum-likelihood ``tau^2`` of ``difference ~ N(0, covariance + tau^2 I)``."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    square = (vectors.T @ difference) ** 2
    spread = np.maximum(eigenvalues, 1e-12)[None, :] + BETWEEN[:, None]
    likelihood = np.sum(np.log(spread) + square[None, :] / spread, axis=1)
    return float(BETWEEN[int(np.argmin(likelihood))])

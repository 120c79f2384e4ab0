"""Random draws for post-processing: deterministic given a release.

The only place that draws from a numpy generator. Its seed is the SHA-256 of the release (of several sites' releases in
their order; before anything was released, of the query), so that a release has one set of standard errors: in Python,
in R, today and tomorrow. (Errors of a fit are drawn with them by `hdpstats.inference.sandwich`.) These draws protect
nobody; noise that does comes from `hdpstats.noise` only.
"""

import numpy as np
from numpy.random import PCG64, Generator

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BoxNorm, CylinderNorm
from hdpstats.records import codec

__all__ = [
    "Generator",
    "dirichlet",
    "generator",
    "laplace",
    "latin_hypercube",
    "nodes",
    "normal",
    "normals",
    "perturbation",
    "symmetric",
    "through",
]


def generator(*sha256: str) -> Generator:
    """Return the generator (PCG64) that belongs to a release, or to several in their order."""
    seed = sha256[0] if len(sha256) == 1 else codec.sha256(list(sha256))
    return Generator(PCG64(int(seed, 16)))


def nodes() -> Generator:
    """Return the generator whose numbers are nodes of an integral: the same ones whatever was released."""
    return generator(codec.sha256("nodes"))


def latin_hypercube(rng: Generator, rows: int, count: int) -> FloatArray:
    """Return ``count`` points of the unit cube as columns (rows, count): each row has ``(k + 1/2) / count`` once."""
    return np.asarray(rng.permuted(np.tile((np.arange(count) + 0.5) / count, (rows, 1)), axis=1))


def normal(rng: Generator, covariance: FloatArray, count: int) -> FloatArray:
    """Return ``count`` draws (count, D) of a centred normal distribution; a singular covariance is allowed."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    return np.asarray(rng.standard_normal((count, len(covariance))) @ root.T)


def normals(rng: Generator, covariances: FloatArray, *, each: int = 1) -> FloatArray:
    """Return ``each`` draws in turn (B each, D) of B centred normal distributions (B, D, D), singular ones too."""
    count, D = covariances.shape[:2]
    standard = rng.standard_normal((count * each, D))
    try:
        roots: FloatArray = np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
    except np.linalg.LinAlgError:
        eigenvalues, vectors = np.linalg.eigh(covariances)
        roots = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
    return through(roots, standard)


def through(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return products (N, D) of matrices (B, D, D) and vectors (N, D): each matrix's with N / B vectors in turn."""
    turns = vectors.reshape(len(matrices), -1, vectors.shape[1])
    return np.asarray((turns @ np.swapaxes(matrices, 1, 2)).reshape(vectors.shape), dtype=np.float64)


def dirichlet(rng: Generator, rows: int, count: int, *, groups: IntArray | None = None) -> FloatArray:
    """Return weights (count, rows), each row summing to 1: the Bayesian bootstrap (Rubin 1981).

    Rows of a group above 0 (``groups`` (rows,)) have one more exponential factor in common.
    """
    gaps = rng.standard_exponential((count, rows))
    if groups is not None:
        together = rng.standard_exponential((count, int(np.max(groups, initial=0)) + 1))
        together[:, 0] = 1.0
        gaps = gaps * together[:, groups]
    return np.asarray(gaps / gaps.sum(axis=1, keepdims=True))


def perturbation(rng: Generator, distribution: NoiseDistribution | NormalDistribution, *, count: int) -> FloatArray:
    """Return draws (count, D) from the distribution of a mechanism's noise.

    Of density proportional to ``exp(-rate K(b))``: ``r`` times a uniform point of the unit ball of ``K``, with ``r``
    from Gamma(D + 1, 1 / rate).
    """
    if isinstance(distribution, NormalDistribution):
        return np.asarray(distribution.sd * rng.standard_normal((count, distribution.dimension)))
    D, axis = distribution.dimension, isinstance(distribution.norm, CylinderNorm)
    length = rng.gamma(D + 1.0, 1.0 / distribution.rate, count)
    if isinstance(distribution.norm, BoxNorm):
        radii = np.array([float(radius) for radius in distribution.norm.radii])
        return np.asarray(length[:, None] * radii * rng.uniform(-1.0, 1.0, (count, D)))
    d = D - int(axis)
    direction = rng.standard_normal((count, d))
    if d:
        size = float(distribution.norm.radius) * rng.uniform(size=count) ** (1.0 / d)
        direction *= (size / np.linalg.norm(direction, axis=1))[:, None]
    if not axis:
        return np.asarray(length[:, None] * direction)
    return np.asarray(length[:, None] * np.column_stack([rng.uniform(-1.0, 1.0, count), direction]))


def laplace(rng: Generator, dimension: int, *, sd: float, count: int) -> FloatArray:
    """Return draws (count, dimension) of independent two-sided exponential noise of a standard deviation.

    It is the limit of two-sided geometric noise in small units.
    """
    return np.asarray(rng.laplace(scale=sd / np.sqrt(2.0), size=(count, dimension)))


def symmetric(rng: Generator, dimension: int, *, sd: float, count: int) -> FloatArray:
    """Return symmetric noise matrices (count, D, D) whose stacked entries have standard deviation ``sd``."""
    square = rng.standard_normal((count, dimension, dimension)) * (sd / 2.0)
    return np.asarray(square + np.swapaxes(square, 1, 2))

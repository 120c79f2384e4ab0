"""Random draws for post-processing: deterministic given a release.

The only place that draws from a numpy generator. Its seed is the SHA-256 of the release (of several sites' releases in
their order; before anything was released, of the query), so that a release has one set of standard errors: in Python,
in R, today and tomorrow. (Errors of a fit are drawn with them by `hdpstats.inference.sandwich`.) These draws protect
nobody; noise that does comes from `hdpstats.noise` only.

**Draws that are not independent of each other** say as much as more that are. Draws *in opposite pairs* (antithetic
variates) have the distribution of independent ones, and what is linear in them has no error of chance. Draws that are
*matched* are moved linearly, so that their mean is 0 and their covariance the one that they are drawn from: what is
quadratic in them, as a covariance of errors, has no error of chance, and quantiles have less (moment matching; both in
Glasserman 2004, chapter 4).

References
----------
P. Glasserman (2004), Monte Carlo Methods in Financial Engineering.
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
    "matched",
    "nodes",
    "normal",
    "normals",
    "opposite_normals",
    "opposite_uniforms",
    "perturbation",
    "spread",
    "symmetric",
    "through",
]


FEWEST_MATCHED = 8
"""Draws for each coordinate from which draws are matched: with fewer, moving them would change their distribution."""


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
    return spread(covariance, rng.standard_normal((count, len(covariance))))


def spread(covariance: FloatArray, standard: FloatArray) -> FloatArray:
    """Return draws (B, D) of a covariance (D, D) from ones of covariance one; a singular one is allowed.

    Of a matrix that is not positive, but for rounding, the positive part counts.
    """
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.asarray(standard @ (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T)


def normals(covariances: FloatArray, standard: FloatArray) -> FloatArray:
    """Return draws (N, D) of B centred normal distributions (B, D, D), singular ones too: N / B in turn of each.

    ``standard`` (N, D) are standard normal draws.
    """
    try:
        roots: FloatArray = np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
    except np.linalg.LinAlgError:
        eigenvalues, vectors = np.linalg.eigh(covariances)
        roots = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
    return through(roots, standard)


def matched(sample: FloatArray) -> FloatArray:
    """Return draws (N, k), of mean 0 and covariance one but for chance, moved linearly so that they are so exactly.

    A coordinate is moved by those before it. Where there are fewer than `FEWEST_MATCHED` draws for each coordinate they
    are returned as they are.

    Examples
    --------
    >>> found = matched(generator("ab" * 32).standard_normal((400, 3)))
    >>> bool(np.allclose(found.T @ found / 400, np.eye(3))), bool(np.allclose(found.mean(axis=0), 0.0))
    (True, True)
    """
    count, k = sample.shape
    if count < FEWEST_MATCHED * k:
        return sample
    centred = sample - sample.mean(axis=0)
    root = np.linalg.cholesky(centred.T @ centred / count)
    return np.asarray(centred @ np.linalg.inv(root).T)


def opposite_normals(rng: Generator, count: int, columns: int) -> FloatArray:
    """Return standard normal draws (count, columns) in opposite pairs: the second half are the first times -1.

    Of an odd number one has no partner.
    """
    half = rng.standard_normal(((count + 1) // 2, columns))
    return np.asarray(np.concatenate([half, -half])[:count])


def opposite_uniforms(rng: Generator, count: int) -> FloatArray:
    """Return draws (count,) from 0 to 1, one in each of as many equal parts, in opposite pairs ``u`` and ``1 - u``.

    Which one of a pair comes first is drawn too: one without a partner is as likely large as small, and draws at the
    same places of two calls are independent.
    """
    pairs = (count + 1) // 2
    low = (rng.permutation(pairs) + rng.uniform(size=pairs)) / (2 * pairs)
    half = np.where(rng.uniform(size=pairs) < 0.5, low, 1.0 - low)
    return np.asarray(np.concatenate([half, 1.0 - half])[:count])


def through(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return products (N, D) of matrices (B, D, D) and vectors (N, D): each matrix's with N / B vectors in turn."""
    turns = vectors.reshape(len(matrices), -1, vectors.shape[1])
    return np.asarray((turns @ np.swapaxes(matrices, 1, 2)).reshape(vectors.shape), dtype=np.float64)


def dirichlet(
    rng: Generator, rows: int, count: int, *, groups: IntArray | None = None, opposite: bool = False
) -> FloatArray:
    """Return weights (count, rows), each row summing to 1: the Bayesian bootstrap (Rubin 1981).

    Rows of a group above 0 (``groups`` (rows,)) have one more exponential factor in common. With ``opposite`` draws are
    in opposite pairs: a row that weighs much in one weighs little in the other.
    """
    gaps = _exponentials(rng, count, rows, opposite=opposite)
    if groups is not None:
        together = _exponentials(rng, count, int(np.max(groups, initial=0)) + 1, opposite=opposite)
        together[:, 0] = 1.0
        gaps = gaps * together[:, groups]
    return np.asarray(gaps / gaps.sum(axis=1, keepdims=True))


def _exponentials(rng: Generator, count: int, columns: int, *, opposite: bool) -> FloatArray:
    """Return standard exponential draws (count, columns); of an opposite pair ``exp(-x) + exp(-y) = 1``."""
    if not opposite:
        return rng.standard_exponential((count, columns))
    half = np.maximum(rng.standard_exponential(((count + 1) // 2, columns)), np.finfo(float).tiny)
    return np.asarray(np.concatenate([half, -np.log(-np.expm1(-half))])[:count])


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

r"""Parameters of an exponential family with their uncertainty, from released sums of statistics or of estimates.

Sampling has the covariance :math:`I(\theta)^{-1} / n` of maximum likelihood, at the released parameters: the records
are taken to follow the family. The noise has the exact law of the mechanism, :math:`\propto e^{-\rho K(b)}` in the norm
of a box; on means of statistics it reaches the parameters through the derivative of the inverse mean map,
:math:`d\theta/d\tau = (d\tau/d\theta)^{-1}`. Intervals are quantiles of the sum of both, drawn from the release's own
generator.

For standard errors alone, parameters at the edge of their ranges are moved inwards by ``1 / (n + 2)`` of the ranges:
the information of a probability of 0 is infinite.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.estimate import ErrorLaw, Estimate
from hdpstats.losses.families import Family, Interval
from hdpstats.mechanisms.knorm import NoiseLaw
from hdpstats.mechanisms.statistics import out_of_units
from hdpstats.privacy.sensitivity import BoxNorm
from hdpstats.queries.statistics import UNITS, StatisticsRelease
from hdpstats.queries.subsample import SubsampleRelease

DRAWS = 20_000
FEWEST_TOLD = 3.0
"""Of blocks of so few values nothing better is told than three times the variance."""

NOTE = "Standard errors take the records to follow the family: its information at the estimate, plus the noise."
AT_THE_EDGE = "An estimate lies at the edge of its range: the ranges may be too narrow, or the noise too large."


def from_statistics(family: Family, release: StatisticsRelease, *, ranges: Sequence[Interval]) -> Estimate:
    """Return maximum likelihood at the released means of statistics, projected on the ranges of the parameters."""
    tau = out_of_units(release.units, family.box, count=release.records)
    theta = projected(family.solve(tau[None])[0], ranges)
    place = inside(theta, ranges, records=release.records)
    law = noise_law(family.box, rate=release.noise_rate, count=release.records)
    through = np.asarray(np.linalg.inv(family.slope(place)), dtype=np.float64)
    return _estimate(family, theta, place, law, through, sha256=release.sha256, records=release.records, ranges=ranges)


def from_blocks(
    family: Family, release: SubsampleRelease, *, box: Sequence[Interval], ranges: Sequence[Interval]
) -> Estimate:
    """Return the released mean of the estimates of blocks, which were projected on ``box``.

    The variance of sampling is multiplied by ``t / (t - 2)``, ``t`` being the size of a block: what blocks lose against
    one estimate, exactly so for the rate of an exponential law.
    """
    theta = projected(out_of_units(release.units, box, count=release.blocks), ranges)
    place = inside(theta, ranges, records=release.records)
    law = noise_law(box, rate=release.noise_rate, count=release.blocks)
    through, size = np.eye(len(theta)), release.records / release.blocks
    loss = size / (size - 2.0) if size > FEWEST_TOLD else FEWEST_TOLD
    return _estimate(
        family, theta, place, law, through, sha256=release.sha256, records=release.records, ranges=box, loss=loss
    )


def noise_law(box: Sequence[Interval], *, rate: float, count: int) -> NoiseLaw:
    """Return the law of the noise of means over ``count`` people or blocks, of numbers in a box."""
    radii = tuple(Fraction(high - low) / (UNITS * count) for low, high in box)
    return NoiseLaw(norm=BoxNorm(radii=radii), dimension=len(radii), rate=rate)


def projected(theta: FloatArray, ranges: Sequence[Interval]) -> FloatArray:
    """Return parameters (d,) within their ranges."""
    lower, upper = np.array(ranges, dtype=np.float64).T
    return np.asarray(np.clip(theta, lower, upper))


def inside(theta: FloatArray, ranges: Sequence[Interval], *, records: int) -> FloatArray:
    """Return parameters (d,) at least ``1 / (records + 2)`` of their ranges away from the edges."""
    lower, upper = np.array(ranges, dtype=np.float64).T
    margin = (upper - lower) / (records + 2.0)
    return np.asarray(np.clip(theta, lower + margin, upper - margin))


def sampling_covariance(family: Family, theta: FloatArray, *, records: int) -> FloatArray:
    """Return ``I(theta)^-1 / n`` (d, d)."""
    return np.asarray(np.linalg.inv(family.information(theta)) / records)


def likelihood(family: Family, x: FloatArray, *, label: str) -> Estimate:
    """Return the ordinary maximum likelihood estimate from public numbers (n,).

    Its covariance is NaN where the numbers tell none, such as where all of them are equal.
    """
    theta = family.solve(family.statistics(x).mean(axis=0)[None])[0]
    d = len(theta)
    with np.errstate(all="ignore"):
        information = family.information(theta)
    known = bool(np.isfinite(information).all()) and np.linalg.matrix_rank(information) == d
    sampling = np.linalg.inv(information) / len(x) if known else np.full((d, d), np.nan)
    return Estimate(
        label=label, terms=family.parameters, values=theta, sampling=sampling, privacy=np.zeros((d, d)), law=None
    )


def _estimate(
    family: Family,
    theta: FloatArray,
    place: FloatArray,
    law: NoiseLaw,
    through: FloatArray,
    *,
    sha256: str,
    records: int,
    ranges: Sequence[Interval],
    loss: float = 1.0,
) -> Estimate:
    """Return an estimate whose error is sampling at ``place`` plus noise of a law, mapped by ``through`` (d, d)."""
    sampling = loss * sampling_covariance(family, place, records=records)
    rng = draws.generator(sha256)
    errors = draws.normal(rng, sampling, DRAWS) + draws.perturbation(rng, law, count=DRAWS) @ through.T
    edges = np.array(ranges, dtype=np.float64).T
    return Estimate(
        label="private only",
        terms=family.parameters,
        values=theta,
        sampling=sampling,
        privacy=np.asarray((through * law.variance) @ through.T),
        law=ErrorLaw.of_draws(errors),
        note=f"{NOTE} {AT_THE_EDGE}" if bool(((theta <= edges[0]) | (theta >= edges[1])).any()) else NOTE,
    )

r"""Parameters of an exponential family with their uncertainty, from released sums of statistics or of estimates.

**Several sites.** Site ``j`` of :math:`n_j` people released a mean :math:`\bar T_j` of statistics, whose noise has the
variance :math:`N_j`; both numbers are public. Means are combined by inverse variance
(`hdpstats.inference.meta_analysis`),

.. math:: \hat\tau = \sum_j W_j \bar T_j, \qquad
   W_j = \Bigl( \sum_i V_i^{-1} \Bigr)^{-1} V_j^{-1}, \qquad V_j = \Sigma_T(\hat\theta) / n_j + N_j,

and :math:`\hat\theta` is maximum likelihood at :math:`\hat\tau`: one inversion, whose bias is that of all the people
and all the noise together, where a mean of the sites' estimates would keep the bias of each. The estimates of blocks
are combined likewise, with :math:`V_j = c_j I(\hat\theta)^{-1} / n_j + N_j`, where :math:`c_j` is what blocks lose.
Sites of one size and one epsilon get equal weights, as in the paper, which knows no others. No weight depends on
anything but public facts and released numbers.

Sampling has the covariance :math:`I(\theta)^{-1} / n` of maximum likelihood, at the released parameters: the records
are taken to follow the family. The noise has the exact distribution of the mechanism, :math:`\propto e^{-\rho K(b)}` in
the norm of a box; on means of statistics it reaches the parameters through the derivative of the inverse mean map,
:math:`d\theta/d\tau = (d\tau/d\theta)^{-1}`. Intervals are quantiles of the sum of both, drawn from the release's own
generator.

Where the number of people who count is noisy, with a standard deviation of :math:`s_j`, a mean of statistics errs by
:math:`(\bar T_j - l) s_j / n_j` besides, in all coordinates together, ``l`` being the lower ends of the statistics:
that is counted as noise, and drawn.

For standard errors alone, parameters at the edge of their ranges are moved inwards by ``1 / (n + 2)`` of the ranges:
the information of a probability of 0 is infinite.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.combination import scalar_weight, shares
from hdpstats.inference.meta_analysis import heterogeneity
from hdpstats.losses.families import Family, Interval
from hdpstats.mechanisms.statistics import (
    UNITS,
    StatisticsQuery,
    StatisticsRelease,
    out_of_units,
)
from hdpstats.mechanisms.subsample import SubsampleQuery, SubsampleRelease
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.sensitivity import BoxNorm
from hdpstats.records.estimate import ErrorDistribution, Estimate, Estimates, SiteEstimate

DRAWS, DRAWS_COMPARED = 20_000, 4_000
"""Of errors; the first of them show how far apart sites may be by chance."""

STEPS = 3
"""How often sites are weighted: once without knowing how much values vary, then at what that gave."""

FEWEST_TOLD = 3.0
"""Of blocks of so few values nothing better is known than three times the variance."""

NOTE = "Standard errors take the records to follow the family: its information at the estimate, plus the noise."
AT_THE_EDGE = "An estimate lies at the edge of its range: the ranges may be too narrow, or the noise too large."


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Answer:
    """What a site released, ``sha256``: values (d,) with noise of a distribution, from so many people.

    ``counting`` (d,) is what the noise in that number moves the values by. `loss_of_blocks` says what ``loss`` is;
    parameters beyond ``edges`` were projected on them.
    """

    values: FloatArray
    distribution: NoiseDistribution
    counting: FloatArray
    records: int
    loss: float
    sha256: str
    edges: Sequence[Interval]

    @property
    def noise(self) -> FloatArray:
        """The covariance (d, d) of what privacy adds to the values."""
        return np.asarray(np.diag(self.distribution.variance) + np.outer(self.counting, self.counting))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Reading:
    """How released values become parameters.

    ``start`` (d, d) is a first guess of the ``spread`` that the values of one person have at given parameters;
    ``through`` is the derivative (d, d) of ``solve`` there.
    """

    family: Family
    ranges: Sequence[Interval]
    start: FloatArray
    spread: Callable[[FloatArray], FloatArray]
    solve: Callable[[FloatArray], FloatArray]
    through: Callable[[FloatArray], FloatArray]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Found:
    """Parameters, the derivative by released values at them, weights (k, d, d) and covariances (k, d, d) of sites."""

    theta: FloatArray
    through: FloatArray
    weights: FloatArray
    sampling: FloatArray
    noise: FloatArray


def from_statistics(
    family: Family,
    _: Sequence[StatisticsQuery],
    releases: Sequence[StatisticsRelease],
    *,
    people: Sequence[tuple[int, float]],
    ranges: Sequence[Interval],
    sha256: str,
) -> Estimates:
    """Return maximum likelihood at the combined means of statistics, projected on the ranges of the parameters.

    ``releases`` are those of the sites, of so many ``people`` each, with the standard deviation of the noise in that
    number; ``sha256`` names all of them, and seeds what is drawn.
    """
    answers = []
    for each, (number, sd) in zip(releases, people, strict=True):
        values = out_of_units(each.units, family.box, count=number)
        answers.append(
            _Answer(
                values=values,
                distribution=noise_distribution(family.box, rate=each.noise_rate, count=number),
                counting=by_counting(family, values, relative_sd=sd / number),
                records=number,
                loss=1.0,
                sha256=each.sha256,
                edges=ranges,
            )
        )
    reading = _Reading(
        family=family,
        ranges=ranges,
        start=_uniform(family.box),
        spread=partial(spread_of_statistics, family),
        solve=lambda tau: family.solve(tau[None])[0],
        through=lambda theta: np.asarray(np.linalg.inv(family.slope(theta))),
    )
    return _estimates(reading, answers, sha256=sha256)


def from_blocks(
    family: Family,
    queries: Sequence[SubsampleQuery],
    releases: Sequence[SubsampleRelease],
    *,
    people: Sequence[tuple[int, float]],
    ranges: Sequence[Interval],
    sha256: str,
) -> Estimates:
    """Return the combined means of the estimates of blocks, which each site projected on a box of its own.

    ``people`` are the sites' numbers of people; an error of them is among the reported errors, and changes no estimate.
    The variance of sampling is multiplied by ``t / (t - 2)``, ``t`` being the size of a block: what blocks lose against
    one estimate, exactly so for the rate of an exponential distribution.
    """
    answers = [
        _Answer(
            values=out_of_units(each.units, query.box, count=each.blocks),
            distribution=noise_distribution(query.box, rate=each.noise_rate, count=each.blocks),
            counting=np.zeros(len(query.box)),
            records=number,
            loss=loss_of_blocks(number / each.blocks),
            sha256=each.sha256,
            edges=query.box,
        )
        for query, each, (number, _) in zip(queries, releases, people, strict=True)
    ]
    reading = _Reading(
        family=family,
        ranges=ranges,
        start=_uniform(ranges),
        spread=lambda theta: np.asarray(np.linalg.inv(family.information(theta))),
        solve=lambda theta: theta,
        through=lambda theta: np.eye(len(theta)),
    )
    return _estimates(reading, answers, sha256=sha256)


def loss_of_blocks(size: float) -> float:
    """Return by how much blocks of a size multiply the variance of sampling."""
    return size / (size - 2.0) if size > FEWEST_TOLD else FEWEST_TOLD


def by_counting(family: Family, values: FloatArray, *, relative_sd: float) -> FloatArray:
    """Return how far means of statistics (d,) are off by one standard deviation of the number of people."""
    lower = np.array([low for low, _ in family.box])
    return np.asarray((values - lower) * relative_sd)


def noise_distribution(box: Sequence[Interval], *, rate: float, count: int) -> NoiseDistribution:
    """Return the distribution of the noise of means over ``count`` people or blocks, of numbers in a box."""
    radii = tuple(Fraction(high - low) / (UNITS * count) for low, high in box)
    return NoiseDistribution(norm=BoxNorm(radii=radii), dimension=len(radii), rate=rate)


def projected(theta: FloatArray, ranges: Sequence[Interval]) -> FloatArray:
    """Return parameters (d,) within their ranges."""
    lower, upper = np.array(ranges, dtype=np.float64).T
    return np.asarray(np.clip(theta, lower, upper))


def inside(theta: FloatArray, ranges: Sequence[Interval], *, records: int) -> FloatArray:
    """Return parameters (d,) at least ``1 / (records + 2)`` of their ranges away from the edges."""
    lower, upper = np.array(ranges, dtype=np.float64).T
    margin = (upper - lower) / (records + 2.0)
    return np.asarray(np.clip(theta, lower + margin, upper - margin))


def spread_of_statistics(family: Family, theta: FloatArray) -> FloatArray:
    r"""Return the covariance (d, d) of the statistics of one value: :math:`\tau' I^{-1} \tau'^T`."""
    slope = family.slope(theta)
    return np.asarray(slope @ np.linalg.inv(family.information(theta)) @ slope.T)


def likelihood(family: Family, x: FloatArray, *, label: str) -> Estimate:
    """Return the ordinary maximum likelihood estimate from public numbers (n,).

    Its covariance is NaN where the numbers give none, such as where all of them are equal.
    """
    theta = family.solve(family.statistics(x).mean(axis=0)[None])[0]
    d = len(theta)
    with np.errstate(all="ignore"):
        information = family.information(theta)
    known = bool(np.isfinite(information).all()) and np.linalg.matrix_rank(information) == d
    sampling = np.linalg.inv(information) / len(x) if known else np.full((d, d), np.nan)
    return Estimate(
        label=label,
        terms=family.parameters,
        values=theta,
        sampling=sampling,
        privacy=np.zeros((d, d)),
        distribution=None,
    )


def _combine(reading: _Reading, answers: Sequence[_Answer]) -> _Found:
    """Weight sites by inverse variance, with the spread of one value at ``start`` and then at what that gives."""
    values = np.array([each.values for each in answers])
    parts = np.array([each.loss / each.records for each in answers])[:, None, None]
    noise = np.array([each.noise for each in answers])
    people = sum(each.records for each in answers)
    spread = reading.start
    for _ in range(STEPS):
        weights = shares(parts * spread + noise)
        theta = projected(reading.solve(np.einsum("kij,kj->i", weights, values)), reading.ranges)
        place = inside(theta, reading.ranges, records=people)
        spread = reading.spread(place)
    return _Found(theta=theta, through=reading.through(place), weights=weights, sampling=parts * spread, noise=noise)


def _uniform(box: Sequence[Interval]) -> FloatArray:
    """Return the covariance (d, d) of independent uniform numbers in a box."""
    return np.diag([(high - low) ** 2 / 12.0 for low, high in box])


def _summed(weights: FloatArray, covariances: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("kij,kjl,kml->im", weights, covariances, weights))


def _estimates(reading: _Reading, answers: Sequence[_Answer], *, sha256: str) -> Estimates:
    """Return the estimate of all sites, each site's own, and whether they agree."""
    found = _combine(reading, answers)
    errors = _errors(found, answers, draws.generator(sha256))
    private = _estimate(reading, answers, found, errors)
    alone = [private] if len(answers) == 1 else [_alone(reading, each) for each in answers]
    agree = None
    if len(answers) > 1:
        values, variances = np.array([each.values for each in answers]), list(found.sampling + found.noise)
        agree = heterogeneity(values, variances, errors[:, :DRAWS_COMPARED], T=found.through)
    sites = (
        SiteEstimate(estimate=estimate, weight=scalar_weight(weight))
        for estimate, weight in zip(alone, found.weights, strict=True)
    )
    return Estimates(penalised=None, private_only=private, pooled=None, sites=tuple(sites), heterogeneity=agree)


def _alone(reading: _Reading, answer: _Answer) -> Estimate:
    """Return the estimate that a fit to one site alone gives."""
    return _estimates(reading, [answer], sha256=answer.sha256).private_only


def _errors(found: _Found, answers: Sequence[_Answer], rng: draws.Generator) -> FloatArray:
    """Return draws of the errors of released values (k, B, d): sampling, and noise of its exact distribution."""
    errors = np.array(
        [
            draws.normal(rng, sampling, DRAWS) + draws.perturbation(rng, answer.distribution, count=DRAWS)
            for sampling, answer in zip(found.sampling, answers, strict=True)
        ]
    )
    for error, answer in zip(errors, answers, strict=True):
        if answer.counting.any():
            error += rng.standard_normal(DRAWS)[:, None] * answer.counting
    return errors


def _estimate(reading: _Reading, answers: Sequence[_Answer], found: _Found, errors: FloatArray) -> Estimate:
    """Return the combined estimate, whose error is the sites', weighted and mapped by the derivative."""
    weights = found.through @ found.weights
    lower, upper = np.moveaxis(np.array([each.edges for each in answers], dtype=np.float64), -1, 0)
    at_the_edge = bool(((found.theta <= lower) | (found.theta >= upper)).any())
    return Estimate(
        label="private only",
        terms=reading.family.parameters,
        values=found.theta,
        sampling=_summed(weights, found.sampling),
        privacy=_summed(weights, found.noise),
        distribution=ErrorDistribution.of_draws(np.einsum("kij,kbj->bi", weights, errors)),
        note=f"{NOTE} {AT_THE_EDGE}" if at_the_edge else NOTE,
    )

r"""The query of objective perturbation for a hazard model: geometry, cap, centre and ridge, all from public facts.

**With public people.** Whitened by them, centred at the public fit, capped relative to it: the loss of an interval
saturates at ``e^d`` times the odds (the cumulative hazard, for cloglog) that the public fit predicts, and follow-up
ends before a person's caps add up to more than ``H``. Radius ``R``, total ``H`` and margin ``d`` minimise the
determinant of the coefficients' predicted covariance, pooled with the public fit. (A sum of variances would depend on
the coordinates: it is that of the baseline where follow-up hardly reaches, which no choice here can improve.) The ridge
is the larger of two: one that leaves 97 % of the noise that a free determinant would (`hdpstats.privacy.hazard`), and
0.3 times the ridge of least mean squared error given the public fit.

**Without.** The schema's box, a flat cap ``h = H / q`` with ``H = 4`` unless it is declared, centred at the constant
hazard under which half of the people have the event by the horizon.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats.losses import LINKS
from hdpstats.mechanisms.person_loss.hazard import HazardPersonLoss
from hdpstats.mechanisms.perturbation.request import NEARLY_FREE, PULL, Asked, Recommended
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.hazard import hazard_noise
from hdpstats.privacy.sensitivity import BallNorm, Relation
from hdpstats.public.hazard import HazardSide, relative_cap
from hdpstats.public.hazard_fit import Baseline
from hdpstats.records.geometry import Geometry, at_radius
from hdpstats.records.model import HazardCap
from hdpstats.records.query import LEAST_SMOOTHING

FLAT_TOTAL = 4.0
"""The largest sum of caps of one person where there is no public fit."""

TOTALS = (1.0, 1.3, 1.8, 2.5)
MARGINS = (0.3, 0.7, 1.2)
REACHES = (0.4, 0.6, 0.8, 1.0, 1.3)
"""Candidates: totals, margins, and radii relative to the median length of a whitened public row."""

SEARCHED = 300
"""Public people that the search looks at."""

ARBITRARY = 0.85
"""The same where there is no public fit to pull to."""


def choose_loss(
    person_loss: HazardPersonLoss,
    side: HazardSide,
    sites: Sequence[Asked],
    *,
    total: float | None,
    share: Fraction,
    relation: Relation,
) -> HazardPersonLoss:
    """Return the loss of one person, in the geometry and under the cap that all sites have.

    Parameters
    ----------
    person_loss
        One person's loss, in any geometry and under any cap.
    side
        The public people.
    sites
        What each site is asked.
    total
        A declared ``H``; None leaves it to the search.
    share
        The share of each epsilon that is for something else.
    relation
        Who is a neighbour of whom.
    """
    largest = max(sites, key=lambda each: each.records * each.epsilon)
    epsilon = float(largest.epsilon * (1 - share) * (1 - LEAST_SMOOTHING))
    return best_loss(person_loss, side, total=total, records=largest.records, epsilon=epsilon, relation=relation)


def choose_ridge(
    person_loss: HazardPersonLoss, side: HazardSide, *, records: int, epsilon: Fraction, relation: Relation
) -> Recommended:
    """Return what is recommended to one site that spends ``epsilon`` on objective and smoothing."""
    share, n = epsilon * (1 - LEAST_SMOOTHING), max(records, 1)
    free = free_ridge(person_loss, epsilon=share, share=NEARLY_FREE, relation=relation)
    noise = noise_distribution(person_loss, epsilon=NEARLY_FREE * float(share), relation=relation).variance
    model = person_loss.model
    level = float(np.mean(np.diag(side.at(model.geometry, model.cap).moments(side.centre, records=n).H)))
    pull = PULL * (1.0 + float(np.mean(noise)) / level) * float(np.mean(np.diag(side.fit.information)))
    return Recommended(centre=side.centre, ridge=max(free, pull))


def flat_cap(link: str, *, total: float | None, intervals: int, causes: int, covariates: int) -> HazardCap:
    """Return the same cap for every interval; together they are a declared total, or `FLAT_TOTAL`."""
    whole = FLAT_TOTAL if total is None else total
    level = LINKS[link].at_scale(whole / (intervals * causes))
    return HazardCap(
        total=whole * (1.0 + 2.0**-40),
        margin=0.0,
        baseline=((level,) * intervals,) * causes,
        slopes=((0.0,) * covariates,) * causes,
    )


def choose_flat(
    person_loss: HazardPersonLoss, baseline: Baseline, *, epsilon: Fraction, relation: Relation
) -> Recommended:
    """Return what is recommended for a loss under a flat cap, where there is no public fit."""
    model = person_loss.model
    half = -math.expm1(math.log(0.5) / (model.grid.intervals * model.causes))
    level = float(person_loss.loss.predictor(np.array(half)))
    block = np.concatenate(
        [level * np.linalg.solve(baseline.mixing, baseline.constant), np.zeros(len(model.geometry.location))]
    )
    ridge = free_ridge(person_loss, epsilon=epsilon * (1 - LEAST_SMOOTHING), share=ARBITRARY, relation=relation)
    return Recommended(centre=np.tile(block, model.causes), ridge=ridge)


def capped(person_loss: HazardPersonLoss, geometry: Geometry, cap: HazardCap) -> HazardPersonLoss:
    """Return a person's loss in another geometry and under another cap."""
    return replace(person_loss, model=replace(person_loss.model, geometry=geometry, cap=cap))


def best_loss(
    person_loss: HazardPersonLoss,
    side: HazardSide,
    *,
    total: float | None,
    records: int,
    epsilon: float,
    relation: Relation,
) -> HazardPersonLoss:
    """Return the loss with the radius and the cap that predict the smallest covariance."""
    few = side.thinned(SEARCHED)
    norms = np.linalg.norm(side.spells.Z, axis=1)
    middle = max(float(np.median(norms)), 1e-3) if norms.size else 1.0
    radii = [max(middle * reach, 0.05) for reach in REACHES] if side.spells.Z.shape[1] else [1.0]
    candidates = [
        capped(person_loss, at_radius(side.geometry, radius), relative_cap(side, total=each, margin=margin))
        for each in (TOTALS if total is None else (total,))
        for margin in MARGINS
        for radius in radii
    ]
    return min(
        candidates,
        key=lambda each: predicted_volume(each, few, records=records, epsilon=epsilon, relation=relation),
    )


def predicted_volume(
    person_loss: HazardPersonLoss, side: HazardSide, *, records: int, epsilon: float, relation: Relation
) -> float:
    """Return the log determinant of the coefficients' predicted covariance, pooled with the public fit."""
    distribution = noise_distribution(person_loss, epsilon=NEARLY_FREE * epsilon, relation=relation)
    model = person_loss.model
    at = side.at(model.geometry, model.cap).moments(side.centre, records=max(records, 1))
    inverse = np.linalg.inv(at.H + 1e-9 * np.trace(at.H) * np.eye(side.dimension))
    private = inverse @ (at.J + np.diag(distribution.variance)) @ inverse
    pooled = np.linalg.inv(np.linalg.inv(private) + np.linalg.inv(side.fit.covariance))
    return float(np.linalg.slogdet(pooled)[1])


def noise_distribution(person_loss: HazardPersonLoss, *, epsilon: float, relation: Relation) -> NoiseDistribution:
    """Return the distribution of noise that spends ``epsilon`` on gradients alone."""
    rate = epsilon / (relation.persons_changed * person_loss.bounds.gradient_bound * person_loss.largest_weight)
    return NoiseDistribution(norm=BallNorm(), dimension=person_loss.dimension, rate=rate)


def free_ridge(person_loss: HazardPersonLoss, *, epsilon: Fraction, share: float, relation: Relation) -> float:
    """Return the smallest ridge (to a hundredth) that leaves ``share`` of the noise of a free determinant."""
    bounds = person_loss.bounds

    def rate(ridge: float) -> float:
        """Return the rate of noise (times the largest weight) at a ridge per unit of weight, 0 where there is none."""
        try:
            return float(hazard_noise(bounds, epsilon=epsilon, curvature=1 / Fraction(ridge), relation=relation))
        except MechanismError:
            return 0.0

    whole = float(epsilon) / (relation.persons_changed * bounds.gradient_bound)
    low, high = 0.0, 1e6 * bounds.trace / float(epsilon)
    while high > 1.01 * max(low, 1e-12 * high):
        middle = math.sqrt(low * high) if low > 0 else high / 4.0
        low, high = (low, middle) if rate(middle) >= share * whole else (middle, high)
    return high * person_loss.largest_weight

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
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats.formulas.geometry import at_radius
from hdpstats.losses import LINKS
from hdpstats.mechanisms.objective.request import PULL
from hdpstats.mechanisms.objective.site import SMOOTHING_SHARE
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.hazard import HazardBounds, hazard_bounds, hazard_noise
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm
from hdpstats.public.hazard import HazardSide, relative_cap
from hdpstats.public.hazard_fit import Baseline
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import HazardCap, HazardModel
from hdpstats.records.timegrid import TimeGrid

FLAT_TOTAL = 4.0
"""The largest sum of caps of one person where there is no public fit."""

TOTALS = (1.0, 1.3, 1.8, 2.5)
MARGINS = (0.3, 0.7, 1.2)
REACHES = (0.4, 0.6, 0.8, 1.0, 1.3)
"""Candidates: totals, margins, and radii relative to the median length of a whitened public row."""

SEARCHED = 300
"""Public people that the search looks at."""

NEARLY_FREE = 0.97
"""Share of the noise of a free determinant that the ridge leaves."""

ARBITRARY = 0.85
"""The same where there is no public fit to pull to."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardAsk:
    """What a hazard query needs besides the public side.

    Attributes
    ----------
    formula, link : str
        The model.
    grid : TimeGrid
        The intervals.
    causes : int
        How many kinds of event there are.
    weights, offset : str or None
        Columns of the schema.
    largest_weight : float
        The declared bound of a case weight.
    time_varying : bool
        Whether a person's covariates may vary.
    total : float or None
        A declared ``H``; None leaves it to the search, or to `FLAT_TOTAL`.
    relation : Relation
        Who is a neighbour of whom.
    """

    formula: str
    link: str
    grid: TimeGrid
    causes: int
    weights: str | None
    offset: str | None
    largest_weight: float
    time_varying: bool
    total: float | None
    relation: Relation

    def bounds(self, model: HazardModel) -> HazardBounds:
        """Return the constants of one person of weight 1."""
        loss = LINKS[self.link]
        return hazard_bounds(
            total=model.cap.total,
            radius=model.geometry.radius,
            leverage=model.geometry.leverage,
            causes=self.causes,
            time_varying=self.time_varying,
            smoothness=None if loss.coupled else (float(loss.survived_smoothness), float(loss.event_smoothness)),
        )

    def model(self, baseline: Baseline, geometry: Geometry, cap: HazardCap) -> HazardModel:
        """Return the model with a geometry and a cap."""
        return HazardModel(
            formula=self.formula,
            link=self.link,
            grid=self.grid,
            baseline=tuple(tuple(row) for row in baseline.mixed.tolist()),
            geometry=geometry,
            cap=cap,
            weights=self.weights,
            offset=self.offset,
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardChoice:
    """What the public facts recommend: the model with geometry and cap, the centre, the ridge."""

    model: HazardModel
    centre: tuple[float, ...]
    ridge: Fraction


def choose_from_public(ask: HazardAsk, side: HazardSide, *, records: int, epsilon: Fraction) -> HazardChoice:
    """Return model, centre and ridge of one fit that spends ``epsilon`` on objective and smoothing."""
    share = epsilon * (1 - SMOOTHING_SHARE)
    model = best_model(ask, side, records=records, epsilon=float(share))
    bounds, n = ask.bounds(model), max(records, 1)
    free = free_ridge(ask, bounds, epsilon=share, share=NEARLY_FREE)
    noise = noise_distribution(ask, bounds, dimension=side.dimension, epsilon=NEARLY_FREE * float(share)).variance
    level = float(np.mean(np.diag(side.at(model.geometry, model.cap).moments(side.centre, records=n).H)))
    pull = PULL * (1.0 + float(np.mean(noise)) / level) * float(np.mean(np.diag(side.fit.information)))
    return HazardChoice(model=model, centre=tuple(side.centre.tolist()), ridge=Fraction(max(free, pull)))


def choose_flat(ask: HazardAsk, baseline: Baseline, geometry: Geometry, *, epsilon: Fraction) -> HazardChoice:
    """Return model, centre and ridge where there is no public fit."""
    q, p, loss = ask.grid.intervals, len(geometry.location), LINKS[ask.link]
    total = FLAT_TOTAL if ask.total is None else ask.total
    cap = HazardCap(
        total=total * (1.0 + 2.0**-40),
        margin=0.0,
        baseline=((_at_scale(ask.link, total / (q * ask.causes)),) * q,) * ask.causes,
        slopes=((0.0,) * p,) * ask.causes,
    )
    model = ask.model(baseline, geometry, cap)
    half = -math.expm1(math.log(0.5) / (q * ask.causes))
    level = float(loss.predictor(np.array(half)))
    block = np.concatenate([level * np.linalg.solve(baseline.mixing, baseline.constant), np.zeros(p)])
    ridge = free_ridge(ask, ask.bounds(model), epsilon=epsilon * (1 - SMOOTHING_SHARE), share=ARBITRARY)
    return HazardChoice(model=model, centre=tuple(np.tile(block, ask.causes).tolist()), ridge=Fraction(ridge))


def best_model(ask: HazardAsk, side: HazardSide, *, records: int, epsilon: float) -> HazardModel:
    """Return the model with the radius and the cap that predict the smallest covariance."""
    few = side.thinned(SEARCHED)
    norms = np.linalg.norm(side.spells.Z, axis=1)
    middle = max(float(np.median(norms)), 1e-3) if norms.size else 1.0
    radii = [max(middle * reach, 0.05) for reach in REACHES] if side.spells.Z.shape[1] else [1.0]
    totals = TOTALS if ask.total is None else (ask.total,)
    candidates = [
        ask.model(side.baseline, at_radius(side.geometry, radius), relative_cap(side, total=total, margin=margin))
        for total in totals
        for margin in MARGINS
        for radius in radii
    ]
    return min(candidates, key=lambda each: predicted_volume(ask, few, each, records=records, epsilon=epsilon))


def predicted_volume(ask: HazardAsk, side: HazardSide, model: HazardModel, *, records: int, epsilon: float) -> float:
    """Return the log determinant of the coefficients' predicted covariance, pooled with the public fit."""
    bounds = ask.bounds(model)
    distribution = noise_distribution(ask, bounds, dimension=side.dimension, epsilon=NEARLY_FREE * epsilon)
    at = side.at(model.geometry, model.cap).moments(side.centre, records=max(records, 1))
    inverse = np.linalg.inv(at.H + 1e-9 * np.trace(at.H) * np.eye(side.dimension))
    private = inverse @ (at.J + np.diag(distribution.variance)) @ inverse
    pooled = np.linalg.inv(np.linalg.inv(private) + np.linalg.inv(side.fit.covariance))
    return float(np.linalg.slogdet(pooled)[1])


def noise_distribution(ask: HazardAsk, bounds: HazardBounds, *, dimension: int, epsilon: float) -> NoiseDistribution:
    """Return the distribution of noise that spends ``epsilon`` on gradients alone."""
    rate = epsilon / (sensitivity_factor(ask.relation) * bounds.reach * ask.largest_weight)
    return NoiseDistribution(norm=BallNorm(), dimension=dimension, rate=rate)


def free_ridge(ask: HazardAsk, bounds: HazardBounds, *, epsilon: Fraction, share: float) -> float:
    """Return the smallest ridge (to a hundredth) that leaves ``share`` of the noise of a free determinant."""
    whole = float(epsilon) / (sensitivity_factor(ask.relation) * bounds.reach)
    low, high = 0.0, 1e6 * bounds.trace / float(epsilon)
    while high > 1.01 * max(low, 1e-12 * high):
        middle = math.sqrt(low * high) if low > 0 else high / 4.0
        if _noise(ask, bounds, epsilon=epsilon, ridge=middle) >= share * whole:
            high = middle
        else:
            low = middle
    return high * ask.largest_weight


def _noise(ask: HazardAsk, bounds: HazardBounds, *, epsilon: Fraction, ridge: float) -> float:
    """Return the rate of noise (times the largest weight) at a ridge per unit of weight, 0 where there is none."""
    try:
        return float(hazard_noise(bounds, epsilon=epsilon, curvature=1 / Fraction(ridge), relation=ask.relation))
    except MechanismError:
        return 0.0


def _at_scale(link: str, scale: float) -> float:
    """Return the linear predictor at which the link's scale has a value."""
    return float(LINKS[link].predictor(np.array(scale / (1.0 + scale)))) if link == "probit" else math.log(scale)

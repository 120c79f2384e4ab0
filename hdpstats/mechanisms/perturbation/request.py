r"""The queries of objective and output perturbation: geometry, centre, ridge and kind of noise, all from public facts.

Geometry and centre are the same for both. What follows is for regressions; hazards have their own
(`hdpstats.mechanisms.perturbation.hazard_request`).

**With public rows.** Whitened by them, centred at the public fit. The radius minimises the predicted mean squared error
of the whitened coefficients against those of the ordinary fit, which counts people alike:

.. math:: \operatorname{tr} H^{-1} (J + B) H^{-1} + (\tau u)^2 \operatorname{tr} M M'

with the covariance ``B`` of the noise, and the allowance for what weights may do (`hdpstats.public.row_weights`), whose
``tau`` public outcomes tell in part. It is one of the powers of the eighth root of two from about a
third of the median length of a public row to where no row within the schema's bounds is weighted down. The first term
is of the order of the radius over the number of people and epsilon; so the radius grows with these, and the second
vanishes. *All sites of a study have one radius*, else they would estimate different coefficients: the first term is
that of the average of their estimates by inverse variance.

The ridge is each site's own, the larger of two:

* what makes the determinant free, ``8 beta / epsilon`` where a person is replaced, half of it where one is added or
  removed (`hdpstats.privacy.sensitivity`);
* 0.3 times the ridge of least mean squared error given the public fit, ``(1 + B / H) H_public``.

The noise is the same for every ridge above the first, and the released point is unshrunk afterwards: a larger ridge
keeps it where the linearisation holds, a smaller one depends less on how well public rows predict the private
curvature ``H``.

**With public rows without outcomes, or without public rows.** Centred at zero with half
the first ridge: the determinant costs 2 to 7 % of the noise, and shrinkage hurts less.

**Losses without a coupling**, the multinomial one among them, are charged for the determinant
(`hdpstats.privacy.sensitivity`): the first ridge is what makes it cost a twentieth to .7 of epsilon, the largest that
errs nearly least where private people differ from public ones, and a seventh without a public fit. (It grows with the
square of the radius: as weights vanish it comes to bias estimates that public curvature unshrinks. Epsilon that noise
does not need, as with many people, is better spent on a smaller ridge.)

**The ridge of output perturbation.** The noise on the minimiser has a standard deviation of ``k / lambda`` in each
whitened direction. Unshrunk, the error of a direction with Hessian ``h`` has the variance

.. math:: k^2 (1/\lambda + 1/h)^2 + \{m\, \lambda / (\lambda + h)\}^2 v

beside that of sampling: the noise, unshrunk, and what unshrinking misses where ``h`` is known but for a share ``m`` and
the private coefficients lie ``v`` (a variance) from the centre: that of the public fit and `SCALE` squared, ``m`` being
`UNSHRUNK`. The first falls with the ridge, the second rises; the ridge that is chosen makes their mean over directions
least. Without public curvature nothing can be unshrunk, and ``m = 1``,
``v = 1``.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.base import PersonLoss
from hdpstats.families.regression.bounds import score_norm
from hdpstats.inference.pooling import SCALE
from hdpstats.losses import PredictorLoss
from hdpstats.losses.multinomial import steepest, trace_bound
from hdpstats.mechanisms.perturbation import ObjectiveQuery, OutputQuery
from hdpstats.mechanisms.perturbation.site import kept_delta, noise_variance, normal_sd
from hdpstats.mechanisms.perturbation.smoothing import rounded_up
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.sensitivity import BallNorm, Relation
from hdpstats.public.moments import Moments, PublicSide, WhitenedRows
from hdpstats.public.row_weights import SPARE, at_radii
from hdpstats.records.geometry import Geometry, at_radius, on_grid

FREE = 4.0 * (1.0 + 2.0**-10)
"""Ridge over ``beta`` and one person's share of epsilon that makes the determinant free, with a margin for cells."""

PULL = 0.3
"""Share of the ridge of least mean squared error: see the module's docstring."""

APART_ALONG_SLOPES, APART_AT_CENTRE = 0.5, 1.0
"""How far slopes and intercepts may be from public ones where curvature rests on outcomes, and none of it is known.

In units of the loss's scale, half a residual standard deviation. In data of patients slopes were up to .7 apart,
intercepts up to 1.5, and curvatures by factors of up to two.
"""

UNSHRUNK = 0.5
"""Share of the curvature that unshrinking misses where private people are described by averages, about."""

CHEAP = 2.0
"""Ridge over the same where there is no public fit to pull to."""

SHARES, SHARE_ALONE = tuple(1.0 - 0.95 * 0.96**k for k in range(29)), 1.0 / 7.0
"""Shares of epsilon that the determinant of a loss without a coupling may cost: .05 to .7, and without a public fit.

Half of it leaves four times the variance of the noise, which is little where there are many people.
"""

SHARES_OF_LEVELS = tuple(1.0 - 0.95 * 0.98**k for k in range(9))
"""The same, .05 to .2, with a public fit for the multinomial loss."""

MOST_EXPONENT = 5.0
"""And no more than this much of it, however large it is: a ridge need not vanish."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossCost(ABC):
    """What noise and what ridge an epsilon asks for, about; ``persons`` is by how many persons neighbours differ.

    Attributes
    ----------
    epsilon : float
        What is spent on the noise and on the determinant.
    persons : int
        2 where a person is replaced, 1 where one is added or removed.
    largest_weight : float
        The largest weight of a person: the declared bound of a case weight, or of all rows together.
    """

    epsilon: float
    persons: int
    largest_weight: float

    @abstractmethod
    def noise(self, geometry: Geometry) -> NoiseDistribution:
        """Return the distribution of the noise, the determinant aside."""

    @abstractmethod
    def least_ridge(self, geometry: Geometry, *, alone: bool) -> float:
        """Return the least ridge; ``alone`` where there is no public fit to pull to."""

    @abstractmethod
    def ridges(self, geometry: Geometry) -> list[tuple[float, float]]:
        """Return least ridges to choose from where there is a public fit, with what part of epsilon each leaves."""

    def along(self, at: Moments) -> tuple[FloatArray, FloatArray]:
        """Return curvatures and variances of scores (D,) of the directions for which a ridge is chosen: coordinates."""
        return np.diag(at.H), np.diag(at.J)

    def best(self, ridges: Sequence[float], errors: Sequence[FloatArray]) -> float:
        """Return the ridge to take, of several for which squared errors of the directions are predicted."""
        return largest_good(ridges, [float(np.mean(each)) for each in errors])

    def charged_ridge(self, beta: float, *, share: float, rank: int = 1) -> float:
        """Return the ridge at which ``M log(1 + beta / (M ridge))``, ``M`` the rank, costs a share of epsilon."""
        return beta / (rank * math.expm1(min(share * self.epsilon, MOST_EXPONENT) / rank))

    def charged_ridges(self, beta: float, shares: Sequence[float], *, rank: int = 1) -> list[tuple[float, float]]:
        """Return the same for several shares, each with what it leaves."""
        return [(self.charged_ridge(beta, share=share, rank=rank), 1.0 - share) for share in shares]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionCost(LossCost):
    """That of a loss of one linear predictor; ``rank`` is the largest rank of a person's Hessian."""

    loss: PredictorLoss
    rank: int = 1

    @property
    def rate(self) -> float:
        """The rate of the noise, the determinant aside."""
        return self.epsilon / self.persons / (self.largest_weight * float(self.loss.lipschitz))

    def noise(self, geometry: Geometry) -> NoiseDistribution:
        """Return the distribution of the noise, the determinant aside."""
        return noise_distribution(geometry, rate=self.rate)

    def least_ridge(self, geometry: Geometry, *, alone: bool) -> float:
        """Return the least ridge; ``alone`` where there is no public fit to pull to."""
        beta = float(self.loss.smoothness) * geometry.leverage * self.largest_weight
        if self.loss.coupled:
            return (CHEAP if alone else FREE) * beta * self.persons / self.epsilon
        return self.charged_ridge(beta, share=SHARE_ALONE if alone else SHARES[0], rank=self.rank)

    def ridges(self, geometry: Geometry) -> list[tuple[float, float]]:
        """Return least ridges to choose from, with what part of epsilon each leaves."""
        if self.loss.coupled:
            return [(self.least_ridge(geometry, alone=False), 1.0)]
        beta = float(self.loss.smoothness) * geometry.leverage * self.largest_weight
        return self.charged_ridges(beta, SHARES, rank=self.rank)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MultinomialCost(LossCost):
    """That of the multinomial loss with ``others`` levels beside the reference; ``rank``: of a person's Hessian."""

    others: int
    rank: int

    def noise(self, geometry: Geometry) -> NoiseDistribution:
        """Return the distribution of the noise, the determinant aside."""
        reach = (
            self.largest_weight * float(steepest(self.others)) * math.hypot(geometry.radius, int(geometry.intercept))
        )
        return NoiseDistribution(
            norm=BallNorm(), dimension=self.others * geometry.dimension, rate=self.epsilon / self.persons / reach
        )

    def least_ridge(self, geometry: Geometry, *, alone: bool) -> float:
        """Return the least ridge; ``alone`` where there is no public fit to pull to."""
        return self.charged_ridge(
            self._trace(geometry), share=SHARE_ALONE if alone else SHARES_OF_LEVELS[0], rank=self.rank
        )

    def ridges(self, geometry: Geometry) -> list[tuple[float, float]]:
        """Return least ridges to choose from, with what part of epsilon each leaves."""
        return self.charged_ridges(self._trace(geometry), SHARES_OF_LEVELS, rank=self.rank)

    def _trace(self, geometry: Geometry) -> float:
        return float(trace_bound(self.others)) * geometry.leverage * self.largest_weight

    def along(self, at: Moments) -> tuple[FloatArray, FloatArray]:
        """Return the same of the principal directions of curvature: there is little of it for a rare level."""
        h, axes = np.linalg.eigh(at.H)
        return h, np.einsum("ji,jk,ki->i", axes, at.J, axes)

    def best(self, ridges: Sequence[float], errors: Sequence[FloatArray]) -> float:
        """Return the smallest ridge that errs nearly least (`SPARE`) along the direction where it errs most."""
        worst = [float(np.max(each)) for each in errors]
        return min(ridge for ridge, error in zip(ridges, worst, strict=True) if error <= SPARE * min(worst))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Recommended:
    """What public facts recommend to one site: where the ridge pulls to (D,), and the ridge."""

    centre: FloatArray
    ridge: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """How many people a site has, as far as is known before it is asked, and what epsilon it is asked to spend."""

    records: int
    epsilon: Fraction


MOST_KINDS = 12
"""So many kinds of sites are told apart where one model is chosen for all."""


def kinds(sites: Sequence[Asked]) -> Counter[Asked]:
    """Return how many sites there are of each kind; of many, both numbers are rounded to about a tenth."""
    found = Counter(sites)
    if len(found) <= MOST_KINDS:
        return found
    return Counter(
        Asked(records=round(_rounded(max(each.records, 1))), epsilon=Fraction(f"{_rounded(each.epsilon):.6g}"))
        for each in sites
    )


def _rounded(value: Fraction | int) -> float:
    """Return the nearest power of the fourth root of two."""
    return float(2.0 ** (round(4.0 * math.log2(value)) / 4.0))


def recommended(cost: LossCost, public: WhitenedRows | None, geometry: Geometry, *, records: int) -> Recommended:
    """Return what is recommended to a site in a geometry; ``public`` are the rows in it, None without public rows."""
    if public is None:
        dimension = cost.noise(geometry).dimension
        return Recommended(centre=np.zeros(dimension), ridge=cost.least_ridge(geometry, alone=True))
    return Recommended(centre=on_grid(public.centre), ridge=_ridge(public, cost, records=records))


def noise_distribution(geometry: Geometry, *, rate: float) -> NoiseDistribution:
    """Return the distribution of objective noise for a regression in a geometry."""
    return NoiseDistribution(norm=score_norm(geometry), dimension=geometry.dimension, rate=rate)


def best_geometry(public: WhitenedRows, sites: Sequence[Asked], cost_at: Callable[[Fraction], LossCost]) -> Geometry:
    """Return the geometry of public rows at the radius of least predicted mean squared error.

    ``cost_at`` says what noise an epsilon asks for. All ``sites`` of a study have the same geometry.
    """
    if not public.geometry.location:
        return at_radius(public.geometry, 1.0)
    candidates = _candidates(public)
    at = public.at_radii(candidates, records=1)
    precision = np.zeros_like(at.H)
    for site, times in kinds(sites).items():
        cost, n = cost_at(site.epsilon), max(site.records, 1)
        noise = np.array([cost.noise(each).variance for each in candidates])
        spread = n * at.J + noise[:, :, None] * np.eye(noise.shape[1])
        precision += times * n**2 * (at.H @ np.linalg.solve(spread, at.H))
    variances = np.trace(np.linalg.inv(precision), axis1=1, axis2=2)
    moved = public.moved_at(candidates, at.H)
    allowances = moved.covariances(public.apart * public.unit, effects=public.effects)
    squares = np.trace(allowances, axis1=1, axis2=2)
    errors = variances + squares
    near = errors <= SPARE * np.min(errors)
    least = near & (squares <= np.min(squares[near]))
    return candidates[int(np.flatnonzero(least)[-1])]


def _candidates(public: WhitenedRows) -> list[Geometry]:
    """Return the geometries to try."""
    farthest = math.sqrt(float(np.max(public.lengths)))
    if public.unseen is not None:
        farthest = public.unseen.farthest
    return at_radii(public.geometry, middle=public.middle, farthest=farthest)


def _ridge(public: WhitenedRows, cost: LossCost, *, records: int) -> float:
    """Return the larger of the least ridge and `PULL` times that of least mean squared error given the public fit.

    Of the least ridges of a loss that is charged for the determinant that of the smallest predicted error counts: of
    sampling, of noise, and of what unshrinking misses where curvature is not that of public rows and coefficients are
    apart from the public fit: by `SCALE`, half of which stays, where a model says the curvature; by more, which stays,
    where outcomes do.
    """
    fit = public.fit
    if fit is None:
        return cost.least_ridge(public.geometry, alone=True)
    slopes, apart = public.slopes, np.array(UNSHRUNK * SCALE)
    if not public.modelled:
        slopes, apart = slice(None), np.full(public.dimension, APART_AT_CENTRE)
        apart[public.counted] = APART_ALONG_SLOPES
    at = public.moments(public.centre, records=max(records, 1))
    noises = cost.noise(public.geometry).variance[slopes]
    h, j = cost.along(Moments(H=at.H[slopes, slopes], J=at.J[slopes, slopes]))
    information, spread = (float(np.mean(np.diag(each)[slopes])) for each in (fit.information, fit.covariance))
    ridges, errors = [], []
    for own, left in cost.ridges(public.geometry):
        noise, level = float(np.mean(noises)) / left**2, float(np.mean(h))
        wanted = (1.0 + noise / level) * information
        if not public.scaled:
            wanted = (float(np.mean(j)) + noise) / (level * spread)
        ridge = max(own, PULL * wanted)
        missed = (ridge / (h + ridge) * fit.unit * apart) ** 2
        ridges.append(ridge)
        errors.append(((j + noises / left**2) / h**2 + missed) / ((j + noises) / h**2))
    return cost.best(ridges, errors)


def largest_good(ridges: Sequence[float], errors: Sequence[float]) -> float:
    """Return the largest ridge whose predicted squared error is nearly the least (`SPARE`).

    >>> largest_good([4.0, 2.0, 1.0], [1.02, 1.0, 1.5])
    4.0
    """
    return max(ridge for ridge, error in zip(ridges, errors, strict=True) if error <= SPARE * min(errors))


MISTRUST = 0.3
"""Share of the private curvature that public rows may miss."""

RIDGES = np.geomspace(1e-4, 1e2, 241)
"""Candidate ridges, relative to the mean curvature."""

NEARLY_FREE = 0.97
"""Share of the noise of a free determinant that the ridge leaves."""


def choose_output(
    query: ObjectiveQuery,
    person_loss: PersonLoss,
    side: PublicSide | None,
    *,
    records: int,
    delta: Fraction,
    relation: Relation,
) -> OutputQuery:
    """Return the query of output perturbation with the model and the centre of another query.

    ``delta`` is used where normal noise is smaller than pure noise; else the query asks for pure noise.
    """
    epsilon = query.epsilon * (1 - query.for_errors)
    variances = [noise_variance(person_loss, epsilon=epsilon, delta=Fraction(0), relation=relation)]
    if delta > 0:
        variances.append(noise_variance(person_loss, epsilon=epsilon, delta=delta, relation=relation))
    h, v, missed = _known(person_loss, side, records=records)
    ridges = float(np.mean(h)) * RIDGES
    errors = [_error(min(variances), ridge, h=h, v=v, missed=missed) for ridge in ridges.tolist()]
    return query.asked_as(
        OutputQuery,
        ridge=rounded_up(Fraction(float(ridges[int(np.argmin(errors))]))),
        delta=delta if variances[-1] < variances[0] else Fraction(0),
    )


def with_normal_noise(
    query: ObjectiveQuery, person_loss: PersonLoss, *, variance: float, delta: Fraction, relation: Relation
) -> ObjectiveQuery:
    """Return the query with ``delta`` where normal noise in the objective is smaller than ``variance``, else as it is.

    ``variance`` is the mean over coordinates of the pure noise that the query asks for. The ridge is raised, if need
    be, until the determinant leaves 97 % of the noise.
    """
    epsilon = query.epsilon * query.for_objective
    kept = kept_delta(delta, query.epsilon * query.for_smoothing)
    ridge = query.ridge

    def sd(ridge: Fraction) -> float:
        return float(normal_sd(person_loss, ridge=ridge, epsilon=epsilon, delta=kept, relation=relation))

    free = sd(max(query.ridge, Fraction(10**6) * person_loss.trace / epsilon))
    if free**2 >= variance:
        return query
    ridge = max(ridge, Fraction(float(person_loss.trace / epsilon)))
    while sd(ridge) > free / NEARLY_FREE:
        ridge *= 2
    return replace(query, ridge=ridge, delta=delta) if sd(ridge) ** 2 < variance else query


def _known(person_loss: PersonLoss, side: PublicSide | None, *, records: int) -> tuple[FloatArray, FloatArray, float]:
    """Return curvatures, variances about the centre, and the share of curvature that is not known."""
    D, n = person_loss.dimension, max(records, 1)
    if side is None:
        return np.full(D, n * float(person_loss.trace) / (2.0 * D)), np.ones(D), 1.0
    h = np.diag(side.moments(side.centre, records=n).H)
    if side.fit is None:
        return h, np.ones(D), MISTRUST
    return h, np.diag(side.fit.covariance) + (SCALE * side.fit.unit) ** 2, UNSHRUNK


def _error(variance: float, ridge: float, *, h: FloatArray, v: FloatArray, missed: float) -> float:
    noise = variance * (1.0 / ridge + 1.0 / h) ** 2
    bias = (missed * ridge / (ridge + h)) ** 2 * v
    return float(np.mean(noise + bias))

r"""The certified minimiser of a penalised sum of losses, by work that is a public constant, and what is released of it.

Output and objective perturbation build on it. What it does to the rows depends on public facts only, as far as time
tells (`Effort`, from the query, the declared bounds of the design and the declared number of people):

1. Newton's method with a fixed budget of Hessians and gradients (`hdpstats.solvers.newton.SMALL`), the first of them
   with Hessians that are kept for several steps (`hdpstats.solvers.newton`). It ends earlier at a point whose gradient
   certifies the accuracy, which is nearly always. Gradients are exact sums over people: the same bits for every order
   of the people and every number of threads. So is the point, below 131,072 rows or 32,768 spells. From there on the
   first Hessians are those of the rows that come first, and Hessians of multinomial and density-ratio fits are sums of
   doubles: another order may lead to another point within the same radius, on which alone the guarantee rests.
2. Else a fixed number of accelerated gradient steps, which lead within the accuracy *surely*, float errors included,
   from anywhere and for every sum of convex losses within the declared bounds (`hdpstats.solvers.accelerated`).

A query for which floats cannot do that, or not in `MOST_STEPS`, is refused before anything is charged.

Numbers in growing precision (`hdpstats.solvers.newton`) are out of reach of an accepted query whose declarations are
true: they are for more people than ``n_max``, and for noise longer than any that occurs (chance below 2^-60). The
distance from the minimiser, on which the guarantee rests, is certain there too; what the work tells is not.

**A noisy Hessian** at the released coefficients, where a query asks for one: standard errors without public rows. What
is computed is the upper triangle of :math:`\sum_i \nabla^2\ell_i(\theta)` with off-diagonal entries multiplied by the
square root of two, so that its Euclidean norm is the Frobenius norm of the matrix.

Guarantee: epsilon-DP. One person contributes a positive semidefinite matrix of trace, hence Frobenius norm, at most
``B`` (`PersonLoss.trace`), and the matrix 0 with a missing cell. For two such matrices ``||H - H'||_F^2 = ||H||^2 +
||H'||^2 - 2 tr(H H') <= 2 B^2``: the sensitivity is ``sqrt(2) B`` where a person is replaced (attained by orthogonal
rows) and ``B`` where one is added or removed. Every person's contribution is rounded to a grid *before* integers are
added, so the sum is exact and rounding adds at most ``sqrt(k)`` grid steps for ``k`` entries. ``theta`` is already
released, hence public (adaptive composition).

*Range.* A bound outside of `LEAST_BOUND` to `LARGEST_BOUND` is refused at preparation, from the query and declared
bounds alone (`calibrate_semidefinite`): the rest rests on that. The grid is a power of two from 2^-224 to 2^176, so
that it and its inverse are doubles. Whitened rows are at most 1e50 (`hdpstats.records.geometry.LARGEST`) and leverages
at least 1e-12, so that curvature times weight is at most 1e12 ``B``, hence 2^25 1e12 steps, and products with two
entries of a row are below 1e120 steps. Hessians of hazards are formed before the grid divides them. Of a sandwich
curvatures and squared scores of a row are cut first, to ``B`` over its squared length or over 1e-150, at most 1e158
steps. So nothing overflows, and nothing that is rounded is infinite or no number. What is below 2^-1022 errs by 2^-1075
at most, times 1e100 and 2^225, or times 1e158, less than 2^-500 of a step. So a computed contribution is within a
relative 2^-40 of the formula's (`ROUNDING`), at most 2^26 steps in each entry, and 64-bit integers hold the sums that
are formed of so many people at a time. Were the grid below 2^-1024, its inverse would be infinite, and one person might
move the sum by 2^63 steps.

**The parts of a sandwich** at the released coefficients, where a query asks for them (`hdpstats.records.sandwich`): the
Hessians :math:`\nabla^2 \ell_i`, or for a quantile's loss those with another window, and the squared scores
:math:`s_i s_i'`, of every person cut to public Frobenius norms, are summed and released by two draws, each for half of
the part's epsilon. Guarantee: that of the noisy Hessian, with the public norm, by which a person is cut, in place of
the trace ``B``: matrices are positive semidefinite, as curvatures are cut to 0 and more, and cutting multiplies by a
number in [0, 1], so that they stay so, with a norm of at most ``B``; a person with a missing cell adds 0. Of a person
with several rows the Hessian and the score are sums over the rows: the first is cut by its trace, which bounds its
norm. No bound of the loss is used. A computed norm is off by a relative ``2^-40`` at most, for which ``B`` is enlarged
(`ROUNDING`), and roundings to the grid are counted as above. The two are functions of the same people at public
coefficients: basic composition.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.compiled import Loops
from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import ExactArray, FloatArray
from hdpstats._base.work import Operations
from hdpstats.families.base import ROUNDING, PersonLoss
from hdpstats.mechanisms.base import Prepared
from hdpstats.noise.distributions import LatticeNoise
from hdpstats.noise.exact import lift, power_of_two_below, round_down, sqrt_up
from hdpstats.noise.knorm import BallNoise
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import BallNorm, Relation, Sensitivity
from hdpstats.records.query import MinimiserQuery, PointRelease
from hdpstats.records.sandwich import NoisySandwich, SandwichPart
from hdpstats.schema.partitions import Parts
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers import minimise
from hdpstats.solvers.accelerated import Work, farthest, minimise_within, minimising_work, smoothness_of, work_of
from hdpstats.solvers.newton import SMALL, refine
from hdpstats.solvers.objective import UNIT, Rows

MOST_STEPS = 300_000
"""Accelerated steps of a minimisation: reached at condition numbers of about a hundred millions."""

HESSIAN_FINENESS = Fraction(1, 2**24)
"""Grid of the Hessian's entries relative to the sensitivity."""

LEAST_BOUND, LARGEST_BOUND = Fraction(1, 2**200), Fraction(2**200)
"""Between these, about 1e-60 and 1e60, the norm of a person's matrix may be bounded."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """The public work of a private minimisation.

    Attributes
    ----------
    work : Work
        Accuracy and steps.
    count : int
        The largest `Rows.count` for which they hold.
    noise : float
        The longest perturbation for which they hold.
    """

    work: Work
    count: int
    noise: float

    @property
    def radius(self) -> Fraction:
        """The public accuracy to which the minimiser is certified."""
        return Fraction(self.work.radius)


def certified(
    query: MinimiserQuery, people: Rows, *, effort: Effort, perturbation: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """Return a point that is surely within ``effort.radius`` of the exact minimiser for a perturbation (D,)."""
    centre, linear = np.array(query.centre), np.array([float(value) for value in perturbation])
    objective = people.penalised(ridge=np.full(len(centre), float(query.ridge)), centre=centre, linear=linear)
    if people.count <= effort.count and float(np.linalg.norm(linear)) <= effort.noise:
        with np.errstate(all="ignore"):
            theta = minimise_within(objective, start=centre, work=effort.work)
        return tuple(Fraction(value) for value in theta.tolist())
    solution = minimise(objective, start=centre, budget=SMALL)
    if math.isfinite(solution.radius) and Fraction(solution.radius) <= effort.radius:
        return tuple(Fraction(value) for value in solution.theta.tolist())
    start = solution.theta if np.all(np.isfinite(solution.theta)) else centre
    return refine(objective, start=start, radius=effort.radius, linear=perturbation).theta


def effort_of(query: MinimiserQuery, person_loss: PersonLoss, *, noise: float, records: int) -> Effort:
    r"""Return the public work of a minimisation where the perturbation is no longer than ``noise``.

    With ``n`` people whose losses at the centre are at most ``l`` above their infima, and noise of length ``W``,

    .. math:: F(c) - F^* \le E = \min\Big\{\frac{(n G + W)^2}{2 \lambda},\; n l + \frac{W^2}{2 \lambda}\Big\}:

    the first by strong convexity, ``G`` bounding a person's gradient, the second as the minimum of the ridge plus the
    noise is ``-W^2 / 2 lambda``. That bounds the length of the minimiser, hence the float error ``e`` of gradients
    near it (`PersonLoss.rounding`; ridge, noise and the rounding of steps on top). With ``n`` it grows no faster than
    ``n``: a score keeps 50 bits, and the length of the minimiser enters with a factor of order ``2^-77 D`` only, as
    predictors are compensated (`hdpstats.solvers.kernels`) and steps keep coefficients in two doubles. The accuracy is
    ``M e / lambda`` with ``M`` of 3.6 to 4.9: a public choice, which sets the size of the smoothing noise and of
    nothing else. Where that takes more than `MOST_STEPS` a larger ``e`` is taken.

    Raises
    ------
    MechanismError
        If floats cannot reach that accuracy, or not in `MOST_STEPS`.
    """
    ridge, start = float(query.ridge), np.array(query.centre)
    centre = float(np.linalg.norm(start))
    by_slope = (person_loss.slope(records) + noise) ** 2 / (2.0 * ridge)
    by_loss = records * person_loss.largest_loss(start) + noise**2 / (2.0 * ridge)
    excess = 1.01 * (by_loss if by_loss < by_slope else by_slope)
    size, curvature = centre + farthest(ridge=ridge, excess=excess), person_loss.curvature(records)
    error = 1.01 * (person_loss.rounding(size, people=records) + 8.0 * UNIT * (ridge * (size + centre) + noise))
    within = partial(work_of, ridge=ridge, curvature=curvature, error=error, size=size, excess=excess)
    work = within(most=MOST_STEPS)
    if work is None:
        unbounded = within()
        steps = None if unbounded is None else unbounded.steps
        raise too_much(smoothness_of(ridge=ridge, curvature=curvature) / ridge, steps)
    return Effort(work=work, count=person_loss.counted(records), noise=noise)


def too_much(condition: float, steps: int | None) -> MechanismError:
    """Return why a minimisation is refused."""
    what = (
        "doubles cannot compute the private minimum exactly enough for so small a ridge or so wide declared ranges"
        if steps is None
        else f"the private minimum may take {steps} steps, more than {MOST_STEPS}"
    )
    return MechanismError(
        f"{what}: the curvature of the losses may be {condition:.2g} times that of the ridge; use a larger "
        "ridge, public rows or a smaller row_norm, a smaller n_max, or declare narrower offsets and weights"
    )


def on_lattice(theta: Sequence[Fraction], grid: Fraction) -> tuple[int, ...]:
    """Return the lattice point nearest to exact numbers, halves upwards."""
    return tuple(math.floor(value / grid + Fraction(1, 2)) for value in theta)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HessianCalibration:
    """Public constants: sensitivity, lattice distribution, lattice step, standard deviation of each stacked entry."""

    sensitivity: Sensitivity
    noise: BallNoise
    grid: Fraction
    noise_sd: float


def calibrate_hessian(person_loss: PersonLoss, *, epsilon: Fraction, relation: Relation) -> HessianCalibration:
    """Return the constants of a Hessian release that costs ``epsilon``."""
    return calibrate_semidefinite(person_loss.dimension, bound=person_loss.trace, epsilon=epsilon, relation=relation)


def calibrate_semidefinite(D: int, *, bound: Fraction, epsilon: Fraction, relation: Relation) -> HessianCalibration:
    """Return the constants of a release of a sum of semidefinite (D, D) matrices of norms up to ``bound``.

    Raises
    ------
    MechanismError
        If the bound is below `LEAST_BOUND` or above `LARGEST_BOUND`, where doubles may not hold the steps of the grid.
    """
    if not LEAST_BOUND <= bound <= LARGEST_BOUND:
        raise MechanismError(
            "no noisy Hessian or squared score is released where the bound on one person's is outside of 1e-60 to "
            "1e60, as computed numbers may overflow: rescale the loss, declare other bounds of weights, or ask "
            "without a noisy Hessian (hessian_share=0)"
        )
    entries = D * (D + 1) // 2
    grid = power_of_two_below(bound) * HESSIAN_FINENESS
    root = sqrt_up(Fraction(2)) if relation is Relation.REPLACE_ONE else 1
    value = root * bound + grid * sqrt_up(Fraction(entries))
    rate = round_down(epsilon * grid / value, 90)
    return HessianCalibration(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        noise=BallNoise(dimension=entries, rate=rate),
        grid=grid,
        noise_sd=math.sqrt(entries + 1.0) * float(grid / rate),
    )


def noisy_hessian(calibration: HessianCalibration, people: Rows, *, theta: FloatArray) -> tuple[float, ...]:
    """Return the stacked noisy Hessian at ``theta``, entries (i, j) with i <= j, row by row."""
    noise = calibration.noise.draw()
    return _with_noise(calibration, people.stacked_hessian(theta, grid=float(calibration.grid)), noise)


def _with_noise(calibration: HessianCalibration, total: ExactArray, noise: Sequence[int]) -> tuple[float, ...]:
    integers = [int(t) + n for t, n in zip(total.tolist(), noise, strict=True)]
    return tuple(lift(integers, calibration.grid).tolist())


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SandwichCalibration:
    """Public constants of the parts of a sandwich: what is asked, and how Hessians and squared scores are released."""

    part: SandwichPart
    curvature: HessianCalibration
    scores: HessianCalibration


def noisy_sandwich(calibration: SandwichCalibration, people: Rows, *, theta: FloatArray) -> NoisySandwich:
    """Return the noisy sums at ``theta``; all noise is drawn before people are read."""
    parts = (calibration.curvature, calibration.scores)
    noises = [each.noise.draw() for each in parts]
    totals = people.stacked_sandwich(theta, calibration.part, grids=(float(parts[0].grid), float(parts[1].grid)))
    hessian, scores = (_with_noise(*each) for each in zip(parts, totals, noises, strict=True))
    return NoisySandwich(hessian=hessian, scores=scores, hessian_sd=parts[0].noise_sd, scores_sd=parts[1].noise_sd)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Perturbation:
    """The noise ``b`` in the objective.

    Attributes
    ----------
    sensitivity : Sensitivity
        Of the gradient sum, in the norm of the noise.
    noise : LatticeNoise or RoundedNormal
        The lattice distribution of ``b``.
    grids : tuple of Fraction
        The lattice step of each coordinate of ``b`` (D,).
    rate, sd : Fraction
        ``rho``: density of the noise proportional to ``exp(-rho K(b))``; or the standard deviation of normal noise.
        The other one is 0.
    size : float
        A length that the noise exceeds with probability below 2^-60: ``K(b) rho`` has a gamma distribution of shape D.
    event : PrivacyEvent
        What it costs.
    """

    sensitivity: Sensitivity
    noise: LatticeNoise | RoundedNormal
    grids: tuple[Fraction, ...]
    rate: Fraction
    sd: Fraction
    size: float
    event: PrivacyEvent

    @property
    def cell(self) -> Fraction:
        """The length of half the diagonal of a lattice cell."""
        return sqrt_up(sum((g * g for g in self.grids), Fraction(0))) / 2

    def draw(self) -> list[Fraction]:
        """Return one draw of ``b`` (D,), a point of its lattice."""
        return [n * g for n, g in zip(self.noise.draw(), self.grids, strict=True)]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PointCalibration:
    """The public constants of one run: functions of the query, the schema and the declared number of records only.

    Attributes
    ----------
    release : type of PointRelease
        What is released.
    perturbation : Perturbation or None
        The noise in the objective; None where all noise is added to the minimiser.
    sensitivity : Sensitivity
        Of the gradient sum, in the norm of the noise in the objective; else of the rounded minimiser.
    effort : Effort
        The work of the minimisation, and the accuracy that it reaches.
    noise : BallNoise or RoundedNormal
        The lattice distribution that is added to the computed point, in steps of ``grid``.
    grid : Fraction
        The lattice of the release.
    noise_rate, noise_sd : Fraction
        Of the noise in the objective, else on the minimiser: the rate of K-norm noise or the standard deviation of
        normal noise; the other one is 0.
    hessian : HessianCalibration or None
        The noisy Hessian, where the query asks for one.
    sandwich : SandwichCalibration or None
        The parts of a sandwich, where the query asks for them.
    records : int
        The number of people, public or declared.
    events : tuple of PrivacyEvent
        What will have run.
    """

    release: type[PointRelease]
    perturbation: Perturbation | None
    sensitivity: Sensitivity
    effort: Effort
    noise: BallNoise | RoundedNormal
    grid: Fraction
    noise_rate: Fraction
    noise_sd: Fraction
    hessian: HessianCalibration | None
    sandwich: SandwichCalibration | None
    records: int
    events: tuple[PrivacyEvent, ...]

    def released(
        self, theta: tuple[float, ...], hessian: tuple[float, ...] | None, sandwich: NoisySandwich | None = None
    ) -> PointRelease:
        """Return the release of coefficients (D,), and of what else is asked for: the rest is constant."""
        return self.release(
            theta=theta,
            hessian=hessian,
            noise_rate=float(self.noise_rate),
            noise_sd=float(self.noise_sd),
            hessian_noise_sd=0.0 if self.hessian is None else self.hessian.noise_sd,
            grid=float(self.grid),
            records=self.records,
            events=self.events,
            sandwich=sandwich,
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedPoint(Prepared):
    """A minimisation with its constants fixed."""

    query: MinimiserQuery
    person_loss: PersonLoss
    calibration: PointCalibration

    @property
    def whole(self) -> bool:
        """Whether the loss is summed over rows in memory only."""
        return not self.person_loss.in_parts

    @property
    def loops(self) -> frozenset[Loops]:
        """Those of the people's losses."""
        return self.person_loss.loops

    def work(self, rows: int) -> Operations:
        """Return what the noise, the minimisation with all its steps and the Hessian take at most."""
        D, of_people, calibration = self.person_loss.dimension, self.person_loss.work(rows), self.calibration
        noise = calibration.noise.work + Operations(steps=400.0 + 60.0 * D)
        if calibration.perturbation is not None:
            noise = noise + calibration.perturbation.noise.work
        if calibration.hessian is not None:
            lifted = Operations(steps=20.0 + 3.0 * D * (D + 1.0))
            noise = noise + calibration.hessian.noise.work + of_people.stacked + lifted
        if calibration.sandwich is not None:
            lifted = Operations(steps=2.0 * (20.0 + 3.0 * D * (D + 1.0)))
            drawn = calibration.sandwich.curvature.noise.work + calibration.sandwich.scores.noise.work
            noise = noise + drawn + of_people.sandwich + lifted
        return noise + of_people.read + minimising_work(of_people.sums, calibration.effort.work)

    def compute(self, rows: Parts[AdmittedTable]) -> PointRelease:
        """Minimise, add noise and release."""
        return run(self.query, self.calibration, self.person_loss.people_of(rows))


def prepared(query: MinimiserQuery, person_loss: PersonLoss, calibration: PointCalibration) -> PreparedPoint:
    """Return a run at a site with its constants."""
    return PreparedPoint(
        needs=person_loss.needs,
        events=calibration.events,
        query=query,
        person_loss=person_loss,
        calibration=calibration,
    )


def run(query: MinimiserQuery, calibration: PointCalibration, people: Rows) -> PointRelease:
    """Draw all noise, then minimise, add noise to the computed point and release.

    Guarantee: ``(query.epsilon, query.delta)``-DP by the proofs of `hdpstats.mechanisms.perturbation.site`.
    """
    inside = calibration.perturbation
    perturbation = [Fraction(0)] * len(query.centre) if inside is None else inside.draw()
    noise = calibration.noise.draw()
    theta = certified(query, people, effort=calibration.effort, perturbation=perturbation)
    released = [k + n for k, n in zip(on_lattice(theta, calibration.grid), noise, strict=True)]
    numbers = lift(released, calibration.grid)
    hessian, sandwich = calibration.hessian, calibration.sandwich
    return calibration.released(
        tuple(numbers.tolist()),
        None if hessian is None else noisy_hessian(hessian, people, theta=numbers),
        None if sandwich is None else noisy_sandwich(sandwich, people, theta=numbers),
    )


def hessian_of(
    query: MinimiserQuery, person_loss: PersonLoss, *, relation: Relation
) -> tuple[HessianCalibration | None, tuple[PrivacyEvent, ...]]:
    """Return the constants of the noisy Hessian that a query asks for, and what it costs."""
    epsilon = query.epsilon * query.hessian_share
    if epsilon == 0:
        return None, ()
    hessian = calibrate_hessian(person_loss, epsilon=epsilon, relation=relation)
    return hessian, (PrivacyEvent(ran=MechanismName.HESSIAN, epsilon=epsilon),)


def sandwich_of(
    query: MinimiserQuery, person_loss: PersonLoss, *, relation: Relation
) -> tuple[SandwichCalibration | None, tuple[PrivacyEvent, ...]]:
    """Return the constants of the parts of a sandwich that a query asks for, and what they cost."""
    part = query.sandwich
    if part is None:
        return None, ()
    if not person_loss.releases_sandwich:
        raise MechanismError("sums of squared scores are released for regressions of one linear predictor only")
    epsilon = query.epsilon * part.share / 2
    curvature, scores = (
        calibrate_semidefinite(
            person_loss.dimension, bound=Fraction(bound) * ROUNDING, epsilon=epsilon, relation=relation
        )
        for bound in (part.curvature, part.scores)
    )
    return SandwichCalibration(part=part, curvature=curvature, scores=scores), (
        PrivacyEvent(ran=MechanismName.CURVATURE, epsilon=epsilon),
        PrivacyEvent(ran=MechanismName.SQUARES, epsilon=epsilon),
    )

r"""Objective perturbation, pure epsilon, that survives a finite solver and floating point.

The mechanism (Chaudhuri, Monteleoni and Sarwate 2011; corrected). With rows ``x_i`` of a public `Geometry`, weights
``w_i`` and a public centre ``c`` it minimises

.. math:: \sum_i w_i\,\ell(x_i'\theta + o_i; y_i) + \tfrac{\lambda}{2}\|\theta - c\|^2 + b'\theta

and releases the minimiser plus a very small lattice noise. The guarantee is the sum of three parts (full proof:
``vignettes/explanation/objective-perturbation``).

1. **Noise.** ``b`` is drawn on an integer lattice with probability proportional to ``exp(-rho K(b))`` and thought of as
   spread uniformly over its cell, so that its density is constant on cells. ``K`` is the cylinder norm, in
   which one record's gradient has size at most ``h u`` with ``u = |l'| <= 1`` and ``h = w_max (1 + 2^-40)``.
   Two densities at a distance ``S`` differ by at most ``exp(rho (S + cell))``. With the coupled analysis
   (`hdpstats.privacy.coupled`) the exact minimiser, intercept and all coordinates penalised alike, is
   ``epsilon_1``-DP, determinant included.
2. **Solver and floats.** The spread over the cell is not drawn and the minimiser is not exact: the computed point is
   certified to lie within ``error`` of the exact one, *surely* (certificate of `hdpstats.solvers`, growing
   precision if it ever failed). ``error`` is a public constant.
3. **Smoothing.** The computed point is rounded to a lattice and L2 K-norm noise of rate
   ``epsilon_2 / (2 (error + rounding))`` is added. For every fixed ``b`` the laws around the computed and
   around the exact point differ by ``exp(epsilon_2 / 2)``, once for each of the two data sets: ``epsilon_1 +
   epsilon_2``.

A fourth part, where it is bought, releases the weighted Hessian at the *released* coefficients.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.losses import BY_NAME, Loss
from hdpstats.mechanisms import curvature
from hdpstats.mechanisms.rows import PrivateRows
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.cylinder import CylinderNoise
from hdpstats.noise.lattice import power_of_two_below, round_down, sqrt_up
from hdpstats.noise.moments import ball_variance, cylinder_variance
from hdpstats.privacy.coupled import coupled_noise_epsilon
from hdpstats.privacy.event import PrivacyEvent, Ran
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm, CylinderNorm, Sensitivity
from hdpstats.queries.geometry import Geometry
from hdpstats.queries.objective import ObjectiveQuery, ObjectiveRelease
from hdpstats.solvers import Objective, minimise
from hdpstats.solvers.objective import UNIT, integer_bits
from hdpstats.solvers.refine import refine

SMOOTHING_SHARE = Fraction(1, 1000)
"""Part of epsilon that covers the solver and floating point."""

ROUNDING = 1 + Fraction(1, 2**40)
"""Inflation of a row's size: weights and rows are doubles, each within a few 2^-53 of its formula."""

FINENESS = Fraction(1, 2**36)
"""Grid of the noise relative to its scale."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The public constants of one run: functions of the query, the schema and the number of records only.

    Attributes
    ----------
    sensitivity : Sensitivity
        Of the gradient sum, in the norm of the noise.
    noise_rate : Fraction
        ``rho``: density of the noise proportional to ``exp(-rho K(b))``.
    noise : CylinderNoise or BallNoise
        The lattice law of ``b``.
    noise_grids : tuple of Fraction
        The lattice step of each coordinate of ``b`` (D,).
    solver_radius : Fraction
        What the certificate must reach.
    smoothing : BallNoise
        The lattice law added to the solution.
    grid : Fraction
        The lattice of the release.
    hessian : curvature.HessianCalibration or None
        The noisy Hessian, where it is bought.
    events : tuple of PrivacyEvent
        What will have run.
    """

    loss: Loss
    sensitivity: Sensitivity
    noise_rate: Fraction
    noise: CylinderNoise | BallNoise
    noise_grids: tuple[Fraction, ...]
    solver_radius: Fraction
    smoothing: BallNoise
    grid: Fraction
    hessian: curvature.HessianCalibration | None
    events: tuple[PrivacyEvent, ...]


def calibrate(query: ObjectiveQuery, *, records: int, largest_weight: float, largest_offset: float) -> Calibration:
    """Return the constants of a run, or raise MechanismError where the proof does not cover the query.

    Parameters
    ----------
    query
        The question.
    records
        Number of private records, public under replace-one.
    largest_weight, largest_offset
        Declared bounds of case weights and of absolute offsets (1 and 0 where there are none).
    """
    loss = _covered_loss(query.loss)
    geometry = query.geometry
    epsilon_hessian = query.epsilon * query.hessian_share
    epsilon_smoothing = query.epsilon * SMOOTHING_SHARE
    epsilon_objective = query.epsilon - epsilon_hessian - epsilon_smoothing
    half = Fraction(largest_weight) * ROUNDING
    radius = Fraction(geometry.radius)
    norm = CylinderNorm(radius=radius) if geometry.intercept else BallNorm(radius=radius)
    grids, cell = _grids(geometry, scale=2 * half / epsilon_objective)
    rate = _noise_rate(
        epsilon_objective, half=half, cell=cell, ratio=_curvature_ratio(loss, geometry, half=half, ridge=query.ridge)
    )
    error = _solution_error(query, loss, rate=rate, records=records, weight=largest_weight, offset=largest_offset)
    total = error + sqrt_up(sum((g * g for g in grids), Fraction(0))) / (2 * query.ridge)
    grid = power_of_two_below(total / 4)
    D = geometry.dimension
    smoothing = round_down(epsilon_smoothing / (2 * (total / grid + sqrt_up(Fraction(D)))), 90)
    hessian = (
        curvature.calibrate(geometry, loss, epsilon=epsilon_hessian, weight=largest_weight)
        if epsilon_hessian > 0
        else None
    )
    events = [
        PrivacyEvent(ran=Ran.OBJECTIVE, epsilon=epsilon_objective),
        PrivacyEvent(ran=Ran.SMOOTHING, epsilon=epsilon_smoothing),
    ]
    if hessian is not None:
        events.append(PrivacyEvent(ran=Ran.HESSIAN, epsilon=epsilon_hessian))
    return Calibration(
        loss=loss,
        sensitivity=Sensitivity(value=2 * half, norm=norm, relation=Relation.REPLACE_ONE),
        noise_rate=rate,
        noise=_noise(geometry, rate=rate, grids=grids),
        noise_grids=grids,
        solver_radius=error,
        smoothing=BallNoise(dimension=D, rate=smoothing),
        grid=grid,
        hessian=hessian,
        events=tuple(events),
    )


def run(query: ObjectiveQuery, calibration: Calibration, rows: PrivateRows) -> ObjectiveRelease:
    """Draw both noises, then minimise, smooth and release.

    Guarantee: ``query.epsilon``-DP under replace-one, by the module's proof.
    """
    perturbation = [n * g for n, g in zip(calibration.noise.draw(), calibration.noise_grids, strict=True)]
    smoothing = calibration.smoothing.draw()
    theta = solve(query, calibration, rows, perturbation=perturbation)
    released = [
        (_round(value / calibration.grid) + n) * calibration.grid for value, n in zip(theta, smoothing, strict=True)
    ]
    numbers = np.array([float(value) for value in released])
    hessian = None
    if calibration.hessian is not None:
        hessian = curvature.noisy_hessian(calibration.hessian, calibration.loss, rows, theta=numbers)
    return ObjectiveRelease(
        theta=tuple(numbers.tolist()),
        hessian=hessian,
        noise_rate=float(calibration.noise_rate),
        hessian_noise_sd=calibration.hessian.noise_sd if calibration.hessian is not None else 0.0,
        grid=float(calibration.grid),
        records=len(rows.y),
        events=calibration.events,
    )


def solve(
    query: ObjectiveQuery, calibration: Calibration, rows: PrivateRows, *, perturbation: list[Fraction]
) -> tuple[Fraction, ...]:
    """Return a point that is surely within ``solver_radius`` of the exact minimiser for this perturbation."""
    D = query.geometry.dimension
    centre = np.array(query.centre)
    objective = Objective(
        loss=calibration.loss,
        X=rows.X,
        y=rows.y,
        weights=rows.weights,
        offset=rows.offset,
        ridge=np.full(D, float(query.ridge)),
        centre=centre,
        linear=np.array([float(value) for value in perturbation]),
    )
    solution = minimise(objective, start=centre)
    if math.isfinite(solution.radius) and Fraction(solution.radius) <= calibration.solver_radius:
        return tuple(Fraction(value) for value in solution.theta.tolist())
    start = solution.theta if np.all(np.isfinite(solution.theta)) else centre
    return refine(objective, start=start, radius=calibration.solver_radius, linear=perturbation).theta


def _covered_loss(name: str) -> Loss:
    loss = BY_NAME.get(name)
    if loss is None:
        raise MechanismError(f"no loss is called {name!r}; there are {', '.join(BY_NAME)}")
    if not loss.coupled:
        covered = [other.name for other in BY_NAME.values() if other.coupled]
        raise MechanismError(
            f"objective perturbation is proved for losses with a coupled score and curvature; {name} is none of them; "
            f"these are: {', '.join(covered)}"
        )
    return loss


def _curvature_ratio(loss: Loss, geometry: Geometry, *, half: Fraction, ridge: Fraction) -> Fraction:
    """Return ``r = sup l'' w ||x||^2 / lambda``, from ``w ||x||^2 <= leverage`` of the geometry."""
    return loss.smoothness * half * Fraction(geometry.leverage) * ROUNDING / ridge


def _noise_rate(epsilon: Fraction, *, half: Fraction, cell: Fraction, ratio: Fraction) -> Fraction:
    """Return ``rho`` with ``rho cell + coupled loss(2 rho half) <= epsilon``.

    The noise epsilon ``e_b = 2 rho half`` is solved for ``epsilon (1 - cell / (2 half))``; then ``rho cell = e_b cell /
    (2 half)`` is at most what was set aside.
    """
    target = epsilon * (1 - cell / (2 * half))
    return round_down(coupled_noise_epsilon(target, ratio) / (2 * half), 90)


def _grids(geometry: Geometry, *, scale: Fraction) -> tuple[tuple[Fraction, ...], Fraction]:
    """Return the lattice steps of the noise (D,) and the widening ``cell`` of the K-norm by rounding to them.

    Two points of one cell differ by less than a step in each coordinate, hence by ``max(g_t, g_v sqrt(d) / R)`` in the
    cylinder norm; the steps are chosen so that the second is at most the first.
    """
    d = len(geometry.location)
    radius = Fraction(geometry.radius)
    step = power_of_two_below(scale) * FINENESS
    if d == 0:
        return (step,), step
    ball = power_of_two_below(step * radius / sqrt_up(Fraction(d)))
    if geometry.intercept:
        return (step, *(ball,) * d), step
    return (ball,) * d, ball * sqrt_up(Fraction(d)) / radius


def _noise(geometry: Geometry, *, rate: Fraction, grids: tuple[Fraction, ...]) -> CylinderNoise | BallNoise:
    radius = Fraction(geometry.radius)
    if geometry.intercept:
        return CylinderNoise(dimension=len(grids), rate=rate, radius=radius, grid_axis=grids[0], grid_ball=grids[-1])
    return BallNoise(dimension=len(grids), rate=round_down(rate * grids[0] / radius, 90))


def _solution_error(
    query: ObjectiveQuery, loss: Loss, *, rate: Fraction, records: int, weight: float, offset: float
) -> Fraction:
    r"""Return the public accuracy to which the minimiser is certified.

    From ``F(theta*) <= F(c)``: ``||theta* - c|| <= W / lambda + sqrt((W / lambda)^2 + 2 n L / lambda)`` with
    ``W`` a size that the noise practically never exceeds and ``L`` the largest loss at the centre. The bound of
    `Objective.gradient_error` at that distance, four times over, is what float arithmetic reaches; runs that
    should not are refined until they do, so this is a choice of scale and no part of the proof.
    """
    geometry = query.geometry
    D, ridge, centre = geometry.dimension, float(query.ridge), float(np.linalg.norm(query.centre))
    length = math.sqrt(geometry.leverage)
    noise = (D + 64.0) / float(rate) * math.sqrt(1.0 + geometry.radius**2)
    largest_loss = weight * (math.log(2.0) + length * centre + offset)
    reach = noise / ridge
    size = centre + reach + math.sqrt(reach**2 + 2.0 * records * largest_loss / ridge)
    m, k, g = float(loss.lipschitz), float(loss.smoothness), 2.0 * (D + 2) * UNIT
    per_row = weight * (k * g * (geometry.leverage * size + length * offset) + 11.0 * UNIT * m * length)
    cells = 0.5 * records * math.sqrt(D) * math.ldexp(1.0, -integer_bits(records, m * weight * length))
    sizes = ridge * (size + centre) * math.sqrt(D) + noise + m * weight * length * records
    return Fraction(4.0 * (records * per_row + cells + 8.0 * UNIT * sizes) / ridge)


def _round(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def perturbation_variance(geometry: Geometry, *, rate: float) -> FloatArray:
    """Return the variance of each coordinate of ``b`` (D,), intercept first."""
    D, R = geometry.dimension, geometry.radius
    return cylinder_variance(D, rate, R) if geometry.intercept else np.full(D, ball_variance(D, rate / R))

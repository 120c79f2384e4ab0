r"""Objective perturbation, pure epsilon, that survives a finite solver and floating point.

The mechanism (Chaudhuri, Monteleoni and Sarwate 2011; corrected). With the losses ``l_i`` of the people in whitened
coordinates (`hdpstats.mechanisms.contrast`) and a public centre ``c`` it minimises

.. math:: \sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2 + b'\theta

and releases the minimiser plus a very small lattice noise. The guarantee is the sum of three parts (full proof:
``vignettes/explanation/objective-perturbation``).

1. **Noise.** ``b`` is drawn on an integer lattice with probability proportional to ``exp(-rho K(b))`` and thought of as
   spread uniformly over its cell, so that its density is constant on cells. Two densities at a distance ``S``
   differ by at most ``exp(rho (S + cell))``. With the analysis of the contrast, which couples a person's gradient in
   the norm ``K`` with the curvature (`hdpstats.privacy.coupled`, `hdpstats.privacy.hazard`), the exact minimiser,
   all coordinates penalised alike, is ``epsilon_1``-DP, determinant included.
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

from hdpstats.data.table import AdmittedTable
from hdpstats.mechanisms import curvature
from hdpstats.mechanisms.base import Custody, Prepared
from hdpstats.mechanisms.contrast import Contrast, People, sensitivity_factor
from hdpstats.mechanisms.knorm import lattice, lattice_noise
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.cylinder import CylinderNoise
from hdpstats.noise.lattice import power_of_two_below, round_down, sqrt_up
from hdpstats.privacy.event import PrivacyEvent, Ran
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import CylinderNorm, Sensitivity
from hdpstats.queries.objective import ObjectiveQuery, ObjectiveRelease
from hdpstats.solvers import minimise
from hdpstats.solvers.objective import UNIT
from hdpstats.solvers.refine import refine

SMOOTHING_SHARE = Fraction(1, 1000)
"""Part of epsilon that covers the solver and floating point."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The public constants of one run: functions of the query, the schema and the declared number of records only.

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
    records : int
        The number of people, public or declared.
    events : tuple of PrivacyEvent
        What will have run.
    """

    sensitivity: Sensitivity
    noise_rate: Fraction
    noise: CylinderNoise | BallNoise
    noise_grids: tuple[Fraction, ...]
    solver_radius: Fraction
    smoothing: BallNoise
    grid: Fraction
    hessian: curvature.HessianCalibration | None
    records: int
    events: tuple[PrivacyEvent, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedObjective(Prepared):
    """Objective perturbation with its constants fixed."""

    query: ObjectiveQuery
    contrast: Contrast
    calibration: Calibration

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the model."""
        return self.contrast.needs

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What will have run."""
        return self.calibration.events

    def compute(self, table: AdmittedTable) -> ObjectiveRelease:
        """Minimise, smooth and release."""
        return run(self.query, self.calibration, self.contrast.people(table))


def prepare(query: ObjectiveQuery, contrast: Contrast, custody: Custody) -> PreparedObjective:
    """Fix the constants of a run at a site."""
    calibration = calibrate(query, contrast, records=custody.records, relation=custody.relation)
    return PreparedObjective(query=query, contrast=contrast, calibration=calibration)


def calibrate(
    query: ObjectiveQuery, contrast: Contrast, *, records: int, relation: Relation = Relation.REPLACE_ONE
) -> Calibration:
    """Return the constants of a run, or raise MechanismError where the proof does not cover the query.

    Parameters
    ----------
    query
        The question.
    contrast
        The loss of one person.
    records
        The number of people: public under replace-one, else a declared bound. It sets the scale of the solver's
        accuracy and of nothing else.
    relation
        Who is a neighbour of whom.
    """
    epsilon_hessian = query.epsilon * query.hessian_share
    epsilon_smoothing = query.epsilon * SMOOTHING_SHARE
    epsilon_objective = query.epsilon - epsilon_hessian - epsilon_smoothing
    D, factor = contrast.dimension, sensitivity_factor(relation)
    grids, cell = lattice(contrast.norm, D, scale=factor * contrast.reach / epsilon_objective)
    rate = contrast.noise_rate(epsilon_objective, ridge=query.ridge, cell=cell, relation=relation)
    error = _solution_error(query, contrast, rate=rate, records=records)
    total = error + sqrt_up(sum((g * g for g in grids), Fraction(0))) / (2 * query.ridge)
    grid = power_of_two_below(total / 4)
    smoothing = round_down(epsilon_smoothing / (2 * (total / grid + sqrt_up(Fraction(D)))), 90)
    hessian = None
    events = [
        PrivacyEvent(ran=Ran.OBJECTIVE, epsilon=epsilon_objective),
        PrivacyEvent(ran=Ran.SMOOTHING, epsilon=epsilon_smoothing),
    ]
    if epsilon_hessian > 0:
        hessian = curvature.calibrate(contrast, epsilon=epsilon_hessian, relation=relation)
        events.append(PrivacyEvent(ran=Ran.HESSIAN, epsilon=epsilon_hessian))
    return Calibration(
        sensitivity=Sensitivity(value=factor * contrast.reach, norm=contrast.norm, relation=relation),
        noise_rate=rate,
        noise=lattice_noise(contrast.norm, rate=rate, grids=grids),
        noise_grids=grids,
        solver_radius=error,
        smoothing=BallNoise(dimension=D, rate=smoothing),
        grid=grid,
        hessian=hessian,
        records=records,
        events=tuple(events),
    )


def run(query: ObjectiveQuery, calibration: Calibration, people: People) -> ObjectiveRelease:
    """Draw both noises, then minimise, smooth and release.

    Guarantee: ``query.epsilon``-DP by the module's proof.
    """
    perturbation = [n * g for n, g in zip(calibration.noise.draw(), calibration.noise_grids, strict=True)]
    smoothing = calibration.smoothing.draw()
    theta = solve(query, calibration, people, perturbation=perturbation)
    released = [
        (_round(value / calibration.grid) + n) * calibration.grid for value, n in zip(theta, smoothing, strict=True)
    ]
    numbers = np.array([float(value) for value in released])
    hessian = None
    if calibration.hessian is not None:
        hessian = curvature.noisy_hessian(calibration.hessian, people, theta=numbers)
    return ObjectiveRelease(
        theta=tuple(numbers.tolist()),
        hessian=hessian,
        noise_rate=float(calibration.noise_rate),
        hessian_noise_sd=calibration.hessian.noise_sd if calibration.hessian is not None else 0.0,
        grid=float(calibration.grid),
        records=calibration.records,
        events=calibration.events,
    )


def solve(
    query: ObjectiveQuery, calibration: Calibration, people: People, *, perturbation: list[Fraction]
) -> tuple[Fraction, ...]:
    """Return a point that is surely within ``solver_radius`` of the exact minimiser for this perturbation."""
    centre = np.array(query.centre)
    objective = people.objective(
        ridge=np.full(len(centre), float(query.ridge)),
        centre=centre,
        linear=np.array([float(value) for value in perturbation]),
    )
    solution = minimise(objective, start=centre)
    if math.isfinite(solution.radius) and Fraction(solution.radius) <= calibration.solver_radius:
        return tuple(Fraction(value) for value in solution.theta.tolist())
    start = solution.theta if np.all(np.isfinite(solution.theta)) else centre
    return refine(objective, start=start, radius=calibration.solver_radius, linear=perturbation).theta


def _solution_error(query: ObjectiveQuery, contrast: Contrast, *, rate: Fraction, records: int) -> Fraction:
    r"""Return the public accuracy to which the minimiser is certified.

    From ``F(theta*) <= F(c)``: ``||theta* - c|| <= W / lambda + sqrt((W / lambda)^2 + 2 n L / lambda)`` with
    ``W`` a size that the noise practically never exceeds and ``L`` the largest loss at the centre. The rounding
    of the gradient at that distance, four times over, is what float arithmetic reaches; runs that
    should not are refined until they do, so this is a choice of scale and no part of the proof.
    """
    D, ridge, start = contrast.dimension, float(query.ridge), np.array(query.centre)
    centre = float(np.linalg.norm(start))
    radius = float(contrast.norm.radius)
    longest = math.hypot(1.0, radius) if isinstance(contrast.norm, CylinderNorm) else radius
    noise = (D + 64.0) / float(rate) * longest
    reach = noise / ridge
    size = centre + reach + math.sqrt(reach**2 + 2.0 * records * contrast.largest_loss(start) / ridge)
    sizes = ridge * (size + centre) * math.sqrt(D) + noise
    return Fraction(4.0 * (contrast.rounding(size, people=records) + 8.0 * UNIT * sizes) / ridge)


def _round(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))

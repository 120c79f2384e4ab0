r"""Objective perturbation that survives a finite solver and floating point: pure, or with normal noise and a delta.

The mechanism (Chaudhuri, Monteleoni and Sarwate 2011; corrected). With the losses ``l_i`` of the people in whitened
coordinates (`hdpstats.mechanisms.person_loss.base`) and a public centre ``c`` it minimises

.. math:: \sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2 + b'\theta

and releases the minimiser plus a very small lattice noise. The guarantee is the sum of three parts (full proof:
``vignettes/explanation/objective-perturbation``).

1. **Noise.** *Pure.* ``b`` is drawn on an integer lattice with probability proportional to ``exp(-rho K(b))`` and
   thought of as spread uniformly over its cell, so that its density is constant on cells. Two densities at a distance
   ``S`` differ by at most ``exp(rho (S + cell))``. With the analysis of the person's loss, which couples a person's
   gradient in the norm ``K`` with the curvature or pays for the determinant (`hdpstats.privacy.determinant`,
   `hdpstats.privacy.hazard`), the exact minimiser, all coordinates penalised alike, is
   ``epsilon_1``-DP, determinant included. *With a delta.* ``b`` is exactly normal, and known to within its lattice cell
   (`hdpstats.noise.normal`). With ``G`` the Euclidean distance of neighbours' gradients, ``r`` the dimension of the
   space of their differences and ``J`` the bound on the determinants, `hdpstats.privacy.gaussian.objective_delta` gives
   ``(epsilon_1, delta_1)``: ``r`` is the rank of one person's gradients where a person is added or removed and twice
   that where one is replaced; where moreover the record fixes a vector that every gradient is a multiple of, with a
   fixed sign, `fixed_sign_delta` holds under add-or-remove.
2. **Solver and floats.** The rest of ``b`` within its cell is not drawn and the minimiser is not exact: the computed
   point is certified to lie within ``error`` of the exact one, *surely*, by work that is a public constant as ``error``
   is (`hdpstats.mechanisms.minimiser`).
3. **Smoothing.** The computed point is rounded to a lattice and L2 K-norm noise of rate
   ``epsilon_2 / (2 (error + rounding))`` is added (`hdpstats.mechanisms.objective.smoothing`).
   For every fixed ``b`` the distributions around the computed and
   around the exact point differ by ``exp(epsilon_2 / 2)``, once for each of the two data sets: ``epsilon_1 +
   epsilon_2``, and a delta grows to ``exp(epsilon_2 / 2) delta_1``, which is kept at what the query offers.

A fourth part, where it is bought, releases the weighted Hessian at the *released* coefficients.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats.mechanisms import curvature
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.minimiser import Effort, certified, effort_of, on_lattice
from hdpstats.mechanisms.objective.query import ObjectiveRelease
from hdpstats.mechanisms.objective.smoothing import smoothing_noise
from hdpstats.mechanisms.person_loss.base import People, PersonLoss, sensitivity_factor
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.distributions import FINENESS, LatticeNoise, lattice, lattice_noise
from hdpstats.noise.lattice import lift, power_of_two_below, round_down, sqrt_up
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import fixed_sign_multiplier, objective_multiplier
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm, Sensitivity
from hdpstats.records.point import MinimiserQuery
from hdpstats.schema.table import AdmittedTable

SMOOTHING_SHARE = Fraction(1, 1000)
"""Part of epsilon that covers the solver and floating point."""


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
class Calibration:
    """The public constants of one run: functions of the query, the schema and the declared number of records only.

    Attributes
    ----------
    perturbation : Perturbation
        The noise in the objective.
    effort : Effort
        The work of the minimisation, and the accuracy that it reaches.
    smoothing : BallNoise
        The lattice distribution added to the solution.
    grid : Fraction
        The lattice of the release.
    hessian : curvature.HessianCalibration or None
        The noisy Hessian, where it is bought.
    records : int
        The number of people, public or declared.
    events : tuple of PrivacyEvent
        What will have run.
    """

    perturbation: Perturbation
    effort: Effort
    smoothing: BallNoise
    grid: Fraction
    hessian: curvature.HessianCalibration | None
    records: int
    events: tuple[PrivacyEvent, ...]

    @property
    def sensitivity(self) -> Sensitivity:
        """Of the gradient sum, in the norm of the noise."""
        return self.perturbation.sensitivity

    @property
    def solver_radius(self) -> Fraction:
        """How far the computed minimiser is from the exact one at most."""
        return self.effort.radius

    @property
    def noise_rate(self) -> Fraction:
        """Rate of K-norm noise; 0 for normal noise."""
        return self.perturbation.rate


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedObjective(Prepared):
    """Objective perturbation with its constants fixed."""

    query: MinimiserQuery
    person_loss: PersonLoss
    calibration: Calibration

    def compute(self, table: AdmittedTable) -> ObjectiveRelease:
        """Minimise, smooth and release."""
        return run(self.query, self.calibration, self.person_loss.people(table))


def prepare(query: MinimiserQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedObjective:
    """Fix the constants of a run at a site."""
    calibration = calibrate(query, person_loss, records=site_facts.records, relation=site_facts.relation)
    return PreparedObjective(
        needs=person_loss.needs,
        events=calibration.events,
        query=query,
        person_loss=person_loss,
        calibration=calibration,
    )


def calibrate(
    query: MinimiserQuery, person_loss: PersonLoss, *, records: int, relation: Relation = Relation.REPLACE_ONE
) -> Calibration:
    """Return the constants of a run, or raise MechanismError where the proof does not cover the query.

    Parameters
    ----------
    query
        The question.
    person_loss
        The loss of one person.
    records
        The number of people: public under replace-one, else a declared bound. It sets the solver's accuracy and
        its work, and nothing else.
    relation
        Who is a neighbour of whom.
    """
    epsilon_hessian = query.epsilon * query.hessian_share
    epsilon_smoothing = query.epsilon * SMOOTHING_SHARE
    epsilon_objective = query.epsilon - epsilon_hessian - epsilon_smoothing
    if query.delta > 0:
        perturbation = _normal(query, person_loss, epsilon=epsilon_objective, relation=relation)
    else:
        perturbation = _knorm(query, person_loss, epsilon=epsilon_objective, relation=relation)
    effort = effort_of(query, person_loss, noise=perturbation.size, records=records)
    total = effort.radius + perturbation.cell / query.ridge
    smoothing, grid = smoothing_noise(total=total, dimension=person_loss.dimension, epsilon=epsilon_smoothing)
    hessian = None
    events = [perturbation.event, PrivacyEvent(ran=MechanismName.SMOOTHING, epsilon=epsilon_smoothing)]
    if epsilon_hessian > 0:
        hessian = curvature.calibrate(person_loss, epsilon=epsilon_hessian, relation=relation)
        events.append(PrivacyEvent(ran=MechanismName.HESSIAN, epsilon=epsilon_hessian))
    return Calibration(
        perturbation=perturbation,
        effort=effort,
        smoothing=smoothing,
        grid=grid,
        hessian=hessian,
        records=records,
        events=tuple(events),
    )


def _knorm(query: MinimiserQuery, person_loss: PersonLoss, *, epsilon: Fraction, relation: Relation) -> Perturbation:
    """Return pure noise in the norm of the person's loss."""
    D, value = person_loss.dimension, sensitivity_factor(relation) * person_loss.reach
    grids, cell = lattice(person_loss.norm, D, scale=value / epsilon)
    rate = person_loss.noise_rate(epsilon, ridge=query.ridge, cell=cell, relation=relation)
    return Perturbation(
        sensitivity=Sensitivity(value=value, norm=person_loss.norm, relation=relation),
        noise=lattice_noise(person_loss.norm, rate=rate, grids=grids),
        grids=grids,
        rate=rate,
        sd=Fraction(0),
        size=(D + math.sqrt(90.0 * D) + 46.0) / float(rate) * person_loss.norm.longest,
        event=PrivacyEvent(
            ran=MechanismName.OBJECTIVE_PAYING if person_loss.pays_determinant else MechanismName.OBJECTIVE,
            epsilon=epsilon,
        ),
    )


def _normal(query: MinimiserQuery, person_loss: PersonLoss, *, epsilon: Fraction, relation: Relation) -> Perturbation:
    """Return normal noise. With ``e`` of smoothing it keeps ``delta (1 - e)``, and ``exp(e / 2) (1 - e) <= 1``."""
    D, value = person_loss.dimension, sensitivity_factor(relation) * person_loss.euclidean_reach
    delta = query.delta * (1 - query.epsilon * SMOOTHING_SHARE)
    sd = normal_sd(person_loss, ridge=query.ridge, epsilon=epsilon, delta=delta, relation=relation)
    grid = power_of_two_below(sd) * FINENESS
    return Perturbation(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        noise=RoundedNormal(dimension=D, sd=sd, grid=grid),
        grids=(grid,) * D,
        rate=Fraction(0),
        sd=sd,
        size=float(sd) * (math.sqrt(D) + 12.0),
        event=PrivacyEvent(ran=MechanismName.GAUSSIAN_OBJECTIVE, epsilon=epsilon, delta=query.delta),
    )


def normal_sd(
    person_loss: PersonLoss, *, ridge: Fraction, epsilon: Fraction, delta: Fraction, relation: Relation
) -> Fraction:
    """Return the smallest certified standard deviation of normal noise in the objective, rounded up.

    Raises
    ------
    MechanismError
        If the determinant alone costs more than epsilon.
    """
    jacobian, persons = person_loss.jacobian(ridge), sensitivity_factor(relation)
    if persons == 1 and person_loss.fixed_sign:
        multiplier = fixed_sign_multiplier(epsilon, delta, jacobian)
    else:
        multiplier = objective_multiplier(
            epsilon, delta, jacobian, min(person_loss.dimension, persons * person_loss.rank)
        )
    return -round_down(-persons * person_loss.euclidean_reach / multiplier, 90)


def run(query: MinimiserQuery, calibration: Calibration, people: People) -> ObjectiveRelease:
    """Draw both noises, then minimise, smooth and release.

    Guarantee: ``(query.epsilon, query.delta)``-DP by the module's proof.
    """
    perturbation = calibration.perturbation.draw()
    smoothing = calibration.smoothing.draw()
    theta = solve(query, calibration, people, perturbation=perturbation)
    released = [k + n for k, n in zip(on_lattice(theta, calibration.grid), smoothing, strict=True)]
    numbers = lift(released, calibration.grid)
    hessian = None
    if calibration.hessian is not None:
        hessian = curvature.noisy_hessian(calibration.hessian, people, theta=numbers)
    return ObjectiveRelease(
        theta=tuple(numbers.tolist()),
        hessian=hessian,
        noise_rate=float(calibration.perturbation.rate),
        noise_sd=float(calibration.perturbation.sd),
        hessian_noise_sd=calibration.hessian.noise_sd if calibration.hessian is not None else 0.0,
        grid=float(calibration.grid),
        records=calibration.records,
        events=calibration.events,
    )


def solve(
    query: MinimiserQuery, calibration: Calibration, people: People, *, perturbation: list[Fraction]
) -> tuple[Fraction, ...]:
    """Return a point that is surely within ``solver_radius`` of the exact minimiser for this perturbation."""
    return certified(query, people, effort=calibration.effort, perturbation=perturbation)

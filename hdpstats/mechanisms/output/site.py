r"""Output perturbation: the certified minimiser of the penalised objective, plus noise.

With the losses ``l_i`` of the people in whitened coordinates and a public centre ``c`` the objective

.. math:: F_D(\theta) = \sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2

is minimised to within a public distance ``r``, *surely* and by work that is a public constant
(`hdpstats.mechanisms.minimiser`), rounded to a lattice, and noise is added (Chaudhuri, Monteleoni and Sarwate 2011,
algorithm 1).

**Sensitivity.** ``F_D`` is ``lambda``-strongly convex. With ``a``, ``b`` the exact minimisers for neighbours ``D``,
``D'``:

.. math:: \lambda \|a - b\|^2 \le \langle \nabla F_D(a) - \nabla F_D(b),\, a - b \rangle
          = \langle \nabla F_{D'}(b) - \nabla F_D(b),\, a - b \rangle \le G \|a - b\|,

``G`` being how far one person moves the gradient sum: the largest gradient ``g`` of one person (`PersonLoss.
euclidean_reach`) where a person is added or removed, ``2 g`` where one is replaced. The computed points are off by at
most ``r`` each, and rounding to a lattice of step ``gamma`` moves each by at most ``gamma sqrt(D) / 2``:

.. math:: S = G / \lambda + 2 r + \gamma \sqrt{D}.

Nothing else about the losses is used: they need no second derivative, and no determinant enters.

**Noise.** Without a delta: lattice noise of density proportional to ``exp(-epsilon ||b|| / S)``, which is epsilon-DP
(Hardt and Talwar 2010). With one: normal noise of standard deviation ``S / mu``, exact and rounded
(`hdpstats.noise.normal`), which is ``mu``-GDP, with the ``mu`` that ``(epsilon, delta)`` allows.

A second part, where it is bought, releases the weighted Hessian at the *released* coefficients.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats.mechanisms import curvature
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.minimiser import Effort, certified, effort_of, on_lattice
from hdpstats.mechanisms.output.query import OutputRelease
from hdpstats.mechanisms.person_loss.base import People, PersonLoss, sensitivity_factor
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.lattice import lift, power_of_two_below, round_down, sqrt_down, sqrt_up
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.charging import square_of
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import mu_of
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm, Sensitivity
from hdpstats.records.point import MinimiserQuery
from hdpstats.schema.table import AdmittedTable

FINENESS = Fraction(1, 2**30)
"""Grid of the coefficients relative to their sensitivity."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The public constants of one run: functions of the query, the schema and the declared number of records only.

    Attributes
    ----------
    sensitivity : Sensitivity
        Of the rounded minimiser.
    noise : BallNoise or RoundedNormal
        The lattice distribution, in steps of ``grid``.
    noise_rate, noise_sd : Fraction
        Rate of K-norm noise or standard deviation of normal noise; the other one is 0.
    effort : Effort
        The work of the minimisation, and the accuracy that it reaches.
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
    noise: BallNoise | RoundedNormal
    noise_rate: Fraction
    noise_sd: Fraction
    effort: Effort
    grid: Fraction
    hessian: curvature.HessianCalibration | None
    records: int
    events: tuple[PrivacyEvent, ...]

    @property
    def solver_radius(self) -> Fraction:
        """How far the computed minimiser is from the exact one at most."""
        return self.effort.radius


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedOutput(Prepared):
    """Output perturbation with its constants fixed."""

    query: MinimiserQuery
    person_loss: PersonLoss
    calibration: Calibration

    def compute(self, table: AdmittedTable) -> OutputRelease:
        """Minimise, add noise and release."""
        return run(self.query, self.calibration, self.person_loss.people(table))


def prepare(query: MinimiserQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedOutput:
    """Fix the constants of a run at a site."""
    calibration = calibrate(query, person_loss, records=site_facts.records, relation=site_facts.relation)
    return PreparedOutput(
        needs=person_loss.needs,
        events=calibration.events,
        query=query,
        person_loss=person_loss,
        calibration=calibration,
    )


def calibrate(query: MinimiserQuery, person_loss: PersonLoss, *, records: int, relation: Relation) -> Calibration:
    """Return the constants of a run.

    Parameters
    ----------
    query
        The question.
    person_loss
        The loss of one person.
    records
        The number of people: public under replace-one, else a declared bound. It sets the solver's accuracy and work.
    relation
        Who is a neighbour of whom.
    """
    D, epsilon = person_loss.dimension, query.epsilon * (1 - query.hessian_share)
    effort = effort_of(query, person_loss, noise=0.0, records=records)
    moved = minimiser_sensitivity(person_loss, ridge=query.ridge, relation=relation) + 2 * effort.radius
    grid = power_of_two_below(moved) * FINENESS
    value = moved + grid * sqrt_up(Fraction(D))
    noise: BallNoise | RoundedNormal
    if query.delta == 0:
        noise = BallNoise(dimension=D, rate=round_down(epsilon * grid / value, 90))
        rate, sd = noise.rate / grid, Fraction(0)
        events = [PrivacyEvent(ran=MechanismName.OUTPUT, epsilon=epsilon)]
    else:
        square = square_of(epsilon, query.delta)
        rate, sd = Fraction(0), -round_down(-value / sqrt_down(square), 90)
        noise = RoundedNormal(dimension=D, sd=sd, grid=grid)
        events = [
            PrivacyEvent(ran=MechanismName.GAUSSIAN_OUTPUT, epsilon=epsilon, delta=query.delta, mu_squared=square)
        ]
    hessian = None
    if query.hessian_share > 0:
        hessian = curvature.calibrate(person_loss, epsilon=query.epsilon - epsilon, relation=relation)
        events.append(PrivacyEvent(ran=MechanismName.HESSIAN, epsilon=query.epsilon - epsilon))
    return Calibration(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        noise=noise,
        noise_rate=rate,
        noise_sd=sd,
        effort=effort,
        grid=grid,
        hessian=hessian,
        records=records,
        events=tuple(events),
    )


def minimiser_sensitivity(person_loss: PersonLoss, *, ridge: Fraction, relation: Relation) -> Fraction:
    """Return how far apart the exact minimisers of neighbours can be."""
    return sensitivity_factor(relation) * person_loss.euclidean_reach / ridge


def run(query: MinimiserQuery, calibration: Calibration, people: People) -> OutputRelease:
    """Minimise, add noise and release.

    Guarantee: ``(query.epsilon, query.delta)``-DP by the module's proof.
    """
    noise = calibration.noise.draw()
    still = (Fraction(0),) * len(query.centre)
    theta = certified(query, people, effort=calibration.effort, perturbation=still)
    released = [k + n for k, n in zip(on_lattice(theta, calibration.grid), noise, strict=True)]
    numbers = lift(released, calibration.grid)
    hessian = None
    if calibration.hessian is not None:
        hessian = curvature.noisy_hessian(calibration.hessian, people, theta=numbers)
    return OutputRelease(
        theta=tuple(numbers.tolist()),
        hessian=hessian,
        noise_rate=float(calibration.noise_rate),
        noise_sd=float(calibration.noise_sd),
        hessian_noise_sd=calibration.hessian.noise_sd if calibration.hessian is not None else 0.0,
        grid=float(calibration.grid),
        records=calibration.records,
        events=calibration.events,
    )


def noise_variance(person_loss: PersonLoss, *, epsilon: Fraction, delta: Fraction, relation: Relation) -> float:
    """Return the variance of each coordinate of the noise at a ridge of 1; it falls with the square of the ridge."""
    value = float(minimiser_sensitivity(person_loss, ridge=Fraction(1), relation=relation))
    if delta == 0:
        return (person_loss.dimension + 1.0) * (value / float(epsilon)) ** 2
    return (value / float(mu_of(epsilon, delta))) ** 2

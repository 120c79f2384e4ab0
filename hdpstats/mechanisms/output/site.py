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
euclidean_bound`) where a person is added or removed, ``2 g`` where one is replaced. The computed points are off by at
most ``r`` each, and rounding to a lattice of step ``gamma`` moves each by at most ``gamma sqrt(D) / 2``:

.. math:: S = G / \lambda + 2 r + \gamma \sqrt{D}.

Nothing else about the losses is used: they need no second derivative, and no determinant enters. A person with a
missing cell has the gradient 0, which is not longer than ``g``.

**Noise.** Without a delta: lattice noise of density proportional to ``exp(-epsilon ||b|| / S)``, which is epsilon-DP
(Hardt and Talwar 2010). With one: normal noise of standard deviation ``S / mu``, exact and rounded
(`hdpstats.noise.normal`), which is ``mu``-GDP, with the ``mu`` that ``(epsilon, delta)`` allows.

A second part, where a query asks for it, releases the weighted Hessian at the *released* coefficients.
"""

from fractions import Fraction

from hdpstats.mechanisms.base import SiteFacts
from hdpstats.mechanisms.minimiser import PointCalibration, PreparedPoint, effort_of, hessian_of, prepared
from hdpstats.mechanisms.output import OutputRelease
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.noise.exact import power_of_two_below, round_down, sqrt_down, sqrt_up
from hdpstats.noise.knorm import BallNoise
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.charging import square_of
from hdpstats.privacy.gaussian import mu_of
from hdpstats.privacy.sensitivity import BallNorm, Relation, Sensitivity
from hdpstats.records.query import MinimiserQuery

FINENESS = Fraction(1, 2**30)
"""Grid of the coefficients relative to their sensitivity."""


def prepare(query: MinimiserQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedPoint:
    """Fix the constants of a run at a site."""
    calibration = calibrate(query, person_loss, records=site_facts.records, relation=site_facts.relation)
    return prepared(query, person_loss, calibration)


def calibrate(query: MinimiserQuery, person_loss: PersonLoss, *, records: int, relation: Relation) -> PointCalibration:
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
        event = PrivacyEvent(ran=MechanismName.OUTPUT, epsilon=epsilon)
    else:
        square = square_of(epsilon, query.delta)
        rate, sd = Fraction(0), -round_down(-value / sqrt_down(square), 90)
        noise = RoundedNormal(dimension=D, sd=sd, grid=grid)
        event = PrivacyEvent(ran=MechanismName.GAUSSIAN_OUTPUT, epsilon=epsilon, delta=query.delta, mu_squared=square)
    hessian, of_hessian = hessian_of(query, person_loss, relation=relation)
    return PointCalibration(
        release=OutputRelease,
        perturbation=None,
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        effort=effort,
        noise=noise,
        grid=grid,
        noise_rate=rate,
        noise_sd=sd,
        hessian=hessian,
        records=records,
        events=(event, *of_hessian),
    )


def minimiser_sensitivity(person_loss: PersonLoss, *, ridge: Fraction, relation: Relation) -> Fraction:
    """Return how far apart the exact minimisers of neighbours can be."""
    return relation.persons_changed * person_loss.euclidean_bound / ridge


def noise_variance(person_loss: PersonLoss, *, epsilon: Fraction, delta: Fraction, relation: Relation) -> float:
    """Return the variance of each coordinate of the noise at a ridge of 1; it falls with the square of the ridge."""
    value = float(minimiser_sensitivity(person_loss, ridge=Fraction(1), relation=relation))
    if delta == 0:
        return (person_loss.dimension + 1.0) * (value / float(epsilon)) ** 2
    return (value / float(mu_of(epsilon, delta))) ** 2

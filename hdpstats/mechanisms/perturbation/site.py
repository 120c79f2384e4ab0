r"""Objective and output perturbation that survive a finite solver and floating point: pure, or with normal noise.

**Objective perturbation** (Chaudhuri, Monteleoni and Sarwate 2011; corrected). With the losses ``l_i`` of the people in
whitened coordinates (`hdpstats.families.base`) and a public centre ``c`` it minimises

.. math:: \sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2 + b'\theta

and releases the minimiser plus a very small lattice noise. The guarantee is the sum of three parts (full proof:
``vignettes/explanation/objective-perturbation``).

1. **Noise.** *Pure.* ``b`` is drawn on an integer lattice with probability proportional to ``exp(-rho K(b))`` and
   thought of as spread uniformly over its cell, so that its density is constant on cells. Two densities at a distance
   ``S`` differ by at most ``exp(rho (S + cell))``. With the analysis of the person's loss, which couples a person's
   gradient in the norm ``K`` with the curvature or charges for the determinant (`hdpstats.privacy.sensitivity`,
   `hdpstats.privacy.hazard_sensitivity`), the exact minimiser, all coordinates penalised alike, is
   ``epsilon_1``-DP, determinant included. *With a delta.* ``b`` is exactly normal, and known to within its lattice cell
   (`hdpstats.noise.normal`). With ``G`` the Euclidean distance of neighbours' gradients, ``r`` the dimension of the
   space of their differences and ``J`` the bound on the determinants, `hdpstats.privacy.gaussian.objective_delta` gives
   ``(epsilon_1, delta_1)``: ``r`` is the rank of one person's gradients where a person is added or removed and twice
   that where one is replaced; where moreover the record fixes a vector that every gradient is a multiple of, with a
   fixed sign, `fixed_sign_multiplier` holds under add-or-remove.
2. **Solver and floats.** The rest of ``b`` within its cell is not drawn and the minimiser is not exact: the computed
   point is certified to lie within ``error`` of the exact one, *surely*, by work that is a public constant as ``error``
   is (`hdpstats.mechanisms.minimiser`).
3. **Smoothing.** The query says which share ``s`` of epsilon is for this, from 1/1000 to 1/10 (`MinimiserQuery.
   for_smoothing`): ``epsilon_2 = s epsilon``, and ``epsilon_1`` is what that and the parts for standard errors leave.
   It is plain public data, as epsilon is, and the proof holds for each value by itself. The computed point is rounded
   to a lattice and L2 K-norm noise of rate ``epsilon_2 / (2 (error + rounding))`` is added (`smoothing_noise`). For
   every fixed ``b`` the distributions around the computed and around the exact point differ by ``exp(epsilon_2 / 2)``,
   once for each of the two data sets: ``epsilon_1 + epsilon_2``, and a delta grows to ``exp(epsilon_2 / 2) delta_1``,
   which is kept at what the query offers.

A person with a missing cell adds the loss 0, gradient and Hessian included: as under add-or-remove-one one who is not
there, and among the persons that the bounds of a replaced one are taken over (weights may be as small as one likes).

**Output perturbation** (algorithm 1 of the same). The objective without noise,

.. math:: F_D(\theta) = \sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2,

is minimised to within a public distance ``r``, *surely* and by work that is a public constant
(`hdpstats.mechanisms.minimiser`), rounded to a lattice, and noise is added.

*Sensitivity.* ``F_D`` is ``lambda``-strongly convex. With ``a``, ``b`` the exact minimisers for neighbours ``D``,
``D'``:

.. math:: \lambda \|a - b\|^2 \le \langle \nabla F_D(a) - \nabla F_D(b),\, a - b \rangle
          = \langle \nabla F_{D'}(b) - \nabla F_D(b),\, a - b \rangle \le G \|a - b\|,

``G`` being how far one person moves the gradient sum: the largest gradient ``g`` of one person (`PersonLoss.
euclidean_bound`) where a person is added or removed, ``2 g`` where one is replaced. The computed points are off by at
most ``r`` each, and rounding to a lattice of step ``gamma`` moves each by at most ``gamma sqrt(D) / 2``:

.. math:: S = G / \lambda + 2 r + \gamma \sqrt{D}.

Nothing else about the losses is used: they need no second derivative, and no determinant enters. A person with a
missing cell has the gradient 0, which is not longer than ``g``.

*Noise.* Without a delta: lattice noise of density proportional to ``exp(-epsilon ||b|| / S)``, which is epsilon-DP
(Hardt and Talwar 2010). With one: normal noise of standard deviation ``S / mu``, exact and rounded
(`hdpstats.noise.normal`), which is ``mu``-GDP, with the ``mu`` that ``(epsilon, delta)`` allows.

Further parts of either, where a query asks for them, release the weighted Hessian, or cut Hessians and squared scores,
at the *released* coefficients (`hdpstats.mechanisms.minimiser`).
"""

import math
from fractions import Fraction

from hdpstats._base.errors import MechanismError
from hdpstats.families.base import PersonLoss
from hdpstats.mechanisms.minimiser import (
    Perturbation,
    PointCalibration,
    PreparedPoint,
    effort_of,
    hessian_of,
    prepared,
    sandwich_of,
)
from hdpstats.mechanisms.perturbation import ObjectiveRelease, OutputRelease
from hdpstats.noise.distributions import FINENESS, NoiseDistribution, lattice, lattice_noise
from hdpstats.noise.exact import power_of_two_below, round_down, sqrt_down, sqrt_up
from hdpstats.noise.knorm import BallNoise
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.composition import square_of
from hdpstats.privacy.gaussian import fixed_sign_multiplier, mu_of, objective_multiplier
from hdpstats.privacy.sensitivity import BallNorm, Relation, Sensitivity
from hdpstats.records.query import MinimiserQuery
from hdpstats.schema.site_facts import SiteFacts

STEPS = 64
"""Lattice steps within ``total``, at most."""


def prepare_objective(query: MinimiserQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedPoint:
    """Fix the constants of objective perturbation at a site."""
    calibration = calibrate_objective(query, person_loss, records=site_facts.records, relation=site_facts.relation)
    return prepared(query, person_loss, calibration)


def calibrate_objective(
    query: MinimiserQuery, person_loss: PersonLoss, *, records: int, relation: Relation = Relation.REPLACE_ONE
) -> PointCalibration:
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
    epsilon_smoothing = query.epsilon * query.for_smoothing
    perturbation = perturbation_of(query, person_loss, relation=relation)
    effort = effort_of(query, person_loss, noise=perturbation.size, records=records)
    total = effort.radius + perturbation.cell / query.ridge
    smoothing, grid = smoothing_noise(total=total, dimension=person_loss.dimension, epsilon=epsilon_smoothing)
    hessian, of_hessian = hessian_of(query, person_loss, relation=relation)
    sandwich, of_sandwich = sandwich_of(query, person_loss, relation=relation)
    return PointCalibration(
        release=ObjectiveRelease,
        perturbation=perturbation,
        sensitivity=perturbation.sensitivity,
        effort=effort,
        noise=smoothing,
        grid=grid,
        noise_rate=perturbation.rate,
        noise_sd=perturbation.sd,
        hessian=hessian,
        sandwich=sandwich,
        records=records,
        events=(
            perturbation.event,
            PrivacyEvent(ran=MechanismName.SMOOTHING, epsilon=epsilon_smoothing),
            *of_hessian,
            *of_sandwich,
        ),
    )


def perturbation_of(query: MinimiserQuery, person_loss: PersonLoss, *, relation: Relation) -> Perturbation:
    """Return the noise in the objective: normal noise for a delta above 0, else noise in the norm of the loss."""
    perturb = _normal if query.delta > 0 else _knorm
    return perturb(query, person_loss, epsilon=query.epsilon * query.for_objective, relation=relation)


def _knorm(query: MinimiserQuery, person_loss: PersonLoss, *, epsilon: Fraction, relation: Relation) -> Perturbation:
    """Return pure noise in the norm of the person's loss."""
    D, value = person_loss.dimension, relation.persons_changed * person_loss.gradient_bound
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
            ran=MechanismName.OBJECTIVE_DETERMINANT if person_loss.charges_determinant else MechanismName.OBJECTIVE,
            epsilon=epsilon,
        ),
    )


def _normal(query: MinimiserQuery, person_loss: PersonLoss, *, epsilon: Fraction, relation: Relation) -> Perturbation:
    """Return normal noise of the delta that smoothing leaves (`kept_delta`)."""
    D, value = person_loss.dimension, relation.persons_changed * person_loss.euclidean_bound
    delta = kept_delta(query.delta, query.epsilon * query.for_smoothing)
    if not delta > 0:
        raise MechanismError(
            "smoothing_share takes all of delta: epsilon times smoothing_share must be below 1; leave the share out, "
            "or ask with a smaller epsilon"
        )
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


def kept_delta(delta: Fraction, smoothing: Fraction) -> Fraction:
    """Return what ``e`` of smoothing leaves of a delta: ``delta (1 - e)``, as ``exp(e / 2) (1 - e) <= 1``."""
    return delta * (1 - smoothing)


def normal_sd(
    person_loss: PersonLoss, *, ridge: Fraction, epsilon: Fraction, delta: Fraction, relation: Relation
) -> Fraction:
    """Return the smallest certified standard deviation of normal noise in the objective, rounded up.

    Raises
    ------
    MechanismError
        If the determinant alone costs more than epsilon.
    """
    jacobian, persons = person_loss.jacobian(ridge), relation.persons_changed
    if persons == 1 and person_loss.fixed_sign:
        multiplier = fixed_sign_multiplier(epsilon, delta, jacobian)
    else:
        multiplier = objective_multiplier(
            epsilon, delta, jacobian, min(person_loss.dimension, persons * person_loss.rank)
        )
    return -round_down(-persons * person_loss.euclidean_bound / multiplier, 90)


def smoothing_noise(*, total: Fraction, dimension: int, epsilon: Fraction) -> tuple[BallNoise, Fraction]:
    r"""Return the lattice noise that covers a distance ``total`` for ``epsilon / 2``, and its lattice step.

    The computed point is within ``total`` of the exact minimiser. It is rounded to multiples of ``grid``, the power of
    two with ``32 <= total / grid < 64``, and L2 K-norm noise is added whose rate per lattice step is

    .. math:: r = \frac{\epsilon_2}{2 (total / grid + \sqrt D)}

    (part 3 of the module, where the guarantee is proved). Every coordinate then has the variance ``(D + 1) (grid /
    r)^2``. The noise grows with the number of people, as the float error of a sum does, and falls with the ridge. With
    many people and a small ridge it is no small part of the error.
    """
    grid = power_of_two_below(total / (STEPS // 2))
    rate = round_down(epsilon / (2 * (total / grid + sqrt_up(Fraction(dimension)))), 90)
    return BallNoise(dimension=dimension, rate=rate), grid


def smoothing_distribution(noise: BallNoise, grid: Fraction) -> NoiseDistribution:
    """Return the distribution of the noise in the coordinates of the minimiser."""
    return NoiseDistribution(norm=BallNorm(), dimension=noise.dimension, rate=float(noise.rate / grid))


def widest_smoothing(release: ObjectiveRelease) -> NoiseDistribution | None:
    """Return the widest distribution of the smoothing noise that a release may have; None where no smoothing ran.

    A release tells its ``grid`` and ``epsilon_2``, not ``total``: the distribution is that of ``total = 64 grid``. Its
    standard deviation is never smaller than that of the noise, and at most ``(64 + sqrt(D)) / (32 + sqrt(D))`` times
    as large.
    """
    epsilon = sum((event.epsilon for event in release.events if event.ran is MechanismName.SMOOTHING), Fraction(0))
    if not epsilon:
        return None
    dimension = len(release.theta)
    rate = float(epsilon) / (2.0 * (STEPS + dimension**0.5)) / release.grid
    return NoiseDistribution(norm=BallNorm(), dimension=dimension, rate=rate)


COEFFICIENT_FINENESS = Fraction(1, 2**30)
"""Grid of the coefficients relative to their sensitivity."""


def prepare_output(query: MinimiserQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedPoint:
    """Fix the constants of output perturbation at a site."""
    calibration = calibrate_output(query, person_loss, records=site_facts.records, relation=site_facts.relation)
    return prepared(query, person_loss, calibration)


def calibrate_output(
    query: MinimiserQuery, person_loss: PersonLoss, *, records: int, relation: Relation
) -> PointCalibration:
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
    D, epsilon = person_loss.dimension, query.epsilon * (1 - query.for_errors)
    effort = effort_of(query, person_loss, noise=0.0, records=records)
    moved = minimiser_sensitivity(person_loss, ridge=query.ridge, relation=relation) + 2 * effort.radius
    grid = power_of_two_below(moved) * COEFFICIENT_FINENESS
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
    sandwich, of_sandwich = sandwich_of(query, person_loss, relation=relation)
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
        sandwich=sandwich,
        records=records,
        events=(event, *of_hessian, *of_sandwich),
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

r"""A noisy sum of clipped scores: one round of a fit by noisy Newton steps.

With a public ``theta`` and a public ``C`` the query is

.. math:: G = \sum_i g_i, \qquad g_i = s_i \min(1,\; C / \|s_i\|),

where :math:`s_i` is the gradient of person ``i``'s whole weighted loss at ``theta``, in whitened coordinates. What is
clipped is a *person*: the sum over all rows, intervals and causes of that person, never a row or an interval of it.

**Sensitivity.** Neighbours differ in one person. As :math:`\|g_i\| \le C` whatever the record, replacing a person moves
``G`` by at most ``2 C`` in the Euclidean norm, which two persons with opposite long scores attain; adding or removing
one by at most ``C``. Nothing about the loss is used: no bound of rows, of the number of intervals, of the curvature.

**Floating point.** A score that is not finite in every coordinate is replaced by 0 *before* it is clipped or added (0
times infinity would otherwise spoil the whole sum, and tell). The computed norm of a vector of at most `MOST` doubles
has a relative error below ``2^-41``, and so has the factor; the computed ``g_i`` is therefore no longer than
``C (1 + 2^-40)``, and that is what is counted. Each coordinate is then rounded to a grid, a power of two, and the
integers are added: exactly, in any order. With grid ``gamma`` rounding moves a person's vector by at most
``gamma sqrt(D) / 2``, so replace-one costs ``2 C (1 + 2^-40) + gamma sqrt(D)``, add-or-remove half of it. Scores are
computed person by person with elementwise arithmetic (`People.scores`): the vector of a person does not depend, even in
its last bit, on who else is in the table, or one grid step might change for everybody.

**Noise.** With a delta: normal noise, exact and rounded to the same lattice (`hdpstats.noise.normal`), of standard
deviation sensitivity / mu. The round is exactly ``mu``-GDP, and adaptively chosen rounds, ``theta`` of each depending
on the releases before it, compose exactly to ``sqrt(sum mu_t^2)`` (Dong, Roth and Su 2022). Without: lattice noise of
density proportional to ``exp(-rate ||b||)`` with ``rate = epsilon / sensitivity``, which is epsilon-DP (Hardt and
Talwar 2010).

References
----------
M. Abadi et al. (2016), Deep learning with differential privacy. M. Avella-Medina, C. Bradshaw, P.-L. Loh (2023),
Differentially private inference via noisy optimization. Z. Ji, X. Jiang, S. Wang, L. Xiong, L. Ohno-Machado (2014),
Differentially private distributed logistic regression using private and public data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.clipped_newton.query import ClippedNewtonQuery, ClippedNewtonRelease
from hdpstats.mechanisms.person_loss.base import ROUNDING, People, PersonLoss, sensitivity_factor
from hdpstats.noise.ball import BallNoise
from hdpstats.noise.lattice import lift, power_of_two_below, round_down, sqrt_up
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.event import MechanismName, PrivacyEvent
from hdpstats.privacy.relation import Relation
from hdpstats.privacy.sensitivity import BallNorm, Sensitivity
from hdpstats.records.rounds import gaussian_ahead
from hdpstats.schema.table import AdmittedTable

FINENESS = Fraction(1, 2**30)
"""Grid of the sum relative to the clip: leaves room for 2^31 people in 64-bit integers."""

MOST = 2000
"""Coefficients up to which the float error of a norm is covered by the margin."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The public constants of one round: functions of the query and of the relation.

    Attributes
    ----------
    sensitivity : Sensitivity
        Of the sum, rounding included.
    noise : RoundedNormal or BallNoise
        The lattice distribution, in steps of ``grid``.
    grid : Fraction
        The lattice step.
    noise_sd : float
        Standard deviation of the noise in each coordinate.
    event : PrivacyEvent
        What will have run.
    """

    sensitivity: Sensitivity
    noise: RoundedNormal | BallNoise
    grid: Fraction
    noise_sd: float
    event: PrivacyEvent


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedClippedNewton(Prepared):
    """One round with its constants fixed."""

    query: ClippedNewtonQuery
    person_loss: PersonLoss
    calibration: Calibration
    records: int

    def compute(self, table: AdmittedTable) -> ClippedNewtonRelease:
        """Sum, add noise and release."""
        total = noisy_sum(self.query, self.calibration, self.person_loss.people(table))
        return ClippedNewtonRelease(
            total=total,
            noise_sd=self.calibration.noise_sd,
            grid=float(self.calibration.grid),
            records=self.records,
            events=self.events,
        )


def prepare(query: ClippedNewtonQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedClippedNewton:
    """Fix the constants of a round at a site."""
    calibration = calibrate(query, relation=site_facts.relation)
    return PreparedClippedNewton(
        needs=person_loss.needs,
        events=(calibration.event,),
        ahead=gaussian_ahead(query.ahead, query.mu_squared, Budget(query.epsilon, query.delta)),
        query=query,
        person_loss=person_loss,
        calibration=calibration,
        records=site_facts.records,
    )


def calibrate(query: ClippedNewtonQuery, *, relation: Relation) -> Calibration:
    """Return the constants of a round, or raise MechanismError where the proof does not cover it."""
    D = len(query.theta)
    if D > MOST:
        raise MechanismError(f"clipped scores are proved for at most {MOST} coefficients, not {D}")
    grid = power_of_two_below(query.clip) * FINENESS
    value = sensitivity_factor(relation) * (query.clip * ROUNDING + grid * sqrt_up(Fraction(D)) / 2)
    if query.delta == 0:
        event = PrivacyEvent(ran=MechanismName.GRADIENT_PURE, epsilon=query.epsilon)
    else:
        event = PrivacyEvent(
            ran=MechanismName.GRADIENT, epsilon=query.epsilon, delta=query.delta, mu_squared=query.mu_squared
        )
    return calibrated(value, event, dimension=D, grid=grid, relation=relation)


def calibrated(
    value: Fraction, event: PrivacyEvent, *, dimension: int, grid: Fraction, relation: Relation
) -> Calibration:
    """Return the constants of a sum that neighbours move by ``value``, rounding included, in the Euclidean norm.

    The noise is normal for an event with a mu, else of density proportional to ``exp(-rate ||b||)``.
    """
    noise: RoundedNormal | BallNoise
    if event.mu_squared:
        sd = sqrt_up(value * value / event.mu_squared)
        noise, spread = RoundedNormal(dimension=dimension, sd=sd, grid=grid), float(sd)
    else:
        rate = round_down(event.epsilon * grid / value, 90)
        noise, spread = BallNoise(dimension=dimension, rate=rate), math.sqrt(dimension + 1.0) * float(grid / rate)
    return Calibration(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        noise=noise,
        grid=grid,
        noise_sd=spread,
        event=event,
    )


def noisy_sum(query: ClippedNewtonQuery, calibration: Calibration, people: People) -> tuple[float, ...]:
    """Return the noisy sum of clipped scores; the noise is drawn before a score is computed.

    Guarantee: that of the calibration's event, by the module's proof.
    """
    noise = calibration.noise.draw()
    scores = people.scores(np.array(query.theta))
    return with_noise(clipped(scores, float(query.clip)), noise, grid=calibration.grid)


def clipped(scores: FloatArray, clip: float) -> FloatArray:
    """Return each row (people, D) shortened to the length ``clip``; rows that are not finite become 0. A total map."""
    finite = np.where(np.all(np.isfinite(scores), axis=1)[:, None], scores, 0.0)
    square = np.zeros(len(finite))
    with np.errstate(over="ignore"):
        for column in finite.T:
            square += column * column
        norm = np.sqrt(square)
    factor = clip / np.maximum(norm, clip)
    return np.asarray(finite * factor[:, None])


def grid_sum(rows: FloatArray, *, grid: float) -> IntArray:
    """Return the exact sum (D,) of rows, each number first rounded to a multiple of ``grid``, a power of two."""
    return np.asarray(np.rint(rows / grid).astype(np.int64).sum(axis=0))


def with_noise(rows: FloatArray, noise: Sequence[int], *, grid: Fraction) -> tuple[float, ...]:
    """Return the sum (D,) of rows, each number first rounded to the grid, and of noise in steps of it."""
    total = grid_sum(rows, grid=float(grid)).tolist()
    return tuple(lift([int(t) + n for t, n in zip(total, noise, strict=True)], grid).tolist())

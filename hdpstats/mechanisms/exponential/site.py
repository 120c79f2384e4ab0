r"""The exponential mechanism on a box, drawn exactly by rejection with an acceptance that is certain beforehand.

The mechanism (Nguyen and Hui 2017, algorithm 3, sanitised by a box instead of a bounded transform of the loss). With a
public centre ``c`` a lattice point ``theta`` of the box ``|theta_j - c_j| <= B_j`` is drawn with probability

.. math:: \pi_D(\theta) \propto \exp\Big\{-\tau \sum_i u_i(\theta) - \tfrac{s \lambda}{2} \|\theta - c\|^2\Big\},
          \qquad u_i(\theta) = \mathrm{round}\{(\ell_i(\theta) - \ell_i(c)) / \gamma\},

``u_i`` being an integer, computed in floats from the own person alone and *clipped* to ``[-m, m]``, and
``s = tau / gamma``.

**Privacy.** Where a person is replaced ``sum u`` changes by a function whose values lie within ``4 m`` of each other,
and so ``log pi`` by at most ``4 m tau = epsilon`` (McSherry and Talwar 2007), whatever the floats are. A person with a
missing cell has losses of 0, hence ``u = 0``, in [-m, m]. As one person's
loss has gradients of at most ``g`` and the box a half diagonal of ``||B||``, with ``m gamma >= g ||B||`` nobody is
clipped by more than rounding, and nothing is lost.

**Rejection.** Let ``V`` be minus the exponent and ``theta_0`` (nearly) its minimiser on the box, with slopes ``a >= 0``
into it (`hdpstats.solvers.box`). ``V`` is ``s lambda``-strongly convex, so that

.. math:: t = V(\theta) - V(\theta_0) - \sum_j a_j |\theta_j - \theta_{0j}|
          - \tfrac{s \lambda}{2} \|\theta - \theta_0\|^2 + \sigma \ge 0

for every lattice point, a public slack ``sigma`` covering rounding of the ``u_i``, float errors and what ``theta_0``
lacks, all of them certified. Coordinates are proposed independently with probability
``exp(-a |theta_j - theta_0j| - s lambda (theta_j - theta_0j)^2 / 2)`` (`hdpstats.noise.normal`), and kept with
probability ``exp(-t)``: proposals, exponents and coins are exact rational arithmetic. The first that is kept has the
distribution ``pi_D``, exactly.

**Delta.** One person's Hessian has eigenvalues of at most ``tr``, so ``V`` is ``s (lambda + n tr)``-smooth and
``t <= s n tr ||theta - theta_0||^2 / 2 + 2 sigma``. With ``q = 1 + n tr / lambda`` a proposal is kept with probability
at least

.. math:: \alpha = q^{-D/2} e^{-2 \sigma} (1 - 2^{-9})^D

*whatever the rows are*. For a coordinate, let ``S`` be the sum over lattice points of ``f(j) = exp(-a j - b j^2)`` and
``S_q`` that with ``q b`` in place of ``b``. Sums of falling functions lie within one term of their integrals, and by
substitution the integral of ``f`` is at most ``sqrt(q)`` times the other, so that on both sides of ``theta_0``
``S_q >= (S - 1) / sqrt(q) - 1``, or ``S_q / S >= {1 - (1 + sqrt(q)) / S} / sqrt(q)``; the grid is so fine against the
steepest slope that all losses together can have, and against the curvature, that ``S >= 2^9 (1 + sqrt(q))``. Of ``N``
proposals none is kept with
probability at most ``exp(-N alpha)``; then ``c`` is released. That distribution is within ``exp(-N alpha)`` of ``pi_D``
in total variation, for every ``D``, hence ``(epsilon, (1 + e^epsilon) exp(-N alpha))``-DP. All proposals are made and
evaluated, however early one is kept. A query whose delta is smaller is refused before a row is read.

The number of people enters ``alpha``: it must be public, so the relation is replace-one and everybody has one row.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import check_size
from hdpstats._base.work import Operations
from hdpstats.families.base import PersonLoss
from hdpstats.mechanisms.base import Prepared
from hdpstats.mechanisms.exponential import ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.minimiser import on_lattice
from hdpstats.noise.discrete import bernoulli_exp
from hdpstats.noise.exact import exact, lift, power_of_two_below, round_down, sqrt_up
from hdpstats.noise.normal import TiltedNormal
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.limits import MOST_EVALUATIONS
from hdpstats.schema.partitions import Parts
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable, joined
from hdpstats.solvers.box import (
    Box,
    LatticeMinimum,
    lattice_minimum,
    lattice_work,
    projected_steps,
    reached,
    steps_rounding,
)
from hdpstats.solvers.objective import Rows

SLACK = Fraction(1, 8)
"""``sigma``: costs a quarter of the proposals."""

LARGEST_CONDITION = 400
"""``q``: beyond it nothing is gained."""

SPREAD = 15
"""Binary digits of the lattice points that a coordinate's distribution spreads over, and a few more."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialCalibration:
    """The public constants of one run: functions of the query, the schema and the public number of records only.

    Attributes
    ----------
    box : Box
        The lattice.
    unit : Fraction
        ``gamma``, a power of two.
    most : int
        ``m``.
    rate : Fraction
        ``tau``.
    temperature : Fraction
        ``s``.
    smoothness : Fraction
        ``lambda + n tr``.
    steps : int
        Of the accelerated search for ``theta_0``, should the quick one not do.
    acceptance : float
        ``alpha``, rounded down.
    records : int
        The number of people.
    events : tuple of PrivacyEvent
        What will have run.
    """

    box: Box
    unit: Fraction
    most: int
    rate: Fraction
    temperature: Fraction
    smoothness: Fraction
    steps: int
    acceptance: float
    records: int
    events: tuple[PrivacyEvent, ...]

    def released(self, theta: tuple[float, ...]) -> ExponentialRelease:
        """Return the release of coefficients (D,): all else is constant."""
        return ExponentialRelease(
            theta=theta,
            hessian=None,
            noise_rate=0.0,
            hessian_noise_sd=0.0,
            grid=self.box.grid,
            records=self.records,
            events=self.events,
            temperature=float(self.temperature),
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedExponential(Prepared):
    """Sampling with its constants fixed."""

    query: ExponentialQuery
    person_loss: PersonLoss
    calibration: ExponentialCalibration

    @property
    def whole(self) -> bool:
        """It is no sum over partitions."""
        return True

    def work(self, rows: int) -> Operations:
        """Return what the search for the lowest point and all proposals, with their losses, take at most."""
        D, of_people, calibration = self.person_loss.dimension, self.person_loss.work(rows), self.calibration
        lowest = lattice_work(of_people.sums, calibration.steps)
        proposed = TiltedNormal.work(D + 4) + Operations(steps=60.0 + 40.0 * D, passes=24.0 * rows)
        return of_people.read + lowest + (self.query.proposals + 1.0) * (proposed + of_people.losses)

    def compute(self, rows: Parts[AdmittedTable]) -> ExponentialRelease:
        """Draw and release."""
        table = rows.gathered(joined)
        return run(self.query, self.calibration, self.person_loss.people(table))


def prepare(query: ExponentialQuery, person_loss: PersonLoss, site_facts: SiteFacts) -> PreparedExponential:
    """Fix the constants of a run at a site."""
    if site_facts.relation is not Relation.REPLACE_ONE or site_facts.unit is not None:
        raise MechanismError(
            "sampling is proved where the number of people is public: under replace_one, with one row per person; use "
            "mechanism='objective'",
            available=("objective", "output"),
        )
    evaluated = query.proposals * site_facts.records
    remedy = "make fewer proposals, or use mechanism='objective'"
    check_size("people times proposals", evaluated, MOST_EVALUATIONS, remedy=remedy)
    calibration = calibrate(query, person_loss, records=site_facts.records)
    return PreparedExponential(
        needs=person_loss.needs,
        events=calibration.events,
        query=query,
        person_loss=person_loss,
        calibration=calibration,
    )


def calibrate(query: ExponentialQuery, person_loss: PersonLoss, *, records: int) -> ExponentialCalibration:
    """Return the constants of a run, or raise MechanismError where it would accept too rarely for its delta."""
    if not person_loss.valued:
        raise MechanismError(
            "sampling needs losses with values in closed form: for hazard models those of link='logit'; use "
            "mechanism='objective'",
            available=("objective", "output"),
        )
    n, D = max(records, 1), person_loss.dimension
    widths = [exact(value) for value in query.half_widths]
    diagonal = sqrt_up(sum((B * B for B in widths), Fraction(0)))
    farthest = person_loss.euclidean_bound * diagonal
    unit = power_of_two_below(farthest) / 2 ** min(40, 59 - n.bit_length())
    most = math.ceil(farthest / unit)
    rate = round_down(query.epsilon / (4 * most), 90)
    temperature = rate / unit
    smoothness = query.ridge + n * person_loss.trace
    steepest = n * person_loss.euclidean_bound + 2 * query.ridge * diagonal
    grid = power_of_two_below(
        min(
            min(widths) / 2 ** (SPREAD + 2),
            1 / (temperature * steepest * 2 ** (SPREAD + 2)),
            SLACK / (32 * temperature * smoothness * sqrt_up(Fraction(D)) * sum(widths)),
        )
    )
    _check_floats(query, person_loss, unit=unit, temperature=temperature, records=n)
    acceptance = acceptance_of(D, condition=smoothness / query.ridge)
    if query.proposals * acceptance < least_proposals(query.epsilon, query.delta):
        raise MechanismError(
            f"{query.proposals} proposals do not suffice for delta = {float(query.delta):g}: each is only sure to be "
            f"kept with probability {acceptance:.2g}; use mechanism='objective', or fewer coefficients",
            available=("objective", "output"),
        )
    box = _box(query, grid)
    return ExponentialCalibration(
        box=box,
        unit=unit,
        most=most,
        rate=rate,
        temperature=temperature,
        smoothness=smoothness,
        steps=_steps(
            query, person_loss, smoothness=float(smoothness), temperature=temperature, grid=box.grid, records=n
        ),
        acceptance=acceptance,
        records=records,
        events=(PrivacyEvent(ran=MechanismName.SAMPLING, epsilon=query.epsilon, delta=query.delta),),
    )


def _steps(
    query: ExponentialQuery,
    person_loss: PersonLoss,
    *,
    smoothness: float,
    temperature: Fraction,
    grid: float,
    records: int,
) -> int:
    """Return the steps that surely find ``theta_0``, or refuse: no gradient at the centre is longer than ``n g``."""
    ridge, half = float(query.ridge), float(np.linalg.norm(query.half_widths))
    excess = 1.01 * records * float(person_loss.euclidean_bound) * half
    size = float(np.linalg.norm(query.centre)) + half + reached(ridge=ridge, excess=excess)
    error = person_loss.rounding(size, people=records) + 2.0**-48 * size * ridge
    steps = projected_steps(
        ridge=ridge,
        smoothness=smoothness,
        error=1.01 * error + steps_rounding(smoothness=smoothness, size=size),
        excess=excess,
        widths=2.0 * half,
        grid=grid,
        D=person_loss.dimension,
        lacking=_lacking(temperature),
    )
    if steps is None:
        raise _too_fine()
    return steps


def _lacking(temperature: Fraction) -> float:
    """Return what ``theta_0`` may lack: half of the slack."""
    return 0.5 * float(SLACK / temperature)


def _box(query: ExponentialQuery, grid: Fraction) -> Box:
    origin = on_lattice([exact(value) for value in query.centre], grid)
    steps = tuple(math.floor(exact(value) / grid) for value in query.half_widths)
    if max(abs(place) for place in origin) + max(steps) >= 2**52:
        raise _too_fine()
    return Box(origin=origin, steps=steps, grid=float(grid))


def acceptance_of(dimension: int, *, condition: Fraction) -> float:
    """Return ``alpha``, rounded down; 0 where the condition number is beyond what the proof covers."""
    if condition > LARGEST_CONDITION:
        return 0.0
    spread = dimension * math.log1p(-(2.0**-9))
    return math.exp(spread - 2.0 * float(SLACK) - 0.5 * dimension * math.log(float(condition))) * (1.0 - 2.0**-30)


def least_proposals(epsilon: Fraction, delta: Fraction) -> float:
    """Return how many proposals there must be per ``1 / alpha``, rounded up: ``log((1 + e^epsilon) / delta)``."""
    e = float(epsilon)
    return (e + math.log1p(math.exp(-e)) - math.log(float(delta))) * (1.0 + 2.0**-30) + 2.0**-30


def _check_floats(
    query: ExponentialQuery, person_loss: PersonLoss, *, unit: Fraction, temperature: Fraction, records: int
) -> None:
    """Refuse what floats cannot compute to within the slack: half of it is for values, half for gradients."""
    s = float(temperature)
    size = float(np.linalg.norm(query.centre)) + float(np.linalg.norm(query.half_widths))
    values = 2.0 * s * records * (0.51 * float(unit) + 2.0 * person_loss.loss_rounding(size))
    rounding = person_loss.rounding(size, people=records) + 2.0**-48 * size * float(query.ridge)
    gradients = 8.0 * s * rounding * 2.0 * sum(query.half_widths)
    if max(values, gradients) > 0.5 * float(SLACK):
        raise _too_fine()


def _too_fine() -> MechanismError:
    return MechanismError(
        "sampling needs finer arithmetic than floats for so many people or so far a centre; use mechanism='objective'",
        available=("objective", "output"),
    )


def run(query: ExponentialQuery, calibration: ExponentialCalibration, people: Rows) -> ExponentialRelease:
    """Draw, or release the centre.

    Guarantee: ``(query.epsilon, query.delta)``-DP by the module's proof.
    """
    box = calibration.box
    lowest = _lowest(query, calibration, people)
    proposals = _proposals(query, calibration, lowest)
    at_centre = people.losses(box.at(np.zeros(len(box.origin))))
    base = potential(calibration, people, at_centre, lowest.k)
    chosen = (0,) * len(box.origin)
    kept = False
    for jump in [proposals.draw() for _ in range(query.proposals)]:
        place = tuple(k + j for k, j in zip(lowest.k, jump, strict=True))
        rise = potential(calibration, people, at_centre, place) - base
        exponent = calibration.rate * rise + proposals.excess(lowest.k, place)
        accepts = bernoulli_exp(exponent.numerator, exponent.denominator)
        if accepts and not kept:
            chosen, kept = place, True
    numbers = lift([o + k for o, k in zip(box.origin, chosen, strict=True)], exact(box.grid))
    return calibration.released(tuple(numbers.tolist()))


def potential(calibration: ExponentialCalibration, people: Rows, at_centre: FloatArray, k: tuple[int, ...]) -> int:
    """Return ``sum_i u_i`` at a lattice point, each person's number rounded and clipped by itself.

    ``at_centre`` are the people's losses at the centre. What is not a number counts as 0.
    """
    most = calibration.most
    with np.errstate(all="ignore"):
        here = people.losses(calibration.box.at(np.array(k, dtype=np.float64)))
        units = np.clip(np.rint((here - at_centre) / float(calibration.unit)), -most, most)
    return int(np.where(np.isnan(units), 0.0, units).astype(np.int64).sum())


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Proposals:
    """Independent tilted normal jumps from the lowest lattice point, and what their exponents leave of ``V``.

    ``slopes`` (D,) are ``s a grid``, with a sign for the direction; ``curvature`` is ``s lambda grid^2 / 2``, rounded
    down.
    """

    distributions: tuple[TiltedNormal, ...]
    curvature: Fraction
    ridge: Fraction

    def draw(self) -> tuple[int, ...]:
        """Return a jump."""
        return tuple(distribution.draw() for distribution in self.distributions)

    def excess(self, lowest: tuple[int, ...], place: tuple[int, ...]) -> Fraction:
        """Return ``s lambda / 2`` times the change of the squared norm, less the exponents of the jump, plus sigma."""
        rise = sum(p * p for p in place) - sum(k * k for k in lowest)
        jumps = (p - k for p, k in zip(place, lowest, strict=True))
        return self.ridge * rise - sum(
            (distribution.exponent(j) for distribution, j in zip(self.distributions, jumps, strict=True)), -SLACK
        )


def _lowest(query: ExponentialQuery, calibration: ExponentialCalibration, people: Rows) -> LatticeMinimum:
    """Return the lattice point of least ``V``, nearly: it lacks at most half of the slack."""
    box, D = calibration.box, len(calibration.box.origin)
    middle = box.at(np.zeros(D))
    objective = people.penalised(ridge=np.full(D, float(query.ridge)), centre=middle, linear=np.zeros(D))
    lacking = _lacking(calibration.temperature)
    return lattice_minimum(
        objective, box, smoothness=float(calibration.smoothness), lacking=lacking, steps=calibration.steps
    )


def _proposals(query: ExponentialQuery, calibration: ExponentialCalibration, lowest: LatticeMinimum) -> Proposals:
    grid = exact(calibration.box.grid)
    ridge = calibration.temperature * query.ridge * grid * grid / 2
    curvature = round_down(ridge, 90)
    distributions = []
    for k, slope, steps in zip(lowest.k, lowest.slopes, calibration.box.steps, strict=True):
        steep = slope > 0.0
        distributions.append(
            TiltedNormal(
                lower=0 if steep and k < 0 else -steps - k,
                upper=0 if steep and k > 0 else steps - k,
                slope=calibration.temperature * grid * exact(slope),
                curvature=curvature,
            )
        )
    return Proposals(distributions=tuple(distributions), curvature=curvature, ridge=ridge)

r"""Noisy sums of the scores of all people, which fits in rounds are made of: constants, noise, sites and answers.

`hdpstats.mechanisms.clipped_newton.site` and `hdpstats.mechanisms.public_hessian.site` bound each person's score, and
prove how far a person can move the sum. What follows is the same for both: the lattice, the noise, the release, what is
public about a site, and what sites answered in several rounds.
"""

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from hdpstats._base.compiled import compiled
from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats._base.work import Operations
from hdpstats.families.base import PersonLoss
from hdpstats.mechanisms.base import Prepared
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.noise.exact import lift, round_down, sqrt_up
from hdpstats.noise.knorm import BallNoise
from hdpstats.noise.normal import RoundedNormal
from hdpstats.privacy.budget import PrivacyEvent
from hdpstats.privacy.sensitivity import BallNorm, Relation, Sensitivity
from hdpstats.records.several import RoundQuery, RoundRelease
from hdpstats.schema.partitions import Parts
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers import kernels
from hdpstats.solvers.kernels import BLOCK, by_column

FINENESS = Fraction(1, 2**30)
"""Grid of the sum relative to the clip: leaves room for 2^31 people in 64-bit integers."""

MOST = 2000
"""Coefficients up to which the float error of a norm is covered by the margin."""

STEP = 2.0**-20
"""Coefficients are asked at multiples of it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SumCalibration:
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
class PreparedSum(Prepared):
    """One round with its constants fixed; ``scores`` makes bounded scores (people, D) of a table, by a loss."""

    query: RoundQuery
    calibration: SumCalibration
    records: int
    release: type[RoundRelease]
    scores: Callable[[AdmittedTable], FloatArray]
    person_loss: PersonLoss

    def work(self, rows: int) -> Operations:
        """Return what the scores of so many rows, their cut and their sum take at most."""
        D, of_people = self.person_loss.dimension, self.person_loss.work(rows)
        cut = Operations(steps=100.0 + 12.0 * D, passes=30.0 * rows * D + 20.0 * D)
        return self.calibration.noise.work + of_people.read + of_people.scores + cut

    def compute(self, rows: Parts[AdmittedTable]) -> RoundRelease:
        """Draw the noise, before any score is computed, sum, add and release."""
        noise = self.calibration.noise.draw()
        return self.release(
            total=noisy(rows.total(self.sum_of), noise, grid=self.calibration.grid),
            noise_sd=self.calibration.noise_sd,
            grid=float(self.calibration.grid),
            records=self.records,
            events=self.events,
        )

    def sum_of(self, table: AdmittedTable) -> IntArray:
        """Return the exact sum (D,) of the bounded scores of a table, in steps of the grid."""
        return grid_sum(self.scores(table), grid=float(self.calibration.grid))


def calibrated(
    value: Fraction, event: PrivacyEvent, *, dimension: int, grid: Fraction, relation: Relation
) -> SumCalibration:
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
    return SumCalibration(
        sensitivity=Sensitivity(value=value, norm=BallNorm(), relation=relation),
        noise=noise,
        grid=grid,
        noise_sd=spread,
        event=event,
    )


def check_dimension(dimension: int, what: str) -> None:
    """Refuse more coefficients than the bound of float errors covers."""
    if dimension > MOST:
        raise MechanismError(f"{what} are proved for at most {MOST} coefficients, not {dimension}")


def clipped(scores: FloatArray, clip: float) -> FloatArray:
    """Return each row (people, D) shortened to the length ``clip``; rows that are not finite become 0. A total map.

    Rows that are kept column by column stay so. A compiled loop does the operations of numpy, in their order.
    """
    if by_column(scores):
        short = np.empty_like(scores.T)
        _shorten(scores.T, clip, short)
        return short.T
    finite = np.where(np.all(np.isfinite(scores), axis=1)[:, None], scores, 0.0)
    square = np.zeros(len(finite))
    with np.errstate(over="ignore"):
        for column in finite.T:
            square += column * column
        norm = np.sqrt(square)
    factor = clip / np.maximum(norm, clip)
    return np.asarray(finite * factor[:, None])


@compiled
def _shorten(columns: FloatArray, clip: float, short: FloatArray) -> None:
    count = columns.shape[1]
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        square, strange = np.zeros(last - first), np.zeros(last - first)
        for j in range(len(columns)):
            column = columns[j, first:last]
            for i in range(len(column)):
                square[i] += column[i] * column[i]
                strange[i] += column[i] * 0.0  # NaN from the first number on that is not finite, else 0
        for i in range(len(square)):
            square[i] = clip / max(math.sqrt(square[i]), clip)
        for j in range(len(columns)):
            column, out = columns[j, first:last], short[j, first:last]
            for i in range(len(column)):
                out[i] = column[i] * square[i] if strange[i] == 0.0 else 0.0


def grid_sum(rows: FloatArray, *, grid: float) -> IntArray:
    """Return the exact sum (D,) of rows, each number first rounded to a multiple of ``grid``, a power of two.

    Numbers are at most 2^50 such multiples: those of scores are at most 2^31.
    """
    return kernels.grid_sum(rows, np.ones(len(rows)), bits=1 - math.frexp(grid)[1])


def noisy(total: IntArray, noise: Sequence[int], *, grid: Fraction) -> tuple[float, ...]:
    """Return a total (D,) plus noise, both in steps of the grid."""
    return tuple(lift([t + n for t, n in zip(total.tolist(), noise, strict=True)], grid).tolist())


def sum_noise(release: RoundRelease, *, sd: float | None = None) -> NoiseDistribution | NormalDistribution:
    """Return the distribution of the noise in a release; ``sd`` is that of an average of several normal ones."""
    if release.is_gaussian:
        return NormalDistribution(dimension=len(release.total), sd=release.noise_sd if sd is None else sd)
    return NoiseDistribution(norm=BallNorm(), dimension=len(release.total), rate=release.noise_rate)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRounds:
    """What is public about one site of a fit, fixed before the first round.

    Attributes
    ----------
    records, records_sd : int, float
        How many private people there are, and the standard deviation of the noise in that number.
    epsilon, delta : Fraction
        What the fit keeps.
    costs : tuple of Fraction
        What each round costs, as its query says it: the squared Gaussian parameter; without a delta 0 for the only
        round of clipped scores, the epsilon of each round of cut rows.
    """

    records: int
    records_sd: float
    epsilon: Fraction
    delta: Fraction
    costs: tuple[Fraction, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FitInRounds(ABC):
    """What is public about any fit in rounds, fixed before the first.

    Attributes
    ----------
    sites : mapping of str to SiteRounds
        The sites by name.
    schema_sha256, public_sha256, replicate
        See `Query`.
    """

    sites: Mapping[str, SiteRounds]
    schema_sha256: str
    public_sha256: str | None
    replicate: int

    def offered(self, name: str, *, round: int) -> dict[str, Any]:  # noqa: A002
        """Return what a site is offered in a round, counted from 0: the fields that all queries of rounds have."""
        site = self.sites[name]
        return {
            "epsilon": site.epsilon,
            "delta": site.delta,
            "ahead": sum(site.costs[round + 1 :], Fraction(0)),
            "schema_sha256": self.schema_sha256,
            "public_sha256": self.public_sha256,
            "replicate": self.replicate,
        }


def rounded_up(size: float) -> Fraction:
    """Return a positive number rounded up to 8 binary digits."""
    mantissa, exponent = math.frexp(size)
    return Fraction(math.ceil(mantissa * 256.0), 256) * Fraction(2) ** exponent


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answer:
    """One round: where it was asked (D,), the noisy sum (D,), its noise's standard deviation, its weight.

    Averages of rounds weigh them in proportion to ``weight``.
    """

    theta: FloatArray
    total: FloatArray
    noise_sd: float
    weight: float


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SiteAnswers:
    """One site: its number of people, the standard deviation of the noise in that number, its rounds in their order."""

    records: int
    records_sd: float
    answers: Sequence[Answer]

    @property
    def people(self) -> float:
        """The number of people, at least 1."""
        return float(max(self.records, 1))

    @property
    def noise(self) -> float:
        """Variance of the averaged sum's noise in each coordinate."""
        pairs = zip(self.asked, self.answers, strict=True)
        return float(sum((share * each.noise_sd) ** 2 for (_, share), each in pairs))

    @property
    def asked(self) -> list[tuple[FloatArray, float]]:
        """Where the site was asked, with the shares of the rounds in the average."""
        whole = sum(each.weight for each in self.answers)
        return [(each.theta, each.weight / whole) for each in self.answers]

    @property
    def total(self) -> FloatArray:
        """The averaged sum (D,)."""
        sums = (share * each.total for (_, share), each in zip(self.asked, self.answers, strict=True))
        return np.asarray(sum(sums))


def site_weights(*, people: Sequence[float], noise: Sequence[float], variance: float) -> tuple[float, ...]:
    """Return the weights of sites' sums, the largest 1.

    ``people`` are their numbers of people, ``noise`` the variances of their noise in each coordinate, ``variance`` that
    of one person's clipped score in each coordinate.

    >>> site_weights(people=[1000, 1000, 100], noise=[0.0, 1000.0, 700.0], variance=1.0)
    (1.0, 0.5, 0.125)
    """
    weights = [n / (n * variance + square) for n, square in zip(people, noise, strict=True)]
    return tuple(weight / max(weights) for weight in weights)

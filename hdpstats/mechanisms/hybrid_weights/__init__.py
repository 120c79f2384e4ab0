"""Weights of public rows that make them stand for private people, from noisy counts of nearest points.

Its queries: how many private people each public point stands for (`NeighboursQuery`), how far they are from the points
(`DistanceQuery`), a choice of how many points to use or of coefficients (`SelectionQuery`, `LossSelectionQuery`, by
permute-and-flip), and how far candidates' predictions are from a private fit's (`CurveQuery`).
Guarantee: pure epsilon, all queries of one request together. Source: Wang et al. (2018), corrected; the choices after
McKenna and Sheldon (2020). Use: a weighted public sample that any software can analyse.
Proofs: `hdpstats.mechanisms.hybrid_weights.site` and `hdpstats.mechanisms.hybrid_weights.curve_site`.

* ``candidates``: Weights of public rows from private counts, as data flow: public points, candidate sizes, what to
  ask, how to share.
* ``curve_site``: A performance curve with noise: how far candidates' predictions are from a private ridge fit's; pure
  epsilon.
* ``site``: What private people are to public points: how many each point stands for, how far they are, how many
  points to use.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size
from hdpstats.records.geometry import PointSpace, check_reach, check_support
from hdpstats.records.limits import MOST_CANDIDATES
from hdpstats.records.query import ChargedQuery, ChargedRelease, StepQuery, TableRelease, check_pure

UNITS = 2**20
"""A distance is rounded to so many steps of the longest one that counts."""

LARGEST = 1e9
"""The largest penalty, and the largest coefficient of a candidate."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NeighboursQuery(StepQuery):
    """Count for each public point the private people to whom it is the nearest.

    Attributes
    ----------
    space : PointSpace
        Where rows lie.
    support : tuple of int or None
        The rows of the public table that are the points, of those that are complete in the space's columns; of points
        at the same distance the one named first counts. None: all different points, in the order of first rows. There
        are at most 2^20, and 2^27 numbers in them (`hdpstats.records.limits`).
    """

    kind: ClassVar[str] = "neighbours/1"
    space: PointSpace
    support: tuple[int, ...] | None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a histogram")
        check_support(self.support, self.public_sha256)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class NeighboursRelease(TableRelease):
    """For each public point the noisy number of private people to whom it is the nearest."""

    kind: ClassVar[str] = "neighbours/1"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistanceQuery(ChargedQuery):
    """Sum over private people the distance from the public point that each is counted at, at most ``reach``.

    Attributes
    ----------
    space, support
        As in `NeighboursQuery`.
    reach : float
        The longest distance that counts.
    """

    kind: ClassVar[str] = "distance/1"
    space: PointSpace
    support: tuple[int, ...] | None
    reach: float

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a distance")
        check_reach(self.reach)
        check_support(self.support, self.public_sha256)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DistanceRelease(ChargedRelease):
    """A noisy sum of distances, in 2^-20 of the query's ``reach``.

    Attributes
    ----------
    units : int
        The noisy sum.
    noise_sd : float
        The standard deviation of its noise, in the same units.
    """

    kind: ClassVar[str] = "distance/1"
    units: int
    noise_sd: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionQuery(StepQuery):
    """Choose how many of the first public points of an order to use: near the private people, but few.

    The cost of a size is the sum over private people of the distance to the nearest of so many points, at most
    ``reach`` each, plus a public penalty; the less, the likelier it is chosen.

    Attributes
    ----------
    space : PointSpace
        Where rows lie.
    order : tuple of int
        Rows of the public table, of those complete in the space's columns, at most 2^20; the candidates are its
        beginnings.
    sizes : tuple of int
        Their lengths, increasing up to all of ``order``; 2 to 100 (`hdpstats.records.limits`).
    reach : float
        The longest distance that counts.
    penalties : tuple of float
        What is added for each size, in units of distance.
    """

    kind: ClassVar[str] = "selection/1"
    space: PointSpace
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    reach: float
    penalties: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a choice")
        check_reach(self.reach)
        check_support(self.order, self.public_sha256)
        sizes = (0, *self.sizes)
        check_size("sizes to choose from", len(self.sizes), MOST_CANDIDATES, remedy="leave some out")
        if len(self.sizes) < 2 or any(a >= b for a, b in itertools.pairwise(sizes)):
            raise MechanismError(f"there must be 2 to {MOST_CANDIDATES} sizes, which increase from 1 or more")
        if self.sizes[-1] != len(self.order):
            raise MechanismError("the largest size must be all points of the order")
        if len(self.penalties) != len(self.sizes) or not all(abs(value) <= LARGEST for value in self.penalties):
            raise MechanismError(f"each size needs a penalty, at most {LARGEST:g}")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LossSelectionQuery(StepQuery):
    """Choose among public coefficients of a logistic model the ones that fit private people best.

    The cost of a candidate is the sum over private people of how much larger its loss is than that of the candidate
    that fits the person best, at most ``reach`` each.

    Attributes
    ----------
    formula : str
        A formula with a binary outcome, read again by the site against its own schema.
    candidates : tuple of tuples of float
        Coefficients of the design's columns; 2 to 100 (`hdpstats.records.limits`).
    reach : float
        The largest difference of losses that counts.
    """

    kind: ClassVar[str] = "loss_selection/1"
    formula: str
    candidates: tuple[tuple[float, ...], ...]
    reach: float
    public_sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a choice")
        check_reach(self.reach)
        _check_candidates(self.candidates, fewest=2)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRelease(ChargedRelease):
    """The place of the chosen candidate, from 0.

    Attributes
    ----------
    choice : int
        Its place.
    """

    kind: ClassVar[str] = "selection/1"
    choice: int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CurveQuery(StepQuery):
    """Ask how far the probabilities under each candidate are from those of a ridge fit to the private people.

    Columns of the design are divided by ``scale`` and rows cut to the Euclidean length ``radius``; candidates are
    coefficients of the columns so divided.

    Attributes
    ----------
    formula : str
        A formula with a binary outcome, read again by the site against its own schema.
    candidates : tuple of tuples of float
        Coefficients (k, D), k from 1 to 100 (`hdpstats.records.limits`).
    scale : tuple of float
        Positive (D,).
    radius : Fraction
        The longest row.
    ridge : Fraction
        The ridge of the private fit, on the scale of the mean loss.
    """

    kind: ClassVar[str] = "curve/1"
    formula: str
    candidates: tuple[tuple[float, ...], ...]
    scale: tuple[float, ...]
    radius: Fraction
    ridge: Fraction
    public_sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        check_pure(self, "a curve")
        _check_candidates(self.candidates, fewest=1)
        if len(self.candidates[0]) != len(self.scale):
            raise MechanismError("all candidates must have as many coefficients as there are scales")
        if not all(1e-12 <= value <= 1e12 for value in self.scale):
            raise MechanismError("scales must be between 1e-12 and 1e12")
        if not (Fraction(1, 10**6) <= self.radius <= 10**6 and Fraction(1, 10**6) <= self.ridge <= 10**6):
            raise MechanismError("radius and ridge must be between 1e-6 and 1e6")
        if max(self.radius.denominator, self.ridge.denominator) > 10**30:
            raise MechanismError("radius and ridge must be fractions of at most 30 digits")


def _check_candidates(candidates: tuple[tuple[float, ...], ...], *, fewest: int) -> None:
    """Refuse coefficients of candidates that are none, too many or of different lengths."""
    check_size("candidates", len(candidates), MOST_CANDIDATES, remedy="leave some out")
    if len(candidates) < fewest:
        raise MechanismError(f"there must be {fewest} to {MOST_CANDIDATES} candidates")
    values = [value for candidate in candidates for value in candidate]
    if len({len(candidate) for candidate in candidates}) != 1 or not values:
        raise MechanismError("all candidates must have the same number of coefficients, one or more")
    if not all(math.isfinite(value) and abs(value) <= LARGEST for value in values):
        raise MechanismError(f"coefficients must be finite, at most {LARGEST:g}")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CurveRelease(ChargedRelease):
    """A noisy performance curve. Everything but ``errors`` is a public constant.

    Attributes
    ----------
    errors : tuple of float
        For each candidate the noisy Euclidean distance between the private people's probabilities under it and under
        the private fit; some may be below 0.
    noise_sd : float
        The standard deviation of the noise in each.
    """

    kind: ClassVar[str] = "curve/1"
    errors: tuple[float, ...]
    noise_sd: float

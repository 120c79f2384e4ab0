r"""Model-based moments of the private score, from public rows.

At coefficients ``theta`` the private score of ``n`` people has a Hessian ``H`` and a covariance ``J``: ``n`` times the
expectation of one person's, over public people, shrunk towards a multiple of the identity on the slopes by
``n_public / (n_public + D)``, the whitened design being close to round.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, final

import numpy as np

from hdpstats._base.caching import remembered
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.public.invented import unknown_directions
from hdpstats.public.row_weights import APART, Allowance, Moved, UnseenPeople, contrast_tau, kept, mallows, moved
from hdpstats.public.squares import weighted_squares
from hdpstats.records.geometry import Geometry, at_radius, mallows_weights


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Moments:
    """Hessian ``H`` and score covariance ``J`` of the private records, (D, D) or a stack (B, D, D)."""

    H: FloatArray
    J: FloatArray


def mean_of(moments: Sequence[Moments]) -> Moments:
    """Return the mean of some moments."""
    return Moments(
        H=np.asarray(np.mean([each.H for each in moments], axis=0)),
        J=np.asarray(np.mean([each.J for each in moments], axis=0)),
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowsOfPublic:
    """How many rows each public person has (people,), and what these count together (people,)."""

    numbers: IntArray
    weights: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """Coverage of 95 % intervals of slopes in simulated fits that took public rows as they were.

    Attributes
    ----------
    fits : str
        Which fits were simulated, in words.
    share : float
        The share of slopes that their intervals covered, the mean of all slopes.
    besides : str
        What else differed between private and public people than covariates, in words; empty where nothing did.
    """

    fits: str
    share: float
    besides: str = ""


class PublicSide(ABC):
    """Public records in whitened coordinates: they give the geometry, a centre, and what curvature to expect.

    Attributes
    ----------
    geometry : Geometry
        How they are whitened.
    unseen : UnseenPeople or None
        People whom they do not show.
    fit : PublicFit or None
        The public fit; None where the outcome is not public.
    """

    geometry: Geometry
    fit: "PublicFit | None"
    unseen: UnseenPeople | None

    @property
    def known(self) -> bool:
        """Whether standard errors may rest on `moments`: not where a loss has no model and outcomes are not public."""
        return True

    @property
    def taken_alike(self) -> str:
        """What of private people `moments` take to be distributed as that of the public ones, in words."""
        return "covariates"

    @property
    def covered_unlike(self) -> Coverage | None:
        """What intervals of such fits covered where private covariates differ; None where it was not measured.

        Of fits that take public rows as they are: ``tests/statistical/test_taken_alike.py`` measures it.
        """
        return None

    @property
    def canonical(self) -> bool:
        """Whether curvature does not depend on outcomes: then `moments` at other points tell how scores change."""
        return False

    @property
    def along_the_way(self) -> bool:
        """Whether the mean of curvature between two coefficients is taken for how scores change on the way.

        It is exact where curvature does not depend on outcomes. With outcomes that stop being followed it is not taken:
        who is left depends on the coefficients too.
        """
        return self.canonical

    @property
    def located(self) -> bool:
        """Whether curvature is that of public outcomes near the predictor: none where all of them are far from it."""
        return False

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coefficients."""

    @property
    @abstractmethod
    def counted(self) -> IntArray:
        """The coordinates of slopes, of all coefficients where there are none."""

    @property
    def of_outcomes(self) -> bool:
        """Whether curvature is that of public outcomes, of which no model says how private ones are distributed."""
        return False

    @property
    def apart(self) -> float:
        """How far apart coefficients of people who count more and less may be (`hdpstats.public.row_weights`)."""
        return APART

    @property
    @abstractmethod
    def row_blocks(self) -> tuple[Sequence[IntArray], int]:
        """The coordinates that belong to a whitened row, of each predictor, and at which of its numbers they begin."""

    @property
    @abstractmethod
    def sloped_rows(self) -> tuple[FloatArray, Sequence[IntArray]]:
        """Whitened rows without the intercept (n, q), and the coordinates (q,) of the slopes of each predictor."""

    @property
    def far_people(self) -> UnseenPeople | None:
        """People whom public rows do not show, as the choice of a clip counts them."""
        return self.unseen

    @property
    @abstractmethod
    def people(self) -> int:
        """The number of public people."""

    @property
    def seen(self) -> int:
        """The number of public people without those who were invented (`hdpstats.public.invented`)."""
        return self.people

    @property
    def seen_rows(self) -> int:
        """The number of their rows."""
        return self.seen

    @property
    def rows_of_people(self) -> RowsOfPublic | None:
        """How many rows people have; None where everybody has one, or where it is not public."""
        return None

    @property
    def invented(self) -> IntArray | None:
        """For which lacking value a person was invented (people,), 0 for public people; None where none was."""
        return None

    @property
    @abstractmethod
    def centre(self) -> FloatArray:
        """Where the ridge pulls to (D,)."""

    @property
    def cells(self) -> int:
        """For how many terms of a person's loss moments are computed."""
        return 1

    @property
    def undetermined(self) -> bool:
        """Whether people, the invented ones too, do not vary along some direction of the whitened covariates."""
        return False

    @property
    def case_weights(self) -> FloatArray:
        """The people's case weights (people,)."""
        return np.ones(self.people)

    @abstractmethod
    def moments(self, theta: FloatArray, *, records: float, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people at ``theta``.

        ``row_weights`` (B, people) gives one pair per weighting of the public people.
        """

    def hessian(self, theta: FloatArray, *, records: float) -> FloatArray:
        """Return ``H`` (D, D) of `moments`, to the bit."""
        return self.moments(theta, records=records).H


ROWS = 2048
"""Rows whose products of columns are computed at a time."""

FEW = 24
"""Up to so many weightings of rows the compiled loop takes less time than a product of matrices."""

UNKNOWN = 10.0
"""Standard deviation of a coefficient of which public rows say nothing, whitened, in units of the loss's scale."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Penalty:
    r"""What the prior of a public fit does to it: about :math:`\theta - B(\theta - c)` is estimated, not ``theta``.

    ``B`` (D, D) is the prior's share of the information, ``centre`` (D,) is ``c``, and ``sampling`` (D, D) the
    covariance of the fit by sampling of public people alone, the prior's own part left out.
    """

    B: FloatArray
    centre: FloatArray
    sampling: FloatArray

    @classmethod
    def of(
        cls, covariance: FloatArray, *, inverse: FloatArray, precision: FloatArray, centre: FloatArray, phi: float
    ) -> "Penalty":
        """Return it from the fit's covariance, the inverse of its Hessian with the prior's, and the loss's scale."""
        B = inverse @ precision
        return cls(B=B, centre=centre, sampling=covariance - phi * B @ inverse)

    def of_estimate(self, theta: FloatArray) -> FloatArray:
        """Return coefficients (D,) as the prior would have shrunk them."""
        return np.asarray(theta - self.B @ (theta - self.centre))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicFit:
    """The public fit in whitened coordinates: mode ``theta`` (D,), its covariance and its information (D, D).

    The information is the likelihood's Hessian at the mode, without the prior's. ``parts`` are directions (D, k) that
    together span all coefficients, and may be more than these: how much private people differ from public ones is
    estimated for each part by itself (`hdpstats.inference.pooling`); none stands for each coordinate. ``unit`` is a
    large change along one of them: 1 for a likelihood. ``prior`` says in words which prior made it, and ``penalty``
    what it does: it is no maximum-likelihood fit. ``unknown`` are orthonormal directions (D, k) of which the public
    rows say nothing at all: there the covariance is `UNKNOWN` squared, so that pooling takes the private estimate.

    Where the prior's spread was chosen by the public rows themselves, ``spreads`` (D, D) are the second moments about
    ``theta`` of coefficients given all spreads, weighted by their evidence: `error`. Few rows hardly tell one spread
    from another, and the one of largest evidence may be much too small. What a query is made of (its centre, its
    ridge) follows from ``covariance``; what an estimate is pooled with, from `error`.
    """

    theta: FloatArray
    covariance: FloatArray
    information: FloatArray
    parts: tuple[FloatArray, ...] = ()
    prior: str = "a weak normal prior"
    unit: float = 1.0
    unknown: FloatArray | None = None
    penalty: Penalty | None = None
    spreads: FloatArray | None = None

    @property
    def error(self) -> FloatArray:
        """Second moments (D, D) of how far public coefficients may lie from ``theta``, the prior's spread not known."""
        return self.covariance if self.spreads is None else self.spreads


def coefficient_parts(geometry: Geometry, *, levels: int = 1) -> FloatArray:
    """Return the directions (D, q), one for each coefficient of the design, in the coordinates of a public geometry.

    Along a column one slope changes, by one over the standard deviation of its column in public rows, or the intercept
    at the average of public rows. With several ``levels`` of an outcome beside its reference, ``D`` is the number of
    coefficients of all of them, and along the last columns those of the reference change: all others by one less. So
    it does not matter which level is the reference.

    Examples
    --------
    >>> from hdpstats.records.geometry import from_public
    >>> rows = np.column_stack([np.ones(4), [0.0, 0.0, 2.0, 2.0]])
    >>> coefficient_parts(from_public(rows, lower=[0.0], upper=[2.0], intercept=True, radius=1.0)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    first = int(geometry.intercept)
    parts = np.eye(geometry.dimension)
    rows = np.linalg.inv(geometry.arrays()[1])  # beta = A' theta, so that theta = sum_j beta_j (row j of the inverse)
    parts[first:, first:] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    if levels == 1:
        return parts
    return np.asarray(np.kron(np.hstack([np.eye(levels), np.full((levels, 1), -1.0)]), parts), dtype=np.float64)


def each_column(directions: FloatArray) -> tuple[FloatArray, ...]:
    """Return the columns of directions (D, k) as parts of one direction each."""
    return tuple(directions[:, [j]] for j in range(directions.shape[1]))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WhitenedRows(PublicSide, ABC):
    """Public rows ``X`` (n, D), whitened; Mallows and case weights (n,), and the public fit.

    ``groups`` (n,) says which of them are invented; ``unseen`` are people whom they do not show. Where people have
    ``several`` rows, weights count their number, and ``person`` (n,) says whose each row is, those of a person
    together; None where every row is a person, or where it is not public.
    """

    geometry: Geometry
    X: FloatArray
    mallows: FloatArray
    weights: FloatArray
    fit: PublicFit | None
    groups: IntArray | None = None
    unseen: UnseenPeople | None = None
    several: bool = False
    person: IntArray | None = None

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.X) if self.person is None else int(self.person.max(initial=-1)) + 1

    @property
    def seen(self) -> int:
        """The number of public people."""
        return self.people if self.invented is None else int(np.sum(self.invented == 0))

    @property
    def seen_rows(self) -> int:
        """The number of public rows."""
        return len(self.X) if self.groups is None else int(np.sum(self.groups == 0))

    @property
    def rows_of_people(self) -> RowsOfPublic | None:
        """How many rows people have; None where everybody has one, or where it is not public."""
        if self.person is None:
            return None
        numbers = np.bincount(self.person).astype(np.int64)
        weights = np.asarray(np.bincount(self.person, weights=self.weights), dtype=np.float64)
        return RowsOfPublic(numbers=numbers, weights=weights)

    @property
    def invented(self) -> IntArray | None:
        """Which people are invented, and for which value."""
        if self.person is None or self.groups is None:
            return self.groups
        return self.groups[np.flatnonzero(np.diff(self.person, prepend=-1))]

    @property
    def taken_alike(self) -> str:
        """What of private people `moments` take to be distributed as that of the public ones, in words."""
        return "covariates, numbers of rows and correlations within a person" if self.several else "covariates"

    @property
    def centre(self) -> FloatArray:
        """Where the ridge pulls to: the public fit, or zero without public outcomes."""
        return self.fit.theta if self.fit is not None else np.zeros(self.dimension)

    @property
    def case_weights(self) -> FloatArray:
        """The rows' case weights."""
        return self.weights

    @property
    def scaled(self) -> bool:
        """Whether the loss has the scale of a likelihood, whose information is the inverse of a covariance."""
        return False

    @property
    def modelled(self) -> bool:
        """Whether a model says the curvature, so that covariates alone tell it; else it rests on outcomes."""
        return True

    @property
    def slopes(self) -> slice:
        """The coordinates that a ridge is chosen for."""
        return slice(None)

    def at_radius(self, radius: float) -> Self:
        """Return the rows with the Mallows weights of another radius."""
        geometry = at_radius(self.geometry, radius)
        square = np.sum(self.X[:, int(geometry.intercept) :] ** 2, axis=1)
        return replace(self, geometry=geometry, mallows=mallows_weights(square, geometry))

    def at_radii(self, geometries: Sequence[Geometry], *, records: float) -> Moments:
        """Return the moments (k, D, D) at the centre in geometries of other radii."""
        moments = [self.at_radius(each.radius).moments(self.centre, records=records) for each in geometries]
        return Moments(H=np.array([each.H for each in moments]), J=np.array([each.J for each in moments]))

    def with_weights(self, weights: FloatArray) -> FloatArray:
        """Return Hessians (k, D, D) of one person at the centre under other Mallows weights (k, n)."""
        return np.array([replace(self, mallows=each).moments(self.centre, records=1).H for each in weights])

    @property
    def left(self) -> FloatArray:
        """The share of the likelihood's information on each row's predictor that a loss leaves at the centre (n,)."""
        return np.ones(len(self.X))

    def left_of_unseen(self, X: FloatArray) -> FloatArray:
        """Return the same for whitened rows (m, width) of unseen people."""
        return np.ones(len(X))

    def borne(self, weights: FloatArray) -> FloatArray:
        """Return the information (k, D, D) that rows bear times weights (k, n), had the loss left all of it."""
        return self.with_weights(weights / self.left)

    @property
    def lengths(self) -> FloatArray:
        """The squared lengths of rows, without the intercept (n,)."""
        return np.asarray(np.sum(self.X[:, int(self.geometry.intercept) :] ** 2, axis=1))

    @property
    def unit(self) -> float:
        """A large change along a whitened direction: `PublicFit.unit`, or what the loss says without outcomes."""
        return 1.0 if self.fit is None else self.fit.unit

    @property
    def effects(self) -> FloatArray | None:
        """The public fit without intercepts (D,); None without outcomes."""
        if self.fit is None:
            return None
        found = np.zeros(self.dimension)
        found[self.counted] = self.fit.theta[self.counted]
        return found

    def moved_at(self, geometries: Sequence[Geometry], H: FloatArray) -> Moved:
        """Return what weights of other radii do (`hdpstats.public.row_weights`); ``H`` (k, D, D) are one person's."""
        return self._moved_at(geometries, H, unseen=True)

    def _moved_at(self, geometries: Sequence[Geometry], H: FloatArray, *, unseen: bool) -> Moved:
        slopes, width, left = self.counted, self.geometry.dimension, self.left
        weights, full = mallows(self.lengths, geometries) * left, self._whole
        means = kept(H, full, slopes)
        N = self.borne(0.5 * np.abs(weights - means[:, None]))
        if unseen and self.unseen is not None:
            square = np.sum(self.unseen.X[:, int(self.geometry.intercept) :] ** 2, axis=1)
            not_shown = self.unseen.moved(mallows(square, geometries) * self.left_of_unseen(self.unseen.X), means)
            N = N + float(np.mean(np.diag(full)[slopes])) * np.kron(np.eye(self.dimension // width), not_shown)
        return moved(H, N, shares=1.0 - means)

    @property
    @abstractmethod
    def scores(self) -> FloatArray | None:
        """The gradient of each row's loss at the public fit (n, D), case weights included; None without outcomes."""

    @property
    def middle(self) -> float:
        """The median length of a row, without the intercept."""
        return max(float(np.median(np.sqrt(self.lengths))), 1e-3)

    @property
    def row_blocks(self) -> tuple[Sequence[IntArray], int]:
        """Those of each predictor: whole rows."""
        return [*np.arange(self.dimension).reshape(-1, self.geometry.dimension)], 0

    @property
    def sloped_rows(self) -> tuple[FloatArray, Sequence[IntArray]]:
        """Those of all predictors: without an intercept whole rows."""
        first = int(self.geometry.intercept)
        return self.X[:, first:], [block[first:] for block in self.row_blocks[0]]

    @property
    def counted(self) -> IntArray:
        """The coordinates of slopes, of all coefficients where there are none."""
        every = np.arange(self.dimension)
        return (
            every[every % self.geometry.dimension >= int(self.geometry.intercept)] if self.geometry.location else every
        )

    @cached_property
    def apart(self) -> float:
        """How far apart coefficients of people who count more and less may be (`hdpstats.public.row_weights`)."""
        if (scores := self.scores) is None:
            return APART
        real = slice(None) if self.groups is None else self.groups == 0
        geometry = at_radius(self.geometry, self.middle)
        weights = mallows_weights(self.lengths, geometry)
        full, H = self.seen * self._unweighted, self.seen * self.with_weights(weights[None])[0]
        scores, weights = scores[real], weights[real]
        influences: FloatArray = np.asarray(
            (np.linalg.solve(full, scores.T) - np.linalg.solve(H, (weights[:, None] * scores).T)).T, dtype=np.float64
        )
        if self.person is not None:
            influences = np.add.reduceat(influences, np.flatnonzero(np.diff(self.person[real], prepend=-1)))
        M = self._moved_at([geometry], H[None] / self.seen, unseen=False).matrices[0]
        return contrast_tau(influences[:, self.counted], M[self.counted], unit=self.unit)

    @property
    def allowance(self) -> Allowance:
        """What weights of the geometry may do to an estimate."""
        return self.allowance_at(self.geometry, scale=self.apart * self.unit)

    def allowance_at(self, geometry: Geometry, *, scale: FloatArray | float) -> Allowance:
        """Return the same at another radius; ``scale`` is ``tau`` times the unit, of each coordinate or of all."""
        H = self.with_weights(mallows(self.lengths, [geometry]))
        return self.moved_at([geometry], H).allowance(scale, effects=self.effects)

    @cached_property
    def _unweighted(self) -> FloatArray:
        """The Hessian (D, D) of one person without Mallows weights."""
        return np.asarray(self.with_weights(np.ones((1, len(self.X))))[0])

    @cached_property
    def _whole(self) -> FloatArray:
        """The same (D, D), had the loss left all of the information."""
        left = self.left
        return self._unweighted if (left == 1.0).all() else np.asarray(self.with_weights(1.0 / left[None])[0])


def averaged(
    triangles: tuple[FloatArray, FloatArray],
    *,
    records: float,
    row_weights: FloatArray,
    levelled: tuple[slice, ...],
) -> Moments:
    """Return ``records`` times the average of the people's stacked matrices, shrunk.

    Parameters
    ----------
    triangles
        For ``H`` and ``J``: the upper triangle of each person's matrix, row by row (people, D (D + 1) / 2).
    records
        The number of private people.
    row_weights
        Weightings of the people (B, people), each summing to 1.
    levelled
        Coordinates in which the whitened design is close to round: their diagonal is levelled in the target.
    """
    H, J = (records * averages(each, row_weights=row_weights, levelled=levelled) for each in triangles)
    return Moments(H=H, J=J)


def averages(triangles: FloatArray, *, row_weights: FloatArray, levelled: tuple[slice, ...]) -> FloatArray:
    """Return one of the two averages (B, D, D) of `averaged`, of one person."""
    return shrunk(_symmetric(row_weights @ triangles), rows=len(triangles), levelled=levelled)


def averaged_squares(
    X: FloatArray, *parts: tuple[FloatArray, FloatArray], records: float, levelled: tuple[slice, ...]
) -> Moments:
    """Return ``records`` times sums over rows ``X`` (n, D) of ``x x'``, shrunk as `averaged` does.

    Its two parts are for ``H`` and ``J``: weights (B, n), and what they are multiplied by in each row (n,).
    """
    (weights, factor), (others, other) = parts
    if factor is other:
        sums = squares_under(X, (weights, others), factor)
    elif weights is others and np.array_equal(factor, other):
        sums = [squares(X, weights, factor)] * 2
    else:
        sums = [squares(X, *part) for part in parts]
    H, J = (records * shrunk(each, rows=len(X), levelled=levelled) for each in sums)
    return Moments(H=H, J=J)


def squares(X: FloatArray, weights: FloatArray, factor: FloatArray) -> FloatArray:
    """Return sums (B, D, D) over rows ``X`` (n, D) of ``x x'`` times ``factor`` (n,), under weights (B, n)."""
    return squares_under(X, (weights,), factor)[0]


def squares_under(X: FloatArray, several: Sequence[FloatArray], factor: FloatArray) -> list[FloatArray]:
    """Return `squares` under several arrays of weights, products of columns being computed once for many weights."""
    many = [weights for weights in several if len(weights) > FEW]
    found = iter(_under_many(X, many, factor) if many else ())
    return [
        next(found) if len(weights) > FEW else weighted_squares(X[None], (weights * factor)[:, None])[:, 0]
        for weights in several
    ]


def _under_many(X: FloatArray, several: Sequence[FloatArray], factor: FloatArray) -> list[FloatArray]:
    """Return `squares_under`, from matrices of products of columns."""
    n, D = X.shape
    columns, products = np.ascontiguousarray(X.T), np.empty((D * (D + 1) // 2, min(ROWS, n)))
    sums = [np.zeros((2, len(weights), len(products))) for weights in several]
    for part in (slice(start, start + ROWS) for start in range(0, n, ROWS)):
        rows, first = columns[:, part], 0
        for j, column in enumerate(rows * factor[part]):
            np.multiply(column, rows[j:], out=products[first : first + D - j, : len(column)])
            first += D - j
        for weights, (total, own) in zip(several, sums, strict=True):
            total += np.matmul(weights[:, part], products[:, : rows.shape[1]].T, out=own)
    return [_symmetric(total) for total, _ in sums]


def averaged_sums(H: FloatArray, J: FloatArray, *, records: float, people: int, levelled: tuple[slice, ...]) -> Moments:
    """Return ``records`` times the average of ``people``, from sums over them (D, D), shrunk as `averaged` does."""
    H, J = (averaged_sum(each, records=records, people=people, levelled=levelled) for each in (H, J))
    return Moments(H=H, J=J)


def averaged_sum(whole: FloatArray, *, records: float, people: int, levelled: tuple[slice, ...]) -> FloatArray:
    """Return one of the two (D, D) of `averaged_sums`."""
    stack = shrunk(0.5 * (whole + whole.T)[None] / people, rows=people, levelled=levelled)
    return np.asarray(records * stack[0])


def _symmetric(triangles: FloatArray) -> FloatArray:
    """Return symmetric matrices (B, D, D) from their upper triangles (B, D (D + 1) / 2)."""
    return np.take(triangles, _places((math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2), axis=1)


@remembered(8)
def _places(D: int) -> IntArray:
    """Return where each entry of a matrix (D, D) stands in the upper triangle, row by row."""
    i, j = np.triu_indices(D)
    places = np.empty((D, D), dtype=np.int64)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places


def shrunk(stack: FloatArray, *, rows: int, levelled: tuple[slice, ...]) -> FloatArray:
    """Return each matrix (B, D, D) shrunk towards its diagonal, levelled in some coordinates."""
    D = stack.shape[1]
    diagonal = np.diagonal(stack, axis1=1, axis2=2).copy()
    for part in levelled:
        if diagonal[:, part].size:
            diagonal[:, part] = diagonal[:, part].mean(axis=1, keepdims=True)
    share = rows / (rows + D)
    matrices: FloatArray = share * stack
    matrices[:, np.arange(D), np.arange(D)] += (1.0 - share) * diagonal
    return matrices


def spread_where_unknown(fit: PublicFit, X: FloatArray, *, repeated: int = 1) -> PublicFit:
    """Return a fit to whitened rows (n, D) with a wide covariance along the directions of which they say nothing.

    ``repeated`` is the number of blocks of coefficients that have these rows.
    """
    flat = unknown_directions(X)
    return fit if flat is None else spread_along(fit, np.asarray(np.kron(np.eye(repeated), flat), dtype=np.float64))


def spread_along(fit: PublicFit, directions: FloatArray) -> PublicFit:
    """Return a fit with a wide covariance along directions (D, k), and no covariance of these with others."""
    unknown: FloatArray = np.asarray(np.linalg.qr(directions)[0], dtype=np.float64)
    rest = np.eye(len(unknown)) - unknown @ unknown.T
    wide = (UNKNOWN * fit.unit) ** 2 * unknown @ unknown.T
    spreads = None if fit.spreads is None else rest @ fit.spreads @ rest + wide
    return replace(fit, covariance=rest @ fit.covariance @ rest + wide, spreads=spreads, unknown=unknown)

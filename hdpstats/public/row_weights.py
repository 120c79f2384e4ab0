r"""What weights of people may do to an estimate: an allowance, from public rows and the schema.

Weights bound what one person can change. They are functions of covariates alone, so where the model is true they move
nothing. No model is exactly true: then the weighted estimate differs from the ordinary one, which counts people alike.
With weights :math:`w_i` and Hessians :math:`H_i` of people's losses the two differ, to first order, by

.. math:: H(w)^{-1} \sum_i (w_i - c)\, g_i, \qquad H(w) = \sum_i w_i H_i,

for every number ``c``, as the unweighted scores :math:`g_i` add up to zero. With ``c`` the mean weight (by information)
the sum is what people who count more than the mean gain over those who count less: the information

.. math:: N = \tfrac12 \sum_i |w_i - c|\, H_i

is moved from these to those. Weights that are the same for everybody move none. Were the coefficients of the two
groups, each fitted by itself, ``d`` apart, the estimate would be off by

.. math:: M d, \qquad M = (H(w) + N)^{-1} N.

(Where a few people who bear a share ``s`` of the information count for nothing, that is ``s / (1 + s)``.) How far apart
they are is not known. A normal ``d`` is taken, with the standard deviation ``tau`` along every whitened direction, in
units of the loss's scale (`hdpstats.public.moments.PublicFit.unit`). Large effects may be apart by more: where a line
bends, all slopes of far people are smaller, or larger, by the same factor. So ``d`` has another part along the slopes
:math:`\theta` of the public fit, with the relative standard deviation :math:`\rho` = :data:`BENT`, and the allowance is
a normal error with covariance

.. math:: M \{(\tau u)^2 I + \rho^2 \theta \theta'\} M',

common to all sites of a study. Weights are chosen by the predicted mean squared error, this covariance included: what
they take away vanishes as the number of people and epsilon grow.

**How large tau is** public outcomes tell in part. The weighted and the ordinary fit to the *public* rows differ by a
contrast ``c``: to first order the sum over rows of

.. math:: \psi_i = H^{-1} g_i - H(w)^{-1} w_i g_i,

whose covariance by sampling is :math:`V = \sum_i \psi_i \psi_i'` (Hausman 1978). Were private people like the public
ones, ``c`` would have the covariance :math:`\tau^2 S + V`, :math:`S = u^2 M M'`, so that on slopes

.. math:: t = \frac{|c|^2 - \operatorname{tr} V}{\operatorname{tr} S}, \qquad
    v = \frac{2 \operatorname{tr} (\tau_0^2 S + V)^2}{(\operatorname{tr} S)^2}

are an unbiased estimate of :math:`\tau^2` and about its variance. It is shrunk towards the square of
:math:`\tau_0` = :data:`APART`, from which :math:`\tau^2` may differ by about :data:`DOUBT`, and never counts for less:

.. math:: \tau^2 = \tau_0^2 + \frac{s^2}{s^2 + v} \max(0, t - \tau_0^2).

The contrast is that of weights at the median length of a public row. Few public rows say little (``v`` is large), and
without public outcomes nothing is known: then :math:`\tau = \tau_0`. A small contrast does not lower ``tau``: private
people may differ from a line in ways in which public ones do not. The contrast only chooses among sets of weights, and
widens errors; it follows from public rows alone, and a query has nothing of it but the radius, which is one of a grid.

**Where private people are described** (`hdpstats.raking`), weights take another part of their information than of
that of public rows: people who are far from the public centre count less, and there may be many. The geometry is that
of public rows all the same. So ``M`` is computed once more of public rows that are raked to the posterior mean of the
description, and along each direction the larger of the two covariances counts (`Allowance.at_least`).

In linear, logistic and Poisson fits to five studies of real people weights did more than 1.96 allowances, without
noise, to 13 % of 75 slopes where public people are unlike private ones, by ``M`` of public rows alone and without
``rho``; to 4 % by both (to 2.7 % and none of 111 slopes where they are alike).

**Without public rows** nobody is weighted unless ``row_norm`` is declared. Then ``M`` is that of rows that are spread
evenly over the schema's bounds, or of public covariates, and ``tau`` is for each standard deviation of these.

**People whom public rows do not show** may be anywhere within the schema's bounds. They count as :data:`UNSEEN` of
all people, spread evenly over the bounds, with the mean curvature. Those farther than :data:`FAR` standard deviations
of public rows count less: wider bounds add to the allowance, but the information that these people bear stays below
``FAR^2`` per column and person.

In regressions these people count :data:`UNLIKE` times as much, and beyond :data:`NEAR` standard deviations by the
inverse square of distance once more. In flchain two in a thousand people have free light chains that are far beyond
those of 500 public rows, and residuals of half a standard deviation for each standard deviation of distance: what they
did to a line was 30 times what was allowed for. Of hazards caps allow for more, and this is not done.

**Where curvature rests on outcomes**, as that of Huber's loss does, a person with an outlying outcome has none, and
pulls at the estimate all the same. ``N`` has the mean curvature of everybody then, since weights would otherwise take
nothing from people whose outcomes are outlying *because* their covariates are.

**Losses that saturate** (exponential times) leave a share ``s_i`` of a person's information, as a weight would:
``w_i s_i`` is the weight, and ``H_i`` the likelihood's Hessian.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.formulas.design import Design, rows_at
from hdpstats.records.geometry import Geometry, at_radius, weights_within, whiten
from hdpstats.schema.schema import Schema

APART: Final = 0.15
"""``tau_0``: how far apart the coefficients of people who count more and less may be, per whitened standard deviation.

It is a convention, of the size that real data have, where public outcomes say nothing else.
"""

BENT: Final = 0.1
"""``rho``: by how much, relatively, slopes of people who count more and less may differ.

It is the most likely value, given how far weighted fits to five studies of real people are from ordinary ones. It
matters for outcomes that covariates tell well: in ``log(kappa) ~ age + male + log(lambda)`` of flchain the last slope
is 2 units, and .7 of that among far people. Weights did 2 to 3 allowances to it without this part.
"""

COMMON_CAUSE: Final = 0.7
"""The correlation where described people are a standard deviation or more away: half of the variance is common."""

DOUBT: Final = 0.05
"""``s``: a standard deviation of what ``tau`` squared may be. In data of patients ``tau`` was .1 to .4."""

LEAST_SD: Final = 1e-3
"""The least standard deviation of a column of rows that are not whitened by themselves."""

UNSEEN: Final = 1e-3
"""The share of people who may be anywhere within the schema's bounds."""

UNLIKE: Final = 20.0
"""So many times as much may unseen people do in regressions: there may be more of them, and more unlike others.

With ten Gaussian columns within three standard deviations and 600 public rows it costs up to 4 % of an error.
"""

NEAR: Final = 4.0
"""Beyond so many public standard deviations they count there by the inverse square of distance once more."""

FAR: Final = 5.0
"""Beyond so many public standard deviations, averaged over columns, they count by the inverse square of distance.

So the information that they bear stays bounded, however wide the schema's bounds are.
"""

SPARE: Final = 1.03
"""Of weights whose mean squared error is at most this much of the least the ones of the smallest allowance are taken.

They cost 1.5 % of a standard error at most, and people whom public rows do not show may be more than was allowed for.
"""

STEPS_OF_TWO: Final = 8
"""Radii that are tried for each factor of two."""

FIRST: Final = 0.35
"""The smallest radius that is tried, relative to the median length of a public row."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Allowance:
    """What weights take, and the covariance of what they may do.

    Attributes
    ----------
    share : float
        The share of the information on slopes that weights take away, among public rows, or these raked to what was
        described.
    covariance : (D, D) float64
        The covariance of the allowance, in whitened coordinates.
    unlike : float
        The correlation of what weights do with what separates public from private coefficients
        (`hdpstats.inference.pooling`): :data:`COMMON_CAUSE` times the square of how far means and shares of described
        people lie from public ones, in public standard deviations, the largest, at most 1. 0 where nobody was
        described.
    """

    share: float
    covariance: FloatArray
    unlike: float = 0.0

    def at_least(self, other: "Allowance") -> "Allowance":
        """Return the share of another one, and this covariance plus the positive part of what that one's has more.

        It is larger than either along every direction, and no larger than need be where both have the same axes.

        >>> one, other = (Allowance(share=0.1, covariance=np.diag(each)) for each in ([4.0, 1.0], [1.0, 2.0]))
        >>> np.diag(one.at_least(other).covariance).tolist()
        [4.0, 2.0]
        """
        sizes, axes = np.linalg.eigh(other.covariance - self.covariance)
        return replace(other, covariance=self.covariance + (axes * np.maximum(sizes, 0.0)) @ axes.T)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Moved:
    """What several sets of weights do: shares of information that are taken away (k,), and matrices ``M`` (k, D, D)."""

    shares: FloatArray
    matrices: FloatArray

    def covariances(self, scale: FloatArray | float, *, effects: FloatArray | None = None) -> FloatArray:
        """Return the allowances' covariances (k, D, D).

        ``scale``, of each coordinate or all, is ``tau u``; ``effects`` (D,) are the slopes, None where they are not
        known.
        """
        roots = self.matrices * scale
        found = roots @ np.swapaxes(roots, 1, 2)
        if effects is not None:
            bent = BENT * self.matrices @ effects
            found = found + bent[:, :, None] * bent[:, None, :]
        return np.asarray(found)

    def allowance(self, scale: FloatArray | float, *, effects: FloatArray | None = None) -> Allowance:
        """Return the allowance of the first set."""
        return Allowance(share=float(self.shares[0]), covariance=self.covariances(scale, effects=effects)[0])


def contrast_tau(influences: FloatArray, matrix: FloatArray, *, unit: float) -> float:
    """Return ``tau`` as public outcomes tell it.

    Parameters
    ----------
    influences
        What each row adds to the contrast along each slope (n, p).
    matrix
        The slopes' rows of ``M`` (p, D).
    unit
        The loss's scale.

    Examples
    --------
    Outcomes that say nothing leave the convention; a contrast of one unit, which all rows share, does not.

    >>> contrast_tau(np.zeros((50, 1)), np.eye(1), unit=1.0)
    0.15
    >>> round(contrast_tau(np.full((50, 1), 0.02), np.eye(1), unit=1.0), 2)
    0.64
    """
    V, S = influences.T @ influences, unit**2 * (matrix @ matrix.T)
    total, c = float(np.trace(S)), np.sum(influences, axis=0)
    if not total > 0.0:
        return APART
    raised = (float(c @ c) - float(np.trace(V))) / total
    variance = 2.0 * float(np.sum((APART**2 * S + V) ** 2)) / total**2
    return float(np.sqrt(APART**2 + DOUBT**2 / (DOUBT**2 + variance) * max(0.0, raised - APART**2)))


def moved(H: FloatArray, N: FloatArray, *, shares: FloatArray) -> Moved:
    """Return what weights do, from the information that is left and that is moved (k, D, D)."""
    return Moved(shares=shares, matrices=np.asarray(np.linalg.solve(H + N, N), dtype=np.float64))


def kept(H: FloatArray, full: FloatArray, slopes: IntArray) -> FloatArray:
    """Return ``c`` (k,): the information (k, D, D) on slopes that weights leave over that without weights (D, D)."""
    whole = float(np.sum(np.diag(full)[slopes]))
    if not whole > 0.0:
        return np.ones(len(H))
    return np.asarray(np.sum(np.diagonal(H, axis1=1, axis2=2)[:, slopes], axis=1) / whole)


def moved_rows(X: FloatArray, weights: FloatArray, geometry: Geometry, *, unseen: "UnseenPeople | None") -> Moved:
    """Return what one set of weights (n,) of whitened rows (n, D) of the same curvature does."""
    own = np.arange(int(geometry.intercept), X.shape[1])
    full, H = (X.T @ (each[:, None] * X) / len(X) for each in (np.ones(len(X)), weights))
    means = kept(H[None], full, own)
    N = X.T @ (0.5 * np.abs(weights - means[0])[:, None] * X) / len(X)
    if unseen is not None:
        square = np.sum(unseen.X[:, int(geometry.intercept) :] ** 2, axis=1)
        N = N + float(np.mean(np.diag(full)[own])) * unseen.moved(mallows(square, [geometry]), means)[0]
    floor = 1e-9 * np.trace(full) * np.eye(len(full))
    return moved((H + floor)[None], N[None], shares=1.0 - means)


POINTS: Final = 256
"""Rows that stand for unseen people."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class UnseenPeople:
    """People whom public rows do not show.

    Attributes
    ----------
    X : (m, D) float64
        Whitened rows, spread evenly over the schema's bounds.
    shares : (m,) float64
        The share of people that each stands for.
    farthest : float
        A bound on the length of a whitened row within the schema's bounds.
    """

    X: FloatArray
    shares: FloatArray
    farthest: float

    @classmethod
    def of(cls, design: Design, needs: Sequence[str], schema: Schema, geometry: Geometry) -> "UnseenPeople":
        """Return them in a geometry of public rows; ``needs`` are the columns of the schema that the design reads."""
        first = int(geometry.intercept)
        X = whiten(geometry, design.matrix(rows_at(_even(POINTS, len(needs)), needs, schema))).X
        nearer = FAR**2 * (X.shape[1] - first) / np.maximum(np.sum(X[:, first:] ** 2, axis=1), 1e-200)
        return cls(
            X=X,
            shares=UNSEEN / len(X) * np.minimum(1.0, nearer),
            farthest=reach(geometry, lower=np.array(design.lower[first:]), upper=np.array(design.upper[first:])),
        )

    def unlike(self, *, intercept: bool) -> "UnseenPeople":
        """Return them as regressions count them."""
        squares = np.sum(self.X[:, int(intercept) :] ** 2, axis=1)
        nearer = NEAR**2 * (self.X.shape[1] - int(intercept)) / np.maximum(squares, 1e-200)
        return replace(self, shares=UNLIKE * self.shares * np.minimum(1.0, nearer))

    def moved(self, weights: FloatArray, means: FloatArray) -> FloatArray:
        """Return ``sum |w - c| x x' / 2`` (k, D, D) for weights (k, m) and their means among public rows (k,)."""
        by = 0.5 * self.shares * np.abs(weights - means[:, None])
        D = self.X.shape[1]
        products = (self.X[:, :, None] * self.X[:, None, :]).reshape(len(self.X), D * D)
        return np.asarray((by @ products).reshape(-1, D, D))


def _even(count: int, d: int) -> FloatArray:
    """Return points (count, d) spread evenly over the unit cube: multiples of powers of a generalised golden ratio."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (d + 1.0))
    return np.asarray((np.arange(count)[:, None] + 0.5) * ratio ** -np.arange(1.0, d + 1.0) % 1.0)


def mallows(square: FloatArray, geometries: Sequence[Geometry]) -> FloatArray:
    """Return weights (k, n) of rows of squared lengths (n,) in geometries that differ in radius and leverage."""
    radii, leverages = np.array([[each.radius, each.leverage] for each in geometries]).T[:, :, None]
    return weights_within(square, intercept=geometries[0].intercept, radius=radii, leverage=leverages)


def reach(geometry: Geometry, *, lower: FloatArray, upper: FloatArray) -> float:
    """Return a bound on the length of a whitened row whose columns lie within bounds (d,).

    >>> from hdpstats.records.geometry import from_box
    >>> box = from_box([0.0], [4.0], intercept=True)
    >>> reach(box, lower=np.array([0.0]), upper=np.array([4.0]))
    1.0
    """
    m, A = geometry.arrays()
    farthest = np.maximum(np.abs(lower - m), np.abs(upper - m))
    return float(np.linalg.norm(np.abs(A) @ farthest))


def radii(middle: float, farthest: float) -> list[float]:
    """Return the radii to try: powers of the eighth root of two from `FIRST` times the median length to the bounds.

    They are multiples of 2^-20 of a power of two, the same on every machine.

    >>> radii(1.0, 1.0)[-1], len(radii(1.0, 4.0))
    (1.0, 30)
    """
    first = int(np.floor(STEPS_OF_TWO * np.log2(max(FIRST * middle, 2.0**-18))))
    last = max(first, int(np.ceil(STEPS_OF_TWO * np.log2(min(max(farthest, 2.0**-18), 2.0**19)) - 1e-9)))
    steps = [divmod(k, STEPS_OF_TWO) for k in range(first, last + 1)]
    return [float(np.ldexp(round(2.0 ** (20 + part / STEPS_OF_TWO)), whole - 20)) for whole, part in steps]


def at_radii(geometry: Geometry, *, middle: float, farthest: float) -> list[Geometry]:
    """Return the geometry at the radii to try."""
    return [at_radius(geometry, radius) for radius in radii(middle, farthest)]

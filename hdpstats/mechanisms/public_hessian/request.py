r"""Newton steps with a public Hessian and noisy private gradients, as data flow: Ji et al. (2014), corrected.

With ``k`` sites of :math:`n_j` people, :math:`n_0` public people and :math:`N = \sum_{j \ge 0} n_j`, rows cut as
`hdpstats.mechanisms.public_hessian.site.cut_rows` does, and losses :math:`\ell` of a logistic regression, the penalised
likelihood of everybody is maximised by a fixed number of steps

.. math:: b \leftarrow b - \Big(\frac{N}{n_0} H_0(b) + \lambda I\Big)^{-1}
          \Big(\sum_{j \ge 1} \tilde g_j + g_0(b) + \lambda b\Big),

:math:`H_0` and :math:`g_0` Hessian and gradient of the public people's losses, :math:`\tilde g_j` the noisy gradient
that site ``j`` released at ``b``. The paper's algorithm 1 prints the Hessian with a logarithm of the curvature and
without the outer product; what is meant is :math:`H = -H_0 - (n_0 \lambda / N) I`, whose multiple :math:`N / n_0`
estimates the Hessian of all. Its algorithm 2 starts at 0, its results at a public fit: either is private, as both are
public.

A round that fewer sites answered is one of fewer people. Coefficients are rounded to 2^-20 before they are asked at,
and kept within `LARGEST`, so that what is asked is always a query.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.public_hessian import PublicHessianQuery, PublicHessianRelease
from hdpstats.mechanisms.public_hessian.site import calibrate, cut_rows
from hdpstats.mechanisms.score_sums import STEP, FitInRounds, rounded_up
from hdpstats.privacy.budget import EPSILON_GRAIN
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, shared, square_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source, whiten
from hdpstats.records.model import RegressionModel
from hdpstats.solvers import minimise

LARGEST = 1000.0
"""The largest size of a standardised coefficient."""

LEAST_RIDGE = 1.0
"""Of the public fit where the steps start: with less, few public people who happen to be separated by a column give
coefficients at which the public Hessian is next to none."""

RADIUS, LEVERAGE = 1e6, 1e13
"""Of a geometry whose rows are cut: no row is weighted down."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicPeople:
    """Cut public rows ``X`` (n0, D) and outcomes ``y`` (n0,), 0 or 1."""

    X: FloatArray
    y: FloatArray

    @property
    def number(self) -> int:
        """``n0``."""
        return len(self.y)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient (D,) of the sum of losses."""
        return np.asarray(self.X.T @ LogisticLoss().score(self.X @ theta, self.y))

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return its Hessian (D, D)."""
        curvature = LogisticLoss().curvature(self.X @ theta, self.y)
        return np.asarray(self.X.T @ (curvature[:, None] * self.X))

    def fit(self, *, ridge: float) -> FloatArray:
        """Return the coefficients (D,) of largest penalised likelihood."""
        objective = RegressionRows.of(LogisticLoss(), self.X, self.y).penalised(ridge=np.full(self.X.shape[1], ridge))
        return minimise(objective, start=objective.centre).theta


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Newton(FitInRounds):
    """Everything public about a fit, fixed before the first round.

    Attributes
    ----------
    model : RegressionModel
        The logistic regression, in standardised coordinates.
    public : PublicPeople
        The public people.
    truncation, norm : float, Fraction
        How rows are cut.
    ridge : float
        ``lambda``.
    rounds : int
        The number of steps.
    from_public : bool
        Whether the first step starts at the public fit; else at 0.
    sites, schema_sha256, public_sha256, replicate
        See `FitInRounds`.
    """

    model: RegressionModel
    public: PublicPeople
    truncation: float
    norm: Fraction
    ridge: float
    rounds: int
    from_public: bool

    @property
    def start(self) -> FloatArray:
        """Where the first step starts (D,)."""
        if not self.from_public:
            return np.zeros(self.model.dimension)
        return rounded(self.public.fit(ridge=self.public_ridge))

    @property
    def public_ridge(self) -> float:
        """``lambda n0 / N``, the public people's part of the ridge, but `LEAST_RIDGE` at least."""
        everybody = self.public.number + sum(site.records for site in self.sites.values())
        return max(self.ridge * self.public.number / everybody, LEAST_RIDGE)


Queries = Mapping[str, PublicHessianQuery]
Releases = Mapping[str, PublicHessianRelease]


def balanced_ridge(state: Newton, *, relation: Relation) -> float:
    r"""Return the ridge of least predicted error of the first step, from public rows and the noise to come.

    In a direction of curvature ``h`` in which coefficients have a mean square :math:`\tau^2` and the gradient noise of
    all sites the variance :math:`s^2`, a step with ridge :math:`\lambda` errs by :math:`(\lambda^2 \tau^2 + h + s^2) /
    (h + \lambda)^2` in mean square: least at :math:`\lambda = (1 + s^2 / h) / \tau^2`. ``h`` is the mean over
    directions, :math:`\tau^2` that of the public fit's squares.
    """
    public = state.public
    theta = public.fit(ridge=LEAST_RIDGE)
    people = public.number + sum(site.records for site in state.sites.values())
    curvature = float(np.trace(public.hessian(theta))) / len(theta) * people / public.number
    asked = queries_at(state, rounded(theta), tuple(state.sites), round=0)
    noise = sum(calibrate(query, relation=relation).noise_sd ** 2 for query in asked.values())
    return float((1.0 + noise / curvature) / np.mean(theta**2))


def costs_of(epsilon: Fraction, delta: Fraction, *, rounds: int) -> tuple[Fraction, ...]:
    """Return the cost of each round, of epsilon without a delta, else of the squared Gaussian parameter.

    All are the same, but that the last one has what rounding to the grain of charges left over.

    >>> costs_of(Fraction(1), Fraction(0), rounds=2)
    (Fraction(1, 2), Fraction(1, 2))
    """
    whole, grain = (epsilon, EPSILON_GRAIN) if delta == 0 else (square_of(epsilon, delta), MU_SQUARED_GRAIN)
    return shared(whole, (1,) * rounds, grain)


def standardised(X: FloatArray, *, intercept: bool) -> Geometry:
    """Return the geometry that standardises design rows (n, D), intercept first, by their own means and deviations.

    Columns without spread keep their scale. Without an intercept nothing is centred.
    """
    columns = X[:, int(intercept) :]
    location = columns.mean(axis=0) if intercept else np.zeros(columns.shape[1])
    scale = np.sqrt(np.mean((columns - location) ** 2, axis=0))
    whitening = np.diag(1.0 / np.where(scale > 1e-9, scale, 1.0))
    return Geometry(
        location=tuple(location.tolist()),
        whitening=tuple(tuple(row) for row in whitening.tolist()),
        radius=RADIUS,
        leverage=LEVERAGE,
        intercept=intercept,
        source=Source.PUBLIC_ROWS,
    )


def longest_row(geometry: Geometry, *, lower: FloatArray, upper: FloatArray, truncation: float) -> Fraction:
    """Return the largest norm of a cut row of the declared box (D,), intercept first, rounded up to 8 binary digits."""
    first = int(geometry.intercept)
    ends = whiten(geometry, np.array([lower, upper])).X[:, first:]
    reach = np.minimum(np.max(np.abs(ends), axis=0), truncation)
    return rounded_up(math.hypot(first, *reach.tolist()))


def public_people(
    X: FloatArray, y: FloatArray, geometry: Geometry, *, truncation: float, norm: Fraction
) -> PublicPeople:
    """Return public design rows (n0, D) standardised and cut as private ones are."""
    rows = whiten(geometry, X).X
    cut = cut_rows(rows, truncation=truncation, norm=float(norm), intercept=geometry.intercept)
    return PublicPeople(X=cut, y=y)


def queries_at(state: Newton, theta: FloatArray, names: Sequence[str], *, round: int) -> dict[str, PublicHessianQuery]:  # noqa: A002
    """Return what sites are asked in a round, counted from 0."""
    return {
        name: PublicHessianQuery(
            model=state.model,
            theta=tuple(theta.tolist()),
            truncation=state.truncation,
            norm=state.norm,
            cost=site.costs[round],
            **state.offered(name, round=round),
        )
        for name, site in state.sites.items()
        if name in names
    }


def advance(state: Newton, asked: Sequence[Queries], answered: Sequence[Releases]) -> Queries | FloatArray:
    """Return what to ask next, or after the last round the coefficients (D,).

    ``asked`` and ``answered`` are the rounds so far. A site that did not answer one is not asked again.
    """
    if not asked:
        return queries_at(state, state.start, tuple(state.sites), round=0)
    last = answered[-1]
    theta = step(state, place_of(asked[-1]), last)
    return theta if len(asked) == state.rounds else queries_at(state, theta, tuple(last), round=len(asked))


def place_of(asked: Queries) -> FloatArray:
    """Return where the sites were asked in a round (D,)."""
    return np.array(next(iter(asked.values())).theta)


def step(state: Newton, theta: FloatArray, answered: Releases) -> FloatArray:
    """Return the coefficients after one step from ``theta``, rounded to where one may ask."""
    public = state.public
    people = public.number + sum(state.sites[name].records for name in answered)
    gradient = public.gradient(theta) + sum(np.array(release.total) for release in answered.values())
    return rounded(theta + change(state, theta, gradient, people=people))


def change(state: Newton, theta: FloatArray, gradient: FloatArray, *, people: int) -> FloatArray:
    """Return Newton's change of ``theta`` (D,) for a gradient of so many people's losses, with the public Hessian."""
    public, identity = state.public, np.eye(len(theta))
    hessian = people / public.number * public.hessian(theta) + state.ridge * identity
    return np.asarray(-np.linalg.solve(hessian, gradient + state.ridge * theta))


def rounded(theta: FloatArray) -> FloatArray:
    """Return coefficients as they can be asked at: within `LARGEST`, multiples of `STEP`."""
    return np.asarray(np.rint(np.clip(theta, -LARGEST, LARGEST) / STEP) * STEP + 0.0)

r"""The public side of a regression among people who are weighted by their chance of treatment.

A regression of an outcome on the treatment, and on covariates of the propensity model beside it, whose rows are
weighted by overlap weights is a marginal structural model: its coefficients describe the people whose treatment was in
doubt (Li, Morgan and Zaslavsky 2018; Robins, Hernan and Brumback 2000). It is fitted to private people alone. What its
errors are is read from public people who stand for them, each of them once in either arm: with the chance ``e`` of
treatment of the private model a person is treated with the weight ``1 - e`` and untreated with the weight ``e``, so
that the weight of either arm is ``e (1 - e)`` in expectation, whatever treated the public people.

**Stacked equations.** With ``z`` the row of the regression, ``r = l'(z' theta)`` the score of its loss, ``w`` the
weight, ``x`` the row of the propensity model, whose coefficients are ``alpha``, and ``a`` the treatment, the weighted
score errs to first order by

.. math:: \sum_i w_i r_i z_i + n B (\hat\alpha - \alpha_0), \qquad
          B = E[r z\, \partial w / \partial\alpha'] = E[e (1 - e) \{(1 - e) r_0 z_0 - e\, r_1 z_1\} x'],

the derivative being taken with who is treated as it is: so ``B`` counts that wrong weights leave the arms unlike, and
that they are of other people. The sampling of the coefficients is that of the same people,
:math:`\hat\alpha - \alpha_0 = A^{-1} \sum_i x_i (a_i - e_i) / n` with :math:`A = E[e (1 - e) x x']`, plus their noise.
A person's score is so in all

.. math:: \phi = w r z + B A^{-1} x (a - e),

and ``J = n E[phi phi']`` takes the place of the score's covariance in every formula for errors; the noise of the
propensity model adds the covariance :math:`H^{-1} B \Sigma B' H^{-1}` to that of the coefficients, the same at all
sites (`WeightedPublic.of_propensity`). That estimating the weights makes errors smaller (Lunceford and Davidian 2004)
is in ``phi``: never is it left out.

*Fewer people than the propensity model has.* Of its ``N`` people some may lack the outcome, or be at a site that is not
asked. The sum is then over ``n``, and the coefficients err by :math:`A^{-1} \sum x_i (a_i - e_i) / N` over all: with
``q = n / N`` it is :math:`J = n (J_0 + q J_1)`, :math:`J_0 = E[w^2 r^2 z z']` and :math:`J_1` the rest of
:math:`E[\phi \phi']`. *Several sites* have the coefficients' error in common, so that it takes no part in how their
estimates differ: with ``n`` and ``N`` those of all sites together ``J`` holds for the pooled estimate, and
:math:`J_0`, ``q = 0``, for the test of whether sites agree. With it a site's own errors are somewhat too large.

**Outcomes.** The mean outcome of a person in an arm is :math:`g^{-1}(z' c + x' b)`, ``g`` the link of the loss, with
``b`` from public people, and ``c`` such that the weighted score at ``theta`` is 0: the regression holds among the
weighted people, and need not hold for any one of them. Its variance about that mean is that of the likelihood, of a
count times the dispersion of public outcomes; of least squares it is that of public residuals. These are by arm.

**People with several rows** have one here, as they do in treatment effects: treatment and covariates are those of the
first row that is complete in the propensity model's columns, and the outcome is the mean over the rows that have one.
So the coefficients are those of the average person: by scores ``mean - y``, the same as those of the equation in which
each of a person's n rows weighs w / n with the covariates of that first row (Liang and Zeger 1986). All sums are over
people, so that nothing is assumed of how outcomes of a person go together. Nothing is released of how many rows private
people have. The variance taken is that of one outcome (that of public people's means plus that of a person's own
outcomes about theirs; of a binary outcome ``m (1 - m)``), which no mean exceeds, but at most `WIDER` squared times that
of public people's means. Where this binds, errors are too small for private people of far fewer rows: notes say so, and
by how much at most (`Dependence.beyond`).

References
----------
J. M. Robins, M. A. Hernan, B. Brumback (2000), Marginal structural models and causal inference in epidemiology.
J. K. Lunceford, M. Davidian (2004), Stratification and weighting via the propensity score.
F. Li, K. L. Morgan, A. M. Zaslavsky (2018), Balancing covariates via propensity score weighting.
"""

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.regression.likelihood import maximum_likelihood
from hdpstats.families.regression.public import PublicRows, fitted_public
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.families.stacked import ExpectedScores, OverlapSide, TreatedRows, spread_covariance
from hdpstats.formulas import Design
from hdpstats.formulas.design import whitened_matrix
from hdpstats.inference.overlap_errors import RIDGE, WeightedPeople, spread_by_arm
from hdpstats.losses import LogisticLoss, PoissonLoss, PredictorLoss
from hdpstats.public.moments import WhitenedRows, squares
from hdpstats.records.estimate import Estimate
from hdpstats.solvers import minimise

WIDER: Final = 1.3
"""So many times the standard deviation of public people's means is at most taken, for private people of fewer rows."""

LARGER: Final = 1.05
"""So many times larger errors with one row a person are worth a note."""

FEWER_ROWS: Final = (
    "Outcomes of private people are taken to be means over about as many rows as those of public people: standard "
    "errors allow for a spread {wider:.1f} times theirs. Had each private person one row, they would have to be up to "
    "{beyond:.1f} times as large."
)
"""What is said where `WIDER` binds."""

STEPS, CLOSE = 60, 1e-10
"""Newton steps of the constants ``c``, and the length of a step that is short."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Dependence:
    """How outcomes depend on the covariates of the propensity model, from public people.

    Attributes
    ----------
    lean : (m,) float64
        ``x'b`` of the people, up to a constant.
    spread : (2,) float64
        By arm, untreated first: of a count the dispersion, of least squares the variance of residuals, of means of
        several binary outcomes the variance over ``m (1 - m)``; 1 of a likelihood without one.
    beyond : float
        How many times larger the standard deviation of an outcome would be, in either arm at most, if each person had
        one row; 1 where that is allowed for.
    """

    lean: FloatArray
    spread: FloatArray
    beyond: float = 1.0


def dependence_of(
    loss: PredictorLoss,
    Z: FloatArray,
    X: FloatArray,
    y: FloatArray,
    treated: FloatArray,
    *,
    people: FloatArray,
    within: FloatArray | float = 0.0,
) -> Dependence:
    """Return it from public rows: those of the regression ``Z`` (n, D) and of the propensity model ``X`` (n, p).

    The loss is fitted to both with a weak ridge, as columns may be the same; ``people`` (m, p) are rows of the
    propensity model of those who stand for the private ones. ``within`` (n,) is, where outcomes are means over several
    rows, the variance of a person's own outcomes about their mean.
    """
    varies, own = np.ptp(X, axis=0) > 0.0, np.ptp(Z, axis=0) > 0.0
    centre, scale = X[:, varies].mean(axis=0), X[:, varies].std(axis=0)
    covariates = (X[:, varies] - centre) / scale
    terms = (Z[:, own] - Z[:, own].mean(axis=0)) / Z[:, own].std(axis=0)
    columns = np.column_stack([np.ones(len(y)), covariates, terms])
    rows = RegressionRows.of(loss, np.asfortranarray(columns), y)
    level = float(np.mean(loss.typical(np.zeros(1))[0]))
    ridge = RIDGE * len(y) * max(level, 1e-3) * np.ones(columns.shape[1])
    ridge[0] *= 1e-3
    theta = minimise(rows.penalised(ridge=ridge), start=np.zeros(len(ridge))).theta
    residuals = loss.score(columns @ theta, y)
    own = unit_variances(loss, residuals + y)
    squares = residuals**2
    of_means, of_one = (
        np.maximum(spread_by_arm(each, own, treated, coefficients=columns.shape[1]), 1e-12)
        for each in (squares, squares + within)
    )
    if isinstance(loss, LogisticLoss):  # at most what a variable in [0, 1] with that mean has: an outcome of one row
        whole = np.isin(y, (0.0, 1.0)).all() and not np.any(within)
        of_means, of_one = np.ones(2) if whole else np.minimum(of_means, 1.0), np.ones(2)
    spread = np.minimum(of_one, WIDER**2 * of_means)
    lean = ((people[:, varies] - centre) / scale) @ theta[1 : 1 + covariates.shape[1]]
    return Dependence(lean=np.asarray(lean), spread=spread, beyond=float(np.sqrt(np.max(of_one / spread))))


def unit_variances(loss: PredictorLoss, means: FloatArray) -> FloatArray:
    """Return the variances of outcomes about their means that a spread of 1 is, of the same shape."""
    if isinstance(loss, LogisticLoss):
        return np.asarray(means * (1.0 - means))
    return means if isinstance(loss, PoissonLoss) else np.ones_like(means)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedPublic(OverlapSide, WhitenedRows):
    """Public people who stand for weighted private ones, each in both arms: see the module's docstring.

    Attributes
    ----------
    X : (2 m, D) float64
        Whitened rows of the regression, of all people untreated and then of all treated; ``weights`` are ``e (1 - e)``.
    loss : PredictorLoss
        One of `hdpstats.families.regression.bounds.OF_MEANS`.
    standing : WeightedPeople
        The people (m,) with their rows of the propensity model and how much each stands for.
    noise : (p, p) float64
        The covariance of the noise in the propensity's coefficients.
    dependence : Dependence
        How outcomes depend on covariates.
    rows : int
        The public rows with an outcome, on which that rests.
    raked : bool
        Whether people were raked to a description of the private ones.
    share : float
        ``q``: the people of the regression over those of the propensity model.
    """

    loss: PredictorLoss
    standing: WeightedPeople
    noise: FloatArray
    dependence: Dependence
    rows: int
    raked: bool
    share: float = 1.0

    @property
    def taken_alike(self) -> str:
        """What of private people `moments` take to be distributed as that of the public ones, in words."""
        return "outcomes given covariates" if self.raked else "covariates, and outcomes given these,"

    @property
    def of_fewer_rows(self) -> str:
        """What is said of outcomes that are means of fewer rows than allowed for; empty where that is no matter."""
        beyond = self.dependence.beyond
        return FEWER_ROWS.format(wider=WIDER, beyond=beyond) if beyond >= LARGER else ""

    @property
    def canonical(self) -> bool:
        """Yes: curvature does not depend on outcomes."""
        return True

    @property
    def scaled(self) -> bool:
        """No: weights make the covariance of the score another than its curvature."""
        return False

    @property
    def slopes(self) -> slice:
        """The slopes, where there are any."""
        return slice(int(self.geometry.intercept) if self.geometry.location else 0, None)

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.geometry.dimension

    @property
    def scores(self) -> None:
        """None: how far apart coefficients of people who count more and less may be is not read from them."""
        return

    @property
    def _arms(self) -> tuple[FloatArray, FloatArray]:
        """The rows (m, D) of the untreated and of the treated."""
        return self.X[: self.people], self.X[self.people :]

    @property
    def _mallows(self) -> FloatArray:
        """The Mallows weights (2, m)."""
        return self.mallows.reshape(2, -1)

    def _means(self, theta: FloatArray) -> FloatArray:
        """Return the mean outcomes (2, m), untreated first, at which the weighted score is 0 at ``theta``."""
        zero, loss = np.zeros(len(self.X)), self.loss
        overlap = np.tile(self.standing.weights, 2) * self.weights * self.mallows
        wanted = self.X.T @ (overlap * loss.score(self.X @ theta, zero))
        lean = np.tile(self.dependence.lean, 2)
        lean = lean - np.average(lean, weights=overlap)
        c, plain = theta.copy(), loss.plain
        for _ in range(STEPS):
            eta = self.X @ c + lean
            missing = wanted - self.X.T @ (overlap * plain.score(eta, zero))
            curved = (self.X.T * (overlap * np.maximum(plain.curvature(eta, zero), 1e-9))) @ self.X
            step = np.linalg.lstsq(curved, missing, rcond=None)[0]
            length = float(np.max(np.abs(self.X @ step), initial=0.0))
            c = c + step * min(1.0, 2.0 / max(length, 1e-300))
            if length < CLOSE:
                break
        return np.asarray(plain.score(self.X @ c + lean, zero)).reshape(2, -1)

    def _variances(self, means: FloatArray) -> FloatArray:
        """Return the variances of outcomes about their means (2, m), of the same shape."""
        return np.asarray(self.dependence.spread[:, None] * unit_variances(self.loss, means))

    def _scores(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the expected scores ``r`` (2, m) at ``theta`` and the variances of scores."""
        means = self._means(theta)
        eta = (self.X @ theta).reshape(2, -1)
        return self.loss.score(eta, np.zeros_like(eta)) - means, self._variances(means)

    def expected(self, theta: FloatArray) -> ExpectedScores:
        """Return what is expected of scores at ``theta``: of each person ``k r z``, with ``k`` the Mallows weight."""
        k = self._mallows
        r, v = self._scores(theta)
        curvature = self.loss.curvature((self.X @ theta).reshape(2, -1), np.zeros_like(r))
        rows = np.stack(self._arms)
        i, j = np.triu_indices(self.dimension)
        products = rows[..., i] * rows[..., j]
        return ExpectedScores(
            mean=(k * r)[..., None] * rows,
            square=(k**2 * (r**2 + v))[..., None] * products,
            curvature=(k * curvature)[..., None] * products,
        )

    def with_weights(self, weights: FloatArray) -> FloatArray:
        """Return Hessians (k, D, D) of one person at the centre under other Mallows weights (k, 2 m)."""
        curvature = self.loss.curvature(self.X @ self.centre, np.zeros(len(self.X)))
        return squares(self.X, weights, np.tile(self.standing.weights, 2) * self.weights * curvature)


def weighted_public(
    rows: PublicRows,
    design: Design,
    loss: PredictorLoss,
    *,
    propensity: FloatArray,
    treated: FloatArray,
    within: FloatArray | float,
    arms: tuple[FloatArray, FloatArray],
    standing: WeightedPeople,
    noise: FloatArray,
    raked: bool,
) -> WeightedPublic:
    """Return the public side of people weighted by their chance of treatment.

    Parameters
    ----------
    rows
        Public rows with the outcome, weighted by the private model's chance of the treatment that they had.
    design, loss
        Those of the regression.
    propensity : (n, p) float64
        The rows of the propensity model of the same people.
    treated : (n,) float64
        Which of them were treated.
    within : (n,) float64 or float
        The variance of a person's own outcomes about their mean; 0 where each has one.
    arms : tuple of (m, D) float64
        The regression's rows of the people who stand for private ones, had they been untreated and treated.
    standing
        These people.
    noise, raked
        See `WeightedPublic`.
    """
    whole = np.concatenate(arms)
    geometry = design.whitening(whole)
    whitened = whitened_matrix(geometry, whole)
    y, e = np.zeros(0) if rows.y is None else rows.y, standing.propensity
    columns = np.asfortranarray(whitened_matrix(geometry, rows.X).X)
    return WeightedPublic(
        geometry=geometry,
        X=np.asarray(whitened.X),
        mallows=np.asarray(whitened.weights),
        weights=np.tile(e * (1.0 - e), 2),
        fit=fitted_public(RegressionRows.of(loss, columns, y, weights=rows.weights), geometry),
        loss=loss,
        standing=standing,
        noise=noise,
        dependence=dependence_of(loss.plain, rows.X, propensity, y, treated, people=standing.X, within=within),
        rows=len(rows.X),
        raked=raked,
    )


def weighted_fit(observed: RegressionRows, treated: TreatedRows, *, terms: tuple[str, ...]) -> Estimate:
    """Return the weighted fit of a loss to rows, with errors by the equations of both models stacked.

    It is what ``glm`` gives with the weights as prior weights, by the loss without its caps. ``observed`` are the rows
    with an outcome among the ``treated`` ones, not weighted.
    """
    rows = replace(observed, loss=observed.loss.plain, weights=treated.weights)
    estimate = maximum_likelihood(rows, terms=terms)
    known = np.isfinite(estimate.values)
    Z, theta = rows.X[:, known], estimate.values[known]
    eta = Z @ theta + rows.offset
    score, curvature = rows.loss.score(eta, rows.y), rows.loss.curvature(eta, rows.y)
    bread = (Z.T * (rows.weights * curvature)) @ Z
    covariance = treated.sandwich(score[:, None] * Z, bread)
    return replace(estimate, sampling=spread_covariance(covariance, known))

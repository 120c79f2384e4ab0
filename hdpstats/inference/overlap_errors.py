r"""Errors of means by arm under overlap weights: stacked estimating equations, by draws.

A propensity model has the coefficients :math:`\hat\alpha`, noisy and estimated from a sample. People with the
covariates ``x`` are treated with the chance :math:`e_0(x)`, that of the true coefficients :math:`\alpha_0`, and weigh
:math:`w = a (1 - \hat e) + (1 - a) \hat e`. The target is the population weighted by :math:`e_0 (1 - e_0)`. The
weighted mean of the outcome in the arm ``a``, less its target, is to first order

.. math:: \zeta_a + h_a(\hat\alpha - \alpha_0) + \text{noise of the cells},

* :math:`\zeta_a = \sum_i \psi_{a,i} / W_a`, with :math:`\psi_1 = a (1 - \hat e) (y - \mu_1)` and :math:`\psi_0 =
  (1 - a) \hat e (y - \mu_0)`: the sampling of the outcome's equation, and ``W`` the total weights of the arms;
* :math:`h_a`: what wrong coefficients do to the expectation of the estimate and to the target, with :math:`m_a(x)` the
  mean outcome: :math:`h_1 = E[e_0 (1 - \hat e) m_1] / E[e_0 (1 - \hat e)] - E[e_0 (1 - e_0) m_1] / E[e_0 (1 - e_0)]`,
  and for :math:`h_0` the factors :math:`(1 - e_0) \hat e`. Its linear part is the block of the stacked derivative that
  couples the equations; it is not linearised here.

The propensity's own sampling error is correlated with :math:`\zeta`: with its covariance :math:`\Sigma_s` it is
:math:`\Sigma_s E[x (a - e) \psi_a] / E[w_a]`. That is why estimated propensities balance better than true ones. Draws
of the whole error of :math:`\hat\alpha`, sampling and noise, are given; :math:`\zeta` is drawn given each of them, as
of jointly normal errors. Noise of the cells is drawn afresh.

Averages over people are over public rows that stand for them, weighted; the chance of treatment there is that of the
private model, whatever treated the public rows. :math:`m_a` is :math:`g^{-1}(c_a + x'b)`, with ``b`` from public
people, and :math:`c_a` such that the weighted means are those released.

**People with several rows** have one row here: the covariates and the treatment of the first complete one, and the mean
of their outcomes. All sums are over people, so that nothing is assumed of how outcomes of a person go together, nor of
how many there are: the variance of a mean about :math:`m_a` follows, by arm, from the released mean squares. Plans take
it to be that of public people's means (`OutcomeModel.spread`).

Where the outcome is linear in ``x`` and has no residual, the balance that estimated coefficients make is exact, and the
sampling error of the difference is 0: a test says so.
"""

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.inference import draws
from hdpstats.inference.draws import Generator
from hdpstats.records.estimate import Estimate

MOST_ROWS: Final = 2_000
"""People that errors are averaged over: of more every k-th."""

FEWEST_OF_ARM: Final = 10
"""An arm of fewer public rows has the variance of both arms together."""

DRAWS: Final = 4_000
"""Draws of errors."""

PIECE: Final = 500
"""Draws that are computed at a time."""

RIDGE: Final = 1e-3
"""Ridge of the public outcome model, for each row and unit of variance: it keeps separated outcomes finite."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedPeople:
    """People who stand for the private ones, with the chance of treatment of a propensity model.

    Attributes
    ----------
    X : (m, p) float64
        Their design rows.
    weights : (m,) float64
        Their weights, 1 in sum.
    coefficients : (p,) float64
        Of the propensity model.
    """

    X: FloatArray
    weights: FloatArray
    coefficients: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray, coefficients: FloatArray) -> "WeightedPeople":
        """Return people with weights (m,) that need not be 1 in sum; of many of them those of `places`."""
        kept = cls.places(len(X))
        w = weights[kept]
        return cls(X=X[kept], weights=w / w.sum(), coefficients=coefficients)

    @staticmethod
    def places(people: int) -> IntArray:
        """Return which of so many people are taken: every k-th of more than `MOST_ROWS`."""
        return np.unique(np.linspace(0, people - 1, min(people, MOST_ROWS)).astype(np.int64))

    @property
    def propensity(self) -> FloatArray:
        """The chance of treatment (m,)."""
        return np.asarray(expit(self.X @ self.coefficients))

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean over people of values (..., m)."""
        return np.asarray(values @ self.weights)

    @property
    def overlap(self) -> float:
        """``E[e (1 - e)]``: the weight of an arm, per person."""
        e = self.propensity
        return float(self.mean(e * (1.0 - e)))

    @property
    def treated(self) -> float:
        """The share of treated people."""
        return float(self.mean(self.propensity))

    @property
    def hessian(self) -> FloatArray:
        """``E[e (1 - e) x x']`` (p, p): what a person tells of the propensity's coefficients."""
        e = self.propensity
        return np.asarray((self.X.T * (self.weights * e * (1.0 - e))) @ self.X)

    def with_treated(self, share: float) -> "WeightedPeople":
        """Return the people with another intercept, the first coefficient, with which such a share is treated."""
        eta = self.X @ self.coefficients
        moved = self.coefficients.copy()
        moved[0] += _shift(eta, self.weights, share)
        return replace(self, coefficients=moved)

    @property
    def effective_share(self) -> float:
        """Kish's effective size over the number of people: ``(E w)^2 / E w^2 = 4 E[e (1 - e)]``."""
        return 4.0 * self.overlap

    def effective_by_arm(self) -> tuple[float, float]:
        """Return Kish's effective size of the untreated and of the treated, each over the number of all people."""
        e = self.propensity
        squares = float(self.mean((1.0 - e) * e**2)), float(self.mean(e * (1.0 - e) ** 2))
        return self.overlap**2 / squares[0], self.overlap**2 / squares[1]

    def imbalance(self, errors: FloatArray) -> FloatArray:
        """Return standardised differences of the design's columns between the arms (B, p) at errors (B, p).

        They are in standard deviations of the people; 0 of a column that does not vary.
        """
        X, own, w = self.X, self.propensity, self.weights
        spread = np.sqrt(np.maximum(w @ X**2 - (w @ X) ** 2, 0.0))
        found = np.empty((len(errors), X.shape[1]))
        for start in range(0, len(errors), PIECE):
            rows = slice(start, start + PIECE)
            true = expit(X @ (self.coefficients[:, None] - errors[rows].T))
            arms = [w[:, None] * (1.0 - true) * own[:, None], w[:, None] * true * (1.0 - own[:, None])]
            untreated, treated = ((arm / arm.sum(axis=0)).T @ X for arm in arms)
            found[rows] = treated - untreated
        varies = spread > 1e-7 * np.sqrt(w @ X**2)
        return np.asarray(np.divide(found, spread, out=np.zeros_like(found), where=varies))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PropensityErrors:
    """The errors of a propensity's coefficients: draws (B, p) of the whole, and the covariances of its two parts."""

    draws: FloatArray
    sampling: FloatArray
    privacy: FloatArray

    @classmethod
    def of(cls, estimate: Estimate, rng: Generator) -> "PropensityErrors":
        """Return those of a private estimate, drawn here where it has none."""
        whole = estimate.sampling + estimate.privacy
        known = estimate.distribution
        drawn = draws.normal(rng, whole, DRAWS) if known is None or known.draws is None else known.draws.exact
        return cls(draws=drawn, sampling=estimate.sampling, privacy=estimate.privacy)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OutcomeModel:
    """How the outcome depends on the covariates, from public people.

    Attributes
    ----------
    slopes : (p,) float64
        ``b``, with 0 for the intercept.
    constants : (2,) float64
        ``c`` of public people, untreated and treated.
    binary : bool
        Whether means are logistic in the predictor; else they are linear.
    spread : (2,) float64
        By arm the variance of an outcome about its mean ``m``, where it is a number. Of risks it is over ``m (1 - m)``:
        1 of outcomes that are 0 or 1, less of the means of several.
    """

    slopes: FloatArray
    constants: FloatArray
    binary: bool
    spread: FloatArray

    def variances(self, means: FloatArray) -> FloatArray:
        """Return the variances of outcomes about their means (2, m), of the same shape."""
        spread = self.spread[:, None]
        return np.asarray(spread * means * (1.0 - means) if self.binary else np.broadcast_to(spread, means.shape))

    def targets(self, people: WeightedPeople) -> FloatArray:
        """Return the weighted means (2,) of people whose outcomes are as those of public people."""
        e = people.propensity
        w = people.weights * e * (1.0 - e)
        eta = people.X @ self.slopes + self.constants[:, None]
        return np.asarray((expit(eta) if self.binary else np.clip(eta, 0.0, 1.0)) @ w / w.sum())

    def means(self, people: WeightedPeople, targets: FloatArray) -> FloatArray:
        """Return the mean outcome (2, m) by arm, untreated first, whose weighted means are ``targets`` (2,)."""
        eta, e = people.X @ self.slopes, people.propensity
        w = people.weights * e * (1.0 - e)
        w = w / w.sum()
        if not self.binary:
            return np.stack([target + eta - w @ eta for target in targets])
        return np.stack([expit(eta + _shift(eta, w, float(target))) for target in targets])


def _shift(eta: FloatArray, w: FloatArray, target: float) -> float:
    """Return the constant with which the weighted mean of the logistic function is a target, by bisection."""
    low, high = -60.0 - float(np.max(eta)), 60.0 - float(np.min(eta))
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(w @ expit(eta + middle)) < target else (low, middle)
    return 0.5 * (low + high)


def outcome_model(X: FloatArray, treated: FloatArray, y: FloatArray, *, binary: bool) -> OutcomeModel:
    """Return the outcome model of public rows: logistic or linear in treatment and covariates, with a weak ridge.

    ``X`` (n, p) may have an intercept; columns that do not vary have the slope 0.
    """
    varies = np.ptp(X, axis=0) > 0.0
    Z = np.column_stack([np.ones(len(X)), treated - treated.mean(), X[:, varies] - X[:, varies].mean(axis=0)])
    scale = np.where(Z.std(axis=0) > 0.0, Z.std(axis=0), 1.0)
    Z, ridge = Z / scale, RIDGE * len(X) * np.diag([0.0, *np.ones(Z.shape[1] - 1)])
    beta = np.zeros(Z.shape[1])
    for _ in range(50 if binary else 1):
        mean = expit(Z @ beta) if binary else Z @ beta
        v = np.maximum(mean * (1.0 - mean), 1e-6) if binary else np.ones(len(y))
        step = np.linalg.lstsq((Z.T * v) @ Z + ridge, Z.T @ (y - mean) - ridge @ beta, rcond=None)[0]
        beta = beta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300)) if binary else beta + step
    first, effect, *others = (beta / scale).tolist()
    slopes = np.zeros(X.shape[1])
    slopes[varies] = others
    untreated = first - effect * treated.mean() - float(X.mean(axis=0) @ slopes)
    mean = expit(Z @ beta) if binary else Z @ beta
    return OutcomeModel(
        slopes=slopes,
        constants=np.array([untreated, untreated + effect]),
        binary=binary,
        spread=_spread(y, mean, treated, coefficients=Z.shape[1], binary=binary),
    )


def _spread(y: FloatArray, mean: FloatArray, treated: FloatArray, *, coefficients: int, binary: bool) -> FloatArray:
    """Return `OutcomeModel.spread`: a variable in [0, 1] with the mean m has a variance of at most m (1 - m)."""
    if binary and np.all((y == 0.0) | (y == 1.0)):
        return np.ones(2)
    own = mean * (1.0 - mean) if binary else np.ones(len(y))
    found = spread_by_arm((y - mean) ** 2, own, treated, coefficients=coefficients)
    return np.minimum(found, 1.0) if binary else found


def spread_by_arm(squares: FloatArray, own: FloatArray, treated: FloatArray, *, coefficients: int) -> FloatArray:
    r"""Return by arm (2,) the variance of outcomes over ``own`` (n,), that which they would have at a spread of 1.

    With the squared residuals :math:`r^2` (n,) of a model of ``k`` coefficients, of which each arm has a constant of
    its own, it is :math:`\sum_a r^2 / \sum_a v \cdot n_a / f_a`, with the degrees of freedom :math:`f_a = n_a - 1 -
    (k - 2) n_a / n`. Where an arm has fewer than `FEWEST_OF_ARM` rows it has the value of both arms together.
    """

    def over(rows: BoolArray, used: float) -> float:
        count = float(rows.sum())
        return float(squares[rows].sum() / max(own[rows].sum(), 1e-12)) * count / max(count - used, 1.0)

    everybody = np.ones(len(squares), dtype=np.bool_)
    both = over(everybody, coefficients)
    arms = [treated == arm for arm in (0.0, 1.0)]
    used = [1.0 + max(coefficients - 2, 0) * rows.mean() for rows in arms]
    few = [rows.sum() < FEWEST_OF_ARM for rows in arms]
    return np.array([both if few[arm] else over(arms[arm], used[arm]) for arm in (0, 1)])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Stacked:
    """The stacked equations at the estimates: what errors of the means by arm follow from.

    Attributes
    ----------
    people : WeightedPeople
        Who stand for the private people.
    means : (2, m) float64
        Their mean outcome, untreated and treated.
    residual : (2, m) float64
        The variance of the outcome about it.
    sampling : (p, p) float64
        The sampling covariance of the propensity's coefficients.
    weights : (2,) float64
        The total weights of the arms.
    """

    people: WeightedPeople
    means: FloatArray
    residual: FloatArray
    sampling: FloatArray
    weights: FloatArray

    @property
    def _centred(self) -> FloatArray:
        """The mean outcomes less the weighted mean of the arm (2, m)."""
        people, e = self.people, self.people.propensity
        w = people.weights * e * (1.0 - e)
        return np.asarray(self.means - (self.means @ w / w.sum())[:, None])

    @property
    def per_weight(self) -> FloatArray:
        """``sum_i psi^2 / W`` (2,), ``W = n E[e (1 - e)]``: over ``W`` it is the variance of ``zeta``."""
        people, e = self.people, self.people.propensity
        chances, weights = np.stack([1.0 - e, e]), np.stack([e, 1.0 - e])
        squares = people.mean(chances * weights**2 * (self._centred**2 + self.residual))
        return np.asarray(squares / people.overlap)

    def equations(self) -> tuple[FloatArray, FloatArray]:
        """Return the covariance (2, 2) of ``zeta``, and that of ``zeta`` with the propensity's error (2, p)."""
        people, e, centred = self.people, self.people.propensity, self._centred
        chances, weights = np.stack([1.0 - e, e]), np.stack([e, 1.0 - e])
        own = np.diag(self.per_weight / self.weights)
        scores = np.stack([-e, 1.0 - e]) * chances * weights * centred  # x (a - e) psi, for a = 0 and a = 1
        crossed = (scores * people.weights) @ people.X / people.overlap
        return own, np.asarray(crossed @ self.sampling)

    def displaced(self, errors: FloatArray, values: FloatArray | None = None) -> FloatArray:
        """Return ``h`` (B, 2) at errors (B, p) of the propensity's coefficients.

        ``values`` (2, m) take the place of the mean outcomes.
        """
        people, own = self.people, self.people.propensity
        m, w = self.means if values is None else values, people.weights
        found = np.empty((len(errors), 2))
        for start in range(0, len(errors), PIECE):
            rows = slice(start, start + PIECE)
            true = expit(people.X @ (people.coefficients[:, None] - errors[rows].T))  # (m, B)
            target = w[:, None] * true * (1.0 - true)
            target = target / target.sum(axis=0)
            for arm, weighted in enumerate(((1.0 - true) * own[:, None], true * (1.0 - own[:, None]))):
                weighted = w[:, None] * weighted
                found[rows, arm] = m[arm] @ (weighted / weighted.sum(axis=0)) - m[arm] @ target
        return found

    def draw(self, rng: draws.Generator, errors: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return draws (B, 2) of the errors of the means but for the cells' noise.

        ``errors`` (B, p) are draws of the error of the propensity's coefficients, and ``covariance`` (p, p) is theirs.
        """
        own, crossed = self.equations()
        slope = crossed @ np.linalg.pinv(covariance)
        left = own - slope @ crossed.T
        return np.asarray(errors @ slope.T + draws.normal(rng, left, len(errors)) + self.displaced(errors))


LEAST: Final = 1e-6


def _log_odds(mean: FloatArray) -> FloatArray:
    return np.asarray(np.log(mean) - np.log1p(-mean))


def contrasts_of(means: FloatArray, *, binary: bool, positive: bool) -> FloatArray:
    """Return the contrasts (..., k) of means (..., 2), untreated first.

    They are both means and their difference; of risks also the logarithms of their ratio and of the ratio of their
    odds; of ``positive`` numbers that of their ratio.
    """
    untreated, treated = means[..., 0], means[..., 1]
    found = [untreated, treated, treated - untreated]
    if binary:
        inside = np.clip(means, LEAST, 1.0 - LEAST)
        found.append(np.log(inside[..., 1]) - np.log(inside[..., 0]))
        found.append(_log_odds(inside[..., 1]) - _log_odds(inside[..., 0]))
    elif positive:
        above = np.maximum(means, LEAST)
        found.append(np.log(above[..., 1]) - np.log(above[..., 0]))
    return np.stack(found, axis=-1)

r"""People weighted by their chance of treatment: the equations of a model and of the propensity model, stacked.

What is here is the same for regressions (`hdpstats.families.regression.weighted`, which says why) and for hazards
(`hdpstats.families.hazard.weighted`). With ``u`` the score of a person who is not weighted, ``w`` the weight, ``x`` the
row of the propensity model, ``a`` the treatment and ``e`` its chance, a person's score is in all

.. math:: \phi = w u + B A^{-1} x (a - e), \qquad B = E[e (1 - e) \{(1 - e) \mu_0 - e \mu_1\} x'],
          \qquad A = E[e (1 - e) x x'],

with :math:`\mu_a = E[u | x, a]`. Treated people weigh ``1 - e`` and untreated ones ``e``, so that with
:math:`M_a = E[u u' | x, a]`, :math:`G = B A^{-1} x` and :math:`w_a` the weight in an arm

.. math:: E[\phi \phi'] = E\Big[e (1 - e) \Big\{\sum_a w_a M_a \pm q \sum_a w_a (\mu_a G' + G \mu_a')
          + q G G'\Big\}\Big],

plus for the treated and minus for the untreated; ``q`` is the share of the propensity model's people who take part.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self, cast, final

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.inference.overlap_errors import WeightedPeople
from hdpstats.public.moments import Moments, PublicSide, averaged
from hdpstats.records.averages import CohortMoments


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExpectedScores:
    """What is expected of the unweighted scores of people (m,) in either arm, untreated first.

    Attributes
    ----------
    mean : (2, m, D) float64
        Their means.
    square : (2, m, D (D + 1) / 2) float64
        The upper triangles, row by row, of the means of their squares.
    curvature : (2, m, D (D + 1) / 2) float64
        Those of the means of their derivatives.
    """

    mean: FloatArray
    square: FloatArray
    curvature: FloatArray


class OverlapSide(PublicSide, ABC):
    """Public people who stand for weighted private ones, each in both arms: see the module's docstring.

    Attributes
    ----------
    standing : WeightedPeople
        The people (m,) with their rows of the propensity model and how much each stands for.
    noise : (p, p) float64
        The covariance of the noise in the propensity's coefficients.
    rows : int
        The public rows with an outcome, on which expectations of scores rest.
    share : float
        ``q``: the people of the model over those of the propensity model.
    """

    standing: WeightedPeople
    noise: FloatArray
    rows: int
    share: float

    @abstractmethod
    def expected(self, theta: FloatArray) -> ExpectedScores:
        """Return what is expected of scores at ``theta``, where that of all weighted people is 0."""

    @property
    def weak(self) -> float:
        """Information that is added in every direction, however many people there are."""
        return 0.0

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.standing.X)

    @property
    def seen(self) -> int:
        """The public rows with an outcome."""
        return self.rows

    @property
    def seen_rows(self) -> int:
        """The same."""
        return self.rows

    @property
    def case_weights(self) -> FloatArray:
        """What a person weighs in expectation."""
        e = self.standing.propensity
        return np.asarray(2.0 * e * (1.0 - e))

    def sharing(self, share: float) -> Self:
        """Return the same people, of whom the propensity model has more than take part."""
        changed: Any = self
        return cast(Self, replace(changed, share=share))

    def followed_as(self, known: CohortMoments | None) -> Self:  # noqa: ARG002
        """Return the same people, followed as is known of the private ones; of regressions nobody is followed."""
        return self

    def coupled(self, scores: ExpectedScores) -> FloatArray:
        """Return ``B`` (D, p)."""
        people, e, mean = self.standing, self.standing.propensity, scores.mean
        base = (people.weights * e * (1.0 - e))[:, None]
        e = e[:, None]
        return np.asarray((base * ((1.0 - e) * mean[0] - e * mean[1])).T @ people.X)

    def of_propensity(self, theta: FloatArray) -> FloatArray:
        """Return the covariance (D, D) that the noise of the propensity's coefficients adds to an estimate."""
        B, H = self.coupled(self.expected(theta)), self._averages(theta, self.standing.weights[None]).H[0]
        moved = np.linalg.solve(H, B)
        return np.asarray(moved @ self.noise @ moved.T)

    def moments(self, theta: FloatArray, *, records: float, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        share = self.standing.weights[None] if row_weights is None else row_weights * self.standing.weights
        found = self._averages(theta, share / share.sum(axis=1, keepdims=True))
        H = records * found.H + self.weak * np.eye(self.dimension)
        return Moments(H=H[0], J=records * found.J[0]) if row_weights is None else Moments(H=H, J=records * found.J)

    def _averages(self, theta: FloatArray, weights: FloatArray) -> Moments:
        """Return the moments (B, D, D) of one person, under weightings (B, m) of the people."""
        people, e, scores = self.standing, self.standing.propensity, self.expected(theta)
        G = people.X @ (self.coupled(scores) @ np.linalg.pinv(people.hessian)).T  # (m, D)
        overlap = (e * (1.0 - e))[:, None]
        i, j = np.triu_indices(self.dimension)
        H: FloatArray = np.zeros((len(e), len(i)))
        J = self.share * overlap * G[:, i] * G[:, j]
        for arm, mean in enumerate(scores.mean):
            weight = overlap * (1.0 - e if arm else e)[:, None]  # of a person in this arm
            H += overlap * scores.curvature[arm]
            J += weight * scores.square[arm]
            both = self.share * weight * (1.0 if arm else -1.0)
            J += both * (mean[:, i] * G[:, j] + G[:, i] * mean[:, j])
        return averaged((H, J), records=1.0, row_weights=weights, levelled=())


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TreatedRows:
    """Rows to which a propensity model was fitted, and which of them have an outcome.

    Attributes
    ----------
    X : (N, p) float64
        All rows of the propensity model.
    treated : (N,) float64
        Who was treated.
    coefficients : (p,) float64
        The maximum-likelihood propensity of these rows.
    lacking : (N,) bool
        Which of them have no outcome.
    """

    X: FloatArray
    treated: FloatArray
    coefficients: FloatArray
    lacking: BoolArray

    @property
    def propensity(self) -> FloatArray:
        """The chance of treatment of each row (N,)."""
        return np.asarray(expit(self.X @ self.coefficients))

    @property
    def weights(self) -> FloatArray:
        """The weights of the rows with an outcome."""
        e = self.propensity
        return np.asarray(np.where(self.treated == 1.0, 1.0 - e, e)[~self.lacking])

    def sandwich(self, scores: FloatArray, bread: FloatArray) -> FloatArray:
        """Return the covariance (D, D) of the influences :math:`w u + B A^{-1} x (a - e)` of all rows.

        It has no correction for few rows, as geepack and the survey package have it for weights that are known.

        Parameters
        ----------
        scores : (n, D) float64
            Unweighted scores of the rows with an outcome.
        bread : (D, D) float64
            The weighted sum of their derivatives.
        """
        e, there = self.propensity, ~self.lacking
        overlap = e * (1.0 - e)
        slopes = np.where(self.treated == 1.0, -overlap, overlap)[there]  # of the weights, times x
        B = (scores.T * slopes) @ self.X[there]
        information = (self.X.T * overlap) @ self.X
        influences = (self.X * (self.treated - e)[:, None]) @ np.linalg.solve(information, B.T)
        influences[there] += self.weights[:, None] * scores
        inverse = np.linalg.inv(bread)
        return np.asarray(inverse @ (influences.T @ influences) @ inverse)


def spread_covariance(covariance: FloatArray, known: BoolArray) -> FloatArray:
    """Return the covariance of coefficients (p,), NaN where they are not ``known``."""
    whole = np.full((len(known), len(known)), np.nan)
    whole[np.ix_(known, known)] = covariance
    return whole

r"""Weights of public rows corrected so that they have the averages of a description.

Weights from a density ratio or from counts err by their own noise, by a ridge, and by what
their model leaves out, such as values between points. Described shares, means and squares correct them: of all weights
with nearly these averages the nearest ones in Kullback-Leibler divergence are taken (`hdpstats.raking.tilting`),

.. math:: w_i \propto b_i \exp(a'f_i), \qquad
    a = \arg\min \log \sum_i b_i e^{a'f_i} - a't + \tfrac12 \sum_j \lambda_j a_j^2,

``b`` the weights before, ``f`` what was described of a row in standard deviations of the public rows, ``t`` the
described averages (Deville and Särndal 1992). The ridge, the variance of the noise in ``t``, is weak: errors of the
weights before that are no noise are not known, so that an average is mostly believed. It gives weights where no weights
of public rows have these averages, as they lie beyond all rows; `WeightedSample.balance` shows what is left.

To first order a calibrated sum of residuals ``r`` is that of :math:`r - f B` under ``b`` plus ``B't``, with
:math:`B = (\Sigma + \Lambda)^{-1} \Sigma_{fr}`, both covariances under the weights: the regression estimator of survey
sampling. So the noise of the weights before counts for what averages do not explain, and noise and sampling of the
averages for the rest. Post-processing of what was released.

References
----------
J.-C. Deville, C.-E. Särndal (1992), Calibration estimators in survey sampling.
"""

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.inference.draws import generator, normal
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.raking.tilting import tilted_weights, tilts
from hdpstats.records.codec import Record

STEPS = 30
"""Newton steps of a tilt at most."""

WEAK = 1e-4
"""The least ridge, where averages have no noise."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CalibratedWeights(WeightDistribution, Record):
    """Weights calibrated to averages.

    Attributes
    ----------
    base : WeightDistribution
        The weights before; negative ones count as 0.
    features : (n, k) float64
        What averages are of, in public standard deviations.
    targets, noise_sd : (k,) float64
        The averages in that unit, and the standard deviations of the noise in them.
    people : float
        How many private people they are of.
    seed : str
        The SHA-256 of their release.
    """

    kind: ClassVar[str] = "calibrated"
    base: WeightDistribution
    features: FloatArray
    targets: FloatArray
    noise_sd: FloatArray
    people: float
    seed: str
    _weights: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the shapes, and calibrate once."""
        n, k = self.features.shape
        if self.base.weights.shape != (n,) or self.targets.shape != (k,) or self.noise_sd.shape != (k,):
            raise ArgumentError("features must have a row per weight and a column per average", argument="features")
        object.__setattr__(self, "_weights", self._calibrated(self.base.weights[None], self.targets[None])[0])

    @property
    def weights(self) -> FloatArray:
        """The calibrated weights (n,), of the same sum as before."""
        return self._weights

    @property
    def linear(self) -> bool:
        """The covariance holds to first order where that of the weights before does."""
        return self.base.linear

    def covariance(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance (k, k) of weighted sums of residuals due to sampling, and due to privacy noise."""
        total = float(np.sum(self._weights))
        centred, spread, slope = self._regression(residuals)
        sampling, privacy = self.base.covariance(residuals - centred @ slope)
        own, noise = slope.T @ spread @ slope / self.people, (slope.T * self.noise_sd**2) @ slope
        return sampling + total**2 * own, privacy + total**2 * noise

    def draws(self, number: int) -> FloatArray:
        """Return weights (number, n) as the weights before and the averages might have given them."""
        rng, base = generator(self.seed, "calibrated"), self.base.draws(number)
        _, spread, _ = self._regression(np.zeros((len(self._weights), 1)))
        targets = self.targets + normal(rng, spread / self.people + np.diag(self.noise_sd**2), number)
        return self._calibrated(base, targets)

    def _regression(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return centred features, their covariance and the slopes of residuals on them, under the weights."""
        share = self._weights / np.sum(self._weights)
        centred = self.features - share @ self.features
        spread = centred.T @ (share[:, None] * centred)
        slope = np.linalg.solve(spread + np.diag(self._ridge()), centred.T @ (share[:, None] * residuals))
        return centred, np.asarray(spread), np.asarray(slope)

    def _ridge(self) -> FloatArray:
        return np.maximum(self.noise_sd**2, WEAK)

    def _calibrated(self, base: FloatArray, targets: FloatArray) -> FloatArray:
        """Return weights (B, n), the nearest to others (B, n) whose averages are nearly the targets (B, k)."""
        positive = np.maximum(base, 0.0)
        total = np.sum(positive, axis=1, keepdims=True)
        start, ridge = np.zeros(len(self.noise_sd)), self._ridge()
        tilt = tilts(self.features, positive / total, targets, start=start, steps=STEPS, penalty=ridge)
        return np.asarray(total * tilted_weights(self.features, positive, tilt))

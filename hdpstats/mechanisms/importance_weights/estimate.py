r"""Weights from a released density ratio, and the distribution of their errors.

With released coefficients ``b`` a public row ``x`` has the weight :math:`n_D p`, :math:`p_i = e^{b'x_i} / \sum_j
e^{b'x_j}`. Mallows weights of the fit do not enter: they cancel in the ratio.

**How a weighted sum depends on the coefficients.** With :math:`\bar x = \sum p_i x_i`,

.. math:: \frac{\partial}{\partial b} \sum_i p_i r_i = \sum_i p_i (x_i - \bar x)\, r_i = \mathrm{Cov}_p(x, r) =: a.

Ji and Elkan (2013, theorem 2) have twice this; their double sum counts each pair of rows twice.

**Errors, to first order.** ``b`` solves :math:`-\overline{(1 - \sigma) w x}_D + \overline{\sigma w x}_E + \lambda b +
c / n_D = 0` with :math:`\sigma = 1 / (1 + e^{-b'x})`, Mallows weights ``w`` and the noise ``c``. With the Hessian
:math:`M = F + \lambda I` (private rows estimated by weighted public ones),

* a public row moves :math:`\sum p r` by itself and through ``b``, by :math:`\psi_i = p_i (r_i - \bar r) - a'M^{-1}
  (s_i - \bar s) / n_E` with :math:`s = \sigma w x`: together :math:`\sum_i \psi_i \psi_i'`. Where the model is
  saturated the two parts cancel;
* private rows move ``b``: :math:`a' M^{-1} V_D M^{-1} a / n_D`, ``V_D`` the covariance of :math:`(1 - \sigma) w x`
  under the weights;
* the noise has :math:`a' M^{-1} \mathrm{Cov}(c) M^{-1} a / n_D^2`, or :math:`a' \mathrm{Cov}(v) a` for noise ``v`` on
  the minimiser.

All are multiplied by :math:`n_D^2` for sums of the published weights.

**The ridge.** It takes about :math:`\lambda M^{-1} \beta` from the coefficients. That is no random error, but its size
is estimated by ``b`` in the place of ``beta``, and the square of its effect, :math:`q (\lambda a' M^{-1} b)^2`, is
counted with the sampling error, so that intervals are as much wider as the ridge may have moved them; ``q`` is the
share of the variance of log weights over public rows that is not to be expected from noise. What a log-linear ratio
cannot say is not counted.

Draws repeat the way with these distributions in ``b``, the exact exponential in the weights, and public rows by a
Bayesian bootstrap (Rubin 1981).

References
----------
Z. Ji, C. Elkan (2013), Differential privacy based on importance weighting.
J. Qin (1998), Inferences for case-control and semiparametric two-sample density ratio models.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, final

import numpy as np
from scipy.special import expit, logsumexp

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.inference.draws import Generator, dirichlet, generator, normal, perturbation
from hdpstats.inference.weighted_moments import WeightDistribution
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.records.codec import Record, WrittenBy

BATCH = 2**24
"""Numbers drawn at a time."""


def _distinct(array: FloatArray) -> dict[str, Any]:
    """Return an array as JSON values in which rows that are equal are written once."""
    distinct, place = np.unique(array, axis=0, return_inverse=True)
    return {"distinct": distinct.tolist(), "row": np.ravel(place).tolist()}


def _repeated(entries: dict[str, Any]) -> FloatArray:
    """Read what `_distinct` wrote."""
    distinct = np.array(entries["distinct"], dtype=np.float64)
    return np.ascontiguousarray(distinct[np.array(entries["row"], dtype=np.int64)])


Rows = Annotated[FloatArray, WrittenBy(_distinct, _repeated)]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DensityRatioWeights(WeightDistribution, Record):
    """A released log density ratio at public rows.

    Attributes
    ----------
    coefficients : (D,) float64
        ``b``.
    rows : (n, D) float64
        The coded public rows.
    mallows : (n,) float64
        Their weights in the fit.
    ridge : float
        ``lambda``, per private person.
    noise : NoiseDistribution or NormalDistribution
        Of ``c``, or of ``v``.
    on_minimiser : bool
        Whether the noise was added to the minimiser; else to the objective.
    records : int
        ``n_D``.
    seed : str
        The SHA-256 of the release.
    """

    kind: ClassVar[str] = "density ratio"
    coefficients: FloatArray
    rows: Rows
    mallows: Rows
    ridge: float
    noise: NoiseDistribution | NormalDistribution
    on_minimiser: bool
    records: int
    seed: str
    _shares: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the shapes, and compute the shares of the rows once."""
        n, D = self.rows.shape
        if not n or self.coefficients.shape != (D,) or self.mallows.shape != (n,) or self.noise.dimension != D:
            raise ArgumentError("rows must have a column per coefficient and a Mallows weight each", argument="rows")
        object.__setattr__(self, "_shares", _softmax((self.rows @ self.coefficients)[None, :])[0])

    @property
    def weights(self) -> FloatArray:
        """The weight of each public row (n,); their sum is the number of private records."""
        return self.records * self._shares

    @property
    def linear(self) -> bool:
        """The covariance holds to first order in the coefficients."""
        return True

    def covariance(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance (k, k) of weighted sums of residuals (n, k): of sampling, and of the noise."""
        p, X = self._shares, self.rows
        inverse, private, scores = self._parts()
        direct = p[:, None] * (residuals - p @ residuals)
        slope = inverse @ (X - p @ X).T @ direct
        rows = direct - scores @ slope / len(X)
        shrunk = self.ridge * self.coefficients @ slope
        sampling = rows.T @ rows + slope.T @ private @ slope / self.records
        sampling += self._signal(inverse) * np.outer(shrunk, shrunk)
        square = float(self.records) ** 2
        if self.on_minimiser:
            steep = (X - p @ X).T @ direct
            return square * sampling, np.asarray(square * (steep.T * self.noise.variance) @ steep)
        return square * sampling, np.asarray((slope.T * self.noise.variance) @ slope)

    def _signal(self, inverse: FloatArray) -> float:
        """Return the share of the variance of log weights over public rows that noise does not explain."""
        spread = np.cov(self.rows, rowvar=False, bias=True).reshape(inverse.shape)
        whole = float(self.coefficients @ spread @ self.coefficients)
        scale = np.eye(len(inverse)) if self.on_minimiser else inverse / self.records
        noise = float(np.sum(self.noise.variance * np.diag(scale @ spread @ scale)))
        return max(0.0, 1.0 - noise / whole) if whole > 0 else 0.0

    def draws(self, number: int) -> FloatArray:
        """Return weights (number, n) drawn from the whole pipeline, from a generator that the release seeds."""
        rng = generator(self.seed)
        size = max(1, BATCH // len(self.rows))
        batches = [self._draw(rng, min(size, number - start)) for start in range(0, number, size)]
        return np.concatenate(batches) if batches else np.empty((0, len(self.rows)))

    def _draw(self, rng: Generator, number: int) -> FloatArray:
        inverse, private, scores = self._parts()
        shares = dirichlet(rng, len(self.rows), number)
        moved = normal(rng, private / self.records, number) - shares @ scores
        noise = perturbation(rng, self.noise, count=number)
        step = moved @ inverse + (noise if self.on_minimiser else noise @ inverse / self.records)
        return self.records * _softmax(np.log(np.maximum(shares, 1e-300)) + (self.coefficients + step) @ self.rows.T)

    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``M^-1``, ``V_D`` (D, D) and the centred scores of the public rows (n, D)."""
        p, X, n = self._shares, self.rows, len(self.rows)
        sigma = expit(X @ self.coefficients)
        F = X.T @ (((p + 1.0 / n) * self.mallows * sigma * (1.0 - sigma))[:, None] * X)
        inverse = np.linalg.inv(F + self.ridge * np.eye(X.shape[1]))
        own = ((1.0 - sigma) * self.mallows)[:, None] * X
        private = own - p @ own
        scores = (sigma * self.mallows)[:, None] * X
        return np.asarray(inverse), np.asarray(private.T @ (p[:, None] * private)), scores - scores.mean(axis=0)


def _softmax(logs: FloatArray) -> FloatArray:
    """Return shares (B, n) that sum to 1 from logarithms (B, n)."""
    return np.asarray(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))

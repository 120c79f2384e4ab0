r"""Errors of hazards by arm under overlap weights: stacked estimating equations of every interval and cause.

As in `hdpstats.inference.overlap_errors`, a treated person weighs :math:`1 - \hat e(x)` and an untreated one
:math:`\hat e(x)`, at noisy coefficients of a propensity model. In the arm ``a`` and the interval ``j`` the hazard of
cause ``k`` is :math:`\hat h_{jk} = D_{jk} / Y^*_j`, of sums of weights. With
:math:`q_{ijk} = dN_{ijk} - h_{jk} Y_{ij}` its error is to first order

.. math:: \sum_i w_i q_{ijk} / Y^*_j + g_{jk}(\hat\alpha - \alpha_0) + \text{noise of the counts}:

sampling; what wrong coefficients do to the expectation of the estimate and to the target, which is not linearised; and
noise, which `hdpstats.inference.life_tables` counts.

**Averages** are over people who stand for the private ones, with the chance of treatment of the private model. A person
of the arm ``a`` with the covariates ``x`` who is at risk has the events of the interval with the chances
:math:`\lambda_{jk}(x) = h_{jk} e^{x'b_k} / E_j[e^{x'b_k}]`, the mean over the weighted people then at risk, so that
the weighted hazards are those released; and is at risk with :math:`S_j(x) = \prod_{i < j} (1 - \sum_k
\lambda_{ik}(x))` times a chance of no censoring that is the same for all of the arm. ``b`` is from public people
(`hazard_slopes`). With :math:`R_j = E[e (1 - e) S_j]`, :math:`c` the chance of the arm and ``w`` the weight there,

.. math::

    \operatorname{cov}(\hat h_{jk}, \hat h_{jl}) &= E[c w^2 S_j (\lambda_{jk} [k = l] - \lambda_{jk} h_{jl} - h_{jk}
    \lambda_{jl} + h_{jk} h_{jl})] / (R_j Y^*_j), \\
    \operatorname{cov}(\hat h_{ik}, \hat h_{jl}) &= - h_{ik} E[c w^2 S_j (\lambda_{jl} - h_{jl})] / (R_j Y^*_i),
    \qquad i < j,

as who is at risk in ``j`` had no event in ``i``. Without covariates this is Greenwood's variance with squared weights.
The propensity's sampling error is correlated with it by :math:`E[x (a - e) w q_{jk}] / R_j`; between arms there is
nothing else in common. Draws of the propensity's whole error are given, and the covariance is that over them.

Where censoring depends on covariates within an arm, weighted curves are those of nobody in particular, here as in
ordinary software.

References
----------
F. Li, K. L. Morgan, A. M. Zaslavsky (2018), Balancing covariates via propensity score weighting, JASA 113, 390-400.
J. Xie, C. Liu (2005), Adjusted Kaplan-Meier estimator and log-rank test with inverse probability of treatment
weighting for survival data, Statistics in Medicine 24, 3089-3110. H. Mao, L. Li, W. Yang, Y. Shen (2018), On the
propensity score weighting analysis with survival outcome, Statistics in Medicine 37, 3745-3763.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.inference import draws
from hdpstats.inference.life_tables import HazardErrors, LifeTable
from hdpstats.inference.overlap_errors import PIECE, RIDGE, PropensityErrors, WeightedPeople

MOST_CHANCE: Final = 0.95
"""No chance of an event in one interval is taken above it."""

STEPS: Final = 50
FARTHEST: Final = 8.0
"""No logarithm of a hazard is farther than that from the mean of public people."""


def hazard_slopes(
    X: FloatArray, treated: FloatArray, time: FloatArray, cause: IntArray, *, causes: int, cuts: FloatArray
) -> FloatArray:
    """Return how the logarithm of each cause's hazard depends on covariates among public rows (K, p).

    Cox's likelihood, grouped by intervals in which hazards are constant, in treatment and covariates, with a weak
    ridge. Columns that do not vary have the slope 0, and so have all columns of a cause without events; events in an
    interval in which nobody spends time (at 0 alone) do not count.

    Parameters
    ----------
    X, treated
        Design rows (n, p), which may have an intercept, and who was treated (n,).
    time, cause
        When follow-up ended, and by which cause (n,): 0 for none.
    causes, cuts
        The number of causes, and 0 with the ends of the intervals (J + 1,).
    """
    varies = np.ptp(X, axis=0) > 0.0
    Z = np.column_stack([treated - treated.mean(), X[:, varies] - X[:, varies].mean(axis=0)])
    scale = np.where(Z.std(axis=0) > 0.0, Z.std(axis=0), 1.0)
    Z = Z / scale
    spent = np.clip(np.minimum(time[:, None], cuts[1:]) - cuts[:-1], 0.0, None)
    place = np.searchsorted(cuts[1:], time, side="left")
    counted = np.append(spent.sum(axis=0) > 0.0, False)[place]  # of an interval that nobody spends time in: no hazard
    found = np.zeros((causes, X.shape[1]))
    for k in range(causes):
        failed = (cause == k + 1) & counted
        if failed.any():
            d = np.bincount(place[failed], minlength=len(cuts) - 1).astype(np.float64)
            beta = _maximum(Z, failed, d, spent, ridge=RIDGE * len(X))
            found[k, varies] = (beta / scale)[1:]
    return found


def _maximum(Z: FloatArray, failed: BoolArray, d: FloatArray, spent: FloatArray, *, ridge: float) -> FloatArray:
    """Return the maximum of the penalised likelihood, by Newton's method with steps of at most 1."""
    beta, own = np.zeros(Z.shape[1]), Z[failed].sum(axis=0)
    some = d > 0.0
    d, spent = d[some], spent[:, some]
    for _ in range(STEPS):
        relative = np.exp(np.clip(Z @ beta, -FARTHEST, FARTHEST))
        total = relative @ spent  # (J,)
        means = (spent.T * relative) @ Z / total[:, None]
        shared = relative * (spent @ (d / total))
        score = own - d @ means - ridge * beta
        information = (Z.T * shared) @ Z - (means.T * d) @ means + ridge * np.eye(len(beta))
        step = np.linalg.lstsq(information, score, rcond=None)[0]
        size = float(np.abs(step).max())
        beta = beta + step * min(1.0, 1.0 / max(size, 1e-300))
        if size < 1e-10:
            break
    return beta


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ArmHazards:
    """People of one arm through the intervals: who is at risk, and what may happen to them.

    Attributes
    ----------
    hazards : (J, K) float64
        Those of the weighted people.
    exposed : (J,) float64
        The weight of people exposed.
    at_risk : (J, m) float64
        The chance of no event before each interval.
    chances : (J, K, m) float64
        The chance of an event in it of people at risk.
    """

    hazards: FloatArray
    exposed: FloatArray
    at_risk: FloatArray
    chances: FloatArray

    @classmethod
    def of(cls, people: WeightedPeople, slopes: FloatArray, hazards: FloatArray, exposed: FloatArray) -> "ArmHazards":
        """Return people whose weighted hazards (J, K) are given; ``slopes`` (K, p) are those of public people."""
        eta = people.X @ slopes.T
        relative = np.exp(np.clip(eta - people.weights @ eta, -FARTHEST, FARTHEST)).T  # (K, m)
        e = people.propensity
        base = people.weights * e * (1.0 - e)
        survival, at_risk, chances = np.ones(len(e)), [], []
        for h in hazards:
            own = base * survival
            chance = h[:, None] * relative / (relative @ own / own.sum())[:, None]
            chance = chance * np.minimum(1.0, MOST_CHANCE / np.maximum(chance.sum(axis=0), 1e-300))
            at_risk.append(survival)
            chances.append(chance)
            survival = survival * (1.0 - chance.sum(axis=0))
        return cls(hazards=hazards, exposed=exposed, at_risk=np.array(at_risk), chances=np.array(chances))

    def equations(self, people: WeightedPeople, arm: int) -> tuple[FloatArray, FloatArray]:
        """Return the sampling covariance (J K, J K) of hazards at known weights, and ``E[x (a - e) w q] / R``."""
        J, K = self.hazards.shape
        e, h, x = people.propensity, self.hazards, self.chances
        chance, weight, score = (e, 1.0 - e, 1.0 - e) if arm else (1.0 - e, e, -e)
        known = self.at_risk @ (people.weights * e * (1.0 - e))  # R (J,)
        squares = people.weights * chance * weight**2 * self.at_risk / known[:, None]  # (J, m)
        mean = np.einsum("jm,jkm->jk", squares, x)
        size = squares.sum(axis=1)
        within = np.einsum("jk,kl->jkl", mean, np.eye(K))
        within += np.einsum("j,jk,jl->jkl", size, h, h)
        within -= np.einsum("jk,jl->jkl", mean, h) + np.einsum("jk,jl->jkl", h, mean)
        apart = mean - size[:, None] * h  # (J, K)
        between = -np.einsum("ik,jl->ikjl", h / self.exposed[:, None], apart)
        early = np.arange(J)[:, None] < np.arange(J)
        upper = np.where(early[:, None, :, None], between, 0.0)
        whole = upper + upper.transpose(2, 3, 0, 1)
        at = np.arange(J)
        whole[at, :, at, :] = within / self.exposed[:, None, None]
        lines = people.weights * score * chance * weight * self.at_risk / known[:, None]  # (J, m)
        crossed = np.einsum("jm,jkm->jkm", lines, x) - np.einsum("jm,jk->jkm", lines, h)
        return whole.reshape(J * K, J * K), (crossed @ people.X).reshape(J * K, -1)

    def displaced(self, people: WeightedPeople, errors: FloatArray, arm: int) -> FloatArray:
        """Return what errors (B, p) of the propensity's coefficients do to the hazards (B, J K)."""
        J, K = self.hazards.shape
        own, found = people.propensity, np.empty((len(errors), J * K))
        events = (self.at_risk[:, None, :] * self.chances).reshape(J * K, -1)

        def hazards(weights: FloatArray) -> FloatArray:
            present = np.repeat(self.at_risk @ weights, K, axis=0)
            return np.asarray(events @ weights / present)

        for start in range(0, len(errors), PIECE):
            rows = slice(start, start + PIECE)
            true = expit(people.X @ (people.coefficients[:, None] - errors[rows].T))  # (m, B)
            weighted = true * (1.0 - own[:, None]) if arm else (1.0 - true) * own[:, None]
            w = people.weights[:, None]
            found[rows] = (hazards(w * weighted) - hazards(w * true * (1.0 - true))).T
        return found


def _covariance(matrix: FloatArray) -> FloatArray:
    """Return the nearest covariance to a symmetric matrix.

    What sampling leaves once the coefficients are known is one but for how it is computed: weights are those released,
    with noise, and chances those of stand-ins, so that few people of an arm may give variances below 0.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def hazard_errors(
    tables: Sequence[LifeTable], people: WeightedPeople, slopes: FloatArray, errors: PropensityErrors, *, seed: str
) -> HazardErrors:
    """Return the errors of the hazards of both arms, the untreated first, at their tables.

    Parameters
    ----------
    tables
        Weights by interval of each arm, noisy or expected.
    people
        Who stand for the private people.
    slopes
        `hazard_slopes` of public rows.
    errors
        Of the propensity's coefficients.
    seed
        The hash that draws follow from.
    """
    arms = [ArmHazards.of(people, slopes, table.rates, table.exposed) for table in tables]
    size = arms[0].hazards.size
    own, crossed = np.zeros((2 * size, 2 * size)), np.zeros((2 * size, people.X.shape[1]))
    for arm, each in enumerate(arms):
        rows = slice(arm * size, (arm + 1) * size)
        own[rows, rows], crossed[rows] = each.equations(people, arm)
    crossed = crossed @ errors.sampling
    rng = draws.generator(seed)

    def whole(drawn: FloatArray, covariance: FloatArray) -> FloatArray:
        slope = crossed @ np.linalg.pinv(covariance)
        moved = drawn @ slope.T + np.hstack([each.displaced(people, drawn, arm) for arm, each in enumerate(arms)])
        return np.asarray(_covariance(own - slope @ crossed.T) + np.cov(moved, rowvar=False))

    sampled = draws.normal(rng, errors.sampling, len(errors.draws))
    return HazardErrors(
        whole=whole(errors.draws, errors.sampling + errors.privacy), sampling=whole(sampled, errors.sampling)
    )

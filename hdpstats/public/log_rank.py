r"""The log-rank test of public rows: exact, as R's ``survdiff`` has it; and the record of any such test.

At the time :math:`t_j` of a stratum there are :math:`d_j` events among :math:`n_j` at risk, in the group ``g``
:math:`d_{gj}` among :math:`n_{gj}`. With weights :math:`w_j`,
:math:`U_g = \sum_j w_j (d_{gj} - d_j n_{gj} / n_j)` has under equal hazards the variance

.. math::

    V_{gh} = \sum_j w_j^2 d_j \frac{n_j - d_j}{n_j - 1} \frac{n_{gj}}{n_j} \Bigl([g = h] - \frac{n_{hj}}{n_j}\Bigr).

The weights are 1, or for Peto and Peto's test the survival of all groups together just before :math:`t_j`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy.special import chdtrc

from hdpstats._base.typing import FloatArray
from hdpstats.public.risk_sets import RiskSets, ratio

STEPS: Final = 50
LARGEST: Final = 8.0
"""No log hazard ratio is looked for beyond it."""
CLOSE: Final = 1e-9


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LogRank:
    """A log-rank test.

    Attributes
    ----------
    statistic : float
        The chi-square statistic.
    df : int
        Its degrees of freedom.
    p_value : float
        The probability of a larger one under equal hazards.
    observed, expected : (G,) float64
        Observed and expected events, weighted.
    sampling, noise : (G, G) float64
        Variances of their difference.
    """

    statistic: float
    df: int
    p_value: float
    observed: FloatArray
    expected: FloatArray
    sampling: FloatArray
    noise: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Score:
    """Observed and expected events, variances of their difference, and the information about log hazard ratios."""

    observed: FloatArray
    expected: FloatArray
    sampling: FloatArray
    noise: FloatArray
    information: FloatArray

    @property
    def total(self) -> FloatArray:
        """Observed less expected."""
        return self.observed - self.expected

    @property
    def variance(self) -> FloatArray:
        """The variance of that."""
        return self.sampling + self.noise

    def scaled(self, weight: float) -> "Score":
        """Return the score of people who each stand for so many."""
        return Score(
            observed=self.observed * weight,
            expected=self.expected * weight,
            sampling=self.sampling * weight**2,
            noise=self.noise * weight**2,
            information=self.information * weight**2,
        )

    def test(self) -> LogRank:
        """Return the test that all hazards are equal; the last group follows from the others."""
        df = len(self.total) - 1
        inverse = np.linalg.pinv(self.variance[:-1, :-1], hermitian=True)
        statistic = float(self.total[:-1] @ inverse @ self.total[:-1])
        return LogRank(
            statistic=statistic,
            df=df,
            p_value=float(chdtrc(df, max(statistic, 0.0))),
            observed=self.observed,
            expected=self.expected,
            sampling=self.sampling,
            noise=self.noise,
        )


def log_hazard_ratios(score: Callable[[FloatArray], Score], groups: int) -> tuple[FloatArray, FloatArray]:
    """Return where a score is 0: log hazard ratios against the first group, and their covariance; NaN where it is not.

    Parameters
    ----------
    score : callable
        Returns the score of log hazard ratios (G,), of which the first one is 0.
    groups : int
        The number of groups G.
    """
    beta, unknown = np.zeros(groups), (np.full(groups - 1, np.nan), np.full((groups - 1, groups - 1), np.nan))
    for _ in range(STEPS):
        found = score(beta)
        information = found.information[1:, 1:]
        if not np.linalg.eigvalsh(information)[0] > CLOSE:
            return unknown
        step = np.linalg.solve(information, found.total[1:])
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), CLOSE))
        if float(np.abs(step).max()) < CLOSE:
            inverse = np.linalg.inv(information)
            return beta[1:], inverse @ found.variance[1:, 1:] @ inverse
        beta[1:] += step
        if not np.abs(beta).max() < LARGEST:
            return unknown
    return unknown


def exact_score(strata: Sequence[Sequence[RiskSets]], *, peto: bool = False, beta: FloatArray | None = None) -> Score:
    """Return the score of public rows, of which ``strata`` has the groups of each stratum; ``beta`` (G,) if not 0.

    With ``beta`` its variance is the information, as of Cox's likelihood with Breslow's ties.
    """
    scores = []
    for sets in strata:
        times = np.unique(np.concatenate([each.times[each.events.sum(axis=1) > 0] for each in sets]))
        n = np.array([each.at_risk_at(times) for each in sets])
        before = np.array([each.events_upto(np.nextafter(times, -np.inf)).sum(axis=1) for each in sets])
        d = np.array([each.events_upto(times).sum(axis=1) for each in sets]) - before
        D, N = d.sum(axis=0), n.sum(axis=0)
        relative = n if beta is None else n * np.exp(beta)[:, None]
        scores.append(
            stratum_score(
                d,
                relative / relative.sum(axis=0),
                weight=survival_before(D / N) if peto else np.ones(len(times)),
                total=D,
                left=ratio(N - D, N - 1.0, where=N > 1.0, other=0.0) if beta is None else np.ones(len(times)),
            )
        )
    return added(scores)


def stratum_score(
    events: FloatArray, share: FloatArray, *, weight: FloatArray, total: FloatArray, left: FloatArray
) -> Score:
    """Return the score of one stratum, without noise.

    Parameters
    ----------
    events, share
        Events of each group, and its share of the people at risk (G, J), relative hazards included.
    weight
        ``w`` (J,).
    total, left
        Events of all groups as the variance counts them, and the factor of those who survive beside them (J,).
    """
    spread = spread_between(share)
    sampling = np.einsum("j,jgh->gh", weight**2 * total * left, spread)
    return Score(
        observed=events @ weight,
        expected=share @ (weight * events.sum(axis=0)),
        sampling=sampling,
        noise=np.zeros_like(sampling),
        information=np.einsum("j,jgh->gh", total, spread),
    )


def spread_between(share: FloatArray) -> FloatArray:
    """Return the covariances (J, G, G) of one draw among groups with shares (G, J)."""
    return np.asarray(
        np.einsum("gj,gh->jgh", share, np.eye(len(share))) - np.einsum("gj,hj->jgh", share, share), dtype=np.float64
    )


def survival_before(rate: FloatArray) -> FloatArray:
    """Return the weights (J,) of Peto and Peto's test: survival of all groups together before each time."""
    return np.append(1.0, np.cumprod(1.0 - np.minimum(rate, 1.0))[:-1])


def added(scores: Sequence[Score]) -> Score:
    """Return the score of several strata together."""
    return Score(
        observed=np.sum([each.observed for each in scores], axis=0),
        expected=np.sum([each.expected for each in scores], axis=0),
        sampling=np.sum([each.sampling for each in scores], axis=0),
        noise=np.sum([each.noise for each in scores], axis=0),
        information=np.sum([each.information for each in scores], axis=0),
    )

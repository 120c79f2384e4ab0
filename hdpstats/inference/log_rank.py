r"""The log-rank test, exact of public rows and of noisy tables, where the variance of its score counts the noise.

**Public rows.** The test is that of R's ``survdiff``. At the time :math:`t_j` of a stratum there are :math:`d_j` events
among :math:`n_j` at risk, in the group ``g`` :math:`d_{gj}` among :math:`n_{gj}`. With weights :math:`w_j`,
:math:`U_g = \sum_j w_j (d_{gj} - d_j n_{gj} / n_j)` has under equal hazards the variance

.. math::

    V_{gh} = \sum_j w_j^2 d_j \frac{n_j - d_j}{n_j - 1} \frac{n_{gj}}{n_j} \Bigl([g = h] - \frac{n_{hj}}{n_j}\Bigr).

The weights are 1, or for Peto and Peto's test the survival of all groups together just before :math:`t_j`.

**Noisy tables.** In each stratum the groups ``g`` have events :math:`D_{gj}` in the intervals ``j`` among
:math:`Y_{gj}` people at risk when it begins, of whom the part :math:`p_{gj}` leaves in it, with an event or censored.
The time that these people spend in it, in lengths of the interval, is :math:`T_{gj} = Y_{gj} p_{gj} / (-\log(1 -
p_{gj}))` if they leave at a constant rate. Under equal hazards events are in proportion to that time also where
censoring differs between groups. With :math:`\pi_{gj} = T_{gj} / \sum_h T_{hj}` and weights :math:`w_j`,

.. math:: U_g = \sum_j w_j \Bigl(D_{gj} - \pi_{gj} \sum_h D_{hj}\Bigr),

added over strata. Under equal hazards its variance is :math:`V + W`: with events :math:`\tilde D_j` smoothed over
intervals as hazards are, that of sampling is

.. math:: V_{gh} = \sum_j w_j^2 \tilde D_j (\pi_{gj} [g = h] - \pi_{gj} \pi_{hj}),

that of noise :math:`W = \sigma^2 B B'` with ``B`` the derivative of ``U`` by all cells, in which people who leave in
an interval spend half of it there. The statistic :math:`U' (V + W)^{-1} U` of all groups but one is compared with the
chi-square distribution of their number. The weights are 1, or for Peto and Peto's test the survival of all groups
together when the interval begins; 0 from the first interval on in which too few people are at risk for the noise.

**Weighted people.** Where people are weighted by their chance of treatment, counts are sums of weights and the
hypergeometric and multinomial variances are wrong. To first order :math:`U_g` moves with the hazard of the group ``h``
by :math:`w_j Y^*_{hj} ([g = h] - \pi_{gj})`, so that its variance but for the noise of counts follows from that of the
errors of all hazards (`hdpstats.inference.life_tables.HazardErrors`), which counts the estimation of the weights.

**Hazard ratios** solve :math:`U(\beta) = 0` where :math:`\pi_{gj}` is the share of :math:`e^{\beta_g} T_{gj}` (Cox's
likelihood, grouped). Their covariance is :math:`I^{-1} (V + W) I^{-1}` with the information ``I``, all at the solution.

References
----------
N. Mantel (1966), Evaluation of survival data and two new rank order statistics. R. Peto, J. Peto (1972),
Asymptotically efficient rank invariant test procedures. D. R. Cox (1972), Regression models and life-tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, final

import numpy as np
from scipy.special import chdtrc

from hdpstats._base.typing import FloatArray
from hdpstats.inference.life_tables import LifeTable, clear_of_noise, smoothed_rates
from hdpstats.public.risk_sets import RiskSets, ratio
from hdpstats.public.weighted_curves import ArmSets

STEPS: Final = 50
LARGEST: Final = 8.0
"""No log hazard ratio is looked for beyond it."""
CLOSE: Final = 1e-9


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

    @property
    def df(self) -> int:
        """The degrees of freedom of the test that all hazards are equal; the last group follows from the others."""
        return len(self.total) - 1

    @property
    def statistic(self) -> float:
        """The chi-square statistic of that test."""
        inverse = np.linalg.pinv(self.variance[:-1, :-1], hermitian=True)
        return float(self.total[:-1] @ inverse @ self.total[:-1])

    @property
    def p_value(self) -> float:
        """The probability of a larger statistic under equal hazards."""
        return float(chdtrc(self.df, max(self.statistic, 0.0)))

    def scaled(self, weight: float) -> "Score":
        """Return the score of people who each stand for so many."""
        powers = {"observed": 1, "expected": 1, "sampling": 2, "noise": 2, "information": 2}
        return Score(**{name: getattr(self, name) * weight**power for name, power in powers.items()})


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
        at_estimate = score(beta)
        information = at_estimate.information[1:, 1:]
        if not np.linalg.eigvalsh(information)[0] > CLOSE:
            return unknown
        step = np.linalg.solve(information, at_estimate.total[1:])
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), CLOSE))
        if float(np.abs(step).max()) < CLOSE:
            inverse = np.linalg.inv(information)
            return beta[1:], inverse @ at_estimate.variance[1:, 1:] @ inverse
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
    return Score(**{part.name: np.sum([getattr(each, part.name) for each in scores], axis=0) for part in fields(Score)})


def weighted_score(arms: Sequence[ArmSets], *, peto: bool = False, beta: FloatArray | None = None) -> Score:
    """Return the score of public rows that are weighted by their chance of treatment, with its variance by influences.

    See `hdpstats.public.weighted_curves`; ``beta`` (2,) are log hazard ratios, if not 0.
    """
    times = np.unique(np.concatenate([each.sets.times[each.sets.events.sum(axis=1) > 0] for each in arms]))
    n = np.array([each.sets.at_risk_at(times) for each in arms])
    before = np.array([each.sets.events_upto(np.nextafter(times, -np.inf)).sum(axis=1) for each in arms])
    d = np.array([each.sets.events_upto(times).sum(axis=1) for each in arms]) - before
    D, relative = d.sum(axis=0), n if beta is None else n * np.exp(beta)[:, None]
    share = relative / relative.sum(axis=0)
    weight = survival_before(D / n.sum(axis=0)) if peto else np.ones(len(times))
    plain = stratum_score(d, share, weight=weight, total=D, left=np.ones(len(times)))
    rows, moved = arms[0].rows, []
    passed, place = np.searchsorted(times, rows.time, side="right"), np.searchsorted(times, rows.time)
    happened = rows.cause > 0
    arm_of = rows.treated.astype(np.int64)
    hazard = D / relative.sum(axis=0) * (np.ones((2, 1)) if beta is None else np.exp(beta)[:, None])  # (2, T)
    for group in range(len(arms)):
        c = weight * ((np.arange(2) == group)[:, None] - share[group])
        expected = np.concatenate([np.zeros((2, 1)), np.cumsum(c * hazard, axis=1)], axis=1)
        observed = np.where(happened, c[arm_of, np.minimum(place, len(times) - 1)], 0.0)
        moved.append(rows.moved_by(observed - expected[arm_of, passed]))
    sampling = np.array([[rows.covariance(a, b) for b in moved] for a in moved])
    return replace(plain, sampling=sampling)


Strata = Sequence[Sequence[LifeTable]]
"""For each stratum the tables of the groups, the same groups in the same order."""


def noisy_score(strata: Strata, *, peto: bool = False, beta: FloatArray | None = None) -> Score:
    """Return the score of noisy tables; ``beta`` (G,) are log hazard ratios, if not 0."""
    return added([_of_stratum(tables, peto=peto, beta=beta) for tables in strata])


def _of_stratum(tables: Sequence[LifeTable], *, peto: bool, beta: FloatArray | None) -> Score:
    groups = len(tables)
    events = np.array([each.events.sum(axis=1) for each in tables])
    spent = np.array([each.spent for each in tables])
    all_spent = spent.sum(axis=0)
    sd = float(np.sqrt(sum(table.sd**2 for table in tables)))
    rate = smoothed_rates(events.sum(axis=0)[:, None], all_spent, sd)[:, 0]
    at_risk, errors = (np.array([getattr(each, part)[:-1] for each in tables]) for part in ("at_risk", "at_risk_sd"))
    clear = clear_of_noise(at_risk.sum(axis=0), np.sqrt(np.square(errors).sum(axis=0)))
    weight = clear * (survival_before(-np.expm1(-rate)) if peto else np.ones(len(rate)))
    relative = spent if beta is None else np.exp(beta)[:, None] * spent
    share = relative / relative.sum(axis=0)
    smooth = clear * rate * all_spent
    spread, noise = spread_between(share), np.zeros((groups, groups))
    for group, table in enumerate(tables):
        own = (np.arange(groups) == group)[:, None] - share
        by_spent = -weight * smooth * spread[:, group, :].T / spent[group]
        # of who leaves with an event half of the interval is spent, as of the censored
        by_events = np.repeat(weight * own - by_spent / 2.0, table.events.shape[1], axis=1)
        half = np.full(len(rate), table.within / 2.0)
        L = table.derivative(by_events, by_spent, (half, half))
        noise += table.sd**2 * L @ L.T
    ones = np.ones(len(rate))
    found = replace(stratum_score(events, share, weight=weight, total=smooth, left=ones), noise=noise)
    return found if tables[0].errors is None else _of_weighted(found, tables, share, weight)


def _of_weighted(score: Score, tables: Sequence[LifeTable], share: FloatArray, weight: FloatArray) -> Score:
    """Return a score with the variance of people who are weighted by their chance of treatment."""
    groups, J, K = len(tables), *tables[0].events.shape
    whole, sampling = np.zeros_like(score.sampling), np.zeros_like(score.sampling)
    by_hazards = []
    for group, table in enumerate(tables):
        own = (np.arange(groups) == group)[:, None] - share
        by_hazards.append(np.repeat(weight * table.exposed * own, K, axis=1))
    for first, left in zip(tables, by_hazards, strict=True):
        for second, right in zip(tables, by_hazards, strict=True):
            for noise, total in ((True, whole), (False, sampling)):
                block = first.errors.block(first.group, second.group, J * K, noise=noise) if first.errors else 0.0
                total += left @ block @ right.T
    return replace(score, sampling=sampling, noise=score.noise + whole - sampling)

r"""The log-rank test of noisy tables: a score with the variance of sampling and that of the noise.

In each stratum the groups ``g`` have events :math:`D_{gj}` in the intervals ``j`` among :math:`Y_{gj}` people at risk
when it begins, of whom the part :math:`p_{gj}` leaves in it, with an event or censored. The time that these people
spend in it, in lengths of the interval, is :math:`T_{gj} = Y_{gj} p_{gj} / (-\log(1 - p_{gj}))` if they leave at a
constant rate. Under equal hazards events are in proportion to that time also where censoring differs between groups.
With :math:`\pi_{gj} = T_{gj} / \sum_h T_{hj}` and weights :math:`w_j`,

.. math:: U_g = \sum_j w_j \Bigl(D_{gj} - \pi_{gj} \sum_h D_{hj}\Bigr),

added over strata. Under equal hazards its variance is :math:`V + W`: with events :math:`\tilde D_j` smoothed over
intervals as hazards are, that of sampling is

.. math:: V_{gh} = \sum_j w_j^2 \tilde D_j (\pi_{gj} [g = h] - \pi_{gj} \pi_{hj}),

that of noise :math:`W = \sigma^2 B B'` with ``B`` the derivative of ``U`` by all cells, in which people who leave in
an interval spend half of it there. The statistic :math:`U' (V + W)^{-1} U` of all groups but one is compared with the
chi-square distribution of their number. The weights are 1, or for Peto and Peto's test the survival of all groups
together when the interval begins; 0 from the first interval on in which too few people are at risk for the noise.

**Hazard ratios** solve :math:`U(\beta) = 0` where :math:`\pi_{gj}` is the share of :math:`e^{\beta_g} T_{gj}` (Cox's
likelihood, grouped). Their covariance is :math:`I^{-1} (V + W) I^{-1}` with the information ``I``, all at the solution.

References
----------
N. Mantel (1966), Evaluation of survival data and two new rank order statistics. R. Peto, J. Peto (1972),
Asymptotically efficient rank invariant test procedures. D. R. Cox (1972), Regression models and life-tables.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.life_tables import LifeTable, clear_of_noise, smoothed_rates
from hdpstats.public.risk_sets import Score, added, spread_between, stratum_score, survival_before

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
    return replace(stratum_score(events, share, weight=weight, total=smooth, left=ones), noise=noise)

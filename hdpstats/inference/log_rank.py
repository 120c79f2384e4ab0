r"""The log-rank test of noisy tables: a score with the variance of sampling and that of the noise.

In each stratum the groups ``g`` have exposures :math:`Y^*_{gj}` and events :math:`D_{gj}` in the intervals ``j``
(`hdpstats.inference.life_tables`). With :math:`\pi_{gj} = Y^*_{gj} / \sum_h Y^*_{hj}` and weights :math:`w_j`,

.. math:: U_g = \sum_j w_j \Bigl(D_{gj} - \pi_{gj} \sum_h D_{hj}\Bigr),

added over strata. Under equal hazards its variance is :math:`V + W`: with events :math:`\tilde D_j` smoothed over
intervals, that of sampling is

.. math:: V_{gh} = \sum_j w_j^2 \tilde D_j (1 - \tilde D_j / Y^*_j) (\pi_{gj} [g = h] - \pi_{gj} \pi_{hj}),

that of noise :math:`W = \sigma^2 B B'` with ``B`` the derivative of ``U`` by all cells. The statistic
:math:`U' (V + W)^{-1} U` of all groups but one is compared with the chi-square distribution of their number. The
weights are 1, or for Peto and Peto's test the survival of all groups together when the interval begins.

**Hazard ratios** solve :math:`U(\beta) = 0` where :math:`\pi_{gj}` is the share of
:math:`e^{\beta_g} (Y^*_{gj} - D_{gj} / 2)`, people in the middle of the interval (Cox's likelihood, grouped). Their
covariance is :math:`I^{-1} (V + W) I^{-1}` with the information ``I``, all at the solution.

References
----------
N. Mantel (1966), Evaluation of survival data and two new rank order statistics. R. Peto, J. Peto (1972),
Asymptotically efficient rank invariant test procedures. D. R. Cox (1972), Regression models and life-tables.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.life_tables import LifeTable, moving_average
from hdpstats.public.log_rank import Score, added, spread_between, stratum_score, survival_before

Strata = Sequence[Sequence[LifeTable]]
"""For each stratum the tables of the groups, the same groups in the same order."""


def noisy_score(strata: Strata, *, peto: bool = False, beta: FloatArray | None = None) -> Score:
    """Return the score of noisy tables; ``beta`` (G,) are log hazard ratios, if not 0."""
    return added([_of_stratum(tables, peto=peto, beta=beta) for tables in strata])


def _of_stratum(tables: Sequence[LifeTable], *, peto: bool, beta: FloatArray | None) -> Score:
    groups = len(tables)
    events = np.array([each.events.sum(axis=1) for each in tables])
    exposed = np.array([each.exposed_above(1.0) for each in tables])
    all_exposed = exposed.sum(axis=0)
    rate = moving_average(np.maximum(events.sum(axis=0), 0.0)) / moving_average(all_exposed)
    weight = survival_before(rate) if peto else np.ones(len(rate))
    relative = np.ones((groups, 1)) if beta is None else np.exp(beta)[:, None]
    mid = exposed if beta is None else np.maximum(exposed - moving_average(events.T).T / 2.0, exposed / 2.0)
    share = relative * mid / (relative * mid).sum(axis=0)
    smooth = rate * all_exposed
    left = np.clip(1.0 - rate, 0.05, 1.0) if beta is None else np.ones(len(rate))
    spread, noise = spread_between(share), np.zeros((groups, groups))
    for group, table in enumerate(tables):
        own = (np.arange(groups) == group)[:, None] - share
        by_exposed = -weight * smooth * spread[:, group, :].T / exposed[group]
        L = table.derivative(np.repeat(weight * own, table.events.shape[1], axis=1), by_exposed)
        noise += table.sd**2 * L @ L.T
    return replace(stratum_score(events, share, weight=weight, total=smooth, left=left), noise=noise)

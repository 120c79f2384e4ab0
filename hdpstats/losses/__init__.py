"""Losses, one class each: value, derivatives, constants with proof, inverse link, and what tables call it.

A mechanism uses the constants and nothing else, so every loss works with every mechanism whose conditions it meets.
This module is the registry.

* ``base``: What a loss of a linear predictor, and a link of hazards, must know about itself, and how users name a
  loss.
* ``counts``: Losses of rates with a log link: Poisson counts, and exponential times until an event.
* ``families``: Exponential families: sufficient statistics, mean parameters, maximum likelihood, its bias and its
  information.
* ``hazard_links``: The links of hazards, a class each: hazard, its inverse, likelihood, capped losses, constants with
  proof, words.
* ``located``: Losses of a residual: bounded squares, Huber's, and those of smoothed quantiles.
* ``logistic``: The logistic loss: minus the Bernoulli log-likelihood in the linear predictor; and its residuals.
* ``multinomial``: The multinomial logistic loss of an outcome with several levels, the first of which is the
  reference.
* ``options``: The losses that a user may name, for ``hdpf.linear``, ``hdpf.quantile`` and ``hdpf.mestimate``:
  `hdp.losses`.
* ``own``: Somebody's own loss, as a table of its scores: a site receives numbers, never code.
"""

from collections.abc import Callable

from hdpstats._base.typing import FloatArray
from hdpstats.losses import multinomial
from hdpstats.losses.base import HazardLink, ListedLoss, PredictorLoss, Table, ValuedLink
from hdpstats.losses.counts import ExponentialTimes, PoissonLoss
from hdpstats.losses.hazard_links import CloglogLink, LogitLink, ProbitLink
from hdpstats.losses.located import BoundedSquares, HuberLoss, Located, SmoothedQuantile
from hdpstats.losses.logistic import LogisticLoss
from hdpstats.losses.own import OWN_LINKS, Tabulated

BY_NAME: dict[str, type[PredictorLoss]] = {
    loss.name: loss
    for loss in (LogisticLoss, BoundedSquares, HuberLoss, SmoothedQuantile, PoissonLoss, ExponentialTimes, Tabulated)
}
"""The losses of one predictor that a query may name; `PredictorLoss.made` makes one of the query's numbers."""

LINKS: dict[str, HazardLink] = {link.name: link for link in (LogitLink(), CloglogLink(), ProbitLink())}
"""The links of hazards that a query may name."""

MEANS: dict[str, Callable[[FloatArray], FloatArray]] = {
    **{name: loss.mean for name, loss in BY_NAME.items() if loss is not Tabulated},
    multinomial.NAME: multinomial.probabilities,
    **{f"own ({name} link)": link.mean for name, link in OWN_LINKS.items()},
}
"""The outcome's mean (quantile, mean time until the event; probabilities of levels) at linear predictors."""

MEAN_LINKS: dict[str, str] = {
    **{name: loss.link for name, loss in BY_NAME.items() if loss is not Tabulated},
    multinomial.NAME: multinomial.LINK,
    **{f"own ({name} link)": name for name in OWN_LINKS},
}
"""The inverses of `MEANS`, as R calls them."""

REGRESSIONS: dict[str, tuple[str, str]] = {
    **{name: (loss.regression, loss.source) for name, loss in BY_NAME.items() if loss is not Tabulated},
    multinomial.NAME: (multinomial.REGRESSION, ""),
    **{f"own ({name} link)": (Tabulated.regression, "") for name in OWN_LINKS},
}
"""What a methods section calls a regression by each of them, and what it cites for it, if anything."""

__all__ = [
    "BY_NAME",
    "LINKS",
    "MEANS",
    "MEAN_LINKS",
    "REGRESSIONS",
    "BoundedSquares",
    "ExponentialTimes",
    "HazardLink",
    "HuberLoss",
    "ListedLoss",
    "Located",
    "LogisticLoss",
    "PoissonLoss",
    "PredictorLoss",
    "SmoothedQuantile",
    "Table",
    "Tabulated",
    "ValuedLink",
]

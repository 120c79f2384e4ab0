"""What a linear predictor says about the outcome, by the name that a result keeps of its loss."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import FloatArray
from hdpstats.losses.multinomial import probabilities


def _itself(eta: FloatArray) -> FloatArray:
    return np.asarray(eta, dtype=np.float64)


def _exponential(eta: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(eta), dtype=np.float64)


def _probability(eta: FloatArray) -> FloatArray:
    return np.asarray(expit(eta), dtype=np.float64)


def _time(eta: FloatArray) -> FloatArray:
    return _exponential(-eta)


LINKS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "identity": _itself,
    "log": _exponential,
    "logit": _probability,
}
"""The inverses of the links that somebody's own loss may have."""


def _probabilities(eta: FloatArray) -> FloatArray:
    return probabilities(eta)


MEANS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "logistic": _probability,
    "squares": _itself,
    "huber": _itself,
    "quantile": _itself,
    "poisson": _exponential,
    "exponential": _time,
    "multinomial": _probabilities,
    **{f"own ({link} link)": mean for link, mean in LINKS.items()},
}
"""The outcome's mean (quantile, mean time until the event; probabilities of levels) at linear predictors."""

"""The losses that a user may name, for ``hdpf.linear``, ``hdpf.quantile`` and ``hdpf.mestimate``: `hdp.losses`.

Numbers are in the outcome's own unit. Where one is left out it is taken from public rows or from the schema, never from
private rows.
"""

from hdpstats.losses.base import LossOption
from hdpstats.losses.counts import Exponential, Poisson
from hdpstats.losses.located import Absolute, Huber, QuantileOption, Squares
from hdpstats.losses.logistic import Logistic
from hdpstats.losses.multinomial import Multinomial
from hdpstats.losses.own import Loss

Quantile = QuantileOption

OPTIONS: tuple[type[LossOption], ...] = (
    Squares,
    Huber,
    Quantile,
    Absolute,
    Logistic,
    Poisson,
    Exponential,
    Loss,
    Multinomial,
)
"""All of them."""

__all__ = [
    "Absolute",
    "Exponential",
    "Huber",
    "Logistic",
    "Loss",
    "LossOption",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Squares",
]


def __dir__() -> list[str]:
    return __all__

"""The losses that a user may name, for ``hdpf.linear``, ``hdpf.quantile`` and ``hdpf.mestimate``.

Numbers are in the outcome's own unit. Where one is left out it is taken from public rows or from the schema, never from
private rows.
"""

from dataclasses import dataclass
from typing import final

from hdpstats._base.validation import real
from hdpstats.losses.own import Loss

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


@final
@dataclass(frozen=True, slots=True)
class Squares:
    """Half the squared residual, predictions cut to the outcome's declared range: least squares.

    The noise is in proportion to that range: declare it as narrow as is honest, or use `Huber`.
    """


@final
@dataclass(frozen=True, slots=True)
class Huber:
    """Huber's loss: squares up to residuals of size ``c``, linear beyond.

    Parameters
    ----------
    c
        In the outcome's unit; by default 1.345 times the spread of public residuals (95 % efficient for normal errors).

    Examples
    --------
    >>> Huber(2.5)
    Huber(c=2.5)
    """

    c: float | None = None

    def __post_init__(self) -> None:
        """Check ``c``."""
        if self.c is not None:
            real(self.c, name="c", lower=0.0, open_lower=True)


@final
@dataclass(frozen=True, slots=True)
class Quantile:
    """The check loss of the ``q``-quantile, smoothed over a window of half-width ``width``.

    Parameters
    ----------
    q
        From 0.001 to 0.999.
    width
        In the outcome's unit. What is estimated is the quantile of the outcome plus uniform noise of that half-width.
        By default it falls with the number of records, relative to the spread of public residuals; without public
        outcomes it is a fortieth of the declared range.
    """

    q: float = 0.5
    width: float | None = None

    def __post_init__(self) -> None:
        """Check both numbers."""
        real(self.q, name="q", lower=0.001, upper=0.999)
        if self.width is not None:
            real(self.width, name="width", lower=0.0, open_lower=True)


@final
@dataclass(frozen=True, slots=True)
class Absolute:
    """The absolute residual, smoothed: `Quantile` at 0.5, for medians."""

    width: float | None = None

    def __post_init__(self) -> None:
        """Check the half-width."""
        if self.width is not None:
            real(self.width, name="width", lower=0.0, open_lower=True)


@final
@dataclass(frozen=True, slots=True)
class Logistic:
    """Minus the Bernoulli log-likelihood: what `hdpf.logit` fits."""


@final
@dataclass(frozen=True, slots=True)
class Poisson:
    """Minus the Poisson log-likelihood of a count that is declared as ``Continuous(0, largest)``, with a log link.

    Parameters
    ----------
    cap
        No mean is predicted above it: by default the largest count, which no mean exceeds.
    """

    cap: float | None = None

    def __post_init__(self) -> None:
        """Check the cap."""
        if self.cap is not None:
            real(self.cap, name="cap", lower=0.0, open_lower=True)


@final
@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential times until an event, ``Surv(time, event) ~ terms``: coefficients are log ratios of rates.

    Parameters
    ----------
    cap
        The rate, in events per horizon, near which a person counts less; any value is consistent, a smaller one means
        less noise.
    """

    cap: float = 2.0

    def __post_init__(self) -> None:
        """Check the cap."""
        real(self.cap, name="cap", lower=0.01, upper=1e4)


@final
@dataclass(frozen=True, slots=True)
class Multinomial:
    """Minus the multinomial log-likelihood of a `Categorical` outcome, the first level of which is the reference.

    Coefficients are log odds ratios of each other level against it, named ``level:term``.
    """


LossOption = Squares | Huber | Quantile | Absolute | Logistic | Poisson | Exponential | Multinomial | Loss
"""Any of the losses."""

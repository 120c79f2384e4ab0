r"""Losses of rates with a log link: Poisson counts, and exponential times until an event.

*Poisson.* The likelihood's score ``e^eta - y`` is bounded once the mean is cut at a public cap.

*Exponential.* A person is followed for a time ``t`` in [0, 1], in units of the horizon, and has the event at its end
(``d = 1``) or not. The likelihood's score ``t e^eta - d`` is not bounded in ``eta``. Divided by
``sqrt(1 + (e^eta / h)^2)`` it is:

.. math:: \ell'(\eta) = \frac{t e^\eta - d}{\sqrt{1 + u^2}} = t\,h\,\frac{u}{\sqrt{1 + u^2}} - \frac{d}{\sqrt{1 + u^2}},
          \qquad u = e^\eta / h.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, Self, final

import numpy as np
from mpmath import MPContext, mpf
from scipy.special import gammainc, gammaln

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.validation import real
from hdpstats.losses.base import ListedLoss, LossNumbers, LossOption, OutcomeFacts, PredictorLoss, Table, exponential
from hdpstats.losses.hazard_links import STEEPEST

FARTHEST = 300.0
"""Size to which log rates are clipped, so that no exponential overflows; beyond, the losses are saturated."""


LARGEST_MEAN, LARGEST_RATE = 1e9, 1e4
"""The largest caps."""

FEW_RECORDS = 5_000
"""Up to four times so many records the cap of exponential times is the smallest."""

LISTED_MEAN = 1e6
"""Means at which counts are listed are cut at it: what is listed is far below."""


@final
@dataclass(frozen=True, kw_only=True)
class PoissonLoss(ListedLoss):
    r"""Minus the Poisson log-likelihood of a count, the mean cut at ``M``.

    .. math:: \ell'(\eta; y) = \min(e^\eta, M) - y, \qquad \ell'' = e^\eta\, 1\{e^\eta \le M\}.

    Constants, for counts in [0, Y]: the score lies in [-Y, M], so ``|l'| <= max(Y, M)``; ``l'' <= M``.
    ``|eta| e^eta`` is at most 1/e below 0, and rises up to the cap: ``|eta| l'' <= max(1/e, M log M)``.

    *Target*: with ``M`` at least as large as every true mean the Poisson likelihood's. The default ``M = Y`` always is:
    a count that never exceeds ``Y`` has no mean above it.
    """

    name = "poisson"
    regression = "Poisson regression"
    parameters = ("cap",)
    exponentiated = "incidence rate ratio"
    outcomes = ("continuous", "binary")
    link = "log"
    counts = "Poisson"
    upper: float
    cap: float
    lipschitz: Fraction = field(init=False)
    smoothness: Fraction = field(init=False)
    modelled = True
    raked = True
    meat = 1.0

    def __post_init__(self) -> None:
        """Take the constants from the largest count and the cap."""
        if not (1e-6 <= self.cap <= LARGEST_MEAN and self.upper <= 1e9):
            raise MechanismError(f"a Poisson model needs a cap in [1e-6, 1e9] and counts up to 1e9, not {self.cap:g}")
        object.__setattr__(self, "lipschitz", max(Fraction(self.upper), Fraction(self.cap)))
        object.__setattr__(self, "smoothness", Fraction(self.cap))

    @property
    def scaled_curvature(self) -> float:  # type: ignore[override]
        """``max(1/e, M log M)``."""
        return max(0.368, self.cap * math.log(self.cap))

    @classmethod
    def made(cls, parameters: tuple[float, ...], table: Table, *, lower: float, upper: float) -> Self:
        """Return the loss of counts that are declared not to be below 0."""
        if lower < 0.0:
            raise MechanismError(f"a Poisson outcome must be declared with a lower bound of 0 or more, not {lower:g}")
        return super().made(parameters, table, lower=lower, upper=upper)

    @property
    def magnitude(self) -> float:  # type: ignore[override]
        """``M (2 + |log M|)``: the value is a difference of such numbers."""
        return self.cap * (2.0 + abs(math.log(self.cap))) + 2.0

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        """For ``M >= Y``: ``l(0)`` is at most ``1 + M |log M|``, the infimum ``y - y log y`` with ``y <= M``.

        For smaller ``M`` the loss of a larger count falls for ever.
        """
        return self.magnitude if self.cap >= self.upper else math.inf

    @staticmethod
    def mean(eta: FloatArray) -> FloatArray:
        """Return the mean, without the cap."""
        return exponential(eta)

    @property
    def plain(self) -> "PoissonLoss":
        """The likelihood, for means up to a thousand times the largest count."""
        return replace(self, cap=min(1e3 * max(self.upper, 1.0), LARGEST_MEAN))

    @property
    def listed(self) -> FloatArray:
        """0 to Y."""
        return np.arange(int(self.upper) + 1, dtype=np.float64)

    def chances(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return Poisson probabilities, counts above the largest being counted as it, and the slopes of logarithms.

        With :math:`m = e^\eta`: :math:`P(y) = m^y e^{-m} / y!` with slope :math:`y - m` below ``Y``, and
        :math:`P(N \ge Y)` with slope :math:`m\,P(N = Y - 1) / P(N \ge Y)` at ``Y``.
        """
        eta, y = np.minimum(eta, math.log(LISTED_MEAN)), self.listed[None, :]
        mean = np.exp(eta)
        p = np.exp(y * eta - mean - gammaln(y + 1.0))
        before = p[:, -2]
        p[:, -1] = gammainc(y[0, -1], mean[:, 0])  # P(N >= Y), the regularised lower incomplete gamma function
        slopes = y - mean
        slopes[:, -1] = mean[:, 0] * before / np.maximum(p[:, -1], 1e-300)
        return p, slopes

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``e^eta - y eta`` up to the cap, and its tangent beyond."""
        cut = np.minimum(eta, math.log(self.cap))
        return np.asarray(np.exp(np.maximum(cut, -FARTHEST)) + self.cap * (eta - cut) - y * eta)

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the cut mean less the count."""
        return np.asarray(self._mean(eta) - y)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return the cut mean less the count."""
        return min(numbers.exp(min(eta, numbers.mpf(FARTHEST))), numbers.mpf(self.cap)) - y

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the mean up to the cap, 0 beyond."""
        mean = self._mean(eta)
        return np.asarray(np.where(mean < self.cap, mean, 0.0) * np.ones_like(y))

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the curvature and the Poisson variance."""
        return self.curvature(eta, np.zeros_like(eta)), self._mean(eta)

    def over(self, eta: FloatArray, *, own: FloatArray, y: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return the curvature, and the Poisson variance times the dispersion of the outcomes, where they are public.

        The dispersion is the sum of squared residuals over that of means.
        """
        curvature, variance = self.typical(eta)
        if y is None:
            return curvature, variance
        dispersion = float(np.sum(self.score(own, y) ** 2)) / max(float(np.sum(self._mean(own))), 1e-12)
        return curvature, dispersion * variance

    def _mean(self, eta: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(np.exp(np.clip(eta, -FARTHEST, FARTHEST)), self.cap), dtype=np.float64)


@final
@dataclass(frozen=True, slots=True)
class Poisson(LossOption):
    """Minus the Poisson log-likelihood of a count that is declared as ``Continuous(0, largest)``, with a log link.

    Parameters
    ----------
    cap
        No mean is predicted above it: by default the largest count, which no mean exceeds.
    """

    loss = "poisson"
    title = "Poisson"
    cap: float | None = None

    def __post_init__(self) -> None:
        """Check the cap."""
        if self.cap is not None:
            real(self.cap, name="cap", lower=0.0, open_lower=True)

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return the cap."""
        cap = facts.upper if self.cap is None else float(self.cap)
        return LossNumbers(parameters=(cap,), words=f"Poisson loss, means up to {cap:.6g}")


@final
@dataclass(frozen=True, kw_only=True)
class ExponentialTimes(PredictorLoss):
    r"""The loss of an exponential time until an event, saturated at a rate of ``h`` per horizon.

    ``|y|`` is the time of follow-up ``t`` in [0, 1], in horizons; the sign bit says that it ended with the event (-0.0:
    at once). With ``u = e^eta / h`` and ``s = 1 / sqrt(1 + u^2)``

    .. math:: \ell' = t\,h\,u s - d\,s, \qquad \ell = t\,h \operatorname{asinh} u + d \operatorname{asinh}(1/u), \qquad
              \ell'' = t\,h\,u s\,s^2 + d\,s\,(1 - s^2).

    Constants: ``us`` and ``s`` lie in [0, 1], so ``-1 <= l' <= h``; both terms of ``l''`` are a number times
    ``x (1 - x^2) < .385`` for an ``x`` in [0, 1], hence ``0 <= l'' <= .385 (h + 1)``. As ``eta = log u + log h``
    and that number is ``v (1 + v^2)^(-3/2)`` for ``v = u`` or ``1/u``, ``|log v|`` times which is below .319 (for
    ``v <= 1`` it is largest at .279, for ``v > 1`` below .125), ``|eta| l'' <= (h + 1)(.319 + .385 |log h|)``.

    *Target*: ``d - t e^eta`` is a martingale at the true rate, whenever follow-up ends for reasons of its own, and so
    has mean 0 whatever it is multiplied by that depends on ``eta`` alone: the loss is Fisher-consistent at every rate.
    The cap costs efficiency where rates come near it, never consistency. By the same argument
    ``E l'^2 = s^2 E d <= s E d = E l''``.
    """

    name = "exponential"
    regression = "Regression of exponential survival times"
    parameters = ("h",)
    exponentiated = "rate ratio"
    outcomes = ()
    link = "log"
    h: float
    lipschitz: Fraction = field(init=False)
    smoothness: Fraction = field(init=False)
    functions = 8.0
    raked = True
    meat = 1.0
    ulps = 32.0

    def __post_init__(self) -> None:
        """Take the constants from the cap."""
        if not 0.01 <= self.h <= LARGEST_RATE:
            raise MechanismError(f"the cap of an exponential model must be in [0.01, 1e4] per horizon, not {self.h:g}")
        h = Fraction(self.h)
        object.__setattr__(self, "lipschitz", max(Fraction(1), h))
        object.__setattr__(self, "smoothness", STEEPEST * (h + 1))

    @property
    def scaled_curvature(self) -> float:  # type: ignore[override]
        """``(h + 1)(.319 + .385 |log h|)``."""
        return (self.h + 1.0) * (0.319 + 0.385 * abs(math.log(self.h)))

    @property
    def magnitude(self) -> float:  # type: ignore[override]
        """``(1 + h)(2 + |log h|)``."""
        return (1.0 + self.h) * (2.0 + abs(math.log(self.h)))

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        """``h asinh(1/h) + asinh(h)``, both losses being at least 0."""
        return self.h * math.asinh(1.0 / self.h) + math.asinh(self.h)

    @staticmethod
    def mean(eta: FloatArray) -> FloatArray:
        """Return the mean time until the event, in horizons."""
        return exponential(-eta)

    def kept(self, eta: FloatArray) -> FloatArray:
        """Return ``s``: the score is the likelihood's times it."""
        return np.asarray(1.0 / np.sqrt(1.0 + (self._rate(eta) / self.h) ** 2))

    @property
    def plain(self) -> "ExponentialTimes":
        """The likelihood, to seven digits for rates of some events per horizon."""
        return replace(self, h=LARGEST_RATE)

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss, linear where log rates are clipped: ``asinh(u)`` grows like ``log u``."""
        u = self._rate(eta) / self.h
        above, below = np.maximum(eta - FARTHEST, 0.0), np.maximum(-FARTHEST - eta, 0.0)
        followed = np.abs(y) * self.h * (np.arcsinh(u) + above)
        return np.asarray(followed + np.signbit(y) * (np.arcsinh(1.0 / u) + below))

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``t h u s - d s``."""
        u = self._rate(eta) / self.h
        s = 1.0 / np.sqrt(1.0 + u * u)
        return np.asarray(np.abs(y) * self.h * (u * s) - np.signbit(y) * s)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return ``t h u s - d s``."""
        u = numbers.exp(min(max(eta, numbers.mpf(-FARTHEST)), numbers.mpf(FARTHEST))) / numbers.mpf(self.h)
        s = 1 / numbers.sqrt(1 + u * u)
        return abs(y) * numbers.mpf(self.h) * (u * s) - (s if math.copysign(1.0, y) < 0.0 else 0)

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``t h u s^3 + d s (1 - s^2)``."""
        u = self._rate(eta) / self.h
        s = 1.0 / np.sqrt(1.0 + u * u)
        return np.asarray(np.abs(y) * self.h * (u * s) * s * s + np.signbit(y) * s * (u * s) ** 2)

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``P s`` and ``P s^2`` with ``P`` the probability of the event by the horizon: nobody is censored."""
        rate = self._rate(eta)
        s = 1.0 / np.sqrt(1.0 + (rate / self.h) ** 2)
        happens = -np.expm1(-np.minimum(rate, FARTHEST))
        return np.asarray(happens * s), np.asarray(happens * s * s)

    def over(self, eta: FloatArray, *, own: FloatArray, y: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return what the model says where follow-up of others ends as that of these rows, times how far it is off.

        ``P s`` and ``P s^2`` with ``P`` the probability of the event while somebody is followed. How far outcomes are
        off is the sum of what they give at the rows as they were over that of what the model says of them.
        """
        if y is None:
            return self.typical(eta)
        happens = events_among(np.abs(y), events=np.signbit(y))
        here, there = (self._expected(at, happens) for at in (own, eta))
        seen = self.curvature(own, y), self.score(own, y) ** 2
        off = [float(np.sum(one)) / max(float(np.sum(other)), 1e-12) for one, other in zip(seen, here, strict=True)]
        return off[0] * there[0], off[1] * there[1]

    def _expected(self, eta: FloatArray, happens: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
        rate = self._rate(eta)
        s, chance = 1.0 / np.sqrt(1.0 + (rate / self.h) ** 2), happens(rate)
        return np.asarray(chance * s), np.asarray(chance * s * s)

    def _rate(self, eta: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.clip(eta, -FARTHEST, FARTHEST)), dtype=np.float64)


RATES: Final = np.exp(np.linspace(-12.0, 9.5, 216))
"""Rates between which chances of the event are interpolated; below them they are in proportion to the rate."""


def events_among(times: FloatArray, *, events: BoolArray) -> Callable[[FloatArray], FloatArray]:
    """Return the probability of an event while somebody is followed, as a function of the rate.

    Follow-up would end, were there no events, as Kaplan and Meier's estimate says for rows (n,) with ``times`` in
    [0, 1]; whoever has no end before is followed for 1.
    """
    order = np.lexsort((~events, times))  # of equal times events come first
    ended, left = ~events[order], np.arange(len(times), 0, -1.0)
    stay = np.cumprod(np.where(ended, 1.0 - 1.0 / left, 1.0))
    shares = np.append(-np.diff(stay, prepend=1.0), stay[-1] if len(stay) else 1.0)
    ends, where = np.append(times[order], 1.0), shares > 0.0
    chances = -np.expm1(-RATES[:, None] * ends[where]) @ shares[where]
    low = np.log(RATES[0])

    def happens(rate: FloatArray) -> FloatArray:
        logs = np.log(np.maximum(rate, 1e-300))
        found = np.exp(np.interp(logs, np.log(RATES), np.log(np.maximum(chances, 1e-300))))
        return np.asarray(found * np.exp(np.minimum(logs - low, 0.0)))

    return happens


@final
@dataclass(frozen=True, slots=True)
class Exponential(LossOption):
    """Exponential times until an event, ``Surv(time, event) ~ terms``: coefficients are log ratios of rates.

    Parameters
    ----------
    cap
        The rate, in events per horizon, near which a person counts less. Where the model is true any value is
        consistent, and a smaller one means less noise; where it is not, people of high rates who count less move the
        estimate. By default it grows with the number of records (`default_cap`).
    """

    loss = "exponential"
    title = "Exponential"
    cap: float | None = None

    def __post_init__(self) -> None:
        """Check the cap."""
        if self.cap is not None:
            real(self.cap, name="cap", lower=0.01, upper=1e4)

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return the cap."""
        cap = default_cap(facts.records) if self.cap is None else float(self.cap)
        return LossNumbers(parameters=(cap,), words=f"exponential times, saturating near {cap:.6g} events per horizon")


def default_cap(records: int) -> float:
    """Return the cap for a number of records: 2, doubled whenever `FEW_RECORDS` of them have become four times as many.

    The noise that a cap asks for is in proportion to it over the number of records, sampling to the inverse root.

    >>> [default_cap(n) for n in (100, 19_999, 20_000, 300_000)]
    [2.0, 2.0, 4.0, 8.0]
    """
    return float(min(2.0 ** (1 + math.floor(0.5 * math.log2(max(records, FEW_RECORDS) / FEW_RECORDS))), LARGEST_RATE))

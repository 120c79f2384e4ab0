r"""Losses of a residual: bounded squares, Huber's, and those of smoothed quantiles.

Outcome and predictor are on one scale, that of an outcome whose declared range has length 1 (`Loss.located`). Every
score ``l'`` below increases in ``eta``, so the losses are convex; each is continuous and piecewise linear, so ``l`` is
C^{1,1} and its second derivative is that of the pieces.
"""

import math
from abc import ABC
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

import numpy as np
from mpmath import MPContext, mpf

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.losses.base import LossNumbers, LossOption, OutcomeFacts, PredictorLoss, three_digits

SPREAD = 33
"""Outcomes over which `Located.typical` averages."""

LEAST_WIDTH = 1e-5
"""Least half-width of a quantile's window over the outcome's range."""

FAR = 1000.0
"""Ranges of the outcome beyond which no prediction goes."""

EFFICIENT = 1.345
"""Huber's ``c`` over the residuals' standard deviation, for 95 % efficiency with normal errors."""

WIDEST = 0.5
"""Largest half-width of quantiles over the residuals' standard deviation."""

MOST_ADDED = 0.15
"""What smoothing may add to a quantile by default, over the standard error of a fit with epsilon 1 (`with_noise`)."""

AS_MUCH = 10_000
"""With so many people for each coefficient noise at epsilon 1 varies about as much as an ordinary fit."""

MOST_NOISE = 2.0
"""The largest standard error of a fit with noise, over that of an ordinary one, that a default window counts on."""

SLOPE = 0.5
"""The least relative slope of the density of residuals that a default window allows for, per standard deviation."""

DECLARED = 1.0 / 40.0
"""Half-width of quantiles over the declared range, where no public outcome says more."""


def scale_of(residuals: FloatArray) -> float:
    """Return the median absolute residual over .6745, the standard deviation of normal ones; never 0."""
    return max(float(np.median(np.abs(residuals))) / 0.6745, 1e-6) if len(residuals) else 1.0


def window(scale: float, rows: int) -> float:
    """Return the half-width of a window in which so many residuals determine their density at a point."""
    return float(1.3 * scale * max(rows, 1) ** -0.2)


def with_noise(records: int, coefficients: int) -> float:
    r"""Return about the standard error of a fit with epsilon 1 over that of an ordinary fit, at most `MOST_NOISE`.

    It is :math:`\sqrt{1 + 10,000 D / n}`. Whoever has a larger epsilon and few people has less noise than that.

    >>> [round(with_noise(n, 6), 2) for n in (3_000, 30_000, 300_000)]
    [2.0, 1.73, 1.1]
    """
    return min(math.sqrt(1.0 + AS_MUCH * coefficients / max(records, 1)), MOST_NOISE)


def unbiased_window(residuals: FloatArray, q: float, *, records: int, coefficients: int) -> float:
    r"""Return the half-width at which smoothing adds `MOST_ADDED` standard errors to a quantile of so many records.

    A uniform error of half-width ``h`` moves a quantile by :math:`h^2 / 6` times the relative slope of the density,
    about. So it is in proportion to the square of ``h``, and public residuals tell it at `WIDEST` and at half of that:
    their difference, plus the standard error of that, over that of the squares. No less is taken than where the density
    changes by :data:`SLOPE` of itself within a standard deviation. The standard error of an ordinary fit is at least
    :math:`\sqrt{q (1 - q)} / (f \sqrt{n})`, ``f`` being the density at the quantile; that of a fit with noise is
    `with_noise` times as large.

    Examples
    --------
    Normal residuals are nearly symmetric about their median, and not about another quantile.

    >>> from scipy.stats import norm
    >>> residuals = norm.ppf((np.arange(1000) + 0.5) / 1000)
    >>> [round(unbiased_window(residuals, q, records=30_000, coefficients=4), 2) for q in (0.5, 0.1)]
    [0.14, 0.09]
    """
    scale = scale_of(residuals)
    wide = WIDEST * scale
    (at_wide, density, moved), (at_narrow, peak, less) = (
        _smoothed_quantile(residuals, q, h) for h in (wide, 0.5 * wide)
    )
    if not (density > 0.0 and peak > 0.0):
        return 0.0
    uncertain = float(np.std(moved / density - less / peak)) / math.sqrt(len(residuals))
    bias = max((abs(at_wide - at_narrow) + uncertain) / (0.75 * wide**2), SLOPE / (6.0 * scale))
    error = with_noise(records, coefficients) * math.sqrt(q * (1.0 - q)) / (peak * math.sqrt(max(records, 1)))
    return min(wide, math.sqrt(MOST_ADDED * error / bias))


def _smoothed_quantile(residuals: FloatArray, q: float, h: float) -> tuple[float, float, FloatArray]:
    """Return the quantile of residuals with a uniform error of half-width ``h``, the density there, and the scores."""
    low, high = float(np.min(residuals)) - h, float(np.max(residuals)) + h
    for _ in range(50):
        middle = 0.5 * (low + high)
        if float(np.mean(np.clip((middle - residuals + h) / (2.0 * h), 0.0, 1.0))) < q:
            low = middle
        else:
            high = middle
    density = float(np.mean(np.abs(middle - residuals) <= h)) / (2.0 * h)
    return middle, density, np.asarray(np.clip((middle - residuals + h) / (2.0 * h), 0.0, 1.0) - q)


class Located(PredictorLoss, ABC):
    """A loss of outcomes in [``lower``, ``upper``], on the scale of the linear predictor."""

    outcomes = ("continuous", "binary")
    located = True
    of_residuals = True
    raked = True
    lower: float
    upper: float

    @property
    def farthest(self) -> float:
        """The size of the largest outcome."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        """A loss is least where prediction and outcome agree, and from there rises by ``sup |l'|`` at most."""
        return float(self.lipschitz) * self.farthest

    def over(self, eta: FloatArray, *, own: FloatArray, y: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return those of the rows as they were: they keep their residuals, on which alone they depend."""
        return self.typical(eta) if y is None else self.over_residuals(eta, own=own, y=y)

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return averages of ``l''`` and ``l'^2`` over outcomes spread evenly over the range."""
        grid = np.linspace(self.lower, self.upper, SPREAD)
        wide = eta[:, None]
        return self.curvature(wide, grid).mean(axis=1), (self.score(wide, grid) ** 2).mean(axis=1)


@final
@dataclass(frozen=True, kw_only=True)
class BoundedSquares(Located):
    r"""Half the squared residual, the prediction cut to the outcome's declared range [a, b].

    .. math:: \ell'(\eta; y) = \min\{\max(\eta, a), b\} - y, \qquad \ell'' = 1\{a \le \eta \le b\}.

    Constants: prediction and outcome both lie in [a, b], so ``|l'| <= b - a``, attained at opposite ends;
    ``l'' <= 1``, and 0 outside of [a, b]: ``|eta| l'' <= max(|a|, |b|)``.

    *Target*: at a predictor within [a, b] the expected score is ``eta`` less the mean of the outcome, which lies in
    [a, b] itself: least squares, consistent wherever the true means are linear. Beyond the range the loss goes on
    linearly.

    *Standard errors without public outcomes*: an outcome in [a, b] of mean ``eta`` has a variance of at most
    ``(b - eta)(eta - a) <= (b - a)^2 / 4`` (Bhatia and Davis 2000): `typical` and ``meat`` are that bound, or
    ``variance`` where that is smaller, which errors take for the variance about every mean.
    """

    name = "squares"
    classical = "least squares"
    regression = "Linear regression"
    lower: float
    upper: float
    variance: float = math.inf
    lipschitz: Fraction = field(init=False)
    smoothness = Fraction(1)
    modelled = True
    bounds_variance = True
    by_residuals = True

    def __post_init__(self) -> None:
        """Take the constants from the range."""
        object.__setattr__(self, "lipschitz", Fraction(self.upper) - Fraction(self.lower))

    @property
    def scaled_curvature(self) -> float:  # type: ignore[override]
        """``max(|a|, |b|)``."""
        return self.farthest

    @property
    def meat(self) -> float:  # type: ignore[override]
        """``(b - a)^2 / 4``, or the variance that is taken."""
        return min((self.upper - self.lower) ** 2 / 4.0, self.variance)

    @property
    def plain(self) -> "BoundedSquares":
        """Least squares, for predictions within a thousand ranges."""
        return replace(self, lower=-FAR, upper=FAR)

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return half the square within the range, and its tangent beyond."""
        cut = np.clip(eta, self.lower, self.upper)
        return np.asarray(0.5 * (cut - y) ** 2 + (cut - y) * (eta - cut))

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the cut prediction less the outcome."""
        return np.asarray(np.clip(eta, self.lower, self.upper) - y)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return the cut prediction less the outcome."""
        return min(max(eta, numbers.mpf(self.lower)), numbers.mpf(self.upper)) - y

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return 1 within the range, 0 beyond."""
        return np.asarray(((eta >= self.lower) & (eta <= self.upper)) * np.ones_like(y), dtype=np.float64)

    def typical(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the curvature and the largest variance that outcomes of this mean can have, or are taken to have."""
        cut = np.clip(eta, self.lower, self.upper)
        largest = np.minimum((self.upper - cut) * (cut - self.lower), self.variance)
        return self.curvature(eta, np.zeros_like(eta)), np.asarray(largest)


@final
@dataclass(frozen=True, slots=True)
class Squares(LossOption):
    """Half the squared residual, predictions cut to the outcome's declared range: least squares.

    The noise is in proportion to that range: declare it as narrow as is honest, or use `Huber`.
    """

    loss = "squares"
    title = "Squares"

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return no number; words that name the range in the outcome's unit."""
        low, high = (bound * facts.scale + facts.shift for bound in (facts.lower, facts.upper))
        return LossNumbers(words=f"least squares, predictions cut to [{low:.6g}, {high:.6g}]")


@final
@dataclass(frozen=True, kw_only=True)
class HuberLoss(Located):
    r"""Huber's loss: half the squared residual up to a size ``c``, linear beyond.

    .. math:: \ell'(\eta; y) = \min\{\max(\eta - y, -c), c\}, \qquad \ell'' = 1\{|\eta - y| \le c\}.

    Constants: ``|l'| <= c`` and ``l'' <= 1`` (Huber 1964); where ``l''`` is not 0 the predictor is within ``c`` of an
    outcome, so ``|eta| l'' <= max |y| + c``. *Target*: the mean where the errors are symmetric about it;
    else between mean and median. The less of an outcome counts, the less noise: ``c`` need not be near the range.
    """

    name = "huber"
    parameters = ("c",)
    classical = "Huber's estimate"
    regression = "Robust linear regression"
    source = "Huber PJ (1964). Robust estimation of a location parameter. Annals of Mathematical Statistics 35, 73-101."
    lower: float
    upper: float
    c: float
    lipschitz: Fraction = field(init=False)
    smoothness = Fraction(1)

    def __post_init__(self) -> None:
        """Take the constants from ``c``."""
        if not 1e-9 <= self.c <= 1e9:
            raise MechanismError(f"Huber's c must be in [1e-9, 1e9] of the outcome's range, not {self.c:g}")
        object.__setattr__(self, "lipschitz", Fraction(self.c))

    @property
    def scaled_curvature(self) -> float:  # type: ignore[override]
        """``max |y| + c``."""
        return self.farthest + self.c

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return half the square up to ``c``, and its tangent beyond."""
        r = eta - y
        cut = np.clip(r, -self.c, self.c)
        return np.asarray(cut * (r - 0.5 * cut))

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the residual cut to ``c``."""
        return np.asarray(np.clip(eta - y, -self.c, self.c))

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return the residual cut to ``c``."""
        return min(max(eta - y, numbers.mpf(-self.c)), numbers.mpf(self.c))

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return 1 for residuals up to ``c``, 0 beyond."""
        return np.asarray(np.abs(eta - y) <= self.c, dtype=np.float64)


@final
@dataclass(frozen=True, slots=True)
class Huber(LossOption):
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

    loss = "huber"
    title = "Huber"
    c: float | None = None

    def __post_init__(self) -> None:
        """Check ``c``."""
        if self.c is not None:
            real(self.c, name="c", lower=0.0, open_lower=True)

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return ``c``."""
        c = self.c
        if c is None:
            if facts.residuals is None:
                raise ArgumentError(
                    f"Huber's c must be given, in the outcome's unit: there are no {facts.rows} complete public rows "
                    "with the outcome to take it from; hdp.losses.Huber(c)",
                    argument="c",
                )
            c = three_digits(EFFICIENT * scale_of(facts.residuals) * facts.scale)
        return LossNumbers(parameters=(float(c),), words=f"Huber's loss with c = {c:.6g}")


@final
@dataclass(frozen=True, kw_only=True)
class SmoothedQuantile(Located):
    r"""The check loss of the ``q``-quantile, convolved with a uniform density on [-h, h] (Fernandes et al. 2021).

    .. math:: \ell'(\eta; y) = \min\Big\{\max\Big(\tfrac12 + \frac{\eta - y}{2h}, 0\Big), 1\Big\} - q, \qquad
              \ell'' = \frac{1\{|\eta - y| \le h\}}{2 h}.

    Constants: ``-q <= l' <= 1 - q``, so ``|l'| <= max(q, 1 - q)``; ``l'' <= 1 / (2h)``; where ``l''`` is not 0 the
    predictor is within ``h`` of an outcome, so ``|eta| l'' <= (max |y| + h) / (2h)``.

    *Target*: the expected score is ``P(y + h U <= eta) - q`` with ``U`` uniform on [-1, 1]: the quantile of the outcome
    with a little noise of its own. With conditional density ``f`` it lies ``h^2 f'(xi) / (6 f(xi))`` below the quantile
    ``xi``, to first order: 0 for the median of a symmetric distribution, ``h^2 z / (6 sigma)`` too far out for the
    quantile ``z`` of a normal distribution.

    ``h`` is at least `LEAST_WIDTH`. The score's rounding is in proportion to ``1/(2h)``, so that doubles certify no
    minimiser to within a window much narrower than that, and the certificate's last resort, were it to start from afar,
    would go from window to window ever more often.
    """

    name = "quantile"
    parameters = ("q", "h")
    classical = "quantile regression"
    regression = "Quantile regression"
    source = "Koenker R, Bassett G (1978). Regression quantiles. Econometrica 46, 33-50."
    lower: float
    upper: float
    q: float
    h: float
    lipschitz: Fraction = field(init=False)
    smoothness: Fraction = field(init=False)

    def __post_init__(self) -> None:
        """Take the constants from ``q`` and ``h``."""
        if not (0.001 <= self.q <= 0.999 and LEAST_WIDTH <= self.h <= 1e3):
            raise MechanismError(
                f"a quantile needs q in [0.001, 0.999] and a half-width in [{LEAST_WIDTH:g}, 1e3] of the outcome's "
                f"range, not {self.q:g} and {self.h:g}; take a wider window, or declare a narrower range"
            )
        q = Fraction(self.q)
        object.__setattr__(self, "lipschitz", max(q, 1 - q))
        object.__setattr__(self, "smoothness", 1 / (2 * Fraction(self.h)))

    @property
    def scaled_curvature(self) -> float:  # type: ignore[override]
        """``(max |y| + h) / (2h)``."""
        return (self.farthest + self.h) / (2.0 * self.h)

    @property
    def magnitude(self) -> float:  # type: ignore[override]
        """``2 + h``: the value is a sum of numbers of that size."""
        return 2.0 + self.h

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        """The least loss is within ``h`` of the outcome."""
        return float(self.lipschitz) * (self.farthest + self.h)

    def value(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the integral of the score."""
        r = eta - y
        cut = np.clip(r, -self.h, self.h)
        return np.asarray((cut + self.h) ** 2 / (4.0 * self.h) + np.maximum(r - self.h, 0.0) - self.q * r)

    def score(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the share of the window below the prediction, less ``q``."""
        return np.asarray(np.clip(0.5 + (eta - y) / (2.0 * self.h), 0.0, 1.0) - self.q)

    def exact_score(self, numbers: MPContext, eta: mpf, y: float) -> mpf:
        """Return the share of the window below the prediction, less ``q``."""
        share = numbers.mpf(0.5) + (eta - y) / (2 * numbers.mpf(self.h))
        return min(max(share, numbers.mpf(0)), numbers.mpf(1)) - self.q

    def curvature(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``1 / (2h)`` within the window, 0 beyond."""
        return np.asarray((np.abs(eta - y) <= self.h) / (2.0 * self.h), dtype=np.float64)

    def with_width(self, width: float | None) -> "SmoothedQuantile":
        """Return the loss over a window of that half-width; itself for None."""
        return self if width is None else replace(self, h=min(max(width, LEAST_WIDTH), 1e3))

    def broadened(self, residuals: FloatArray) -> "SmoothedQuantile":
        """Return the loss over a window wide enough for so many residuals."""
        return replace(self, h=max(self.h, window(scale_of(residuals), len(residuals))))


@final
@dataclass(frozen=True, slots=True)
class QuantileOption(LossOption):
    r"""The check loss of the ``q``-quantile, smoothed over a window of half-width ``width``.

    Parameters
    ----------
    q
        From 0.001 to 0.999.
    width
        In the outcome's unit. What is estimated is the quantile of the outcome plus uniform noise of that half-width.
        By default it is the spread of public residuals (their median absolute value over .6745) times
        :math:`((D + \log n) / n)^{0.4}`, at most a half of it, for ``D`` coefficients and ``n`` records; or more, up to
        where smoothing adds .15 standard errors of a fit with epsilon 1, by public residuals (`unbiased_window`). The
        narrower the window, the larger the ridge that privacy needs, and what is left of its pull.
        Without public outcomes it is a fortieth of the declared range.
    """

    loss = "quantile"
    title = "Quantile"
    q: float = 0.5
    width: float | None = None

    def __post_init__(self) -> None:
        """Check both numbers."""
        real(self.q, name="q", lower=0.001, upper=0.999)
        if self.width is not None:
            real(self.width, name="width", lower=0.0, open_lower=True)

    def __repr__(self) -> str:
        return f"Quantile(q={self.q!r}, width={self.width!r})"

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return ``q`` and the half-width."""
        width, least = self.width, three_digits(2.0 * LEAST_WIDTH * facts.scale)
        if width is None and facts.residuals is None:
            width = three_digits(DECLARED * (facts.upper - facts.lower) * facts.scale)
        elif width is None and facts.residuals is not None:
            n = max(facts.records, 2)
            share = min(((facts.coefficients + math.log(n)) / n) ** 0.4, WIDEST)
            wide = unbiased_window(facts.residuals, self.q, records=n, coefficients=facts.coefficients)
            half = max(share * scale_of(facts.residuals), wide)
            width = max(three_digits(half * facts.scale), least)
        elif width is not None and width < least:
            raise ArgumentError(
                f"width must be at least {least:g}, not {width:g}, where the outcome's declared range is "
                f"{facts.scale:g} long: leave it out, give a larger one, or declare a narrower range",
                argument="width",
            )
        h = float(width) if width is not None else math.nan
        label = "median" if self.q == 0.5 else f"{self.q:g}-quantile"
        return LossNumbers(parameters=(float(self.q), h), words=f"{label}, smoothed over a half-width of {h:.6g}")


@final
@dataclass(frozen=True, slots=True)
class Absolute(LossOption):
    """The absolute residual, smoothed: `hdp.losses.Quantile` at 0.5, for medians."""

    loss = "quantile"
    title = "Absolute"
    width: float | None = None

    def __post_init__(self) -> None:
        """Check the half-width."""
        if self.width is not None:
            real(self.width, name="width", lower=0.0, open_lower=True)

    def numbers(self, facts: OutcomeFacts) -> LossNumbers:
        """Return 0.5 and the half-width."""
        return QuantileOption(0.5, self.width).numbers(facts)

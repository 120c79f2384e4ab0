"""Coefficients with their uncertainty, in statsmodels' words; the estimates of a fit, and whether its sites agree."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, final

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.validation import real
from hdpstats.records.codec import NAN_IS_NULL, Record
from hdpstats.records.saved import ErrorDraws


def normal_quantile(alpha: float) -> float:
    """Return the ``1 - alpha / 2`` quantile of the normal distribution; ``alpha`` in [0.001, 0.999]."""
    return -float(ndtri(real(alpha, name="alpha", lower=0.001, upper=0.999) / 2.0))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ErrorDistribution:
    """The distribution of the absolute estimation error of each coefficient, as quantiles.

    K-norm noise has heavier tails than the normal distribution, and so has the error of a private estimate.

    Attributes
    ----------
    levels : (L,) float64
        Increasing probabilities from 0 to below 1.
    quantiles : (L, p) float64
        ``quantiles[l, j]``: the level-``l`` quantile of ``|error_j|``.
    draws : ErrorDraws or None
        How errors go together, where they were drawn: any contrast of coefficients has its own distribution.
    """

    levels: FloatArray
    quantiles: FloatArray
    draws: ErrorDraws | None = None

    @classmethod
    def of_draws(cls, draws: FloatArray) -> "ErrorDistribution":
        """Summarise draws of the error (B, p), and keep them."""
        kept = ErrorDraws.of(draws)
        tail = 1.0 / (len(draws) + 1.0)
        levels = np.concatenate([np.linspace(0.0, 0.95, 96), 1.0 - np.geomspace(0.05, tail, 60)[1:]])
        return cls(levels=levels, quantiles=_quantiles(np.abs(kept.exact), levels), draws=kept)

    @property
    def floor(self) -> float:
        """The least p-value that the distribution can give."""
        return 1.0 - float(self.levels[-1])

    def through(self, L: FloatArray) -> "ErrorDistribution":
        """Return the distribution of the errors of ``L beta``, for ``L`` (k, p), from the joint draws.

        Raises
        ------
        ArgumentError
            If only the distribution of each coefficient by itself is known.
        """
        return ErrorDistribution.of_draws(self.joint().through(L))

    @property
    def marginal(self) -> "ErrorDistribution":
        """The distribution of each coefficient by itself, without the draws, which are most of a file."""
        return replace(self, draws=None)

    def joint(self) -> ErrorDraws:
        """Return the joint draws, or raise ArgumentError where there are none."""
        if self.draws is None:
            raise ArgumentError(
                "this estimate has no joint draws of its errors, which a test or an effect of several coefficients "
                "needs; fit the model again: a stored release is returned at no cost",
                argument="estimate",
            )
        return self.draws

    def half_width(self, level: float) -> FloatArray:
        """Return the half-width (p,) of symmetric intervals of a confidence level; capped at the outermost quantile."""
        return np.array([np.interp(level, self.levels, column) for column in self.quantiles.T])

    def exceedance(self, size: FloatArray) -> FloatArray:
        """Return ``P(|error_j| >= size_j)`` (p,), at least the probability beyond the outermost quantile."""
        below = [np.interp(s, column, self.levels) for s, column in zip(size, self.quantiles.T, strict=True)]
        return 1.0 - np.array(below)


def _quantiles(sample: FloatArray, levels: FloatArray) -> FloatArray:
    """Return ``np.quantile(sample, levels, axis=0)``, which for many levels is found fastest by sorting."""
    if not np.isfinite(sample).all():
        return np.asarray(np.quantile(sample, levels, axis=0))
    ordered = np.sort(sample.T)
    place = levels * (len(sample) - 1)
    low = np.minimum(place.astype(np.int64), max(len(sample) - 2, 0))
    above = ordered[:, np.minimum(low + 1, len(sample) - 1)] - ordered[:, low]
    return np.asarray((ordered[:, low] + (place - low) * above).T)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Estimate(Record):
    """Estimated coefficients and what is known about their error. No rows.

    Attributes
    ----------
    label : str
        Which estimate it is: "maximum likelihood", "ordinary fit", "public only" (either of these), "public,
        penalised", "private only", "pooled" or "released".
    terms : tuple of str
        Names of the coefficients (p).
    values : (p,) float64
        The coefficients; NaN where public rows do not identify one, or have no finite estimate of it.
    sampling, privacy : (p, p) float64
        Covariance due to sampling and due to privacy noise; NaN where unknown.
    distribution : ErrorDistribution or None
        The distribution of the error; None stands for the normal distribution.
    note : str or None
        What standard errors rest on, or why they are missing and what would give them.
    """

    label: str
    terms: tuple[str, ...]
    values: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    distribution: ErrorDistribution | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that do not have a number per coefficient, or per pair of them."""
        p, errors = len(self.terms), self.distribution
        if self.values.shape != (p,) or self.sampling.shape != (p, p) or self.privacy.shape != (p, p):
            raise ArgumentError("values must have a number per term, covariances one per pair", argument="values")
        if errors is not None and errors.quantiles.shape != (len(errors.levels), p):
            raise ArgumentError("distribution must have a quantile per level and term", argument="distribution")

    @property
    def params(self) -> "pd.Series[float]":
        """The coefficients."""
        return self._series(self.values)

    @property
    def bse(self) -> "pd.Series[float]":
        """Standard errors: square roots of the diagonal of `cov_params`."""
        return self._series(np.sqrt(np.diag(self.sampling) + np.diag(self.privacy)))

    @property
    def tvalues(self) -> "pd.Series[float]":
        """Coefficients over standard errors."""
        return self._series(self.values / self.bse.to_numpy())

    @property
    def pvalues(self) -> "pd.Series[float]":
        """Two-sided p-values for a zero coefficient, from the distribution of the error; never below its resolution."""
        if self.distribution is None:
            return self._series(2.0 * ndtr(-np.abs(self.tvalues.to_numpy())))
        p = self.distribution.exceedance(np.abs(self.values))
        return self._series(np.where(np.isnan(self.bse.to_numpy()), np.nan, p))

    @property
    def p_floor(self) -> float:
        """The least p-value that there is: 0 but where the distribution was drawn."""
        return 0.0 if self.distribution is None else self.distribution.floor

    @property
    def cov_sampling(self) -> pd.DataFrame:
        """Covariance due to sampling."""
        return self._frame(self.sampling)

    @property
    def cov_privacy(self) -> pd.DataFrame:
        """Covariance due to privacy noise: zero for a public fit."""
        return self._frame(self.privacy)

    def cov_params(self) -> pd.DataFrame:
        """Return ``cov_sampling + cov_privacy``."""
        return self._frame(self.sampling + self.privacy)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return symmetric confidence limits, columns 0 and 1 as in statsmodels; ``alpha`` in [0.001, 0.999]."""
        alpha = real(alpha, name="alpha", lower=0.001, upper=0.999)
        if self.distribution is None:
            half = normal_quantile(alpha) * self.bse.to_numpy()
        else:
            half = np.where(np.isnan(self.bse.to_numpy()), np.nan, self.distribution.half_width(1.0 - alpha))
        return pd.DataFrame({0: self.values - half, 1: self.values + half}, index=pd.Index(self.terms))

    def moved(self, by: FloatArray) -> "Estimate":
        """Return the estimate with numbers (p,) added to its coefficients."""
        return replace(self, values=self.values + by)

    @property
    def marginal(self) -> "Estimate":
        """The estimate with the distribution of each coefficient's error alone: no contrast has one."""
        return self if self.distribution is None else replace(self, distribution=self.distribution.marginal)

    def linear(self, L: FloatArray, terms: tuple[str, ...], *, values: FloatArray | None = None) -> "Estimate":
        """Return the estimate of ``L beta``, for ``L`` (k, p), named by ``terms``; NaN where it uses a NaN coefficient.

        ``values`` (k,) takes the place of ``L beta`` where ``L`` is the derivative of a function of coefficients.

        Examples
        --------
        >>> estimate = Estimate(
        ...     label="maximum likelihood", terms=("a", "b"), values=np.array([2.0, 0.5]),
        ...     sampling=np.array([[0.04, 0.01], [0.01, 0.04]]), privacy=np.zeros((2, 2)),
        ... )
        >>> difference = estimate.linear(np.array([[1.0, -1.0]]), ("a - b",))
        >>> float(difference.params["a - b"]), round(float(difference.bse["a - b"]), 6)
        (1.5, 0.244949)
        """
        estimated = ~np.isnan(np.diag(self.sampling) + np.diag(self.privacy))
        unknown = (L[:, ~estimated] != 0.0).any(axis=1)
        missing = (L[:, np.isnan(self.values)] != 0.0).any(axis=1)

        def through(covariance: FloatArray) -> FloatArray:
            mapped: FloatArray = L[:, estimated] @ covariance[np.ix_(estimated, estimated)] @ L[:, estimated].T
            mapped[unknown, :] = np.nan
            mapped[:, unknown] = np.nan
            return mapped

        return replace(
            self,
            terms=terms,
            values=np.where(missing, np.nan, L @ np.nan_to_num(self.values)) if values is None else values,
            sampling=through(self.sampling),
            privacy=through(self.privacy),
            distribution=None if self.distribution is None else self.distribution.through(L),
        )

    def noted(self, note: str, *, instead: str) -> "Estimate":
        """Return the estimate with a note before its own, or instead of a certain one."""
        own_note = "" if self.note in (None, instead) else f" {self.note}"
        return replace(self, note=note + own_note)

    def ending(self, words: str) -> "Estimate":
        """Return the estimate with words at the end of its note."""
        return replace(self, note=words if self.note is None else f"{self.note} {words}")

    def without(self, which: BoolArray, *, words: str) -> "Estimate":
        """Return the estimate with NaN for some coefficients (p,); ``words``, with their ``{names}``, end its note."""
        if not which.any():
            return self
        names = ", ".join(term for term, is_left in zip(self.terms, which, strict=True) if is_left)
        blank = which[:, None] | which[None, :]
        return replace(
            self,
            values=np.where(which, np.nan, self.values),
            sampling=np.where(blank, np.nan, self.sampling),
            privacy=np.where(blank, np.nan, self.privacy),
            note=" ".join([*([self.note] if self.note else []), words.format(names=names)]),
        )

    def _series(self, numbers: FloatArray) -> "pd.Series[float]":
        return pd.Series(numbers, index=pd.Index(self.terms), dtype=float)

    def _frame(self, matrix: FloatArray) -> pd.DataFrame:
        return pd.DataFrame(matrix, index=pd.Index(self.terms), columns=pd.Index(self.terms))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CochranQ:
    """A statistic of heterogeneity, its degrees of freedom, and its p-value, at least 1 / 4001: that of the draws.

    Of what is not compared the statistic and the p-value are NaN, with 0 degrees of freedom.
    """

    statistic: Annotated[float, NAN_IS_NULL]
    df: int
    pvalue: Annotated[float, NAN_IS_NULL]

    @property
    def i2(self) -> float:
        """The share of the statistic beyond what is expected where sites agree, from 0 to 1."""
        return 1.0 - self.df / self.statistic if self.statistic > self.df else 0.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Heterogeneity:
    """Whether sources agree in all coefficients, and in each of them by itself (in the order of the terms)."""

    overall: CochranQ
    by_term: tuple[CochranQ, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteEstimate:
    """One site's private-only estimate, and its weight in the private estimate of all sites: from 0 to 1, 1 in sum."""

    estimate: Estimate
    weight: float


COUNTS, NAMED = 0.1, 3
"""The least share of the public fit in a pooled coefficient that a summary names, and of how many terms."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """The estimates of a fit; `chosen` is what a result reports.

    ``penalised`` is the public fit that pooling takes: a mode under a weak prior, and no maximum-likelihood fit.
    ``private_only`` is that of all sites together; ``sites`` are each site's own, in the order they were given;
    ``heterogeneity`` says whether they agree, where there are several and errors are known; ``disagreement`` whether
    private and public coefficients do, where both are known. ``public_shares`` (p,), from 0 to 1, are the public fit's
    shares in the information on pooled coefficients (`hdpstats.inference.sandwich.public_shares`); None without a
    pooled estimate that was drawn. They are not kept in files, where the note of the pooled estimate names them.
    """

    penalised: Estimate | None
    private_only: Estimate
    pooled: Estimate | None
    sites: tuple[SiteEstimate, ...] = ()
    heterogeneity: Heterogeneity | None = None
    disagreement: Heterogeneity | None = None
    public_shares: FloatArray | None = None

    @property
    def alone(self) -> "Estimates":
        """The private estimates, without anything that rests on the public fit."""
        return replace(self, penalised=None, pooled=None, disagreement=None, public_shares=None)

    def with_sites_of(self, other: "Estimates") -> "Estimates":
        """Return the estimates with each site's own of others, and with whether these agree."""
        pairs = zip(self.sites, other.sites, strict=True)
        sites = tuple(replace(own, estimate=theirs.estimate) for own, theirs in pairs)
        return replace(self, sites=sites, heterogeneity=other.heterogeneity)

    def moved(self, by: FloatArray) -> "Estimates":
        """Return the estimates with numbers (p,) added to their coefficients: an outcome's shift."""
        public, pooled = (
            None if estimate is None else estimate.moved(by) for estimate in (self.penalised, self.pooled)
        )
        return replace(
            self,
            penalised=public,
            private_only=self.private_only.moved(by),
            pooled=pooled,
            sites=tuple(replace(site, estimate=site.estimate.moved(by)) for site in self.sites),
        )

    def noted(self, note: str, *, instead: str) -> "Estimates":
        """Return the estimates of private records with a note before their own, or instead of a certain one."""
        return replace(
            self,
            private_only=self.private_only.noted(note, instead=instead),
            pooled=None if self.pooled is None else self.pooled.noted(note, instead=instead),
            sites=tuple(replace(site, estimate=site.estimate.noted(note, instead=instead)) for site in self.sites),
        )

    @property
    def share_words(self) -> str | None:
        """How much the public fit counts in pooled coefficients, in words; None below `COUNTS` and without pooling.

        Coefficients that are NaN are not named.
        """
        if self.pooled is None or self.public_shares is None:
            return None
        pairs = [
            (float(share), term)
            for share, value, term in zip(self.public_shares, self.pooled.values, self.pooled.terms, strict=True)
            if share >= COUNTS and np.isfinite(value)
        ]
        if not pairs:
            return None
        named = ", ".join(f"{term} {share:.0%}" for share, term in sorted(pairs, key=lambda pair: -pair[0])[:NAMED])
        more = f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
        return f"Pooled coefficients have these shares of their information from the public fit: {named}{more}."

    def ending(self, words: str) -> "Estimates":
        """Return the estimates of private records with words at the end of their notes."""
        return replace(
            self,
            private_only=self.private_only.ending(words),
            pooled=None if self.pooled is None else self.pooled.ending(words),
        )

    def without(self, which: BoolArray, *, words: str) -> "Estimates":
        """Return the estimates of private records with NaN for some coefficients (p,); see `Estimate.without`."""
        return replace(
            self,
            private_only=self.private_only.without(which, words=words),
            pooled=None if self.pooled is None else self.pooled.without(which, words=words),
            sites=tuple(replace(site, estimate=site.estimate.without(which, words=words)) for site in self.sites),
        )

    @property
    def chosen(self) -> Estimate:
        """The pooled estimate where there is one, else the private one."""
        return self.pooled if self.pooled is not None else self.private_only


class HasCoefficients:
    """What has an `estimate`, and shows its coefficients in statsmodels' words."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def estimate(self) -> Estimate:
            """Coefficients with their uncertainty."""

    @property
    def params(self) -> "pd.Series[float]":
        """The coefficients by term."""
        return self.estimate.params

    @property
    def bse(self) -> "pd.Series[float]":
        """Standard errors of the coefficients: sampling and privacy noise together."""
        return self.estimate.bse

    @property
    def tvalues(self) -> "pd.Series[float]":
        """Coefficients over standard errors."""
        return self.estimate.tvalues

    @property
    def pvalues(self) -> "pd.Series[float]":
        """Two-sided p-values for a zero coefficient."""
        return self.estimate.pvalues

    @property
    def cov_sampling(self) -> pd.DataFrame:
        """Covariance of the coefficients due to sampling (p, p)."""
        return self.estimate.cov_sampling

    @property
    def cov_privacy(self) -> pd.DataFrame:
        """Covariance of the coefficients due to privacy noise (p, p); zero for a public fit."""
        return self.estimate.cov_privacy

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients (p, p): ``cov_sampling + cov_privacy``."""
        return self.estimate.cov_params()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return confidence limits of level ``1 - alpha``, columns 0 and 1; ``alpha`` in [0.001, 0.999]."""
        return self.estimate.conf_int(alpha)

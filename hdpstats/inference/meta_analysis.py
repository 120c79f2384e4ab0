r"""Estimates of several sites in one: by inverse variance, with variances between sites, and from their spread alone.

Site ``i`` gives an estimate :math:`\theta_i` of ``p`` parameters with a covariance :math:`V_i` (sampling and privacy
noise). Its own parameters are taken to be the common ones plus :math:`u_i`, of covariance :math:`T =
\mathrm{diag}(\tau_1^2, \dots, \tau_p^2)`; where sites are taken to be alike, :math:`T = 0`. The combination is

.. math:: \hat\theta = \sum_i W_i \theta_i, \qquad W_i = \Bigl( \sum_j (V_j + T)^{-1} \Bigr)^{-1} (V_i + T)^{-1},

with the covariance :math:`\sum_i W_i (V_i + T) W_i'`. Sites of one size and one epsilon have :math:`W_i = 1 / M`: the
mean over parties of Chen and Sung. A combination of combinations is the combination of all of them, if :math:`T = 0`.

**What all sites have in common**, the allowance for weights of people (`hdpstats.public.row_weights`), is a part
:math:`L_i x` of the error with one standard normal ``x``. It is taken off :math:`V_i`, so that it is in no weight and
no statistic of heterogeneity, and :math:`L L'` with :math:`L = \sum_i W_i L_i` is added to the covariance once: where
:math:`L_i` is the same everywhere, it stays what it is however many sites there are.

**Variances between sites.** For a term alone, with :math:`w_i = 1 / (v_i + \tau^2)`, the weighted sum of squares
:math:`Q(\tau^2) = \sum_i w_i (\theta_i - \bar\theta)^2` has the mean ``M - 1`` at the true :math:`\tau^2`. Paule and
Mandel (1982) solve that equation; DerSimonian and Laird (1986) compare :math:`Q(0)` with its mean. Several groups that
share one :math:`\tau^2` add up their ``Q`` and their ``M - 1``.

**Intervals from the spread alone.** With weights that add up to 1, the same for all terms or not,

.. math:: s^2 = \frac{1}{M - 1} \sum_i w_i (\theta_i - \hat\theta)^2

estimates the variance of :math:`\hat\theta` where the weights are in proportion to one over the variances, whatever
the factor: then :math:`(\hat\theta - \theta) / s` follows Student's distribution with ``M - 1`` degrees of freedom, if
estimates are normal (Hartung and Knapp 2001; Sidik and Jonkman 2002). With equal weights it is the one-sample t
interval. It needs no model of the variance within a site, and privacy noise is in it without being mentioned.

**Intervals from an estimated variance between sites.** With :math:`w_i = 1 / (v_i + \tau^2)` and an estimate of
:math:`\tau^2` from few sites, normal limits at the variance :math:`1 / \sum_i w_i` are too narrow. Instead that is
multiplied by :math:`\max(1, q)`, where :math:`q = Q(\tau^2) / (M - 1)` is 1 at Paule and Mandel's estimate unless
that is 0, and limits are Student's with ``M - 1`` degrees of freedom (Knapp and Hartung 2003). Their quantiles are
never below those that the combination with :math:`\tau^2 = 0` has by its model.

**Do the sites agree?** Cochran's Q, with the noise that is known counted, and its distribution drawn. With private-only
estimates :math:`u_j` of ``k`` sites, their covariances :math:`V_j` (sampling and noise) and the inverse-variance mean
:math:`u`,

.. math:: Q = \sum_j (u_j - u)' V_j^{-1} (u_j - u)

has, where all sites have the same coefficients and errors are normal and independent, a chi-square distribution with
``(k - 1) D`` degrees of freedom (Cochran 1954). Errors of private estimates are neither: K-norm noise has heavier
tails, and what public rows do not tell of the curvature moves all sites. So p-values are from drawn errors, the
statistic computed for each draw; :math:`I^2 = (Q - df) / Q` is the share of it that chance does not explain (Higgins
and Thompson 2002).

References
----------
R. C. Paule, J. Mandel (1982), Consensus values and weighting factors. R. DerSimonian, N. Laird (1986), Meta-analysis in
clinical trials. J. Hartung, G. Knapp (2001), On tests of the overall treatment effect in meta-analysis with normally
distributed responses. K. Sidik, J. N. Jonkman (2002), A simple confidence interval for meta-analysis. G. Knapp,
J. Hartung (2003), Improved tests for a random effects meta-regression with a single covariate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import scipy
from scipy.special import ndtr, ndtri, stdtrit

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.records.estimate import CochranQ, ErrorDistribution, Estimate, Heterogeneity

DRAWS = 10_000

BETWEEN: Final = ("paule_mandel", "dersimonian_laird")
"""How the variance between sites is estimated."""


MOST_COMMON: Final = 0.95
"""The largest share of a variance that is taken to be common to all sites."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SiteSummary:
    """An estimate to be combined with others.

    Attributes
    ----------
    values : (p,) float64
        The parameters.
    sampling, privacy : (p, p) float64
        Covariance due to sampling (what separates sites included), and to privacy noise.
    errors : (B, p) float64 or None
        Draws of the error; None stands for the normal distribution.
    """

    values: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    errors: FloatArray | None

    @property
    def covariance(self) -> FloatArray:
        """Sampling and noise (p, p)."""
        return self.sampling + self.privacy

    @property
    def variances(self) -> FloatArray:
        """The diagonal (p,)."""
        return np.diag(self.covariance)

    def apart(self, between: FloatArray, rng: draws.Generator) -> "SiteSummary":
        """Return the estimate as one of the common parameters, from which the site's own have variances (p,)."""
        spread = np.diag(between)
        errors = None if self.errors is None else self.errors + draws.normal(rng, spread, len(self.errors))
        return replace(self, sampling=self.sampling + spread, errors=errors)

    def without(self, common: FloatArray | None) -> "SiteSummary":
        """Return the estimate without a part ``L x`` of its error that all sites have in common (p, p).

        What is drawn keeps its shape. Covariances may themselves be from draws: no direction loses more than
        `MOST_COMMON` of its variance.
        """
        if common is None:
            return self
        root = np.linalg.cholesky(self.covariance)
        within: FloatArray = np.linalg.solve(root, common)
        vectors, values, _ = np.linalg.svd(within)
        off = root @ vectors * np.minimum(values**2, MOST_COMMON) @ vectors.T @ root.T
        left = 1.0 - np.diag(off) / self.variances
        errors = None if self.errors is None else self.errors * np.sqrt(left)
        return replace(self, privacy=self.privacy - off, errors=errors)

    def with_common(self, common: FloatArray | None, rng: draws.Generator) -> "SiteSummary":
        """Return the estimate with that part (p, p), due to privacy."""
        if common is None:
            return self
        covariance = common @ common.T
        errors = None if self.errors is None else self.errors + draws.normal(rng, covariance, len(self.errors))
        return replace(self, privacy=self.privacy + covariance, errors=errors)


def part_of(estimate: Estimate, rng: draws.Generator) -> SiteSummary:
    """Return an estimate as a part.

    Its distribution tells quantiles of each coordinate's error, not how coordinates go together: errors are drawn with
    these quantiles and the dependence of a normal distribution of the same correlations.
    """
    covariance = estimate.sampling + estimate.privacy
    part = SiteSummary(values=estimate.values, sampling=estimate.sampling, privacy=estimate.privacy, errors=None)
    if estimate.distribution is None:
        return part
    scale = np.sqrt(np.diag(covariance))
    standard = draws.normal(rng, covariance / np.outer(scale, scale), DRAWS)
    levels = 2.0 * ndtr(np.abs(standard)) - 1.0
    distribution = zip(levels.T, estimate.distribution.quantiles.T, strict=True)
    sizes = np.column_stack(
        [np.interp(level, estimate.distribution.levels, quantiles) for level, quantiles in distribution]
    )
    return replace(part, errors=np.sign(standard) * sizes)


def all_drawn(parts: Sequence[SiteSummary], rng: draws.Generator) -> list[SiteSummary]:
    """Return parts of which none, or all, have draws of their errors."""
    if all(part.errors is None for part in parts):
        return list(parts)
    return [
        part if part.errors is not None else replace(part, errors=draws.normal(rng, part.covariance, DRAWS))
        for part in parts
    ]


def combined(parts: Sequence[SiteSummary], *, weights: FloatArray) -> SiteSummary:
    """Return the sum of independent parts by weights (k, p, p) that add up to the identity."""

    def through(covariances: list[FloatArray]) -> FloatArray:
        return np.asarray(np.einsum("kij,kjl,kml->im", weights, np.array(covariances), weights))

    drawn = [part.errors for part in parts if part.errors is not None]
    errors = sum(np.asarray(each @ weight.T) for each, weight in zip(drawn, weights, strict=True)) if drawn else None
    return SiteSummary(
        values=np.einsum("kij,kj->i", weights, np.array([part.values for part in parts])),
        sampling=through([part.sampling for part in parts]),
        privacy=through([part.privacy for part in parts]),
        errors=None if errors is None else np.asarray(errors),
    )


def between_variances(values: Sequence[FloatArray], variances: Sequence[FloatArray], *, method: str) -> FloatArray:
    """Return the variance ``tau^2`` (p,) of each term that sites of one group have around the group's own value.

    Parameters
    ----------
    values, variances : sequences of (k, p) float64
        For each group of sites, their estimates and the variances of those. All groups share ``tau^2``.
    method : {"paule_mandel", "dersimonian_laird"}
        See the module.

    Examples
    --------
    >>> values, variances = [np.array([[0.0], [4.0]])], [np.ones((2, 1))]
    >>> between_variances(values, variances, method="paule_mandel").round(6).tolist()
    [7.0]
    """
    solve = _paule_mandel if method == "paule_mandel" else _dersimonian_laird
    terms = range(np.shape(values[0])[1])
    groups = list(zip(values, variances, strict=True))
    return np.array([solve([(value[:, j], variance[:, j]) for value, variance in groups]) for j in terms])


_Groups = list[tuple[FloatArray, FloatArray]]


def scatter(values: FloatArray, variances: FloatArray) -> FloatArray:
    """Return ``Q``: weighted squares about the weighted mean, summed over the first axis (k, ...)."""
    weights = 1.0 / variances
    mean = (weights * values).sum(axis=0) / weights.sum(axis=0)
    return np.asarray((weights * (values - mean) ** 2).sum(axis=0))


def _paule_mandel(groups: _Groups) -> float:
    """Return the root of ``Q(tau^2) = M - 1``, which falls from ``Q(0)`` and is below squares over ``tau^2``."""
    degrees = sum(len(values) - 1 for values, _ in groups)

    def excess(square: float) -> float:
        return float(sum(scatter(values, variances + square) for values, variances in groups)) - degrees

    if excess(0.0) <= 0.0:
        return 0.0
    largest = sum(float(np.sum((values - values.mean()) ** 2)) for values, _ in groups) / degrees
    return float(scipy.optimize.brentq(excess, 0.0, largest, xtol=1e-12 * largest, rtol=1e-10))


def _dersimonian_laird(groups: _Groups) -> float:
    """Return the excess of ``Q(0)`` over its mean without a variance between, divided by what ``tau^2`` adds to it."""
    excess = sum(float(scatter(values, variances)) - (len(values) - 1) for values, variances in groups)
    per_square = sum(
        float(np.sum(1.0 / variances) - np.sum(variances**-2.0) / np.sum(1.0 / variances)) for _, variances in groups
    )
    return max(0.0, excess / per_square)


def spread_variance(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``s^2`` (p,), the variance of the weighted mean of values (k, p), from their spread alone.

    ``weights`` (k, p) need not add up to 1.

    Examples
    --------
    >>> spread_variance(np.array([[0.0], [2.0], [4.0]]), np.ones((3, 1))).round(6).tolist()  # 4 / 3
    [1.333333]
    """
    share = weights / weights.sum(axis=0)
    mean = (share * values).sum(axis=0)
    return np.asarray((share * (values - mean) ** 2).sum(axis=0) / (len(values) - 1.0))


def student(scale: FloatArray, *, degrees: int) -> ErrorDistribution:
    """Return the distribution of ``|error|`` (p,) that Student's distribution of a scale has."""
    levels = np.concatenate([np.linspace(0.0, 0.99, 397), 1.0 - np.geomspace(0.01, 1e-6, 120)[1:]])
    return ErrorDistribution(levels=levels, quantiles=np.outer(stdtrit(float(degrees), 0.5 + levels / 2.0), scale))


def from_spread(
    part: SiteSummary,
    variances: FloatArray,
    *,
    label: str,
    terms: tuple[str, ...],
    degrees: int,
    common: FloatArray | None = None,
    alike: Estimate | None = None,
) -> Estimate:
    """Return a combination whose variances (p,) came from the spread of the sites.

    Correlations, and which share of a variance is privacy noise, are those of the model. What sites have in common
    (p, p) is in no spread: it is added, and counts as if it had Student's distribution too, whose tails are heavier.
    No quantile of the error is below that of ``alike``, an estimate of the same terms, where one is given.
    """
    shared = np.zeros_like(part.privacy) if common is None else common @ common.T
    stretch = np.sqrt(variances / part.variances)
    factor = np.outer(stretch, stretch)
    distribution = student(np.sqrt(variances + np.diag(shared)), degrees=degrees)
    return Estimate(
        label=label,
        terms=terms,
        values=part.values,
        sampling=part.sampling * factor,
        privacy=part.privacy * factor + shared,
        distribution=distribution if alike is None else _no_less(distribution, alike),
    )


def _no_less(distribution: ErrorDistribution, than: Estimate) -> ErrorDistribution:
    """Return the distribution with quantiles that are no smaller than those of an estimate's error."""
    levels, own = distribution.levels, than.distribution
    if own is None:
        least = np.outer(ndtri(0.5 + levels / 2.0), than.bse.to_numpy())
    else:
        least = np.column_stack([np.interp(levels, own.levels, column) for column in own.quantiles.T])
    return replace(distribution, quantiles=np.maximum(distribution.quantiles, least))


def from_model(part: SiteSummary, *, label: str, terms: tuple[str, ...]) -> Estimate:
    """Return a combination whose variances are those of its parts."""
    return Estimate(
        label=label,
        terms=terms,
        values=part.values,
        sampling=part.sampling,
        privacy=part.privacy,
        distribution=None if part.errors is None else ErrorDistribution.of_draws(part.errors).marginal,
    )


def heterogeneity(
    estimates: FloatArray, variances: Sequence[FloatArray], errors: FloatArray, *, T: FloatArray
) -> Heterogeneity:
    """Return Cochran's Q of several sites.

    Parameters
    ----------
    estimates : (k, D) float64
        Each site's coefficients in whitened coordinates.
    variances : k times (D, D) float64
        Their covariances: from public facts and releases only.
    errors : (k, B, D) float64
        Joint draws of their errors.
    T : (p, D) float64
        From whitened coefficients to those that are tabulated.
    """
    precisions = np.linalg.inv(np.array(variances))
    statistic, by_chance = _statistic(estimates[:, None, :], precisions), _statistic(errors, precisions)
    overall = _tested(statistic, by_chance, df=(len(estimates) - 1) * estimates.shape[1])
    own = np.array([np.diag(T @ each @ T.T) for each in variances])[:, None]
    statistic, by_chance = scatter((estimates @ T.T)[:, None], own), scatter(errors @ T.T, own)
    by_term = tuple(_tested(statistic[:, t], by_chance[:, t], df=len(estimates) - 1) for t in range(len(T)))
    return Heterogeneity(overall=overall, by_term=by_term)


def agreement(parts: Sequence[SiteSummary]) -> tuple[CochranQ, ...]:
    """Return Cochran's Q of each parameter by itself, of independent parts of which all or none have drawn errors.

    Its distribution is that of the draws; without any it is chi-square.
    """
    values, variances = (np.array(each) for each in zip(*((p.values, p.variances) for p in parts), strict=True))
    found, df = scatter(values, variances), len(parts) - 1
    drawn = [part.errors for part in parts if part.errors is not None]
    if not drawn:
        return tuple(
            CochranQ(statistic=float(each), df=df, pvalue=float(scipy.special.chdtrc(df, each))) for each in found
        )
    by_chance = scatter(np.array(drawn), variances[:, None])
    return tuple(_tested(found[t : t + 1], by_chance[:, t], df=df) for t in range(len(found)))


def _tested(found: FloatArray, by_chance: FloatArray, *, df: int) -> CochranQ:
    """Return Q (1,), and how often that of errors alone (B,) is as much."""
    exceeded = 1 + np.count_nonzero(by_chance >= found[0])
    return CochranQ(statistic=float(found[0]), df=df, pvalue=float(exceeded / (len(by_chance) + 1)))


def _statistic(values: FloatArray, precisions: FloatArray) -> FloatArray:
    """Return Q (B,) of values (k, B, D) with precisions (k, D, D)."""
    weighted = values @ np.swapaxes(precisions, 1, 2)
    mean = weighted.sum(axis=0) @ np.linalg.inv(precisions.sum(axis=0)).T
    return np.asarray(np.einsum("kbd,kbd->b", weighted, values - mean))

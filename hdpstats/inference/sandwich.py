r"""Standard errors of released points: a noise-convolved sandwich by Monte Carlo, for one site or several.

A site's released point solves ``s(theta) + Lambda (theta - c) + b = 0`` with ``s`` the private score. Linearised,

.. math:: \hat\theta - \theta_0 = -(H + \Lambda)^{-1}\{S + b + \Lambda(\theta_0 - c)\}, \qquad S \sim N(0, J).

The ridge is taken out (it is known): :math:`u = \hat\theta + \hat H^{-1}\Lambda(\hat\theta - c)` is the
*private-only* estimate, with error about :math:`-H^{-1}(S + b)`. Those of several sites are combined by inverse
variances (`hdpstats.inference.combination`). Where there is a public fit ``u`` is pooled with it as in a random-effects
meta-analysis (DerSimonian and Laird 1986),

.. math:: u - \theta_{pub} \sim N(0,\; V_u + V_{pub} + T),

with :math:`T`, what separates the sources, by maximum likelihood (`hdpstats.inference.combination`), so that public
records that differ from the private ones lose their say. Unshrinking errs where ``H`` does, in proportion to what the
ridge pulled: that distance is drawn given all sources.

The distribution of the errors is drawn, not assumed normal: ``b`` from the exact distribution of the mechanism, ``S``
normal, ``H`` and ``J`` from what is known of them (`hdpstats.inference.information`; they are estimates too). Several
sites' errors are drawn jointly. Scores and noises are each site's own and average out. The weighting of the public rows
that all curvatures rest on and the pull :math:`\theta_0 - c` are the same at all sites; so what unshrinking misses is
missed everywhere alike, and would not average out over a thousand sites. Everything here is post-processing of released
and public numbers. Coverage is measured in ``vignettes/validation``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.progress import progress
from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.across_sites import Heterogeneity, heterogeneity
from hdpstats.inference.combination import Combined, InformedPoint, combine_points, scalar_weight, weighted
from hdpstats.inference.information import draw_jointly
from hdpstats.public.moments import PublicFit
from hdpstats.records.estimate import ErrorDistribution, Estimate

DRAWS = 4000
CHUNK = 500


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteEstimate:
    """One site's private-only estimate, and its weight in the private estimate of all sites: from 0 to 1, 1 in sum."""

    estimate: Estimate
    weight: float

    def moved(self, by: FloatArray) -> "SiteEstimate":
        """Return the same with numbers (p,) added to the coefficients."""
        return replace(self, estimate=_moved(self.estimate, by))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """The three estimates of a fit; `chosen` is what a result reports.

    ``private_only`` is that of all sites together; ``sites`` are each site's own, in the order they were given;
    ``heterogeneity`` says whether they agree, where there are several and errors are known.
    """

    public_only: Estimate | None
    private_only: Estimate
    pooled: Estimate | None
    sites: tuple[SiteEstimate, ...] = ()
    heterogeneity: Heterogeneity | None = None

    def moved(self, by: FloatArray) -> "Estimates":
        """Return the estimates with numbers (p,) added to their coefficients: an outcome's shift."""
        public, pooled = (None if each is None else _moved(each, by) for each in (self.public_only, self.pooled))
        return replace(
            self,
            public_only=public,
            private_only=_moved(self.private_only, by),
            pooled=pooled,
            sites=tuple(each.moved(by) for each in self.sites),
        )

    @property
    def chosen(self) -> Estimate:
        """The pooled estimate where there is one, else the private one."""
        return self.pooled if self.pooled is not None else self.private_only


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Errors:
    """Draws of an error (B, D), in two independent parts."""

    sampling: FloatArray
    privacy: FloatArray

    @property
    def whole(self) -> FloatArray:
        """Their sum."""
        return self.sampling + self.privacy


def combine(
    sites: Sequence[InformedPoint],
    *,
    fit: PublicFit | None,
    T: FloatArray,
    terms: tuple[str, ...],
    note: str | None = None,
    notes: Sequence[str | None] = (),
) -> Estimates:
    """Return the private-only estimate and, where there is a public fit, the public-only and the pooled one.

    ``T`` (p, D) maps whitened coefficients to those that ``terms`` (p) name; ``notes`` are of each site's estimate.
    """
    found = combine_points(sites, fit)
    own, apart = _errors(sites, fit, found)
    error = _Errors(
        sampling=weighted(found.shares, [each.sampling for each in own]),
        privacy=weighted(found.shares, [each.privacy for each in own]),
    )
    private = _estimate("private only", terms, found.private, T, error, note)
    alone = (
        [private]
        if len(sites) == 1
        else [
            _estimate("private only", terms, theta, T, each, words)
            for theta, each, words in zip(found.unshrunk, own, notes, strict=True)
        ]
    )
    pooled = None if fit is None else _estimate("pooled", terms, found.pooled, T, _pooled(error, apart, found), note)
    return Estimates(
        public_only=None if fit is None else public_only(fit, T, terms=terms),
        private_only=private,
        pooled=pooled,
        sites=tuple(
            SiteEstimate(estimate=each, weight=scalar_weight(share))
            for each, share in zip(alone, found.shares, strict=True)
        ),
        heterogeneity=None
        if len(sites) == 1
        else heterogeneity(np.array(found.unshrunk), found.variances, np.array([each.whole for each in own]), T=T),
    )


def public_only(fit: PublicFit, T: FloatArray, *, terms: tuple[str, ...]) -> Estimate:
    """Return the public fit (a posterior mode under a weak prior) in the design's coordinates."""
    covariance = T @ fit.covariance @ T.T
    return Estimate(
        label="public only",
        terms=terms,
        values=T @ fit.theta,
        sampling=covariance,
        privacy=np.zeros_like(covariance),
    )


def _errors(sites: Sequence[InformedPoint], fit: PublicFit | None, found: Combined) -> tuple[list[_Errors], FloatArray]:
    """Return joint draws of the sites' errors, and of how the public fit errs (B, D), in whitened coordinates."""
    rng = draws.generator(*(each.part.release.sha256 for each in sites))
    chunks = [_chunk(rng, sites, fit, found) for _ in progress(range(DRAWS // CHUNK), label="standard errors")]
    own = [
        _Errors(
            sampling=np.concatenate([errors[j].sampling for errors, _ in chunks]),
            privacy=np.concatenate([errors[j].privacy for errors, _ in chunks]),
        )
        for j in range(len(sites))
    ]
    return own, np.concatenate([apart for _, apart in chunks])


def _chunk(
    rng: draws.Generator, sites: Sequence[InformedPoint], fit: PublicFit | None, found: Combined
) -> tuple[list[_Errors], FloatArray]:
    """Return some of the draws: what is known of curvatures, scores and noises, the pull, the public error."""
    identity = np.eye(len(found.pooled))
    drawn = draw_jointly(rng, [each.information for each in sites], theta=found.pooled, count=CHUNK)
    moved = [(draws.normals(rng, at.J), each.part.noise.draw(rng, at.H)) for each, at in zip(sites, drawn, strict=True)]
    truth = _truth(rng, fit, found)
    errors = []
    for j, (each, (score, noise)) in enumerate(zip(sites, moved, strict=True)):
        ridge = each.part.ridge
        back = identity + ridge * np.linalg.inv(found.at[j].H)
        pulled = found.pooled - each.part.centre + truth
        solve = np.linalg.inv(drawn[j].H + ridge * identity)
        sampled = -np.einsum("bij,bj->bi", solve, score + ridge * pulled)
        noised = -np.einsum("bij,bj->bi", solve, noise)
        errors.append(_Errors(sampling=sampled @ back.T + pulled @ (back - identity).T, privacy=noised @ back.T))
    apart = np.zeros_like(truth) if fit is None else draws.normal(rng, fit.covariance + found.between, CHUNK)
    return errors, apart


def _truth(rng: draws.Generator, fit: PublicFit | None, found: Combined) -> FloatArray:
    """Return draws of how far ``theta_0`` is from the pooled point, given all sources: where the ridges shrank from.

    Where ``H`` is not what it was taken to be, unshrinking errs in proportion to it.
    """
    if fit is None:
        return np.zeros((CHUNK, len(found.pooled)))
    left = (np.eye(len(found.pooled)) - found.weight) @ (fit.covariance + found.between)
    return draws.normal(rng, 0.5 * (left + left.T), CHUNK)


def _pooled(error: _Errors, apart: FloatArray, found: Combined) -> _Errors:
    """Return draws of the pooled estimate's error."""
    K = found.weight
    return _Errors(sampling=-apart + (error.sampling + apart) @ K.T, privacy=error.privacy @ K.T)


def _moved(estimate: Estimate, by: FloatArray) -> Estimate:
    return replace(estimate, values=estimate.values + by)


def _estimate(
    label: str, terms: tuple[str, ...], theta: FloatArray, T: FloatArray, error: _Errors, note: str | None
) -> Estimate:
    sampling, privacy = error.sampling @ T.T, error.privacy @ T.T
    return Estimate(
        label=label,
        terms=terms,
        values=T @ theta,
        sampling=_covariance(sampling),
        privacy=_covariance(privacy),
        distribution=ErrorDistribution.of_draws(sampling + privacy),
        note=note,
    )


def _covariance(error: FloatArray) -> FloatArray:
    """Return second moments about zero: the error's bias counts."""
    return np.asarray(error.T @ error / len(error))

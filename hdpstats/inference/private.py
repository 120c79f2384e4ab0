r"""Standard errors of objective perturbation: a noise-convolved sandwich by Monte Carlo.

The released point solves ``s(theta) + Lambda (theta - c) + b = 0`` with ``s`` the private score. Linearised,

.. math:: \hat\theta - \theta_0 = -(H + \Lambda)^{-1}\{S + b + \Lambda(\theta_0 - c)\}, \qquad S \sim N(0, J).

The ridge is taken out (it is known): :math:`u = \hat\theta + \hat H^{-1}\Lambda(\hat\theta - c)` is the
*private-only* estimate, with error about :math:`-H^{-1}(S + b)`. It is pooled with the public fit as in a
random-effects meta-analysis (DerSimonian and Laird 1986): :math:`u - \theta_{pub} \sim N(0, V_u + V_{pub} +
\tau^2 I)` with :math:`\tau` by maximum likelihood, so that public records that differ from the private ones
lose their say.

The law of the errors is drawn, not assumed normal: ``b`` from the exact law of the mechanism, ``S`` normal,
``H`` and ``J`` from public rows under the Bayesian bootstrap (they are estimates too), ``theta_0 - c`` from the
public fit. Everything here is post-processing of released and public numbers. Coverage is measured in
``vignettes/validation``.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.progress import progress
from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.estimate import ErrorLaw, Estimate
from hdpstats.losses import Loss
from hdpstats.mechanisms.objective import perturbation_variance
from hdpstats.protocols.moments import Moments, moments
from hdpstats.protocols.public import WhitenedPublic
from hdpstats.queries import ObjectiveQuery, ObjectiveRelease

DRAWS = 4000
CHUNK = 500
BETWEEN = np.concatenate([[0.0], np.geomspace(1e-4, 30.0, 80)])
"""Candidate values of the between-sources variance, in whitened coordinates."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """The three estimates of one release; `chosen` is what a result reports."""

    public_only: Estimate | None
    private_only: Estimate
    pooled: Estimate | None

    @property
    def chosen(self) -> Estimate:
        """The pooled estimate where there is one, else the private one."""
        return self.pooled if self.pooled is not None else self.private_only


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Centre:
    """Point estimates in whitened coordinates, and what they were computed with."""

    at: Moments
    unshrunk: FloatArray
    pooled: FloatArray
    weight: FloatArray
    between: float


def estimates(
    query: ObjectiveQuery, release: ObjectiveRelease, public: WhitenedPublic, loss: Loss, *, terms: tuple[str, ...]
) -> Estimates:
    """Return the estimates of a release whose geometry came from public rows (``public`` at the query's radius)."""
    theta, ridge = np.array(release.theta), float(query.ridge)
    noise = perturbation_variance(query.geometry, rate=release.noise_rate)
    centre = _centre(theta, ridge, noise, public, loss, records=release.records)
    error, error_pooled = _errors(query, release, public, loss, centre)
    T = query.geometry.to_raw()
    private = _estimate("private only", terms, T @ centre.unshrunk, T, error)
    if public.fit is None:
        return Estimates(public_only=None, private_only=private, pooled=None)
    return Estimates(
        public_only=public_only(public, terms=terms),
        private_only=private,
        pooled=_estimate("pooled", terms, T @ centre.pooled, T, error_pooled),
    )


def public_only(public: WhitenedPublic, *, terms: tuple[str, ...]) -> Estimate | None:
    """Return the public fit (a posterior mode under a weak prior) in the design's coordinates."""
    if public.fit is None:
        return None
    T = public.geometry.to_raw()
    covariance = T @ public.fit.covariance @ T.T
    return Estimate(
        label="public only",
        terms=terms,
        values=T @ public.fit.theta,
        sampling=covariance,
        privacy=np.zeros_like(covariance),
    )


def unshrink(theta: FloatArray, *, centre: FloatArray, ridge: float, H: FloatArray) -> FloatArray:
    """Return ``theta + H^-1 Lambda (theta - c)``."""
    return theta + np.linalg.solve(H, ridge * (theta - centre))


def between_variance(difference: FloatArray, covariance: FloatArray) -> float:
    """Return the maximum-likelihood ``tau^2`` of ``difference ~ N(0, covariance + tau^2 I)``."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    square = (vectors.T @ difference) ** 2
    spread = np.maximum(eigenvalues, 1e-12)[None, :] + BETWEEN[:, None]
    likelihood = np.sum(np.log(spread) + square[None, :] / spread, axis=1)
    return float(BETWEEN[int(np.argmin(likelihood))])


def _centre(
    theta: FloatArray, ridge: float, noise: FloatArray, public: WhitenedPublic, loss: Loss, *, records: int
) -> _Centre:
    """Unshrink and pool, three times, each time with the moments at the last pooled point."""
    D, n = len(theta), max(records, 1)
    at = moments(public, loss, theta=theta, records=n)
    if public.fit is None:
        u = unshrink(theta, centre=public.centre, ridge=ridge, H=at.H)
        return _Centre(at=at, unshrunk=u, pooled=u, weight=np.eye(D), between=0.0)
    u, pooled, weight, between = theta, theta, np.eye(D), 0.0
    for _ in range(3):
        u = unshrink(theta, centre=public.centre, ridge=ridge, H=at.H)
        inverse = np.linalg.inv(at.H)
        covariance = inverse @ (at.J + np.diag(noise)) @ inverse + public.fit.covariance
        between = between_variance(u - public.fit.theta, covariance)
        prior = public.fit.covariance + between * np.eye(D)
        weight = prior @ np.linalg.inv(covariance + between * np.eye(D))
        pooled = public.fit.theta + weight @ (u - public.fit.theta)
        last, at = at, moments(public, loss, theta=pooled, records=n)
    return _Centre(at=last, unshrunk=u, pooled=pooled, weight=weight, between=between)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Errors:
    """Draws of an error (B, D), in two independent parts."""

    sampling: FloatArray
    privacy: FloatArray


def _errors(
    query: ObjectiveQuery, release: ObjectiveRelease, public: WhitenedPublic, loss: Loss, centre: _Centre
) -> tuple[_Errors, _Errors]:
    """Return draws of the errors of the private-only and of the pooled estimate, in whitened coordinates."""
    rng = draws.generator(release.sha256)
    D, ridge = len(release.theta), float(query.ridge)
    back = np.eye(D) + ridge * np.linalg.inv(centre.at.H)
    parts: list[tuple[FloatArray, ...]] = []
    for _ in progress(range(DRAWS // CHUNK), label="standard errors"):
        rows = draws.dirichlet(rng, len(public.X), CHUNK)
        at = moments(public, loss, theta=centre.pooled, records=max(release.records, 1), row_weights=rows)
        score = draws.normals(rng, at.J)
        noise = draws.perturbation(rng, query.geometry, rate=release.noise_rate, count=CHUNK)
        apart = _distances(rng, public, centre, count=CHUNK)
        solve = np.linalg.inv(at.H + ridge * np.eye(D))
        sampled = -np.einsum("bij,bj->bi", solve, score + ridge * apart)
        noised = -np.einsum("bij,bj->bi", solve, noise)
        parts.append((sampled @ back.T + apart @ (back - np.eye(D)).T, noised @ back.T, apart))
    sampled, noised, apart = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    K = centre.weight
    private = _Errors(sampling=sampled, privacy=noised)
    pooled = _Errors(sampling=-apart + (sampled + apart) @ K.T, privacy=noised @ K.T)
    return private, pooled


def _distances(rng: draws.Generator, public: WhitenedPublic, centre: _Centre, *, count: int) -> FloatArray:
    """Return draws of ``theta_0 - c``: the public fit's error plus the difference between sources."""
    D = public.X.shape[1]
    if public.fit is None:
        return np.tile(centre.unshrunk, (count, 1))
    return draws.normal(rng, public.fit.covariance + centre.between * np.eye(D), count)


def _estimate(
    label: str, terms: tuple[str, ...], values: FloatArray, T: FloatArray, error: _Errors
) -> Estimate:
    sampling, privacy = error.sampling @ T.T, error.privacy @ T.T
    return Estimate(
        label=label,
        terms=terms,
        values=values,
        sampling=_covariance(sampling),
        privacy=_covariance(privacy),
        law=ErrorLaw.of_draws(sampling + privacy),
    )


def _covariance(error: FloatArray) -> FloatArray:
    """Return second moments about zero: the error's bias counts."""
    return np.asarray(error.T @ error / len(error))

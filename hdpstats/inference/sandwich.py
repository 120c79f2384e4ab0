r"""Standard errors of objective perturbation: a noise-convolved sandwich by Monte Carlo.

The released point solves ``s(theta) + Lambda (theta - c) + b = 0`` with ``s`` the private score. Linearised,

.. math:: \hat\theta - \theta_0 = -(H + \Lambda)^{-1}\{S + b + \Lambda(\theta_0 - c)\}, \qquad S \sim N(0, J).

The ridge is taken out (it is known): :math:`u = \hat\theta + \hat H^{-1}\Lambda(\hat\theta - c)` is the
*private-only* estimate, with error about :math:`-H^{-1}(S + b)`. Where there is a public fit it is pooled with
it as in a random-effects meta-analysis (DerSimonian and Laird 1986),

.. math:: u - \theta_{pub} \sim N(0,\; V_u + V_{pub} + T),

with :math:`T`, what separates the sources, by maximum likelihood (`hdpstats.protocols.pooling`), so that public records
that differ from the private ones lose their say. Unshrinking errs where ``H`` does, in proportion to what the ridge
pulled: that distance is drawn given both sources.

The law of the errors is drawn, not assumed normal: ``b`` from the exact law of the mechanism, ``S`` normal,
``H`` and ``J`` from what is known of them (`hdpstats.inference.information`; they are estimates too). Everything here
is post-processing of released and public numbers. Coverage is measured in ``vignettes/validation``.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.progress import progress
from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.estimate import ErrorLaw, Estimate
from hdpstats.inference.information import Information
from hdpstats.inference.noise import ScoreNoise
from hdpstats.protocols.moments import Moments, PublicFit
from hdpstats.protocols.pooling import between_covariance
from hdpstats.queries import PointQuery, PointRelease

DRAWS = 4000
CHUNK = 500


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """The three estimates of one release; `chosen` is what a result reports."""

    public_only: Estimate | None
    private_only: Estimate
    pooled: Estimate | None

    def moved(self, by: FloatArray) -> "Estimates":
        """Return the estimates with numbers (p,) added to their coefficients: an outcome's shift."""
        public, pooled = (
            None if each is None else replace(each, values=each.values + by) for each in (self.public_only, self.pooled)
        )
        private = replace(self.private_only, values=self.private_only.values + by)
        return Estimates(public_only=public, private_only=private, pooled=pooled)

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
    between: FloatArray


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Errors:
    """Draws of an error (B, D), in two independent parts."""

    sampling: FloatArray
    privacy: FloatArray


def combine(
    query: PointQuery,
    release: PointRelease,
    information: Information,
    *,
    noise: ScoreNoise,
    fit: PublicFit | None,
    T: FloatArray,
    terms: tuple[str, ...],
    note: str | None = None,
) -> Estimates:
    """Return the private-only estimate and, where there is a public fit, the public-only and the pooled one.

    ``noise`` is that of the release; ``T`` (p, D) maps whitened coefficients to those that ``terms`` (p) name.
    """
    centre = _centre(query, release, information, fit, noise)
    error, error_pooled = _errors(query, release, information, fit, noise, centre)
    private = _estimate("private only", terms, centre.unshrunk, T, error, note)
    if fit is None:
        return Estimates(public_only=None, private_only=private, pooled=None)
    return Estimates(
        public_only=public_only(fit, T, terms=terms),
        private_only=private,
        pooled=_estimate("pooled", terms, centre.pooled, T, error_pooled, note),
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


def unshrink(theta: FloatArray, *, centre: FloatArray, ridge: float, H: FloatArray) -> FloatArray:
    """Return ``theta + H^-1 Lambda (theta - c)``."""
    return theta + np.linalg.solve(H, ridge * (theta - centre))


def _centre(
    query: PointQuery, release: PointRelease, information: Information, fit: PublicFit | None, noise: ScoreNoise
) -> _Centre:
    """Unshrink and pool, three times, each time with the moments at the last pooled point."""
    theta, ridge = np.array(release.theta), float(query.ridge)
    pull = np.array(query.centre)
    identity = np.eye(len(theta))
    at = information.at(theta)
    u = pooled = unshrink(theta, centre=pull, ridge=ridge, H=at.H)
    if fit is None:
        return _Centre(at=at, unshrunk=u, pooled=u, weight=identity, between=0.0 * identity)
    weight, between = identity, 0.0 * identity
    for step in range(3):
        at = information.at(theta if step == 0 else pooled)
        u = unshrink(theta, centre=pull, ridge=ridge, H=at.H)
        inverse = np.linalg.inv(at.H)
        covariance = inverse @ (at.J + noise.covariance(at.H)) @ inverse + fit.covariance
        between = between_covariance(u - fit.theta, covariance, parts=fit.parts)
        weight = (fit.covariance + between) @ np.linalg.inv(covariance + between)
        pooled = fit.theta + weight @ (u - fit.theta)
    return _Centre(at=at, unshrunk=u, pooled=pooled, weight=weight, between=between)


def _errors(
    query: PointQuery,
    release: PointRelease,
    information: Information,
    fit: PublicFit | None,
    noise: ScoreNoise,
    centre: _Centre,
) -> tuple[_Errors, _Errors]:
    """Return draws of the errors of the private-only and of the pooled estimate, in whitened coordinates."""
    rng = draws.generator(release.sha256)
    identity, ridge = np.eye(len(release.theta)), float(query.ridge)
    back = identity + ridge * np.linalg.inv(centre.at.H)
    parts: list[tuple[FloatArray, ...]] = []
    for _ in progress(range(DRAWS // CHUNK), label="standard errors"):
        at = information.draw(rng, theta=centre.pooled, count=CHUNK)
        score = draws.normals(rng, at.J)
        drawn = noise.draw(rng, at.H)
        pulled = _pulls(rng, fit, centre, np.array(query.centre), count=CHUNK)
        solve = np.linalg.inv(at.H + ridge * identity)
        sampled = -np.einsum("bij,bj->bi", solve, score + ridge * pulled)
        noised = -np.einsum("bij,bj->bi", solve, drawn)
        apart = np.zeros_like(pulled) if fit is None else draws.normal(rng, fit.covariance + centre.between, CHUNK)
        parts.append((sampled @ back.T + pulled @ (back - identity).T, noised @ back.T, apart))
    sampled, noised, apart = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    K = centre.weight
    private = _Errors(sampling=sampled, privacy=noised)
    pooled = _Errors(sampling=-apart + (sampled + apart) @ K.T, privacy=noised @ K.T)
    return private, pooled


def _pulls(rng: draws.Generator, fit: PublicFit | None, centre: _Centre, pull: FloatArray, *, count: int) -> FloatArray:
    """Return draws of ``theta_0 - c``, which the ridge shrank, given both sources.

    Where ``H`` is not what it was taken to be, unshrinking errs in proportion to it.
    """
    if fit is None:
        return np.tile(centre.unshrunk - pull, (count, 1))
    left = (np.eye(len(pull)) - centre.weight) @ (fit.covariance + centre.between)
    return centre.pooled - pull + draws.normal(rng, 0.5 * (left + left.T), count)


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
        law=ErrorLaw.of_draws(sampling + privacy),
        note=note,
    )


def _covariance(error: FloatArray) -> FloatArray:
    """Return second moments about zero: the error's bias counts."""
    return np.asarray(error.T @ error / len(error))

r"""Estimates without public rows: standard errors only where a noisy Hessian was bought.

The released Hessian ``H + N`` unshrinks the released point and gives its sampling covariance. Weights are at
most ``a`` (the largest case weight; Mallows weights are at most 1), so ``J <= a H`` and the sandwich with ``J =
a H`` is conservative. When the noise ``N`` is not well below the smallest eigenvalue of the Hessian, nothing
honest can be said and standard errors are NaN.
"""

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.estimate import ErrorLaw, Estimate
from hdpstats.inference.private import DRAWS, Estimates, unshrink
from hdpstats.mechanisms.curvature import unstack
from hdpstats.queries import ObjectiveQuery, ObjectiveRelease

NOT_BOUGHT = (
    "Standard errors are NaN: without (40 complete) public rows the curvature of the likelihood is private. "
    "Give the study public rows, or buy a noisy Hessian with fit(..., se_share=0.15)."
)
CLEAR = 3.0
"""Smallest trusted eigenvalue of the noisy Hessian, in standard deviations of the noise along one direction."""

DROWNED = (
    "Standard errors are NaN: the noise of the released Hessian drowns it at this epsilon and number of records. "
    "Give the study public rows, a larger epsilon, a larger se_share, or a declared row_norm."
)


def estimates(
    query: ObjectiveQuery, release: ObjectiveRelease, *, terms: tuple[str, ...], largest_weight: float
) -> Estimates:
    """Return the estimates of a release whose geometry is the schema's box."""
    T = query.geometry.to_raw()
    if release.hessian is None:
        return _without_errors(T @ np.array(release.theta), terms, NOT_BOUGHT)
    H = unstack(np.array(release.hessian), query.geometry.dimension)
    if not is_clear(H, noise_sd=release.hessian_noise_sd):
        return _without_errors(T @ np.array(release.theta), terms, DROWNED)
    ridge, centre = float(query.ridge), np.array(query.centre)
    u = unshrink(np.array(release.theta), centre=centre, ridge=ridge, H=H)
    sampling, privacy = _errors(query, release, H, apart=u - centre, largest_weight=largest_weight)
    sampling, privacy = sampling @ T.T, privacy @ T.T
    estimate = Estimate(
        label="private only",
        terms=terms,
        values=T @ u,
        sampling=sampling.T @ sampling / DRAWS,
        privacy=privacy.T @ privacy / DRAWS,
        law=ErrorLaw.of_draws(sampling + privacy),
    )
    return Estimates(public_only=None, private_only=estimate, pooled=None)


def is_clear(H: FloatArray, *, noise_sd: float) -> bool:
    """Return whether a Hessian's smallest eigenvalue stands clear of noise of ``noise_sd`` along each direction."""
    return float(np.linalg.eigvalsh(H)[0]) > CLEAR * noise_sd


def _errors(
    query: ObjectiveQuery, release: ObjectiveRelease, H: FloatArray, *, apart: FloatArray, largest_weight: float
) -> tuple[FloatArray, FloatArray]:
    """Return draws (B, D) of the error of the unshrunk point: from sampling, and from both noises."""
    rng = draws.generator(release.sha256)
    D, ridge = len(H), float(query.ridge)
    floor = 0.1 * float(np.linalg.eigvalsh(H)[0])
    eigenvalues, vectors = np.linalg.eigh(H + draws.symmetric(rng, D, sd=release.hessian_noise_sd, count=DRAWS))
    true = np.einsum("bij,bj,bkj->bik", vectors, np.maximum(eigenvalues, floor), vectors)
    solve = np.linalg.inv(true + ridge * np.eye(D))
    back = np.eye(D) + ridge * np.linalg.inv(H)
    score = draws.normals(rng, largest_weight * true)
    noise = draws.perturbation(rng, query.geometry, rate=release.noise_rate, count=DRAWS)
    sampling = -np.einsum("bij,bj->bi", solve, score) @ back.T
    mismatch = (back - np.eye(D)) @ apart - np.einsum("ij,bjk,k->bi", back, solve, ridge * apart)
    privacy = -np.einsum("bij,bj->bi", solve, noise) @ back.T + mismatch
    return sampling, privacy


def _without_errors(values: FloatArray, terms: tuple[str, ...], note: str) -> Estimates:
    unknown = np.full((len(terms), len(terms)), np.nan)
    released = Estimate(
        label="released", terms=terms, values=values, sampling=unknown, privacy=unknown, note=note
    )
    return Estimates(public_only=None, private_only=released, pooled=None)

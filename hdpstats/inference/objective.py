"""From released coefficients to estimates, as far as the curvature of the private likelihood is known."""

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference.estimate import Estimate
from hdpstats.inference.information import PublicInformation, bought
from hdpstats.inference.noise import ScoreNoise
from hdpstats.inference.sandwich import Estimates, combine
from hdpstats.protocols.moments import PublicSide
from hdpstats.queries import PointQuery, PointRelease

ASSUMED = "Standard errors take private covariates to be distributed as the public ones."
DROWNED = "The Hessian that se_share bought is drowned by its noise. " + ASSUMED
NOT_BOUGHT = (
    "Standard errors are NaN: without (40 complete) public rows the curvature of the likelihood is private. "
    "Give the study public rows, or buy a noisy Hessian with fit(..., se_share=0.15)."
)
NEEDS_OUTCOMES = (
    "Standard errors are NaN: this loss has no model that gives its curvature. Give the study public rows with the "
    "outcome (40 complete ones)."
)
ALL_DROWNED = (
    "Standard errors are NaN: the noise of the released Hessian drowns it at this epsilon and number of records. "
    "Give the study public rows, a larger epsilon, a larger se_share, or a declared row_norm."
)


def estimates(
    query: PointQuery,
    release: PointRelease,
    public: PublicSide | None,
    *,
    noise: ScoreNoise,
    T: FloatArray,
    terms: tuple[str, ...],
    records: int,
    meat: float | None = 1.0,
) -> Estimates:
    """Return the estimates of a release.

    Standard errors rest on the released Hessian where one was bought and stands clear of its noise, else on the public
    rows (``public``, at the query's radius). Without either they are NaN, and the coefficients stay as released.

    Parameters
    ----------
    query, release
        What was asked and answered.
    public
        The public side, or None.
    noise
        The noise of the release.
    T
        From whitened coefficients to those that ``terms`` name (p, D).
    terms
        Names of the coefficients.
    records
        How many private people there are, as far as is publicly known.
    meat
        Bound on the score's covariance over the Hessian; None where there is none.
    """
    fit = None if public is None else public.fit
    information = None if meat is None else bought(release, meat=meat)
    if information is not None:
        return combine(query, release, information, noise=noise, fit=fit, T=T, terms=terms)
    if public is None or not public.known:
        return Estimates(public_only=None, private_only=_as_released(release, T=T, terms=terms, meat=meat), pooled=None)
    model_based = PublicInformation(public=public, records=max(records, 1))
    note = ASSUMED if release.hessian is None else DROWNED
    return combine(query, release, model_based, noise=noise, fit=fit, T=T, terms=terms, note=note)


def _as_released(release: PointRelease, *, T: FloatArray, terms: tuple[str, ...], meat: float | None) -> Estimate:
    not_bought = NOT_BOUGHT if meat is not None else NEEDS_OUTCOMES
    unknown = np.full((len(terms), len(terms)), np.nan)
    return Estimate(
        label="released",
        terms=terms,
        values=T @ np.array(release.theta),
        sampling=unknown,
        privacy=unknown,
        note=not_bought if release.hessian is None else ALL_DROWNED,
    )

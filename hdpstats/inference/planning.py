r"""What standard errors a release would have: computed before anything is spent.

The same sandwich as `hdpstats.inference.sandwich`, in closed form at public coefficients: the private part has
covariance ``H^-1 (J + B) H^-1``, and is pooled with the public fit by inverse variance (sources assumed alike,
``tau = 0``).
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.knorm import NoiseLaw
from hdpstats.protocols.moments import PublicSide


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictedErrors:
    """Predicted standard errors per coefficient (p,), in the design's coordinates.

    ``reported``: of what a fit would report; ``sampling``, ``privacy``: the private-only estimate's two parts;
    ``public``: of the public fit, or None.
    """

    reported: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    public: FloatArray | None


def predicted_errors(public: PublicSide, *, law: NoiseLaw, T: FloatArray, records: int) -> PredictedErrors:
    """Return predicted standard errors, in the coordinates that ``T`` (p, D) maps whitened coefficients to."""
    at = public.moments(public.centre, records=max(records, 1))
    inverse = np.linalg.inv(at.H)
    sampling = inverse @ at.J @ inverse
    privacy = inverse @ np.diag(law.variance) @ inverse
    total, public_errors = sampling + privacy, None
    if public.fit is not None:
        public_errors = _errors(T, public.fit.covariance)
        total = np.linalg.inv(np.linalg.inv(total) + np.linalg.inv(public.fit.covariance))
    return PredictedErrors(
        reported=_errors(T, total),
        sampling=_errors(T, sampling),
        privacy=_errors(T, privacy),
        public=public_errors,
    )


def _errors(T: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.sqrt(np.diag(T @ covariance @ T.T))

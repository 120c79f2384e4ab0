"""Estimates without public rows: standard errors only where a noisy Hessian was bought and is not drowned."""

import numpy as np

from hdpstats.inference.estimate import Estimate
from hdpstats.inference.information import bought
from hdpstats.inference.private import Estimates, combine
from hdpstats.queries import ObjectiveQuery, ObjectiveRelease

NOT_BOUGHT = (
    "Standard errors are NaN: without (40 complete) public rows the curvature of the likelihood is private. "
    "Give the study public rows, or buy a noisy Hessian with fit(..., se_share=0.15)."
)
DROWNED = (
    "Standard errors are NaN: the noise of the released Hessian drowns it at this epsilon and number of records. "
    "Give the study public rows, a larger epsilon, a larger se_share, or a declared row_norm."
)


def estimates(
    query: ObjectiveQuery, release: ObjectiveRelease, *, terms: tuple[str, ...], largest_weight: float
) -> Estimates:
    """Return the estimates of a release whose geometry is the schema's box: unshrunk where the curvature is known."""
    information = bought(release, largest_weight=largest_weight)
    if information is not None:
        return combine(query, release, information, fit=None, terms=terms)
    unknown = np.full((len(terms), len(terms)), np.nan)
    released = Estimate(
        label="released",
        terms=terms,
        values=query.geometry.to_raw() @ np.array(release.theta),
        sampling=unknown,
        privacy=unknown,
        note=NOT_BOUGHT if release.hessian is None else DROWNED,
    )
    return Estimates(public_only=None, private_only=released, pooled=None)

"""The rounds of a fit as they would go, before a sum is asked for: private people as the public ones, without noise.

At every place each site's sum is taken to be the public people's mean score there, times the site's number of people.
The distribution of the noise is that of the fit, so that `hdpstats.mechanisms.public_hessian.estimate` gives from such
rounds the errors that a fit would report.
"""

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.public_hessian.estimate import Path
from hdpstats.mechanisms.public_hessian.query import PublicHessianQuery, PublicHessianRelease
from hdpstats.mechanisms.public_hessian.request import Newton, Queries, Releases, advance, place_of
from hdpstats.mechanisms.public_hessian.site import calibrate
from hdpstats.privacy.sensitivity import Relation


def expected_path(state: Newton, *, relation: Relation) -> Path:
    """Return the rounds of a fit to people like the public ones, none of whose sums has noise in it."""
    asked: list[Queries] = []
    answered: list[Releases] = []
    while not isinstance(place := advance(state, asked, answered), np.ndarray):
        mean = state.public.gradient(place_of(place)) / state.public.number
        asked.append(place)
        answered.append(
            {
                name: _expected(query, state.sites[name].records, mean, relation=relation)
                for name, query in place.items()
            }
        )
    return Path(asked=asked, answered=answered, end=place)


def _expected(query: PublicHessianQuery, records: int, mean: FloatArray, *, relation: Relation) -> PublicHessianRelease:
    """Return what a site of so many people would release, but for the noise, which is described only."""
    calibration = calibrate(query, relation=relation)
    return PublicHessianRelease(
        total=tuple((records * mean).tolist()),
        noise_sd=calibration.noise_sd,
        grid=float(calibration.grid),
        records=records,
        events=(calibration.event,),
    )

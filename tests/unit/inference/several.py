"""Parts of several sites around a public side, with releases of stated noise."""

from fractions import Fraction

import numpy as np

from hdpstats.inference.combination import ReleasedPoint
from hdpstats.inference.information import InObjective
from hdpstats.mechanisms.perturbation import ObjectiveQuery, ObjectiveRelease
from hdpstats.mechanisms.perturbation.request import noise_distribution
from hdpstats.models.estimates import estimates
from hdpstats.records.geometry import from_box
from hdpstats.records.model import RegressionModel

TERMS = ("Intercept", "a", "b")
BOX = from_box([-2.0, -2.0], [2.0, 2.0], intercept=True)


def part(public, theta, *, rate=0.5, records=3000, ridge=200.0, radius=None, hessian=None, sd=0.0, geometry=BOX):
    """Return one site's part; without a public side in the geometry of a box, pulled to zero."""
    if public is not None:
        public = public if radius is None else public.at_radius(radius)
        geometry = public.geometry
    centre = np.zeros(3) if public is None else public.centre
    query = ObjectiveQuery(
        model=RegressionModel(formula="y ~ a + b", loss="logistic", geometry=geometry),
        centre=tuple(centre.tolist()),
        ridge=Fraction(ridge),
        epsilon=Fraction(1),
        schema_sha256="",
        public_sha256=None,
        hessian_share=Fraction(0) if hessian is None else Fraction(3, 20),
    )
    release = ObjectiveRelease(
        theta=tuple(np.asarray(theta, dtype=float).tolist()),
        hessian=None if hessian is None else tuple(np.asarray(hessian, dtype=float).tolist()),
        noise_rate=rate,
        hessian_noise_sd=sd,
        grid=2.0**-30,
        records=records,
        events=(),
    )
    return ReleasedPoint(
        query=query,
        release=release,
        noise=InObjective(distribution=noise_distribution(geometry, rate=rate)),
        public=public,
        records=records,
        curvature=0.1,
    )


def read(*parts, **options):
    """Return the estimates of parts."""
    return estimates(parts, T=parts[0].query.model.geometry.to_raw(), terms=TERMS, **options)

"""Public rows in a geometry, with a fit near known coefficients."""

import numpy as np

from hdpstats.families.regression.public import PublicFit, WhitenedPublic
from hdpstats.losses import LogisticLoss
from hdpstats.records.geometry import from_public, whiten

BETA = np.array([-0.3, 0.8, -0.5])


def public_side(n=300, *, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2)) + shift])
    geometry = from_public(X, lower=[-4.0, -4.0], upper=[4.0, 4.0], intercept=True, radius=1.5)
    rows = whiten(geometry, X)
    p = LogisticLoss().curvature(rows.X @ BETA, np.zeros(n))
    information = rows.X.T @ (p[:, None] * rows.X)
    fit = PublicFit(theta=BETA + 0.1, covariance=np.linalg.inv(information), information=information)
    ones = np.ones(n)
    return WhitenedPublic(
        loss=LogisticLoss(), geometry=geometry, X=rows.X, mallows=ones, weights=ones, offset=0.0 * ones, fit=fit
    ).at_radius(1.5)

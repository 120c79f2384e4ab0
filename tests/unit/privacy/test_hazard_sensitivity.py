"""The largest combination of Bernstein coefficients is looked for among those that no other one exceeds."""

import numpy as np
import pytest

from hdpstats.privacy import hazard_sensitivity
from hdpstats.privacy.hazard_sensitivity import hazard_bounds


@pytest.mark.parametrize(("total", "radius", "leverage"), [(0.05, 0.3, 1.2), (1.0, 2.0, 9.0), (30.0, 20.0, 500.0)])
@pytest.mark.parametrize(("causes", "time_varying"), [(1, False), (2, True)])
def test_the_largest_is_that_of_all_pairs_to_the_bit(total, radius, leverage, causes, time_varying):
    bounds = hazard_bounds(
        total=total, radius=radius, leverage=leverage, causes=causes, time_varying=time_varying, smoothness=None
    )
    cubic, at = hazard_sensitivity._bernstein()
    x, e = at[:, None], at[None, :]
    survive, event, both = bounds.corners
    gradient = x * (1.0 - e) * survive + (1.0 - x) * e * event + x * e * both
    hessian = bounds.leverage * (bounds.total * cubic[:, None] + cubic[None, :])
    for noise, curvature in [(0.0, 1.0), (1e-3, 1e-6), (0.2, 0.05), (1.0, 0.0), (50.0, 300.0)]:
        largest = float(np.max(noise * gradient + curvature * hessian)) / hazard_sensitivity.DOWN
        assert hazard_sensitivity._largest(bounds, noise=noise, curvature=curvature) == largest

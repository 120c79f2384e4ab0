"""Second moments of raked public people."""

import numpy as np
import pytest

from hdpstats.public.raked_people import SYMMETRIC, weighted_squares


@pytest.mark.parametrize("columns", [1, 3, SYMMETRIC, SYMMETRIC + 3])
def test_second_moments_are_sums_over_rows(columns):
    rng = np.random.default_rng(5)
    X, w = rng.standard_normal((2, 7, columns)), rng.random((2, 7))
    w[0, 3] = 0.0
    expected = sum(w[:, i, None, None] * X[:, i, :, None] * X[:, i, None, :] for i in range(7))
    for rows in (X, np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 2, 0)), 0, 2)):
        assert np.allclose(weighted_squares(rows, w), expected, rtol=1e-12, atol=1e-12)

"""Weighted sums of squares of public rows."""

import numpy as np
import pytest

from hdpstats.public.squares import LANES, weighted_squares


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7])
def test_second_moments_are_sums_over_rows(columns):
    rng, n = np.random.default_rng(5), LANES + 7
    X, w = rng.standard_normal((2, n, columns)), rng.random((3, 2, n))
    w[1, 0, 3] = 0.0
    expected = np.einsum("kbi,bij,bil->kbjl", w, X, X)
    for rows in (X, np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 2, 0)), 0, 2)):
        assert np.allclose(weighted_squares(rows, w), expected, rtol=1e-11, atol=1e-11)

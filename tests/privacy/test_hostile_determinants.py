"""Determinants that a hostile query makes huge, or caps that it makes tiny: their bounds must stay bounds."""

import math

import mpmath
import numpy as np
import pytest

from hdpstats.privacy.hazard import flat_determinant

SHAPES = {
    "one interval": np.array([[1.0]]),
    "two equal intervals": np.array([[1.0], [1.0]]),
    "curved": np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]),
}


def exact_determinant(A: np.ndarray, *, radius: float, survived: float, event: float, ridge: float) -> float:
    """Return ``max_t log det(I + H / ridge)`` in 400 digits."""
    with mpmath.workdps(400):
        X = [[mpmath.mpf(float(value)) for value in row] + [mpmath.mpf(radius)] for row in A]
        total, largest = mpmath.eye(len(X[0])), mpmath.mpf(0)
        for row in X:
            outer = mpmath.matrix([[a * b / mpmath.mpf(ridge) for a in row] for b in row])
            largest = max(largest, mpmath.log(mpmath.det(total + max(survived, event) * outer)))
            total = total + mpmath.mpf(survived) * outer
        return float(max(largest, mpmath.log(mpmath.det(total))))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.7, 1.0, 3.0, 1e4])
@pytest.mark.parametrize("ridge", [1e3, 1.0, 1e-5, 1e-10, 1e-14, 1e-18, 1e-20, 1e-30, 1e-50])
def test_the_flat_determinant_is_a_bound_for_every_ridge(shape: str, radius: float, ridge: float) -> None:
    # A determinant by elimination loses its small factors beside large ones, down to a logarithm of minus infinity.
    fields = {"radius": radius, "survived": 0.1925, "event": 0.385, "ridge": ridge}
    found, exact = flat_determinant(SHAPES[shape], **fields), exact_determinant(SHAPES[shape], **fields)
    assert found >= exact
    if ridge >= 1e-5 and radius < 1e4:
        assert found <= exact * (1.0 + 1e-6) + 1e-9


def test_a_determinant_beyond_doubles_is_bounded_by_nothing_finite() -> None:
    assert math.isinf(flat_determinant(SHAPES["curved"], radius=1e6, survived=1e300, event=1.0, ridge=1e-60))

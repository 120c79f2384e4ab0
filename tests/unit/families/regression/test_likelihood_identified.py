"""Which columns of public rows are combinations of others, and columns that span the same and are orthogonal."""

import numpy as np
import pytest

from hdpstats.families.regression.likelihood import ALIASED, ALIASED_IN_GLM, identified, orthogonal


def columns(apart: float, scale: float = 1.0) -> np.ndarray:
    """Return rows whose last column is the sum of the two before it, but for a share of its length."""
    rng = np.random.default_rng(3)
    x, z, other = rng.standard_normal((3, 400))
    return scale * np.column_stack([np.ones(400), x, z, x + z + apart * other])


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
@pytest.mark.parametrize(
    ("apart", "in_lm", "in_glm"), [(1.0, True, True), (1e-5, True, True), (1e-9, False, True), (0.0, False, False)]
)
def test_a_column_is_identified_by_the_share_that_is_its_own(apart, in_lm, in_glm, scale):
    X = columns(apart, scale)
    assert identified(X, tolerance=ALIASED).tolist() == [True, True, True, in_lm]
    assert identified(X, tolerance=ALIASED_IN_GLM).tolist() == [True, True, True, in_glm]
    assert identified(np.column_stack([X[:, :1], X[:, :1]])).tolist() == [True, False]


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-6])
def test_orthogonal_columns_span_the_same(apart):
    X = columns(apart)
    found, back = orthogonal(X)
    assert found.T @ found / len(X) == pytest.approx(np.eye(4), abs=1e-9)
    assert X @ back == pytest.approx(found, abs=1e-6)

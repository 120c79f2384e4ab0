"""It does not matter which level of a multinomial outcome is the reference."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.pooling import expected_covariance, pool
from hdpstats.public.moments import PublicFit

LEVELS = ("p", "q", "r", "s")
COLUMNS = 3


def rows(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = np.clip(rng.standard_normal((count, COLUMNS - 1)), -4, 4)
    eta = np.column_stack([np.zeros(count), X @ np.array([[0.9, 0.8, 1.0], [0.0, 0.3, 0.0]])])
    level = np.array(LEVELS)[np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)]
    return pd.DataFrame(X, columns=["a", "b"]).assign(m=level)


def public_fit(levels: tuple[str, ...]) -> PublicFit:
    number = hdp.Continuous(-4, 4)
    schema = hdp.Schema(a=number, b=number, m=hdp.Categorical(list(levels)))
    fit = hdpf.multinomial("m ~ a + b", hdp.Study(public=rows(120, 1), schema=schema))._spec.public.fit
    assert fit is not None
    return fit


def turned() -> np.ndarray:
    """Coefficients against the last level in place of the first: of levels s (first), p, q, r."""
    change = np.array([[0.0, 0.0, -1.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    return np.kron(change, np.eye(COLUMNS))


def test_the_public_fit_is_the_same_with_any_reference() -> None:
    one, other, R = public_fit(LEVELS), public_fit(("s", "p", "q", "r")), turned()
    assert R @ one.theta == pytest.approx(other.theta, abs=1e-6)
    assert R @ one.covariance @ R.T == pytest.approx(other.covariance, abs=1e-6)
    assert R @ one.error @ R.T == pytest.approx(other.error, abs=1e-6)


def test_pooling_is_the_same_with_any_reference_but_for_its_draws() -> None:
    one, other, R = public_fit(LEVELS), public_fit(("s", "p", "q", "r")), turned()
    covariance = 0.02 * np.eye(len(one.theta))
    expected = R @ expected_covariance(covariance, one) @ R.T
    assert expected_covariance(R @ covariance @ R.T, other) == pytest.approx(expected, rel=0.05, abs=5e-4)
    away = one.theta + np.kron([0.8, 0.8, 0.8], [0.0, 1.0, 0.0])  # the reference differs by one column
    point = pool(away, covariance, one).point
    again = pool(R @ away, R @ covariance @ R.T, other).point
    assert again == pytest.approx(R @ point, abs=0.03)
    assert np.abs(point - away).max() < 0.25


def test_a_reference_that_stands_apart_is_not_shrunk_away() -> None:
    """Along a column all log odds differ alike: one difference, not three that each look small."""
    fit = public_fit(LEVELS)
    slopes = np.hstack(fit.parts)[:, -COLUMNS:][:, 1]  # the reference by the first column
    truth = np.kron([0.9, 0.8, 1.0], [0.0, 1.0, 0.0]) + np.kron([0.0, 0.3, 0.0], [0.0, 0.0, 1.0])
    off = slopes @ (truth - fit.theta) / (slopes @ slopes)
    error = np.sqrt(slopes @ fit.error @ slopes) / (slopes @ slopes)
    assert abs(off) < 2.0 * error

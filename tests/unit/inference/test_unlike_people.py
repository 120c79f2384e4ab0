"""What predicted errors may become if private people are unlike public ones, from known curvature and noise."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats.inference.sandwich import PredictedCovariance
from hdpstats.inference.unlike_people import AWAY, SPREADS, WITHIN, PlannedPeople, error_range

N = 100.0


def people(**changed):
    """Return people of two covariates that do not correlate, of whom 100 are known."""
    H = N * np.eye(3)
    sampling = np.linalg.inv(H)
    private = PredictedCovariance(sampling=sampling, privacy=0.0 * H)
    alike = PlannedPeople(
        private=private,
        hessian=lambda _: H,
        noise=lambda H: np.eye(len(H)),
        centre=np.zeros(3),
        T=np.eye(3),
        terms=("Intercept", "x", "z"),
        blocks=[np.array([1, 2])],
        intercepts=[0],
    )
    return replace(alike, **changed)


def test_sampling_errors_are_those_of_columns_that_spread_less_and_correlate():
    found = error_range(people())
    unit = N**-0.5
    assert found.high[1:] / unit == pytest.approx([WITHIN * 0.75**-0.5 / SPREADS[0]] * 2)
    assert found.low[1:] / unit == pytest.approx([1.0 / SPREADS[1] / WITHIN] * 2)
    assert (found.correlations, found.spreads, found.means) == (True, True, True)


def test_noise_goes_through_the_curvature_twice():
    H = N * np.eye(3)
    noisy = PredictedCovariance(sampling=0.0 * H, privacy=np.linalg.inv(H @ H))
    found = error_range(people(private=noisy, spreads_known=True))
    assert found.high[1:] * N == pytest.approx([WITHIN * 1.25**0.5 / 0.75] * 2)
    # Means away: with x' = s x + m the error of a slope is that of ((b - m a) / s, s times), of the inverse twice.
    alone = error_range(people(private=noisy, correlations_known=True))
    s, away = SPREADS[0], AWAY[0]
    worst = np.sqrt(max(_noise_of(s, np.array(m))[1, 1] for m in ((away, AWAY[1]), (away, -AWAY[1]), (0.0, 0.0))))
    assert alone.high[1] * N >= WITHIN / s**2
    assert alone.high[1] * N <= WITHIN * worst * (1.0 + 1e-9)


def _noise_of(s, m):
    """Return the covariance of noise through the inverse of the curvature of moved columns."""
    A = np.array([[1.0, 0.0, 0.0], [m[0], s, 0.0], [m[1], 0.0, s]])
    inverse = np.linalg.inv(A @ A.T)
    return inverse @ inverse


def test_what_a_description_tells_is_not_open():
    nothing = error_range(people(spreads_known=True, correlations_known=True))
    assert nothing.low == pytest.approx([N**-0.5] * 3)
    assert nothing.high == pytest.approx([N**-0.5] * 3)
    assert (nothing.correlations, nothing.spreads, nothing.means) == (False, False, False)
    only = error_range(people(spreads_known=True))
    assert only.high[1] * N**0.5 == pytest.approx(WITHIN * 0.75**-0.5)


def test_sampling_errors_are_in_proportion_to_residuals():
    found = error_range(people(spreads_known=True, correlations_known=True, residuals=(0.5, 2.0)))
    assert found.high * N**0.5 == pytest.approx([2.0 * WITHIN] * 3)
    assert found.low * N**0.5 == pytest.approx([0.5 / WITHIN] * 3)


def test_the_unit_of_a_column_does_not_matter():
    T = np.array([[1.0, -3.0, 2.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.1]])
    found, plain = error_range(people(T=T)), error_range(people())
    assert found.high[1:] / np.diag(T)[1:] == pytest.approx(plain.high[1:])
    assert found.low[1:] / np.diag(T)[1:] == pytest.approx(plain.low[1:])


def test_several_predictors_have_the_same_columns():
    H = N * np.eye(6)
    terms = tuple(f"{level}:{name}" for level in "bc" for name in ("Intercept", "x", "z"))
    both = people(
        private=PredictedCovariance(sampling=np.linalg.inv(H), privacy=0.0 * H),
        hessian=lambda _: H,
        centre=np.zeros(6),
        T=np.eye(6),
        terms=terms,
        blocks=[np.array([1, 2]), np.array([4, 5])],
        intercepts=[0, 3],
    )
    found, one = error_range(both), error_range(people())
    assert found.high == pytest.approx(np.tile(one.high, 2))
    assert found.low == pytest.approx(np.tile(one.low, 2))


def test_curvature_at_moved_linear_predictors_counts():
    def hessian(theta):
        return N * np.exp(-abs(theta[0])) * np.eye(3)

    centre = np.array([0.0, 1.0, 0.0])
    found = error_range(people(hessian=hessian, canonical=True, centre=centre, correlations_known=True))
    assert found.high[1] * N**0.5 == pytest.approx(WITHIN / SPREADS[0] * np.exp(0.5 * AWAY[0]))
    assert error_range(people(T=np.eye(3)[:2])) is None

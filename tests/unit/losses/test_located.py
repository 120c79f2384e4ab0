"""The window that a quantile is smoothed over by default."""

import math

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.losses.base import OutcomeFacts
from hdpstats.losses.located import MOST_ADDED, MOST_NOISE, unbiased_window, with_noise

COEFFICIENTS = 4
RESIDUALS = np.linspace(-1.0, 1.0, 401) / 20.0


def half_width(records):
    facts = OutcomeFacts(
        lower=-0.5,
        upper=0.5,
        seen=RESIDUALS,
        residuals=RESIDUALS,
        rows=len(RESIDUALS),
        records=records,
        coefficients=COEFFICIENTS,
    )
    return hdp.losses.Quantile(0.5).numbers(facts).parameters[1]


@pytest.mark.parametrize("n", [10**4, 10**6, 10**8])
def test_what_smoothing_adds_falls_faster_than_standard_errors(n):
    """Of an exponential outcome, ``f' = -f``, with the median's error ``1 / sqrt(n)``, both in standard deviations."""
    spread = np.median(np.abs(RESIDUALS)) / 0.6745
    added = (half_width(n) / spread) ** 2 / 6.0
    error = 0.5 / (10.0 * spread)  # of the median of residuals that are uniform with density 10, as these are
    most = 2.0 * MOST_ADDED * with_noise(n, COEFFICIENTS) * error  # twice the least slope that is allowed for
    assert added * math.sqrt(n) < max(0.16, 1.02 * most)
    assert half_width(100 * n) < half_width(n) / 3.0


def test_the_window_is_at_most_half_a_standard_deviation():
    spread = np.median(np.abs(RESIDUALS)) / 0.6745
    assert half_width(10) == pytest.approx(0.5 * spread, rel=0.01)


def exponential(count):
    """Return evenly spread quantiles of an exponential distribution: ``f' = -f``."""
    return -np.log1p(-(np.arange(count) + 0.5) / count)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.8])
def test_a_wider_window_adds_no_more_than_public_residuals_tell(q):
    """With many public rows the bias is what is allowed for; by definition, of the quantile with a uniform error."""
    residuals, n = exponential(40_000), 30_000
    h = unbiased_window(residuals, q, records=n, coefficients=COEFFICIENTS)
    low, high = residuals.min() - h, residuals.max() + h
    grid = np.linspace(low, high, 4001)
    F = np.array([np.mean(np.clip((t - residuals + h) / (2 * h), 0, 1)) for t in grid])
    moved = abs(np.interp(q, F, grid) - np.quantile(residuals, q))
    error = with_noise(n, COEFFICIENTS) * math.sqrt(q * (1 - q)) / (1 - q) / math.sqrt(n)
    assert 0.3 * MOST_ADDED < moved / error < 1.2 * MOST_ADDED


def test_the_window_of_few_public_rows_allows_for_what_they_do_not_tell():
    few, many = (unbiased_window(np.sort(exponential(n)), 0.5, records=30_000, coefficients=4) for n in (50, 5000))
    assert few < 0.9 * many


def test_it_falls_with_the_number_of_people_without_end():
    sizes = [unbiased_window(RESIDUALS**3, 0.3, records=10**k, coefficients=1) for k in (6, 8, 10)]
    assert sizes[1] == pytest.approx(sizes[0] / 10**0.5, rel=0.003)
    assert sizes[2] == pytest.approx(sizes[0] / 10, rel=0.003)


def test_residuals_that_are_all_the_same_tell_nothing():
    assert 0.0 <= unbiased_window(np.zeros(50), 0.5, records=1000, coefficients=1) <= 1e-6


def test_noise_is_counted_as_what_it_is_where_people_are_many_and_bounded_where_they_are_few():
    assert with_noise(10**7, 4) == pytest.approx(1.0, abs=0.003)
    assert with_noise(40_000, 4) == pytest.approx(math.sqrt(2.0))
    assert with_noise(1, 4) == with_noise(0, 4) == MOST_NOISE

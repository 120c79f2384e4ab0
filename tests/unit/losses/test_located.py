"""The window that a quantile is smoothed over by default."""

import math

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats.losses.base import OutcomeFacts

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
    assert added * math.sqrt(n) < 0.16
    assert half_width(100 * n) < half_width(n) / 3.0


def test_the_window_is_at_most_half_a_standard_deviation():
    spread = np.median(np.abs(RESIDUALS)) / 0.6745
    assert half_width(10) == pytest.approx(0.5 * spread, rel=0.01)

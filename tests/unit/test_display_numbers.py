"""Numbers are written as statsmodels writes them."""

import numpy as np
import pytest
from statsmodels.iolib.summary import forg

from hdpstats.display import number, p_value, percent


@pytest.mark.parametrize("value", [0.12345678, -2.5, 9999.99, 12345.678, 1e-5, -3e-7, 1e-4, 123456789.0, 1.0])
def test_numbers_are_statsmodels_own(value):
    assert number(value) == forg(value, prec=4).strip()
    assert number(value, 3) == forg(value, prec=3).strip()


def test_zero_nan_and_infinities_have_a_text():
    assert [number(0.0), number(-0.0, 3), number(np.nan), number(np.inf), number(-np.inf, 3)] == [
        "0.0000",
        "-0.000",
        "nan",
        "inf",
        "-inf",
    ]


def test_p_values_have_three_decimals():
    assert [p_value(0.04321), p_value(1e-12), p_value(1.0), p_value(np.nan)] == ["0.043", "<0.001", "1.000", "nan"]


def test_shares_are_whole_percentages():
    assert [percent(0.0), percent(0.126), percent(1.0)] == ["0%", "13%", "100%"]

"""Intervals of follow-up and the features of an interval, against values worked by hand and the spline's definition."""

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.formulas.outcome import dummies, dummy_names, grid_of, log_spline, spline, spline_names
from hdpstats.records.model import TimeGrid
from hdpstats.schema.columns import Duration

YEARS = Duration(7, unit="years", complete=True)
FINE = grid_of(1000, Duration(1, complete=True))


def test_equal_intervals_end_at_the_horizon_exactly():
    assert grid_of(np.int64(7), YEARS).cuts == (1, 2, 3, 4, 5, 6, 7)
    for count in (1, 3, 49, 10_000):
        grid = grid_of(count, Duration(0.7, complete=True))
        assert (grid.intervals, grid.horizon) == (count, 0.7)
        np.testing.assert_allclose(np.diff([0, *grid.cuts]), 0.7 / count, rtol=1e-9)


def test_cut_points_are_taken_as_they_are_and_end_at_the_horizon():
    assert grid_of([0.25, 2, 7], YEARS).cuts == (0.25, 2, 7)
    assert grid_of((0.25, 2), YEARS).cuts == (0.25, 2, 7)
    assert grid_of(np.array([0.25, 2.0]), YEARS).cuts == (0.25, 2, 7)
    assert grid_of([7], YEARS).cuts == (7,)


@pytest.mark.parametrize(
    ("intervals", "reason"),
    [
        (0, "whole number from 1 to 10000"),
        (-3, "whole number from 1"),
        (10_001, "whole number from 1 to 10000"),
        (True, "intervals must be a number"),
        (2.5, "whole number from 1"),
        ("20", "list of numbers"),
        (None, "list of numbers"),
        ({1.0, 2.0}, "list of numbers"),
        ([], "1 to 10000 in number"),
        ([0, 1], "begin above 0"),
        ([-1, 1], r"number in \[0, 7\]"),
        ([1, 8], r"number in \[0, 7\]"),
        ([1, float("nan")], "finite number"),
        ([1, 1], "must increase"),
        ([2, 1], "must increase"),
        ([1, "2"], "must be a number"),
    ],
)
def test_intervals_that_are_none_are_refused(intervals, reason):
    with pytest.raises(ArgumentError, match=reason) as error:
        grid_of(intervals, YEARS)
    assert error.value.argument == "intervals"


def test_the_default_spline_is_the_one_of_the_paper():
    A = spline(grid_of(200, Duration(2557, complete=True)))
    t = np.arange(1, 201) / 200
    third = t**3 - np.maximum(t - 0.5, 0) ** 3 / 0.5
    np.testing.assert_allclose(A, np.column_stack([np.ones(200), t, third]), rtol=0, atol=1e-15)
    assert np.max(np.sum(A**2, axis=1)) == 2.5625


@pytest.mark.parametrize("df", [2, 3, 4, 7, 20])
def test_a_row_is_bounded_whatever_the_unit_of_time(df):
    short, long = (
        spline(grid_of(100, Duration(1, complete=True)), df),
        spline(grid_of(100, Duration(1e6, complete=True)), df),
    )
    np.testing.assert_array_equal(short, long)
    assert np.max(np.sum(short**2, axis=1)) <= 2 + 9 * (df - 2)


@pytest.mark.parametrize("knots", [[0, 0.5, 1], [0, 0.1, 0.2, 0.9], [0.2, 0.4, 0.5, 0.6, 0.8]])
def test_columns_span_the_natural_cubic_splines(knots):
    """Every column is linear beyond the boundary knots and cubic between knots; its second derivative is continuous."""
    A = spline(FINE, knots=knots)
    t = np.arange(1, 1001) / 1000
    assert A.shape == (1000, len(knots))
    assert np.linalg.matrix_rank(A, tol=1e-9) == len(knots)
    second, fourth = np.diff(A, 2, axis=0) * 1e6, np.diff(A, 4, axis=0)
    outside = (t[2:] <= knots[0]) | (t[:-2] >= knots[-1])
    np.testing.assert_allclose(second[outside], 0, atol=1e-6)
    assert np.max(np.abs(np.diff(second, axis=0))) < 0.2
    smooth = ~np.any([(t[:-4] < knot) & (knot < t[4:]) for knot in knots], axis=0)
    assert np.max(np.abs(fourth[smooth])) < 1e-13
    kinked = np.max(np.abs(fourth[~smooth]), axis=0)
    assert (kinked[2:] > 1e-10).all()


def test_equally_spaced_knots_are_the_default():
    np.testing.assert_array_equal(spline(FINE, 5), spline(FINE, knots=[0, 0.25, 0.5, 0.75, 1]))
    np.testing.assert_array_equal(spline(FINE, 2), np.column_stack([np.ones(1000), np.arange(1, 1001) / 1000]))


@pytest.mark.parametrize(
    ("options", "argument", "reason"),
    [
        ({"df": 1}, "df", "from 2 to 20"),
        ({"df": 21}, "df", "from 2 to 20"),
        ({"df": 3.5}, "df", "whole number"),
        ({"df": True}, "df", "must be a number"),
        ({"knots": [0.5]}, "knots", "2 or more"),
        ({"knots": []}, "knots", "1 to 20 in number"),
        ({"knots": [0, 0.5, 0.5, 1]}, "knots", "must increase"),
        ({"knots": [0, 365]}, "knots", r"number in \[0, 1\]"),
        ({"knots": 3}, "knots", "list of numbers"),
    ],
)
def test_splines_that_are_none_are_refused(options, argument, reason):
    with pytest.raises(ArgumentError, match=reason) as error:
        spline(FINE, **options)
    assert error.value.argument == argument


COURSES = {
    "rising": lambda t: (t / 4.0) ** 2,
    "falling": lambda t: (t / 6.0) ** 0.4,
    "rising, then falling": lambda t: np.log1p((t / 3.0) ** 3),
}


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("q", [12, 24])
def test_a_spline_of_log_time_follows_steep_hazards_that_one_in_time_does_not(course, q):
    """The best fit of log hazards, by people at risk: cumulated hazards are off by a hundredth and less."""
    H = COURSES[course](np.linspace(0.0, 6.0, q + 1))
    hazard, weight = -np.expm1(-np.diff(H)), np.exp(-H[:-1] / 2.0)
    off = {}
    for name, A in {"log": log_spline(grid_of(q, YEARS)), "time": spline(grid_of(q, YEARS), 3)}.items():
        fitted = A @ np.linalg.lstsq(A * weight[:, None], np.log(hazard) * weight, rcond=None)[0]
        off[name] = np.abs(np.cumsum(np.exp(fitted)) - np.cumsum(hazard)).max()
    assert off["log"] < 0.02 < off["time"]


def test_a_spline_of_log_time_is_one_of_its_places():
    t = (np.arange(24) + 0.5) / 24
    A = log_spline(grid_of(24, YEARS), knots=[0.0, 0.3, 1.0])
    np.testing.assert_allclose(A[:, :2], np.column_stack([np.ones(24), np.log1p(100 * t) / np.log(101)]))
    inside = np.log1p(30.0) / np.log(101)
    third = A[:, 1] ** 3 - np.maximum(A[:, 1] - inside, 0.0) ** 3 / (1.0 - inside)
    np.testing.assert_allclose(A[:, 2], third, atol=1e-15)
    usual = log_spline(grid_of(24, YEARS))
    np.testing.assert_array_equal(usual, log_spline(grid_of(24, YEARS), knots=(np.arange(4) / 3) ** 1.5))
    for q in (4, 24, 1000):
        assert np.linalg.cond(log_spline(grid_of(q, YEARS))) < 2000
    with pytest.raises(ArgumentError, match="from 2 to 10"):
        log_spline(FINE, 11)


def test_a_spline_has_no_more_columns_than_there_are_intervals():
    with pytest.raises(ArgumentError, match="from 2 to 4"):
        spline(TimeGrid((1.0, 2.0, 3.0, 4.0)), 5)
    with pytest.raises(ArgumentError, match="dummies"):
        spline(TimeGrid((1.0,)))


def test_dummies_and_names_go_with_the_columns():
    grid = grid_of(3, YEARS)
    np.testing.assert_array_equal(dummies(grid), np.eye(3))
    assert dummy_names(grid) == ("interval[1]", "interval[2]", "interval[3]")
    assert spline_names(spline(grid).shape[1]) == ("baseline[1]", "baseline[2]", "baseline[3]")

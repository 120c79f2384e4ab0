"""Splines and polynomials in formulas: partition of unity, smoothness, tails, bounds, declared knots and refusals."""

import re

import numpy as np
import pytest

from hdpstats._base.errors import FormulaError, SchemaError
from hdpstats.formulas import compile_design
from hdpstats.formulas.operations import Interval
from hdpstats.formulas.splines import Pieces, b_splines, image, natural_splines, values
from hdpstats.schema.columns import Binary, Categorical, Continuous
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

SCHEMA = Schema(
    {"two words": Continuous(0, 1, complete=True)},
    y=Binary(complete=True),
    age=Continuous(20, 90, complete=True),
    nodes=Continuous(0, 40, complete=True),
    big=Continuous(1e9, 1e9 + 1, complete=True),
    size=Categorical(["<=20", "20-50", ">50"], complete=True),
)
AGES = np.linspace(20, 90, 20_001)
KNOTS = [[], [50], [30, 60], [21, 22, 40, 41, 89]]


def columns(formula, schema=SCHEMA):
    return compile_design(f"y ~ {formula}", schema).columns[1:]


def matrix(formula, **numeric):
    rows = len(next(iter(numeric.values())))
    table = AdmittedTable(numeric={name: np.array(cells) for name, cells in numeric.items()}, codes={}, rows=rows)
    return compile_design(f"y ~ {formula}", SCHEMA).evaluate_unclipped(table)[:, 1:]


# The functions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knots", KNOTS)
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_b_splines_are_not_negative_and_leave_the_first_one_to_sum_to_one(knots, degree):
    basis = b_splines(knots, lower=20, upper=90, degree=degree)
    assert len(basis) == len(knots) + degree
    X = np.column_stack([values(column, AGES) for column in basis])
    first = 1 - X.sum(axis=1)
    assert X.min() >= -1e-15
    assert first.min() >= -1e-14
    assert first[0] == 1
    assert first[-1] == pytest.approx(0, abs=1e-14)
    edge = knots[0] if knots else 90
    expected = np.maximum((edge - AGES) / (edge - 20), 0) ** degree
    np.testing.assert_allclose(first, expected, atol=1e-13)


@pytest.mark.parametrize("knots", KNOTS)
def test_natural_splines_are_linear_beyond_the_boundaries_and_smooth_there(knots):
    basis = natural_splines(knots, lower=20, upper=90)
    assert len(basis) == len(knots) + 1
    h = 1e-3
    for column in basis:
        for boundary in (20.0, 90.0):
            x = boundary + h * np.arange(-4, 5)
            slopes = np.diff(values(column, x)) / h
            np.testing.assert_allclose(slopes, slopes[4], atol=1e-4 * max(1, abs(slopes[4])))
        for outside in (np.array([-500.0, -10, 0, 20]), np.array([90, 95.0, 100, 1000])):
            f = values(column, outside)
            slopes = np.diff(f) / np.diff(outside)
            np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("knots", KNOTS[1:])
@pytest.mark.parametrize("make", [natural_splines, lambda *args, **ends: b_splines(*args, **ends, degree=3)])
def test_cubic_splines_have_two_continuous_derivatives_at_their_knots(make, knots):
    h = 1e-3
    for column in make(knots, lower=20, upper=90):
        for knot in knots:
            f = values(column, knot + h * np.arange(-3, 4))
            np.testing.assert_allclose(np.diff(f, 2)[1:] / h**2, np.diff(f, 2)[:-1] / h**2, atol=0.02)


def test_natural_splines_keep_their_digits_far_beyond_narrow_boundaries():
    """Lines, not cubic polynomials whose higher terms cancel: at u = 64000 those would lose half of the digits."""
    for column in natural_splines([2.2], lower=2, upper=2.5):
        near, far = values(column, np.array([2.5, 3.0, 32000.0])), image(column, Interval(2.5, 32000.0))
        assert near[2] == pytest.approx(near[0] + (near[1] - near[0]) / 0.5 * 31997.5, rel=1e-13)
        assert (far.lower, far.upper) == (min(near), max(near))


def test_natural_splines_reproduce_lines():
    """With the intercept they span every line; B-splines span every polynomial of their degree."""
    X = np.column_stack([np.ones(len(AGES)), *(values(c, AGES) for c in natural_splines([30, 60], lower=20, upper=90))])
    B = np.column_stack([np.ones(len(AGES)), *(values(c, AGES) for c in b_splines([30], lower=20, upper=90, degree=3))])
    for basis, target in ((X, AGES), (B, ((AGES - 55) / 35) ** 3)):
        fitted = basis @ np.linalg.lstsq(basis, target, rcond=None)[0]
        np.testing.assert_allclose(fitted, target, atol=1e-10)


@pytest.mark.parametrize("ends", [(20.0, 90.0), (33.0, 34.0), (-50.0, 45.0), (80.0, 200.0)])
@pytest.mark.parametrize("knots", KNOTS)
def test_images_hold_the_values_and_little_more(knots, ends):
    x = Interval(*ends)
    grid = np.linspace(x.lower, x.upper, 20_001)
    for column in (*natural_splines(knots, lower=20, upper=90), *b_splines(knots, lower=20, upper=90, degree=4)):
        f, bounds = values(column, grid), image(column, x)
        size = max(1.0, np.max(np.abs(f)))
        assert bounds.lower - 1e-14 * size <= f.min()
        assert f.max() <= bounds.upper + 1e-14 * size
        assert f.min() - bounds.lower < 0.01 * size
        assert bounds.upper - f.max() < 0.01 * size


def test_the_distribution_of_images_would_notice_a_piece_that_is_forgotten():
    bump = Pieces(breaks=(0.0, 1.0, 2.0, 3.0), coefficients=((0.0, 0.0), (0.0, 9.0), (9.0, 0.0)))
    assert image(bump, Interval(0.0, 1.0)) == Interval(0.0, 0.0)
    assert image(bump, Interval(0.0, 3.0)) == Interval(0.0, 9.0)
    assert image(bump, Interval(1.5, 1.75)) == Interval(4.5, 6.75)


# In formulas --------------------------------------------------------------------------------------------------


def test_names_and_numbers_of_columns():
    assert [c.name for c in columns("bs(age, knots=[40, 60])")] == [
        f"bs(age, knots=[40, 60])[{k}]" for k in range(1, 6)
    ]
    assert [c.name for c in columns("ns(age, 2):size")][:3] == [
        "ns(age, 2)[1]:size[<=20]",
        "ns(age, 2)[2]:size[<=20]",
        "ns(age, 2)[1]:size[20-50]",
    ]
    assert [c.name for c in columns("poly(age, 1) + ns(nodes, df=1)")] == ["poly(age, 1)", "ns(nodes, df=1)"]
    assert len(columns("bs(age, df=7, degree=2)")) == len(columns("ns(age, df=7)")) == 7
    assert compile_design("y ~ ns(`two words`, df=2)*age", SCHEMA).needs == ("y", "two words", "age")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("bs(age, df=5)", "bs(age, knots=[43.333333333333336, 66.66666666666667], lower=20, upper=90)"),
        ("bs(age, df=3)", "bs(age, df=3, degree=3, Boundary.knots=c(20, 90))"),
        ("ns(age, df=2)", "ns(age, knots=55, lower=20, upper=90)"),
        ("ns(age, df=2, lower=30, upper=40)", "ns(age, knots=35, lower=30, upper=40)"),
        ("ns(log(age), df=2, lower=3)", "ns(log(age), df=2, lower=3, upper=4.499809670330265)"),
        ("poly(age, 3)", "poly(age, 3, center=55, scale=35)"),
        ("poly(age, 2, mean=50, sd=10)", "I((age - 50) / 10) + I(((age - 50) / 10)^2)"),
    ],
)
def test_what_is_left_out_comes_from_the_declared_bounds(short, long):
    one, other = matrix(short, age=AGES), matrix(long, age=AGES)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
    bounds = [[(c.lower, c.upper) for c in columns(text)] for text in (short, long)]
    np.testing.assert_allclose(*bounds, rtol=0, atol=1e-14)


def test_knots_do_not_follow_the_rows():
    everybody, few = matrix("bs(age, df=5)", age=AGES), matrix("bs(age, df=5)", age=AGES[:3])
    np.testing.assert_array_equal(everybody[:3], few)


def test_bounds_of_polynomials_are_those_of_their_powers():
    assert [(c.lower, c.upper) for c in columns("poly(age, 4)")] == [(-1, 1), (0, 1), (-1, 1), (0, 1)]
    assert [(c.lower, c.upper) for c in columns("poly(age, 2, center=50, scale=10)")] == [(-3, 4), (0, 16)]


def test_bounds_of_a_spline_are_those_on_the_schema_not_on_the_line():
    """Boundary knots wider than the schema's bounds: only values on the bounds count."""
    wide = columns("ns(age, knots=50, lower=-1000, upper=1000)")
    f = matrix("ns(age, knots=50, lower=-1000, upper=1000)", age=AGES)
    np.testing.assert_allclose([(c.lower, c.upper) for c in wide], np.column_stack([f.min(0), f.max(0)]), atol=1e-4)


def test_splines_of_large_numbers_in_a_narrow_range():
    X = matrix("bs(big, df=6)", big=1e9 + np.linspace(0, 1, 1001))
    np.testing.assert_allclose(X, matrix("bs(`two words`, df=6)", **{"two words": np.linspace(0, 1, 1001)}), atol=1e-5)


@pytest.mark.parametrize("formula", ["bs(age, df=4)", "ns(age, df=3)", "poly(age, 2)"])
@pytest.mark.parametrize("age", [np.nan, np.inf, -np.inf])
def test_public_rows_without_a_finite_value_are_refused(formula, age):
    with pytest.raises(SchemaError, match="is not finite in every public row"):
        matrix(formula, age=[50.0, age])


REFUSED = [
    (
        "bs(age, knots=[9, 50])",
        "bs(age, knots=[9, 50])",
        "the knot 9 does not lie between 20 and 90",
        "choose knots",
    ),
    ("ns(age, knots=20)", "ns(age, knots=20)", "the knot 20 does not lie between 20 and 90", "choose knots"),
    ("ns(age, knots=90)", "ns(age, knots=90)", "the knot 90 does not lie between 20 and 90", "choose knots"),
    ("ns(age, knots=50, lower=55)", "", "the knot 50 does not lie between 55 and 90", "choose knots"),
    ("ns(age, df=4, upper=300)", "", "the knot 90 does not lie between 20 and 90", "choose knots"),
    ("bs(age, knots=[60, 40])", "", "do not increase", "move them apart"),
    ("bs(age, knots=[40, 40])", "", "do not increase", "move them apart"),
    ("bs(age, knots=[40, 40.00001])", "", "too close together", "move them apart"),
    ("ns(age, knots=20.00001)", "", "too close together", "move them apart"),
    ("ns(age, df=2, lower=50, upper=30)", "", "boundary knots are 50 and 30", "lower below upper"),
    ("ns(age, df=2, lower=100)", "", "boundary knots are 100 and 90", "lower below upper"),
    ("bs(age, df=4, lower=25)", "", "the schema lets age be 20, beyond the boundary knots", "write ns"),
    ("bs(age, df=4, upper=80)", "", "the schema lets age be 90, beyond the boundary knots", "write ns"),
    ("bs(I(0 * age), df=4)", "", "can be nothing but 0", "leave it out"),
    ("poly(I(age - age + 0 * age), 2, center=0, scale=1e-200)", "", "exceed 1e+150", "scale"),
    ("ns(age, knots=50, lower=49.9999, upper=50.0001):I(age * 1e148)", "", "exceed 1e+150", "scale"),
    ("bs(size, df=4)", "bs(size, df=4)", "size is a category", "on its own"),
    ("bs(log(nodes), df=4)", "log(nodes)", "lets nodes be 0", "log1p(nodes)"),
    ("ns(agee, df=4)", "agee", "no such column", "did you mean age"),
    (":".join(f"bs(age, df={df})" for df in (23, 24)), "", "exceed 500 columns", "drop"),
]


@pytest.mark.parametrize(("formula", "term", "reason", "remedy"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refusals_name_the_term_the_reason_and_the_remedy(formula, term, reason, remedy):
    with pytest.raises(FormulaError) as error:
        compile_design(f"y ~ {formula}", SCHEMA)
    assert term in error.value.term
    assert re.search(re.escape(reason), error.value.reason)
    assert re.search(re.escape(remedy), error.value.remedy)

"""Names of terms here and in R."""

import pytest

from hdpstats.results.comparison import match, plain_name


@pytest.mark.parametrize(
    ("ours", "in_r"),
    [
        ("Intercept", "(Intercept)"),
        ("size[T.20-50]", "size20-50"),
        ("size[T.<=20]", "factor(size)<=20"),
        ("C(grade)[T.3]", "factor(grade)3"),
        ("C(grade)[T.3]", "as.factor(grade)3"),
        ("factor(size)[a b]", "factor(size)a b"),
        ("bs(age, knots=[40, 60])[2]", "bs(age, knots = c(40, 60))2"),
        ("poly(age, 2, center=50, scale=10)[1]", "poly(age, 2, center = 50, scale = 10)1"),
        ("log1p(nodes)", "log1p(nodes)"),
        ("I(age ** 2):size[T.>50]", "I(age^2):size>50"),
        ("size[T.20-50]:age", "size20-50:age"),
        ("flc.grp", "`flc.grp`"),
        ("interval[3]", "factor(interval)3"),
    ],
)
def test_names_of_one_term_have_one_form(ours, in_r):
    assert plain_name(ours) == plain_name(in_r)
    assert match([ours], [in_r]) == {0: 0}


@pytest.mark.parametrize(
    ("ours", "in_r"),
    [("age", "age2"), ("size[T.20-50]", "size>50"), ("log(age)", "age"), ("age", "hormonTRUE"), ("abc(x)", "abx")],
)
def test_other_terms_have_other_names(ours, in_r):
    assert match([ours], [in_r]) == {}


def test_a_truth_value_is_its_column():
    assert match(
        ["hormon", "hormon:age", "size[T.TRUE]"], ["age:hormon", "sizeTRUE", "hormonTRUE:age", "hormonTRUE"]
    ) == {
        0: 3,
        1: 2,
        2: 1,
    }


def test_the_exact_name_comes_first_and_ambiguous_ones_are_left():
    assert match(["x1", "x[1]"], ["x1", "x[1]"]) == {0: 0, 1: 1}
    assert match(["x1", "x[1]"], ["x 1"]) == {}  # could be either
    assert match(["x1", "x[1]"], ["x 1", "x1"]) == {0: 1, 1: 0}
    assert match(["age"], ["age", "age"]) == {}

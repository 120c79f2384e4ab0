"""The inverse of a plan: the smallest epsilon that reaches standard errors, or why none does; nothing is spent."""

from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.models.plan import CANDIDATES, ExpectedError, smallest_epsilons
from tests.unit.inference.test_sandwich import SCHEMA, frame

MODEL = hdpf.logit("y ~ a + b", data=hdp.Study(public=frame(), schema=SCHEMA))


def test_the_smallest_epsilon_is_found():
    # A standard error of 2 / epsilon: 0.3 is reached from 6.67 on.
    found = smallest_epsilons(
        {"x": 0.3, "y": 0.001, "z": 9e9},
        lambda epsilon: dict.fromkeys("xyz", ExpectedError(std_error=2.0 / float(epsilon), noise=0.5)),
    )
    assert [each.epsilon for each in found] == [6.67, None, 0.001]
    assert str(found[0]) == "x: a standard error of 0.3 needs epsilon = 6.67"
    assert str(found[1]) == (
        "y: a standard error of 0.001 is out of reach: 0.04 at epsilon = 50, where privacy noise is still 50% of the "
        "private estimate's variance"
    )
    assert str(found[2]).endswith("needs epsilon = 0.001 or less")
    assert list(CANDIDATES) == sorted(set(CANDIDATES))
    assert CANDIDATES[-1] == 50


@pytest.mark.wide
def test_a_plan_for_standard_errors_is_the_plan_of_its_epsilons():
    asked = MODEL.plan(std_error={"a": 0.07, "b": 0.02}, n=5000)
    assert [each.term for each in asked.wanted] == ["a", "b"]
    epsilons = sorted({each.epsilon for each in asked.wanted})
    plain = MODEL.plan(epsilons, n=5000)
    assert asked.frame.equals(plain.frame)
    reached = asked.frame.set_index(["term", "epsilon"])["std_error"]
    for each in asked.wanted:
        assert reached[each.term, each.epsilon] <= each.std_error
        step = max(value for value in CANDIDATES if value < Fraction(str(each.epsilon)))
        before = MODEL.plan(float(step), n=5000).frame.set_index("term")["std_error"]
        assert before[each.term] > each.std_error
    assert asked.table["wanted"].dropna().to_dict() == {"a": 0.07, "b": 0.02}
    assert f"a: a standard error of 0.07 needs epsilon = {asked.wanted[0].epsilon:g}" in str(asked)
    assert "needs epsilon" in asked._repr_html_()
    assert not plain.wanted
    assert "wanted" not in plain.table


def test_what_no_epsilon_reaches_is_said_with_its_reason():
    asked = MODEL.plan(std_error={"a": 1e-4}, n=5000)
    (only,) = asked.wanted
    assert only.epsilon is None
    assert set(asked.frame["epsilon"]) == {50.0}
    assert only.best.std_error == asked.frame.set_index("term")["std_error"]["a"]
    assert "a: a standard error of 0.0001 is out of reach" in str(asked)
    assert "nearly all of it sampling error; it takes more records" in str(asked)


def test_nothing_is_reached_where_a_fit_reports_no_standard_errors():
    model = hdpf.logit("y ~ a + b", data=hdp.Study(schema=SCHEMA))
    (only,) = model.plan(std_error={"a": 10.0}, n=5000, se_share=0).wanted
    assert only.epsilon is None
    assert only.best.std_error == np.inf


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"std_error": {}}, "must be a dictionary"),
        ({"std_error": 0.1}, "must be a dictionary"),
        ({"std_error": {"c": 0.1}}, "std_error names 'c', and the coefficients are 'Intercept', 'a', 'b'"),
        ({"std_error": {"a": 0.0}}, r"std_error\['a'\]"),
        ({"std_error": {"a": "x"}}, r"std_error\['a'\]"),
        ({"std_error": {"a": 0.1}, "epsilon": 1.0}, "give either epsilon= or std_error=, not both"),
    ],
)
def test_what_makes_no_sense_is_refused(given, says):
    with pytest.raises(hdp.ArgumentError, match=says) as raised:
        MODEL.plan(n=100, **given)
    assert raised.value.argument.startswith("std_error")

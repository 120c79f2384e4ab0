"""Survival formulas: what they read, which spellings are one, and what is refused with which remedy."""

import re

import pytest

from hdpstats._base.errors import FormulaError
from hdpstats.formulas import SurvivalDesign, compile_design, compile_survival, parse
from hdpstats.formulas.parser import parse_survival
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.schema import Schema

SCHEMA = Schema(
    {"entry time": Duration(50, missing=0)},
    time=Duration(100, unit="days", complete=True),
    start=Duration(100, missing=0),
    other=Duration(100, complete=True),
    event=Binary(complete=True),
    cause=Categorical(["none", "relapse", "death"], complete=True),
    age=Continuous(20, 90, complete=True),
    nodes=Continuous(0, 40, complete=True),
    size=Categorical(["<=20", "20-50", ">50"], complete=True),
    w=Weight(max=5, complete=True),
    o=Offset(-2, 2, complete=True),
)


def test_times_event_and_covariates_of_one_row_per_person():
    design = compile_survival("Surv(time, event) ~ age + size", SCHEMA)
    assert isinstance(design, SurvivalDesign)
    assert (design.start, design.stop, design.event) == (None, "time", "event")
    assert design.names == ("age", "size[T.20-50]", "size[T.>50]")
    assert design.covariates.names == ("Intercept", *design.names)
    assert design.needs == ("time", "event", "age", "size")
    assert design.formula == "Surv(time, event) ~ age + size"
    assert hash(design) == hash(compile_survival("Surv(time, event) ~ age + size", SCHEMA))


def test_times_event_and_covariates_of_spells():
    design = compile_survival("Surv(`entry time`, time, cause) ~ log1p(nodes)*size", SCHEMA)
    assert (design.start, design.stop, design.event) == ("entry time", "time", "cause")
    assert design.needs == ("entry time", "time", "cause", "nodes", "size")
    assert design.canonical == "Surv(`entry time`, time, cause) ~ 1 + log1p(nodes) + size + log1p(nodes):size"


def test_a_model_of_the_baseline_alone():
    design = compile_survival("Surv(time, event) ~ 1", SCHEMA)
    assert (design.names, design.needs) == ((), ("time", "event"))


def test_the_covariates_are_those_of_the_same_right_side_with_a_plain_outcome():
    right = "size*age + scale(nodes, mean=3, sd=4)"
    assert (
        compile_survival(f"Surv(time, event) ~ {right}", SCHEMA).covariates.columns
        == compile_design(f"event ~ {right}", SCHEMA).columns
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Surv(time,event)~age+size", " Surv( time ,\n`event` )  ~  1 + age + size"),
        ("Surv(time, event) ~ age*size", "Surv(time, event) ~ age + size + age:size"),
        ("Surv(start, time, event) ~ (age + size)^2", "Surv(start,time,event) ~ (age + size)**2 - 0"),
    ],
)
def test_two_spellings_are_one_request(one, other):
    assert compile_survival(one, SCHEMA).canonical == compile_survival(other, SCHEMA).canonical


REFUSED = [
    ("time ~ age", "time", "no time with its event", "Surv(time, event)"),
    ("Surv(time) ~ age", "Surv(time)", "no time with its event", "Surv(start, stop, event)"),
    ("Surv(start, time, event, age) ~ 1", "Surv(start, time, event, age)", "no time with its event", "Surv("),
    ("Surv(time, cause == 3) ~ age", "Surv(time, cause == 3)", "cause has no level '3'", "'none', 'relapse', 'death'"),
    ("Surv(time, cause == 'deaht') ~ age", 'Surv(time, cause == "deaht")', "has no level", "did you mean 'death'?"),
    ("Surv(time, event == 2) ~ age", "Surv(time, event == 2)", "event has no level '2'", "'0', '1'"),
    ("Surv(time, event > 1) ~ age", "Surv(time, event > 1)", "neither a column nor a function", "bare names"),
    ("Surv(time == 1, event) ~ age", "Surv(time == 1, event)", "neither a column nor a function", "bare names"),
    ("Surv(time, log(event)) ~ age", "Surv(time, log(event))", "neither a column nor a function", "bare names"),
    ("Surv() ~ age", "Surv()", "neither a column nor a function", "bare names"),
    ("log(time) ~ age", "log(time)", "no time with its event", "Surv("),
    ("Surv(time, time) ~ age", "Surv(time, time)", "names a column twice", "of their own"),
    ("Surv(time, time, event) ~ age", "Surv(time, time, event)", "names a column twice", "of their own"),
    ("Surv(time, event) ~ 0 + age", "~ 0", "baseline hazard is the intercept", "leave out 0"),
    ("Surv(time, event) ~ age - 1", "~ 0", "baseline hazard is the intercept", "- 1"),
    ("Surv(time, event) ~ age - age - 1", "Surv(time, event) ~ age - age - 1", "no term is left", "intercept"),
    ("Surv(time, event) ~ time", "time", "cannot explain itself", "leave it out"),
    ("Surv(start, time, event) ~ age + log1p(start)", "log1p(start)", "cannot explain itself", "leave it out"),
    ("Surv(time, event) ~ event", "event", "cannot explain itself", "leave it out"),
    ("Surv(time, event) ~ other", "other", "other is a time of follow-up", "as Continuous"),
    ("Surv(time, event) ~ age:sqrt(other)", "sqrt(other)", "other is a time of follow-up", "as Continuous"),
    ("Surv(age, event) ~ nodes", "age", "a continuous column cannot be a time", "age=Duration(horizon)"),
    (
        "Surv(age, time, event) ~ nodes",
        "age",
        "a continuous column cannot be a time",
        "age=Duration(horizon)",
    ),
    ("Surv(event, time) ~ age", "event", "a binary column cannot be a time", "Duration"),
    ("Surv(start, time) ~ age", "time", "a duration column cannot be the event", "Binary"),
    ("Surv(time, age) ~ nodes", "age", "a continuous column cannot be the event", "no event first"),
    ("Surv(time, w) ~ nodes", "w", "a weight column cannot be the event", "no event first"),
    ("Surv(time, event) ~ o", "o", "declared as an offset", 'offset="o"'),
    ("Surv(tim, event) ~ age", "tim", "no such column", "did you mean time"),
    ("Surv(time, evnt) ~ age", "evnt", "no such column", "did you mean event"),
    ("Surv(time, event) ~ agee", "agee", "no such column", "did you mean age"),
]


@pytest.mark.parametrize(("formula", "term", "reason", "remedy"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refusals_name_the_term_the_reason_and_the_remedy(formula, term, reason, remedy):
    with pytest.raises(FormulaError) as error:
        compile_survival(formula, SCHEMA)
    assert error.value.term == term
    assert re.search(re.escape(reason), error.value.reason)
    assert re.search(re.escape(remedy), error.value.remedy)


def test_a_survival_formula_is_for_survival_models_and_no_others():
    survival, plain = parse_survival("Surv(time, event) ~ age"), parse("event ~ age")
    with pytest.raises(FormulaError, match="plain outcome"):
        compile_design(survival, SCHEMA)
    with pytest.raises(FormulaError, match="no time with its event"):
        compile_survival(plain, SCHEMA)
    assert compile_survival(survival, SCHEMA) == compile_survival("Surv(time, event) ~ age", SCHEMA)

"""Comparisons, intervals, reference levels, ``.`` and roles in formulas: columns, names, bounds and refusals."""

import numpy as np
import pytest

from hdpstats._base.errors import FormulaError
from hdpstats.formulas import compile_design, compile_one_sided, compile_survival
from hdpstats.formulas.coefficients import columns_in_r
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

SCHEMA = Schema(
    {"age at entry": Continuous(0, 100)},
    y=Binary(),
    age=Continuous(0, 100),
    sex=Binary(labels=("female", "male")),
    rx=Categorical(["Obs", "Lev", "Lev+5FU"]),
    grade=Categorical(["1", "2", "3"]),
    status=Categorical(["0", "1", "2"]),
    time=Duration(10),
    w=Weight(max=2),
    o=Offset(-1, 1),
)
AGE = np.array([0.0, 10.0, 50.0, 50.1, 60.0, 100.0])
TABLE = AdmittedTable(
    numeric={"age": AGE, "age at entry": AGE, "sex": np.array([0, 1, 0, 1, 0, 1.0]), "y": np.zeros(6)},
    codes={"rx": np.array([0, 1, 2, 0, 1, 2]), "grade": np.array([0, 1, 2, 0, 1, 2])},
    rows=6,
)


def columns(right):
    design = compile_design(f"y ~ {right}", SCHEMA)
    matrix = design.matrix(TABLE)
    np.testing.assert_array_equal(matrix, design.evaluate_unclipped(TABLE))
    assert (design.lower <= matrix).all()
    assert (matrix <= design.upper).all()
    return {name: matrix[:, place].tolist() for place, name in enumerate(design.names) if name != "Intercept"}


@pytest.mark.parametrize(
    ("right", "name", "values"),
    [
        ("I(age > 50)", "I(age > 50)[T.True]", [0, 0, 0, 1, 1, 1]),
        ("I(age>=50)", "I(age >= 50)[T.True]", [0, 0, 1, 1, 1, 1]),
        ("I(50 <= age)", "I(50 <= age)[T.True]", [0, 0, 1, 1, 1, 1]),
        ("I(age < 50)", "I(age < 50)[T.True]", [1, 1, 0, 0, 0, 0]),
        ("I(age <= -1 + 51)", None, None),
        ("I(age != 50)", "I(age != 50)[T.True]", [1, 1, 0, 1, 1, 1]),
        ("I((age > 20) * (age <= 60))", "I((age > 20) * (age <= 60))", [0, 0, 1, 1, 1, 0]),
        ("I(log1p(age) > 1)", "I(log1p(age) > 1)[T.True]", [0, 1, 1, 1, 1, 1]),
        ("I(rx == 'Lev')", 'I(rx == "Lev")[T.True]', [0, 1, 0, 0, 1, 0]),
        ("I(grade == 2)", "I(grade == 2)[T.True]", [0, 1, 0, 0, 1, 0]),
        ('I(sex == "male")', 'I(sex == "male")[T.True]', [0, 1, 0, 1, 0, 1]),
        ("I(sex == 1)", "I(sex == 1)[T.True]", [0, 1, 0, 1, 0, 1]),
        ("Q('age at entry')", "`age at entry`", AGE.tolist()),
        ('log1p(Q("age at entry"))', "log1p(`age at entry`)", np.log1p(AGE).tolist()),
        ("splines::ns(age, df=1)", "ns(age, df=1)", None),
    ],
)
def test_a_comparison_is_one_where_it_holds(right, name, values):
    if name is None:
        with pytest.raises(FormulaError, match="one number"):
            columns(right)
        return
    found = columns(right)
    assert list(found) == [name]
    if values is not None:
        assert found[name] == values


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("cut(age, c(-Inf, 50, 60, Inf))", ["(-Inf,50]", "(50,60]", "(60, Inf]"]),
        ("cut(age, c(0, 50, 60, 100), include.lowest=TRUE)", ["[0,50]", "(50,60]", "(60,100]"]),
        ("cut(age, c(0, 50, 60, 100), right=FALSE, include.lowest = T)", ["[0,50)", "[50,60)", "[60,100]"]),
        ("cut(age, [-1, 50, 60, 1000])", ["(-1,50]", "(50,60]", "(60,1e+03]"]),
        ("cut(age, c(-1, 50.04, 50.05, 100))", ["(-1,50.04]", "(50.04,50.05]", "(50.05,100]"]),
        ('cut(age, breaks=c(60, -1, 50, 100), labels=c("young", "old", "older"))', ["young", "old", "older"]),
    ],
)
def test_intervals_have_the_names_and_the_members_that_r_gives_them(call, names):
    found = columns(f"0 + {call}")
    assert len(found) == 3
    assert all(name.endswith(f"[{label}]") for name, label in zip(found, names, strict=True))
    assert (np.sum(list(found.values()), axis=0) == 1).all()
    contrasts = columns(call)
    assert list(contrasts.values()) == list(found.values())[1:]
    assert all(name.endswith(f"[T.{label}]") for name, label in zip(contrasts, names[1:], strict=True))


def test_a_comparison_is_coded_as_r_and_patsy_code_what_is_true_or_false():
    found = columns("0 + I(age > 50) + age:I(rx == 'Lev')")
    assert list(found) == [
        *("I(age > 50)[False]", "I(age > 50)[True]"),
        *('age:I(rx == "Lev")[False]', 'age:I(rx == "Lev")[True]'),
    ]
    old, lev = AGE > 50, TABLE.codes["rx"] == 1
    expected = [~old, old, AGE * ~lev, AGE * lev]
    np.testing.assert_array_equal(list(found.values()), np.array(expected, dtype=float))


def test_members_of_intervals():
    assert columns("cut(age, c(-1, 50, 60, 100))")["cut(age, c(-1, 50, 60, 100))[T.(50,60]]"] == [0, 0, 0, 1, 1, 0]
    left = columns("cut(age, c(0, 50, 60, 101), right=FALSE)")
    assert left["cut(age, c(0, 50, 60, 101), right=FALSE)[T.[50,60)]"] == [0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("right", "names"),
    [
        ("C(rx, Treatment('Lev'))", ['C(rx, Treatment("Lev"))[T.Obs]', 'C(rx, Treatment("Lev"))[T.Lev+5FU]']),
        ("C(rx, Treatment(reference='Lev'))", None),
        ("relevel(rx, ref='Lev')", ['relevel(rx, ref="Lev")[T.Obs]', 'relevel(rx, ref="Lev")[T.Lev+5FU]']),
        ("relevel(factor(rx), 'Lev')", None),
        ("C(rx, Treatment)", ["C(rx, Treatment)[T.Lev]", "C(rx, Treatment)[T.Lev+5FU]"]),
        ("as.factor(rx)", ["as.factor(rx)[T.Lev]", "as.factor(rx)[T.Lev+5FU]"]),
    ],
)
def test_any_level_may_be_the_reference(right, names):
    found = columns(right)
    assert names is None or list(found) == names
    expected = [0, 2] if "Lev'" in right else [1, 2]
    assert list(found.values()) == [(TABLE.codes["rx"] == code).astype(float).tolist() for code in expected]


def test_a_dot_is_every_other_column_that_may_explain():
    design = compile_design("y ~ . - rx", SCHEMA)
    assert design.needs == ("y", "age at entry", "age", "sex", "grade", "status", "time")
    assert compile_design("y ~ .", SCHEMA).canonical.endswith("+ rx + grade + status + time")
    survival = compile_survival("Surv(time, status) ~ . + offset(o)", SCHEMA)
    assert survival.needs == ("time", "status", "age at entry", "y", "age", "sex", "rx", "grade")
    assert compile_one_sided("~ .^2 - .", Schema(a=Continuous(0, 1), b=Continuous(0, 1))).names == ("Intercept", "a:b")


def test_offset_strata_and_cluster_are_no_terms():
    design = compile_survival("Surv(time, status) ~ age + offset(o) + cluster(id)", SCHEMA).covariates
    assert design.names == ("Intercept", "age")
    assert (design.role("offset"), design.role("cluster"), design.role("strata")) == ("o", "id", None)
    assert design.canonical == "Surv(time, status) ~ 1 + age"
    with pytest.raises(FormulaError, match="nothing here has offset columns"):
        compile_one_sided("~ age + offset(o)", SCHEMA)


@pytest.mark.parametrize(
    ("left", "level", "source"),
    [
        ("Surv(time, status == 2)", 2, "Surv(time, status == 2)"),
        ('survival::Surv(time,status=="2")', 2, 'Surv(time, status == "2")'),
        ("Surv(time, y == 1)", None, "Surv(time, y)"),
        ("Surv(time, y == 0)", 0, "Surv(time, y == 0)"),
        ("Surv(time, sex == 'male')", None, "Surv(time, sex)"),
    ],
)
def test_one_level_of_a_column_may_be_the_event(left, level, source):
    design = compile_survival(f"{left} ~ age", SCHEMA)
    assert design.level == level
    assert design.canonical == f"{source} ~ 1 + age"
    assert len(design.causes(SCHEMA)) == 1


@pytest.mark.parametrize(
    ("right", "reason", "remedy"),
    [
        ("cut(age, c(0, 50, 100))", "be 0, which lies in none", "include.lowest=TRUE"),
        ("cut(age, c(-1, 50, 90))", "be 100, which lies in none", "add -Inf and Inf"),
        ("cut(rx, c(-1, 50, 90))", "a category, not a number", 'I(rx == "level")'),
        ("I(age > 100)", "holds for no row", "in between"),
        ("I(age <= 100)", "holds for every row", "in between"),
        ("I(rx > 2)", "a category, not a number", 'I(rx == "level")'),
        ("I(rx == 'lev')", "rx has no level 'lev'", "did you mean 'Lev'?"),
        ("I(age == 'old')", "age is declared as continuous", "I(age > 50)"),
        ("C(rx, Treatment('5FU'))", "rx has no level '5FU'", "did you mean"),
        ("C(age)", "a continuous column has no levels", "cut(age, c(...))"),
        ("o", "declared as an offset", "offset(o)"),
    ],
)
def test_refusals(right, reason, remedy):
    with pytest.raises(FormulaError) as error:
        compile_design(f"y ~ {right}", SCHEMA)
    assert reason in error.value.reason
    assert remedy in error.value.remedy


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ I(age > 50) + rx", ["I(age > 50)TRUE", "rxLev", "rxLev+5FU"]),
        ("y ~ 0 + I(age > 50)", ["I(age > 50)FALSE", "I(age > 50)TRUE"]),
        (
            "y ~ cut(age, c(-Inf, 50, 60, Inf)) + offset(o)",
            [f"cut(age, c(-Inf, 50, 60, Inf)){interval}" for interval in ("(50,60]", "(60, Inf]")],
        ),
        (
            'y ~ I(rx == "Lev") + relevel(rx, ref = "Lev")',
            ['I(rx == "Lev")TRUE', 'relevel(rx, ref = "Lev")Obs', 'relevel(rx, ref = "Lev")Lev+5FU'],
        ),
        ("Surv(time, status == 2) ~ . - status + strata(grade)", None),
    ],
)
def test_columns_have_the_names_that_r_gives_them(formula, names):
    found = [column.name for column in columns_in_r(formula, SCHEMA).values() if column.name != "(Intercept)"]
    if names is None:
        names = ["`age at entry`", "y", "age", "sexmale", "rxLev", "rxLev+5FU", "grade2", "grade3"]
    assert found == names

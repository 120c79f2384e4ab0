"""Knots that formulas leave out: quantiles of public rows that are written into the formula, names that stay."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, FormulaError
from hdpstats.formulas import compile_design
from hdpstats.formulas.column_space import canonical_design
from hdpstats.formulas.knots import with_public_knots, without_public_knots
from hdpstats.formulas.splines import restricted_splines, values
from hdpstats.schema.public import PublicTable
from hdpstats.schema.table import AdmittedTable

SCHEMA = hdp.Schema(
    event3=hdp.Binary(),
    age=hdp.Continuous(0, 120),
    nodes=hdp.Continuous(0, 60),
    same=hdp.Continuous(0, 10),
    size=hdp.Categorical(["<=20", "20-50", ">50"]),
)
GBSG = hdp.datasets.load_gbsg().assign(same=1.0)
STUDY = hdp.Study(public=GBSG, schema=SCHEMA)
AGES = np.sort(GBSG["age"].to_numpy(dtype=float))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("y ~ age + log(nodes)", "y ~ age + log(nodes)"),
        ("event3 ~ ns(age,3)", "event3 ~ ns(age, 3, knots=[48.0, 59.0], lower=21.0, upper=80.0)"),
        ("event3 ~ ns(age, df=1)", "event3 ~ ns(age, df=1, lower=21.0, upper=80.0)"),
        ("event3 ~ ns(age, knots=50)", "event3 ~ ns(age, knots=50, lower=21.0, upper=80.0)"),
        ("event3 ~ splines::ns(age, df=2, lower=30)", "event3 ~ ns(age, df=2, lower=30, knots=[53.0], upper=80.0)"),
        ("event3 ~ bs(nodes, df=5) * age", "event3 ~ bs(nodes, df=5, knots=[2.0, 5.0]) * age"),
        ("event3 ~ bs(nodes, df=3)", "event3 ~ bs(nodes, df=3)"),
        ("event3 ~ rms::rcs(age, 3)", "event3 ~ rcs(age, 3, knots=[40.0, 53.0, 65.0])"),
        ("event3 ~ rcs(age, c(40, 50, 60))", "event3 ~ rcs(age, c(40, 50, 60))"),
        ("event3 ~ ns(pmax(age - 50, 0), 2)", "event3 ~ ns(pmax(age - 50, 0), 2, knots=[3.0], lower=0.0, upper=30.0)"),
        ("event3 ~ ns(size, 3)", "event3 ~ ns(size, 3)"),
        ("event3 ~ ns(", "event3 ~ ns("),
    ],
)
def test_the_formula_has_the_knots_that_public_rows_say(given, expected):
    assert with_public_knots(given, STUDY.public) == expected
    assert with_public_knots(expected, STUDY.public) == expected
    assert with_public_knots(given, None) == given


def test_knots_are_quantiles_as_r_takes_them():
    formula = with_public_knots("event3 ~ ns(age, df=5) + rcs(age, 6)", STUDY.public)
    expected = np.quantile(AGES, [0.2, 0.4, 0.6, 0.8], method="inverted_cdf").tolist()
    assert f"knots={expected}" in formula
    assert f"knots={np.quantile(AGES, np.linspace(0.05, 0.95, 6), method='inverted_cdf').tolist()}" in formula


def test_values_that_many_people_share_give_knots_of_distinct_values():
    few = PublicTable.from_frame(pd.DataFrame({"age": [0.0] * 90 + list(range(1, 11))}), SCHEMA, required=["age"])
    formula = with_public_knots("event3 ~ ns(age, df=3)", few)
    assert formula == "event3 ~ ns(age, df=3, knots=[3.0, 7.0], lower=0.0, upper=10.0)"


def test_too_few_different_values_are_refused_with_their_number():
    with pytest.raises(FormulaError, match=r"ns\(same, df=3\): public rows have 1 different values of same"):
        hdpf.logit("event3 ~ ns(same, df=3)", STUDY)


def test_names_are_those_that_the_user_wrote_and_the_ledger_has_the_knots():
    model = hdpf.logit("event3 ~ ns(age, df=2) + rcs(nodes, 3)", STUDY)
    names = ["ns(age, df=2)[1]", "ns(age, df=2)[2]", "rcs(nodes, 3)[1]", "rcs(nodes, 3)[2]"]
    assert list(model.fit_public().params.index) == ["Intercept", *names]
    assert "knots=[53.0]" in model.fit_public().facts.formula
    design = compile_design(with_public_knots("event3 ~ ns(age, df=2)", STUDY.public), SCHEMA)
    assert canonical_design(design, SCHEMA).design.canonical.endswith("ns(age, knots=[53.0], lower=21.0, upper=80.0)")
    assert compile_design(design.canonical, SCHEMA).columns == design.columns


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("ns(age, df=2, lower=[30], upper=80.0)", "ns(age, df=2)"),
        ("ns(age,df=2,knots=c(50),lower=30)", "ns(age, df=2)"),
        ("bs(age, knots=[40, 60], lower=0, degree=2)", "bs(age, knots=[40, 60], degree=2)"),
        ("rcs(age, c(40, 50, 60), nk=3)", "rcs(age, c(40, 50, 60), nk=3)"),
        ("rcs(age, 3, knots=(40, 50, 60))", "rcs(age, 3)"),
        ("ns(I(age - 50), 2, knots=[-1.5], lower=-5, upper=1e1)", "ns(I(age - 50), 2)"),
    ],
)
def test_a_name_leaves_out_bounds_and_knots_that_are_counted(call, name):
    assert without_public_knots(f"event3 ~ nodes + {call}") == f"event3 ~ nodes + {name}"


def test_spellings_of_one_restricted_spline_are_one_question():
    asked = {
        canonical_design(compile_design(f"event3 ~ {call}", SCHEMA), SCHEMA).design.canonical
        for call in ("rcs(age, [40, 50, 60])", "rms::rcs(age, c(40,50,60))", "rcs(age, nk=3, knots=[40, 50, 60.0])")
    }
    assert asked == {"event3 ~ 1 + rcs(age, knots=[40.0, 50.0, 60.0])"}


@pytest.mark.parametrize("knots", [[30.0, 50.0, 60.0], [25.0, 40.0, 41.0, 60.0, 80.0]])
def test_restricted_splines_are_harrells(knots):
    x, t = np.linspace(0, 120, 2401), np.array(knots)
    cubes = np.maximum(x[:, None] - t, 0.0) ** 3
    for j, curve in enumerate(restricted_splines(knots)):
        last = t[-1] - t[-2]
        plain = cubes[:, j] - cubes[:, -2] * (t[-1] - t[j]) / last + cubes[:, -1] * (t[-2] - t[j]) / last
        np.testing.assert_allclose(values(curve, x), plain / (t[-1] - t[0]) ** 2, atol=1e-10)


def test_restricted_splines_span_natural_splines():
    table = AdmittedTable(numeric={"age": np.linspace(0, 120, 500)}, codes={}, rows=500)
    own = compile_design("event3 ~ rcs(age, [30, 50, 60, 75])", SCHEMA).evaluate_unclipped(table)
    natural = compile_design("event3 ~ ns(age, knots=[50, 60], lower=30, upper=75)", SCHEMA).evaluate_unclipped(table)
    fitted, *_ = np.linalg.lstsq(own, natural, rcond=None)
    np.testing.assert_allclose(own @ fitted, natural, atol=1e-9)


@pytest.mark.parametrize(
    "formula", ["rcs(age, 4)", "rcs(age, [30, 50, 60])", "I(pmax(age - 50, 0))", "pmin(age, nodes)"]
)
def test_values_stay_within_the_bounds_of_their_columns(formula):
    rng = np.random.default_rng(1)
    numeric = {"age": rng.uniform(0, 120, 4000), "nodes": rng.uniform(0, 60, 4000)}
    table = AdmittedTable(numeric=numeric, codes={}, rows=4000)
    design = compile_design(with_public_knots(f"event3 ~ {formula}", STUDY.public), SCHEMA)
    X = design.evaluate_unclipped(table)
    for place, column in enumerate(design.columns):
        assert column.lower <= X[:, place].min()
        assert X[:, place].max() <= column.upper
    assert design.matrix(table) == pytest.approx(X)


def test_pmax_and_pmin_are_rs():
    table = AdmittedTable(numeric={"age": np.array([10.0, 50.0, 70.0])}, codes={}, rows=3)
    design = compile_design("event3 ~ pmax(age, 50) + I(pmin(50, age) / 10) + I(pmax(age - 50, 0))", SCHEMA)
    assert design.evaluate_unclipped(table)[:, 1:].tolist() == [[50.0, 1.0, 0.0], [50.0, 5.0, 0.0], [70.0, 5.0, 20.0]]
    assert [(column.lower, column.upper) for column in design.columns[1:]] == [(50.0, 120.0), (0.0, 5.0), (0.0, 70.0)]


def test_a_description_has_knots_where_private_people_are():
    people = hdp.datasets.load_rotterdam()[["age", "nodes"]]
    schema = hdp.Schema(age=hdp.Continuous(20, 95, complete=True), nodes=hdp.Continuous(0, 40, complete=True))
    study = hdp.Study(private=people, public=people.iloc[::2], schema=schema, budget=hdp.Budget(epsilon=50))
    description = hdp.describe(study, ["age", "nodes"], epsilon=50)
    assert description.knots("age", 3) == pytest.approx(np.quantile(people["age"], [0.25, 0.5, 0.75]), abs=3)
    harrell = np.quantile(people["age"], [0.05, 0.35, 0.65, 0.95])
    assert description.knots("age", 4, function="rcs") == pytest.approx(harrell, abs=3)
    median = description.tidy().set_index(["variable", "statistic"]).loc[("age", "median"), "estimate"]
    assert description.knots("age", 3)[1] == float(f"{median:.4g}")
    with pytest.raises(ArgumentError, match="count: quantiles of 'nodes' would be"):
        description.knots("nodes", 9)
    with pytest.raises(ArgumentError, match="count must be"):
        description.knots("age", 2, function="rcs")
    with pytest.raises(ArgumentError, match="column must be"):
        description.knots("grade", 2)

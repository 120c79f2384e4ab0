"""Knots that formulas leave out: quantiles of public rows that are written into the formula, names that stay."""

import ast
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, FormulaError
from hdpstats.formulas import compile_design
from hdpstats.formulas.column_space import canonical_design
from hdpstats.formulas.knots import with_public_knots, without_public_knots
from hdpstats.formulas.splines import restricted_splines, values
from hdpstats.schema.public import PublicTable
from hdpstats.schema.table import AdmittedTable
from tests import known_noise

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


def public_ages(values):
    return PublicTable.from_frame(pd.DataFrame({"age": values}), SCHEMA, required=["age"])


@pytest.mark.parametrize(
    ("values", "call", "expected"),
    [
        ([0] * 90 + list(range(1, 11)), "ns(age, df=3)", "knots=[1.0, 5.0], lower=0.0, upper=10.0"),
        ([10] * 90 + list(range(10)), "ns(age, df=3)", "knots=[4.0, 9.0], lower=0.0, upper=10.0"),
        ([5] * 60 + list(range(11)), "ns(age, df=4)", "knots=[2.0, 5.0, 7.0], lower=0.0, upper=10.0"),
        ([0] * 60 + list(range(1, 41)), "ns(age, df=4)", "knots=[1.0, 15.0, 27.0], lower=0.0, upper=40.0"),
        ([0] * 60 + list(range(1, 41)), "rcs(age, 4)", "knots=[1.0, 5.0, 20.0, 35.0]"),
        ([0] * 60 + list(range(1, 41)), "bs(age, df=5)", "knots=[1.0, 7.0]"),
        ([0] * 50 + [1] * 30 + [2] * 20, "ns(age, df=2)", "knots=[1.0], lower=0.0, upper=2.0"),
        ([1] * 80 + [2] * 10 + [3] * 10, "rcs(age, 3)", "knots=[1.0, 2.0, 3.0]"),
    ],
)
def test_where_people_share_values_knots_are_where_people_are(values, call, expected):
    assert with_public_knots(f"event3 ~ {call}", public_ages(values)) == f"event3 ~ {call[:-1]}, {expected})"


def test_quantiles_that_are_apart_stay_and_others_have_the_most_people_on_both_sides():
    """Quartiles of nodes are 1, the smallest value, 3 and 7; five of six of Harrell's quantiles are apart."""
    nodes = GBSG["nodes"].to_numpy(dtype=float)
    assert np.quantile(nodes, [0.25, 0.5, 0.75], method="inverted_cdf").tolist() == [nodes.min(), 3.0, 7.0]
    assert "knots=[2.0, 3.0, 7.0], lower=1.0" in with_public_knots("event3 ~ ns(nodes, df=4)", STUDY.public)
    found = with_public_knots("event3 ~ rcs(nodes, 6)", STUDY.public)
    kept = sorted(set(np.quantile(nodes, np.linspace(0.05, 0.95, 6), method="inverted_cdf").tolist()))
    assert len(kept) == 5

    def harmonic_mean(value):
        before, after = max(k for k in [0.0, *kept] if k < value), min(k for k in [*kept, 60.0] if k > value)
        at = np.sum(nodes == value) / 2
        a, b = np.sum((before < nodes) & (nodes < value)) + at, np.sum((value < nodes) & (nodes < after)) + at
        return 2 * a * b / (a + b)

    best = max((value for value in np.unique(nodes).tolist() if value not in kept), key=harmonic_mean)
    assert f"knots={sorted([*kept, best])}" in found


@pytest.mark.parametrize("call", ["ns(age, df=5)", "bs(age, df=6)", "rcs(age, 5)"])
def test_quantiles_that_rounding_would_move_together_have_more_digits(call):
    """Most people lie within one rounded unit, as of a laboratory value with a long tail."""
    values = np.sort(np.concatenate([0.5 + np.arange(900) / 1e4, np.linspace(1.0, 119.0, 100)]))
    formula = with_public_knots(f"event3 ~ {call}", public_ages(values))
    shares = [0.05, 0.275, 0.5, 0.725, 0.95] if call.startswith("rcs") else None
    shares = shares or np.linspace(0, 1, 6 if call.startswith("ns") else 5)[1:-1]
    expected = np.quantile(values, shares, method="inverted_cdf")
    found = np.array(ast.literal_eval(formula.split("knots=")[1].split("]")[0] + "]"))
    assert np.all(np.abs(found - expected) <= 0.05 * np.diff(expected).min())
    assert np.all(np.round(found, 3) == found)


def test_quantiles_near_zero_do_not_become_zero():
    """A column with a long tail, whose declared bounds begin below zero."""
    values = np.exp(3.0 * stats.norm.ppf((np.arange(1000) + 0.5) / 1000))
    schema = hdp.Schema(marker=hdp.Continuous(-5.0, 1e5))
    public = PublicTable.from_frame(pd.DataFrame({"marker": values}), schema, required=["marker"])
    assert "knots=[0.01, 0.31, 3.16, 137.01]" in with_public_knots("event3 ~ rcs(marker, 4)", public)


@pytest.mark.parametrize(("call", "has"), [("ns(age, df=3)", 3), ("bs(age, df=6)", 3), ("rcs(age, 3)", 3)])
def test_a_column_of_three_values_has_no_more_knots_than_it_has_values_between_the_ends(call, has):
    with pytest.raises(FormulaError, match=rf"public rows have {has} different values of age, too few for its knots"):
        with_public_knots(f"event3 ~ {call}", public_ages([0] * 50 + [1] * 30 + [2] * 20))


def test_an_outcome_in_a_spline_is_refused_as_such():
    public = PublicTable.from_frame(GBSG[["event3"]], hdp.Schema(event3=hdp.Continuous(0, 1)), required=["event3"])
    with pytest.raises(FormulaError, match="the outcome cannot explain itself"):
        with_public_knots("event3 ~ ns(event3, df=3)", public)


@pytest.mark.parametrize("call", ["ns(marker, df=4)", "bs(marker, df=5)", "rcs(marker, 4)"])
def test_an_outlier_that_leaves_values_too_close_is_named_as_the_reason(call):
    public = PublicTable.from_frame(
        pd.DataFrame({"marker": [*range(20, 90), 1e9]}), hdp.Schema(marker=hdp.Continuous(0, 1e9)), required=["marker"]
    )
    with pytest.raises(FormulaError, match="71 different values of marker, 2 of them at least 1e\\+03 apart"):
        with_public_knots(f"event3 ~ {call}", public)


@pytest.mark.parametrize(
    ("call", "lower", "upper"),
    [
        ("ns(nodes, knots=[1, 3])", 0.0, 51.0),
        ("ns(nodes, knots=[0.5, 3])", 0.0, 51.0),
        ("ns(nodes, knots=[1.5, 3])", 1.0, 51.0),
        ("ns(nodes, knots=[3, 51])", 1.0, 60.0),
        ("ns(nodes, df=3, knots=c(1, 55))", 0.0, 60.0),
        ("ns(nodes, knots=[1, 3], upper=30)", 0.0, None),
    ],
)
def test_boundary_knots_make_room_for_knots_that_are_given(call, lower, upper):
    formula = with_public_knots(f"event3 ~ {call}", STUDY.public)
    settings = f"lower={lower}" if upper is None else f"lower={lower}, upper={upper}"
    assert formula == f"event3 ~ {call[:-1]}, {settings})"
    assert len(compile_design(formula, SCHEMA).columns) == 1 + 3


@pytest.mark.parametrize("call", ["ns(nodes, knots=[0, 3])", "ns(nodes, knots=[1, 3], lower=1)", "ns(nodes, knots=70)"])
def test_knots_at_the_bounds_or_at_given_boundary_knots_are_refused(call):
    with pytest.raises(FormulaError, match="does not lie between"):
        hdpf.logit(f"event3 ~ {call}", STUDY)


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
    with pytest.raises(ArgumentError, match="count must be"):
        description.knots("age", 2, function="rcs")
    with pytest.raises(ArgumentError, match="column must be one of 'age', 'nodes', not 'grade'"):
        description.knots("grade", 2)


HEAPED = hdp.Schema(
    event3=hdp.Binary(complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    pgr=hdp.Continuous(0, 500, complete=True),
    few=hdp.Continuous(0, 10, complete=True),
    year=hdp.Continuous(10_000_000, 10_000_100, complete=True),
)


def with_heaped(frame):
    few, year = np.arange(len(frame)) % 10 // 4, 10_000_000 + frame["age"].to_numpy()
    return frame.assign(few=few.astype(float), year=year)[list(HEAPED)]


@pytest.fixture(scope="module")
def heaped():
    """A study of people many of whom have the lowest value of a column, other than its public rows, and its numbers."""
    people, public = hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg()
    study = hdp.Study(
        private=with_heaped(people), public=with_heaped(public), schema=HEAPED, budget=hdp.Budget(epsilon=80)
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        known_noise.off(monkeypatch)
        return study, hdp.describe(study, ["nodes", "pgr", "few", "year"], epsilon=40)


@pytest.mark.parametrize("column", ["nodes", "pgr", "year"])
@pytest.mark.parametrize("function", ["ns", "bs", "rcs"])
def test_every_spline_takes_described_knots_of_columns_with_many_equal_values(heaped, column, function):
    study, description = heaped
    bounds = (HEAPED[column].lower, HEAPED[column].upper)
    for count in range(3 if function == "rcs" else 1, 10):
        knots = description.knots(column, count, function=function)
        assert len(knots) == count
        assert all(a < b for a, b in pairwise([bounds[0], *knots, bounds[1]]))
        for other in ("ns", "bs", *(["rcs"] if count >= 3 else [])):
            hdpf.logit(f"event3 ~ {other}({column}, knots={knots})", study)


def test_described_quantiles_that_are_apart_stay(heaped):
    _, description = heaped
    nodes = np.minimum(hdp.datasets.load_rotterdam()["nodes"].to_numpy(dtype=float), 40)
    assert np.quantile(nodes, [0.25, 0.5, 0.75], method="inverted_cdf").tolist() == [0.0, 1.0, 4.0]
    knots = description.knots("nodes", 3)
    assert {1.0, 4.0} < set(knots)
    shares = np.bincount(np.searchsorted(knots, nodes, side="left"), minlength=4) / len(nodes)
    assert shares.min() > 0.08
    assert description.knots("nodes", 2) == [1.0, 2.0]


def test_a_column_with_too_few_values_for_the_knots_says_how_many_there_are(heaped):
    _, description = heaped
    assert description.knots("few", 1) == [1.0]
    message = r"count: too few different values of 'few', .* for {} different knots between its bounds 0 and 10; "
    for count in (2, 3, 5):
        with pytest.raises(ArgumentError, match=message.format(count) + "ask for 1, or write knots of your own"):
            description.knots("few", count)
    with pytest.raises(ArgumentError, match=message.format(3) + "enter the column without a spline, or write knots"):
        description.knots("few", 3, function="rcs")


def test_knots_of_a_description_without_quantiles_are_refused_with_the_remedy(heaped):
    study, _ = heaped
    described = hdp.describe(study, ["nodes", "event3"], epsilon=1, quantiles=False)
    with pytest.raises(ArgumentError, match="no quantiles of 'nodes', as it was made with quantiles=False; describe"):
        described.knots("nodes", 3)
    with pytest.raises(ArgumentError, match="column must be one of 'nodes', not 'age'"):
        described.knots("age", 3)
    with pytest.raises(ArgumentError, match="knots need a column of numbers among those that were described"):
        hdp.describe(study, ["event3"], epsilon=1).knots("event3", 3)

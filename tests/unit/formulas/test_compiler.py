"""Formulas compiled to designs: names, bounds and matrices against R's model.matrix and values worked by hand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from hdpstats._base.errors import FormulaError, SchemaError
from hdpstats.formulas import Design, compile_design, compile_one_sided, parse
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "model_matrix.json").read_text())

SCHEMA = Schema(
    {
        "age at entry": Continuous(19, 90, complete=True),
        "größe": Continuous(1, 2, complete=True),
        "class": Binary(complete=True),
    },
    y=Binary(complete=True),
    age=Continuous(20, 90, complete=True),
    nodes=Continuous(0, 40, complete=True),
    pgr=Continuous(0.125, 1000, complete=True),
    change=Continuous(-2, 3, complete=True),
    hormon=Binary(complete=True),
    size=Categorical(["<=20", "20-50", ">50"], complete=True),
    grade=Categorical(["1", "2", "3"], complete=True),
    meno=Categorical(["pre", "post"], complete=True),
    site=Categorical([f"s{number}" for number in range(300)], complete=True),
    time=Duration(10, complete=True),
    w=Weight(max=5, complete=True),
    o=Offset(-2, 2, complete=True),
)
TABLE = AdmittedTable(
    numeric={name: np.array(values, dtype=np.float64) for name, values in REFERENCE["numbers"].items()},
    codes={name: np.array(values, dtype=np.int64) for name, values in REFERENCE["codes"].items()},
    rows=12,
)


def in_r(name: str) -> str:
    """Write the name of a design column as R does."""
    plain = re.sub(r"\[(?:T\.)?([^\]]*)\]", r"\1", name).replace(" ", "")
    return "(Intercept)" if name == "Intercept" else plain


@pytest.mark.parametrize("case", REFERENCE["beyond"], ids=lambda case: case["formula"])
def test_splines_of_public_rows_go_on_beyond_their_boundary_knots_as_in_r(case):
    schema = Schema(y=Binary(complete=True), age=Continuous(30, 80, complete=True))
    matrix = compile_design(case["formula"], schema).evaluate_unclipped(TABLE)
    np.testing.assert_allclose(matrix, np.array(case["columns"]).T, rtol=1e-13, atol=1e-13)


# R writes the factors of a term in the order in which the formula first names them: size:age in y ~ size + age:size.
REORDERED = {"y ~ size + age:size", "y ~ meno + size:meno", "y ~ size:meno + age:size"}


@pytest.mark.parametrize("case", REFERENCE["designs"], ids=lambda case: case["formula"])
def test_design_is_that_of_model_matrix(case):
    design = compile_design(case["formula"], SCHEMA)
    matrix = design.matrix(TABLE)
    ours = [in_r(name) for name in design.names]
    theirs = [name.replace(" ", "") for name in case["names"]]
    if case["formula"] in REORDERED:
        ours, theirs = ([":".join(sorted(name.split(":"))) for name in names] for names in (ours, theirs))
        assert sorted(ours) == sorted(theirs)
    else:
        assert ours == theirs
    in_our_order = np.array(case["columns"])[[theirs.index(name) for name in ours]]
    atol = 1e-14 if re.search(r"[bn]s\(", case["formula"]) else 0
    np.testing.assert_allclose(matrix, in_our_order.T, rtol=2e-15, atol=atol)
    assert (design.lower <= matrix).all()
    assert (matrix <= design.upper).all()


@pytest.mark.parametrize(
    ("python", "r"),
    [
        ("y ~ I(age**2) + I(age ** 3)", "y ~ I(age^2) + I(age^3)"),
        ("y ~ (age + nodes)**2", "y ~ (age + nodes)^2"),
        ("y ~ C(size)*age", "y ~ factor(size)*age"),
        ("y ~ scale(age, mean=50, sd=10)", "y ~ scale(age, center=50, scale=10)"),
        ("y ~ scale(age, sd=10, mean=50.0)", "y ~ scale(age, center=5e1, scale=10)"),
        ("y~age+nodes", " y\t~ age\n + nodes "),
        ("y ~ `age` + `nodes`", "y ~ age + nodes"),
    ],
)
def test_spellings_of_python_and_of_r_mean_the_same(python, r):
    one, other = compile_design(python, SCHEMA), compile_design(r, SCHEMA)
    np.testing.assert_array_equal(one.matrix(TABLE), other.matrix(TABLE))
    assert parse(python).terms == parse(r).terms


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~", ["Intercept"]),
        ("y ~ log( age+1 ) + I( age**2 )", ["Intercept", "log(age + 1)", "I(age**2)"]),
        ("y ~ C( size )", ["Intercept", "C(size)[T.20-50]", "C(size)[T.>50]"]),
        ("y ~ 0 + size", ["size[<=20]", "size[20-50]", "size[>50]"]),
        ("y ~ C(size) + factor(size) + age + age", ["Intercept", "C(size)[T.20-50]", "C(size)[T.>50]", "age"]),
        ("y ~ C(hormon)", ["Intercept", "C(hormon)[T.1]"]),
        ("y ~ 0 + C(hormon)", ["C(hormon)[0]", "C(hormon)[1]"]),
        ("y ~ meno + age:meno", ["Intercept", "meno[T.post]", "age:meno[pre]", "age:meno[post]"]),
        ("y ~ nodes + nodes:age", ["Intercept", "nodes", "nodes:age"]),
        ("y ~ `age at entry`", ["Intercept", "`age at entry`"]),
        ("y ~ `größe` + `class` + time", ["Intercept", "`größe`", "`class`", "time"]),
        ("time ~ scale(age, mean=-1, sd=.5)", ["Intercept", "scale(age, mean=-1, sd=.5)"]),
    ],
)
def test_names_of_columns(formula, names):
    assert list(compile_design(formula, SCHEMA).names) == names


@pytest.mark.parametrize(
    ("term", "lower", "upper"),
    [
        ("age", 20, 90),
        ("hormon", 0, 1),
        ("time", 0, 10),
        ("log1p(nodes)", 0, np.log(41)),
        ("sqrt(nodes)", 0, np.sqrt(40)),
        ("exp(change)", np.exp(-2), np.exp(3)),
        ("abs(change)", 0, 3),
        ("abs(I(change - 4))", 1, 6),
        ("I(change^2)", 0, 9),
        ("I(change^3)", -8, 27),
        ("I(change^4)", 0, 81),
        ("I(change^1)", -2, 3),
        ("I(-age)", -90, -20),
        ("I(age - change)", 17, 92),
        ("I(age * change)", -180, 270),
        ("I(1 / age)", 1 / 90, 1 / 20),
        ("I(1 / (change - 4))", -1, -1 / 6),
        ("I(change - change)", -5, 5),
        ("scale(age, mean=50, sd=10)", -3, 4),
        ("age:change", -180, 270),
        ("change:change", -2, 3),
        ("log2(age) - log2(age) + log10(pgr)", np.log10(0.125), 3),
    ],
)
def test_bounds_come_from_the_schema(term, lower, upper):
    column = compile_design(f"y ~ 0 + {term}", SCHEMA).columns[0]
    np.testing.assert_allclose([column.lower, column.upper], [lower, upper], rtol=1e-15, atol=1e-15)


def test_bounds_of_categories_and_products():
    design = compile_design("y ~ size*change + size:age + meno + meno:size", SCHEMA)
    bounds = {column.name: (column.lower, column.upper) for column in design.columns}
    assert bounds["Intercept"] == (1, 1)
    assert bounds["size[T.>50]"] == (0, 1)
    assert bounds["size[T.>50]:change"] == (-2, 3)
    assert bounds["size[<=20]:age"] == (0, 90)
    assert bounds["meno[T.post]:size[T.>50]"] == (0, 1)


def test_a_design_knows_what_it_needs():
    design = compile_design("y ~ log(age) + C(size):age + hormon - 1", SCHEMA)
    assert design.formula == "y ~ log(age) + C(size):age + hormon - 1"
    assert (design.response, design.intercept) == ("y", False)
    assert design.needs == ("y", "age", "hormon", "size")


def test_matrix_is_a_fresh_array_in_c_order_and_leaves_the_table_alone():
    before = {name: values.copy() for name, values in TABLE.numeric.items()}
    matrix = compile_design("y ~ age + I(age^2) + I(age)", SCHEMA).matrix(TABLE)
    assert matrix.flags.c_contiguous
    assert matrix.dtype == np.float64
    matrix[:] = 0
    for name, values in TABLE.numeric.items():
        np.testing.assert_array_equal(values, before[name])


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_no_and_of_one_row(rows):
    table = AdmittedTable(
        numeric={name: values[:rows] for name, values in TABLE.numeric.items()},
        codes={name: values[:rows] for name, values in TABLE.codes.items()},
        rows=rows,
    )
    design = compile_design("y ~ age*size + log(pgr)", SCHEMA)
    assert design.matrix(table).shape == (rows, 7)
    assert design.evaluate_unclipped(table).shape == (rows, 7)


def test_values_stay_within_bounds_where_a_function_is_rounded():
    schema = Schema(y=Binary(complete=True), x=Continuous(0.1, 0.3, complete=True))
    design = compile_design("y ~ sqrt(I(log(x) - log(0.1)))", schema)
    ends = np.concatenate([np.full(64, 0.1), np.nextafter(np.full(64, 0.1), 1), np.full(65, 0.3)])
    matrix = design.matrix(AdmittedTable(numeric={"x": ends}, codes={}, rows=len(ends)))
    assert np.isfinite(matrix).all()
    assert (design.lower <= matrix).all()
    assert (matrix <= design.upper).all()


def test_public_rows_beyond_the_bounds_are_evaluated_as_they_are():
    design = compile_design("y ~ age + log(age) + size:age", SCHEMA)
    table = AdmittedTable(numeric={"age": np.array([10.0, 100.0])}, codes={"size": np.array([1, 2])}, rows=2)
    matrix = design.evaluate_unclipped(table)
    np.testing.assert_array_equal(matrix[:, 1], [10, 100])
    np.testing.assert_allclose(matrix[:, 2], np.log([10, 100]))
    np.testing.assert_array_equal(matrix[:, 3:], [[10, 0], [0, 100]])
    np.testing.assert_array_equal(design.matrix(table)[:, 1], [20, 90])


@pytest.mark.parametrize("age", [-1.0, 0.0, np.nan, np.inf])
def test_public_rows_without_a_finite_value_are_refused(age):
    design = compile_design("y ~ change + log(age)", SCHEMA)
    table = AdmittedTable(numeric={"age": np.array([50.0, age]), "change": np.array([0.0, 1.0])}, codes={}, rows=2)
    with pytest.raises(SchemaError, match=r"log\(age\) is not finite") as error, np.errstate(all="raise"):
        design.evaluate_unclipped(table)
    assert error.value.term == "log(age)"


REFUSED = [
    ("y ~ log(nodes)", "the schema lets nodes be 0", r"log1p\(nodes\)"),
    ("y ~ log(change)", "lets change be -2", "lower bound above 0"),
    ("y ~ log2(nodes)", "lets nodes be 0", "above 0"),
    ("y ~ log10(I(nodes - 1))", r"lets I\(nodes - 1\) be -1", "above 0"),
    ("y ~ log1p(change)", "lets change be -2", "above -1"),
    ("y ~ sqrt(change)", "lets change be -2", "0 or more"),
    ("y ~ exp(age)", "lets age be 90", "below 50"),
    ("y ~ I(age / nodes)", "lets nodes be 0", "away from 0"),
    ("y ~ I(1 / change)", "lets change be 0", "away from 0"),
    ("y ~ I(age / 0)", "lets 0 be 0", "away from 0"),
    ("y ~ I(exp(time * 5)^4 * exp(time * 5)^4)", "exceed 1e.150", "scale"),
    ("y ~ I(age * 1e149)", "exceed 1e.150", "scale"),
    ("y ~ I(age * 1e80):I(pgr * 1e80)", "exceed 1e.150", "scale"),
    ("y ~ I(age / 1e-200)", "exceed 1e.150", "scale"),
    ("y ~ pmin(age, 10)", "it is 10 whatever the columns are", "leave it out"),
    ("y ~ nodes + change:I(pmax(age - 200, 0))", "it is 0 whatever the columns are", "leave it out"),
    ("y ~ Age", "no such column", "did you mean age"),
    ("y ~ qqqqqqq", "no such column", "declared are"),
    ("y ~ C(qqqqqqq)", "no such column", "declared are"),
    ("y ~ log(qqqqqqq)", "no such column", "declared are"),
    ("z ~ age", "no such column", ""),
    ("y ~ log(size)", "size is a category", r"write size or C\(size\)"),
    ("y ~ I(age * size)", "size is a category", ""),
    ("y ~ C(age)", "a continuous column has no levels", "Categorical"),
    ("y ~ factor(time)", "a duration column has no levels", "Categorical"),
    ("y ~ C(w)", "a weight column has no levels", ""),
    ("y ~ w", "declared as a weight", 'weights="w"'),
    ("y ~ log(w)", "declared as a weight", 'weights="w"'),
    ("y ~ age:o", "declared as an offset", 'offset="o"'),
    ("size ~ age", "a categorical column cannot be the outcome", "binary.*multinomial"),
    ("w ~ age", "a weight column cannot be the outcome", ""),
    ("o ~ age", "an? offset column cannot be the outcome", ""),
    ("y ~ site*grade", "exceed 500 columns", "drop"),
    ("y ~ site:site:grade", "exceed 500 columns", "drop"),
]


@pytest.mark.parametrize(("formula", "reason", "remedy"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refusals_name_the_term_the_reason_and_the_remedy(formula, reason, remedy):
    with pytest.raises(FormulaError) as error:
        compile_design(formula, SCHEMA)
    assert re.search(reason, error.value.reason)
    assert re.search(remedy, error.value.remedy)
    assert str(error.value) == f"{error.value.term}: {error.value.reason}; {error.value.remedy}"


def test_the_bound_of_exp_is_where_it_is_said_to_be():
    schema = Schema(y=Binary(complete=True), x=Continuous(0, 50, complete=True), z=Continuous(0, 50.001, complete=True))
    assert compile_design("y ~ exp(x)", schema).columns[1].upper == np.exp(50.0)
    with pytest.raises(FormulaError, match="50"):
        compile_design("y ~ exp(z)", schema)


def test_domains_end_where_they_are_said_to_end():
    schema = Schema(
        y=Binary(complete=True),
        x=Continuous(0, 1, complete=True),
        low=Continuous(-1, 1, complete=True),
        tiny=Continuous(1e-9, 1, complete=True),
    )
    assert compile_design("y ~ sqrt(x) + log1p(x) + log(tiny)", schema).names[1:] == (
        "sqrt(x)",
        "log1p(x)",
        "log(tiny)",
    )
    with pytest.raises(FormulaError, match=r"log1p\(low\)"):
        compile_design("y ~ log1p(low)", schema)


def test_two_columns_of_one_name_are_refused():
    schema = Schema(
        y=Binary(complete=True),
        h=Categorical(["a]:g[b", "a"], complete=True),
        g=Categorical(["c", "b]:g[c"], complete=True),
    )
    with pytest.raises(FormulaError, match=r"h\[a\]:g\[b\]:g\[c\]: two columns of the design have this name"):
        compile_design("y ~ 0 + h:g", schema)


def test_a_design_is_a_value():
    one, other = (compile_design("y ~ age*size", SCHEMA) for _ in range(2))
    assert isinstance(one, Design)
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(AttributeError):
        one.formula = "y ~ 1"


def test_a_one_sided_formula_has_the_columns_of_the_right_side_and_needs_no_outcome():
    terms = "age*size + log1p(nodes)"
    one, two = compile_one_sided(f"~ {terms}", SCHEMA), compile_design(f"y ~ {terms}", SCHEMA)
    assert one.columns == two.columns
    assert one.needs == two.needs[1:]
    rows = AdmittedTable(
        numeric={name: TABLE.numeric[name] for name in ("age", "nodes")}, codes={"size": TABLE.codes["size"]}, rows=12
    )
    assert np.array_equal(one.matrix(rows), two.matrix(TABLE))
    with pytest.raises(FormulaError, match="no outcome"):
        compile_one_sided(parse("y ~ age"), SCHEMA)

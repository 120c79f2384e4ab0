"""Properties of formulas: reading is total and harmless, algebra is Wilkinson's, bounds hold, rows do not mix."""

import functools
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hdpstats._base.errors import FormulaError
from hdpstats.formulas import ParsedFormula, SurvivalDesign, compile_design, compile_survival, parse
from hdpstats.formulas.parser import parse_survival
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable
from tests.examples import examples

FUZZ = examples(600)
PROPERTY = examples(150)

SCHEMA = Schema(
    y=Binary(complete=True),
    a=Continuous(1, 9, complete=True),
    b=Continuous(-2, 3, complete=True),
    c=Continuous(0, 40, complete=True),
    d=Continuous(0.001, 0.7, complete=True),
    f=Binary(complete=True),
    g=Categorical(["p", "q", "r"], complete=True),
    h=Categorical(["u", "v"], complete=True),
    t=Duration(50, complete=True),
    s=Duration(50, missing=0),
    k=Categorical(["none", "relapse", "death"], complete=True),
)
NUMERIC = [name for name in SCHEMA if SCHEMA[name].kind in ("binary", "continuous")]
CODED = [name for name in SCHEMA if SCHEMA[name].kind == "categorical"]

# Reading is total and harmless -------------------------------------------------------------------------------

_FORBIDDEN = ("open", "import", "exec", "os.", "subprocess.", "socket.", "ctypes.", "shutil.")
_watch = {"on": False, "seen": []}


def _record(event, arguments):
    if _watch and _watch["on"] and event.startswith(_FORBIDDEN):
        _watch["seen"].append(event)


@functools.cache
def _install():
    """Install the hook, once and not before it is needed: it cannot be removed, and slows all later tests down."""
    sys.addaudithook(_record)


@contextmanager
def nothing_happens():
    """Fail if the block opens a file, imports a module, runs code or starts a process; warnings are errors."""
    _install()
    _watch.update(on=True, seen=[])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        _watch["on"] = False
    assert _watch["seen"] == []


def _outcome(reader, text):
    try:
        return reader(text)
    except FormulaError as error:
        return error


def _reads(text, reader=parse, expected=ParsedFormula):
    with nothing_happens():
        outcome = _outcome(reader, text)
    if not isinstance(outcome, expected):
        assert {"term", "reason", "remedy"} == set(outcome.facts)
        assert outcome.term
        assert str(outcome) == f"{outcome.term}: {outcome.reason}; {outcome.remedy}"
        assert outcome.reason
        assert outcome.remedy
        assert str(outcome).isprintable()


def _compiles(text):
    _reads(text, lambda text: compile_survival(text, SCHEMA), SurvivalDesign)


parse("y ~ a*b + (a + b)^2 + log(a):C(g) - a:b")  # formulaic imports parts of itself at its first use

WORDS = st.sampled_from([
    " ", "\n", "\t", "a", "b", "g", "y", "1", "0", "-1", "2", "+", "-", "*", "**", "^", ":", "/", "|", "~",
    "(", ")", "I(", "log(", "bs(", "ns(", "poly(", "knots=", "df=", "degree=", "lower=", "c(", "scale(", "C(",
    "factor(", "Surv(", ",", "mean=", "sd=", "center=", "[", "]", "{", "}", "1e308", "1e999", "nan", "inf",
    "%in%", ".", '"s"', "'s'", "`a`", "`a ", "np.", "__", "__import__(", "open(", "lambda", "if", "else",
    "for", "in", ":=", "0x10", "1_0", "1j", "True", "None", "...", "@", "\\", ";", "=", "==", ".x", "a.b", "ｌ",
    "é", "\u202e", "\x00"
])  # fmt: skip


@FUZZ
@given(st.lists(WORDS, max_size=30))
def test_any_row_of_words_is_a_formula_or_refused(words):
    _reads("y~" + "".join(words))
    _reads(" ".join(words))
    _reads("Surv(t,y)~" + "".join(words), parse_survival)
    _compiles("Surv(t,y)~" + "".join(words))


@FUZZ
@given(st.lists(WORDS | st.sampled_from(["3", "4", "2.5", ")", "]", ", "]), max_size=12), st.sampled_from("abcd"))
def test_any_settings_of_a_spline_are_read_or_refused(words, column):
    for function in ("bs", "ns", "poly"):
        _compiles(f"Surv(t, y) ~ {function}({column}, " + "".join(words) + ")")
        _compiles(f"Surv(t, y) ~ {function}({column}, knots=[" + "".join(words) + "])")


@FUZZ
@given(st.lists(WORDS | st.sampled_from(["t", "s", "k", "y", ","]), max_size=8))
def test_any_left_side_is_times_with_an_event_or_refused(words):
    _compiles("".join(words) + " ~ a")
    _compiles("Surv(" + "".join(words) + ") ~ a")
    _compiles("Surv(" + ",".join(words) + ") ~ a")


@FUZZ
@given(st.text(max_size=80))
def test_any_text_is_a_formula_or_refused(text):
    _reads(text)
    _reads(f"y ~ {text}")
    _reads(f"y ~ log({text})")
    _reads(f"{text} ~ a")
    _reads(f"y ~ ns(a, {text})")
    _reads(f"Surv({text}) ~ a", parse_survival)
    _compiles(f"Surv(t, y) ~ {text}")


def test_the_watch_sees_what_formulaic_would_run(tmp_path):
    from formulaic import Formula

    with pytest.raises(AssertionError), nothing_happens():
        Formula(f'I(open("{tmp_path / "written"}", "w").close())(1) ~ x')


# Algebra is Wilkinson's --------------------------------------------------------------------------------------


def _cross(left, right):
    return [one | other for one, other in product(left, right)]


ALGEBRA = {
    "+": lambda left, right: left + right,
    ":": _cross,
    "*": lambda left, right: left + right + _cross(left, right),
    "/": lambda left, right: left + _cross([frozenset().union(*left)], right),
    "-": lambda left, right: [term for term in left if term not in right],
}


def _combine(children):
    parts = st.tuples(children, st.sampled_from(sorted(ALGEBRA)), children)
    return parts.filter(lambda parts: parts[1] != "/" or parts[0][1]).map(
        lambda parts: (
            f"({parts[0][0]} {parts[1]} {parts[2][0]})",
            list(dict.fromkeys(ALGEBRA[parts[1]](parts[0][1], parts[2][1]))),
        )
    )


EXPANSIONS = st.recursive(
    st.sampled_from("abcdfgh").map(lambda name: (name, [frozenset(name)])), _combine, max_leaves=6
)


@PROPERTY
@given(EXPANSIONS, st.booleans())
def test_terms_are_the_products_that_the_algebra_says(expansion, intercept):
    text, expected = expansion
    assume(expected)
    formula = parse(f"y ~ {text}" + ("" if intercept else " - 1"))
    terms = [frozenset(factor.name for factor in term.factors) for term in formula.terms]
    assert set(terms) == set(expected)
    assert len(terms) == len(set(terms))
    assert [len(term) for term in terms] == sorted(len(term) for term in terms)
    assert formula.intercept is intercept


# Bounds hold, rows do not mix --------------------------------------------------------------------------------

FUNCTIONS = st.sampled_from(["log", "log2", "log10", "log1p", "sqrt", "exp", "abs", "I"])
NUMBERS = st.sampled_from(["1", "2", "0.5", "3", "10"])


def _arithmetic(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner | NUMBERS).map(" ".join).map("({})".format),
        st.tuples(inner, st.sampled_from(["^2", "**3", "^4"])).map(lambda parts: f"({parts[0]}){parts[1]}"),
        inner.map("(-{})".format),
        st.tuples(FUNCTIONS, inner).map("{0[0]}({0[1]})".format),
        inner.map("scale({}, mean=-1.5, sd=2)".format),
    )


EXPRESSIONS = st.recursive(st.sampled_from(NUMERIC[1:]), _arithmetic, max_leaves=4)
SPLINES = ["bs({}, df=4)", "bs({}, knots={}, degree={})", "bs({}, df=3, lower=-1e9, upper=1e9)", "ns({}, 3)"]
SPLINES += ["ns({}, knots={})", "ns({}, df=1, lower=2, upper=2.5)", "poly({}, 3)", "poly({}, 4, mean=-1, sd=3)"]
BASES = st.tuples(
    st.sampled_from(SPLINES),
    st.sampled_from("abcd") | EXPRESSIONS,
    st.lists(st.sampled_from([0.1, 0.35, 0.5, 1.5, 2, 2.001, 2.9]), min_size=1, unique=True).map(sorted),
    st.integers(1, 5),
).map(lambda parts: parts[0].format(*parts[1:]))
FACTORS = EXPRESSIONS.map("I({})".format) | st.sampled_from([*"abcdfgh", "C(g)", "factor(h)", "C(f)"]) | BASES
TERMS = st.lists(FACTORS, min_size=1, max_size=3).map(":".join)
FORMULAS = st.lists(TERMS, min_size=1, max_size=4).map(lambda terms: "y ~ " + " + ".join(terms))


@st.composite
def designs(draw):
    """Return a design that the schema allows."""
    formula = draw(FORMULAS)
    try:
        return compile_design(formula + draw(st.sampled_from(["", " - 1"])), SCHEMA)
    except FormulaError:
        assume(False)


def table(seed, rows):
    """Return rows within the bounds, a third of them at a bound or beside it."""
    draws = np.random.default_rng(seed)
    numeric = {}
    for name in NUMERIC:
        lower, upper = SCHEMA[name].lower, SCHEMA[name].upper
        values = np.clip(draws.uniform(lower, upper, rows), lower, upper)
        ends = draws.choice([lower, np.nextafter(lower, upper), np.nextafter(upper, lower), upper], rows)
        values = np.where(draws.uniform(size=rows) < 1 / 3, ends, values)
        numeric[name] = np.round(values) if SCHEMA[name].kind == "binary" else values
    codes = {name: draws.integers(0, len(SCHEMA[name].levels), rows) for name in CODED}
    return AdmittedTable(numeric=numeric, codes=codes, rows=rows)


def select(rows, chosen):
    """Return the chosen rows of a table."""
    numeric = {name: values[chosen] for name, values in rows.numeric.items()}
    codes = {name: values[chosen] for name, values in rows.codes.items()}
    return AdmittedTable(numeric=numeric, codes=codes, rows=len(numeric["y"]))


def excess(design, matrix):
    """Return how far values lie outside their bounds, relative to the size of the bounds."""
    size = np.maximum(1.0, np.maximum(abs(design.lower), abs(design.upper)))
    return float(np.max(np.maximum(design.lower - matrix, matrix - design.upper) / size))


@PROPERTY
@given(designs(), st.integers(0, 2**32))
def test_values_lie_in_the_intervals_before_and_after_clipping(design, seed):
    rows = table(seed, 200)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        matrix = design.matrix(rows)
        as_they_are = design.evaluate_unclipped(rows)
    assert np.isfinite(matrix).all()
    assert excess(design, matrix) <= 0
    assert excess(design, as_they_are) < 1e-9
    size = np.maximum(1.0, np.maximum(abs(design.lower), abs(design.upper)))
    assert np.max(abs(matrix - as_they_are) / size) < 1e-9


def test_the_distribution_of_bounds_rejects_bounds_that_are_too_narrow():
    design = compile_design("y ~ I(b^2)", SCHEMA)
    column = design.columns[1]
    narrow = replace(design, columns=(design.columns[0], replace(column, upper=column.upper * 0.99)))
    assert excess(design, design.evaluate_unclipped(table(1, 200))) <= 0
    assert excess(narrow, narrow.evaluate_unclipped(table(1, 200))) > 1e-3


@PROPERTY
@given(designs(), st.integers(0, 2**32), st.integers(1, 70))
def test_the_value_of_a_row_depends_on_that_row_alone(design, seed, count):
    rows = table(seed, count)
    matrix = design.matrix(rows)
    order = np.random.default_rng(seed).permutation(count)
    assert design.matrix(select(rows, order)).tobytes() == matrix[order].tobytes()
    part = np.sort(order[: (count + 1) // 2])
    assert design.matrix(select(rows, part)).tobytes() == matrix[part].tobytes()
    for row in {0, count // 2, count - 1}:
        assert design.matrix(select(rows, slice(row, row + 1))).tobytes() == matrix[row : row + 1].tobytes()
    strided = select(rows, np.repeat(np.arange(count), 2))
    assert design.matrix(select(strided, slice(None, None, 2))).tobytes() == matrix.tobytes()


@PROPERTY
@given(designs())
def test_a_design_is_fixed_by_the_text_of_its_formula_and_the_schema(design):
    again = compile_design(parse(design.formula), Schema.from_dict(SCHEMA.to_dict()))
    assert again == design
    assert again.names == design.names


@PROPERTY
@given(designs())
def test_the_canonical_spelling_has_the_same_columns_and_is_its_own(design):
    again = compile_design(design.canonical, SCHEMA)
    assert (again.columns, again.intercept) == (design.columns, design.intercept)
    assert again.canonical == design.canonical


# Rows that the schema has to map ------------------------------------------------------------------------------

HOSTILE = [None, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, True, "", "p", "v", "u ", "9", "1e999", b"p",
           "nan", 10**400, 3 + 4j, object(), [1, 2], {}, pd.NA, pd.NaT, float, np.float32(2.5), np.int8(-3),
           np.array([1.0]), 0, 1, 2, 3, 9, 40, 0.001, 0.7]  # fmt: skip


def admitted(cells):
    """Return rows of hostile cells as the schema maps them."""
    columns = {name: pd.Series(column, dtype=object) for name, column in zip(SCHEMA, cells, strict=True)}
    mapped = {name: SCHEMA[name].admit(column).values for name, column in columns.items()}
    codes = {name: mapped.pop(name) for name in CODED}
    return AdmittedTable(numeric=mapped, codes=codes, rows=len(cells[0]))


def hostile_rows(rows):
    cells = st.lists(st.sampled_from(HOSTILE), min_size=rows, max_size=rows)
    return st.tuples(*[cells] * len(SCHEMA))


@PROPERTY
@given(designs(), hostile_rows(12))
def test_every_row_that_anybody_can_write_lies_within_the_bounds(design, cells):
    rows = admitted(cells)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        matrix = design.matrix(rows)
    assert np.isfinite(matrix).all()
    assert excess(design, matrix) <= 0


@PROPERTY
@given(designs(), hostile_rows(6), st.integers(0, 5))
def test_a_hostile_row_leaves_the_other_rows_as_they_are(design, cells, place):
    kept = [row for row in range(6) if row != place]
    alone = admitted([[column[row] for row in kept] for column in cells])
    assert design.matrix(admitted(cells))[kept].tobytes() == design.matrix(alone).tobytes()


# Survival formulas --------------------------------------------------------------------------------------------

LEFT = st.sampled_from(["Surv(t, y)", "Surv(s, t, y)", "Surv(t, k)", "Surv(s, t, k)"])
SPACES = st.sampled_from(["", " ", "  ", "\n", "\t"])
COVARIATES = st.lists(TERMS, min_size=1, max_size=4).map(" + ".join).filter(lambda text: " y" not in text)


@st.composite
def survival_designs(draw):
    """Return a survival formula that the schema allows, and its design."""
    formula = f"{draw(LEFT)} ~ {draw(COVARIATES)}"
    try:
        return formula, compile_survival(formula, SCHEMA)
    except FormulaError:
        assume(False)


@PROPERTY
@given(survival_designs())
def test_the_canonical_spelling_of_a_survival_formula_is_the_same_request(case):
    formula, design = case
    again = compile_survival(design.canonical, SCHEMA)
    assert again.canonical == design.canonical
    assert (again.start, again.stop, again.event) == (design.start, design.stop, design.event)
    assert (again.names, again.needs, again.covariates.columns) == (
        design.names,
        design.needs,
        design.covariates.columns,
    )
    assert compile_survival(parse_survival(formula), SCHEMA) == design


@PROPERTY
@given(survival_designs(), st.lists(SPACES, min_size=8, max_size=8), st.booleans(), st.booleans())
def test_two_spellings_of_a_survival_formula_are_one_request(case, spaces, quoted, repeated):
    formula, design = case
    left, right = formula.split(" ~ ")
    for old, new in zip([",", "~", "+", "(", ")", "=", ":", "/"], spaces, strict=True):
        left, right = left.replace(old, f"{new}{old}{new}"), right.replace(old, f"{new}{old}{new}")
    left = left.replace("t", "`t`") if quoted else left
    right = f"{right} + {right}" if repeated else f"1 + {right}"
    assert compile_survival(f"{left}{spaces[0]}~{spaces[1]}{right}", SCHEMA).canonical == design.canonical


@PROPERTY
@given(survival_designs())
def test_the_first_column_is_the_intercept_that_the_baseline_replaces(case):
    _, design = case
    first, *rest = design.covariates.columns
    assert (first.name, first.lower, first.upper, first.expressions, first.levels) == ("Intercept", 1, 1, (), ())
    assert design.names == tuple(column.name for column in rest)
    assert set(design.needs[: 2 + (design.start is not None)]) == {"t", design.event, *filter(None, [design.start])}
    assert {"t", "s", design.event}.isdisjoint(design.covariates.needs[1:])


@PROPERTY
@given(survival_designs(), st.sampled_from([" - 1", " + 0", " + t", " + log1p(s):a", " + ns(t, df=2)"]))
def test_what_would_make_the_baseline_or_time_explain_itself_is_refused(case, addition):
    with pytest.raises(FormulaError, match=r"baseline hazard|explain itself"):
        compile_survival(case[0] + addition, SCHEMA)


@PROPERTY
@given(hostile_rows(20))
def test_b_splines_of_any_row_are_shares_of_one(cells):
    design = compile_design("y ~ bs(a, knots=[2, 2.5, 7], degree=3) - 1", SCHEMA)
    matrix = design.matrix(admitted(cells))
    assert matrix.min() >= 0
    assert matrix.sum(axis=1).max() <= 1 + 1e-14

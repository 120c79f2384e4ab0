"""Laws of formulas: reading is total and harmless, algebra is Wilkinson's, bounds hold, rows do not mix."""

import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hdpstats._base.errors import FormulaError
from hdpstats.data.columns import Binary, Categorical, Continuous
from hdpstats.data.schema import Schema
from hdpstats.data.table import AdmittedTable
from hdpstats.design import ParsedFormula, compile_design, parse

FUZZ = settings(max_examples=600, deadline=None)
LAW = settings(max_examples=150, deadline=None)

SCHEMA = Schema(
    y=Binary(),
    a=Continuous(1, 9),
    b=Continuous(-2, 3),
    c=Continuous(0, 40),
    d=Continuous(0.001, 0.7),
    f=Binary(),
    g=Categorical(["p", "q", "r"]),
    h=Categorical(["u", "v"]),
)
NUMERIC = [name for name in SCHEMA if SCHEMA[name].kind != "categorical"]

# Reading is total and harmless -------------------------------------------------------------------------------

_FORBIDDEN = ("open", "import", "exec", "os.", "subprocess.", "socket.", "ctypes.", "shutil.")
_watch = {"on": False, "seen": []}


def _record(event, arguments):
    if _watch["on"] and event.startswith(_FORBIDDEN):
        _watch["seen"].append(event)


sys.addaudithook(_record)


@contextmanager
def nothing_happens():
    """Fail if the block opens a file, imports a module, runs code or starts a process; warnings are errors."""
    _watch.update(on=True, seen=[])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        _watch["on"] = False
    assert _watch["seen"] == []


def _outcome(text):
    try:
        return parse(text)
    except FormulaError as error:
        return error


def _reads(text):
    begin = time.process_time()
    with nothing_happens():
        outcome = _outcome(text)
    assert time.process_time() - begin < 1.0
    assert isinstance(outcome, ParsedFormula) or {"term", "reason", "remedy"} == set(outcome.facts)


parse("y ~ a*b + (a + b)^2 + log(a):C(g) - a:b")  # formulaic imports parts of itself at its first use

WORDS = st.sampled_from(
    [" ", "\n", "\t", "a", "b", "g", "y", "1", "0", "-1", "2", "+", "-", "*", "**", "^", ":", "/", "|", "~", "(", ")",
     "I(", "log(", "bs(", "scale(", "C(", "factor(", "Surv(", ",", "mean=", "sd=", "center=", "[", "]", "{", "}",
     "1e308", "1e999", "nan", "inf", "%in%", ".", '"s"', "'s'", "`a`", "`a ", "np.", "__", "__import__(", "open(",
     "lambda", "if", "else", "for", "in", ":=", "0x10", "1_0", "1j", "True", "None", "...", "@", "\\", ";", "=", "==",
     ".x", "a.b", "ｌ", "é", "\u202e", "\x00"]
)  # fmt: skip


@FUZZ
@given(st.lists(WORDS, max_size=30))
def test_any_row_of_words_is_a_formula_or_refused(words):
    _reads("y~" + "".join(words))
    _reads(" ".join(words))


@FUZZ
@given(st.text(max_size=80))
def test_any_text_is_a_formula_or_refused(text):
    _reads(text)
    _reads(f"y ~ {text}")
    _reads(f"y ~ log({text})")
    _reads(f"{text} ~ a")


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


@LAW
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
FACTORS = EXPRESSIONS.map("I({})".format) | st.sampled_from([*"abcdfgh", "C(g)", "factor(h)", "C(f)"])
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
    codes = {name: draws.integers(0, len(SCHEMA[name].levels), rows) for name in ("g", "h")}
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


@LAW
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


def test_the_law_of_bounds_rejects_bounds_that_are_too_narrow():
    design = compile_design("y ~ I(b^2)", SCHEMA)
    column = design.columns[1]
    narrow = replace(design, columns=(design.columns[0], replace(column, upper=column.upper * 0.99)))
    assert excess(design, design.evaluate_unclipped(table(1, 200))) <= 0
    assert excess(narrow, narrow.evaluate_unclipped(table(1, 200))) > 1e-3


@LAW
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


@LAW
@given(designs())
def test_a_design_is_fixed_by_the_text_of_its_formula_and_the_schema(design):
    again = compile_design(parse(design.formula), Schema.from_dict(SCHEMA.to_dict()))
    assert again == design
    assert again.names == design.names


@LAW
@given(designs())
def test_the_canonical_spelling_has_the_same_columns_and_is_its_own(design):
    again = compile_design(design.canonical, SCHEMA)
    assert (again.columns, again.intercept) == (design.columns, design.intercept)
    assert again.canonical == design.canonical

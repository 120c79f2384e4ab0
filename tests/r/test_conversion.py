"""Values between R and Python: what comes back is what went, and no cell makes a conversion fail."""

import datetime
import decimal
import itertools
import json
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hdpstats.api as hdp
from hdpstats.schema import cell_maps
from r_bridge import from_r, to_r
from r_bridge.from_r import TEXT
from r_bridge.guard import guarded

FRAMES = {
    "integer": "data.frame(x = c(1L, NA, 3L), y = 1:3)",
    "logical": "data.frame(x = c(TRUE, NA, FALSE), y = c(TRUE, FALSE, TRUE))",
    "double": "data.frame(x = c(1.5, NA, NaN, Inf, -Inf, 0 / 0, -0))",
    "character": "data.frame(x = c('a', NA, '\\u00e9', '', 'NA'), stringsAsFactors = FALSE)",
    "factor": "data.frame(f = factor(c('b', NA, 'a'), levels = c('b', 'a', 'unused')))",
    "ordered": "data.frame(o = factor(c('lo', 'hi', NA), levels = c('lo', 'hi'), ordered = TRUE))",
    "Date": "data.frame(d = as.Date(c('2020-02-29', NA, '1600-01-01', '9999-12-31')))",
    "Date of integers": "data.frame(d = structure(c(1L, NA, 3L), class = 'Date'))",
    "Date with hours": "data.frame(d = structure(c(1.5, 2.25, NA), class = 'Date'))",
    "POSIXct with a zone": "data.frame(t = as.POSIXct(c('2024-10-27 02:30:00.25', NA), tz = 'Europe/Berlin'))",
    "POSIXct without a zone": "data.frame(t = structure(c(1e9, -5e9, NA), class = c('POSIXct', 'POSIXt')))",
    "POSIXct of today": "data.frame(t = .POSIXct(c(1732190000.1234567, 1732190000.7654321), tz = ''))",
    "POSIXct of integers": "data.frame(t = .POSIXct(c(1L, NA), tz = 'America/New_York'))",
    "POSIXct of no known zone": "data.frame(t = .POSIXct(c(1, NA), tz = 'Nowhere/Land'))",
    "difftime": "data.frame(a = as.difftime(c(1.5, NA, pi), units = 'days'), b = as.difftime(1:3 / 7, units = 'mins'))",
    "integer64": "data.frame(a = bit64::as.integer64(c('9007199254740993', NA)), b = bit64::as.integer64(1:2))",
    "tibble": "tibble::tibble(a = 1:3, b = c('x', NA, 'z'), `odd name` = c(1, 2, NA))",
    "Surv": "{ d <- data.frame(id = 1:3); d$s <- survival::Surv(c(1, 2, NA), c(1, 0, 1)); d$x <- 3:1; d }",
    "Surv from, to": "{ d <- data.frame(id = 1:2); d$s <- survival::Surv(c(0, 1), c(2, 3), c(1, 0)); d }",
    "Surv of causes": "{ d <- data.frame(i = 1:2); d$s <- survival::Surv(1:2, factor(c('no', 'b'), c('no', 'b'))); d }",
    "Surv of days": "{ d <- data.frame(i = 1:2); d$s <- survival::Surv(as.difftime(1:2, units = 'days'), 1:0); d }",
    "no rows": "data.frame(a = integer(), b = character(), c = factor(character()), d = as.Date(character()), "
    "e = as.POSIXct(character(), tz = 'UTC'), f = logical(), g = numeric())",
    "no columns": "data.frame(row.names = 1:3)",
    "nothing": "data.frame()",
    "named rows": "data.frame(a = 1:3, row.names = c('x', 'y', 'z'))",
    "picked rows": "data.frame(a = 1:5)[c(2, 4), , drop = FALSE]",
    "I()": "data.frame(a = I(1:3), b = I(c('a', 'b', 'c')))",
    "labels": "data.frame(a = structure(c(1, 2), label = 'age'), f = structure(factor(c('a', 'b')), label = 'sex'))",
    "tibble of everything": "tibble::tibble(f = factor(c('a', NA)), o = factor(1:2, ordered = TRUE), "
    "d = Sys.Date() + 0:1, "
    "t = as.POSIXct(c(0, NA), origin = '1970-01-01', tz = 'Asia/Kolkata'), w = as.difftime(c(1, NA), units = 'weeks'), "
    "i = bit64::as.integer64(c('-9223372036854775807', NA)))",
    "tibble of no rows": "tibble::tibble(a = integer(), f = factor(character(), levels = 'x'), s = character())",
    "tibble of no columns": "tibble::tibble(.rows = 3)",
    "numbers at the edge": "data.frame(x = c(-0, 0, .Machine$double.xmin, 5e-324, .Machine$double.xmax, 2^53 + 2))",
    "integers at the edge": "data.frame(x = c(.Machine$integer.max, -.Machine$integer.max, NA))",
    "integer64 at the edge": "data.frame(x = bit64::as.integer64(c('-9223372036854775807', '9223372036854775807')))",
    "nothing known": "data.frame(l = NA, i = NA_integer_, r = NA_real_, s = NA_character_, f = factor(NA), "
    "d = as.Date(NA), t = as.POSIXct(NA, tz = 'UTC'), w = as.difftime(NA_real_, units = 'hours'))",
    "difftime in every unit": "data.frame(s = as.difftime(1:2, units = 'secs'), "
    "h = as.difftime(c(1, NA), units = 'hours'), w = as.difftime(c(-1, 0.5), units = 'weeks'))",
    "long texts": "data.frame(x = c(strrep('\u00e9', 2e5), '', NA, 'line\nline\ttab \"quoted\" \\\\'))",
    "names beyond ASCII": "data.frame(`\u00c5lder` = 1, `\u5e74\u9f84` = 2, `a b` = 3, "
    "check.names = FALSE, row.names = '\u00e9')",
    "levels beyond ASCII": "data.frame(f = factor(c('\u00e9', '\u5e74', NA, ''), levels = c('\u5e74', '\u00e9', '')))",
    "ordered without rows": "data.frame(o = factor(character(), levels = c('lo', 'hi'), ordered = TRUE))",
    "factor without levels": "data.frame(f = factor(c(NA, NA)))",
    "POSIXct around a change of clocks": "data.frame(t = .POSIXct(1729989000 + 1800 * 0:4, tz = 'Europe/Berlin'))",
    "POSIXct and Date before 1970": "data.frame(t = .POSIXct(c(-1.5, -1e10), tz = 'UTC'), "
    "d = structure(c(-1, -1e5), class = 'Date'))",
    "rows with numbers": "structure(data.frame(a = 1:2), row.names = c(7L, -3L))",
    "Surv without rows": "{ d <- data.frame(id = 1:2); d$s <- survival::Surv(1:2, 0:1); d[0, ] }",
    "Surv, left": "{ d <- data.frame(i = 1:2); d$s <- survival::Surv(c(1, 2), c(0, 1), type = 'left'); d }",
    "Surv, interval": "{ d <- data.frame(i = 1:3); "
    "d$s <- survival::Surv(c(1, 2, NA), c(3, NA, 4), type = 'interval2'); d }",
    "Surv from, to, of causes": "{ d <- data.frame(i = 1:2); d$s <- survival::Surv(c(0, 1), c(2, 3), "
    "factor(c('no', 'b'), c('no', 'a', 'b'))); d }",
    "two Surv": "{ d <- data.frame(i = 1:2); d$s <- survival::Surv(1:2, 0:1); d$u <- survival::Surv(3:4); d }",
    "pbc": "survival::pbc",
    "rotterdam": "survival::rotterdam",
}

VALUES = {
    "NULL": "NULL",
    "number": "3",
    "integer": "3L",
    "truth": "TRUE",
    "text": "'\\u00e9'",
    "numbers with names": "c(a = 1, b = NA, c = 3)",
    "one number with a name": "c(a = 1)",
    "texts": "c('a', NA)",
    "factor": "factor(c('a', 'b'))",
    "date": "as.Date('2020-01-01')",
    "list": "list(a = 1, b = 'x', c = NULL, d = list(1:2, TRUE))",
    "matrix": "matrix(c(1, 2, 3, 4, 5, NA), 2)",
    "matrix with names": "matrix(c(1, 2, 3, 4), 2, dimnames = list(c('a', 'b'), c('c', 'd')))",
    "matrix of truths": "matrix(c(TRUE, FALSE, NA, TRUE), 2)",
    "array": "array(1:24, c(2, 3, 4))",
    "Surv": "survival::Surv(c(1, 2), c(1, 0))",
}


def identical(evaluate, first, second):
    """Whether two R objects are the same: -0 is not 0, NaN is not NA, all attributes are there."""
    same = evaluate("function(a, b) identical(a, b, num.eq = FALSE)")
    return bool(same(first, second)[0])


@pytest.mark.covering(cases=25)
@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_of_r_comes_back_identical(evaluate, name):
    there = evaluate(FRAMES[name])
    frame = from_r(there)
    assert isinstance(frame, pd.DataFrame)
    assert identical(evaluate, there, to_r(frame))


@pytest.mark.covering(cases=17)
@pytest.mark.parametrize("name", FRAMES)
def test_the_frame_that_python_got_comes_back_to_python_identical(evaluate, name):
    frame = from_r(evaluate(FRAMES[name]))
    back = from_r(to_r(frame))
    pd.testing.assert_frame_equal(back, frame)
    assert back.attrs == frame.attrs


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_r_comes_back_identical(evaluate, name):
    there = evaluate(VALUES[name])
    assert identical(evaluate, there, to_r(from_r(there)))


def test_a_frame_that_python_filtered_and_wrote_to_parquet_keeps_its_classes(evaluate, tmp_path):
    there = evaluate(
        "data.frame(d = as.Date(c('2020-02-29', '2021-01-01', NA)), w = as.difftime(1:3, units = 'weeks'))"
    )
    frame = from_r(there)
    frame[frame["w"] > 1].reset_index(drop=True).to_parquet(tmp_path / "kept.parquet")
    back = to_r(pd.read_parquet(tmp_path / "kept.parquet"))
    expected = evaluate("data.frame(d = as.Date(c('2021-01-01', NA)), w = as.difftime(c(2, 3), units = 'weeks'))")
    assert bool(evaluate("function(a, b) isTRUE(all.equal(a, b))")(expected, back)[0])


COLUMNS = {
    "int64": pd.Series([1, 2]),
    "Int64": pd.Series([1, None], dtype="Int64"),
    "bool": pd.Series([True, False]),
    "boolean": pd.Series([True, None], dtype="boolean"),
    "float64": pd.Series([1.5, np.nan]),
    "text": pd.Series(["a", None, "é", ""]),
    "category": pd.Series(["a", None, "b"], dtype="category"),
    "ordered": pd.Series(pd.Categorical(["lo", "hi"], ["lo", "hi"], ordered=True)),
    "instants": pd.Series(pd.to_datetime(["2020-07-01 12:00:00.123456", None])).dt.tz_localize("Europe/Berlin"),
    "beyond 2^53": pd.Series([2**60 + 1, -5], dtype="Int64"),
    "beyond 2^53, missing": pd.Series([2**60 + 1, None], dtype="Int64"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_python_comes_back_identical(evaluate, name):
    frame = pd.DataFrame({"x": COLUMNS[name]})
    pd.testing.assert_frame_equal(from_r(to_r(frame)), frame)


def columns(size):
    """Return columns of any kind that R has, with gaps."""
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
    whole = st.integers(-(2**31) + 1, 2**31 - 1)
    instants = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))  # doubles hold microseconds

    def cells(each, dtype, missing=None):
        return st.lists(st.none() | each, min_size=size, max_size=size).map(
            lambda found: pd.Series([missing if cell is None else cell for cell in found], dtype=dtype)
        )

    return st.one_of(
        cells(whole, "Int64").map(lambda column: column if column.isna().any() else column.astype("int64")),
        cells(st.booleans(), "boolean").map(lambda column: column if column.isna().any() else column.astype("bool")),
        cells(st.floats(allow_nan=False), "float64", np.nan),
        cells(texts, TEXT),
        cells(
            st.sampled_from(["é", "b", ""]), pd.CategoricalDtype(pd.Index(["b", "é", "", "unused"], dtype=TEXT), True)
        ),
        cells(instants, "datetime64[us]", pd.NaT).map(
            lambda column: column.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
        ),
    )


@settings(
    max_examples=20 if settings().derandomize else 60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    made=st.integers(0, 6).flatmap(lambda size: st.dictionaries(st.text("aé_", min_size=1), columns(size), min_size=1))
)
def test_any_frame_of_python_comes_back_identical(evaluate, made):
    frame = pd.DataFrame(made)
    back = from_r(to_r(frame))
    pd.testing.assert_frame_equal(back, frame)
    for name in frame.select_dtypes("float64"):
        assert (np.signbit(back[name]) == np.signbit(frame[name]))[frame[name].notna()].all()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([1, 2], dtype="uint8"), "c(1L, 2L)"),
        (pd.Series([1.5, None], dtype="Float64"), "c(1.5, NA)"),
        (pd.Series([2**40, 1]), "c(2^40, 1)"),
        (pd.Series([-(2**31), 1]), "c(-2^31, 1)"),
        (pd.Series([1, None], dtype="int64[pyarrow]"), "c(1L, NA)"),
        (pd.Series([True, None], dtype="bool[pyarrow]"), "c(TRUE, NA)"),
        (pd.Series(["a", None], dtype="string[pyarrow]"), "c('a', NA)"),
        (pd.Series([3, 1, None], dtype="category"), "factor(c('3', '1', NA), levels = c('1', '3'))"),
        (pd.Series([True, None], dtype=object), "c(TRUE, NA)"),
        (pd.Series([1, None], dtype=object), "c(1L, NA)"),
        (pd.Series([decimal.Decimal("1.5"), None], dtype=object), "c(1.5, NA)"),
        (pd.Series([None, None], dtype=object), "c(NA_character_, NA)"),
        (pd.Series([datetime.date(2020, 1, 1), None]), "as.Date(c('2020-01-01', NA))"),
        (pd.Series([datetime.date(2020, 1, 1), None], dtype="date32[day][pyarrow]"), "as.Date(c('2020-01-01', NA))"),
        (pd.Series(pd.to_datetime(["2020-01-01 05:00", None])), "as.POSIXct(c('2020-01-01 05:00', NA), tz = 'UTC')"),
        (pd.Series(pd.to_timedelta(["1 days", None])), "as.difftime(c(86400, NA), units = 'secs')"),
    ],
)
def test_a_column_of_python_becomes_what_r_would_write(evaluate, column, expected):
    assert identical(evaluate, evaluate(f"data.frame(x = {expected})"), to_r(pd.DataFrame({"x": column})))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (np.int64(4), "4L"),
        (2**40, "2^40"),
        (float("nan"), "NA_real_"),
        (pd.NA, "NA"),
        (datetime.timedelta(2), "as.difftime(172800, units = 'secs')"),
        (datetime.date(2020, 1, 1), "as.Date('2020-01-01')"),
        (pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), "as.POSIXct('2020-01-01', tz = 'Asia/Tokyo')"),
        (["a", "b"], "c('a', 'b')"),
        ([1, 2.5], "c(1, 2.5)"),
        ([1, "a"], "list(1L, 'a')"),
        ({"a": {"b": 1}}, "list(a = list(b = 1L))"),
        (np.arange(6).reshape(2, 3), "matrix(c(0L, 3L, 1L, 4L, 2L, 5L), 2)"),
        (pd.Series([1.5], index=["age"]), "c(age = 1.5)"),
    ],
)
def test_a_value_of_python_becomes_what_r_would_write(evaluate, value, expected):
    assert identical(evaluate, evaluate(expected), to_r(value))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("data.frame(a = 1, b = I(list(2)))", "column 'b' is a list"),
        ("{ d <- data.frame(a = 1:2); d$m <- matrix(1:4, 2); d }", "column 'm' is a matrix"),
        ("{ d <- data.frame(a = 1:2); d$f <- data.frame(x = 1:2); d }", "column 'f' is a data frame"),
        ("{ d <- data.frame(a = 1); d$t <- as.POSIXlt('2020-01-01', tz = 'UTC'); d }", "column 't' is a POSIXlt time"),
        ("data.frame(z = 1i)", "column 'z' is of type complex"),
        ("data.frame(r = as.raw(1))", "column 'r' is of type raw"),
        ("{ d <- data.frame(a = 1); d$u <- structure(1, class = 'units'); d }", "column 'u' is of class 'units'"),
        ("data.frame(a = 1, a = 2, check.names = FALSE)", "two elements 'a'; rename one"),
        ("list(1, a = 2)", "has elements without names"),
        ("list(a = quote(x), b = globalenv())", "b is an R environment"),
    ],
)
def test_what_a_table_cannot_hold_is_refused_by_name(evaluate, code, words):
    with pytest.raises(hdp.ArgumentError, match=words):
        from_r(evaluate(code))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pd.DataFrame({"x": [1, "a"]}), "column 'x' holds Python objects"),
        (pd.DataFrame({"x": pd.period_range("2020", periods=2, freq="M")}), "column 'x' holds Python objects"),
        (pd.DataFrame({"x": [2**63]}, dtype="uint64"), "column 'x' has whole numbers beyond"),
        (pd.DataFrame({"x": ["a\0b"]}), "x holds a zero character"),
        (pd.DataFrame({1: [1]}), "names of columns must be texts"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "names of columns must be texts"),
        (pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])), "reset_index"),
        (object(), "no equivalent for a Python object"),
    ],
)
def test_what_r_cannot_hold_is_refused_by_name(evaluate, value, words):
    with pytest.raises(hdp.ArgumentError, match=words):
        to_r(value)


AWKWARD = {
    "bytes": "{ x <- '\\xe9'; Encoding(x) <- 'bytes'; x }",
    "text that is no UTF-8": "{ x <- '\\xff\\xfe'; Encoding(x) <- 'UTF-8'; x }",
    "Latin-1": "iconv('\\u00e9', 'UTF-8', 'latin1')",
    "instants beyond the range": ".POSIXct(c(1e300, -1e300, Inf, NaN, 1e18), tz = 'UTC')",
    "dates beyond the range": "structure(c(1e300, Inf, -Inf, NaN, 1e308), class = 'Date')",
    "codes without a level": "structure(c(1L, 9L, -3L), levels = 'a', class = 'factor')",
    "two levels that look the same": "structure(1:2, levels = c('\\xff', '\\xfe'), class = 'factor')",
    "a level for NA": "factor(c('a', NA), exclude = NULL)",
    "integer64 of any bits": "{ loadNamespace('bit64'); structure(c(NaN, Inf, 1e308), class = 'integer64') }",
}


@pytest.mark.parametrize("name", AWKWARD)
def test_no_cell_makes_a_conversion_raise_or_warn(evaluate, name):
    column = AWKWARD[name]
    frame = from_r(evaluate(f"data.frame(x = I({column}))" if name == "bytes" else f"data.frame(x = {column})"))
    assert len(frame) == len(evaluate(column))
    repr(frame)


def test_a_missing_integer64_changes_no_other_cell(evaluate):
    texts = [
        cell_maps.texts(from_r(evaluate(f"data.frame(id = bit64::as.integer64(c('12345678901234567', {last})))"))["id"])
        for last in ("'1'", "NA")
    ]
    assert texts == [["12345678901234567", "1"], ["12345678901234567", None]]


def test_a_level_for_na_is_missing_and_other_levels_stay(evaluate):
    frame = from_r(evaluate("data.frame(x = factor(c('b', NA, 'a'), levels = c(NA, 'a', 'b'), exclude = NULL))"))
    assert frame["x"].isna().tolist() == [False, True, False]
    assert frame["x"].cat.categories.tolist() == ["a", "b"]
    assert frame["x"].tolist()[::2] == ["b", "a"]


def test_instants_beyond_what_pandas_counts_are_missing_and_the_last_ones_are_not(evaluate):
    frame = from_r(evaluate("data.frame(t = .POSIXct(c(9e12, 5e13, -5e13), tz = 'UTC'))"))
    assert frame["t"].isna().tolist() == [False, True, True]


def test_a_list_of_frames_is_a_dictionary_and_one_frame_is_one_object(evaluate):
    code = "(function(d, e) list(Oslo = d, 'Troms\u00f8' = e, groups = list(d, list(e, d)), copy = e))"
    made = evaluate(f"{code}(data.frame(x = c(1.5, NA, NaN)), data.frame(x = c(1.5, NA, NaN)))")
    found = from_r(made)
    assert list(found) == ["Oslo", "Tromsø", "groups", "copy"]
    oslo, other = found["Oslo"], found["Tromsø"]
    assert oslo is not other  # equal cells make no two sites one
    pd.testing.assert_frame_equal(oslo, other)
    assert found["copy"] is other
    assert found["groups"][0] is oslo
    assert [each is oslo for each in found["groups"][1]] == [False, True]
    assert bool(evaluate("function(a, b) identical(a, b)")(made, to_r(found))[0])


def test_na_raises_no_alarm_in_arithmetic(evaluate):
    cells = from_r(evaluate("data.frame(x = c(1, NA, NaN))"))["x"].to_numpy()
    assert np.isnan(cells + 1.0).tolist() == [False, True, True]


def test_a_formula_and_a_function_cross(evaluate):
    assert from_r(evaluate("Surv(time, event) ~ age + log1p(nodes)")) == "Surv(time, event) ~ age + log1p(nodes)"
    assert from_r(evaluate("function(a, b) a - b"))(5, b=2) == 3


LANGUAGE = {
    "a call of what stops": ("quote(stop('boom'))", 'stop("boom")'),
    "a call of what is not there": ("quote(no_such_function(x, y = 2))", "no_such_function(x, y = 2)"),
    "a call with an effect": ("quote(assign('touched', 1, globalenv()))", 'assign("touched", 1, globalenv())'),
    "a symbol of no variable": ("quote(no_such_variable)", "no_such_variable"),
    "a symbol with a space": ("as.name('odd name')", "odd name"),
    "a symbol beyond ASCII": ("as.name('\u00e9')", "\u00e9"),
    "a missing argument": ("quote(expr = )", ""),
    "a call that says it is a formula": ("structure(quote(no_such_function(x)), class = 'formula')", None),
    "a formula": ("y ~ log(x)", "y ~ log(x)"),
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_calls_and_symbols_are_read_and_never_run(evaluate, name):
    code, expected = LANGUAGE[name]
    found = from_r(evaluate(f"list(a = {code})"))["a"]
    assert found == expected if expected is not None else "no_such_function(x)" in found
    assert from_r(evaluate(code)) == found
    assert from_r(evaluate("!exists('touched', globalenv())"))


def test_a_call_that_says_it_is_a_data_frame_is_read_and_not_run(evaluate):
    code = "structure(quote(stop('boom')), class = 'data.frame', names = c('a', 'b'), row.names = 1L)"
    assert 'stop("boom")' in from_r(evaluate(code)).replace("a = ", "").replace("b = ", "")


def test_a_call_as_a_column_is_refused_and_not_run(evaluate):
    with pytest.raises(hdp.ArgumentError, match="column 'a' is of type language"):
        from_r(evaluate("structure(list(a = quote(stop('boom'))), class = 'data.frame', row.names = 1L)"))


@pytest.mark.parametrize("name", LANGUAGE)
def test_r_functions_get_calls_and_symbols_themselves(evaluate, name):
    if name != "a missing argument":  # which nobody can hand on
        value = evaluate(LANGUAGE[name][0])
        assert guarded(evaluate("is.language"), value)[0]
        assert from_r(evaluate("function(first, x) paste(deparse(x), collapse = ' ')"))(1, x=value) == from_r(value)


def instructions_of(function, *arguments):
    """Return what a function returns, and how many instructions Python runs meanwhile."""
    count, before = itertools.count(), sys.gettrace()

    def trace(frame, event, _):
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            next(count)
        return trace

    sys.settrace(trace)
    try:
        found = function(*arguments)
    finally:
        sys.settrace(before)
    return found, next(count)


def test_instructions_for_each_cell_are_counted():
    few, many = (instructions_of(lambda cells: [str(cell) for cell in cells], range(n))[1] for n in (10, 10_000))
    assert many > few + 2 * 9_990


@pytest.mark.parametrize(("columns", "most"), [("fibc", 1), ("s", 30)])
def test_columns_cross_in_as_many_instructions_whatever_the_number_of_rows(evaluate, columns, most):
    """Each column at once: only the encoding of texts for R runs some instructions for each cell."""
    counts = []
    for rows in (10, 100, 10_000):  # the first time things are imported and remembered
        rng = np.random.default_rng(1)
        kinds = {
            "f": rng.normal(size=rows),
            "i": rng.integers(0, 1000, rows),
            "b": rng.random(rows) < 0.5,
            "c": pd.Categorical.from_codes(rng.integers(0, 5, rows), list("abcde")),
            "s": [f"person {i}" for i in rng.integers(0, rows, rows)],
        }
        frame = pd.DataFrame({name: kinds[name] for name in columns})
        there, to = instructions_of(to_r, frame)
        back, from_there = instructions_of(from_r, there)
        pd.testing.assert_frame_equal(back, frame)
        counts.append((to, from_there))
    _, few, many = counts
    assert many[0] < few[0] + most * 9_900
    assert many[1] < few[1] + 9_900


def test_what_travels_in_attrs_is_plain_json(evaluate):
    frame = from_r(evaluate(FRAMES["Surv of days"]))
    assert json.loads(json.dumps(frame.attrs)) == frame.attrs

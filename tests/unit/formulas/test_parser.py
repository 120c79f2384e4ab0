"""Texts read as formulas: what is understood, and what is refused, with which piece and which remedy."""

import re
import sys
import warnings

import pytest
from formulaic import Formula

from hdpstats._base.errors import FormulaError
from hdpstats.formulas import ParsedFormula, parse
from hdpstats.formulas.lexer import tokenize
from hdpstats.formulas.parser import parse_one_sided, parse_survival, read_left_side


@pytest.mark.parametrize(
    ("text", "expected", "intercept"),
    [
        ("y ~ ", [], True),
        ("y ~ 1", [], True),
        ("y ~ +1", [], True),
        ("y ~ - 0", [], True),
        ("y ~ a", ["a"], True),
        ("y ~ + a", ["a"], True),
        ("y ~ 0 + a", ["a"], False),
        ("y ~ -1 + a", ["a"], False),
        ("y ~ a - 1", ["a"], False),
        ("y ~ a - 1 + 1", ["a"], True),
        ("y ~ a + a", ["a"], True),
        ("y ~ a:b + b:a + c", ["c", "a:b"], True),
        ("y ~ a*b*c", ["a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"], True),
        ("y ~ a*b*c - a:b:c - b", ["a", "c", "a:b", "a:c", "b:c"], True),
        ("y ~ (a + b + c)^2", ["a", "b", "c", "a:b", "a:c", "b:c"], True),
        ("y ~ (a + b + c) ** 3 - a:b:c", ["a", "b", "c", "a:b", "a:c", "b:c"], True),
        ("y ~ a/b", ["a", "a:b"], True),
        ("y ~ a/(b + c)", ["a", "a:b", "a:c"], True),
        ("y ~ (a + b)/c", ["a", "b", "a:b:c"], True),
        ("y ~ a^2", ["a"], True),
        ("y ~ x.1 + tumor.size + _z", ["x.1", "tumor.size", "_z"], True),
        ("y ~ `a b`:log(`c d`)", ["`a b`:log(`c d`)"], True),
        ("`the outcome` ~ a", ["a"], True),
        ("y ~ log( ( a+1 )*2 )", ["log((a + 1) * 2)"], True),
        ("y ~ I(-a^2 - -1)", ["I(-a^2 - -1)"], True),
        ("y ~ scale(a,mean=-1,sd=2)", ["scale(a, mean=-1, sd=2)"], True),
        ("y ~ I(a^2) + I(a**2) + I( a ^ 2 )", ["I(a^2)"], True),
        ("y ~ C(a) + factor(a) + a", ["C(a)", "a"], True),
        ("y ~ bs( a,knots=c( -1,2 ) )", ["bs(a, knots=c(-1, 2))"], True),
        (
            "y ~ bs(a, knots=[1, 2]) + bs(a, knots=c(1, 2)) + bs(a, knots=(1, 2.0), degree=3)",
            ["bs(a, knots=[1, 2])"],
            True,
        ),
        ("y ~ ns(a, 3)*b + ns(a, df=3)", ["ns(a, 3)", "b", "ns(a, 3):b"], True),
        ("y ~ ns(a, knots=5) + ns(a, knots=[5])", ["ns(a, knots=5)"], True),
        (
            "y ~ ns(a, df=2, lower=-1, upper=4) + ns(a, df=2, Boundary.knots=c(-1, 4))",
            ["ns(a, df=2)"],
            True,
        ),
        ("y ~ poly(a,2) + poly(a, degree=2)", ["poly(a, 2)"], True),
        ("y ~ poly(a, 2, mean=1, sd=2) + poly(a, 2, center=1, scale=2)", ["poly(a, 2, mean=1, sd=2)"], True),
    ],
)
def test_terms_are_those_of_wilkinson_algebra_by_degree(text, expected, intercept):
    formula = parse(text)
    assert isinstance(formula, ParsedFormula)
    assert [term.source for term in formula.terms] == expected
    assert formula.intercept is intercept
    assert formula.text == text


def test_the_outcome_is_a_bare_column():
    assert parse("y ~ a").response == "y"
    assert parse("`my outcome` ~ a").response == "my outcome"


def test_a_left_side_with_a_function_is_read_before_it_is_refused():
    left = read_left_side(tokenize("Surv( start,stop, `had event` )"))
    assert (left.function, left.columns) == ("Surv", ("start", "stop", "had event"))
    assert left.source == "Surv(start, stop, `had event`)"
    with pytest.raises(FormulaError, match="this model needs a plain outcome column"):
        parse("Surv(start, stop, event) ~ a")


def test_formulaic_keeps_the_order_by_degree_that_the_terms_rely_on():
    assert [str(term) for term in Formula("a:b:c + a:b + c + a - 1", _ordering="degree")] == [
        "c",
        "a",
        "a:b",
        "a:b:c",
    ]


def test_formulaic_would_run_a_left_side_and_never_sees_it(tmp_path):
    target = tmp_path / "written"
    hostile = f'I(open("{target}", "w").close())(1) ~ x'
    with pytest.raises(FormulaError):
        parse(hostile)
    assert not target.exists()
    Formula(hostile)
    assert target.exists()


HOSTILE = [
    'y ~ I(__import__("os").system("touch FILE"))',
    '__import__("os").system("touch FILE") ~ x',
    'I(open("FILE", "w"))(1) ~ x',
    'poly(open("FILE", "w")) ~ x',
    'y ~ np.f2py.os.system("touch FILE")',
    'y ~ x.__class__.__base__.__subclasses__()',
    'y ~ ().__class__',
    "y ~ x.__class__",
    "y ~ x.real()",
    "y ~ (lambda: 1)()",
    "y ~ lambda x: x",
    "y ~ [c for c in ().__class__.__base__.__subclasses__()][0]",
    "y ~ I([x for x in y])",
    "y ~ I({x: 1})",
    'y ~ exec("1")',
    'y ~ eval("1")',
    'y ~ open("/etc/passwd")',
    "y ~ I(x if 1 else 2)",
    "y ~ I(x and z)",
    "y ~ I(not x)",
    "y ~ I(x is z)",
    "y ~ I(x == z)",
    "y ~ I(1 < 2)",
    "y ~ I(1 < x < 2)",
    "y ~ I(x == )",
    "y ~ I(x = 1)",
    "y ~ I(x > 'a')",
    "y ~ I((x == 'a') * 2)",
    "y ~ I(x != 'a')",
    "y ~ x > 1",
    "y ~ log(x > 1)",
    "y ~ cut(x, 3)",
    "y ~ cut(x)",
    "y ~ cut(x, c(1, 2))",
    "y ~ cut(x, c(1, 1, 2))",
    "y ~ cut(x, c(1, z, 2))",
    "y ~ cut(x, quantile(x))",
    "y ~ cut(x, c(1, 2, 3), right=1)",
    "y ~ cut(x, c(1, 2, 3), labels=c('a'))",
    "y ~ cut(x, c(1, 2, 3), labels=c('a', 'a'))",
    "y ~ cut(x, c(1, 2, 3), dig.lab=4)",
    "y ~ cut(x, c(" + ", ".join(map(str, range(60))) + "))",
    "y ~ log(cut(x, c(1, 2, 3)))",
    "y ~ Q(x)",
    "y ~ Q('x', 'z')",
    "y ~ x:Q()",
    "y ~ mgcv::s(x)",
    "y ~ x::z",
    "y ~ 'x'",
    "y ~ 'x",
    "y ~ C('x')",
    "y ~ C(x, 'a')",
    "y ~ C(x, Treatment(a))",
    "y ~ C(x, Treatment('a', 'b'))",
    "y ~ C(x, contr.treatment(base=2))",
    "y ~ C(x, Sum)",
    "y ~ relevel(x)",
    "y ~ relevel(x, a)",
    "y ~ relevel(log(x), 'a')",
    "y ~ offset(log(x))",
    "y ~ offset(x, z)",
    "y ~ offset(x) + offset(z)",
    "y ~ x:offset(z)",
    "y ~ log(offset(x))",
    "y ~ cluster(x) + cluster(z)",
    "y ~ log(.)",
    "y ~ I(.)",
    "y ~ .x",
    "y ~ I(x // 2)",
    "y ~ I(x % 2)",
    "y ~ I(x @ z)",
    "y ~ I(~x)",
    "y ~ I(x | z)",
    "y ~ I(x, z)",
    "y ~ I(*x)",
    "y ~ I(**x)",
    "y ~ I()",
    "y ~ I(x := 3)",
    "y ~ x := 3",
    'y ~ f"{x}"',
    "y ~ 'x'",
    'y ~ "x"',
    "y ~ x[0]",
    "y ~ x[open]",
    "y ~ log(x[0])",
    "y ~ x; import os",
    "y ~ import os",
    "y ~ yield x",
    "y ~ await x",
    "y ~ @x",
    "y ~ x\\\n+ z",
    "y ~ {x}",
    "y ~ {open('FILE', 'w')}",
    "y ~ `x",
    "y ~ ``",
    "y ~ `x\n`",
    "y ~ `\u202ex`",
    "y ~ x\x00",
    "y ~ x # z",
    "y ~ I(x**9999999999)",
    "y ~ I(x**0)",
    "y ~ I(x**-1)",
    "y ~ I(x**2.0)",
    "y ~ I(x**z)",
    "y ~ I(x**2**2)",
    "y ~ I(2**x)",
    "y ~ (x+z)**40",
    "y ~ (x+z)^z",
    "y ~ ((x+z)^2)^2^2",
    "y ~ x^0",
    "y ~ x^-1",
    "y ~ x^(2)",
    "y ~ I(1e999*x)",
    "y ~ I(0x10*x)",
    "y ~ I(1_0*x)",
    "y ~ I(1j*x)",
    "y ~ I(1.2.3*x)",
    "y ~ 2x",
    "y ~ I(nan)(x)",
    "y ~ I(x)(z)",
    "y ~ x(z)(x)",
    "y ~ 1(x)",
    "y ~ I(True)",
    "y ~ None",
    "y ~ I(1)",
    "y ~ log(2)",
    "y ~ ...",
    "y ~ .",
    "y ~ x + .",
    "y ~ . - x",
    "y ~ x$z",
    "y ~ x%in%z",
    "y ~ x%%z",
    "y ~ x|z",
    "y ~ x||z",
    "y ~ x -> z",
    "y ~ x = z",
    "y ~ x, z",
    "y ~ x z",
    "y ~ x +",
    "y ~ * x",
    "y ~ x ** ",
    "y ~ x : : z",
    "y ~ x * * z",
    "y ~ x ++ z",
    "y ~ x - - z",
    "y ~ -x + z",
    "y ~ (-x)",
    "y ~ ()",
    "y ~ (x",
    "y ~ x)",
    "y ~ )x(",
    "y ~ log(x",
    "y ~ log)x(",
    "y ~ 2",
    "y ~ 1:x",
    "y ~ x:1",
    "y ~ x*0",
    "y ~ 2*x",
    "y ~ x/2",
    "y ~ (x - 1)",
    "y ~ (0 + x):z",
    "y ~ (x - x)/z",
    "y ~ 01",
    "y ~ 0",
    "y ~ -1",
    "y ~ x - x - 1",
    "",
    " ",
    "~",
    "~ x",
    "~ ~",
    "y",
    "y + x",
    "y ~ x ~ z",
    "y ~ ~ x",
    "y = x",
    "y | x",
    "1 ~ x",
    "0 ~ x",
    "y + z ~ x",
    "y - 1 ~ x",
    "(y) ~ x",
    "-y ~ x",
    "y:z ~ x",
    "'y' ~ x",
    "y[0] ~ x",
    ". ~ x",
    "log(y) ~ x",
    "cbind(y, z) ~ x",
    "Surv(time, event) ~ x",
    "Surv(time, event == 1) ~ x",
    "Surv() ~ x",
    "Surv(time,) ~ x",
    "y ~ y",
    "y ~ x + log(y)",
    "y ~ x:C(y)",
    "y ~ x*`y`",
    "y ~ ｌog(x)",
    "y ~ lоg(x)",
    "у ~ x",
    "y ~ x + größe",
    "y ~ x − z",
    "y ~ x × z",
    "y ~ x\u00a0+ z",
    "y ~ x\u200b",
    "y ~ \ud800",
    "y ~ `\ud800`",
    "y ~ x²",
    "ｙ ～ x",
    "y ~ bs(x)",
    "y ~ bs(x, knots=[1, 2], lo=0, hi=3)",
    "y ~ bs()",
    "y ~ bs(df=4)",
    "y ~ bs(2, df=4)",
    "y ~ bs(x, df=4, df=4)",
    "y ~ bs(x, df=5, knots=3)",
    "y ~ bs(x, df=2)",
    "y ~ bs(x, df=34)",
    "y ~ bs(x, df=4.5)",
    "y ~ bs(x, df=[4, 5])",
    "y ~ bs(x, df=-4)",
    "y ~ bs(x, 4, 5)",
    "y ~ bs(x, df=5, 3)",
    "y ~ bs(x, knots=)",
    "y ~ bs(x, knots=[])",
    "y ~ bs(x, knots=c())",
    "y ~ bs(x, knots=c)",
    "y ~ bs(x, knots=c[3])",
    "y ~ bs(x, knots=[3)",
    "y ~ bs(x, knots=(3])",
    "y ~ bs(x, knots=[3, [4]])",
    "y ~ bs(x, knots=[3,])",
    "y ~ bs(x, knots=3, 4)",
    "y ~ bs(x, knots=1e999)",
    "y ~ bs(x, knots=nan)",
    "y ~ bs(x, knots=x)",
    "y ~ bs(x, knots=quantile(x, 0.5))",
    "y ~ bs(x, knots=np.quantile(x, [0.5]))",
    "y ~ bs(x, knots=open('FILE', 'w'))",
    "y ~ bs(x, knots=[k for k in x])",
    "y ~ bs(x, knots=[" + ", ".join(str(number) for number in range(31)) + "])",
    "y ~ bs(x, df=4, degree=0)",
    "y ~ bs(x, df=4, degree=6)",
    "y ~ bs(x, df=4, degree=2.5)",
    "y ~ bs(x, df=4, lower=[1, 2])",
    "y ~ bs(x, df=4, Boundary.knots=3)",
    "y ~ bs(x, df=4, Boundary.knots=c(1, 2, 3))",
    "y ~ bs(x, df=4, lower=1, Boundary.knots=c(1, 2))",
    "y ~ bs(x, df=4, intercept=TRUE)",
    "y ~ bs(x, df=4)[1]",
    "y ~ bs(x, df=4)(x)",
    "y ~ bs(bs(x, df=4), df=4)",
    "y ~ I(ns(x, df=4))",
    "y ~ log(poly(x, 2))",
    "y ~ bs x, df=4)",
    "y ~ ns(x)",
    "y ~ ns(x, df=0)",
    "y ~ ns(x, df=4, degree=3)",
    "y ~ splines.bs(x, df=4)",
    "y ~ poly(x)",
    "y ~ poly(2, x)",
    "y ~ poly(x, 0)",
    "y ~ poly(x, 5)",
    "y ~ poly(x, 1.5)",
    "y ~ poly(x, 2, 3)",
    "y ~ poly(x, 2, center=5)",
    "y ~ poly(x, 2, scale=5)",
    "y ~ poly(x, 2, center=5, scale=0)",
    "y ~ poly(x, 2, center=5, mean=5, scale=1)",
    "y ~ poly(x, 2, center=mean(x), scale=sd(x))",
    "y ~ poly(x, 2, raw=TRUE)",
    "y ~ poly(x, z, degree=2)",
    "bs(y, df=4) ~ x",
    "[y] ~ x",
    "y ~ [x]",
    "y ~ x]",
    "y ~ x + ]z[",
    "y ~ cr(x, df=4)",
    "y ~ cc(x, df=4)",
    "y ~ s(x)",
    "y ~ center(x)",
    "y ~ standardize(x)",
    "y ~ scale(x)",
    "y ~ scale()",
    "y ~ scale(x, 50, 10)",
    "y ~ scale(x, mean=50)",
    "y ~ scale(x, sd=10)",
    "y ~ scale(x, mean=50, center=50)",
    "y ~ scale(x, mean=50, mean=50, sd=1)",
    "y ~ scale(x, mean=50, sd=10, sd=10)",
    "y ~ scale(x, mean=50, center=50, sd=10)",
    "y ~ scale(x, mean=mean(x), sd=sd(x))",
    "y ~ scale(x, mean=z, sd=1)",
    "y ~ scale(x, mean=1+1, sd=1)",
    "y ~ scale(x, mean=[1, 2], sd=1)",
    "y ~ scale(x, mean='1', sd=1)",
    "y ~ scale(x, mean=50, sd=0)",
    "y ~ scale(x, mean=50, sd=-1)",
    "y ~ scale(x, mean=nan, sd=1)",
    "y ~ scale(x, mean=1e999, sd=1)",
    "y ~ scale(x, mean=0, sd=inf)",
    "y ~ scale(x, mean=0, sd=TRUE)",
    "y ~ scale(x, center=FALSE, scale=2)",
    "y ~ scale(x, mean==50, sd=10)",
    "y ~ scale(x=x, mean=50, sd=10)",
    "y ~ scale(mean=50, sd=10)",
    "y ~ log(x, 2)",
    "y ~ log(x=x)",
    "y ~ log(x, where=z)",
    "y ~ log()",
    "y ~ np.log(x)",
    "y ~ numpy.log(x)",
    "y ~ cut(x, 3)",
    "y ~ qcut(x, 3)",
    "y ~ lag(x)",
    "y ~ hashed(x, levels=3)",
    "y ~ rank(x)",
    "y ~ I(x - mean(x))",
    "y ~ I(x / max(x))",
    "y ~ ifelse(x, 1, 0)",
    "y ~ weights(x)",
    "y ~ Surv(x, z)",
    "y ~ sin(x)",
    "y ~ print(x)",
    'y ~ getattr(x, "a")',
    "y ~ C(x, levels=[1, 2])",
    'y ~ C(x, contr.treatment("a"))',
    'y ~ factor(x, levels=c("a", "b"))',
    "y ~ C(x, z)",
    "y ~ C()",
    "y ~ C(1)",
    "y ~ C(x + z)",
    "y ~ C(log(x))",
    "y ~ C(C(x))",
    "y ~ C([x])",
    "y ~ C(x",
    "y ~ I(C(x))",
    "y ~ log(factor(x))",
    "y ~ ordered(x)",
    "y ~ x:interaction(x, z)",
    "y ~ " + "(" * 500 + "x" + ")" * 500,
    "y ~ log" * 200,
    "y ~ " + "log(" * 21 + "x" + ")" * 21,
    "y ~ " + "+".join(f"x{number}" for number in range(5000)),
    "y ~ " + "+".join(f"x{number}" for number in range(252)),
    "y ~ " + "+".join(f"x{number}" for number in range(201)),
    "y ~ " + "*".join(f"x{number}" for number in range(12)),
    "y ~ " + "*".join(f"x{number}" for number in range(200)),
    "y ~ " + "/".join(f"x{number}" for number in range(200)),
    "y ~ (a+b+c+d+e+f+g)^4",
    "y ~ ((a+b+c)^4)^4",
    "y ~ (((a+b)^4)^4)^4",
    "y ~ " + ":".join(["(a+b+c+d)"] * 20),
    "y ~ " + "I(-" * 19 + "x" + ")" * 19 + "-" * 500,
    "y ~ " + "x" * 1_000_000,
    "y ~ " + "x + " * 250_000,
    "(" * 1_000_000,
    "y ~ I(" + "9" * 1900 + "*x)",
    "y ~ " + "`" * 1001,
    "y ~ " + "%" * 1001,
    "y ~ " + "." * 1001,
    "y ~ " + "'" * 1001,
]  # fmt: skip


def _refusal(text):
    """Return the error that refuses a text."""
    with pytest.raises(FormulaError) as error:
        parse(text)
    return error.value


@pytest.mark.covering(cases=120)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:50]))
def test_hostile_text_is_refused_and_does_nothing(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    modules = set(sys.modules)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = _refusal(text.replace("FILE", str(tmp_path / "written")))
    assert not list(tmp_path.iterdir())
    assert set(sys.modules) == modules
    assert error.term
    assert error.reason
    assert error.remedy
    assert str(error) == f"{error.term}: {error.reason}; {error.remedy}"
    assert len(str(error)) < 400
    assert str(error).isprintable()


@pytest.mark.parametrize(
    "formula", [None, b"y ~ x", ["y ~ x"], Formula("y ~ x"), 1, {"y": "x"}, type("Text", (str,), {})("y ~ x")]
)
def test_what_is_no_text_is_refused(formula):
    with pytest.raises(FormulaError, match="a formula is a text"):
        parse(formula)


@pytest.mark.parametrize(
    ("text", "piece", "remedy"),
    [
        ("y ~ rcs(x, 2)", "rcs(x, 2)", "rcs(x, 4)"),
        ("y ~ rcs(x, [1, 2])", "rcs(x, [1, 2])", "rcs(x, 4)"),
        ("y ~ rcs(x, nk=4, knots=[1, 2, 3])", "rcs(x, nk=4, knots=[1, 2, 3])", "rcs(x, 4)"),
        ("y ~ rcs(x)", "rcs(x)", "rcs(x, 4)"),
        ("y ~ pmax(x)", "pmax()", "pmax(x, 50)"),
        ("y ~ np.minimum(x, 5)", "np.minimum()", "pmin(x, 50)"),
        ("y ~ bs(x)", "bs(x)", "knots=[40, 60]"),
        ("y ~ bs(x, knots=quantile(x))", "knots=quantile", "public rows or the literature"),
        ("y ~ ns(x, knots=c(40, median(x)))", "knots=c(40, median", "public rows or the literature"),
        ("y ~ ns(x, knots=z)", "knots=z", "public rows or the literature"),
        ("y ~ ns(x, lower=min(x), df=3)", "lower=min", "public rows or the literature"),
        ("y ~ ns(x, knots=[40, 60], lower=5*2)", "lower=5 *", "public rows or the literature"),
        ("y ~ poly(x, degree=d)", "degree=d", "public rows or the literature"),
        ("y ~ poly(x, 2, raw=TRUE)", "raw", "center=50, scale=10"),
        ("y ~ log(bs(x, df=4))", "bs()", "on its own"),
        ("y ~ y2 + ns(y, df=3)", "ns(y, df=3)", "leave it out"),
        ("y ~ scale(x)", "scale(x)", "scale(x, mean=50, sd=10)"),
        ("y ~ center(x)", "center()", "scale(x, mean=50, sd=10)"),
        ("y ~ C(x, levels=['a'])", "C(x, ...)", "another reference level"),
        ("y ~ x%in%z", "%in%", "a:b"),
        ("y ~ x | z", "|", "join the terms by +"),
        ("y ~ .", ".", "name the columns one by one"),
        ("y ~ x.__class__", ".__class__", "backticks"),
        ("y ~ x + größe", "\\xf6\\xdf", "backticks"),
        ("y ~ lambda: 1", "lambda", "`lambda`"),
        ("y ~ x z", "z", "+ between terms"),
        ("y ~ 2*x", "2", "I(2 * x)"),
        ("y ~ x^5", "^5", "1 to 4"),
        ("y ~ offset(log(x))", "offset()", "a column of its own"),
        ("y ~ lgo(x)", "lgo()", "did you mean log()?"),
        ("y ~ Log(x)", "Log()", "did you mean log()?"),
        ("y ~ C(x, Sum)", "C(x, ...)", "t_test"),
        ("y ~ x > 5", ">", "I(age > 50)"),
        ("y ~ cut(x, 4)", "cut()", "c(0, 50, 60, 100)"),
        ("y ~ I(x != 'a')", 'I(x != "a")', 'I(x == "a")'),
        ("y ~ mgcv::s(x)", "::", "bare name"),
        ("log(y) ~ x", "log(y)", "bare name"),
        ("y~x-x-1", "y ~ x - x - 1", "y ~ 1"),
        ("y ~ x + y", "y", "leave it out"),
        ("y ~ x[0]", "[", "no subscripts"),
        ("y ~ sin(x)", "sin()", "log1p"),
        ("y ~ log(x +)", ")", "a column, a number"),
        ("y ~ log(x z)", "z", "an operator"),
    ],
)
def test_the_offending_piece_and_the_remedy_are_named(text, piece, remedy):
    with pytest.raises(FormulaError) as error:
        parse(text)
    assert error.value.term == piece
    assert remedy in error.value.remedy


def test_a_formula_without_an_outcome_reads_its_right_side_as_any_other():
    formula = parse_one_sided("~ age*C(grade) + I(x^2) - 1")
    assert formula.canonical == "~ 0 + age + C(grade) + I(x^2) + age:C(grade)"
    two_sided = parse("y ~ age*C(grade) + I(x^2) - 1")
    assert [term.source for term in formula.terms] == [term.source for term in two_sided.terms]
    assert (formula.left, formula.response) == (None, "")
    assert parse_one_sided(formula.canonical).canonical == formula.canonical


@pytest.mark.parametrize("text", ["y ~ x", "Surv(t, e) ~ x", "x", "~ x ~ z", "~ 0", 3])
def test_an_outcome_where_none_belongs_is_refused(text):
    with pytest.raises(FormulaError):
        parse_one_sided(text)


def test_models_with_an_outcome_refuse_a_formula_without():
    for reads in (parse, parse_survival):
        with pytest.raises(FormulaError, match="outcome"):
            reads("~ x")


def test_limits_are_the_stated_ones():
    assert len(parse("y ~ " + " + ".join(f"x{number}" for number in range(200))).terms) == 200
    assert len(parse("y ~ " + "x" * 1996).terms) == 1
    assert len(parse("y ~ " + "log1p(" * 20 + "x" + ")" * 20).terms) == 1
    assert len(parse("y ~ " + "+".join(["x"] * 251)).terms) == 1
    assert len(parse("y ~ a*b*c*d*e*f*g").terms) == 127
    with pytest.raises(FormulaError, match="201 terms"):
        parse("y ~ " + " + ".join(f"x{number}" for number in range(201)))
    with pytest.raises(FormulaError, match="2001 characters"):
        parse("y ~ " + "x" * 1997)
    with pytest.raises(FormulaError, match="251 operators"):
        parse("y ~ " + "+".join(["x"] * 252))
    with pytest.raises(FormulaError, match="20 deep"):
        parse("y ~ " + "log1p(" * 21 + "x" + ")" * 21)


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ("y ~ age + (1 | id)", "random effects are not fitted", r"Study\(unit="),
        ("y ~ (0 | id)", "random effects are not fitted", r"Study\(unit="),
        ("y ~ age | arm", "has no meaning in a formula", r"describe\(..., by=\)"),
        ("Surv(time, event) ~ a", "needs a plain outcome column", r"hazard \(dp_hazard in R\).*survfit"),
    ],
)
def test_what_is_not_fitted_points_to_what_is(text, reason, remedy):
    with pytest.raises(FormulaError) as error:
        parse(text)
    assert re.search(reason, error.value.reason)
    assert re.search(remedy, error.value.remedy)

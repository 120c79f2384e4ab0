"""Hostile arguments are refused before anything is charged; hostile rows are fitted like any others."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.support import FORMULA, PUBLIC_ROWS, RECORDS, SCHEMA, people, study_of

PRIVATE = people(RECORDS)
PUBLIC = people(PUBLIC_ROWS, seed=1)
STUDY = study_of(PRIVATE, epsilon=10**7)
WITH_PUBLIC = study_of(PRIVATE, PUBLIC)
MODEL = hdpf.logit(FORMULA, data=STUDY)


@pytest.fixture(scope="module")
def result():
    return MODEL.fit(epsilon=1.0, se_share=0)


@pytest.fixture(scope="module")
def pooled():
    return hdpf.logit(FORMULA, data=WITH_PUBLIC).fit(epsilon=1.0)


def shown(value):
    """Return the name of a test's case: the same in every process."""
    return repr(value).split(" object at ")[0][:40]


def refused(call, error, named, study=STUDY):
    """Check that a call raises the documented error, which names what is wrong, and charges nothing."""
    before = study.ledger.spent, study.ledger.verify()
    with pytest.raises(error) as caught:
        call()
    assert named in str(caught.value)
    assert type(caught.value).__module__ == "hdpstats._base.errors"
    assert (study.ledger.spent, study.ledger.verify()) == before


NUMBERS_THAT_ARE_NONE = [
    math.nan, math.inf, -math.inf, 0, -1, -0.0, 5e-324, 1e-7, "1", "", True, False, None, np.bool_(True), 1 + 0j, [1],
    (1,), {},
    np.array([1.0, 2.0]), np.array([1.0]), pd.Series([1.0]), np.float64("nan"), np.float32("inf"), Decimal("NaN"),
    Decimal("sNaN"), Decimal("Infinity"), object(), b"1", 10**400, 1e308,
]  # fmt: skip


@pytest.mark.parametrize("epsilon", NUMBERS_THAT_ARE_NONE, ids=shown)
def test_an_epsilon_that_is_none_is_refused(epsilon):
    refused(lambda: MODEL.fit(epsilon=epsilon), (hdp.ArgumentError, hdp.BudgetError), "epsilon")


@pytest.mark.parametrize("epsilon", [50.5, 1e3, 10**6, Fraction(101, 2)])
def test_an_epsilon_that_protects_nobody_needs_a_word(epsilon):
    refused(lambda: MODEL.fit(epsilon=epsilon), hdp.BudgetError, "allow_large_epsilon")
    assert MODEL.fit(epsilon=epsilon, allow_large_epsilon=True, se_share=0).guarantee.epsilon == Fraction(epsilon)
    refused(lambda: MODEL.fit(epsilon=1e308, allow_large_epsilon=True), hdp.ArgumentError, "epsilon")


@pytest.mark.parametrize(
    ("epsilon", "exact"),
    [
        (Fraction(1, 3), Fraction(333_333_333, 10**9)),
        (Decimal("0.1"), Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (np.float32(0.25), Fraction(1, 4)),
        (np.int64(2), Fraction(2)),
        (50, Fraction(50)),
        (1e-6, Fraction(1, 10**6)),
    ],
)
def test_an_epsilon_is_charged_as_the_fraction_that_was_meant_on_the_grain_and_above_the_floor(epsilon, exact):
    study = study_of(PRIVATE)
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=epsilon, se_share=0)
    assert result.guarantee.epsilon == exact
    assert study.ledger.spent.epsilon == max(exact, Fraction(1, 10**4))


@pytest.mark.parametrize("epsilon", [math.nan, "1", True, 0, -1, [], [1.0, "1"], "12", Decimal("NaN")], ids=shown)
def test_a_plan_refuses_an_epsilon_that_is_none(epsilon):
    refused(lambda: MODEL.plan(epsilon), hdp.ArgumentError, "epsilon")


@pytest.mark.parametrize(
    "epsilon", [1, 0.5, Decimal("0.1"), np.float32(1), Fraction(1, 3), [1, 2], np.array([0.5, 1.0])]
)
def test_a_plan_takes_numbers_of_every_type_and_costs_nothing(epsilon):
    spent = STUDY.ledger.spent
    assert np.isfinite(MODEL.plan(epsilon).frame["std_error"]).all()
    assert STUDY.ledger.spent == spent


@pytest.mark.parametrize(
    "delta", [-1e-9, 1, 1.0, 2, math.nan, math.inf, "0", None, True, 1j, np.array([0.0])], ids=shown
)
def test_a_delta_that_is_none_is_refused(delta):
    refused(lambda: MODEL.fit(epsilon=1.5, delta=delta), hdp.ArgumentError, "delta")


@pytest.mark.parametrize(
    "replicate", [0, -1, 1.5, math.nan, math.inf, "2", None, True, 10**10, np.array([2, 3])], ids=shown
)
def test_a_replicate_that_is_none_is_refused(replicate):
    refused(lambda: MODEL.fit(epsilon=1.5, replicate=replicate), hdp.ArgumentError, "replicate")


@pytest.mark.parametrize(
    "share", [-0.1, 0.91, 1, math.nan, math.inf, "0.1", None, True, 1j, np.array([0.1])], ids=shown
)
def test_a_share_that_is_none_is_refused(share):
    refused(lambda: MODEL.fit(epsilon=1.5, se_share=share), hdp.ArgumentError, "se_share")
    refused(lambda: hdp.mechanisms.ObjectivePerturbation(se_share=share), hdp.ArgumentError, "se_share")


@pytest.mark.parametrize(
    "mechanism",
    ["clipped_newton", "", "AUTO", None, 1, b"auto", [], np.array([1, 2]), PRIVATE, object],
    ids=lambda m: type(m).__name__,
)
def test_an_unknown_mechanism_is_refused(mechanism):
    refused(lambda: MODEL.fit(epsilon=1.5, mechanism=mechanism), hdp.MechanismError, "mechanism")


@pytest.mark.parametrize("row_norm", [0, -1, 1e-4, 1e4, math.nan, math.inf, "1", True, [1.0]], ids=shown)
def test_a_row_norm_that_is_none_is_refused(row_norm):
    refused(lambda: hdpf.logit(FORMULA, data=STUDY, row_norm=row_norm), hdp.ArgumentError, "row_norm")


def test_a_row_norm_is_refused_beside_public_rows_and_used_without():
    refused(lambda: hdpf.logit(FORMULA, data=WITH_PUBLIC, row_norm=1.0), hdp.ArgumentError, "row_norm", WITH_PUBLIC)
    assert np.isfinite(hdpf.logit(FORMULA, data=STUDY, row_norm=0.5).fit(epsilon=1.0, se_share=0).params).all()


@pytest.mark.parametrize(("argument", "name"), [
    ("weights", "x"), ("weights", "o"), ("weights", "nowhere"), ("weights", 1), ("weights", ["w"]), ("weights", True),
    ("offset", "x"), ("offset", "w"), ("offset", "nowhere"), ("offset", ""), ("offset", np.ones(RECORDS)),
], ids=str)  # fmt: skip
def test_weights_and_offsets_must_be_declared_columns(argument, name):
    refused(lambda: hdpf.logit(FORMULA, data=STUDY, **{argument: name}), hdp.SchemaError, argument)


@pytest.mark.parametrize("budget", [None, 1.0, "1", {"epsilon": 1}])
def test_private_rows_need_an_account(budget):
    with pytest.raises(hdp.ArgumentError, match="budget"):
        hdp.Study(private=PRIVATE, schema=SCHEMA, budget=budget)
    with pytest.raises(hdp.ArgumentError, match="ledger"):
        hdp.Study(private=PRIVATE, schema=SCHEMA, ledger=budget)


@pytest.mark.parametrize(
    "epsilon", [math.nan, math.inf, 0, -1, -0.0, "1", True, None, 1j, [1], np.array([1.0, 2.0])], ids=shown
)
def test_a_total_that_is_none_is_refused(epsilon):
    with pytest.raises(hdp.ArgumentError, match="epsilon"):
        hdp.Budget(epsilon=epsilon)
    with pytest.raises(hdp.ArgumentError, match="epsilon"):
        hdp.Ledger(None, dataset="d", epsilon=epsilon)


@pytest.mark.parametrize("excess", [Fraction(1, 10**9), 2.0**-29, 1])
def test_more_than_what_is_left_is_refused(excess):
    study = study_of(PRIVATE, epsilon=1)
    model = hdpf.logit(FORMULA, data=study)
    refused(lambda: model.fit(epsilon=1 + excess, se_share=0), hdp.InsufficientBudget, "epsilon", study)
    model.fit(epsilon=Fraction(3, 4), se_share=0)
    refused(
        lambda: model.fit(epsilon=Fraction(1, 4) + Fraction(excess), se_share=0),
        hdp.InsufficientBudget,
        "epsilon",
        study,
    )
    model.fit(epsilon=Fraction(1, 4), se_share=0)
    assert study.ledger.remaining.epsilon == 0


@pytest.mark.parametrize("kind", [hdp.Continuous, hdp.Offset])
@pytest.mark.parametrize(
    "bounds",
    [
        (1, 0), (1, 1), (math.nan, 1), (0, math.nan), (0, math.inf), (-math.inf, 0), (0, 1e300), ("0", 1), (None, 1),
        (True, 2), (0, 1j), (0, [1]), (1, np.nextafter(1.0, 2.0)),
    ],
    ids=shown,
)  # fmt: skip
def test_bounds_that_are_none_are_refused(kind, bounds):
    with pytest.raises((hdp.SchemaError, hdp.ArgumentError), match=r"lower|upper|bounds"):
        kind(*bounds)


@pytest.mark.parametrize("most", [0, -1, math.nan, math.inf, "1", True, None, 1e300])
def test_horizons_and_largest_weights_that_are_none_are_refused(most):
    with pytest.raises(hdp.ArgumentError, match="horizon"):
        hdp.Duration(most, complete=True)
    with pytest.raises(hdp.ArgumentError, match="max"):
        hdp.Weight(most, complete=True)


@pytest.mark.parametrize(
    "levels",
    [[], ["a"], ["a", "a"], [1, "1"], "ab", None, 3, ["a", None], ["a", ""], ["a", 1.5], map(str, range(10**6))],
    ids=shown,
)
def test_levels_that_are_none_are_refused(levels):
    with pytest.raises((hdp.SchemaError, hdp.ArgumentError), match="level"):
        hdp.Categorical(levels, complete=True)


@pytest.mark.parametrize(
    "private", [[], {}, np.zeros((3, 2)), 1, PRIVATE["x"], object(), b"rows"], ids=lambda p: type(p).__name__
)
def test_private_rows_that_are_no_frame_are_refused(private):
    with pytest.raises(hdp.ArgumentError, match="private"):
        study_of(private)


def test_private_rows_that_are_no_file_are_refused(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"secret")
    for path in ("nowhere.parquet", tmp_path, tmp_path / "rows.parquet"):
        with pytest.raises(hdp.ArgumentError, match="private") as caught:
            study_of(path)
        assert "secret" not in str(caught.value)


def columns_that_do_not_fit():
    yield "missing", PRIVATE.drop(columns="x"), "'x'"
    yield "misspelled", PRIVATE.rename(columns={"x": "X"}), "'x'"
    yield "with a blank", PRIVATE.rename(columns={"x": " x"}), "'x'"
    yield "twice", pd.concat([PRIVATE, PRIVATE[["x"]]], axis=1), "'x'"
    yield "numbered", PRIVATE.set_axis(range(6), axis=1), "'y'"
    yield "in two levels", PRIVATE.set_axis(pd.MultiIndex.from_product([["a"], PRIVATE.columns]), axis=1), "'y'"
    yield "none", pd.DataFrame(index=range(RECORDS)), "'y'"


@pytest.mark.parametrize(
    ("frame", "named"), [pytest.param(frame, named, id=name) for name, frame, named in columns_that_do_not_fit()]
)
def test_private_columns_that_do_not_fit_the_schema_are_refused(frame, named):
    with pytest.raises(hdp.SchemaError, match=named) as caught:
        study_of(frame)
    assert not any(label in str(caught.value) for label in ("X", "' x"))


def public_rows_that_do_not_fit():
    yield "text in numbers", PUBLIC.assign(x=["high"] * PUBLIC_ROWS), hdp.SchemaError
    yield "infinite", PUBLIC.assign(x=math.inf), hdp.SchemaError
    yield "outcome of two", PUBLIC.assign(y=2), hdp.SchemaError
    yield "column twice", pd.concat([PUBLIC, PUBLIC[["x"]]], axis=1), hdp.SchemaError
    yield "no frame", PUBLIC["x"], hdp.ArgumentError
    yield "the private rows", PRIVATE, hdp.ArgumentError


@pytest.mark.parametrize(
    ("public", "error"), [pytest.param(frame, error, id=name) for name, frame, error in public_rows_that_do_not_fit()]
)
def test_public_rows_that_do_not_fit_the_schema_are_refused(public, error):
    with pytest.raises(error, match=r"public|several columns are called 'x'"):
        study_of(PRIVATE, public)


def test_public_rows_without_a_covariate_are_refused_by_the_model():
    study = study_of(PRIVATE, PUBLIC.drop(columns="x"))
    refused(lambda: hdpf.logit(FORMULA, data=study), hdp.SchemaError, "'x'", study)


@pytest.mark.parametrize("schema", [None, {}, {"x": hdp.Continuous(0, 1, complete=True)}, 1])
def test_a_schema_is_required(schema):
    with pytest.raises(hdp.ArgumentError, match="schema"):
        study_of(PRIVATE, schema=schema)


@pytest.mark.parametrize("option", [
    {"relation": "add_or_remove_one"}, {"relation": "neighbours"}, {"relation": None}, {"relation": 1}, {"unit": "x"},
    {"unit": 1},
], ids=str)  # fmt: skip
def test_relations_and_units_that_are_not_proved_are_refused(option):
    with pytest.raises(hdp.ArgumentError, match=next(iter(option))):
        study_of(PRIVATE, **option)


FORMULAS = [
    "", "~", "y", "x ~ y ~ g", "y ~ nowhere", "y ~ x + y", "g ~ x", "x ~ g", "log1p(y) ~ x",
    "y ~ C(g, levels=['a'])",
    "y ~ scale(x)", "y ~ center(x)", "y ~ bs(x, knots=k)", "y ~ poly(x)", "y ~ x.mean()", "y ~ x[0]", "y ~ `x`.T",
    "y ~ I(__import__('os').system('true'))", "y ~ ().__class__.__base__.__subclasses__()", "y ~ (lambda: x)()",
    "y ~ f'{x}'", "y ~ (x := 1)", "y ~ np.exp(x)", "y ~ PRIVATE", "y ~ (a + b)**40", "y ~ " + " + ".join(["x"] * 5000),
    "y ~ " + "(" * 500 + "x" + ")" * 500, "y ~ x" + " " * 2**20, "y ~ x | g", "y ~ x\0", "y ~ \u202ex",
    "y ~ log1p(x, 1)",
    "y ~ 1e400 * x", None, b"y ~ x", ["y ~ x"], 1, FORMULA.encode(),
]  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: repr(formula)[:30])
def test_formulas_that_ask_for_something_else_are_refused(formula):
    errors = (hdp.FormulaError, hdp.ArgumentError, hdp.SchemaError, hdp.MechanismError)
    refused(lambda: hdpf.logit(formula, data=STUDY), errors, "")


@pytest.mark.parametrize("data", [PRIVATE, None, SCHEMA, STUDY.site, "study"], ids=lambda data: type(data).__name__)
def test_a_model_needs_a_study(data):
    refused(lambda: hdpf.logit(FORMULA, data=data), hdp.ArgumentError, "data")


@pytest.mark.covering
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ 0 + x", "y ~ x:g", "y ~ x*g", "y ~ x + g"])
@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize(
    "public", [None, PUBLIC, PUBLIC.iloc[:0], PUBLIC.iloc[:10]], ids=["none", "some", "empty", "few"]
)
def test_few_private_rows_are_fitted(formula, rows, public):
    result = hdpf.logit(formula, data=study_of(PRIVATE.iloc[:rows], public)).fit(epsilon=1.0, se_share=0)
    assert np.isfinite(result.params).all()
    assert result.release.records == rows


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, 0.0001, math.nan, math.inf, "0.05", None, True, [0.05]], ids=shown)
def test_a_level_that_is_none_is_refused(alpha, pooled):
    for call in (
        pooled.conf_int,
        pooled.summary,
        pooled.odds_ratios,
        lambda a: pooled.predict(PUBLIC, ci=True, alpha=a),
    ):
        refused(lambda call=call: call(alpha), hdp.ArgumentError, "alpha", WITH_PUBLIC)
    refused(lambda: pooled.tidy(conf_level=alpha), hdp.ArgumentError, "conf_level", WITH_PUBLIC)


@pytest.mark.parametrize(
    ("frame", "error", "named"),
    [
        (PUBLIC.drop(columns="x"), hdp.SchemaError, "'x'"),
        (PUBLIC.assign(x="high"), hdp.SchemaError, "'x'"),
        (PUBLIC.to_dict("list"), hdp.ArgumentError, "frame"),
        (None, hdp.ArgumentError, "frame"),
    ],
    ids=["missing column", "text", "mapping", "nothing"],
)
def test_rows_to_predict_are_checked_aloud(result, frame, error, named):
    refused(lambda: result.predict(frame), error, named)


@pytest.mark.parametrize(
    "bounds", [[], [(0, 1), (0, 1)], [(1, 0)], [(0, math.nan)], [1], [(0, 1, 2)], [None]], ids=shown
)
def test_bounds_of_arrays_that_do_not_fit_are_refused(bounds):
    with pytest.raises((hdp.ArgumentError, hdp.SchemaError), match=r"lower|upper|exog_bounds"):
        hdp.Logit(PRIVATE["y"], PRIVATE[["x"]], exog_bounds=bounds, budget=hdp.Budget(epsilon=1))


@pytest.mark.parametrize(
    ("endog", "exog"),
    [
        (np.zeros(3), np.zeros((4, 1))),
        (np.zeros((4, 2)), np.zeros((4, 1))),
        (0.0, np.zeros((4, 1))),
        (np.zeros(4), np.zeros((4, 1, 1))),
        (np.zeros(4), np.zeros((4, 2))),
    ],
)
def test_arrays_of_other_shapes_are_refused(endog, exog):
    with pytest.raises(hdp.ArgumentError, match=r"endog|exog"):
        hdp.Logit(endog, exog, exog_bounds=[(0, 1)], budget=hdp.Budget(epsilon=1))


def layouts():
    x = PRIVATE[["x", "k"]].to_numpy()
    frozen = x.copy()
    frozen.setflags(write=False)
    strided = np.zeros((RECORDS, 4))
    strided[:, ::2] = x
    yield "C order", np.ascontiguousarray(x)
    yield "Fortran order", np.asfortranarray(x)
    yield "read-only", frozen
    yield "not contiguous", strided[:, ::2]
    yield "reversed view", x[::-1]
    yield "float16", x.astype(np.float16)
    yield "float32", x.astype(np.float32)
    yield "long double", x.astype(np.longdouble)
    yield "big-endian", x.astype(">f8")
    yield "objects", x.astype(object)
    yield "text", x.astype(str)
    yield "list", x.tolist()
    yield "matrix of integers", x.astype(int)


@pytest.mark.parametrize("exog", [pytest.param(cells, id=name) for name, cells in layouts()])
def test_every_layout_of_arrays_is_fitted_and_left_as_it_is(exog):
    before = repr(exog) if isinstance(exog, list) else exog.tobytes()
    model = hdp.Logit(PRIVATE["y"].to_numpy(), exog, exog_bounds=[(-3, 3), (0, 40)], budget=hdp.Budget(epsilon=1))
    assert np.isfinite(model.fit(epsilon=1.0, se_share=0).params).all()
    assert (repr(exog) if isinstance(exog, list) else exog.tobytes()) == before


def test_the_private_frame_is_never_changed_and_never_followed():
    frame = people(RECORDS)
    frame.loc[3, "x"] = math.nan
    frame.attrs["note"] = "kept"
    copy = frame.copy(deep=True)
    study = study_of(frame)
    hdpf.logit(FORMULA, data=study, weights="w", offset="o").fit(epsilon=1.0, se_share=0)
    pd.testing.assert_frame_equal(frame, copy, check_exact=True)
    assert frame.attrs == {"note": "kept"}
    frame.iloc[:, 0] = 0.0
    assert study.site._table.admit(["y"]).numeric["y"].sum() > 0


@pytest.mark.parametrize(
    "frame", [PRIVATE, PRIVATE.assign(x=math.nan), PRIVATE.assign(x=1e308, y=1.0)], ids=["plain", "nan", "huge"]
)
@pytest.mark.parametrize("public", [None, PUBLIC], ids=["box", "public"])
def test_strict_floating_point_does_not_change_the_outcome(frame, public):
    """Warnings are errors in this test run already; numpy's own are made exceptions as well."""
    with np.errstate(all="raise"):
        result = hdpf.logit(FORMULA, data=study_of(frame, public), weights="w", offset="o").fit(epsilon=1.0, se_share=0)
        assert str(result.summary())
        assert result.to_json()
        assert np.geterr()["over"] == "raise"
    assert np.isfinite(result.params).all()


@pytest.mark.parametrize("name", ["a b", "__class__", "1", "C", "np", "import", "größe", "x:y", "x.y", "~"])
def test_columns_of_any_name_are_fitted_or_refused(name):
    frame = PRIVATE[["y", "x"]].rename(columns={"x": name})
    schema = hdp.Schema({name: hdp.Continuous(-3, 3, complete=True)}, y=hdp.Binary(complete=True))
    study = study_of(frame, schema=schema)
    result = hdpf.logit(f"y ~ `{name}`", data=study).fit(epsilon=1.0, se_share=0)
    assert len(result.params) == 2
    with pytest.raises(hdp.SchemaError, match="Intercept"):
        hdp.Schema(Intercept=hdp.Continuous(0, 1, complete=True))

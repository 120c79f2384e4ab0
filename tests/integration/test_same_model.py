"""One model written in several ways is one question, answered once; every way's coefficients follow exactly."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.formulas import compile_design
from hdpstats.schema.public import PublicTable
from tests.support import people

pytestmark = pytest.mark.usefixtures("few_draws", "any_errors")

SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    k=hdp.Continuous(0, 40),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    w=hdp.Weight(max=2, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
    n=hdp.Continuous(0, 12.5, complete=True),
    time=hdp.Duration(10, complete=True),
)
PRIVATE, PUBLIC = (
    frame.assign(n=frame["k"].clip(0, 12), time=1 + frame["k"].clip(0, 8))
    for frame in (people(900), people(260, seed=1))
)
ANY = pd.DataFrame({"x": [-3.0, 0.5, 3.0], "k": [0.0, 40.0, 7.0], "g": ["a", "b", "c"], "o": 0.0, "w": 1.0})

WRITTEN = [
    ("x + k + g", "g + k + x"),
    ("x + k + g", "0 + g + x + k"),
    ("x + log1p(k)", "I(2 * log1p(k) - 1) + scale(x, mean=1, sd=2)"),
    ("x + k + g", "scale(x, mean=1, sd=0.5) + I(2 * k - 3) + C(g)"),
    ("x*g", "g + x:g"),
    ("x*g", "0 + g + scale(x, mean=1, sd=3):g"),
    ("poly(x, 3) + k", "k + x + I(x^2) + I((x - 1)^3)"),
    ("ns(k, df=2, knots=5, lower=0, upper=40)*g", "0 + g + g:ns(k, knots=5, lower=0, upper=40)"),
    ("bs(x, df=4, knots=0)", "bs(x, knots=0, lower=-3, upper=3)"),
    ("x + g", "x + C(g, Treatment('b'))"),
    ("x*g", "relevel(g, ref='c')*x"),
    ("x + g", "x + I(g == 'b') + I(g == 'c')"),
    ("x + I(g == 'b')", "I(g == 'b') + scale(x, mean=1, sd=2)"),
    ("k + I(x > 1) + I(x > 0)", "k + cut(x, c(-Inf, 0, 1, Inf))"),
    ("g:I(x > 0) + g", "0 + g:cut(x, c(-Inf, 0, Inf))"),
    ("I(x >= 1)", "I(x < 1)"),
]


def study(public=PUBLIC, private=PRIVATE):
    return hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=100, delta=0.01))


def check_same(opened, one, other, *, outcome="y", fit=None, predictor=True):
    """Fit both ways: the second costs nothing, and its coefficients are those that linear algebra gives."""
    fit = {"epsilon": 1.0} | (fit or {})
    data = opened.keywords["data"]
    fit = {"se_share": 0} | fit
    first = opened(f"{outcome} ~ {one}").fit(**fit)
    spent, entries = data.ledger.spent, len(data.ledger.history())
    again = opened(f"{outcome} ~ {other}").fit(**fit)
    assert (data.ledger.spent, len(data.ledger.history())) == (spent, entries)
    assert again.release == first.release
    assert again.facts.formula == f"{outcome} ~ {other}"
    if not predictor:
        return first, again
    table = PUBLIC.drop(columns="y")
    X, Z = (matrix(right, table) for right in (one, other))
    L = np.linalg.lstsq(Z, X, rcond=None)[0]
    for pair in ((first, again), (first.private_only, again.private_only), (first.public_only, again.public_only)):
        if None not in pair:
            np.testing.assert_allclose(pair[1].params, L @ pair[0].params, rtol=1e-9, atol=1e-10)
        if None not in pair[:2] and pair[0] is not first.public_only:
            V = pair[0].cov_params().to_numpy()
            np.testing.assert_allclose(pair[1].cov_params(), L @ V @ L.T, rtol=1e-7, atol=1e-9 * np.abs(V).max())
    return first, again


def matrix(right, frame):
    design = compile_design(f"y ~ {right}", SCHEMA)
    covariates = design.needs[1:]
    return design.evaluate_unclipped(PublicTable.from_frame(frame, SCHEMA, required=covariates).raw(covariates))


class Opened:
    """A model's constructor with its arguments."""

    def __init__(self, model, data, **options):
        self.model, self.keywords = model, {"data": data, **options}

    def __call__(self, formula):
        return self.model(formula, **self.keywords)


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize(("one", "other"), WRITTEN, ids=[other for _, other in WRITTEN])
def test_a_model_written_otherwise_is_answered_from_the_stored_release(one, other):
    check_same(Opened(hdpf.logit, study()), one, other)


@pytest.mark.parametrize(("one", "other"), WRITTEN[::3], ids=[other for _, other in WRITTEN[::3]])
def test_so_it_is_where_the_schema_alone_gives_the_scale(one, other):
    check_same(Opened(hdpf.logit, study(None)), one, other)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(
    ("model", "options", "outcome"),
    [
        (hdpf.logit, {"weights": "w", "offset": "o"}, "y"),
        (hdpf.linear, {}, "n"),
        (hdpf.linear, {"loss": hdp.losses.Huber()}, "n"),
        (hdpf.quantile, {"q": 0.3}, "n"),
        (hdpf.poisson, {"offset": "o"}, "n"),
    ],
    ids=["logit", "linear", "huber", "quantile", "poisson"],
)
def test_every_loss_of_a_linear_predictor_has_it(model, options, outcome):
    check_same(Opened(model, study(), **options), "x + g", "0 + g + I(x / 3 - 1)", outcome=outcome)


@pytest.mark.parametrize(
    ("mechanism", "fit"),
    [
        ("output", {}),
        pytest.param("exponential", {"delta": 1e-3}, marks=pytest.mark.wide),
        ("clipped_newton", {"delta": 1e-3}),
        ("public_hessian", {}),
        ("histogram", {}),
    ],
)
def test_every_mechanism_has_it(mechanism, fit):
    check_same(Opened(hdpf.logit, study()), "x + g", "0 + g + I(x / 3 - 1)", fit={"mechanism": mechanism, **fit})


@pytest.mark.covering(1)
@pytest.mark.parametrize("baseline", ["spline", "dummies"])
@pytest.mark.parametrize("public", [PUBLIC, None], ids=["public rows", "the schema's box"])
def test_hazards_hand_the_constants_to_the_baseline(baseline, public):
    opened = Opened(hdpf.hazard, study(public), intervals=6, baseline=baseline)
    one, other = check_same(opened, "x*g", "g + scale(x, mean=1, sd=3):g", outcome="Surv(time, y)", predictor=False)
    for of_one, of_other in (
        (one.predict_survival(ANY, ci=public is not None), other.predict_survival(ANY, ci=public is not None)),
        (one.predict_hazard(ANY), other.predict_hazard(ANY)),
    ):
        pd.testing.assert_frame_equal(of_other, of_one, rtol=1e-8, atol=1e-12)
    assert not np.allclose(one.params.iloc[:3], other.params.iloc[:3])


@pytest.mark.parametrize(
    ("one", "other"),
    [("Surv(time, y)", "survival::Surv(time, y == 1)"), ("Surv(time, g == 'b')", "Surv(time, g == 'b')")],
)
def test_outcomes_of_hazards_have_it(one, other):
    data = study()
    first = hdpf.hazard(f"{one} ~ x", data, intervals=6).fit(epsilon=1)
    spent = data.ledger.spent
    again = hdpf.hazard(f"{other} ~ scale(x, mean=1, sd=2)", data, intervals=6).fit(epsilon=1)
    assert data.ledger.spent == spent
    assert again.params["scale(x, mean=1, sd=2)"] == pytest.approx(2 * first.params["x"], rel=1e-12)


def test_an_offset_in_the_formula_is_the_argument():
    data = study()
    first = hdpf.poisson("n ~ x + g", data, offset="o").fit(epsilon=1)
    again = hdpf.poisson("n ~ offset(o) + g + x", data).fit(epsilon=1)
    assert data.ledger.spent.epsilon == 1
    assert again.facts.offset == "o"
    assert again.params["x"] == pytest.approx(first.params["x"], rel=1e-12)
    pd.testing.assert_series_equal(again.predict(ANY), first.predict(ANY), rtol=1e-9)


def test_levels_of_an_outcome_each_have_it():
    data = study()
    opened = Opened(hdpf.multinomial, data)
    one, other = check_same(opened, "x + k", "k + I(x / 3 - 1)", outcome="g", predictor=False)
    frame = ANY.drop(columns="g")
    pd.testing.assert_frame_equal(other.predict(frame), one.predict(frame), rtol=1e-9)


@pytest.mark.parametrize(
    ("one", "other"),
    [("ns(x, knots=1)", "ns(I(-x), knots=-1.001)"), ("I(x * k > 1)", "I(x * k > 1.1)"), ("ns(x, df=2)", "bs(x, df=3)")],
)
def test_other_knots_and_thresholds_are_other_models(one, other):
    data = study()
    hdpf.logit(f"y ~ {one}", data).fit(epsilon=1, describe=False)
    hdpf.logit(f"y ~ {other}", data).fit(epsilon=1, describe=False)
    assert data.ledger.spent.epsilon == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x + k", "x"),
        ("x + k", "x*k"),
        ("poly(x, 3)", "ns(x, df=3)"),
        ("x", "0 + x"),
        ("log(k + 1)", "log(k + 2)"),
        ("log1p(k)", "log2(1 + k)"),
    ],
)
def test_another_column_space_is_another_question(one, other):
    data = study()
    hdpf.logit(f"y ~ {one}", data).fit(epsilon=1, describe=False)
    hdpf.logit(f"y ~ {other}", data).fit(epsilon=1, describe=False)
    assert data.ledger.spent.epsilon == 2

"""One model written in several ways is one question, answered once; every way's coefficients follow exactly."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.formulas import compile_design
from hdpstats.schema.public import PublicTable
from tests.support import people

pytestmark = pytest.mark.usefixtures("few_draws")

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
    ("x + k + g", "scale(x, mean=1, sd=0.5) + I(2 * k - 3) + C(g)"),
    ("x + log1p(k)", "log2(1 + k) + x"),
    ("x*g", "g + x:g"),
    ("x*g", "0 + g + scale(x, mean=1, sd=3):g"),
    ("poly(x, 3) + k", "k + x + I(x^2) + I((x - 1)^3)"),
    ("ns(k, df=2)*g", "0 + g + g:ns(k, knots=20)"),
    ("bs(x, df=4)", "bs(x, knots=0, lower=-3, upper=3)"),
    ("x + g", "x + C(g, Treatment('b'))"),
    ("x*g", "relevel(g, ref='c')*x"),
    ("x + g", "x + I(g == 'b') + I(g == 'c')"),
    ("x + I(g == 'b')", "I(g == 'b') + scale(x, mean=1, sd=2)"),
    ("k + I(x > 1) + I(x > 0)", "k + cut(x, c(-Inf, 0, 1, Inf))"),
    ("g:I(x > 0) + g", "0 + g:cut(x, c(-Inf, 0, Inf))"),
    ("I(x >= 1)", "I(x < 1)"),
    ("I(x > 1) + log1p(k)", "I(3 - 2 * x < 1) + log(2 * k + 2)"),
    ("ns(k, knots=c(2, 8)) + sqrt(k)", "ns(I(k / 4 + 1), knots=c(1.5, 3)) + sqrt(4 * k)"),
    ("scale(x, mean=1, sd=2):g + k", "k + I((1 - x) / 3):relevel(g, ref='b')"),
    ("g + scale(x, mean=0.3, sd=2):ns(k, df=2)", "ns(k, df=2):I(x - 0.3) + g"),
    ("I(1 / (k + 1)) + exp(x)", "I(6 / (2 * k + 2)) + exp(x - 1) "),
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


@pytest.mark.parametrize(("one", "other"), WRITTEN, ids=[other for _, other in WRITTEN])
def test_a_model_written_otherwise_is_answered_from_the_stored_release(one, other):
    check_same(Opened(hdpf.logit, study()), one, other)


@pytest.mark.parametrize(("one", "other"), WRITTEN[::3], ids=[other for _, other in WRITTEN[::3]])
def test_so_it_is_where_the_schema_alone_gives_the_scale(one, other):
    check_same(Opened(hdpf.logit, study(None)), one, other)


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
        ("exponential", {"delta": 1e-3}),
        ("clipped_newton", {"delta": 1e-3}),
        ("public_hessian", {}),
        ("histogram", {}),
    ],
)
def test_every_mechanism_has_it(mechanism, fit):
    check_same(Opened(hdpf.logit, study()), "x + g", "0 + g + I(x / 3 - 1)", fit={"mechanism": mechanism, **fit})


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


BACKWARDS = ("g + ns(x, df=2)", "ns(I(-x), df=2) + g")
"""One model, which the algebra of formulas takes for two."""


@pytest.mark.parametrize(
    ("opened", "outcome", "fit"),
    [
        (Opened(hdpf.logit, study()), "y", {"describe": False}),
        (Opened(hdpf.logit, study()), "y", {"mechanism": "clipped_newton", "delta": 1e-3}),
        (Opened(hdpf.hazard, study(), intervals=6), "Surv(time, y)", {}),
        (Opened(hdpf.multinomial, study()), "g", {}),
    ],
    ids=["logit", "rounds", "hazard", "multinomial"],
)
def test_what_is_only_seen_to_be_the_same_model_is_refused_before_a_charge(opened, outcome, fit):
    one, other = (f"{outcome} ~ {right.replace('g', 'k') if outcome == 'g' else right}" for right in BACKWARDS)
    data, fit = opened.keywords["data"], {"epsilon": 1} | fit
    first = opened(one).fit(**fit)
    charges = len(data.ledger.history())
    with pytest.raises(hdp.ArgumentError, match=r"reuse=True .*replicate=2"):
        opened(other).fit(**fit)
    again = opened(other).fit(**fit, reuse=True)
    assert len(data.ledger.history()) == charges
    assert again.release == first.release
    assert "the stored release of" in " ".join(str(again.summary()).split())
    frame = ANY.drop(columns="g") if outcome == "g" else ANY
    predicted = [each.predict_hazard(frame) if each.facts.hazard else each.predict(frame) for each in (again, first)]
    np.testing.assert_allclose(*predicted, rtol=1e-8)
    assert opened(one).fit(**fit).release == first.release

    new = opened(other).fit(**fit, replicate=2)
    charges = len(data.ledger.history())
    assert new.release != first.release
    assert opened(other).fit(**fit, replicate=2).release == new.release
    opened(other).fit(**fit | {"epsilon": 2})
    assert len(data.ledger.history()) > charges


def test_a_fit_that_is_recorded_itself_is_returned_whatever_else_is_the_same_model():
    data = study()
    one, other = (hdpf.logit(f"y ~ {right}", data) for right in BACKWARDS)
    first, second = one.fit(epsilon=1), None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hdpstats.models.model.recorded_fit", lambda *_, **__: None)  # as an earlier version did
        second = other.fit(epsilon=1)
    assert second.release != first.release
    assert other.fit(epsilon=1).release == second.release
    assert one.fit(epsilon=1).release == first.release


@pytest.mark.parametrize(
    ("fit", "failing"),
    [
        ({"describe": False}, 1),
        ({}, 2),
        ({"mechanism": hdp.mechanisms.ClippedNewton(rounds=3), "delta": 1e-3, "describe": False}, 3),
    ],
    ids=["one query", "after the description", "the last of three rounds"],
)
def test_a_fit_that_was_charged_and_interrupted_goes_on_whatever_else_is_released_meanwhile(fit, failing, monkeypatch):
    data, asked = study(), []
    one, other = (hdpf.logit(f"y ~ {right}", data) for right in BACKWARDS)
    compute = hdp.LocalSite._compute

    def interrupted(site, pace, prepared):
        asked.append(prepared)
        if len(asked) == failing:
            raise KeyboardInterrupt
        return compute(site, pace, prepared)

    with monkeypatch.context() as patched:
        patched.setattr(hdp.LocalSite, "_compute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.fit(epsilon=1, **fit)
    assert len(asked) == failing
    with monkeypatch.context() as patched:
        patched.setattr("hdpstats.models.model.recorded_fit", lambda *_, **__: None)
        other.fit(epsilon=1, **fit)
    charged = len(data.ledger.history())
    with pytest.raises(hdp.ArgumentError, match="reuse=True"):
        hdpf.logit("y ~ g + ns(I(2 - x), df=2)", data).fit(epsilon=1, **fit)
    earlier = one.fit(epsilon=1, **fit, reuse=True)
    assert "the stored release of" in " ".join(str(earlier.summary()).split())
    found = one.fit(epsilon=1, **fit)
    assert found.release != earlier.release
    assert len(data.ledger.history()) == charged
    assert data.ledger.history()["released"].all()


def test_there_must_be_something_to_reuse():
    data = study()
    model = hdpf.logit("y ~ x", data)
    with pytest.raises(hdp.ArgumentError, match="no release of a model with the same columns"):
        model.fit(epsilon=1, reuse=True)
    assert not len(data.ledger.history())
    released = model.fit(epsilon=1).release
    assert model.fit(epsilon=1, reuse=True).release == released
    with pytest.raises(hdp.ArgumentError, match="reuse must be"):
        model.fit(epsilon=1, reuse="yes")


def test_sites_that_have_a_release_hand_it_out_together():
    halves = {"A": PRIVATE.iloc[:450], "B": PRIVATE.iloc[450:]}
    data = hdp.Study(private=halves, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    one, other = (hdpf.logit(f"y ~ {right}", data) for right in BACKWARDS)
    first = one.fit(epsilon=1)
    spent = [ledger.spent for ledger in data.ledgers.values()]
    with pytest.raises(hdp.ArgumentError, match="reuse=True"):
        other.fit(epsilon=1)
    np.testing.assert_allclose(other.fit(epsilon=1, reuse=True).predict(ANY), first.predict(ANY), rtol=1e-8)
    assert [ledger.spent for ledger in data.ledgers.values()] == spent


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
    [("x + k", "x"), ("x + k", "x*k"), ("poly(x, 3)", "ns(x, df=3)"), ("x", "0 + x"), ("log(k + 1)", "log(k + 2)")],
)
def test_another_column_space_is_another_question(one, other):
    data = study()
    hdpf.logit(f"y ~ {one}", data).fit(epsilon=1, describe=False)
    hdpf.logit(f"y ~ {other}", data).fit(epsilon=1, describe=False)
    assert data.ledger.spent.epsilon == 2

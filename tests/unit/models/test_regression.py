"""Linear regression, quantiles and M-estimators: arguments, queries and results."""

import json

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.registry import query_from_json

SCHEMA = hdp.Schema(
    y=hdp.Continuous(0, 50, complete=True),
    k=hdp.Continuous(0, 12, complete=True),
    below=hdp.Continuous(-1, 12, complete=True),
    b=hdp.Binary(complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    entry=hdp.Duration(1000, missing=0),
    time=hdp.Duration(1000, unit="days", complete=True),
    event=hdp.Binary(complete=True),
    kind=hdp.Categorical(["none", "one", "two"], complete=True),
    o=hdp.Offset(-5, 5, complete=True),
    w=hdp.Weight(2, complete=True),
)
LARGE = 1e6
pytestmark = [pytest.mark.filterwarnings("ignore:y may be a count"), pytest.mark.usefixtures("few_draws")]


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, n), rng.choice(list("abc"), n)
    o = rng.uniform(-5, 5, n)
    rate = np.exp(-6.5 + 0.6 * x)
    free, censored = rng.exponential(1.0 / rate), rng.uniform(100, 1500, n)
    time = np.minimum(np.minimum(free, censored), 1000)
    return pd.DataFrame(
        {
            "y": (20 + 8 * x + 4 * (g == "b") + o + rng.normal(0, 3, n)).clip(0, 50),
            "k": rng.poisson(np.exp(0.5 + 0.7 * x)).clip(0, 12),
            "below": 1.0,
            "b": (rng.random(n) < 0.5).astype(float),
            "x": x,
            "g": g,
            "entry": 0.0,
            "time": time,
            "event": (free <= np.minimum(censored, 1000)).astype(float),
            "kind": "none",
            "o": o,
            "w": rng.choice([0.5, 1.0, 2.0], n),
        }
    )


def study(*, public: pd.DataFrame | None = None, n: int = 4000, **options: object) -> hdp.Study:
    budget = hdp.Budget(epsilon=LARGE * 10, delta=0.01)
    return hdp.Study(private=rows(n, 0), public=public, schema=SCHEMA, budget=budget, **options)


def squares(**declared: object) -> hdp.losses.Loss:
    declared = {
        "value": lambda eta, y: np.logaddexp(eta - y, y - eta),
        "score": lambda eta, y: np.tanh(eta - y),
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "residual": (-15.0, 15.0),
        "name": "log-cosh",
    } | declared
    return hdp.losses.Loss(**declared)


MODELS = {
    "linear": lambda data: hdpf.linear("y ~ x + g", data, offset="o"),
    "huber": lambda data: hdpf.linear("y ~ x + g", data, loss=hdp.losses.Huber(4.0), offset="o"),
    "no intercept": lambda data: hdpf.linear("y ~ 0 + x + g", data, offset="o"),
    "median": lambda data: hdpf.quantile("y ~ x + g", data, offset="o"),
    "own": lambda data: hdpf.mestimate("y ~ x + g", data, loss=squares(), offset="o"),
    "poisson": lambda data: hdpf.mestimate("k ~ x", data, loss=hdp.losses.Poisson()),
    "exponential": lambda data: hdpf.mestimate("Surv(time, event) ~ x", data, loss=hdp.losses.Exponential()),
}
WEIGHTED = {
    "linear": lambda data: hdpf.linear("y ~ x + g", data, weights="w"),
    "poisson": lambda data: hdpf.mestimate("k ~ x", data, loss=hdp.losses.Poisson(), weights="w"),
}


def ordinary(name: str) -> hdp.Result:
    """Return the fit without noise to the very rows that are private elsewhere."""
    return MODELS[name](hdp.Study(public=rows(4000, 0), schema=SCHEMA)).fit_public()


@pytest.mark.covering(cases=4)
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("name", list(MODELS))
def test_without_noise_a_private_fit_is_the_ordinary_one(name: str) -> None:
    result = MODELS[name](study(public=rows(300, 1))).fit(LARGE, allow_large_epsilon=True)
    without = ordinary(name)
    assert list(result.params.index) == list(without.params.index)
    away = (result.private_only.params - without.params).abs() / without.bse
    assert away.max() < (0.6 if name == "median" else 0.35)
    assert ((result.params - without.params).abs() / without.bse).max() < 1.0


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("name", list(MODELS))
def test_results_survive_json_and_say_what_they_are(name: str) -> None:
    model = MODELS[name](study(public=rows(200, 1)))
    result = model.fit(2.0)
    assert model.fit(2.0).release.theta == result.release.theta
    again = hdp.Result.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert "determinant counted in epsilon" in str(result.summary())
    frame = rows(5, 2)
    found, back = (each.predict(frame, ci=True) for each in (result, again))
    pd.testing.assert_frame_equal(found, back)
    assert ((found["conf_low"] < found["predicted"]) & (found["predicted"] < found["conf_high"])).all()
    query = query_from_json(result.query.to_json())
    assert query == result.query


def test_predictions_are_on_the_outcome_s_scale() -> None:
    frame = pd.DataFrame({"x": [0.0], "g": ["a"], "o": [2.0]})
    linear = ordinary("linear")
    assert linear.predict(frame)[0] == pytest.approx(linear.params["Intercept"] + 2.0)
    poisson = ordinary("poisson")
    assert poisson.predict(frame)[0] == pytest.approx(np.exp(poisson.params["Intercept"]))
    times = ordinary("exponential")
    assert times.predict(frame)[0] == pytest.approx(np.exp(-times.params["Intercept"]))
    assert 400.0 < times.predict(frame)[0] < 1100.0


def test_ratios_have_the_words_of_the_model() -> None:
    poisson, times, linear = ordinary("poisson"), ordinary("exponential"), ordinary("linear")
    for result in (poisson, times):
        ratios = result.rate_ratios()
        assert ratios.loc["x", "estimate"] == pytest.approx(np.exp(result.params["x"]))
        with pytest.raises(hdp.ArgumentError, match="rate_ratios"):
            result.odds_ratios()
    assert poisson.facts.exponentiated == "incidence rate ratio"
    assert times.facts.exponentiated == "rate ratio"
    assert times.facts.response == "Surv(time, event)"
    with pytest.raises(hdp.ArgumentError, match="differences on the outcome's own scale"):
        linear.odds_ratios()


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("name", list(MODELS))
def test_a_plan_predicts_what_a_fit_reports(name: str) -> None:
    model = MODELS[name](study(public=rows(300, 1)))
    plan = model.plan([1.0])
    result = model.fit(1.0)
    ratio = result.bse.to_numpy() / plan.frame["std_error"].to_numpy()
    assert plan.frame["reported"].all()
    assert np.all((ratio > 0.6) & (ratio < 1.6))


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_can_be_planned_and_fitted_without_public_rows(name: str) -> None:
    model = MODELS[name](study())
    assert not model.plan([1.0], se_share=0).frame["reported"].any()
    result = model.fit(1.0, se_share=0)
    assert result.bse.isna().all()
    note = "this loss has no model" if name in ("huber", "median", "own") else "se_share"
    assert note in " ".join(str(result.summary()).split())


def test_public_rows_without_outcomes_give_errors_where_a_model_or_a_bound_says_them() -> None:
    covariates = rows(300, 1).drop(columns=["y", "k", "time", "event"])
    for name in ("linear", "poisson"):
        result = MODELS[name](study(public=covariates)).fit(3.0)
        assert result.public_only is None
        labelled = MODELS[name](study(public=rows(300, 1))).fit(3.0).private_only
        ratio = result.bse / labelled.bse
        assert ratio.min() > 0.7
    for name in ("median", "own", "exponential"):
        assert MODELS[name](study(public=covariates)).fit(3.0, se_share=0).bse.isna().all()
    with pytest.raises(hdp.ArgumentError, match=r"c must be given.*public rows with the outcome"):
        hdpf.linear("y ~ x", study(public=covariates), loss=hdp.losses.Huber())


def test_a_plan_for_a_number_of_people_is_for_the_loss_that_they_would_be_fitted_with():
    """The cap of exponential times grows with the number of records, which a study of public rows does not state."""
    alone = hdp.Study(public=rows(120, 1), schema=SCHEMA)
    plans = [
        hdpf.mestimate("Surv(time, event) ~ x", alone, loss=loss).plan(1.0, n=200_000)
        for loss in (hdp.losses.Exponential(), hdp.losses.Exponential(cap=8.0), hdp.losses.Exponential(cap=2.0))
    ]
    left_out, own, smaller = (plan.frame["std_error"].tolist() for plan in plans)
    assert left_out == own != smaller


@pytest.mark.parametrize("name", ["linear", "poisson", "exponential"])
def test_a_noisy_hessian_gives_standard_errors_without_public_rows(name: str) -> None:
    result = MODELS[name](study(n=4000)).fit(100.0, se_share=0.3, allow_large_epsilon=True)
    without = ordinary(name)
    ratio = result.bse / without.bse
    assert ratio.min() > 0.8
    assert ratio.max() < (9.0 if name == "linear" else 2.0), "squares are bounded by the range, not by the spread"


@pytest.mark.parametrize("name", ["huber", "median", "own"])
def test_a_hessian_is_refused_where_it_does_not_give_standard_errors(name: str) -> None:
    data = study(public=rows(200, 1).drop(columns="y"))
    with pytest.raises(hdp.MechanismError, match="does not give standard errors"):
        MODELS[name](data).fit(1.0, se_share=0.2)
    assert data.ledger.spent.epsilon == 0


@pytest.mark.parametrize("name", ["huber", "median", "own", "exponential"])
def test_mechanisms_without_a_method_are_refused_with_those_that_have_one(name: str) -> None:
    data = study(public=rows(200, 1))
    with pytest.raises(hdp.MechanismError, match=r"'objective', 'output'") as refusal:
        MODELS[name](data).fit(1.0, delta=1e-6, mechanism="clipped_newton")
    assert refusal.value.available == ("objective", "output", "exponential")
    assert data.ledger.spent.epsilon == 0


@pytest.mark.covering(cases=1)
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("name", ["linear", "no intercept"])
def test_least_squares_by_clipped_scores_need_far_less_noise_than_the_range_asks_for(name: str) -> None:
    data = study(public=rows(300, 1))
    result = MODELS[name](data).fit(1.0, delta=1e-5, mechanism="clipped_newton")
    without = ordinary(name)
    assert ((result.private_only.params - without.params).abs() < 5.0 * result.private_only.bse).all()
    objective = MODELS[name](data).fit(1.0)
    assert (result.private_only.bse / objective.private_only.bse).max() < 0.6
    assert "distributed as the public ones, and not to depend on covariates" in " ".join(str(result.summary()).split())
    assert hdp.Result.from_json(result.to_json()).to_json() == result.to_json()


@pytest.mark.usefixtures("no_noise")
def test_counts_are_fitted_by_clipped_scores_which_need_less_noise_than_the_largest_count_asks_for() -> None:
    data = study(public=rows(300, 1))
    result = MODELS["poisson"](data).fit(1.0, delta=1e-5, mechanism="clipped_newton")
    without = ordinary("poisson")
    assert ((result.private_only.params - without.params).abs() < 5.0 * result.private_only.bse).all()
    assert result.bse.max() < MODELS["poisson"](data).fit(1.0).bse.max()
    assert "Counts are taken to be Poisson" in " ".join(str(result.summary()).split())
    assert hdp.Result.from_json(result.to_json()).to_json() == result.to_json()
    many = hdp.Schema({name: SCHEMA[name] for name in SCHEMA} | {"k": hdp.Continuous(0, 300, complete=True)})
    wide = hdp.Study(private=rows(500, 0), public=rows(100, 1), schema=many, budget=hdp.Budget(epsilon=1, delta=1e-5))
    with pytest.raises(hdp.MechanismError, match="at most 200"):
        MODELS["poisson"](wide).fit(1.0, delta=1e-6, mechanism="clipped_newton")


@pytest.mark.covering(cases=2)
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("mechanism", ["output", "exponential"])
@pytest.mark.parametrize("name", ["linear", "huber", "poisson"])
def test_other_mechanisms_fit_too(name: str, mechanism: str) -> None:
    result = MODELS[name](study(public=rows(300, 1), n=800)).fit(40.0, delta=1e-3, mechanism=mechanism)
    without = MODELS[name](hdp.Study(public=rows(800, 0), schema=SCHEMA)).fit_public()
    assert ((result.private_only.params - without.params).abs() < 6.0 * result.private_only.bse).all()
    assert result.bse.max() < 3.0 * without.bse.max()


@pytest.mark.wide
def test_normal_noise_is_used_where_it_is_smaller() -> None:
    many = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (900, 40)), columns=[f"v{j}" for j in range(40)])
    frame = many.assign(y=10 + many.sum(axis=1).clip(-9, 9))
    schema = hdp.Schema(
        {name: hdp.Continuous(-1, 1, complete=True) for name in many.columns}
        | {"y": hdp.Continuous(0, 20, complete=True)}
    )
    data = hdp.Study(private=frame[:700], public=frame[700:], schema=schema, budget=hdp.Budget(epsilon=10, delta=1e-3))
    model = hdpf.linear("y ~ " + " + ".join(many.columns), data)
    assert "normal noise" in model.fit(1.0, delta=1e-6).facts.method
    assert model.fit(1.0, delta=1e-6).guarantee.delta > 0


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("name", list(WEIGHTED))
def test_case_weights_count(name: str) -> None:
    result = WEIGHTED[name](study(public=rows(300, 1))).fit(LARGE, allow_large_epsilon=True)
    without = WEIGHTED[name](hdp.Study(public=rows(4000, 0), schema=SCHEMA)).fit_public()
    assert ((result.private_only.params - without.params).abs() < 0.5 * without.bse).all()


def test_the_number_of_people_may_be_protected() -> None:
    data = study(public=rows(200, 1), relation="add_or_remove_one", n_max=20_000)
    result = MODELS["huber"](data).fit(1.0)
    assert result.count is not None
    assert np.isfinite(result.bse).all()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda data: hdpf.linear("g ~ x", data), "categorical column cannot be the outcome"),
        (lambda data: hdpf.linear("time ~ x", data), "proved for a continuous or binary outcome"),
        (lambda data: hdpf.mestimate("below ~ x", data, loss=hdp.losses.Poisson()), "lower bound of 0"),
        (lambda data: hdpf.mestimate("y ~ x", data, loss=hdp.losses.Logistic()), "proved for a binary outcome"),
        (lambda data: hdpf.mestimate("y ~ x", data, loss=hdp.losses.Exponential()), "Surv"),
        (lambda data: hdpf.mestimate("Surv(time, event) ~ x", data, loss=hdp.losses.Huber(1.0)), "plain outcome"),
        (lambda data: hdpf.mestimate("Surv(time, kind) ~ x", data, loss=hdp.losses.Exponential()), "Binary event"),
        (
            lambda data: hdpf.mestimate("Surv(entry, time, event) ~ x", data, loss=hdp.losses.Exponential()),
            "enter at time 0",
        ),
        (lambda data: hdpf.mestimate("y ~ x", data, loss="huber"), "loss must be one of"),
        (lambda data: hdpf.mestimate("y ~ x", data, loss=hdp.losses.Huber), "with parentheses"),
        (lambda data: hdpf.linear("y ~ x", data, loss=hdp.losses.Poisson()), "hdpf.mestimate any loss"),
        (lambda data: hdpf.quantile("y ~ x", data, q=1.0), "q must be"),
        (lambda data: hdpf.quantile("y ~ x", data, width=9e-4), "width must be at least 0.001, not 0.0009"),
        (lambda data: hdp.losses.Huber(-1.0), "c must be"),
        (lambda data: hdpf.linear("y ~ x", "data"), "data must be an hdp.Study"),
    ],
)
def test_what_no_proof_covers_is_refused_before_anything_is_charged(make: object, match: str) -> None:
    data = study(public=rows(100, 1))
    with pytest.raises(hdp.HdpError, match=match):
        make(data)
    assert data.ledger.spent.epsilon == 0


@pytest.mark.wide
def test_the_narrowest_window_is_solved_and_public_rows_on_a_line_choose_none_narrower() -> None:
    exact = rows(100, 1).assign(y=lambda data: 20.0 + 8.0 * data["x"])
    assert hdpf.quantile("y ~ x", study(public=exact))._spec.chosen.parameters == (0.5, 0.001)
    given = hdpf.quantile("y ~ x", study(), width=0.001).fit(LARGE, allow_large_epsilon=True, se_share=0)
    assert np.all(np.isfinite(given.params))


LIES = {
    "a score that falls": ({"score": lambda eta, y: -np.tanh(eta - y)}, "falls"),
    "too small a lipschitz": ({"lipschitz": 0.5}, "larger than lipschitz = 0.5"),
    "too small a smoothness": ({"smoothness": 0.5}, "rises faster than smoothness = 0.5"),
    "another value": ({"value": lambda eta, y: (eta - y) ** 2}, "not the derivative of value"),
    "a tenth of the score": ({"score": lambda eta, y: 0.9 * np.tanh(eta - y)}, "not the derivative of value"),
    "another curvature": ({"curvature": lambda eta, y: 0.5 + 0.0 * eta}, "not the derivative of score"),
    "a negative curvature": ({"curvature": lambda eta, y: -1.0 + 0.0 * eta}, "not within 0"),
    "not a number": ({"score": lambda eta, y: np.where(np.abs(eta - y) < 1.0, np.nan, np.tanh(eta - y))}, "is nan at"),
    "an exception": ({"score": lambda eta, y: 1 / 0}, "raised ZeroDivisionError"),
    "one number": ({"value": lambda eta, y: 1.0}, r"shape \(\)"),
    "text": ({"value": lambda eta, y: np.full(eta.shape, "a")}, "raised ValueError"),
    "a step": (
        {
            "score": lambda eta, y: np.clip(1e3 * (eta - y), -1.0, 1.0),
            "value": lambda eta, y: np.where(np.abs(eta - y) < 1e-3, 500.0 * (eta - y) ** 2, np.abs(eta - y) - 5e-4),
            "smoothness": 1e3,
        },
        "changes too fast",
    ),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_false_statements_about_a_loss_of_one_s_own_are_refused_by_name(lie: str) -> None:
    changed, match = LIES[lie]
    data = study(public=rows(100, 1))
    with pytest.raises(hdp.ArgumentError, match=f"loss 'log-cosh' .*{match}"):
        hdpf.mestimate("y ~ x", data, loss=squares(**changed))
    assert data.ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"residual": None}, "one of the two"),
        ({"predictor": (0.0, 1.0)}, "one of the two"),
        ({"residual": (1.0, 1.0)}, "range"),
        ({"residual": 3.0}, "range"),
        ({"lipschitz": 0.0}, "lipschitz must be"),
        ({"score": 1.0}, "score must be a function"),
        ({"link": "probit"}, "link must be one of"),
    ],
)
def test_declarations_that_are_none_are_refused(changed: dict[str, object], match: str) -> None:
    with pytest.raises(hdp.ArgumentError, match=match):
        squares(**changed)


def test_outcomes_of_public_rows_are_checked_beside_the_grid() -> None:
    def score(eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(y == 17.123, np.nan, np.tanh(eta - y))

    fine = rows(100, 1)
    hdpf.mestimate("y ~ x", study(public=fine), loss=squares(score=score))
    fine.loc[3, "y"] = 17.123
    with pytest.raises(hdp.ArgumentError, match=r"is nan at .*17.123"):
        hdpf.mestimate("y ~ x", study(public=fine), loss=squares(score=score))


def test_one_s_own_code_never_sees_a_private_row() -> None:
    seen: list[float] = []

    def score(eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.extend(np.unique(y).tolist())
        return np.tanh(eta - y)

    private = rows(300, 0)
    private["y"] = 13.371337
    data = hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=2))
    result = hdpf.mestimate("y ~ x", data, loss=squares(score=score)).fit(1.0, se_share=0)
    asked = len(seen)
    assert 13.371337 not in seen
    result.predict(rows(3, 1))
    assert len(seen) == asked
    model = json.loads(result.query.to_json())["model"]
    assert model["table"]
    assert all(isinstance(value, float) for row in model["table"] for value in row)


def test_a_query_with_a_table_that_falls_is_refused_by_the_site_before_it_charges() -> None:
    data = study(n=300)
    query = hdpf.mestimate("y ~ x", data, loss=squares()).fit(1.0, se_share=0).query
    spent = data.ledger.spent.epsilon
    asked = json.loads(query.to_json())
    asked["model"]["table"][4][100] = 5.0
    asked["replicate"] = 2
    with pytest.raises(hdp.MechanismError, match="not convex"):
        data.site.answer(query_from_json(json.dumps(asked)))
    for wrong in ([], [1.0], [0.0, 1.0, 2.0, 3.0]):
        asked["model"]["parameters"] = wrong
        with pytest.raises(hdp.HdpError):
            data.site.answer(query_from_json(json.dumps(asked)))
    assert data.ledger.spent.epsilon == spent


@pytest.mark.wide
def test_arrays_give_the_same_models_as_formulas() -> None:
    private, public = rows(500, 0), rows(100, 1)
    common = {
        "exog_bounds": [(-1, 1)],
        "public_endog": public["y"].to_numpy(),
        "public_exog": public[["x"]],
        "endog_bounds": (0, 50),
    }
    makers = {
        "linear": (hdp.Linear, {}, lambda data: hdpf.linear("y ~ x", data)),
        "quantile": (hdp.Quantile, {"q": 0.8}, lambda data: hdpf.quantile("y ~ x", data, q=0.8)),
        "own": (hdp.MEstimator, {"loss": squares()}, lambda data: hdpf.mestimate("y ~ x", data, loss=squares())),
    }
    for kind, more, by_formula in makers.values():
        model = kind(private["y"], private[["x"]], budget=hdp.Budget(epsilon=10), **common, **more)
        other = by_formula(hdp.Study(public=public, schema=SCHEMA)).fit_public()
        np.testing.assert_allclose(model.fit_public().params, other.params, rtol=1e-9)
        assert model.fit(1.0).params.index.tolist() == ["Intercept", "x"]
    with pytest.raises(hdp.ArgumentError, match="endog_bounds"):
        hdp.Linear(private["y"], private[["x"]], budget=hdp.Budget(epsilon=1), **(common | {"endog_bounds": (3, 3)}))
    with pytest.raises(hdp.ArgumentError, match="by a formula"):
        hdp.MEstimator(
            private["y"],
            private[["x"]],
            loss=hdp.losses.Exponential(),
            exog_bounds=[(-1, 1)],
            budget=hdp.Budget(epsilon=1),
        )


@pytest.mark.usefixtures("no_noise")
def test_units_of_the_outcome_do_not_matter() -> None:
    frame, public = rows(2000, 0), rows(200, 1)
    errors = []
    for factor in (1.0, 1e-6, 1e6):
        schema = hdp.Schema(y=hdp.Continuous(0, 50 * factor, complete=True), x=hdp.Continuous(-1, 1, complete=True))
        data = hdp.Study(
            private=frame.assign(y=frame["y"] * factor),
            public=public.assign(y=public["y"] * factor),
            schema=schema,
            budget=hdp.Budget(epsilon=10),
        )
        result = hdpf.linear("y ~ x", data, loss=hdp.losses.Huber(6.0 * factor)).fit(3.0)
        errors.append(result.bse["x"] / factor)
        assert result.params["x"] / factor == pytest.approx(8.0, abs=6.0 * errors[-1])
    assert max(errors) / min(errors) < 1.2


@pytest.mark.usefixtures("no_noise")
def test_the_median_of_symmetric_errors_and_an_outer_quantile_are_where_they_should_be() -> None:
    data = study(public=rows(300, 1))
    for q, z in ((0.5, 0.0), (0.9, 1.2816)):
        result = hdpf.quantile("y ~ x + g", data, q=q, offset="o").fit(LARGE, allow_large_epsilon=True)
        assert result.params["Intercept"] == pytest.approx(20.0 + 3.0 * z, abs=4.0 * result.bse["Intercept"])
        assert "half-width of" in result.facts.method


def test_public_rows_on_a_line_tell_no_curvature_of_a_quantile_and_a_fit_is_not_lost():
    rng = np.random.default_rng(0)
    x, others = rng.uniform(0, 5, 100), rng.uniform(0, 5, 1000)
    public = pd.DataFrame({"x": x, "y": 20 + 8 * x})
    private = pd.DataFrame({"x": others, "y": 20 + 8 * others + rng.normal(size=1000)})
    schema = hdp.Schema(x=hdp.Continuous(0, 5, complete=True), y=hdp.Continuous(0, 100, complete=True))
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=5))
    result = hdpf.quantile("y ~ x", data=study).fit(epsilon=1)
    assert np.isfinite(result.params).all()
    assert np.isnan(result.bse).all()
    assert "whose residuals vary" in result.estimate.note


UNKNOWN = "standard errors take them to have the largest standard deviation within the outcome's declared range, 25. If"


def test_least_squares_say_that_only_the_range_tells_how_large_residuals_are() -> None:
    alone = hdpf.linear("y ~ x + g", study(), offset="o")  # of an offset nobody knows that residuals vary less
    assert UNKNOWN in alone.fit(3.0).estimate.note
    assert UNKNOWN in str(alone.plan(epsilon=[3.0]))
    assert UNKNOWN in hdpf.linear("y ~ x + g", study()).fit(3.0, describe=False).estimate.note
    assert UNKNOWN in hdpf.linear("y ~ 0 + x", study()).fit(3.0).estimate.note
    assert "Nothing tells" not in alone.fit(3.0, se_share=0).estimate.note

    of_covariates = hdpf.linear("y ~ x + g", study(public=rows(400, 1).drop(columns="y")))
    assert UNKNOWN in of_covariates.fit(3.0, describe=False).estimate.note
    of_covariates = hdpf.linear("y ~ x + g", study(public=rows(400, 1).drop(columns="y")), offset="o")
    assert UNKNOWN in str(of_covariates.plan(epsilon=[3.0]))
    told = of_covariates.fit(LARGE, allow_large_epsilon=True).estimate.note
    assert "released squared scores do only from a standard deviation of about 7.91 on" in told


def test_nothing_is_said_of_residuals_where_public_outcomes_or_a_model_tell_their_size() -> None:
    for model in (
        hdpf.linear("y ~ x + g", study(public=rows(400, 1)), offset="o"),
        hdpf.logit("b ~ x", study()),
        hdpf.poisson("k ~ x", study()),
    ):
        note = model.fit(30.0).estimate.note or ""
        assert "Nothing tells" not in note
        assert "residuals to have" not in note
        assert "how large residuals" not in str(model.plan(epsilon=[3.0]))


def test_poisson_and_multinomial_are_m_estimators_with_a_fixed_loss() -> None:
    data = hdp.Study(public=rows(400, 1), schema=SCHEMA)
    for short, long in (
        (
            hdpf.poisson("k ~ x", data, cap=9.0, weights="w", offset="o"),
            hdpf.mestimate("k ~ x", data, loss=hdp.losses.Poisson(9.0), weights="w", offset="o"),
        ),
        (
            hdpf.multinomial("g ~ x", data, weights="w"),
            hdpf.mestimate("g ~ x", data, loss=hdp.losses.Multinomial(), weights="w"),
        ),
    ):
        assert repr(short) == repr(long)
        assert short.fit_public().to_json() == long.fit_public().to_json()


def test_an_argument_that_arrays_do_not_take_is_named() -> None:
    with pytest.raises(hdp.ArgumentError, match="there is no argument publc_exog") as caught:
        hdp.Linear([1.0], [[0.5]], endog_bounds=(0, 2), exog_bounds=[(-1, 1)], publc_exog=[[0.0]])
    assert caught.value.argument == "publc_exog"

"""Treatment effects in R: the numbers, the charges and the files of Python."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import r_bridge
from tests.r.test_description import same

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    hormon=hdp.Binary(complete=True),
    event=hdp.Binary(complete=True),
    time=hdp.Duration(2557, unit="days", complete=True),
)
FORMULA = "hormon ~ age + size"


@pytest.fixture(autouse=True)
def _attached(evaluate):
    """Attach the R package."""


@pytest.fixture(scope="module")
def study() -> hdp.Study:
    return hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=10),
    )


@pytest.fixture(scope="module")
def effect(study: hdp.Study) -> hdp.TreatmentEffect:
    weighting = hdp.propensity(FORMULA, study, epsilon=1).weights()
    return hdp.treatment_effect("event ~ hormon", study, weighting, epsilon=1)


def test_r_is_answered_from_the_ledger_with_the_numbers_of_python(study, effect) -> None:
    spent = study.ledger.spent
    found = r_bridge.call(
        """function(study) {
          ps <- dp_propensity(hormon ~ age + size, study, epsilon = 1)
          effect <- dp_treatment_effect(event ~ hormon, study, dp_weights(ps), epsilon = 1)
          as.data.frame(effect)
        }""",
        study,
    )
    assert study.ledger.spent == spent
    same(found, effect.tidy())


def test_r_shows_the_propensity_with_names_of_r(study) -> None:
    python = hdp.propensity(FORMULA, study, epsilon=1)
    names = r_bridge.call("function(x) names(coef(dp_propensity(hormon ~ age + size, x, epsilon = 1)))", study)
    assert list(names) == ["(Intercept)", "age", "size20-50", "size>50"]
    values = r_bridge.call("function(x) unname(coef(dp_propensity(hormon ~ age + size, x, epsilon = 1)))", study)
    np.testing.assert_allclose(np.asarray(values, dtype=float), python.params.to_numpy(), rtol=1e-12)
    sizes = r_bridge.call("function(x) dp_propensity(hormon ~ age + size, x, epsilon = 1)$effective_size", study)
    np.testing.assert_allclose(sizes["effective"].to_numpy(dtype=float), python.effective_size()["effective"])


def test_methods_of_an_effect_are_those_of_python(effect, tmp_path) -> None:
    same(r_bridge.call("function(x) generics::tidy(x, conf.level = 0.9)", effect), effect.tidy(0.9))
    assert str(r_bridge.call("function(x) summary(x)$text", effect)) == str(effect)
    assert r_bridge.call("dp_methods_text", effect) == effect.methods_text()
    assert '"epsilon": 2.0' in r_bridge.call("dp_disclosure", effect)
    glanced = r_bridge.call("function(x) generics::glance(x)", effect)
    assert glanced["epsilon"].tolist() == [2.0]
    r_bridge.call("function(x, path) dp_write_effect(x, path)", effect, str(tmp_path / "effect.json"))
    pd.testing.assert_frame_equal(hdp.TreatmentEffect.from_json(tmp_path / "effect.json").tidy(), effect.tidy())
    same(
        r_bridge.call("function(path) as.data.frame(dp_read_effect(path))", str(tmp_path / "effect.json")),
        effect.tidy(),
    )


def test_a_request_is_planned_and_a_balance_described(study) -> None:
    weighting = hdp.propensity(FORMULA, study, epsilon=1).weights()
    spent = study.ledger.spent
    planned = r_bridge.call(
        "function(s, w) as.data.frame(dp_plan(dp_treatment_effect(event ~ hormon, s, w), epsilon = 0.5))",
        study,
        weighting,
    )
    python = hdp.treatment_effect("event ~ hormon", study, weighting).plan(0.5).frame
    np.testing.assert_allclose(planned["std.error"].to_numpy(dtype=float), python["std_error"].to_numpy())
    assert study.ledger.spent == spent
    table = r_bridge.call(
        "function(s, w) as.data.frame(dp_describe(s, c('age', 'size'), weighting = w, epsilon = 1))", study, weighting
    )
    same(table, hdp.describe(study, ["age", "size"], weighting=weighting, epsilon=1).tidy())


def test_a_plan_of_the_whole_spends_nothing(study) -> None:
    spent = study.ledger.spent
    planned = r_bridge.call(
        "function(s) as.data.frame(dp_plan_effect(hormon ~ age + size, event ~ hormon, s, epsilon = 2, shares = 0.5))",
        study,
    )
    python = hdp.propensity(FORMULA, study).plan_effect("event ~ hormon", 2, shares=[0.5]).frame
    np.testing.assert_allclose(planned["std.error"].to_numpy(dtype=float), python["std_error"].to_numpy())
    assert study.ledger.spent == spent


def test_errors_are_in_the_words_of_r(study) -> None:
    for call, words in (
        ("function(s) dp_weights(s)", "as of dp_propensity"),
        ("function(s) dp_treatment_effect(event ~ hormon, s, epsilon = 1)", "weighting must be given"),
        ("function(s) dp_treatment_effect(event ~ hormon, s, 'overlap', epsilon = 1)", "weighting must be"),
    ):
        with pytest.raises(hdp.HdpError, match=words):
            r_bridge.call(call, study)


def test_r_has_the_sites_of_an_effect_and_a_balance_beside_it(study, effect) -> None:
    balance = hdp.describe(study, ["age"], weighting=hdp.propensity(FORMULA, study, epsilon=1).weights(), epsilon=1)
    sites = r_bridge.call("function(x) dp_effect_by_site(x)", effect)
    same(sites, effect.by_site())
    both = r_bridge.call("function(x, y) dp_with_balance(x, y)$epsilon", effect, balance)
    assert float(both) == 3.0


def test_r_has_the_adjusted_curves_of_python(study) -> None:
    weighting = hdp.propensity(FORMULA, study, epsilon=1).weights()
    curves = hdpf.survfit("Surv(time, event) ~ hormon", study, times=[365, 1826], weighting=weighting).fit(epsilon=1)
    spent = study.ledger.spent
    found = r_bridge.call(
        """function(study) {
          w <- dp_weights(dp_propensity(hormon ~ age + size, study, epsilon = 1))
          curves <- dp_survfit(Surv(time, event) ~ hormon, study, epsilon = 1, times = c(365, 1826), weighting = w)
          request <- dp_survfit(Surv(time, event) ~ hormon, study, times = c(365, 1826), weighting = w)
          plan <- dp_plan(request, epsilon = 1)
          stopifnot(grepl("overlap weights", dp_methods_text(curves)), nrow(as.data.frame(plan)) == 4)
          as.data.frame(curves)
        }""",
        study,
    )
    assert study.ledger.spent == spent
    same(found, curves.tidy())


def test_r_has_the_adjusted_curves_of_public_rows(study) -> None:
    own = hdp.propensity(FORMULA, study).fit_public().weights()
    curves = hdpf.survfit("Surv(time, event) ~ hormon", study, times=[365, 1826], weighting=own).fit_public()
    found = r_bridge.call(
        """function(study) {
          w <- dp_weights(dp_propensity_public(hormon ~ age + size, study))
          as.data.frame(dp_survfit_public(Surv(time, event) ~ hormon, study, times = c(365, 1826), weighting = w))
        }""",
        study,
    )
    same(found, curves.tidy())


def test_r_has_the_weighted_regressions_of_python(study) -> None:
    weighting = hdp.propensity(FORMULA, study, epsilon=1).weights()
    fit = hdpf.logit("event ~ hormon", study, weighting=weighting).fit(epsilon=1)
    spent = study.ledger.spent
    found = r_bridge.call(
        """function(study) {
          w <- dp_weights(dp_propensity(hormon ~ age + size, study, epsilon = 1))
          fit <- dp_logit(event ~ hormon, study, epsilon = 1, weighting = w)
          plan <- dp_plan(event ~ hormon, study, epsilon = 1, model = "logit", weighting = w)
          stopifnot(grepl("overlap weights", dp_methods_text(fit)), nrow(as.data.frame(plan)) == 2, fit$epsilon == 2)
          generics::tidy(fit, conf.int = TRUE)
        }""",
        study,
    )
    assert study.ledger.spent == spent
    np.testing.assert_allclose(found["estimate"].to_numpy(dtype=float), fit.params.to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(found["std.error"].to_numpy(dtype=float), fit.bse.to_numpy(), rtol=1e-12)


def test_r_has_the_weighted_regression_of_public_rows(study) -> None:
    own = hdp.propensity(FORMULA, study).fit_public().weights()
    fit = hdpf.logit("event ~ hormon", study, weighting=own).fit_public()
    found = r_bridge.call(
        """function(study) {
          w <- dp_weights(dp_propensity_public(hormon ~ age + size, study))
          unname(coef(dp_fit_public(event ~ hormon, study, model = "logit", weighting = w)))
        }""",
        study,
    )
    np.testing.assert_allclose(np.asarray(found, dtype=float), fit.params.to_numpy(), rtol=1e-12)


@pytest.fixture(scope="module")
def pair(effect: hdp.TreatmentEffect) -> tuple[hdp.TreatmentEffect, hdp.TreatmentEffect]:
    rows = hdp.datasets.load_rotterdam().sample(1500, random_state=1)
    study = hdp.Study(private=rows, public=hdp.datasets.load_gbsg(), schema=SCHEMA, budget=hdp.Budget(epsilon=8))
    weighting = hdp.propensity(FORMULA, study, epsilon=2).weights()
    return effect, hdp.treatment_effect("event ~ hormon", study, weighting, epsilon=2)


@pytest.fixture(scope="module")
def combined(pair) -> hdp.CombinedEffect:
    return hdp.combine_effects(dict(zip("AB", pair, strict=True)))


def test_r_has_the_combined_effect_of_python(effect, pair, combined, tmp_path) -> None:
    same(r_bridge.call("as.data.frame", combined), combined.tidy())
    same(r_bridge.call("function(x) generics::tidy(x, conf.level = 0.9)", combined), combined.tidy(0.9))
    glanced = r_bridge.call("function(x) generics::glance(x)", combined)
    assert glanced["Q"].tolist() == pytest.approx(combined.glance()["Q"].tolist())
    assert glanced["sites"].tolist() == [2]
    same(r_bridge.call("dp_effect_by_site", combined), combined.by_site())
    assert str(r_bridge.call("function(x) summary(x)$text", combined)) == str(combined)
    assert r_bridge.call("dp_methods_text", combined) == combined.methods_text()
    r_bridge.call("function(x, path) dp_write_effect(x, path)", combined, str(tmp_path / "combined.json"))
    read = r_bridge.call("function(path) as.data.frame(dp_read_combined_effect(path))", str(tmp_path / "combined.json"))
    same(read, combined.tidy())
    apart = hdp.combine_effects(dict(zip("AB", pair, strict=True)), between="paule_mandel")
    found = r_bridge.call(
        'function(a, b) as.data.frame(dp_combine_effects(list(A = a, B = b), between = "paule_mandel"))', *pair
    )
    same(found, apart.tidy())  # Student's limits, of one degree of freedom
    assert "1 degree of freedom" in r_bridge.call("function(x) summary(x)$text", apart)
    with pytest.raises(hdp.HdpError, match="different people"):
        r_bridge.call("function(x) dp_combine_effects(list(A = x, B = x))", effect)


def test_a_study_of_several_rows_goes_through_r(tmp_path) -> None:
    rows = hdp.datasets.load_rotterdam().head(2000)
    several = pd.concat([rows.assign(id=np.arange(len(rows)))] * 2, ignore_index=True)
    public = hdp.datasets.load_gbsg().assign(id=lambda frame: np.arange(len(frame)))
    study = hdp.Study(
        private=several,
        public=public,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=8),
        unit="id",
        max_rows_per_unit=2,
        n_max=2000,
    )
    python = hdp.treatment_effect(
        "event ~ hormon", study, hdp.propensity(FORMULA, study, epsilon=1).weights(), epsilon=1
    )
    spent = study.ledger.spent
    found = r_bridge.call(
        """function(study) {
          w <- dp_weights(dp_propensity(hormon ~ age + size, study, epsilon = 1))
          as.data.frame(dp_treatment_effect(event ~ hormon, study, w, epsilon = 1))
        }""",
        study,
    )
    assert study.ledger.spent == spent
    same(found, python.tidy())


def test_r_has_the_weighted_hazard_models_of_python(study) -> None:
    weighting = hdp.propensity(FORMULA, study, epsilon=1).weights()
    model = hdpf.hazard("Surv(time, event) ~ hormon", study, intervals=10, df=3, link="cloglog", weighting=weighting)
    fit = model.fit(epsilon=1)
    spent = study.ledger.spent
    curves = fit.predict_survival(pd.DataFrame({"hormon": [0, 1]}), times=[365.0, 1825.0])
    found = r_bridge.call(
        """function(study) {
          w <- dp_weights(dp_propensity(hormon ~ age + size, study, epsilon = 1))
          fit <- dp_hazard(Surv(time, event) ~ hormon, study, epsilon = 1, intervals = 10, df = 3, link = "cloglog",
                           weighting = w)
          plan <- dp_plan(Surv(time, event) ~ hormon, study, epsilon = 1, intervals = 10, df = 3, link = "cloglog",
                          weighting = w)
          stopifnot(grepl("overlap weights", dp_methods_text(fit)), nrow(as.data.frame(plan)) == 4, fit$epsilon == 2)
          curves <- dp_predict_survival(fit, data.frame(hormon = c(0, 1)), times = c(365, 1825))
          own <- dp_weights(dp_propensity_public(hormon ~ age + size, study))
          public <- dp_fit_public(Surv(time, event) ~ hormon, study, intervals = 10, df = 3, link = "cloglog",
                                  weighting = own)
          list(tidy = generics::tidy(fit, conf.int = TRUE), curves = curves$survival, public = unname(coef(public)))
        }""",
        study,
    )
    assert study.ledger.spent == spent
    np.testing.assert_allclose(found["tidy"]["estimate"].to_numpy(dtype=float), fit.params.to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(found["tidy"]["std.error"].to_numpy(dtype=float), fit.bse.to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(found["curves"], dtype=float), curves["survival"].to_numpy(), rtol=1e-12)
    own = hdp.propensity(FORMULA, study).fit_public().weights()
    public = hdpf.hazard("Surv(time, event) ~ hormon", study, intervals=10, df=3, link="cloglog", weighting=own)
    np.testing.assert_allclose(np.asarray(found["public"], dtype=float), public.fit_public().params, rtol=1e-12)

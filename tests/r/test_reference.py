"""Reference fits: R's own numbers, through `r_bridge.reference`, beside ours and beside a dense `glm`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import r_bridge
from r_bridge import reference
from r_bridge.guard import RError, RWarning

FOLDER = Path(__file__).parents[1] / "reference"
GLM = json.loads((FOLDER / "glm.json").read_text(encoding="utf-8"))["fits"]
HAZARD = json.loads((FOLDER / "hazard.json").read_text(encoding="utf-8"))
LOADERS = {"gbsg": hdp.datasets.load_gbsg, "rotterdam": hdp.datasets.load_rotterdam}
COLUMNS = ["term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"]


def breast_cancer(name: str) -> pd.DataFrame:
    frame = LOADERS[name]()
    person = LOADERS[name](harmonised=False)["pid"]
    return frame.assign(
        size20=(frame["size"] == "20-50").astype(int),
        size50=(frame["size"] == ">50").astype(int),
        age_copy=frame["age"],
        w=1 + frame["nodes"] % 4,
        o=frame["grade3"] - 0.5,
        start=250 * (person % 5),
    )


def study(frame: pd.DataFrame, horizon: float = 2400) -> hdp.Study:
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 60, complete=True),
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        grade3=hdp.Binary(complete=True),
        hormon=hdp.Binary(complete=True),
        time=hdp.Duration(horizon, complete=True),
        start=hdp.Duration(horizon, missing=0),
        event=hdp.Binary(complete=True),
        event3=hdp.Binary(complete=True),
        w=hdp.Weight(max=4, complete=True),
        o=hdp.Offset(-2, 2, complete=True),
    )
    return hdp.Study(public=frame, schema=schema)


def lung() -> pd.DataFrame:
    return pd.DataFrame(HAZARD["data"]["lung"])


def dense_glm(frame: pd.DataFrame, covariates: str, cuts: list[float], link: str) -> tuple[pd.DataFrame, float]:
    """Return the table and the deviance of R's `glm` with a column per interval."""
    rows = hdp.person_period(frame, time="time", event="event", intervals=cuts)
    code = f"""function(rows) {{
      fit <- suppressWarnings(glm(event ~ factor(interval) - 1 + {covariates}, binomial("{link}"), rows,
                                  control = list(epsilon = 1e-14, maxit = 100)))
      list(table = data.frame(estimate = coef(fit), std_error = sqrt(diag(vcov(fit))), row.names = NULL),
           deviance = deviance(fit))
    }}"""
    found = r_bridge.call(code, rows)
    return found["table"], found["deviance"]


# -- glm ---------------------------------------------------------------------------------------------------------------


@pytest.mark.covering(cases=8)
@pytest.mark.parametrize("name", GLM)
def test_glm_is_the_glm_of_a_plain_r(name):
    known = GLM[name]
    table = reference.glm(
        known["formula"], breast_cancer(known["data"]), weights=known["weights"], offset=known["offset"]
    )
    assert list(table.columns) == COLUMNS
    assert table["term"].tolist() == known["terms"]
    coefficients = np.array([np.nan if each is None else each for each in known["coefficients"]])
    errors = np.array([np.nan if each is None else each for each in known["std_errors"]])
    np.testing.assert_allclose(table["estimate"], coefficients, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(table["std_error"], errors, rtol=1e-6)
    assert table.attrs["deviance"] == pytest.approx(known["deviance"], rel=1e-10)
    assert table.attrs["nobs"] == known["nobs"]
    assert table.attrs["model"] == "glm"


def test_limits_and_p_values_are_wald_s():
    table = reference.glm("event3 ~ age + size", breast_cancer("gbsg"), conf_level=0.9)
    half = 1.6448536269514722 * table["std_error"]
    np.testing.assert_allclose(table["conf_low"], table["estimate"] - half)
    np.testing.assert_allclose(table["conf_high"], table["estimate"] + half)
    np.testing.assert_allclose(table["statistic"], table["estimate"] / table["std_error"])
    in_r = r_bridge.call(
        "function(d) unname(coef(summary(glm(event3 ~ age + size, binomial, d, epsilon = 1e-14)))[, 4])",
        breast_cancer("gbsg"),
    )
    np.testing.assert_allclose(table["p_value"], in_r, rtol=1e-6)


def test_other_families_have_student_s_limits():
    frame = breast_cancer("gbsg")
    table = reference.glm("nodes ~ age", frame, "gaussian")
    in_r = r_bridge.call("function(d) as.data.frame(confint(lm(nodes ~ age, d)))", frame).to_numpy()
    np.testing.assert_allclose(table[["conf_low", "conf_high"]].to_numpy(), in_r, rtol=1e-9)
    counts = reference.glm("nodes ~ age", frame, "poisson", link="sqrt")
    assert (counts.attrs["family"], counts.attrs["link"], counts.attrs["dispersion"]) == ("poisson", "sqrt", 1.0)
    quasi = reference.glm("nodes ~ age", frame, "quasipoisson")
    assert quasi.attrs["dispersion"] > 5
    with pytest.raises(RError, match="link not recognised"):
        reference.glm("nodes ~ age", frame, "poisson", link="cauchy")


# -- Cox ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HAZARD["scaled"])
def test_cox_is_the_coxph_of_a_plain_r(name):
    known = HAZARD["scaled"][name]
    frame = hdp.datasets.load_nwtco() if name.startswith("nwtco") else hdp.datasets.load_flchain()
    time, event = ("edrel", "rel") if name.startswith("nwtco") else ("futime", "death")
    if name.startswith("flchain"):
        frame = frame.assign(male=(frame["sex"] == "M").astype(float))
    spelled = {"sample.yr": "sample_yr", "flc.grp": "flc_grp", "lambda": "lambda_"}
    columns = [spelled.get(column, column) for column in known["columns"]]
    frame = frame[[*columns, time, event]].dropna()
    Z = frame[columns] - frame[columns].mean()
    Z = Z / (Z.max() - Z.min())
    Z = Z / np.sqrt((Z**2).sum(axis=1)).max()
    table = reference.cox(f"Surv({time}, {event}) ~ {' + '.join(columns)}", Z.assign(**frame[[time, event]]))
    np.testing.assert_allclose(table["estimate"], known["cox"], rtol=1e-8)
    assert table.attrs["nobs"] == known["people"]
    assert table["term"].tolist() == columns


def test_cox_takes_ties_strata_weights_and_late_entry():
    frame = breast_cancer("gbsg").assign(time=lambda d: d["time"] + 1001)
    estimates = {
        ties: reference.cox("Surv(time, event) ~ age + grade3", frame.assign(time=frame["time"] // 100), ties)
        for ties in ("efron", "breslow")
    }
    assert not np.allclose(estimates["efron"]["estimate"], estimates["breslow"]["estimate"], rtol=1e-4)
    frame = frame.assign(w=frame["w"] + 0.5)
    table = reference.cox("Surv(start, time, event) ~ age + strata(size)", frame, weights="w")
    in_r = r_bridge.call(
        """function(d) { library(survival)
        f <- coxph(Surv(start, time, event) ~ age + strata(size), d, weights = w)
        c(coef(f), sqrt(vcov(f))) }""",
        frame,
    )
    np.testing.assert_allclose(table[["estimate", "std_error"]].to_numpy()[0], in_r, rtol=1e-7)
    assert table.attrs["robust"]  # as R decides where weights are no counts
    model_based = reference.cox("Surv(start, time, event) ~ age + strata(size)", frame, weights="w", robust=False)
    assert not model_based.attrs["robust"]
    assert model_based["std_error"][0] != table["std_error"][0]


def test_an_offset_is_a_term_with_coefficient_one():
    frame = breast_cancer("gbsg")
    slope = reference.cox("Surv(time, event) ~ age + o", frame).set_index("term")["estimate"]["o"]
    scaled = frame.assign(known=slope * frame["o"])
    with_offset = reference.cox("Surv(time, event) ~ age", scaled, offset="known")
    free = reference.cox("Surv(time, event) ~ age + o", frame)
    assert with_offset["estimate"][0] == pytest.approx(free["estimate"][0], rel=1e-6)


# -- Discrete hazards --------------------------------------------------------------------------------------------------


@pytest.mark.covering(cases=9)
@pytest.mark.parametrize("name", HAZARD["fits"])
def test_a_sparse_hazard_is_the_glm_of_a_plain_r(name):
    known = HAZARD["fits"][name]
    frame = breast_cancer(known["data"]) if known["data"] in LOADERS else pd.DataFrame(HAZARD["data"][known["data"]])
    covariates = HAZARD["covariates"][known["data"]]
    times = "start, time" if known["start"] else "time"
    frame = frame[frame["time"] > frame["start"]] if known["start"] else frame
    table = reference.hazard_glm(
        f"Surv({times}, event) ~ {' + '.join(covariates)}",
        frame,
        known["intervals"],
        known["link"],
        horizon=known["horizon"],
        baseline=known["baseline"],
        weights="w" if known["weights"] else None,
        offset="o" if known["offset"] else None,
    )
    coefficients = np.array(known["coefficients"])
    assert np.max(np.abs(table["estimate"] - coefficients)) < 1e-9 * max(1.0, np.max(np.abs(coefficients)))
    np.testing.assert_allclose(table["std_error"], known["std_errors"], rtol=1e-6)
    assert table.attrs["deviance"] == pytest.approx(known["deviance"], rel=1e-11)
    assert table.attrs["person_periods"] == known["rows"]
    assert table.attrs["events"] == known["events"]
    assert table.attrs["converged"]


@pytest.mark.parametrize("link", ["logit", "cloglog", "probit"])
def test_a_sparse_hazard_is_a_dense_glm_also_where_intervals_have_no_event(link):
    frame = lung()
    cuts = [60.0, 61.0, 200.0, 500.0, 883.0, 884.0, 1100.0]  # in the second and the last ones nobody dies
    with pytest.warns(RWarning, match="interval"):
        table = reference.hazard_glm("Surv(time, event) ~ age + factor(sex)", frame, cuts, link, baseline="dummies")
    dense, deviance = dense_glm(frame, "age + factor(sex)", cuts, link)
    bound = np.isinf(table["estimate"]).to_numpy()
    happened = [((frame["time"] > low) & (frame["time"] <= high) & (frame["event"] == 1)).any()
                for low, high in zip([0.0, *cuts[:-1]], cuts, strict=True)]  # fmt: skip
    assert bound.tolist() == [not each for each in happened] + [False, False]
    assert bound.sum() >= 2
    assert (table["estimate"][bound] < 0).all()
    assert table["std_error"][bound].isna().all()
    np.testing.assert_allclose(table["estimate"][~bound], dense["estimate"][~bound], atol=1e-7)
    np.testing.assert_allclose(table["std_error"][~bound], dense["std_error"][~bound], rtol=1e-7)
    assert table.attrs["deviance"] == pytest.approx(deviance, abs=1e-6)


@pytest.mark.filterwarnings("ignore:intervals without:r_bridge.guard.RWarning")
def test_an_interval_in_which_everybody_has_the_event_is_infinite():
    frame = lung().assign(event=lambda d: np.where(d["time"] > 700, 1, d["event"]))
    cuts = [300.0, 700.0, 1100.0]
    table = reference.hazard_glm("Surv(time, event) ~ age", frame, cuts, baseline="dummies")
    assert table["estimate"][2] == np.inf
    dense, _ = dense_glm(frame, "age", cuts, "logit")
    np.testing.assert_allclose(table["estimate"][[0, 1, 3]], dense["estimate"][[0, 1, 3]], atol=1e-7)


@pytest.mark.parametrize("link", ["logit", "cloglog", "probit"])
@pytest.mark.parametrize("baseline", ["spline", "dummies"])
def test_fit_public_is_the_reference(link, baseline):
    frame = breast_cancer("gbsg")
    formula = "Surv(time, event) ~ age + factor(size) + log1p(nodes) + hormon:grade3"
    intervals = [200.0, 500.0, 900.0, 1500.0] if baseline == "dummies" else 24
    model = hdpf.hazard(formula, study(frame), intervals=intervals, baseline=baseline, link=link)
    table = reference.hazard_glm(formula, frame, intervals, link, horizon=2400, baseline=baseline)
    found = model.fit_public().compare(table)
    assert found.result_only == found.reference_only == ()
    assert found.note is None
    assert found.relative_error < 1e-9
    assert found.frame["difference_in_se"].abs().max() < 1e-7
    assert len(found.frame) == len(table)
    if link == "logit":  # for the others R's standard errors come from the expected information, ours from the observed
        np.testing.assert_allclose(found.frame["std_error"], found.frame["reference_std_error"], rtol=1e-6)


@pytest.mark.parametrize(
    "formula",
    [
        "ns(age, knots=c(40, 60), Boundary.knots=c(20, 90)) + bs(nodes, knots=c(3, 10), Boundary.knots=c(0, 60))",
        "size:hormon + I(age^2) + factor(grade3)",
        "size + grade3:hormon",
        "factor(hormon)*age",
    ],
)
def test_terms_find_each_other_by_name(formula):
    frame = breast_cancer("gbsg")
    formula = f"Surv(time, event) ~ {formula}"
    table = reference.hazard_glm(formula, frame, 10, horizon=2400)
    found = hdpf.hazard(formula, study(frame), intervals=10).fit_public().compare(table)
    assert found.result_only == found.reference_only == ()
    assert found.relative_error < 1e-9


def test_late_entry_weights_and_offsets_agree_with_fit_public():
    frame = breast_cancer("rotterdam")
    frame = frame[frame["time"] > frame["start"]]
    formula = "Surv(start, time, event) ~ age + size"
    result = hdpf.hazard(formula, study(frame), intervals=15, df=4, weights="w", offset="o").fit_public()
    table = reference.hazard_glm(formula, frame, 15, horizon=2400, df=4, weights="w", offset="o")
    assert result.compare(table).relative_error < 1e-9


def test_the_reference_is_near_cox_and_nearer_with_cloglog():
    frame = breast_cancer("gbsg")
    formula = "Surv(time, event) ~ age + size + log1p(nodes) + hormon"
    cox = reference.cox(formula, frame)
    errors, data = {}, study(frame, horizon=2659)
    for link in ("logit", "cloglog"):
        model = hdpf.hazard(formula, data, intervals=90, baseline="dummies", link=link)
        found = hazard_without_events(model).compare(cox)
        assert "Covariates only" in found.note
        assert set(found.result_only) == {f"interval[{s}]" for s in range(1, 91)}
        errors[link] = found.relative_error
    assert errors["cloglog"] < 0.01 < errors["logit"] < 0.05


def hazard_without_events(model: hdp.DiscreteHazard) -> hdp.Result:
    with pytest.warns(RuntimeWarning, match="separation"):
        return model.fit_public()


def test_missing_values_and_people_without_an_interval_drop():
    frame = lung().assign(entry=0.0)
    frame.loc[3, "age"] = np.nan
    frame.loc[5, "entry"] = frame.loc[5, "time"] - 0.5  # enters and leaves in one interval: at risk in none
    table = reference.hazard_glm("Surv(entry, time, event) ~ age", frame, [200, 500, 900], df=2)
    assert table.attrs["dropped"] == 1
    assert table.attrs["nobs"] == len(frame) - 2
    assert table.attrs["cuts"] == [200.0, 500.0, 900.0]
    again = reference.hazard_glm("Surv(entry, time, event) ~ age", frame.drop([3, 5]), [200, 500, 900], df=2)
    np.testing.assert_allclose(table["estimate"], again["estimate"], rtol=1e-12)


def test_aliased_covariates_are_nan_and_the_others_stay():
    frame = lung().assign(twice=lambda d: 2 * d["age"] + 1)
    table = reference.hazard_glm("Surv(time, event) ~ age + twice + sex", frame, 8, df=2).set_index("term")
    alone = reference.hazard_glm("Surv(time, event) ~ age + sex", frame, 8, df=2).set_index("term")
    assert table["estimate"].isna().tolist() == [False, False, False, True, False]
    np.testing.assert_allclose(table.drop("twice")["estimate"], alone["estimate"], rtol=1e-9)


def test_separated_rows_warn():
    frame = lung().assign(doomed=lambda d: d["event"] * (d["time"] < 200))
    with pytest.warns(RWarning, match="numerically 0 or 1"):
        table = reference.hazard_glm("Surv(time, event) ~ doomed", frame, [200, 500, 900], "cloglog", df=2)
    assert table["estimate"].iloc[-1] > 2


# -- Kaplan-Meier ------------------------------------------------------------------------------------------------------


def product_limit(time, event):
    survival, curve = 1.0, {}
    for t in np.unique(time):
        survival *= 1 - ((time == t) & (event == 1)).sum() / (time >= t).sum()
        curve[t] = survival
    return curve


def test_kaplan_meier_is_the_product_limit():
    frame = breast_cancer("gbsg")
    curve = reference.kaplan_meier("Surv(time, event) ~ 1", frame)
    known = product_limit(frame["time"].to_numpy(), frame["event"].to_numpy())
    assert list(curve.columns) == [
        "time", "n_risk", "n_event", "survival", "std_error", "conf_low", "conf_high", "strata",
    ]  # fmt: skip
    np.testing.assert_allclose(curve["survival"], [known[t] for t in curve["time"]], rtol=1e-12)
    assert curve["n_event"].sum() == frame["event"].sum()
    assert set(curve["strata"]) == {"all"}
    greenwood = np.cumsum(curve["n_event"] / (curve["n_risk"] * (curve["n_risk"] - curve["n_event"])))
    np.testing.assert_allclose(curve["std_error"][:-1], (curve["survival"] * np.sqrt(greenwood))[:-1], rtol=1e-9)
    low = curve["survival"] * np.exp(-1.959963984540054 * np.sqrt(greenwood))
    np.testing.assert_allclose(curve["conf_low"][:-1], low[:-1], rtol=1e-9)


def test_strata_times_and_scales_of_limits():
    frame = breast_cancer("gbsg")
    curves = reference.kaplan_meier("Surv(time, event) ~ size", frame, times=[365, 1826, 2400], conf_type="log-log")
    assert curves["strata"].unique().tolist() == ["size=<=20", "size=20-50", "size=>50"]
    small = frame[frame["size"] == "<=20"]
    known = product_limit(small["time"].to_numpy(), small["event"].to_numpy())
    at = [min(survival for t, survival in known.items() if t <= time) for time in (365, 1826, 2400)]
    rows = curves[curves["strata"] == "size=<=20"]
    np.testing.assert_allclose(rows["survival"], at, rtol=1e-12)
    plain = reference.kaplan_meier("Surv(time, event) ~ size", frame, times=[365, 1826, 2400], conf_type="plain")
    np.testing.assert_allclose(plain["conf_high"], np.minimum(plain["survival"] + 1.959964 * plain["std_error"], 1))
    assert not np.allclose(plain["conf_low"], curves["conf_low"], rtol=1e-3)
    alone = reference.kaplan_meier("Surv(time, event) ~ 1", frame, times=[1e6])
    assert len(alone) == 0


# -- What is refused ---------------------------------------------------------------------------------------------------

FITS = [reference.cox, reference.hazard_glm, reference.kaplan_meier, reference.glm]


@pytest.mark.parametrize("fit", FITS)
def test_private_data_are_refused(fit):
    frame = breast_cancer("gbsg")
    held = hdp.Study(private=frame, schema=study(frame).schema, budget=hdp.Budget(epsilon=1))
    for thing, name in ((held, "Study"), (held.ledger, "Ledger")):
        with pytest.raises(hdp.ArgumentError, match=f"public rows, and this is an hdp.{name}"):
            fit("Surv(time, event) ~ age", thing)
    assert held.ledger.spent.epsilon == 0


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("Surv(time, event) ~ age +", "cannot be read by R"),
        ("Surv(time, event)", "one R formula"),
        ("~ age", "one R formula"),
        ("event ~ age; event ~ nodes", "one R formula"),
        ("Surv(time, event) ~ height", "no column 'height', which the formula names"),
        ("Surv(time, event) ~ sd", "no column 'sd'"),  # a function of R is no column
        (3, "a text"),
    ],
)
def test_bad_formulas_are_refused(fit, formula, message):
    with pytest.raises(hdp.ArgumentError, match=message):
        fit(formula, breast_cancer("gbsg"))


@pytest.mark.parametrize("fit", FITS)
def test_a_formula_sees_the_frame_alone(fit):
    r_bridge.call(
        "function() { assign('secret', 1:686, globalenv()); assign('twice', function(x) 2 * x, globalenv()) }"
    )
    try:
        with pytest.raises(hdp.ArgumentError, match="secret"):
            fit("Surv(time, event) ~ secret", breast_cancer("gbsg"))
        with pytest.raises(RError, match="twice"):
            fit("Surv(time, event) ~ twice(age)", breast_cancer("gbsg"))
    finally:
        r_bridge.call("function() rm(secret, twice, envir = globalenv())")


def test_unread_columns_do_not_matter():
    frame = breast_cancer("gbsg")
    table = reference.glm("event3 ~ age", frame.assign(lists=[[1]] * len(frame)))
    assert len(table) == 2
    with pytest.raises(hdp.ArgumentError, match="lists"):
        reference.glm("event3 ~ .", frame.assign(lists=[[1]] * len(frame)))
    everything = reference.glm("event3 ~ .", frame[["event3", "age", "nodes"]])
    assert everything["term"].tolist() == ["(Intercept)", "age", "nodes"]


def test_levels_keep_their_order_and_contrasts_are_those_of_treatment():
    frame = breast_cancer("gbsg")
    ordered = frame.assign(size=frame["size"].cat.reorder_categories([">50", "20-50", "<=20"]).cat.as_ordered())
    r_bridge.call("function() options(contrasts = c('contr.sum', 'contr.poly'))")
    try:
        table = reference.glm("event3 ~ size", ordered)
        hazard = reference.hazard_glm("Surv(time, event) ~ size", ordered, 5)
        kept = r_bridge.call("function() getOption('contrasts')[[1]]")
    finally:
        r_bridge.call("function() options(contrasts = c(unordered = 'contr.treatment', ordered = 'contr.poly'))")
    assert table["term"].tolist() == ["(Intercept)", "size20-50", "size<=20"]
    assert hazard["term"].tolist()[4:] == ["size20-50", "size<=20"]
    assert kept == "contr.sum"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intervals": 0}, "1 to 10000"),
        ({"intervals": 2.5}, "whole number or cut points"),
        ({"intervals": [3.0, 2.0]}, "increase"),
        ({"intervals": [0.0, 2.0]}, "above 0"),
        ({"intervals": [1.0, 2.0], "horizon": 1.5}, "up to the horizon"),
        ({"link": "log"}, "logit, cloglog, probit"),
        ({"baseline": "weibull"}, "spline, dummies"),
        ({"intervals": 2000, "baseline": "dummies"}, "at most 1000"),
        ({"intervals": 4, "df": 5}, "from 2 to 4"),
        ({"knots": [0.5]}, "2 to"),
        ({"knots": [-1.0, 1.0]}, "shares from 0 to 1"),
        ({"horizon": -1.0}, "above 0"),
        ({"conf_level": 1.0}, "below 1"),
        ({"weights": "none"}, "no column 'none', which weights names"),
        ({"offset": 3}, "name of a column"),
    ],
)
def test_bad_options_of_hazards_are_refused(change, message):
    with pytest.raises(hdp.ArgumentError, match=message):
        reference.hazard_glm("Surv(time, event) ~ age", breast_cancer("gbsg"), **change)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("event ~ age", "Surv"),
        ("Surv(time, size) ~ age", "one kind of event"),
        ("Surv(time, event) ~ age - 1", "leave out - 1"),
        ("Surv(time, event) ~ age + strata(size)", "for Cox models"),
        ("Surv(time, event * 0) ~ age", "no row has an event"),
    ],
)
def test_formulas_that_are_no_hazard_model_are_refused(formula, message):
    with pytest.raises(hdp.ArgumentError, match=message):
        reference.hazard_glm(formula, breast_cancer("gbsg"))


def test_warnings_of_r_are_warnings():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 0, 1, 1]})
    with pytest.warns(RWarning, match="fitted probabilities numerically 0 or 1"):
        reference.glm("y ~ x", frame)

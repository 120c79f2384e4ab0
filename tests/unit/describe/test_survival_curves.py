"""Survival curves: what is asked, what is refused, what comes back."""

import json

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests import known_noise

SCHEMA = hdp.Schema(
    time=hdp.Duration(10, unit="years"),
    start=hdp.Duration(10),
    event=hdp.Binary(),
    cause=hdp.Categorical(["none", "relapse", "death"]),
    arm=hdp.Categorical(["A", "B", "C"]),
    sex=hdp.Binary(labels=("male", "female")),
    w=hdp.Weight(max=2),
    x=hdp.Continuous(0, 1),
)


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 3, n)
    event, censored = rng.exponential(6 / (1 + arm), n), rng.uniform(2, 12, n)
    happened = event <= censored
    return pd.DataFrame(
        {
            "time": np.minimum(event, censored),
            "start": rng.choice([0.0, 0.5, 1.0], n),
            "event": happened.astype(int),
            "cause": np.where(happened, rng.choice(["relapse", "death"], n), "none"),
            "arm": np.array(["A", "B", "C"])[arm],
            "sex": rng.choice(["male", "female"], n),
            "w": rng.choice([1.0, 2.0], n),
            "x": rng.uniform(size=n),
        }
    )


PRIVATE, PUBLIC = people(900, seed=1), people(400, seed=2)


def study(private=PRIVATE, **options):
    given = {"budget": hdp.Budget(epsilon=100)} | options
    return hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, **given)


@pytest.fixture(autouse=True)
def _known_noise(monkeypatch):
    known_noise.counts(monkeypatch, 1)


def of_group(frame, label):
    return frame[frame["group"] == label]


def test_curves_by_group_are_close_to_the_rows_and_say_how_close():
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(), times=[1, 2, 4, 6, 8]).fit(epsilon=1)
    rows = hdp.Study(public=PRIVATE.copy(), schema=SCHEMA)
    exact = hdpf.survfit("Surv(time, event) ~ arm", rows, times=[1, 2, 4, 6, 8]).fit_public().tidy()
    found = curves.tidy()
    assert list(found["group"]) == [arm for arm in "ABC" for _ in range(5)]
    assert (np.abs(found["estimate"] - exact["estimate"]) < 4 * found["std_error"]).all()
    assert (found["conf_low"] <= found["estimate"]).all()
    assert (found["estimate"] <= found["conf_high"]).all()
    assert np.abs(found["at_risk"] - exact["at_risk"]).max() < 30
    assert np.abs(found["events"] - exact["events"]).max() < 15
    wider = curves.tidy(0.99)
    assert (wider["conf_low"] <= found["conf_low"]).all()
    test = curves.logrank_test()
    assert (test.df, test.p_value < 1e-3, test.private) == (2, True, True)
    assert test.hazard_ratios()["contrast"].tolist() == ["B / A", "C / A"]
    assert curves.restricted_mean(5, differences=True)["p_value"].max() < 0.05
    assert curves.median()["people"].sum() == pytest.approx(900, abs=60)
    assert "log-rank" in str(curves)
    assert "1-differential privacy" in str(curves)


def test_everything_is_kept_in_json():
    curves = hdpf.survfit("Surv(time, cause) ~ arm + sex", study()).fit(epsilon=2)
    read = hdp.SurvivalCurves.from_json(curves.to_json())
    pd.testing.assert_frame_equal(read.tidy(), curves.tidy())
    pd.testing.assert_frame_equal(read.tidy(source="public"), curves.tidy(source="public"))
    assert str(read) == str(curves)
    assert json.dumps(curves.disclosure())
    with pytest.raises(hdp.ArgumentError, match="survival curves that hdpstats wrote"):
        hdp.SurvivalCurves.from_json("{}")


def test_several_columns_make_combinations_and_strata():
    curves = hdpf.survfit("Surv(time, event) ~ arm + sex", study(), times=6).fit(epsilon=3)
    assert curves.groups[:3] == ("arm=A, sex=male", "arm=A, sex=female", "arm=B, sex=male")
    test = curves.logrank_test(strata="sex")
    assert (test.groups, test.df) == (("A", "B", "C"), 2)
    assert curves.logrank_test(strata="arm").groups == ("male", "female")
    assert curves.logrank_test("peto").df == 5
    with pytest.raises(hdp.ArgumentError, match="strata"):
        curves.logrank_test(strata="w")


def test_strata_in_the_formula_are_those_of_the_test():
    written = hdpf.survfit("Surv(time, event) ~ arm + strata(sex)", study(), times=6).fit(epsilon=3)
    assert written.groups[:2] == ("arm=A, sex=male", "arm=A, sex=female")
    test, known = written.logrank_test(), hdp.Study(public=PRIVATE.copy(), schema=SCHEMA)
    assert (test.groups, test.df, test.strata) == (("A", "B", "C"), 2, ("sex",))
    assert "stratified by sex" in str(test)
    assert "log-rank by sex" in str(written)
    exact = hdpf.survfit("Surv(time, event) ~ strata(sex) + arm", known).fit_public()
    same = hdpf.survfit("Surv(time, event) ~ arm + sex", known).fit_public().logrank_test(strata="sex")
    assert exact.logrank_test().statistic == pytest.approx(same.statistic, rel=1e-12)
    assert test.statistic == pytest.approx(exact.logrank_test().statistic, rel=0.5)
    assert written.logrank_test(strata=[]).df == 5
    alone = hdpf.survfit("Surv(time, event) ~ strata(arm)", known).fit_public()
    assert alone.groups == ("A", "B", "C")
    with pytest.raises(hdp.ArgumentError, match="besides strata"):
        alone.logrank_test()
    with pytest.raises(hdp.FormulaError, match="either a group or a stratum"):
        hdpf.survfit("Surv(time, event) ~ arm + strata(arm)", known)
    read = hdp.SurvivalCurves.from_json(written.to_json())
    assert read.logrank_test().p_value == test.p_value


@pytest.mark.parametrize("right", ["arm - 1", "0 + arm"])
def test_a_formula_without_an_intercept_is_refused_in_words_of_curves(right):
    with pytest.raises(hdp.FormulaError, match="each group has a curve of its own"):
        hdpf.survfit(f"Surv(time, event) ~ {right}", study())


def test_a_stratum_in_which_a_group_is_small_is_left_out():
    rows = PRIVATE[(PRIVATE["arm"] != "C") | (PRIVATE["sex"] == "male") | (np.arange(900) < 15)]
    curves = hdpf.survfit("Surv(time, event) ~ arm + strata(sex)", study(rows), times=6).fit(epsilon=1)
    test = curves.logrank_test()
    assert (test.groups, test.left_out) == (("A", "B", "C"), ("sex=female",))


def test_times_at_the_ends_of_intervals_are_read_as_kaplan_and_meier_do():
    whole = PRIVATE.assign(time=np.ceil(PRIVATE["time"]).clip(upper=10.0))
    whole["start"] = np.where(PRIVATE["start"] > 0.7, 1.0, 0.0)
    for outcome in ("Surv(time, event)", "Surv(start, time, event)"):
        given = {"times": [1, 2, 3, 4, 5, 6, 7, 8], "recorded": "at_ends"}
        exact = hdpf.survfit(f"{outcome} ~ arm", hdp.Study(public=whole, schema=SCHEMA), **given).fit_public()
        curves = hdpf.survfit(f"{outcome} ~ arm", study(whole), **given).fit(epsilon=50)
        shown = curves.tidy()["estimate"].notna()
        np.testing.assert_allclose(curves.tidy()["estimate"][shown], exact.tidy()["estimate"][shown], atol=0.01)
    assert "at the ends of intervals" in str(curves)
    assert hdp.SurvivalCurves.from_json(curves.to_json()).tidy().equals(curves.tidy())
    within = hdpf.survfit("Surv(start, time, event) ~ arm", study(whole), times=given["times"]).fit(epsilon=50)
    assert np.abs(within.tidy()["estimate"] - exact.tidy()["estimate"]).max() > 0.03


def test_follow_up_that_is_closed_at_the_last_end_is_followed_until_then():
    rows = PRIVATE.assign(time=np.minimum(PRIVATE["time"], 2.0))
    rows.loc[PRIVATE["time"] > 2.0, "event"] = 0
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(rows), times=[1, 2]).fit(epsilon=50)
    exact = hdpf.survfit("Surv(time, event) ~ arm", hdp.Study(public=rows, schema=SCHEMA), times=[1, 2]).fit_public()
    np.testing.assert_allclose(curves.tidy()["estimate"], exact.tidy()["estimate"], atol=0.005)


def test_several_causes_add_up():
    curves = hdpf.survfit("Surv(time, cause) ~ 1", study(), times=8).fit(epsilon=5)
    found = curves.tidy().pivot_table(index="time", columns="cause", values="estimate")
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=0.03)
    public = curves.tidy(source="public").pivot_table(index="time", columns="cause", values="estimate")
    np.testing.assert_allclose(public.sum(axis=1), 1.0, atol=1e-12)
    assert list(curves.causes) == ["relapse", "death"]


def test_one_level_of_an_event_is_a_cause_of_its_own():
    curves = hdpf.survfit('Surv(time, cause == "death") ~ arm', study(), times=[2, 4, 8]).fit(epsilon=20)
    rows = PRIVATE.assign(event=(PRIVATE["cause"] == "death").astype(int))
    exact = hdpf.survfit("Surv(time, event) ~ arm", hdp.Study(public=rows, schema=SCHEMA), times=[2, 4, 8]).fit_public()
    np.testing.assert_allclose(curves.tidy()["estimate"], exact.tidy()["estimate"], atol=0.06)
    assert curves.causes == ("death",)
    own = hdp.Study(public=PRIVATE.copy(), schema=SCHEMA)
    same = hdpf.survfit('Surv(time, cause == "death") ~ arm', own, times=[2, 4, 8]).fit_public()
    pd.testing.assert_frame_equal(same.tidy(), exact.tidy())


def test_sites_each_give_a_table():
    parts = {"north": PRIVATE.iloc[:500], "south": PRIVATE.iloc[500:]}
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(parts), times=5).fit(epsilon=2)
    assert curves.sites == ("north", "south")
    together = curves.tidy()["events"]
    apart = sum(curves.tidy(site=site)["events"].to_numpy() for site in curves.sites)
    np.testing.assert_allclose(together, apart, atol=1.0)
    sds = [release.follow_up_sd for _, release in curves.releases]
    assert curves.curves()[0].table.sd == pytest.approx(np.hypot(*sds))


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_number_of_people_is_used_where_it_is_public_only(relation):
    options = {"relation": relation} | ({} if relation == "replace_one" else {"n_max": 2000})
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(**options), times=6).fit(epsilon=1)
    (_, release), (_, query) = curves.releases[0], curves.queries[0]
    assert release.records == (900 if relation == "replace_one" else None)
    expected = np.sqrt(2) * (2 if relation == "replace_one" else 1)
    assert release.follow_up_sd == pytest.approx(expected, rel=0.05)
    assert query.follow_up_cells == len(release.follow_up)


def test_late_beginnings_and_rows_of_one_person():
    rows = PRIVATE.assign(start=np.minimum(PRIVATE["start"], PRIVATE["time"] / 2), who=np.arange(900))
    middle = (rows["start"] + rows["time"]) / 2
    spells = pd.concat([rows.assign(time=middle, event=0), rows.assign(start=middle)])
    formula = "Surv(start, time, event) ~ arm"
    one = hdpf.survfit(formula, study(rows), times=6).fit(epsilon=20)
    two = hdpf.survfit(formula, study(spells, unit="who", max_rows_per_unit=2, n_max=1000), times=6).fit(epsilon=20)
    np.testing.assert_allclose(one.tidy()["estimate"], two.tidy()["estimate"], atol=0.02)
    assert two.releases[0][1].records is None
    assert one.curves()[0].table.entered is not None


def test_weights_scale_people():
    curves = hdpf.survfit("Surv(time, event) ~ 1", study(), times=4, weights="w").fit(epsilon=10)
    assert curves.median()["people"].iloc[0] == pytest.approx(PRIVATE["w"].sum(), rel=0.02)
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(), times=4, weights="w").fit(epsilon=50)
    observed = curves.tidy().groupby("group")["events"].sum()
    np.testing.assert_allclose(curves.logrank_test().table["observed"], observed, rtol=1e-9)


def test_small_groups_are_not_shown_and_left_out_of_the_test():
    rows = PRIVATE[(PRIVATE["arm"] != "C") | (np.arange(900) < 15)]
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(rows), times=6).fit(epsilon=0.5)
    hidden = of_group(curves.tidy(), "C")
    assert hidden[["estimate", "conf_low", "at_risk", "events"]].isna().all(axis=None)
    assert curves.logrank_test().left_out == ("C",)
    assert "N/A" in str(curves)
    assert np.isnan(curves.median()["estimate"].iloc[2])


def test_the_summary_says_which_group_is_not_stated_and_how_many_people_it_takes():
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(), times=6).fit(epsilon=0.05)
    text = " ".join(str(curves.summary()).split())
    sd, exits = curves.releases[0][1].follow_up_sd, 6 * 2 + 1
    assert f"noisy number is below {4 * sd * exits**0.5:.0f}, 4 standard deviations" in text
    unknown = [label for label, curve in zip(curves.groups, curves.curves(), strict=True) if not curve.known]
    assert unknown
    assert f"too few people for the noise where arm = {unknown[0]}" in text


def test_between_the_ends_of_intervals_hazards_are_constant():
    curves = hdpf.survfit("Surv(time, event) ~ 1", study(), times=[2, 4, 8]).fit(epsilon=3)
    found = curves.at([0, 2, 3, 3.5, 4])
    S = found["estimate"].to_numpy()
    np.testing.assert_allclose(S[[2, 3]], S[1] * (S[4] / S[1]) ** np.array([0.5, 0.75]), rtol=1e-12)
    assert (found["conf_low"] <= S).all()
    assert (found["conf_high"] >= S).all()
    assert found["conf_low"].is_monotonic_decreasing
    assert found["conf_high"].is_monotonic_decreasing
    np.testing.assert_allclose(curves.quantile(1 - S[2])["estimate"], 3.0, rtol=1e-6)
    fine = np.linspace(0.0, 3.0, 20_001)
    area = np.trapezoid(curves.at(fine)["estimate"], fine)
    np.testing.assert_allclose(curves.restricted_mean(3)["estimate"], area, rtol=1e-7)


def test_a_plan_spends_nothing_and_predicts_what_is_reported():
    own = study()
    request = hdpf.survfit("Surv(time, event) ~ arm", own, times=6)
    plan = request.plan([0.3, 1])
    assert own.ledger.spent.epsilon == 0
    found = request.fit(epsilon=1).tidy()
    predicted = plan.frame[plan.frame["epsilon"] == 1]["std_error"].to_numpy()
    assert np.nanmedian(found["std_error"] / predicted) == pytest.approx(1.0, abs=0.15)
    assert plan.tests["information"].is_monotonic_increasing
    assert "log-rank information kept" in str(plan)
    assert hdpf.survfit("Surv(time, event) ~ arm", hdp.Study(schema=SCHEMA)).plan(0.1, n=300).frame["suppressed"].any()


def test_normal_noise_is_taken_where_it_is_smaller():
    request = hdpf.survfit("Surv(time, event) ~ arm", study(budget=hdp.Budget(epsilon=9, delta=0.5)), times=6)
    assert request.fit(epsilon=1, delta=1e-6).guarantee.delta == 0
    assert request.fit(epsilon=0.05, delta=0.2).guarantee.delta > 0


@pytest.mark.parametrize(
    ("formula", "options", "error"),
    [
        ("Surv(time, event) ~ x", {}, hdp.FormulaError),
        ("Surv(time, event) ~ arm:sex", {}, hdp.FormulaError),
        ("Surv(time, event) ~ event", {}, hdp.FormulaError),
        ("event ~ arm", {}, hdp.FormulaError),
        ("Surv(time, x) ~ arm", {}, hdp.FormulaError),
        ("Surv(time, event) ~ arm", {"times": [3, 2]}, hdp.ArgumentError),
        ("Surv(time, event) ~ arm", {"times": [3, 11]}, hdp.ArgumentError),
        ("Surv(time, event) ~ arm", {"times": "years"}, hdp.ArgumentError),
        ("Surv(time, event) ~ arm", {"times": 365}, hdp.ArgumentError),
        ("Surv(time, event) ~ arm", {"recorded": "whole"}, hdp.ArgumentError),
        ('Surv(time, event) ~ C(arm, Treatment("B"))', {}, hdp.FormulaError),
        ("Surv(time, event) ~ arm + offset(x)", {}, hdp.FormulaError),
        ("Surv(time, event) ~ arm", {"weights": "x"}, hdp.SchemaError),
    ],
)
def test_what_is_refused(formula, options, error):
    with pytest.raises(error):
        hdpf.survfit(formula, study(), **options)


def test_what_needs_other_data_is_refused_before_a_charge():
    own = study()
    request = hdpf.survfit("Surv(time, event) ~ 1", own)
    curves = request.fit_public()
    with pytest.raises(hdp.ArgumentError, match="groups"):
        curves.logrank_test()
    with pytest.raises(hdp.ArgumentError, match="groups"):
        curves.restricted_mean(differences=True)
    with pytest.raises(hdp.ArgumentError, match="private"):
        curves.tidy(source="private")
    with pytest.raises(hdp.BudgetError, match="epsilon"):
        request.fit(epsilon=51)
    with pytest.raises(hdp.ArgumentError, match="public"):
        hdpf.survfit("Surv(time, event) ~ 1", hdp.Study(schema=SCHEMA)).fit_public()
    with pytest.raises(hdp.ArgumentError, match="private"):
        hdpf.survfit("Surv(time, event) ~ 1", hdp.Study(schema=SCHEMA)).fit(epsilon=1)
    with pytest.raises(hdp.ArgumentError, match="upto"):
        curves.restricted_mean(11)
    with pytest.raises(hdp.ArgumentError, match="conf_level"):
        curves.tidy(95)
    with pytest.raises(hdp.ArgumentError, match="site"):
        curves.tidy(site="north")
    with pytest.raises(hdp.ArgumentError, match="site must be left out"):
        curves.tidy(source="public", site="north")
    assert own.ledger.spent.epsilon == 0


def test_a_description_that_was_charged_before_is_used():
    own = study()
    table = hdp.describe(own, ["x", "Surv(time, event)"], by="arm", times=[2, 4, 8], epsilon=4)
    spent = own.ledger.spent.epsilon
    curves = hdpf.survfit("Surv(time, event) ~ arm", own).fit(description=table)
    assert own.ledger.spent.epsilon == spent
    shown = table.follow_up()
    np.testing.assert_allclose(curves.tidy()["events"], shown["events"])
    np.testing.assert_allclose(curves.tidy()["at_risk"], shown["at_risk"])
    assert curves.guarantee == table.guarantee
    for formula, options, argument in (
        ("Surv(time, event) ~ sex", {}, "description"),
        ("Surv(time, cause) ~ arm", {}, "description"),
        ("Surv(time, event) ~ arm", {"times": [2, 4]}, "times"),
        ("Surv(time, event) ~ arm", {"weights": "w"}, "description"),
    ):
        with pytest.raises(hdp.ArgumentError, match=argument):
            hdpf.survfit(formula, own, **options).fit(description=table)
    with pytest.raises(hdp.ArgumentError, match=r"'Surv\(time, event\)'\], by='sex'"):
        hdpf.survfit("Surv(time, event) ~ sex", own).fit(description=table)
    with pytest.raises(hdp.ArgumentError, match="several groups; call fit"):
        hdpf.survfit("Surv(time, event) ~ arm + sex", own).fit(description=table)
    with pytest.raises(hdp.ArgumentError, match="epsilon"):
        hdpf.survfit("Surv(time, event) ~ arm", own).fit(1, description=table)
    with pytest.raises(hdp.ArgumentError, match="epsilon"):
        hdpf.survfit("Surv(time, event) ~ arm", own).fit()


def test_a_description_of_complete_people_gives_their_curves_and_says_so():
    rows, shown = PRIVATE.assign(x=PRIVATE["x"].where(PRIVATE["arm"] != "B")), PUBLIC.assign(x=PUBLIC["x"])
    shown.loc[:199, "x"] = np.nan
    own = hdp.Study(private=rows, public=shown, schema=SCHEMA, budget=hdp.Budget(epsilon=100))
    cohort = hdp.describe(own, ["x", "Surv(time, event)"], by="arm", complete=True, times=[2, 4, 8], epsilon=8)
    curves = hdpf.survfit("Surv(time, event) ~ arm", own).fit(description=cohort)
    assert curves.complete_in == ("x",)
    assert curves.tidy()["estimate"].isna().tolist() == [False] * 3 + [True] * 3 + [False] * 3
    assert sum(curve.people for curve in curves.curves("public")) == 200
    for text in (str(curves), json.dumps(curves.disclosure())):
        assert "complete" in text
    assert "x too" in str(curves)
    known = hdp.Schema({**SCHEMA, "x": hdp.Continuous(0, 1, complete=True)})
    own = hdp.Study(private=PRIVATE, schema=known, budget=hdp.Budget(epsilon=100))
    cohort = hdp.describe(own, ["x", "Surv(time, event)"], by="arm", complete=True, times=[2, 4, 8], epsilon=8)
    assert hdpf.survfit("Surv(time, event) ~ arm", own).fit(description=cohort).complete_in == ()


def test_a_model_is_compared_with_the_curves():
    rows = hdp.Study(public=PRIVATE.copy(), schema=SCHEMA)
    model = hdpf.hazard("Surv(time, event) ~ arm", rows, intervals=[1, 2, 4, 8]).fit_public()
    curves = hdpf.survfit("Surv(time, event) ~ arm", study(), times=[1, 2, 4, 8]).fit(epsilon=3)
    found = curves.compare(model, PRIVATE)
    assert found["difference"].abs().max() < 0.12
    np.testing.assert_allclose(found["estimate"] - found["model"], found["difference"])
    pd.testing.assert_frame_equal(curves.compare(model), found)
    with pytest.raises(hdp.ArgumentError, match="result"):
        curves.compare("model", PRIVATE)
    with pytest.raises(hdp.ArgumentError, match="over must have the curves' groups as columns: arm"):
        curves.compare(model, PRIVATE.drop(columns="arm"))


def test_a_model_is_compared_over_the_described_cohort():
    own = study()
    model = hdpf.hazard("Surv(time, event) ~ arm + x", own, intervals=[1, 2, 4, 8]).fit_public()
    curves = hdpf.survfit("Surv(time, event) ~ 1", own, times=[1, 2, 4, 8]).fit(epsilon=20)
    young = PRIVATE[PRIVATE["arm"] == "A"]
    cohort = hdp.describe(study(young), ["arm", "x"], complete=True, epsilon=20)
    found, asis = curves.compare(model, over=cohort), curves.compare(model)
    arms = hdpf.survfit("Surv(time, event) ~ arm", own, times=[1, 2, 4, 8]).fit_public().compare(model)
    in_a = arms[arms["group"] == "A"]["model"].to_numpy()
    assert np.abs(found["model"] - in_a).max() < 0.02
    assert np.abs(asis["model"] - in_a).max() > 0.05

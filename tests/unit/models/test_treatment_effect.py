"""Treatment effects, from the propensity model to the table: what is asked, released, kept and refused."""

import dataclasses
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import HdpWarning
from hdpstats.families.overlap_weights import UNITS
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.mechanisms.treatment_effect import TreatmentEffectQuery
from hdpstats.sites import LocalSite
from tests import seeded

SCHEMA = hdp.Schema(
    a=hdp.Binary(complete=True, labels=("control", "drug")),
    x=hdp.Continuous(-3, 3, complete=True),
    f=hdp.Categorical(["p", "q"], complete=True),
    y=hdp.Binary(complete=True),
    k=hdp.Continuous(0, 10, complete=True),
    t=hdp.Duration(10, complete=True),
    g=hdp.Categorical(["r", "s", "u"], complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)


def people(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count).clip(-3, 3)
    f = rng.integers(0, 2, count)
    treated = rng.random(count) < expit(-0.4 + 0.8 * x + 0.4 * f)
    return pd.DataFrame(
        {
            "a": np.where(treated, "drug", "control"),
            "x": x,
            "f": np.where(f == 1, "q", "p"),
            "y": (rng.random(count) < expit(-0.8 + 0.9 * x - 0.5 * treated)).astype(int),
            "k": np.minimum(rng.poisson(np.exp(0.6 + 0.3 * x + 0.3 * treated)), 10).astype(float),
            "t": rng.uniform(0, 10, count),
            "g": rng.choice(["r", "s", "u"], count),
            "o": 0.5,
        }
    )


PRIVATE, PUBLIC = people(3000, 1), people(300, 2)
FORMULA = "a ~ x + f"


def study_of(private=PRIVATE, public=PUBLIC, epsilon=40, **terms):
    return hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=epsilon), **terms)


@pytest.fixture(scope="module")
def study():
    return study_of()


@pytest.fixture(scope="module")
def propensity(study):
    return hdp.propensity(FORMULA, study, epsilon=2.0)


@pytest.fixture(scope="module")
def weighting(propensity):
    return propensity.weights("overlap")


@pytest.fixture(scope="module")
def effect(study, weighting):
    return hdp.treatment_effect("y ~ a", study, weighting, epsilon=2.0)


def by_hand(weighting, outcome):
    """Return the weighted means of the private people, untreated first, from the public coefficients."""
    design = np.column_stack([np.ones(len(PRIVATE)), PRIVATE["x"], PRIVATE["f"] == "q"]).astype(float)
    e, treated = expit(design @ np.array(weighting.record.coefficients)), PRIVATE["a"] == "drug"
    w = np.where(treated, 1 - e, e)
    return [np.average(PRIVATE[outcome][treated == arm], weights=w[treated == arm]) for arm in (False, True)]


def test_the_propensity_is_the_private_estimate_of_an_ordinary_fit_which_costs_nothing_more(study, propensity):
    spent = study.ledger.spent
    fit = hdpf.logit(FORMULA, data=study).fit(epsilon=2.0)
    assert study.ledger.spent == spent
    pd.testing.assert_series_equal(propensity.params, fit.private_only.params)
    assert propensity.fit.pooled is None
    assert propensity.weights().record.coefficients == pytest.approx(fit.private_only.params.tolist(), rel=1e-7)


def test_without_noise_the_public_numbers_are_those_of_statsmodels():
    """Coefficients of the public fit and its weights by hand, to 1e-8."""
    public = hdpf.logit(FORMULA, data=study_of()).fit_public()
    design = np.column_stack([np.ones(len(PUBLIC)), PUBLIC["x"], PUBLIC["f"] == "q"]).astype(float)
    treated = (PUBLIC["a"] == "drug").to_numpy()
    plain = sm.Logit(treated.astype(float), design).fit(disp=0, tol=1e-12)
    np.testing.assert_allclose(public.params, plain.params, atol=1e-8)
    people = hdp.Propensity.of(public).people
    e = expit(design @ plain.params)
    np.testing.assert_allclose(people.propensity, e, atol=1e-8)
    assert people.overlap == pytest.approx(np.mean(e * (1 - e)), abs=1e-8)


def test_an_effect_is_near_that_of_the_private_people(effect, weighting):
    table = effect.tidy().set_index("effect")
    untreated, treated = by_hand(weighting, "y")
    noise = effect.cells.sd / effect.cells.totals.min()
    assert table.loc["risk, a = control", "estimate"] == pytest.approx(untreated, abs=6 * noise)
    assert table.loc["risk difference", "estimate"] == pytest.approx(treated - untreated, abs=6 * noise)
    assert table.loc["odds ratio", "conf_low"] < table.loc["odds ratio", "estimate"]
    needed = 1 / abs(table.loc["risk difference", "estimate"])
    assert table.loc["number needed to treat", "estimate"] == pytest.approx(needed)


def test_a_number_has_means_their_difference_and_ratio(study, weighting):
    found = hdp.treatment_effect("k ~ a", study, weighting, epsilon=2.0)
    table = found.tidy().set_index("effect")
    assert table.index.tolist() == ["mean, a = control", "mean, a = drug", "difference", "ratio"]
    untreated, treated = by_hand(weighting, "k")
    noise = 10 * found.cells.sd / found.cells.totals.min()
    assert table.loc["mean, a = control", "estimate"] == pytest.approx(untreated, abs=6 * noise)
    assert table.loc["difference", "estimate"] == pytest.approx(treated - untreated, abs=8 * noise)


def test_the_guarantee_and_every_statement_count_the_propensity_too(effect):
    assert effect.guarantee.epsilon == 4
    parts = {part.what: part.epsilon for part in effect.guarantee.parts}
    assert parts == {"the effect": 2, "the propensity model": 2}
    assert "epsilon = 4 in all: 2 for the effect, 2 for the propensity model" in effect.methods_text()
    record = effect.disclosure()
    assert record["privacy_loss"]["epsilon"] == 4.0
    assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == pytest.approx(4, abs=1e-6)
    assert "4-differential privacy" in str(effect.summary())


def test_the_same_effect_is_answered_from_the_ledger_and_another_draw_is_charged(study, weighting, effect):
    spent = study.ledger.spent.epsilon
    again = hdp.treatment_effect("y ~ a", study, weighting, epsilon=2.0)
    assert study.ledger.spent.epsilon == spent
    pd.testing.assert_frame_equal(again.tidy(), effect.tidy())
    other = hdp.treatment_effect("y ~ a", study, weighting, epsilon=2.0, replicate=2)
    assert study.ledger.spent.epsilon == spent + 2
    assert other.releases[0][1].weights != effect.releases[0][1].weights


def test_json_keeps_an_effect_and_a_propensity(study, propensity, effect):
    kept = hdp.TreatmentEffect.from_json(effect.to_json())
    pd.testing.assert_frame_equal(kept.tidy(), effect.tidy())
    assert str(kept.summary()) == str(effect.summary())
    assert kept.methods_text() == effect.methods_text()
    read = hdp.Propensity.from_json(propensity.to_json())
    spent = study.ledger.spent
    again = hdp.treatment_effect("y ~ a", study, read.weights(), epsilon=2.0)
    assert study.ledger.spent == spent
    pd.testing.assert_frame_equal(again.tidy(), effect.tidy())
    with pytest.raises(hdp.ArgumentError, match="no public rows at hand"):
        read.effective_size()


def test_the_query_carries_public_coefficients_and_nothing_else(study, weighting):
    query = hdp.treatment_effect("y ~ a", study, weighting).query(Fraction(1))
    assert isinstance(query, TreatmentEffectQuery)
    assert query.names == ("a", "x", "f", "y")
    assert all(value * 2.0**40 == int(value * 2.0**40) for value in query.weighting.coefficients)


def test_a_plan_spends_nothing_and_predicts_smaller_errors_for_more(study, weighting):
    spent = study.ledger.spent
    plan = hdp.treatment_effect("y ~ a", study, weighting).plan([0.05, 0.5])
    assert study.ledger.spent == spent
    difference = plan.table.loc["risk difference"]
    assert difference["epsilon=0.05"] > 1.5 * difference["epsilon=0.5"]
    assert "nothing is spent" in str(plan)


def test_a_plan_is_what_an_effect_reports_where_private_people_are_as_public_ones(study, weighting, effect):
    planned = hdp.treatment_effect("y ~ a", study, weighting).plan(2.0).frame.set_index("effect")
    reported = effect.tidy().set_index("effect")
    for name in ("risk, a = control", "risk difference"):
        assert planned.loc[name, "std_error"] == pytest.approx(reported.loc[name, "std_error"], rel=0.15)


def test_a_table_that_noise_drowns_says_so(study, weighting):
    found = hdp.treatment_effect("y ~ a", study, weighting, epsilon=0.005)
    assert found.tidy()["estimate"].isna().all()
    assert "too little weight for the noise" in str(found.summary())


def test_several_sites_add_their_tables(weighting):
    halves = {"A": PRIVATE.iloc[:1500], "B": PRIVATE.iloc[1500:]}
    study = hdp.Study(private=halves, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=40))
    w = hdp.propensity(FORMULA, study, epsilon=2.0).weights()
    found = hdp.treatment_effect("y ~ a", study, w, epsilon=2.0)
    assert found.sites == ("A", "B")
    assert found.guarantee.sites == 2
    assert found.guarantee.epsilon == 4
    released = [np.array(each.weights) for _, each in found.releases]
    np.testing.assert_allclose(found.cells.weights.ravel(), sum(released) / UNITS)
    untreated, treated = by_hand(w, "y")
    noise = found.cells.sd / found.cells.totals.min()
    difference = found.tidy().set_index("effect").loc["risk difference", "estimate"]
    assert difference == pytest.approx(treated - untreated, abs=6 * noise)


def test_sites_that_differ_are_found():
    """Two sites with the same effect, and one with the opposite one."""
    parts = {name: people(3000, seed) for name, seed in (("A", 11), ("B", 12), ("C", 13))}
    study = hdp.Study(private=parts, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=40))
    w = hdp.propensity(FORMULA, study, epsilon=4.0).weights()
    alike = hdp.treatment_effect("y ~ a", study, w, epsilon=4.0)
    frame = alike.by_site()
    assert frame["site"].tolist() == ["A", "B", "C"]
    assert frame["weight"].sum() == pytest.approx(alike.cells.totals.sum())
    mean = np.average(frame["estimate"], weights=frame["std_error"] ** -2.0)
    found = alike.heterogeneity()
    assert found.statistic == pytest.approx(np.sum(((frame["estimate"] - mean) / frame["std_error"]) ** 2))
    assert found.df == 2
    assert found.pvalue > 1e-4
    assert "Cochran's Q" in str(alike.summary())
    treated = parts["C"]["a"] == "drug"
    parts["C"].loc[treated, "y"] = (np.random.default_rng(1).random(treated.sum()) < 0.7).astype(int)
    other = hdp.Study(private=parts, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=40))
    w = hdp.propensity(FORMULA, other, epsilon=4.0).weights()
    apart = hdp.treatment_effect("y ~ a", other, w, epsilon=4.0)
    assert apart.heterogeneity().pvalue < 1e-9
    assert apart.by_site()["estimate"].idxmax() == 2


def test_the_error_of_a_site_is_that_of_its_people_and_cells(effect):
    row = effect.by_site().iloc[0]
    cells = effect.cells
    noise = cells.sd * np.sqrt(cells.places(cells.weights) ** 2 + (1 - cells.places(cells.weights)) ** 2) / cells.totals
    assert row["std_error"] ** 2 == pytest.approx(np.sum(noise**2) + np.sum(effect.per_weight / cells.totals))
    assert row["estimate"] == pytest.approx(effect.tidy()["estimate"].iloc[2])
    with pytest.raises(hdp.ArgumentError, match="two sites"):
        effect.heterogeneity()


def test_a_balance_beside_an_effect_is_counted_in_every_statement(study, weighting, effect):
    balance = hdp.describe(study, ["x", "f"], weighting=weighting, epsilon=3.0)
    spent = study.ledger.spent
    both = effect.with_balance(balance)
    assert study.ledger.spent == spent
    assert both.guarantee.epsilon == 7
    parts = {part.what: part.epsilon for part in both.guarantee.parts}
    assert parts == {"the effect": 2, "the propensity model": 2, "the balance": 3}
    record = both.disclosure()
    assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == pytest.approx(7, abs=1e-6)
    assert record["balance"] == [each.sha256 for each in balance.releases]
    assert "epsilon = 7 in all" in both.methods_text()
    assert f"{balance.glance()['weighted'].iloc[0]:.3f}" in both.methods_text()
    assert "7-differential privacy" in str(both.summary())
    pd.testing.assert_frame_equal(both.tidy(), effect.tidy())
    assert type(effect).from_json(both.to_json()).guarantee == both.guarantee
    with pytest.raises(hdp.ArgumentError, match="stated already"):
        both.with_balance(balance)
    with pytest.raises(hdp.ArgumentError, match="must be what"):
        effect.with_balance(effect)
    other = hdp.propensity("a ~ x", study, epsilon=1.0).weights()
    with pytest.raises(hdp.ArgumentError, match="propensity model of the effect"):
        effect.with_balance(hdp.describe(study, ["x"], weighting=other, epsilon=1.0))


def test_add_or_remove_one_has_half_of_the_noise(effect):
    study = study_of(relation="add_or_remove_one", n_max=5000)
    w = hdp.propensity(FORMULA, study, epsilon=2.0).weights()
    found = hdp.treatment_effect("y ~ a", study, w, epsilon=2.0)
    assert found.releases[0][1].noise_sd == pytest.approx(effect.releases[0][1].noise_sd / 2, rel=1e-5)


REFUSED = {
    "a covariate": ("y ~ a + x", "covariates belong in the propensity model"),
    "another treatment": ("y ~ f", "'outcome ~ a'"),
    "an outcome that is a covariate": ("x ~ a", "must not be the treatment or a covariate"),
    "times": ("Surv(t, y) ~ a", "survfit"),
    "a time": ("t ~ a", "Binary|number|outcome"),
    "levels": ("g ~ a", "g"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_effect_is_refused_before_a_charge(study, weighting, name):
    formula, words = REFUSED[name]
    spent = study.ledger.spent
    with pytest.raises(hdp.HdpError, match=words):
        hdp.treatment_effect(formula, study, weighting, epsilon=1.0)
    assert study.ledger.spent == spent


def test_weights_of_others_or_of_nothing_are_refused_before_a_charge(study, weighting, propensity):
    spent = study.ledger.spent
    with pytest.raises(hdp.ArgumentError, match="weights\\('overlap'\\)"):
        hdp.treatment_effect("y ~ a", study, "overlap", epsilon=1.0)
    with pytest.raises(hdp.ArgumentError, match="kind"):
        propensity.weights("ipw")
    with pytest.raises(hdp.ArgumentError, match="same people"):
        hdp.treatment_effect("y ~ a", study_of(), weighting, epsilon=1.0)
    bare = study_of(public=PUBLIC.drop(columns="y"))
    with pytest.raises(hdp.ArgumentError, match="they lack y"):
        hdp.treatment_effect("y ~ a", bare, hdp.propensity(FORMULA, bare, epsilon=1.0).weights(), epsilon=1.0)
    several = study_of(PRIVATE.assign(id=np.arange(len(PRIVATE)) // 2), unit="id", max_rows_per_unit=2, n_max=1500)
    with pytest.raises(hdp.ArgumentError, match="first complete row"):
        hdp.treatment_effect("y ~ a", several, weighting, epsilon=1.0)
    of_first = hdp.propensity(FORMULA, several).fit_public().weights()
    with pytest.raises(hdp.ArgumentError, match="first complete row"):
        hdp.treatment_effect("y ~ a", study, of_first, epsilon=1.0)
    with pytest.raises(hdp.ArgumentError, match="first complete row"):
        hdpf.logit("y ~ a", study, weighting=of_first)
    assert study.ledger.spent == spent


def test_coefficients_of_other_people_are_refused_before_a_charge(study):
    """Of public people, or of one of two sites: errors would count a correlation that is not there."""
    of_one = hdp.propensity(FORMULA, hdp.Study(private=study.site, public=PUBLIC), epsilon=2.0).weights()
    of_public = hdp.propensity(FORMULA, study).fit_public().weights()
    spent = study.ledger.spent
    for epsilon in (None, 1.0):
        with pytest.raises(hdp.ArgumentError, match="this one is of public rows"):
            hdp.treatment_effect("y ~ a", study, of_public, epsilon=epsilon)
    both = hdp.Study(
        private={"one": study.site, "two": PRIVATE[:500]}, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=9)
    )
    with pytest.raises(hdp.ArgumentError, match="and two took no part in it"):
        hdp.treatment_effect("y ~ a", both, of_one, epsilon=1.0)
    assert both.sites["two"].ledger.spent.epsilon == 0
    assert study.ledger.spent == spent


def test_sites_that_treat_by_different_rules_are_warned_of(study):
    """One logistic model of all of them is wrong then, and coverage fell to 0.73 in a simulation."""
    other = PRIVATE.assign(a=np.where(PRIVATE["x"] > 0.2, "control", "drug"))
    two = hdp.Study(private={"one": PRIVATE, "two": other}, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the fit itself says of them
        unlike = hdp.propensity(FORMULA, two, epsilon=4.0).weights()
    with pytest.warns(HdpWarning, match="sites differ in who is treated"):
        hdp.treatment_effect("y ~ a", two, unlike)


def test_weights_are_of_a_plain_logistic_regression_alone(study):
    """Of others the coefficients say nothing of the chance of treatment, or not all: the effect would be wrong."""
    fits = [hdpf.linear(FORMULA, study).fit_public(), hdpf.logit(FORMULA, study, offset="o").fit_public()]
    for fit in fits:
        with pytest.raises(hdp.ArgumentError, match="without weights and offset"):
            hdp.Propensity.of(fit).weights()


def test_a_file_of_a_pooled_regression_gives_the_private_coefficients(study, propensity):
    fit = hdpf.logit(FORMULA, data=study).fit(epsilon=2.0)
    read = hdp.Propensity.from_json(fit.to_json())
    assert read.weights().record == propensity.weights().record


def test_where_treatment_is_decided_the_effect_is_refused_before_a_charge(study, propensity):
    """By public facts: coefficients that were released, at public people."""
    decided = dataclasses.replace(propensity.fit, estimate=propensity.estimate.moved(np.array([0.0, 60.0, 0.0])))
    weighting = hdp.Propensity(fit=decided).weights()
    assert weighting.propensity.people.effective_share < 0.05
    spent = study.ledger.spent
    with pytest.raises(hdp.ArgumentError, match=r"an effective size of 0\.0\d+ of the people"):
        hdp.treatment_effect("y ~ a", study, weighting, epsilon=1.0)
    assert study.ledger.spent == spent


def test_the_first_half_of_a_balance_is_not_charged_where_the_second_is_not_affordable(weighting):
    study = study_of(epsilon=3)
    w = hdp.propensity(FORMULA, study, epsilon=2.0).weights()
    spent = study.ledger.spent
    with pytest.raises(hdp.InsufficientBudget):
        hdp.describe(study, ["x", "f"], weighting=w, epsilon=1.5)
    assert study.ledger.spent == spent


def test_balance_before_and_after_is_near_that_of_the_private_people(study, weighting):
    found = hdp.describe(study, ["x", "f"], by="a", weighting=weighting, epsilon=6.0)
    table = found.tidy()
    treated = PRIVATE["a"] == "drug"
    x = PRIVATE["x"]
    unit = np.sqrt((x[treated].var() + x[~treated].var()) / 2)
    before, after = table[table["variable"] == "x"].to_dict("records")
    crude = (x[treated].mean() - x[~treated].mean()) / unit
    design = np.column_stack([np.ones(len(PRIVATE)), x, PRIVATE["f"] == "q"]).astype(float)
    e = expit(design @ np.array(weighting.record.coefficients))
    w = np.where(treated, 1 - e, e)
    left = (np.average(x[treated], weights=w[treated]) - np.average(x[~treated], weights=w[~treated])) / unit
    assert before["difference"] == pytest.approx(crude, abs=5 * before["std_error"])
    assert after["difference"] == pytest.approx(left, abs=5 * after["std_error"])
    assert abs(after["difference"]) < abs(before["difference"])
    assert found.guarantee.epsilon == 8
    assert hdp.Balance.from_json(found.to_json()).tidy().equals(table)
    assert found.disclosure()["privacy_loss"]["epsilon"] == 8.0
    assert found.plot().get_xlabel().startswith("standardised difference")


def test_a_balance_takes_no_other_groups_times_or_weights(study, weighting):
    for options in ({"by": "f"}, {"weights": "x"}, {"times": 3}, {"delta": 1e-6}):
        with pytest.raises(hdp.HdpError):
            hdp.describe(study, ["x"], weighting=weighting, epsilon=1.0, **options)
    with pytest.raises(hdp.ArgumentError, match="without Surv"):
        hdp.describe(study, ["x", "Surv(t, y)"], weighting=weighting, epsilon=1.0)


def test_overlap_is_predicted_among_raked_public_people(propensity):
    sizes = propensity.effective_size().set_index("arm")
    assert sizes.loc["both", "people"] == 1.0
    assert sizes["people"].iloc[:2].sum() == pytest.approx(1.0)
    assert (sizes["effective"] <= sizes["people"] + 1e-12).all()
    table = propensity.overlap()
    assert table[["control", "drug"]].to_numpy().sum() == pytest.approx(1.0)
    assert table["weighted"].sum() == pytest.approx(1.0)
    assert propensity.plot_overlap().get_xlabel() == "chance of treatment"
    assert "effective size" in str(propensity.summary())


def test_a_site_that_answers_an_effect_answers_a_query_from_json_alike(study, weighting):
    query = hdp.treatment_effect("y ~ a", study, weighting).query(Fraction(2))
    site = study.site
    assert isinstance(site, LocalSite)
    assert site.answer(query_from_json(query.to_json())) == site.answer(query)


def test_a_plan_of_the_whole_compares_splits_of_epsilon_and_spends_nothing(study):
    request = hdp.propensity(FORMULA, study)
    spent = study.ledger.spent
    plan = request.plan_effect("y ~ a", [0.3, 1], shares=[0.3, 0.5, 0.7])
    assert study.ledger.spent == spent
    assert plan.frame["epsilon"].tolist() == [0.3] * 3 + [1.0] * 3
    errors = plan.frame.pivot_table(index="share", columns="epsilon", values="std_error")
    assert (errors[0.3] > errors[1.0]).all()
    assert (plan.frame["noise"] < plan.frame["std_error"]).all()
    best = plan.best.set_index("epsilon")["share"]
    assert errors[1.0].idxmin() == best[1.0]
    assert "Smallest at" in str(plan)


def test_the_plan_of_the_whole_is_that_of_the_effect_once_the_propensity_is_there(study):
    request = hdp.propensity(FORMULA, study)
    whole = request.plan_effect("y ~ a", 4, shares=[0.5]).frame["std_error"].iloc[0]
    weighting = request.release(2.0).weights()
    effect = hdp.treatment_effect("y ~ a", study, weighting).plan(2.0).frame.set_index("effect")
    assert whole == pytest.approx(effect.loc["risk difference", "std_error"], rel=0.15)


def test_a_plan_of_the_whole_may_be_told_how_many_are_treated(study):
    request = hdp.propensity(FORMULA, study)
    usual = request.plan_effect("y ~ a", 2, shares=[0.5])
    rare = request.plan_effect("y ~ a", 2, shares=[0.5], treated=0.1)
    same = request.plan_effect("y ~ a", 2, shares=[0.5], treated=np.mean(PUBLIC["a"] == "drug"))
    assert same.frame["std_error"].iloc[0] == pytest.approx(usual.frame["std_error"].iloc[0], rel=1e-3)
    assert rare.frame["std_error"].iloc[0] > 1.2 * usual.frame["std_error"].iloc[0]
    assert rare.effective_share < 0.5 * usual.effective_share


def test_a_plan_counts_people_who_lack_no_cell():
    """As the fit's number of complete people says of its columns, and public rows of the outcome."""
    schema = hdp.Schema(a=SCHEMA["a"], x=hdp.Continuous(-3, 3), f=SCHEMA["f"], y=hdp.Binary())
    rows = PUBLIC.assign(y=PUBLIC["y"].where(np.arange(len(PUBLIC)) % 5 > 0))
    private = PRIVATE.assign(x=PRIVATE["x"].where(np.arange(len(PRIVATE)) % 4 > 0))
    study = hdp.Study(private=private, public=rows, schema=schema, budget=hdp.Budget(epsilon=40))
    propensity = hdp.propensity(FORMULA, study, epsilon=8.0)
    request = hdp.treatment_effect("y ~ a", study, propensity.weights())
    counted = propensity.fit.facts.records / len(PRIVATE)
    assert counted == pytest.approx(0.75, abs=0.05)
    assert request.complete == pytest.approx(0.8 * counted)
    few, all_of_them = (
        each.plan(0.5).frame["std_error"][2] for each in (request, dataclasses.replace(request, complete=1.0))
    )
    assert request.complete**-0.5 < few / all_of_them < 1.0 / request.complete
    whole = hdp.propensity(FORMULA, study)
    lacking = whole.plan_effect("y ~ a", 2, shares=[0.5], n=3000).frame["std_error"][0]
    none = hdp.Study(public=rows.dropna(), schema=schema)
    complete = hdp.propensity(FORMULA, none).plan_effect("y ~ a", 2, shares=[0.5], n=3000).frame["std_error"][0]
    assert lacking > 1.05 * complete


def test_a_plan_needs_no_private_people():
    study = hdp.Study(public=PUBLIC, schema=SCHEMA)
    plan = hdp.propensity(FORMULA, study).plan_effect("y ~ a", 1, shares=[0.5], n=3000)
    assert plan.records == 3000
    with pytest.raises(hdp.ArgumentError, match="shares"):
        hdp.propensity(FORMULA, study).plan_effect("y ~ a", 1, shares=[1.5], n=3000)
    assert hdp.propensity(FORMULA, study).plan(1, n=3000).records == 3000


def test_rows_in_parts_of_files_give_the_table_of_one_frame(study, weighting, tmp_path):
    """To the last unit, under the same noise."""
    for place, rows in enumerate(np.array_split(np.arange(len(PRIVATE)), 3)):
        PRIVATE.iloc[rows].to_parquet(tmp_path / f"part{place}.parquet")
    query = hdp.treatment_effect("k ~ a", study, weighting).query(Fraction(1, 3))
    found = []
    for private in (PRIVATE, str(tmp_path / "part*.parquet")):
        with seeded.named("parts"):
            found.append(study_of(private).site.answer(query).weights)
    assert found[0] == found[1]

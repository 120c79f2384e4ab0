"""Adjusted survival curves: what is asked, refused and stated, and curves near those of the weighted people."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import BudgetError
from hdpstats.results import SurvivalCurves

SCHEMA = hdp.Schema(
    a=hdp.Binary(labels=("control", "drug")),
    x=hdp.Continuous(-3, 3),
    g=hdp.Categorical(["p", "q"]),
    time=hdp.Duration(10, unit="years"),
    start=hdp.Duration(10),
    event=hdp.Binary(),
    cause=hdp.Categorical(["none", "relapse", "death"]),
    w=hdp.Weight(max=2),
)
OUTCOME, TIMES = "Surv(time, event) ~ a", (1, 2, 4, 6, 10)


def people(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count).clip(-3, 3)
    treated = rng.random(count) < expit(-0.3 + 0.9 * x)
    failed, censored = rng.exponential(6 * np.exp(-0.7 * x + 0.6 * treated)), rng.uniform(2, 12, count)
    happened = (failed <= censored) & (failed <= 10)
    return pd.DataFrame(
        {
            "a": np.where(treated, "drug", "control"),
            "x": x,
            "g": rng.choice(["p", "q"], count),
            "time": np.minimum(failed, censored).clip(0, 10),
            "start": 0.5,
            "event": happened.astype(int),
            "cause": np.where(happened, rng.choice(["relapse", "death"], count), "none"),
            "w": 1.0,
        }
    )


PRIVATE, PUBLIC = people(3000, 1), people(400, 2)


def study_of(private=PRIVATE, epsilon=40, **terms):
    return hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=epsilon), **terms)


@pytest.fixture(scope="module")
def study():
    return study_of()


@pytest.fixture(scope="module")
def weighting(study):
    return hdp.propensity("a ~ x", study, epsilon=2.0).weights()


@pytest.fixture(scope="module")
def curves(study, weighting):
    return hdpf.survfit(OUTCOME, study, times=TIMES, weighting=weighting).fit(epsilon=2.0)


def by_hand(weighting, private=PRIVATE):
    """Return the weighted survival (2, T) of the private people, actuarial in the intervals, at the coefficients."""
    intercept, slope = weighting.record.coefficients
    e, treated = expit(intercept + slope * private["x"]), private["a"] == "drug"
    w = np.where(treated, 1 - e, e)
    found = np.empty((2, len(TIMES)))
    for arm in (0, 1):
        S, start = 1.0, 0.0
        for place, end in enumerate(TIMES):
            own = (treated == arm) & (private["time"] > start)
            inside = own & (private["time"] <= end)
            failed = w[inside & (private["event"] == 1)].sum()
            S *= 1 - failed / (w[own].sum() - w[inside & (private["event"] == 0)].sum() / 2)
            found[arm, place], start = S, end
    return found


def test_curves_are_near_those_of_the_weighted_people_and_say_how_near(curves, weighting):
    table = curves.tidy()
    assert table["group"].unique().tolist() == ["control", "drug"]
    expected = by_hand(weighting).ravel()
    noise = np.concatenate([np.sqrt(np.diag(each.table.cumulated_noise))[1:] for each in curves.curves()])
    assert (np.abs(table["estimate"] - expected) < 6 * noise + 0.01).all()
    assert (table["conf_low"] < table["estimate"]).all()
    assert (table["estimate"] < table["conf_high"]).all()
    plain = [curve.table.cumulated_covariance[-1, -1] for curve in curves.curves()]
    assert all(np.isfinite(plain))


def test_curves_are_adjusted(curves):
    """Treated people were at higher risk: unadjusted their curve is too low."""
    apart = curves.restricted_mean(6, differences=True).iloc[0]
    treated = PRIVATE["a"] == "drug"
    mean = [PRIVATE["time"][treated == arm].clip(upper=6).mean() for arm in (False, True)]
    assert apart["estimate"] > mean[1] - mean[0] + 2 * apart["std_error"]
    assert apart["p_value"] < 0.01
    ratio = curves.logrank_test().hazard_ratios().iloc[0]
    assert ratio["conf_high"] < 1


def test_the_error_of_a_difference_counts_what_both_arms_share(curves):
    first, second = curves.curves()
    shared = first.shared_by_means(second, 6.0)
    assert shared == pytest.approx(second.shared_by_means(first, 6.0))
    errors = curves.restricted_mean(6)["std_error"]
    found = curves.restricted_mean(6, differences=True)["std_error"].iloc[0]
    assert found**2 == pytest.approx((errors**2).sum() - 2 * shared)
    assert abs(shared) > 1e-6


def test_the_guarantee_and_every_statement_count_the_propensity_too(curves):
    assert curves.guarantee.epsilon == 4
    assert {part.what: part.epsilon for part in curves.guarantee.parts} == {
        "the curves": 2,
        "the propensity model": 2,
    }
    record = curves.disclosure()
    assert record["privacy_loss"]["epsilon"] == 4.0
    assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == pytest.approx(4, abs=1e-6)
    assert record["weighting"]["formula"] == "a ~ x"
    assert [each["release_sha256"] for each in record["propensity"]] == [each.sha256 for each in curves.before]
    text = curves.methods_text()
    for words in ("epsilon = 4 in all", "overlap weights", "a ~ x", "400 public rows", "Li F, Morgan KL"):
        assert words in text
    summary = str(curves.summary())
    for words in ("4-differential privacy", "Propensity model: a ~ x", "Imbalance left:", "treatment was in doubt"):
        assert words in " ".join(summary.split())
    assert "estimation of the weights" in str(curves.logrank_test())


def test_figures_say_that_weights_are_at_risk(curves):
    shown = [each.get_text() for each in curves.plot().texts]
    assert "Weight at risk (noisy)" in shown
    assert "Number at risk (noisy)" not in shown


def test_public_people_and_models_of_all_people_do_not_stand_beside_adjusted_curves(study, curves):
    with pytest.raises(hdp.ArgumentError, match="their own"):
        curves.tidy(source="public")
    model = hdpf.hazard("Surv(time, event) ~ a", study, intervals=4).fit_public()
    with pytest.raises(hdp.ArgumentError, match="weighted people"):
        curves.compare(model)


def test_plain_curves_have_a_paragraph_too():
    plain = hdpf.survfit(OUTCOME, study_of(), times=TIMES).fit(epsilon=1.0)
    assert "Kaplan-Meier curves" in plain.methods_text()
    assert "overlap" not in plain.methods_text()
    public = hdpf.survfit("Surv(time, cause) ~ a", hdp.Study(public=PUBLIC, schema=SCHEMA), times=TIMES).fit_public()
    assert "Aalen-Johansen" in public.methods_text()
    assert "differential privacy" not in public.methods_text()


def test_the_same_curves_are_answered_from_the_ledger_and_keep_their_text(study, weighting, curves):
    spent = study.ledger.spent.epsilon
    again = hdpf.survfit(OUTCOME, study, times=TIMES, weighting=weighting).fit(epsilon=2.0)
    assert study.ledger.spent.epsilon == spent
    pd.testing.assert_frame_equal(again.tidy(), curves.tidy())
    assert again.adjusted.errors.to_dict() == curves.adjusted.errors.to_dict()
    read = SurvivalCurves.from_json(curves.to_json())
    pd.testing.assert_frame_equal(read.tidy(), curves.tidy())
    assert str(read.logrank_test()) == str(curves.logrank_test())


def test_nothing_is_spent_that_cannot_be_charged():
    study = study_of(epsilon=2)
    weighting = hdp.propensity("a ~ x", study, epsilon=1.5).weights()
    with pytest.raises(BudgetError):
        hdpf.survfit(OUTCOME, study, weighting=weighting).fit(epsilon=1.0)
    assert study.ledger.spent.epsilon == Fraction(3, 2)


def test_a_plan_is_near_what_is_reported(study, weighting, curves):
    planned = hdpf.survfit(OUTCOME, study, times=TIMES, weighting=weighting).plan([0.5, 2])
    own = planned.frame[planned.frame["epsilon"] == 2]
    np.testing.assert_allclose(own["std_error"].to_numpy() / curves.tidy()["std_error"], 1.0, atol=0.25)
    assert (own["noise"] < own["std_error"]).all()
    assert planned.tests["information"].is_monotonic_increasing
    assert planned.frame["noise"].iloc[0] > own["noise"].iloc[0]


def test_several_causes(study, weighting):
    found = hdpf.survfit("Surv(time, cause) ~ a", study, times=TIMES, weighting=weighting).fit(epsilon=2.0)
    table = found.tidy()
    at_end = table[table["time"] == 10].groupby("group")["estimate"].sum()
    np.testing.assert_allclose(at_end, 1.0, atol=0.05)
    relapse = table[table["cause"] == "relapse"]
    assert (relapse["std_error"] > 0).all()
    one = hdpf.survfit('Surv(time, cause == "relapse") ~ a', study, times=TIMES, weighting=weighting).fit(epsilon=2.0)
    assert one.causes == ("relapse",)


def test_sites_are_added_and_one_alone_has_no_errors_of_its_own(weighting):
    halves = {"one": PRIVATE.iloc[:1500], "two": PRIVATE.iloc[1500:]}
    study = study_of(private=halves)
    own = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    curves = hdpf.survfit(OUTCOME, study, times=TIMES, weighting=own).fit(epsilon=4.0)
    assert curves.sites == ("one", "two")
    assert curves.guarantee.sites == 2
    assert np.abs(curves.tidy()["estimate"] - by_hand(own).ravel()).max() < 0.06
    with pytest.raises(hdp.ArgumentError, match="all sites together"):
        curves.tidy(site="one")


def test_people_who_lack_a_cell_are_left_out(weighting):
    holes = PRIVATE.mask(np.random.default_rng(3).random(PRIVATE.shape) < 0.02)
    study = study_of(private=holes)
    own = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    curves = hdpf.survfit(OUTCOME, study, times=TIMES, weighting=own).fit(epsilon=4.0)
    expected = by_hand(own, holes.dropna(subset=["a", "x", "time", "event"]))
    assert np.abs(curves.tidy()["estimate"] - expected.ravel()).max() < 0.06


REFUSED = {
    "another group": (lambda s, w: hdpf.survfit("Surv(time, event) ~ g", s, weighting=w), "the treatment alone"),
    "a stratum": (lambda s, w: hdpf.survfit("Surv(time, event) ~ a + strata(g)", s, weighting=w), "treatment alone"),
    "one curve": (lambda s, w: hdpf.survfit("Surv(time, event) ~ 1", s, weighting=w), "the treatment alone"),
    "a start": (lambda s, w: hdpf.survfit("Surv(start, time, event) ~ a", s, weighting=w), "beginning of follow-up"),
    "case weights": (lambda s, w: hdpf.survfit(OUTCOME, s, weighting=w, weights="w"), "weights="),
    "no weighting": (lambda s, w: hdpf.survfit(OUTCOME, s, weighting=w.propensity), "weighting must be"),
    "public rows, private weights": (
        lambda s, w: hdpf.survfit(OUTCOME, s, weighting=w).fit_public(),
        r"fit_public\(\).weights",
    ),
    "private rows, public weights": (
        lambda s, w: hdpf.survfit(OUTCOME, s, weighting=hdp.propensity("a ~ x", s).fit_public().weights()).fit(1.0),
        "this one is of public rows",
    ),
    "a plan with public weights": (
        lambda s, w: hdpf.survfit(OUTCOME, s, weighting=hdp.propensity("a ~ x", s).fit_public().weights()).plan(1.0),
        "this one is of public rows",
    ),
    "a description": (
        lambda s, w: hdpf.survfit(OUTCOME, s, weighting=w).fit(description=object()),
        "left out with weighting",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_cost_nothing(name, study, weighting):
    spent = study.ledger.spent
    run, words = REFUSED[name]
    with pytest.raises((hdp.ArgumentError, hdp.FormulaError), match=words):
        run(study, weighting)
    assert study.ledger.spent == spent


def test_public_rows_must_have_the_outcome(study, weighting):
    short = hdp.Study(private=PRIVATE, public=PUBLIC.drop(columns="time"), schema=SCHEMA, budget=hdp.Budget(epsilon=5))
    own = hdp.propensity("a ~ x", short, epsilon=2.0).weights()
    with pytest.raises(hdp.ArgumentError, match="they lack time"):
        hdpf.survfit(OUTCOME, short, times=TIMES, weighting=own).fit(epsilon=1.0)
    assert short.ledger.spent.epsilon == 2


def test_public_curves_have_the_weights_of_their_own_propensity():
    public = hdp.Study(public=PUBLIC, schema=SCHEMA)
    own = hdp.propensity("a ~ x", public).fit_public().weights()
    found = hdpf.survfit(OUTCOME, public, weighting=own).fit_public()
    assert found.source == "public"
    assert found.guarantee is None
    again = SurvivalCurves.from_json(found.to_json())
    pd.testing.assert_frame_equal(again.tidy(), found.tidy())
    ratio = found.logrank_test().hazard_ratios().iloc[0]
    assert ratio["conf_high"] < 1
    assert found.restricted_mean(6, differences=True)["p_value"].iloc[0] < 0.05
    assert "robust" in str(found.logrank_test())

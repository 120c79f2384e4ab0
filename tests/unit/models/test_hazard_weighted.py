"""Hazard models of people weighted by their chance of treatment: what is asked, charged, said and refused."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.hazard.weighted import WeightedHazards

SCHEMA = hdp.Schema(
    t=hdp.Duration(6.0, complete=True),
    d=hdp.Binary(complete=True),
    k=hdp.Categorical(["none", "death", "other"], complete=True),
    s=hdp.Duration(6.0, complete=True),
    a=hdp.Binary(complete=True, labels=("control", "drug")),
    x=hdp.Continuous(-3, 3, complete=True),
    f=hdp.Categorical(["p", "q"], complete=True),
    z=hdp.Continuous(-3, 3, complete=True),
    w=hdp.Weight(2, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)
PROPENSITY, FORMULA = "a ~ x + f", "Surv(t, d) ~ a"
TERMS = {"intervals": 6, "link": "cloglog", "df": 2}


def people(count, seed):
    rng = np.random.default_rng(seed)
    x, f = rng.normal(size=count).clip(-3, 3), rng.integers(0, 2, count)
    treated = rng.random(count) < expit(-0.4 + 0.8 * x + 0.4 * f)
    event = rng.exponential(1.0 / (0.15 * np.exp(0.6 * x + 0.3 * f - 0.5 * treated)))
    censored = np.minimum(rng.uniform(1.0, 9.0, count), 6.0)
    died = event <= censored
    return pd.DataFrame(
        {
            "t": np.minimum(event, censored),
            "d": died.astype(int),
            "k": np.where(died, np.where(rng.random(count) < 0.6, "death", "other"), "none"),
            "s": 0.5 * np.minimum(event, censored),
            "a": np.where(treated, "drug", "control"),
            "x": x,
            "f": np.where(f == 1, "q", "p"),
            "z": rng.normal(size=count).clip(-3, 3),
            "w": 1.0,
            "o": 0.5,
        }
    )


PRIVATE, PUBLIC = people(3000, 1), people(300, 2)


def study_of(private=PRIVATE, public=PUBLIC, epsilon=60, schema=SCHEMA, **terms):
    return hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=epsilon), **terms)


@pytest.fixture(scope="module")
def study():
    return study_of()


@pytest.fixture(scope="module")
def weighting(study):
    return hdp.propensity(PROPENSITY, study, epsilon=2.0).weights("overlap")


@pytest.fixture(scope="module")
def model(study, weighting):
    return hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS)


@pytest.fixture(scope="module")
def fit(model):
    return model.fit(epsilon=2.0)


def weighted_by(weighting, frame):
    design = np.column_stack([np.ones(len(frame)), frame["x"], frame["f"] == "q"]).astype(float)
    e = expit(design @ np.array(weighting.record.coefficients))
    return np.where(frame["a"] == "drug", 1 - e, e)


def by_hand(weighting):
    """Return the ordinary fit to the private people by their own weights, as case weights of a public table."""
    schema = hdp.Schema(t=SCHEMA["t"], d=SCHEMA["d"], a=SCHEMA["a"], w=hdp.Weight(1, complete=True))
    own = PRIVATE[["t", "d", "a"]].assign(w=np.clip(weighted_by(weighting, PRIVATE), 0.0, 1.0))
    return hdpf.hazard(FORMULA, hdp.Study(public=own, schema=schema), weights="w", **TERMS).fit_public()


def test_coefficients_and_curves_are_those_of_the_weighted_people(study, weighting):
    """At a large epsilon: the ordinary fit by the same weights, and its curves of both arms."""
    model = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS)
    found, expected = model.fit(epsilon=25.0), by_hand(weighting)
    assert isinstance(model._spec.public, WeightedHazards)
    noise = 6.0 * np.sqrt(found.private_only.privacy[2, 2])
    assert noise < 0.25
    assert abs(found.params["a"] - expected.params["a"]) < noise
    arms = pd.DataFrame({"a": ["control", "drug"]})
    assert near(found.predict_survival(arms), expected.predict_survival(arms)["survival"])


def near(curve, survival):
    """Return whether curves are within 6 standard errors of others."""
    errors = (curve["conf_high"] - curve["conf_low"]).to_numpy() / 3.9
    return bool(np.all(np.abs(curve["survival"].to_numpy() - np.asarray(survival)) <= 6.0 * errors + 1e-12))


def test_curves_of_the_arms_are_those_of_weighted_life_tables(study, weighting):
    """Survival, had all weighted people been in an arm: limits hold what is counted without a model's help."""
    terms = TERMS | {"baseline": "dummies", "df": None}
    fit = hdpf.hazard(FORMULA, study, weighting=weighting, **terms).fit(epsilon=10.0)
    assert fit.bse["a"] < 0.15
    w, frame = weighted_by(weighting, PRIVATE), PRIVATE
    for arm in ("control", "drug"):
        own = (frame["a"] == arm).to_numpy()
        end, died = np.ceil(frame["t"].to_numpy()), frame["d"].to_numpy() == 1
        hazards = [w[own & died & (end == s)].sum() / w[own & (end >= s)].sum() for s in range(1, 7)]
        curve = fit.predict_survival(pd.DataFrame({"a": [arm]}))
        assert near(curve, np.cumprod([1.0, *(1.0 - each for each in hazards)]))


def test_only_private_people_are_fitted(fit):
    assert fit.estimate is fit.private_only
    assert (fit.pooled, fit.public_only, fit.penalised, fit.disagreement) == (None, None, None, None)
    assert list(fit.params.index) == ["baseline[1]", "baseline[2]", "a"]
    assert np.isfinite(fit.bse).all()


def test_a_statement_counts_the_propensity_model_and_the_fit(fit, weighting):
    assert (fit.guarantee.epsilon, fit.guarantee.delta) == (4, 0)
    assert [part.what for part in fit.guarantee.parts] == ["the fit", "the propensity model"]
    text = str(fit.summary())
    for words in (
        "4-differential privacy",
        "Propensity model: a ~ x + f",
        "Effective size:",
        "Imbalance left:",
        "stacked",
        "averages of the private people",
        "private outcomes given covariates to be",
    ):
        assert words in text
    assert "overlap weights" in fit.methods_text()
    record = fit.disclosure()
    assert record["privacy_loss"]["epsilon"] == 4.0
    assert record["propensity"]["releases"][0]["release_sha256"] == weighting.propensity.releases[0].sha256


def test_a_fit_asks_how_many_of_its_people_are_at_risk(fit, weighting):
    """Of its own people, not weighted, complete in what weights read, too: with a small share of its epsilon."""
    [(_, query)] = fit.released.description.queries
    [(_, release)] = fit.released.description.releases
    assert [each.name for each in query.columns] == ["a"]
    assert query.at_risk.after == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert (query.besides, query.weighting, query.epsilon) == (("d", "f", "x"), None, Fraction(1, 25))
    shares = 0.5 + np.array(release.sums[query.first_time :]) / 2**20 / len(PRIVATE)  # centred
    noise = release.sums_sd / len(PRIVATE)
    assert noise < 0.05
    np.testing.assert_allclose(shares, [np.mean(PRIVATE["t"] > s) for s in query.at_risk.after], atol=6 * noise)


def test_errors_rest_on_the_follow_up_of_private_people():
    """Most of them leave early, and public people stay: errors are those with public people who leave as they do.

    Declined, they are those of public people's follow-up, and the note says so.
    """

    def ended(frame, seed):
        early = np.random.default_rng(seed).random(len(frame)) < 0.8
        cut = early & (frame["t"] > 1.0)
        return frame.assign(t=np.where(cut, 1.0, frame["t"]), d=np.where(cut, 0, frame["d"]))

    def errors(public, **terms):
        study = study_of(ended(PRIVATE, 1), public)
        weighting = hdp.propensity(PROPENSITY, study, epsilon=8.0).weights()
        return hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS).fit(epsilon=8.0, **terms)

    told, declined, alike = errors(PUBLIC), errors(PUBLIC, describe=False), errors(ended(PUBLIC, 2))
    assert told.bse["a"] / alike.bse["a"] == pytest.approx(1.0, abs=0.1)
    assert declined.bse["a"] / alike.bse["a"] < 0.8
    assert declined.released.description is None
    assert "Intervals assume follow-up, and outcomes given covariates, distributed" in declined.estimate.note


def test_the_same_fit_is_answered_from_the_ledger(study, fit, weighting):
    spent = study.ledger.spent
    again = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS).fit(epsilon=2.0)
    assert study.ledger.spent == spent
    pd.testing.assert_series_equal(again.bse, fit.bse)
    other = hdpf.hazard(FORMULA, study, **TERMS).fit(epsilon=2.0)  # unweighted: another question
    assert study.ledger.spent.epsilon > spent.epsilon
    assert other.release != fit.release


def test_a_file_has_all_of_it(fit):
    text = fit.to_json()
    read = hdp.Result.from_json(text)
    assert read.guarantee == fit.guarantee
    assert read.released.adjustment.before == fit.released.adjustment.before
    assert str(read.summary()) == str(fit.summary())
    assert json.loads(text)["released"]["adjustment"]["formula"] == PROPENSITY
    arms = pd.DataFrame({"a": ["control", "drug"]})
    pd.testing.assert_frame_equal(read.predict_survival(arms), fit.predict_survival(arms))


@pytest.mark.parametrize("formula", [FORMULA, "Surv(t, d) ~ a * x"])
def test_a_plan_is_what_the_fit_reports(study, weighting, formula):
    """Over 24 data sets the two agree within 2 % on average; those of one vary by 5 %."""
    model = hdpf.hazard(formula, study, weighting=weighting, **TERMS)
    plan = model.plan(epsilon=3.0)
    assert "weighted by the released propensity model: follow-up, and" in str(plan).replace("\n", " ")
    assert "2.0% for averages" in str(plan)
    np.testing.assert_allclose(plan.frame["std_error"], model.fit(epsilon=3.0).bse, rtol=0.35)


def test_an_interaction_with_a_covariate_of_the_propensity(study, weighting):
    fit = hdpf.hazard("Surv(t, d) ~ a * x", study, weighting=weighting, **TERMS).fit(epsilon=3.0)
    assert list(fit.params.index) == ["baseline[1]", "baseline[2]", "a", "x", "a:x"]
    assert fit.wald_test("a:x = 0").df_constraint == 1
    assert np.isfinite(fit.bse).all()


def test_output_perturbation_counts_the_same_errors(study, weighting):
    fit = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS).fit(epsilon=4.0, mechanism="output")
    assert np.isfinite(fit.bse).all()
    assert fit.guarantee.epsilon == 6


def test_one_event_of_several_ends_follow_up_at_others():
    study = study_of()
    weighting = hdp.propensity(PROPENSITY, study, epsilon=3.0).weights()
    fit = hdpf.hazard("Surv(t, k == 'death') ~ a", study, weighting=weighting, **TERMS).fit(epsilon=8.0)
    frame = PRIVATE.assign(d=(PRIVATE["k"] == "death").astype(int))
    whole = study_of(frame, PUBLIC.assign(d=(PUBLIC["k"] == "death").astype(int)))
    again = hdp.propensity(PROPENSITY, whole, epsilon=3.0).weights()
    other = hdpf.hazard(FORMULA, whole, weighting=again, **TERMS).fit(epsilon=8.0)
    assert abs(fit.params["a"] - other.params["a"]) < 6.0 * fit.bse["a"]
    assert fit.bse["a"] == pytest.approx(other.bse["a"], rel=0.35)


def test_several_sites_share_the_propensity_model(study, weighting):
    sites = {"A": PRIVATE.iloc[:2000], "B": PRIVATE.iloc[2000:]}
    parted = study_of(sites)
    own = hdp.propensity(PROPENSITY, parted, epsilon=4.0).weights()
    fit = hdpf.hazard(FORMULA, parted, weighting=own, **TERMS).fit(epsilon=4.0)
    assert fit.guarantee.epsilon == 8
    assert fit.guarantee.sites == 2
    assert fit.heterogeneity is not None
    assert sum(each.weight for each in fit.site_facts) == pytest.approx(1.0)
    one = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS).plan(4.0).frame
    assert fit.bse["a"] < 2.0 * one["std_error"].iloc[2]
    frame = hdpf.hazard(FORMULA, parted, weighting=own, **TERMS).plan(4.0).frame
    assert fit.bse["a"] == pytest.approx(frame["std_error"].iloc[2], rel=0.35)


def test_add_or_remove_one_and_missing_cells_need_the_number_of_people():
    schema = hdp.Schema(
        t=hdp.Duration(6.0), d=hdp.Binary(), a=hdp.Binary(labels=("control", "drug")), x=hdp.Continuous(-3, 3)
    )
    private = PRIVATE[["t", "d", "a", "x"]].astype(object)
    private = private.mask(np.random.default_rng(4).random(private.shape) < 0.05)
    terms = {"private": private, "public": PUBLIC[["t", "d", "a", "x"]], "schema": schema}
    for study in (study_of(**terms), study_of(**terms, relation="add_or_remove_one", n_max=4000)):
        weighting = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
        fit = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS).fit(epsilon=4.0)
        assert fit.guarantee.epsilon == 8
        assert abs(fit.nobs - 3000 * 0.95**4) < 300
        assert fit.count is not None
        assert np.isfinite(fit.bse).all()


def refused(study, call, words):
    spent = study.ledger.spent
    with pytest.raises(hdp.HdpError, match=words):
        call()
    assert study.ledger.spent == spent


def test_what_is_not_worked_out_is_refused_before_a_charge(study, weighting):
    w = {"weighting": weighting} | TERMS
    alone = hdp.Study(private=PRIVATE, schema=SCHEMA, ledger=study.ledger)
    for call, words in (
        (lambda: hdpf.hazard(FORMULA, study, weights="w", **w), "weights must be left out"),
        (lambda: hdpf.hazard(FORMULA, study, offset="o", **w), "offset must be left out"),
        (lambda: hdpf.hazard("Surv(t, d) ~ a + offset(o)", study, **w), "offset must be left out"),
        (lambda: hdpf.hazard("Surv(s, t, d) ~ a", study, **w), "enter at time 0"),
        (lambda: hdpf.hazard("Surv(t, d) ~ a + strata(f)", study, **w), "one baseline"),
        (lambda: hdpf.hazard("Surv(t, k) ~ a", study, **w), "one kind of event"),
        (lambda: hdpf.hazard("Surv(t, d) ~ x", study, **w), "treatment a among its terms"),
        (lambda: hdpf.hazard("Surv(t, d) ~ a + z", study, **w), "z is none of them"),
        (lambda: hdpf.hazard(FORMULA, study, **w | {"weighting": "overlap"}), "weighting must be what"),
        (lambda: hdpf.hazard(FORMULA, alone, **w), "needs public rows"),
    ):
        refused(study, call, words)


def test_other_mechanisms_and_descriptions_are_refused_before_a_charge(study, weighting):
    model = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS)
    described = hdp.describe(study, ["a", "x", "f", "t", "d"], complete=True, epsilon=1)
    for options, words in (
        ({"mechanism": "clipped_newton", "delta": 1e-6}, "clipped_newton does not count"),
        ({"mechanism": "exponential", "delta": 1e-6}, "exponential does not count"),
        ({"se_share": 0.1}, "weighted by a propensity model"),
        ({"description": described}, "description must be left out"),
    ):
        refused(study, lambda options=options: model.fit(epsilon=1.0, **options), words)


def test_weights_are_those_of_the_same_people(study, weighting):
    own = hdp.propensity(PROPENSITY, study).fit_public().weights()
    refused(study, lambda: hdpf.hazard(FORMULA, study, weighting=own, **TERMS).fit(1.0), "of the same people")
    refused(study, lambda: hdpf.hazard(FORMULA, study, weighting=own, **TERMS).plan(1.0), "of the same people")
    model = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS)
    refused(study, model.fit_public, "that of the public rows")
    others = study_of()
    refused(others, lambda: hdpf.hazard(FORMULA, others, weighting=weighting, **TERMS), "charged to another account")


def test_what_counts_people_unweighted_is_refused(study, fit, weighting):
    model = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS)
    refused(study, lambda: model.evaluate(fit, epsilon=1.0), "evaluate counts each person once")
    plain = hdpf.hazard(FORMULA, study_of(people(2500, 7)), **TERMS).fit(epsilon=2.0)
    refused(study, lambda: hdp.aggregate({"here": fit, "there": plain}), "one model with the same terms")
    assert fit.public_check is None


def test_public_people_of_one_arm_stand_in_both():
    """Where hardly any public person is treated their follow-up and outcomes still tell the errors of both arms."""
    public = pd.concat([PUBLIC[PUBLIC["a"] == "control"], PUBLIC[PUBLIC["a"] == "drug"].iloc[:12]])
    study = study_of(public=public)
    weighting = hdp.propensity(PROPENSITY, study, epsilon=4.0).weights()
    fit = hdpf.hazard(FORMULA, study, weighting=weighting, **TERMS).fit(epsilon=6.0)
    assert 0.5 < fit.bse["a"] / 0.09 < 2.0
    assert abs(fit.params["a"] + 0.45) < 6.0 * fit.bse["a"]

"""Regressions of people weighted by their chance of treatment: what is asked, charged, said and refused."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.weighted import WeightedPublic

SCHEMA = hdp.Schema(
    a=hdp.Binary(complete=True, labels=("control", "drug")),
    x=hdp.Continuous(-3, 3, complete=True),
    f=hdp.Categorical(["p", "q"], complete=True),
    y=hdp.Binary(complete=True),
    k=hdp.Continuous(0, 10, complete=True),
    z=hdp.Continuous(-3, 3, complete=True),
    w=hdp.Weight(2, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)
FORMULA = "a ~ x + f"


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
    return hdp.propensity(FORMULA, study, epsilon=2.0).weights("overlap")


@pytest.fixture(scope="module")
def fit(study, weighting):
    return hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=2.0)


def by_hand(weighting, outcome, rows=PRIVATE):
    """Return the weighted means of people, untreated first, from the public coefficients."""
    design = np.column_stack([np.ones(len(rows)), rows["x"], rows["f"] == "q"]).astype(float)
    e, treated = expit(design @ np.array(weighting.record.coefficients)), rows["a"] == "drug"
    w = np.where(treated, 1 - e, e)
    return [np.average(rows[outcome][treated == arm], weights=w[treated == arm]) for arm in (False, True)]


def test_coefficients_are_those_of_the_weighted_people(study, weighting):
    """At a large epsilon: log odds of the weighted risks, the difference and the ratio of weighted means."""
    risks, means = by_hand(weighting, "y"), by_hand(weighting, "k")
    odds = np.log(np.array(risks) / (1 - np.array(risks)))
    expected = {
        "logit": ("y ~ a", [odds[0], odds[1] - odds[0]]),
        "linear": ("k ~ a", [means[0], means[1] - means[0]]),
        "poisson": ("k ~ a", [np.log(means[0]), np.log(means[1] / means[0])]),
    }
    for name, (formula, values) in expected.items():
        model = getattr(hdpf, name)(formula, study, weighting=weighting)
        found = model.fit(epsilon=12.0, replicate=3, se_share=0)
        np.testing.assert_allclose(found.params.to_numpy(), values, atol=0.05)
        assert isinstance(model._spec.public, WeightedPublic)


def test_only_private_people_are_fitted(fit):
    assert fit.estimate is fit.private_only
    assert (fit.pooled, fit.public_only, fit.penalised, fit.disagreement) == (None, None, None, None)
    assert list(fit.params.index) == ["Intercept", "a"]
    assert np.isfinite(fit.bse).all()


def test_a_statement_counts_the_propensity_model_and_the_fit(study, fit, weighting):
    assert (fit.guarantee.epsilon, fit.guarantee.delta) == (4, 0)
    assert [part.what for part in fit.guarantee.parts] == ["the fit", "the propensity model"]
    text = str(fit.summary())
    for words in (
        "4-differential privacy",
        "Propensity model: a ~ x + f",
        "Effective size:",
        "Imbalance left:",
        "stacked",
    ):
        assert words in text
    methods = fit.methods_text()
    assert "overlap weights" in methods
    assert "Robins JM" in methods
    assert "2 for the propensity model" in methods
    record = fit.disclosure()
    assert record["privacy_loss"]["epsilon"] == 4.0
    assert record["propensity"]["formula"] == FORMULA
    assert len(record["accounting"]["events"]) > len(fit.release.events)
    assert record["propensity"]["releases"][0]["release_sha256"] == weighting.propensity.releases[0].sha256


def test_the_same_fit_is_answered_from_the_ledger(study, fit, weighting):
    spent = study.ledger.spent
    again = hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=2.0)
    assert study.ledger.spent == spent
    pd.testing.assert_series_equal(again.bse, fit.bse)
    other = hdpf.logit("y ~ a", study).fit(epsilon=2.0)  # unweighted: another question
    assert study.ledger.spent.epsilon == spent.epsilon + 2
    assert other.release != fit.release


def test_a_file_has_all_of_it(fit):
    text = fit.to_json()
    read = hdp.Result.from_json(text)
    assert read.guarantee == fit.guarantee
    assert read.released.adjustment.before == fit.released.adjustment.before
    assert str(read.summary()) == str(fit.summary())
    assert json.loads(text)["released"]["adjustment"]["formula"] == FORMULA


def test_a_plan_is_what_the_fit_reports(study, fit, weighting):
    plan = hdpf.logit("y ~ a", study, weighting=weighting).plan(epsilon=2.0)
    assert "weighted by the released propensity model" in str(plan)
    planned = plan.frame
    np.testing.assert_allclose(planned["std_error"], fit.bse, rtol=0.15)


def test_an_interaction_with_a_covariate_of_the_propensity(study, weighting):
    fit = hdpf.linear("k ~ a * x", study, weighting=weighting).fit(epsilon=3.0)
    assert list(fit.params.index) == ["Intercept", "a", "x", "a:x"]
    assert fit.wald_test("a:x = 0").df_constraint == 1
    assert np.isfinite(fit.bse).all()


def test_output_perturbation_counts_the_same_errors(study, weighting):
    fit = hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=4.0, mechanism="output")
    assert np.isfinite(fit.bse).all()
    assert fit.guarantee.epsilon == 6


def test_several_sites_share_the_propensity_model():
    study = hdp.Study(
        private={"A": PRIVATE.iloc[:2000], "B": PRIVATE.iloc[2000:]},
        public=PUBLIC,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=60),
    )
    weighting = hdp.propensity(FORMULA, study, epsilon=4.0).weights()
    fit = hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=4.0)
    assert fit.guarantee.epsilon == 8
    assert fit.guarantee.sites == 2
    assert fit.heterogeneity is not None
    whole = study_of()
    one = hdpf.logit("y ~ a", whole, weighting=hdp.propensity(FORMULA, whole, epsilon=4.0).weights())
    assert fit.bse.iloc[1] < 1.6 * one.plan(4.0).frame["std_error"].iloc[1]


def test_add_or_remove_one_and_missing_cells_need_the_number_of_people():
    schema = hdp.Schema(a=hdp.Binary(labels=("control", "drug")), x=hdp.Continuous(-3, 3), y=hdp.Binary())
    private = PRIVATE[["a", "x", "y"]].astype(object)
    private = private.mask(np.random.default_rng(4).random(private.shape) < 0.05)
    terms = {"private": private, "public": PUBLIC[["a", "x", "y"]], "schema": schema, "epsilon": 60}
    for study in (study_of(**terms), study_of(**terms, relation="add_or_remove_one", n_max=4000)):
        weighting = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
        fit = hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=4.0)
        assert fit.guarantee.epsilon == 8
        assert abs(fit.nobs - 3000 * 0.95**3) < 300
        assert fit.count is not None
        assert "Records without a value of" in fit.methods_text()


def refused(study, call, words):
    spent = study.ledger.spent
    with pytest.raises(hdp.HdpError, match=words):
        call()
    assert study.ledger.spent == spent


def test_what_is_not_worked_out_is_refused_before_a_charge(study, weighting):
    w = {"weighting": weighting}
    alone = hdp.Study(private=PRIVATE, schema=SCHEMA, ledger=study.ledger)
    for call, words in (
        (lambda: hdpf.linear("k ~ a", study, loss=hdp.losses.Huber(), **w), "least squares"),
        (lambda: hdpf.mestimate("z ~ a", study, loss=hdp.losses.Quantile(0.5), **w), "least squares"),
        (lambda: hdpf.mestimate("f ~ a", study, loss=hdp.losses.Multinomial(), **w), "levels of an outcome"),
        (lambda: hdpf.logit("y ~ a", study, weights="w", **w), "weights must be left out"),
        (lambda: hdpf.poisson("k ~ a", study, offset="o", **w), "offset must be left out"),
        (lambda: hdpf.logit("y ~ x", study, **w), "treatment a among its terms"),
        (lambda: hdpf.logit("y ~ a + z", study, **w), "z is none of them"),
        (lambda: hdpf.linear("x ~ a", study, **w), "outcome 'x' must not be"),
        (lambda: hdpf.logit("y ~ a", study, weighting="overlap"), "weighting must be what"),
        (lambda: hdpf.logit("y ~ a", alone, **w), "needs public rows"),
    ):
        refused(study, call, words)


def test_other_mechanisms_and_descriptions_are_refused_before_a_charge(study, weighting):
    model = hdpf.logit("y ~ a", study, weighting=weighting)
    described = hdp.describe(study, ["a", "x", "f", "y"], complete=True, epsilon=1)
    for options, words in (
        ({"mechanism": "clipped_newton", "delta": 1e-6}, "clipped_newton does not count"),
        ({"mechanism": "exponential", "delta": 1e-6}, "exponential does not count"),
        ({"mechanism": "public_hessian"}, "public_hessian does not count"),
        ({"mechanism": "histogram"}, "histogram does not count"),
        ({"se_share": 0.1}, "weighted by a propensity model"),
        ({"description": described}, "description must be left out"),
    ):
        refused(study, lambda options=options: model.fit(epsilon=1.0, **options), words)


def test_weights_are_those_of_the_same_people(study, weighting):
    own = hdp.propensity(FORMULA, study).fit_public().weights()
    refused(study, lambda: hdpf.logit("y ~ a", study, weighting=own).fit(1.0), "of the same people")
    refused(study, lambda: hdpf.logit("y ~ a", study, weighting=own).plan(1.0), "of the same people")
    refused(study, lambda: hdpf.logit("y ~ a", study, weighting=weighting).fit_public(), "that of the public rows")
    others = study_of()
    refused(others, lambda: hdpf.logit("y ~ a", others, weighting=weighting), "charged to another account")


def test_a_weighted_fit_is_combined_with_none_of_other_people(study, fit, weighting):
    other = study_of(private=people(2500, 7))
    plain = hdpf.logit("y ~ a", other).fit(epsilon=2.0)
    refused(study, lambda: hdp.aggregate({"here": fit, "there": plain}), "one model with the same terms")
    own = hdp.propensity(FORMULA, other, epsilon=2.0).weights()
    alike = hdpf.logit("y ~ a", other, weighting=own).fit(epsilon=2.0)
    assert list(hdp.aggregate({"here": fit, "there": alike}).params.index) == ["Intercept", "a"]


def test_what_counts_people_unweighted_is_refused(study, fit, weighting):
    model = hdpf.logit("y ~ a", study, weighting=weighting)
    refused(study, lambda: model.evaluate(fit, epsilon=1.0), "evaluate counts each person once")
    twice = hdpf.logit("a ~ x + f", study).fit_public()
    assert hdp.Propensity.of(twice).weights().treatment == "a"
    refused(study, lambda: hdp.Propensity.of(fit).weights(), "need a logistic regression of the treatment")


LINEAR = hdp.Schema(
    a=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    y=hdp.Continuous(0, 12),
    v=hdp.Continuous(0, 12, complete=True),
)


def confounded(count, seed, missing=0.0):
    """Return people whose outcome is nearly decided by what decides their treatment."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count).clip(-3, 3)
    a = (rng.random(count) < expit(0.9 * x)).astype(float)
    y = (6 + 1.6 * x - 0.5 * a + 0.6 * rng.normal(size=count)).clip(0, 12)
    return pd.DataFrame({"a": a, "x": x, "v": y, "y": np.where(rng.random(count) < missing, np.nan, y)})


def test_people_without_an_outcome_balance_the_arms_of_others_less():
    """Coefficients of the propensity err by people whose outcome is not there: of 4 in 10 they balance less."""
    study = study_of(confounded(3000, 3, missing=0.6), confounded(500, 4), schema=LINEAR)
    weighting = hdp.propensity("a ~ x", study, epsilon=12.0).weights()
    whole, part = (hdpf.linear(f"{y} ~ a", study, weighting=weighting).fit(12.0) for y in ("v", "y"))
    assert abs(part.nobs / whole.nobs - 0.4) < 0.05
    assert part.bse["a"] > 2.5 * whole.bse["a"]  # 1.6 if they were as many


def test_what_sites_have_in_common_is_not_in_how_they_differ():
    people = confounded(4000, 5)
    sites = {"A": people.iloc[:2000], "B": people.iloc[2000:]}
    study = study_of(sites, confounded(500, 6), schema=LINEAR)
    fit = hdpf.linear("v ~ a", study, weighting=hdp.propensity("a ~ x", study, epsilon=12.0).weights()).fit(12.0)
    own = [each.estimate.bse["a"] for each in fit.site_facts]
    assert min(own) > 2.2 * fit.bse["a"]  # 1.4 if errors of the propensity were each site's own
    assert sum(each.weight for each in fit.site_facts) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("epsilon", "near"), [({"A": 0.7, "B": 6.0}, 0.6), ({"A": 0.001, "B": 6.0}, 0.35)], ids=["less", "nothing"]
)
def test_sites_that_told_less_stand_in_by_their_numbers_of_people(epsilon, near):
    """What a site is asked of its people follows from its epsilon: sums of unlike questions are not added.

    Nor are sums of one site divided by the people of all.
    """
    x, order = PRIVATE["x"].to_numpy(), np.argsort(PRIVATE["x"], kind="stable")
    private = {"A": PRIVATE.iloc[order[:2000]], "B": PRIVATE.iloc[order[2000:]]}  # A has the lower two thirds
    study = study_of(private)
    fit = hdp.propensity(FORMULA, study, epsilon=epsilon)
    asked = {name: query.pairs for name, query in fit.fit.released.description.queries}
    assert asked.get("A") is None
    assert asked["B"] is not None
    expected = x.mean() if "A" in asked else x[order[2000:]].mean()  # 1.1 apart
    assert float(fit.people.mean(fit.people.X[:, 1])) == pytest.approx(expected, abs=near)
    assert np.isfinite(hdpf.logit("y ~ a", study, weighting=fit.weights()).plan(1.0).frame["std_error"]).all()

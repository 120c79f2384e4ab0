"""Weighted regressions of people with several rows: one row, one weight and one outcome a person."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.weighted import dependence_of
from hdpstats.losses import LogisticLoss
from tests.unit.models.test_treatment_effect_of_people import (
    MOST,
    PRIVATE,
    PUBLIC,
    SCHEMA,
    by_hand,
    study_of,
)


@pytest.fixture(scope="module")
def study():
    terms = {"unit": "id", "max_rows_per_unit": MOST, "n_max": 3000}
    return hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=200), **terms)


@pytest.fixture(scope="module")
def weighting(study):
    return hdp.propensity("a ~ x", study, epsilon=4.0).weights()


@pytest.fixture(scope="module")
def fit(study, weighting):
    return hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=4.0)


def test_coefficients_are_those_of_persons_means(study, weighting):
    """At a large epsilon: log odds of the weighted means of persons' risks, differences and ratios of their means."""
    risks, means = np.array(by_hand(weighting, "y")), by_hand(weighting, "k")
    odds = np.log(risks / (1 - risks))
    expected = {
        "logit": ("y ~ a", [odds[0], odds[1] - odds[0]]),
        "linear": ("k ~ a", [means[0], means[1] - means[0]]),
        "poisson": ("k ~ a", [np.log(means[0]), np.log(means[1] / means[0])]),
    }
    for name, (formula, values) in expected.items():
        found = getattr(hdpf, name)(formula, study, weighting=weighting).fit(epsilon=12.0, se_share=0)
        np.testing.assert_allclose(found.params.to_numpy(), values, atol=0.06)


def one_row_each(frame, outcome):
    """Return a frame in which each person has one row: the first one, with the mean outcome."""
    first = frame.drop_duplicates("id").set_index("id")
    return first.assign(**{outcome: frame.groupby("id")[outcome].mean()}).reset_index(drop=True)


@pytest.mark.parametrize(("name", "outcome"), [("linear", "k"), ("poisson", "k")])
def test_public_fits_are_those_of_one_row_each(study, name, outcome):
    """Where no more rows are there than are averaged a study of the means has the same fit, and the same errors."""
    one = hdp.Study(public=one_row_each(PUBLIC, outcome), schema=SCHEMA)
    fits = [
        getattr(hdpf, name)(
            f"{outcome} ~ a * x", each, weighting=hdp.propensity("a ~ x", each).fit_public().weights()
        ).fit_public()
        for each in (study, one)
    ]
    np.testing.assert_allclose(fits[0].params, fits[1].params, rtol=1e-9)
    np.testing.assert_allclose(fits[0].bse, fits[1].bse, rtol=1e-9)


def test_plans_and_errors_are_those_of_one_row_each(study, weighting):
    """A study of the means, asked with the same weights, predicts the same errors."""
    one = hdp.Study(
        private=one_row_each(PRIVATE, "k"), public=one_row_each(PUBLIC, "k"), schema=SCHEMA,
        budget=hdp.Budget(epsilon=40),
    )  # fmt: skip
    other = hdp.propensity("a ~ x", one, epsilon=4.0).weights()
    plans = [
        hdpf.linear("k ~ a", each, weighting=w).plan(2.0).frame["std_error"]
        for each, w in ((study, weighting), (one, other))
    ]
    np.testing.assert_allclose(plans[0], plans[1], rtol=0.05)


def test_means_of_binary_outcomes_vary_less_than_outcomes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    X = np.column_stack([np.ones(len(x)), x])
    p, treated = 1 / (1 + np.exp(-0.5 * x)), rng.integers(0, 2, len(x)).astype(float)
    for number in (1, 3):
        y = rng.binomial(number, p) / number
        found = dependence_of(LogisticLoss(), X, X, y, treated, people=X)
        assert found.spread == pytest.approx(1 / number, abs=0.05)
        assert number > 1 or (found.spread == 1.0).all()


def test_what_is_averaged_is_stated_and_kept(study, fit, weighting):
    words = " ".join(str(fit.summary()).split())
    assert "the first complete one of each id; outcome the person's mean over 4 rows at most" in words
    assert "Protected unit: one person (at most 4 rows)" in words
    assert "one row for each person (column id): treatment and covariates are those of the first" in fit.methods_text()
    assert fit.guarantee.epsilon == 8
    read = hdp.Result.from_json(fit.to_json())
    assert str(read.summary()) == str(fit.summary())
    assert read.facts.averaged == MOST
    spent = study.ledger.spent
    again = hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=4.0)
    assert again.release == fit.release
    assert study.ledger.spent == spent


def test_a_plan_is_near_what_is_reported(study, fit, weighting):
    plan = hdpf.logit("y ~ a", study, weighting=weighting).plan(4.0).frame.set_index("term")["std_error"]
    np.testing.assert_allclose(plan, fit.bse, rtol=0.15)


def test_people_are_counted_whose_covariates_and_outcomes_are_in_different_rows():
    """A first visit with the covariates, and later ones with the outcome alone."""
    frames = []
    for frame in (PRIVATE, PUBLIC):
        later = frame.duplicated("id")
        frames.append(frame.assign(x=frame["x"].mask(later), y=frame["y"].where(later)))
    there = int(frames[0].groupby("id")["y"].count().gt(0).sum())
    study = study_of(*frames)
    weighting = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    fit = hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=4.0)
    assert fit.facts.records == pytest.approx(there, abs=8 * fit.count.noise_sd)
    assert abs(fit.params["a"] - -0.5) < 6 * fit.bse["a"]
    assert np.isfinite(fit.bse).all()


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_both_relations_and_one_row_of_each_are_answered(relation):
    study = study_of(relation=relation, max_rows_per_unit=1)
    weighting = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    fit = hdpf.linear("k ~ a", study, weighting=weighting).fit(epsilon=4.0)
    assert fit.facts.averaged == 1
    text = " ".join(str(fit.summary()).split())
    assert "over 1 row at most" in text
    assert "one person (all rows, of which one is used)" in text
    assert "all rows of one person are" in fit.guarantee.statement()
    assert "size is public" not in fit.guarantee.statement() + text
    assert "number of private records: it is public" not in str(fit.disclosure())
    assert str(hdp.Result.from_json(fit.to_json()).summary()) == str(fit.summary())
    assert abs(fit.params["a"] - 1.0) < 6 * fit.bse["a"]


@pytest.mark.filterwarnings("ignore:sites differ")
def test_several_sites_are_combined():
    people = [PRIVATE[PRIVATE["id"] % 2 == each] for each in (0, 1)]
    terms = {"unit": "id", "max_rows_per_unit": MOST, "n_max": 1500}
    study = hdp.Study(private=people, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=40), **terms)
    weighting = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    fit = hdpf.linear("k ~ a", study, weighting=weighting).fit(epsilon=4.0)
    assert (fit.sites["weight"] > 0).all()
    assert abs(fit.params["a"] - 1.0) < 6 * fit.bse["a"]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"correlation": 0.3}, "correlation must be left out"), ({"correlation": "independence"}, "correlation must be")],
)
def test_rows_do_not_count_one_by_one(study, weighting, options, words):
    with pytest.raises(hdp.ArgumentError, match=words):
        hdpf.logit("y ~ a", study, weighting=weighting, **options)


@pytest.mark.parametrize("mechanism", ["clipped_newton", "exponential", "public_hessian"])
def test_other_mechanisms_refuse_before_a_charge(study, weighting, mechanism):
    spent = study.ledger.spent
    with pytest.raises(hdp.MechanismError, match=r"weighted by their chance of treatment|several rows"):
        hdpf.logit("y ~ a", study, weighting=weighting).fit(epsilon=1.0, delta=1e-5, mechanism=mechanism)
    assert study.ledger.spent == spent


def test_a_weighting_is_of_people_with_as_many_rows(study):
    rows = PRIVATE.drop_duplicates("id")
    one = hdp.Study(private=rows, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=40))
    weighting = hdp.propensity("a ~ x", one, epsilon=4.0).weights()
    with pytest.raises(hdp.ArgumentError, match="as many rows"):
        hdpf.logit("y ~ a", study, weighting=weighting)


def test_output_perturbation_answers_too(study, weighting):
    fit = hdpf.linear("k ~ a", study, weighting=weighting).fit(epsilon=6.0, mechanism="output", se_share=0)
    assert abs(fit.params["a"] - 1.0) < 6 * fit.bse["a"]


def test_public_rows_that_do_not_say_whose_they_are_stand_for_people_each(weighting, study):
    nameless = study_of(public=pd.DataFrame(PUBLIC.drop(columns="id")))
    own = hdp.propensity("a ~ x", nameless, epsilon=4.0).weights()
    plain, named = (
        hdpf.logit("y ~ a", each, weighting=w).plan(4.0).frame["std_error"].iloc[1]
        for each, w in ((nameless, own), (study, weighting))
    )
    assert plain > named  # an outcome varies more than a person's mean

"""Weighted regressions of people with several rows: one row, one weight and one outcome a person."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.weighted import WIDER, dependence_of
from hdpstats.losses import BoundedSquares, LogisticLoss, PoissonLoss
from tests.unit.models.test_treatment_effect_of_people import (
    MOST,
    PRIVATE,
    PUBLIC,
    SCHEMA,
    by_hand,
    study_of,
    visits,
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
    """A study of the means, asked with the same weights, predicts them but for the allowance for fewer rows."""
    one = hdp.Study(
        private=one_row_each(PRIVATE, "k"), public=one_row_each(PUBLIC, "k"), schema=SCHEMA,
        budget=hdp.Budget(epsilon=40),
    )  # fmt: skip
    other = hdp.propensity("a ~ x", one, epsilon=4.0).weights()
    plans = [
        hdpf.linear("k ~ a", each, weighting=w).plan(2.0).frame["std_error"]
        for each, w in ((study, weighting), (one, other))
    ]
    assert (plans[0] > plans[1]).all()
    assert (plans[0] < 1.05 * WIDER * plans[1]).all()


def test_means_of_binary_outcomes_vary_less_than_outcomes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    X = np.column_stack([np.ones(len(x)), x])
    p, treated = 1 / (1 + np.exp(-0.5 * x)), rng.integers(0, 2, len(x)).astype(float)
    for number in (1, 3):
        y = rng.binomial(number, p) / number
        found = dependence_of(LogisticLoss(), X, X, y, treated, people=X)
        assert found.spread == pytest.approx(min(1.69 / number, 1.0), abs=0.05)  # 1.3 squared
        assert number > 1 or (found.spread == 1.0).all()


@pytest.mark.parametrize("name", ["squares", "poisson", "logistic"])
def test_errors_allow_for_private_people_of_fewer_rows(name):
    """Means of two outcomes have the variance of one; of eight 1.3 squared times their own, and it is known to bind."""
    rng = np.random.default_rng(6)
    X, a = np.column_stack([np.ones(3000), rng.normal(size=3000)]), rng.integers(0, 2, 3000).astype(float)
    draw = {
        "squares": lambda size: rng.normal(0.2 * a[:, None], 1.0, size),
        "poisson": lambda size: rng.poisson(3.0, size).astype(float),
        "logistic": lambda size: rng.binomial(1, 0.4, size).astype(float),
    }[name]
    loss = {"squares": BoundedSquares(lower=-9.0, upper=9.0), "poisson": PoissonLoss(cap=40.0, upper=40.0)}
    chosen = loss.get(name, LogisticLoss()).plain
    for number, spread, beyond in ((1, 1.0, 1.0), (2, 0.5 * 1.69, np.sqrt(1 / 0.845)), (8, 1.69 / 8, np.sqrt(8) / 1.3)):
        rows = draw((3000, number))
        y, within = rows.mean(axis=1), rows.var(axis=1)
        Z = np.column_stack([np.ones(3000), a])
        found = dependence_of(chosen, Z, X, y, a, people=X, within=within)
        assert found.spread == pytest.approx([spread, spread], rel=0.1)
        assert found.beyond == pytest.approx(beyond, rel=0.1)
        alike = dependence_of(chosen, Z, X, rows[:, 0], a, people=X, within=np.zeros(3000))
        assert alike.spread == pytest.approx([1.0, 1.0], rel=0.12)  # rows that are all the same: nothing to allow for
        assert alike.beyond == 1.0


def test_what_errors_take_of_numbers_of_rows_is_said_where_it_matters(study, weighting):
    def of_rows(number, seed):
        first = visits(600, seed).drop_duplicates("id").assign(y=0.0)
        rng = np.random.default_rng(seed)
        several = first.loc[first.index.repeat(number)]
        return several.assign(k=np.clip(4 + several["a"] + rng.normal(size=len(several)), 0, 10))

    found = {}
    for number in (1, 8):
        told = study_of(of_rows(1, 3), of_rows(number, 4), max_rows_per_unit=8)
        w = hdp.propensity("a ~ x", told, epsilon=8.0).weights()
        model = hdpf.linear("k ~ a", told, weighting=w)
        fit = model.fit(epsilon=8.0)
        found[number] = fit.bse["a"]
        said = "Had each private person one row, they would have to be up to 2."
        for text in (str(fit.summary()), str(model.plan(8.0))):
            assert (said in " ".join(text.split())) == (number == 8)
    assert found[8] > 0.5 * found[1]  # the variance of public people's means alone would make it .35


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

"""The logistic model: constructors, plan, fit and public fit."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.records.geometry import whiten
from hdpstats.records.query import unstack
from tests.support import FORMULA, PUBLIC_ROWS, RECORDS, fitted, people, study_of

pytestmark = pytest.mark.usefixtures("few_draws")

PRIVATE = people(RECORDS)
PUBLIC = people(PUBLIC_ROWS, seed=1)
TERMS = ["Intercept", "x", "log1p(k)", "g[T.b]", "g[T.c]"]


def test_a_model_names_its_formula_and_its_coefficients():
    model = hdpf.logit("y~x +log1p( k )+ g", data=study_of(PRIVATE))
    result = model.fit(epsilon=1.0, se_share=0)
    assert list(result.params.index) == TERMS
    assert repr(model) == "<Logit: y~x +log1p( k )+ g>"
    assert result.facts.response == "y"


@pytest.mark.parametrize("spelling", ["y~x+log1p( k )+g", "y ~ 1 + x + log1p(k) + g - x:g"])
def test_spellings_of_one_model_are_one_request(spelling):
    study = study_of(PRIVATE)
    first = hdpf.logit("y ~ x + log1p(k) + g", data=study).fit(epsilon=0.5, se_share=0)
    again = hdpf.logit(spelling, data=study).fit(epsilon=0.5, se_share=0)
    assert again.release == first.release
    assert again.facts.formula == spelling
    assert study.ledger.spent.epsilon == Fraction(1, 2)


def test_equal_epsilons_of_different_types_are_one_request():
    study = study_of(PRIVATE)
    model = hdpf.logit(FORMULA, data=study)
    assert model.fit(epsilon=0.5, se_share=0).release == model.fit(epsilon=Fraction(1, 2), se_share=0).release
    assert (
        model.fit(0.5, mechanism="objective", se_share=0).release
        == model.fit(0.5, mechanism="auto", se_share=0).release
    )
    assert study.ledger.spent.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("change", [{"epsilon": 0.6}, {"se_share": 0.2}, {"replicate": 2}])
def test_every_other_request_is_charged(change):
    study = study_of(PRIVATE, PUBLIC)
    model = hdpf.logit(FORMULA, data=study)
    first, second = model.fit(epsilon=0.5), model.fit(**{"epsilon": 0.5, **change})
    assert first.release != second.release
    assert study.ledger.spent.epsilon == Fraction(1, 2) + second.guarantee.epsilon


def test_a_share_is_for_a_noisy_hessian_in_either_spelling():
    model = hdpf.logit("y ~ x", data=study_of(PRIVATE))
    with_share = model.fit(epsilon=40.0, se_share=0.5)
    named = model.fit(epsilon=40.0, mechanism=hdp.mechanisms.ObjectivePerturbation(se_share=0.5))
    assert with_share.release == named.release
    assert with_share.release.hessian is not None
    assert model.fit(epsilon=40.0, se_share=0).release.hessian is None
    assert model.fit(epsilon=40.0, se_share=0).bse.isna().all()


@pytest.fixture(scope="module")
def other_covariates():
    """Private covariates spread three times as wide as the public ones."""
    rng = np.random.default_rng(5)
    private = pd.DataFrame({"x": rng.uniform(-1, 1, 4000), "y": rng.integers(0, 2, 4000)})
    public = pd.DataFrame({"x": rng.uniform(-1 / 3, 1 / 3, 400), "y": rng.integers(0, 2, 400)})
    schema = hdp.Schema(x=hdp.Continuous(-1, 1, complete=True), y=hdp.Binary(complete=True))
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=1000))
    return hdpf.logit("y ~ x", data=study), private


@pytest.mark.usefixtures("no_noise")
def test_beside_public_rows_private_hessians_and_scores_give_the_errors(other_covariates):
    model, private = other_covariates
    with_share, free = model.fit(epsilon=50.0, se_share=0.5), model.fit(epsilon=50.0, describe=False)
    assert with_share.estimate.note.startswith("Standard errors rest on noisy sums")
    assert "as the public ones" in free.estimate.note
    geometry = with_share.query.model.geometry
    rows = whiten(geometry, np.column_stack([np.ones(4000), private["x"]]))
    p = expit(rows.X @ np.array(with_share.release.theta))
    truth = rows.X.T @ ((rows.weights * p * (1 - p))[:, None] * rows.X)
    assert with_share.release.hessian is None
    asked, released = with_share.query.sandwich, with_share.release.sandwich
    own = rows.weights * p * (1 - p)
    cut = np.minimum(own, asked.curvature / np.sum(rows.X**2, axis=1))
    summed = rows.X.T @ (cut[:, None] * rows.X)
    assert np.allclose(unstack(np.array(released.hessian), 2), summed, atol=1e-3 * released.hessian_sd)
    inverse = geometry.to_raw() @ np.linalg.inv(truth) @ geometry.to_raw().T
    assert with_share.private_only.cov_sampling.loc["x", "x"] == pytest.approx(inverse[1, 1], rel=0.15)
    assert free.private_only.cov_sampling.loc["x", "x"] != pytest.approx(inverse[1, 1], rel=0.15)


def test_drowned_sums_give_way_to_the_public_rows(other_covariates):
    model, _ = other_covariates
    assert "Noise hides private people's own Hessians" in model.fit(epsilon=0.002, se_share=0.5).estimate.note


def test_what_ran_costs_no_more_than_was_offered():
    for options in ({"se_share": 0}, {"public": PUBLIC, "se_share": 0.3}):
        result = fitted(PRIVATE, **options)[2]
        assert sum(event.epsilon for event in result.release.events) <= result.query.epsilon == 1
        assert result.guarantee.epsilon == 1
        assert result.guarantee.delta == 0


def test_the_query_depends_on_private_rows_through_their_number_only():
    queries = []
    for frame in (PRIVATE, people(RECORDS, seed=9), PRIVATE.assign(x=1e308, y=1.0, g=None)):
        for public in (None, PUBLIC):
            queries.append(hdpf.logit(FORMULA, data=study_of(frame, public)).fit(epsilon=1.0, se_share=0).query)
    assert queries[0] == queries[2] == queries[4]
    assert queries[1] == queries[3] == queries[5]
    assert queries[0] != queries[1]


def test_the_public_fit_is_that_of_statsmodels():
    model = hdpf.logit("y ~ x + k", data=study_of(PRIVATE, PUBLIC), weights="w", offset="o")
    exog = sm.add_constant(PUBLIC[["x", "k"]])
    expected = sm.GLM(
        PUBLIC["y"], exog, family=sm.families.Binomial(), freq_weights=PUBLIC["w"], offset=PUBLIC["o"]
    ).fit()
    result = model.fit_public()
    np.testing.assert_allclose(result.params, expected.params, rtol=1e-8, atol=1e-10)
    assert result.guarantee is None
    assert result.ledger_entry is None


def test_the_public_fit_costs_nothing_and_needs_the_outcome():
    study = study_of(PRIVATE, PUBLIC)
    hdpf.logit(FORMULA, data=study).fit_public()
    assert study.ledger.history().empty
    for public in (None, PUBLIC.drop(columns="y")):
        with pytest.raises(hdp.ArgumentError, match="fit_public"):
            hdpf.logit(FORMULA, data=study_of(PRIVATE, public)).fit_public()


def test_an_unidentified_coefficient_of_the_public_fit_is_missing_and_the_private_fit_has_it():
    model = hdpf.logit("y ~ x + g", data=study_of(PRIVATE, PUBLIC.assign(g="a")))
    with pytest.warns(RuntimeWarning, match="do not identify is NaN"):
        alone = model.fit_public()
    assert alone.params.isna().tolist() == [False, False, True, True]
    with pytest.warns(RuntimeWarning, match="do not identify is NaN"):
        result = model.fit(epsilon=1.0)
    assert np.isfinite(result.params).all()
    assert result.public_only.params.equals(alone.params)


@pytest.mark.parametrize("public", [None, PUBLIC, PUBLIC.drop(columns="y")], ids=["box", "public", "without outcome"])
def test_a_plan_has_a_row_per_coefficient_and_epsilon_and_more_epsilon_is_better(public):
    plan = hdpf.logit(FORMULA, data=study_of(PRIVATE, public)).plan([0.5, 2.0, 0.5])
    assert list(plan.frame["term"]) == TERMS * 2
    wide = plan.frame.pivot(index="term", columns="epsilon", values="privacy")
    assert (wide[2.0] < wide[0.5]).all()
    assert plan.frame["public_only"].isna().all() == (public is None or "y" not in public)
    assert plan.records == RECORDS
    assert f"{RECORDS} private records" in str(plan)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "5", float("nan")])
def test_a_plan_refuses_a_number_of_records_that_is_none(n):
    with pytest.raises(hdp.ArgumentError, match="n must"):
        hdpf.logit(FORMULA, data=study_of(PRIVATE)).plan(1.0, n=n)


def test_arrays_and_frames_are_fitted_by_the_class():
    exog = PRIVATE[["x", "k"]].rename(columns={"k": "positive nodes"})
    options = {"exog_bounds": [(-3, 3), (0, 40)], "budget": hdp.Budget(epsilon=5)}
    assert list(hdp.Logit(PRIVATE["y"], exog, **options).fit(1.0, se_share=0).params.index) == [
        "Intercept",
        "x",
        "`positive nodes`",
    ]
    without = hdp.Logit(PRIVATE["y"].to_numpy(), exog.to_numpy(), intercept=False, **options)
    assert list(without.fit(1.0, se_share=0).params.index) == ["x1", "x2"]
    single = hdp.Logit(
        PRIVATE["y"].tolist(), PRIVATE["x"].tolist(), exog_bounds=[(-3, 3)], budget=hdp.Budget(epsilon=5)
    )
    assert list(single.fit(1.0, se_share=0).params.index) == ["Intercept", "x1"]


def test_arrays_of_public_rows_whiten():
    model = hdp.Logit(
        PRIVATE["y"],
        PRIVATE[["x"]],
        exog_bounds=[(-3, 3)],
        public_endog=PUBLIC["y"],
        public_exog=PUBLIC[["x"]],
        budget=hdp.Budget(epsilon=5),
    )
    result = model.fit(epsilon=1.0)
    assert result.public_only is not None
    assert np.isfinite(result.bse).all()


def test_arrays_that_are_declared_complete_are_charged_for_no_number_of_rows():
    options = {"exog_bounds": [(-3, 3)], "budget": hdp.Budget(epsilon=5)}
    result = hdp.Logit(PRIVATE["y"], PRIVATE[["x"]], complete=True, **options).fit(epsilon=1.0, se_share=0)
    assert result.count is None
    assert hdp.Logit(PRIVATE["y"], PRIVATE[["x"]], **options).fit(epsilon=1.0, se_share=0).count is not None
    with pytest.raises(hdp.ArgumentError, match="complete"):
        hdp.Logit(PRIVATE["y"], PRIVATE[["x"]], complete="yes", **options)


@pytest.mark.parametrize("names", [["x", "x"], ["x", "y"]])
def test_names_of_arrays_must_be_distinct(names):
    exog = pd.DataFrame(np.zeros((4, 2)), columns=names)
    with pytest.raises(hdp.ArgumentError, match="distinct"):
        hdp.Logit(np.zeros(4), exog, exog_bounds=[(0, 1), (0, 1)], budget=hdp.Budget(epsilon=1))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (None, "a pair"),
        ((-1, 1), "a pair"),
        ([(-1, 0, 1), (0, 1)], "a pair"),
        ([(0, 1)], "2 columns, 1 pairs"),
        ([(0, 1), (1, 1)], "exog_bounds of x2: lower must be below upper.*leave a constant column out"),
    ],
)
def test_bounds_of_arrays_are_a_pair_per_column(bounds, message):
    with pytest.raises(hdp.ArgumentError, match=message) as refused:
        hdp.Logit(np.zeros(4), np.zeros((4, 2)), exog_bounds=bounds, budget=hdp.Budget(epsilon=1))
    assert refused.value.argument == "exog_bounds"


def test_bounds_may_be_an_array_and_covariates_may_be_none():
    model = hdp.Logit(
        np.zeros(4), np.zeros((4, 2)), exog_bounds=np.array([[0, 1], [0, 2]]), budget=hdp.Budget(epsilon=1)
    )
    assert repr(model) == "<Logit: y ~ x1 + x2>"
    alone = hdp.Logit(np.zeros(4), np.zeros((4, 0)), exog_bounds=[], budget=hdp.Budget(epsilon=1))
    assert repr(alone) == "<Logit: y ~ 1>"


def test_public_outcomes_come_with_public_covariates():
    with pytest.raises(hdp.ArgumentError, match="public_exog must be given"):
        hdp.Logit(
            np.zeros(4), np.zeros(4), exog_bounds=[(0, 1)], public_endog=np.zeros(9), budget=hdp.Budget(epsilon=1)
        )


def test_an_outcome_must_be_declared_binary():
    with pytest.raises(hdp.MechanismError, match="proved for a binary outcome"):
        hdpf.logit("x ~ k", data=study_of(PRIVATE))


def test_few_public_rows_give_way_to_the_schema():
    few = hdpf.logit(FORMULA, data=study_of(PRIVATE, PUBLIC.iloc[:20])).fit(epsilon=1.0, se_share=0)
    assert few.public_only is None
    assert "fewer than" in few.facts.method


@pytest.mark.usefixtures("no_noise")
def test_a_fit_at_a_large_epsilon_comes_close_to_maximum_likelihood():
    """What is left at epsilon 50 without its noise: the ridge, the weights of rows and the pooling."""
    rows = people(20_000, seed=3)
    result = hdpf.logit("y ~ x", data=study_of(rows, PUBLIC)).fit(epsilon=50.0)
    expected = sm.GLM(rows["y"], sm.add_constant(rows[["x"]]), family=sm.families.Binomial()).fit()
    np.testing.assert_allclose(result.params, expected.params, atol=0.3)
    assert result.params["x"] > 0.5


def test_a_model_has_a_page_in_a_notebook():
    model = hdpf.logit(
        "event ~ age", data=hdp.Study(public=None, schema=hdp.Schema(age=hdp.Continuous(20, 90), event=hdp.Binary()))
    )
    page = model._repr_html_()
    assert "event ~ age" in page
    assert "2 coefficients: Intercept, age" in page


def test_columns_that_hardly_differ_are_kept_as_far_as_glm_keeps_them() -> None:
    """R's ``glm`` takes a column for a combination of others below 1e-11 of its length, ``lm`` below 1e-7."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    public = pd.DataFrame({"x": x, "z": x + 1e-9 * rng.normal(size=400), "y": rng.random(400) < 0.4})
    public["n"] = public["y"] + rng.random(400)
    schema = hdp.Schema(x=hdp.Continuous(-9, 9), z=hdp.Continuous(-9, 9), y=hdp.Binary(), n=hdp.Continuous(0, 3))
    study = hdp.Study(public=public, schema=schema)
    assert hdpf.logit("y ~ x + z", study).fit_public().params.notna().all()
    with pytest.warns(RuntimeWarning, match="do not identify"):
        assert hdpf.linear("n ~ x + z", study).fit_public().params.isna().tolist() == [False, False, True]
    apart = public.assign(z=(public["z"] - public["x"]) * 1e9)
    whole = hdpf.logit("y ~ x + z", hdp.Study(public=apart, schema=schema)).fit_public()
    found = hdpf.logit("y ~ x + z", study).fit_public()
    assert found.params["z"] * 1e-9 == pytest.approx(whole.params["z"], rel=1e-4)

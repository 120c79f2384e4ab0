"""The range of a plan: what fits report lies within where private people are unlike, and the plan says in what."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.models.plan import ExpectedError, Plan, smallest_epsilons

SCHEMA = hdp.Schema(x=hdp.Continuous(-4, 4), z=hdp.Continuous(-4, 4), y=hdp.Binary())


def rows(n, *, seed, correlation=0.0, spread=(1.0, 1.0), away=0.0):
    """Return people with two covariates."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2))
    Z[:, 1] = correlation * Z[:, 0] + np.sqrt(1.0 - correlation**2) * Z[:, 1]
    X = np.clip(Z * spread + away, -4, 4)
    chance = 1.0 / (1.0 + np.exp(0.5 - X @ [0.5, -0.4]))
    return pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "y": (rng.random(n) < chance).astype(int)})


PUBLIC = rows(300, seed=1)


def model_of(private=None, public=PUBLIC, *, formula="y ~ x + z", fit=hdpf.logit):
    """Return a model with people at hand, or none."""
    if private is None:
        return fit(formula, hdp.Study(public=public, schema=SCHEMA))
    return fit(formula, hdp.Study(private=private, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=20)))


@pytest.mark.parametrize(
    "unlike",
    [{}, {"correlation": 0.7}, {"spread": (0.6, 1.3), "away": 0.5}],
    ids=["alike", "correlated", "spread"],
)
def test_what_fits_report_is_in_the_range(no_noise, unlike):
    model = model_of(rows(10_000, seed=2, **unlike))
    plan, fit = model.plan(epsilon=1), model.fit(epsilon=1)
    expected = plan.frame.set_index("term")
    assert (expected["low"] <= expected["std_error"]).all()
    assert (expected["std_error"] <= expected["high"]).all()
    assert (expected["low"] <= fit.bse).all()
    assert (fit.bse <= expected["high"]).all()
    if unlike:  # the plan itself is off
        assert (fit.bse / expected["std_error"] - 1.0).abs().max() > 0.2


def test_the_words_are_those_of_the_columns_and_the_same_on_a_page():
    plan = model_of().plan(epsilon=[0.5, 2], n=5000)
    words = plan.ranges
    assert words.startswith("If private covariates correlate otherwise (one pair by 0.5), spread 0.6 to 1.3 times as")
    for epsilon, part in plan.frame[plan.frame["term"] != "Intercept"].groupby("epsilon"):
        most = part["high"] / part["std_error"]
        least = (part["low"] / part["std_error"]).min()
        largest = part["term"][most.idxmax()]
        assert f"{least:.2g} and {most.max():.2g} times these at epsilon = {epsilon:g} (largest: {largest})" in words
    assert words in str(plan)
    assert words in plan._repr_html_()


def test_with_one_covariate_nothing_correlates():
    words = model_of(formula="y ~ x").plan(epsilon=1, n=5000).ranges
    assert words.startswith("If private covariates spread 0.6")
    assert "correlate" not in words


def test_a_description_narrows_the_range_and_the_plan_says_what_it_takes(no_noise):
    private = rows(10_000, seed=2, spread=(0.6, 1.3))
    study = hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=20))
    model = hdpf.logit("y ~ x + z", study)
    given = hdp.describe(study, ["x", "z", "y"], complete=True, epsilon=1)
    alone, told = model.plan(epsilon=1), model.plan(epsilon=1, description=given)
    assert "covariates and effects are taken to be distributed as in them" in alone.assumption
    assert "re-scaled to the description: shares, means" in told.assumption
    assert "distributed as in them" not in told.assumption
    wide, narrow = ((each.frame["high"] / each.frame["low"]).to_numpy()[1:] for each in (alone, told))
    assert (narrow < 0.6 * wide).all()
    assert "spread" not in told.ranges
    fit = model.fit(epsilon=1, description=given)
    expected = told.frame.set_index("term")
    assert ((expected["low"] <= fit.bse) & (fit.bse <= expected["high"])).all()


def test_without_public_rows_residuals_count():
    found = hdpf.linear("x ~ z", hdp.Study(schema=SCHEMA)).plan(epsilon=1, n=5000)
    assert "those taken here" in found.ranges
    assert "residuals vary 0.3 to 1.5 times as much as is taken here" in found.ranges


def test_where_no_range_is_predicted_the_plan_says_so():
    found = model_of().plan(epsilon=1, delta=1e-6, n=5000, mechanism="public_hessian")
    assert found.frame["low"].isna().all()
    assert found.ranges == ""
    assert "unlike them is not predicted here" in found.assumption


def test_terms_that_are_not_estimable_are_named_and_do_not_hide_the_others():
    frame = pd.DataFrame(
        {
            "epsilon": 1.0, "mechanism": "objective", "se_share": 0.0, "term": ["a", "b", "c"],
            "std_error": [0.1, np.nan, 0.2], "sampling": [0.06, np.nan, 0.06], "privacy": [0.08, np.nan, 0.08],
            "private_only": [0.1, np.nan, 0.1], "public_only": np.nan, "reported": True,
        }
    )  # fmt: skip
    (words,) = Plan(frame=frame, records=10, declared=False, assumption="").verdicts.values()
    assert "privacy noise is 64% of" in words
    assert "not predicted to be estimable: b" in words
    only = frame.iloc[[1]]
    (words,) = Plan(frame=only, records=10, declared=False, assumption="").verdicts.values()
    assert words == "no coefficient is predicted to be estimable (mechanism objective)"


def test_no_epsilon_reaches_what_is_not_estimable():
    nothing = {"x": ExpectedError(std_error=float("nan"), noise=float("nan"))}
    (found,) = smallest_epsilons({"x": 0.1}, lambda _: nothing)
    assert found.epsilon is None
    assert str(found).endswith("is out of reach: not predicted to be estimable at epsilon = 50")


def test_squared_scores_that_a_fit_releases_tell_smaller_residuals():
    """Without an intercept a plan takes the largest residuals, and a fit that buys squared scores does not."""
    found = hdpf.linear("x ~ 0 + z", hdp.Study(public=PUBLIC[["z"]], schema=SCHEMA)).plan(epsilon=3, n=10_000)
    assert "residuals vary 0.32 to 1 times as much as is taken here" in found.ranges
    nothing = hdpf.linear("x ~ 0 + z", hdp.Study(public=PUBLIC[["z"]], schema=SCHEMA)).plan(epsilon=0.05, n=1000)
    assert "residuals" not in nothing.ranges


def test_residuals_of_outcomes_that_are_described_yet_may_vary_less_or_more():
    found = hdpf.linear("x ~ z", hdp.Study(public=PUBLIC[["z"]], schema=SCHEMA)).plan(epsilon=3, n=10_000)
    assert "residuals vary 0.3 to 1.5 times as much as is taken here" in found.ranges


def test_causes_have_a_range_and_a_sentence_on_correlations():
    rng = np.random.default_rng(5)
    schema = hdp.Schema(
        x=SCHEMA["x"], z=SCHEMA["z"], time=hdp.Duration(5), cause=hdp.Categorical(["none", "relapse", "death"])
    )

    def people(n):
        frame = rows(n, seed=n)[["x", "z"]]
        times = rng.exponential(1.0, (n, 3)) * np.array([4.0, 5.0, 6.0])
        return frame.assign(
            time=np.minimum(times.min(axis=1), 5.0), cause=np.array(["none", "relapse", "death"])[times.argmin(axis=1)]
        )

    study = hdp.Study(private=people(2000), public=people(400), schema=schema, budget=hdp.Budget(epsilon=1))
    model = hdpf.hazard("Surv(time, cause) ~ x + z", study, intervals=4)
    plan = model.plan(0.5)
    slopes = plan.frame[plan.frame["term"].str.endswith((" x", " z"))]
    assert len(slopes) == 4
    assert (slopes["high"] > 1.05 * slopes["std_error"]).all()
    assert "If private covariates correlate otherwise" in plan.ranges
    said = " ".join(model.fit(0.5).summary().as_text().split())
    assert "Correlations of private covariates were not released. Were that of a covariate with one other" in said

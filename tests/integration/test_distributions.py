"""Families of distributions: estimates, intervals, refusals before any charge, results like those of other models."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests import chance

N = 4000
SCHEMA = hdp.Schema(
    sbp=hdp.Continuous(60, 220, complete=True),
    stay=hdp.Continuous(0.05, 60, complete=True),
    visits=hdp.Continuous(0, 25, complete=True),
    died=hdp.Binary(complete=True),
    site=hdp.Categorical(["a", "b"], complete=True),
    time=hdp.Duration(100, complete=True),
)
CASES = {
    "normal": ("sbp", {"sd": (5, 40)}, [130.0, 15.0]),
    "gamma": ("stay", {"shape": (0.5, 10), "rate": (0.05, 5)}, [3.0, 0.5]),
    "exponential": ("stay", {"rate": (0.05, 2)}, None),
    "poisson": ("visits", None, [3.0]),
    "bernoulli": ("died", None, [0.3]),
}


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sbp": rng.normal(130, 15, n),
            "stay": rng.gamma(3, 2, n),
            "visits": rng.poisson(3, n),
            "died": rng.random(n) < 0.3,
            "site": "a",
            "time": 5.0,
        }
    )


def study_of(private, **options):
    declared = {"row_order": "arbitrary"} | options
    return hdp.Study(private=private, schema=SCHEMA, budget=hdp.Budget(epsilon=100), **declared)


def model_of(name, study):
    column, ranges, _ = CASES[name]
    return hdpf.distribution(f"{column} ~ 1", data=study, family=name, ranges=ranges)


@pytest.mark.entropy
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2]])
def test_a_fit_is_within_its_errors_of_the_truth_and_charges_epsilon(name):
    study = study_of(people(), public=people(60, seed=1))
    result = model_of(name, study).fit(2.0)
    # Fixed rows and noise within its reach (`chance.errors_fit`: 1e-9); only gross errors are found here.
    assert chance.errors_fit(result.params - CASES[name][2], result.cov_sampling, result.cov_privacy)
    assert study.ledger.spent.epsilon == 2
    assert (result.guarantee.epsilon, result.guarantee.delta) == (2, 0)
    assert result.public_only is not None
    interval = result.conf_int()
    assert (interval[0] < result.params).all()
    assert (interval[1] > result.params).all()


def test_the_same_fit_again_is_free_and_a_replicate_is_not():
    study = study_of(people())
    model = model_of("poisson", study)
    first = model.fit(1.0)
    assert model.fit(1.0, mechanism="statistics").release == first.release
    assert study.ledger.spent.epsilon == 1
    assert model.fit(1.0, replicate=2).release != first.release
    assert study.ledger.spent.epsilon == 2


def test_one_record_of_a_million_moves_the_mean_by_its_declared_share():
    """Without clipping the mean would move by 250."""
    spoiled = people()
    spoiled.loc[0, "sbp"] = 1e6
    model = model_of("normal", study_of(spoiled))
    assert model.fit(50.0).params["mean"] == pytest.approx(spoiled["sbp"].iloc[1:].mean(), abs=0.2)


def test_estimates_are_projected_on_their_ranges():
    """At epsilon 1e-6 the noise is 1e3 times the range of the mean."""
    study = study_of(people(50))
    for replicate in range(1, 21):
        params = model_of("gamma", study).fit(1e-6, replicate=replicate).params
        assert 0.5 <= params["shape"] <= 10
        assert 0.05 <= params["rate"] <= 5


def test_standard_errors_are_those_of_the_likelihood_and_of_the_noise():
    result = model_of("poisson", study_of(people(400))).fit(0.5)
    sampling, privacy = result.cov_sampling.iloc[0, 0], result.cov_privacy.iloc[0, 0]
    assert sampling == pytest.approx(result.params["mean"] / 400)
    assert privacy == pytest.approx(2 * (25 / (400 * 0.5)) ** 2)  # Laplace noise of scale Lambda_T / (n epsilon)
    rng = np.random.default_rng(0)
    distribution = rng.normal(0, np.sqrt(sampling), 10**6) + rng.laplace(0, 25 / 200, 10**6)
    half = (result.conf_int()[1] - result.params).iloc[0]
    assert half == pytest.approx(np.quantile(np.abs(distribution), 0.95), rel=0.03)


def test_a_result_is_read_back_and_told_like_any_other(tmp_path):
    study = study_of(people(), public=people(60, seed=1))
    result = model_of("normal", study).fit(1.0)
    again = hdp.Result.from_json(result.to_json(tmp_path / "fit.json"))
    assert again.to_json() == result.to_json()
    text = str(again.summary())
    for words in ("Distribution results, differentially private", "normal distribution", "box noise", "public only"):
        assert words in text
    assert list(result.tidy()["term"]) == ["mean", "sd"]
    assert result.disclosure()["model"]["family"] == "normal"
    assert "sbp" in result._repr_html_()
    for ask in (lambda: result.predict(people(3)), result.odds_ratios, result.baseline_hazard):
        with pytest.raises(hdp.ArgumentError):
            ask()


def test_the_fit_to_public_rows_is_maximum_likelihood():
    public = people(500, seed=3)
    result = model_of("normal", hdp.Study(public=public, schema=SCHEMA)).fit_public()
    assert result.params["mean"] == pytest.approx(public["sbp"].mean())
    assert result.params["sd"] == pytest.approx(public["sbp"].std(ddof=0))
    assert result.bse["mean"] == pytest.approx(public["sbp"].std(ddof=0) / np.sqrt(500))
    assert result.guarantee is None


def test_arrays_do_as_well():
    model = hdp.Distribution(
        people()["visits"].to_numpy(), family="poisson", endog_bounds=(0, 25), budget=hdp.Budget(epsilon=20)
    )
    assert model.fit(20.0).params["mean"] == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize(
    ("formula", "family", "ranges", "error", "words"),
    [
        ("sbp ~ died", "normal", None, hdp.FormulaError, "without covariates"),
        ("sbp ~ 0", "normal", None, hdp.FormulaError, "~"),
        ("sbp ~ 1", "cauchy", None, hdp.ArgumentError, "family"),
        ("time ~ 1", "exponential", {"rate": (0.1, 1)}, hdp.SchemaError, "Continuous"),
        ("visits ~ 1", "gamma", {"shape": (1, 2), "rate": (1, 2)}, hdp.ArgumentError, "above 0"),
        ("stay ~ 1", "gamma", {"shape": (1, 2)}, hdp.ArgumentError, "interval for 'rate'"),
        ("stay ~ 1", "exponential", {"rate": (2, 1)}, hdp.ArgumentError, "must increase"),
        ("stay ~ 1", "exponential", {"rate": (-1, 1)}, hdp.ArgumentError, "can have"),
        ("stay ~ 1", "exponential", {"scale": (1, 2)}, hdp.ArgumentError, "dictionary"),
        ("stay ~ 1", "exponential", {"rate": 3}, hdp.ArgumentError, "pair"),
        ("died ~ 1", "bernoulli", {"probability": (0, 2)}, hdp.ArgumentError, "can have"),
    ],
)
def test_what_cannot_be_is_refused(formula, family, ranges, error, words):
    with pytest.raises(error, match=words):
        hdpf.distribution(formula, data=study_of(people(30)), family=family, ranges=ranges)


def test_refusals_come_before_any_charge():
    study = study_of(people(30))
    for mechanism in ("objective", "laplace", hdp.mechanisms.ClippedNewton()):
        with pytest.raises(hdp.MechanismError):
            model_of("poisson", study).fit(1.0, mechanism=mechanism)
    with pytest.raises(hdp.MechanismError, match="for distributions"):
        hdpf.logit("died ~ sbp", data=study).fit(1.0, mechanism="statistics")
    assert study.ledger.spent.epsilon == 0
    protected = study_of(people(30), relation="add_or_remove_one", n_max=100)
    with pytest.raises(hdp.MechanismError, match="replace_one"):
        model_of("poisson", protected).fit(1.0)
    assert protected.ledger.spent.epsilon == 0
    with pytest.raises(hdp.ArgumentError, match="private"):
        model_of("poisson", hdp.Study(public=people(30), schema=SCHEMA)).fit(1.0)


BLOCKS = hdp.mechanisms.SubsampleAggregate()


@pytest.mark.covering(1)
@pytest.mark.entropy
@pytest.mark.parametrize("public", [None, 60])
@pytest.mark.parametrize("name", ["normal", "gamma", "poisson", "bernoulli"])
def test_a_fit_by_blocks_is_within_its_errors_of_the_truth_and_charges_epsilon_once(name, public):
    study = study_of(people(), public=None if public is None else people(public, seed=1))
    result = model_of(name, study).fit(2.0, mechanism=BLOCKS)
    # Fixed rows and noise within its reach (`chance.errors_fit`: 1e-9); only gross errors are found here.
    assert chance.errors_fit(result.params - CASES[name][2], result.cov_sampling, result.cov_privacy)
    assert study.ledger.spent.epsilon == 2
    assert f"{result.query.blocks} blocks" in result.facts.method
    assert hdp.Result.from_json(result.to_json()).to_json() == result.to_json()


def test_a_public_window_is_narrower_than_the_ranges_and_means_less_noise():
    public = people(60, seed=1)
    wide = model_of("normal", study_of(people())).fit(2.0, mechanism=BLOCKS)
    narrow = model_of("normal", study_of(people(), public=public)).fit(2.0, mechanism=BLOCKS)
    (low, high), _ = narrow.query.box
    assert low < public["sbp"].mean() < high
    assert high - low < 80
    assert (np.diag(narrow.cov_privacy) < np.diag(wide.cov_privacy)).all()
    whole = hdp.mechanisms.SubsampleAggregate(window=None)
    assert model_of("normal", study_of(people(), public=public)).fit(2.0, mechanism=whole).query.box == wide.query.box


def test_noise_of_blocks_is_the_range_over_blocks_and_epsilon():
    options = hdp.mechanisms.SubsampleAggregate(blocks=50)
    result = model_of("poisson", study_of(people())).fit(0.5, mechanism=options)
    assert result.cov_privacy.iloc[0, 0] == pytest.approx(2 * (25 / (50 * 0.5)) ** 2)
    sampling = result.cov_sampling.iloc[0, 0]
    assert sampling == pytest.approx(result.params["mean"] / N * 80 / 78, rel=0.05)


def test_blocks_without_a_declared_order_are_refused_before_any_charge():
    study = study_of(people(), row_order="undeclared")
    for mechanism in ("subsample", hdp.mechanisms.SubsampleAggregate()):
        with pytest.raises(hdp.MechanismError, match="row_order='arbitrary'"):
            model_of("poisson", study).fit(1.0, mechanism=mechanism)
    assert study.ledger.spent.epsilon == 0
    with pytest.raises(hdp.ArgumentError, match="row_order"):
        study_of(people(), row_order="sorted")
    for options in ({"blocks": 0}, {"window": 0.5}):
        with pytest.raises(hdp.ArgumentError):
            hdp.mechanisms.SubsampleAggregate(**options)


@pytest.mark.entropy
def test_named_people_need_no_declared_order():
    frame = people().sort_values("visits").assign(id=lambda data: [f"p{k}" for k in range(len(data))])
    study = study_of(frame, unit="id", max_rows_per_unit=1, n_max=N, row_order="undeclared")
    result = model_of("poisson", study).fit(2.0, mechanism="subsample")
    assert result.query.by == "persons"
    assert chance.errors_fit(result.params - 3.0, result.cov_sampling, result.cov_privacy)  # 1e-9
    assert study.ledger.spent.epsilon == 2
    rows = model_of("poisson", study_of(people())).fit(
        2.0, mechanism=hdp.mechanisms.SubsampleAggregate(blocks=result.query.blocks)
    )
    assert result.cov_privacy.iloc[0, 0] == pytest.approx(4 * rows.cov_privacy.iloc[0, 0])
    with pytest.raises(hdp.SiteError):
        model_of("poisson", study).fit(1.0)
    assert study.ledger.spent.epsilon == 2


@pytest.mark.parametrize("name", ["normal", "gamma", "poisson", "bernoulli"])
def test_a_plan_predicts_the_standard_errors_of_a_fit_for_free(name):
    study = study_of(people(), public=people(2000, seed=1))
    model = model_of(name, study)
    plan = model.plan([0.5, 20.0])
    assert study.ledger.spent.epsilon == 0
    found = model.fit(20.0)  # little noise: the fit is near the public rows'
    rows = plan.frame[plan.frame["epsilon"] == 20.0].set_index("term")
    assert rows["std_error"].to_numpy() == pytest.approx(found.bse.to_numpy(), rel=0.25)
    assert rows["privacy"].to_numpy() == pytest.approx(np.sqrt(np.diag(found.cov_privacy)), rel=0.25)
    assert "nothing is spent" in str(plan)
    alone = model_of(name, hdp.Study(schema=SCHEMA))
    assert (alone.plan(1.0, n=N).frame["public_only"].isna()).all()
    with pytest.raises(hdp.ArgumentError, match="n must be given"):
        alone.plan(1.0)


@pytest.mark.parametrize("name", ["normal", "poisson"])
def test_a_plan_predicts_the_standard_errors_of_blocks(name):
    model = model_of(name, study_of(people(), public=people(2000, seed=1)))
    planned = model.plan(20.0, mechanism=BLOCKS).frame
    found = model.fit(20.0, mechanism=BLOCKS)
    assert planned["std_error"].to_numpy() == pytest.approx(found.bse.to_numpy(), rel=0.25)
    assert planned["privacy"].to_numpy() == pytest.approx(np.sqrt(np.diag(found.cov_privacy)), rel=0.25)


@pytest.mark.parametrize("name", CASES)
def test_public_rows_that_are_all_equal_tell_no_errors_and_break_nothing(name):
    column = CASES[name][0]
    public = people(60).assign(**{column: 0.0 if name in ("poisson", "bernoulli") else 60.0})
    result = model_of(name, study_of(people(), public=public)).fit(2.0)
    assert np.isfinite(result.params).all()
    model = model_of(name, study_of(people(), public=public))
    assert np.isfinite(model.fit(2.0, mechanism=BLOCKS).bse).all()
    assert np.isfinite(model.plan(1.0).frame["std_error"]).all()
    assert len(model.fit_public().params) == len(result.params)


def test_exponential_times_of_zero_in_public_rows_break_nothing():
    schema = hdp.Schema(stay=hdp.Continuous(0, 60, complete=True))
    study = hdp.Study(public=pd.DataFrame({"stay": [0.0] * 30}), schema=schema)
    model = hdpf.distribution("stay ~ 1", data=study, family="exponential", ranges={"rate": (0.1, 2)})
    assert np.isinf(model.fit_public().params["rate"])
    assert model.fit_public().bse.isna().all()
    assert np.isfinite(model.plan(1.0, n=100).frame["std_error"]).all()

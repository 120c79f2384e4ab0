"""A weighted public sample: what other software does with it, its own errors, its files, and what it refuses."""

import dataclasses
import json
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.linear_model import LogisticRegression

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.histogram.estimate import HistogramWeights
from hdpstats.results.weighted_sample import sample_report
from tests.support import RECORDS, SCHEMA, people, study_of

PRIVATE, PUBLIC = people(RECORDS), people(200, seed=1)


@pytest.fixture(scope="module")
def study():
    return study_of(PRIVATE, PUBLIC)


@pytest.fixture(scope="module", params=["hybrid", "unprojected", "importance"])
def sample(request, study):
    if request.param == "hybrid":
        return hdp.hybrid_weights(study, ["y", "g"], epsilon=5)
    if request.param == "unprojected":
        return hdp.hybrid_weights(study, ["y", "g"], epsilon=5, projection="none")
    return hdp.importance_weights(study, "~ y + g + x", epsilon=5)


def test_the_frame_is_the_public_rows_and_a_weight(sample):
    frame = sample.frame
    assert list(frame.columns) == [*SCHEMA, "weight"]
    assert len(frame) == len(PUBLIC) == len(sample)
    np.testing.assert_array_equal(frame["x"], PUBLIC["x"])
    assert frame["g"].astype(str).tolist() == PUBLIC["g"].tolist()
    # Unprojected, the sum has six Laplace variables of scale 2 / 5, whose absolute values sum to 19 with 1e-14 at most.
    assert frame["weight"].sum() == pytest.approx(RECORDS, rel=0.05)
    frame["weight"] = 0.0  # a copy: nothing of the sample changes
    assert sample.frame["weight"].any()


def test_a_column_called_weight_keeps_its_name():
    schema = hdp.Schema(y=hdp.Binary(complete=True), weight=hdp.Continuous(40, 150, complete=True))
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"y": rng.integers(0, 2, 50), "weight": rng.uniform(50, 90, 50)})
    study = study_of(rows, rows.copy(), schema=schema)
    found = hdp.hybrid_weights(study, ["y"], epsilon=5)
    assert list(found.frame.columns) == ["y", "weight", "hdp_weight"]


def test_means_are_weighted_means_and_functions_may_be_given(sample):
    w = sample.weights
    assert sample.mean("x").estimate == pytest.approx(np.average(PUBLIC["x"], weights=w))
    by_function = sample.mean(lambda d: (d.g == "a") & (d.x > 0))
    assert by_function.estimate == pytest.approx(np.average((PUBLIC["g"] == "a") & (PUBLIC["x"] > 0), weights=w))
    low, high = by_function.conf_int()
    assert low < by_function.estimate < high
    assert 0 < by_function.sampling_error <= by_function.std_error


def test_levels_add_up(sample):
    table = sample.table("g")
    assert table["g"].astype(str).tolist() == ["a", "b", "c"]
    assert table["share"].sum() == pytest.approx(1)
    assert table["count"].sum() == pytest.approx(float(sample.weights.sum()))
    crossed = sample.table("g", "y")
    assert len(crossed) == 6
    assert crossed.groupby("g", observed=True)["share"].sum().to_numpy() == pytest.approx(table["share"].to_numpy())
    row = sample.mean(lambda d: d.g == "b")
    assert table["std_error"][1] == pytest.approx(row.std_error, rel=1e-6)


def test_quantiles_come_with_limits(sample):
    found = sample.quantile("x", [0.25, 0.5])
    assert found["q"].tolist() == [0.25, 0.5]
    assert (found["conf_low"] <= found["estimate"]).all()
    assert (found["estimate"] <= found["conf_high"]).all()
    assert set(found["estimate"]) <= set(PUBLIC["x"])


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        ("z", "no column 'z'"),
        ("g", "must give numbers"),
        (lambda d: 3.0, "one number per row"),
        (lambda d: d.x.where(d.x > 0), "finite"),
        (3, "a column's name or a function"),
    ],
)
def test_what_is_no_number_per_row_is_refused(sample, of, reason):
    with pytest.raises(ArgumentError, match=reason):
        sample.mean(of)


def test_a_table_of_too_many_values_is_refused(study):
    found = hdp.hybrid_weights(study, ["y"], epsilon=5)
    with pytest.raises(ArgumentError, match="columns must be"):
        found.table()
    with pytest.raises(ArgumentError, match="not 'z'"):
        found.table("z")
    many = study_of(people(300), people(300, seed=2))
    with pytest.raises(ArgumentError, match="300 combinations"):
        hdp.hybrid_weights(many, ["y"], epsilon=5).table("x")


def test_logit_on_weighted_rows_is_that_of_statsmodels(sample):
    if (sample.weights < 0).any():
        pytest.fail("epsilon 5 leaves no cell of these below 0")
    fit = sample.fit(hdpf.logit, "y ~ x + g")
    frame = sample.frame.assign(g=sample.frame["g"].astype(str))
    model = smf.glm("y ~ x + g", frame, family=sm.families.Binomial(), freq_weights=frame["weight"])
    expected = model.fit()
    np.testing.assert_allclose(
        fit.params.to_numpy(), expected.params[["Intercept", "x", "g[T.b]", "g[T.c]"]], rtol=1e-6
    ) if (list(fit.params.index) == ["Intercept", "x", "g[T.b]", "g[T.c]"]) else pytest.fail(
        f"other terms: {list(fit.params.index)}"
    )
    assert fit.guarantee == sample.guarantee
    assert "weighted" in fit.facts.method


def test_scikit_learn_takes_the_weights(sample):
    frame = sample.frame
    ours = sample.fit(hdpf.logit, "y ~ x + k")
    theirs = LogisticRegression(C=1e8, tol=1e-8, max_iter=1000).fit(
        frame[["x", "k"]], frame["y"], sample_weight=frame["weight"]
    )
    np.testing.assert_allclose(ours.params[["x", "k"]].to_numpy(), theirs.coef_[0], rtol=1e-3, atol=1e-4)


def test_linear_models_are_weighted_least_squares(sample):
    ours = sample.fit(hdpf.linear, "x ~ k + y")
    frame = sample.frame
    theirs = sm.WLS(frame["x"], sm.add_constant(frame[["k", "y"]]), weights=frame["weight"]).fit()
    np.testing.assert_allclose(ours.params.to_numpy(), theirs.params.to_numpy(), rtol=1e-7)


@pytest.mark.wide
def test_hazards_are_fitted_to_weighted_rows():
    trial = hdp.simulate.eight_interval_trial(400, seed=1)
    other = hdp.simulate.eight_interval_trial(300, seed=2)
    study = study_of(trial.frame, other.frame, schema=trial.schema)
    found = hdp.importance_weights(study, "~ x1 + x2", epsilon=5)
    formula = "Surv(time, event) ~ x1 + x2"
    fit = found.fit(hdpf.hazard, formula, intervals=8, baseline="dummies")
    repeated = np.maximum(np.rint(found.weights * 1000), 0).astype(int)
    whole = other.frame.loc[other.frame.index.repeat(repeated)]
    again = hdpf.hazard(
        formula, data=hdp.Study(public=whole, schema=trial.schema), intervals=8, baseline="dummies"
    ).fit_public()
    np.testing.assert_allclose(fit.params, again.params, atol=2e-3)
    assert (fit.bse > 0).all()


def test_errors_of_a_fit_are_the_sandwich_of_the_distribution(sample):
    fit = sample.fit(hdpf.logit, "y ~ x")
    X = np.column_stack([np.ones(len(PUBLIC)), PUBLIC["x"]])
    p = 1 / (1 + np.exp(-X @ fit.params.to_numpy()))
    w = sample.weights.to_numpy()
    scores = (p - PUBLIC["y"].to_numpy())[:, None] * X
    inverse = np.linalg.inv((X * (w * p * (1 - p))[:, None]).T @ X)
    sampling, privacy = sample.distribution.covariance(scores)
    np.testing.assert_allclose(fit.cov_sampling, inverse @ sampling @ inverse, rtol=1e-6)
    if sample.distribution.linear:
        np.testing.assert_allclose(fit.cov_privacy, inverse @ privacy @ inverse, rtol=1e-6)


def test_negative_weights_solve_the_same_equations(study):
    found = hdp.hybrid_weights(study, ["y"], epsilon=5, projection="none")
    rows = people(120, seed=4)
    counts = np.random.default_rng(5).integers(-2, 9, 120)
    distribution = HistogramWeights(
        counts=counts,
        rate=Fraction(1),
        cell=np.arange(120),
        records=int(counts.sum()),
        projection="none",
        seed="0" * 64,
    )
    assert (distribution.weights < 0).sum() > 10
    fit = dataclasses.replace(found, rows=rows, distribution=distribution).fit(hdpf.logit, "y ~ x")
    X = np.column_stack([np.ones(120), rows["x"]])
    p = 1 / (1 + np.exp(-X @ fit.params.to_numpy()))
    left = X.T @ (distribution.weights * (p - rows["y"]))
    assert np.abs(left).max() < 1e-6 * float(np.abs(distribution.weights).sum())


def test_equations_without_a_solution_are_said_to_have_none(study):
    found = hdp.hybrid_weights(study, ["y"], epsilon=5, projection="none")
    rows = people(4).assign(y=[0.0, 0.0, 1.0, 1.0])  # the share of 1 would have to be 40 / 20
    distribution = HistogramWeights(
        counts=np.array([-25, 5, 20, 20]),
        rate=Fraction(1),
        cell=np.arange(4),
        records=20,
        projection="none",
        seed="0" * 64,
    )
    hopeless = dataclasses.replace(found, rows=rows, distribution=distribution)
    with pytest.raises(hdp.HdpError, match="projection='simplex'"):
        hopeless.fit(hdpf.logit, "y ~ 1")


def test_only_models_of_this_package_can_be_fitted(sample):
    with pytest.raises(ArgumentError, match="constructor of hdpstats"):
        sample.fit(lambda formula, data: object(), "y ~ x")


def test_a_sample_survives_a_file(sample, tmp_path):
    text = sample.to_json(tmp_path / "sample.json")
    assert json.loads(text)["format"] == 3
    again = hdp.WeightedSample.from_json(tmp_path / "sample.json")
    pd.testing.assert_frame_equal(again.frame, sample.frame)
    assert again.mean("x") == sample.mean("x")
    assert again.to_json() == text
    assert again.facts == sample.facts
    assert again.ledger_entries == sample.ledger_entries
    assert str(again) == str(sample)


def test_a_file_that_does_not_state_what_a_description_cost_is_refused(sample):
    """Files of format 2 have no description, also where the weights were calibrated to one."""
    text = sample.to_json().replace('"format":3', '"format":2', 1)
    with pytest.raises(ArgumentError, match=r"format 3, not 2; .*make it anew"):
        hdp.WeightedSample.from_json(text)


@pytest.mark.parametrize("text", ["{}", '{"format": 1}', '{"format": 9, "rows": {}}', '{"format": 3, "rows": 3}'])
def test_another_file_is_no_sample(text):
    with pytest.raises(ArgumentError, match="weighted sample"):
        hdp.WeightedSample.from_json(text)


def test_csv_holds_every_digit(sample, tmp_path):
    sample.to_csv(tmp_path / "rows.csv")
    again = pd.read_csv(tmp_path / "rows.csv")
    np.testing.assert_allclose(again["weight"], sample.weights, rtol=1e-15)


def test_diagnostics(sample):
    w = sample.weights.to_numpy()
    assert sample.effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert sample.max_weight == pytest.approx(w.max() / w.sum())
    assert 0 < sample.overlap <= 1
    assert f"effective size {sample.effective_size:.0f}" in repr(sample)
    page = sample._repr_html_()
    assert "Effective size" in page
    assert "differentially private" in page


def test_plots(sample):
    axes = sample.plot_weights()
    assert "effective size" in axes.get_title()
    axes = sample.plot_balance()
    assert "y" in [label.get_text() for label in axes.get_yticklabels()]
    plt.close("all")


def test_nothing_to_balance_is_said(sample):
    facts = dataclasses.replace(sample.facts, columns=("x",))
    still = dataclasses.replace(sample, rows=sample.rows.assign(x=1.0), facts=facts)
    with pytest.raises(ArgumentError, match="nothing to balance"):
        still.plot_balance()


def test_the_balance_is_the_shift_of_means(sample):
    table = sample.balance().set_index("feature")
    levels = [f"g = {level}" for level in "abc"]
    assert [name for name in table.index if name.startswith("g")] == levels
    assert table.loc["y", "public"] == pytest.approx(PUBLIC["y"].mean())
    assert table.loc["y", "private"] == pytest.approx(sample.mean("y").estimate)
    spread = PUBLIC["y"].std(ddof=0)
    assert table.loc["y", "difference"] == pytest.approx((sample.mean("y").estimate - PUBLIC["y"].mean()) / spread)
    assert table.loc["y", "std_error"] == pytest.approx(sample.mean("y").std_error / spread, rel=1e-6)
    assert table.loc[levels, "private"].sum() == pytest.approx(1)
    narrow = sample.balance(alpha=0.5).set_index("feature")
    assert (narrow["conf_low"] > table["conf_low"]).all()
    with pytest.raises(ArgumentError, match="alpha"):
        sample.balance(alpha=2)


def test_the_page_says_what_the_summary_says_and_escapes(sample):
    facts = dataclasses.replace(sample.facts, notes=("<b>a note</b>",))
    page = dataclasses.replace(sample, facts=facts)._repr_html_()
    assert "&lt;b&gt;a note" in page
    assert "<b>" not in page
    assert facts.method in page
    assert f"{sample.effective_size:.1f} of {len(sample)} rows" in page
    assert "What this guarantees" in page
    assert f"epsilon = {float(sample.guarantee.epsilon):g}" in page
    for name, shift in sample.balance()[["feature", "difference"]].itertuples(index=False):
        assert name in page
        assert f"{shift:+.2f}" in page


def test_a_long_table_of_shifts_is_to_be_opened(sample):
    table = pd.concat([sample.balance()] * 6)
    assert "<summary>What the weights change" in sample_report(sample, table).page()
    assert "<summary>What the weights change" not in sample_report(sample, sample.balance()).page()
    assert "What the weights change" not in sample_report(sample, table[:0]).page()


def test_the_disclosure_record_counts_every_release(study):
    found = hdp.hybrid_weights(study, ["y", "g", "k"], epsilon=3, select=True, distance_share=0.1)
    record = found.disclosure()
    assert record["privacy_loss"]["epsilon"] == 3
    assert len(record["release_sha256"]) == len(record["ledger"]) == len(found.releases) == 3
    assert record["public_sha256"] == study.public.sha256
    json.dumps(record)


def test_nothing_is_as_long_as_the_private_records(sample):
    shapes = [np.shape(sample.frame), np.shape(sample.distribution.weights), np.shape(sample.distribution.draws(7))]
    assert all(RECORDS not in shape for shape in shapes)
    text = sample.to_json()
    for value in PRIVATE["x"].head(20):
        assert repr(float(value)) not in text

"""Average effects: their definition, the drawn errors', weights, refusals; statsmodels' marginal effects."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ArgumentError, FormulaError, SchemaError
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.estimate import ErrorDistribution
from hdpstats.results import FittedRows, Result
from hdpstats.results.population import population
from hdpstats.schema.public import PublicTable
from tests.unit.results.conftest import make_hazard


@pytest.fixture
def people():
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "age": rng.uniform(30, 80, 60),
            "size": rng.choice(["<=20", "20-50", ">50"], 60),
            "nodes": rng.integers(0, 20, 60),
            "o": rng.uniform(-1, 1, 60),
            "w": rng.uniform(0, 2, 60),
        }
    )


def test_risks_are_standardised_over_the_rows(public_result, people):
    found = public_result.average_effects("size", over=people, values=("20-50", ">50"), weights="w")
    beta, w = public_result.params, people["w"] / people["w"].sum()
    eta = (
        beta["Intercept"] + beta["age"] * people["age"] + beta["log1p(nodes)"] * np.log1p(people["nodes"]) + people["o"]
    )
    low, high = expit(eta + beta["size[T.20-50]"]), expit(eta + beta["size[T.>50]"])
    assert found.standardised["estimate"].tolist() == pytest.approx([w @ low, w @ high])
    table = found.frame.set_index("effect")
    difference = w @ high - w @ low
    assert table.loc["risk difference", "estimate"] == pytest.approx(difference)
    assert table.loc["risk ratio", "estimate"] == pytest.approx((w @ high) / (w @ low))
    spread = np.sqrt(np.sum((w * (high - low - difference)) ** 2))
    assert table.loc["risk difference", "frame_error"] == pytest.approx(spread)
    assert "60 rows of the given frame, weighted" in str(found)


def test_limits_are_those_of_the_drawn_errors_of_the_contrast(public_result, people):
    rng = np.random.default_rng(4)
    draws = 0.05 * rng.standard_t(4, size=(4000, 1)) * rng.normal(size=(4000, 5))
    covariance = draws.T @ draws / len(draws)
    estimate = replace(
        public_result.estimate, sampling=covariance, distribution=ErrorDistribution.of_draws(draws), label="pooled"
    )
    result = replace(public_result, estimate=estimate, pooled=estimate)
    found = result.average_effects("age", over=people, values=(40, 60), alpha=0.1, estimate="pooled")
    rows = found.effects.gradient
    half = np.quantile(np.abs(draws @ rows.T), 0.9, axis=0)
    table = found.frame
    assert table["contrast"].unique().tolist() == ["60 - 40"]
    assert table["conf_high"][0] - table["estimate"][0] == pytest.approx(half[0], rel=1e-3)
    assert np.log(table["conf_high"][1] / table["estimate"][1]) == pytest.approx(half[1], rel=1e-3)
    assert table["std_error"][0] == pytest.approx(np.sqrt(rows[0] @ covariance @ rows[0]), rel=1e-6)


def test_public_rows_are_those_of_the_fit_and_no_file_has_them(public_result, people):
    with pytest.raises(ArgumentError, match="no public rows at hand"):
        public_result.average_effects("age")
    table = PublicTable.from_frame(people.drop(columns="w"), public_result.schema, required=["age"])
    result = replace(public_result, public_rows=FittedRows(table=table))
    pd.testing.assert_frame_equal(
        result.average_effects("age").frame, public_result.average_effects("age", over=people).frame
    )
    read = Result.from_json(result.to_json())
    with pytest.raises(ArgumentError, match="over=frame"):
        read.average_effects("age")


def test_incomplete_rows_are_left_out_but_for_the_variable_itself(public_result, people):
    holes = people.copy()
    holes.loc[0, "nodes"] = np.nan
    holes.loc[1, "size"] = None
    ours = public_result.average_effects("size", over=holes).frame
    pd.testing.assert_frame_equal(ours, public_result.average_effects("size", over=people.drop(index=0)).frame)
    with pytest.raises(ArgumentError, match="over must have a row"):
        public_result.average_effects("size", over=people.assign(nodes=np.nan))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variable": "event3"}, "variable must be one of"),
        ({"values": ("<=20",)}, "two or more values"),
        ({"values": "ab"}, "two or more values"),
        ({"values": ("<=20", "huge")}, "'huge' is no level of size"),
        ({"variable": "age", "values": (40, "x")}, "values must be"),
        ({"variable": "age", "values": (40, np.inf)}, "values must be"),
        ({"times": 3}, "times must be left out"),
        ({"cause": "death"}, "cause must be left out"),
        ({"over": 3}, "over must be"),
        ({"weights": "v"}, "no column 'v'"),
        ({"weights": [1.0]}, "weights must be 60"),
        ({"weights": -np.ones(60)}, "weights must be 60"),
        ({"weights": np.zeros(60)}, "weight above 0"),
        ({"estimate": "pooled"}, "no estimate 'pooled'"),
        ({"alpha": 2}, "alpha must be"),
    ],
)
def test_bad_arguments_are_refused(public_result, people, given, message):
    with pytest.raises(ArgumentError, match=message):
        public_result.average_effects(**({"variable": "size", "over": people} | given))


def test_rows_without_a_column_are_refused(public_result, people):
    with pytest.raises(SchemaError, match="nodes"):
        public_result.average_effects("size", over=people.drop(columns="nodes"))
    with pytest.raises(ArgumentError, match="in which the derivative is taken"):
        public_result.average_effects("age", over=people.drop(columns="age"))


def area(model, frame, upto):
    """The mean over rows of the area under curves of constant hazards: logarithmic means of the ends of pieces."""
    ends = np.array([0.0, *(cut for cut in model.facts.hazard.grid.cuts if cut < upto), upto])
    S = model.predict_survival(frame, ends, ci=False)["survival"].to_numpy().reshape(len(frame), -1)
    pieces = (S[:, :-1] - S[:, 1:]) / np.log(S[:, :-1] / S[:, 1:]) * np.diff(ends)
    return pieces.sum(axis=1).mean()


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("cause", ["relapse", "death"])
def test_hazards_have_differences_of_risk_and_of_restricted_time(people, cause):
    model, times = make_hazard(causes=("relapse", "death")), np.array([1.0, 3.0, 10.0])
    found = model.average_effects("size", over=people, values=("<=20", ">50"), times=times, cause=cause)
    table, h = found.frame, 1e-5

    def by_hand(values):
        other = replace(model, estimate=replace(model.estimate, values=values))
        at = [people.assign(size=level) for level in ("<=20", ">50")]
        risks = [
            other.predict_incidence(frame, times, ci=False).groupby(["cause", "time"])["incidence"].mean()[cause]
            for frame in at
        ]
        areas = np.array([[area(other, frame, time) for time in times] for frame in at])
        return np.concatenate([risks[1] - risks[0], areas[1] - areas[0]])

    wanted = table[table["effect"].isin(["risk difference", "restricted mean difference"])]
    wanted = pd.concat([wanted[wanted["effect"] == each] for each in ("risk difference", "restricted mean difference")])
    theta = model.estimate.values
    assert wanted["estimate"].tolist() == pytest.approx(by_hand(theta), abs=1e-10)
    gradient = np.array([(by_hand(theta + h * e) - by_hand(theta - h * e)) / (2 * h) for e in np.eye(len(theta))]).T
    errors = np.sqrt(np.einsum("ij,jk,ik->i", gradient, model.cov_params(), gradient))
    assert wanted["std_error"].tolist() == pytest.approx(errors, rel=1e-5)
    assert "years" in str(model.facts.hazard.unit_of_time)


def test_slopes_are_statsmodels(public_result, people):
    rng = np.random.default_rng(6)
    X = np.column_stack(
        [np.ones(60), people["age"], people["size"] == "20-50", people["size"] == ">50", np.log1p(people["nodes"])]
    ).astype(float)
    theirs = sm.Logit((rng.random(60) < 0.5).astype(float), X).fit(disp=0)
    estimate = replace(public_result.estimate, values=theirs.params, sampling=theirs.cov_params())
    result = replace(public_result, estimate=estimate)
    flat = people.assign(o=0.0)
    settings = [(at, method, False) for at in ("overall", "mean", "median", "zero") for method in ("dydx", "eydx")]
    settings += [("overall", "eyex", False), ("mean", "dyex", False), ("overall", "dydx", True), ("mean", "eydx", True)]
    for at, method, dummy in settings:
        ours = result.get_margeff(at, method, dummy=dummy, over=flat)
        reference = theirs.get_margeff(at=at, method=method, dummy=dummy)
        np.testing.assert_allclose(ours.margeff, reference.margeff, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(ours.margeff_se, reference.margeff_se, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.summary_frame(0.1), reference.summary_frame(0.1), rtol=1e-7)
    assert list(ours.summary_frame()) == list(reference.summary_frame())
    with pytest.raises(ArgumentError, match="dummy=True"):
        result.get_margeff(method="eyex", dummy=True, over=flat)
    with pytest.raises(ArgumentError, match="average_effects"):
        make_hazard().get_margeff(over=flat)


def test_predictions_have_a_covariance(public_result, people):
    frame = people.head(3).reset_index(drop=True)
    frame.loc[1, "age"] = np.nan
    predicted, covariance = public_result.predict(frame, cov=True)
    pd.testing.assert_series_equal(predicted, public_result.predict(frame))
    assert covariance.loc[1].isna().all()
    effect = public_result.average_effects("size", over=frame, values=("<=20", ">50")).standardised
    _, square = public_result.predict(frame.assign(size=">50"), cov=True)
    known = [0, 2]
    assert np.sqrt(square.loc[known, known].to_numpy().mean()) == pytest.approx(effect["std_error"][1], rel=1e-9)
    with pytest.raises(ArgumentError, match="cov=True needs"):
        public_result.predict(frame, cov=True, ci=True)


def test_rows_are_raked_to_a_description():
    people = hdp.datasets.load_rotterdam()
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        hormon=hdp.Binary(complete=True),
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        event3=hdp.Binary(),
    )
    study = hdp.Study(private=people, public=hdp.datasets.load_gbsg(), schema=schema, budget=hdp.Budget(epsilon=100))
    described = hdp.describe(study, ["age", "size", "hormon"], epsilon=20)
    result = hdpf.logit("event3 ~ age + hormon + size", data=study).fit_public()
    rows = population(result, result.public_rows, described)
    assert rows.weights @ rows.frame["age"] / rows.weights.sum() == pytest.approx(people["age"].mean(), abs=0.5)
    large = rows.weights @ (rows.frame["size"] == ">50") / rows.weights.sum()
    assert large == pytest.approx((people["size"] == ">50").mean(), abs=0.02)
    found = result.average_effects("hormon", over=described)
    assert found.population == "686 public rows raked to a description"
    exact = result.average_effects("hormon", over=people)
    public = result.average_effects("hormon")
    near, far = (abs(each.frame["estimate"][0] - exact.frame["estimate"][0]) for each in (found, public))
    assert near < far
    blurred = result.average_effects("hormon", over=hdp.describe(study, ["age", "size", "hormon"], epsilon=0.02))
    for noisy, clear in ((blurred.effects, found.effects), (blurred.means, found.means)):
        assert (np.diag(noisy.described) > 10.0 * np.diag(clear.described)).all()
    linear = result.estimate.linear(blurred.effects.gradient, ("a", "b", "c"))
    own = np.sqrt(np.diag(linear.sampling + blurred.effects.described)[0])
    assert blurred.frame["std_error"][0] == pytest.approx(own)  # the noise of the description counts
    slopes = [result.get_margeff(over=each).margeff_se for each in (described, "public")]
    assert not np.allclose(*slopes)
    groups = hdp.describe(study, ["age"], by="hormon", epsilon=20)
    with pytest.raises(ArgumentError, match="without by="):
        result.average_effects("hormon", over=groups)
    with pytest.raises(ArgumentError, match="weights must be left out"):
        result.average_effects("hormon", over=described, weights="age")


def test_rows_are_raked_where_names_of_columns_are_no_plain_words():
    names = {"age": "age at entry", "size": "tumour-size"}
    people, public = (
        each.rename(columns=names)[[*names.values(), "event3"]]
        for each in (hdp.datasets.load_rotterdam(), hdp.datasets.load_gbsg())
    )
    schema = hdp.Schema(
        {
            "age at entry": hdp.Continuous(20, 90, complete=True),
            "tumour-size": hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
            "event3": hdp.Binary(),
        }
    )
    study = hdp.Study(private=people, public=public, schema=schema, budget=hdp.Budget(epsilon=100))
    described = hdp.describe(study, list(names.values()), epsilon=20)
    result = hdpf.logit("event3 ~ `age at entry` + `tumour-size`", data=study).fit_public()
    rows = population(result, result.public_rows, described)
    mean = rows.weights @ rows.frame["age at entry"] / rows.weights.sum()
    assert mean == pytest.approx(people["age at entry"].mean(), abs=0.5)
    with pytest.raises(FormulaError, match="did you mean `tumour-size`, in backticks"):
        hdpf.logit("event3 ~ tumour-size", data=study)


def test_derivatives_at_the_ends_of_a_range_are_taken_from_inside_or_refused():
    schema = hdp.Schema(y=hdp.Binary(), k=hdp.Continuous(0, 40))
    rng = np.random.default_rng(3)
    k = rng.uniform(0, 40, 400)
    public = pd.DataFrame({"k": k, "y": rng.integers(0, 2, 400)})
    study = hdp.Study(public=public, schema=schema)
    ends = pd.DataFrame({"k": [0.0, 40.0, 10.0]})
    curved = hdpf.logit("y ~ sqrt(k) + k", data=study).fit_public()
    with pytest.raises(ArgumentError, match="no slope in it at the ends"):
        curved.average_effects("k", over=ends)
    assert np.isfinite(curved.average_effects("k", over=ends, values=(0, 40)).frame["estimate"]).all()
    # this has a slope at 0, though no values below it
    smooth = hdpf.logit("y ~ I(k^2 * sqrt(k))", data=study).fit_public()
    p = smooth.predict(ends)
    slope = (p * (1 - p) * 2.5 * ends["k"] ** 1.5 * smooth.params.iloc[1]).mean()
    assert smooth.average_effects("k", over=ends).frame["estimate"][0] == pytest.approx(slope, rel=1e-3)


@pytest.mark.wide
def test_effects_state_all_that_they_rest_on():
    """Those of a fit, and of what is averaged over: each release once, and of other people the larger one."""
    people, columns = hdp.datasets.load_rotterdam(), ["age", "hormon"]
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True), event3=hdp.Binary(complete=True)
    )

    def study_of():
        return hdp.Study(private=people, public=hdp.datasets.load_gbsg(), schema=schema, budget=hdp.Budget(epsilon=9))

    study = study_of()
    described = hdp.describe(study, columns, complete=True, epsilon=2)
    model = hdpf.logit("event3 ~ age + hormon", data=study)
    fit = model.fit(epsilon=1, se_share=0, describe=False)
    found = fit.average_effects("hormon", over=described)
    words = "3-differential privacy (pure) in all: 1 for the fit, 2 for the description averaged over"
    assert str(found.guarantee) == words
    assert f"Guarantee: {words}" in " ".join(str(found).split())
    assert "All releases behind this result are together 3-differentially private" in found._repr_html_()
    slopes = fit.get_margeff(over=described)
    assert slopes.guarantee == found.guarantee
    assert f"Guarantee: {words}." in " ".join(str(slopes).split())
    assert fit.average_effects("hormon").guarantee == fit.get_margeff().guarantee == fit.guarantee
    assert fit.average_effects("hormon", estimate="public_only").guarantee is None
    assert fit.average_effects("hormon", over=described, estimate="public_only").guarantee == described.guarantee
    resting = model.fit(epsilon=1, se_share=0, description=described)
    assert resting.guarantee.epsilon == 3
    assert resting.average_effects("hormon", over=described).guarantee == resting.guarantee
    both = resting.average_effects("hormon", over=hdp.describe(study, columns, epsilon=0.5)).guarantee
    assert (both.epsilon, [part.epsilon for part in both.parts]) == (3.5, [1, 2, 0.5])
    elsewhere = hdp.describe(study_of(), columns, epsilon=4)
    other = fit.average_effects("hormon", over=elsewhere).guarantee
    assert (other.epsilon, [part.epsilon for part in other.parts], other.sites) == (4, [1, 4], 2)

    def unknown_of(one):
        at = [(site, release.at(replace(release.entry, account=""))) for site, release in one.releases]
        return replace(one, releases=tuple(at))

    unknown = unknown_of(elsewhere).releases
    assert fit.average_effects("hormon", over=unknown_of(elsewhere)).guarantee.epsilon == 5
    ((_, query),), known = elsewhere.queries, elsewhere.releases[0][1]
    for lacking in (unknown[0][1], replace(known, entry=None)):
        both = (("a", known), ("b", lacking))
        half = replace(elsewhere, queries=(("a", query), ("b", query)), releases=both)
        assert fit.average_effects("hormon", over=half).guarantee.epsilon == 5
    sample = hdp.hybrid_weights(study, columns, epsilon=1)
    weighted = fit.average_effects("hormon", over=sample).guarantee
    assert str(weighted).endswith("in all: 1 for the fit, 1 for the weighted sample averaged over")
    own = sample.fit(hdpf.logit, "event3 ~ age + hormon")
    assert own.average_effects("hormon", over=sample).guarantee == sample.guarantee
    calibrated = hdp.hybrid_weights(study, columns, epsilon=1, description=described)
    assert [each.sha256 for each in calibrated.releases] == [each.sha256 for each in sample.releases]
    more = own.average_effects("hormon", over=calibrated).guarantee
    assert (more.epsilon, [part.epsilon for part in more.parts]) == (3, [1, 2])
    all_of_it = calibrated.fit(hdpf.logit, "event3 ~ age + hormon")
    assert all_of_it.average_effects("hormon", over=sample).guarantee == calibrated.guarantee
    (site, release), number = described.releases[0], described.releases[0][1].entry.number
    again = replace(described, releases=((site, release.at(replace(release.entry, number=number + 100))),))
    assert resting.average_effects("hormon", over=again).guarantee.epsilon == 5  # of other noise, with the same numbers
    another = replace(described, releases=((site, release.at(replace(release.entry, head="0" * 64))),))
    assert resting.average_effects("hormon", over=another).guarantee.epsilon == 5  # the first one of another analyst
    one, another = (replace(described, releases=((site, replace(release, entry=None)),)) for _ in range(2))
    nowhere = replace(resting.released, description=replace(resting.released.description, releases=one.releases))
    resting_on_it = replace(resting, released=nowhere)
    assert resting_on_it.average_effects("hormon", over=one).guarantee == resting_on_it.guarantee
    assert resting_on_it.average_effects("hormon", over=another).guarantee.epsilon == 5  # maybe of another charge
    removed = replace(described, guarantee=replace(described.guarantee, relation=Relation.ADD_OR_REMOVE_ONE))
    with pytest.raises(ArgumentError, match=r"over: .* under add_or_remove_one, and the fit under replace_one"):
        fit.average_effects("hormon", over=removed)
    households = replace(unknown_of(described), guarantee=replace(described.guarantee, unit="household"))
    with pytest.raises(ArgumentError, match=r"over: .* for one household, and the fit for one person"):
        fit.average_effects("hormon", over=households)

"""A result beside a reference, term by term."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hdpstats._base.errors import ArgumentError
from hdpstats.records.model import TimeGrid

IN_R = ["(Intercept)", "age", "size20-50", "size>50", "log1p(nodes)"]


def reference(result, terms=None, *, shift=0.0, se=0.25, **attrs):
    """A tidy table whose estimates are the result's own plus a shift."""
    values = result.params.to_numpy() + shift
    terms = list(result.params.index) if terms is None else terms
    frame = pd.DataFrame({"term": terms, "estimate": values[: len(terms)], "std_error": se})
    frame.attrs |= attrs
    return frame


def test_terms_in_r_s_names_are_found(result):
    found = result.compare(reference(result, IN_R, shift=0.5)).frame
    assert found["term"].tolist() == list(result.params.index)
    np.testing.assert_allclose(found["difference"], -0.5)
    np.testing.assert_array_equal(found["estimate"], result.params)
    np.testing.assert_array_equal(found["reference_estimate"], result.params.to_numpy() + 0.5)


def test_differences_are_measured_in_four_ways(result):
    found = result.compare(reference(result, shift=0.5, se=0.25))
    table, a = found.frame, result.params.to_numpy()
    np.testing.assert_allclose(table["relative_error"], 0.5 / np.abs(a + 0.5))
    np.testing.assert_allclose(table["difference_in_se"], -2.0)
    np.testing.assert_allclose(table["difference_in_both"], -0.5 / np.sqrt(result.bse.to_numpy() ** 2 + 0.0625))
    assert found.relative_error == pytest.approx(0.5 * np.sqrt(5) / np.linalg.norm(a + 0.5))


def test_limits_are_the_result_s_own_and_the_normal_distribution_s(result):
    table = result.compare(reference(result)).frame
    own = result.conf_int().to_numpy()
    np.testing.assert_array_equal(table[["conf_low", "conf_high"]].to_numpy(), own)
    half = 1.959963984540054 * 0.25
    np.testing.assert_allclose(table["reference_conf_low"], table["reference_estimate"] - half)
    np.testing.assert_allclose(table["reference_conf_high"], table["reference_estimate"] + half)
    assert not np.allclose(
        own[:, 1] - own[:, 0], 2 * 1.959964 * result.bse
    )  # the distribution of a release is another one


def test_the_order_of_the_reference_does_not_matter(result):
    shuffled = reference(result, IN_R).iloc[[3, 0, 4, 1, 2]]
    assert result.compare(shuffled).relative_error == 0.0


def test_terms_on_one_side_are_listed(result):
    frame = reference(result, ["(Intercept)", "age", "size20-50", "height"])
    found = result.compare(frame)
    assert found.frame["term"].tolist() == ["Intercept", "age", "size[T.20-50]"]
    assert found.result_only == ("size[T.>50]", "log1p(nodes)")
    assert found.reference_only == ("height",)
    text = str(found)
    assert "In the result alone: size[T.>50], log1p(nodes)." in text
    assert "In the reference alone: height." in text


def test_infinite_and_missing_numbers_stay_out_of_the_norm(result):
    frame = reference(result, shift=0.1)
    frame.loc[1, "estimate"] = -np.inf
    frame.loc[2, ["estimate", "std_error"]] = np.nan
    found = result.compare(frame)
    a = np.delete(result.params.to_numpy(), [1, 2])
    assert found.relative_error == pytest.approx(0.1 * np.sqrt(3) / np.linalg.norm(a + 0.1))
    assert found.frame["difference"].tolist()[1] == np.inf
    assert np.isnan(found.frame["difference"][2])
    assert "inf" in str(found)


def test_a_result_is_a_reference(result, public_result):
    found = result.compare(public_result)
    both = [term for term in result.params.index if term in public_result.params.index]
    assert found.frame["term"].tolist() == both
    np.testing.assert_array_equal(found.frame["reference_std_error"], public_result.bse[both])
    assert found.label == "Logit, maximum likelihood"
    assert result.compare(result).relative_error == 0.0


def test_what_broom_and_r_say_about_a_fit_is_shown(result):
    frame = reference(result, IN_R, model="glm", formula="event3 ~ age + size + log1p(nodes)")
    found = result.compare(frame.rename(columns={"std_error": "std.error"}))
    assert (found.label, found.formula) == ("glm", "event3 ~ age + size + log1p(nodes)")
    assert "glm, event3 ~ age + size" in str(found)
    assert result.compare(frame, label="our registry").label == "our registry"


def test_the_table_is_legible_in_text_and_html(result):
    frame = reference(result, [*IN_R[:-1], "<b>height</b>"], shift=0.5)
    found = result.compare(frame)
    lines = str(found).splitlines()
    (age,) = (line.split() for line in lines if line.startswith("age "))
    assert age == ["age", "0.0090", "0.0041", "0.5090", "0.2500", "-0.5000", "0.9823", "-2.0000", "-1.9997"]
    assert max(map(len, lines)) < 120
    html = found._repr_html_()
    assert "&lt;b&gt;height" in html
    assert "<b>height" not in html
    assert html.count("<table") == 2
    assert repr(found).startswith("<comparison with reference: 4 terms, relative error")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda frame: [1, 2], "a Result or a data frame"),
        (lambda frame: frame.drop(columns="std_error"), "'std_error'"),
        (lambda frame: frame.drop(columns="term"), "'term'"),
        (lambda frame: frame.assign(term="age"), "every term once"),
        (lambda frame: frame.assign(term=range(5)), "by a text"),
        (lambda frame: frame.assign(estimate="large"), "numbers in the column 'estimate'"),
        (lambda frame: frame.assign(term=list("abcde")), "no term in common .*Intercept.* a, b, c, d, e"),
    ],
)
def test_what_is_no_reference_is_refused(result, make, message):
    with pytest.raises(ArgumentError, match=message):
        result.compare(make(reference(result)))


# -- Hazards -----------------------------------------------------------------------------------------------------------

CUTS = [1.0, 2.5, 4.0, 10.0]


def test_a_hazard_on_the_same_intervals_is_compared_whole(hazard):
    result = hazard("cloglog")
    found = result.compare(reference(result, model="hazard", link="cloglog", cuts=CUTS))
    assert len(found.frame) == 5
    assert found.note is None
    unsaid = result.compare(reference(result))  # a table that says nothing about its intervals
    assert (len(unsaid.frame), unsaid.note) == (5, None)


def test_a_long_baseline_stays_in_the_frame(hazard):
    names = tuple(f"interval[{s}]" for s in range(1, 14))
    grid = TimeGrid(tuple(float(s) for s in range(1, 14)))
    baseline = tuple(tuple(row) for row in np.eye(13).tolist())
    result = hazard("logit")
    terms = (*names, *result.params.index[2:])
    estimate = replace(
        result.estimate, terms=terms, values=np.arange(16.0) + 1, sampling=np.eye(16), privacy=np.zeros((16, 16))
    )
    facts = replace(result.facts.hazard, grid=grid, baseline=baseline, baseline_names=names)
    result = replace(result, estimate=estimate, facts=replace(result.facts, hazard=facts))
    found = result.compare(reference(result))
    assert len(found.frame) == 16
    for text in (str(found), found._repr_html_()):
        assert "interval[1]" not in text
        assert "size[T.20-50]" in text
        assert "baseline are in the comparison" in text
    assert "interval[1]" in str(result.compare(reference(result).iloc[:12]))


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"model": "hazard", "link": "cloglog", "cuts": [1.0, 2.0, 4.0, 10.0]}, "other intervals"),
        ({"model": "hazard", "link": "logit", "cuts": CUTS}, "the links are cloglog here and logit there"),
        ({"model": "cox"}, "leaves the baseline hazard out"),
    ],
)
def test_another_time_axis_leaves_the_covariates(hazard, attrs, reason):
    result = hazard("cloglog")
    found = result.compare(reference(result, **attrs))
    assert found.frame["term"].tolist() == ["age", "size[T.20-50]", "size[T.>50]"]
    assert found.result_only == found.reference_only == ("baseline[1]", "baseline[2]")
    assert found.note.startswith("Covariates only are compared")
    assert reason in found.note


@pytest.mark.parametrize(
    ("link", "words"), [("cloglog", "Prentice"), ("logit", "log odds ratios"), ("probit", "another scale")]
)
def test_a_cox_model_says_what_its_coefficients_are(hazard, link, words):
    result = hazard(link)
    cox = reference(result, model="cox").iloc[2:]
    cox.attrs["model"] = "cox"
    found = result.compare(cox)
    assert words in found.note
    assert found.result_only == ("baseline[1]", "baseline[2]")


def test_a_table_without_a_baseline_says_so(hazard):
    result = hazard("logit")
    found = result.compare(reference(result).iloc[2:])
    assert "has no baseline" in found.note


def test_results_on_other_intervals_are_compared_in_the_covariates(hazard):
    result = hazard("logit")
    same, other = hazard("logit", noise=1.0), hazard("logit", baseline_names=("baseline[1]", "baseline[2]"))
    assert result.compare(same).note is None
    assert len(result.compare(other).frame) == 5
    found = result.compare(hazard("probit"))
    assert "links" in found.note
    assert len(found.frame) == 3


def test_one_cause_of_several_is_named(hazard):
    result = hazard("logit", causes=("relapse", "death"))
    own = result.params[result.params.index.str.startswith("death: ")]
    frame = pd.DataFrame(
        {"term": [each.removeprefix("death: ") for each in own.index], "estimate": own.to_numpy(), "std_error": 1.0}
    )
    found = result.compare(frame, cause="death")
    assert found.frame["term"].tolist() == frame["term"].tolist()
    assert found.relative_error == 0.0
    assert result.compare(frame, cause="relapse").relative_error > 0.1
    assert len(result.compare(result).frame) == 10
    with pytest.raises(ArgumentError, match="which of relapse, death"):
        result.compare(frame)
    with pytest.raises(ArgumentError, match="one of relapse, death"):
        result.compare(frame, cause="cold")
    ax = found.plot(axes())
    assert len(ax.get_yticklabels()) == 3


def test_a_model_without_causes_takes_none(result):
    with pytest.raises(ArgumentError, match="for hazard models"):
        result.compare(reference(result), cause="death")


# -- Plot --------------------------------------------------------------------------------------------------------------


def axes():
    figure = Figure(figsize=(7, 5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def drawn(ax):
    found = {}
    for container in ax.containers:
        points, _, (bars,) = container.lines
        found[container.get_label()] = (points.get_xdata(), np.array([each[:, 0] for each in bars.get_segments()]))
    return found


def test_both_are_drawn_with_their_intervals(result):
    comparison = result.compare(reference(result, [*IN_R[:4], "height"], shift=0.3, model="glm"))
    ax = comparison.plot(axes())
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "size[T.20-50]", "size[T.>50]"]
    found = drawn(ax)
    assert list(found) == ["pooled", "glm"]
    table = comparison.frame.iloc[1:]
    np.testing.assert_allclose(found["pooled"][0], table["estimate"])
    np.testing.assert_allclose(found["pooled"][1], table[["conf_low", "conf_high"]].to_numpy())
    np.testing.assert_allclose(found["glm"][0], table["reference_estimate"])
    np.testing.assert_allclose(found["glm"][1], table[["reference_conf_low", "reference_conf_high"]].to_numpy())


def test_a_hazard_s_baseline_is_not_drawn_unless_alone(hazard):
    result = hazard("cloglog")
    ax = result.compare(reference(result)).plot(axes())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "size[T.20-50]", "size[T.>50]"]
    alone = result.compare(reference(result, ["baseline[1]", "baseline[2]"])).plot(axes())
    assert [label.get_text() for label in alone.get_yticklabels()] == ["baseline[1]", "baseline[2]"]
    assert "reference" in [text.get_text() for text in alone.get_legend().get_texts()]

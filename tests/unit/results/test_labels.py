"""Labels of columns in figures, tables and pages; terms, numbers and texts keep the names of the formula."""

from dataclasses import replace

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results import model_matrix
from hdpstats.results.labels import coefficient_labels, labelled, labels_of_terms
from hdpstats.results.plots import plot_differences
from hdpstats.results.time_axis import time_axis
from tests.unit.results.conftest import make_hazard

LABELS = {"age": "Age (years)", "size": "Tumour size"}
SCHEMA = hdp.Schema(
    {
        "age": hdp.Continuous(20, 90, label="Age (years)"),
        "sex": hdp.Binary(labels=("man", "woman"), label="Sex"),
        "nodes": hdp.Continuous(0, 40),
    }
)


@pytest.fixture
def labelled_result(result):
    return replace(result, schema=result.schema.with_labels(LABELS))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("age", "Age (years)"),
        ("nodes", "nodes"),
        ("Intercept", "Intercept"),
        ("sex[T.woman]", "Sex = woman"),
        ("age:sex", "Age (years) × Sex"),
        ("age:nodes", "Age (years) × nodes"),
        ("nodes:log(age)", "nodes:log(age)"),
        ("ns(age, knots=[30, 50])[1]", "ns(age, knots=[30, 50])[1]"),
        ("I(age ** 2)", "I(age ** 2)"),
    ],
)
def test_columns_have_their_labels_and_functions_stay(name, shown):
    assert labelled(name, SCHEMA) == shown


def test_coefficients_are_called_by_labels(result, labelled_result):
    shown = ("Intercept", "Age (years)", "Tumour size = 20-50", "Tumour size = >50", "log1p(nodes)")
    assert coefficient_labels(labelled_result) == shown
    assert coefficient_labels(result) == result.estimate.terms
    assert coefficient_labels(model_matrix.renamed(labelled_result))[1:4] == shown[1:4]


def test_causes_and_levels_of_outcomes_stand_before_labels():
    hazard = make_hazard(causes=("relapse", "death"))
    shown = coefficient_labels(replace(hazard, schema=hazard.schema.with_labels(LABELS)))
    assert shown[:3] == ("relapse: baseline[1]", "relapse: baseline[2]", "relapse: Age (years)")
    assert shown[-1] == "death: Tumour size = >50"
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, label="Age (years)", complete=True),
        grade3=hdp.Categorical(["1", "2", "3"], complete=True),
    )
    people = hdp.datasets.load_gbsg()[["age"]].assign(grade3=["1", "2", "3"] * 228 + ["1", "2"])
    study = hdp.Study(public=people, schema=schema)
    fit = hdpf.multinomial("grade3 ~ age", data=study).fit_public()
    assert [name.split(":")[1].strip() for name in coefficient_labels(fit)] == ["Intercept", "Age (years)"] * 2
    assert [name.split(":")[0] for name in coefficient_labels(fit)] == [t.split(":")[0] for t in fit.estimate.terms]
    assert [text.get_text() for text in fit.plot_coefficients().get_yticklabels()] == [
        "2: Age (years)",
        "3: Age (years)",
    ]


def test_figures_have_labels_and_given_ones_come_first(labelled_result):
    def shown(**options):
        return [text.get_text() for text in labelled_result.plot_coefficients(**options).get_yticklabels()]

    assert shown() == ["Age (years)", "Tumour size = 20-50", "Tumour size = >50", "log1p(nodes)"]
    assert shown(labels={"age": "Age"})[:2] == ["Age", "Tumour size = 20-50"]


def test_a_page_has_labels_before_terms_and_texts_have_terms(result, labelled_result):
    page = labelled_result._repr_html_()
    assert ">Tumour size = &gt;50</th>" in page
    assert page.count(">size[T.&gt;50]</td>") == page.count(">Tumour size = &gt;50</th>") == 2
    assert str(labelled_result) == str(result)
    assert labelled_result.tidy().equals(result.tidy())
    assert ">term</th>" not in result._repr_html_()


def test_tables_of_regressions_have_labels(labelled_result):
    lines = [line.strip() for line in str(hdp.regression_table([labelled_result])).splitlines()]
    assert lines[4].startswith("Age (years)")
    assert lines[5] == "Tumour size"
    own = hdp.regression_table([labelled_result], labels={"age": "Age at operation"})
    assert "Age at operation" in str(own)
    assert "Tumour size" in str(own)
    assert own.tidy().equals(hdp.regression_table([labelled_result]).tidy())
    hazard = make_hazard(causes=("relapse", "death"))
    assert "relapse: Tumour size" in str(
        hdp.regression_table([replace(hazard, schema=hazard.schema.with_labels(LABELS))])
    )


@pytest.mark.parametrize(
    ("label", "title"),
    [
        (None, "time (years)"),
        ("Time since surgery", "Time since surgery (years)"),
        ("Time since surgery (days)", "Time since surgery (years)"),
        ("Survival, days", "Survival (years)"),
        ("Follow-up [day]", "Follow-up (years)"),
        ("Survival (overall)", "Survival (overall) (years)"),
    ],
)
def test_the_axis_of_time_has_the_label_and_the_unit_that_is_shown(label, title):
    assert time_axis(2557, "days", label=label).title == title


def test_curves_have_labels_of_time_and_groups():
    schema = hdp.Schema(
        time=hdp.Duration(2557, unit="days", label="Survival (days)"),
        event=hdp.Binary(),
        hormon=hdp.Binary(labels=("no", "yes"), label="Hormone therapy"),
    )
    people = hdp.datasets.load_gbsg().assign(hormon=lambda rows: pd.Series(["no", "yes"])[rows["hormon"]].to_numpy())
    study = hdp.Study(public=people, schema=schema)
    curves = hdpf.survfit("Surv(time, event) ~ hormon", study).fit_public()
    axes = curves.plot()
    assert axes.get_xlabel() == "Survival (years)"
    names = ["Hormone therapy = no", "Hormone therapy = yes"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == names
    assert set(names) <= {text.get_text() for text in axes.texts}
    assert "Hormone therapy = yes" in curves._repr_html_()
    assert curves.groups == ("no", "yes")


PUBLIC = pd.DataFrame(
    {
        "age": [30.0, 40.0, 50.0, 60.0] * 20,
        "arm": [0, 1] * 40,
        "size": ["<=20", "20-50", ">50", "<=20", "20-50"] * 16,
        "y": [0, 1, 1, 0, 1, 0, 0, 1] * 10,
    }
)
DECLARED = hdp.Schema(
    age=hdp.Continuous(20, 90, label="Age (years)"),
    arm=hdp.Binary(label="Treatment"),
    size=hdp.Categorical(["<=20", "20-50", ">50"], label="Tumour size"),
    y=hdp.Binary(),
)


@pytest.fixture
def public_fit():
    return hdpf.logit("y ~ age + arm + size", data=hdp.Study(public=PUBLIC, schema=DECLARED))


@pytest.fixture
def without_labels():
    schema = DECLARED.with_labels(dict.fromkeys(DECLARED.labels))
    return hdpf.logit("y ~ age + arm + size", data=hdp.Study(public=PUBLIC, schema=schema)).fit_public()


def test_tests_show_labels_on_pages_and_terms_in_tables(public_fit):
    fit = public_fit.fit_public()
    terms, tests = fit.wald_test_terms(), fit.t_test("age, age - arm")
    for shown in (terms, tests):
        page = shown._repr_html_()
        assert "Age (years)</th>" in page
        assert '<td style="text-align: left">age</td>' in page
        assert "Age (years)" not in str(shown)
    assert "Tumour size</th>" in terms._repr_html_()
    assert list(terms.tidy()["term"]) == ["Intercept", "age", "arm", "size"]
    assert tests.names == ("age", "age - arm")
    assert "Differences between levels of Tumour size" in fit.t_test_pairwise("size")._repr_html_()


def test_without_labels_pages_of_tests_have_one_column_of_names(without_labels):
    for shown in (without_labels.wald_test_terms(), without_labels.t_test("age"), without_labels.get_margeff()):
        assert ">term<" not in shown._repr_html_()
    assert "Differences between levels\n" in str(without_labels.t_test_pairwise("size"))
    assert "arm\n" in str(without_labels.average_effects("arm"))


def test_average_and_marginal_effects_show_labels(public_fit):
    fit = public_fit.fit_public()
    effects, slopes = fit.average_effects("arm"), fit.get_margeff()
    assert "Treatment (arm)" in str(effects)
    assert effects.tidy()["contrast"].tolist() == ["1 - 0"] * 3
    assert "Treatment" in slopes._repr_html_()
    assert slopes.tidy()["term"].tolist() == ["age", "arm", "size[T.20-50]", "size[T.>50]"]


def test_plans_show_labels_on_pages_and_in_figures(public_fit):
    plan = public_fit.plan([1, 2], n=1000)
    assert list(plan.labels.items())[1:3] == [("arm", "Treatment"), ("size[T.20-50]", "Tumour size = 20-50")]
    assert "Age (years)" in plan._repr_html_()
    assert list(plan.table.index)[:3] == ["Intercept", "age", "arm"]
    titles = [panel.get_title() for panel in plan.plot().axes]
    assert titles[:2] == ["Age (years)", "Treatment"]


def test_plans_of_descriptions_and_curves_name_groups_by_labels():
    follow_up = {"time": hdp.Duration(5), "event": hdp.Binary()}
    schema = hdp.Schema({"age": DECLARED["age"], "arm": DECLARED["arm"], **follow_up})
    study = hdp.Study(public=PUBLIC.assign(time=[1.0, 2.0, 3.0, 4.0] * 20, event=PUBLIC["y"]), schema=schema)
    described = hdp.describe(study, ["age"], by="arm").plan([1], n=1000)
    assert "Treatment = 1, Age (years), mean" in described._repr_html_()
    assert "1 age mean" in str(described)
    curves = hdpf.survfit("Surv(time, event) ~ arm", study, times=[1, 2, 3])
    assert "epsilon = 1, Treatment = 1" in curves.plan([1], n=1000)._repr_html_()
    test = curves.fit_public().logrank_test()
    assert "Treatment = 1 / Treatment = 0" in test._repr_html_()
    assert test.groups == ("0", "1")


def test_labels_of_terms_keep_the_cause_or_level_before_them():
    schema = hdp.Schema(size=hdp.Categorical(["a: b", "c"], label="Size"), age=hdp.Continuous(20, 90, label="Age"))
    found = labels_of_terms(["death: age", "size[T.a: b]", "death: size[T.a: b]", "death: baseline[1]"], schema)
    assert found == {
        "death: age": "death: Age",
        "size[T.a: b]": "Size = a: b",
        "death: size[T.a: b]": "death: Size = a: b",
    }


LONG = "A treatment whose name is as long as names of treatments in protocols are"


def inside(figure, artist):
    """Return whether a part of a figure lies within it, and the share of its width that it has."""
    figure.draw_without_rendering()
    box = artist.get_window_extent().transformed(figure.transFigure.inverted())
    return bool(box.x0 > -0.01 and box.x1 < 1.01 and box.y1 < 1.01), float(box.width)


def test_long_names_of_groups_leave_room_for_curves_and_legends_stay_within_the_figure():
    schema = hdp.Schema(arm=hdp.Binary(label=LONG), time=hdp.Duration(5), event=hdp.Binary())
    rows = PUBLIC[["arm"]].assign(time=[1.0, 2.0, 3.0, 4.0] * 20, event=PUBLIC["y"])
    curves = hdpf.survfit(
        "Surv(time, event) ~ arm", hdp.Study(public=rows, schema=schema), times=[1, 2, 3]
    ).fit_public()
    axes = curves.plot()
    drawn = [text.get_text() for text in axes.texts]
    assert {"0", "1"} <= set(drawn), "levels stand before numbers at risk"
    assert not any(LONG in text for text in drawn)
    assert [text.get_text().replace("\n", " ") for text in axes.get_legend().get_texts()] == [
        f"{LONG} = 0",
        f"{LONG} = 1",
    ]
    figure = axes.get_figure()
    assert inside(figure, axes.get_legend())[0]
    within, width = inside(figure, axes)
    assert within
    assert width > 0.6


def test_a_balance_plot_of_groups_with_long_names_is_whole():
    table = pd.DataFrame(
        {
            "group": ["0", "1"] * 3,
            "variable": ["age", "age", "arm", "arm", "y", "y"],
            "level": None,
            "difference": [0.1, 0.2, 0.3, -0.1, 0.0, 0.4],
            "conf_low": [0.0, 0.1, 0.2, -0.2, -0.1, 0.3],
            "conf_high": [0.2, 0.3, 0.4, 0.0, 0.1, 0.5],
        }
    )
    axes = plot_differences(table, by=LONG, label="private less public people", ax=None, labels={"age": LONG})
    figure = axes.get_figure()
    assert inside(figure, axes.get_legend())[0]
    assert all(inside(figure, label)[0] for label in axes.get_yticklabels())
    assert inside(figure, axes)[1] > 0.4
    lines = [container.lines[0].get_xdata().tolist() for container in axes.containers]
    assert lines == [[0.1, 0.3, 0.0], [0.2, -0.1, 0.4]]

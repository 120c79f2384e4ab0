"""Labels of columns in figures, tables and pages; terms, numbers and texts keep the names of the formula."""

from dataclasses import replace

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results import model_matrix
from hdpstats.results.labels import coefficient_labels, labelled
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

"""A paper's table: columns of fits, reference levels, labels, counts, epsilon; as text, Word, LaTeX, HTML, CSV."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from docx import Document

import hdpstats.api as hdp
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.estimate import Estimate

LABELS = {"age": "Age (years)", "size": "Tumour size (mm)", "log1p(nodes)": "Nodes, log", ">50": "more than 50"}


@pytest.fixture
def adjusted(result):
    return result


@pytest.fixture
def crude(result):
    """A fit of size alone and a fit of age alone, to public rows."""
    facts = replace(result.facts, records=None, public_rows=600, method="maximum likelihood on public rows")
    made = []
    for formula, terms, values in (
        ("event3 ~ size", ("Intercept", "size[T.20-50]", "size[T.>50]"), [-1.0, 0.5, 0.9]),
        ("event3 ~ age", ("Intercept", "age"), [-1.0, 0.01]),
    ):
        k = len(terms)
        estimate = Estimate(
            label="maximum likelihood", terms=terms, values=np.array(values), sampling=np.eye(k) * 0.04,
            privacy=np.zeros((k, k)),
        )  # fmt: skip
        made.append(hdp.Result(facts=replace(facts, formula=formula), schema=result.schema, estimate=estimate))
    return made


@pytest.fixture
def table(crude, adjusted):
    return hdp.regression_table({"Crude": crude, "Adjusted": adjusted}, labels=LABELS, events={"Adjusted": 1186})


def test_lines_as_they_are_printed(table):
    lines = [" ".join(line.split()) for line in str(table).splitlines()]
    assert lines[2] == "Crude: OR p Adjusted: OR p"
    start = lines.index("Tumour size (mm)")
    assert lines[start : start + 9] == [
        "Tumour size (mm)",
        "<=20 reference reference",
        "20-50 1.65 (1.11 to 2.44) 0.012 1.51 (1.07 to 2.12) 0.040",
        "more than 50 2.46 (1.66 to 3.64) <0.001 2.10 (1.35 to 3.25) 0.017",
        "Age (years) 1.01 (0.68 to 1.49) 0.960 1.01 (1.00 to 1.02) 0.197",
        "Nodes, log — 2.14 (1.80 to 2.53) <0.001",
        "N 600 2982",
        "Events 1186",
        "Epsilon none 1",
    ]
    assert max(map(len, str(table).splitlines())) <= 78


def test_numbers_are_those_of_the_fits(table, adjusted):
    rows = table.tidy().set_index(["column", "term"])
    ratios = adjusted.odds_ratios()
    for term in ("age", "size[T.>50]", "log1p(nodes)"):
        found = rows.loc[("Adjusted", term)]
        assert found["estimate"] == ratios.loc[term, "estimate"]
        assert found[["conf_low", "conf_high"]].tolist() == ratios.loc[term, ["conf_low", "conf_high"]].tolist()
        assert found["p_value"] == adjusted.pvalues[term]
    references = table.tidy().query("reference")
    assert references["level"].tolist() == ["<=20", "<=20"]
    assert references["estimate"].isna().all()


def test_a_list_is_numbered_and_the_level_is_that_of_the_limits(adjusted):
    wide = hdp.regression_table([adjusted, adjusted], conf_level=0.99)
    assert [each.name for each in wide.columns] == ["(1)", "(2)"]
    low = np.exp(adjusted.conf_int(0.01).loc["age", 0])
    assert wide.tidy().set_index("term").loc["age", "conf_low"].tolist() == pytest.approx([low, low], rel=1e-12)
    assert "99% confidence" in str(wide)


def test_epsilons_of_a_column_add_up(adjusted):
    facts = replace(adjusted.facts, formula="event3 ~ age")
    own = Estimate(
        label="released", terms=("Intercept", "age"), values=np.ones(2), sampling=np.eye(2), privacy=np.zeros((2, 2))
    )
    alone = replace(adjusted, facts=facts, estimate=own, public_only=None, private_only=None, pooled=None)
    other = replace(
        alone,
        facts=replace(facts, formula="event3 ~ log1p(nodes)"),
        estimate=replace(own, terms=("Intercept", "log1p(nodes)")),
    )
    assert hdp.regression_table({"Crude": [alone, other]}).columns[0].epsilon == "2"

    def under(**changes):
        return replace(other, released=replace(other.released, guarantee=replace(other.guarantee, **changes)))

    normal = hdp.regression_table({"Crude": [alone, under(delta=Fraction("1e-6"))], "Other": other})
    assert [each.epsilon for each in normal.columns] == ["(2, 1e-06)", "1"]
    assert "added up; with delta as (epsilon, delta)." in " ".join(str(normal).split())
    removed = under(relation=Relation.ADD_OR_REMOVE_ONE)
    apart = hdp.regression_table({"Crude": alone, "Other": removed})
    assert [each.epsilon for each in apart.columns] == ["1 (replace_one)", "1 (add_or_remove_one)"]
    with pytest.raises(hdp.ArgumentError, match=r"'Crude' has fits under several relations .* do not add up"):
        hdp.regression_table({"Crude": [alone, removed]})


def test_a_hazard_model_has_hazard_ratios_without_its_baseline(hazard):
    found = hdp.regression_table([hazard()])
    assert found.columns[0].measure == "HR"
    assert not found.tidy()["variable"].str.contains("baseline").any()
    several = hdp.regression_table([hazard(causes=("relapse", "death"))]).tidy()["variable"].unique().tolist()
    assert several == ["relapse: age", "relapse: size", "death: age", "death: size"]


def test_coefficients_that_are_no_ratios_stay_as_they_are(adjusted):
    linear = replace(adjusted, facts=replace(adjusted.facts, exponentiated="exponential", loss="squares"))
    found = hdp.regression_table([linear])
    assert found.columns[0].measure == "coef"
    assert found.tidy().set_index("term").loc["age", "estimate"] == adjusted.params["age"]


def test_files(table, tmp_path):
    table.to_docx(tmp_path / "table.docx")
    grid = Document(str(tmp_path / "table.docx")).tables[0]
    cells = [[cell.text.strip() for cell in row.cells] for row in grid.rows]
    assert cells[0] == ["", "Crude: OR", "p", "Adjusted: OR", "p"]
    assert ["Age (years)", "1.01 (0.68 to 1.49)", "0.960", "1.01 (1.00 to 1.02)", "0.197"] in cells
    table.to_csv(tmp_path / "table.csv")
    frame = pd.read_csv(tmp_path / "table.csv", keep_default_na=False)
    assert frame.iloc[-1, 1:].tolist() == ["none", "", "1", ""]
    assert r"\textbf{Tumour size (mm)}" in table.summary().as_latex()
    assert table.summary().as_latex().count(r"\begin{tabular}") == 1
    assert "more than 50" in table.summary().as_html()
    assert "<strong>Regression table</strong>" in table._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"results": []}, "one or more results"),
        ({"results": ["fit"]}, "must be a result or a list of them, not str"),
        ({"results": {"A": []}}, "not an empty list"),
        ({"labels": {"weight": "Weight"}}, "there is no 'weight'; there are .*age"),
        ({"events": {"Other": 3}}, "there is no column 'Other'"),
        ({"conf_level": 2}, "conf_level"),
    ],
)
def test_refusals(adjusted, arguments, words):
    given = {"results": {"A": adjusted}} | arguments
    with pytest.raises(hdp.ArgumentError, match=words):
        hdp.regression_table(given.pop("results"), **given)


def test_a_coefficient_twice_or_two_measures_in_a_column(adjusted, hazard):
    with pytest.raises(hdp.ArgumentError, match="has 'age' more than once"):
        hdp.regression_table({"A": [adjusted, adjusted]})
    with pytest.raises(hdp.ArgumentError, match="OR and HR: put them in columns of their own"):
        hdp.regression_table({"A": [adjusted, hazard()]})


def test_no_standard_errors_no_limits(silent_result):
    lines = str(hdp.regression_table([silent_result])).splitlines()
    nodes, large = (next(line for line in lines if line.strip().startswith(name)) for name in ("log1p", ">50"))
    assert nodes.split() == ["log1p(nodes)", "2.14"]
    assert large.split() == [">50", "NA"]

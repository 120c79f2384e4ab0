"""Descriptions of the cohort in R: the numbers and the files of Python."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import r_bridge

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    size=hdp.Categorical(["<=20", "20-50", ">50"]),
    hormon=hdp.Binary(),
    time=hdp.Duration(2557),
    event=hdp.Binary(),
)


@pytest.fixture(autouse=True)
def _attached(evaluate):
    """Attach the R package."""


@pytest.fixture(scope="module")
def table() -> hdp.Description:
    study = hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=8),
    )
    return hdp.describe(study, ["age", "size", "Surv(time, event)"], by="hormon", times=[365, 1826], epsilon=1)


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare tables; a text that is missing is None in Python and NA in R."""
    renamed = expected.rename(columns=lambda name: name.replace("_", "."))
    assert list(found) == list(renamed)
    for name in renamed:
        if renamed[name].dtype == object:
            assert [None if pd.isna(each) else each for each in found[name]] == renamed[name].tolist()
        else:
            np.testing.assert_allclose(found[name].to_numpy(dtype=float), renamed[name].to_numpy(), rtol=1e-12)


def test_r_shows_the_numbers_of_python(table: hdp.Description) -> None:
    same(r_bridge.call("as.data.frame", table), table.tidy())
    same(r_bridge.call("function(x) generics::tidy(x, conf.level = 0.9)", table), table.tidy(0.9))
    same(r_bridge.call("dp_balance", table), table.balance())
    same(r_bridge.call("function(x) dp_balance(x, between = 'groups')", table), table.balance(between="groups"))
    same(r_bridge.call("dp_follow_up", table), table.follow_up())
    text = r_bridge.call("function(x) summary(x)$text", table)
    assert str(text) == str(table)


def test_r_shows_the_correlations_of_python() -> None:
    names = ["age", "nodes"]
    schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), nodes=hdp.Continuous(0, 40, complete=True))
    private = hdp.datasets.load_rotterdam()[names]
    study = hdp.Study(private=private, schema=schema, budget=hdp.Budget(epsilon=8))
    code = "function(study) dp_describe(study, ~ age + nodes, correlations = TRUE, epsilon = 1)"
    table = r_bridge.call(code, study)
    expected = hdp.describe(study, names, correlations=True, epsilon=1)
    same(r_bridge.call("dp_correlations", table), expected.correlations())


def test_r_writes_what_python_reads(table: hdp.Description, tmp_path) -> None:
    r_bridge.call("function(x, path) dp_write_description(x, path)", table, str(tmp_path / "table1.json"))
    read = hdp.Description.from_json(tmp_path / "table1.json")
    pd.testing.assert_frame_equal(read.tidy(), table.tidy())
    r_bridge.call("function(x, path) dp_write_docx(x, path)", table, str(tmp_path / "table1.docx"))
    assert (tmp_path / "table1.docx").stat().st_size > 1000

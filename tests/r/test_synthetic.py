"""Invented rows in R: those of Python, with their mark."""

import numpy as np
import pytest

import hdpstats.api as hdp
import r_bridge

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90),
    size=hdp.Categorical(["<=20", "20-50", ">50"]),
    time=hdp.Duration(2557),
    event=hdp.Binary(),
)


@pytest.fixture(autouse=True)
def _attached(evaluate):
    """Attach the R package."""


def test_r_draws_the_rows_of_python_and_keeps_their_mark():
    public = hdp.datasets.load_gbsg()
    drawn = r_bridge.call("function(s, p) dp_synthetic(s, 80, public = p, seed = 5)", SCHEMA, public)
    expected = SCHEMA.synthetic(80, public=public, seed=5)
    assert list(drawn) == list(expected)
    for name in ("age", "time", "event"):
        np.testing.assert_array_equal(drawn[name].to_numpy(dtype=float), expected[name].to_numpy(dtype=float))
    assert drawn["size"].astype(str).tolist() == expected["size"].astype(str).tolist()
    code = """function(s, p) {
      study <- dp_study(private = dp_synthetic(s, 300, public = p), public = p, schema = s, budget = dp_budget(2))
      c(dp_ledger(study)$dataset, attr(dp_synthetic(s, 5), "hdpstats"))
    }"""
    assert list(r_bridge.call(code, SCHEMA, public)) == ["invented rows", "invented"]

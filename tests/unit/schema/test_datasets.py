"""The example data hold R's rows, and their common columns agree with R's own derivation of them."""

import json
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.discrete.discrete_model import Logit

from hdpstats.schema.datasets import (
    SIZE_LEVELS,
    THREE_YEARS,
    _event_within,
    load_colon,
    load_flchain,
    load_gbsg,
    load_nwtco,
    load_pbcseq,
    load_rotterdam,
)

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "glm.json").read_text())
COMMON = {"rotterdam": load_rotterdam, "gbsg": load_gbsg}
OWN_COLUMNS = {
    "rotterdam": "pid year age meno size grade nodes pgr er hormon chemo rtime recur dtime death",
    "gbsg": "pid age meno size grade nodes pgr er hormon rfstime status",
}


@pytest.mark.parametrize("name", COMMON)
def test_common_columns_agree_with_r(name):
    frame, expected = COMMON[name](), REFERENCE["frames"][name]
    numeric = frame.select_dtypes("number")
    assert len(frame) == expected["rows"]
    assert numeric.sum().to_dict() == expected["sums"]
    assert (numeric**2).sum().to_dict() == expected["sums_of_squares"]
    assert frame["size"].value_counts(sort=False).to_dict() == expected["size"]
    assert int(frame["event3"].isna().sum()) == expected["event3_missing"]


@pytest.mark.parametrize("name", COMMON)
def test_logistic_regression_of_the_loaded_rows_is_that_of_r(name):
    frame, fit = COMMON[name]().dropna(), REFERENCE["fits"][f"{name}.main"]
    exog = pd.DataFrame(
        {
            "(Intercept)": 1.0,
            "age": frame["age"],
            "size20-50": (frame["size"] == "20-50") * 1.0,
            "size>50": (frame["size"] == ">50") * 1.0,
            "grade3": frame["grade3"],
            "log1p(nodes)": np.log1p(frame["nodes"]),
            "hormon": frame["hormon"],
        }
    )
    result = Logit(frame["event3"], exog).fit(method="newton", tol=1e-12, disp=False)
    assert list(exog) == fit["terms"]
    assert len(frame) == fit["nobs"]
    np.testing.assert_allclose(result.params, fit["coefficients"], rtol=1e-9)
    np.testing.assert_allclose(result.bse, fit["std_errors"], rtol=1e-9)


@pytest.mark.parametrize("name", COMMON)
def test_common_columns_have_tidy_types(name):
    types = COMMON[name]().dtypes
    assert types.pop("size") == pd.CategoricalDtype(list(SIZE_LEVELS), ordered=False)
    assert types.pop("event3") == np.float64
    assert set(types) == {np.dtype("int64")}


def test_both_studies_have_the_same_columns():
    rotterdam, gbsg = load_rotterdam(), load_gbsg()
    pd.testing.assert_series_equal(rotterdam.dtypes, gbsg.dtypes)


@pytest.mark.parametrize("name", COMMON)
def test_own_columns_are_those_of_r(name):
    frame = COMMON[name](harmonised=False)
    assert list(frame) == OWN_COLUMNS[name].split()
    assert len(frame) == REFERENCE["frames"][name]["rows"]
    assert not frame.isna().any(axis=None)


def test_rotterdam_counts_a_late_death_on_its_day():
    own, common = load_rotterdam(harmonised=False), load_rotterdam()
    late = (own["recur"] == 0) & (own["rtime"] < own["dtime"])
    assert int(late.sum()) == 43
    assert (own.loc[late, "death"] == 1).all()
    assert (common.loc[late, "event"] == 1).all()
    assert common.loc[late, "time"].equals(own.loc[late, "dtime"])
    assert (own.loc[own["recur"] == 1, "rtime"] <= own.loc[own["recur"] == 1, "dtime"]).all()


def test_gbsg_size_is_cut_with_the_bound_in_the_lower_class():
    own, common = load_gbsg(harmonised=False), load_gbsg()
    widest = own["size"].groupby(common["size"], observed=True).max()
    narrowest = own["size"].groupby(common["size"], observed=True).min()
    assert widest.to_dict() == {"<=20": 20, "20-50": 50, ">50": 120}
    assert narrowest.to_dict() == {"<=20": 3, "20-50": 21, ">50": 52}


def test_event_within_three_years():
    time = np.array([10.0, 10.0, THREE_YEARS, THREE_YEARS, THREE_YEARS + 1, THREE_YEARS + 1])
    event = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(_event_within(time, event, limit=THREE_YEARS), [1.0, np.nan, 1.0, np.nan, 0.0, 0.0])


def test_flchain_has_the_documented_rows():
    frame = load_flchain()
    assert frame.shape == (7874, 11)
    assert int(frame["death"].sum()) == 2169
    assert int(frame["creatinine"].isna().sum()) == 1350
    assert int((frame["futime"] == 0).sum()) == 3
    assert frame["chapter"].isna().equals(frame["death"] == 0)
    assert frame["sex"].value_counts().to_dict() == {"F": 4350, "M": 3524}
    assert all(str(column).isidentifier() for column in frame)
    assert not frame.drop(columns=["creatinine", "chapter"]).isna().any(axis=None)


def test_nwtco_has_the_documented_rows():
    frame = load_nwtco()
    assert frame.shape == (4028, 9)
    assert int(frame["rel"].sum()) == 571
    assert int(frame["in_subcohort"].sum()) == 668
    assert frame["in_subcohort"].dtype == np.bool_
    assert all(str(column).isidentifier() for column in frame)
    assert not frame.isna().any(axis=None)


def test_colon_has_the_documented_rows():
    frame = load_colon()
    assert frame.shape == (1858, 16)
    assert frame["etype"].value_counts().to_dict() == {1: 929, 2: 929}
    assert frame.groupby("etype")["status"].sum().to_dict() == {1: 468, 2: 452}
    assert frame["rx"].value_counts().to_dict() == {"Obs": 630, "Lev": 620, "Lev+5FU": 608}


def test_pbcseq_has_the_documented_rows():
    frame = load_pbcseq()
    assert frame.shape == (1945, 19)
    assert frame.groupby("id").size().value_counts().loc[[1, 16]].to_dict() == {1: 27, 16: 3}
    assert frame["hepato"].isna().sum() == 61
    assert all(str(column).isidentifier() for column in frame)


@pytest.mark.parametrize("load", [load_rotterdam, load_gbsg, load_flchain, load_nwtco, load_colon, load_pbcseq])
def test_each_call_returns_a_fresh_frame(load):
    first = load()
    first["age"] = -1
    assert (load()["age"] >= 0).all()


def test_files_travel_with_their_licence_and_are_small():
    folder = resources.files("hdpstats.schema").joinpath("csv")
    sizes = {file.name: len(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".csv")}
    assert set(sizes) == {"rotterdam.csv", "gbsg.csv", "flchain.csv", "nwtco.csv", "colon.csv", "pbcseq.csv"}
    assert max(sizes.values()) < 300_000
    assert "GNU LIBRARY GENERAL PUBLIC LICENSE" in folder.joinpath("LICENSE").read_text(encoding="utf-8")

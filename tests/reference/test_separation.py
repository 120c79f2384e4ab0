"""Public fits without a maximum, against R's glm: NaN where a coefficient has no finite value, else glm's numbers."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

REFERENCE = json.loads((Path(__file__).parent / "separation.json").read_text(encoding="utf-8"))
BINARY = ("y", "quasi", "complete", "nested", "within", "event", "rare")


def frame() -> pd.DataFrame:
    i = np.arange(1, 241)
    rows = pd.DataFrame({"x": i * 37 % 101 / 10, "z": i * 53 % 97 / 10, "g": np.array(list("abc"))[i * 7 % 11 % 3]})
    rare = rows["rare"] = (i % 40 == 0).astype(float)
    y = rows["y"] = (i * 71 % 113 / 113 < expit(0.4 * (rows["x"] - 5) - 0.2 * rows["z"])).astype(float)
    rows["quasi"] = np.where(rare == 1, 1.0, y)
    rows["complete"] = (rows["x"] > 5).astype(float)
    rows["nested"] = np.where(rows["g"] == "c", 1.0, np.where(rare == 1, 0.0, y))
    rows["within"] = np.where(rows["g"] == "a", y, np.where(rows["g"] == "b", rows["z"] > 5, 1.0)).astype(float)
    rows["count"] = np.where(rare == 1, 0.0, i * 29 % 5)
    rows["time"] = 1.0 + i * 11 % 6
    rows["event"] = np.where((rare == 1) | (rows["time"] == 3), 0.0, y)
    return rows


@pytest.fixture(scope="module")
def study() -> hdp.Study:
    schema = hdp.Schema(
        x=hdp.Continuous(0, 11),
        z=hdp.Continuous(0, 10),
        g=hdp.Categorical(["a", "b", "c", "d"]),
        count=hdp.Continuous(0, 5),
        time=hdp.Duration(horizon=6),
        **dict.fromkeys(BINARY, hdp.Binary()),
    )
    return hdp.Study(public=frame(), schema=schema)


def public_fit(name: str, study: hdp.Study) -> hdp.Result:
    formula = str(REFERENCE[name]["formula"])
    if name.startswith("hazard"):
        link = name.removeprefix("hazard_")
        model = hdpf.hazard("Surv(time, event) ~ x + rare", study, intervals=6, baseline="dummies", link=link)
        return model.fit_public()
    return (hdpf.poisson if name == "count" else hdpf.logit)(formula, study).fit_public()


def in_r(term: str) -> str:
    plain = term.replace("[T.", "").replace("[", "").replace("]", "")
    return {"Intercept": "(Intercept)"}.get(term, plain)


@pytest.mark.parametrize("name", REFERENCE)
def test_coefficients_are_glm_s_or_nan(name: str, study: hdp.Study) -> None:
    theirs = REFERENCE[name]
    with pytest.warns(RuntimeWarning, match="NaN"):
        result = public_fit(name, study)
    mine = dict(zip(map(in_r, result.params.index), zip(result.params, result.bse, strict=True), strict=True))
    assert set(mine) - set(theirs["terms"]) <= {"gd", "gd:z"}
    for term, value, error in zip(theirs["terms"], theirs["coefficients"], theirs["std_errors"], strict=True):
        assert mine[term][0] == pytest.approx(math.nan if value is None else value, abs=1e-8, nan_ok=True), term
        # glm has the expected information, which is not the observed one with this link
        close = 0.01 if name == "hazard_cloglog" else 1e-8
        assert mine[term][1] == pytest.approx(math.nan if value is None else error, abs=close, nan_ok=True), term
    assert all(math.isnan(mine[term][0]) for term in set(mine) - set(theirs["terms"]))


def test_words_say_which_coefficients_and_why(study: hdp.Study) -> None:
    with pytest.warns(RuntimeWarning, match=r"separation.*infinite is NaN: g\[T.c\], rare"):
        result = public_fit("nested", study)
    assert "public rows do not identify is NaN: g[T.d]" in str(result.summary())
    with pytest.warns(RuntimeWarning, match="infinite is NaN: every coefficient"):
        hdpf.logit("complete ~ x", study).fit_public()
    again = hdp.Result.from_json(result.to_json())
    pd.testing.assert_series_equal(again.params, result.params)
    assert result.conf_int().loc["rare"].isna().all()
    assert result.tidy().set_index("term").loc["rare"].isna().all()


@pytest.mark.parametrize("model", [hdpf.logit, hdpf.multinomial, hdpf.hazard])
def test_a_miscoded_cell_that_hides_all_others_is_warned_of(model: Callable[..., Any]) -> None:
    """Beside it the others are equal to so many digits that its column's error would be 0."""
    n, rng = 1_500, np.random.default_rng(1)
    x, z = rng.normal(size=(2, n))
    y = (rng.random(n) < expit(0.5 * x - 0.2 * z)).astype(float)
    x[0], y[0] = 1e9, 1.0  # a person with an event at the first time
    rows = pd.DataFrame({"x": x, "z": z, "y": y, "time": 1.0 + np.arange(n) % 2, "level": np.where(y > 0, "b", "a")})
    schema = hdp.Schema(
        x=hdp.Continuous(-10, 1e10),
        z=hdp.Continuous(-10, 10),
        y=hdp.Binary(),
        time=hdp.Duration(horizon=2),
        level=hdp.Categorical(["a", "b"]),
    )
    outcome = {hdpf.hazard: "Surv(time, y)", hdpf.multinomial: "level"}.get(model, "y")
    options = {"intervals": 2, "baseline": "dummies"} if model is hdpf.hazard else {}
    with pytest.warns(RuntimeWarning, match="very far from the others"):
        model(f"{outcome} ~ x + z", hdp.Study(public=rows, schema=schema), **options).fit_public()

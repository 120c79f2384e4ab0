"""Public fits against R's glm: ten formulas on two data sets, with weights, offsets and a repeated column."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

REFERENCE = json.loads((Path(__file__).parent / "glm.json").read_text(encoding="utf-8"))
FITS = REFERENCE["fits"]
LOADERS = {"gbsg": hdp.datasets.load_gbsg, "rotterdam": hdp.datasets.load_rotterdam}
COEFFICIENT, STD_ERROR = 1e-8, 1e-6


def schema() -> hdp.Schema:
    return hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        age_copy=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 40, missing=1),  # gbsg has up to 51: public rows are not clipped
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        grade3=hdp.Binary(complete=True),
        hormon=hdp.Binary(complete=True),
        event3=hdp.Binary(complete=True),
        w=hdp.Weight(max=4, complete=True),
        o=hdp.Offset(-2, 2, complete=True),
    )


def study(data: str) -> hdp.Study:
    frame = LOADERS[data]()
    derived = {"w": 1 + frame["nodes"] % 4, "o": frame["grade3"] - 0.5, "age_copy": frame["age"]}
    assert set(derived) == set(REFERENCE["derived"])
    return hdp.Study(public=frame.assign(**derived), schema=schema())


def in_r(name: str) -> str:
    """Return R's name of a coefficient: no [T.], and (Intercept)."""
    return "(Intercept)" if name == "Intercept" else name.replace("[T.", "").replace("[", "").replace("]", "")


def numbers(values: list[float | None]) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values])


def fit(reference: dict[str, object]) -> hdp.Result:
    model = hdpf.logit(
        reference["formula"],
        data=study(str(reference["data"])),
        weights=reference["weights"],
        offset=reference["offset"],
    )
    if None not in reference["coefficients"]:
        return model.fit_public()
    with pytest.warns(RuntimeWarning, match="public rows do not identify is NaN: age_copy"):
        return model.fit_public()


def test_the_reference_has_what_is_stated() -> None:
    assert len(FITS) == 20
    assert {each["data"] for each in FITS.values()} == {"gbsg", "rotterdam"}
    assert sum(each["weights"] is not None for each in FITS.values()) == 4
    assert sum(each["offset"] is not None for each in FITS.values()) == 4
    assert sum(None in each["coefficients"] for each in FITS.values()) == 2


@pytest.mark.covering(cases=8)
@pytest.mark.parametrize("name", FITS)
def test_fit_public_is_glm(name: str) -> None:
    reference = FITS[name]
    result = fit(reference)
    assert [in_r(term) for term in result.params.index] == reference["terms"]
    coefficients, errors = numbers(reference["coefficients"]), numbers(reference["std_errors"])
    params, bse = result.params.to_numpy(), result.bse.to_numpy()
    assert np.array_equal(np.isnan(params), np.isnan(coefficients))
    assert np.array_equal(np.isnan(bse), np.isnan(errors))
    assert np.nanmax(np.abs(params - coefficients)) < COEFFICIENT
    assert np.nanmax(np.abs(bse - errors)) < STD_ERROR
    assert np.nanmax(np.abs(bse / errors - 1.0)) < STD_ERROR


@pytest.mark.parametrize("name", [name for name in FITS if name.endswith(("main", "offset_weights"))])
def test_a_public_fit_is_ordinary(name: str) -> None:
    reference = FITS[name]
    result = fit(reference)
    assert not result.cov_privacy.to_numpy().any()
    z = numbers(reference["coefficients"]) / numbers(reference["std_errors"])
    assert result.tvalues.to_numpy() == pytest.approx(z, rel=1e-6)
    assert result.pvalues.to_numpy() == pytest.approx([math.erfc(abs(each) / math.sqrt(2.0)) for each in z], rel=1e-5)
    limits = result.conf_int(0.05)
    half = 1.959963984540054 * numbers(reference["std_errors"])
    assert limits[0].to_numpy() == pytest.approx(numbers(reference["coefficients"]) - half, abs=1e-6)
    assert limits[1].to_numpy() == pytest.approx(numbers(reference["coefficients"]) + half, abs=1e-6)


def test_an_unidentified_coefficient_is_named() -> None:
    for name in ("gbsg.rank_deficient", "rotterdam.rank_deficient"):
        result = fit(FITS[name])
        assert list(result.params.index[result.params.isna()]) == ["age_copy"]
        assert "age_copy" in str(result.summary())


def test_other_data_are_not_the_reference() -> None:
    # What makes the comparison above able to fail: one outcome of 555 changed.
    reference = FITS["gbsg.main"]
    frame = LOADERS["gbsg"]()
    first = frame["event3"].first_valid_index()
    frame.loc[first, "event3"] = 1.0 - frame.loc[first, "event3"]
    model = hdpf.logit(reference["formula"], data=hdp.Study(public=frame, schema=schema()))
    assert np.max(np.abs(model.fit_public().params.to_numpy() - numbers(reference["coefficients"]))) > 1e-4

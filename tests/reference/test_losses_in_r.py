"""Public fits of other losses against R's lm, glm and survreg, and against statsmodels' QuantReg and RLM."""

import json
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.losses.located import scale_of, window

REFERENCE = json.loads((Path(__file__).parent / "losses.json").read_text(encoding="utf-8"))
FITS = REFERENCE["fits"]
MODELS = {
    "linear": hdpf.linear,
    "poisson": lambda *given, **more: hdpf.mestimate(*given, loss=hdp.losses.Poisson(), **more),
    "exponential": lambda *given, **more: hdpf.mestimate(*given, loss=hdp.losses.Exponential(), **more),
}


@pytest.fixture(scope="module")
def study() -> hdp.Study:
    frame = hdp.datasets.load_gbsg()
    frame = frame.assign(w=1 + frame["nodes"] % 4, o=frame["grade3"] - 0.5, age_copy=frame["age"])
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        age_copy=hdp.Continuous(20, 90, complete=True),
        nodes=hdp.Continuous(0, 40, missing=1),  # gbsg has up to 51: public rows are not clipped
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        grade3=hdp.Binary(complete=True),
        hormon=hdp.Binary(complete=True),
        time=hdp.Duration(REFERENCE["horizon"], unit="days", complete=True),
        event=hdp.Binary(complete=True),
        w=hdp.Weight(max=4, complete=True),
        o=hdp.Offset(-2, 2, complete=True),
    )
    return hdp.Study(public=frame, schema=schema)


def in_r(name: str) -> str:
    return "(Intercept)" if name == "Intercept" else name.replace("[T.", "").replace("[", "").replace("]", "")


def numbers(values: list[float | None]) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values])


@pytest.mark.parametrize("reference", FITS, ids=[f"{fit['kind']}: {fit['formula']}" for fit in FITS])
def test_public_fits_are_r_s(study: hdp.Study, reference: dict[str, object]) -> None:
    make = MODELS[str(reference["kind"])]
    given = {name: reference[name] for name in ("weights", "offset") if reference[name] is not None}
    aliased = "age_copy" in str(reference["formula"])
    with pytest.warns(RuntimeWarning, match="NaN: age_copy") if aliased else nullcontext():
        result = make(reference["formula"], study, **given).fit_public()
    assert [in_r(name) for name in result.params.index] == reference["terms"]
    found, errors = result.params.to_numpy(), result.bse.to_numpy()
    np.testing.assert_allclose(found, numbers(reference["coefficients"]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(errors, numbers(reference["errors"]), rtol=1e-6)


def design(study: hdp.Study) -> tuple[np.ndarray, np.ndarray]:
    table = study.public.raw(["age", "nodes", "hormon"])
    X = np.column_stack([np.ones(table.rows), table.numeric["nodes"], table.numeric["hormon"]])
    return X, table.numeric["age"]


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_quantiles_are_those_of_quantreg(study: hdp.Study, q: float) -> None:
    result = hdpf.quantile("age ~ nodes + hormon", study, q=q).fit_public()
    X, y = design(study)

    def check(values: np.ndarray) -> float:
        r = y - X @ values
        return float(np.sum(np.maximum(q * r, (q - 1.0) * r)))

    theirs = sm.QuantReg(y, X).fit(q=q, max_iter=5000, p_tol=1e-9)
    assert check(result.params.to_numpy()) <= check(theirs.params) * (1.0 + 1e-9)
    np.testing.assert_allclose(result.params.to_numpy(), theirs.params, atol=0.2)
    assert np.all(np.abs(np.log(result.bse.to_numpy() / theirs.bse)) < 0.7)


def test_huber_s_estimate_is_that_of_rlm_with_a_fixed_scale(study: hdp.Study) -> None:
    X, y = design(study)
    result = hdpf.linear("age ~ nodes + hormon", study, loss=hdp.losses.Huber(6.0)).fit_public()
    theirs = sm.RLM(y, X, M=sm.robust.norms.HuberT(t=6.0)).fit(
        start_scale=1.0, start_params=np.zeros(3), update_scale=False, maxiter=2000, tol=1e-13
    )
    assert theirs.scale == 1.0
    np.testing.assert_allclose(result.params.to_numpy(), theirs.params, rtol=1e-7)
    mine = y - X @ result.params.to_numpy()
    assert np.max(np.abs(X.T @ np.clip(mine, -6.0, 6.0))) < 1e-6
    bread = np.linalg.inv(X.T @ (X * (np.abs(mine) <= 6.0)[:, None]))
    meat = X.T @ (X * np.clip(mine, -6.0, 6.0)[:, None] ** 2)
    robust = np.sqrt(np.diag(bread @ meat @ bread) * len(y) / (len(y) - 3))
    np.testing.assert_allclose(result.bse.to_numpy(), robust, rtol=1e-9)


@pytest.mark.parametrize("c", [0.1, 0.5])
def test_huber_s_estimate_is_found_where_nobody_is_within_c_of_zero(c: float) -> None:
    frame = hdp.datasets.load_gbsg()
    frame["logtime"] = np.log(frame["time"])
    schema = hdp.Schema(logtime=hdp.Continuous(0, 9), age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 51))
    study = hdp.Study(public=frame, schema=schema)
    values = hdpf.linear("logtime ~ age + nodes", study, loss=hdp.losses.Huber(c)).fit_public().params.to_numpy()
    X = np.column_stack([np.ones(len(frame)), frame["age"], frame["nodes"]])
    assert np.max(np.abs(X.T @ np.clip(frame["logtime"] - X @ values, -c, c))) < 1e-6


def test_somebody_s_own_squares_are_least_squares(study: hdp.Study) -> None:
    own = hdp.losses.Loss(
        value=lambda eta, y: 0.5 * (eta - y) ** 2,
        score=lambda eta, y: eta - y,
        curvature=lambda eta, y: np.ones_like(eta + y),
        lipschitz=80.0,
        smoothness=1.0,
        residual=(-80.0, 80.0),
        name="squares of my own",
    )
    mine = hdpf.mestimate("age ~ nodes + hormon", study, loss=own).fit_public()
    theirs = hdpf.linear("age ~ nodes + hormon", study).fit_public()
    np.testing.assert_allclose(mine.params.to_numpy(), theirs.params.to_numpy(), rtol=1e-8)
    X, y = design(study)
    robust = sm.OLS(y, X).fit(cov_type="HC1").bse
    np.testing.assert_allclose(mine.bse.to_numpy(), robust, rtol=1e-7)


def test_the_window_of_powell_s_sandwich_is_what_the_docstring_says() -> None:
    residuals = np.random.default_rng(0).normal(0.0, 2.0, 20_001)
    assert scale_of(residuals) == pytest.approx(2.0, rel=0.03)
    assert window(2.0, 243) == pytest.approx(2.0 * 1.3 / 3.0)

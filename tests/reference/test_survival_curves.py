"""Survival curves, restricted means and tests against R's survival, at the same cut points."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.life_tables import LifeTable
from tests import known_noise

REFERENCE = json.loads((Path(__file__).parent / "survival_curves.json").read_text(encoding="utf-8"))
CUTS = REFERENCE["cuts"]
CSV = Path(hdpstats.__file__).parent / "schema" / "csv"
CLOSE = {"rtol": 1e-8, "atol": 1e-8}
SCHEMA = hdp.Schema(
    time=hdp.Duration(2557),
    entry=hdp.Duration(2557),
    status=hdp.Binary(),
    cause=hdp.Categorical(["none", "first", "second"]),
    hormon=hdp.Binary(),
    grade=hdp.Categorical(["1", "2", "3"]),
    w=hdp.Weight(max=3),
    age=hdp.Continuous(20, 95),
    nodes=hdp.Continuous(0, 60),
)


def gbsg() -> pd.DataFrame:
    raw = pd.read_csv(CSV / "gbsg.csv")
    derived = {"w": 1.0 + raw["nodes"] % 3, "entry": 30.0 * (raw["age"] % 12), "grade": raw["grade"].astype(str)}
    return raw.rename(columns={"rfstime": "time"}).assign(**derived)


def rotterdam() -> pd.DataFrame:
    raw = pd.read_csv(CSV / "rotterdam.csv")
    died = (raw["death"] == 1) & (raw["dtime"] <= raw["rtime"])
    cause = np.where(raw["recur"] == 1, "first", np.where(died, "second", "none"))
    time = np.where(raw["recur"] == 1, raw["rtime"], np.minimum(raw["rtime"], raw["dtime"]))
    return raw.assign(cause=cause, status=(cause != "none").astype(int), time=time)


def public(formula: str, frame: pd.DataFrame, **options: object) -> hdp.SurvivalCurves:
    names = [name for name in SCHEMA if name in frame]
    study = hdp.Study(public=frame, schema=hdp.Schema(**{name: SCHEMA[name] for name in names}))
    return hdpf.survfit(formula, study, times=CUTS, **options).fit_public()


@pytest.fixture(scope="module")
def plain() -> hdp.SurvivalCurves:
    return public("Surv(time, status) ~ hormon", gbsg())


FITS = {
    "plain": ("Surv(time, status) ~ hormon", {}),
    "late": ("Surv(entry, time, status) ~ hormon", {}),
    "weighted": ("Surv(time, status) ~ hormon", {"weights": "w"}),
}


@pytest.mark.parametrize("name", FITS)
def test_curves(name: str) -> None:
    formula, options = FITS[name]
    found = public(formula, gbsg(), **options).tidy()
    for group in ("0", "1"):
        own, expected = found[found["group"] == group], REFERENCE["curves"][name][f"hormon={group}"]
        for column, values in expected.items():
            np.testing.assert_allclose(own[column], values, err_msg=column, **CLOSE)


def test_several_states() -> None:
    found = public("Surv(time, cause) ~ hormon", rotterdam()).tidy()
    for group in ("0", "1"):
        for cause in ("first", "second"):
            own = found[(found["group"] == group) & (found["cause"] == cause)]
            for column, values in REFERENCE["states"][f"hormon={group}"][cause].items():
                np.testing.assert_allclose(own[column], values, err_msg=column, **CLOSE)


def test_quantiles(plain: hdp.SurvivalCurves) -> None:
    found = plain.quantile([0.1, 0.25, 0.5])
    for name, column in (("quantile", "estimate"), ("lower", "conf_low"), ("upper", "conf_high")):
        for group in ("0", "1"):
            expected = REFERENCE["quantiles"][name][f"hormon={group}"]
            known = [np.inf if each is None else each for each in expected.values()]
            np.testing.assert_allclose(found.loc[found["group"] == group, column], known)


@pytest.mark.parametrize("name", ["plain", "late"])
def test_restricted_means(name: str) -> None:
    found = public(FITS[name][0], gbsg()).restricted_mean(1825)
    np.testing.assert_allclose(found["estimate"], REFERENCE["means"][name]["rmean"], **CLOSE)
    np.testing.assert_allclose(found["std_error"], REFERENCE["means"][name]["se(rmean)"], **CLOSE)


TESTS = {
    "logrank": ("hormon", "logrank", None),
    "peto": ("hormon", "peto", None),
    "three": ("grade", "logrank", None),
    "three_peto": ("grade", "peto", None),
    "stratified": ("grade + hormon", "logrank", "hormon"),
}


@pytest.mark.parametrize("name", TESTS)
def test_tests(name: str) -> None:
    groups, method, strata = TESTS[name]
    found = public(f"Surv(time, status) ~ {groups}", gbsg()).logrank_test(method, strata=strata)
    expected = REFERENCE["tests"][name]
    np.testing.assert_allclose(found.table["observed"], expected["observed"], **CLOSE)
    np.testing.assert_allclose(found.table["expected"], expected["expected"], **CLOSE)
    np.testing.assert_allclose(found.table["std_error"] ** 2, expected["variance"], **CLOSE)
    assert found.statistic == pytest.approx(expected["statistic"], rel=1e-8)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("two", "Surv(time, status) ~ hormon"),
        ("three", "Surv(time, status) ~ grade"),
        ("late", "Surv(entry, time, status) ~ hormon"),
    ],
)
def test_hazard_ratios(name: str, formula: str) -> None:
    """Cox's with Breslow's ties."""
    found = public(formula, gbsg()).logrank_test().hazard_ratios()
    expected = REFERENCE["ratios"][name]
    np.testing.assert_allclose(np.log(found["estimate"]), np.atleast_1d(expected["estimate"]), rtol=1e-8)
    np.testing.assert_allclose(found["std_error"], np.atleast_1d(expected["std_error"]), rtol=1e-8)


def adjusted(outcome: str, frame: pd.DataFrame) -> hdp.SurvivalCurves:
    """Return the curves of public rows under the overlap weights of their own propensity model."""
    names = [name for name in SCHEMA if name in frame]
    study = hdp.Study(public=frame, schema=hdp.Schema(**{name: SCHEMA[name] for name in names}))
    weighting = hdp.propensity("hormon ~ age + log1p(nodes)", study).fit_public().weights()
    return hdpf.survfit(f"Surv(time, {outcome}) ~ hormon", study, times=CUTS, weighting=weighting).fit_public()


def errors_at_known_weights(curves: hdp.SurvivalCurves, group: int, cause: int | None) -> list[float]:
    """Return standard errors at the cut points that take the weights as known, as R does."""
    arm = curves.curves()[group].weighted
    assert arm is not None
    known = dataclasses.replace(arm, rows=dataclasses.replace(arm.rows, X=np.zeros_like(arm.rows.X)))
    S = arm.sets.curves.at(arm.sets.curves.survival, np.array(CUTS, dtype=float), start=1.0)
    return known.errors(np.array(CUTS, dtype=float), cause) * (S if cause is None else 1.0)


def test_adjusted_curves() -> None:
    """Estimates, and errors but for what the estimation of the propensity adds: R takes weights as known."""
    curves, expected = adjusted("status", gbsg()), REFERENCE["adjusted"]
    found = curves.tidy()
    for place, group in enumerate(("0", "1")):
        own, theirs = found[found["group"] == group], expected["curves"][f"hormon={group}"]
        np.testing.assert_allclose(own["estimate"], theirs["estimate"], **CLOSE)
        np.testing.assert_allclose(own["events"], theirs["events"], **CLOSE)
        np.testing.assert_allclose(errors_at_known_weights(curves, place, None), theirs["std_error"], **CLOSE)
    np.testing.assert_allclose(curves.restricted_mean(1825)["estimate"], expected["mean"], **CLOSE)
    test = curves.logrank_test()
    assert test.log_hazard_ratios[0] == pytest.approx(expected["ratio"]["estimate"], rel=1e-7)
    assert np.sqrt(test.covariance[0, 0]) < expected["ratio"]["std_error"]


def test_adjusted_incidence() -> None:
    curves = adjusted("cause", rotterdam())
    found = curves.tidy()
    for place, group in enumerate(("0", "1")):
        for number, cause in enumerate(("first", "second")):
            own = found[(found["group"] == group) & (found["cause"] == cause)]
            theirs = REFERENCE["adjusted"]["states"][f"hormon={group}"][cause]
            np.testing.assert_allclose(own["estimate"], theirs["estimate"], **CLOSE)
            np.testing.assert_allclose(errors_at_known_weights(curves, place, number), theirs["std_error"], **CLOSE)


@pytest.mark.parametrize(("name", "frame"), [("gbsg", gbsg), ("rotterdam", rotterdam)])
def test_a_table_without_noise_is_near_the_curve_without_intervals(name, frame, monkeypatch) -> None:
    """Nearer than the actuarial estimate, which it is if half of an interval's censorings are before its events."""
    known_noise.off(monkeypatch)
    rows = frame()
    schema = hdp.Schema(time=SCHEMA["time"], status=SCHEMA["status"])
    study = hdp.Study(private=rows, public=rows.copy(), schema=schema, budget=hdp.Budget(epsilon=50))
    found = hdpf.survfit("Surv(time, status) ~ 1", study, times=CUTS).fit(epsilon=50)
    exact, actuarial = found.tidy(source="public")["estimate"], np.array(REFERENCE["grouped"][name]["survival"])
    apart = np.abs(found.tidy()["estimate"] - exact)
    assert apart.iloc[:6].max() < 0.002  # up to 1825 days, where hundreds are at risk
    assert (apart**2).sum() < ((actuarial - exact) ** 2).sum()
    half = np.full(len(CUTS), 0.5)
    monkeypatch.setattr(LifeTable, "missed", property(lambda _: (half, half)))
    again = dataclasses.replace(found)
    np.testing.assert_allclose(again.tidy()["estimate"], actuarial, **CLOSE)

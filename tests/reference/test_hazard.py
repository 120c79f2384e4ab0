"""Hazard fits against R's glm on person-period rows (three links, late entry, weights, offsets), and against coxph."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hdpstats.families.hazard.likelihood import HazardData, HazardFit, Likelihood, fit_hazard
from hdpstats.formulas.outcome import dummies, spline
from hdpstats.records.model import TimeGrid
from hdpstats.schema.datasets import load_flchain, load_gbsg, load_nwtco, load_rotterdam
from tests.unit.solvers.hazards import use

REFERENCE = json.loads((Path(__file__).parent / "hazard.json").read_text(encoding="utf-8"))
FITS, SCALED = REFERENCE["fits"], REFERENCE["scaled"]
PRECISION = 1e-9  # the score equations of the reference hold to 1e-12 of their scale


def breast_cancer(name: str) -> pd.DataFrame:
    frame = {"gbsg": load_gbsg, "rotterdam": load_rotterdam}[name]()
    person = {"gbsg": load_gbsg, "rotterdam": load_rotterdam}[name](harmonised=False)["pid"]
    return frame.assign(
        size20=(frame["size"] == "20-50").astype(int),
        size50=(frame["size"] == ">50").astype(int),
        w=1 + frame["nodes"] % 4,
        o=frame["grade3"] - 0.5,
        start=250 * (person % 5),
    )


def frame_of(name: str) -> pd.DataFrame:
    return pd.DataFrame(REFERENCE["data"][name]) if name in REFERENCE["data"] else breast_cancer(name)


def grid_of(horizon: float, intervals: int) -> TimeGrid:
    return TimeGrid(tuple(horizon * s / intervals for s in range(1, intervals + 1)))


def spells_of(reference: dict[str, Any]) -> HazardData:
    frame, grid = frame_of(reference["data"]), grid_of(reference["horizon"], reference["intervals"])
    time = frame["time"].to_numpy(dtype=float)
    entry = grid.interval_of(frame["start"]) if reference["start"] else np.zeros(len(frame), dtype=int)
    return HazardData(
        A=spline(grid) if reference["baseline"] == "spline" else dummies(grid),
        Z=frame[REFERENCE["covariates"][reference["data"]]].to_numpy(dtype=float),
        entry=entry,
        exit=np.maximum(np.maximum(grid.interval_of(time), 1), entry),
        event=(frame["event"] == 1) & (time <= grid.horizon),
        weights=frame["w"] if reference["weights"] else np.ones(len(frame)),
        offset=frame["o"] if reference["offset"] else np.zeros(len(frame)),
    )


def agrees(found: HazardFit, reference: dict[str, Any]) -> None:
    assert found.converged
    coefficients = np.array(reference["coefficients"])
    assert np.max(np.abs(found.theta - coefficients)) < PRECISION * max(1.0, np.max(np.abs(coefficients)))
    assert found.deviance == pytest.approx(reference["deviance"], rel=1e-11)
    if reference["link"] == "logit":  # for the other links R's errors come from the expected information
        errors = np.sqrt(np.diag(np.linalg.inv(found.information)))
        assert errors == pytest.approx(np.array(reference["std_errors"]), rel=1e-6)


def test_the_reference_has_what_is_stated() -> None:
    assert {each["data"] for each in FITS.values()} == {"gbsg", "rotterdam", "pbc", "lung"}
    assert {each["link"] for each in FITS.values()} == {"logit", "cloglog", "probit"}
    assert sum(each["start"] for each in FITS.values()) == 6
    assert sum(each["weights"] and each["offset"] for each in FITS.values()) == 6
    assert sum(each["baseline"] == "dummies" for each in FITS.values()) == 6
    assert all(each["intervals"] == 20 for each in FITS.values())


@pytest.mark.covering(1)
@pytest.mark.parametrize("method", ["direct", "tabulated"])
@pytest.mark.parametrize("name", FITS)
def test_a_hazard_is_glm_on_person_period_rows(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, method)
    reference = FITS[name]
    data = spells_of(reference)
    assert data.person_intervals == reference["rows"]
    agrees(fit_hazard(data, reference["link"]), reference)


def scaled(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariates centred and divided by their range, then by the largest row norm; times; events."""
    frame = load_nwtco() if name.startswith("nwtco") else load_flchain()
    time, event = ("edrel", "rel") if name.startswith("nwtco") else ("futime", "death")
    if name.startswith("flchain"):
        frame = frame.assign(male=(frame["sex"] == "M").astype(float))
    spelled = {"sample.yr": "sample_yr", "flc.grp": "flc_grp", "lambda": "lambda_"}
    columns = [spelled.get(column, column) for column in SCALED[name]["columns"]]
    frame = frame[[*columns, time, event]].dropna()
    Z = frame[columns].to_numpy(dtype=float)
    Z = (Z - Z.mean(axis=0)) / np.ptp(Z, axis=0)
    Z /= np.linalg.norm(Z, axis=1).max()
    return Z, frame[time].to_numpy(dtype=float), frame[event].to_numpy(dtype=int)


def scaled_data(name: str, *, intervals: int, baseline: str = "spline") -> HazardData:
    Z, time, event = scaled(name)
    grid = grid_of(1.0, intervals)
    return HazardData(
        A=spline(grid) if baseline == "spline" else dummies(grid),
        Z=Z,
        entry=np.zeros(len(Z)),
        exit=np.maximum(np.ceil(intervals * time / time.max()), 1),
        event=event,
        weights=np.ones(len(Z)),
        offset=np.zeros(len(Z)),
    )


def distance_to_cox(name: str, slopes: np.ndarray) -> float:
    cox = np.array(SCALED[name]["cox"])
    return float(np.linalg.norm(slopes - cox) / np.linalg.norm(cox))


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("method", ["direct", "tabulated"])
@pytest.mark.parametrize("name", SCALED)
def test_two_hundred_intervals(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, method)
    reference = SCALED[name]
    data = scaled_data(name, intervals=200)
    assert (data.spells, data.person_intervals) == (reference["people"], reference["rows"])
    agrees(fit_hazard(data, "logit"), reference)


@pytest.mark.parametrize("name", SCALED)
def test_a_discrete_time_logit_is_near_cox(name: str) -> None:
    found = fit_hazard(scaled_data(name, intervals=200), "logit")
    assert 0.02 < distance_to_cox(name, found.theta[3:]) < 0.09


@pytest.mark.parametrize(
    ("name", "intervals", "limit"),
    [("flchain6", 50, 0.015), ("nwtco5", 50, 0.015), ("flchain8", 50, 0.018), ("flchain8", 100, 0.005)],
)
def test_the_complementary_log_log_is_nearer(name: str, intervals: int, limit: float) -> None:
    # Proportional hazards in grouped time: what is left is what grouping loses.
    found = fit_hazard(scaled_data(name, intervals=intervals, baseline="dummies"), "cloglog")
    assert distance_to_cox(name, found.theta[intervals:]) < limit


def test_twenty_intervals_need_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    # Newton's method diverges here where steps that overshoot are not halved.
    passes, computed = [], Likelihood._derivatives
    monkeypatch.setattr(Likelihood, "_derivatives", lambda self, theta: passes.append(1) or computed(self, theta))
    assert fit_hazard(scaled_data("flchain6", intervals=20), "logit").converged
    assert len(passes) <= 12


def test_other_data_are_not_the_reference() -> None:
    # What makes the comparison above able to fail: one event of 299 that did not happen.
    reference = FITS["gbsg.logit"]
    data = spells_of(reference)
    event = data.event.copy()
    event[np.flatnonzero(event)[0]] = 0
    names = ("A", "Z", "entry", "exit", "weights", "offset")
    other = HazardData(**{name: getattr(data, name) for name in names}, event=event)
    assert np.max(np.abs(fit_hazard(other, "logit").theta - np.array(reference["coefficients"]))) > 1e-4

"""Concordance, product-limit curves and Brier scores against R's survival."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats
from hdpstats.public.follow_up import FollowUp, brier_scores, concordance, kaplan_meier

REFERENCE = json.loads((Path(__file__).parent / "discrimination.json").read_text(encoding="utf-8"))
RAW = pd.read_csv(Path(hdpstats.__file__).parent / "schema" / "csv" / "rotterdam.csv")
RECUR = RAW["recur"].to_numpy()
SCORE = (np.round(RAW["age"] / 5) + RAW["nodes"]).to_numpy(dtype=float)


def follow_up(kind: str) -> FollowUp:
    """The columns that the R script derives, derived again."""
    half = np.ceil(RAW["rtime"].to_numpy() / 180)
    entry = np.maximum(0.0, half - 1 - RAW["pid"].to_numpy() % 6)
    rows = FollowUp(time=half, cause=RECUR.astype(np.int64), causes=1)
    if kind == "days":
        return replace(rows, time=RAW["rtime"].to_numpy(dtype=float))
    if kind == "weighted":
        return replace(rows, weights=1.0 + RAW["pid"].to_numpy() % 3)
    if kind == "entry":
        return replace(rows, entry=entry)
    if kind == "cluster":
        return replace(rows, entry=entry, person=RAW["pid"].to_numpy() // 3)
    if kind.startswith("cause"):
        died = (RAW["death"] == 1) & (RAW["dtime"] <= RAW["rtime"])
        return replace(rows, cause=np.where(RECUR == 1, 1, np.where(died, 2, 0)), causes=2)
    return rows


@pytest.mark.parametrize("kind", REFERENCE["concordances"])
def test_concordance(kind: str) -> None:
    expected = REFERENCE["concordances"][kind]
    found = concordance(follow_up(kind), SCORE, cause=2 if kind == "cause2" else 1)
    assert found.pairs == expected["pairs"]
    assert found.value == pytest.approx(expected["value"], rel=1e-12)
    assert found.std_error == pytest.approx(expected["std_error"], rel=1e-10)


@pytest.mark.parametrize("kind", REFERENCE["curves"])
def test_kaplan_meier(kind: str) -> None:
    expected = REFERENCE["curves"][kind]
    curves = kaplan_meier(follow_up(kind))
    times = np.array(expected["times"])
    np.testing.assert_allclose(curves.at(curves.survival, times, start=1.0), expected["survival"], rtol=1e-12)
    np.testing.assert_allclose(
        curves.at(curves.std_error[:, 0], times, start=0.0), expected["std_errors"], rtol=1e-7, atol=1e-12
    )


def test_aalen_johansen() -> None:
    expected = REFERENCE["incidences"]
    curves = kaplan_meier(follow_up("cause"))
    times = np.array(expected["times"])
    np.testing.assert_allclose(curves.at(curves.survival, times, start=1.0), expected["survival"], rtol=1e-12)
    for k, name in enumerate(["cause1", "cause2"]):
        found = curves.at(curves.incidence[:, k], times, start=0.0)
        np.testing.assert_allclose(found, expected[name], rtol=1e-12, atol=1e-15)


def test_brier_scores() -> None:
    expected = REFERENCE["brier"]
    times = np.array(expected["times"])
    incidence = 1.0 - np.exp(-times / 4000 * np.exp(0.05 * (SCORE[:, None] - 14)))
    np.testing.assert_allclose(brier_scores(follow_up("days"), incidence, times), expected["scores"], rtol=1e-12)

"""Facts go to JSON and back, and must fit together."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.formulas.outcome import log_spline, spline
from hdpstats.records.model import TimeGrid
from hdpstats.results import HazardFacts, ModelFacts

HAZARD = HazardFacts(
    link="cloglog",
    grid=TimeGrid((30.0, 90.0, 365.25)),
    unit_of_time="days",
    start=None,
    stop="time",
    event="event",
    causes=("relapse", "death"),
    baseline=((1.0, 0.1), (1.0, 1 / 3), (1.0, -0.5)),
    baseline_names=("baseline[1]", "baseline[2]"),
    cap="one person's hazards add up to at most 4",
    typical=(54.5, 0.25),
)
FACTS = ModelFacts(
    model="DiscreteHazard",
    formula="Surv(time, event) ~ age + hormon",
    response="Surv(time, event)",
    method="objective perturbation",
    records=1000,
    public_rows=None,
    weights=None,
    offset=None,
    loss=None,
    exponentiated="hazard ratio",
    hazard=HAZARD,
)


@pytest.mark.parametrize(
    "hazard", [HAZARD, replace(HAZARD, typical=None, cap=None, unit_of_time=None, start="entry", causes=("event",))]
)
def test_facts_come_back_from_json(hazard):
    facts = replace(FACTS, hazard=hazard)
    assert ModelFacts.from_dict(json.loads(json.dumps(facts.to_dict(), allow_nan=False))) == facts


def test_the_features_are_the_rows_of_the_baseline():
    assert HAZARD.features.tolist() == [list(row) for row in HAZARD.baseline]


@pytest.mark.parametrize(
    "change",
    [
        {"link": "log"},
        {"baseline": HAZARD.baseline[:2]},
        {"baseline": ((1.0,), (1.0, 0.3), (1.0, 0.5))},
        {"causes": ()},
    ],
)
def test_facts_that_do_not_fit_together_are_refused(change):
    with pytest.raises(ArgumentError, match=next(iter(change))):
        replace(HAZARD, **change)


@pytest.mark.parametrize("change", [{"loss": "logistic"}, {"hazard": None}])
def test_a_model_has_a_loss_or_hazards(change):
    with pytest.raises(ArgumentError, match="loss"):
        replace(FACTS, **change)


@pytest.mark.parametrize(
    ("name", "value"),
    [("baseline", [[1.0, None]] * 3), ("grid", {"cuts": [3.0, 2.0, 9.0]}), ("typical", ["a"]), ("stop", None)],
)
def test_broken_facts_are_refused(name, value):
    entries = json.loads(json.dumps(FACTS.to_dict()))
    entries["hazard"][name] = value
    with pytest.raises(ArgumentError):
        ModelFacts.from_dict(entries)


def with_baseline(A, strata=None):
    names = tuple(f"b{k}" for k in range(A.shape[1]))
    grid = TimeGrid(tuple(float(s) for s in range(1, A.shape[0] // (2 if strata else 1) + 1)))
    rows = tuple(tuple(row) for row in A.tolist())
    return replace(HAZARD, grid=grid, baseline=rows, baseline_names=names, strata=strata)


def test_facts_say_from_how_many_people_on_a_baseline_misses_hazards():
    grid = TimeGrid(tuple(float(s) for s in range(1, 25)))
    four = with_baseline(log_spline(grid, 4))
    assert four.missed_courses(20_000) is None
    assert "take df=5" in four.missed_courses(20_001)
    assert "take df=6" in four.missed_courses(60_001)
    two = with_baseline(np.kron(np.eye(2), log_spline(grid, 4)), strata=("arm",))
    assert two.missed_courses(40_000) is None
    assert "4 coefficients" in two.missed_courses(40_001)
    assert "take df=4" in with_baseline(log_spline(grid, 3)).missed_courses(1001)
    assert "spline in time" in with_baseline(spline(grid, 6)).missed_courses(100)
    assert with_baseline(np.eye(24)).missed_courses(10**9) is None
    assert with_baseline(log_spline(grid, 10)).missed_courses(10**7) is None

"""A site of people with several rows: whatever one person's rows hold, nothing but noisy numbers can differ."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.audit import observe
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.records.geometry import from_box
from hdpstats.records.model import HazardCap, HazardModel, TimeGrid
from tests.support import CORNERS, seen_of_ledger

SCHEMA = hdp.Schema(
    start=hdp.Duration(100, missing=0),
    stop=hdp.Duration(100, complete=True),
    event=hdp.Binary(complete=True),
    x=hdp.Continuous(0, 1, complete=True),
)
PEOPLE = 40
COLUMNS = ("patient", "start", "stop", "event", "x")
QUERY = ObjectiveQuery(
    model=HazardModel(
        formula="Surv(start, stop, event) ~ x",
        link="logit",
        grid=TimeGrid((25.0, 50.0, 75.0, 100.0)),
        baseline=tuple(tuple(float(row == column) for column in range(4)) for row in range(4)),
        geometry=from_box([0.0], [1.0], intercept=True),
        cap=HazardCap(total=4.0, margin=0.0, baseline=((0.0,) * 4,), slopes=((0.0,),)),
    ),
    centre=(0.0,) * 5,
    ridge=Fraction(512),
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
    hessian_share=Fraction(3, 20),
)


def rows_of_people():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient": np.repeat(np.arange(PEOPLE) + 100, 2),
            "start": np.tile([0.0, 40.0], PEOPLE),
            "stop": np.tile([40.0, 90.0], PEOPLE),
            "event": np.tile([0, 1], PEOPLE),
            "x": rng.random(2 * PEOPLE),
        }
    )


FRAME = rows_of_people()


def seen(frame, relation):
    """Return all that can be seen of a site, its ledger and its answer."""
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3, relation=relation, unit="patient")
    made = []

    def ask():
        made.append(hdp.LocalSite(frame, schema=SCHEMA, ledger=ledger, unit="patient", max_rows_per_unit=6, n_max=500))
        return made[0].answer(QUERY).to_dict()

    observed = observe(ask)
    return observed, repr(made), [site.records for site in made], seen_of_ledger(ledger)


@pytest.fixture(scope="module", params=["replace_one", "add_or_remove_one"])
def expected(request):
    """The relation, and what is seen of the study as it is."""
    found = seen(FRAME, request.param)
    assert found[0].exception is None
    assert found[0].result["records"] == "500"
    return request.param, found


def with_rows(rows):
    """Return a neighbour: the first person's two rows are exchanged for others."""
    cells = {}
    for place, name in enumerate(COLUMNS):
        column = np.empty(len(rows) + len(FRAME) - 2, dtype=object)
        for number, row in enumerate(rows):
            column[number] = row[place]
        column[len(rows) :] = FRAME[name].tolist()[2:]
        cells[name] = pd.Series(column, dtype=object)
    return pd.DataFrame(cells)


NEIGHBOURS = {
    "no rows": [],
    "stop before start": [("z", 50.0, 20.0, 1, 0.5), ("z", 20.0, 20.0, 1, 0.5)],
    "overlaps": [("z", 0.0, 80.0, 0, 0.1), ("z", 10.0, 90.0, 1, 0.2), ("z", 5.0, 100.0, 1, 0.3)],
    "events after events": [("z", 10.0 * step, 10.0 * step + 10.0, 1, 0.5) for step in range(10)],
    "beyond the horizon": [("z", 0.0, 1e9, 1, 0.5), ("z", 1e9, math.inf, 1, 0.5)],
    "codes of events": [("z", 20.0 * step, 20.0 * step + 20.0, code, 0.5) for step, code in enumerate([2, -1, "1"])],
    "no names": [(None, 0.0, 90.0, 1, 0.5), (math.nan, 0.0, 90.0, 1, 0.5), (" ", 0.0, 90.0, 1, 0.5)],
    "too many rows": [("z", step / 10, step / 10 + 0.1, 0, 0.5) for step in range(1000)],
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_no_history_of_one_person_shows(expected, name):
    relation, found = expected
    assert seen(with_rows(NEIGHBOURS[name]), relation) == found


@pytest.mark.covering(cases=20)
@pytest.mark.parametrize("name", CORNERS)
def test_no_cell_of_one_person_shows(expected, name):
    relation, found = expected
    cell = CORNERS[name]
    assert seen(with_rows([("z", cell, cell, cell, cell), (cell, 0.0, cell, 1, 0.5)]), relation) == found


def test_a_person_with_a_hundred_thousand_rows_shows_in_nothing_but_time(expected):
    relation, found = expected
    many = pd.DataFrame(dict(zip(COLUMNS, ("z", 0.0, 90.0, 1, 0.5), strict=True)), index=range(10**5))
    assert seen(pd.concat([many, FRAME.iloc[2:].astype({"patient": str})]), relation) == found

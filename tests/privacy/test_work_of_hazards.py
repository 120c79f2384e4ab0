"""How many cells of spells and intervals a hazard model goes through: a public number, whatever one person's follow-up.

A spy counts the cells whose caps, scores and curvatures are computed, one by one in numpy or all of a table's in a
compiled loop. It is the same for all tables of as many spells, and never more than in a rehearsal on costly rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.families.hazard import spells
from hdpstats.losses.hazard_links import LogitLink
from hdpstats.mechanisms.base import costly_table
from hdpstats.mechanisms.clipped_newton import ClippedNewtonQuery
from hdpstats.mechanisms.registry import person_loss_of, prepare
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable, PrivateTable
from tests.privacy.test_gradient_sensitivity import SCHEMA, Q, hazard_model, make_query

PEOPLE = 12
NEEDS = ("x1", "x2", "start", "stop", "event")


class Count:
    """Cells so far."""

    cells = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Count]:
    """Count the cells that the logit link's losses are computed in."""
    seen = Count()
    with monkeypatch.context() as patch:
        for name in ("saturated", "caps"):
            plain: Callable[..., object] = getattr(LogitLink, name)

            def spy(own: LogitLink, eta: np.ndarray, *rest: object, plain: Callable[..., object] = plain) -> object:
                seen.cells += eta.size
                return plain(own, eta, *rest)

            patch.setattr(LogitLink, name, spy)
        for name in ("add_caps", "add_scores", "add_curvatures"):
            loop: Callable[..., None] = getattr(spells, name)

            def go(*given: np.ndarray, loop: Callable[..., None] = loop, caps: bool = name == "add_caps") -> None:
                intervals, spells = given[0].shape[-1], given[2 if caps else 3].shape[0]
                seen.cells += intervals * spells
                loop(*given)

            patch.setattr(spells, name, go)
        yield seen


def site(most_rows: int) -> SiteFacts:
    unit = "id" if most_rows > 1 else None
    return SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=PEOPLE, unit=unit, most_rows=most_rows)


def rows(seed: int, *, most_rows: int = 1) -> pd.DataFrame:
    """Return hostile rows: late entry, no follow-up, times beyond the horizon, long covariates, overlapping rows."""
    rng, n = np.random.default_rng(seed), PEOPLE * most_rows
    start = rng.choice([0.0, 0.0, 1.0, 2.5, 4.0, np.nan, 9.0], n)
    return pd.DataFrame(
        {
            "id": rng.permutation(np.arange(n) // most_rows),
            "x1": rng.choice([-50.0, -1.0, 0.0, 2.0, 50.0, np.nan], n),
            "x2": rng.choice([-50.0, -0.5, 0.0, 1.0, 50.0], n),
            "y": 0.0,
            "start": start,
            "stop": rng.choice([0.0, 0.5, 1.0, 3.0, float(Q), 99.0, np.nan], n),
            "event": rng.integers(0, 2, n).astype(float),
            "cause": "none",
            "w": 1.0,
            "o": 0.0,
        }
    )


def admitted(frame: pd.DataFrame, site_facts: SiteFacts) -> AdmittedTable:
    return PrivateTable.from_frame(frame, SCHEMA, unit=site_facts.unit).admit(NEEDS)


def with_follow_up(frame: pd.DataFrame, start: float, stop: float, event: float) -> pd.DataFrame:
    """Return the neighbour in whom the first row's follow-up is another."""
    other = frame.copy()
    other.loc[0, ["start", "stop", "event"]] = [start, stop, event]
    return other


@pytest.mark.parametrize(
    ("start", "stop", "event"), [(0.0, 6.0, 1.0), (4.0, 6.0, 0.0), (2.0, 3.0, 1.0), (5.0, 99.0, 1.0)]
)
def test_an_objective_goes_through_as_many_cells_whatever_one_persons_follow_up(
    monkeypatch: pytest.MonkeyPatch, start: float, stop: float, event: float
) -> None:
    site_facts = site(1)
    person_loss = person_loss_of(hazard_model(long=True), site_facts)
    short = rows(0).assign(start=2.0, stop=3.0, event=0.0)
    zero, found = np.zeros(person_loss.dimension), []
    for frame in (short, with_follow_up(short, start, stop, event)):
        with counted(monkeypatch) as seen:
            problem = person_loss.people(admitted(frame, site_facts)).penalised(ridge=zero, centre=zero, linear=zero)
            problem.gradient(zero)
            problem.hessian(zero)
        found.append(seen.cells)
    # Caps, scores and curvatures of all cells; scores and curvatures of the last ones, as if they were events.
    assert found[0] == found[1] == PEOPLE * (Q + Q + 1 + Q + 1)


def test_caps_are_added_as_often_whether_anybody_has_a_second_row(monkeypatch: pytest.MonkeyPatch) -> None:
    site_facts = site(2)
    person_loss = person_loss_of(hazard_model(long=True), site_facts)
    alone = rows(0).assign(id=np.arange(PEOPLE), start=0.0, stop=3.0, event=0.0, x1=0.0)  # nobody is left out
    twice = alone.assign(id=[0, 0, *range(2, PEOPLE)])
    twice.loc[1, ["start", "stop"]] = [3.0, 6.0]
    found = []
    for frame in (alone, twice):
        with counted(monkeypatch) as seen:
            person_loss.people(admitted(frame, site_facts))
        found.append(seen.cells)
    assert found[0] == found[1] == 2 * PEOPLE * Q


@pytest.mark.covering(1)
@pytest.mark.parametrize("total", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("most_rows", [1, 2, 9])
def test_no_table_of_as_many_people_takes_more_than_a_rehearsal(
    monkeypatch: pytest.MonkeyPatch, most_rows: int, total: float
) -> None:
    site_facts = site(most_rows)
    model = hazard_model(long=True)
    model = replace(model, cap=replace(model.cap, total=total))
    query: ClippedNewtonQuery = make_query(model)
    prepared = prepare(query, site_facts)
    with rehearsing(), counted(monkeypatch) as rehearsed:
        prepared.compute(costly_table(query, site_facts, rows=PEOPLE * most_rows).admit(prepared.needs))
    # Caps of all cells of all spells, twice where people have several; losses of every cell. All that by factors, and
    # cell by cell; by factors, losses of the last cells apart.
    spells = PEOPLE * min(most_rows, Q)
    by_cells = (2 if most_rows > 1 else 1) * spells * Q + spells * Q
    by_factors = (2 if most_rows > 1 else 1) * spells * Q + spells * Q + spells
    assert rehearsed.cells == by_cells + by_factors
    whole = rows(0, most_rows=most_rows).assign(start=0.0, stop=float(Q), event=0.0, x1=0.0, x2=0.0)
    tables = [whole, *(rows(seed, most_rows=most_rows) for seed in range(20))]
    done = []
    for frame in tables:
        with counted(monkeypatch) as seen:
            prepared.compute(admitted(frame, site_facts))
        done.append(seen.cells)
    assert max(done) <= rehearsed.cells

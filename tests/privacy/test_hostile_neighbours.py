"""What one person brings changes nothing that another contributes, to the last bit: rows, types, places, numbers."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.families.hazard.bounds import hazard_person_loss
from hdpstats.families.hazard.rows import HazardRows
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import from_box
from hdpstats.records.model import HazardCap, HazardModel, TimeGrid
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

SCHEMA = hdp.Schema(
    start=hdp.Duration(100, missing=0),
    stop=hdp.Duration(100, complete=True),
    cause=hdp.Categorical(["none", "a", "b"], other="none", complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
    far=hdp.Continuous(-1e6, 1e6, complete=True),
    w=hdp.Weight(max=1e6, complete=True),
    o=hdp.Offset(-3, 3, complete=True),
)
COLUMNS = ("id", *SCHEMA)
INTERVALS = 20


def model(rng: np.random.Generator, link: str) -> HazardModel:
    baseline = rng.uniform(-1.0, 1.0, (INTERVALS, 3)) / 2.0
    return HazardModel(
        formula="Surv(start, stop, cause) ~ x + far",
        link=link,
        grid=TimeGrid(tuple(np.linspace(5.0, 100.0, INTERVALS).tolist())),
        baseline=tuple(tuple(row) for row in baseline.tolist()),
        geometry=from_box([-1.0, -1e6], [1.0, 1e6], intercept=True, row_norm=0.4),
        cap=HazardCap(
            total=2.0,
            margin=0.0,
            baseline=tuple(tuple(row) for row in rng.uniform(-4.0, -1.0, (2, INTERVALS)).tolist()),
            slopes=tuple(tuple(row) for row in rng.normal(size=(2, 2)).tolist()),
        ),
        weights="w",
        offset="o",
    )


def ordinary(rng: np.random.Generator, name: object, rows: int) -> list[tuple[Any, ...]]:
    return [
        (
            name,
            float(rng.choice([0.0, 10.0, 20.0, 50.0, 99.0])),
            float(rng.choice([1.0, 30.0, 60.0, 100.0, 500.0])),
            str(rng.choice(["none", "none", "a", "b"])),
            float(rng.uniform(-1.2, 1.2)),
            float(rng.normal() * 10.0 ** rng.uniform(-3.0, 6.0)),
            float(10.0 ** rng.uniform(-3.0, 6.0)),
            float(rng.uniform(-3.0, 3.0)),
        )
        for _ in range(rows)
    ]


def hostile(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return the rows of one person with the name "zz": any number of them, any cells."""
    cells = list(CORNERS.values())
    count = int(rng.choice([0, 1, 3, 40]))
    return [("zz", *(cells[int(k)] for k in rng.integers(0, len(cells), len(SCHEMA)))) for _ in range(count)]


def mixed(rng: np.random.Generator, fixed: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Return a table in which ``rows`` stand anywhere among the fixed ones, which keep their order."""
    places, table = np.sort(rng.integers(0, len(fixed) + 1, len(rows))), list(fixed)
    for place, row in reversed(list(zip(places.tolist(), rows, strict=True))):
        table.insert(place, row)
    cells = {}
    for k, name in enumerate(COLUMNS):
        column = np.empty(len(table), dtype=object)
        for number, row in enumerate(table):
            column[number] = row[k]
        cells[name] = pd.Series(column, dtype=object)
    return pd.DataFrame(cells)


def numbers(values: Iterable[Any]) -> Counter[bytes]:
    return Counter(np.ascontiguousarray(value).tobytes() for value in values)


@pytest.mark.covering(1)
@pytest.mark.parametrize("link", ["logit", "cloglog", "probit"])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_changes_what_others_contribute(link: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    site_facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=30, unit="id", most_rows=3)
    person_loss = hazard_person_loss(model(rng, link), site_facts)
    theta = rng.standard_normal(person_loss.dimension)

    def people_of(frame: pd.DataFrame) -> HazardRows:
        return person_loss.people(PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(person_loss.needs))

    fixed = [row for name in range(100, 130) for row in ordinary(rng, name, int(rng.integers(1, 5)))]
    alone = people_of(pd.DataFrame(fixed, columns=list(COLUMNS)))
    scores, hessian = numbers(alone.scores(theta)), alone.stacked_hessian(theta, grid=2.0**-30)
    assert sum(scores.values()) == 30
    assert np.any(hessian)
    for _ in range(6):
        rows = hostile(rng)
        people = people_of(mixed(rng, fixed, rows))
        assert people.count <= 31
        assert scores - numbers(people.scores(theta)) == Counter()
        own = people_of(mixed(rng, [], rows)).stacked_hessian(theta, grid=2.0**-30)
        assert np.array_equal(people.stacked_hessian(theta, grid=2.0**-30), hessian + own)

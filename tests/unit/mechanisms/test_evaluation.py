"""The table of an evaluation: every person in one cell, the noise of the relation, and what is refused."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import FormulaError, MechanismError, SiteError
from hdpstats.mechanisms.evaluation import EvaluationQuery
from hdpstats.mechanisms.evaluation import site as evaluation
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.noise import TwoSidedGeometric
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.model import TimeGrid
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
SCHEMA = hdp.Schema(
    start=hdp.Duration(60, missing=0),
    time=hdp.Duration(60, complete=True),
    cause=hdp.Categorical(["none", "relapse", "death"], complete=True),
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, missing=0),
    g=hdp.Categorical(["a", "b"], complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)
SURVIVAL = EvaluationQuery(
    formula="Surv(time, cause) ~ x + g",
    coefficients=(1.0, 0.5),
    offset="o",
    cuts=(-0.5, 0.75),
    grid=TimeGrid((10.0, 20.0, 30.0, 40.0, 50.0, 60.0)),
    ends=(2, 5, 6),
    causes=2,
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
)
BINARY = replace(SURVIVAL, formula="y ~ x + g", coefficients=(0.0, 1.0, 0.5), grid=None, ends=(), causes=1)
QUERIES = {"survival": SURVIVAL, "binary": BINARY}


def frame_of(rows):
    """Return rows of (time, cause, y, x, g, o)."""
    return pd.DataFrame(rows, columns=["time", "cause", "y", "x", "g", "o"]).assign(start=0.0)


def some(number, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "start": 0.0,
            "time": rng.uniform(0, 90, number),
            "cause": rng.choice(["none", "relapse", "death"], number),
            "y": rng.integers(0, 2, number).astype(float),
            "x": rng.normal(size=number),
            "g": rng.choice(["a", "b"], number),
            "o": rng.uniform(-1, 1, number),
        }
    )


def prepared(query, relation=REPLACE, **site_facts):
    return evaluation.prepare(query, SiteFacts(schema=SCHEMA, relation=relation, records=100, **site_facts))


def table_of(query, frame):
    made = prepared(query)
    return PrivateTable.from_frame(frame, SCHEMA).admit(made.needs)


def exact_counts(query, frame):
    """Return the table without noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TwoSidedGeometric, "draw", lambda self: 0)
        return np.array(prepared(query).compute(table_of(query, frame)).counts)


def test_a_person_is_in_the_cell_of_the_group_and_of_what_happened():
    rows = [
        (5.0, "relapse", 0, -2.0, "a", 0.0),  # group 0, relapse in the first bin
        (20.0, "relapse", 0, -2.0, "a", 0.0),  # its end belongs to it
        (20.1, "death", 0, -2.0, "a", 0.0),  # death in the second bin
        (60.0, "death", 0, 0.0, "a", 0.0),  # group 1, death in the last bin
        (60.1, "death", 0, 0.25, "b", 0.0),  # group 2 at its cut; beyond the horizon: reached it
        (19.9, "none", 0, 0.0, "b", 1.0),  # group 2 by its offset; at the end of the first bin by its interval
        (10.0, "none", 0, 0.0, "b", 0.0),  # group 1; no bin completed
        (0.0, "none", 0, -0.5, "a", 0.0),  # group 1 at its cut; the first interval
        (50.0, "none", 0, 3.0, "a", 0.0),  # two bins completed
    ]
    width = 2 * 3 + 4
    expected = [0, 0, 4, width + 5, 2 * width + 9, 2 * width + 7, width + 6, width + 6, 2 * width + 8]
    made = prepared(SURVIVAL)
    found = evaluation.cells_of(SURVIVAL, made.design, table_of(SURVIVAL, frame_of(rows)))
    assert found.tolist() == expected
    assert SURVIVAL.width == width
    assert SURVIVAL.cells == 3 * width


def test_a_binary_outcome_has_two_cells_in_each_group():
    rows = [(1.0, "none", y, x, "a", 0.0) for y, x in ((0, -2.0), (1, -2.0), (1, 0.0), (0, 2.0), (1, 3.0))]
    found = evaluation.cells_of(BINARY, prepared(BINARY).design, table_of(BINARY, frame_of(rows)))
    assert found.tolist() == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_everybody_counts_once(query):
    frame = some(500)
    counts = exact_counts(query, frame)
    assert len(counts) == query.cells
    assert counts.sum() == 500
    assert (counts >= 0).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("corner", CORNERS)
def test_one_person_changes_as_many_cells_as_the_relation_says(query, corner):
    """Whatever the cells hold: added, at most one cell by one; replaced, at most one cell less and one more."""
    frame = some(40).astype(object)
    other, more = frame.copy(), pd.concat([frame, frame.iloc[[3]]], ignore_index=True)
    for changed, row in ((other, 7), (more, 40)):
        for name in changed.columns:
            cells = np.empty(len(changed), dtype=object)
            cells[:] = changed[name].tolist()
            cells[row] = CORNERS[corner]
            changed[name] = pd.Series(cells, index=changed.index, dtype=object)
    counts = exact_counts(query, frame)
    counted = int(table_of(query, more).complete[-1])
    added = exact_counts(query, more) - counts
    assert np.abs(added).sum() == added.sum() == counted
    moved = exact_counts(query, other) - counts
    assert moved.sum() == counted - 1
    assert np.abs(moved).sum() in ((0, 2) if counted else (1,))


def test_a_row_at_a_cut_is_where_it_is_whoever_stands_beside_it():
    """Sums in another order would put a row at a cut elsewhere when others come: more than one cell would change."""
    rng = np.random.default_rng(4)
    frame = some(300, seed=5)
    query = replace(BINARY, coefficients=(0.1, 0.7, -0.3), offset=None)
    design = prepared(query).design
    predictor = evaluation.linear_predictor(query, design, table_of(query, frame))
    cuts = tuple(sorted(set(predictor.tolist())))[::40][:9]
    at_cuts = replace(query, cuts=cuts)
    alone = [int(evaluation.cells_of(at_cuts, design, table_of(query, frame.iloc[[k]]))[0]) for k in range(300)]
    order = rng.permutation(300)
    together = evaluation.cells_of(at_cuts, design, table_of(query, frame.iloc[order]))
    assert together.tolist() == [alone[k] for k in order]


@pytest.mark.parametrize(("relation", "rate"), [(REPLACE, Fraction(1, 2)), (ADD, Fraction(1))])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_the_loss_reaches_epsilon_and_does_not_exceed_it(query, relation, rate):
    made = prepared(query, relation)
    [event] = made.events
    assert (event.ran, event.epsilon, event.delta) == (MechanismName.HISTOGRAM, query.epsilon, 0)
    assert made.noise.rate == rate * query.epsilon
    here = exact_counts(query, some(40))
    there = here.copy()
    there[int(np.argmin(here))] += 1
    if relation is REPLACE:
        there[int(np.argmax(here))] -= 1
    far = here + 1000 * np.sign(here - there)
    loss = float(made.noise.rate) * (np.abs(far - there) - np.abs(far - here)).sum()
    assert loss == pytest.approx(float(query.epsilon), abs=1e-12)


def test_noise_is_drawn_for_every_cell(monkeypatch):
    drawn = []
    monkeypatch.setattr(TwoSidedGeometric, "draw", lambda self: drawn.append(self.rate) or len(drawn))
    release = prepared(SURVIVAL).compute(table_of(SURVIVAL, some(0)))
    assert drawn == [Fraction(1, 2)] * SURVIVAL.cells
    assert release.counts == tuple(range(1, SURVIVAL.cells + 1))
    assert release.noise_variance == pytest.approx(2 * math.exp(-0.5) / math.expm1(-0.5) ** 2)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_queries_and_releases_survive_json(query):
    assert query_from_json(query.to_json()) == query
    release = prepared(query).compute(table_of(query, some(20)))
    assert release_from_json(release.to_json()) == release


@pytest.mark.parametrize(
    "change",
    [
        {"cuts": ()},
        {"cuts": tuple(float(k) for k in range(10))},
        {"cuts": (1.0, 1.0)},
        {"cuts": (math.nan,)},
        {"coefficients": (1.0, math.inf)},
        {"coefficients": ()},
        {"ends": (2, 5)},
        {"ends": (5, 2, 6)},
        {"ends": (0, 6)},
        {"ends": ()},
        {"grid": None},
        {"causes": 0},
        {"epsilon": Fraction(0)},
        {"delta": Fraction(1, 9)},
    ],
    ids=str,
)
def test_a_query_that_contradicts_itself_is_refused(change):
    with pytest.raises(MechanismError):
        replace(SURVIVAL, **change)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"causes": 1}, SiteError),
        ({"coefficients": (1.0,)}, SiteError),
        ({"offset": "x"}, SiteError),
        ({"offset": "nowhere"}, SiteError),
        ({"formula": "Surv(start, time, cause) ~ x + g"}, MechanismError),
        ({"formula": "Surv(time, nowhere) ~ x + g"}, FormulaError),
        ({"formula": "y ~ x + g"}, FormulaError),
    ],
    ids=str,
)
def test_what_does_not_fit_the_site_is_refused(change, error):
    with pytest.raises(error):
        prepared(replace(SURVIVAL, **change))


def test_an_outcome_that_is_not_binary_is_refused():
    with pytest.raises(MechanismError, match="binary outcome"):
        prepared(replace(BINARY, formula="x ~ y + g"))


def test_people_with_several_rows_are_refused():
    """A person would fall into several cells."""
    with pytest.raises(SiteError, match="several rows"):
        prepared(SURVIVAL, unit="who", most_rows=3)

"""How far one person moves a table of weights by arm and outcome: a search over neighbours, and broken versions.

The package weighs and adds; the search compares the exact integers of neighbouring tables, before noise, with the
sensitivity that the noise was calibrated to.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.compiled import SMALLEST_COMPILED
from hdpstats._base.errors import MechanismError, SchemaError, SiteError
from hdpstats.families.overlap_weights import UNITS
from hdpstats.mechanisms.treatment_effect import TreatmentEffectQuery, site
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

SCHEMA = hdp.Schema(
    a=hdp.Binary(), x=hdp.Continuous(-3, 3), f=hdp.Categorical(["p", "q"]), y=hdp.Binary(), k=hdp.Continuous(-2, 20)
)
WEIGHTINGS = {
    "usual": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(-0.3, 0.8, 0.5)),
    "weights of 0 and 1": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(0.0, 1e6, 0.0)),
    "nobody is treated": OverlapWeights(formula="a ~ x + f", columns=("a", "x", "f"), coefficients=(-1e9, 0.0, 0.0)),
}
BINARY = TreatmentEffectQuery(
    weighting=WEIGHTINGS["usual"],
    outcome="y",
    epsilon=Fraction(7, 10),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
)
NUMBER = replace(BINARY, outcome="k", lower=-2.0, upper=20.0, cells=3)
QUERIES = {
    f"{outcome}, {name}": replace(query, weighting=weighting)
    for outcome, query in (("binary", BINARY), ("number", NUMBER))
    for name, weighting in WEIGHTINGS.items()
}
CELLS = {
    "a": [0, 1, None],
    "x": [-3.0, -1.0, 0.0, 0.7, 3.0, 1e9, None],
    "f": ["p", "q", None],
    "y": [0, 1, None],
    "k": [-2.0, 0.1, 7.3, 20.0, -1e9, None],
}


def facts_of(relation=Relation.REPLACE_ONE, **terms):
    return SiteFacts(schema=SCHEMA, relation=relation, records=100, **({"unit": None, "most_rows": 1} | terms))


def persons():
    """Return one row of each combination of cells: arms, covariates, outcomes, missing ones included."""
    rows = itertools.product(*CELLS.values())
    return pd.DataFrame(list(rows), columns=list(CELLS)).astype(object)


def totals(query, frame):
    """Return the table without noise."""
    prepared = site.prepare(query, facts_of())
    return prepared.totals(PrivateTable.from_frame(frame, SCHEMA).admit(prepared.needs))


def each_person(query, frame):
    """Return what each person adds, alone (n, cells)."""
    return np.array([totals(query, frame.iloc[[place]]) for place in range(len(frame))])


@pytest.fixture(scope="module")
def alone():
    frame = persons()
    found = {}
    for name, query in QUERIES.items():
        needed = [column for column in CELLS if column in ("a", "x", "f", query.outcome)]
        found[name] = each_person(query, frame.drop_duplicates(needed).reset_index(drop=True))
    return found


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", QUERIES)
def test_no_person_moves_the_table_farther_than_claimed(alone, name, relation):
    """A constant of one weight for a replaced person would be found here: a change of arm moves two of them."""
    added, claim = alone[name], site.sensitivity(relation)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        largest = np.abs(added).sum(axis=1).max()
    else:
        largest = max(int(np.abs(added - row).sum(axis=1).max()) for row in np.unique(added, axis=0))
    share = largest / claim
    assert share <= 1
    # usual coefficients leave the longest weight, 1 less the least chance of treatment, below 1
    assert share == 1 if "usual" not in name else 0.9 < share < 1


def test_a_change_of_arm_and_one_of_the_outcome_move_two_weights(alone):
    """What a claim of one weight overlooks, found with coefficients that leave people a weight of 1."""
    weighting = WEIGHTINGS["weights of 0 and 1"]
    rows = [
        {"a": 1, "x": -3.0, "f": "p", "y": 0, "k": 1.0},
        {"a": 0, "x": 3.0, "f": "p", "y": 0, "k": 1.0},
        {"a": 1, "x": -3.0, "f": "p", "y": 1, "k": 1.0},
        {"a": 1, "x": -3.0, "f": None, "y": 1, "k": 1.0},
    ]
    frame = pd.DataFrame(rows).astype(object)
    one, arm, outcome, missing = each_person(replace(BINARY, weighting=weighting), frame)
    assert np.abs(one - arm).sum() == np.abs(one - outcome).sum() == site.sensitivity(Relation.REPLACE_ONE)
    assert np.abs(one - missing).sum() == site.sensitivity(Relation.ADD_OR_REMOVE_ONE)
    assert not missing.any()


def test_the_pair_of_a_weight_and_a_weighted_outcome_would_move_twice_as_far(alone):
    """The wrong constant: with ``w`` and ``w y`` in each arm a person adds up to two weights."""
    added = alone["binary, weights of 0 and 1"].reshape(-1, 2, 2)
    pairs = np.stack([added.sum(axis=2), added[:, :, 1]], axis=2).reshape(len(added), -1)
    moved = max(int(np.abs(pairs - row).sum(axis=1).max()) for row in np.unique(pairs, axis=0))
    assert moved == 2 * site.sensitivity(Relation.REPLACE_ONE)


@pytest.mark.parametrize("name", QUERIES)
def test_what_a_person_adds_is_the_weight_in_sum_and_at_least_nothing(alone, name):
    added = alone[name]
    assert added.min() == 0
    assert added.sum(axis=1).max() <= UNITS
    assert (np.count_nonzero(added.reshape(len(added), 2, -1).sum(axis=2), axis=1) <= 1).all()


def test_shares_of_a_number_keep_the_weight_to_the_unit():
    rng = np.random.default_rng(5)
    weights = rng.integers(0, UNITS + 1, 200_000)
    outcome = np.where(rng.random(200_000) < 0.5, rng.uniform(-5, 25, 200_000), np.nextafter(20.0, 0.0))
    shares = site.shares_of(NUMBER, weights, outcome)
    assert shares.min() >= 0
    assert (shares.sum(axis=0) == weights).all()


@pytest.mark.parametrize("relation", list(Relation))
def test_noise_is_calibrated_to_the_claim(relation):
    prepared = site.prepare(NUMBER, facts_of(relation))
    assert prepared.noise.rate * site.sensitivity(relation) == NUMBER.epsilon
    assert [event.epsilon for event in prepared.events] == [NUMBER.epsilon]
    assert prepared.noise_sd == pytest.approx(2**0.5 * relation.persons_changed / 0.7, rel=1e-5)


@pytest.mark.parametrize("name", ["binary, usual", "number, usual"])
def test_totals_are_those_of_persons_in_any_order_and_number(name):
    query = QUERIES[name]
    frame = persons().sample(40, random_state=3)
    together = totals(query, frame)
    assert (together == each_person(query, frame).sum(axis=0)).all()
    assert (together == totals(query, frame.iloc[::-1])).all()
    many = pd.concat([frame] * (SMALLEST_COMPILED // len(frame) + 1), ignore_index=True)
    assert (totals(query, many) == together * (len(many) // len(frame))).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("cell", CORNERS)
@pytest.mark.parametrize("name", ["binary, usual", "number, usual"])
def test_one_strange_cell_changes_nobody_else_and_raises_nothing(name, cell):
    query = QUERIES[name]
    others = pd.DataFrame({"a": [0, 1], "x": [1.0, -1.0], "f": ["p", "q"], "y": [1, 0], "k": [3.0, 5.0]})
    before = totals(query, others)
    for column in CELLS:
        frame = pd.concat([others.iloc[:1], others], ignore_index=True).astype(object)
        cells = np.empty(len(frame), dtype=object)
        cells[:] = frame[column].tolist()
        cells[0] = CORNERS[cell]
        frame[column] = pd.Series(cells, dtype=object)
        moved = totals(query, frame) - before
        assert moved.min() >= 0
        assert moved.sum() <= UNITS


def test_what_the_proof_does_not_cover_is_refused_without_rows():
    with pytest.raises(SiteError, match="a mean over 3 rows at most of a person, and the query one row"):
        site.prepare(BINARY, facts_of(unit="id", most_rows=3))
    with pytest.raises(SiteError, match="otherwise than the query"):
        site.prepare(replace(NUMBER, upper=21.0), facts_of())
    with pytest.raises(SiteError, match="otherwise than the query"):
        site.prepare(replace(BINARY, outcome="k"), facts_of())
    with pytest.raises(SchemaError, match="no column 'z'"):
        site.prepare(replace(BINARY, outcome="z"), facts_of())
    with pytest.raises(MechanismError, match="another column"):
        site.prepare(replace(NUMBER, outcome="x"), facts_of())
    few = replace(WEIGHTINGS["usual"], coefficients=(1.0,))
    with pytest.raises(SiteError, match="3 columns"):
        site.prepare(replace(BINARY, weighting=few), facts_of())
    with pytest.raises(SiteError, match="must name the columns"):
        site.prepare(replace(BINARY, weighting=replace(WEIGHTINGS["usual"], columns=("a", "f", "x"))), facts_of())
    number = OverlapWeights(formula="x ~ f", columns=("x", "f"), coefficients=(1.0, 1.0))
    with pytest.raises(MechanismError, match="binary outcome"):
        site.prepare(replace(BINARY, weighting=number), facts_of())

"""How far a whole person with several rows moves what treatment effects rest on, and versions with wrong constants.

The package reads, weighs and adds; the search compares the exact integers, or gradients, of neighbouring tables before
noise: any rows of one person, of any number, for any rows of another, with the arm, the outcome and all covariates.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.families.overlap_weights import UNITS
from hdpstats.families.regression.bounds import regression_person_loss
from hdpstats.mechanisms.description import DescribedColumn, DescriptionQuery
from hdpstats.mechanisms.description import site as description
from hdpstats.mechanisms.description.public_cells import FollowUpCells
from hdpstats.mechanisms.registry import person_loss_of
from hdpstats.mechanisms.treatment_effect import TreatmentEffectQuery, site
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source
from hdpstats.records.model import RegressionModel
from hdpstats.records.overlap_weights import OverlapWeights
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

MOST = 3
SCHEMA = hdp.Schema(
    a=hdp.Binary(),
    x=hdp.Continuous(-3, 3),
    y=hdp.Binary(),
    k=hdp.Continuous(-2, 20),
    s=hdp.Duration(10),
    t=hdp.Duration(10),
    d=hdp.Binary(),
)
USUAL = OverlapWeights(formula="a ~ x", columns=("a", "x"), coefficients=(-0.3, 0.8))
WHOLE = replace(USUAL, coefficients=(0.0, 1e6))
BINARY = TreatmentEffectQuery(
    weighting=USUAL,
    outcome="y",
    cells=3,
    most_rows=MOST,
    epsilon=Fraction(7, 10),
    schema_sha256=SCHEMA.sha256,
    public_sha256=None,
)
NUMBER = replace(BINARY, outcome="k", lower=-2.0, upper=20.0)
QUERIES = {
    "binary, usual": BINARY,
    "binary, weights of 0 and 1": replace(BINARY, weighting=WHOLE),
    "number, usual": NUMBER,
    "number, weights of 0 and 1": replace(NUMBER, weighting=WHOLE),
}
ROWS = [
    dict(zip("axyk", cells, strict=True)) | follow_up
    for cells, follow_up in zip(
        [
            (1, -3.0, 0, -2.0),
            (1, -3.0, 1, 20.0),
            (0, 3.0, 0, -2.0),
            (0, 3.0, 1, 20.0),
            (0, 0.4, 1, 7.3),
            (1, None, 1, 3.0),
            (None, 1.0, 0, 1e9),
            (1, 1e9, None, None),
        ],
        itertools.cycle([{"s": 0.0, "t": 4.0, "d": 1}, {"s": 4.0, "t": 9.0, "d": 0}, {"s": 2.0, "t": None, "d": 1}]),
        strict=False,
    )
]


def facts_of(relation=Relation.REPLACE_ONE, **terms):
    return SiteFacts(schema=SCHEMA, relation=relation, records=100, **({"unit": "id", "most_rows": MOST} | terms))


def persons():
    """Return people of one to four rows each: all pairs and singles of `ROWS`, and some longer ones, in each order."""
    rng = np.random.default_rng(3)
    chosen = [(row,) for row in ROWS] + list(itertools.product(ROWS, repeat=2))
    chosen += [tuple(ROWS[place] for place in rng.integers(0, len(ROWS), size)) for size in (3, 4) for _ in range(60)]
    return [pd.DataFrame(rows).astype(object).assign(id=f"p{place}") for place, rows in enumerate(chosen)]


def together(people):
    return pd.concat(people, ignore_index=True)


def totals(query, frame, facts=None):
    prepared = site.prepare(query, facts or facts_of())
    return prepared.totals(PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(prepared.needs))


def largest_moves(added):
    """Return how far a person who is added, and one who is replaced, moves the table in the L1 norm."""
    different = np.unique(added, axis=0)
    return np.abs(added).sum(axis=1).max(), max(int(np.abs(different - row).sum(axis=1).max()) for row in different)


@pytest.fixture(scope="module")
def alone():
    people = persons()
    return {name: np.array([totals(query, together([rows])) for rows in people]) for name, query in QUERIES.items()}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", QUERIES)
def test_no_whole_person_moves_the_table_farther_than_claimed(alone, name, relation):
    added, replaced = largest_moves(alone[name])
    largest = added if relation is Relation.ADD_OR_REMOVE_ONE else replaced
    share = largest / site.sensitivity(relation)
    assert share <= 1
    assert share == 1 if "usual" not in name else 0.85 < share < 1


@pytest.mark.parametrize("name", ["binary, weights of 0 and 1", "number, weights of 0 and 1"])
def test_wrong_constants_are_found(alone, name):
    """Half of the claim for a replaced person, and a sum over rows in place of the mean, would be found."""
    _, replaced = largest_moves(alone[name])
    assert replaced > site.sensitivity(Relation.ADD_OR_REMOVE_ONE)
    query, facts = QUERIES[name], facts_of(unit=None, most_rows=1)
    rows = replace(query, most_rows=None, cells=2 if query.outcome == "y" else 3)
    summed = np.array([totals_of_rows(rows, each, facts) for each in persons()])
    assert largest_moves(summed)[1] > MOST * site.sensitivity(Relation.ADD_OR_REMOVE_ONE)


def totals_of_rows(query, frame, facts):
    """Return the table in which each row is a person."""
    prepared = site.prepare(query, facts)
    return prepared.totals(PrivateTable.from_frame(frame, SCHEMA).admit(prepared.needs))


@pytest.mark.parametrize("name", QUERIES)
def test_a_person_adds_to_one_arm_at_most_one_weight(alone, name):
    added = alone[name].reshape(len(alone[name]), 2, -1)
    assert added.min() >= 0
    assert added.sum(axis=(1, 2)).max() <= UNITS
    assert np.count_nonzero(added.sum(axis=2), axis=1).max() == 1


@pytest.mark.parametrize("name", ["binary, usual", "number, usual"])
def test_the_table_is_the_sum_of_its_people_whatever_their_order(alone, name):
    people = persons()
    frame = together(people)
    expected = alone[name].sum(axis=0)
    assert (totals(QUERIES[name], frame) == expected).all()
    apart = frame.iloc[np.argsort(frame.groupby("id").cumcount(), kind="stable")]  # first rows of all, then second ones
    assert (totals(QUERIES[name], apart) == expected).all()


def test_arm_and_weight_are_of_the_first_complete_row_and_the_outcome_is_a_mean():
    frame = pd.DataFrame(
        {"id": "p", "a": [None, 1, 0], "x": [1.0, 0.5, 3.0], "y": [1, None, 0], "k": 5.0, "s": 0, "t": 1, "d": 0}
    )
    found = totals(BINARY, frame)
    weight = np.floor(UNITS * (1 - 1 / (1 + np.exp(0.3 - 0.8 * 0.5))) + 0.5)
    assert found[:3].tolist() == [0, 0, 0]
    assert found[3:].sum() == weight
    assert found[4:].tolist() == [np.floor(weight * 0.5), np.floor(weight * 0.25)]  # of the mean 1/2


def test_cells_are_those_of_the_outcome_and_of_how_many_rows_count():
    """A mean of a binary outcome over several rows has three shares, and a binary outcome of one row its two values."""
    with pytest.raises(hdp.MechanismError, match="3 cells where an outcome is a mean"):
        replace(BINARY, cells=2)
    for wrong, rows in (
        (replace(BINARY, most_rows=1), 1),
        (replace(NUMBER, most_rows=1, cells=2, lower=0, upper=1), 1),
    ):
        with pytest.raises(hdp.SiteError):
            site.prepare(wrong, facts_of(most_rows=rows))
    site.prepare(replace(BINARY, most_rows=1, cells=2), facts_of(most_rows=1))


def test_no_more_rows_are_averaged_than_are_used():
    """The rows that count follow from the person's rows, not from their order; who has one row has that outcome."""
    frame = pd.DataFrame({"id": "p", "a": 1, "x": 0.0, "k": np.linspace(-2, 20, 9)}).assign(y=0, s=0.0, t=1.0, d=0)
    one = replace(NUMBER, most_rows=1)
    found = {tuple(totals(one, frame.sample(frac=1, random_state=seed), facts_of(most_rows=1))) for seed in range(6)}
    assert len(found) == 1
    (cells,) = found
    place = (cells[4] / 2 + cells[5]) / sum(cells)
    assert any(place == pytest.approx(each, abs=1e-5) for each in np.linspace(0, 1, 9))


@pytest.mark.covering(1)
@pytest.mark.parametrize("cell", CORNERS)
def test_one_strange_cell_changes_nobody_else_and_raises_nothing(cell):
    others = together(persons()[:6])
    before = totals(BINARY, others)
    for column in ("a", "x", "y"):
        frame = pd.concat([pd.DataFrame([ROWS[0], ROWS[1]]).assign(id="new"), others], ignore_index=True).astype(object)
        cells = np.empty(len(frame), dtype=object)
        cells[:] = frame[column].tolist()
        cells[0] = CORNERS[cell]
        frame[column] = pd.Series(cells, dtype=object)
        moved = totals(BINARY, frame) - before
        assert moved.min() >= 0
        assert moved.sum() <= UNITS


def test_a_query_must_take_rows_as_the_site_does():
    for query, terms in (
        (BINARY, {"unit": None, "most_rows": 1}),
        (replace(BINARY, most_rows=None), {}),
        (replace(BINARY, most_rows=2), {}),
    ):
        with pytest.raises(SiteError, match="this site takes"):
            site.prepare(query, facts_of(**terms))
    with pytest.raises(MechanismError, match="most_rows"):
        replace(BINARY, most_rows=0)


FIRST = RegressionModel(
    formula="a ~ x",
    loss="logistic",
    geometry=Geometry(
        location=(0.0,), whitening=((0.5,),), radius=1.5, leverage=3.25, intercept=True, source=Source.PUBLIC_ROWS
    ),
    first=True,
)


def gradients(frame, loss, theta):
    """Return the sum of the people's scores."""
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(loss.needs)
    return loss.people(table).scores(theta).sum(axis=0)


def test_of_a_person_one_row_moves_the_propensity_by_no_more_than_a_row():
    loss = person_loss_of(FIRST, facts_of())
    all_rows = regression_person_loss(replace(FIRST, first=None, correlation=0.0), SCHEMA, most_rows=MOST)
    theta, bound = np.array([0.2, -0.7]), float(loss.gradient_bound)
    people = persons()

    def largest(some):
        added = np.array([gradients(together([rows]), some, theta) for rows in people])
        assert np.allclose(gradients(together(people[:20]), some, theta), added[:20].sum(axis=0))
        moves = (added[:, None] - added[None]).reshape(-1, 2)
        return float(np.max(np.abs(moves) / [1.0, FIRST.geometry.radius]))  # the cylinder norm

    share = largest(loss) / (2 * bound)
    assert 0.6 < share <= 1
    assert largest(all_rows) > 2 * bound  # the wrong constant: all rows count, and the bound is that of one


def test_first_rows_are_of_people_with_several_alone():
    with pytest.raises(SiteError, match="one each"):
        person_loss_of(FIRST, facts_of(unit=None, most_rows=1))
    for other in ({"correlation": 1.0}, {"weighting": USUAL}, {"first": False}):
        with pytest.raises(MechanismError, match=r"first|weighting"):
            replace(FIRST, **other)


def described(weighting):
    column = DescribedColumn(name="x", lower=-3.0, upper=3.0, complete=True)
    return DescriptionQuery(
        columns=(column,),
        by="a",
        groups=2,
        complete=True,
        weighting=weighting,
        first=weighting.columns,
        epsilon=Fraction(1),
        schema_sha256=SCHEMA.sha256,
    )


def followed(weighting):
    cells = FollowUpCells(time="t", event="d", causes=1, ends=(3.0, 6.0, 10.0), start="s")
    return replace(described(weighting), columns=(), follow_up=cells)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("weighting", [USUAL, WHOLE])
def test_no_whole_person_moves_weighted_descriptions_farther_than_claimed(relation, weighting):
    """Sums by arm in the sum of maximum norms, and cells of joined follow-up in the L1 norm."""
    people = persons()
    shares = []
    for query in (described(weighting), followed(weighting)):
        prepared = description.prepare(query, facts_of(relation))
        tables = [PrivateTable.from_frame(together([rows]), SCHEMA, unit="id").admit(prepared.needs) for rows in people]
        added = np.unique(np.array([prepared.totals(table) for table in tables]), axis=0)
        if query.follow_up is None:
            claim, parts = description.box_sensitivity(relation), (len(added), 2, -1)
            norms = lambda moves, parts=parts: np.abs(moves).reshape(parts).max(axis=2).sum(axis=1)  # noqa: E731
        else:
            claim = UNITS * description.cells_sensitivity(query.follow_up.counts_of_person, relation)
            norms = lambda moves: np.abs(moves).sum(axis=1)  # noqa: E731
        removed = relation is Relation.ADD_OR_REMOVE_ONE
        largest = norms(added).max() if removed else max(norms(added - row).max() for row in added)
        shares.append(float(largest / claim))
    assert max(shares) <= 1
    assert min(shares) > (0.99 if weighting is WHOLE else 0.7)


def test_the_row_that_is_described_is_that_of_the_propensity_model():
    """Where it lacks what is described the person does not count, whatever later rows hold."""
    frame = pd.DataFrame(
        {"id": "p", "a": [1, 0], "x": [1.0, -1.0], "t": [None, 2.0], "d": 1, "s": 0.0, "y": 0, "k": 1.0}
    )
    query = followed(USUAL)
    for first, counts in ((("a", "x"), False), (None, True)):
        prepared = description.prepare(
            replace(query, follow_up=replace(query.follow_up, start=None), first=first), facts_of()
        )
        table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(prepared.needs)
        assert prepared.totals(table)[:-1].any() == counts
    with pytest.raises(SiteError, match="one each"):
        description.prepare(query, facts_of(unit=None, most_rows=1))
    with pytest.raises(MechanismError, match="first must name"):
        replace(query, first=("k",))

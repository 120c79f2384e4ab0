"""Descriptions of people with several rows: a person is one unit, whatever rows they have, in any order."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.families.several_rows import row_weights, total_weight
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescriptionQuery, RowsOfPerson
from hdpstats.mechanisms.description import people as mapping
from hdpstats.mechanisms.description.site import box_sensitivity, prepare, square_sensitivity
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable

MOST = 4
SCHEMA = hdp.Schema(
    x=hdp.Continuous(0, 10), b=hdp.Binary(), f=hdp.Categorical(["p", "q", "r"]), w=hdp.Weight(4), o=hdp.Continuous(0, 1)
)
COLUMNS = (
    DescribedColumn(name="b", levels=2),
    DescribedColumn(name="f", levels=3),
    DescribedColumn(name="x", lower=1.0, upper=9.0, centre=0.3),
)
FIT = DescriptionQuery(
    columns=COLUMNS,
    complete=True,
    counted=False,
    besides=("o",),
    ahead=(),
    epsilon=Fraction(1),
    schema_sha256=SCHEMA.sha256,
    rows=RowsOfPerson(most=MOST, ends=(1, 2), correlation=1.0),
)
COUNTED = replace(
    FIT, columns=tuple(replace(each, lower=0.0, upper=10.0) if each.name == "x" else each for each in COLUMNS),
    complete=False, counted=True, besides=None, ahead=None, rows=RowsOfPerson(most=MOST, ends=(1, 2)),
)  # fmt: skip
QUERIES = {
    "the average person": FIT,
    "between": replace(FIT, rows=replace(FIT.rows, correlation=0.3)),
    "the average row": replace(FIT, rows=replace(FIT.rows, correlation=0.0)),
    "with weights": replace(FIT, weights="w", largest_weight=4.0, rows=replace(FIT.rows, correlation=0.3)),
    "of first rows": COUNTED,
    "of first complete rows": replace(COUNTED, complete=True),
}


def visits(seed, people, most=MOST):
    """Return people with 1 to ``most + 2`` rows of extreme values, alike within a person or not, cells missing."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, most + 3, people)
    person, alike = np.repeat(np.arange(people), numbers), np.repeat(rng.random(people) < 0.6, numbers)
    n = len(person)

    def cells(values):
        return np.where(alike, np.repeat(rng.choice(values, people), numbers), rng.choice(values, n))

    frame = pd.DataFrame(
        {"id": [f"p{each}" for each in person], "x": cells([0.0, 9.0, 10.0, 3.4]), "b": cells([0.0, 1.0])}
    )
    frame["f"], frame["w"], frame["o"] = cells(["p", "q", "r"]), cells([0.0, 1.0, 4.0, 9.0]), cells([0.0, 1.0])
    for name in ("x", "b", "o"):
        frame.loc[rng.random(n) < 0.07, name] = np.nan
    frame.loc[rng.random(n) < 0.02, "id"] = None
    return frame.sample(frac=1.0, random_state=seed)


def sums(query, frame):
    people = mapping.people_of(query, PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(query.names))
    return mapping.sums_of(query, people)


def blocks(query, frame):
    """Return what each person adds, alone (people, d)."""
    return np.array([sums(query, rows) for _, rows in frame.groupby("id")])


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("name", QUERIES)
def test_a_person_moves_sums_as_far_as_is_proved_and_no_further(name):
    found = blocks(QUERIES[name], visits(1, 120))
    apart = np.abs(found[:, None] - found[None]).max(axis=2)
    assert 0.99 * UNITS < apart.max() <= box_sensitivity(Relation.REPLACE_ONE)
    assert 0.99 * UNITS / 2 < np.abs(found).max() <= box_sensitivity(Relation.ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize("complete", [True, False])
def test_normal_noise_counts_the_numbers_of_rows(complete):
    query = replace(COUNTED, complete=complete, columns=COUNTED.columns[:1])
    found = blocks(query, visits(1, 120)).astype(float)
    assert np.sum(found**2, axis=-1).max() <= square_sensitivity(query, Relation.ADD_OR_REMOVE_ONE)
    largest = np.sum((found[:, None] - found[None]) ** 2, axis=-1).max()
    assert square_sensitivity(replace(query, rows=None), Relation.REPLACE_ONE) < largest
    assert largest <= square_sensitivity(query, Relation.REPLACE_ONE)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("name", QUERIES)
def test_sums_are_of_each_person_alone(name):
    query, frame = QUERIES[name], visits(2, 60)
    named = frame[frame["id"].notna()]
    first = query.rows.correlation is None  # which of a person's rows is the first one is not changed
    mixed = frame if first else frame.sample(frac=1.0, random_state=3)
    assert blocks(query, named).sum(axis=0).tolist() == sums(query, mixed).tolist()


@pytest.mark.parametrize("name", ["the average person", "between", "the average row", "with weights"])
def test_what_is_described_is_the_weighted_average_of_rows(name):
    query, frame = QUERIES[name], visits(4, 60)
    r = query.rows.correlation
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(query.names).used(most_rows=MOST)
    person = np.unique(table.persons, return_inverse=True)[1]
    weights = row_weights(person, table.complete, r) / float(total_weight(MOST, r))
    weights = weights * (np.clip(table.numeric["w"] / 4, 0, 1) if query.weights else 1.0)
    found = sums(query, frame) / UNITS
    exact = [
        np.sum(weights * np.where(table.numeric["b"] == 0, 0.5, -0.5)),
        *(np.sum(weights * np.where(table.codes["f"] == level, 0.5, -0.5)) for level in (0, 1)),
        np.sum(weights * (np.clip((table.numeric["x"] - 1) / 8, 0, 1) - 0.5)),
    ]
    assert found[query.leading : query.leading + 4] == pytest.approx(exact, abs=60 * 2.0**-20)
    if query.leading:
        assert 2.0 * found[0] == pytest.approx(np.sum(weights), abs=60 * 2.0**-19)
    numbers = np.bincount(person, weights=table.complete)
    assert found[-1] == pytest.approx(np.sum(numbers / MOST - 0.5 * (numbers > 0)), abs=60 * 2.0**-20)
    of_people = np.bincount(person, weights=weights)
    share = np.sum(np.where(numbers == 2, 0.5, -0.5) * of_people)
    assert found[-2] == pytest.approx(share, abs=60 * 2.0**-20)


@pytest.mark.parametrize("name", ["of first rows", "of first complete rows"])
def test_numbers_of_rows_are_counted_up_to_the_most_that_are_used(name):
    query, frame = QUERIES[name], visits(5, 60)
    table = PrivateTable.from_frame(frame, SCHEMA, unit="id").admit(query.names)
    counts = (table.persons >= 0) & (table.complete if query.complete else True)
    numbers = np.minimum(np.bincount(table.persons[counts], minlength=60), MOST)
    here = numbers > 0 if query.complete else np.full(60, True)
    exact = np.sum(np.where(numbers > 0, numbers / MOST - 0.5, 0.0)[here])
    assert sums(query, frame)[-1] / UNITS == pytest.approx(exact, abs=60 * 2.0**-20)


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": RowsOfPerson(most=MOST, ends=(1, 2))},
        {"rows": replace(FIT.rows, correlation=0.5), "delta": Fraction(1, 10**6)},
        {"columns": ()},
    ],
)
def test_queries_that_have_no_proof_are_none(changed):
    with pytest.raises(MechanismError):
        replace(FIT, **changed)


@pytest.mark.parametrize("wrong", [{"ends": (2, 1)}, {"ends": (4,)}, {"ends": (0, 2)}, {"correlation": 1.5}])
def test_numbers_of_rows_increase(wrong):
    with pytest.raises(MechanismError):
        replace(FIT.rows, **wrong)


def test_a_site_describes_its_own_largest_number_of_rows():
    facts = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=400, unit="id", most_rows=MOST)
    assert prepare(FIT, facts).work(1000).steps > prepare(replace(FIT, rows=None), facts).work(1000).steps
    for other in (replace(facts, most_rows=3), replace(facts, unit=None, most_rows=1)):
        with pytest.raises(SiteError, match="rows of a person"):
            prepare(FIT, other)

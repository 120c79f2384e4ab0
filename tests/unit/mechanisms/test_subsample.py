"""Subsample and aggregate: one record in one block, projected estimates, epsilon once, noise for k blocks."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.mechanisms.statistics import UNITS
from hdpstats.mechanisms.subsample import SubsampleQuery
from hdpstats.mechanisms.subsample import site as subsample
from hdpstats.mechanisms.subsample.site import optimal_blocks, starts_of_blocks, units_of_blocks
from hdpstats.noise import BoxNoise
from hdpstats.privacy.budget import total
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests import chance

SCHEMA = hdp.Schema(x=hdp.Continuous(-1e7, 1e7, missing=0), p=hdp.Continuous(0, 50, complete=True))
EPSILON = Fraction(7, 10)
QUERY = SubsampleQuery(
    column="x",
    family="normal",
    box=((-1.0, 3.0), (0.5, 2.0)),
    blocks=10,
    epsilon=EPSILON,
    schema_sha256=SCHEMA.sha256,
)
RATES = replace(QUERY, column="p", family="exponential", box=((0.5, 2.0),))
N = 100


def prepared(query=QUERY, relation=Relation.REPLACE_ONE, records=N, row_order="arbitrary", **site_facts):
    site_facts |= {"row_order": row_order}
    return subsample.prepare(query, SiteFacts(schema=SCHEMA, relation=relation, records=records, **site_facts))


def units(query, cells):
    """Return the projected estimate of each block, without noise."""
    answer = prepared(query, records=len(cells))
    frame = pd.DataFrame({"x": cells, "p": cells})
    table = PrivateTable.from_frame(frame, SCHEMA).admit(answer.needs)
    return units_of_blocks(query, answer.family, table)


def ordinary(seed=0, n=N):
    return np.random.default_rng(seed).normal(1.0, 1.0, n)


def replaced(cells, row, cell):
    return [cell if place == row else float(each) for place, each in enumerate(cells)]


def test_a_record_is_in_one_block_whatever_it_holds():
    """Would fail for blocks of sorted rows, and for any other assignment that looks at values."""
    before = units(QUERY, ordinary())
    for row in (0, 9, 10, 57, 99):
        for cell in (1e6, -1e6, 0.0, math.nan, math.inf, "x", None):
            moved = np.any(units(QUERY, replaced(ordinary(), row, cell)) != before, axis=1)
            assert set(np.flatnonzero(moved)) <= {row // 10}


def test_blocks_of_sorted_rows_would_all_change():
    before = units(QUERY, np.sort(ordinary()))
    after = units(QUERY, np.sort(replaced(ordinary(), int(np.argmin(ordinary())), 1e6)))
    assert np.any(before != after, axis=1).sum() == 10  # so that the test above could see it


def test_one_record_of_a_million_is_projected_and_moves_the_exponent_by_at_most_epsilon():
    """Unprojected the mean of blocks would move by 1e4, which the noise does not cover."""
    rate = prepared().noise.rate
    moved = units(QUERY, replaced(ordinary(), 3, 1e6)).sum(axis=0) - units(QUERY, ordinary()).sum(axis=0)
    assert rate * int(np.abs(moved).max()) <= EPSILON


def test_the_worst_neighbours_attain_epsilon_in_the_norm_of_the_box():
    """Blocks of one row: a row at one corner and at the other. Half the noise, or Euclidean noise, would be more."""
    query = replace(RATES, family="poisson", blocks=N)
    low, high = [0.0] * N, [0.0] * (N - 1) + [50.0]
    moved = np.abs(units(query, high).sum(axis=0) - units(query, low).sum(axis=0))
    assert prepared(query).noise.rate * int(moved.max()) == EPSILON
    corners = np.abs(units(replace(QUERY, blocks=N), [-9e6] * N) - units(replace(QUERY, blocks=N), [9e6] * N))
    assert corners[:, 0].tolist() == [UNITS] * N


@pytest.mark.entropy
@pytest.mark.parametrize("blocks", [1, 10, 50])
def test_epsilon_is_charged_once_and_the_noise_of_the_mean_falls_with_the_blocks(blocks):
    """Would fail for k epsilon, and for a scale of Lambda / sqrt(k).

    The sum of 3000 absolute values is Gamma(3000): a false alarm has a probability of 1e-9, and so has it that a scale
    1.3 times too small passes.
    """
    answer = prepared(replace(RATES, blocks=blocks))
    assert total(answer.events).epsilon == EPSILON
    assert answer.noise == BoxNoise(dimension=1, rate=EPSILON / UNITS)
    draws = np.array([answer.noise.draw()[0] for _ in range(3000)]) * (1.5 / (UNITS * blocks))  # of the mean
    assert chance.gamma_sum_fits(np.abs(draws).sum(), 3000, 1.5 / (blocks * float(EPSILON)))
    assert chance.miss_of_gamma_sum(3000, 1 / 1.3) <= chance.ALARM


def test_estimates_of_blocks_are_corrected_by_the_size_of_the_block():
    x = np.random.default_rng(1).exponential(1.0, 40)
    query = replace(RATES, blocks=4)
    expected = [(1 / part.mean()) * (1 - 1 / 10) for part in x.reshape(4, 10)]
    found = 0.5 + 1.5 * units(query, x)[:, 0] / UNITS
    assert found == pytest.approx(np.clip(expected, 0.5, 2.0), abs=1e-5)


@pytest.mark.parametrize(("rows", "blocks"), [(10, 3), (100, 7), (5, 5), (1001, 40), (7, 1)])
def test_blocks_are_runs_of_rows_of_nearly_equal_length(rows, blocks):
    starts = starts_of_blocks(rows, blocks)
    owner = np.arange(rows) * blocks // rows
    assert starts.tolist() == [int(np.flatnonzero(owner == block)[0]) for block in range(blocks)]
    assert set(np.diff(starts, append=rows)) <= {rows // blocks, -(-rows // blocks)}


def test_the_answer_is_the_sum_of_blocks_plus_noise(monkeypatch):
    monkeypatch.setattr(BoxNoise, "draw", lambda self: (5, -3))
    answer = prepared()
    table = PrivateTable.from_frame(pd.DataFrame({"x": ordinary(), "p": 1.0}), SCHEMA).admit(answer.needs)
    release = answer.compute(table)
    assert release.units == tuple((units(QUERY, ordinary()).sum(axis=0) + np.array([5, -3])).tolist())
    assert (release.blocks, release.records) == (10, N)
    assert release_from_json(release.to_json()) == release
    assert query_from_json(QUERY.to_json()) == QUERY


@pytest.mark.parametrize(
    ("change", "site_facts", "error"),
    [
        ({"blocks": 101}, {}, MechanismError),
        ({"box": ((0.0, 1.0),)}, {}, MechanismError),
        ({}, {"relation": Relation.ADD_OR_REMOVE_ONE}, MechanismError),
        ({}, {"unit": "id", "most_rows": 3}, SiteError),
    ],
)
def test_what_no_proof_covers_is_refused_without_a_row(change, site_facts, error):
    with pytest.raises(error):
        prepared(replace(QUERY, **change), **site_facts)


@pytest.mark.parametrize(
    "change", [{"blocks": 0}, {"box": ()}, {"box": ((1.0, 1.0), (0.5, 2.0))}, {"box": ((0.0, math.inf), (0.5, 2.0))}]
)
def test_a_query_that_contradicts_itself_is_refused(change):
    with pytest.raises(MechanismError):
        replace(QUERY, **change)


def test_the_number_of_blocks_has_the_least_predicted_error():
    n, epsilon, width = 10**6, 1.0, 2.0
    best = optimal_blocks(n, epsilon=epsilon, widths=np.array([width]), spreads=np.array([1.0]))
    k = np.arange(1, n // 25)
    error = 2 * (width / (k * epsilon)) ** 2 + (k / n) ** 3
    assert abs(best - k[np.argmin(error)]) <= 1
    assert optimal_blocks(100, epsilon=0.01, widths=np.array([width]), spreads=np.array([1.0])) == 4
    assert optimal_blocks(10, epsilon=1.0, widths=np.array([width]), spreads=np.array([1.0])) == 1


PERSONS = replace(RATES, family="poisson", by="persons")


def named_units(frame, query=PERSONS):
    answer = prepared(query, records=N, unit="id")
    table = PrivateTable.from_frame(frame.assign(x=0.0), SCHEMA, unit="id").admit(answer.needs, key=answer.key)
    return subsample.units_of_persons(query, answer.family, table)


def named_people(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"id": [f"p{place}" for place in range(N)], "p": rng.uniform(0.5, 2.0, N)})


def test_a_person_who_is_replaced_moves_two_blocks_and_never_more():
    before, most = named_units(named_people()), 0
    for name in ["q1", "q2", "q3", "p5", "", None, 7.0]:
        other = named_people().astype({"id": object})
        other.loc[3, ["id", "p"]] = [name, 50.0]
        moved = int(np.any(named_units(other) != before, axis=1).sum())
        assert moved <= 2
        most = max(most, moved)
    assert most == 2  # with noise for one block a person would lose twice epsilon


def test_the_order_of_rows_and_of_values_makes_no_block_of_named_people():
    frame = named_people()
    for other in (frame.sort_values("p"), frame.iloc[::-1]):
        assert np.abs(named_units(other) - named_units(frame)).max() <= 1  # sums in another order, rounded


def test_a_persons_value_does_not_decide_the_block():
    frame = named_people()
    for cell in (0.0, 50.0, math.nan):
        moved = np.any(
            named_units(frame.assign(p=frame["p"].where(frame.index != 3, cell))) != named_units(frame), axis=1
        )
        assert moved.sum() <= 1


def test_named_people_cost_twice_the_noise_and_rows_of_nobody_count_nothing():
    assert prepared(PERSONS, unit="id").noise.rate * 2 == prepared(replace(PERSONS, by="rows")).noise.rate
    assert query_from_json(PERSONS.to_json()) == PERSONS
    nobody = named_people().astype({"id": object})
    nobody.loc[len(nobody)] = [None, 50.0]
    again = named_people()
    again.loc[len(again)] = ["p3", 50.0]  # a second row of somebody
    for other in (nobody, again):
        assert (named_units(other) == named_units(named_people())).all()
    with pytest.raises(MechanismError, match="named"):
        prepared(PERSONS)
    with pytest.raises(SiteError):
        prepared(PERSONS, unit="id", most_rows=2)
    with pytest.raises(SiteError):
        prepared(replace(PERSONS, by="rows"), unit="id")


def test_the_worst_named_neighbours_attain_epsilon():
    """Everybody at the lower end but the two blocks that a replaced person leaves and enters."""
    query = replace(PERSONS, blocks=2)
    frame = pd.DataFrame({"id": ["p1"], "p": [2.0]})
    home = int(np.flatnonzero(named_units(frame, query)[:, 0] == UNITS)[0])
    assert prepared(query, unit="id").noise.rate * 2 * UNITS == EPSILON
    assert named_units(frame, query)[1 - home, 0] == UNITS // 2  # a block of nobody is the middle of the box

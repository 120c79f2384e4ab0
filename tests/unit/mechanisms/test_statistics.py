"""Noisy sums of statistics: exact integers, the norm of the box for vectors, nothing that one record can break."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import HdpError, MechanismError, SchemaError, SiteError
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.mechanisms.statistics import UNITS, StatisticsQuery
from hdpstats.mechanisms.statistics import site as statistics
from hdpstats.noise import BoxNoise
from hdpstats.privacy.budget import total
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests import chance
from tests.support import CORNERS

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-3, 3, missing=0),
    p=hdp.Continuous(0.5, 40, complete=True),
    b=hdp.Binary(complete=True),
    g=hdp.Categorical(["a", "b"], complete=True),
)
EPSILON = Fraction(3, 10)
QUERY = StatisticsQuery(column="x", family="normal", epsilon=EPSILON, schema_sha256=SCHEMA.sha256)
QUERIES = {
    "normal": QUERY,
    "gamma": replace(QUERY, column="p", family="gamma"),
    "poisson": replace(QUERY, column="p", family="poisson"),
    "exponential": replace(QUERY, column="p", family="exponential"),
    "bernoulli": replace(QUERY, column="b", family="bernoulli"),
}


def prepared(query=QUERY, relation=Relation.REPLACE_ONE, records=100, **site_facts):
    return statistics.prepare(query, SiteFacts(schema=SCHEMA, relation=relation, records=records, **site_facts))


def frame_of(cells):
    return pd.DataFrame({"x": cells, "p": cells, "b": cells, "g": ["a"] * len(cells)})


def sums(query, cells):
    """Return the integer sums without noise."""
    answer = prepared(query)
    table = PrivateTable.from_frame(frame_of(cells), SCHEMA).admit(answer.needs)
    return np.array(statistics.sums_of_statistics(answer.family, table.numeric[query.column], table.complete))


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("name", QUERIES)
def test_the_worst_record_moves_the_exponent_by_epsilon_and_none_by_more(name):
    """Would fail for noise that is too small, and for iid Laplace noise of the same scale (the wrong norm)."""
    query = QUERIES[name]
    rate = prepared(query).noise.rate
    others = [0.7, 1.3, 2.2] * 3
    cells = [-1e6, -3, -1.5, 0, 0.5, 1, 3, 40, 1e6, math.nan, math.inf, -math.inf]
    moved = [sums(query, [one, *others]) - sums(query, [two, *others]) for one, two in itertools.product(cells, cells)]
    losses = [rate * int(np.abs(each).max()) for each in moved]
    assert max(losses) == EPSILON
    in_l1 = [rate * int(np.abs(each).sum()) for each in moved]
    assert (max(in_l1) > EPSILON) == (len(moved[0]) > 1)  # the maximum norm is the one of which epsilon holds


@pytest.mark.entropy
def test_the_noise_has_the_exact_distribution_of_the_box():
    """rate max |z| is Gamma(2, 1): exact tails of the sum of 3000. A false alarm, and noise 1.2 times too small, which
    passes, have a probability of 1e-9 at most."""
    answer = prepared()
    assert answer.noise == BoxNoise(dimension=2, rate=EPSILON / UNITS)
    draws = np.array([answer.noise.draw() for _ in range(3000)]) * float(answer.noise.rate)
    assert chance.gamma_sum_fits(np.abs(draws).max(axis=1).sum(), 2 * 3000)
    assert chance.miss_of_gamma_sum(2 * 3000, 1 / 1.2) <= chance.ALARM


def test_the_blocks_of_the_printed_algorithm_do_not_enter():
    """Printed: a scale of Lambda / (k epsilon) for the mean; here the sum has Lambda / epsilon whatever n is."""
    assert prepared(records=10).noise == prepared(records=10**6).noise


def test_sums_are_exact_and_in_any_order():
    rng = np.random.default_rng(0)
    cells = rng.uniform(-4, 4, 5000)
    found = sums(QUERY, cells)
    assert (sums(QUERY, rng.permutation(cells)) == found).all()
    alone = sum(sums(QUERY, [cell]) for cell in cells[:50])
    assert (alone == sums(QUERY, cells[:50])).all()
    u = np.clip(cells, -3, 3) / 3
    expected = np.array([(u + 1).sum() / 2, (u * u).sum()]) * UNITS
    assert np.abs(found - expected).max() <= 0.5 * len(cells)


def test_noise_is_added_to_the_sums_and_epsilon_is_the_cost(monkeypatch):
    monkeypatch.setattr(BoxNoise, "draw", lambda self: (11, -7))
    answer = prepared()
    table = PrivateTable.from_frame(frame_of([1.0, 2.0]), SCHEMA).admit(answer.needs)
    release = answer.compute(table)
    assert release.units == tuple((sums(QUERY, [1.0, 2.0]) + np.array([11, -7])).tolist())
    assert total(release.events).epsilon == EPSILON
    assert release.noise_rate == float(EPSILON / UNITS)
    assert release_from_json(release.to_json()) == release
    assert query_from_json(QUERY.to_json()) == QUERY


def test_one_strange_cell_changes_no_other_and_raises_nothing():
    for cell in CORNERS.values():
        moved = sums(QUERY, [cell, 1.0, -1.0]) - sums(QUERY, [1.0, -1.0])
        assert (moved >= 0).all()
        assert (moved <= UNITS).all()


@pytest.mark.parametrize(
    ("change", "site_facts", "error"),
    [
        ({"column": "nobody"}, {}, SchemaError),
        ({"column": "g"}, {}, SchemaError),
        ({"family": "cauchy"}, {}, MechanismError),
        ({"family": "gamma"}, {}, HdpError),
        ({}, {"relation": Relation.ADD_OR_REMOVE_ONE}, MechanismError),
        ({}, {"unit": "id", "most_rows": 3}, SiteError),
    ],
)
def test_what_no_proof_covers_is_refused_without_a_row(change, site_facts, error):
    with pytest.raises(error):
        prepared(replace(QUERY, **change), **site_facts)


@pytest.mark.parametrize("change", [{"epsilon": Fraction(0)}, {"delta": Fraction(1, 10)}])
def test_a_cost_without_proof_is_refused(change):
    with pytest.raises(MechanismError, match="pure"):
        replace(QUERY, **change)

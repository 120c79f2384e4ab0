"""A description of the cohort: what a site refuses, what it adds noise to, and its texts."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import HdpError, MechanismError, SchemaError, SiteError
from hdpstats.mechanisms.description import UNITS, DescribedColumn, DescriptionQuery, site
from hdpstats.mechanisms.description.public_cells import FollowUpCells
from hdpstats.mechanisms.registry import columns_of, family_of, name_of, query_from_json, release_from_json
from hdpstats.noise import BoxNoise
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests import chance, known_noise

SCHEMA = hdp.Schema(
    x=hdp.Continuous(0, 10),
    b=hdp.Binary(),
    f=hdp.Categorical(["p", "q", "r"]),
    g=hdp.Categorical(["one", "two"]),
    t=hdp.Duration(12),
    e=hdp.Binary(),
    w=hdp.Weight(max=4),
)
X = DescribedColumn(name="x", lower=0, upper=10, centre=0.25, cuts=(2.5, 5.0))
QUERY = DescriptionQuery(
    columns=(X, DescribedColumn(name="f", levels=3)),
    by="g",
    groups=2,
    follow_up=FollowUpCells(time="t", event="e", causes=1, ends=(6.0, 12.0)),
    epsilon=Fraction(7, 10),
    schema_sha256=SCHEMA.sha256,
)
FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.5, 9.0, None],
        "b": [0, 1, 1, 0],
        "f": ["p", "q", None, "r"],
        "g": ["one", "one", "two", "two"],
        "t": [3.0, 12.0, 40.0, 7.0],
        "e": [1, 0, 1, None],
        "w": [1.0, 2.0, 4.0, 4.0],
    }
)
FACTS = SiteFacts(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=4)


def prepared(query=QUERY, **facts):
    return site.prepare(query, replace(FACTS, **facts))


def answered(query=QUERY, frame=FRAME, **facts):
    answer = prepared(query, **facts)
    return answer.compute(PrivateTable.from_frame(frame, SCHEMA, unit=facts.get("unit")).admit(answer.needs))


def test_what_is_summed_and_counted(monkeypatch):
    known_noise.off(monkeypatch)
    release = answered()
    half = UNITS // 2
    place = (np.array([0.1, 0.25, 0.9]) - 0.25) ** 2 / 0.75**2
    values = np.array([0.1, 0.25, 0.9]) - 0.5
    sums = np.array(release.sums).reshape(2, 7) / UNITS
    assert sums[0] == pytest.approx([1.0, -1.0, values[:2].sum(), place[:2].sum() - 1, -1.0, 0.0, 0.0], abs=1e-5)
    assert sums[1] == pytest.approx([1.0, 0.0, values[2], place[2] - 0.5, 0.0, -0.5, -0.5], abs=1e-5)
    assert release.sums[0] == 2 * half
    assert release.cells == (2, 0, 0, 0, 0, 0, 1, 1)
    assert release.follow_up == (1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1)
    assert release.records is None
    assert release_from_json(release.to_json()) == release
    assert query_from_json(QUERY.to_json()) == QUERY


def test_complete_rows_alone_are_described_where_that_is_asked(monkeypatch):
    known_noise.off(monkeypatch)
    release = answered(replace(QUERY, complete=True))
    sums = np.array(release.sums).reshape(2, 5) / UNITS
    assert sums[:, 0].tolist() == [1.0, 0.0]
    assert not sums[1].any()
    assert sum(release.cells) == 2
    assert release.follow_up[-1] == 2


def test_weights_multiply_what_people_add(monkeypatch):
    known_noise.off(monkeypatch)
    release = answered(replace(QUERY, weights="w", largest_weight=4.0))
    sums = np.array(release.sums).reshape(2, 8) / UNITS
    assert 2 * sums[:, 0] == pytest.approx([0.75, 2.0])
    assert 2 * sums[:, 1] == pytest.approx([0.0625 + 0.25, 2.0])
    assert release.cells == (3 * UNITS // 4, 0, 0, 0, 0, 0, UNITS, UNITS)


def test_the_number_of_people_is_public_where_everybody_counts(monkeypatch):
    known_noise.off(monkeypatch)
    whole = replace(QUERY, by=None, groups=1, counted=False)
    assert answered(whole).records == 4
    assert len(answered(whole).sums) == 6
    for change, facts in [
        ({"complete": True}, {}),
        ({}, {"relation": Relation.ADD_OR_REMOVE_ONE}),
        ({"follow_up": None}, {"unit": "id", "most_rows": 3}),
    ]:
        with pytest.raises(MechanismError, match="not public"):
            prepared(replace(whole, **change), **facts)


def test_it_is_known_by_its_name_and_its_columns():
    assert name_of(QUERY) == "description"
    assert columns_of(QUERY, FACTS) == ("e", "f", "g", "t", "x")
    assert family_of(QUERY) is None


@pytest.mark.parametrize(
    ("change", "facts", "error"),
    [
        ({"columns": (replace(X, name="nobody"),)}, {}, SchemaError),
        ({"columns": (replace(X, upper=11.0),)}, {}, SiteError),
        ({"columns": (DescribedColumn(name="f", levels=4),)}, {}, SiteError),
        ({"columns": (DescribedColumn(name="f"),)}, {}, SiteError),
        ({"groups": 3}, {}, SiteError),
        ({"by": "x"}, {}, HdpError),
        ({"weights": "w", "largest_weight": 5.0}, {}, SiteError),
        ({"weights": "b"}, {}, SiteError),
        ({"follow_up": FollowUpCells(time="t", event="e", causes=2, ends=(6.0,))}, {}, SiteError),
        ({"follow_up": FollowUpCells(time="x", event="e", causes=1, ends=(6.0,)), "columns": ()}, {}, SiteError),
        ({"follow_up": FollowUpCells(time="t", event="e", causes=1, ends=(13.0,))}, {}, MechanismError),
        ({"epsilon": Fraction(10**10)}, {}, HdpError),
    ],
)
def test_what_does_not_fit_the_site_is_refused_without_a_row(change, facts, error):
    with pytest.raises(error):
        prepared(replace(QUERY, **change), **facts)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": Fraction(0)},
        {"delta": Fraction(1)},
        {"delta": Fraction(1, 10**6), "weights": "w", "largest_weight": 4.0},
        {"columns": (), "follow_up": None, "by": None, "groups": 1},
        {"columns": (), "follow_up": None},
        {"columns": (X, X)},
        {"by": "f"},
        {"groups": 1},
        {"by": None},
        {"largest_weight": -1.0},
        {"largest_weight": 5.0},
        {"columns": tuple(DescribedColumn(name=f"c{i}", levels=1000) for i in range(30))},
        {"columns": tuple(DescribedColumn(name=f"c{i}") for i in range(501))},
        {"groups": 1001},
        {"columns": tuple(replace(X, name=f"c{i}", cuts=tuple(range(1000))) for i in range(300)), "groups": 2},
        {"epsilon": Fraction(1, 10**9)},
    ],
)
def test_a_query_that_contradicts_itself_or_is_too_large_is_refused(change):
    with pytest.raises(HdpError):
        prepared(replace(QUERY, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"levels": 1},
        {"levels": 3},
        {"lower": 1.0, "upper": 1.0},
        {"centre": 1.5},
        {"centre": float("nan")},
        {"cuts": (2.0, 1.0)},
        {"cuts": (float("inf"),)},
    ],
)
def test_a_column_that_contradicts_itself_is_refused(change):
    with pytest.raises(MechanismError):
        replace(X, **change)


@pytest.mark.parametrize("ends", [(), (0.0, 1.0), (2.0, 1.0), (float("nan"),)])
def test_times_that_are_no_intervals_are_refused(ends):
    with pytest.raises(MechanismError, match="times"):
        FollowUpCells(time="t", event="e", causes=1, ends=ends)


@pytest.mark.entropy
def test_each_group_has_its_own_box_of_noise():
    """rate max |z| of each group is Gamma(d + 1, 1): a false alarm, and noise 1.2 times too small, which passes, have a
    probability of 1e-9 at most."""
    answer = prepared()
    assert all(isinstance(noise, BoxNoise) for noise in answer.noise)
    draws = np.array([[noise.draw() for noise in answer.noise] for _ in range(400)]) * float(answer.noise[0].rate)
    shape = answer.noise[0].dimension * draws.shape[0] * draws.shape[1]
    assert chance.gamma_sum_fits(np.abs(draws).max(axis=2).sum(), shape)
    assert chance.miss_of_gamma_sum(shape, 1 / 1.2) <= chance.ALARM
    assert not (draws[:, 0] == draws[:, 1]).any()

"""Queries at public points: JSON round trips, and what is refused when they are written."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import HdpError, MechanismError
from hdpstats.mechanisms.hybrid_weights import (
    DistanceQuery,
    DistanceRelease,
    LossSelectionQuery,
    NeighboursQuery,
    NeighboursRelease,
    SelectionQuery,
    SelectionRelease,
)
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.privacy.budget import MechanismName, PrivacyEvent, Spend
from hdpstats.records.geometry import PointColumn, PointSpace

SPACE = PointSpace(columns=(PointColumn(name="x", lower=-1.5, upper=0.1), PointColumn(name="g", levels=3)))
COMMON = {"epsilon": Fraction(1, 3), "schema_sha256": "ab", "public_sha256": "cd", "replicate": 2}
NEIGHBOURS = NeighboursQuery(space=SPACE, support=(4, 0, 2), ahead=(Spend(Fraction(1, 7)),), **COMMON)
SELECTION = SelectionQuery(
    space=SPACE,
    order=(4, 0, 2),
    sizes=(1, 3),
    reach=0.5,
    penalties=(1.0, 1.7),
    ahead=(Spend(Fraction(1, 7)),),
    **COMMON,
)
LOSS = LossSelectionQuery(
    formula="y ~ x", candidates=((0.1, 0.2), (0.0, -1.0)), reach=0.5, ahead=(Spend(Fraction(1, 7)),), **COMMON
)
DISTANCE = DistanceQuery(space=SPACE, support=None, reach=1.5, **COMMON)
QUERIES = [NEIGHBOURS, replace(NEIGHBOURS, support=None), SELECTION, LOSS, DISTANCE, replace(DISTANCE, support=(1,))]
EVENTS = (PrivacyEvent(ran=MechanismName.SELECTION, epsilon=Fraction(1, 3)),)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_survive_json(query):
    assert query_from_json(query.to_json()) == query


@pytest.mark.parametrize(
    "release",
    [
        NeighboursRelease(counts=(3, -1), noise_variance=7.5, events=EVENTS),
        SelectionRelease(choice=1, events=EVENTS),
        DistanceRelease(units=-5, noise_sd=2.5, events=EVENTS),
    ],
)
def test_releases_survive_json(release):
    assert release_from_json(release.to_json()) == release


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        (NEIGHBOURS, {"support": ()}),
        (NEIGHBOURS, {"support": (1, 1)}),
        (NEIGHBOURS, {"support": (-1,)}),
        (NEIGHBOURS, {"epsilon": Fraction(0)}),
        (NEIGHBOURS, {"epsilon": Fraction(1, 10**31)}),
        (NEIGHBOURS, {"delta": Fraction(1, 10)}),
        (NEIGHBOURS, {"public_sha256": None}),
        (SELECTION, {"public_sha256": None}),
        (SELECTION, {"sizes": (3,), "penalties": (1.0,)}),
        (SELECTION, {"sizes": (2, 1)}),
        (SELECTION, {"sizes": (0, 3)}),
        (SELECTION, {"sizes": (1, 2)}),
        (SELECTION, {"penalties": (1.0,)}),
        (SELECTION, {"penalties": (1.0, float("nan"))}),
        (SELECTION, {"reach": 0.0}),
        (SELECTION, {"reach": float("nan")}),
        (SELECTION, {"delta": Fraction(1, 10)}),
        (LOSS, {"candidates": ((0.1,),)}),
        (LOSS, {"candidates": ((0.1,), (0.1, 0.2))}),
        (LOSS, {"candidates": ((0.1,), (float("inf"),))}),
        (LOSS, {"candidates": ((), ())}),
        (LOSS, {"reach": -1.0}),
        (DISTANCE, {"reach": float("inf")}),
        (DISTANCE, {"support": (3, 3)}),
        (DISTANCE, {"public_sha256": None}),
    ],
)
def test_contradictions_are_refused(query, changes):
    with pytest.raises(MechanismError):
        replace(query, **changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("support", [0, "x"]),
        ("support", 7),
        ("support", [[1]]),
        ("space", {"columns": [{"name": "x", "lower": 0, "upper": 0, "levels": None}]}),
        ("space", {"columns": [{"name": "x", "lower": 0, "upper": 1}]}),
        ("epsilon", "1/0"),
        ("ahead", [{"epsilon": "-1", "delta": "0", "mu_squared": "0", "asked": None}]),
        ("ahead", None),
    ],
)
def test_spoiled_text_is_no_query(name, value):
    fields = json.loads(NEIGHBOURS.to_json()) | {name: value}
    with pytest.raises(HdpError):
        query_from_json(json.dumps(fields))

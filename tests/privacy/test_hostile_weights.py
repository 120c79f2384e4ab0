"""Hostile questions about weights: malformed fields, public tables that change, points that nearly tie, odd sizes."""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import HdpError, SiteError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas.compiler import compile_one_sided
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.mechanisms.hybrid_weights import (
    CurveQuery,
    DistanceQuery,
    LossSelectionQuery,
    NeighboursQuery,
    SelectionQuery,
)
from hdpstats.mechanisms.importance_weights import ColumnBox, DensityRatioModel, ImportanceWeightsQuery
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.noise.distributions import lattice, lattice_noise
from hdpstats.privacy.sensitivity import BoxNorm
from hdpstats.records.geometry import PointColumn, PointSpace
from hdpstats.records.query import Query
from hdpstats.schema.public import PublicTable
from hdpstats.solvers import nearest_points as search

SCHEMA = hdp.Schema(
    x=hdp.Continuous(-1, 1, complete=True),
    y=hdp.Binary(complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
)


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"x": rng.uniform(-1, 1, n), "y": rng.integers(0, 2, n), "g": rng.choice(["a", "b", "c"], n)},
    )


PUBLIC = PublicTable.from_frame(people(20, 1), SCHEMA)
SPACE = PointSpace(columns=(PointColumn(name="x", lower=-1.0, upper=1.0), PointColumn(name="g", levels=3)))
COMMON: dict[str, Any] = {"epsilon": Fraction(1), "schema_sha256": SCHEMA.sha256, "public_sha256": PUBLIC.sha256}
PAIR = ((0.0, 1.0), (1.0, 0.0))
BOX = ColumnBox(location=(0.0,) * 3, scale=(1.0,) * 3, lower=(-1.0, 0.0, 0.0), upper=(1.0, 1.0, 1.0), intercept=True)
QUERIES: dict[str, Query] = {
    "neighbours": NeighboursQuery(space=SPACE, support=(0, 1, 2), **COMMON),
    "neighbours of all": NeighboursQuery(space=PointSpace(columns=()), support=None, **COMMON),
    "selection": SelectionQuery(space=SPACE, order=(0, 1, 2), sizes=(1, 3), reach=1.0, penalties=(0.0, 0.0), **COMMON),
    "loss": LossSelectionQuery(formula="y ~ x", candidates=PAIR, reach=1.0, **COMMON),
    "curve": CurveQuery(
        formula="y ~ x", candidates=PAIR, scale=(1.0, 1.0), radius=Fraction(1), ridge=Fraction(1, 10), **COMMON
    ),
    "distance": DistanceQuery(space=SPACE, support=(0, 1), reach=1.0, **COMMON),
    "histogram": HistogramQuery(axes=(Axis(name="x", cuts=(0.0,)), Axis(name="g", levels=3)), **COMMON),
}
STRANGE: tuple[Any, ...] = (None, -1, 2**70, 1e308, "", "1/0", "9" * 2000, {}, [1], [2**70], [0, 0])


def site_of(rows: pd.DataFrame, relation: str = "replace_one") -> hdp.LocalSite:
    ledger = hdp.Ledger(None, dataset="trial", epsilon=2000.0, relation=relation)
    n_max = 500 if relation == "add_or_remove_one" else None
    site = hdp.LocalSite(rows, schema=SCHEMA, ledger=ledger, n_max=n_max)
    site.put_public(PUBLIC)
    return site


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def changed(fields: Any, path: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(fields))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return copy


def importance() -> ImportanceWeightsQuery:
    names = tuple(name for name in compile_one_sided("~ x + g", SCHEMA).names if name != "Intercept")
    model = DensityRatioModel(formula="~ x + g", columns=names, coding=BOX)
    return ImportanceWeightsQuery(model=model, perturbs="objective", centre=(0.0,) * 4, ridge=Fraction(8), **COMMON)


@pytest.mark.parametrize("name", [*QUERIES, "importance"])
def test_a_strange_field_is_refused_by_name_before_anything_is_charged(name: str) -> None:
    query = importance() if name == "importance" else QUERIES[name]
    site, fields = site_of(people(30, 2)), json.loads(query.to_json())
    for path in places(fields):
        for strange in STRANGE:
            spent = site.ledger.spent
            try:
                site.answer(query_from_json(json.dumps(changed(fields, path, strange))))
            except HdpError:
                assert site.ledger.spent == spent


@pytest.mark.parametrize("text", ["1e999", "NaN", "-Infinity"])
@pytest.mark.parametrize("name", ["selection", "distance", "loss"])
def test_numbers_that_are_none_are_no_reach(name: str, text: str) -> None:
    with pytest.raises(HdpError):
        query_from_json(QUERIES[name].to_json().replace('"reach":1.0', f'"reach":{text}'))


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("name", [name for name in QUERIES if name != "curve"])
def test_any_number_of_protected_people_gets_the_same_noise(name: str, rows: int) -> None:
    release = site_of(people(rows, 3), "add_or_remove_one").answer(QUERIES[name])
    again = site_of(people(200, 4), "add_or_remove_one").answer(QUERIES[name])
    constants = ("noise_variance", "noise_sd", "events")
    assert [getattr(release, c, None) for c in constants] == [getattr(again, c, None) for c in constants]


def test_a_site_keeps_few_tables_and_none_of_another_schema() -> None:
    site = site_of(people(30, 5))
    other = hdp.Schema(
        x=hdp.Continuous(-2, 2, complete=True),
        y=hdp.Binary(complete=True),
        g=hdp.Categorical(["a", "b", "c"], complete=True),
    )
    with pytest.raises(SiteError):
        site.put_public(PublicTable.from_frame(people(20, 1), other))
    assert site.answer(QUERIES["neighbours"]).events
    for seed in range(10, 20):
        site.put_public(PublicTable.from_frame(people(20, seed), SCHEMA))
    spent = site.ledger.spent
    with pytest.raises(SiteError, match="put_public"):
        site.answer(QUERIES["distance"])
    assert site.ledger.spent == spent


def test_a_request_is_not_refused_halfway_where_the_schema_is_much_wider_than_the_public_rows() -> None:
    schema = hdp.Schema(x=hdp.Continuous(0, 1e9, complete=True), g=hdp.Binary(complete=True))
    rng = np.random.default_rng(6)
    public = pd.DataFrame({"x": rng.uniform(1, 2, 40), "g": rng.integers(0, 2, 40)})
    private = pd.DataFrame({"x": rng.uniform(0, 1e9, 60), "g": rng.integers(0, 2, 60)})
    study = hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(2))
    hdp.hybrid_weights(study, ["x", "g"], epsilon=1.0, distance_share=0.2)
    assert study.ledger.spent.epsilon == 1


@pytest.mark.parametrize("radii", [(2, 1, 3), (Fraction(1, 2), 5), (7,)])
def test_noise_in_a_box_keeps_its_rate_where_sides_are_not_one(radii: tuple[Fraction, ...]) -> None:
    norm, rate = BoxNorm(radii=tuple(map(Fraction, radii))), Fraction(3, 7)
    grids, cell = lattice(norm, len(radii), scale=1 / rate)
    noise = lattice_noise(norm, rate=rate, grids=grids)
    for grid, radius in zip(grids, norm.radii, strict=True):
        assert grid / radius == cell
        assert rate * cell * (1 - Fraction(1, 2**40)) < noise.rate <= rate * cell


def brute(rows: FloatArray, points: FloatArray) -> "np.ndarray[Any, Any]":
    return search.squared_distances(rows[:, None, :], points[None]).argmin(axis=1)


def crowds(p: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return rows and points full of exact ties, twins a last bit apart, midpoints and negative zeros."""
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 3, (150, p)) / 2.0
    near = np.clip(grid[:80] + rng.choice([-1, 0, 1], (80, p)) * 2.0**-53, 0.0, 1.0)
    tiny = rng.choice([0.0, 5e-324, 1e-300, 1e-160], (40, p))
    points = rng.permutation(np.vstack([grid, near, tiny, grid[:40]]))
    middle = 0.5 * (points[:90] + points[90:180])
    rows = np.vstack([points, middle, np.nextafter(middle, 1.0), rng.random((60, p)), np.full((3, p), -0.0)])
    return rng.permutation(rows), points


@pytest.mark.parametrize("p", [1, 2, 4, 7, 8, 30])
@pytest.mark.parametrize("pairs", [0, search.TREE_PAIRS])
def test_every_search_follows_the_definition_to_the_last_bit(
    p: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "TREE_PAIRS", pairs)
    for seed in range(3):
        rows, points = crowds(p, seed)
        np.testing.assert_array_equal(search.nearest(rows, points), brute(rows, points))
        sizes = [1, 2, 7, 63, 64, 65, 200, len(points)]
        for block in search.nested_nearest(rows, points, sizes):
            for place, squared, size in zip(block.place, block.squared, sizes, strict=True):
                np.testing.assert_array_equal(place, brute(rows, points[:size]))
                np.testing.assert_array_equal(squared, search.squared_distances(rows, points[place]))


@pytest.mark.parametrize("p", [2, 30])
@pytest.mark.parametrize("pairs", [0, search.TREE_PAIRS])
def test_a_rows_neighbour_does_not_depend_on_the_rows_beside_it(
    p: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "TREE_PAIRS", pairs)
    rows, points = crowds(p, 9)
    together = search.nearest(rows, points)
    alone = np.array([search.nearest(row[None], points)[0] for row in rows[:200]])
    np.testing.assert_array_equal(alone, together[:200])
    monkeypatch.setattr(search, "BLOCK", 17)
    monkeypatch.setattr(search, "ROWS_OF_PRODUCT", 5)
    np.testing.assert_array_equal(search.nearest(rows[::-1], points)[::-1], together)

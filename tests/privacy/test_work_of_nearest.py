"""How much a search for nearest points does: within a public bound wherever a private row lies, attained by rehearsal.

The hardest row is one that is as far from all points: no box can be left out, and no product tells which is nearest.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from hdpstats._base.rehearsal import rehearsing
from hdpstats.mechanisms.hybrid_weights.site import landscape_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.table import PrivateTable
from hdpstats.solvers import nearest_points as module
from hdpstats.solvers import searches
from tests.privacy.test_nearest_points import PUBLIC, SCHEMA, SPACE, site_facts

ROWS, POINTS = 8, 200


def sphere(p: int) -> np.ndarray:
    """Return points as far from the middle, up to rounding."""
    directions = np.random.default_rng(p).standard_normal((POINTS, p))
    return 0.5 + 0.25 * directions / np.linalg.norm(directions, axis=1)[:, None]


def hostile_rows(p: int) -> list[np.ndarray]:
    """Return tables that differ in where rows lie: all in the middle, one of them, none, on points, in corners."""
    rng = np.random.default_rng(0)
    spread, middle = rng.random((ROWS, p)), np.full((ROWS, p), 0.5)
    one = spread.copy()
    one[0] = 0.5
    return [spread, one, middle, sphere(p)[:ROWS], np.round(spread), np.nextafter(middle, 1.0)]


@pytest.mark.parametrize("sizes", [[POINTS], [1, 40, 41, 120, POINTS]])
def test_a_tree_visits_all_its_nodes_and_points_in_a_rehearsal_and_never_more(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    seen = {"_gap": 0, "_squared_at": 0}
    for name, plain in (("_gap", searches._gap), ("_squared_at", searches._squared_at)):

        def spy(*arguments: object, name: str = name, plain: Callable[..., float] = plain) -> float:
            seen[name] += 1
            return plain(*arguments)

        monkeypatch.setattr(searches, name, spy)
    monkeypatch.setattr(searches, "search", searches.search.py_func)
    search = module._Tree(sphere(3), sizes)
    bound = {"_gap": ROWS * 2 * (2**search._tree.depth - 1), "_squared_at": ROWS * POINTS}
    done = []
    for rows in hostile_rows(3):
        seen |= dict.fromkeys(seen, 0)
        found = search.answer(rows)
        done.append(seen["_squared_at"])
        assert all(seen[name] <= bound[name] for name in seen)
        seen |= dict.fromkeys(seen, 0)
        with rehearsing():
            rehearsed = search.answer(rows)
        assert seen == bound
        np.testing.assert_array_equal(rehearsed.place, found.place)
        np.testing.assert_array_equal(rehearsed.squared, found.squared)
    assert done[0] < done[1] < done[2]  # one person in the middle can be seen, up to the bound


@pytest.mark.parametrize("p", [2, 9, 40])
def test_products_list_few_pairs_and_compare_all_in_a_rehearsal(monkeypatch: pytest.MonkeyPatch, p: int) -> None:
    listed, compared = [0], [0]
    improve, distances = module._Products.improve, module.squared_distances

    def spy_on_lists(own: object, rows: np.ndarray, row: np.ndarray, *rest: object) -> None:
        listed[0] += len(row)
        improve(own, rows, row, *rest)

    def spy(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        found = distances(rows, points)
        compared[0] += found.size
        return found

    monkeypatch.setattr(module._Products, "improve", spy_on_lists)
    monkeypatch.setattr(module, "squared_distances", spy)
    search = module._Products(sphere(p), [50, POINTS])
    for rows in hostile_rows(p):
        listed[0] = compared[0] = 0
        found = search.answer(rows)
        assert listed[0] <= ROWS * POINTS / module.MANY
        assert compared[0] <= ROWS * POINTS
        listed[0] = compared[0] = 0
        with rehearsing():
            rehearsed = search.answer(rows)
        assert (listed[0], compared[0]) == (0, ROWS * POINTS)
        np.testing.assert_array_equal(rehearsed.place, found.place)
        np.testing.assert_array_equal(rehearsed.squared, found.squared)


def test_tiles_are_all_seen_and_decided_in_a_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    p, counts = 3, {"scores": 0, "squared": 0}
    scores, boxes = searches._scores(p).py_func, searches._boxes(p).py_func

    def spied(row: np.ndarray, tile: np.ndarray, lane: np.ndarray) -> float:
        counts["scores"] += 1
        return scores(row, tile, lane)

    def spy(row: np.ndarray, point: np.ndarray) -> float:
        counts["squared"] += 1
        return module.squared_distances(row, point)

    plain = searches.kernel.__wrapped__
    monkeypatch.setattr(searches, "_squared", spy)
    monkeypatch.setattr(searches, "_scores", lambda p: spied)
    monkeypatch.setattr(searches, "_boxes", lambda p: boxes)
    monkeypatch.setattr(searches.numba, "njit", lambda *args, **options: args[0] if args else lambda loop: loop)
    points = np.tile(sphere(p), (2, 1)) + np.repeat([0.0, 1e-3], POINTS)[:, None]
    search = module._Tiles(points, [len(points)])
    monkeypatch.setattr(search, "_improve", plain(p))
    number = len(search._parts[0].factors)
    assert number > 2
    done = []
    for rows in hostile_rows(p):
        counts |= dict.fromkeys(counts, 0)
        found = search.answer(rows)
        done.append(counts["scores"])
        assert counts["scores"] <= 2 * ROWS * number
        assert counts["squared"] <= ROWS * number * searches.LANES
        counts |= dict.fromkeys(counts, 0)
        with rehearsing():
            rehearsed = search.answer(rows)
        assert counts == {"scores": 2 * ROWS * number, "squared": ROWS * number * searches.LANES}
        np.testing.assert_array_equal(rehearsed.place, found.place)
    assert len(set(done)) > 1


def test_which_search_is_made_follows_from_the_declared_number_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = module.search_among

    def spy(points: np.ndarray, sizes: list[int], *, rows: int) -> module.Search:
        asked.append(rows)
        return plain(points, sizes, rows=rows)

    monkeypatch.setattr("hdpstats.mechanisms.hybrid_weights.site.search_among", spy)
    at_site = site_facts(Relation.ADD_OR_REMOVE_ONE)
    landscape = landscape_of(SPACE, None, PUBLIC.sha256, at_site)
    for rows in (5, 6):
        frame = pd.DataFrame({name: [None] * rows for name in SCHEMA})
        landscape.counts(PrivateTable.from_frame(frame, SCHEMA).admit(SPACE.names))
    assert asked == [at_site.records] * 2

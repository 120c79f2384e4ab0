"""Nearest points against brute force: counts are identical, ties go to the first point, a row's answer is its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats.solvers import nearest_points as module
from hdpstats.solvers import searches
from hdpstats.solvers.nearest_points import nearest, nested_nearest, squared_distances
from tests.examples import examples

TREES, PRODUCTS = 0, 10**18
"""`TREE_PAIRS` for one search and for the other."""


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", ["continuous", "lattice", "binary", "crowded"])
@pytest.mark.parametrize("p", [3, 9])
def test_compiled_tiles_find_what_brute_force_finds(monkeypatch, kind, p):
    monkeypatch.setattr(module, "TREE_DIMENSION", 0)
    monkeypatch.setattr(module, "COMPILED_PAIRS", 0)
    monkeypatch.setattr(module, "BLOCK", 101)
    rows, points = scene(kind, p, np.random.default_rng(p), m=2600, n=250)
    m = len(points)
    compare(rows, points, ([m], [max(1, m // 2)], sorted({1, max(1, m // 3), max(1, 1024 % m), m})))


def compare(rows, points, nests):
    """Compare all that is found in nests of sets with the first of the nearest points, by the definition."""
    distances = squared_distances(rows[:, None], points)
    for sizes in nests:
        place, squared = searched(rows, points, sizes)
        for number, size in enumerate(sizes):
            np.testing.assert_array_equal(place[number], distances[:, :size].argmin(axis=1))
            np.testing.assert_array_equal(squared[number], distances[np.arange(len(rows)), place[number]])


def brute(rows, points):
    """Return the first of the nearest points, by the definition."""
    return squared_distances(rows[:, None], points).argmin(axis=1)


def searched(rows, points, sizes):
    blocks = list(nested_nearest(rows, points, sizes))
    return (np.concatenate([getattr(block, name) for block in blocks], axis=1) for name in ("place", "squared"))


def scene(kind, p, rng, *, m=300, n=400):
    points, rows = rng.random((m, p)), rng.random((n, p))
    if kind == "lattice":
        points, rows = np.round(points * 4) / 4, np.round(rows * 8) / 8
    if kind == "binary":
        points, rows = np.round(points), np.round(rows)
        rows[::5] = 0.5  # as far from one level as from the other
    if kind == "crowded":
        points, rows = 0.5 + (points - 0.5) * 1e-9, 0.5 + (rows - 0.5) * 1e-9
    points = np.unique(points, axis=0)
    rng.shuffle(points)
    return rows, points


@pytest.mark.covering
@pytest.mark.parametrize("pairs", [TREES, PRODUCTS])
@pytest.mark.parametrize("kind", ["continuous", "lattice", "binary", "crowded"])
@pytest.mark.parametrize("p", [1, 2, 3, 12])
def test_every_neighbour_is_that_of_brute_force_in_every_nested_set(monkeypatch, pairs, kind, p):
    monkeypatch.setattr(module, "TREE_DIMENSION", 99)
    monkeypatch.setattr(module, "TREE_PAIRS", pairs)
    monkeypatch.setattr(module, "POINTS_OF_PRODUCT", 64)
    monkeypatch.setattr(module, "SORTED_POINTS", 0 if p in (1, 3) else 2**16)
    rows, points = scene(kind, p, np.random.default_rng([p, pairs]))
    m = len(points)
    some = sorted({1, 2, max(1, m // 7), max(1, m // 2)})  # not all points need be in a set
    compare(rows, points, ([m], some, [*some[:-1], m], [*range(1, m, max(1, m // 12)), m]))


@pytest.mark.parametrize("pairs", [TREES, PRODUCTS])
def test_a_thousand_points_at_one_distance_go_to_the_first(monkeypatch, pairs):
    monkeypatch.setattr(module, "TREE_DIMENSION", 99)
    monkeypatch.setattr(module, "TREE_PAIRS", pairs)
    angle = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    points = 0.5 + 0.25 * np.column_stack([np.cos(angle), np.sin(angle)])
    rows = np.full((3, 2), 0.5)
    assert nearest(rows, points).tolist() == [int(squared_distances(rows[0], points).argmin())] * 3


@pytest.mark.parametrize("pairs", [TREES, PRODUCTS])
def test_a_tie_goes_to_the_point_named_first_whatever_the_order(monkeypatch, pairs):
    monkeypatch.setattr(module, "TREE_DIMENSION", 99)
    monkeypatch.setattr(module, "TREE_PAIRS", pairs)
    points = np.stack(np.meshgrid(*[np.linspace(0, 1, 9)] * 2), axis=-1).reshape(-1, 2)
    middle = np.full((1, 2), 0.5 + 1 / 16)  # equally far from four points, exactly
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(points))
        four = np.flatnonzero(squared_distances(middle, points[order]) == 2 / 256)
        assert len(four) == 4
        assert nearest(middle, points[order])[0] == four.min()


@pytest.mark.parametrize("pairs", [TREES, PRODUCTS])
def test_what_single_precision_cannot_tell_is_told(monkeypatch, pairs):
    monkeypatch.setattr(module, "TREE_DIMENSION", 99)
    monkeypatch.setattr(module, "TREE_PAIRS", pairs)
    rng = np.random.default_rng(4)
    rows = rng.random((50, 8))
    points = np.concatenate(
        [rng.random((200, 8)), *(rows + step * 1e-9 * rng.normal(size=rows.shape) for step in (1, 2, 3))]
    )
    points = np.clip(points, 0, 1)
    np.testing.assert_array_equal(nearest(rows, points), brute(rows, points))


@pytest.mark.parametrize("p", [2, 9])
@pytest.mark.parametrize("pairs", [TREES, PRODUCTS])
def test_the_answer_to_a_row_does_not_depend_on_the_rows_beside_it(monkeypatch, pairs, p):
    monkeypatch.setattr(module, "TREE_PAIRS", pairs)
    rng = np.random.default_rng(p)
    rows, points = scene("lattice", p, rng, m=2000, n=700)
    whole = nearest(rows, points)
    order = rng.permutation(len(rows))
    np.testing.assert_array_equal(nearest(rows[order], points), whole[order])
    np.testing.assert_array_equal(nearest(rows[:1], points), whole[:1])
    monkeypatch.setattr(module, "BLOCK", 37)
    monkeypatch.setattr(module, "ROWS_OF_PRODUCT", 11)
    np.testing.assert_array_equal(nearest(rows, points), whole)


@pytest.mark.parametrize("points", [np.zeros((1, 0)), np.zeros((1, 3)), np.full((2, 1), 0.5)])
def test_few_points_and_no_dimension(points):
    rows = np.random.default_rng(0).random((5, points.shape[1]))
    assert nearest(rows, points).tolist() == [0] * 5


def scales(rng, *shape):
    """Return numbers in the unit cube of all sizes a double can have, many of them equal or neighbours."""
    some = rng.choice([0.0, 5e-324, 1e-300, 1e-160, 2.0**-30, 0.1, 0.5, 1.0 - 2.0**-53, 1.0], shape)
    return np.clip(np.where(rng.random(shape) < 0.5, np.nextafter(some, rng.random(shape)), some), 0.0, 1.0)


@pytest.mark.parametrize("p", [1, 3, 7])
def test_no_computed_distance_is_below_that_of_a_box_and_boxes_hold_their_points(p):
    """Without a margin: a bound that rounds otherwise than the definition would leave out a nearest point."""
    rng = np.random.default_rng(p)
    points, rows = scales(rng, 700, p), np.concatenate([scales(rng, 60, p), rng.random((60, p))])
    sizes = [1, 5, 300, len(points)]
    found = searches.tree_of(points, sizes)
    assert sorted(found.place.tolist()) == list(range(len(points)))
    np.testing.assert_array_equal(found.points, points[found.place])
    attained = 0
    for level in range(found.depth + 1):
        for part in range(2**level):
            node, own = 2**level - 1 + part, slice(part * 700 >> level, (part + 1) * 700 >> level)
            assert own.stop - own.start <= 16 or level < found.depth
            assert found.first[node] == np.searchsorted(sizes, found.place[own].min(), side="right")
            inside = (found.low[node] <= found.points[own]) & (found.points[own] <= found.high[node])
            assert np.all(inside)
            for i in range(len(rows)):
                bound = searches._gap(rows, i, found.low, found.high, node)
                least = squared_distances(rows[i], found.points[own]).min()
                assert bound <= least
                attained += 0 < bound == least
    assert attained > 0


def test_a_tree_of_points_that_are_all_the_same():
    found = searches.tree_of(np.full((1000, 2), 0.25), [1000])
    assert sorted(found.place.tolist()) == list(range(1000))
    assert (
        module._Tree(np.full((1000, 2), 0.25), [10, 1000]).answer(np.full((2, 2), 0.5)).place.tolist() == [[0, 0]] * 2
    )


def test_no_rows():
    assert nearest(np.zeros((0, 2)), np.zeros((1, 2))).tolist() == []


@examples(200)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 2**31), st.sampled_from([2, 3, 16]))
def test_small_scenes_on_grids(p, m, seed, steps):
    rng = np.random.default_rng(seed)
    points = np.unique(rng.integers(0, steps, (m, p)) / steps, axis=0)
    rng.shuffle(points)
    rows = rng.integers(0, 2 * steps, (30, p)) / (2 * steps)
    for search in (module._Tree, module._Products):
        np.testing.assert_array_equal(search(points, [len(points)]).answer(rows).place[0], brute(rows, points))


def test_the_error_of_products_is_within_the_claimed_bound():
    """The bound of the module's docstring on random and on one-sided vectors, whose roundings do not cancel."""
    rng = np.random.default_rng(1)
    for p in (3, 30, 300):
        for points, rows in (
            (rng.random((400, p)), rng.random((300, p))),
            (np.full((2, p), 0.7), np.full((2, p), 0.9)),
        ):
            points = points.copy()
            points[0] = 0.0
            search = module._Products(points, [len(points)])
            centred, shifted = rows - search._centre, points - search._centre
            single = np.ones((len(rows), p + 1), dtype=np.float32)
            single[:, :-1] = centred
            computed = (single @ search.factors).astype(np.float64)
            exact = 0.5 * (shifted**2).sum(axis=1) - centred @ shifted.T
            assert np.all(2 * np.abs(computed - exact) <= search.slack(centred)[:, None])


def test_the_distance_of_a_box_exceeds_no_distance_of_its_points_by_more_than_claimed():
    """Rows at corners of boxes, and points far from the centre beside their rows: roundings of boxes do not cancel."""
    rng = np.random.default_rng(3)
    p = 5
    points = np.concatenate([rng.random((600, p)), 0.9 + 1e-7 * rng.random((40, p))])
    rows = np.concatenate([rng.random((20, p)), points[::9], 0.9 - 1e-7 * rng.random((20, p))])
    search = module._Tiles(points, [len(points)])
    (part,), products = search._parts, search._products
    single, _ = products.single(rows)
    _, wide = products.reach_of_boxes(rows)
    assert sorted(set(part.place.ravel().tolist())) == list(range(len(points)))
    bound = np.empty(len(part.factors), dtype=np.float32)
    boxes = searches._boxes(p)
    positive = 0
    for row, short, allowed in zip(rows, single[:, :-1].copy(), wide, strict=True):
        least = boxes(short, part.low, part.high, bound)
        nearest_of_tile = 0.5 * squared_distances(row, points[part.place]).min(axis=1)
        assert least == bound.min()
        assert np.all(bound <= nearest_of_tile + 0.5 * allowed)
        positive += np.count_nonzero(bound > 0.5 * nearest_of_tile)
    assert positive > 0

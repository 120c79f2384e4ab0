"""Orders of points: every beginning covers; halves stay together."""

import numpy as np
import pytest

from hdpstats.solvers.nearest_points import farthest_first, halving_order, squared_distances


def test_each_beginning_leaves_no_point_farther_than_it_says():
    points = np.random.default_rng(0).random((200, 3))
    order, radius = farthest_first(points, 40)
    assert len(set(order.tolist())) == 40
    for k in (1, 7, 40):
        away = np.linalg.norm(points[:, None] - points[order[:k]], axis=2).min(axis=1)
        assert away.max() == pytest.approx(radius[k - 1])
    assert np.all(np.diff(radius) <= 0)
    chosen = points[order]
    apart = np.linalg.norm(chosen[:, None] - chosen, axis=2) + 9 * np.eye(40)
    assert apart.min() >= radius[-1]  # within a factor of 2 of the best cover: k + 1 points at least this far apart


def test_all_points_are_taken_once_and_nothing_is_left():
    points = np.array([[0.0], [1.0], [0.5]])
    order, radius = farthest_first(points, 3)
    assert order.tolist() == [2, 0, 1]
    assert radius.tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("p", [0, 1, 3, 12])
def test_distances_are_those_of_the_definition_to_the_last_bit_and_the_first_of_several_is_taken(p):
    rng = np.random.default_rng(p)
    for points in (rng.random((90, p)), rng.integers(0, 4, (90, p)) / 3):
        order, radius = farthest_first(points, 90)
        left = np.minimum.accumulate(squared_distances(points[:, None], points[order]), axis=1)
        assert order[1:].tolist() == left.argmax(axis=0)[:-1].tolist()
        assert radius.tolist() == np.sqrt(left.max(axis=0)).tolist()


@pytest.mark.parametrize("m", [1, 2, 3, 17, 64])
def test_halving_is_a_permutation_whose_halves_do_not_overlap(m):
    points = np.random.default_rng(m).random((m, 2))
    order = halving_order(points)
    assert sorted(order.tolist()) == list(range(m))
    if m > 2:
        first, second = points[order[: (m + 1) // 2]], points[order[(m + 1) // 2 :]]
        wide = np.ptp(points, axis=0).argmax()
        assert first[:, wide].max() <= second[:, wide].min()


def test_points_without_coordinates_keep_their_order():
    assert halving_order(np.zeros((1, 0))).tolist() == [0]

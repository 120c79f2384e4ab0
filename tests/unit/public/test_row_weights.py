"""The allowance for weights of people: its parts, and what is larger than two of them."""

import numpy as np
import pytest

from hdpstats.public.row_weights import BENT, Allowance, moved

H, N = np.diag([2.0, 1.0, 4.0]), np.diag([0.0, 1.0, 1.0])
MOVED = moved(H[None], N[None], shares=np.array([0.1]))
M = np.linalg.solve(H + N, N)


def covariance(rng, dimension):
    root = rng.normal(size=(dimension, dimension))
    return root @ root.T


def test_slopes_that_differ_in_proportion_are_off_along_one_line():
    effects = np.array([0.0, 3.0, -2.0])
    found = MOVED.allowance(0.5, effects=effects)
    bent = BENT * M @ effects
    assert found.covariance == pytest.approx(0.25 * M @ M.T + np.outer(bent, bent))
    assert found.share == 0.1


def test_without_effects_nothing_is_added():
    alone = MOVED.covariances(0.5)
    assert alone == pytest.approx(0.25 * (M @ M.T)[None])
    assert MOVED.covariances(0.5, effects=np.zeros(3)) == pytest.approx(alone)


def test_the_larger_of_two_allowances_is_no_less_than_either_along_any_direction():
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, other = (Allowance(share=share, covariance=covariance(rng, 4)) for share in (0.1, 0.3))
        both = one.at_least(other)
        for each in (one, other):
            assert np.linalg.eigvalsh(both.covariance - each.covariance)[0] >= -1e-9
        assert both.share == 0.3
        assert np.trace(both.covariance) < np.trace(one.covariance + other.covariance)


def test_an_allowance_stays_where_another_is_smaller():
    one = Allowance(share=0.1, covariance=np.diag([4.0, 2.0]))
    assert one.at_least(Allowance(share=0.2, covariance=np.diag([1.0, 2.0]))).covariance == pytest.approx(
        one.covariance
    )

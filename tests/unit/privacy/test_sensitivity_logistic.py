"""The diameter of logistic scores at public coefficients: searches in many dimensions, attained, increasing."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdpstats.privacy.sensitivity import Relation, diameter, length, sensitivity_at

RADII = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0)
KNOWN = {0.0: 1.0, 0.5: 1.029, 1.0: 1.099, 2.0: 1.270, 4.0: 1.533, 8.0: 1.767, 16.0: 1.902}


def scores(u, theta):
    return u * expit(-u @ theta)[..., None]


def searched(r, dimension, *, tries=40):
    """Return the largest distance of two scores of rows in the unit ball that ascent from random rows finds."""
    rng = np.random.default_rng(int(10 * r) + dimension)
    theta = rng.standard_normal(dimension)
    theta *= r / np.linalg.norm(theta)

    def minus(flat):
        u = flat.reshape(2, dimension)
        u = u / np.maximum(1.0, np.linalg.norm(u, axis=1))[:, None]
        return -float(np.linalg.norm(np.subtract(*scores(u, theta))))

    starts = (rng.standard_normal(2 * dimension) * 2.0 for _ in range(tries))
    return max(-minimize(minus, start, method="L-BFGS-B").fun for start in starts)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dimension", [1, 2, 3, 7])
@pytest.mark.parametrize("r", [0.0, 0.5, 2.0, 8.0])
def test_no_two_scores_are_farther_apart_and_from_two_dimensions_some_are_as_far(r, dimension):
    found, claimed = searched(r, dimension), float(diameter(Fraction(r)))
    assert found <= claimed + 1e-12
    if dimension > 1:
        assert found >= 0.995 * claimed  # a constant that is one per cent smaller would be wrong


@pytest.mark.parametrize("r", RADII)
def test_a_grid_over_both_angles_agrees(r):
    angles = np.linspace(0.0, np.pi, 1201)
    size = expit(r * np.cos(angles))
    along, across = size * np.cos(angles), size * np.sin(angles)
    grid = np.hypot(along[:, None] - along, across[:, None] + across).max()
    claimed = float(diameter(Fraction(r)))
    # Both points are within half a cell of a grid point, and r/4 + 1 is a Lipschitz constant of either.
    assert grid <= claimed + 1e-12
    assert claimed <= grid + (r / 4 + 1) * np.pi / 1200 + 1e-12


@pytest.mark.parametrize(("r", "known"), KNOWN.items())
def test_known_values(r, known):
    assert float(diameter(Fraction(r))) == pytest.approx(known, abs=6e-4)


def test_mirror_images_attain_it_and_are_nearer_than_twice_the_longest():
    x = np.linspace(0.0, 1.0, 100_001)
    for r in RADII:
        across = np.sqrt(1 - x**2)
        rows = np.stack([np.stack([x, across], 1), np.stack([x, -across], 1)])
        apart = np.linalg.norm(np.subtract(*scores(rows, np.array([-r, 0.0]))), axis=1).max()
        claimed = float(diameter(Fraction(r)))
        assert apart == pytest.approx(claimed, rel=1e-9)
        assert claimed < 2 * float(length(Fraction(r))) or r == 0.0


def test_it_increases_from_one_and_never_reaches_more_than_two():
    found = [diameter(Fraction(r)) for r in (*np.geomspace(1e-9, 1e15, 200).tolist(),)]
    assert found == sorted(found)
    assert diameter(Fraction(0)) == 1
    assert 1 <= found[0] < 1 + Fraction(1, 2**40)
    assert found[-1] == 2
    assert max(found) <= 2


@pytest.mark.parametrize("r", [0.3, 1.0, 3.7, 25.0])
def test_the_bound_is_above_the_exact_maximum_by_rounding_only(r):
    x = np.linspace(0.0, 1.0, 2_000_001)
    exact = (2 * expit(r * x) * np.sqrt(1 - x * x)).max()
    assert exact - 1e-15 <= float(diameter(Fraction(r))) <= exact + 1e-11


@pytest.mark.parametrize("r", RADII)
def test_a_single_score_is_no_longer_than_the_logistic_function_says(r):
    rng = np.random.default_rng(1)
    u = rng.standard_normal((4000, 3))
    u /= np.linalg.norm(u, axis=1)[:, None] * rng.uniform(1.0, 2.0, (4000, 1))
    theta = np.array([r, 0.0, 0.0])
    claimed = float(length(Fraction(r)))
    assert np.linalg.norm(scores(u, theta), axis=1).max() <= claimed
    assert np.linalg.norm(scores(np.array([-1.0, 0.0, 0.0]), theta)) == pytest.approx(claimed, abs=1e-12)


def test_sensitivities_scale_with_the_norm_of_rows():
    norm, radius = Fraction(5, 2), Fraction(4, 5)
    replaced = sensitivity_at(radius, norm=norm, relation=Relation.REPLACE_ONE)
    added = sensitivity_at(radius, norm=norm, relation=Relation.ADD_OR_REMOVE_ONE)
    assert replaced == norm * diameter(Fraction(2))
    assert added == norm * length(Fraction(2))
    assert added < replaced < 2 * norm

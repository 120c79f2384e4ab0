"""Features in units: the compiled loop and numpy give the same integers, wherever a person stands."""

import numpy as np
import pytest

from hdpstats.mechanisms.description import people
from hdpstats.mechanisms.description.people import totals


def cells_of(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    value = rng.uniform(-3.0, 7.0, n)
    value[:4] = [-3.0, 7.0, 2.0, np.nextafter(7.0, 0.0)]
    weights = rng.uniform(0.0, 1.0, n)
    weights[:5] = [1.0, 1.0, 0.0, 1.0, 5e-324]
    return value, rng.random(n) < 0.2, weights


def features(cells: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return all features of people (2, n), with bounds that a declaration may hold as integers."""
    bounds = (-3, 7)
    return np.array(
        [
            people.number_in_units(*cells, bounds=bounds),
            people.square_in_units(*cells, bounds=bounds, centre=0.4, far=0.6),
        ]
    )


@pytest.mark.parametrize("n", [512, 513, 519, 4099])
def test_no_place_and_no_number_of_people_changes_a_unit(n, monkeypatch):
    cells = cells_of(n)
    found = features(cells)
    order = np.random.default_rng(1).permutation(n)
    np.testing.assert_array_equal(features(tuple(each[order] for each in cells)), found[:, order])
    fixed = tuple(each.copy() for each in cells)
    for each in fixed:
        each.flags.writeable = False
    np.testing.assert_array_equal(features(fixed), found)
    few = [features(tuple(each[k : k + 7] for each in cells)) for k in range(0, n, 7)]
    np.testing.assert_array_equal(np.concatenate(few, axis=1), found)
    assert np.abs(found).max() == people.UNITS // 2
    value, missing, weights = cells
    place = (value + 3.0) / 10.0
    for own, feature in zip(found, (place - 0.5, np.clip(((place - 0.4) / 0.6) ** 2, 0, 1) - 0.5), strict=True):
        right = np.floor(np.where(missing, 0.0, feature) * weights * people.UNITS + 0.5)
        np.testing.assert_array_equal(own, right.astype(int))


def test_sums_of_one_group_are_those_of_several():
    rng = np.random.default_rng(2)
    place, amounts = rng.integers(0, 2, 1000), rng.integers(-(2**19), 2**19, 1000)
    assert totals(place, amounts, 2).tolist() == totals(place, amounts, 3)[:2].tolist()

"""Public rows with wanted correlations: what the linear map reaches, and what it does with noisy ones."""

import numpy as np
import pytest

from hdpstats.raking.correlations import LEAST_CELL, mixing, pairs_of
from hdpstats.records.averages import CentredColumn, CohortProduct

RNG = np.random.default_rng(3)
N = 4000
ARM = (RNG.random(N) < 0.3).astype(float)
FEATURES = np.column_stack([ARM, RNG.random(N) < 0.5, RNG.standard_normal((N, 3)) + 0.4 * ARM[:, None]])
COLUMNS = (
    CentredColumn(name="arm", level=1, centre=0.3, unit=0.5),
    CentredColumn(name="late", level=1, centre=0.5, unit=0.5),
    CentredColumn(name="x", centre=0.1, unit=1.0),
    CentredColumn(name="z", centre=-0.2, unit=1.5),
    CentredColumn(name="u", centre=0.0, unit=1.0),
)
PLACES = {(each.name, each.level): place for place, each in enumerate(COLUMNS)}


def product(j, k, *, value=0.0, reach=50.0, largest=2500.0):
    return CohortProduct(first=COLUMNS[j], second=COLUMNS[k], reach=reach, largest=largest, value=value, noise_sd=0.01)


def pairs(*products):
    return pairs_of(products, PLACES, centre=np.zeros(5), scale=np.ones(5), indicators=2)


def covariance_of(features):
    centred = features - features.mean(axis=0)
    return centred.T @ centred / len(features)


def mixed(known, *, wanted, deviations):
    maps = mixing(known, covariance_of(FEATURES)[None], deviations=deviations[None], wanted=wanted[None])[0]
    return (FEATURES - FEATURES.mean(axis=0)) @ maps


def test_rows_get_the_wanted_covariances_with_indicators_and_with_each_other():
    known = pairs(product(0, 2), product(1, 3), product(2, 3), product(3, 4))
    wanted, deviations = np.array([-0.1, 0.2, 0.9, -0.5]), np.array([1.0, 1.5, 0.7])
    numbers = mixed(known, wanted=wanted, deviations=deviations)
    found = covariance_of(np.column_stack([FEATURES[:, :2], numbers]))
    assert found[[0, 1, 2, 3], [2, 3, 3, 4]] == pytest.approx(wanted, abs=1e-4)
    assert np.sqrt(np.diag(found)[2:]) == pytest.approx(deviations, abs=1e-4)


def test_where_correlations_are_those_of_the_rows_numbers_are_only_scaled():
    own = covariance_of(FEATURES)
    deviations = 1.3 * np.sqrt(np.diag(own)[2:])
    wanted = np.array([1.3**2 * own[2, 3], 1.3 * own[0, 2]])
    numbers = mixed(pairs(product(2, 3), product(0, 2)), wanted=wanted, deviations=deviations)
    assert numbers == pytest.approx(1.3 * (FEATURES[:, 2:] - FEATURES[:, 2:].mean(axis=0)), abs=1e-4)


def test_correlations_that_contradict_each_other_give_rows_that_vary():
    known = pairs(product(2, 3), product(3, 4), product(2, 4))
    numbers = mixed(known, wanted=np.array([0.95, 0.95, -0.95]), deviations=np.ones(3))
    found = covariance_of(numbers)
    assert np.linalg.eigvalsh(found)[0] > 0.005
    assert np.diag(found) == pytest.approx(np.ones(3), abs=0.05)
    assert found[0, 1] > 0.3
    assert found[0, 2] < -0.3


def test_a_product_of_two_indicators_tells_how_many_are_of_both_levels():
    known = pairs(product(0, 1, reach=1.2, largest=1.0))
    shares = FEATURES[:, :2].mean(axis=0)[None]
    averages = known.of(FEATURES.T).mean(axis=1)[None]
    assert known.joint.all()
    assert known.both(averages, shares)[0, 0] == pytest.approx(np.mean(FEATURES[:, 0] * FEATURES[:, 1]))
    assert known.both(averages + 9.0, shares)[0, 0] == pytest.approx(min(*shares[0]) - LEAST_CELL)


def test_products_tell_covariances_and_are_left_out_where_a_feature_is_not_known():
    unknown = CohortProduct(
        first=COLUMNS[2],
        second=CentredColumn(name="other", centre=0.0, unit=1.0),
        reach=2.5,
        largest=3.0,
        value=0.1,
        noise_sd=0.1,
    )
    known = pairs(product(2, 3), unknown, product(0, 4))
    assert [each.second.name for each in known.known] == ["z", "u"]
    averages, own = known.of(FEATURES.T).mean(axis=1)[None], covariance_of(FEATURES)
    found = known.covariances(averages, FEATURES.mean(axis=0)[None])
    assert found[0] == pytest.approx(own[[2, 0], [3, 4]])

"""The losses of people: their slopes are the scores, their float errors are within what losses of people say."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from hdpstats.families.regression.bounds import RegressionPeople, RegressionPersonLoss
from hdpstats.losses import LogisticLoss
from tests.privacy.hazard_pairs import Regime, pool, table_of
from tests.unit.mechanisms.perturbation.test_site import make_query
from tests.unit.solvers.capped_problems import cells_of, log_cap, row_of


def regression_people(n=60, seed=0):
    query = make_query(slopes=3, radius=2.0)
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 3)) * rng.choice([0.5, 3.0, 1e3], (n, 1))])
    geometry = query.model.geometry
    weights = np.minimum(1.0, geometry.radius / np.linalg.norm(X[:, 1:], axis=1))
    weights = np.minimum(weights, geometry.leverage / np.sum(X**2, axis=1)) * rng.uniform(0.0, 3.0, n)
    person_loss = RegressionPersonLoss(model=query.model, largest_weight=3.0, largest_offset=2.0)
    people = RegressionPeople(
        loss=LogisticLoss(), X=X, y=rng.integers(0, 2, n) + 0.0, weights=weights, offset=rng.uniform(-2.0, 2.0, n)
    )
    return person_loss, people


def hazard_people(**options):
    regime = Regime(radius=2.0, slopes=2, weight=2.0, level=3.0, intervals=6, **options)
    return regime.person_loss, regime.person_loss.people(
        table_of(regime, pool(regime, np.random.default_rng(1), size=40))
    )


MADE = {
    "regression": regression_people,
    "hazard": hazard_people,
    "relative caps": lambda: hazard_people(relative=True),
    "causes": lambda: hazard_people(causes=2),
    "time-varying": lambda: hazard_people(time_varying=True),
}


@pytest.mark.parametrize("name", MADE)
def test_slopes_of_losses_are_scores(name):
    person_loss, people = MADE[name]()
    theta, step = 0.3 * np.random.default_rng(2).standard_normal(person_loss.dimension), 1e-5
    scores = people.scores(theta)
    assert person_loss.valued
    for j, move in enumerate(step * np.eye(len(theta))):
        slope = (people.losses(theta + move) - people.losses(theta - move)) / (2.0 * step)
        assert slope == pytest.approx(scores[:, j], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", MADE)
def test_losses_grow_no_faster_than_the_reach(name):
    person_loss, people = MADE[name]()
    rng = np.random.default_rng(3)
    for size in (0.1, 3.0, 100.0):
        one, two = size * rng.standard_normal((2, person_loss.dimension))
        change = np.abs(people.losses(one) - people.losses(two))
        assert np.all(change <= float(person_loss.euclidean_bound) * np.linalg.norm(one - two) * (1.0 + 1e-9))


def exact_losses(people, theta):
    """Return everybody's loss in many digits, caps as the floats they are."""
    with mpmath.workprec(200):
        point = [mpmath.mpf(float(value)) for value in theta]
        if isinstance(people, RegressionPeople):
            found = []
            for x, y, w, o in zip(people.X, people.y, people.weights, people.offset, strict=True):
                eta = sum((mpmath.mpf(float(a)) * b for a, b in zip(x, point, strict=True)), mpmath.mpf(float(o)))
                found.append(mpmath.mpf(float(w)) * (mpmath.log1p(mpmath.exp(eta)) - mpmath.mpf(float(y)) * eta))
            return found
        spells, found = people.spells, [mpmath.mpf(0)] * people.count
        for i, s, k, event in cells_of(spells):
            row = [mpmath.mpf(float(value)) for value in row_of(spells, i, s, k)]
            eta = sum((a * b for a, b in zip(row, point, strict=True)), mpmath.mpf(float(spells.offset[i])))
            cap = mpmath.mpf(log_cap(spells, i, s, k))
            u = mpmath.exp(eta - cap)
            loss = mpmath.asinh(1 / u) if event else mpmath.exp(cap) * mpmath.asinh(u)
            found[people.person[i]] += mpmath.mpf(float(spells.weights[i])) * loss
        return found


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("size", [0.0, 1.0, 50.0])
def test_losses_err_by_less_than_the_contrast_says(name, size):
    person_loss, people = MADE[name]()
    theta = size * np.random.default_rng(4).standard_normal(person_loss.dimension)
    with mpmath.workprec(200):
        pairs = zip(people.losses(theta).tolist(), exact_losses(people, theta), strict=True)
        errors = [abs(float(mpmath.mpf(value) - exact)) for value, exact in pairs]
    bound = person_loss.loss_rounding(float(np.linalg.norm(theta)))
    assert max(errors) <= bound
    # Not absurd: a hundred thousand units of the largest loss.
    assert bound <= 1e-11 * max(1.0, float(np.max(people.losses(theta)))) * (1.0 + size)


def test_single_precision_would_be_noticed():
    person_loss, people = regression_people()
    theta = np.ones(4)
    coarse = replace(people, X=people.X.astype(np.float32).astype(float))
    assert np.max(np.abs(coarse.losses(theta) - people.losses(theta))) > person_loss.loss_rounding(2.0)

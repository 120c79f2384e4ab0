"""Output perturbation: its constants derived a second time, neighbours that attain them, what is released."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.families.regression.bounds import RegressionPeople, RegressionPersonLoss
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms import minimiser
from hdpstats.mechanisms.minimiser import certified
from hdpstats.mechanisms.perturbation import OutputQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.noise import BallNoise, RoundedNormal
from hdpstats.privacy.budget import MechanismName, as_pair, total
from hdpstats.privacy.gaussian import delta_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.solvers import accelerated
from hdpstats.solvers.newton import refine
from tests.privacy.hazard_pairs import Regime, pool, table_of
from tests.unit.mechanisms.perturbation.test_site import make_query

SMALL = Fraction(1, 2**30)
DELTAS = [Fraction(0), Fraction(1, 10**6)]
RECORDS = 40


def asked(*, delta=Fraction(0), **options):
    return replace(OutputQuery.from_dict(make_query(**options).to_dict() | {"kind": OutputQuery.kind}), delta=delta)


def person_loss_for(query, weight=1.0):
    return RegressionPersonLoss(model=query.model, largest_weight=weight, largest_offset=0.0)


def calibrate(query, *, weight=1.0, relation=Relation.REPLACE_ONE, records=RECORDS):
    return perturbation.calibrate_output(query, person_loss_for(query, weight), records=records, relation=relation)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 4)])
def test_the_noise_costs_what_the_events_say(relation, weight, delta, share):
    query = asked(delta=delta, share=share, epsilon=Fraction(2), ridge=9.0)
    constants = calibrate(query, weight=weight, relation=relation)
    persons = 2 if relation is Relation.REPLACE_ONE else 1
    # Twice the gradient of one person over the ridge, two solutions and two roundings.
    gradient = weight * math.hypot(1.0, query.model.geometry.radius)
    moved = persons * gradient / 9.0 + 2.0 * float(constants.effort.radius)
    moved += float(constants.grid) * math.sqrt(query.model.dimension)
    assert float(constants.sensitivity.value) == pytest.approx(moved, rel=1e-9)
    assert float(constants.sensitivity.value) >= moved * (1.0 - 1e-12)
    event = constants.events[0]
    assert event.epsilon == query.epsilon * (1 - share)
    if delta == 0:
        assert isinstance(constants.noise, BallNoise)
        spent = constants.noise.rate * constants.sensitivity.value / constants.grid
        assert event.epsilon * (1 - SMALL) <= spent <= event.epsilon
        assert constants.noise_rate == constants.noise.rate / constants.grid
        assert event.ran is MechanismName.OUTPUT
    else:
        assert isinstance(constants.noise, RoundedNormal)
        mu = constants.sensitivity.value / constants.noise.sd
        assert mu * mu <= event.mu_squared
        assert delta * (1 - Fraction(1, 10**6)) <= delta_of(event.epsilon, mu) <= delta
        assert constants.noise.grid == constants.grid
        assert event.ran is MechanismName.GAUSSIAN_OUTPUT
    pair = as_pair(total(constants.events))
    assert (pair.epsilon, pair.delta) == (query.epsilon, delta)
    assert (constants.hessian is not None) == (share > 0) == (len(constants.events) == 2)


def person(rows, y, weights):
    return RegressionPeople(
        loss=LogisticLoss(), X=np.array(rows), y=np.array(y), weights=np.array(weights), offset=np.zeros(len(y))
    )


def test_no_neighbours_are_farther_apart_and_some_almost_are():
    # A strong ridge: curvature is little against it, and neighbours far from each other attain the bound.
    query = asked(slopes=1, ridge=1e4, radius=1.0)
    constants = calibrate(query)
    bound = float(constants.sensitivity.value)
    shared = [[1.0, 0.3]] * 5
    still = (Fraction(0),) * 2
    largest = 0.0
    for z, y, other, label in [
        (1.0, 1.0, 1.0, 0.0),
        (-1.0, 1.0, -1.0, 0.0),
        (1.0, 1.0, -1.0, 1.0),
        (0.2, 0.0, 1.0, 1.0),
    ]:
        points = [
            np.array(
                [
                    float(value)
                    for value in certified(
                        query,
                        person([*shared, [1.0, place]], [1.0, 0.0, 1.0, 0.0, 1.0, outcome], [1.0] * 6),
                        effort=constants.effort,
                        perturbation=still,
                    )
                ]
            )
            for place, outcome in ((z, y), (other, label))
        ]
        apart = float(np.linalg.norm(points[0] - points[1]))
        largest = max(largest, apart)
        assert apart <= bound
    # At a centre of zero one score is a half: two of them make half of the bound, which holds at every centre.
    assert largest > 0.49 * bound


@pytest.mark.parametrize("relation", Relation)
def test_persons_of_hazard_models_move_the_minimiser_within_the_bound(relation):
    regime = Regime(radius=2.0, total=2.0, relation=relation, ridge=1.0)
    query = OutputQuery.from_dict(regime.query.to_dict() | {"kind": OutputQuery.kind})
    constants = perturbation.calibrate_output(query, regime.person_loss, records=9, relation=relation)
    rng = np.random.default_rng(3)
    people, still = pool(regime, rng, size=30), (Fraction(0),) * regime.model.dimension
    largest = 0.0
    for number in range(40):
        shared = [people[int(k)] for k in rng.integers(0, 30, int(rng.integers(0, 5)))]
        one, two = people[int(rng.integers(30))], people[int(rng.integers(30))]
        sets = [[*shared, one], [*shared, two] if relation is Relation.REPLACE_ONE else shared]
        centre = tuple((rng.standard_normal(2) * rng.choice([0.3, 30.0])).tolist())
        points = [
            certified(
                replace(query, centre=centre),
                regime.person_loss.people(table_of(regime, each)),
                effort=constants.effort,
                perturbation=still,
            )
            for each in sets
            if each
        ]
        if len(points) == 2:
            apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(*points, strict=True)))
            largest = max(largest, apart)
            assert apart <= constants.sensitivity.value, number
    assert largest > 0.3 * constants.sensitivity.value


def exactly(query, people):
    """Return the minimiser to 40 digits."""
    zero, centre = np.zeros(len(query.centre)), np.array(query.centre)
    problem = people.objective(ridge=np.full(len(centre), float(query.ridge)), centre=centre, linear=zero)
    return refine(problem, start=centre, radius=Fraction(1, 10**40)).theta


def test_half_of_the_sensitivity_would_be_exceeded():
    # One person saturates: far out the score is 1, so that adding it moves the minimiser by its length over the ridge.
    query = asked(slopes=1, ridge=10.0, radius=1.0)
    query = replace(query, centre=(50.0, 50.0))
    constants = calibrate(query, relation=Relation.ADD_OR_REMOVE_ONE)
    still = (Fraction(0),) * 2
    with_one = certified(query, person([[1.0, 1.0]], [0.0], [1.0]), effort=constants.effort, perturbation=still)
    apart = math.sqrt(sum((a - Fraction(c)) ** 2 for a, c in zip(with_one, query.centre, strict=True)))
    assert 0.99 * constants.sensitivity.value < apart <= constants.sensitivity.value


@pytest.mark.parametrize("delta", DELTAS)
def test_a_release_is_the_rounded_minimiser_and_its_own_noise(delta, monkeypatch):
    query = asked(slopes=2, ridge=4.0, delta=delta, share=Fraction(1, 5))
    constants = calibrate(query)

    class Fixed:
        def draw(self):
            return (5, 0, -7)

    rng = np.random.default_rng(4)
    people = person(np.column_stack([np.ones(30), rng.standard_normal((30, 2))]), rng.integers(0, 2, 30), np.ones(30))
    release = minimiser.run(query, replace(constants, noise=Fixed()), people)
    exact = exactly(query, people)
    for released, value, steps in zip(release.theta, exact, (5, 0, -7), strict=True):
        assert (Fraction(released) / constants.grid).denominator == 1
        off = Fraction(released) - steps * constants.grid - value
        assert abs(off) <= constants.effort.radius + constants.grid
    assert release.events == constants.events
    assert (release.records, release.entry, release.grid) == (RECORDS, None, float(constants.grid))
    assert (release.noise_rate > 0) == (delta == 0) == (release.noise_sd == 0)
    assert len(release.hessian) == 6
    assert minimiser.run(query, constants, people).theta != release.theta


def test_the_certificate_is_asked_for(monkeypatch):
    # The control: a solver that is off is found out by its own certificate.
    query = asked(slopes=1, ridge=4.0)
    constants = calibrate(query)
    people = person([[1.0, 0.5]], [1.0], [1.0])
    right = accelerated.minimise

    def wrong(problem, *, start, budget):
        found = right(problem, start=start, budget=budget)
        return replace(found, theta=found.theta + 1e-6, radius=2e-6)

    monkeypatch.setattr(accelerated, "minimise", wrong)
    theta = certified(query, people, effort=constants.effort, perturbation=(Fraction(0),) * 2)
    exact = exactly(query, people)
    assert math.sqrt(sum((a - b) ** 2 for a, b in zip(theta, exact, strict=True))) <= constants.effort.radius


def test_variances_are_those_of_the_noise():
    for delta in DELTAS:
        query = asked(ridge=5.0, delta=delta)
        constants, person_loss = calibrate(query), person_loss_for(query)
        found = (
            perturbation.noise_variance(person_loss, epsilon=Fraction(1), delta=delta, relation=Relation.REPLACE_ONE)
            / 25.0
        )
        if delta:
            assert found == pytest.approx(float(constants.noise_sd) ** 2, rel=1e-6)
        else:
            assert found == pytest.approx(5.0 / float(constants.noise_rate) ** 2, rel=1e-6)

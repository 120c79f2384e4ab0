"""The constants of objective perturbation, derived a second time in exact arithmetic."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import MechanismError
from hdpstats.families.regression.bounds import (
    RegressionPersonLoss,
    regression_person_loss,
    score_norm,
)
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.perturbation import ObjectivePerturbation, ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.mechanisms.registry import named
from hdpstats.noise.distributions import NoiseDistribution
from hdpstats.privacy.budget import MechanismName, total
from hdpstats.privacy.sensitivity import BallNorm, CylinderNorm, Relation, coupled_loss
from hdpstats.records.geometry import from_box, whiten
from hdpstats.records.model import RegressionModel
from hdpstats.records.query import LEAST_SMOOTHING, unstack
from hdpstats.schema.columns import Binary, Continuous
from hdpstats.schema.schema import Schema

SMALL = Fraction(1, 2**30)


def make_query(
    *, slopes=3, intercept=True, epsilon=Fraction(1), share=Fraction(0), ridge=None, radius=None, smoothing=None
):
    geometry = from_box([-1.0] * slopes, [1.0] * slopes, intercept=intercept, row_norm=radius)
    beta = geometry.leverage / 4.0
    return ObjectiveQuery(
        model=RegressionModel(formula="y ~ x", loss="logistic", geometry=geometry),
        centre=(0.0,) * geometry.dimension,
        ridge=Fraction(8.5 * 5.0 * beta / float(epsilon) if ridge is None else ridge),
        epsilon=epsilon,
        schema_sha256="",
        public_sha256=None,
        hessian_share=share,
        smoothing_share=smoothing,
    )


def calibrate(query, *, records=1000, weight=1.0, offset=0.0, relation=Relation.REPLACE_ONE):
    person_loss = RegressionPersonLoss(model=query.model, largest_weight=weight, largest_offset=offset)
    return perturbation.calibrate_objective(query, person_loss, records=records, relation=relation)


CASES = [
    {},
    {"slopes": 1},
    {"slopes": 0},
    {"slopes": 12, "epsilon": Fraction(1, 10)},
    {"intercept": False},
    {"epsilon": Fraction(3, 7), "share": Fraction(3, 20)},
    {"epsilon": Fraction(1, 10**6)},
    {"epsilon": Fraction(50), "share": Fraction(9, 10)},
    {"radius": 0.01},
    {"radius": 100.0},
    {"ridge": 9.0, "epsilon": Fraction(2)},
    {"smoothing": Fraction(1, 10)},
    {"epsilon": Fraction(20), "share": Fraction(9, 10), "smoothing": Fraction(3, 50), "ridge": 500.0},
]
WEIGHTS = [1.0, 0.3, 4.0]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_events_add_up_to_epsilon_exactly(case, weight):
    query = make_query(**case)
    constants = calibrate(query, weight=weight)
    assert total(constants.events).epsilon == query.epsilon
    assert total(constants.events).delta == 0
    smoothing = case.get("smoothing", Fraction(1, 1000))
    assert constants.events[0].epsilon == query.epsilon * (1 - query.hessian_share - smoothing)
    assert [event.ran for event in constants.events[:2]] == [MechanismName.OBJECTIVE, MechanismName.SMOOTHING]
    assert (constants.hessian is not None) == (query.hessian_share > 0) == (len(constants.events) == 3)


@pytest.mark.covering
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("relation", Relation)
def test_the_noise_rate_costs_what_the_event_says(case, weight, relation):
    query = make_query(**case)
    constants = calibrate(query, weight=weight, relation=relation)
    geometry, norm = query.model.geometry, constants.sensitivity.norm
    persons = 2 if relation is Relation.REPLACE_ONE else 1
    h = Fraction(weight) * (1 + Fraction(1, 2**40))
    d = len(geometry.location)
    # What rounding b to its lattice can move it, in the norm of the noise: squares, to stay rational.
    axis, ball = constants.perturbation.grids[0], constants.perturbation.grids[-1]
    sideways = d * (ball / Fraction(geometry.radius)) ** 2
    along = axis**2 if geometry.intercept else Fraction(0)
    cell = Fraction(math.sqrt(max(sideways, along))) * (1 + Fraction(1, 2**40))
    ratio = h * Fraction(geometry.leverage) / 4 / query.ridge
    noise = float(persons * constants.noise_rate * h)
    cost = float(constants.noise_rate * cell) + coupled_loss(noise, float(ratio), relation=relation)
    charged = float(constants.events[0].epsilon)
    assert cost <= charged * (1.0 + 1e-12)
    assert cost >= charged * (1.0 - 1e-6)
    assert constants.sensitivity.value == persons * h
    assert constants.sensitivity.relation is relation
    kind = CylinderNorm if geometry.intercept else BallNorm
    assert norm == kind(radius=Fraction(geometry.radius))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_lattice_distribution_is_the_stated_one(case):
    query = make_query(**case)
    constants = calibrate(query)
    noise, D = constants.perturbation.noise, query.model.geometry.dimension
    assert noise.dimension == D == len(constants.perturbation.grids)
    if query.model.geometry.intercept:
        assert (noise.rate, noise.radius) == (constants.noise_rate, Fraction(query.model.geometry.radius))
        assert (noise.grid_axis, noise.grid_ball) == (constants.perturbation.grids[0], constants.perturbation.grids[-1])
    else:
        per_step = constants.noise_rate * constants.perturbation.grids[0] / Fraction(query.model.geometry.radius)
        assert per_step * (1 - SMALL) <= noise.rate <= per_step
    assert len(set(constants.perturbation.grids[1:])) <= 1
    # So fine that the lattice costs nothing: 2^-30 of the noise's own scale.
    size = max(1, Fraction(query.model.geometry.radius))
    assert all(grid * constants.noise_rate < size * SMALL for grid in constants.perturbation.grids)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("records", [0, 1, 10**6])
def test_the_smoothing_covers_solver_cell_and_rounding(case, records):
    query = make_query(**case)
    constants = calibrate(query, records=records, weight=4.0, offset=2.0)
    D = query.model.geometry.dimension
    # Half a lattice cell of b, through a problem whose curvature is at least the ridge.
    cell = Fraction(math.sqrt(sum(grid**2 for grid in constants.perturbation.grids))) / (2 * query.ridge)
    apart = (constants.effort.radius + cell) / constants.grid + Fraction(math.sqrt(D))
    cost = 2 * constants.noise.rate * apart
    charged = query.epsilon * case.get("smoothing", Fraction(1, 1000))
    assert constants.events[1].epsilon == charged
    assert charged * (1 - SMALL) <= cost <= charged * (1 + Fraction(1, 2**45))
    assert constants.noise.dimension == D


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lattices_are_powers_of_two(case):
    query = make_query(**case)
    constants = calibrate(query)
    grids = [constants.grid, *constants.perturbation.grids]
    grids += [constants.hessian.grid] if constants.hessian is not None else []
    for grid in grids:
        assert 1 in (grid.numerator, grid.denominator)
        assert (grid.numerator & (grid.numerator - 1)) == 0 == (grid.denominator & (grid.denominator - 1))


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("slopes", [1, 3, 9])
@pytest.mark.parametrize(
    ("relation", "root"), [(Relation.REPLACE_ONE, math.sqrt(2.0)), (Relation.ADD_OR_REMOVE_ONE, 1)]
)
def test_the_hessian_is_calibrated_to_the_change_of_its_bound(weight, slopes, relation, root):
    query = make_query(slopes=slopes, epsilon=Fraction(2), share=Fraction(1, 4))
    constants = calibrate(query, weight=weight, relation=relation).hessian
    D = slopes + 1
    entries = D * (D + 1) // 2
    bound = Fraction(weight) * Fraction(query.model.geometry.leverage) / 4
    steps = Fraction(root) * bound / constants.grid + Fraction(math.sqrt(entries))
    charged = Fraction(1, 2)
    assert charged * (1 - SMALL) <= constants.noise.rate * steps <= charged
    assert constants.noise.dimension == entries
    sd = math.sqrt(entries + 1.0) * root * float(bound) / float(charged)
    assert constants.noise_sd == pytest.approx(sd, rel=1e-5)


def test_calibration_reads_public_facts_only():
    query = make_query()
    assert calibrate(query) == calibrate(query)
    assert calibrate(query, records=10).noise_rate == calibrate(query, records=10**6).noise_rate
    assert calibrate(query, records=10).grid < calibrate(query, records=10**6).grid


def test_more_weight_needs_more_noise():
    query = make_query()
    rates = [calibrate(query, weight=weight).noise_rate for weight in (0.5, 1.0, 2.0, 4.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[1] / rates[2] == pytest.approx(2.0, rel=1e-6)


def test_what_the_proof_does_not_cover_is_refused(monkeypatch):
    query = make_query()
    schema = Schema(
        y=Binary(complete=True),
        x=Continuous(-1, 1, complete=True),
        z=Continuous(-1, 1, complete=True),
        v=Continuous(-1, 1, complete=True),
    )
    model = replace(query.model, formula="y ~ x + z + v")
    assert regression_person_loss(model, schema).largest_weight == 1.0
    with pytest.raises(MechanismError, match="no loss is called"):
        regression_person_loss(replace(model, loss="hinge"), schema)
    with pytest.raises(MechanismError, match="larger ridge"):
        calibrate(replace(query, ridge=Fraction(1, 1024)))


def test_a_loss_without_coupling_is_charged_for_its_determinant_and_says_so():
    query = make_query()
    squares = replace(query, model=replace(query.model, loss="squares"))
    constants = calibrate(squares)
    person_loss = RegressionPersonLoss(model=squares.model, largest_weight=1.0, largest_offset=0.0)
    epsilon = query.epsilon * (1 - query.hessian_share - LEAST_SMOOTHING)
    charged = math.log1p(float(person_loss.trace / query.ridge))
    assert float(constants.noise_rate) == pytest.approx((float(epsilon) - charged) / 2.0, rel=1e-6)
    assert constants.events[0].ran is MechanismName.OBJECTIVE_DETERMINANT
    assert calibrate(query).events[0].ran is MechanismName.OBJECTIVE
    with pytest.raises(MechanismError, match="determinant alone costs"):
        calibrate(replace(squares, ridge=Fraction(1, 16)))


def test_options_are_exact_and_named():
    assert ObjectivePerturbation(se_share=0.15).share == Fraction(3, 20)
    assert named("objective") == ObjectivePerturbation()
    assert named("auto") is None
    with pytest.raises(MechanismError, match="objective"):
        named("laplace")


def test_variances_are_those_of_the_noise_distributions():
    for case in ({}, {"intercept": False}, {"slopes": 0}):
        query = make_query(**case)
        D, R = query.model.geometry.dimension, query.model.geometry.radius
        variances = NoiseDistribution(norm=score_norm(query.model.geometry), dimension=D, rate=0.25).variance
        expected = np.full(D, 16.0 * (D + 1) * R**2)
        if query.model.geometry.intercept:
            expected = np.full(D, 16.0 * (D + 2) * R**2)
            expected[0] = 16.0 * (D + 1) * (D + 2) / 3.0
        assert variances == pytest.approx(expected)


def person(X, weights):
    return RegressionRows(loss=LogisticLoss(), X=X, y=np.ones(1), weights=weights, offset=np.zeros(1))


def test_curvature_of_neighbours_stays_within_root_two():
    geometry = make_query(slopes=2, radius=1.0).model.geometry
    grid = 2.0**-30
    bound = math.sqrt(2.0) * geometry.leverage / 4.0
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(400), rng.standard_normal((400, 2)) * rng.choice([0.3, 1.0, 30.0], (400, 1))])
    rows = whiten(geometry, X)
    theta = np.array([0.1, -0.2, 0.3])

    def stacked(i, at):
        return grid * person(rows.X[[i]], rows.weights[[i]]).stacked_hessian(at, grid=grid)

    moved = max(float(np.linalg.norm(stacked(i, theta) - stacked(i + 1, theta))) for i in range(0, 400, 2))
    assert 0.3 * bound < moved <= bound


def test_orthogonal_rows_attain_root_two():
    # At theta = 0 every curvature is 1/4; (1, R) and (1, -1/R) are orthogonal, and as long for R = 1.
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    stacks = [2.0**-30 * person(row[None, :], np.ones(1)).stacked_hessian(np.zeros(2), grid=2.0**-30) for row in rows]
    B = 2.0 / 4.0
    assert np.linalg.norm(stacks[0]) == pytest.approx(B, rel=1e-8)
    assert np.linalg.norm(stacks[0] - stacks[1]) == pytest.approx(math.sqrt(2.0) * B, rel=1e-8)


def test_a_stack_and_its_matrix_are_the_same():
    rng = np.random.default_rng(6)
    matrix = rng.standard_normal((4, 4))
    matrix = matrix + matrix.T
    i, j = np.triu_indices(4)
    stacked = matrix[i, j] * np.where(i == j, 1.0, math.sqrt(2.0))
    assert unstack(stacked, 4) == pytest.approx(matrix)
    assert np.linalg.norm(stacked) == pytest.approx(np.linalg.norm(matrix))

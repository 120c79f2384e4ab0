"""One run of objective perturbation: the solution is near the exact one, whatever the solver does; the release."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats.families.regression.bounds import RegressionPeople, RegressionPersonLoss
from hdpstats.families.regression.rows import LinearObjective
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms import minimiser
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.records.geometry import from_box, whiten
from hdpstats.records.model import RegressionModel
from hdpstats.solvers import Solution, accelerated
from hdpstats.solvers.newton import certify
from tests.unit.solvers.problems import distance, true_minimiser

PERTURBATION = [Fraction(3, 8), Fraction(-7, 2), Fraction(5, 4)]


def make_query(share=Fraction(0)):
    geometry = from_box([-1.0, 0.0], [1.0, 5.0], intercept=True)
    return ObjectiveQuery(
        model=RegressionModel(formula="y ~ x", loss="logistic", geometry=geometry),
        centre=(0.1, -0.2, 0.3),
        ridge=Fraction(9.0),
        epsilon=Fraction(1),
        schema_sha256="",
        public_sha256=None,
        hessian_share=share,
    )


def make_rows(query, n=120):
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), rng.uniform(-1.0, 1.0, n), rng.uniform(0.0, 5.0, n)])
    rows = whiten(query.model.geometry, X)
    y = (rng.uniform(size=n) < 0.4).astype(float)
    weights = rows.weights * rng.uniform(0.5, 1.0, n)
    return RegressionPeople(loss=LogisticLoss(), X=rows.X, y=y, weights=weights, offset=np.zeros(n))


def calibrate(query, *, records=120):
    person_loss = RegressionPersonLoss(model=query.model, largest_weight=1.0, largest_offset=0.0)
    return perturbation.calibrate_objective(query, person_loss, records=records)


def truth(query, rows):
    problem = LinearObjective(
        loss=LogisticLoss(),
        X=rows.X,
        y=rows.y,
        weights=rows.weights,
        offset=rows.offset,
        ridge=np.full(3, float(query.ridge)),
        centre=np.array(query.centre),
        linear=np.array([float(value) for value in PERTURBATION]),
    )
    return true_minimiser(problem, minimiser.minimise(problem, start=problem.centre).theta)


@pytest.mark.parametrize("n", [0, 1, 2, 120])
def test_the_solution_is_within_the_public_radius(n):
    query = make_query()
    rows = make_rows(query, n)
    constants = calibrate(query, records=n)
    theta = minimiser.certified(query, rows, effort=constants.effort, perturbation=PERTURBATION)
    assert distance(theta, truth(query, rows)) <= float(constants.effort.radius) < 1e-9


@pytest.mark.parametrize("bad", ["far", "at the start", "infinite", "NaN", "a little off"])
def test_a_solver_that_fails_is_replaced_by_one_that_cannot(bad, monkeypatch):
    query = make_query()
    rows = make_rows(query)
    constants = calibrate(query)
    exact, right = truth(query, rows), accelerated.minimise
    replaced = []

    def failing(problem, *, start, budget):
        theta = {
            "far": np.array([300.0, -200.0, 1.0]),
            "at the start": start,
            "infinite": np.array([np.inf, 0.0, 0.0]),
            "NaN": np.full(3, np.nan),
            "a little off": right(problem, start=start, budget=budget).theta + 1e-7,
        }[bad]
        with np.errstate(all="ignore"):
            if not np.all(np.isfinite(theta)):
                return Solution(theta=theta, gradient_norm=np.inf, radius=np.inf, rest=0.0 * theta)
            return certify(problem, theta)

    def spy(problem, **arguments):
        replaced.append(bad)
        return sure(problem, **arguments)

    sure = accelerated.accelerate
    monkeypatch.setattr(accelerated, "approach", lambda problem, *, start, near: (start, False))
    monkeypatch.setattr(accelerated, "minimise", failing)
    monkeypatch.setattr(accelerated, "accelerate", spy)
    monkeypatch.setattr(minimiser, "refine", None)
    theta = minimiser.certified(query, rows, effort=constants.effort, perturbation=PERTURBATION)
    assert replaced == [bad]
    assert distance(theta, exact) <= float(constants.effort.radius)


def test_more_people_than_declared_are_refined_where_floats_do_not_do(monkeypatch):
    query = make_query()
    rows = make_rows(query)
    constants = calibrate(query)
    few = replace(constants.effort, count=119, work=replace(constants.effort.work, radius=1e-30))
    refined, right = [], minimiser.refine
    monkeypatch.setattr(minimiser, "refine", lambda *given, **named: refined.append(1) or right(*given, **named))
    theta = minimiser.certified(query, rows, effort=few, perturbation=PERTURBATION)
    assert refined == [1]
    assert distance(theta, truth(query, rows)) <= 1e-30


def test_a_solver_with_a_false_certificate_is_not_within_the_radius(monkeypatch):
    # The control: without the certificate the same failure would pass.
    query = make_query()
    rows = make_rows(query)
    constants = calibrate(query)
    exact, right = truth(query, rows), accelerated.minimise

    def lying(problem, *, start, budget):
        theta = right(problem, start=start, budget=budget).theta + 1e-7
        return Solution(theta=theta, gradient_norm=0.0, radius=0.0, rest=0.0 * theta)

    monkeypatch.setattr(accelerated, "approach", lambda problem, *, start, near: (start, False))
    monkeypatch.setattr(accelerated, "minimise", lying)
    theta = minimiser.certified(query, rows, effort=constants.effort, perturbation=PERTURBATION)
    assert distance(theta, exact) > float(constants.effort.radius)


def test_the_order_of_private_rows_moves_the_solution_within_the_radius_only():
    query = make_query()
    rows = make_rows(query)
    constants = calibrate(query)
    order = np.random.default_rng(3).permutation(120)
    columns = {name: getattr(rows, name)[order] for name in ("X", "y", "weights", "offset")}
    shuffled = replace(rows, **columns)
    radius = float(constants.effort.radius)
    effort = constants.effort
    one, two = (minimiser.certified(query, each, effort=effort, perturbation=PERTURBATION) for each in (rows, shuffled))
    assert distance(one, two) <= 2.0 * radius


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 5)])
def test_released_numbers_are_points_of_the_lattice(share):
    query = make_query(share)
    rows = make_rows(query)
    constants = calibrate(query)
    release = minimiser.run(query, constants, rows)
    assert release.grid == float(constants.grid)
    assert all((Fraction(value) / constants.grid).denominator == 1 for value in release.theta)
    assert release.events == constants.events
    assert (release.records, release.entry) == (120, None)
    assert (release.hessian is not None) == (share > 0)
    if constants.hessian is not None:
        assert len(release.hessian) == 6
        assert all((Fraction(value) / constants.hessian.grid).denominator == 1 for value in release.hessian)
        assert release.hessian_noise_sd == constants.hessian.noise_sd
    assert minimiser.run(query, constants, rows).theta != release.theta


def test_a_release_is_the_solution_of_its_own_noise(monkeypatch):
    query = make_query()
    rows = make_rows(query)
    constants = calibrate(query)
    integers = tuple(int(value / grid) for value, grid in zip(PERTURBATION, constants.perturbation.grids, strict=True))

    class Fixed:
        def __init__(self, integers):
            self.integers = integers

        def draw(self):
            return self.integers

    perturbation = replace(constants.perturbation, noise=Fixed(integers))
    still = replace(constants, perturbation=perturbation, noise=Fixed((5, 0, -7)))
    release = minimiser.run(query, still, rows)
    step = float(constants.grid)
    exact = truth(query, rows)
    with mpmath.workprec(200):
        shifted = [value + n * mpmath.mpf(step) for value, n in zip(exact, (5, 0, -7), strict=True)]
    assert distance(release.theta, shifted) <= float(constants.effort.radius) + step

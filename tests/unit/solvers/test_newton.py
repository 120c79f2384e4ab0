"""Certified distances against the true minimiser in 400 bits; what floats do not reach is refined."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hdpstats.solvers import minimise
from hdpstats.solvers.newton import certify, refine
from tests.objectives import linear_objective
from tests.unit.solvers.problems import distance, exact_gradient, make, problems, true_minimiser

PROBLEMS = problems()


@pytest.fixture(scope="module")
def truths() -> dict[str, list[mpmath.mpf]]:
    """Return the true minimiser of each problem."""
    return {name: true_minimiser(each, minimise(each, start=each.centre).theta) for name, each in PROBLEMS.items()}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_radius_holds_and_is_not_loose(name: str, truths: dict[str, list[mpmath.mpf]]) -> None:
    objective, truth = PROBLEMS[name], truths[name]
    solution = minimise(objective, start=objective.centre)
    assert np.all(np.isfinite(solution.theta))
    assert distance(solution.theta, truth) <= solution.radius
    if name != "unequal columns":
        assert solution.radius <= 1e-6 * (1.0 + float(np.linalg.norm(solution.theta)))


@pytest.mark.covering(cases=14)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("start", [0.0, 1.0, -30.0])
def test_every_start_leads_to_the_same_place(name: str, start: float, truths: dict[str, list[mpmath.mpf]]) -> None:
    objective = PROBLEMS[name]
    solution = minimise(objective, start=np.full(len(objective.ridge), start))
    assert distance(solution.theta, truths[name]) <= solution.radius < math.inf
    if name != "unequal columns":
        assert solution.radius <= 1e-6 * (1.0 + float(np.linalg.norm(solution.theta)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_bad_point_is_certified_as_bad(name: str, truths: dict[str, list[mpmath.mpf]]) -> None:
    objective, rng = PROBLEMS[name], np.random.default_rng(3)
    for size in (1e-6, 1.0, 1e3):
        theta = np.array([float(value) for value in truths[name]]) + size * rng.standard_normal(len(objective.ridge))
        solution = certify(objective, theta)
        assert distance(theta, truths[name]) <= solution.radius
        with mpmath.workprec(400):
            gradient = exact_gradient(objective, [mpmath.mpf(value) for value in theta.tolist()])
            assert float(mpmath.norm(gradient)) <= solution.gradient_norm


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("radius", [Fraction(1, 10), Fraction(1, 10**15), Fraction(1, 10**40)])
def test_refinement_reaches_any_radius(name: str, radius: Fraction, truths: dict[str, list[mpmath.mpf]]) -> None:
    objective = PROBLEMS[name]
    found = refine(objective, start=minimise(objective, start=objective.centre).theta, radius=radius)
    assert found.radius <= radius
    assert distance(found.theta, truths[name]) <= float(found.radius) * (1.0 + 1e-12)


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["ordinary", "separated", "far offsets", "huge perturbation", "no rows", "one row"])
@pytest.mark.parametrize("start", [0.0, 50.0, -100.0])
def test_refinement_converges_from_far_away(name: str, start: float, truths: dict[str, list[mpmath.mpf]]) -> None:
    objective, radius = PROBLEMS[name], Fraction(1, 10**20)
    found = refine(objective, start=np.full(len(objective.ridge), start), radius=radius)
    assert found.radius <= radius
    assert distance(found.theta, truths[name]) <= 1e-20 * (1.0 + 1e-12)


def test_a_quadratic_has_its_minimiser_in_closed_form() -> None:
    objective = PROBLEMS["no rows"]
    exact = objective.centre - objective.linear / objective.ridge
    assert minimise(objective, start=np.zeros(3)).theta == pytest.approx(exact, rel=1e-15)


def test_without_a_ridge_nothing_is_certified() -> None:
    X = np.column_stack([np.ones(40), np.linspace(-1.0, 1.0, 40)])
    solution = minimise(make(X, np.arange(40) % 2, ridge=0.0), start=np.zeros(2))
    assert solution.radius == math.inf
    assert solution.gradient_norm < 1e-10


def test_numbers_beyond_doubles_give_a_certificate_and_no_error() -> None:
    objective = make([[1.0, 1e200], [1.0, -1e200]], [0.0, 1.0], ridge=1.0)
    solution = minimise(objective, start=np.zeros(2))
    assert solution.radius > 0.0
    assert not math.isnan(solution.radius)


def test_a_certificate_that_is_no_number_is_no_certificate() -> None:
    objective = make([[1.0, 1e200], [1.0, 0.0]], [0.0, 1.0], ridge=1.0)
    objective.rows.weights[0] = 0.0
    with np.errstate(all="ignore"), pytest.raises(ArithmeticError):
        refine(objective, start=np.array([50.0, 50.0]), radius=Fraction(1, 10**6))


def test_random_problems_keep_their_certificates() -> None:
    rng = np.random.default_rng(11)
    for _ in range(25):
        n, D = int(rng.integers(0, 12)), int(rng.integers(1, 5))
        objective = linear_objective(
            loss=PROBLEMS["ordinary"].rows.loss,
            X=rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-3.0, 3.0, D),
            y=rng.integers(0, 2, n).astype(float),
            weights=10.0 ** rng.uniform(-3.0, 2.0, n),
            offset=rng.standard_normal(n) * 10.0 ** rng.uniform(-2.0, 2.5),
            ridge=10.0 ** rng.uniform(-2.0, 3.0, D),
            centre=rng.standard_normal(D) * 10.0,
            linear=rng.standard_normal(D) * 10.0 ** rng.uniform(-2.0, 4.0),
        )
        solution = minimise(objective, start=objective.centre)
        assert distance(solution.theta, true_minimiser(objective, solution.theta)) <= solution.radius


def test_refinement_takes_the_perturbation_as_it_is_and_not_as_doubles_hold_it() -> None:
    objective = PROBLEMS["no rows"]
    beyond = [Fraction(2**60 + 1), *(Fraction(value) for value in objective.linear.tolist()[1:])]
    found = refine(objective, start=objective.centre, radius=Fraction(1, 10**30), linear=beyond)
    closed_form = [
        Fraction(c) - b / Fraction(r)
        for c, b, r in zip(objective.centre.tolist(), beyond, objective.ridge.tolist(), strict=True)
    ]
    assert max(abs(a - b) for a, b in zip(found.theta, closed_form, strict=True)) <= Fraction(1, 10**30)

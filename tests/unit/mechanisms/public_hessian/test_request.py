"""Newton steps with a public Hessian: the step against an independent one, where it ends, costs, rows, lost sites."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdpstats.mechanisms.public_hessian import PublicHessianRelease
from hdpstats.mechanisms.public_hessian.request import (
    LARGEST,
    STEP,
    Newton,
    PublicPeople,
    advance,
    balanced_ridge,
    change,
    costs_of,
    longest_row,
    public_people,
    queries_at,
    rounded,
    standardised,
    step,
)
from hdpstats.mechanisms.public_hessian.site import calibrate
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.gaussian import delta_of_square, mu_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.model import RegressionModel

RNG = np.random.default_rng(1)
COVARIATES = RNG.normal(size=(120, 2)) * [1.0, 5.0] + [3.0, -2.0]
RAW = np.column_stack([np.ones(120), COVARIATES])
GEOMETRY = standardised(RAW, intercept=True)
NORM = longest_row(GEOMETRY, lower=np.array([1.0, -10.0, -40.0]), upper=np.array([1.0, 16.0, 36.0]), truncation=2.0)
Y = (RNG.uniform(size=120) < 0.4).astype(float)
PUBLIC = public_people(RAW, Y, GEOMETRY, truncation=2.0, norm=NORM)
COPIES = {"A": 3, "B": 1}
"""Each site has the public people so many times: then the public Hessian is exact."""


def make_state(*, rounds=2, ridge=1.5, from_public=True, delta=Fraction(0), epsilon=Fraction(1)):
    sites = {
        name: SiteRounds(
            records=120 * copies,
            records_sd=0.0,
            epsilon=epsilon,
            delta=delta,
            costs=costs_of(epsilon, delta, rounds=rounds),
        )
        for name, copies in COPIES.items()
    }
    return Newton(
        model=RegressionModel(formula="y ~ a + b", loss="logistic", geometry=GEOMETRY),
        public=PUBLIC,
        truncation=2.0,
        norm=NORM,
        ridge=ridge,
        rounds=rounds,
        from_public=from_public,
        sites=sites,
        schema_sha256="a" * 64,
        public_sha256="b" * 64,
        replicate=1,
    )


def answers(queries, names=tuple(COPIES)):
    """Return what sites without noise would answer."""
    event = PrivacyEvent(ran=MechanismName.SCORE_PURE, epsilon=Fraction(1, 2))
    return {
        name: PublicHessianRelease(
            total=tuple((COPIES[name] * PUBLIC.gradient(np.array(query.theta))).tolist()),
            noise_sd=1.0,
            grid=STEP,
            records=120 * COPIES[name],
            events=(event,),
        )
        for name, query in queries.items()
        if name in names
    }


def run(state):
    asked, answered = [], []
    while isinstance(following := advance(state, asked, answered), dict):
        asked.append(following)
        answered.append(answers(following))
    return asked, following


def everybody(ridge):
    """Return the penalised fit to all people at once, by another optimiser."""
    times = 1 + sum(COPIES.values())

    def objective(b):
        eta = PUBLIC.X @ b
        return times * float(np.sum(np.logaddexp(0, eta) - Y * eta)) + 0.5 * ridge * float(b @ b)

    return minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("from_public", [True, False])
@pytest.mark.parametrize("ridge", [0.5, 40.0])
def test_without_noise_the_steps_end_at_the_fit_to_everybody(from_public, ridge):
    _, found = run(make_state(rounds=8, ridge=ridge, from_public=from_public))
    assert found == pytest.approx(everybody(ridge), abs=1e-5)


def test_a_step_is_newton_s_with_everybody_s_gradient_and_the_public_hessian_scaled_up():
    state, theta = make_state(), np.array([0.5, -0.25, 1.0])
    p = expit(PUBLIC.X @ theta)
    hessian = 5 * (PUBLIC.X.T * (p * (1 - p))) @ PUBLIC.X + 1.5 * np.eye(3)
    gradient = 5 * PUBLIC.X.T @ (p - Y) + 1.5 * theta
    queries = {name: replace(query, theta=tuple(theta)) for name, query in advance(state, [], []).items()}
    found = step(state, theta, answers(queries))
    assert found == pytest.approx(theta - np.linalg.solve(hessian, gradient), abs=2 * STEP)


def test_a_step_with_fewer_sites_is_one_of_fewer_people():
    state, theta = make_state(), np.array([0.5, -0.25, 1.0])
    queries = {name: replace(query, theta=tuple(theta)) for name, query in advance(state, [], []).items()}
    found = step(state, theta, answers(queries, names=("B",)))
    gradient = 2 * PUBLIC.gradient(theta)
    assert found == pytest.approx(theta + change(state, theta, gradient, people=240), abs=2 * STEP)


def test_a_site_that_missed_a_round_is_not_asked_again():
    state = make_state(rounds=3)
    first = advance(state, [], [])
    assert list(first) == ["A", "B"]
    second = advance(state, [first], [answers(first, names=("B",))])
    assert list(second) == ["B"]


def test_all_sites_are_asked_at_the_same_public_coefficients():
    asked, _ = run(make_state(rounds=3, from_public=False))
    costs = [Fraction(333333333, 10**9), Fraction(333333333, 10**9), Fraction(333333334, 10**9)]
    for number, queries in enumerate(asked):
        assert len({query.theta for query in queries.values()}) == 1
        assert all(query.cost == costs[number] for query in queries.values())
        assert all(query.ahead == sum(costs[number + 1 :]) for query in queries.values())
    assert asked[0]["A"].theta != asked[1]["A"].theta


def test_the_start_is_the_public_fit_with_its_part_of_the_ridge_or_zero():
    for ridge, part in ((40.0, 8.0), (1.5, 1.0)):  # with less than 1 few public people may be separated
        state = make_state(ridge=ridge)
        assert state.public_ridge == pytest.approx(part)
        stationary = PUBLIC.gradient(state.start) + part * state.start
        assert stationary == pytest.approx(np.zeros(3), abs=1e-3)
    assert make_state(from_public=False).start.tolist() == [0.0] * 3


def test_the_balanced_ridge_is_best_for_one_step_in_a_direction():
    # One direction of curvature h, coefficients of mean square t, noise of variance v: the minimum by a grid.
    state = make_state()
    ridge = balanced_ridge(state, relation=Relation.REPLACE_ONE)
    theta = PUBLIC.fit(ridge=1.0)
    asked = queries_at(state, rounded(theta), ("A", "B"), round=0)
    v = sum(calibrate(query, relation=Relation.REPLACE_ONE).noise_sd ** 2 for query in asked.values())
    h, t = 5 * np.trace(PUBLIC.hessian(theta)) / 3, np.mean(theta**2)
    grid = ridge * np.linspace(0.5, 2.0, 3001)
    best = grid[np.argmin((grid**2 * t + h + v) / (h + grid) ** 2)]
    assert ridge == pytest.approx(best, rel=1e-3)
    # Ten times the epsilon needs a hundredth of the noise's part.
    rich = balanced_ridge(make_state(epsilon=Fraction(10)), relation=Relation.REPLACE_ONE)
    assert (rich - 1 / t) / (ridge - 1 / t) == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
def test_the_rounds_cost_what_the_fit_keeps_and_no_more(rounds):
    epsilon, delta = Fraction(7, 10), Fraction(1, 10**6)
    assert sum(costs_of(epsilon, Fraction(0), rounds=rounds)) == epsilon
    normal = costs_of(epsilon, delta, rounds=rounds)
    assert delta_of_square(epsilon, sum(normal)) <= delta
    assert sum(normal) == pytest.approx(float(mu_of(epsilon, delta)) ** 2, rel=1e-9)


def test_rows_are_standardised_by_public_means_and_deviations_and_cut():
    X = PUBLIC.X
    z = (COVARIATES - COVARIATES.mean(axis=0)) / COVARIATES.std(axis=0)
    assert X[:, 1:] == pytest.approx(np.clip(z, -2.0, 2.0))
    assert np.all(X[:, 0] == 1.0)
    assert np.linalg.norm(X, axis=1).max() <= float(NORM)


def test_the_norm_is_that_of_the_box_where_it_is_narrower_than_the_truncation():
    assert float(NORM) == pytest.approx(3.0, rel=0.01)  # sqrt(1 + 2 * 2^2)
    lower, upper = np.array([1.0, 2.5, -2.1]), np.array([1.0, 3.5, -1.9])
    narrow = longest_row(GEOMETRY, lower=lower, upper=upper, truncation=2.0)
    ends = np.abs((np.array([lower[1:], upper[1:]]) - COVARIATES.mean(axis=0)) / COVARIATES.std(axis=0)).max(axis=0)
    assert np.hypot(1.0, np.hypot(*ends)) <= float(narrow) <= np.hypot(1.0, np.hypot(*ends)) * (1 + 2.0**-7)


def test_constant_columns_and_models_without_an_intercept_have_a_geometry():
    constant = standardised(np.column_stack([np.ones(5), np.full(5, 7.0)]), intercept=True)
    assert constant.whitening == ((1.0,),)
    without = standardised(np.array([[3.0], [4.0]]), intercept=False)
    assert without.location == (0.0,)
    assert without.whitening[0][0] == pytest.approx(1 / np.sqrt(12.5))


def test_coefficients_are_kept_where_one_may_ask():
    assert rounded(np.array([1e9, -1e9, 0.1])).tolist() == [LARGEST, -LARGEST, round(0.1 * 2**20) / 2**20]


def test_public_people_who_are_separated_have_a_fit():
    X = np.column_stack([np.ones(6), np.arange(6.0)])
    theta = PublicPeople(X=X, y=(X[:, 1] > 2).astype(float)).fit(ridge=1e-3)
    assert np.all(np.isfinite(theta))

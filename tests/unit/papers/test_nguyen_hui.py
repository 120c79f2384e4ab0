"""The paper's algorithms, reproduced: constants, distributions of the noise, and the theorem that fails."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import kstest

from hdpstats._base.errors import HdpError
from hdpstats.formulas.outcome import spline
from hdpstats.papers import eight_interval_trial
from hdpstats.papers import nguyen_hui as paper
from hdpstats.papers.nguyen_hui.sampling import batch_gradient
from hdpstats.records.model import TimeGrid
from hdpstats.schema import datasets

A200 = spline(TimeGrid(tuple(range(1, 201))))


@pytest.fixture(scope="module")
def flchain():
    """The paper's data set FL with six covariates."""
    frame = datasets.load_flchain()
    frame["male"] = (frame["sex"] == "M").astype(float)
    names = ["age", "male", "kappa", "lambda_", "flc_grp", "mgus"]
    return paper.prepare(frame, time="futime", event="death", covariates=names)


@pytest.fixture(scope="module")
def small():
    """Few people, few intervals."""
    trial = eight_interval_trial(300, seed=1)
    return paper.prepare(trial.frame, time="time", event="event", covariates=["x1", "x2"], intervals=8)


def loss(patients, f):
    """Minus the log-likelihood, from the person-period table; with each person's part."""
    data, e = patients.data, patients.data.A.shape[1]
    eta = (data.A @ f[:e])[None, :] + (data.Z @ f[e:])[:, None]
    interval = np.arange(1, len(data.A) + 1)[None, :]
    at_risk, event = interval <= data.exit[:, None], (interval == data.exit[:, None]) & (data.event[:, None] == 1)
    parts = np.where(at_risk, np.logaddexp(0.0, eta) - event * eta, 0.0).sum(axis=1)
    return parts.sum(), parts


# ---- constants ------------------------------------------------------------------------------------------------------


def test_the_papers_sensitivity():
    assert paper.gradient_sensitivity(A200) == pytest.approx(469.785, abs=5e-4)


@pytest.mark.parametrize(
    ("ridge", "printed", "corrected", "tight"),
    [(10, 15.2561, 23.6433, 3.0083), (100, 1.5523, 2.4303, 0.8279), (1000, 0.1555, 0.2437, 0.1156)],
)
def test_bounds_on_the_determinant(ridge, printed, corrected, tight):
    assert paper.determinant_bound(A200, ridge, corrected=False) == pytest.approx(printed, abs=6e-5)
    assert paper.determinant_bound(A200, ridge, corrected=True) == pytest.approx(corrected, abs=6e-5)
    assert paper.determinant_bound_tight(A200, ridge) == pytest.approx(tight, abs=6e-5)


@pytest.mark.parametrize(("corrected", "ridge"), [(False, 310.9), (True, 487.3)])
def test_the_ridge_of_algorithm_2_at_epsilon_1(corrected, ridge):
    found = paper.smallest_ridge(A200, 0.5, corrected=corrected)
    assert found == pytest.approx(ridge, abs=0.06)
    assert paper.determinant_bound(A200, found, corrected=corrected) == pytest.approx(0.5, rel=1e-9)


def test_a_lone_person_attains_the_tight_bound_and_others_stay_below_it():
    rng = np.random.default_rng(3)
    ridge, largest = 5.0, -np.inf
    for trial in range(200):
        x = rng.standard_normal(2)
        x /= np.linalg.norm(x)
        rows = np.column_stack([A200, np.tile(x, (200, 1))])
        f = np.zeros(5) if trial == 0 else rng.standard_normal(5) * 10.0 ** rng.uniform(-1, 1)
        h = expit(rows @ f)
        others = np.zeros((5, 5)) if trial == 0 else np.diag(rng.exponential(3.0, 5))
        matrix = ridge * np.eye(5) + others
        ratio = np.linalg.slogdet(matrix + (rows * (h * (1 - h))[:, None]).T @ rows)[1] - np.linalg.slogdet(matrix)[1]
        largest = max(largest, ratio)
        if trial == 0:
            assert ratio == pytest.approx(paper.determinant_bound_tight(A200, ridge), rel=1e-12)
    assert largest <= paper.determinant_bound_tight(A200, ridge) * (1 + 1e-12)


# ---- the theorem ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "loss"), [(10, 1.185), (30, 2.137), (100, 3.288)])
def test_theorem_4_4_fails(a, loss):
    found = paper.theorem_4_4_counterexample(a)
    assert found.privacy_loss == pytest.approx(loss, abs=5e-4)
    assert found.corrected_privacy_loss < 1.0 < found.privacy_loss


def test_the_counterexample_is_about_densities():
    """Both densities integrate to 1 with the noise's own constant, and their log-ratio is what is claimed."""
    a, claim = 30.0, paper.theorem_4_4_counterexample(30.0)
    rate = 0.5 / (np.sqrt(4 + 0.01) + np.sqrt(4 + a**2) + np.sqrt(4 + 4 * a**2))

    def density(f, late):
        slope = 0.1 * expit(0.1 * f) - a * expit(-a * f) if late else -0.1 * expit(-0.1 * f)
        curvature = 0.01 * expit(0.1 * f) * expit(-0.1 * f) + (a**2 * expit(a * f) * expit(-a * f) if late else 0.0)
        return rate / 2 * np.exp(-rate * abs(claim.ridge * f + slope)) * (claim.ridge + curvature)

    for late in (True, False):
        ends = [-400, -1, 0, 1, 400]
        pieces = [quad(density, *part, args=(late,), limit=500)[0] for part in pairwise(ends)]
        assert sum(pieces) == pytest.approx(1.0, abs=1e-6)
    ratio = np.log(density(claim.output, True) / density(claim.output, False))
    assert abs(ratio) == pytest.approx(claim.privacy_loss, rel=1e-9)


def test_epsilon_is_kept_where_rows_are_short():
    """With both features at most 0.1 there is nothing to refute: the search does not invent a loss."""
    assert paper.theorem_4_4_counterexample(0.1).privacy_loss < 1.0


# ---- preparation ----------------------------------------------------------------------------------------------------


def test_flchain_as_in_the_paper(flchain):
    """Scaling, intervals and likelihood at once: R's glm on 1,109,442 person-periods gives these coefficients."""
    assert flchain.data.person_intervals == 1_109_442
    assert np.linalg.norm(flchain.data.Z, axis=1).max() == pytest.approx(1.0)
    np.testing.assert_allclose(flchain.data.Z.mean(axis=0), 0.0, atol=1e-12)
    found = paper.fit(flchain)
    expected = [
        -7.03642846,
        0.69129340,
        0.50309053,
        7.47891280,
        0.44058751,
        1.18696610,
        6.43290486,
        0.66999654,
        0.22943341,
    ]
    np.testing.assert_allclose(found.theta, expected, atol=1e-7)
    assert found.deviance == pytest.approx(28484.729247, abs=1e-6)


@pytest.mark.parametrize(
    "spoil",
    [
        {"x": [1.0, 1.0, 1.0]},
        {"x": [1.0, np.nan, 2.0]},
        {"time": [0.0, 0.0, 0.0]},
        {"event": [0, 2, 1]},
    ],
)
def test_what_cannot_be_prepared_is_refused(spoil):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "time": [0.0, 1.0, 2.0], "event": [0, 1, 1]} | spoil)
    with pytest.raises(HdpError, match=r"drop incomplete|must hold 0 and 1"):
        paper.prepare(frame, time="time", event="event", covariates=["x"])


def test_the_first_interval_holds_time_0():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "time": [0.0, 1.0, 2.0], "event": [0, 1, 1]})
    assert paper.prepare(frame, time="time", event="event", covariates=["x"], intervals=4).data.exit.tolist() == [
        1,
        2,
        4,
    ]


# ---- algorithms 1 and 2 ---------------------------------------------------------------------------------------------


def test_output_noise_has_the_length_of_a_gamma_distribution_around_the_regularised_fit(small):
    regularisation, epsilon = 0.1, 2.0
    centre = minimize(
        lambda f: loss(small, f)[0] / small.people + regularisation / 2 * f @ f, np.zeros(small.dimension), tol=1e-12
    ).x
    draws = paper.output_perturbation(small, epsilon=epsilon, regularisation=regularisation, seed=1, draws=4000)
    scale = paper.gradient_sensitivity(small.data.A) / (small.people * regularisation) / epsilon
    lengths = np.linalg.norm(draws - centre, axis=1)
    assert kstest(lengths, "gamma", args=(small.dimension, 0.0, scale)).pvalue > 1e-4
    assert kstest(lengths, "gamma", args=(small.dimension + 1, 0.0, scale)).pvalue < 1e-4
    direction = ((draws - centre) / lengths[:, None]).mean(axis=0)
    assert np.linalg.norm(direction) < 4.5 / np.sqrt(4000)


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("regularisation", [1e-4, 10.0])
def test_objective_noise_read_back_from_the_gradient_has_the_papers_distribution(small, corrected, regularisation):
    """b is minus the gradient at the minimiser: of length Gamma(D, t / epsilon'), with the ridge of the algorithm."""
    epsilon = 1.0
    draws = paper.objective_perturbation(
        small, epsilon=epsilon, regularisation=regularisation, seed=2, draws=150, corrected=corrected
    )
    reach = np.sum(small.data.A**2, axis=1) + 1
    ridge = small.people * regularisation
    left = epsilon - 2 * np.log1p((reach if corrected else np.sqrt(reach)) / (4 * ridge)).sum()
    if left < epsilon / 2:
        ridge, left = paper.smallest_ridge(small.data.A, epsilon / 2, corrected=corrected), epsilon / 2
    e = small.data.A.shape[1]
    interval = np.arange(1, len(small.data.A) + 1)[None, :]
    at_risk = interval <= small.data.exit[:, None]
    event = (interval == small.data.exit[:, None]) & (small.data.event[:, None] == 1)
    lengths = []
    for f in draws:
        residual = (expit((small.data.A @ f[:e])[None, :] + (small.data.Z @ f[e:])[:, None]) - event) * at_risk
        gradient = np.concatenate([residual.sum(axis=0) @ small.data.A, residual.sum(axis=1) @ small.data.Z])
        lengths.append(np.linalg.norm(gradient + ridge * f))
    scale = paper.gradient_sensitivity(small.data.A) / left
    assert kstest(lengths, "gamma", args=(small.dimension, 0.0, scale)).pvalue > 1e-4
    assert kstest(lengths, "gamma", args=(small.dimension, 0.0, scale / 1.3)).pvalue < 1e-4


def test_the_correction_changes_what_algorithm_2_gives(small):
    printed, corrected = (
        paper.objective_perturbation(small, epsilon=1, regularisation=1e-3, seed=4, corrected=corrected)
        for corrected in (False, True)
    )
    assert np.linalg.norm(corrected) < np.linalg.norm(printed)


def test_the_mean_relative_errors_of_figure_5_on_flchain(flchain):
    """Reference values from 1000 draws of an independent implementation."""
    truth = paper.fit(flchain).theta
    for epsilon, expected in ((0.1, 13.95), (6.4, 0.804)):
        draws = paper.output_perturbation(flchain, epsilon=epsilon, regularisation=0.0316, seed=7, draws=1000)
        assert paper.relative_error(draws, truth).mean() == pytest.approx(expected, rel=0.03)


# ---- algorithm 4 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "v"),
    [((-1.0, 0.6, 0.1), 11.0), ((-30.0, 20.0, 3.0), 11.0), ((-80.0, 160.0, 0.0), 200.0), ((2e3, -1e3, 0.0), 1e4)],
    ids=["ordinary", "large", "a product overflows", "an exponential overflows"],
)
def test_the_gradient_of_the_capped_loss(small, alpha, v):
    """Against differences of ``v tanh(l / v)``, also where products and exponentials would overflow."""
    f, h = np.array([*alpha, 0.5, -0.5]), 1e-5

    def energy(f):
        return np.sum(v * np.tanh(loss(small, f)[1] / v))

    expected = [(energy(f + h * unit) - energy(f - h * unit)) / (2 * h) for unit in np.eye(5)]
    data, everybody = small.data, np.arange(small.people)
    found = batch_gradient(data.A, data.Z, data.exit, data.event, f, everybody, v)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-3)
    twice = batch_gradient(data.A, data.Z, data.exit, data.event, f, np.repeat(everybody, 2), v)
    np.testing.assert_allclose(twice, 2 * found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("corrected", "drift"), [(False, 1.0), (True, 0.5)])
def test_steps_are_the_printed_ones(small, corrected, drift):
    """Lines 3 to 8 of Algorithm 4, written out, with the same random numbers."""
    n, epsilon, v, f, V = (
        small.people,
        1.5,
        2 * np.log(small.people),
        np.array([-2.0, 0.3, 0.1, 0.5, -0.5]),
        np.zeros(5),
    )
    sigma, data = 1e-2 * 2 * v / epsilon, small.data
    path = paper.psgld(small, epsilon=epsilon, seed=6, steps=3, start=f, batch=40, corrected=corrected, step_size=1e-4)
    rng = np.random.default_rng(6)
    people, normals = rng.integers(0, n, (3, 40)), rng.standard_normal((3, 5))
    for t in (1, 2, 3):
        gradient = batch_gradient(data.A, data.Z, data.exit, data.event, f, people[t - 1], v)
        g = epsilon / (2 * v) * (sigma * f / n + gradient / 40)
        V = 0.99 * V + 0.01 * g * g
        G = 1 / (1e-5 + np.sqrt(V))
        size = 1e-4 * t**-0.51
        f = f - drift * size * G * n * g + np.sqrt(size * G) * normals[t - 1]
        np.testing.assert_allclose(path[t - 1], f, rtol=1e-11)


@pytest.mark.wide
def test_the_corrected_chain_has_the_targets_spread_and_the_printed_drift_too_little(small):
    """Against the normal approximation of the target: variance ratio near 1, near 1/2 with the drift as printed."""
    epsilon = 20.0
    centre = paper.fit(small).theta
    expected = np.diag(paper.target_covariance(small, epsilon=epsilon))
    arguments = {"seed": 6, "steps": 16_000, "step_size": 3e-4, "decay": 0.0, "batch": 300, "start": centre, "keep": 5}
    half, whole = (
        np.mean(paper.psgld(small, epsilon=epsilon, corrected=corrected, **arguments)[400:].var(axis=0) / expected)
        for corrected in (True, False)
    )
    assert 0.75 < half < 1.4
    assert 0.35 < whole < 0.7
    assert half / whole > 1.5


def test_far_from_the_data_a_chain_keeps_finite(small):
    path = paper.psgld(small, epsilon=0.1, seed=1, steps=200, start=np.full(5, 5e3), keep=20)
    assert path.shape == (10, 5)
    assert np.all(np.isfinite(path))


def test_kept_states_are_those_of_the_whole_chain(small):
    arguments = {"epsilon": 1.0, "seed": 3, "steps": 23, "batch": 10}
    whole = paper.psgld(small, **arguments)
    np.testing.assert_array_equal(paper.psgld(small, **arguments, keep=5), whole[4::5])
    assert not np.array_equal(whole, paper.psgld(small, **(arguments | {"seed": 4})))


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0}, {"steps": 0}, {"keep": 99}, {"batch": 10**6}, {"step_size": 0}, {"decay": -1}, {"start": [0.0]}],
)
def test_a_wrong_argument_of_the_chain_is_named(small, change):
    with pytest.raises(HdpError, match=next(iter(change))):
        paper.psgld(small, **({"epsilon": 1.0, "seed": 1, "steps": 10} | change))

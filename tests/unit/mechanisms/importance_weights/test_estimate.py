"""The distribution of importance weights: derivatives by differences, covariances by simulation and by draws."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.importance_weights.estimate import DensityRatioWeights
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BallNorm, BoxNorm, CylinderNorm

RNG = np.random.default_rng(11)
X = np.column_stack([np.ones(400), RNG.normal(size=400), RNG.integers(0, 2, 400) - 0.5])
GIVEN = DensityRatioWeights(
    coefficients=np.array([0.1, 0.6, -0.8]),
    rows=X,
    mallows=np.minimum(1.0, 1.5 / np.maximum(np.abs(X[:, 1]), 1e-9)),
    ridge=0.02,
    noise=NormalDistribution(dimension=3, sd=5.0),
    on_minimiser=False,
    records=600,
    seed="ab" * 32,
)


def weights_at(b, distribution=GIVEN):
    p = np.exp(distribution.rows @ b)
    return distribution.records * p / p.sum()


def test_weights_are_the_exponentials_and_sum_to_the_records():
    assert pytest.approx(weights_at(GIVEN.coefficients)) == GIVEN.weights
    assert GIVEN.weights.sum() == pytest.approx(600)


def test_coefficients_beyond_all_floats_still_give_weights():
    far = replace(GIVEN, coefficients=np.array([1e6, 1e6, -1e6]))
    assert np.isfinite(far.weights).all()
    assert far.weights.sum() == pytest.approx(600)


@pytest.mark.parametrize("on_minimiser", [True, False])
def test_the_privacy_part_is_the_noise_through_the_derivative(on_minimiser):
    # The derivative by differences, and the exact minimiser under small noise in the objective by differences.
    distribution = replace(GIVEN, on_minimiser=on_minimiser, noise=NormalDistribution(dimension=3, sd=0.3))
    f = np.column_stack([X[:, 1], X[:, 2] > 0, X[:, 1] ** 2])
    residuals = f - GIVEN.weights @ f / 600
    step = 1e-5
    slope = np.array(
        [(weights_at(GIVEN.coefficients + step * e) - weights_at(GIVEN.coefficients - step * e)) @ f for e in np.eye(3)]
    ) / (2 * step)
    if on_minimiser:
        expected = slope.T @ slope * 0.3**2
    else:
        p, sigma = GIVEN.weights / 600, expit(X @ GIVEN.coefficients)
        weight = (p + 1 / 400) * GIVEN.mallows * sigma * (1 - sigma)
        penalised = 600 * (X.T @ (weight[:, None] * X) + 0.02 * np.eye(3))
        moved = np.linalg.solve(penalised, slope)
        expected = moved.T @ moved * 0.3**2
    assert distribution.covariance(residuals)[1] == pytest.approx(expected, rel=1e-6)


def test_sampling_of_both_samples_is_counted():
    # Many pairs of samples from known distributions, the noise-free fit by another solver, against the mean of the
    # formula.
    rng, means, formula = np.random.default_rng(5), [], []
    ridge = 0.001
    for _ in range(250):
        D = np.column_stack([np.ones(300), rng.normal(0.6, 1, 300)])
        E = np.column_stack([np.ones(250), rng.normal(0, 1, 250)])

        def value(b, D=D, E=E):
            losses = np.logaddexp(0, -D @ b).mean() + np.logaddexp(0, E @ b).mean() + ridge / 2 * b @ b
            return losses, -D.T @ expit(-D @ b) / 300 + E.T @ expit(E @ b) / 250 + ridge * b

        b = minimize(value, np.zeros(2), jac=True, method="BFGS").x
        distribution = DensityRatioWeights(
            coefficients=b,
            rows=E,
            mallows=np.ones(250),
            ridge=ridge,
            noise=NormalDistribution(dimension=2, sd=1e-9),
            on_minimiser=False,
            records=300,
            seed="cd" * 32,
        )
        y = E[:, 1] + rng.normal(size=250)
        mean = distribution.weights @ y / 300
        means.append(mean)
        formula.append(distribution.covariance((y - mean)[:, None])[0][0, 0] / 300**2)
    assert np.mean(formula) == pytest.approx(np.var(means), rel=0.25)
    assert np.mean(means) == pytest.approx(0.6, abs=0.03)


def test_in_a_saturated_model_the_public_sampling_of_the_columns_cancels():
    # One binary column: its weighted mean is the private share, whatever share of the public rows has it.
    rows = np.column_stack([np.ones(500), np.repeat([1.0, 0.0], [100, 400])])
    b = np.array([np.log(0.6 / 0.8), np.log(0.4 / 0.2) - np.log(0.6 / 0.8)])
    distribution = DensityRatioWeights(
        coefficients=b,
        rows=rows,
        mallows=np.ones(500),
        ridge=1e-9,
        noise=NormalDistribution(dimension=2, sd=1e-9),
        on_minimiser=False,
        records=1000,
        seed="ef" * 32,
    )
    share = distribution.weights @ rows[:, 1] / 1000
    assert share == pytest.approx(0.4)
    sampling = distribution.covariance((rows[:, 1] - share)[:, None] / 1000)[0][0, 0]
    assert sampling == pytest.approx(0.4 * 0.6 / 1000, rel=1e-3)


def test_what_the_ridge_takes_is_counted_where_it_is_more_than_noise():
    f = (X[:, 1] - GIVEN.weights @ X[:, 1] / 600)[:, None]
    bare = [replace(GIVEN, ridge=ridge, noise=NormalDistribution(dimension=3, sd=1e-6)) for ridge in (1e-9, 0.5)]
    free, bound = (distribution.covariance(f)[0][0, 0] for distribution in bare)
    slope = bare[1]._parts()[0] @ (X.T * (GIVEN.weights / 600)) @ f
    taken = 600 * 0.5 * float(GIVEN.coefficients @ slope[:, 0])
    assert bound > 0.95 * taken**2 > 5 * free
    drowned = replace(GIVEN, ridge=0.5, noise=NormalDistribution(dimension=3, sd=1e6))
    assert drowned.covariance(f)[0][0, 0] < 0.3 * bound


NOISES = [
    NormalDistribution(dimension=3, sd=4.0),
    NoiseDistribution(norm=BoxNorm(radii=(Fraction(1), Fraction(5, 2), Fraction(1))), dimension=3, rate=0.8),
    NoiseDistribution(norm=CylinderNorm(radius=Fraction(3)), dimension=3, rate=0.8),
    NoiseDistribution(norm=BallNorm(), dimension=3, rate=30.0),
]


@pytest.mark.parametrize("noise", NOISES, ids=["normal", "box", "cylinder", "ball on the minimiser"])
def test_draws_vary_as_the_covariance_says(noise):
    distribution = replace(
        GIVEN,
        noise=noise,
        ridge=1e-6,
        on_minimiser=isinstance(noise, NoiseDistribution) and isinstance(noise.norm, BallNorm),
    )
    f = np.column_stack([X[:, 1], X[:, 2]])
    f = f - distribution.weights @ f / 600
    drawn = distribution.draws(4000)
    assert drawn.shape == (4000, 400)
    assert drawn.sum(axis=1) == pytest.approx(np.full(4000, 600.0))
    sampling, privacy = distribution.covariance(f)
    assert np.cov((drawn @ f).T) == pytest.approx(sampling + privacy, rel=0.12, abs=0.05 * np.trace(sampling))
    assert np.array_equal(distribution.draws(5), distribution.draws(5))


@pytest.mark.parametrize("noise", NOISES)
def test_a_distribution_is_read_back_exactly(noise):
    distribution = replace(GIVEN, noise=noise)
    back = DensityRatioWeights.from_dict(json.loads(json.dumps(distribution.to_dict())))
    assert np.array_equal(back.weights, distribution.weights)
    assert back.noise == distribution.noise
    assert np.array_equal(back.draws(3), distribution.draws(3))
    assert distribution.to_dict()["kind"] == "density ratio"


def test_parts_that_do_not_fit_are_refused():
    for changes in ({"mallows": np.ones(3)}, {"coefficients": np.ones(2)}, {"rows": X[:0], "mallows": np.ones(0)}):
        with pytest.raises(ArgumentError):
            replace(GIVEN, **changes)

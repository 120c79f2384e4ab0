"""Where noise entered: its worth in the score, by draws and in closed form; estimates from noisy minimisers."""

from fractions import Fraction

import numpy as np
import pytest

from hdpstats.inference import draws
from hdpstats.inference.information import InObjective, OnMinimiser, Tempered
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.sensitivity import BallNorm, BoxNorm

DISTRIBUTIONS = [NormalDistribution(dimension=3, sd=0.7), NoiseDistribution(norm=BallNorm(), dimension=3, rate=2.0)]
BOX = NoiseDistribution(norm=BoxNorm(radii=(Fraction(1), Fraction(1, 2), Fraction(3))), dimension=3, rate=2.0)
COUNT = 100_000


def hessian():
    root = np.random.default_rng(1).standard_normal((3, 3))
    return root @ root.T + np.eye(3)


@pytest.mark.parametrize("distribution", [*DISTRIBUTIONS, BOX], ids=["normal", "K-norm", "box"])
def test_draws_have_the_covariance(distribution):
    H = hessian()
    for noise in (
        InObjective(distribution=distribution),
        OnMinimiser(distribution=distribution, ridge=2.5),
        Tempered(temperature=0.3, ridge=2.5, dimension=3),
    ):
        drawn = noise.draw(draws.generator("ab" * 32), np.broadcast_to(H, (COUNT, 3, 3)))
        expected = noise.covariance(H)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.abs((np.cov(drawn.T) - expected) / scale).max() < 0.03
        assert np.abs(drawn.mean(axis=0) / np.sqrt(np.diag(expected))).max() < 0.03


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=["normal", "K-norm"])
def test_noise_on_the_minimiser_is_undone_by_the_solve(distribution):
    # Through (H + Lambda)^-1, with the sign of the score, comes out what was added.
    H, ridge = hessian(), 2.5
    stack = np.broadcast_to(H, (50, 3, 3))
    b = OnMinimiser(distribution=distribution, ridge=ridge).draw(draws.generator("cd" * 32), stack)
    added = draws.perturbation(draws.generator("cd" * 32), distribution, count=50)
    assert pytest.approx(added) == -np.linalg.solve(H + ridge * np.eye(3), b.T).T


def test_a_tempered_draw_has_the_inverse_of_its_hessian_as_covariance():
    H, ridge, s = hessian(), 2.5, 0.3
    penalised = H + ridge * np.eye(3)
    b = Tempered(temperature=s, ridge=ridge, dimension=3).covariance(H)
    assert np.linalg.solve(penalised, np.linalg.solve(penalised, b).T) == pytest.approx(np.linalg.inv(s * penalised))


def test_normal_draws_have_their_standard_deviation():
    drawn = draws.perturbation(draws.generator("ef" * 32), DISTRIBUTIONS[0], count=COUNT)
    assert drawn.std(axis=0) == pytest.approx(np.full(3, 0.7), rel=0.02)
    assert DISTRIBUTIONS[0].variance == pytest.approx(np.full(3, 0.49))

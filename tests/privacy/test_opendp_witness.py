"""OpenDP as an outside witness: its discrete Laplace noise has our distribution, and its losses are the ones we claim.

OpenDP (Canonne, Kamath and Steinke 2020) draws from the operating system always. The test of its draws and ours, by
`tests.chance`, fails for right code with a probability of at most 1e-9.
"""

import math
from fractions import Fraction

import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from hdpstats.noise import BallNoise, BoxNoise, TwoSidedGeometric
from tests import chance

DRAWS = 15000
enable_features("contrib")


def discrete_laplace(rate: Fraction):
    """Return OpenDP's measurement that adds P[z] ∝ exp(-rate |z|) to integers."""
    return make_laplace(vector_domain(atom_domain(T=int)), l1_distance(T=int), scale=1.0 / float(rate))


def distribution_of(rate: float) -> chance.OutcomeDistribution:
    reach = math.ceil(60 / rate)
    return chance.OutcomeDistribution({z: math.exp(-rate * abs(z)) for z in range(-reach, reach + 1)})


@pytest.mark.wide
@pytest.mark.entropy
@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(2, 3), Fraction(1), Fraction(7, 3)])
def test_our_samplers_and_that_of_opendp_have_one_distribution(rate: Fraction) -> None:
    ours = {
        "two-sided geometric": TwoSidedGeometric(rate=rate).draws(DRAWS),
        "ball": [BallNoise(dimension=1, rate=rate).draw()[0] for _ in range(DRAWS // 3)],
        "box": [BoxNoise(dimension=1, rate=rate).draw()[0] for _ in range(DRAWS // 3)],
    }
    theirs = discrete_laplace(rate)([0] * DRAWS)
    wrong = distribution_of(float(rate) * 1.5), distribution_of(float(rate) / 1.5)
    alarm = chance.ALARM / (1 + len(ours))
    chance.tells(distribution_of(float(rate)), theirs, *wrong, alarm=alarm)
    for draws in ours.values():
        assert distribution_of(float(rate)).fits(draws, alarm=alarm)


@pytest.mark.parametrize("rate", [Fraction(1, 64), Fraction(2, 3), Fraction(1), Fraction(7, 3)])
@pytest.mark.parametrize("distance", [1, 3])
def test_opendp_certifies_the_loss_that_we_claim_for_lattice_noise(rate: Fraction, distance: int) -> None:
    """Points that one person moves by ``distance`` cost ``rate distance`` nats; OpenDP rounds its losses upwards."""
    certified = discrete_laplace(rate).map(distance)
    assert certified == pytest.approx(float(rate * distance), rel=1e-12)
    assert discrete_laplace(rate * Fraction(9, 10)).map(distance) < float(rate * distance)


def test_opendp_certifies_the_loss_that_we_claim_for_normal_noise() -> None:
    """mu-GDP with mu = S / sd is mu² / 2 of zero-concentrated privacy."""
    space = vector_domain(atom_domain(T=float, nan=False)), l2_distance(T=float)
    assert make_gaussian(*space, scale=10.0).map(1.0) == pytest.approx(0.1**2 / 2, rel=1e-9)

"""Do the last bits of a released double tell what it was computed from?

By `hdpstats.audit.fingerprint`: a lower bound of epsilon at confidence 1 - 1e-9. Floating-point Laplace noise of
epsilon = 1 reveals more than 5 here (Haney et al. 2022); what the package releases must stay below its claim.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features
from scipy.stats import binom

from hdpstats.audit import fingerprint
from hdpstats.audit.fingerprint import lowest_bit
from hdpstats.audit.outputs import log_ratio
from hdpstats.noise import BallNoise, CylinderNoise, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.exact import lift, round_down
from tests.known_noise import snap

ALPHA = 1e-9
RELEASES = 6000
EPSILON = Fraction(1)
GRID = Fraction(1, 2**20)

Mechanism = Callable[[float, int], np.ndarray]


def certified(mechanism: Mechanism) -> float:
    return fingerprint(mechanism, releases=RELEASES, alpha=ALPHA).epsilon


def numpy_laplace(query: float, count: int) -> np.ndarray:
    """Return the releases that are to be caught: from one seed: the distribution of their last bits is not known."""
    return query + np.random.default_rng([count, int(query * 1000) % 2**32]).laplace(0.0, 1 / float(EPSILON), count)


def on_lattice(query: float, count: int, draw: Callable[[], int]) -> np.ndarray:
    point = snap([query], GRID)[0]
    return lift([point + draw() for _ in range(count)], GRID)


def geometric(query: float, count: int) -> np.ndarray:
    return on_lattice(query, count, TwoSidedGeometric(rate=round_down(EPSILON / (1 / GRID + 1), 64)).draw)


def ball(query: float, count: int) -> np.ndarray:
    noise = BallNoise(dimension=1, rate=round_down(EPSILON / (1 / GRID + 1), 64))
    return on_lattice(query, count, lambda: noise.draw()[0])


def cylinder(query: float, count: int) -> np.ndarray:
    noise = CylinderNoise(
        dimension=1,
        rate=round_down(EPSILON / (1 + GRID), 64),
        radius=Fraction(1),
        grid_axis=GRID,
        grid_ball=GRID,
    )
    return on_lattice(query, count, lambda: noise.draw()[0])


def normal(query: float, count: int) -> np.ndarray:
    noise = RoundedNormal(dimension=1, sd=Fraction(1), grid=GRID)
    return on_lattice(query, count, lambda: noise.draw()[0])


def opendp(query: float, count: int) -> np.ndarray:
    """Return releases of an outside sampler, which the search must not find fault with either."""
    enable_features("contrib")
    space = vector_domain(atom_domain(T=float, nan=False)), l1_distance(T=float)
    return np.array(make_laplace(*space, scale=1 / float(EPSILON))([query] * count))


def test_floating_point_noise_is_caught() -> None:
    assert fingerprint(numpy_laplace).epsilon >= 5.0


@pytest.mark.entropy
@pytest.mark.parametrize("mechanism", [geometric, ball, cylinder, opendp])
def test_exact_noise_keeps_its_claim(mechanism: Mechanism) -> None:
    assert certified(mechanism) <= float(EPSILON)


def bound(hits: int, other_hits: int) -> float:
    return log_ratio(hits, RELEASES, other_hits, RELEASES, ALPHA)


@pytest.mark.entropy
def test_a_quarter_of_the_noise_is_caught() -> None:
    """By the event "below 1 / 2" alone, whose probabilities are known: missed with a probability of 1e-9 at most."""
    likely, unlikely = 1 - math.exp(-0.5), (math.exp(-3.5) - math.exp(-4.5)) / 2
    worst = binom.ppf(ALPHA / 3, RELEASES, likely), binom.isf(ALPHA / 3, RELEASES, unlikely)
    assert bound(*map(int, worst)) > float(EPSILON)
    hits = [int(np.sum(np.abs(ball(4.0 * query, RELEASES)) < 0.5)) for query in (0.0, 1.0)]
    assert bound(*hits) > float(EPSILON)


@pytest.mark.parametrize("mechanism", [geometric, ball, cylinder, normal])
@pytest.mark.parametrize("query", [0.0, 1.0, 1 / 3, 1e-9, -123.456])
def test_releases_lie_on_the_public_grid_whatever_the_query(mechanism: Mechanism, query: float) -> None:
    assert lowest_bit(mechanism(query, 300)).min() >= -20
    assert lowest_bit(numpy_laplace(query, 300)).min() < -20

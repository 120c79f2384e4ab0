"""Do the last bits of a released double tell what it was computed from?

The statistic of a double is the exponent of its lowest set bit, the finest dyadic grid on which it lies.
Events "lowest bit at most 2^t (or above), magnitude below s" are chosen on one half of the releases from two
neighbouring queries and certified on the other half: a lower bound of epsilon at confidence 1 - 1e-9.
Floating-point Laplace noise of epsilon = 1 reveals more than 2 here (Haney et al. 2022); what the package
releases must stay below its claim.
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
from scipy.stats import beta, binom

from hdpstats.noise import BallNoise, CylinderNoise, RoundedNormal, TwoSidedGeometric
from hdpstats.noise.exact import lift, round_down
from tests.known_noise import snap

ALPHA = 1e-9
RELEASES = 6000
EPSILON = Fraction(1)
GRID = Fraction(1, 2**20)

Mechanism = Callable[[float, int], np.ndarray]


def lowest_bit(values: np.ndarray) -> np.ndarray:
    """Exponent of the lowest set bit of each double; 1024 for zero."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(float))[1] - 1
    return np.where(whole == 0, 1024, exponent - 53 + trailing)


def epsilon_bound(hits: int, other_hits: int, trials: int) -> float:
    """Lower bound of log(p / p') at level ALPHA from two binomial counts (Clopper-Pearson)."""
    if hits == 0:
        return 0.0
    low = float(beta.ppf(ALPHA / 2, hits, trials - hits + 1))
    high = float(beta.ppf(1 - ALPHA / 2, other_hits + 1, trials - other_hits)) if other_hits < trials else 1.0
    return math.log(low / high)


def fingerprint(mechanism: Mechanism) -> float:
    """Largest epsilon that the last bits of releases from the queries 0 and 1 certify."""
    releases = [mechanism(query, 2 * RELEASES) for query in (0.0, 1.0)]
    bits = [lowest_bit(values) for values in releases]
    sizes = np.abs(np.concatenate([values[:RELEASES] for values in releases]))
    best, certified = -1.0, 0.0
    for largest in (np.inf, *np.quantile(sizes, [0.05, 0.1, 0.25, 0.5])):
        for exponent in range(-90, 12, 2):
            for fine in (True, False):
                events = [
                    (np.abs(values) < largest) & ((bit <= exponent) == fine)
                    for values, bit in zip(releases, bits, strict=True)
                ]
                for event, other in (events, events[::-1]):
                    chosen = epsilon_bound(int(event[:RELEASES].sum()), int(other[:RELEASES].sum()), RELEASES)
                    if chosen > best:
                        best = chosen
                        certified = epsilon_bound(int(event[RELEASES:].sum()), int(other[RELEASES:].sum()), RELEASES)
    return certified


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
    assert fingerprint(numpy_laplace) > 2.0


@pytest.mark.entropy
@pytest.mark.parametrize("mechanism", [geometric, ball, cylinder, opendp])
def test_exact_noise_keeps_its_claim(mechanism: Mechanism) -> None:
    assert fingerprint(mechanism) <= float(EPSILON)


@pytest.mark.entropy
def test_a_quarter_of_the_noise_is_caught() -> None:
    """By the event "below 1 / 2" alone, whose probabilities are known: missed with a probability of 1e-9 at most."""
    likely, unlikely = 1 - math.exp(-0.5), (math.exp(-3.5) - math.exp(-4.5)) / 2
    worst = binom.ppf(ALPHA / 3, RELEASES, likely), binom.isf(ALPHA / 3, RELEASES, unlikely)
    assert epsilon_bound(*map(int, worst), RELEASES) > float(EPSILON)
    hits = [int(np.sum(np.abs(ball(4.0 * query, RELEASES)) < 0.5)) for query in (0.0, 1.0)]
    assert epsilon_bound(*hits, RELEASES) > float(EPSILON)


@pytest.mark.parametrize("mechanism", [geometric, ball, cylinder, normal])
@pytest.mark.parametrize("query", [0.0, 1.0, 1 / 3, 1e-9, -123.456])
def test_releases_lie_on_the_public_grid_whatever_the_query(mechanism: Mechanism, query: float) -> None:
    assert lowest_bit(mechanism(query, 300)).min() >= -20
    assert lowest_bit(numpy_laplace(query, 300)).min() < -20

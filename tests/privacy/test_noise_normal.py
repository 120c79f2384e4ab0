"""Goodness of fit of rounded normal noise to its exact distribution, its last digits, and its privacy.

Every check has a proven level of 1e-9 (`tests.chance`), and must reject a scale that is wrong by a third: that
it misses one has a probability of 1e-9 at most, which is computed. Samplers with a step left out have distributions
that are not written down: in 20 runs with other seeds the relative entropy of each exceeded the threshold by 12 or more
standard deviations of those runs.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from hdpstats.noise import RoundedNormal, discrete, normal
from tests import chance

pytestmark = pytest.mark.entropy
ALPHA = 1e-9
DRAWS = 8000


def sample(ratio: Fraction, draws: int = DRAWS) -> list[int]:
    """Draws of one coordinate with a standard deviation of ``ratio`` lattice steps."""
    return list(RoundedNormal(dimension=draws, sd=ratio, grid=Fraction(1)).draw())


def distribution_of(ratio: float) -> chance.OutcomeDistribution:
    """Return P[z] = Phi((z + 1/2) / ratio) - Phi((z - 1/2) / ratio)."""
    reach = math.ceil(9 * ratio) + 1
    points = np.arange(-reach, reach + 1)
    heights = np.diff(norm.cdf((np.append(points, reach + 1) - 0.5) / ratio))
    return chance.OutcomeDistribution(dict(zip(points.tolist(), heights.tolist(), strict=True)))


def tells(ratio: Fraction, *wrong: float) -> None:
    """Assert that draws have the distribution, and that scales wrong by these factors are told from it."""
    right, *others = (distribution_of(factor * float(ratio)) for factor in (1.0, *wrong))
    chance.tells(right, sample(ratio, chance.enough(right, *others)), *others)


def fits_the_continuous_distribution(draws: Sequence[int], ratio: float) -> bool:
    return chance.follows(np.array(draws, dtype=float) / ratio, norm.cdf)


def last_digits_are_uniform(draws: Sequence[int], size: int) -> bool:
    counts = Counter(z % size for z in draws)
    return chance.counts_fit([counts[digit] for digit in range(size)], [1 / size] * size)


def undecided(digits: int, estimate: float, error: float) -> bool | None:
    return None


RATIOS = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10), Fraction(40)]


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_distribution_of_a_coordinate(ratio: Fraction) -> None:
    tells(ratio, 1.35, 1 / 1.35)


def test_the_distribution_on_a_fine_lattice() -> None:
    ratio = Fraction(10, 3) * 2**20
    draws = sample(ratio)
    assert fits_the_continuous_distribution(draws, float(ratio))
    near = np.linspace(-4, 4, 801)
    for scale, shift in ((1.5, 0.0), (1 / 1.5, 0.0), (1.0, 0.4)):
        truth = norm(shift, scale).cdf
        assert chance.miss_of_cdf(norm.cdf, truth, len(draws), near=near) <= chance.ALARM
        assert not fits_the_continuous_distribution([scale * z + shift * float(ratio) for z in draws], float(ratio))
    assert last_digits_are_uniform(draws, 16)


def test_a_lattice_finer_than_the_first_digits_has_uniform_last_digits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ratio = Fraction(2) ** 90
    assert last_digits_are_uniform(sample(ratio), 16)

    def zeros(self: normal._Uniform, known: int) -> None:
        if known > self.known:
            self.digits, self.known = self.digits << (known - self.known), known

    monkeypatch.setattr(normal._Uniform, "extend", zeros)
    assert not last_digits_are_uniform(sample(ratio), 16)


def test_the_distribution_holds_when_integers_decide_every_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete, "decide_in_doubles", undecided)
    monkeypatch.setattr(normal, "_HALF_LOWER", 0)
    monkeypatch.setattr(normal, "_HALF_UPPER", 1 << 64)
    tells(Fraction(3), 1.4)


def test_the_distribution_holds_when_digits_are_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few first digits: the coin and the rounding both ask for more, of the same number."""
    monkeypatch.setattr(discrete, "decide_in_doubles", undecided)
    monkeypatch.setattr(normal, "_half_coin", lambda: discrete.bernoulli_exp(1, 2))
    monkeypatch.setattr(normal, "_DIGITS", 1)
    monkeypatch.setattr(normal, "_ULP", 0.5)
    tells(Fraction(5, 2), 1.4)


BROKEN: dict[str, tuple[str, Callable[..., object]]] = {
    "the fraction is always kept": ("bernoulli_exp_real", lambda *_: True),
    "the whole part is always kept": ("bernoulli_exp", lambda *_: True),
    "the exponent is twice as large": (
        "bernoulli_exp_real",
        lambda estimate, error, bounds: discrete.bernoulli_exp_real(
            2 * estimate, 2 * error, lambda precision: tuple(2 * bound for bound in bounds(precision))
        ),
    ),
    "the first coin is for exp(-1)": ("_half_coin", discrete.bernoulli_exp_one),
    "the sign is always positive": ("bits", lambda count: 0 if count == 1 else discrete.bits(count)),
}


@pytest.mark.wide
@pytest.mark.parametrize("fault", BROKEN)
def test_a_step_left_out_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, replacement = BROKEN[fault]
    monkeypatch.setattr(normal, name, replacement)
    assert not distribution_of(10.0).fits(sample(Fraction(10), 2 * DRAWS))


def independent(pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether two coordinates are independent, with one lattice step of standard deviation, in nine cells."""
    sides = np.diff([0.0, *norm.cdf([-0.5, 0.5]), 1.0])
    observed = Counter((max(-1, min(1, x)), max(-1, min(1, y))) for x, y in pairs)
    expected = [a * b for a in sides for b in sides]
    return chance.counts_fit([observed[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)], expected)


def test_coordinates_are_independent() -> None:
    noise = RoundedNormal(dimension=2, sd=Fraction(1), grid=Fraction(1))
    draws = [noise.draw() for _ in range(DRAWS)]
    assert independent([(x, y) for x, y in draws])
    assert not independent([(x, y if x % 2 else -abs(y)) for x, y in draws])


def most_alarms(alarms: np.ndarray | int, trials: int) -> np.ndarray:
    return np.asarray(norm.ppf(beta.ppf(1 - ALPHA / 2, alarms + 1, trials - np.asarray(alarms))))


def least_detections(detections: np.ndarray | int, trials: int) -> np.ndarray:
    return np.asarray(norm.ppf(beta.ppf(ALPHA / 2, detections, trials - np.asarray(detections) + 1)))


def certified_mu(first: np.ndarray, second: np.ndarray, threshold: float) -> float:
    """Lower bound of mu at confidence 1 - ALPHA from the errors of the test "above the threshold"."""
    alarms, detections = int((first > threshold).sum()), int((second > threshold).sum())
    return float(least_detections(detections, len(second)) - most_alarms(alarms, len(first)))


def certifies_at_most(mu: float, alarm: float, detection: float, trials: int) -> float:
    """Return the probability that `certified_mu` is at most ``mu``, of the probabilities of both events: exact."""
    counts = np.arange(1, trials)  # the other ones have a probability below 1e-300
    most = np.searchsorted(least_detections(counts, trials), mu + most_alarms(counts, trials), side="right")
    return float(binom.pmf(counts, trials, alarm) @ binom.cdf(most, trials, detection))


def shares_above(threshold: float, dimension: int, sd: float, grid: float, *, factor: float = 1.0) -> list[float]:
    """Return the probabilities that ``factor`` times noise along the diagonal, moved by 0 and by 2, is above."""
    points, heights = zip(*distribution_of(sd / grid).of.items(), strict=True)
    along = np.array([1.0])
    for _ in range(dimension):
        along = np.convolve(along, heights)
    places = np.arange(dimension * points[0], dimension * points[-1] + 1) * factor * grid / math.sqrt(dimension)
    return [float(along[places + moved > threshold].sum()) for moved in (0.0, 2.0)]


@pytest.mark.parametrize("dimension", [1, pytest.param(4, marks=pytest.mark.wide)])
def test_releases_of_neighbours_are_no_farther_apart_than_mu(dimension: int) -> None:
    """Lattice points that one person moves by S = 2: the best test between neighbours looks along the move."""
    sd, grid, trials = Fraction(2), Fraction(1, 4), 12_000
    noise = RoundedNormal(dimension=dimension, sd=sd, grid=grid)
    step = [round(2 / grid / math.sqrt(dimension))] * dimension  # exactly 2 in one and in four dimensions
    axis = np.array(step) / np.linalg.norm(step)
    first = np.array([noise.draw() for _ in range(trials)]) @ axis * float(grid)
    second = (np.array([noise.draw() for _ in range(trials)]) + step) @ axis * float(grid)
    mu = 2.0 / float(sd)
    right, narrow = (shares_above(1.0, dimension, 2.0, 0.25, factor=factor) for factor in (1.0, 1 / 1.5))
    assert certifies_at_most(0.75 * mu, *right, trials) + 1 - certifies_at_most(mu, *right, trials) <= ALPHA
    assert 0.75 * mu < certified_mu(first, second, 1.0) <= mu
    assert certifies_at_most(mu, *narrow, trials) <= ALPHA
    assert certified_mu(first / 1.5, (second - 2) / 1.5 + 2, 1.0) > mu

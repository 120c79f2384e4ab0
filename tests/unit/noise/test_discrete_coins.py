"""Exact coins: their frequencies, and the digit-by-digit comparison behind the irrational ones.

Frequencies are judged by exact binomial tails: a right coin fails with probability 1e-9 at most, and each wrong
probability that is named passes with no more (`tells` computes it).
"""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from hdpstats.noise import discrete as coins
from hdpstats.noise.discrete import root_sum_bounds
from tests import chance

TOSSES = 20_000
FEW = 5_000


def tells(toss: Callable[[], bool], probability: float, *wrong: float, tosses: int = TOSSES) -> None:
    heads = sum(toss() for _ in range(tosses))
    assert chance.share_fits(heads, tosses, probability)
    for other in wrong:
        assert chance.miss_of_share(other, probability, tosses) <= chance.ALARM
        assert not chance.share_fits(heads, tosses, other)


def sqrt_two(precision: int) -> tuple[int, int]:
    return root_sum_bounds([(Fraction(1), 2)], precision)


def undecided(digits: int, estimate: float, error: float) -> bool | None:
    return None


@pytest.mark.entropy
def test_rational_coins() -> None:
    tells(lambda: coins.bernoulli(3, 7), 3 / 7, 1.5 * 3 / 7)
    assert not any(coins.bernoulli(0, 5) for _ in range(100))
    assert all(coins.bernoulli(5, 5) for _ in range(100))


@pytest.mark.entropy
@pytest.mark.parametrize(("numerator", "denominator"), [(1, 3), (1, 1), (5, 2), (2**80 + 1, 2**80)])
def test_exponential_coins_with_rational_exponent(numerator: int, denominator: int) -> None:
    probability = math.exp(-numerator / denominator)
    tells(lambda: coins.bernoulli_exp(numerator, denominator), probability, probability / 1.5)


def test_zero_exponent_is_certain() -> None:
    assert all(coins.bernoulli_exp(0, 7) for _ in range(100))
    assert all(coins.bernoulli_exp_real(0.0, 0.0, lambda _: (0, 0)) for _ in range(100))


@pytest.mark.entropy
def test_the_coin_for_one_over_e_and_its_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    tells(coins.bernoulli_exp_one, math.exp(-1), math.exp(-1.2))
    monkeypatch.setattr(coins, "_EXP_ONE_LOWER", 0)
    monkeypatch.setattr(coins, "_EXP_ONE_UPPER", 1 << 64)
    tells(coins.bernoulli_exp_one, math.exp(-1), math.exp(-1.4), tosses=FEW)


@pytest.mark.entropy
def test_exponential_coins_with_irrational_exponent() -> None:
    terms = [(Fraction(1, 2), 13), (Fraction(-1, 3), 5)]
    x = math.sqrt(13) / 2 - math.sqrt(5) / 3
    magnitude = math.sqrt(13) / 2 + math.sqrt(5) / 3
    tells(lambda: coins.bernoulli_exp_roots(x, magnitude, terms), math.exp(-x), math.exp(-x / 1.5))


@pytest.mark.entropy
def test_integers_alone_give_the_same_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "decide_in_doubles", undecided)
    x = math.sqrt(2)
    tells(lambda: coins.bernoulli_exp_real(x, 0.0, sqrt_two), math.exp(-x), math.exp(-x) / 1.5, tosses=FEW)


def test_a_tie_is_decided_by_further_digits_of_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = coins.exp_bounds(*sqrt_two(1000), precision=1000)
    tie = low >> (1000 - 64)
    assert tie == high >> (1000 - 64)
    assert coins.decide_in_doubles(tie, math.sqrt(2), 2.0**-50) is None
    asked: list[int] = []

    def continuing(offset: int) -> Callable[[int], int]:
        def bits(count: int) -> int:
            known = 64 + sum(asked)
            asked.append(count)
            return ((low + offset) >> (1000 - known - count)) & ((1 << count) - 1)

        return bits

    for digit in (400, 700, 900):
        for offset, heads in ((-(1 << (1000 - digit)), True), (1 << (1000 - digit), False)):
            asked.clear()
            monkeypatch.setattr(coins, "bits", continuing(offset))
            assert coins.decide_exactly(tie, 64, sqrt_two) is heads
            assert sum(asked) > digit - 64 - 10
            assert len(asked) <= 4


def test_doubles_decide_like_exact_numbers_or_not_at_all() -> None:
    step = 1 << 54
    for digits in range(0, 1 << 64, step):
        for x in (0.0, 1e-9, 0.3, 1.0, 7.5, 40.0):
            decision = coins.decide_in_doubles(digits, x, 2.0**-45)
            threshold = Fraction(math.exp(-x)) * 2**64
            assert decision is None or decision == (digits + 1 <= threshold)


@pytest.mark.entropy
def test_almost_everything_is_decided_by_doubles() -> None:
    """One of 5000 is undecided with a probability of 4.6e-9 (2^-40 each), two with less than 1e-16.

    A margin of 2^-8 instead would leave about twenty, and no more than one with a probability of 4e-8.
    """
    decisions = [coins.decide_in_doubles(coins.bits(64), 0.7, 2.0**-50) for _ in range(5000)]
    assert decisions.count(None) <= 1


@pytest.mark.parametrize("exponent", [700.0, 746.0, 1e6, 1e300])
def test_no_exponent_is_too_large_for_heads(exponent: float) -> None:
    assert coins.decide_in_doubles(0, exponent, 0.0) is None
    assert coins.decide_in_doubles(1, exponent, 0.0) is False


def test_heads_for_an_exponent_beyond_doubles_when_all_digits_are_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coins, "bits", lambda count: 0)
    assert coins.bernoulli_exp_real(800.0, 0.0, lambda precision: (800 << precision, 800 << precision))

"""The record of rounded normal noise: its arguments, its rounding, its digits. tests/privacy tests its distribution."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import RoundedNormal, normal
from tests import chance

STEP = Fraction(1, 2**20)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dimension", 0),
        ("dimension", 1.5),
        ("dimension", 100_001),
        ("sd", 0),
        ("sd", Fraction(-1)),
        ("sd", 0.1),
        ("sd", Fraction(2) ** 257),
        ("grid", 0),
        ("grid", "1"),
        ("grid", Fraction(1, 2**257)),
    ],
)
def test_wrong_arguments_are_refused_by_name(name: str, value: object) -> None:
    good = {"dimension": 2, "sd": Fraction(1), "grid": STEP}
    with pytest.raises(ArgumentError, match=name):
        RoundedNormal(**{**good, name: value})


@pytest.mark.entropy
def test_a_draw_is_a_tuple_of_integers_of_the_right_size() -> None:
    noise = RoundedNormal(dimension=500, sd=Fraction(7, 3), grid=STEP)
    draw = noise.draw()
    assert len(draw) == 500
    assert all(type(z) is int for z in draw)
    # Exact chi-square tails at 1e-9; a standard deviation 1.5 times too small or too large is missed with no more.
    assert chance.square_sum_fits([z * float(STEP) for z in draw], 7 / 3)
    assert max(chance.miss_of_gamma_sum(250, factor) for factor in (2.25, 1 / 2.25)) <= chance.ALARM


@pytest.mark.parametrize("sd", [Fraction(2) ** 256, Fraction(1, 2**256)])
@pytest.mark.parametrize("grid", [Fraction(2) ** 256, Fraction(1, 2**256)])
def test_extreme_scales(sd: Fraction, grid: Fraction) -> None:
    draw = RoundedNormal(dimension=20, sd=sd, grid=grid).draw()
    if sd < grid:
        assert draw == (0,) * 20
    elif sd > grid:
        assert 2**510 < max(map(abs, draw)) < 2**515
        assert len({z % 2**64 for z in draw}) == 20


def fixed(digits: int, known: int) -> normal._Uniform:
    x = normal._Uniform()
    x.digits, x.known = digits, known
    return x


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(7, 3), Fraction(1, 10), Fraction(1000, 7)])
def test_rounding_is_to_the_nearest_lattice_point(ratio: Fraction) -> None:
    for whole in range(4):
        for digits in range(0, 1 << 10, 7):
            x = fixed((digits << 60) + (1 << 59), 70)
            exact = ratio * (whole + Fraction(2 * x.digits + 1, 2 << 70))
            nearest = normal._rounded(whole, x, ratio)
            assert abs(nearest - exact) <= Fraction(1, 2) + ratio / 2**69
            assert x.known == 70


def test_a_tie_of_the_known_digits_is_decided_by_further_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.0111...1 to the known digits: below 1/2 as soon as one of the next digits is a zero."""
    asked = []

    def ones_then_zeros(count: int) -> int:
        asked.append(count)
        return (1 << count) - 1 if len(asked) == 1 else 0

    x, half = fixed((1 << 63) - 1, 64), fixed(1 << 63, 64)
    monkeypatch.setattr(normal, "bits", ones_then_zeros)
    assert normal._rounded(0, x, Fraction(1)) == 0
    assert (len(asked), x.known) == (2, 64 + sum(asked))
    assert normal._rounded(0, half, Fraction(1)) == 1
    assert len(asked) == 2


def test_digits_once_drawn_stay() -> None:
    x = normal._Uniform()
    first = x.digits
    x.extend(200)
    assert (x.digits >> 136, x.known) == (first, 200)
    x.extend(100)
    assert x.known == 200


@pytest.mark.parametrize("whole", [0, 1, 5])
def test_the_exponent_of_the_coin_is_enclosed_ever_more_closely(whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(estimate: float, error: float, bounds: object) -> bool:
        seen.append((estimate, error, bounds))
        return True

    monkeypatch.setattr(normal, "bernoulli_exp_real", spy)
    for _ in range(20):
        x = normal._Uniform()
        normal._keep(x, whole)
        estimate, error, bounds = seen.pop()
        for precision in (64, 192, 448, 300):
            lower, upper = bounds(precision)
            known = Fraction(x.digits, 1 << x.known)
            beyond = known + Fraction(1, 1 << x.known)
            exact = [value * (2 * whole + value) / 2 for value in (known, beyond)]
            assert Fraction(lower, 1 << precision) <= exact[0] < exact[1] <= Fraction(upper, 1 << precision)
            assert upper - lower <= 4
            assert all(abs(Fraction(estimate) - value) <= Fraction(error) for value in exact)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_no_bit_is_shared_by_threads_or_forked_children() -> None:
    noise = RoundedNormal(dimension=200, sd=Fraction(2) ** 60, grid=Fraction(1))
    with ThreadPoolExecutor(4) as pool:
        draws = [z for draw in pool.map(lambda _: noise.draw(), range(4)) for z in draw]
    assert len(set(draws)) == 800
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(noise.draw()[0]).encode())
        os._exit(0)
    here = noise.draw()
    os.waitpid(child, 0)
    assert int(os.read(reader, 100)) not in here


def test_a_release_cannot_be_repeated() -> None:
    noise = RoundedNormal(dimension=1, sd=Fraction(2) ** 100, grid=Fraction(1))
    assert noise.draw() != noise.draw()
    assert math.isfinite(float(noise.draw()[0]))

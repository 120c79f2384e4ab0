"""The distribution of a sampler, from all outcomes of its coins."""

import math
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.audit.laws import Law, law, law_of_below
from hdpstats.noise import discrete, exact, normal

ROOT = math.sqrt(2)


def close(found: Law, wanted: dict) -> bool:
    return found.masses.keys() == wanted.keys() and all(
        abs(found.masses[outcome] - mass) < 1e-14 for outcome, mass in wanted.items()
    )


def test_a_uniform_number_has_its_values_alike_and_a_biased_reduction_has_not() -> None:
    assert close(law_of_below(6), dict.fromkeys(range(6), 1 / 6))
    biased = law(lambda: exact.bits(4) % 6)
    assert close(biased, {value: (3 if value < 4 else 2) / 16 for value in range(6)})


@pytest.mark.parametrize(
    ("throw", "probability"),
    [
        (discrete.bernoulli_exp_one, math.exp(-1)),
        (normal._half_coin, math.exp(-0.5)),
        (lambda: discrete.bernoulli_exp(7, 3), math.exp(-7 / 3)),
        (lambda: discrete.bernoulli_exp_real(ROOT, 2.0**-50, lambda p: discrete.root_bounds(2, p)), math.exp(-ROOT)),
    ],
)
def test_a_coin_shows_heads_with_its_probability(throw, probability: float) -> None:
    assert close(law(throw), {True: probability, False: 1 - probability})


def test_a_comparison_that_doubles_cannot_decide_is_followed_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete, "decide_in_doubles", lambda *_: None)
    x = math.sqrt(13) / 2
    found = law(lambda: discrete.bernoulli_exp_roots(x, x, ((Fraction(1, 2), 13),)))
    assert close(found, {True: math.exp(-x), False: 1 - math.exp(-x)})


def test_a_loop_that_rejects_is_followed_once() -> None:
    found = law(lambda: discrete.geometric(2, 3), loop=discrete.geometric)
    q = math.exp(-2 / 3)
    assert all(abs(found.masses[y] / ((1 - q) * q**y) - 1) < 1e-9 for y in range(20))
    assert found.missing < 1e-12


def test_a_value_that_has_too_many_values_is_refused() -> None:
    with pytest.raises(ArgumentError, match="shorter rates"):
        law(lambda: int(exact.bits(64)))
    assert isinstance(exact.bits(8), int)

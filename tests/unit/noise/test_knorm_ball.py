"""The record of ball noise: its halves, its arguments, its extremes. Its distribution is tested in tests/privacy."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import BallNoise, knorm
from hdpstats.noise.discrete import bernoulli_exp_roots, root_sum_bounds
from hdpstats.noise.knorm import _draw, _halve, _Leaf, _Node

Terms = Sequence[tuple[Fraction, int]]


def nodes(node: _Leaf | _Node) -> list[_Node]:
    return [] if isinstance(node, _Leaf) else [node, *nodes(node.first), *nodes(node.second)]


def leaves(node: _Leaf | _Node) -> list[_Leaf]:
    return [node] if isinstance(node, _Leaf) else leaves(node.first) + leaves(node.second)


@pytest.mark.parametrize("dimension", [2, 3, 7, 50])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(10**9, 7), Fraction(1, 2**200), Fraction(2**200)])
def test_rates_of_halves_meet_the_condition_of_the_proof_and_waste_little(dimension: int, rate: Fraction) -> None:
    tree = _halve(dimension, rate)
    assert len(leaves(tree)) == dimension
    for node in nodes(tree):
        squares = node.first.rate**2 + node.second.rate**2
        assert squares <= node.rate**2
        assert squares >= node.rate**2 * (1 - Fraction(1, 2**29))
        share = Fraction(len(leaves(node.first)), len(leaves(node)))
        assert abs(node.first.rate**2 / node.rate**2 - share) < Fraction(1, 2**29)


@pytest.mark.parametrize("dimension", [2, 3, 5, 12])
@pytest.mark.parametrize("rate", [Fraction(1, 2**22), Fraction(5, 7)])
def test_every_coin_gets_the_exponent_of_the_proof(
    dimension: int, rate: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    tosses: list[tuple[float, float, Terms]] = []

    def recording(estimate: float, magnitude: float, terms: Terms) -> bool:
        tosses.append((estimate, magnitude, terms))
        return bernoulli_exp_roots(estimate, magnitude, terms)

    monkeypatch.setattr(knorm, "bernoulli_exp_roots", recording)
    noise = BallNoise(dimension=dimension, rate=rate)
    merges = {(node.rate, -node.first.rate, -node.second.rate) for node in nodes(noise._root)}
    for _ in range(40):
        noise.draw()
    assert {tuple(rate for rate, _ in terms) for _, _, terms in tosses} == merges
    for estimate, magnitude, terms in tosses:
        (_, whole), (_, first), (_, second) = terms
        assert whole == first + second
        low, high = root_sum_bounds(terms, 200)
        error = Fraction(magnitude) / 2**48 + Fraction(1, 2**60)
        assert high >= 0
        assert Fraction(estimate) - error <= Fraction(low, 2**200) <= Fraction(high, 2**200)
        assert Fraction(high, 2**200) <= Fraction(estimate) + error


@pytest.mark.parametrize("dimension", [1, 2, 5, 33])
@pytest.mark.parametrize("rate", [Fraction(1, 2**256), Fraction(1, 10**20), Fraction(1), Fraction(2**256)])
def test_draws_are_integers_at_any_rate(dimension: int, rate: Fraction) -> None:
    noise = BallNoise(dimension=dimension, rate=rate)
    z, square = _draw(noise._root)
    assert len(z) == dimension
    assert all(type(coordinate) is int for coordinate in z)
    assert square == sum(coordinate**2 for coordinate in z)
    assert len(noise.draw()) == dimension


def test_record_is_frozen_compares_by_its_distribution_and_shows_it() -> None:
    noise = BallNoise(dimension=3, rate=Fraction(1, 2))
    assert noise == BallNoise(dimension=3, rate=Fraction(2, 4))
    assert hash(noise) == hash(BallNoise(dimension=3, rate=Fraction(1, 2)))
    assert noise != BallNoise(dimension=4, rate=Fraction(1, 2))
    assert repr(noise) == "BallNoise(dimension=3, rate=Fraction(1, 2))"
    with pytest.raises(FrozenInstanceError):
        noise.rate = Fraction(1)  # type: ignore[misc]


@pytest.mark.parametrize("dimension", [0, -1, 2.5, "3", None, 100_001])
def test_dimensions_that_are_none_are_refused(dimension: object) -> None:
    with pytest.raises(ArgumentError, match="dimension"):
        BallNoise(dimension=dimension, rate=Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0.5, 0, Fraction(-1), Fraction(1, 2**257)])
def test_rates_that_are_none_are_refused(rate: object) -> None:
    with pytest.raises(ArgumentError, match="rate"):
        BallNoise(dimension=2, rate=rate)  # type: ignore[arg-type]

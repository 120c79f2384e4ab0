"""The record of cylinder noise: its proposals, its arguments. Its distribution is tested in tests/privacy."""

from collections.abc import Sequence
from fractions import Fraction

import mpmath
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import CylinderNoise, TwoSidedGeometric, knorm
from hdpstats.noise.discrete import bernoulli_exp_roots, root_sum_bounds
from hdpstats.noise.knorm import _propose

DECLARED = {
    "dimension": 4,
    "rate": Fraction(1, 3),
    "radius": Fraction(3, 2),
    "grid_axis": Fraction(1, 8),
    "grid_ball": Fraction(1, 16),
}


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("dimension", [2, 3, 11])
@pytest.mark.parametrize("per_v", [Fraction(1, 7), Fraction(3), Fraction(10**12), Fraction(1, 10**12)])
def test_proposals_meet_the_condition_of_the_proof(dimension: int, per_v: Fraction) -> None:
    per_t = Fraction(2, 3)
    plan = _propose(dimension, per_t, per_v)
    assert plan.axis.rate / per_t + plan.ball.rate / per_v <= 1
    assert plan.axis.rate / per_t + plan.ball.rate / per_v >= 1 - Fraction(1, 2**30)
    assert plan.end.axis == per_t - plan.axis.rate > 0 > plan.end.ball == -plan.ball.rate
    assert plan.side.ball == per_v - plan.ball.rate > 0 > plan.side.axis == -plan.axis.rate
    assert Fraction(plan.t_weight, plan.v_weight) == (per_t / per_v) ** 2


@pytest.mark.parametrize("dimension", [2, 3, 6])
@pytest.mark.parametrize("radius", [Fraction(1, 3), Fraction(2)])
def test_every_coin_gets_the_exponent_of_the_proof(
    dimension: int, radius: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    tosses: list[tuple[float, float, Sequence[tuple[Fraction, int]]]] = []

    def recording(estimate: float, magnitude: float, terms: Sequence[tuple[Fraction, int]]) -> bool:
        if len(terms) == 2:  # those of the ball within have three
            tosses.append((estimate, magnitude, terms))
        return bernoulli_exp_roots(estimate, magnitude, terms)

    monkeypatch.setattr(knorm, "bernoulli_exp_roots", recording)
    noise = CylinderNoise(**{**DECLARED, "dimension": dimension, "radius": radius})
    per_t, per_v = noise.rate * noise.grid_axis, noise.rate * noise.grid_ball / radius
    plan = _propose(dimension, per_t, per_v)
    for _ in range(100):
        noise.draw()
    assert len({terms[0][0] for _, _, terms in tosses}) == 2
    with mpmath.workprec(300):
        for estimate, magnitude, ((_, t_square), (_, v_square)) in tosses:
            t, v = mpmath.sqrt(t_square), mpmath.sqrt(v_square)
            largest = max(real(per_t) * t, real(per_v) * v)
            exponent = largest - real(plan.axis.rate) * t - real(plan.ball.rate) * v
            assert exponent >= -(mpmath.mpf(2) ** -250)
            assert abs(exponent - estimate) <= mpmath.mpf(magnitude) / 2**48 + mpmath.mpf(2) ** -60


def test_integers_and_doubles_of_a_coin_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, float, Sequence[tuple[Fraction, int]]]] = []
    monkeypatch.setattr(knorm, "bernoulli_exp_roots", lambda *coin: told.append(coin) or True)
    noise = CylinderNoise(**DECLARED)
    for _ in range(200):
        noise.draw()
    for estimate, magnitude, terms in told:
        low, high = root_sum_bounds(terms, 200)
        error = Fraction(magnitude) / 2**48 + Fraction(1, 2**60)
        assert Fraction(estimate) - error <= Fraction(low, 2**200)
        assert Fraction(high, 2**200) <= Fraction(estimate) + error


def test_draws_are_integers() -> None:
    noise = CylinderNoise(**DECLARED)
    for _ in range(20):
        z = noise.draw()
        assert len(z) == 4
        assert all(type(coordinate) is int for coordinate in z)


def test_one_dimension_is_the_discrete_laplace_distribution_itself() -> None:
    noise = CylinderNoise(**{**DECLARED, "dimension": 1})
    assert noise._proposals == TwoSidedGeometric(rate=Fraction(1, 24))
    assert len(noise.draw()) == 1


@pytest.mark.parametrize("radius", [Fraction(1, 2**100), Fraction(2**100)])
def test_extreme_radii_draw_and_do_not_raise(radius: Fraction) -> None:
    noise = CylinderNoise(**{**DECLARED, "radius": radius})
    assert all(len(noise.draw()) == 4 for _ in range(20))


def test_record_compares_by_its_distribution_and_shows_it() -> None:
    noise = CylinderNoise(**DECLARED)
    assert noise == CylinderNoise(**DECLARED)
    assert noise != CylinderNoise(**{**DECLARED, "radius": Fraction(1)})
    assert repr(noise).startswith("CylinderNoise(dimension=4, rate=Fraction(1, 3), radius=Fraction(3, 2), grid")
    assert "_proposals" not in repr(noise)


@pytest.mark.parametrize("name", ["dimension", "rate", "radius", "grid_axis", "grid_ball"])
@pytest.mark.parametrize("value", [0, -1, 0.5, "1", None])
def test_arguments_that_are_none_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must be"):
        CylinderNoise(**{**DECLARED, name: value})


def test_products_out_of_range_are_refused() -> None:
    small = Fraction(1, 2**200)
    with pytest.raises(ArgumentError, match="rescale"):
        CylinderNoise(**{**DECLARED, "rate": small, "grid_axis": small})

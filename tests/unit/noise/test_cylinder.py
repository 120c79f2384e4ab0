"""The record of cylinder noise: its proposals, its arguments. Its law is tested in tests/privacy."""

from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import CylinderNoise, TwoSidedGeometric
from hdpstats.noise.cylinder import _propose

DECLARED = {
    "dimension": 4,
    "rate": Fraction(1, 3),
    "radius": Fraction(3, 2),
    "grid_axis": Fraction(1, 8),
    "grid_ball": Fraction(1, 16),
}


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


def test_draws_are_integers() -> None:
    noise = CylinderNoise(**DECLARED)
    for _ in range(20):
        z = noise.draw()
        assert len(z) == 4
        assert all(type(coordinate) is int for coordinate in z)


def test_one_dimension_is_the_discrete_laplace_law_itself() -> None:
    noise = CylinderNoise(**{**DECLARED, "dimension": 1})
    assert noise._proposals == TwoSidedGeometric(rate=Fraction(1, 24))
    assert len(noise.draw()) == 1


@pytest.mark.parametrize("radius", [Fraction(1, 2**100), Fraction(2**100)])
def test_extreme_radii_draw_and_do_not_raise(radius: Fraction) -> None:
    noise = CylinderNoise(**{**DECLARED, "radius": radius})
    assert all(len(noise.draw()) == 4 for _ in range(20))


def test_record_compares_by_its_law_and_shows_it() -> None:
    noise = CylinderNoise(**DECLARED)
    assert noise == CylinderNoise(**DECLARED)
    assert noise != CylinderNoise(**{**DECLARED, "radius": Fraction(1)})
    assert repr(noise).startswith(
        "CylinderNoise(dimension=4, rate=Fraction(1, 3), radius=Fraction(3, 2), grid"
    )
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

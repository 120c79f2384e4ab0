"""What releases are charged: on a grain, at least a floor, never less than the proof says."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import ArgumentError
from hdpstats.privacy.budget import DELTA_GRAIN, EPSILON_GRAIN, Budget, Spend, release_delta, release_epsilon
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, Floor, agreed, shared, square_of
from hdpstats.privacy.gaussian import delta_of_square, mu_of
from hdpstats.records.several import in_parts
from tests.examples import examples

TOTAL = Budget(3, 1e-6)
FLOOR = Floor.of(TOTAL)
amounts = st.fractions(min_value=0, max_value=2, max_denominator=10**30)


@examples(200)
@given(epsilon=amounts, delta=st.fractions(min_value=0, max_value=Fraction(1, 2)), mu_squared=amounts)
def test_a_charge_is_no_less_than_the_cost_and_has_few_digits(epsilon, delta, mu_squared):
    cost = Spend(epsilon, delta, mu_squared)
    charged = FLOOR.charged(cost)
    assert charged.epsilon >= cost.epsilon
    assert charged.delta >= cost.delta
    assert charged.mu_squared >= cost.mu_squared
    grains = (EPSILON_GRAIN, DELTA_GRAIN, MU_SQUARED_GRAIN)
    parts = (charged.epsilon, charged.delta, charged.mu_squared)
    assert all((part / grain).denominator == 1 for part, grain in zip(parts, grains, strict=True))
    assert charged.epsilon >= FLOOR.epsilon or charged.mu_squared >= FLOOR.mu_squared
    assert FLOOR.charged(charged) == charged
    assert FLOOR.admits(charged)


def test_what_is_on_the_grain_and_above_the_floor_is_charged_as_it_is():
    for cost in (Spend(1), Spend(0.1, 1e-6), Spend(0, 0, square_of(Fraction(1, 2), Fraction(1, 10**6)))):
        assert FLOOR.charged(cost) == cost
    assert FLOOR.charged(Spend(Fraction(1, 3))).epsilon == Fraction(333333334, 10**9)
    assert FLOOR.charged(Spend(Fraction(1, 10**6))) == Spend(Fraction(1, 10**4))


@pytest.mark.parametrize("total", [Budget(1, 1e-6), Budget(8, 1e-9), Budget(Fraction(1, 10), 1e-3)])
def test_an_account_takes_no_more_gaussian_releases_than_others(total):
    """Wrong constants: with the floor of a total ten times smaller, ten times as many would fit."""
    floor = Floor.of(total)
    most = total.epsilon / floor.epsilon
    assert delta_of_square(total.epsilon, floor.mu_squared * (most + 1)) > total.delta
    assert delta_of_square(total.epsilon, floor.mu_squared * most * Fraction(99, 100)) <= total.delta


def test_a_floor_is_above_0_and_within_the_total():
    assert Floor.of(Budget(Fraction(1, 10**5))).epsilon == Fraction(1, 10**5)
    assert Floor.of(Budget(1), 0.5).epsilon == Fraction(1, 2)
    for wrong in (0, -1, 1.5):
        with pytest.raises(ArgumentError, match="floor must be above 0"):
            Floor.of(Budget(1), wrong)


def test_amounts_that_a_custodian_sets_have_few_digits():
    assert agreed(Budget(Fraction(1, 3), Fraction(1, 3 * 10**6)), name="x").epsilon == Fraction(333333333, 10**9)
    for wrong in (Budget(Fraction(1, 10**10)), Budget(10**13)):
        with pytest.raises(ArgumentError, match="x must have an epsilon"):
            agreed(wrong, name="x")


def test_a_release_is_asked_for_on_the_grain():
    """So a third of the total can be had three times."""
    third = release_epsilon(Fraction(1, 3))
    assert FLOOR.charged(Spend(third)).epsilon == third == Fraction(333333333, 10**9)
    assert release_delta(Fraction(1, 3)) <= Fraction(1, 3)
    with pytest.raises(ArgumentError, match="at least 1e-30"):
        release_delta(1e-31)


@pytest.mark.parametrize("parts", [(1,), (1, 1, 1), (1, 3, 6), (2, 8)])
def test_parts_of_a_fit_add_up_and_are_charged_as_they_are(parts):
    for whole, grain in ((Fraction(1), EPSILON_GRAIN), (square_of(Fraction(1), Fraction(1, 10**6)), MU_SQUARED_GRAIN)):
        found = shared(whole, parts, grain)
        assert sum(found) == whole
        assert all((part / grain).denominator == 1 for part in found)
    assert square_of(Fraction(1), Fraction(1, 10**6)) <= mu_of(Fraction(1), Fraction(1, 10**6)) ** 2


@examples(200)
@given(costs=st.lists(st.integers(1, 400), min_size=1, max_size=6).map(sorted), least=st.integers(1, 300))
def test_rounds_known_by_their_sum_alone_are_charged_no_less_than_they_will_be(costs, least):
    floor = Floor(epsilon=least * EPSILON_GRAIN, mu_squared=MU_SQUARED_GRAIN)
    rounds = [Spend(cost * EPSILON_GRAIN) for cost in costs]
    parts = in_parts(sum((each.epsilon for each in rounds[1:]), Fraction(0)), rounds[0].epsilon)
    assert sum(parts, Fraction(0)) == sum((each.epsilon for each in rounds[1:]), Fraction(0))
    foreseen = floor.charged_together(Spend(part) for part in parts)
    assert foreseen.epsilon >= floor.charged_together(rounds[1:]).epsilon
    if costs[0] >= least:
        assert foreseen.epsilon == sum(costs[1:]) * EPSILON_GRAIN

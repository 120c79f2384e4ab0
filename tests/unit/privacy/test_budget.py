"""Budgets, spends, events, guarantees, sensitivities: exact records."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError, BudgetError, MechanismError
from hdpstats.privacy.budget import (
    Budget,
    Guarantee,
    MechanismName,
    PrivacyEvent,
    Spend,
    decimal,
    guarantee,
    over_data_sets,
    over_sites,
    release_epsilon,
    total,
)
from hdpstats.privacy.composition import Balance
from hdpstats.privacy.gaussian import epsilon_of, mu_of
from hdpstats.privacy.sensitivity import BallNorm, CylinderNorm, Relation, Sensitivity
from hdpstats.records.codec import from_dict, to_dict

EVENTS = (
    PrivacyEvent(ran=MechanismName.OBJECTIVE, epsilon=Fraction(849, 1000)),
    PrivacyEvent(ran=MechanismName.SMOOTHING, epsilon=Fraction(1, 1000)),
    PrivacyEvent(ran=MechanismName.HESSIAN, epsilon=Fraction(15, 100), delta=Fraction(1, 10**7)),
)


def test_ten_tenths_are_one() -> None:
    spent = Spend(0.0)
    for _ in range(10):
        spent = spent + Spend(0.1)
    assert spent.epsilon == 1


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, True, "1", None, 1j])
def test_a_budget_is_positive(epsilon: object) -> None:
    with pytest.raises(ArgumentError):
        Budget(epsilon=epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1, math.nan, "0"])
def test_a_delta_is_below_one(delta: object) -> None:
    with pytest.raises(ArgumentError):
        Budget(epsilon=1, delta=delta)


def test_deltas_add_up_beyond_one_and_no_account_affords_them() -> None:
    together = Spend(1, 0.6) + Spend(1, 0.6)
    assert together.delta == Fraction(6, 5)
    assert not Balance(total=Budget(10, 0.9)).divided_for(together).affords(together)


def test_a_spend_is_not_negative() -> None:
    for amounts in ((-0.1,), (1, -1e-9), (1, 0, -1)):
        with pytest.raises(ArgumentError):
            Spend(*amounts)


def test_sums_keep_gaussian_parts_apart_and_remember_the_widest_guarantee() -> None:
    one = Spend(1, 1e-7, Fraction(1, 20), Budget(1, 1e-6))
    other = Spend(0.5, 0, Fraction(1, 30), Budget(2, 1e-8))
    both = one + other + Spend(0.25)
    assert both == Spend(1.75, 1e-7, Fraction(1, 12))
    assert both.asked == Budget(2, 1e-6)
    assert str(both) == "epsilon = 1.75, delta = 1e-07, mu = 0.288675"
    assert (Spend(1) + Spend(2)).asked is None


def test_one_release_has_limits() -> None:
    assert release_epsilon(0.1) == Fraction(1, 10)
    assert release_epsilon(50) == 50
    assert release_epsilon(51, allow_large_epsilon=True) == 51
    with pytest.raises(BudgetError, match="allow_large_epsilon"):
        release_epsilon(50.001)
    for wrong in (0, -1, 1e-7, math.nan, math.inf, True, "1"):
        with pytest.raises(ArgumentError):
            release_epsilon(wrong, allow_large_epsilon=True)
    with pytest.raises(ArgumentError, match="1e6"):
        release_epsilon(2e6, allow_large_epsilon=True)


def test_events_add_up_and_become_a_guarantee() -> None:
    assert total(EVENTS) == Spend(1, Fraction(1, 10**7))
    assert total(()) == Spend(0)
    stated = guarantee(EVENTS, relation=Relation.REPLACE_ONE)
    assert (stated.epsilon, stated.delta, stated.unit) == (1, Fraction(1, 10**7), "person")
    assert "(1, 1e-07)-differentially private" in stated.statement()


MU = mu_of(Fraction(1), Fraction(1, 10**6))
ROUND = PrivacyEvent(ran=MechanismName.GRADIENT, epsilon=Fraction(1), delta=Fraction(1, 10**6), mu_squared=MU**2 / 4)
COUNT = PrivacyEvent(ran=MechanismName.COUNT, epsilon=Fraction(1, 50))


def test_the_rounds_of_a_fit_have_the_guarantee_that_the_fit_was_asked() -> None:
    assert total([ROUND] * 4) == Spend(0, 0, MU**2)
    stated = guarantee([COUNT, *[ROUND] * 4], relation=Relation.ADD_OR_REMOVE_ONE)
    assert (stated.epsilon, stated.delta) == (Fraction(51, 50), Fraction(1, 10**6))
    assert str(stated) == "(1.02, 1e-06)-differential privacy"
    assert "plus an additional probability of at most 1e-06" in stated.statement()


def test_more_rounds_than_were_asked_for_have_a_weaker_guarantee() -> None:
    stated = guarantee([ROUND] * 5, relation=Relation.REPLACE_ONE)
    assert stated.epsilon == epsilon_of(Fraction(1, 10**6), MU**2 * 5 / 4)
    assert 1.05 < stated.epsilon < 1.25


def test_a_gaussian_event_cannot_claim_more_than_its_mu_implies() -> None:
    for changes in ({"mu_squared": MU**2 * (1 + Fraction(1, 10**9))}, {"delta": Fraction(0)}, {"epsilon": Fraction(0)}):
        with pytest.raises(MechanismError, match="does not imply"):
            replace(ROUND, **({"mu_squared": MU**2} | changes))
    assert replace(ROUND, mu_squared=MU**2).cost == Spend(0, 0, MU**2)
    assert str(ROUND) == "noisy gradient sum (Gaussian), mu = 0.118352"
    assert str(EVENTS[2]).endswith("coefficients, epsilon = 0.15, delta = 1e-07")


def test_a_statement_speaks_of_all_rows_of_a_person() -> None:
    stated = guarantee([COUNT], relation=Relation.REPLACE_ONE, unit="patient", most_rows=5)
    assert stated.protected == "one patient (at most 5 rows)"
    assert "The protected unit is one patient, with at most 5 rows: " in stated.statement()
    assert "all rows of one patient are exchanged for those of any other patient" in stated.statement()
    assert "their number is not public" in replace(stated, relation=Relation.ADD_OR_REMOVE_ONE).statement()
    assert replace(stated, most_rows=1).protected == "one patient"


def test_a_statement_speaks_of_all_rows_of_a_person_of_whom_one_is_used() -> None:
    # Fails where one row used is taken for one row that somebody has, whose number would be public.
    stated = guarantee([COUNT], relation=Relation.REPLACE_ONE, unit="patient", of_all_rows=True)
    assert stated.protected == "one patient (all rows, of which one is used)"
    assert (
        "The protected unit is one patient, with all rows, of which one is used: data sets are neighbours when all "
        "rows of one patient are exchanged for those of any other patient; how many rows these are is protected too."
    ) in stated.statement()
    assert from_dict(Guarantee, to_dict(stated)) == stated
    added = replace(stated, relation=Relation.ADD_OR_REMOVE_ONE)
    assert "all rows of one patient are added or taken away" in added.statement()
    alone = guarantee([COUNT], relation=Relation.REPLACE_ONE, unit="patient")
    several = guarantee([COUNT], relation=Relation.REPLACE_ONE, unit="patient", most_rows=5, of_all_rows=True)
    assert several == guarantee([COUNT], relation=Relation.REPLACE_ONE, unit="patient", most_rows=5)
    for each in (alone, several):  # files hold what they held
        assert "all_rows" not in to_dict(each)
    for pair in ((alone, stated), (stated, alone)):
        assert over_sites(pair).is_of_all_rows
        assert over_data_sets([(frozenset({"a"}), pair[0]), (frozenset({"b"}), pair[1])]).is_of_all_rows
    assert over_sites([stated, several]).protected == "one patient (at most 5 rows), at one of 2 sites only"
    assert not over_sites([alone, alone]).is_of_all_rows


def test_a_statement_tells_the_factor() -> None:
    pure = Guarantee(epsilon=Fraction(1, 2), delta=Fraction(0), relation=Relation.REPLACE_ONE, unit="person")
    assert f"{math.exp(0.5):.4g}" in pure.statement()
    assert "one person's record is exchanged for any other; their size is public" in pure.statement()
    assert str(pure) == "0.5-differential privacy (pure)"
    huge = Guarantee(epsilon=Fraction(10**6), delta=Fraction(0), relation=Relation.ADD_OR_REMOVE_ONE, unit="person")
    assert "added or taken away" in huge.statement()


def test_records_survive_a_round_trip() -> None:
    for event in (*EVENTS, ROUND):
        assert from_dict(PrivacyEvent, to_dict(event)) == event
    stated = guarantee(EVENTS, relation=Relation.REPLACE_ONE, most_rows=3)
    assert from_dict(Guarantee, to_dict(stated)) == stated
    with pytest.raises(ArgumentError):
        from_dict(PrivacyEvent, to_dict(EVENTS[0]) | {"epsilon": "one"})
    with pytest.raises(ValueError, match="ran of PrivacyEvent must be one of"):
        from_dict(PrivacyEvent, to_dict(EVENTS[0]) | {"ran": "magic"})


def test_a_sensitivity_is_positive() -> None:
    for norm in (BallNorm(), CylinderNorm(radius=Fraction(2))):
        assert Sensitivity(value=Fraction(2), norm=norm, relation=Relation.REPLACE_ONE).norm is norm
        with pytest.raises(MechanismError):
            Sensitivity(value=Fraction(0), norm=norm, relation=Relation.REPLACE_ONE)


def test_fractions_are_written_as_a_person_would() -> None:
    assert [decimal(value) for value in (Fraction(3), Fraction(1, 10), Fraction(1, 3), Fraction(1, 10**6))] == [
        "3",
        "0.1",
        "0.333333333333",
        "1e-06",
    ]


def promised(epsilon, delta, most_rows=1):
    return Guarantee(
        epsilon=Fraction(epsilon), delta=Fraction(delta), relation=Relation.REPLACE_ONE, unit="person",
        most_rows=most_rows,
    )  # fmt: skip


def test_the_guarantee_is_the_largest_epsilon_and_the_largest_delta_of_any_site():
    # One site may be pure where another uses its delta. Fails for sums, least numbers, and for the first site's own.
    sites = [promised(1, 0, 3), promised("1/2", "1/1000000"), promised(2, 0), promised("1/4", "1/1000")]
    for order in (sites, sites[::-1]):
        found = over_sites(order)
        assert (found.epsilon, found.delta, found.most_rows, found.sites) == (2, Fraction(1, 1000), 3, 4)


def test_one_site_has_its_own_guarantee():
    assert over_sites([promised(1, "1/10")]) == promised(1, "1/10")

"""Gaussian releases on a ledger: charged by their mu, in a part of the account that is set aside once."""

import json
import math
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError, InsufficientBudget, LedgerError
from hdpstats.ledger import Ledger, verify_file
from hdpstats.privacy.budget import Budget, Spend, rounded_down
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, shared, square_of

MILLIONTH = Fraction(1, 10**6)
MU_SQUARED = square_of(Fraction(1), MILLIONTH)
ONE = Spend(0, 0, MU_SQUARED, Budget(1, 1e-6))
"""A Gaussian release that was asked for (1, 1e-6)."""


@pytest.fixture
def mixed(path, request_for, cost):
    """Entries: open, charge (pure), divide, charge (Gaussian), release, charge (Gaussian)."""
    ledger = Ledger(path, dataset="trial", epsilon=4, delta=1e-6)
    ledger.charge(request_for(1), cost("0.5"))
    ledger.persist(ledger.charge(request_for(2), ONE), "{}")
    ledger.charge(request_for(3), ONE)
    return path


def test_gaussian_releases_share_a_part_and_the_others_the_rest(mixed, request_for, cost):
    ledger = Ledger(mixed, dataset="trial", epsilon=4, delta=1e-6)
    part = ledger.balance.gaussian
    assert part == Budget(Fraction(9, 4), MILLIONTH)
    assert ledger.balance.charged == Spend(Fraction(1, 2), 0, 2 * MU_SQUARED)
    assert ledger.spent.epsilon == Fraction(1, 2) + part.epsilon
    assert ledger.spent.delta == MILLIONTH
    assert ledger.remaining == cost("1.25")
    with pytest.raises(InsufficientBudget, match=r"has \(epsilon = 1.25, .* set aside for Gaussian noise") as caught:
        ledger.charge(request_for(4), cost("1.5"))
    assert (caught.value.requested, caught.value.remaining) == (cost("1.5"), cost("1.25"))
    with pytest.raises(InsufficientBudget, match=r"mu = .* to keep .* used of the .*2\.25.*set aside for Gaussian"):
        ledger.charge(request_for(4), Spend(0, 0, 4 * MU_SQUARED, Budget(2, 1e-6)))
    assert ledger.affords(cost("1.25"))
    assert not ledger.affords(cost("1.5"))
    ledger.charge(request_for(4), cost("1.25"))
    ledger.charge(request_for(5), Spend(0, 0, rounded_down(ledger.balance.gaussian_remaining, MU_SQUARED_GRAIN)))
    assert ledger.remaining == cost(0)
    assert ledger.balance.gaussian_remaining < MU_SQUARED_GRAIN
    assert ledger.spent.epsilon <= 4


def test_what_was_charged_is_charged_once_and_at_its_cost(mixed, request_for):
    ledger = Ledger.open_existing(mixed)
    before = ledger.head
    assert ledger.charge(request_for(3), ONE).cost == ONE
    with pytest.raises(LedgerError, match=r"was charged \(mu = 0\.236704\) before"):
        ledger.charge(request_for(3), Spend(0, 0, MU_SQUARED / 2))
    assert ledger.stored(request_for(2).id).release_json == "{}"
    assert ledger.head == before


def test_an_account_without_a_delta_refuses_gaussian_noise(path, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=3)
    with pytest.raises(InsufficientBudget, match=r"pure guarantee, since Gaussian noise needs an account with a delta"):
        ledger.charge(request_for(1), ONE)
    assert ledger.verify().entries == 1


def test_a_refused_first_gaussian_release_divides_nothing(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3, delta=1e-7)
    with pytest.raises(InsufficientBudget, match=r"to keep \(epsilon = 1, delta = 1e-06\)"):
        ledger.charge(request_for(1), ONE)
    assert ledger.balance.gaussian is None
    ledger.charge(request_for(1), cost(3, "1e-7"))


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_a_fit_of_several_rounds_fits_where_its_guarantee_fits(request_for, rounds):
    ledger = Ledger(None, dataset="trial", epsilon=1, delta=1e-6)
    for number, part in enumerate(shared(MU_SQUARED, [1] * rounds, MU_SQUARED_GRAIN)):
        ledger.charge(request_for(number + 1), Spend(0, 0, part, ONE.asked))
    assert ledger.balance.charged.mu_squared == MU_SQUARED
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(9), Spend(0, 0, Fraction(1, 10**9)))


def test_a_declared_part_is_kept_and_agreed_once(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=4, delta=1e-6, gaussian=Budget(1, 1e-6))
    assert ledger.verify().entries == 2
    assert ledger.remaining == cost(3)
    ledger.charge(request_for(1), ONE)
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(2), ONE)
    terms = {"dataset": "trial", "epsilon": 4, "delta": 1e-6}
    assert Ledger(path, **terms).balance == ledger.balance
    assert Ledger(path, **terms, gaussian=Budget(1, 1e-6)).balance == ledger.balance
    with pytest.raises(LedgerError, match="cannot be divided anew"):
        Ledger(path, **terms, gaussian=Budget(2, 1e-6))
    other = {**terms, "dataset": "undivided"}
    Ledger(path, **other)
    with pytest.raises(LedgerError, match="is not divided"):
        Ledger(path, **other, gaussian=Budget(2, 1e-6))


@pytest.mark.parametrize("gaussian", [2, (1, 1e-6), Budget(5, 1e-6), Budget(1), Budget(1, 1e-5), Spend(1, 1e-6)])
def test_a_malformed_part_is_refused_before_a_file_exists(path, gaussian):
    with pytest.raises(ArgumentError, match=r"gaussian|set aside"):
        Ledger(path, dataset="trial", epsilon=4, delta=1e-6, gaussian=gaussian)
    assert not path.exists()


def test_history_table_and_export_show_both_kinds(mixed, tmp_path):
    ledger = Ledger.open_existing(mixed)
    history = ledger.history()
    assert list(history["epsilon"]) == [0.5, 0, 0]
    assert list(history["mu"]) == [0, *[math.sqrt(MU_SQUARED)] * 2]
    table = str(ledger).splitlines()
    assert table[4].split() == ["remaining", "1.25", "0"]
    assert table[5] == (
        "for Gaussian noise: epsilon = 2.25, delta = 1e-06 set aside, spent, all of it (mu = 0.334751 used of 0.499175)"
    )
    assert table[6] == "3 charges, relation replace_one"
    ledger.export(tmp_path / "trial.json")
    document = json.loads((tmp_path / "trial.json").read_text(encoding="utf-8"))
    assert document["gaussian"]["set_aside"] == {"epsilon": "9/4", "delta": "1/1000000"}
    assert Fraction(document["gaussian"]["mu_squared"]) == 2 * MU_SQUARED
    spent = {name: Fraction(value) for name, value in document["gaussian"]["spent"].items()}
    assert spent == {"epsilon": Fraction(9, 4), "delta": Fraction(1, 10**6)}
    assert Fraction(document["spent"]["epsilon"]) == spent["epsilon"] + Fraction(1, 2)
    assert [entry["kind"] for entry in document["entries"]] == [
        "open",
        "charge",
        "divide",
        "charge",
        "release",
        "charge",
    ]


@pytest.mark.parametrize(
    ("statement", "entry", "reason"),
    [
        ("UPDATE entry SET mu_squared = '100' WHERE seq = 6", 6, "exceeds"),
        ("UPDATE entry SET mu_squared = '0' WHERE seq = 6", 6, "nothing"),
        ("UPDATE entry SET mu_squared = '-1' WHERE seq = 6", 6, "make no sense"),
        ("UPDATE entry SET mu_squared = '1/100', epsilon = '2' WHERE seq = 6", 6, "exceeds"),
        ("UPDATE entry SET epsilon = '15/4' WHERE seq = 3", 3, "make no sense"),
        ("UPDATE entry SET delta = '0' WHERE seq = 3", 3, "make no sense"),
        ("UPDATE entry SET epsilon = '1/10' WHERE seq = 3", 4, "exceeds"),
        ("UPDATE entry SET dataset = 'nobody' WHERE seq = 3", 3, "'divide' cannot stand here"),
        ("UPDATE entry SET kind = 'divide', epsilon = '1', delta = '1/10000000' WHERE seq = 4", 4, "divided before"),
    ],
)
def test_a_rewritten_chain_keeps_to_its_division(mixed, sql, rehash, statement, entry, reason):
    sql(mixed, statement)
    with pytest.raises(LedgerError, match=f"at entry {entry if 'dataset' in statement else ''}"):
        verify_file(mixed)
    rehash(mixed)
    with pytest.raises(LedgerError, match=f"at entry {entry}: .*{reason}"):
        verify_file(mixed)


def test_a_chain_without_its_division_does_not_verify(mixed, sql, rehash):
    sql(mixed, "DELETE FROM entry WHERE seq = 3")
    sql(mixed, "UPDATE entry SET seq = seq - 1 WHERE seq > 3")
    rehash(mixed)
    with pytest.raises(LedgerError, match=r"at entry 3: .*exceeds what was left"):
        verify_file(mixed)


def test_a_count_before_a_gaussian_release_is_sold_where_both_fit(path, request_for, cost):
    """The count is left out of the part set aside, which the Gaussian charge itself makes."""
    ledger = Ledger(path, dataset="trial", epsilon=Fraction(51, 50), delta=1e-6)
    ledger.charge(request_for(1), cost("0.02"), [ONE])
    assert ledger.balance.gaussian is None
    ledger.charge(request_for(2), ONE)
    assert ledger.balance.gaussian == Budget(1, Fraction(1, 10**6))
    assert ledger.balance.charged.epsilon == Fraction(1, 50)
    assert ledger.verify().entries == 4


def test_a_count_is_not_sold_where_the_gaussian_release_would_not_fit(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=1, delta=1e-6)
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(1), cost("0.02"), [ONE])
    assert ledger.verify().entries == 1


@pytest.mark.parametrize("analyst", [None, "ana"])
def test_what_lies_ahead_divides_neither_account_nor_cap(path, request_for, cost, analyst):
    """The asker writes what lies ahead: a cheap question must not set anything aside for good."""
    ledger = Ledger(path, dataset="trial", epsilon=10, delta=1e-5)
    ledger.grant("ana", epsilon=Fraction(1, 2), delta=1e-7)
    ledger.grant("bob", epsilon=9)
    small = Spend(0, mu_squared=MU_SQUARED_GRAIN)
    ledger.charge(request_for(1), cost("0.0001"), [small], analyst)
    assert ledger.balance.gaussian is None
    assert all(cap.gaussian is None for cap in ledger.caps.values())
    ledger.charge(request_for(2), cost(9), (), "bob")
    ledger.verify()


def test_a_gaussian_charge_divides_for_what_it_was_asked_itself(path, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=5, delta=1e-6)
    later = Spend(0, mu_squared=MU_SQUARED_GRAIN, asked=Budget(5, 1e-6))
    ledger.charge(request_for(1), ONE, [later])
    assert ledger.balance.gaussian == Budget(3, MILLIONTH)


@pytest.mark.parametrize(
    "ahead",
    [
        [Spend(1, Fraction(6, 10)), Spend(1, Fraction(6, 10))],
        [Spend(10**400 + Fraction(1, 10**9))],
        [Spend(0, mu_squared=10**700 + Fraction(1, 10**18))],
        [Spend(0, mu_squared=Fraction(1, 10), asked=Budget(10**400 + Fraction(1, 10**9), MILLIONTH))],
    ],
)
@pytest.mark.parametrize("analyst", [None, "ana"])
def test_whatever_lies_ahead_is_refused_as_a_budget_is(path, request_for, cost, ahead, analyst):
    ledger = Ledger(path, dataset="trial", epsilon=10, delta=1e-5)
    with pytest.raises(InsufficientBudget, match="Nothing was charged"):
        ledger.charge(request_for(1), cost(1), ahead, analyst)
    ledger.grant("ana", epsilon=9, delta=1e-5)
    with pytest.raises(InsufficientBudget, match="Nothing was charged"):
        ledger.charge(request_for(1), cost(1), ahead, analyst)
    assert ledger.spent == Spend(0)

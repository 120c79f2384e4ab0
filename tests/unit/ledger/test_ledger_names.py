"""Several names of the same people: one account."""

import pytest

from hdpstats._base.errors import ArgumentError, InsufficientBudget, LedgerError
from hdpstats.ledger import Ledger, verify_file


@pytest.fixture
def renamed(path, request_for, cost):
    """Entries: open, charge, open (a further name), charge (under that name)."""
    Ledger(path, dataset="trial", epsilon=1).charge(request_for(1), cost("0.5"))
    ledger = Ledger(path, dataset="trial-2", epsilon=1, same_people_as="trial")
    ledger.charge(request_for(1, dataset="trial-2"), cost("0.25"))
    return path


def test_a_new_name_of_the_same_people_inherits_what_was_spent_and_spends_for_both(renamed, request_for, cost):
    first, second = (Ledger.open_existing(renamed, dataset=name) for name in ("trial", "trial-2"))
    assert first.spent == second.spent == cost("0.75")
    with pytest.raises(InsufficientBudget, match="dataset 'trial' has"):
        first.charge(request_for(2), cost("0.5"))
    third = Ledger(renamed, dataset="trial-3", epsilon=1, same_people_as="trial-2")
    with pytest.raises(InsufficientBudget, match="dataset 'trial-3' has"):
        third.charge(request_for(1, dataset="trial-3"), cost("0.5"))
    third.charge(request_for(1, dataset="trial-3"), cost("0.25"))
    assert first.remaining == second.remaining == third.remaining == cost(0)
    assert list(first.history()["dataset"]) == list(third.history()["dataset"]) == ["trial", "trial-2", "trial-3"]
    assert str(third).startswith("Ledger of dataset 'trial-3', version 1, same people as 'trial', in ")
    assert str(third).endswith("3 charges, relation replace_one")
    assert first.verify().datasets == ("trial", "trial-2", "trial-3")


def test_caps_hold_for_the_people_under_every_name(renamed, request_for, cost):
    Ledger.open_existing(renamed, dataset="trial").grant("ana", epsilon=0.2)
    second = Ledger.open_existing(renamed, dataset="trial-2")
    second.charge(request_for(2, dataset="trial-2"), cost("0.15"), analyst="ana")
    with pytest.raises(InsufficientBudget, match="cap of analyst 'ana' on dataset 'trial'"):
        Ledger.open_existing(renamed, dataset="trial").charge(request_for(2), cost("0.1"), analyst="ana")
    with pytest.raises(InsufficientBudget, match="no cap on dataset 'trial-2'"):
        second.charge(request_for(3, dataset="trial-2"), cost("0.05"), analyst="ben")


def test_a_name_that_was_opened_stays_with_its_people(renamed, path):
    for same in (None, "trial", "trial-2"):
        assert Ledger(path, dataset="trial-2", epsilon=1, same_people_as=same).spent.epsilon == 0.75
    Ledger(path, dataset="other", epsilon=1)
    entries = verify_file(path).entries
    for dataset, same in (("other", "trial"), ("trial-2", "other"), ("trial", "nobody")):
        with pytest.raises(LedgerError, match="has an account of its own"):
            Ledger(path, dataset=dataset, epsilon=1, same_people_as=same)
    assert verify_file(path).entries == entries == 5


@pytest.mark.parametrize("terms", [{"epsilon": 2}, {"delta": 1e-6}, {"relation": "add_or_remove_one"}, {"unit": "id"}])
def test_a_further_name_has_the_terms_of_the_account(path, terms):
    Ledger(path, dataset="trial", epsilon=1)
    with pytest.raises(LedgerError, match="first terms"):
        Ledger(path, **{"dataset": "trial-2", "epsilon": 1, "same_people_as": "trial", **terms})
    assert verify_file(path).datasets == ("trial",)


def test_the_same_people_must_be_known_and_named(path):
    with pytest.raises(LedgerError, match=r"same_people_as must be a dataset of this ledger, not 'trial'.*none"):
        Ledger(path, dataset="trial-2", epsilon=1, same_people_as="trial")
    with pytest.raises(LedgerError, match="same_people_as"):
        Ledger(path, dataset="trial-2", epsilon=1, same_people_as="trial-2")
    for name in ("", 3):
        with pytest.raises(ArgumentError, match="same_people_as"):
            Ledger(path, dataset="trial-2", epsilon=1, same_people_as=name)
    assert verify_file(path).entries == 0


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE account SET same_people_as = NULL WHERE dataset = 'trial-2'", "account of dataset 'trial-2'"),
        ("UPDATE entry SET epsilon = '2' WHERE seq = 3", "at entry 3: its terms are not those"),
        ("UPDATE entry SET body = replace(body, '\"trial\"', '\"nobody\"') WHERE seq = 3", "at entry 3: .* no sense"),
        ("UPDATE entry SET body = replace(body, '\"trial\"', 'null') WHERE seq = 3", "account of dataset 'trial-2'"),
        ("UPDATE entry SET epsilon = '9/10' WHERE seq = 4", "at entry 4: .*exceeds"),
    ],
)
def test_a_rewritten_name_is_noticed(renamed, sql, rehash, statement, found):
    sql(renamed, statement)
    rehash(renamed)
    with pytest.raises(LedgerError, match=found):
        verify_file(renamed)

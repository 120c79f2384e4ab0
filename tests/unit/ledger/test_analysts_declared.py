"""Caps and quotas that the settings of a site say: what was granted by hand is not replaced."""

from contextlib import nullcontext
from fractions import Fraction

import pytest

from hdpstats._base.errors import LedgerError, QuotaExceeded
from hdpstats.ledger import Ledger
from hdpstats.ledger.analysts import Quota
from hdpstats.privacy.budget import Budget, Spend

ONE, TWO, HALF = Budget(epsilon=1), Budget(epsilon=2), Budget(epsilon=Fraction(1, 2))
USUAL = {"most_charges": 100, "most_bytes": 10**6}


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "l.db", dataset="trial", epsilon=10, delta=1e-3)


def declared(ledger, **caps):
    return ledger.declare(caps, **USUAL)


def test_settings_change_what_they_granted(ledger):
    for cap in (ONE, TWO, HALF):
        assert declared(ledger, ana=cap, ben=ONE) == {}
        assert {name: each.total for name, each in ledger.caps.items()} == {"ana": cap, "ben": ONE}
    assert ledger.quota("ana") == Quota(charges=100, bytes=10**6)


def test_what_is_declared_again_is_not_written_again(ledger):
    declared(ledger, ana=ONE, ben=ONE)
    entries = ledger.verify().entries
    declared(ledger, ana=ONE, ben=ONE)
    assert ledger.verify().entries == entries


@pytest.mark.parametrize("said", [TWO, HALF, Budget(epsilon=1, delta=1e-6)])
def test_what_was_granted_by_hand_is_not_replaced(ledger, said):
    declared(ledger, ana=TWO)
    ledger.grant("ana", epsilon=1)
    entries = ledger.verify().entries
    for refused in (lambda: declared(ledger, eve=ONE, ana=said), lambda: ledger.stopped({"ana": said})):
        with pytest.raises(LedgerError, match=r"analyst 'ana' was granted .*hdpstats ledger grant FILE"):
            refused()
    assert ledger.verify().entries == entries  # nothing was granted to others either
    assert ledger.caps["ana"].total == ONE


def test_settings_that_say_what_was_granted_by_hand_may_change_it_from_then_on(ledger, tmp_path):
    ledger.grant("ana", epsilon=1)
    declared(ledger, ana=ONE)
    again = Ledger.open_existing(tmp_path / "l.db")
    assert declared(again, ana=TWO) == {}
    assert again.caps["ana"].total == TWO


def test_a_cap_below_what_was_received_stops_that_analyst_only(ledger, request_for):
    declared(ledger, ana=TWO, ben=TWO)
    ledger.charge(request_for(1), Spend(Fraction(3, 2)), analyst="ana")
    assert ledger.stopped({"ana": ONE, "ben": ONE}).keys() == {"ana"}
    stopped = declared(ledger, ana=ONE, ben=ONE)
    assert stopped.keys() == {"ana"}
    assert "does not cover" in stopped["ana"]
    ledger.charge(request_for(2), Spend(Fraction(1, 10)), analyst="ben")
    with pytest.raises(QuotaExceeded):
        ledger.charge(request_for(3), Spend(Fraction(1, 10)), analyst="ana")
    assert declared(ledger, ana=TWO, ben=ONE) == {}
    ledger.charge(request_for(3), Spend(Fraction(1, 10)), analyst="ana")


def test_a_quota_that_was_set_by_hand_stays(ledger, request_for):
    declared(ledger, ana=TWO, ben=TWO)
    ledger.limit("ana", most_charges=0)
    ledger.limit("ben", most_charges=7)
    ledger.charge(request_for(1), Spend(Fraction(3, 2)), analyst="ben")
    for caps in ({"ana": TWO, "ben": TWO}, {"ana": ONE, "ben": TWO}):
        declared(ledger, **caps)
        assert (ledger.quota("ana").charges, ledger.quota("ben").charges) == (0, 7)
    declared(ledger, ana=ONE, ben=ONE)  # below what he has received
    with pytest.raises(QuotaExceeded, match="'ben' is stopped"):
        ledger.charge(request_for(2), Spend(Fraction(1, 10)), analyst="ben")
    assert ledger.quota("ben").charges == 7
    declared(ledger, ana=ONE, ben=TWO)
    ledger.charge(request_for(2), Spend(Fraction(1, 10)), analyst="ben")
    assert (ledger.quota("ana").charges, ledger.quota("ben").charges) == (0, 7)
    ledger.limit("ana", most_charges=100)
    ledger.declare({"ana": ONE, "ben": TWO}, most_charges=50, most_bytes=10**6)
    assert ledger.quota("ana").charges == 100  # set by hand last
    declared(ledger, ana=ONE, ben=TWO)  # the settings say the same, and may change it from now on
    ledger.declare({"ana": ONE, "ben": TWO}, most_charges=50, most_bytes=10**6)
    assert ledger.quota("ana").charges == 50


@pytest.mark.parametrize("charges", [0, 5, 100])
def test_a_quota_that_is_set_by_hand_while_settings_stop_an_analyst_holds_when_they_do_not(
    ledger, request_for, charges, tmp_path
):
    declared(ledger, ana=TWO)
    ledger.charge(request_for(1), Spend(Fraction(3, 2)), analyst="ana")
    declared(ledger, ana=ONE)
    ledger.limit("ana", most_charges=charges)
    again = Ledger.open_existing(tmp_path / "l.db")
    for cap, refused in ((ONE, True), (TWO, charges == 0)):
        declared(again, ana=cap)
        assert again.quota("ana").charges == charges
        with pytest.raises(QuotaExceeded) if refused else nullcontext():
            again.charge(request_for(2), Spend(Fraction(1, 10)), analyst="ana")
    entries = again.verify().entries
    declared(again, ana=TWO)
    assert again.verify().entries == entries


def test_a_quota_that_is_set_by_hand_to_what_settings_said_is_by_hand(ledger):
    ledger.declare({"ana": ONE}, most_charges=50, most_bytes=10**6)
    ledger.limit("ana", most_charges=50)
    declared(ledger, ana=ONE)
    assert ledger.quota("ana").charges == 50
    ledger.grant("ana", epsilon=1)  # says nothing of a quota
    declared(ledger, ana=ONE)
    assert ledger.quota("ana").charges == 50


def test_a_checkpoint_keeps_who_is_stopped(monkeypatch, ledger, request_for, tmp_path):
    monkeypatch.setattr("hdpstats.ledger.chain.EVERY", 6)
    declared(ledger, ana=TWO)
    ledger.limit("ana", most_charges=5)
    ledger.charge(request_for(1), Spend(Fraction(3, 2)), analyst="ana")
    declared(ledger, ana=ONE)
    ledger.grant("ben", epsilon=1)
    again = Ledger.open_existing(tmp_path / "l.db")
    assert again._latest().resumed
    with pytest.raises(QuotaExceeded, match="'ana' is stopped"):
        again.charge(request_for(2), Spend(Fraction(1, 10)), analyst="ana")
    declared(again, ana=TWO)
    assert again.quota("ana").charges == 5
    again.verify()


def test_without_caps_quotas_are_set_all_the_same(ledger):
    assert ledger.declare({"ana": None}, **USUAL) == {}
    assert (ledger.caps, ledger.quota("ana").charges) == ({}, 100)

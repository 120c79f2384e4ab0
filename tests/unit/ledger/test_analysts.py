"""What one analyst is shown of a ledger: what depends on his own requests alone, and what does not; and his limits."""

from fractions import Fraction

import pytest

from hdpstats._base.errors import BudgetError, InsufficientBudget, LedgerError, QuotaExceeded
from hdpstats.ledger import Ledger, verify_file
from hdpstats.ledger.leases import Holder, Lease
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.records import codec
from hdpstats.sites.messages import AnalystAccount

HALF = Spend(Fraction(1, 2))


@pytest.fixture
def ledger(path):
    found = Ledger(path, dataset="trial", epsilon=10)
    for analyst in ("ana", "ben"):
        found.grant(analyst, epsilon=5)
    return found


def asked(ledger, request, analyst, text):
    """Charge and record as a site does, and return what the analyst is handed out."""
    stored = ledger.stored(request.id, analyst)
    if stored is None:
        charge = ledger.charge(request, HALF, analyst=analyst)
        stored = ledger.stored(request.id, analyst) or ledger.persist(charge, text, analyst)
    return stored


def seen(ledger, analyst, handed_out):
    """All that a site shows an analyst, dates and the identity of the account apart."""
    share = AnalystAccount.of(analyst, ledger)
    history = share.history.drop(columns="at").to_json()
    return [(each.place.number, each.place.attempt, each.release_json) for each in handed_out], str(share), history


def test_what_an_analyst_sees_is_the_same_whatever_others_ask(path, tmp_path, request_for):
    """Numbers of entries showed how many requests others had made in between, and heads that there were any."""
    views, heads = [], []
    for name, others in (("quiet", 0), ("busy", 5)):
        ledger = Ledger(tmp_path / f"{name}.db", dataset="trial", epsilon=10)
        for analyst in ("ana", "ben"):
            ledger.grant(analyst, epsilon=5)
        handed_out = []
        for number in range(3):
            for each in range(others if number == 1 else 0):
                asked(ledger, request_for(100 + each), "ben", "[1]")
                ledger.charge(request_for(200 + each), Spend(Fraction(1, 100)))
            handed_out.append(asked(ledger, request_for(number + 1), "ana", f"[{number}]"))
            assert asked(ledger, request_for(number + 1), "ana", "[9]") == handed_out[-1]
        views.append(seen(ledger, "ana", handed_out))
        heads.append([each.place.head for each in handed_out])
    assert views[0] == views[1]
    assert [place[0] for place in views[0][0]] == [1, 2, 3]
    assert not set(heads[0]) & set(heads[1])  # accounts have identities of their own


def test_an_analysts_charged_queries_are_those_of_all_versions_with_a_release_or_without(path, request_for, cost):
    ledger, later = (Ledger(path, dataset="trial", epsilon=9, version=version) for version in (1, 2))
    names = [codec.sha256({"kind": "objective", "model": {"formula": "y ~ age"}, "of": each}) for each in range(4)]
    ledger.charge(request_for(of=0), cost(1), analyst="ann")
    assert ledger.charged_queries("ann") == {names[0]}
    later.persist(later.charge(request_for(version=2, of=1), cost(1), analyst="ann"), "{}")
    ledger.persist(ledger.charge(request_for(of=2), cost(1), analyst="bob"), "{}")
    assert ledger.charged_queries("ann") == later.charged_queries("ann") == set(names[:2])
    ledger.charge(request_for(of=2), cost(1), analyst="ann")  # which was released to bob before
    assert ledger.charged_queries("ann") == set(names[:3])
    assert ledger.charged_queries("bob") == {names[2]}
    assert ledger.charged_queries("eve") == frozenset()


@pytest.mark.parametrize("others", [False, True])
def test_a_limit_of_bytes_may_show_that_somebody_asked_the_same(path, request_for, others):
    """A release is counted with him for whose charge it was computed. Charges and caps are counted alike."""
    ledger, text = Ledger(path, dataset="trial", epsilon=10), "[" + "1" * 6000 + "]"
    ledger.grant("ana", epsilon=5, most_bytes=5000)
    ledger.grant("ben", epsilon=5)
    if others:
        asked(ledger, request_for(1), "ben", text)
    found = asked(ledger, request_for(1), "ana", text)
    assert (found.place.number, found.place.attempt, ledger.spent_by("ana")) == (1, 1, HALF)
    if others:
        assert asked(ledger, request_for(2), "ana", "[2]").place.number == 2
    else:
        with pytest.raises(QuotaExceeded, match=r"of 5000 bytes"):
            ledger.charge(request_for(2), HALF, analyst="ana")


@pytest.mark.parametrize("others", [False, True])
def test_a_computation_that_was_lost_shows_that_somebody_asked_the_same(ledger, request_for, others):
    """Who receives a release is charged for all its charges, and told how many there were."""
    if others:
        ledger.charge(request_for(1), HALF, analyst="ben", holder=Holder())
        ended = ledger.charge(request_for(1), HALF, analyst="ana", holder=Holder())
        assert isinstance(ended, Lease)
        assert ledger.spent_by("ana") == NOTHING
        charge = ledger.charge(request_for(1), HALF, analyst="ana", holder=Holder(), over=ended)
    else:
        charge = ledger.charge(request_for(1), HALF, analyst="ana", holder=Holder())
    place = ledger.persist(charge, "[1]", "ana").place
    charges = 1 + others
    assert (place.number, place.attempt, ledger.spent_by("ana")) == (charges, charges, HALF.times(charges))
    assert len(ledger.history("ana")) == charges


def test_a_share_has_its_own_number_and_head_and_both_verify(ledger, path, request_for):
    first = asked(ledger, request_for(1), "ana", "[1]")
    second = asked(ledger, request_for(2), "ben", "[2]")
    shared = asked(ledger, request_for(1), "ben", "[3]")
    assert (first.place.number, second.place.number, shared.place.number) == (1, 1, 2)
    assert shared.release_json == first.release_json
    assert len({first.place.head, second.place.head, shared.place.head, ledger.head}) == 4
    again = Ledger.open_existing(path)
    for stored in (first, second, shared):
        assert again.verify(stored.place.head).entries == verify_file(path, stored.place.head).entries == 8
    with pytest.raises(LedgerError, match="not on the chain"):
        again.verify("ab" * 32)
    assert list(again.history("ben")["entry"]) == [1, 2]
    assert list(again.history()["entry"]) == [4, 6]
    assert (
        first.place.account
        == second.place.account
        == Ledger.open_existing(path).stored(request_for(1).id).place.account
    )


def test_a_release_that_comes_after_it_was_shared_is_in_both_chains(ledger, path, request_for):
    charge = ledger.charge(request_for(1), HALF, analyst="ana")
    ledger.charge(request_for(1), HALF, analyst="ben")
    released = ledger.persist(charge, "[1]", "ana")
    other = ledger.stored(request_for(1).id, "ben")
    assert released.place.head != other.place.head
    assert (released.place.number, other.place.number) == (1, 1)
    assert Ledger.open_existing(path).stored(request_for(1).id, "ben") == other


def test_a_rollback_is_noticed_by_an_analysts_own_head(ledger, path, request_for, sql):
    kept = asked(ledger, request_for(1), "ana", "[1]")
    sql(path, "DELETE FROM lease")
    sql(path, "DELETE FROM entry WHERE seq > 3")
    with pytest.raises(LedgerError, match="not on the chain"):
        verify_file(path, kept.place.head)


def test_the_total_tells_an_analyst_nothing_but_that_it_does_not_afford_his_request(path, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=1)
    for analyst in ("ana", "ben"):
        ledger.grant(analyst, epsilon=1)
    ledger.charge(request_for(1), Spend(Fraction("0.8125")), analyst="ana")
    with pytest.raises(InsufficientBudget) as caught:
        ledger.charge(request_for(2), HALF, analyst="ben")
    assert not any(amount in str(caught.value) + repr(caught.value.facts) for amount in ("8125", "1875", "13", "3/16"))
    with pytest.raises(InsufficientBudget, match=r"0\.1875"):  # the custodian's own request
        ledger.charge(request_for(2), HALF)


@pytest.mark.parametrize("by_grant", [True, False])
def test_an_analyst_causes_no_more_charges_than_he_may(path, request_for, by_grant):
    ledger = Ledger(path, dataset="trial", epsilon=10)
    if by_grant:
        ledger.grant("ana", epsilon=5, most_charges=2)
        ledger.grant("ben", epsilon=5)
    else:
        ledger.limit("ana", most_charges=2)
    first = asked(ledger, request_for(1), "ana", "[1]")
    asked(ledger, request_for(2), "ben", "[2]")
    asked(ledger, request_for(2), "ana", "[2]")
    for again in (ledger, Ledger.open_existing(path)):
        head = again.head
        for number in (2, 3):
            asked(again, request_for(2), "ana", "[2]")
            with pytest.raises(QuotaExceeded, match=r"'ana' has used 2 of 2 charges on dataset 'trial'") as caught:
                again.charge(request_for(number + 10), HALF, analyst="ana")
            assert isinstance(caught.value, BudgetError)
        assert again.stored(request_for(1).id, "ana") == first
        assert again.head == head
    asked(ledger, request_for(4), "ben", "[4]")
    ledger.limit("ana", most_charges=3)
    asked(ledger, request_for(3), "ana", "[3]")
    assert ledger.limit("ana", most_charges=3) == ledger.quota("ana")
    ledger.limit("ana", most_charges=0)
    with pytest.raises(QuotaExceeded):
        ledger.charge(request_for(5), HALF, analyst="ana")


def test_an_analyst_stores_no_more_bytes_than_he_may(path, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=10)
    ledger.limit("ana", most_bytes=5000)
    asked(ledger, request_for(1), "ana", "[" + "1" * 6000 + "]")
    with pytest.raises(QuotaExceeded, match=r"of 5000 bytes"):
        ledger.charge(request_for(2), HALF, analyst="ana")
    assert Ledger.open_existing(path).quota("ana").bytes == 5000


def test_a_chain_that_goes_beyond_a_quota_does_not_verify(path, request_for, sql, rehash):
    ledger = Ledger(path, dataset="trial", epsilon=10)
    ledger.limit("ana", most_charges=2)
    asked(ledger, request_for(1), "ana", "[1]")
    asked(ledger, request_for(2), "ana", "[2]")
    sql(path, 'UPDATE entry SET body = \'{"bytes":null,"charges":1}\' WHERE seq = 2')
    rehash(path)
    with pytest.raises(LedgerError, match=r"at entry 5: .*quota"):
        verify_file(path)


def test_a_cap_of_which_gaussian_noise_was_received_grows_for_other_releases_only(path, request_for, sql, rehash):
    """The chain keeps to it too: whoever rewrites a grant so that the part would not fit any more is found."""
    ledger = Ledger(path, dataset="trial", epsilon=9, delta=1e-5)
    ledger.grant("ana", epsilon=1, delta=1e-6)
    one = Spend(0, 0, ledger.floor.mu_squared, Budget(1, 1e-6))
    ledger.charge(request_for(1), one, analyst="ana")
    part = ledger.caps["ana"].gaussian
    assert part == Budget(1, 1e-6)
    assert ledger.grant("ana", epsilon=2, delta=1e-5).gaussian == part
    assert ledger.spent_by("ana") == Spend(1, 1e-6)
    entries = ledger.verify().entries
    sql(path, f"UPDATE entry SET epsilon = '1/2' WHERE seq = {entries}")
    rehash(path)
    with pytest.raises(LedgerError, match=f"at entry {entries}"):
        verify_file(path)

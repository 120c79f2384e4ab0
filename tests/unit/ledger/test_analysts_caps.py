"""Caps of analysts under the total: charged once each, also for what was charged for somebody else before."""

import json
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError, InsufficientBudget, LedgerError
from hdpstats.ledger import Ledger, verify_file
from hdpstats.ledger.analysts import capped
from hdpstats.privacy.budget import NOTHING, Budget, Spend
from hdpstats.privacy.composition import MU_SQUARED_GRAIN, Balance, square_of
from hdpstats.privacy.composition import shared as parted
from hdpstats.privacy.gaussian import delta_of_square

MU_SQUARED = square_of(Fraction(1), Fraction(1, 10**6))
ONE = Spend(0, 0, MU_SQUARED, Budget(1, 1e-6))
"""A Gaussian release that was asked for (1, 1e-6)."""


@pytest.fixture
def shared(path, request_for, cost):
    """Entries: open, grant, grant, charge (ana), release, share (ben), charge (nobody)."""
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.grant("ana", epsilon=2)
    ledger.grant("ben", epsilon=1)
    ledger.persist(ledger.charge(request_for(1), cost("0.5"), analyst="ana"), '{"params":[1.5]}')
    ledger.charge(request_for(1), cost("0.5"), analyst="ben")
    ledger.charge(request_for(2), cost("0.25"))
    return path


def test_a_replay_to_another_analyst_charges_his_cap_once_and_nothing_of_the_total(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.grant("ana", epsilon=2)
    ledger.grant("ben", epsilon=1)
    request = request_for(1)
    charge = ledger.charge(request, cost("0.5"), analyst="ana")
    assert ledger.stored(request.id, "ana") is None
    release = ledger.persist(charge, '{"params":[1.5]}', "ana")
    assert ledger.stored(request.id, "ana") == release
    assert ledger.stored(request.id).release_json == release.release_json
    assert (release.place.number, ledger.stored(request.id).place.number) == (1, 4)
    assert ledger.stored(request.id, "ben") is None
    assert (ledger.spent_by("ana"), ledger.spent_by("ben")) == (cost("0.5"), NOTHING)
    for again in (ledger, Ledger.open_existing(path)):
        assert again.charge(request, cost("0.5"), analyst="ben") == charge
        assert again.charge(request, cost("0.5"), analyst="ana") == charge
        assert again.stored(request.id, "ana") == release
        assert again.stored(request.id, "ben").release_json == release.release_json
        assert again.spent == again.spent_by("ana") == again.spent_by("ben") == cost("0.5")
        assert again.caps["ben"].remaining == cost("0.5")
        assert again.verify().entries == 6


def test_a_cap_refuses_by_name_and_charges_nothing(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.grant("ana", epsilon=1)
    ledger.charge(request_for(1), cost("0.75"), analyst="ana")
    head = ledger.head
    with pytest.raises(InsufficientBudget, match=r"the cap of analyst 'ana' on dataset 'trial' has .*0\.25.* left of"):
        ledger.charge(request_for(2), cost("0.5"), analyst="ana")
    with pytest.raises(InsufficientBudget) as caught:
        ledger.charge(request_for(2), cost("0.25"), [cost("0.01")], analyst="ana")
    facts = caught.value
    assert (facts.analyst, facts.remaining, facts.total) == ("ana", cost("0.25"), Budget(1))
    assert ledger.head == head
    assert not ledger.affords(cost("0.5"), "ana")
    assert ledger.affords(cost("0.5"))
    ledger.charge(request_for(2), cost("0.25"), analyst="ana")
    assert ledger.caps["ana"].remaining == NOTHING


def test_a_cap_refuses_what_was_charged_for_somebody_else(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.grant("ana", epsilon=2)
    ledger.grant("ben", epsilon=0.4)
    ledger.persist(ledger.charge(request_for(1), cost("0.5"), analyst="ana"), "{}")
    with pytest.raises(InsufficientBudget, match="'ben'"):
        ledger.charge(request_for(1), cost("0.5"), analyst="ben")
    assert ledger.stored(request_for(1).id, "ben") is None
    assert ledger.spent_by("ben") == NOTHING
    with pytest.raises(LedgerError, match="was charged"):
        ledger.charge(request_for(1), cost("0.4"), analyst="ben")


def test_the_total_refuses_where_the_cap_would_not(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=1)
    for analyst in ("ana", "ben"):
        ledger.grant(analyst, epsilon=1)
    ledger.charge(request_for(1), cost("0.75"), analyst="ana")
    with pytest.raises(InsufficientBudget, match="does not afford it to all analysts together") as caught:
        ledger.charge(request_for(2), cost("0.5"), analyst="ben")
    assert (caught.value.analyst, caught.value.remaining, caught.value.total) == (None, None, None)
    assert "0.25" not in str(caught.value)
    assert "0.75" not in str(caught.value)
    assert not ledger.affords(cost("0.5"), "ben")
    assert ledger.spent_by("ben") == NOTHING
    ledger.charge(request_for(1), cost("0.75"), analyst="ben")
    assert ledger.spent == cost("0.75")


def test_without_any_cap_everybody_is_served_and_written_down(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=1)
    assert ledger.affords(cost(1), "ana")
    ledger.persist(ledger.charge(request_for(1), cost("0.5"), analyst="ana"), "{}")
    assert ledger.stored(request_for(1).id, "ben") is None
    ledger.charge(request_for(1), cost("0.5"), analyst="ben")
    ledger.charge(request_for(2), Spend(Fraction(1, 4)))
    assert [ledger.spent_by(name) for name in ("ana", "ben", "eve")] == [cost("0.5"), cost("0.5"), NOTHING]
    assert ledger.caps == {}
    assert list(ledger.history()["analyst"].fillna("")) == ["ana", ""]


def test_once_anybody_has_a_cap_an_analyst_without_one_is_refused(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=1)
    ledger.persist(ledger.charge(request_for(1), cost("0.1"), analyst="eve"), "{}")
    ledger.grant("ana", epsilon=1)
    for request in (request_for(2), request_for(1)):
        with pytest.raises(InsufficientBudget, match="'ben' has no cap on dataset 'trial'") as caught:
            ledger.charge(request, cost("0.1"), analyst="ben")
        assert (caught.value.analyst, caught.value.remaining) == ("ben", NOTHING)
    assert not ledger.affords(cost("0.1"), "ben")
    with pytest.raises(InsufficientBudget, match="'eve'"):
        ledger.charge(request_for(2), cost("0.1"), analyst="eve")
    assert ledger.stored(request_for(1).id, "eve") is not None
    ledger.charge(request_for(2), cost("0.1"))
    other = Ledger(path, dataset="other", epsilon=1)
    other.charge(request_for(1, dataset="other"), cost("0.1"), analyst="ben")
    assert other.caps == {}


def test_a_cap_holds_for_every_version_and_counts_what_was_received_before_it(path, request_for, cost):
    first = Ledger(path, dataset="trial", epsilon=3)
    first.charge(request_for(1), cost("0.5"), analyst="ana")
    with pytest.raises(ArgumentError, match=r"does not cover what the analyst has received, \(epsilon = 0.5"):
        first.grant("ana", epsilon=0.25)
    assert first.grant("ana", epsilon=1).remaining == cost("0.5")
    second = Ledger(path, dataset="trial", version=2, epsilon=3)
    with pytest.raises(InsufficientBudget, match="'ana'"):
        second.charge(request_for(1, version=2), cost("0.75"), analyst="ana")
    second.charge(request_for(1, version=2), cost("0.5"), analyst="ana")
    assert first.spent_by("ana") == cost(1)


def test_the_same_cap_again_changes_nothing_and_another_replaces_it(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=3)
    ledger.grant("ana", epsilon=1)
    head = ledger.head
    assert ledger.grant("ana", epsilon=Fraction(1), delta=0).total == Budget(1)
    assert ledger.head == head
    ledger.charge(request_for(1), cost("0.5"), analyst="ana")
    assert ledger.grant("ana", epsilon=0.5).remaining == NOTHING
    assert ledger.grant("ana", epsilon=2).remaining == cost("1.5")
    assert ledger.grant("ana", epsilon=0.5).remaining == NOTHING
    with pytest.raises(ArgumentError, match="at least that"):
        ledger.grant("ana", epsilon=0.4)
    assert ledger.verify().entries == 6
    assert list(Ledger.open_existing(path).caps) == ["ana"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("analyst", ""), ("analyst", "a\nb"), ("analyst", "\ud800"), ("analyst", None), ("epsilon", 0), ("delta", 1)],
)
def test_malformed_grants_are_refused(path, argument, value):
    ledger = Ledger(path, dataset="trial", epsilon=3)
    good = {"analyst": "ana", "epsilon": 1, "delta": 0}
    with pytest.raises(ArgumentError, match=argument):
        ledger.grant(**{**good, argument: value})
    assert ledger.verify().entries == 1


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_fit_of_several_gaussian_rounds_fits_in_a_cap_where_its_guarantee_fits(path, request_for, cost, rounds):
    ledger = Ledger(path, dataset="trial", epsilon=4, delta=1e-6)
    ledger.grant("ana", epsilon=1, delta=1e-6)
    ledger.grant("ben", epsilon=1.5, delta=1e-6)
    parts = [Spend(0, 0, part, ONE.asked) for part in parted(MU_SQUARED, [1] * rounds, MU_SQUARED_GRAIN)]
    for analyst in ("ana", "ben"):
        for number, part in enumerate(parts):
            charge = ledger.charge(request_for(number + 1), part, parts[number + 1 :], analyst=analyst)
            ledger.persist(charge, "{}")
    assert ledger.balance.charged.mu_squared == MU_SQUARED
    for cap in ledger.caps.values():
        assert cap.charged.mu_squared == MU_SQUARED
        assert delta_of_square(cap.gaussian.epsilon, MU_SQUARED) <= cap.gaussian.delta
    assert ledger.spent_by("ana").epsilon <= 1
    assert ledger.caps["ben"].remaining == cost("0.25")
    with pytest.raises(InsufficientBudget, match="'ana'"):
        ledger.charge(request_for(9), Spend(0, 0, Fraction(1, 10**9)), analyst="ana")
    ledger.charge(request_for(9), cost("0.25"), analyst="ben")
    assert ledger.verify().entries == 1 + 2 + 3 + 3 * rounds + 1


def test_a_cap_without_a_delta_takes_no_gaussian_release(path, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=4, delta=1e-6)
    ledger.grant("ana", epsilon=4)
    with pytest.raises(InsufficientBudget, match=r"the cap of analyst 'ana'.*pure guarantee"):
        ledger.charge(request_for(1), ONE, analyst="ana")
    assert ledger.balance.gaussian is None
    ledger.charge(request_for(1), ONE)
    with pytest.raises(InsufficientBudget, match="'ana'"):
        ledger.charge(request_for(1), ONE, analyst="ana")


def test_a_cap_granted_after_gaussian_releases_covers_them(path, request_for, cost):
    ledger = Ledger(path, dataset="trial", epsilon=4, delta=1e-6)
    ledger.charge(request_for(1), ONE, analyst="ana")
    assert ledger.spent_by("ana") == Spend(0, 0, MU_SQUARED)
    assert ledger.balance.gaussian == Budget(2.5, 1e-6)
    for epsilon, delta in ((4, 0), (2.4, 1e-6), (3, 9e-7)):
        with pytest.raises(ArgumentError, match=r"does not cover.*set aside for Gaussian noise and stay so"):
            ledger.grant("ana", epsilon=epsilon, delta=delta)
    assert ledger.grant("ana", epsilon=2.5, delta=1e-6).remaining == NOTHING
    assert ledger.spent_by("ana") == Spend(2.5, 1e-6)
    assert ledger.grant("ben", epsilon=4, delta=2e-6).remaining == Spend(4, 2e-6)
    assert ledger.verify().entries == 5


def test_the_gaussian_part_of_a_cap_stays_as_it_was_when_it_was_first_used():
    account = Balance(total=Budget(9, 1e-5), gaussian=Budget(3, 1e-5))
    before = Balance(total=Budget(2, 1e-6), charged=Spend(Fraction(1, 4), 0, MU_SQUARED), gaussian=Budget(1, 1e-6))
    after = capped(Budget(3, 4e-6), before.charged, before=before, account=account)
    assert (after.gaussian, after.charged) == (before.gaussian, before.charged)
    assert after.remaining == Spend(Fraction(7, 4), 3e-6)
    for smaller in (Budget(1.2, 1e-6), Budget(2, 9e-7), Budget(2)):
        with pytest.raises(ArgumentError, match="does not cover"):
            capped(smaller, before.charged, before=before, account=account)
    assert capped(Budget(1.25, 1e-6), before.charged, before=before, account=account).remaining == NOTHING
    unused = Balance(total=Budget(2, 1e-6), charged=Spend(Fraction(1, 4)), gaussian=Budget(1, 1e-6))
    assert capped(Budget(2), unused.charged, before=unused, account=account).remaining == Spend(Fraction(7, 4))


def test_history_tells_who_received_what(shared, request_for):
    ledger = Ledger.open_existing(shared)
    assert list(ledger.history()["entry"]) == [4, 7]
    assert list(ledger.history()["analyst"].fillna("nobody")) == ["ana", "nobody"]
    ana, ben, eve = (ledger.history(name) for name in ("ana", "ben", "eve"))
    assert (ana.dtypes == eve.dtypes).all()
    assert (list(ana["entry"]), list(ben["entry"]), len(eve)) == ([1], [1], 0)
    same = ["mechanism", "model", "epsilon", "delta", "mu", "released", "request"]
    assert ana[same].equals(ben[same])
    assert list(ben["analyst"]) == ["ben"]
    assert ben["released"].all()


def test_the_ledger_shows_its_caps(shared, tmp_path):
    ledger = Ledger.open_existing(shared)
    assert str(ledger).splitlines()[5:] == [
        "analyst ana: epsilon = 0.5, delta = 0 of a cap of epsilon = 2, delta = 0",
        "analyst ben: epsilon = 0.5, delta = 0 of a cap of epsilon = 1, delta = 0",
        "2 charges, relation replace_one",
    ]
    assert "ben" in ledger.as_html()
    ledger.grant("<b>", epsilon=1)
    assert "&lt;b&gt;" in ledger.as_html()
    assert "<b>" not in ledger._repr_html_()
    ledger.export(tmp_path / "trial.json")
    document = json.loads((tmp_path / "trial.json").read_text(encoding="utf-8"))
    assert document["analysts"]["ben"] == {
        "total": {"epsilon": "1", "delta": "0"},
        "spent": {"epsilon": "1/2", "delta": "0"},
        "remaining": {"epsilon": "1/2", "delta": "0"},
        "gaussian": None,
    }
    kinds = [(entry["kind"], entry["analyst"]) for entry in document["entries"]]
    assert kinds[1:7] == [
        ("grant", "ana"),
        ("grant", "ben"),
        ("charge", "ana"),
        ("release", ""),
        ("share", "ben"),
        ("charge", ""),
    ]


@pytest.mark.covering(cases=6)
@pytest.mark.parametrize(
    ("statement", "entry", "reason"),
    [
        ("UPDATE entry SET epsilon = '1/4' WHERE seq = 3", 6, "exceeds what was left of the analyst's cap"),
        ("UPDATE entry SET epsilon = '1/4' WHERE seq = 2", 4, "exceeds what was left of the analyst's cap"),
        ("UPDATE entry SET epsilon = '0' WHERE seq = 3", 3, "make no sense"),
        ("UPDATE entry SET analyst = '' WHERE seq = 3", 3, "'grant' cannot stand here"),
        ("UPDATE entry SET analyst = 'eve' WHERE seq = 3", 6, "has no cap, where others have"),
        ("UPDATE entry SET analyst = 'eve' WHERE seq = 4", 4, "has no cap, where others have"),
        ("UPDATE entry SET analyst = 'ben' WHERE seq = 4", 6, "its request was charged to its analyst before"),
        ("UPDATE entry SET analyst = 'ana' WHERE seq = 6", 6, "its request was charged to its analyst before"),
        ("UPDATE entry SET analyst = '' WHERE seq = 6", 6, "'share' cannot stand here"),
        ("UPDATE entry SET epsilon = '1/4' WHERE seq = 6", 6, "something else than what was charged"),
        ("UPDATE entry SET version = 2 WHERE seq = 6", 6, "something else than what was charged"),
        ('UPDATE entry SET body = \'{"request":"x"}\' WHERE seq = 6', 6, "make no sense"),
        ("UPDATE entry SET kind = 'divide' WHERE seq = 2", 2, "there is nothing to divide"),
    ],
)
def test_a_rewritten_chain_keeps_to_its_caps(shared, sql, rehash, statement, entry, reason):
    sql(shared, statement)
    with pytest.raises(LedgerError, match="at entry"):
        verify_file(shared)
    rehash(shared)
    with pytest.raises(LedgerError, match=f"at entry {entry}: .*{reason}"):
        verify_file(shared)


def test_a_cap_that_a_rewritten_chain_lowers_below_what_was_received_does_not_verify(shared, sql, rehash, request_for):
    Ledger.open_existing(shared).grant("ana", epsilon=1)
    sql(shared, "UPDATE entry SET epsilon = '1/4' WHERE seq = 8")
    rehash(shared)
    with pytest.raises(LedgerError, match="at entry 8: its contents make no sense"):
        verify_file(shared)


def test_an_analysts_gaussian_part_is_an_entry_of_the_chain(path, sql, rehash, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=4, delta=1e-6)
    ledger.grant("ana", epsilon=2, delta=1e-6)
    ledger.charge(request_for(1), ONE, analyst="ana")
    assert [row[:2] for row in sql(path, "SELECT kind, analyst FROM entry")] == [
        ("open", ""),
        ("grant", "ana"),
        ("divide", "ana"),
        ("divide", ""),
        ("charge", "ana"),
    ]
    assert ledger.caps["ana"].gaussian == Budget(Fraction(3, 2), 1e-6)
    assert ledger.spent_by("ana").epsilon == Fraction(3, 2)
    sql(path, "UPDATE entry SET epsilon = '1/2' WHERE seq = 3")
    rehash(path)
    with pytest.raises(LedgerError, match=r"at entry 5: .*of the analyst's cap"):
        verify_file(path)

import hashlib
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from hdpstats._base.errors import InsufficientBudget, LedgerError
from hdpstats.ledger import KnownHead, KnownQuery, Ledger, back_up, count_as_spent, restore, verify_file
from hdpstats.ledger.backup import UNKNOWN_CHARGES
from hdpstats.ledger.leases import Holder
from hdpstats.ledger.records import Account
from hdpstats.privacy.budget import Budget, Spend
from hdpstats.privacy.gaussian import mu_of
from tests.full_disk import full_disk


@pytest.fixture
def backup(tmp_path):
    return tmp_path / "monday.backup"


def last_head(ledger, source="the site"):
    return KnownHead(head=ledger.head, entries=len(ledger.verify().hashes), source=source, is_last=True)


def test_a_backup_is_the_ledger_to_the_last_entry_and_its_owners_alone(filled, backup, path, cost, request_for):
    made = back_up(path, backup)
    assert made == verify_file(path)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in backup.parent.iterdir()) == sorted([backup.name, path.name])
    ledger = Ledger.open_existing(path, dataset="trial")
    ledger.charge(request_for(7), cost("0.125"))
    assert verify_file(backup) == made  # the ledger goes on, its copy does not


def test_a_backup_replaces_nothing_and_what_fails_leaves_nothing(filled, backup, path, sql, monkeypatch):
    backup.write_text("an older one")
    with pytest.raises(LedgerError, match="no backup replaces another: name a new file"):
        back_up(path, backup)
    assert backup.read_text() == "an older one"
    with monkeypatch.context() as patched:  # one that another process made since this one looked
        patched.setattr("os.path.lexists", lambda _: False)
        with pytest.raises(LedgerError, match="no backup replaces another: name a new file"):
            back_up(path, backup)
    assert backup.read_text() == "an older one"
    with pytest.raises(LedgerError, match="create it first"):
        back_up(path, backup.parent / "none" / "it")
    sql(path, "UPDATE entry SET epsilon = '1/100' WHERE seq = 2")
    with pytest.raises(LedgerError, match="does not verify at entry 2"):
        back_up(path, backup.with_name("other"))
    assert not backup.with_name("other").exists()


def test_a_backup_that_has_the_known_head_is_restored_as_it_was(filled, backup, path, tmp_path):
    ledger = Ledger.open_existing(path, dataset="trial")
    back_up(path, backup)
    place = tmp_path / "again.db"
    restored = restore(backup, place, known=[last_head(ledger)])
    assert (restored.counted_as_spent, restored.verification) == (0, verify_file(path))
    again = Ledger.open_existing(place, dataset="trial")
    assert (str(again).splitlines()[1:], again.identity) == (str(ledger).splitlines()[1:], ledger.identity)
    assert again.history().equals(ledger.history())


def test_a_backup_that_is_older_than_a_known_head_is_not_restored(filled, backup, path, tmp_path, cost, request_for):
    back_up(path, backup)
    ledger = Ledger.open_existing(path, dataset="trial")
    ledger.charge(request_for(7), cost("0.125"))
    place, head = tmp_path / "again.db", last_head(ledger)
    for known in ([head], [KnownHead(head=head.head)], [KnownHead(head="0" * 64, entries=2), head]):
        with pytest.raises(LedgerError, match=r"lacks entry .*older than the ledger was.*--count-as-spent"):
            restore(backup, place, known=known)
    with pytest.raises(LedgerError, match=r"nothing shows that the backup .* is the newest.*--site SITE\.YAML"):
        restore(backup, place)
    assert not place.exists()


def test_a_head_of_which_nobody_knows_that_it_is_the_last_restores_nothing_by_itself(
    filled, backup, path, tmp_path, cost, request_for
):
    ledger, place = Ledger.open_existing(path, dataset="trial"), tmp_path / "again.db"
    noted = KnownHead(head=ledger.head, source="--head")
    back_up(path, backup)
    with pytest.raises(LedgerError, match=r"does not show that nothing was charged after it.*--nothing-since"):
        restore(backup, place, known=[noted])
    ledger.charge(request_for(7), cost("0.125"))
    back_up(path, backup.with_name("tuesday.backup"))
    stale, tuesday = noted, backup.with_name("tuesday.backup")
    with pytest.raises(LedgerError, match=r"itself goes on to entry .* not the last one"):
        restore(tuesday, place, known=[stale], nothing_since=True)
    released = [each for each in verify_file(backup).hashes if each != noted.head][-1]
    other = KnownHead(head="a" * 64, source="of another site", account="b" * 64)
    for known in ([stale], [stale, KnownHead(head=released)]):
        made = restore(backup, place, known=known, nothing_since=True)
        assert made.verification == verify_file(backup)
        place.unlink()
    later = KnownHead(head=ledger.head, source="ann/release.json")
    with pytest.raises(LedgerError, match=r"lacks entry .* known from ann/release\.json"):
        restore(backup, place, known=[stale, later], nothing_since=True)
    with pytest.raises(LedgerError, match="nothing shows that the backup"):
        restore(backup, place, known=[other], nothing_since=True)
    assert restore(tuesday, place, known=[stale], count_as_spent=True).counted_as_spent


def test_what_is_of_an_account_that_was_opened_after_a_backup_contradicts_that_nothing_was_charged(
    filled, backup, path, tmp_path
):
    back_up(path, backup)
    noted, place = KnownHead(head=Ledger.open_existing(path, dataset="trial").head), tmp_path / "again.db"
    opened = Ledger(path, dataset="cohort", epsilon=3, create=True)
    released = KnownHead(head=opened.head, account=opened.identity, source="ann/release.json")
    written = KnownQuery(sha256="0" * 64, account=opened.identity, source="site.request-costs.jsonl")
    for given in ({"known": [noted, released]}, {"known": [noted], "queries": [written]}):
        with pytest.raises(LedgerError, match=r"json.? is of an account that the backup .* does not have"):
            restore(backup, place, nothing_since=True, **given)
    assert not place.exists()  # with it the account would have been opened again, with nothing spent
    last = KnownHead(head=noted.head, source="the site", is_last=True)
    with pytest.raises(LedgerError, match=r"ann/release\.json is of an account"):
        restore(backup, place, known=[last, released])


def test_the_head_of_a_site_is_not_the_last_one_of_a_ledger_that_another_site_charges_too(
    filled, backup, path, tmp_path, cost, request_for
):
    other = Ledger.open_existing(path, dataset="other")
    kept = replace(last_head(Ledger.open_existing(path, dataset="trial")), dataset="trial")
    place = tmp_path / "again.db"
    back_up(path, backup)
    other.charge(request_for(7, dataset="other"), cost("0.125"))  # of which the first site writes no head
    with pytest.raises(LedgerError, match=r"no account but that of the site.*--nothing-since"):
        restore(backup, place, known=[kept])
    assert restore(backup, place, known=[kept], count_as_spent=True).counted_as_spent == 2
    place.unlink()
    assert not restore(backup, place, known=[kept], nothing_since=True).counted_as_spent


def test_a_query_that_was_to_be_charged_and_is_not_there_contradicts_that_nothing_was(
    filled, backup, path, tmp_path, cost, request_for
):
    ledger, place = Ledger.open_existing(path, dataset="trial"), tmp_path / "again.db"
    back_up(path, backup)
    noted = KnownHead(head=ledger.head)

    def written(question, account=ledger.identity):
        sha256 = hashlib.sha256(question.encode()).hexdigest()
        return KnownQuery(sha256=sha256, account=account, source="site.request-costs.jsonl")

    options, charged, other = {"known": [noted], "nothing_since": True}, request_for(1).query_json, '{"kind":"other"}'
    with pytest.raises(LedgerError, match=r"jsonl has 1 queries that were to be charged .* lacks"):
        restore(backup, place, queries=[written(charged), written(other)], **options)
    made = restore(backup, place, queries=[written(charged), written(other, account="of others")], **options)
    assert made.verification == verify_file(path)
    place.unlink()
    kept = last_head(ledger)
    assert not restore(backup, place, queries=[written(other)], known=[kept]).counted_as_spent  # it was refused then


def test_a_restored_ledger_replaces_none(filled, backup, path, cost):
    ledger = Ledger.open_existing(path, dataset="trial")
    back_up(path, backup)
    before = verify_file(path)
    for options in ({"known": [last_head(ledger)]}, {"count_as_spent": True}):
        with pytest.raises(LedgerError, match=r"there is a ledger at .* move that one away"):
            restore(backup, path, **options)
    assert verify_file(path) == before


def test_what_is_left_of_every_account_counts_as_spent_and_releases_are_handed_out(
    filled, backup, path, tmp_path, cost, request_for
):
    back_up(path, backup)
    place = tmp_path / "again.db"
    restored = restore(backup, place, count_as_spent=True)
    assert restored.counted_as_spent == 2
    for dataset, total in (("trial", 3), ("other", 1)):
        ledger = Ledger.open_existing(place, dataset=dataset)
        assert ledger.is_used_up()
        assert (ledger.spent, ledger.remaining.epsilon) == (Spend(total), 0)
        with pytest.raises(InsufficientBudget):
            ledger.charge(request_for(9, dataset=dataset), cost("0.0001"))
    ledger = Ledger.open_existing(place, dataset="trial")
    assert ledger.stored(request_for(1).id).release_json == '{"params":[1.5]}'
    with pytest.raises(InsufficientBudget):  # charged before, without a release: computed once more it would cost more
        ledger.charge(request_for(2), cost("0.25"), holder=Holder(), over=ledger.lease(request_for(2).id))
    last = ledger.history().iloc[-1]
    assert (last["mechanism"], last["released"], last["epsilon"]) == (UNKNOWN_CHARGES, False, 2.25)
    assert ledger.verify().entries == restored.verification.entries


@pytest.mark.parametrize("spent", ["nothing", "plain", "Gaussian", "all but less than a release", "all plain"])
def test_no_charge_of_any_kind_is_left(path, request_for, spent):
    """An account takes charges without Gaussian noise, with it, and both; what is less than any of them may remain."""
    ledger = Ledger(path, dataset="trial", epsilon=1, delta=Fraction(1, 10**3), create=True)
    mu_squared = mu_of(Fraction(1, 4), Fraction(1, 10**6)) ** 2
    costs = {
        "nothing": [],
        "plain": [Spend(Fraction(1, 3))],
        "Gaussian": [Spend(0, 0, mu_squared, Budget(Fraction(1, 4), Fraction(1, 10**6)))],
        "all but less than a release": [Spend(Fraction(99995, 10**5))],
        "all plain": [Spend(1)],
    }[spent]
    for number, each in enumerate(costs, start=1):
        ledger.charge(request_for(number), each)
    count_as_spent(path)
    ledger, floor = Ledger.open_existing(path), ledger.floor
    assert ledger.is_used_up()
    assert ledger.spent.epsilon > 1 - floor.epsilon
    tried = [
        Spend(floor.epsilon),
        Spend(0, 0, floor.mu_squared),
        Spend(0, 0, floor.mu_squared, Budget(Fraction(1, 10**5), Fraction(1, 10**4))),
        Spend(floor.epsilon, 0, floor.mu_squared),
        Spend(Fraction(1, 10**9), 0, floor.mu_squared),
    ]
    for number, each in enumerate(tried, start=50):
        with pytest.raises(InsufficientBudget):
            ledger.charge(request_for(number), each)
    assert count_as_spent(path).counted_as_spent == 0  # there is nothing left to count


def test_a_ledger_that_is_gone_is_opened_with_nothing_left(path, request_for, cost):
    total = Budget(2, Fraction(1, 10**6))
    account = Account.agreed(dataset="trial", total=total, relation="replace_one", unit=None)
    made = count_as_spent(path, account=account)
    ledger = Ledger.open_existing(path)
    assert (ledger.budget, ledger.spent, made.verification.entries) == (total, Spend(2, Fraction(1, 10**6)), 2)
    assert count_as_spent(path, account=account).verification == made.verification
    other = Account.agreed(dataset="trial", total=Budget(3), relation="replace_one", unit=None)
    with pytest.raises(LedgerError, match="agreed once"):
        count_as_spent(path, account=other)
    with pytest.raises(LedgerError, match="there is no ledger"):
        count_as_spent(path.with_name("none.db"))


def test_a_disk_that_is_full_leaves_no_half_of_a_backup(filled, path, tmp_path):
    with full_disk(8192), pytest.raises(LedgerError, match="cannot be used"):
        back_up(path, tmp_path / "monday.backup")
    assert list(tmp_path.glob("monday*")) == []


def test_a_copy_of_the_file_is_a_backup_too(filled, path, tmp_path):
    shutil.copy(path, tmp_path / "copy.db")
    head = last_head(Ledger.open_existing(path, dataset="trial"))
    assert restore(tmp_path / "copy.db", tmp_path / "again.db", known=[head]).verification == verify_file(path)

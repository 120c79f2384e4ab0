"""A ledger that is missing, older than it was, or readable by others is noticed before a site serves."""

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from functools import partial, partialmethod

import psycopg
import pytest
import yaml

import hdpstats.api as hdp
from hdpstats._base.errors import NothingCharged
from hdpstats.cli import main
from hdpstats.custodian import SiteSettings, log, note, open_site, serving
from hdpstats.custodian.kept_head import (
    Head,
    HeadInDatabase,
    HeadInFile,
    account_for_serving,
    head_stores,
    keep_head,
    known_heads,
    open_account,
)
from hdpstats.ledger import count_as_spent
from hdpstats.privacy.budget import Spend
from hdpstats.sites import single_draw
from tests.custodian.asked_by_files import SIMPLE, Place
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram
from tests.full_disk import full_disk

PLACES = {"file": lambda folder: {"file": "elsewhere.head"}, "database": lambda folder: {"database": database(folder)}}


def database(folder):
    return f"sqlite:///{folder}/elsewhere.db"


@pytest.fixture
def path(institution, tmp_path):
    """The settings of a site that keeps its head nowhere else."""
    settings = institution.write("account", PRIVATE, SCHEMA)
    yield settings
    shutil.rmtree(settings.parent)


def changed(path, **changes):
    fields = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(fields | changes))
    return SiteSettings.from_yaml(path)


def copy(path):
    """Return a copy of the ledger as a backup has it: what the log holds is in it."""
    backup = path.with_name("backup.db")
    with sqlite3.connect(path.with_name("ledger.db")) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    return backup


def restore(path):
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    shutil.copy(path.with_name("backup.db"), path.with_name("ledger.db"))


def test_a_site_makes_no_account(path):
    path.with_name("ledger.db").unlink()
    settings = SiteSettings.from_yaml(path)
    for opening in (open_site, note, open_account):
        with pytest.raises(hdp.LedgerError, match="hdpstats ledger open"):
            opening(settings)
    assert not path.with_name("ledger.db").exists()


@pytest.mark.parametrize(
    "terms", [{"epsilon": 3}, {"delta": 0.5}, {"relation": "add_or_remove_one"}, {"gaussian": {"epsilon": 1}}]
)
def test_terms_of_the_settings_must_be_those_of_the_account(path, terms):
    ledger = yaml.safe_load(path.read_text())["ledger"] | terms
    with pytest.raises(hdp.LedgerError, match=next(iter(terms))):
        open_site(changed(path, ledger=ledger))
    open_site(changed(path, ledger={"place": "ledger.db", "dataset": "trial"}))


def test_another_data_set_of_the_same_people_must_share_the_account(path):
    hdp.Ledger(path.with_name("ledger.db"), dataset="own", epsilon=1)
    ledger = {"place": "ledger.db", "dataset": "trial", "same_people_as": "own"}
    with pytest.raises(hdp.LedgerError, match="share"):
        open_site(changed(path, ledger=ledger))


@pytest.mark.parametrize("place", PLACES)
def test_an_older_copy_of_a_ledger_is_not_served(path, place):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    site = open_site(settings)
    site.answer(histogram())
    copy(path)
    site.answer(histogram(replicate=2))
    open_site(settings)
    restore(path)
    for opening in (open_site, note):
        with pytest.raises(hdp.LedgerError, match="grant again"):
            opening(settings)
    assert main(["site", "serve", str(path)]) == 1


@pytest.mark.parametrize("place", PLACES)
def test_a_ledger_made_anew_is_not_served(path, place):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    open_site(settings).answer(histogram())
    path.with_name("ledger.db").unlink()
    hdp.Ledger(path.with_name("ledger.db"), dataset="trial", epsilon=1000, delta=1e-3)
    with pytest.raises(hdp.LedgerError, match="grant again"):
        open_site(settings)


@pytest.mark.parametrize("place", PLACES)
def test_a_head_that_was_deleted_is_not_taken_for_a_new_one(path, place):
    settings = changed(path, heads=PLACES[place](path.parent))
    with pytest.raises(hdp.LedgerError, match="site note"):
        open_site(settings)
    head = note(settings)
    assert note(settings) == head
    open_site(settings)


def test_a_head_of_the_settings_is_compared(path):
    ledger = hdp.Ledger.open_existing(path.with_name("ledger.db"))
    copy(path)
    ledger.grant("ann", epsilon=1)
    settings = changed(path, heads={"head": ledger.head, "entries": ledger.verify().entries})
    open_site(settings)
    restore(path)
    with pytest.raises(hdp.LedgerError, match="the settings"):
        open_site(settings)


def test_an_earlier_number_of_entries_in_the_settings_is_said_to_be_possibly_wrong(path):
    ledger = hdp.Ledger.open_existing(path.with_name("ledger.db"))
    ledger.grant("ann", epsilon=1)
    with pytest.raises(hdp.LedgerError, match="`entries` is wrong"):
        open_site(changed(path, heads={"head": ledger.head, "entries": ledger.verify().entries - 1}))


def test_the_head_is_kept_before_rows_are_read_and_before_an_answer_leaves(path, monkeypatch):
    settings = changed(path, heads={"file": "elsewhere.head"})
    note(settings)
    site, store, seen = open_site(settings), HeadInFile(path.with_name("elsewhere.head")), []
    compute = hdp.LocalSite._compute

    def watched(self, *arguments):
        seen.append(store.read())
        return compute(self, *arguments)

    monkeypatch.setattr(hdp.LocalSite, "_compute", watched)
    release = site.answer(histogram())
    at_release = store.read()
    assert at_release == Head(seen[0].entries + 1, release.entry.head)
    assert at_release.head == site.ledger.head
    site.ledger.verify(seen[0].head)


def test_where_no_head_can_be_kept_no_row_is_read(path, monkeypatch):
    settings = changed(path, heads={"file": "elsewhere.head"})
    note(settings)
    site = open_site(settings)

    def full(self, hashes):
        raise hdp.LedgerError("the disk is full")

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(HeadInFile, "write", full)
    monkeypatch.setattr(hdp.LocalSite, "_compute", never)
    with pytest.raises(hdp.LedgerError, match="full"):
        site.answer(histogram())


def executed(file, statement):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)


def test_a_disk_of_the_head_that_fills_after_the_check_has_room_for_the_head(path, monkeypatch):
    store, chain = HeadInFile(path.with_name("elsewhere.head")), [letter * 64 for letter in "abc"]
    store.write(chain[:1])
    store.prepare()
    right = os.posix_fallocate

    def full(number, start, length):
        if os.fstat(number).st_size < length:  # it has no room yet
            raise OSError(errno.ENOSPC, "No space left on device")
        right(number, start, length)

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert store.write(chain[:2]) == store.read() == Head(2, "b" * 64)


@pytest.mark.parametrize("place", PLACES)
def test_a_full_disk_of_the_head_refuses_before_anything_is_charged(path, place, monkeypatch):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    site = open_site(settings)
    entries, (store,) = site.ledger.verify().entries, head_stores(settings)
    kept = store.read()

    right = os.posix_fallocate

    def full(number, start, length):
        if length < 1000:  # the ledger's disk is another one
            raise OSError(errno.ENOSPC, "No space left on device")
        right(number, start, length)

    elsewhere = path.with_name("elsewhere.db")
    if place == "file":
        monkeypatch.setattr(os, "posix_fallocate", full)
    else:
        executed(elsewhere, "CREATE TRIGGER full BEFORE UPDATE ON hdpstats_head BEGIN SELECT RAISE(FAIL, 'full'); END")
    with pytest.raises(NothingCharged, match=r"next head .*(space|full)"):
        site.answer(histogram())
    assert (site.ledger.verify().entries, store.read()) == (entries, kept)
    monkeypatch.undo()
    if place == "database":
        executed(elsewhere, "DROP TRIGGER full")
    site.answer(histogram())
    assert store.read().entries == entries + 2


@pytest.mark.parametrize("place", PLACES)
def test_where_the_system_writes_nothing_no_head_can_be_kept(place, tmp_path):
    """SQLite writes nothing, and so meets no full disk, where the numbers of a row are those that it had."""
    store = kept_at(place, tmp_path)
    kept = store.write(["a" * 64])
    if place == "file":
        store._spare.unlink()  # which has its room already
    with full_disk(), pytest.raises(hdp.LedgerError, match=r"next head could not be kept .* and space$") as caught:
        store.prepare()
    assert "charged" not in str(caught.value)
    with full_disk(), pytest.raises(hdp.LedgerError, match=r"head cannot be kept .* and space; what was charged stays"):
        store.write(["a" * 64, "b" * 64])
    store.prepare()
    assert store.read() == kept


def kept_at(place, folder):
    return HeadInFile(folder / "head") if place == "file" else HeadInDatabase(database(folder), "trial")


def test_a_head_in_a_file_of_sqlite_outlives_a_loss_of_power(tmp_path):
    """3 is EXTRA: with less, a journal that comes back in its folder undoes the commit."""
    with kept_at("database", tmp_path)._engine.connect() as connection:
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "fullfsync")}
    assert found == {"synchronous": 3, "fullfsync": 1}


@pytest.mark.parametrize("place", PLACES)
def test_a_head_never_goes_back(tmp_path, place):
    store, chain = kept_at(place, tmp_path), [letter * 64 for letter in "abcdef"]
    assert store.read() is None
    newer = Head(6, "f" * 64)
    assert [store.write(chain[:length]) for length in (6, 5, 6)] == [newer] * 3
    assert store.read() == newer


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", [2, 3, 4, 9])
def test_a_head_is_not_replaced_by_that_of_another_chain(tmp_path, place, length):
    store, kept = kept_at(place, tmp_path), Head(3, "c" * 64)
    assert store.write([letter * 64 for letter in "abc"]) == kept
    other = [letter * 64 for letter in "abdefcccc"][:length]
    assert store.write(other) == store.read() == kept


@pytest.mark.parametrize("place", PLACES)
def test_a_ledger_behind_its_kept_head_is_never_charged(path, place, monkeypatch):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    site, idle = open_site(settings), open_site(settings)
    copy(path)
    for number in range(2):
        site.answer(histogram(replicate=number + 2))
    (kept,) = [store.read() for store in head_stores(settings)]
    restore(path)
    entries = idle.ledger.verify().entries

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(hdp.LocalSite, "_compute", never)
    for number in range(kept.entries - entries + 2):
        with pytest.raises(hdp.LedgerError, match="grant again"):
            idle.answer(histogram(replicate=number + 9))
    assert idle.ledger.verify().entries == entries
    assert [store.read() for store in head_stores(settings)] == [kept]
    with pytest.raises(hdp.LedgerError, match="grant again"):
        open_site(settings)


@pytest.mark.parametrize("place", PLACES)
def test_heads_are_read_before_a_charge_holds_the_ledger(path, place, monkeypatch):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    site, held = open_site(settings), []

    def watched(right, self):
        with closing(sqlite3.connect(path.with_name("ledger.db"), timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                held.append(False)
            except sqlite3.OperationalError:
                held.append(True)
        return right(self)

    for kind in (HeadInFile, HeadInDatabase):
        monkeypatch.setattr(kind, "read", partialmethod(partial(watched, kind.read)))
    site.answer(histogram())
    assert held
    assert not any(held)


def test_a_head_that_another_process_keeps_meanwhile_hinders_no_charge(path, monkeypatch):
    settings = changed(path, heads=PLACES["file"](path.parent))
    note(settings)
    site, other, read = open_site(settings), open_site(settings), HeadInFile.read
    entries = site.ledger.verify().entries

    def interleaved(self):
        found = read(self)
        monkeypatch.setattr(HeadInFile, "read", read)
        other.answer(histogram(replicate=2))
        return found

    monkeypatch.setattr(HeadInFile, "read", interleaved)
    site.answer(histogram())
    assert site.ledger.verify().entries == entries + 4  # two charges and their releases


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("failing", ["read", "write"])
def test_only_what_was_refused_before_it_was_charged_keeps_no_draw(path, place, failing, monkeypatch):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    site, own = open_site(settings), single_draw._Attempts()
    entries = site.ledger.verify().entries

    def unreachable(*_):
        raise hdp.LedgerError("the server is down")

    monkeypatch.setattr(single_draw, "_ATTEMPTS", own)
    for kind in (HeadInFile, HeadInDatabase):
        monkeypatch.setattr(kind, failing, unreachable)
    for number in range(3):
        with pytest.raises(hdp.LedgerError, match="down"):
            site.answer(histogram(replicate=number + 1))
    charges = site.ledger.verify().entries - entries
    assert len(own._found) == charges == {"read": 0, "write": 3}[failing]


def test_a_server_for_heads_has_a_limited_time_to_answer(monkeypatch):
    seen = []

    def connect(*_, **options):
        seen.append(options)
        raise psycopg.OperationalError("unreachable")

    monkeypatch.setattr(psycopg, "connect", connect)
    for url, seconds in (("postgresql://nowhere/heads", 30), ("postgresql://nowhere/heads?connect_timeout=5", 5)):
        with pytest.raises(hdp.LedgerError, match="unreachable"):
            HeadInDatabase(url, "trial").read()
        assert int(seen[-1]["connect_timeout"]) == seconds


@pytest.mark.parametrize("place", PLACES)
def test_a_release_is_recorded_although_the_head_cannot_be_read_once_it_was_charged(path, place, monkeypatch):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    site, compute = open_site(settings), hdp.LocalSite._compute

    def unreachable(*_):
        raise hdp.LedgerError("the server is down")

    with monkeypatch.context() as patch:

        def computed(self, *arguments):
            for kind in (HeadInFile, HeadInDatabase):
                patch.setattr(kind, "read", unreachable)
                patch.setattr(kind, "write", unreachable)
            return compute(self, *arguments)

        patch.setattr(hdp.LocalSite, "_compute", computed)
        with pytest.raises(hdp.LedgerError, match="down"):
            site.answer(histogram())
    spent, recorded = site.ledger.spent, site.received(histogram())
    assert recorded is not None
    assert open_site(settings).answer(histogram()) == recorded
    assert site.ledger.spent == spent


@pytest.mark.parametrize("place", PLACES)
def test_a_head_on_another_chain_is_kept_whatever_the_ledger_has_been_charged(path, place):
    settings = changed(path, heads=PLACES[place](path.parent))
    note(settings)
    copy(path)
    ledger, places = open_account(settings), head_stores(settings)
    ledger.watch(partial(keep_head, ledger, places))
    ledger.grant("ann", epsilon=1)
    kept = [store.read() for store in places]
    restore(path)
    behind = open_account(settings)
    behind.watch(partial(keep_head, behind, places))
    for epsilon in range(2, 6):
        with pytest.raises(hdp.LedgerError, match="grant again"):
            behind.grant("ann", epsilon=epsilon)
    assert behind.verify().entries > kept[0].entries
    assert [store.read() for store in places] == kept


@pytest.mark.parametrize("place", PLACES)
def test_heads_that_are_kept_out_of_order_are_right(path, place):
    settings = changed(path, heads=PLACES[place](path.parent))
    ledger, places = open_account(settings), head_stores(settings)
    first = ledger.verify()
    ledger.grant("ann", epsilon=1)
    later = ledger.verify()
    for found in (later, first, later):
        keep_head(ledger, places, found.hashes)
    assert [place.read() for place in places] == [Head(later.entries, later.head)]


def test_a_damaged_head_is_refused(path):
    settings = changed(path, heads={"file": "elsewhere.head"})
    path.with_name("elsewhere.head").write_text("{}")
    with pytest.raises(hdp.LedgerError, match="cannot be read"):
        open_site(settings)


def test_what_a_site_starts_from_is_logged(path, monkeypatch):
    lines = []
    monkeypatch.setattr(log, "write", lambda **facts: lines.append(facts))
    settings = SiteSettings.from_yaml(path)
    found = open_account(settings).head
    ledger = account_for_serving(settings)
    line = next(line for line in lines if "entries" in line)
    assert (line["ledger"], line["head"], line["spent"]) == ("trial", found, str(Spend(0)))
    assert ledger.verify(found)  # caps and quotas of analysts follow it
    assert "nowhere" in line["head_kept_in"]


def test_a_password_may_be_in_the_environment(path, monkeypatch):
    monkeypatch.setenv("LEDGER_PASSWORD", "s/cret@")
    place = {"place": "postgresql://site@db/ledgers", "dataset": "t", "password_variable": "LEDGER_PASSWORD"}
    settings = changed(path, ledger=place)
    assert settings.ledger.place == "postgresql+psycopg://site:s%2Fcret%40@db/ledgers"


CAPPED = {"mechanisms": "all", "models": "all"}


def with_caps(path, **epsilons):
    return changed(path, analysts={name: {**CAPPED, "epsilon": epsilon} for name, epsilon in epsilons.items()})


def test_a_cap_below_what_was_spent_stops_that_analyst_and_not_the_site(path, monkeypatch):
    said = []
    site = open_site(with_caps(path, ann=2, bob=2))
    release = site.answer(histogram(epsilon="3/2"), analyst="ann")
    monkeypatch.setattr(log, "write", lambda **facts: said.append(facts))
    lower = with_caps(path, ann=1, bob=1)
    assert "ann is stopped: " in serving.described(lower)
    site = open_site(lower)
    assert [each["stopped"] for each in said if "stopped" in each] == ["ann"]
    with pytest.raises(hdp.QuotaExceeded):
        site.answer(histogram(epsilon="1/10", replicate=2), analyst="ann")
    assert site.answer(histogram(epsilon="3/2"), analyst="ann") == release
    site.answer(histogram(epsilon="1/10", replicate=3), analyst="bob")
    open_site(with_caps(path, ann=2, bob=1)).answer(histogram(epsilon="1/10", replicate=2), analyst="ann")


def test_a_cap_that_was_granted_by_hand_is_not_raised_by_a_start(path):
    settings = with_caps(path, ann=2)
    open_site(settings)
    assert main(["ledger", "grant", str(path.with_name("ledger.db")), "--analyst", "ann", "--epsilon", "0.5"]) == 0
    for refused in (open_site, serving.described):
        with pytest.raises(hdp.LedgerError, match="'ann' was granted"):
            refused(settings)
    assert open_account(settings).caps["ann"].total == hdp.Budget(epsilon=0.5)
    open_site(with_caps(path, ann=0.5))
    open_site(with_caps(path, ann=2))
    assert open_account(settings).caps["ann"].total == hdp.Budget(epsilon=2)


def test_an_analyst_who_was_stopped_by_hand_stays_so_and_the_log_says_it(path, monkeypatch):
    settings, said = with_caps(path, ann=2), []
    open_site(settings)
    words = ["--analyst", "ann", "--epsilon", "2", "--most-charges", "0"]
    assert main(["ledger", "grant", str(path.with_name("ledger.db")), *words]) == 0
    monkeypatch.setattr(log, "write", lambda **facts: said.append(facts))
    with pytest.raises(hdp.QuotaExceeded):
        open_site(settings).answer(histogram(epsilon="1/10"), analyst="ann")
    assert [each["quota_of"] for each in said if "quota_of" in each] == ["ann"]


def test_after_a_loss_a_head_is_replaced_only_where_nothing_is_left(institution, tmp_path):
    database = f"sqlite:///{tmp_path / 'heads.db'}"
    heads = {"file": str(tmp_path / "head"), "database": database}
    path = institution.write("lost", PRIVATE, SCHEMA, heads=heads)
    settings = SiteSettings.from_yaml(path)
    note(settings)
    assert {head.entries for head in known_heads(settings)} == {1}
    old = {"head": hdp.Ledger.open_existing(path.parent / "ledger.db").head, "entries": 1}
    away = {"file": str(tmp_path / "gone"), "database": f"sqlite:///{tmp_path / 'gone.db'}"}
    assert len(known_heads(changed(path, heads=heads | old))) == 3
    assert known_heads(changed(path, heads=away | old)) == ()  # a head that stays what it is shows no loss
    settings = changed(path, heads=heads)
    place = path.parent / "ledger.db"
    place.unlink()
    hdp.Ledger(place, dataset="trial", epsilon=1000, delta=1e-3, create=True)  # another one
    with pytest.raises(hdp.LedgerError, match=r"ledger restore BACKUP PLACE --site.*hdpstats ledger\s+lost PLACE"):
        note(settings)
    with pytest.raises(hdp.LedgerError, match="is not among them"):
        serving.described(settings)
    with pytest.raises(hdp.LedgerError, match="has something left"):
        note(settings, after_loss=True)
    count_as_spent(place)
    with pytest.raises(hdp.LedgerError, match="is not among them"):
        note(settings)
    noted = note(settings, after_loss=True)
    assert {(head.entries, head.head) for head in known_heads(settings)} == {(noted.entries, noted.head)}
    assert account_for_serving(settings).is_used_up()


def test_a_head_in_the_settings_is_for_the_custodian_to_change(institution):
    path = institution.write("worded", PRIVATE, SCHEMA, heads={"head": "a" * 64, "entries": 1})
    count_as_spent(path.parent / "ledger.db")
    with pytest.raises(hdp.LedgerError, match="write there 'head: "):
        note(SiteSettings.from_yaml(path), after_loss=True)


def test_a_backup_is_compared_with_the_head_of_a_site(institution, tmp_path, capsys):
    path = institution.write("backed", PRIVATE, SCHEMA, heads={"file": str(tmp_path / "head")})
    place, backup, again = path.parent / "ledger.db", tmp_path / "it.backup", tmp_path / "again.db"
    settings = SiteSettings.from_yaml(path)
    note(settings)

    def run(*words):
        code = main(["ledger", *map(str, words)])
        return code, "".join(capsys.readouterr())

    code, said = run("backup", place, backup)
    assert (code, "1 entry verifies" in said) == (0, True), said
    account_for_serving(settings)  # which grants, and keeps the head
    code, said = run("restore", backup, again, "--site", path)
    assert (code, "older than the ledger was" in said) == (1, True)
    assert run("restore", backup, again)[0] == 1
    code, said = run("restore", backup, again, "--site", path, "--count-as-spent")
    assert (code, "--after-loss" in said) == (0, True)
    backup.unlink()
    run("backup", place, backup)
    again.unlink()
    code, said = run("restore", backup, again, "--site", path)
    assert (code, "and 0 later ones" in said) == (0, True)
    assert run("restore", backup, again, "--site", path)[0] == 1  # there is one
    again.unlink()
    head = hdp.Ledger.open_existing(place).head  # which the custodian noted somewhere
    code, said = run("restore", backup, again, "--head", head)
    assert (code, "--nothing-since" in said) == (1, True)
    code, said = run("restore", backup, again, "--head", head, "--nothing-since")
    assert (code, "is what you stated" in said) == (0, True)
    assert run("lost", again)[0] == 0
    code, said = run("lost", tmp_path / "gone.db", "--dataset", "trial")
    assert (code, "belong together" in said) == (2, True)
    assert run("lost", tmp_path / "gone.db", "--dataset", "trial", "--epsilon", "3", "--delta", "1e-6")[0] == 0
    assert hdp.Ledger.open_existing(tmp_path / "gone.db").is_used_up()


def test_a_release_that_was_handed_out_contradicts_a_head_from_before_it(tmp_path, capsys):
    place = Place(tmp_path)
    ledger, backup = tmp_path / "ledger.db", tmp_path / "it.backup"
    head = hdp.Ledger.open_existing(ledger).head
    main(["ledger", "backup", str(ledger), str(backup)])
    place.ask(*SIMPLE)
    place.answer()
    capsys.readouterr()

    def run(*words):
        code = main(["ledger", "restore", str(backup), str(tmp_path / "again.db"), "--head", head, *map(str, words)])
        return code, "".join(capsys.readouterr())

    for words in (["--release", place.release], ["--release", tmp_path / "outbox"], ["--site", place.file]):
        (tmp_path / "outbox" / "ann").mkdir(exist_ok=True, parents=True)
        shutil.copy(place.release, tmp_path / "outbox" / "ann" / "it.json")
        (tmp_path / "outbox" / "ann" / "it.refused.json").write_text("{}")
        code, said = run("--nothing-since", *words)
        assert (code, "lacks" in said) == (1, True), said
    assert not (tmp_path / "again.db").exists()
    assert run("--nothing-since")[0] == 0  # as nothing that is given shows it

"""A ledger that is missing, older than it was, or readable by others is noticed before a site serves."""

import errno
import grp
import os
import pwd
import shutil
import sqlite3
import stat
from contextlib import closing
from fractions import Fraction
from functools import partial, partialmethod
from pathlib import Path

import psycopg
import pytest
import yaml

import hdpstats.api as hdp
from hdpstats._base.errors import NothingCharged
from hdpstats.cli import main
from hdpstats.custodian import Overruns, SiteSettings, journal, note, open_site, reading, serving
from hdpstats.custodian.kept_head import (
    Head,
    HeadInDatabase,
    HeadInFile,
    account_for_serving,
    head_stores,
    keep_head,
    open_account,
)
from hdpstats.custodian.reading import check_folder, check_secret, check_trusted, mode_of, write_durably
from hdpstats.custodian.serving import check_files
from hdpstats.privacy.budget import Spend
from hdpstats.sites import single_draw
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
    monkeypatch.setattr(journal, "write", lambda **facts: lines.append(facts))
    settings = SiteSettings.from_yaml(path)
    found = open_account(settings).head
    ledger = account_for_serving(settings)
    line = next(line for line in lines if "entries" in line)
    assert (line["ledger"], line["head"], line["spent"]) == ("trial", found, str(Spend(0)))
    assert ledger.verify(found)  # caps and quotas of analysts follow it
    assert "nowhere" in line["head_kept_in"]


@pytest.mark.parametrize("mode", [0o660, 0o644, 0o666, 0o602])
@pytest.mark.parametrize("name", ["rows.parquet", "own.key"])
def test_secrets_that_others_may_read_are_not_served(institution, path, name, mode):
    shutil.copy(institution.site_files[1], path.with_name("own.key"))
    path.with_name("own.key").chmod(0o600)
    tls = yaml.safe_load(path.read_text())["tls"] | {"key": "own.key"}
    settings = changed(path, tls=tls)
    open_site(settings)
    path.with_name(name).chmod(mode)
    with pytest.raises(hdp.ArgumentError, match="chmod 600"):
        open_site(settings)
    assert main(["site", "check", str(path)]) == 2


@pytest.mark.parametrize("name", ["authority.pem", "tokens.pub"])
def test_what_a_site_believes_must_not_be_written_by_others(institution, path, name):
    trusted = institution.folder / name
    trusted.chmod(0o666)
    try:
        with pytest.raises(hdp.ArgumentError, match="go-w"):
            open_site(SiteSettings.from_yaml(path))
    finally:
        trusted.chmod(0o644)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("issuer-ca.pem", "tokens: ca"),
        ("dictionary.yaml", "schema"),
        ("site.overruns.db", "timing"),
        ("elsewhere.head", "heads: file"),
    ],
)
def test_whatever_decides_for_a_site_must_not_be_written_by_others(institution, path, name, found):
    shutil.copy(institution.authority.path, path.with_name("issuer-ca.pem"))
    tokens = {"audience": "trial", "issuer": "https://id.example", "ca": "issuer-ca.pem"}
    settings = changed(path, tokens=tokens, heads={"file": "elsewhere.head"})
    note(settings)
    Overruns(settings.overruns)
    open_site(SiteSettings.from_yaml(path))
    path.with_name(name).chmod(0o622)
    with pytest.raises(hdp.ArgumentError, match=f"{found}: .*go-w"):
        open_site(SiteSettings.from_yaml(path))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
@pytest.mark.parametrize("name", ["schema", "data", "ledger"])
def test_what_a_site_believes_must_not_be_replaced_by_others(path, name, mode):
    fields, folder = yaml.safe_load(path.read_text()), path.with_name("apart")
    folder.mkdir()
    entry = fields["ledger"]["place"] if name == "ledger" else fields[name]
    path.with_name(entry).rename(folder / entry)
    place = f"apart/{entry}"
    changed(path, **{name: {**fields["ledger"], "place": place} if name == "ledger" else place})
    open_site(SiteSettings.from_yaml(path))
    folder.chmod(mode)
    if mode & stat.S_ISVTX and name != "ledger":
        open_site(SiteSettings.from_yaml(path))  # nobody replaces what is another's, and nothing is read beside it
        return
    with pytest.raises(hdp.ArgumentError, match=f"{name}: .*apart"):
        open_site(SiteSettings.from_yaml(path))


def test_a_link_does_not_hide_a_folder_where_others_may_write(path):
    folder = path.with_name("open")
    folder.mkdir()
    path.with_name("dictionary.yaml").rename(folder / "dictionary.yaml")
    path.with_name("dictionary.yaml").symlink_to(folder / "dictionary.yaml")
    SiteSettings.from_yaml(path)
    folder.chmod(0o777)
    with pytest.raises(hdp.ArgumentError, match="schema: "):
        SiteSettings.from_yaml(path)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_no_folder_above_may_be_replaced_by_others_either(path, mode):
    trusted = path.with_name("above") / "apart" / "ca.pem"
    trusted.parent.mkdir(parents=True)
    trusted.touch(mode=0o644)
    check_trusted(trusted, name="tls: clients")
    trusted.parent.parent.chmod(mode)
    if mode & stat.S_ISVTX:
        check_trusted(trusted, name="tls: clients")
        return
    with pytest.raises(hdp.ArgumentError, match=r"tls: clients: .*above \(mode .*go-w"):
        check_trusted(trusted, name="tls: clients")


def test_no_folder_of_a_link_on_the_way_may_be_replaced_by_others(path):
    shared, real = path.with_name("shared"), path.with_name("real")
    shared.mkdir()
    real.mkdir()
    (real / "ca.pem").touch(mode=0o644)
    (shared / "current").symlink_to("../real")
    path.with_name("heads").symlink_to(shared / "current")
    path.with_name("circle").symlink_to("circle")
    for trusted in (path.with_name("heads") / "ca.pem", shared / ".." / "heads" / "ca.pem"):
        shared.chmod(0o755)
        check_trusted(trusted, name="tls: clients")
        shared.chmod(0o777)
        with pytest.raises(hdp.ArgumentError, match=r"tls: clients: .*shared \(mode .*go-w"):
            check_trusted(trusted, name="tls: clients")
    check_trusted(path.with_name("circle"), name="tls: clients")  # there is nothing to trust


@pytest.mark.parametrize("place", ["file", "link", "around"])
def test_others_may_put_nothing_beside_a_file(path, place):
    """A journal beside a ledger would be read as part of it."""
    shared, real = path.with_name("shared"), path.with_name("real")
    shared.mkdir()
    real.mkdir()
    (real / "ledger.db").touch(mode=0o600)
    (shared / "ledger.db").symlink_to(real / "ledger.db")
    file = {"file": real, "link": shared, "around": real / ".." / "shared"}[place] / "ledger.db"
    check_folder(file, name="ledger", alone=True)
    (real if place == "file" else shared).chmod(0o1777)
    check_folder(file, name="tls: clients")  # nobody replaces it: a volume of secrets in Kubernetes has this mode
    with pytest.raises(hdp.ArgumentError, match=r"ledger: .*put files beside it"):
        check_folder(file, name="ledger", alone=True)


def test_a_link_at_the_end_of_a_way_around_has_its_folder_too(path):
    shared, real = path.with_name("shared"), path.with_name("real")
    (shared / "below").mkdir(parents=True)
    real.mkdir()
    (shared / "head").symlink_to(real / "head")
    shared.chmod(0o1777)
    for file in (shared / "head", shared / "below" / ".." / "head"):
        with pytest.raises(hdp.ArgumentError, match=r"heads: file: .*shared \(mode 1777\).*put files beside it"):
            check_trusted(file, name="heads: file", alone=True)


def test_a_folder_that_others_might_make_first_is_refused(path):
    with pytest.raises(hdp.ArgumentError, match=r"ledger: there is no folder .*none on the way .*make it"):
        check_folder(path.with_name("none") / "ledger.db", name="ledger")


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize(
    ("name", "file"), [("ledger", "ledger.db"), ("timing", "site.overruns.db"), ("heads: database", "elsewhere.db")]
)
def test_what_another_user_left_beside_a_database_is_not_read_as_part_of_it(path, name, file, end, monkeypatch):
    settings = changed(path, heads=PLACES["database"](path.parent))
    check_files(settings)
    beside = path.with_name(f"{file}{end}")
    beside.touch(mode=0o666)
    right = Path.lstat

    def lstat(self):
        found = list(right(self))
        return os.stat_result([*found[:4], os.geteuid() + (self == beside), *found[5:]])

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(hdp.ArgumentError, match=f"{name}: .*{end} belongs to another user"):
        check_files(settings)


def test_a_file_that_was_there_is_not_written_on_the_way_to_a_new_one(path):
    own, left = path.with_name("own"), path.with_name("kept.new")
    own.write_text("as it was")
    left.symlink_to(own)
    write_durably(path.with_name("kept"), "new")
    assert (own.read_text(), path.with_name("kept").read_text()) == ("as it was", "new")
    assert mode_of(path.with_name("kept")) == 0o600
    path.with_name("folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durably(path.with_name("folder"), "new")
    assert {each.name for each in path.parent.glob("*.new")} == {"kept.new"}


def test_a_folder_where_others_may_put_code_is_refused(path, monkeypatch):
    folder = path.with_name("numba") / "models_1"
    folder.mkdir(parents=True)
    monkeypatch.setattr(serving, "kept_code", lambda: [folder])
    settings = SiteSettings.from_yaml(path)
    check_files(settings)
    for shared in (folder, folder.parent):
        shared.chmod(0o1777)
        with pytest.raises(hdp.ArgumentError, match=r"compiled code \(NUMBA_CACHE_DIR\): .*put files beside it"):
            check_files(settings)
        shared.chmod(0o755)


@pytest.mark.parametrize("check", [check_trusted, check_secret, check_folder])
@pytest.mark.parametrize("owned", ["link", "rows", "apart", "above"])
def test_what_belongs_to_another_user_is_refused_and_what_belongs_to_root_is_not(path, check, owned, monkeypatch):
    above = path.with_name("above")
    rows, link = above / "apart" / "rows", path.with_name("link")
    rows.parent.mkdir(parents=True)
    above.chmod(0o1755)
    rows.touch(mode=0o600)
    link.symlink_to(rows)
    right, owner = Path.lstat, {}

    def lstat(self):
        found = list(right(self))
        return os.stat_result([*found[:4], owner.get(self.name, found[4]), *found[5:]])

    monkeypatch.setattr(Path, "lstat", lstat)
    for accepted in (os.geteuid(), 0):
        owner[owned] = accepted
        check(link, name="data")
    owner[owned] = os.geteuid() + 1
    with pytest.raises(hdp.ArgumentError, match=f"data: .*{owned} belongs to another user .*chown"):
        check(link, name="data")


def seen_as(monkeypatch, path, *, owner=None, group=None, mode=None, device=None):
    """Let the system say of a file that it has another owner, group, mode or device."""

    def changed_stat(right):
        def found(self, **options):
            parts = list(right(self, **options))
            if self == path:
                parts[0] = parts[0] if mode is None else stat.S_IFMT(parts[0]) | mode
                parts[2] = parts[2] if device is None else device
                parts[4] = parts[4] if owner is None else owner
                parts[5] = parts[5] if group is None else group
            return os.stat_result(parts)

        return found

    for name in ("stat", "lstat"):
        monkeypatch.setattr(Path, name, changed_stat(getattr(Path, name)))


@pytest.fixture
def volume(path, monkeypatch):
    """A volume as Kubernetes makes it with `fsGroup`: of a group of this process, which has no other member."""
    folder = path.with_name("volume")
    folder.mkdir()
    folder.chmod(0o2775)
    monkeypatch.setattr(grp, "getgrgid", lambda number: {}[number])
    monkeypatch.setattr(pwd, "getpwall", list)
    return folder


def test_ledger_and_state_may_be_in_a_volume_of_the_services_own_group(path, volume):
    """`fsGroup` gives its group the permission to read and write every file when the volume is mounted again."""
    ledger = yaml.safe_load(path.read_text())["ledger"] | {"place": "volume/ledger.db"}
    path.with_name("ledger.db").rename(volume / "ledger.db")
    settings = changed(path, ledger=ledger, state="volume", heads={"file": "volume/kept.head"})
    note(settings)
    open_site(settings).answer(histogram(epsilon=str(Fraction(1, 10))))
    for each in volume.iterdir():
        each.chmod(0o660)
    (volume / "site.cells.json").chmod(0o640)
    open_site(SiteSettings.from_yaml(path))
    assert mode_of(volume / "ledger.db") == 0o660
    for mode in (0o664, 0o662):
        (volume / "site.cells.json").chmod(mode)
        with pytest.raises(hdp.ArgumentError, match="others than the owner may read or write"):
            open_site(SiteSettings.from_yaml(path))


EVE = pwd.struct_passwd(("eve", "x", 4713, os.getegid(), "", "/", "/bin/sh"))


@pytest.mark.parametrize("odd", ["mode", "group", "no setgid", "member", "first group", "file"])
def test_a_volume_of_a_group_that_others_have_is_refused(volume, odd, monkeypatch):
    file = volume / "kept.head"
    file.touch()
    file.chmod(0o660)
    check_trusted(file, name="heads", alone=True)
    if odd == "mode":
        volume.chmod(0o2777)
    elif odd == "group":
        monkeypatch.setattr(os, "getgroups", list)
        monkeypatch.setattr(os, "getegid", lambda: 4713)
    elif odd == "no setgid":
        volume.chmod(0o775)
    elif odd == "member":
        monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("rows", "x", number, ["eve"])))
    elif odd == "first group":
        monkeypatch.setattr(pwd, "getpwall", lambda: [EVE])
    else:
        seen_as(monkeypatch, file, group=4713)
    with pytest.raises(hdp.ArgumentError, match="heads: others than the owner may write"):
        check_trusted(file, name="heads", alone=True)


ROOT = 4711


@pytest.fixture
def not_root(monkeypatch):
    """The user of this process is not root, whoever it is: `ROOT` is."""
    monkeypatch.setattr(reading, "_roots", lambda: {0, ROOT} - {os.geteuid()})


@pytest.mark.usefixtures("not_root")
@pytest.mark.parametrize(("mode", "accepted"), [(0o640, True), (0o440, True), (0o660, False), (0o644, False)])
def test_a_secret_of_roots_may_be_read_by_the_group_that_root_gave_it_to(path, mode, accepted, monkeypatch):
    rows = path.with_name("rows.parquet")
    seen_as(monkeypatch, rows, owner=ROOT, mode=mode)
    if accepted:
        check_secret(rows, name="data")
        return
    with pytest.raises(hdp.ArgumentError, match=r"data: .*chmod 600 .*chmod 640"):
        check_secret(rows, name="data")


@pytest.mark.usefixtures("not_root")
def test_a_secret_of_the_service_itself_may_be_read_by_no_group(path):
    rows = path.with_name("rows.parquet")
    rows.chmod(0o640)
    with pytest.raises(hdp.ArgumentError, match="chmod 600"):
        check_secret(rows, name="data")


@pytest.mark.usefixtures("not_root")
@pytest.mark.parametrize("mode", [0o444, 0o440, 0o644, 0o646])
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("read_only", [True, False])
def test_everybody_may_read_a_secret_in_memory_that_is_mounted_read_only(path, mode, kind, read_only, monkeypatch):
    rows, device = path.with_name("rows.parquet"), os.makedev(0, 4711)
    path.with_name("mounts").write_text(
        f"1 2 8:1 / / rw - ext4 a rw\n36 35 0:4711 / /run/s ro - {kind} t rw,size=64k\n"
    )
    monkeypatch.setattr(reading, "MOUNTS", path.with_name("mounts"))
    seen_as(monkeypatch, rows, mode=mode, device=device)
    flags = os.ST_RDONLY if read_only else 0
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([0] * 8 + [flags, 255, 0]))
    if read_only and kind == "tmpfs" and mode != 0o646:
        check_secret(rows, name="data")
        return
    with pytest.raises(hdp.ArgumentError, match="others than the owner may read or write"):
        check_secret(rows, name="data")


@pytest.mark.usefixtures("not_root")
def test_nobody_puts_files_beside_one_on_a_read_only_file_system(path, monkeypatch):
    """Settings in a volume of Kubernetes: its folder has the sticky bit, and everybody's permission to write."""
    volume = path.with_name("volume")
    volume.mkdir()
    (volume / "site.yaml").touch(mode=0o644)
    volume.chmod(0o1777)
    with pytest.raises(hdp.ArgumentError, match="put files beside it"):
        check_trusted(volume / "site.yaml", name="settings", alone=True)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([0] * 8 + [os.ST_RDONLY, 255, 0]))
    check_trusted(volume / "site.yaml", name="settings", alone=True)
    volume.chmod(0o777)  # without the sticky bit others replace it, where it is mounted otherwise
    with pytest.raises(hdp.ArgumentError, match="replace"):
        check_trusted(volume / "site.yaml", name="settings", alone=True)
    mounts, way = path.with_name("mounts"), os.fspath(volume.resolve()).replace(" ", "\\040")
    mounts.write_text(f"36 35 8:1 /pods/1 {way} ro - ext4 /dev/a rw\n")
    monkeypatch.setattr(reading, "MOUNTS", mounts)
    for owner, accepted in ((ROOT, True), (os.geteuid(), False)):  # a volume is root's
        with monkeypatch.context() as patch:
            seen_as(patch, volume.resolve(), owner=owner)
            if accepted:
                check_trusted(volume / "site.yaml", name="settings", alone=True)
                continue
            with pytest.raises(hdp.ArgumentError, match="replace"):
                check_trusted(volume / "site.yaml", name="settings", alone=True)


def test_a_file_out_of_reach_is_named(path, monkeypatch):
    rows, right = path.with_name("rows.parquet"), Path.stat

    def out_of_reach(self, **options):
        if self == rows:
            raise PermissionError(13, "Permission denied", str(self))
        return right(self, **options)

    monkeypatch.setattr(Path, "stat", out_of_reach)
    for check in (partial(check_secret, rows), partial(check_trusted, rows)):
        with pytest.raises(hdp.ArgumentError, match=r"data: .*Permission denied"):
            check(name="data")
    with pytest.raises(hdp.ArgumentError, match=r"data .*Permission denied"):
        SiteSettings.from_yaml(path)


def test_settings_that_others_may_write_are_refused(path):
    path.chmod(0o644)
    SiteSettings.from_yaml(path)
    path.chmod(0o666)
    with pytest.raises(hdp.ArgumentError, match="go-w"):
        SiteSettings.from_yaml(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"ledger": {"place": "postgresql://site:secret@db/ledgers", "dataset": "t"}},
        {"heads": {"database": "postgresql://db/heads?user=site&password=secret"}},
    ],
)
def test_settings_with_a_password_must_be_their_owners_alone(path, entry):
    changed(path, **entry)
    path.chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match="chmod 600") as caught:
        SiteSettings.from_yaml(path)
    assert "secret" not in str(caught.value)


def test_a_password_may_be_in_the_environment(path, monkeypatch):
    monkeypatch.setenv("LEDGER_PASSWORD", "s/cret@")
    place = {"place": "postgresql://site@db/ledgers", "dataset": "t", "password_variable": "LEDGER_PASSWORD"}
    settings = changed(path, ledger=place)
    assert settings.ledger.place == "postgresql+psycopg://site:s%2Fcret%40@db/ledgers"


def test_a_ledger_is_its_owners_alone(path):
    place = path.with_name("ledger.db")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    place.chmod(0o666)
    site = open_site(SiteSettings.from_yaml(path))
    site.answer(histogram(epsilon=str(Fraction(1, 10))))
    for each in path.parent.glob("ledger.db*"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


CAPPED = {"mechanisms": "all", "models": "all"}


def with_caps(path, **epsilons):
    return changed(path, analysts={name: {**CAPPED, "epsilon": epsilon} for name, epsilon in epsilons.items()})


def test_a_cap_below_what_was_spent_stops_that_analyst_and_not_the_site(path, monkeypatch):
    said = []
    site = open_site(with_caps(path, ann=2, bob=2))
    release = site.answer(histogram(epsilon="3/2"), analyst="ann")
    monkeypatch.setattr(journal, "write", lambda **facts: said.append(facts))
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
    monkeypatch.setattr(journal, "write", lambda **facts: said.append(facts))
    with pytest.raises(hdp.QuotaExceeded):
        open_site(settings).answer(histogram(epsilon="1/10"), analyst="ann")
    assert [each["quota_of"] for each in said if "quota_of" in each] == ["ann"]

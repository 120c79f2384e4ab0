import os
import sqlite3
from contextlib import closing
from functools import partial

import pytest

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats.ledger import Ledger, store, verify_file


def opened(place):
    return Ledger(place, dataset="trial", epsilon=3)


@pytest.mark.parametrize("place", [None, ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_memory_leaves_no_file_and_each_ledger_is_its_own(place, request_for, cost, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = opened(place)
    ledger.charge(request_for(), cost(1))
    assert ledger.spent == cost(1)
    assert ledger.verify().entries == 2
    assert opened(place).spent == cost(0)
    assert list(tmp_path.iterdir()) == []


def test_a_statement_is_compiled_once_for_all_ledgers(path, request_for, cost):
    compiled = []
    for place in (None, None, path):
        opened(place).charge(request_for(), cost(1))
        compiled.append(set(store._COMPILED))
    assert compiled[0] == compiled[1] == compiled[2] != set()


def test_a_path_a_string_and_a_url_are_the_same_file_wherever_the_process_goes(
    path, request_for, cost, monkeypatch, tmp_path
):
    monkeypatch.chdir(path.parent)
    ledger = opened(path.name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.charge(request_for(), cost(1))
    for place in (path, str(path), f"sqlite:///{path}"):
        assert opened(place).spent == cost(1)


def test_a_file_is_durable_and_leaves_nothing_else_behind(path, request_for, cost):
    opened(path).charge(request_for(), cost(1))
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_opening_a_new_file_waits_for_another_process_that_is_writing_to_it(path, monkeypatch):
    """SQLite itself refuses at once: it does not wait where a reader would become a writer, as two could for ever."""

    class Watched(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement.startswith("BEGIN"):  # now, as the first that wants to write will wait
                other.rollback()
            return super().execute(statement, *values)

    connect = sqlite3.dbapi2.connect
    monkeypatch.setattr(sqlite3.dbapi2, "connect", partial(connect, factory=Watched))
    with closing(connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert opened(path).verify().entries == 1


def test_every_connection_flushes_fully(path):
    ledger = opened(path)
    for pragma, value in {"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1}.items():
        read = f"PRAGMA {pragma}"
        assert ledger._store.read(lambda connection, read=read: connection.exec_driver_sql(read).scalar()) == value


def test_a_missing_directory_is_named_and_not_created(tmp_path):
    with pytest.raises(LedgerError, match=r"directory .*missing.* does not exist"):
        opened(tmp_path / "missing" / "trial.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_not_a_ledger(tmp_path):
    with pytest.raises(LedgerError, match="is a directory"):
        opened(tmp_path)


def test_a_file_that_is_no_database_is_refused_untouched(path):
    path.write_bytes(b"age,sex\n" * 1000)
    for opening in (opened, Ledger.open_existing, verify_file):
        with pytest.raises(LedgerError, match="no ledger"):
            opening(path)
    assert path.read_bytes() == b"age,sex\n" * 1000


def test_a_database_that_is_no_ledger_is_refused_untouched(path, sql):
    sql(path, "CREATE TABLE patients (age)")
    before = path.read_bytes()
    for opening in (opened, Ledger.open_existing, verify_file):
        with pytest.raises(LedgerError, match="no ledger"):
            opening(path)
    assert path.read_bytes() == before


def test_tables_of_other_shape_are_refused(path, sql):
    for name in ("account", "checkpoint", "entry", "lease", "ledger"):
        sql(path, f"CREATE TABLE {name} (x)")
    with pytest.raises(LedgerError, match="not those of a ledger"):
        Ledger.open_existing(path)


def test_a_file_of_another_format_is_refused_by_name_and_left_alone(filled, path, sql):
    formats = [("DROP TABLE ledger", "an unknown one"), ("CREATE TABLE ledger (format)", "none")]
    formats.append(("INSERT INTO ledger VALUES ('hdpstats-ledger-99')", "hdpstats-ledger-99"))
    for statement, named in formats:
        sql(path, statement)
        before = path.read_bytes()
        for opening in (opened, Ledger.open_existing, verify_file):
            with pytest.raises(LedgerError, match=f"another format .*{named}.*name another file"):
                opening(path)
        assert path.read_bytes() == before


def test_a_file_without_write_permission_can_be_read_but_not_opened_for_charging(filled):
    filled.chmod(0o444)
    with pytest.raises(LedgerError, match="read-only"):
        opened(filled)
    assert Ledger.open_existing(filled, dataset="trial").verify().entries == 7


def test_a_read_only_database_is_refused_on_opening_and_on_charging(filled, request_for, cost):
    url = f"sqlite:///file:{filled}?mode=ro&uri=true"
    with pytest.raises(LedgerError, match="read-only"):
        opened(url)
    reader = Ledger.open_existing(url, dataset="trial")
    with pytest.raises(LedgerError, match="read-only"):
        reader.charge(request_for(9), cost(1))
    assert reader.spent == cost("0.75")


def test_opening_what_exists_never_creates(path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open_existing(path)
    assert not path.exists()
    path.touch()
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.open_existing(path)
    assert path.read_bytes() == b""


def test_opening_what_exists_takes_its_terms(path, request_for, cost):
    Ledger(path, dataset="trial", epsilon=2, delta=0.5, relation="add_or_remove_one")
    ledger = Ledger.open_existing(path, version=2)
    assert (ledger.dataset, ledger.version, ledger.relation) == ("trial", 2, "add_or_remove_one")
    assert (ledger.budget.epsilon, ledger.budget.delta) == (2, cost(0, "0.5").delta)
    ledger.charge(request_for(version=2), cost(2))
    assert ledger.remaining == cost(0, "0.5")


def test_a_dataset_must_be_named_among_several_and_must_exist(filled):
    with pytest.raises(ArgumentError, match="'trial', 'other'"):
        Ledger.open_existing(filled)
    with pytest.raises(LedgerError, match="no dataset 'third'; its datasets: 'trial', 'other'"):
        Ledger.open_existing(filled, dataset="third")


@pytest.mark.parametrize("place", [3, "http://["])
def test_a_place_that_cannot_be_is_refused(place):
    with pytest.raises((ArgumentError, LedgerError), match=r"path_or_url|driver"):
        opened(place)


def test_a_home_directory_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    opened("~/trial.db")
    assert (tmp_path / "trial.db").is_file()


def test_a_new_account_is_said_in_one_line_and_one_that_exists_is_not(path, capsys):
    opened(path)
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line == (
        f"hdpstats: opened a new account for dataset 'trial' in {path}, with a total of epsilon = 3, delta = 0 of "
        "which nothing is spent; create=False opens only accounts that exist"
    )
    opened(path)
    Ledger(path, dataset="trial", version=2, epsilon=3)
    Ledger(path, dataset="again", same_people_as="trial", epsilon=3)
    opened(None)
    Ledger(path.with_name("asked.db"), dataset="trial", epsilon=3, create=True)
    assert capsys.readouterr().err == ""
    Ledger(path, dataset="tiral", epsilon=3)
    assert "for dataset 'tiral' beside 'trial', 'again' in" in capsys.readouterr().err


def test_only_accounts_that_exist_are_opened_where_that_is_asked(path, request_for, cost):
    opened(path).charge(request_for(), cost(1))
    mistyped = path.with_name("tiral.db")
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(mistyped, dataset="trial", epsilon=3, create=False)
    assert not mistyped.exists()
    with pytest.raises(LedgerError, match="has no dataset 'tiral'; its datasets: 'trial'"):
        Ledger(path, dataset="tiral", epsilon=3, create=False)
    again = Ledger(path, dataset="trial", epsilon=3, create=False)
    again.charge(request_for(replicate=2), cost(1))
    assert again.spent == cost(2)
    with pytest.raises(LedgerError, match="opened with a total"):
        Ledger(path, dataset="trial", epsilon=4, create=False)
    with pytest.raises(ArgumentError, match="create must be True or False"):
        Ledger(path, dataset="trial", epsilon=3, create="no")


def test_a_file_that_moves_while_it_is_open_is_missed_and_no_empty_one_is_left(path, request_for, cost):
    ledger = opened(path)
    ledger.charge(request_for(), cost(1))
    elsewhere = path.with_name("elsewhere.db")
    path.rename(elsewhere)
    for use in (lambda: ledger.charge(request_for(replicate=2), cost(1)), lambda: ledger.spent, ledger.verify):
        with pytest.raises(LedgerError, match="is no longer there: its file was moved or removed while it was open"):
            use()
        assert [each.name for each in path.parent.iterdir()] == [elsewhere.name]
    elsewhere.rename(path)
    ledger.charge(request_for(replicate=2), cost(1))
    assert ledger.spent == cost(2)


def test_a_file_that_moves_between_the_look_and_the_connection_is_not_made_anew(path, request_for, cost, monkeypatch):
    ledger, elsewhere = opened(path), path.with_name("elsewhere.db")
    look = store.check_one_name
    monkeypatch.setattr(store, "check_one_name", lambda file: (look(file), file.rename(elsewhere)))
    with pytest.raises(LedgerError, match="unable to open"):
        ledger.charge(request_for(), cost(1))
    assert [each.name for each in path.parent.iterdir()] == [elsewhere.name]

"""The ledger on a PostgreSQL server: the same results as in a file, and what a server adds."""

import json
from fractions import Fraction

import psycopg
import pytest

from hdpstats._base.errors import InsufficientBudget, LedgerError
from hdpstats.cli import main
from hdpstats.ledger import Ledger, verify_file
from hdpstats.privacy.budget import Budget, Spend
from hdpstats.privacy.gaussian import mu_of

GAUSSIAN = Spend(0, 0, mu_of(Fraction(1), Fraction(1, 10**6)) ** 2, Budget(1, 1e-6))
HALF = Spend(Fraction(1, 2))


def filled(place, request_for):
    ledger = Ledger(place, dataset="trial", epsilon=4, delta=1e-6, unit="päťient")
    ledger.grant("ana", epsilon=2, delta=1e-6)
    ledger.grant("ben", epsilon=1)
    ledger.persist(ledger.charge(request_for(1), HALF, analyst="ana"), '{"params":[1.5]}')
    ledger.charge(request_for(1), HALF, analyst="ben")
    ledger.charge(request_for(2), GAUSSIAN, analyst="ana")
    with pytest.raises(InsufficientBudget, match="the cap of analyst 'ben'"):
        ledger.charge(request_for(3), Spend(Fraction(3, 4)), analyst="ben")
    again = Ledger(place, dataset="trial-2", version=2, epsilon=4, delta=1e-6, unit="päťient", same_people_as="trial")
    again.charge(request_for(1, dataset="trial-2", version=2), Spend(1))
    return ledger


def test_a_server_and_a_file_hold_the_same(url, sql, tmp_path, request_for):
    one, other = filled(url, request_for), filled(tmp_path / "trial.db", request_for)
    assert one.history().drop(columns="at").equals(other.history().drop(columns="at"))
    assert one.history("ben").drop(columns="at").equals(other.history("ben").drop(columns="at"))
    assert one.balance == other.balance
    assert one.caps == other.caps
    assert str(one).splitlines()[1:] == str(other).splitlines()[1:]
    one.export(tmp_path / "one.json")
    other.export(tmp_path / "other.json")
    documents = [json.loads((tmp_path / name).read_text()) for name in ("one.json", "other.json")]
    for document in documents:
        for entry in document["entries"]:
            for changing in ("at", "hash", "previous_hash", "request_id"):
                del entry[changing]
            entry["body"] = {key: value for key, value in json.loads(entry["body"]).items() if key != "unique"}
        for drawn in ("account", "head", "hashes"):
            del document[drawn]
    assert documents[0] == documents[1]
    assert verify_file(url, one.head).entries == len(sql("SELECT * FROM entry")) == 11
    assert one.stored(request_for(1).id, "ben").release_json == '{"params":[1.5]}'
    assert one.stored(request_for(1).id, "eve") is None


def test_an_altered_entry_is_named(url, sql, request_for):
    ledger = filled(url, request_for)
    noted = ledger.head
    sql("DELETE FROM entry WHERE seq = 11")
    assert verify_file(url).entries == 10
    with pytest.raises(LedgerError, match="not on the chain"):
        verify_file(url, noted)
    with pytest.raises(LedgerError, match="no longer holds entry 11"):
        ledger.charge(request_for(4), HALF)
    sql("UPDATE entry SET epsilon = '1/100' WHERE seq = 5")
    with pytest.raises(LedgerError, match="at entry 5"):
        Ledger.open_existing(url, dataset="trial")


def test_a_role_that_may_only_append_charges_and_cannot_rewrite(server, database, sql, request_for):
    filled(server.url(database), request_for)
    name = f"service_{database}"
    sql(f"CREATE ROLE {name} LOGIN")
    with pytest.raises(LedgerError, match=r"permission denied.*administrator"):
        Ledger.open_existing(server.url(database, name), dataset="trial")
    sql(f"GRANT SELECT ON ledger, account, entry, checkpoint, lease TO {name}")
    reader = Ledger.open_existing(server.url(database, name), dataset="trial")
    assert reader.verify().entries == 11
    with pytest.raises(LedgerError, match=r"permission denied.*UPDATE on ledger and lease"):
        reader.charge(request_for(5), HALF)
    sql(f"GRANT INSERT ON account, entry, checkpoint, lease TO {name}; GRANT UPDATE ON ledger, lease TO {name}")
    service = Ledger(server.url(database, name), dataset="trial", epsilon=4, delta=1e-6, unit="päťient")
    service.persist(service.charge(request_for(5), Spend(Fraction(1, 8)), analyst="ana"), "{}")
    service.grant("eve", epsilon=1)
    for statement in (
        "UPDATE entry SET epsilon = '0'",
        "DELETE FROM entry",
        "TRUNCATE entry",
        "UPDATE account SET epsilon = '9'",
        "UPDATE checkpoint SET state = '{}'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql(statement, name)


def test_a_copy_that_follows_another_server_can_be_read_and_not_charged(url, sql, database, request_for):
    filled(url, request_for)
    sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    ledger = Ledger.open_existing(url, dataset="trial")
    assert ledger.verify().entries == 11
    with pytest.raises(LedgerError, match="copy that cannot be charged"):
        ledger.charge(request_for(6), HALF)
    with pytest.raises(LedgerError, match="copy that cannot be charged"):
        Ledger(url, dataset="other", epsilon=1)


def test_transactions_do_not_depend_on_the_servers_configuration(url, sql, database):
    sql(f"ALTER DATABASE {database} SET synchronous_commit = off")
    sql(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    store = Ledger(url, dataset="trial", epsilon=1)._store

    def shown(connection):
        names = ("synchronous_commit", "transaction_isolation", "lock_timeout", "idle_in_transaction_session_timeout")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]

    assert store.write(shown) == ["on", "read committed", "1min", "1min"]
    assert store.read(shown)[1] == "repeatable read"
    sql(f"ALTER DATABASE {database} SET synchronous_commit = remote_apply")
    assert store.write(shown)[0] == "remote_apply"


def test_a_reader_sees_one_state(url, request_for):
    ledger = Ledger(url, dataset="trial", epsilon=1)

    def count_twice(connection):
        counts = []
        for number in (1, 2):
            counts.append(connection.exec_driver_sql("SELECT count(*) FROM entry").scalar())
            ledger.charge(request_for(number), Spend(Fraction(1, 10)))
        return counts

    assert ledger._store.read(count_twice) == [1, 1]
    assert ledger.verify().entries == 3


def test_a_database_with_something_else_in_it_is_left_alone(url, sql):
    sql("CREATE TABLE patients (age int)")
    for opening in (lambda: Ledger(url, dataset="trial", epsilon=1), lambda: verify_file(url)):
        with pytest.raises(LedgerError, match="a database but no ledger"):
            opening()
    assert sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("patients",)]


def test_opening_what_exists_creates_nothing(url, sql):
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger.open_existing(url)
    assert sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []


def test_an_older_format_is_refused_by_name(url, sql, request_for):
    filled(url, request_for)
    sql("UPDATE ledger SET format = 'hdpstats-ledger-2'")
    with pytest.raises(LedgerError, match=r"another format .'hdpstats-ledger-2', not 'hdpstats-ledger-6'"):
        Ledger.open_existing(url, dataset="trial")


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_a_server_that_is_not_there_is_named_without_passwords(tmp_path, driver):
    for place in (
        f"{driver}://me:secret@/none?host={tmp_path}",
        f"{driver}://me@/none?host={tmp_path}&password=secret",
    ):
        with pytest.raises(LedgerError, match=r"none.*check that the server runs") as caught:
            Ledger(place, dataset="trial", epsilon=1)
        assert "secret" not in f"{caught.value}{caught.value.__cause__}"
        assert str(tmp_path) in str(caught.value)


def test_the_command_line_takes_a_url(url, tmp_path, capsys):
    def run(*words):
        code = main(["ledger", *map(str, words)])
        return code, "".join(capsys.readouterr())

    assert run("open", url, "--dataset", "trial", "--epsilon", "3")[0] == 0
    code, shown = run("grant", url, "--analyst", "ana", "--epsilon", "0.5")
    assert (code, "analyst ana" in shown) == (0, True)
    assert run("show", url) == (0, shown)
    assert run("verify", url)[1].startswith("2 entries verify")
    assert run("export", url, tmp_path / "out.json") == (0, "")
    assert json.loads((tmp_path / "out.json").read_text())["analysts"]["ana"]["total"]["epsilon"] == "1/2"

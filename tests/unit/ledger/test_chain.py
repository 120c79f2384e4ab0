from dataclasses import asdict, fields

import pytest

from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats.ledger import Ledger, verify_file
from hdpstats.ledger.chain import Chain, digest
from hdpstats.ledger.records import Entry
from hdpstats.records import codec


def test_an_intact_file_verifies(filled):
    found = verify_file(filled)
    assert (found.entries, found.datasets) == (7, ("other", "trial"))
    assert found == Ledger.open_existing(filled, dataset="trial").verify(found.head.upper())
    assert str(found) == f"7 entries verify; head {found.head}"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("epsilon", "1/100"),
        ("epsilon", 0.5),
        ("epsilon", b"1/2"),
        ("delta", "1/10"),
        ("body", "{}"),
        ("version", 2),
        ("at", "2020-01-01T00:00Z"),
        ("request_id", "00" * 32),
        ("previous_hash", "11" * 32),
        ("hash", "22" * 32),
        ("dataset", "other"),
        ("kind", "open"),
    ],
)
def test_an_altered_entry_is_named_and_refuses_all_work(filled, sql, column, value):
    sql(filled, f"UPDATE entry SET {column} = ? WHERE seq = 4", value)
    for opening in (
        verify_file,
        lambda path: Ledger.open_existing(path, dataset="trial"),
        lambda path: Ledger(path, dataset="other", epsilon=1),
        lambda path: Ledger(path, dataset="new", epsilon=1),
    ):
        with pytest.raises(LedgerError, match="at entry 4") as caught:
            opening(filled)
        assert caught.value.entry == 4


@pytest.mark.parametrize("seq", range(1, 7))
def test_a_removed_entry_is_noticed(filled, sql, seq):
    sql(filled, "DELETE FROM entry WHERE seq = ?", seq)
    with pytest.raises(LedgerError, match=f"at entry {seq}: it is missing"):
        verify_file(filled)


def test_a_removed_entry_is_noticed_when_the_rest_is_renumbered(filled, sql):
    sql(filled, "DELETE FROM entry WHERE seq = 4")
    for seq in (5, 6, 7):
        sql(filled, "UPDATE entry SET seq = seq - 1 WHERE seq = ?", seq)
    with pytest.raises(LedgerError, match="at entry 4: its contents were altered"):
        verify_file(filled)


def test_an_entry_altered_together_with_its_hash_no_longer_precedes_the_next(filled, sql):
    sql(filled, "UPDATE entry SET at = '2020-01-01T00:00Z' WHERE seq = 4")
    columns = [field.name for field in fields(Entry) if field.name != "hash"]
    (values,) = sql(filled, f"SELECT {', '.join(columns)} FROM entry WHERE seq = 4")
    sql(filled, "UPDATE entry SET hash = ? WHERE seq = 4", digest(dict(zip(columns, values, strict=True))))
    with pytest.raises(LedgerError, match="at entry 5: it does not follow"):
        verify_file(filled)


def test_a_truncated_file_is_noticed_by_a_noted_head_only(filled, sql, cost):
    noted = Ledger.open_existing(filled, dataset="trial").head
    sql(filled, "DELETE FROM entry WHERE seq >= 6")
    assert verify_file(filled).entries == 5
    with pytest.raises(LedgerError, match="is not on the chain") as caught:
        verify_file(filled, noted)
    assert caught.value.head == noted


def test_the_head_of_a_release_stays_on_the_chain(filled, request_for, cost):
    ledger = Ledger.open_existing(filled, dataset="trial")
    release = ledger.stored(request_for(1).id)
    ledger.charge(request_for(3), cost("0.25"))
    assert ledger.head != release.place.head
    assert ledger.verify(release.place.head).entries == 8


def test_a_file_cut_off_under_an_open_ledger_stops_it(filled, sql, request_for, cost):
    ledger = Ledger.open_existing(filled, dataset="trial")
    sql(filled, "DELETE FROM entry WHERE seq = 7")
    for use in (
        lambda: ledger.spent,
        lambda: ledger.charge(request_for(3), cost(1)),
        lambda: ledger.stored(request_for(1).id),
        ledger.history,
        ledger.verify,
    ):
        with pytest.raises(LedgerError, match="no longer holds entry 7"):
            use()


def test_an_entry_altered_under_an_open_ledger_is_not_shown(filled, sql):
    ledger = Ledger.open_existing(filled, dataset="trial")
    sql(filled, "UPDATE entry SET epsilon = '1/100' WHERE seq = 2")
    for use in (ledger.history, ledger.verify, lambda: ledger.export(filled.with_suffix(".json"))):
        with pytest.raises(LedgerError, match="at entry 2"):
            use()


@pytest.mark.parametrize(("column", "value"), [("body", '{"params":[9.5]}'), ("hash", "22" * 32), ("version", 2)])
def test_a_release_altered_under_an_open_ledger_is_not_handed_out(filled, sql, request_for, cost, column, value):
    ledger, request = Ledger(filled, dataset="trial", epsilon=3), request_for(1)
    charge = ledger.charge(request, cost("0.5"))
    assert ledger.stored(request.id).release_json == '{"params":[1.5]}'
    sql(filled, f"UPDATE entry SET {column} = ? WHERE seq = 3", value)
    for handed_out in (lambda: ledger.stored(request.id), lambda: ledger.persist(charge, "{}")):
        with pytest.raises(LedgerError, match="at entry 3: its contents were altered"):
            handed_out()


def test_a_release_altered_together_with_its_hash_is_not_handed_out(filled, sql, request_for):
    ledger, request = Ledger(filled, dataset="trial", epsilon=3), request_for(1)
    (entry,) = (each for each in ledger._entries()[1] if each.kind == "release")
    changed = asdict(entry) | {"body": '{"params":[9.5]}'}
    sql(filled, "UPDATE entry SET body = ?, hash = ? WHERE seq = 3", changed["body"], digest(changed))
    with pytest.raises(LedgerError, match="at entry 3: its contents were altered"):
        ledger.stored(request.id)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE account SET epsilon = '30' WHERE dataset = 'trial'",
        "UPDATE account SET relation = 'add_or_remove_one' WHERE dataset = 'trial'",
        "UPDATE account SET unit = 'patient' WHERE dataset = 'trial'",
        "UPDATE account SET same_people_as = 'other' WHERE dataset = 'trial'",
        "DELETE FROM account WHERE dataset = 'trial'",
        "INSERT INTO account VALUES ('trial2', '3', '0', 'replace_one', NULL, NULL, '')",
    ],
)
def test_an_altered_account_is_noticed(filled, sql, statement):
    sql(filled, statement)
    with pytest.raises(LedgerError, match="account of dataset 'trial"):
        verify_file(filled)


@pytest.mark.parametrize(
    ("statement", "entry", "reason"),
    [
        ("UPDATE entry SET epsilon = '4' WHERE seq = 2", 2, "exceeds"),
        ("UPDATE entry SET epsilon = '0' WHERE seq = 2", 2, "nothing"),
        ("UPDATE entry SET epsilon = '-1' WHERE seq = 2", 2, "make no sense"),
        ("UPDATE entry SET epsilon = 'lots' WHERE seq = 2", 2, "make no sense"),
        ("UPDATE entry SET body = '[]' WHERE seq = 1", 1, "make no sense"),
        ("UPDATE entry SET body = '{\"query\":1}' WHERE seq = 2", 2, "another"),
        ("UPDATE entry SET dataset = 'nobody' WHERE seq = 2", 2, "'charge' cannot stand here"),
        ("UPDATE entry SET kind = 'open', request_id = 'x' WHERE seq = 2", 2, "'open' cannot stand here"),
        ("UPDATE entry SET request_id = 'x' WHERE seq = 3", 3, "'release' cannot stand here"),
        ("UPDATE entry SET request_id = 'x' WHERE seq = 7", 7, "'release' cannot stand here"),
    ],
)
def test_a_rewritten_chain_must_still_make_sense(filled, sql, rehash, statement, entry, reason):
    sql(filled, statement)
    rehash(filled)
    with pytest.raises(LedgerError, match=f"at entry {entry}: .*{reason}"):
        verify_file(filled)


def test_a_rewritten_chain_that_makes_sense_is_noticed_by_a_noted_head_only(filled, sql, rehash):
    noted = verify_file(filled).head
    sql(filled, "UPDATE entry SET epsilon = '1/1000' WHERE seq = 2")
    rehash(filled)
    assert verify_file(filled).entries == 7
    with pytest.raises(LedgerError, match="not on the chain"):
        verify_file(filled, noted)


@pytest.mark.parametrize("head", ["", "abc", "g" * 64, 5])
def test_a_malformed_head_is_refused(filled, head):
    with pytest.raises(ArgumentError, match="head"):
        verify_file(filled, head)


def test_overwritten_pages_are_refused(filled):
    content = filled.read_bytes()
    filled.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(LedgerError):
        verify_file(filled)


def test_the_hash_of_an_entry_is_the_sha256_of_its_canonical_json():
    entry = {"epsilon": "1/10", "seq": 1, "body": "é"}
    assert digest({**entry, "hash": "left out"}) == codec.sha256(entry)
    assert codec.dumps(entry) == '{"body":"\\u00e9","epsilon":"1/10","seq":1}'
    assert Chain().head == "0" * 64

"""The custodian's service on a PostgreSQL ledger: two processes of a site on one server, and the total holds."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import health
from hdpstats.custodian.kept_head import Head, HeadInDatabase
from hdpstats.ledger import KnownHead, back_up, restore
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.privacy.budget import Spend
from tests.custodian.institution import EVERYTHING, Institution
from tests.custodian.people import PRIVATE, SCHEMA

SHARE = Fraction(1, 25)
CAPS = {"ann": EVERYTHING | {"epsilon": 0.8}, "bob": EVERYTHING | {"epsilon": 0.6}}


def histogram(replicate):
    axis = Axis(name="g", levels=3)
    return HistogramQuery(axes=(axis,), epsilon=SHARE, schema_sha256=SCHEMA.sha256, replicate=replicate)


@pytest.fixture
def services(url, tmp_path):
    """An institution, and two processes of one site: the same rows, the same account on the server."""
    account = {"place": url, "dataset": "trial", "epsilon": 1, "delta": 1e-6}
    institution = Institution(tmp_path)
    try:
        settings = [
            institution.write(name, PRIVATE, SCHEMA, ledger=account, analysts=CAPS) for name in ("one", "other")
        ]
        running = [institution.launch(each) for each in settings]
        for each in running:
            institution.wait(each)
        yield institution, running
    finally:
        institution.close()


def test_a_head_in_a_database_is_replaced_by_later_ones_of_its_chain_only(url):
    store, chain = HeadInDatabase(url, "trial"), [letter * 64 for letter in "abcdef"]
    assert store.read() is None
    for length, kept in ((2, 2), (4, 4), (3, 4), (4, 4)):
        assert store.write(chain[:length]) == store.read() == Head.of(chain[:kept])
    for length in (3, 4, 6):
        assert store.write(chain[::-1][:length]) == store.read() == Head.of(chain[:4])


def test_readiness_follows_the_server(server, url, monkeypatch):
    """While the database is down a site is not ready and says what to do; it goes on by itself."""
    monkeypatch.setattr(health, "FRESH", 0.0)
    ledger, state = hdp.Ledger(url, dataset="trial", epsilon=1, create=True), health.State()
    state.serve(ledger.check_usable)
    assert state.obstacle() is None
    server.kill()
    try:
        assert "check that the server runs" in state.obstacle()
    finally:
        server.start()
    assert state.obstacle() is None


def test_a_backup_of_a_server_is_a_file_and_is_restored_to_another_database(server, url, tmp_path):
    ledger = hdp.Ledger(url, dataset="trial", epsilon=1, create=True)
    ledger.grant("ana", epsilon=SHARE)
    made = back_up(url, tmp_path / "it.backup")
    assert (made.head, hdp.Ledger.open_existing(tmp_path / "it.backup").head) == (ledger.head, ledger.head)
    name = f"again{next(server.numbers)}"
    server.sql("postgres", f"CREATE DATABASE {name} STRATEGY file_copy")
    ledger.grant("ben", epsilon=SHARE)
    known = [KnownHead(head=ledger.head, entries=3)]
    with pytest.raises(hdp.LedgerError, match="older than the ledger was"):
        restore(tmp_path / "it.backup", server.url(name), known=known)
    restored = restore(tmp_path / "it.backup", server.url(name), known=known, count_as_spent=True)
    again = hdp.Ledger.open_existing(server.url(name))
    assert (again.is_used_up(), again.spent, restored.counted_as_spent) == (True, Spend(1), 1)
    with pytest.raises(hdp.LedgerError, match="there is a ledger at"):
        restore(tmp_path / "it.backup", server.url(name), count_as_spent=True)


def outcome(site, query):
    try:
        return site.answer(query)
    except hdp.HdpError as error:
        return error


def test_requests_at_once_through_two_processes_are_charged_to_the_last_cent(services, url):
    """120 requests of two analysts, each sent through both services at once: 1 in all, at most 0.8 and 0.6 to each."""
    institution, running = services
    with contextlib.ExitStack() as stack:
        sites = [
            (analyst, stack.enter_context(institution.connect(each, token=institution.token(analyst))))
            for analyst in CAPS
            for each in running
        ]
        first = {"ann": 1000, "bob": 2000}
        asked = [(analyst, site, first[analyst] + number) for number in range(30) for analyst, site in sites]
        with ThreadPoolExecutor(24) as pool:
            found = list(pool.map(lambda each: outcome(each[1], histogram(each[2])), asked))
    released = {}
    for (analyst, _, replicate), each in zip(asked, found, strict=True):
        if not isinstance(each, Exception):
            assert released.setdefault((analyst, replicate), each) == each
    refused = [each for each in found if isinstance(each, Exception)]
    ledger = hdp.Ledger.open_existing(url, dataset="trial")
    assert ledger.verify()
    assert {type(each) for each in refused} == {hdp.InsufficientBudget}
    assert len(released) == 1 / SHARE
    assert ledger.spent == Spend(1)
    received = {analyst: sum(name == analyst for name, _ in released) for analyst in CAPS}
    assert {analyst: ledger.spent_by(analyst) for analyst in CAPS} == {
        analyst: Spend(SHARE * count) for analyst, count in received.items()
    }
    assert all(SHARE * count <= ledger.caps[analyst].total.epsilon for analyst, count in received.items())
    history = ledger.history()
    assert history["released"].all()
    for analyst in CAPS:
        numbers = [each.entry.number for (name, _), each in released.items() if name == analyst]
        assert sorted(numbers) == ledger.history(analyst)["entry"].tolist()


def test_a_release_of_one_process_is_replayed_by_the_other_and_after_the_server_died(services, server, url):
    institution, running = services
    with institution.connect(running[0]) as one, institution.connect(running[1]) as other:
        release = one.answer(histogram(1))
        assert other.answer(histogram(1)) == release
        server.kill()
        try:
            with pytest.raises(hdp.LedgerError, match="is not charged again"):
                one.answer(histogram(2))
        finally:
            server.start()
        assert one.answer(histogram(1)) == release
        assert one.answer(histogram(2)) == other.answer(histogram(2))
    ledger = hdp.Ledger.open_existing(url, dataset="trial")
    assert ledger.spent == Spend(2 * SHARE)
    assert ledger.verify()

"""Many processes on one server, clients that die, and a server that dies."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from hdpstats._base.errors import InsufficientBudget, LedgerError
from hdpstats.ledger import Ledger
from hdpstats.ledger.bookkeeping import Transaction
from hdpstats.ledger.leases import Holder
from hdpstats.privacy.budget import NOTHING, Spend
from tests.processes import (
    DIE_WITHIN_THE_TRANSACTION,
    SPEND_ALL,
    SPEND_AND_SAY,
    SPEND_AS_TWO_ANALYSTS,
    run_together,
    start,
)
from tests.waiting import GENEROUS, until


def test_eight_processes_create_a_ledger_and_charge_exactly_its_total(url):
    codes, counts = run_together(SPEND_ALL, url, 8)
    assert codes == [0] * 8
    assert sum(map(int, counts)) == 40
    ledger = Ledger(url, dataset="trial", epsilon=1)
    assert ledger.spent == Spend(Fraction(1))
    assert ledger.verify().entries == 81


def test_processes_of_two_analysts_stay_within_both_caps_and_share_the_charges(url):
    ledger = Ledger(url, dataset="trial", epsilon=1)
    ledger.grant("ana", epsilon=0.7)
    ledger.grant("ben", epsilon=0.5)
    codes, _ = run_together(SPEND_AS_TWO_ANALYSTS, url, 3)
    assert codes == [0] * 3
    assert ledger.spent_by("ana") == ledger.spent == Spend(Fraction(7, 10))
    assert ledger.spent_by("ben") == Spend(Fraction(1, 2))
    assert list(ledger._latest().capped("trial")) == ["ana", "ben"]
    assert ledger.verify().entries == 1 + 2 + 14 + 10 + 14


def test_a_writer_waits_for_the_one_before_and_compares_with_what_that_one_left(url, sql, request_for):
    """A writer that read before it locked, or never locked, would write, fail on the entry's number and start over."""
    ledger, other = (Ledger(url, dataset="trial", epsilon=1) for _ in range(2))
    cost, attempts = Spend(Fraction(3, 5)), []
    asked = {"cost": cost, "ahead": NOTHING, "holder": Holder()}
    charged, go_on = threading.Event(), threading.Event()

    def charge_and_hold(connection):
        Transaction.writing(connection, ledger._chain, "trial", 1).charge(request_for(1), **asked)
        charged.set()
        assert go_on.wait(GENEROUS)

    def charge(connection):
        attempts.append(1)
        Transaction.writing(connection, other._chain, "trial", 1).charge(request_for(2), **asked)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ledger._store.write, charge_and_hold)
        assert charged.wait(GENEROUS)
        second = pool.submit(other._store.write, charge)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        until(lambda: second.done() or sql(waiting) == [(1,)], "a writer that waits for a lock")
        assert not second.done()
        go_on.set()
        first.result(GENEROUS)
        with pytest.raises(InsufficientBudget):
            second.result(GENEROUS)
    assert attempts == [1]
    assert ledger.spent == cost


def test_a_client_killed_within_its_transaction_has_not_charged_and_holds_up_nobody(url, request_for):
    assert run_together(DIE_WITHIN_THE_TRANSACTION, url, 1) == ([-signal.SIGKILL], [""])
    ledger = Ledger(url, dataset="trial", epsilon=1)
    assert ledger.spent == NOTHING
    ledger.charge(request_for(1), Spend(1))
    assert ledger.verify().entries == 2


def test_what_a_server_confirmed_before_it_was_killed_stands_when_it_is_restarted(server, url, request_for):
    ledger = Ledger(url, dataset="trial", epsilon=1)
    before = ledger.charge(request_for(1), Spend(Fraction(1, 2)))
    processes = [start(SPEND_AND_SAY, url, worker) for worker in (1, 2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [[process.stdout.readline() for _ in range(4)] for process in processes]
    server.kill()
    try:
        for process, lines in zip(processes, said, strict=True):
            output, error = process.communicate(timeout=60)
            lines += output.splitlines()
            assert (process.returncode, error) == (0, "")
            assert "cannot be used" in lines.pop()
        with pytest.raises(LedgerError, match="check that the server runs"):
            ledger.charge(request_for(2), Spend(Fraction(1, 4)))
    finally:
        server.start()
    confirmed = [line.split() for lines in said for line in lines]
    chain = ledger._latest()
    assert {value for word, value in confirmed if word == "charged"} <= chain.charges.keys()
    assert {value for word, value in confirmed if word == "released"} <= set(chain.hashes)
    assert chain.released.keys() <= chain.charges.keys()
    assert ledger.spent.epsilon == Fraction(1, 2) + Fraction(len(chain.charges) - 1, 10**4)  # the floor
    assert ledger.charge(request_for(1), before.cost) == before
    ledger.charge(request_for(2), Spend(Fraction(1, 4)))
    assert ledger.verify().entries == 1 + len(chain.charges) + len(chain.released) + 1

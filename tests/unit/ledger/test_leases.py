"""Several processes and threads on one ledger, and processes that die."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from hdpstats._base.errors import InsufficientBudget, LedgerError
from hdpstats.ledger import Charge, Lease, Ledger, leases, location
from hdpstats.ledger.bookkeeping import Transaction
from hdpstats.ledger.leases import Holder, given_up, has_ended
from hdpstats.ledger.location import mount_points
from hdpstats.privacy.budget import Spend
from hdpstats.privacy.gaussian import delta_of_square
from tests.processes import (
    DIE_BEFORE_PERSIST,
    DIE_WITHIN_THE_TRANSACTION,
    GAUSSIANS_AND_OTHERS,
    HOLD_UNTIL_TOLD,
    SAME_REQUEST,
    SPEND_ALL,
    run_together,
    start,
)


def test_eight_processes_open_a_new_file_and_make_exactly_forty_charges_of_a_fortieth(path):
    codes, counts = run_together(SPEND_ALL, path, 8)
    assert codes == [0] * 8
    assert sum(map(int, counts)) == 40
    ledger = Ledger(path, dataset="trial", epsilon=1)
    assert ledger.spent == Spend(Fraction(1))
    assert ledger.history()["released"].sum() == 40
    assert ledger.verify().entries == 81


def test_processes_that_mix_both_kinds_fill_both_parts_and_no_more(path):
    codes, _ = run_together(GAUSSIANS_AND_OTHERS, path, 4)
    assert codes == [0] * 4
    ledger = Ledger(path, dataset="mixed", epsilon=2, delta=1e-6)
    balance, kinds = ledger.balance, ledger.history()["mu"] > 0
    assert kinds.sum() == balance.charged.mu_squared * 400
    assert (~kinds).sum() == balance.charged.epsilon * 20
    assert not ledger.affords(Spend(Fraction(1, 20)))
    assert not ledger.affords(Spend(0, 0, Fraction(1, 400)))
    assert delta_of_square(2 - balance.charged.epsilon, balance.charged.mu_squared) <= Fraction(1, 10**6)
    assert ledger.verify().entries == 3 + len(kinds)


def test_processes_with_the_same_request_are_charged_once_and_receive_the_same_release(path):
    _, released = run_together(SAME_REQUEST, path, 3)
    assert len(set(released)) == 1
    assert Ledger(path, dataset="trial", epsilon=1).spent == Spend(Fraction(1, 2))


def test_a_process_killed_before_its_release_was_charged_and_another_draw_is_charged_again(path, request_for):
    """The dead process may have drawn noise: whether it lived long enough to record it may have depended on that."""
    assert run_together(DIE_BEFORE_PERSIST, path, 1) == ([-signal.SIGKILL], [""])
    ledger, half = Ledger(path, dataset="trial", epsilon=1), Spend(Fraction(1, 2))
    assert ledger.spent == half
    assert list(ledger.history()["released"]) == [False]
    assert ledger.stored(request_for(1).id) is None
    lease = ledger.charge(request_for(1), half)
    assert isinstance(lease, Lease)
    assert ledger.spent == half
    assert given_up(lease, lambda: ledger.lease(request_for(1).id)) == lease
    charge = ledger.charge(request_for(1), half, over=lease)
    assert (charge.attempt, charge.entry, ledger.spent) == (2, 3, Spend(1))
    assert ledger.persist(charge, '{"params":[1]}').place.attempt == 2
    assert list(ledger.history()["released"]) == [False, True]
    assert ledger.verify().entries == 4


def test_a_second_draw_that_the_account_does_not_afford_is_refused(path, request_for):
    assert run_together(DIE_BEFORE_PERSIST, path, 1)[0] == [-signal.SIGKILL]
    ledger, half = Ledger(path, dataset="trial", epsilon=1), Spend(Fraction(1, 2))
    ledger.charge(request_for(2), Spend(Fraction(1, 4)))
    lease = ledger.charge(request_for(1), half)
    with pytest.raises(InsufficientBudget):
        ledger.charge(request_for(1), half, over=lease)
    assert ledger.spent == Spend(Fraction(3, 4))


def test_a_process_that_was_given_up_while_it_lived_cannot_record_its_release(path, request_for):
    """What it has drawn is lost: its number is no longer that of the latest charge."""
    process = start(HOLD_UNTIL_TOLD, path, 0)
    process.stdin.write("go\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "1\n"]
    ledger, cost = Ledger(path, dataset="trial", epsilon=1), Spend(Fraction(1, 4))
    lease = ledger.charge(request_for(1), cost)
    assert isinstance(lease, Lease)
    assert not has_ended(lease.process)
    charge = ledger.charge(request_for(1), cost, over=lease)
    output, error = process.communicate("now\n")
    assert (output, "Superseded" in error) == ("", True)
    assert ledger.stored(request_for(1).id) is None
    ledger.persist(charge, '{"params":[2]}')
    assert ledger.stored(request_for(1).id).release_json == '{"params":[2]}'
    assert ledger.verify().entries == 4


def test_two_that_give_up_a_holder_at_once_do_not_both_charge(path, request_for):
    assert run_together(DIE_BEFORE_PERSIST, path, 1)[0] == [-signal.SIGKILL]
    half, holders = Spend(Fraction(1, 2)), [Holder(), Holder()]
    ledgers = [Ledger(path, dataset="trial", epsilon=1) for _ in holders]
    asking = list(zip(ledgers, holders, strict=True))
    found = [ledger.charge(request_for(1), half, holder=holder) for ledger, holder in asking]
    assert found[0] == found[1]
    first, second = (ledger.charge(request_for(1), half, holder=holder, over=found[0]) for ledger, holder in asking)
    assert isinstance(first, Charge)
    assert (second.holder, second.attempt) == (holders[0].name, 2)
    assert ledgers[0].spent == Spend(1)


def test_an_analyst_is_charged_for_every_charge_of_what_he_receives(path, request_for):
    """Which of two draws is handed out may depend on both of them."""
    ledger, cost = Ledger(path, dataset="trial", epsilon=1), Spend(Fraction(1, 4))
    ledger.grant("ana", epsilon=1)
    ledger.grant("ben", epsilon=1)
    dead = Holder(process="a machine that is gone 1 1")
    ledger.charge(request_for(1), cost, analyst="ana", holder=dead)
    lease = ledger.charge(request_for(1), cost, analyst="ana")
    ledger.persist(ledger.charge(request_for(1), cost, analyst="ana", over=lease), "{}")
    assert ledger.spent == Spend(Fraction(1, 2))
    assert (ledger.spent_by("ana"), ledger.spent_by("ben")) == (Spend(Fraction(1, 2)), Spend(0))
    ledger.charge(request_for(1), cost, analyst="ben")
    assert ledger.stored(request_for(1).id, "ben").place.attempt == 2
    assert (ledger.spent, ledger.spent_by("ben")) == (Spend(Fraction(1, 2)), Spend(Fraction(1, 2)))
    ledger.verify()


def test_an_analyst_charged_for_a_draw_without_release_receives_the_next_one_once_charged_for_it_too(path, request_for):
    ledger, cost = Ledger(path, dataset="trial", epsilon=3), Spend(Fraction(1, 4))
    for name in ("ana", "ben", "eve"):
        ledger.grant(name, epsilon=Fraction(3, 4))
    ledger.charge(request_for(1), cost, analyst="ana", holder=Holder(process="a machine that is gone 1 1"))
    lease = ledger.charge(request_for(1), cost, analyst="ben")
    again = Holder(process="a machine that is gone 1 1")
    ledger.charge(request_for(1), cost, analyst="ben", holder=again, over=lease)
    assert ledger.spent_by("ben") == Spend(Fraction(1, 2))
    charge = ledger.charge(request_for(1), cost, over=ledger.charge(request_for(1), cost))
    ledger.persist(charge, "{}")
    assert ledger.stored(request_for(1).id, "ana") is ledger.stored(request_for(1).id, "ben") is None
    for name in ("ana", "ben", "eve"):
        ledger.charge(request_for(1), cost, analyst=name)
        assert ledger.stored(request_for(1).id, name).place.attempt == 3
        assert ledger.spent_by(name) == Spend(Fraction(3, 4))
    ledger.charge(request_for(1), cost, analyst="ana")
    assert ledger.spent == Spend(Fraction(3, 4)) == ledger.spent_by("ana")
    poor = Ledger(path, dataset="trial", epsilon=3)
    poor.grant("kim", epsilon=Fraction(7, 10))
    with pytest.raises(InsufficientBudget):
        poor.charge(request_for(1), cost, analyst="kim")
    assert poor.stored(request_for(1).id, "kim") is None
    ledger.verify()


def test_a_file_with_two_names_is_refused(path, request_for):
    """SQLite's log goes by the name: each of two names would charge the whole total."""
    ledger = Ledger(path, dataset="trial", epsilon=1)
    other = path.with_name("other.db")
    os.link(path, other)
    for use in (lambda: Ledger(other, dataset="trial", epsilon=1), lambda: ledger.charge(request_for(1), Spend(1))):
        with pytest.raises(LedgerError, match="hard link"):
            use()
    other.unlink()
    other.symlink_to(path)
    assert Ledger(other, dataset="trial", epsilon=1).shares_account_with(ledger)


MOUNTS = b"""\
22 1 8:1 / / rw,relatime - ext4 /dev/root rw
23 22 8:1 /srv/l.db /app/l.db rw shared:1 - ext4 /dev/root rw
24 22 0:31 /x /srv/a\\040b\\134c.db ro - tmpfs tmpfs rw
"""


def test_mount_points_are_read_with_their_blanks():
    assert mount_points(MOUNTS) == {b"/", b"/app/l.db", b"/srv/a b\\c.db"}
    assert mount_points(b"") == set()


def test_a_file_that_is_mounted_alone_is_refused(path, request_for, tmp_path, monkeypatch):
    """SQLite's log goes by the name: beside the mount it is another one. The directory may be mounted."""
    ledger, mounts = Ledger(path, dataset="trial", epsilon=1), tmp_path / "mounts"
    monkeypatch.setattr(location, "MOUNTS", mounts)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    mounts.write_bytes(MOUNTS + b"25 22 8:1 /srv %s rw - ext4 /dev/root rw\n" % os.fsencode(path.parent.resolve()))
    assert Ledger(link, dataset="trial", epsilon=1).shares_account_with(ledger)
    mounts.write_bytes(MOUNTS + b"25 22 8:1 /srv/l.db %s rw - ext4 /dev/root rw\n" % os.fsencode(path.resolve()))
    for use in (lambda: Ledger(link, dataset="trial", epsilon=1), lambda: ledger.charge(request_for(1), Spend(1))):
        with pytest.raises(LedgerError, match="mount its directory"):
            use()
    mounts.unlink()
    assert ledger.charge(request_for(1), Spend(1)).attempt == 1


def test_a_mounted_file_is_refused_where_it_is_mounted(path, tmp_path):
    apart = ["unshare", "-Urm"]  # with a name space of its own for mounts
    if shutil.which(apart[0]) is None or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything, not even in a name space of his own")
    Ledger(path, dataset="trial", epsilon=1)
    place = tmp_path / "mounted here.db"
    place.touch()
    use = "import sys; from hdpstats.ledger import Ledger; Ledger(sys.argv[1], dataset='trial', epsilon=1)"
    shell = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"'
    command = [*apart, "sh", "-c", shell, "sh", str(path), str(place), sys.executable, use]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert ended.returncode == 1
    assert "mounted here.db is mounted as a single file" in ended.stderr


def test_an_interrupted_transaction_does_not_hold_the_file(path, request_for):
    """Also while the interrupt's traceback is kept, as notebooks do."""
    ledger, kept = Ledger(path, dataset="trial", epsilon=1), []

    def work(connection):
        result = connection.exec_driver_sql("SELECT * FROM entry")
        result.fetchone()
        kept.append(result)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ledger._store.write(work)
    kept.append(caught)
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(leases, "monotonic", lambda: self.now)
        monkeypatch.setattr(leases, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds


def test_a_holder_that_is_heard_of_is_waited_for_and_one_that_is_not_is_given_up_after_a_minute(monkeypatch):
    clock = Clock(monkeypatch)
    lease = Lease(request_id="ab", attempt=1, holder="other", process="another machine 1 1")

    def alive_for(seconds):
        return lambda: replace(lease, beats=int(min(clock.now, seconds) // leases.BEAT))

    last = given_up(lease, alive_for(600))
    assert (last.beats, clock.now) == (60, pytest.approx(660, abs=1))
    assert given_up(lease, lambda: None) is None
    assert given_up(lease, lambda: replace(lease, attempt=2)) is None


def test_who_was_given_up_wrongly_waits_a_minute_before_he_gives_up_another(monkeypatch):
    clock = Clock(monkeypatch)
    monkeypatch.setattr(leases, "has_ended", lambda process: True)
    lease = Lease(request_id="ab", attempt=2, holder="other", process="")
    assert given_up(lease, lambda: lease) == lease
    assert clock.now == 0.0
    assert given_up(lease, lambda: lease, patient=True) == lease
    assert clock.now == pytest.approx(leases.LAPSE, abs=1)


@pytest.mark.parametrize("fails", [False, True])
def test_nobody_beats_for_a_computation_that_has_ended(monkeypatch, fails):
    """Also where an interrupt came before the beats were ended."""
    monkeypatch.setattr(leases, "BEAT", 0.001)
    beats, working = [], threading.Event()
    working.set()

    def beat():
        beats.append(1)
        if fails:
            raise RuntimeError("whatever it is")

    before = set(threading.enumerate())
    begun = leases.beating(beat, working.is_set)
    begun.__enter__()
    (keeper,) = (thread for thread in set(threading.enumerate()) - before if thread.name == "hdpstats lease")
    while len(beats) < 3:
        assert keeper.is_alive()
    working.clear()
    keeper.join()


def test_a_process_that_cannot_be_looked_at_is_not_taken_for_dead(monkeypatch):
    """Where /proc hides the processes of others, all but their number."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    named = f"{leases._machine()} {child.pid} {leases._started(child.pid)}"
    monkeypatch.setattr(leases, "_started", lambda _: None)
    assert not has_ended(named)
    monkeypatch.setattr(os, "kill", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert not has_ended(named)
    monkeypatch.undo()
    child.communicate()
    assert has_ended(named)


def test_a_process_is_known_to_have_ended_on_this_machine_only():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    here = leases.this_process()
    machine = here.split(" ")[0]
    began = leases._started(child.pid)
    assert not has_ended(here)
    assert not has_ended(f"{machine} {child.pid} {began}")
    child.communicate()
    assert has_ended(f"{machine} {child.pid} {began}")
    assert has_ended(f"{machine} {os.getpid()} 1")
    assert not has_ended(f"elsewhere {child.pid} {began}")


def test_a_process_killed_within_the_transaction_has_not_charged(path, request_for):
    assert run_together(DIE_WITHIN_THE_TRANSACTION, path, 1) == ([-signal.SIGKILL], [""])
    ledger = Ledger(path, dataset="trial", epsilon=1)
    assert ledger.spent == Spend(Fraction(0))
    ledger.charge(request_for(1), Spend(Fraction(1)))


@pytest.mark.parametrize("kept_in", ["memory", "file"])
def test_threads_share_a_ledger(path, request_for, kept_in):
    ledger = Ledger(None if kept_in == "memory" else path, dataset="trial", epsilon=1)
    barrier = threading.Barrier(4)

    def spend(worker):
        barrier.wait()
        made = 0
        for number in range(8):
            try:
                charge = ledger.charge(request_for(1 + 8 * worker + number), Spend(Fraction(1, 20)))
            except InsufficientBudget:
                continue
            ledger.persist(charge, "{}")
            made += 1
        return made

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(spend, range(4))) == 20
    assert ledger.remaining == Spend(Fraction(0))
    assert ledger.verify().entries == 41


def spend_in_a_child(ledger, request, answer):
    try:
        answer.put(str(ledger.charge(request, Spend(Fraction(1, 4))).entry))
    except LedgerError as error:
        answer.put(str(error))


def answer_of_a_forked_child(ledger, request):
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    child = context.Process(target=spend_in_a_child, args=(ledger, request, answer))
    child.start()
    result = answer.get(timeout=60)
    child.join()
    return result


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_charges_the_same_file(path, request_for):
    ledger = Ledger(path, dataset="trial", epsilon=1)
    assert answer_of_a_forked_child(ledger, request_for(1)) == "2"
    assert ledger.charge(request_for(2), Spend(Fraction(1, 4))).entry == 3
    assert ledger.spent == Spend(Fraction(1, 2))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_cannot_spend_a_budget_in_memory_a_second_time(request_for):
    ledger = Ledger(None, dataset="trial", epsilon=1)
    assert "give the ledger a file" in answer_of_a_forked_child(ledger, request_for(1))
    assert ledger.spent == Spend(Fraction(0))


@pytest.mark.parametrize("kept_in", ["memory", "file"])
def test_an_interrupt_within_a_transaction_leaves_the_ledger(path, request_for, kept_in):
    ledger = Ledger(None if kept_in == "memory" else path, dataset="trial", epsilon=1)
    ledger.charge(request_for(1), Spend(Fraction(1, 4)))

    def interrupt(*_):
        raise KeyboardInterrupt

    def work(connection):
        event.listen(connection, "before_cursor_execute", interrupt)
        connection.exec_driver_sql("DELETE FROM entry")

    with pytest.raises(KeyboardInterrupt):
        ledger._store.write(work)
    assert ledger.spent == Spend(Fraction(1, 4))
    ledger.charge(request_for(2), Spend(Fraction(3, 4)))


def test_a_writer_that_lost_a_race_starts_over():
    ledger = Ledger(None, dataset="trial", epsilon=1)
    attempts = []

    def work(connection):
        attempts.append(connection)
        if len(attempts) < 3:
            raise IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))
        return "done"

    assert ledger._store.write(work) == "done"
    assert len(attempts) == 3


def test_a_writer_that_always_loses_gives_up():
    ledger = Ledger(None, dataset="trial", epsilon=1)

    def work(connection):
        raise IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))

    with pytest.raises(LedgerError, match="too busy"):
        ledger._store.write(work)


def test_a_write_that_fails_leaves_no_trace_in_an_open_ledger(filled, request_for, cost, monkeypatch):
    """A charge that was rolled back must not be taken for one that is durable, nor stop the account."""
    ledger, right = Ledger(filled, dataset="trial", epsilon=3), Transaction.append

    def written_and_lost(*args, **fields):
        right(*args, **fields)
        raise LedgerError("the disk is full")

    spent, head = ledger.spent, ledger.head
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "append", written_and_lost)
        with pytest.raises(LedgerError, match="disk is full"):
            ledger.charge(request_for(9), cost("0.5"))
    assert (ledger.spent, ledger.head) == (spent, head)
    assert ledger.charge(request_for(9), cost("0.5")).entry == 8
    assert ledger.verify().entries == 8


def test_a_failed_write_never_shows_what_was_written(filled, request_for, cost):
    reader = Ledger.open_existing(f"sqlite:///file:{filled}?mode=ro&uri=true", dataset="trial")
    charge = reader.charge(request_for(2), cost("0.25"))
    with pytest.raises(LedgerError) as caught:
        reader.persist(charge, '{"params":[0.123456789]}')
    error = caught.value
    assert error.__suppress_context__
    assert "0.123456789" not in f"{error}{error.__context__}"

"""One charge, one draw: however often and by however many a request is asked for at once, or after a failure."""

import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import ChargedAgain, NothingCharged
from hdpstats.ledger import leases, store
from hdpstats.ledger.bookkeeping import Transaction
from hdpstats.ledger.leases import Holder
from hdpstats.mechanisms.minimiser import PreparedPoint
from hdpstats.noise import exact
from hdpstats.privacy.budget import Spend
from hdpstats.sites import single_draw
from tests import forked
from tests.full_disk import full_disk
from tests.support import FORMULA, PUBLIC_ROWS, RECORDS, SCHEMA, people, study_of
from tests.waiting import GENEROUS

PRIVATE = people(RECORDS)
THREADS = 6


@pytest.fixture(scope="module")
def query():
    model = hdpf.logit(FORMULA, data=study_of(PRIVATE, people(PUBLIC_ROWS, seed=1)))
    return model.fit(epsilon=1.0, describe=False).query


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "ledger.db"


def site_at(place, **options):
    return hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(place, dataset="trial", epsilon=3, **options))


@pytest.fixture
def computed(monkeypatch):
    """The perturbations that were drawn, and what else is to happen when a computation begins."""
    drawn, right = [], PreparedPoint.compute

    class Spy:
        draws = drawn
        before = staticmethod(lambda: None)
        after = staticmethod(lambda: None)

    def compute(self, table):
        Spy.before()
        release = right(self, table)
        drawn.append(release.theta)
        Spy.after()
        return release

    monkeypatch.setattr(PreparedPoint, "compute", compute)
    return Spy


def test_identical_requests_at_once_are_computed_once(place, query, computed):
    """Else the release would be the fastest of several draws, at the cost of one.

    Ledger objects on one file are one account; two in memory are two.
    """
    site = site_at(place)
    sites = [site if place is None else site_at(place) for _ in range(THREADS)]
    barrier, inside, most = threading.Barrier(THREADS), [0], [0]

    def count():
        inside[0] += 1
        most[0] = max(most[0], inside[0])

    computed.before = staticmethod(count)
    computed.after = staticmethod(lambda: inside.__setitem__(0, inside[0] - 1))

    def ask(one):
        barrier.wait()
        return one.answer(query)

    with ThreadPoolExecutor(THREADS) as pool:
        released = list(pool.map(ask, sites))
    assert len(computed.draws) == most[0] == 1
    assert {release.theta for release in released} == set(computed.draws)
    assert site.ledger.spent.epsilon == 1
    assert site.ledger.verify().entries == 3


def test_who_waits_for_the_same_request_is_charged_to_his_own_cap(place, query, computed):
    site = site_at(place)
    for number in range(THREADS):
        site.ledger.grant(f"analyst {number}", epsilon=2)
    barrier = threading.Barrier(THREADS)

    def ask(number):
        barrier.wait()
        return site.answer(query, analyst=f"analyst {number}").theta

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(ask, range(THREADS)))) == len(computed.draws) == 1
    assert site.ledger.spent.epsilon == 1
    assert {site.ledger.spent_by(f"analyst {number}").epsilon for number in range(THREADS)} == {1}


@pytest.mark.covering
@pytest.mark.parametrize("failure", [RuntimeError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_computation_that_failed_goes_on_with_the_noise_that_it_had(place, query, computed, failure, when):
    """Else the release would be a draw *given that* it did not fail."""
    site = site_at(place)

    def fail():
        raise failure

    setattr(computed, when, staticmethod(fail))
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt if failure is KeyboardInterrupt else hdp.SiteError):
            site.answer(query)
    setattr(computed, when, staticmethod(lambda: None))
    release = site_at(place).answer(query) if place else site.answer(query)
    assert set(computed.draws) == {release.theta}
    assert site.ledger.spent.epsilon == 1
    assert site.ledger.verify().entries == 3
    assert site.answer(query) == release


def test_a_disk_with_room_for_a_charge_alone_is_noticed_before_it(tmp_path, query, computed):
    site = site_at(tmp_path / "ledger.db")
    with full_disk(room=2**20), pytest.raises(NothingCharged, match=r"no room for a release .* free 17 MB"):
        site.answer(query)
    assert (computed.draws, site.ledger.verify().entries) == ([], 1)
    release = site.answer(query)
    assert (computed.draws, site.ledger.verify().entries) == ([release.theta], 3)


@pytest.mark.parametrize("fails", [False, True])
def test_room_for_a_release_is_held_until_it_is_written(tmp_path, query, computed, monkeypatch, fails):
    site, allocate, record, held = site_at(tmp_path / "ledger.db"), os.posix_fallocate, Transaction.record, []

    def watched(number, start, length):
        allocate(number, start, length)
        held.append(f"/dev/fd/{number}")

    def blocks():
        return [os.stat(each).st_blocks * 512 >= store.ROOM for each in held if os.path.exists(each)]

    def recorded(*arguments, **named):
        assert True not in blocks()
        return record(*arguments, **named)

    def computing():
        assert blocks() == [True]
        if fails:
            raise RuntimeError

    monkeypatch.setattr(os, "posix_fallocate", watched)
    monkeypatch.setattr(Transaction, "record", recorded)
    computed.before = staticmethod(computing)
    with pytest.raises(hdp.SiteError) if fails else nullcontext():
        site.answer(query)
    assert len(held) == 1
    assert True not in blocks()


def test_nobody_who_charges_takes_the_room_of_a_release_that_is_written(tmp_path, query, computed, monkeypatch):
    """Else a full disk would lose a release under its charge whenever another one is asked for just then."""
    site, record, allocate, seen = site_at(tmp_path / "ledger.db"), Transaction.record, os.posix_fallocate, []

    def alone(what, work, *arguments, **named):
        """Run work that is done while nobody else can write to the ledger, and so none can take room."""
        seen.append(what)
        with closing(sqlite3.connect(tmp_path / "ledger.db", timeout=0, isolation_level=None)) as other:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            done = work(*arguments, **named)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
        return done

    monkeypatch.setattr(Transaction, "record", lambda *given, **named: alone("written", record, *given, **named))
    monkeypatch.setattr(os, "posix_fallocate", lambda *given: alone("taken", allocate, *given))
    site.answer(query)
    assert seen == ["taken", "written"]


@pytest.mark.parametrize("total", [2**30, 0])
def test_a_disk_without_room_for_a_release_is_left_as_it_is(tmp_path, monkeypatch, total):
    """A try would take all for a moment, and what others write then would fail. Some disks have no size."""
    ledger, allocate, tried = site_at(tmp_path / "ledger.db").ledger, os.posix_fallocate, []
    monkeypatch.setattr(store, "disk_usage", lambda _: SimpleNamespace(total=total, free=min(total, store.ROOM)))
    monkeypatch.setattr(os, "posix_fallocate", lambda *given: [tried.append(given), allocate(*given)][1])
    with pytest.raises(NothingCharged, match="free 17 MB") if total else nullcontext(), ledger.room():
        pass
    assert bool(tried) == (not total)


def test_room_is_on_the_disk_of_the_file_and_is_given_back_beside_a_forked_process(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    site_at(tmp_path / "disk" / "ledger.db")
    (tmp_path / "ledger.db").symlink_to(tmp_path / "disk" / "ledger.db")
    made, folders, copies = store.TemporaryFile, [], []

    def watched(*, dir):  # noqa: A002
        folders.append(dir)
        file = made(dir=dir)
        copies.append(os.dup(file.fileno()))  # what a child has
        return file

    monkeypatch.setattr(store, "TemporaryFile", watched)
    with site_at(tmp_path / "ledger.db").ledger.room():
        assert os.fstat(copies[0]).st_size == store.ROOM
    assert os.fstat(copies[0]).st_size == 0
    os.close(copies[0])
    assert folders == [tmp_path / "disk"]
    with monkeypatch.context() as patch, site_at(tmp_path / "ledger.db").ledger.room() as room:
        patch.setattr(os, "getpid", lambda: 0)  # in a child, which ends before its parent does
        room.close()
        assert os.fstat(copies[1]).st_size == store.ROOM
    os.close(copies[1])


def test_a_release_that_could_not_be_recorded_is_the_same_when_it_can(place, query, computed, monkeypatch):
    """A full disk must not be a way to another draw."""
    site, right = site_at(place), hdp.Ledger.persist

    def full(*_):
        raise hdp.LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(hdp.Ledger, "persist", full)
        for _ in range(2):
            with pytest.raises(hdp.LedgerError, match="disk is full"):
                site.answer(query)
    assert hdp.Ledger.persist is right
    assert {site.answer(query).theta} == set(computed.draws)
    assert len(computed.draws) == 3


def test_a_draw_that_is_begun_anew_reads_the_same_bits_and_goes_on_with_others():
    draw = exact.Draw()
    with exact.drawing(draw):
        first = [exact.bits(37) for _ in range(5)]
    with exact.drawing(draw):
        again = [exact.bits(37) for _ in range(9)]
    assert again[:5] == first
    assert len(set(again)) == 9
    assert repr(draw) == "<draw>"


def test_bits_come_from_the_draw_of_their_own_thread():
    draws = [exact.Draw(), exact.Draw()]
    barrier = threading.Barrier(2)

    def take(draw):
        with exact.drawing(draw):
            found = []
            for _ in range(50):
                barrier.wait()
                found.append(exact.bits(64))
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(take, draws)
    with exact.drawing(draws[0]):
        assert [exact.bits(64) for _ in range(50)] == first
    assert not set(first) & set(second)


def kept(site):
    """Return the draws that this process keeps for a site."""
    return [attempt for key, attempt in single_draw._ATTEMPTS._found.items() if key[0] == site.ledger.place]


def test_no_draw_is_kept_once_its_release_is_recorded_or_where_it_was_never_charged(query, computed, monkeypatch):
    site = site_at(None)
    with pytest.raises(hdp.InsufficientBudget):
        site.answer(replace(query, epsilon=Fraction(4)))
    assert not kept(site)
    computed.before = staticmethod(lambda: 1 / 0)
    with pytest.raises(hdp.SiteError):
        site.answer(query)
    assert len(kept(site)) == 1
    computed.before = staticmethod(lambda: None)
    site.answer(query)
    assert not kept(site)


def interrupted_after(method, site, query, monkeypatch):
    """Ask a site whose ledger is interrupted once a method of it has done its work."""
    right = getattr(hdp.Ledger, method)

    def interrupted(*arguments, **options):
        right(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hdp.Ledger, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            site.answer(query)


def test_an_interrupt_after_the_release_was_recorded_keeps_no_draw(place, query, monkeypatch):
    site = site_at(place)
    interrupted_after("persist", site, query, monkeypatch)
    site.answer(query)
    assert not kept(site)
    assert site.ledger.spent.epsilon == 1


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), hdp.LedgerError("the disk is full")])
def test_what_ends_while_it_waits_for_another_computation_keeps_no_draw(place, query, monkeypatch, failure):
    site = site_at(place)
    site.ledger.charge(site._request(query), Spend(query.epsilon), holder=Holder())

    def interrupted(*_, **__):
        raise failure

    monkeypatch.setattr(single_draw, "given_up", interrupted)
    with pytest.raises(type(failure)):
        site.answer(query)
    assert not kept(site)
    assert site.ledger.spent.epsilon == 1


def test_an_interrupt_after_the_charge_was_written_costs_nothing_more(place, query, monkeypatch):
    site = site_at(place)
    interrupted_after("charge", site, query, monkeypatch)
    site.answer(query)
    assert site.ledger.spent.epsilon == 1


def test_another_ledger_in_the_same_place_has_draws_of_its_own(tmp_path, query, computed):
    """Bits that made one release must never make another: their difference would be that of the rows."""
    place = tmp_path / "ledger.db"
    first = site_at(place)
    computed.after = staticmethod(lambda: 1 / 0)
    with pytest.raises(hdp.SiteError):
        first.answer(query)
    place.rename(tmp_path / "moved.db")
    for ending in ("-wal", "-shm"):
        place.with_name(place.name + ending).unlink(missing_ok=True)
    computed.after = staticmethod(lambda: None)
    second = site_at(place).answer(query)
    assert second.theta != computed.draws[0]


def test_a_charge_that_was_made_again_has_other_bits(place, query, computed, monkeypatch):
    """A computation failed; another took over and ended; the first one comes back."""
    site = site_at(place)
    computed.after = staticmethod(lambda: 1 / 0)
    with pytest.raises(hdp.SiteError):
        site.answer(query)
    (attempt,), dead = kept(site), Holder(process="a machine that is gone 1 1")
    request = site._request(query)
    lease = site.ledger.lease(request.id)
    assert lease.holder == attempt.holder.name
    site.ledger.charge(request, Spend(query.epsilon), holder=dead, over=lease)
    computed.after = staticmethod(lambda: None)
    monkeypatch.setattr(leases, "LAPSE", 0.0)
    with pytest.warns(ChargedAgain, match="3 times"):
        release = site.answer(query)
    assert computed.draws[1] == release.theta != computed.draws[0]
    assert site.ledger.spent.epsilon == 3


def test_a_request_that_is_asked_for_inside_its_own_computation_is_refused(place, query, computed):
    """As a signal handler or a finalizer may: it would wait for itself."""
    site, told = site_at(place), []

    def ask():
        with pytest.raises(hdp.SiteError, match="this very thread"):
            site.answer(query)
        told.append(1)

    computed.before = staticmethod(ask)
    site.answer(query)
    assert told == [1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_go_on_with_the_bits_of_its_parent(tmp_path, query, computed):
    site, children = site_at(tmp_path / "ledger.db"), []

    def fork():
        if not children:
            children.append(os.fork())

    computed.before = staticmethod(fork)
    try:
        release = site.answer(query)
    except hdp.SiteError:
        os._exit(3 if not kept(site) else 4)
    except BaseException:
        os._exit(5)
    if children == [0]:
        os._exit(6)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 3
    assert set(computed.draws) == {release.theta}
    assert site.ledger.verify().entries == 3


CHILD = """
import os, sys
import hdpstats.api as hdp
from hdpstats.mechanisms.minimiser import PreparedPoint
from hdpstats.mechanisms.registry import query_from_json
from hdpstats.sites import single_draw
from tests.support import RECORDS, SCHEMA, people

place, query = sys.argv[1], query_from_json(sys.stdin.readline())
site = hdp.LocalSite(people(RECORDS), schema=SCHEMA, ledger=hdp.Ledger(place, dataset="trial", epsilon=3, create=True))
does, right, wait = sys.argv[2], PreparedPoint.compute, single_draw.given_up
def compute(self, table):
    release = right(self, table)
    if does == "die":
        os._exit(7)
    print("computed", flush=True)
    sys.stdin.readline()
    return release
def given_up(*lease, **options):
    print("waits", flush=True)
    single_draw.given_up = wait
    return wait(*lease, **options)
PreparedPoint.compute, single_draw.given_up = compute, given_up
print(site.answer(query).theta)
"""


def asked_in_a_process(place, query, *, does="say"):
    """Start a process that asks, and return it and what it reads first; it dies, or says what it does, and waits then.

    It computes, and goes on when it is told; or another one does, for which it waits.
    """
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"
    command = [sys.executable, "-c", quiet + CHILD, str(place), does]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return forked.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ), query.to_json() + "\n"


def test_processes_that_ask_at_once_receive_one_draw(tmp_path, query):
    """The one that computes goes on when each of the others has found its lease or computes too."""
    place = tmp_path / "ledger.db"
    started = [asked_in_a_process(place, query) for _ in range(3)]
    for process, text in started:
        process.stdin.write(text)
        process.stdin.flush()
    did = [process.stdout.readline().strip() for process, _ in started]
    for process, _ in started:
        process.stdin.write("go on\n")
        process.stdin.flush()
    said = [process.communicate(timeout=GENEROUS) for process, _ in started]
    assert {error for _, error in said} == {""}
    assert sorted(did) == ["computed", "waits", "waits"]
    assert len({output for output, _ in said}) == 1
    ledger = hdp.Ledger(place, dataset="trial", epsilon=3)
    assert ledger.spent.epsilon == 1
    assert ledger.verify().entries == 3


def test_a_draw_whose_process_ended_is_charged_and_so_is_the_next_one(tmp_path, query):
    place = tmp_path / "ledger.db"
    process, text = asked_in_a_process(place, query, does="die")
    assert process.communicate(text)[0] == ""
    assert process.returncode == 7
    site = site_at(place)
    assert site.ledger.spent.epsilon == 1
    with pytest.warns(ChargedAgain, match="charged 2 times"):
        release = site.answer(query)
    assert site.ledger.spent.epsilon == 2
    assert release.entry.attempt == 2
    history = site.ledger.history()
    assert history["released"].tolist() == [False, True]
    assert history["request"].nunique() == 1
    site.ledger.verify()


def test_the_guarantee_of_a_result_counts_every_charge(tmp_path, query):
    """After two charges the release is one of two draws."""
    place = tmp_path / "ledger.db"
    process, text = asked_in_a_process(place, query, does="die")
    process.communicate(text)
    study = hdp.Study(private=site_at(place), public=people(PUBLIC_ROWS, seed=1))
    with pytest.warns(ChargedAgain):
        result = hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, describe=False)
    assert result.query == query
    assert result.guarantee.epsilon == study.site.ledger.spent.epsilon == 2
    record = result.disclosure()
    assert sum(Fraction(event["epsilon"]) for event in record["accounting"]["events"]) == 2
    assert "2-differential" in result.guarantee.statement()
    assert "charged 2 times" in str(result.summary())


def test_a_second_computation_of_one_answer_has_a_pace_of_its_own(place, query, computed):
    """It was given up while it computed; the other one ended too, and it charges again."""
    site, entered = site_at(place), []
    request, dead = site._request(query), Holder(process="a machine that is gone 1 1")

    @contextmanager
    def pace():
        entered.append(1)
        yield
        if len(entered) == 1:
            site.ledger.charge(request, Spend(query.epsilon), holder=dead, over=site.ledger.lease(request.id))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "LAPSE", 0.0)
        with pytest.warns(ChargedAgain, match="3 times"):
            release = site.answer(query, pace=pace)
    assert entered == [1, 1]
    assert computed.draws[1] == release.theta != computed.draws[0]


def test_no_draw_is_kept_where_another_computation_recorded_the_release(place, query, tmp_path):
    """It was given up while it computed, and the other one recorded: its own bits are of no use any more."""
    recorded = site_at(str(tmp_path / "another.ledger")).answer(query).to_json()
    site = site_at(place)
    request, other = site._request(query), Holder(process="another machine 1 1")

    @contextmanager
    def pace():
        yield
        lease = site.ledger.lease(request.id)
        charge = site.ledger.charge(request, Spend(query.epsilon), holder=other, over=lease)
        site.ledger.persist(charge, recorded)

    with pytest.warns(ChargedAgain, match="2 times"):
        release = site.answer(query, pace=pace)
    assert release.to_json() == recorded
    assert kept(site) == []

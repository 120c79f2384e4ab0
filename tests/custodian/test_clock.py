"""When answers leave: at slots that public facts decide, on a clock of the test's own."""

import functools
import sqlite3
import sys
import threading
from contextlib import contextmanager
from fractions import Fraction

import anyio
import httpx
import numba
import pytest

import hdpstats.api as hdp
from hdpstats._base import caching
from hdpstats._base.errors import ChargedAgain
from hdpstats._base.work import Operations
from hdpstats.cli import main
from hdpstats.custodian import Overruns, SiteSettings, application, log
from hdpstats.custodian.capacity import Bytes, Clock
from hdpstats.custodian.health import State
from hdpstats.custodian.prices import MARGIN, OVERHEAD
from hdpstats.custodian.serving import Serving
from hdpstats.custodian.settings import Timing
from hdpstats.custodian.timing import Slots, UnderWay
from hdpstats.ledger.leases import Holder
from hdpstats.mechanisms.description.site import number_square
from hdpstats.mechanisms.histogram.site import PreparedHistogram
from hdpstats.privacy import gaussian
from hdpstats.privacy.budget import Spend
from hdpstats.sites import single_draw
from hdpstats.sites.remote import _refusal
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram
from tests.full_disk import full_disk

SLOT = 0.3
"""Three times 0.095 seconds, which the computation is predicted to take, on a grid of 0.05 seconds."""

PRICES = {"steps": (0.095 - OVERHEAD) / MARGIN}
"""By them one operation is predicted to take 0.095 seconds."""

STEP = 0.05
"""A step of that grid: one is for the charge, and one for the record."""

ANSWER = STEP + SLOT + STEP
"""What a new answer takes."""


class Instants:
    """A clock that stands still unless somebody waits or works."""

    def __init__(self):
        self.instant = 1000.0
        self.clock = Clock(now=lambda: self.instant, sleep=self.pass_by)

    def pass_by(self, seconds):
        self.instant += seconds


@pytest.fixture
def time():
    return Instants()


@pytest.fixture
def lines(monkeypatch):
    """What the custodian's log says."""
    found = []
    monkeypatch.setattr(log, "write", lambda **facts: found.append(facts))
    return found


@pytest.fixture
def settings(institution, tmp_path):
    tokens = {"audience": "trial", "key": str(institution.public_key), "bound": False}
    analysts = {"ann": EVERYTHING, "bob": EVERYTHING}
    found = SiteSettings.from_yaml(institution.write("clock", PRIVATE, SCHEMA, tokens=tokens, analysts=analysts))
    found = found.model_copy(update={"timing": Timing()})
    found._file = tmp_path / "site.yaml"
    return found


@pytest.fixture
def held():
    return hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="trial", epsilon=3))


@pytest.fixture
def works(monkeypatch, time):
    """Let computations be one operation, and take what the test says, as their preparation."""
    seconds = {"private": 0.01, "preparation": 0.0}
    compute, ready = PreparedHistogram.compute, hdp.LocalSite._ready

    def prepared(self, *arguments):
        time.pass_by(seconds["preparation"])
        return ready(self, *arguments)

    def computed(self, table):
        time.pass_by(seconds["private"])
        if "error" in seconds:
            raise seconds["error"]
        return compute(self, table)

    monkeypatch.setattr(hdp.LocalSite, "work", lambda self, query, *, analyst: Operations(steps=1.0))
    monkeypatch.setattr(hdp.LocalSite, "_ready", prepared)
    monkeypatch.setattr(PreparedHistogram, "compute", computed)
    return seconds


@pytest.fixture
def ask(institution, settings, held, time, works, lines):
    """Ask an application in this process; return the response and the seconds that it took."""

    def asked(query, path="/v1/answer", analyst="ann"):
        async def post():
            transport = httpx.ASGITransport(asked.app, raise_app_exceptions=False)
            headers = {"authorization": f"Bearer {institution.token(analyst, certificate=None)}"}
            async with httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers) as client:
                return await client.post(path, content=query.to_json())

        begun = time.instant
        return anyio.run(post), time.instant - begun

    asked.app = application(held, settings, time.clock, PRICES)
    return asked


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.1, 0.299])
def test_fast_and_slow_computations_leave_at_the_same_instant(ask, works, seconds):
    works["private"] = seconds
    response, taken = ask(histogram())
    assert response.status_code == 200
    assert taken == pytest.approx(ANSWER, abs=1e-9)


@pytest.mark.parametrize(("seconds", "slots"), [(0.36, 2), (0.64, 2), (0.66, 3), (6.04, 20)])
def test_an_overrun_leaves_at_a_later_slot_and_is_logged(ask, works, settings, lines, seconds, slots):
    works["private"] = seconds
    response, taken = ask(histogram())
    assert response.status_code == 200
    assert taken == pytest.approx(STEP + slots * SLOT + STEP, abs=1e-9)
    (line,) = [line for line in lines if "overrun" in line]
    assert line == {
        "analyst": "ann",
        "overrun": "histogram/1",
        "predicted": pytest.approx(SLOT),
        "slots": slots,
        "counted": True,
    }
    assert Overruns(settings.overruns).of("ann") == 1
    assert Overruns(settings.overruns).of("bob") == 0


@pytest.fixture
def slots(held, settings, time, works, lines):
    """The slots of a site."""
    return Slots(held, settings.timing, prices=PRICES, overruns=Overruns(settings.overruns), clock=time.clock)


def test_an_overrun_beside_a_request_of_another_analyst_stops_nobody(slots, works, settings, lines):
    works["private"] = 0.36
    for number in range(1, 5):
        with slots.request("bob"):
            slots.answer(histogram(replicate=number), analyst="ann")
    with slots.request("ann"):  # one of her own
        slots.answer(histogram(replicate=5), analyst="ann")
    assert [line["counted"] for line in lines if "overrun" in line] == [False] * 4 + [True]
    assert (Overruns(settings.overruns).of("ann"), Overruns(settings.overruns).of("bob")) == (1, 0)


def test_no_overrun_is_counted_while_settings_are_read_again(held, settings, time, works, lines, monkeypatch):
    """That is work of the custodian's, which may be why."""
    service = application(held, settings, time.clock, PRICES).service
    works["private"] = 0.36
    monkeypatch.setattr(Serving, "_read", lambda _: service._slots.answer(histogram(), analyst="ann"))
    anyio.run(Serving(settings, service=service, listener=None, state=State()).reload)
    assert [line["counted"] for line in lines if "overrun" in line] == [False]
    service._slots.answer(histogram(replicate=2), analyst="ann")
    assert Overruns(settings.overruns).of("ann") == 1


def test_where_no_overrun_could_be_counted_nothing_is_charged(slots, held, settings):
    """SQLite writes nothing, and so meets no full disk, where a number is what it was."""
    Overruns(settings.overruns).add("ann")
    with full_disk(), pytest.raises(hdp.LedgerError, match=r"cannot be counted .* and space"):
        slots.answer(histogram(), analyst="ann")
    assert held.ledger.spent.epsilon == 0
    slots.answer(histogram(), analyst="ann")
    assert Overruns(settings.overruns).of("ann") == 1


@pytest.mark.parametrize(("seconds", "steps"), [(0.02, 1), (0.07, 2)])
def test_a_wait_for_the_file_of_overruns_is_before_the_slot_on_the_grid(slots, time, monkeypatch, seconds, steps):
    """Who writes it meanwhile, for another analyst, shows only where that takes longer than a step."""
    countable = Overruns.countable

    def waits(self, analyst):
        time.pass_by(seconds)
        return countable(self, analyst)

    monkeypatch.setattr(Overruns, "countable", waits)
    begun = time.instant
    slots.answer(histogram(), analyst="ann")
    assert time.instant - begun == pytest.approx(steps * STEP + SLOT + STEP, abs=1e-9)


def test_an_overrun_that_cannot_be_counted_after_all_loses_no_answer(ask, works, lines, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("disk is full")

    works["private"] = 0.36
    monkeypatch.setattr(Overruns, "add", full)
    response, taken = ask(histogram())
    assert response.status_code == 200
    assert taken == pytest.approx(STEP + 2 * SLOT + STEP, abs=1e-9)
    assert [line["counted"] for line in lines if "overrun" in line] == [False]
    assert any("disk is full" in str(line.get("failed")) for line in lines)


def in_thread(task):
    """Run a task in a thread of its own, to its end; return what it raised."""
    failed = []

    def run():
        try:
            task()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return failed[0] if failed else None


@pytest.mark.parametrize("path", ["/v1/cost", "/v1/answer"])
def test_whatever_another_analyst_asks_for_beside_it_makes_an_overrun_uncounted(ask, works, lines, monkeypatch, path):
    works["private"], compute, codes = 0.36, PreparedHistogram.compute, []

    def computed(self, table):
        if not codes:
            codes.append(0)
            codes.append(in_thread(lambda: codes.append(ask(histogram("x"), path, "bob")[0].status_code)))
        return compute(self, table)

    monkeypatch.setattr(PreparedHistogram, "compute", computed)
    ask(histogram())
    assert codes == [0, 200, None]
    assert {line["analyst"]: line["counted"] for line in lines if "overrun" in line}["ann"] is False


def test_a_request_before_or_after_the_computation_excuses_no_overrun(slots, works, time, lines, monkeypatch):
    works["private"] = 0.36

    def sleep(seconds):
        with slots.request("bob"):  # while the answer waits for the end of its slot
            time.pass_by(seconds)

    slots._clock = Clock(now=time.clock.now, sleep=sleep)
    with slots.request("bob"):
        pass
    slots.answer(histogram(), analyst="ann")
    assert [line["counted"] for line in lines if "overrun" in line] == [True]


def test_a_wait_for_the_computation_of_another_process_keeps_nobody_waiting(slots, works, monkeypatch):
    """No slot of another analyst waits, though other responses to the analyst do."""
    order, compute = [], PreparedHistogram.compute

    def waits(lease, look, *, patient=False):
        assert len(slots._under_way.answers("ann")) == 1
        order.append(in_thread(lambda: slots.answer(histogram(replicate=2), analyst="bob")))
        return lease

    def computed(self, table):
        order.append("computed")
        return compute(self, table)

    query = histogram()
    slots._site.ledger.charge(slots._site._request(query), Spend(query.epsilon), analyst="bob", holder=Holder())
    monkeypatch.setattr(single_draw, "given_up", waits)
    monkeypatch.setattr(PreparedHistogram, "compute", computed)
    with pytest.warns(ChargedAgain):
        slots.answer(query, analyst="ann")
    assert order == ["computed", None, "computed"]


def test_what_a_question_costs_is_known_at_once_while_another_computation_runs(slots, monkeypatch):
    """Nothing is computed for it, and neither waits for the other."""
    found, compute = [], PreparedHistogram.compute

    def computed(self, table):
        if not found:
            found.append(in_thread(lambda: found.append(slots.seconds(histogram("x"), analyst="bob"))))
        return compute(self, table)

    monkeypatch.setattr(PreparedHistogram, "compute", computed)
    slots.answer(histogram(), analyst="ann")
    assert found == [pytest.approx(SLOT), None]


def test_slots_compute_with_one_thread(slots, monkeypatch):
    threads, before, compute = [], numba.get_num_threads(), PreparedHistogram.compute

    def computed(self, table):
        threads.append(numba.get_num_threads())
        return compute(self, table)

    monkeypatch.setattr(PreparedHistogram, "compute", computed)
    slots.answer(histogram(), analyst="ann")
    assert (threads, numba.get_num_threads()) == ([1], before)


def test_a_computation_knows_who_has_requests_beside_it():
    under_way = UnderWay()
    with under_way.computing("ann") as first, under_way.request("ann"):
        assert first == []
        with under_way.request("bob"), under_way.computing("bob") as second:
            assert (first, second) == (["bob"], ["ann"])
    with under_way.computing("ann") as later:
        assert later == []


@pytest.mark.parametrize("error", [ValueError("a cell"), MemoryError(), KeyError("a cell")])
def test_a_failure_leaves_at_its_slot_too(ask, works, error):
    works["error"] = error
    response, taken = ask(histogram())
    assert (response.status_code, response.json()) == (422, {"error": "site"})
    assert taken == pytest.approx(STEP + SLOT, abs=1e-9)


def undated(response):
    """Return an answer that was handed out again as it was at first: without the date of its charge."""
    answer = response.json()
    assert answer["entry"].pop("stored").startswith("20")
    return answer


def test_what_was_received_before_is_handed_out_at_once(ask, works, held):
    first, _ = ask(histogram())
    works["private"] = 5.0
    again, taken = ask(histogram())
    assert (taken, undated(again)) == (0.0, first.json())
    assert held.ledger.spent.epsilon == Fraction(1, 100)


def test_only_a_new_answer_is_handed_out_however_many_bytes_are_under_way(ask, monkeypatch):
    """One that was received before may be asked for again: it is refused as any other response is."""
    room = len(histogram().to_json())  # for a body, and for no response

    def fits(self, analyst, size):
        return self._held[analyst] + size <= room

    monkeypatch.setattr(Bytes, "_fits", fits)
    first, _ = ask(histogram())
    assert first.status_code == 200
    again, taken = ask(histogram())
    assert (again.json(), taken) == ({"error": "busy"}, 0.0)
    monkeypatch.undo()
    assert undated(ask(histogram())[0]) == first.json()


@pytest.fixture
def instants(monkeypatch, time, held, settings, works, lines):
    """Return at which instants an answer is charged, waits and leaves, and what of its analyst is under way then."""
    charge, persist, noted = hdp.Ledger.charge, hdp.Ledger.persist, []

    def note():
        noted.append((time.instant - begun, len(slots._under_way.answers("ann"))))

    def sleep(seconds):
        note()
        time.pass_by(seconds)

    def taking(seconds, task):
        def done(*arguments, **options):
            note()
            time.pass_by(seconds)
            found = task(*arguments, **options)
            note()
            return found

        return done

    clock = Clock(now=time.clock.now, sleep=sleep)
    slots = Slots(held, settings.timing, prices=PRICES, overruns=Overruns(settings.overruns), clock=clock)
    monkeypatch.setattr(hdp.Ledger, "charge", taking(0.02, charge))
    monkeypatch.setattr(hdp.Ledger, "persist", taking(0.03, persist))
    begun = 0.0

    def found(query, before=()):
        nonlocal begun
        releases = [slots.answer(query, analyst=analyst)[0] for analyst in before]
        begun = time.instant
        noted.clear()
        releases.append(slots.answer(query, analyst="ann")[0])
        assert len({each.to_json() for each in releases}) == 1
        assert slots._under_way.answers("ann") == []
        return time.instant - begun, list(noted)

    return found


@pytest.mark.parametrize("before", [(), ("bob",)])
@pytest.mark.parametrize(("preparation", "steps"), [(0.0, 1), (0.025, 1), (0.04, 2), (0.11, 3), (0.4, 9)])
def test_what_somebody_else_received_leaves_as_if_nobody_had_asked(instants, works, before, preparation, steps):
    """At the same instant, however long it is prepared and charged, with no other response to the analyst before."""
    works["preparation"] = preparation
    taken, noted = instants(histogram(), before)
    assert taken == pytest.approx(steps * STEP + SLOT + STEP, abs=1e-9)
    assert noted[0][0] == pytest.approx(preparation, abs=1e-9)
    assert {under_way for _, under_way in noted} == {1}


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize(("counting", "steps"), [(0.0, 0), (0.07, 1)])
def test_what_is_computed_for_somebody_else_meanwhile_leaves_at_the_slot_of_who_asks(
    instants, slots, monkeypatch, time, meanwhile, counting, steps
):
    """The wait for that computation is in the slot, and none of it is after; a charge that is slow is not in it.

    That for the file of overruns is before the slot, as it is before that of an answer that nobody else had asked for.
    """
    charge, countable = hdp.Ledger.charge, Overruns.countable

    def counted(self, analyst):
        time.pass_by(counting)
        return countable(self, analyst)

    def late(*arguments, **options):
        time.pass_by(0.2)
        return charge(*arguments, **options)

    def under_way(self, analyst, query):
        with answer(self, "bob", query + " "), answer(self, analyst, query) as found:
            assert not found
        with answer(self, "bob", query), answer(self, analyst, query) as found:
            assert found
            yield found

    if meanwhile:
        answer = UnderWay.answer
        monkeypatch.setattr(UnderWay, "answer", contextmanager(under_way))
    monkeypatch.setattr(Overruns, "countable", counted)
    monkeypatch.setattr(hdp.Ledger, "charge", late)
    taken = instants(histogram(), ("bob",))[0]
    assert taken == pytest.approx(ANSWER + STEP * (steps if meanwhile else 4 + steps), abs=1e-9)


def test_refusals_from_public_facts_are_immediate(ask):
    response, taken = ask(histogram(epsilon="100"))
    assert response.json() == {"error": "insufficient-budget"}
    assert taken == 0.0


def test_a_release_is_recorded_at_its_slot_and_not_when_it_is_computed(ask, held, time, monkeypatch):
    recorded = []
    persist = hdp.Ledger.persist

    def noted(self, *arguments, **options):
        recorded.append(time.instant)
        return persist(self, *arguments, **options)

    monkeypatch.setattr(hdp.Ledger, "persist", noted)
    begun = time.instant
    ask(histogram())
    assert recorded == [pytest.approx(begun + STEP + SLOT, abs=1e-9)]


def test_too_long_is_refused_before_it_is_charged(institution, settings, held, time, works, lines):
    limited = settings.model_copy(update={"timing": Timing(longest=0.25)})
    app = application(held, limited, time.clock, PRICES)

    async def post():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {institution.token(certificate=None)}"}
        async with httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers) as client:
            return [await client.post(path, content=histogram().to_json()) for path in ("/v1/answer", "/v1/cost")]

    for response in anyio.run(post):
        assert response.status_code == 422
        assert response.json() == {"error": "too-long", "seconds": 0.3, "limit": 0.25}
        error = _refusal(response.status_code, response.json())
        assert isinstance(error, hdp.MechanismError)
        assert error.facts == {"code": "too-long", "seconds": 0.3, "limit": 0.25}
        assert "0.3" in str(error)
        assert "0.25" in str(error)
    assert held.ledger.spent.epsilon == 0


def test_a_quote_says_the_seconds(ask):
    response, taken = ask(histogram(), "/v1/cost")
    assert response.json()["seconds"] == pytest.approx(SLOT)
    assert taken == 0.0


def test_overruns_stop_an_analyst_until_the_custodian_acts(institution, ask, works, settings, held, time, capsys):
    works["private"] = 0.36
    for number in range(3):
        assert ask(histogram(replicate=1 + number))[0].status_code == 200
    spent = held.ledger.spent
    assert ask(histogram(replicate=4))[0].json() == {"error": "stopped"}
    assert held.ledger.spent == spent
    assert ask(histogram(replicate=1))[0].status_code == 200  # received before
    assert ask(histogram(replicate=4), analyst="bob")[0].status_code == 200
    ask.app = application(held, settings, time.clock, PRICES)  # a new start forgets nothing
    assert ask(histogram(replicate=4))[0].json() == {"error": "stopped"}
    Overruns(settings.overruns).clear("ann")
    assert ask(histogram(replicate=4))[0].status_code == 200


def test_the_custodian_resumes_from_the_command_line(institution, capsys):
    path = institution.write("clock", PRIVATE, SCHEMA)
    overruns = Overruns(SiteSettings.from_yaml(path).overruns)
    overruns.add("ann")
    overruns.add("ann")
    assert main(["site", "resume", str(path), "--analyst", "ann"]) == 0
    assert "2 answers" in capsys.readouterr().out
    assert overruns.of("ann") == 0
    assert main(["site", "resume", str(path), "--analyst", "eve"]) == 2
    assert "'ann'" in capsys.readouterr().err


ONCE = {
    "hdpstats.custodian.prices.measured",  # by process, of invented numbers
    "hdpstats.ledger.leases._holder_of",  # by process
    "hdpstats.ledger.leases._machine",
    "hdpstats.mechanisms.loading._loaded",
    "hdpstats.records.codec._of_class",  # by types of this package
    "hdpstats.records.codec._of_type",
    "hdpstats.schema.partitions.environment",
    "hdpstats.solvers.searches.kernel",  # by dimension: code that takes seconds to compile
}
"""Functions whose values stay: but for what is compiled, none has an argument that a request decides."""


def caches():
    """Return the loaded functions of the package that keep values, by name; without those of `ONCE`."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "hdpstats"]
    holders = [holder for module in modules for holder in (module, *vars(module).values())]
    found = [each for holder in holders if hasattr(holder, "__dict__") for each in vars(holder).values()]
    kept = [each for each in found if isinstance(each, functools._lru_cache_wrapper)]
    names = {f"{each.__module__}.{each.__qualname__}": each for each in kept}
    assert names.keys() >= ONCE
    packages = {name: name.split(".")[:2] for name in names.keys() - ONCE}  # a service loads no notebook's
    return {name: names[name] for name, of in packages.items() if of[0] == "hdpstats" and of[1] != "jupyter"}


def test_what_one_analyst_asked_makes_no_answer_of_another_faster(institution, settings, held, time, works, lines):
    """Whatever function keeps values of what was asked: after a request it has none."""
    app = application(held, settings, time.clock, PRICES)
    gaussian.objective_multiplier(Fraction(1), Fraction(1, 10**6), Fraction(1, 10), rank=2)
    number_square(0.3)
    found = caches()
    assert all(each.cache_clear in caching._FORGETTING for each in found.values())
    filled = {name.rpartition(".")[2] for name, each in found.items() if each.cache_info().currsize}
    assert filled >= {"objective_multiplier", "number_square", "_context"}

    async def get():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {institution.token('ann', certificate=None)}"}
        async with httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers) as client:
            return (await client.get("/v1/facts")).status_code

    assert anyio.run(get) == 200
    assert {name: each.cache_info().currsize for name, each in found.items()} == dict.fromkeys(found, 0)


def test_requests_per_minute_are_limited_for_each_analyst(institution, settings, held, time, works, lines):
    app = application(held, settings.model_copy(update={"timing": Timing(requests=6)}), time.clock, PRICES)

    def codes(analyst, number):
        async def get():
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            headers = {"authorization": f"Bearer {institution.token(analyst, certificate=None)}"}
            async with httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers) as client:
                return [(await client.get("/v1/facts")).status_code for _ in range(number)]

        return anyio.run(get)

    assert codes("ann", 8) == [200] * 6 + [429] * 2
    assert codes("bob", 2) == [200] * 2
    time.pass_by(10.0)  # one request in ten seconds
    assert codes("ann", 2) == [200, 429]
    time.pass_by(1e6)
    assert codes("ann", 7) == [200] * 6 + [429]


def test_nothing_is_sent_to_an_analyst_while_his_computation_runs(institution, settings, held, monkeypatch, lines):
    """Other answers would be slower as long as it runs: they wait for its slot, those of others do not."""
    computing, go_on, order = threading.Event(), threading.Event(), []
    compute = PreparedHistogram.compute

    def computed(self, table):
        if table.rows == len(PRIVATE) and not computing.is_set() and armed.is_set():
            computing.set()
            go_on.wait(60)
        return compute(self, table)

    armed = threading.Event()
    monkeypatch.setattr(PreparedHistogram, "compute", computed)
    app = application(held, settings.model_copy(update={"timing": Timing(overruns=10**6, grid=0.001)}))

    async def run():
        async def get(client, label, path):
            await client.get(path)
            order.append(label)

        async def post(client):
            await client.post("/v1/answer", content=histogram().to_json())
            order.append("answer")

        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {
            name: {"authorization": f"Bearer {institution.token(name, certificate=None)}"} for name in ("ann", "bob")
        }
        async with (
            httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers["ann"]) as ann,
            httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers["bob"]) as bob,
        ):
            await ann.post("/v1/cost", content=histogram().to_json())
            armed.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(post, ann)
                await anyio.to_thread.run_sync(computing.wait, 60)
                tasks.start_soon(get, ann, "facts", "/v1/facts")
                tasks.start_soon(get, ann, "nothing", "/v1/ledger?x")
                for _ in range(3):
                    await get(bob, "bob", "/v1/facts")
                assert order == ["bob"] * 3
                go_on.set()
        assert sorted(order[3:]) == ["answer", "facts", "nothing"]

    anyio.run(run)

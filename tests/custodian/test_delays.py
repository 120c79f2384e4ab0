"""Nothing that one client sends holds the answers to another one up."""

import contextlib
import gc
import itertools
import json
import ssl
import threading
import time

import httpx
import pytest

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, serving
from hdpstats.custodian.app import MOST_DUMMY_CELLS, read_query
from hdpstats.custodian.settings import Limits
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.records import codec
from hdpstats.schema.public import PublicTable
from hdpstats.sites.forms import RequestRefused, public_to_bytes
from tests.custodian.institution import EVERYTHING, PATIENT
from tests.custodian.people import SCHEMA, people
from tests.custodian.test_refusals import histogram
from tests.waiting import LONG

ROWS = 20_000
LONGEST = 1.0
"""Seconds by which an answer may be later than without the other client."""


def filled(unit, size, *, first="[", last="1]"):
    """Return a text of about so many bytes that repeats a unit."""
    return (first + unit * ((size - len(first) - len(last)) // len(unit)) + last).encode()


def worst(size):
    """Return texts of about so many bytes that take long to read, by what they are made of."""
    query = histogram().to_json()
    replicate = query.partition('"replicate":')[0] + '"replicate":'
    return {
        "lists": filled("[],", size),
        "lists in a query": filled("[],", size, first=f"{replicate}["),
        "lists in lists": filled("[" * 500 + "]" * 500 + ",", size),
        "objects": filled("{},", size),
        "names": ("{" + ",".join(f'"{number:x}":1' for number in range(size // 11)) + "}").encode(),
        "whole numbers": filled("1,", size),
        "long whole numbers": filled("9" * 4299 + ",", size),
        "numbers": filled("2.2250738585072011e-308,", size),
        "texts": filled('"a",', size),
        "depth": b"[" * size,
    }


def valid(size):
    """Return a query that is one, and about as long as may be."""
    cuts = tuple(number / 7 for number in range(1, size // 20))
    axis = Axis(name="secret", cuts=cuts)
    text = HistogramQuery(axes=(axis,), epsilon=histogram().epsilon, schema_sha256=SCHEMA.sha256).to_json().encode()
    assert size // 2 < len(text) <= size
    return text


@pytest.mark.parametrize("what", worst(1000))
def test_the_worst_query_that_is_read_takes_a_small_part_of_a_second(what):
    """Time of this thread's processor: other work on the machine does not count. It is 2 to 80 milliseconds."""
    text = worst(Limits().query)[what]
    begun = time.thread_time()
    with pytest.raises(RequestRefused, match="malformed"):
        read_query(text)
    assert time.thread_time() - begun < 0.5


def test_parts_of_json_are_counted_before_it_is_read(monkeypatch):
    read = []
    monkeypatch.setattr(json, "loads", lambda text, **_: read.append(text))
    lists, items = codec.MOST_CONTAINERS, codec.MOST_ITEMS
    for text in ("[" * (lists + 1), "{" * (lists + 1), "[" * lists + "{", "[" + "1," * (items + 1)):
        with pytest.raises(RequestRefused, match="malformed"):
            read_query(text.encode())
        with pytest.raises(ValueError, match="too many"):
            codec.bounded(text)
    assert read == []
    assert codec.bounded("[" * lists + "," * items)


def test_what_there_is_before_a_site_listens_is_not_gone_over_again(institution, monkeypatch):
    """Python's collector goes over all objects that are not frozen, several times while many lists are read."""
    frozen = []
    settings = SiteSettings.from_yaml(institution.write("frozen", people(50), SCHEMA))
    monkeypatch.setattr(serving, "protect_process", lambda: None)
    monkeypatch.setattr(serving.asyncio, "run", lambda task: (task.close(), frozen.append(gc.get_freeze_count())))
    try:
        serving.serve(settings)
    finally:
        gc.unfreeze()
    assert frozen[0] > 10_000


@pytest.fixture(scope="module")
def busy(started):
    """A site with 20,000 rows, for ann and bob."""
    institution = started[0]
    settings = institution.write(
        "busy", people(ROWS), SCHEMA, analysts={"ann": EVERYTHING, "bob": EVERYTHING}, timing=PATIENT | {"grid": 0.05}
    )
    running = institution.start(settings)
    yield institution, running
    running.stop()


def requests():
    """Return requests to every address, as hard as the limits permit, without a question that is charged."""
    table = public_to_bytes(PublicTable.from_frame(people(200_000, seed=2), SCHEMA, ()))
    limits = Limits()
    assert limits.public / 2 < len(table) <= limits.public
    found = [("GET", "/v1/facts", None), ("GET", "/v1/ledger", None), ("PUT", "/v1/public", table)]
    most = min(10_000, MOST_DUMMY_CELLS // (len(SCHEMA) + 1))
    found.append(("GET", f"/v1/dummy?rows={most}&seed=1", None))
    bodies = [*worst(limits.query).values(), histogram().to_json().encode()]
    found += [("POST", f"/v1/{name}", body) for name in ("cost", "answer", "recorded") for body in bodies]
    found += [("POST", f"/v1/{name}", valid(limits.query)) for name in ("cost", "recorded")]
    found += [("PUT", "/v1/public", body) for body in worst(limits.public).values()]
    found += [("POST", "/v1/answer", filled("[],", 16_000_000)), ("GET", "/v1/nothing", None)]
    return found


@contextlib.contextmanager
def sent_again_and_again(institution, running, asked, clients=3):
    """Let bob send requests, from several connections at once, until the block ends; give the number answered."""
    context = ssl.create_default_context(cafile=institution.authority.path)
    context.load_cert_chain(*institution.ann_files)
    headers = {"authorization": f"Bearer {institution.token('bob')}"}
    ended, answered = threading.Event(), []

    def send(first):
        with httpx.Client(base_url=running.url, verify=context, headers=headers, timeout=LONG) as client:
            for method, path, body in itertools.cycle(asked[first:] + asked[:first]):
                if ended.is_set():
                    return
                with contextlib.suppress(httpx.HTTPError):  # a refusal may come before the body has been sent
                    answered.append(client.request(method, path, content=body).status_code)

    threads = [threading.Thread(target=send, args=(number * len(asked) // clients,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        ended.set()
        for thread in threads:
            thread.join(LONG)


def test_nothing_that_one_client_sends_delays_another_by_a_second(busy):
    """The median of twenty answers counts: load of the machine passes, and what the other client sends goes on.

    Before there were such limits, 16 MB of lists stopped all threads for more than three seconds at a time.
    """
    institution, running = busy
    replicates = itertools.count(1)

    def shortest(site, answers):
        taken = []
        for _ in range(answers):
            begun = time.monotonic()
            site.answer(histogram("secret", epsilon="1/1000", replicate=next(replicates)))
            taken.append(time.monotonic() - begun)
        return min(taken)

    with institution.connect(running) as ann, institution.connect(running, token=institution.token("bob")) as bob:
        for site in (ann, bob):
            site.quote(histogram("secret", epsilon="1/1000"))
            site.quote(histogram())
            with contextlib.suppress(hdp.HdpError):
                site.quote(HistogramQuery.from_dict(json.loads(valid(Limits().query))))
        alone = shortest(ann, 3)
        asked = requests()
        with sent_again_and_again(institution, running, asked) as answered:
            beside = [shortest(ann, 1) for _ in range(20)]
        assert len(answered) > 0
    beside.sort()
    assert beside[len(beside) // 2] < alone + LONGEST, (alone, beside)

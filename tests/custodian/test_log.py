"""One line in the log for each request, and when a refused request may be sent again."""

import json
import logging
import ssl

import anyio
import httpx
import pytest

import hdpstats
import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, application, log
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.settings import Limits, Timing
from hdpstats.custodian.timing import Rates
from hdpstats.sites import remote
from hdpstats.sites.messages import FORMAT
from hdpstats.sites.remote import HttpClient, RemoteSite
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.serving import Server, everything, response
from tests.custodian.test_refusals import histogram
from tests.full_disk import full_disk

LINE = {"request", "kind", "analyst", "status", "took", "version", "data_version"}
"""What each line has, whatever became of the request."""


@pytest.fixture
def lines(monkeypatch):
    found = []
    monkeypatch.setattr(log, "write", lambda **facts: found.append(facts))
    return found


@pytest.fixture
def ask(institution, tmp_path, lines):
    """Ask an application in this process; return the response."""
    tokens = {"audience": "trial", "key": str(institution.public_key), "bound": False}
    settings = SiteSettings.from_yaml(
        institution.write("log", PRIVATE, SCHEMA, tokens=tokens, analysts={"ann": EVERYTHING})
    )
    settings._file = tmp_path / "site.yaml"
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="trial", epsilon=3))

    def asked(method, path, content=None, analyst="ann", **changes):
        app = application(site, settings.model_copy(update=changes), changes.pop("clock", Clock()))

        async def send():
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            headers = {"authorization": f"Bearer {institution.token(analyst, certificate=None)}"}
            async with httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers) as client:
                return [await client.request(method, path, content=content) for _ in range(asked.times)][-1]

        return anyio.run(send)

    asked.times = 1
    return asked


REQUESTS = {
    "facts": ("GET", "/v1/facts", None, 200, None),
    "dummy": ("GET", "/v1/dummy?rows=5&seed=1", None, 200, None),
    "ledger": ("GET", "/v1/ledger", None, 200, None),
    "cost": ("POST", "/v1/cost", histogram().to_json(), 200, "histogram/1"),
    "received": ("POST", "/v1/received", histogram(epsilon="1/77").to_json(), 404, "histogram/1"),
    "answer": ("POST", "/v1/answer", histogram().to_json(), 200, "histogram/1"),
    "public": ("PUT", "/v1/public", b"{}", 400, None),
    "/v1/nothing": ("GET", "/v1/nothing?x=secret", None, 404, None),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_leaves_one_line(ask, lines, name):
    method, path, content, status, kind = REQUESTS[name]
    assert ask(method, path, content).status_code == status
    (line,) = [line for line in lines if "request" in line]
    assert set(line) >= LINE
    assert (line["request"], line["status"], line["kind"]) == (name, status, kind)
    assert (line["version"], line["data_version"]) == (hdpstats.__version__, 1)
    assert line["analyst"] == (None if name == "/v1/nothing" else "ann")
    assert line["took"].startswith(("under ", "100 s"))
    assert "secret" not in json.dumps(line)
    assert ("refused" in line) == (status != 200)
    assert ("cost" in line) == (name == "answer")


def test_a_refused_query_leaves_one_line_with_its_kind(ask, lines):
    assert ask("POST", "/v1/answer", histogram(epsilon="100000").to_json()).status_code == 409
    (line,) = [line for line in lines if "request" in line]
    assert (line["kind"], line["analyst"], line["refused"]) == ("histogram/1", "ann", "insufficient-budget")


def test_an_unknown_analyst_leaves_one_line_with_his_name(ask, lines):
    assert ask("GET", "/v1/facts", analyst="eve").status_code == 403
    assert [(line["analyst"], line["refused"]) for line in lines] == [("eve", "unknown-analyst")]


def test_what_is_no_request_leaves_a_line_too(institution, lines):
    async def never(scope, receive, send):
        raise AssertionError

    with Server(institution, never) as server:
        for content, code in ((b"\x00\x01\r\n\r\n", "malformed"), (CHUNKED, "no-length")):
            with server.secure() as stream:
                stream.sendall(content)
                assert everything(stream).endswith(f'{{"error":"{code}"}}'.encode())
    assert [(line["status"], line["refused"]) for line in lines] == [(400, "malformed"), (411, "no-length")]


CHUNKED = b"POST /v1/cost HTTP/1.1\r\nhost: site\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n1\r\ny\r\n0\r\n\r\n"


def test_a_body_in_parts_of_any_number_is_refused(institution):
    """A megabyte in parts of one byte each would keep the event loop busy for half a minute."""
    with Server(institution, lambda *_: None) as server, server.secure() as stream:
        stream.sendall(CHUNKED)
        assert response(stream) == (411, b'{"error":"no-length"}')


def test_too_many_requests_are_told_when_the_next_one_may_come(ask):
    ask.times = 7
    refused = ask("GET", "/v1/facts", timing=Timing(requests=6))
    assert refused.json() == {"error": "too-many"}
    assert 1 <= int(refused.headers["retry-after"]) <= 10
    ask.times = 6
    assert "retry-after" not in ask("GET", "/v1/facts", timing=Timing(requests=6)).headers


def test_the_seconds_until_the_next_request_are_those_until_it_is_allowed():
    now = [100.0]
    rates = Rates(6, Clock(now=lambda: now[0]))
    assert rates.seconds("ann") == 0.0
    assert [rates.allow("ann") for _ in range(7)] == [True] * 6 + [False]
    assert rates.seconds("ann") == pytest.approx(10.0)
    now[0] += 4.0
    assert rates.seconds("ann") == pytest.approx(6.0)
    now[0] += 6.0
    assert rates.seconds("ann") == pytest.approx(0.0)
    assert rates.allow("ann")


def test_a_busy_site_is_asked_again_in_a_second(ask):
    limits = Limits(query=10, public=10, bytes_each=100, bytes=10**6)
    refused = ask("GET", "/v1/facts", limits=limits)  # the response is longer than what may be under way
    assert (refused.status_code, refused.json(), refused.headers["retry-after"]) == (503, {"error": "busy"}, "1")


@pytest.fixture
def client(monkeypatch):
    """A client whose site says what a test gives it, on a clock of the test's own, and what it waited for."""
    ssl_context = ssl.create_default_context()
    monkeypatch.setattr(remote, "_context", lambda *_: ssl_context)
    made = HttpClient("https://site.example", token="t", ca=None, cert=None, timeout=30.0)
    said, slept, shown, now = [], [], [], [0.0]

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def progress(items, *, label):
        shown.append(label)
        return items

    monkeypatch.setattr(remote.time, "sleep", sleep)
    monkeypatch.setattr(remote.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(remote, "progress", progress)

    def handle(request):
        status, fields, headers = said[0] if len(said) == 1 else said.pop(0)
        return httpx.Response(status, json=fields, headers=headers)

    made._client.close()
    made._client = httpx.Client(transport=httpx.MockTransport(handle))
    yield made, said, slept, shown
    made.close()


def busy(code="busy", seconds="3"):
    return (429 if code == "too-many" else 503, {"error": code}, {"retry-after": seconds})


def test_a_client_waits_as_long_as_the_site_says_and_shows_it(client):
    made, said, slept, shown = client
    said += [busy(), busy("too-many", "2"), (200, {"fine": True}, {})]
    assert made.ask("GET", "/v1/facts") == {"fine": True}
    assert sum(slept) == 5.0
    assert shown == ["waiting for https://site.example, which is busy"]


def test_a_client_does_not_wait_for_ever(client):
    made, said, slept, _ = client
    said.append(busy())
    with pytest.raises(hdp.SiteError) as caught:
        made.ask("GET", "/v1/facts")
    assert caught.value.facts == {"code": "busy"}
    assert sum(slept) == 30.0


@pytest.mark.parametrize(
    "refusal",
    [
        (503, {"error": "ledger"}, {"retry-after": "3"}),
        (409, {"error": "insufficient-budget"}, {}),
        (503, {"error": "busy"}, {}),
        (503, {"error": "busy"}, {"retry-after": "tomorrow"}),
        (503, {"error": "busy"}, {"retry-after": "10000000000"}),
        (503, {}, {"retry-after": "3"}),
    ],
)
def test_a_client_waits_for_nothing_else(client, refusal):
    made, said, slept, shown = client
    said.append(refusal)
    with pytest.raises(hdp.HdpError):
        made.ask("GET", "/v1/facts")
    assert (slept, shown) == ([], [])


def test_an_answer_that_was_given_is_not_waited_for(client):
    made, said, slept, shown = client
    said.append((200, {"fine": True}, {"retry-after": "3"}))
    assert made.ask("GET", "/v1/facts") == {"fine": True}
    assert (slept, shown) == ([], [])


@pytest.mark.parametrize(("number", "words"), [(3, "the site is the older"), (FORMAT + 1, "this package is the older")])
def test_a_site_of_another_format_is_recognised_before_its_facts_are_read(client, number, words):
    """Another version may have other facts, which this one cannot read."""
    made, said, _, _ = client
    said.append((200, {"facts": {"format": number, "more": 1}, "analyst": "ann", "permissions": {}}, {}))
    with pytest.raises(hdp.SiteError, match=words):
        RemoteSite(made)


def test_a_log_file_survives_rotation_and_is_its_owners_alone(tmp_path):
    place = tmp_path / "site.log"
    handler = log.RotatedFile(place)

    def wrote(number):
        handler.emit(logging.LogRecord("hdpstats.custodian", logging.INFO, "", 1, f"line {number}", None, None))
        return place.read_text()

    assert wrote(1) == "line 1\n"
    place.rename(tmp_path / "site.log.1")
    assert wrote(2) == "line 2\n"
    assert (tmp_path / "site.log.1").read_text() == "line 1\n"
    assert place.stat().st_mode & 0o777 == 0o600
    with full_disk(place.stat().st_size):
        assert wrote(3) == "line 2\n"  # lost, and nothing else happens
    assert wrote(4).endswith("line 4\n")
    handler.close()
    with pytest.raises(hdp.ArgumentError, match="write permission to its folder"):
        log.write_to(tmp_path / "none" / "site.log")

"""Clients that open and do not go on: with handshakes, heads, bodies, responses and connections; others are served."""

import asyncio
import contextlib
import datetime
import json
import socket
import ssl

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, application, log, serving
from hdpstats.custodian.credentials import Certificates
from hdpstats.custodian.http_connection import IDLE, Deadlines
from hdpstats.custodian.settings import Tls
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.serving import Server, everything, response
from tests.custodian.test_refusals import histogram
from tests.waiting import until

GET = b"GET / HTTP/1.1\r\nhost: site\r\n\r\n"
LARGE = 32_000_000


async def small(scope, receive, send):
    """Say who asks."""
    content = scope["hdpstats.certificate"].encode()
    fields = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": content})


async def large(scope, receive, send):
    """Send more than sockets hold."""
    fields = [(b"content-length", str(LARGE).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b"x" * LARGE})


@pytest.fixture
def stack():
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.fixture
def serve(institution, stack):
    def start(app=small, **limits):
        return stack.enter_context(Server(institution, app, **limits))

    return start


def served(server, address="127.0.0.1", files=None):
    with server.secure(address, files) as stream:
        stream.sendall(GET)
        return response(stream)[0] == 200


STEPS = ["handshake", "head", "body", "write", "close"]


def begun(deadlines, *, at):
    """Return until when each step may take that begins at a moment of the event loop's clock."""

    async def begin():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "time", lambda: at)
            return {what: deadlines.begin(what) for what in [*STEPS, "idle"]}

    return asyncio.run(begin())


def test_deadlines_are_so_many_seconds_from_the_beginning():
    assert begun(Deadlines(7.0), at=100.0) == dict.fromkeys(STEPS, 107.0) | {"idle": 100.0 + IDLE}


@pytest.mark.parametrize("what", STEPS)
def test_what_goes_on_beyond_its_deadline_is_ended(what):
    async def wait(deadlines):
        async with deadlines.until(what, deadlines.begin(what)):
            for _ in range(10):
                await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        asyncio.run(wait(Deadlines(0.0)))
    asyncio.run(wait(Deadlines(3600.0)))


def test_a_site_has_the_deadlines_of_its_settings(institution, monkeypatch):
    settings = SiteSettings.from_yaml(institution.write("deadlines", PRIVATE, SCHEMA, limits={"seconds": 7.0}))
    served = []

    async def listen(served_site, *_):
        served.append(served_site.listener)

    monkeypatch.setattr(serving, "protect_process", lambda: None)
    monkeypatch.setattr(serving, "Listener", lambda app, **named: named["deadlines"])
    monkeypatch.setattr(serving, "_listen", listen)
    serving.serve(settings)
    (deadlines,) = served
    assert isinstance(deadlines, Deadlines)
    assert begun(deadlines, at=100.0)["head"] == 107.0


def test_half_open_handshakes_are_bounded_for_each_address_and_in_all(serve, stack):
    server = serve(handshakes=5, handshakes_each=3)
    silent = [stack.enter_context(server.plain()) for _ in range(3)]
    server.deadlines.wait(handshake=3)
    assert everything(stack.enter_context(server.plain())) == b""
    assert served(server, "127.0.0.2")
    silent += [stack.enter_context(server.plain("127.0.0.3")) for _ in range(2)]
    server.deadlines.wait(handshake=5)
    assert everything(stack.enter_context(server.plain("127.0.0.2"))) == b""
    server.end("handshake")
    assert [everything(stream) for stream in silent] == [b""] * 5
    server.deadlines.wait(handshake=0)
    assert served(server)


def test_addresses_of_one_network_of_64_bits_count_as_one(serve, stack):
    server = serve(handshakes=5, handshakes_each=1)
    if not server.port6:
        pytest.skip("this machine has no IPv6")
    stack.enter_context(server.plain("::1"))
    server.deadlines.wait(handshake=1)
    assert everything(stack.enter_context(server.plain("::1"))) == b""
    assert served(server)


def test_connections_of_one_certificate_leave_room_for_others(serve, institution, stack):
    server = serve(connections_each=2)
    for _ in range(2):
        stream = stack.enter_context(server.secure())
        stream.sendall(GET)
        assert response(stream)[0] == 200
    third = stack.enter_context(server.secure())
    with contextlib.suppress(OSError):
        third.sendall(GET)
    assert everything(third) == b""
    assert served(server, files=institution.site_files)


def test_a_client_that_does_not_read_its_answer_is_cut_off(serve, stack):
    server = serve(large)
    stream = stack.enter_context(server.secure())
    stream.sendall(GET)
    server.deadlines.wait(write=1)
    server.end("write")
    server.deadlines.wait(write=0, head=0, idle=0, close=0)
    assert 0 < len(everything(stream)) < LARGE


def test_an_answer_that_is_read_is_whole(serve, stack):
    server = serve(large)
    stream = stack.enter_context(server.secure())
    for _ in range(2):
        stream.sendall(GET)
        assert response(stream) == (200, b"x" * LARGE)


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nx-"])
def test_a_head_that_does_not_come_ends_a_connection(serve, stack, head):
    server = serve()
    streams = [stack.enter_context(server.secure()) for _ in range(20)]
    for stream in streams:
        stream.sendall(head)
    server.deadlines.wait(head=20)
    assert served(server)
    server.deadlines.wait(head=20)
    server.end("head")
    assert [everything(stream) for stream in streams] == [b""] * 20


def test_an_idle_connection_ends_and_one_that_begins_a_request_has_the_time_of_a_head(serve, stack):
    server = serve()
    first, second = (stack.enter_context(server.secure()) for _ in range(2))
    for stream in (first, second):
        stream.sendall(GET)
        response(stream)
    server.deadlines.wait(idle=2)
    second.sendall(GET[:5])
    server.deadlines.wait(idle=1, head=1)
    server.end("idle")
    assert everything(first) == b""
    second.sendall(GET[5:])
    assert response(second)[0] == 200


@pytest.fixture
def site(institution, serve):
    """A site of ann's and bob's with small limits, its server and a head for them."""
    tokens = {"audience": "trial", "key": str(institution.public_key)}
    limits = {"query": 100_000, "public": 1_000_000, "bytes_each": 1_500_000, "bytes": 4_000_000}
    everything_there_is = {"mechanisms": "all", "models": "all"}
    analysts = {"ann": everything_there_is, "bob": everything_there_is}
    path = institution.write("listening", PRIVATE, SCHEMA, limits=limits, analysts=analysts, tokens=tokens)
    held = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="trial", epsilon=3))
    server = serve(application(held, SiteSettings.from_yaml(path)))

    def head(analyst, length, path="/v1/public", method="PUT"):
        token = institution.token(analyst)
        return (
            f"{method} {path} HTTP/1.1\r\nhost: site\r\nauthorization: Bearer {token}\r\n"
            f"content-length: {length}\r\n\r\n"
        ).encode()

    return server, head


def test_a_body_that_does_not_come_is_refused(site, stack):
    server, head = site
    streams = [stack.enter_context(server.secure()) for _ in range(10)]
    for stream in streams:
        stream.sendall(head("ann", 1000) + b"x")
    server.deadlines.wait(body=10)
    server.end("body")
    assert [response(stream) for stream in streams] == [(408, b'{"error":"too-slow"}')] * 10


def test_unfinished_bodies_of_one_analyst_are_bounded_together(site, stack, monkeypatch):
    """Sixteen bodies of 0.9 MB, none of which ends: all but one are refused, and bob is answered."""
    (server, head), refused = site, []
    monkeypatch.setattr(log, "write", lambda **facts: refused.append(facts.get("refused")))
    streams = [stack.enter_context(server.secure()) for _ in range(16)]
    for stream in streams:
        with contextlib.suppress(OSError):
            stream.sendall(head("ann", 1_000_000) + b"x" * 900_000)
    until(lambda: refused.count("busy") == 15, lambda: refused)
    server.deadlines.wait(body=1, write=0)
    query = histogram().to_json().encode()
    with server.secure() as other:
        other.sendall(head("bob", len(query), "/v1/cost", "POST") + query)
        status, content = response(other)
    assert (status, json.loads(content)["cost"]["epsilon"]) == (200, "1/100")
    server.deadlines.wait(body=1)
    server.end("body")
    statuses = sorted(str(everything(stream).split(b" ", 2)[1:2]) for stream in streams)
    assert set(statuses) <= {"[b'408']", "[b'503']", "[]"}
    assert statuses.count("[b'408']") == 1


def test_what_is_no_http_is_refused_in_fixed_words(serve, stack):
    server = serve()
    for strange in (b"\x00\x01\r\n\r\n", b"GET / HTTX/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        stream = stack.enter_context(server.secure())
        stream.sendall(strange)
        assert everything(stream).endswith(b'{"error":"malformed"}')


def test_requests_that_were_sent_ahead_are_answered_in_turn(serve, stack):
    server = serve()
    stream = stack.enter_context(server.secure())
    stream.sendall(GET * 3)
    assert [response(stream)[0] for _ in range(3)] == [200] * 3


def test_a_response_to_head_has_no_body(serve, stack):
    stream = stack.enter_context(serve().secure())
    stream.sendall(b"HEAD / HTTP/1.1\r\nhost: site\r\nconnection: close\r\n\r\n")
    assert everything(stream).endswith(b"\r\n\r\n")


def test_a_certificate_that_was_taken_back_is_refused_at_once_also_on_an_open_connection(
    serve, institution, stack, tmp_path
):
    crl = institution.authority.revoke(tmp_path / "revoked.pem")
    server = serve(crl=crl)
    stream = stack.enter_context(server.secure())
    stream.sendall(GET)
    assert response(stream)[0] == 200
    institution.authority.revoke(crl, institution.ann_files[0])
    stream.sendall(GET)
    assert response(stream) == (401, b'{"error":"unauthenticated"}')
    assert not reached(server)
    assert served(server, files=institution.site_files)
    institution.authority.revoke(crl, days=-0.5)
    assert not reached(server, institution.site_files)
    crl.write_text("half of a li")
    assert not reached(server, institution.site_files)
    institution.authority.revoke(crl)
    assert served(server)


def reached(server, files=None):
    """Whether a client gets an answer; by TLS 1.3 it learns after its own handshake that it does not."""
    try:
        return served(server, files=files)
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_list_that_cannot_be_read_or_has_expired_starts_no_site(institution, tmp_path):
    def certificates(path, now=None):
        files = institution.site_files
        tls = Tls(certificate=files[0], key=files[1], clients=institution.authority.path, crl=path)
        return Certificates(tls) if now is None else Certificates(tls, lambda: now)

    crl = institution.authority.revoke(tmp_path / "revoked.pem")
    der = ssl.PEM_cert_to_DER_cert(institution.ann_files[0].read_text())
    assert certificates(crl).allow(der)
    assert not certificates(crl).allow(None)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    gone = tmp_path / "none.pem"
    gone.touch()
    for path, now in ((institution.authority.path, None), (gone, None), (crl, later)):
        with pytest.raises(hdp.ArgumentError, match="crl"):
            certificates(path, now)


def test_a_list_that_expires_while_a_site_serves_lets_nobody_in(institution, tmp_path):
    files, moments = institution.site_files, [datetime.datetime.now(datetime.UTC)]
    crl = institution.authority.revoke(tmp_path / "revoked.pem")
    tls = Tls(certificate=files[0], key=files[1], clients=institution.authority.path, crl=crl)
    certificates = Certificates(tls, lambda: moments[-1])
    der = ssl.PEM_cert_to_DER_cert(institution.ann_files[0].read_text())
    assert certificates.allow(der)
    moments.append(moments[0] + datetime.timedelta(days=2))
    assert not certificates.allow(der)


@pytest.mark.wide
def test_connections_leave_descriptors_for_the_ledger(institution, stack):
    """A process that may open 200 files: 190 connections with certificates, and a query is charged and answered."""
    many = dict.fromkeys(("connections", "connections_each", "handshakes", "handshakes_each"), 10_000)
    settings = institution.write("few-files", PRIVATE, SCHEMA, limits=many)
    running = institution.launch(settings, files=200)
    institution.wait(running)
    with institution.connect(running) as connected:
        context = ssl.create_default_context(cafile=institution.authority.path)
        for number in range(190):
            with contextlib.suppress(OSError):
                stack.enter_context(open_connection(running, context, institution))
            if number % 20 == 0:
                connected.account()  # its connection is not idle for long
        assert connected.answer(histogram()).entry is not None
    running.stop()


def open_connection(running, context, institution):
    context.load_cert_chain(*institution.ann_files)
    plain = socket.create_connection(("127.0.0.1", running.port), timeout=60)
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    except BaseException:
        plain.close()
        raise

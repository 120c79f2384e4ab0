"""Many clients, bad clients, and a site that dies: the ledger stays exact."""

import concurrent.futures
import contextlib
import socket
import ssl
import threading
from fractions import Fraction

import pytest

import hdpstats.api as hdp
from tests.custodian.conftest import SECONDS
from tests.custodian.people import PUBLIC
from tests.custodian.test_refusals import histogram
from tests.waiting import GENEROUS, until

SHARE = Fraction(1, 50)


def outcomes(site, queries, workers):
    """Ask all at once; return releases and errors in order."""

    def ask(query):
        try:
            return site.answer(query)
        except hdp.HdpError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(ask, queries))


@pytest.mark.wide
def test_200_requests_at_once_are_charged_to_the_last_cent(institution, crowded):
    with institution.connect(crowded) as site:
        account = crowded.account()
        left = min(site.account().remaining.epsilon, account.remaining.epsilon)
        charged = len(account.history())
        queries = [histogram(epsilon="1/50", replicate=10_000 + number) for number in range(200)]
        found = outcomes(site, queries, workers=200)
        released = [each for each in found if not isinstance(each, Exception)]
        refused = [each for each in found if isinstance(each, Exception)]
        assert len(released) == left // SHARE
        assert {type(each) for each in refused} <= {hdp.InsufficientBudget}
        account = crowded.account()
        assert min(site.account().remaining.epsilon, account.remaining.epsilon) == left % SHARE
        assert len(account.history()) - charged == len(released)
        assert len({each.entry.number for each in released}) == len(released)
        assert account.history()["released"].all()
        account.verify()


def test_the_same_request_200_times_at_once_is_one_release(site, running):
    before = running.account().spent.epsilon
    found = outcomes(site, [histogram(epsilon="1/50", replicate=20_000)] * 200, workers=200)
    assert len({each.to_json() for each in found}) == 1
    assert running.account().spent.epsilon - before == SHARE


@contextlib.contextmanager
def channel(institution, running, *, handshake=True):
    """Connect without a library that keeps to the rules."""
    plain = socket.create_connection(("127.0.0.1", running.port), timeout=GENEROUS)
    with plain:
        if not handshake:
            yield plain
            return
        context = ssl.create_default_context(cafile=institution.authority.path)
        context.load_cert_chain(*institution.ann_files)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            yield secure


def head(institution, *fields, path="/v1/answer", method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "host: site", f"authorization: Bearer {institution.token()}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


def everything(stream):
    """Return what still comes until the other side closes; None where it does not."""
    stream.settimeout(5 * SECONDS)
    parts = []
    try:
        while part := stream.recv(65536):
            parts.append(part)
    except TimeoutError:
        return None
    except OSError:
        pass
    return b"".join(parts)


def memory(running):
    """Return the largest resident size of a site so far, in bytes."""
    with open(f"/proc/{running.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def test_a_body_of_1_gb_is_refused_before_it_is_read(institution, running):
    before, peak = running.account().head, memory(running)
    with channel(institution, running) as stream:
        stream.sendall(head(institution, "content-length: 1000000000"))
        answer = everything(stream)
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.endswith(b'{"error":"too-large","limit":200000}')
    sent, block = 0, b"10000\r\n" + b"9" * 65536 + b"\r\n"
    with channel(institution, running) as stream:
        stream.sendall(head(institution, "transfer-encoding: chunked"))
        with contextlib.suppress(OSError):
            while sent < 10**9:
                stream.sendall(block)
                sent += len(block)
    assert sent < 10**8
    assert memory(running) - peak < 50_000_000
    assert running.account().head == before


def test_a_body_is_not_read_for_somebody_unknown(institution, running):
    with channel(institution, running) as stream:
        stream.sendall(b"POST /v1/answer HTTP/1.1\r\nhost: site\r\ncontent-length: 1000\r\n\r\n")
        assert everything(stream).startswith(b"HTTP/1.1 401")


def test_no_head_is_read_without_end(institution, running):
    with channel(institution, running) as stream:
        stream.send(b"GET /v1/facts HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            for _ in range(100):
                stream.sendall(b"x-long: " + b"9" * 10_000 + b"\r\n")
        assert not (everything(stream) or b"").startswith(b"HTTP/1.1 200")


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_a_site_killed_at_work_released_nothing_uncharged_and_goes_on_where_it_was(institution, mortal):
    asked = [histogram(epsilon="1/1000", replicate=30_000 + number) for number in range(100)]
    site = institution.connect(mortal)
    study = hdp.Study(private=site, public=PUBLIC)
    site.put_public(study.public)
    began = len(mortal.account().history("ann"))
    killed = threading.Event()

    class Later:
        """The site, which the second half of the questions reach only once it has been killed."""

        def answer(self, query):
            assert query.replicate < 30_050 or killed.wait(GENEROUS)
            return site.answer(query)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pending = pool.submit(outcomes, Later(), asked, 16)
        until(lambda: len(mortal.account().history("ann")) >= began + 20, "charges")  # 16 at once: some are answered
        mortal.kill()
        killed.set()
        found = pending.result()
    released = [each for each in found if not isinstance(each, Exception)]
    assert 0 < len(released) < len(asked)
    assert {type(each) for each in found if isinstance(each, Exception)} == {hdp.SiteError}
    account = mortal.account()
    account.verify()
    history = account.history("ann").iloc[began:]
    assert len(history) >= len(released)
    assert {each.entry.number for each in released} <= set(history.loc[history["released"], "entry"])
    charged = account.spent.epsilon

    again = institution.restart(mortal)
    mortal.process = again.process
    with site:
        for query, release in zip(asked, found, strict=True):
            if not isinstance(release, Exception):
                assert site.answer(query) == release
        assert mortal.account().spent.epsilon == charged
        half_paid = int((~history["released"]).sum())  # their noise was lost with the process: they are charged again
        found = outcomes(site, asked, 8)
        assert all(not isinstance(each, Exception) for each in found)
        assert sum(each.entry.attempt == 2 for each in found) == half_paid
        assert mortal.account().spent.epsilon - charged == Fraction(100 - len(history) + half_paid, 1000)
        # Public rows were in the memory of the site: they are sent once more.
        assert len(hdp.importance_weights(study, "~ x", epsilon=1.0, replicate=9).frame) == len(PUBLIC)


def test_a_site_leaves_no_core(running):
    with open(f"/proc/{running.process.pid}/limits") as limits:
        core = next(line.split() for line in limits if line.startswith("Max core file size"))
    assert core[4:6] == ["0", "0"]

"""Private cells stay in the site's process: not in the analyst's memory, in a response, in a log, in an error."""

import json
import subprocess
import sys
import textwrap

import anyio
import httpx
import pytest

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, application, log
from tests import forked, waiting
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram

PLANTED = PRIVATE["secret"].iloc[:40].tolist()
"""Doubles with all their digits at random."""

ANALYST = """
    import sys
    import hdpstats.api as hdp
    import hdpstats.formula.api as hdpf
    from hdpstats.sites import remote
    remote.LONGEST_CONNECT = 600.0
    site = hdp.connect({url!r}, token={token!r}, ca={ca!r}, cert={cert!r})
    study = hdp.Study(private=site)
    result = hdpf.logit("y ~ x + secret", data=study).fit(epsilon=1.0, se_share=0)
    site.dummy(50), site.account(), repr(study), result.summary().as_text(), result.to_json()
    try:
        site.answer(result.query.__class__.from_dict(result.query.to_dict() | {{"ridge": "1"}}))
    except hdp.HdpError:
        pass
    print("ready", flush=True)
    sys.stdin.readline()
    from tests.custodian.people import PRIVATE
    print("ready", flush=True)
    sys.stdin.readline()
"""


def patterns(values):
    """Return what to look for: the bytes of doubles, and their digits."""
    import numpy as np

    return [np.float64(value).tobytes() for value in values] + [repr(value).encode() for value in values]


def found_in(content, values):
    return [pattern for pattern in patterns(values) if pattern in content]


def memory_of(pid):
    """Yield the contents of every part of a process's memory that can be written and is in use."""
    with open(f"/proc/{pid}/smaps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            words = line.split()
            if "-" in words[0]:
                first, last = (int(bound, 16) for bound in words[0].split("-"))
                rights = words[1]
            elif words[0] == "Rss:" and int(words[1]) and rights.startswith("rw"):
                memory.seek(first)
                yield memory.read(last - first)


def test_the_analysts_process_never_holds_a_private_cell(institution, running):
    """The same search finds them once the process has loaded the rows."""
    script = textwrap.dedent(ANALYST).format(
        url=running.url,
        token=institution.token(),
        ca=str(institution.authority.path),
        cert=tuple(map(str, institution.ann_files)),
    )
    process = forked.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = []
    with process:
        for _ in range(2):
            assert process.stdout.readline() == "ready\n"
            found.append({pattern for part in memory_of(process.pid) for pattern in found_in(part, PLANTED[:1])})
            process.stdin.write("\n")
            process.stdin.flush()
        process.stdin.close()
        process.wait(60)
    assert found[0] == set()
    assert found[1]


class Overheard(httpx.BaseTransport):
    """Notes what a site sends."""

    def __init__(self, transport, sent):
        self.transport, self.sent = transport, sent

    def handle_request(self, request):
        response = self.transport.handle_request(request)
        self.sent.append(response.read())
        return response

    def close(self):
        self.transport.close()


def test_what_a_site_sends_writes_and_logs_holds_no_private_cell(institution, running):
    sent = []
    with institution.connect(running) as site:
        site._client._client._transport = Overheard(site._client._client._transport, sent)
        site.answer(histogram("secret", epsilon="1", replicate=40_000))
        site.dummy(100)
        site.account()
        with pytest.raises(hdp.HdpError):
            site.answer(histogram("secret", epsilon="100000"))
    assert len(sent) == 4
    assert not found_in(b"".join(sent), PLANTED)
    waiting.until(lambda: b"insufficient-budget" in running.log.read_bytes(), running.log.read_text)
    log = running.log.read_bytes()
    assert not found_in(log, PLANTED)
    lines = [json.loads(line) for line in log.splitlines()]
    answered = [line for line in lines if line.get("request") == "answer" and line["kind"] == "histogram/1"]
    refused = [line for line in lines if line.get("refused") == "insufficient-budget"]
    assert {line["analyst"] for line in answered + refused} <= {"ann", "bob"}
    assert "100000" in refused[-1]["why"]
    files = list(running.ledger.parent.glob("ledger.db*"))
    assert running.ledger in files
    assert not found_in(b"".join(path.read_bytes() for path in files), PLANTED)


class Broken(Exception):
    pass


@pytest.fixture
def served(institution, tmp_path, monkeypatch):
    """Ask an application in this process, whose site breaks with private words; return the response and the log."""
    tokens = {"audience": "trial", "key": str(institution.public_key), "bound": False}
    settings = SiteSettings.from_yaml(institution.write("broken", PRIVATE, SCHEMA, tokens=tokens))
    ledger = hdp.Ledger(None, dataset="trial", epsilon=3)
    site = hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger)
    lines = []
    monkeypatch.setattr(log, "write", lambda **facts: lines.append(facts))

    def ask(error):
        def fail(*_):
            raise error

        async def post():
            transport = httpx.ASGITransport(application(site, settings), raise_app_exceptions=False)
            headers = {"authorization": f"Bearer {institution.token(certificate=None)}"}
            async with httpx.AsyncClient(transport=transport, base_url="https://site", headers=headers) as client:
                return await client.post("/v1/answer", content=histogram().to_json())

        monkeypatch.setattr(hdp.LocalSite, "_compute", fail)
        return anyio.run(post), str(lines), ledger

    return ask


def test_what_fails_inside_the_service_is_not_told(served):
    response, log, ledger = served(Broken(f"cannot convert {PLANTED[0]!r}"))
    assert (response.status_code, response.json()) == (422, {"error": "site"})
    assert repr(PLANTED[0]) not in log
    assert ledger.spent.epsilon > 0


def test_what_breaks_in_the_service_is_logged_without_its_words(served, monkeypatch):
    def fail(*_, **__):
        raise Broken(f"cannot convert {PLANTED[0]!r}")

    monkeypatch.setattr(hdp.LocalSite, "columns", fail)
    response, log, ledger = served(None)
    assert (response.status_code, response.json()) == (500, {"error": "failed"})
    assert "Broken at " in log
    assert repr(PLANTED[0]) not in log
    assert ledger.spent.epsilon == 0

"""Health of a site at a local address without a token, metrics of public facts, and the end within a stated time."""

import json
import re
import signal
import threading
from fractions import Fraction

import httpx
import pytest

import hdpstats
import hdpstats.api as hdp
from hdpstats._base.errors import LedgerError
from hdpstats.custodian import SiteSettings, ask, health, kept_head
from hdpstats.custodian.health import ENDING, STARTING, State, tell_systemd
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from tests.custodian.institution import EVERYTHING, Institution
from tests.custodian.people import PRIVATE, SCHEMA
from tests.waiting import until

PUBLIC_FACTS = {
    "hdpstats_info",
    "hdpstats_start_time_seconds",
    "hdpstats_ready",
    "hdpstats_requests_total",
    "hdpstats_connections",
    "hdpstats_certificate_not_after_seconds",
    "hdpstats_settings_read_seconds",
}
"""All that is said to a monitoring server. Whoever adds a name shows that no private row and no computation moves it:
durations, memory, time of the processor, computations under way, late answers and free space all do."""


def counted(replicate):
    axis = Axis(name="g", levels=3)
    return HistogramQuery(axes=(axis,), epsilon=Fraction(1, 8), schema_sha256=SCHEMA.sha256, replicate=replicate)


def address_in(running):
    return f"http://127.0.0.1:{re.findall(r'health at http://127.0.0.1:([0-9]+)', running.log.read_text())[-1]}"


@pytest.fixture
def address(running):
    return address_in(running)


def test_a_site_that_serves_is_alive_and_ready_and_says_its_version(address, site):
    assert httpx.get(f"{address}/live").json() == {"live": True}
    answer = httpx.get(f"{address}/ready")
    assert (answer.status_code, answer.json()) == (200, {"ready": True})
    said = httpx.get(f"{address}/version").json()
    assert said == {"version": hdpstats.__version__, "protocol": 4, "ledger": "hdpstats-ledger-6"}
    assert site.package == said["version"]
    assert httpx.get(f"{address}/v1/facts").status_code == 404
    assert httpx.post(f"{address}/ready").status_code == 501


def test_metrics_are_public_facts_alone(address, site):
    def lines():
        answer = httpx.get(f"{address}/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))

    before = lines()
    name = 'hdpstats_requests_total{request="answer",status="200"}'
    site.answer(counted(1))
    until(lambda: float(lines().get(name, 0)) == float(before.get(name, 0)) + 1, "an answer that was counted")
    assert {line.partition("{")[0] for line in lines()} == PUBLIC_FACTS
    assert "ann" not in httpx.get(f"{address}/metrics").text


def test_a_request_is_counted_when_its_response_leaves():
    """Not when its computation ends, which a slot hides."""
    state = State()
    state.count("answer", 200)
    state.count("other", None)
    said = state.metrics().decode()
    assert 'hdpstats_requests_total{request="answer",status="200"} 1.0' in said
    assert 'hdpstats_requests_total{request="other",status="none"} 1.0' in said


def test_readiness_follows_the_site_from_its_start_to_its_end(tmp_path):
    state = State()
    assert state.obstacle() == STARTING
    ledger = hdp.Ledger(tmp_path / "ledger.db", dataset="trial", epsilon=1, create=True)
    state.serve(ledger.check_usable)
    assert state.obstacle() is None
    state.end()
    assert state.obstacle() == ENDING
    assert b"hdpstats_ready 0.0" in state.metrics()


def test_a_ledger_that_is_gone_or_slow_is_in_the_way_and_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "FRESH", 0.0)
    monkeypatch.setattr(health, "PATIENCE", 0.2)
    ledger = hdp.Ledger(tmp_path / "ledger.db", dataset="trial", epsilon=1, create=True)
    state = State()
    state.serve(ledger.check_usable)
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    assert "put it back" in state.obstacle()
    (tmp_path / "elsewhere.db").rename(tmp_path / "ledger.db")
    assert state.obstacle() is None
    go_on = threading.Event()
    state.serve(go_on.wait)
    assert "check that its server runs" in state.obstacle()
    go_on.set()
    until(lambda: state.obstacle() is None, "a check that has ended")


def test_a_disk_without_room_is_in_the_way(tmp_path, monkeypatch):
    ledger = hdp.Ledger(tmp_path / "ledger.db", dataset="trial", epsilon=1, create=True)
    monkeypatch.setattr("hdpstats.ledger.store.disk_usage", lambda folder: type("Disk", (), {"total": 1, "free": 0}))
    with pytest.raises(LedgerError, match="free 17 MB there"):
        ledger.check_usable()


def test_a_head_that_was_deleted_is_in_the_way(institution, tmp_path):
    settings = SiteSettings.from_yaml(
        institution.write("headless", PRIVATE, SCHEMA, heads={"file": str(tmp_path / "kept")})
    )
    ledger = kept_head.open_account(settings)
    with pytest.raises(LedgerError, match=r"no head is kept in .*hdpstats site note"):
        kept_head.check_usable(settings, ledger)
    kept_head.note(settings)
    kept_head.check_usable(settings, ledger)


def test_who_asks_often_asks_the_ledger_once_a_second():
    state, asked = State(), []
    state.serve(lambda: asked.append(1))
    for _ in range(50):
        state.obstacle()
    assert len(asked) < 50


def test_the_command_says_what_the_site_says(institution, tmp_path):
    path = institution.write("unasked", PRIVATE, SCHEMA)
    with pytest.raises(hdp.ArgumentError, match="health is not in the settings"):
        ask(SiteSettings.from_yaml(path), "/ready")
    path = institution.write("asked", PRIVATE, SCHEMA, health={"port": 9})  # nothing listens there
    assert ask(SiteSettings.from_yaml(path), "/ready")[0] is False
    for host in ("0.0.0.0", "192.0.2.1", "hospital.example"):
        path = institution.write("open", PRIVATE, SCHEMA, health={"host": host, "port": 9443})
        with pytest.raises(hdp.ArgumentError, match=r"must be 127\.0\.0\.1 or ::1"):
            SiteSettings.from_yaml(path)


def test_systemd_is_told(tmp_path, monkeypatch):
    import socket

    place = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(place))
        monkeypatch.setenv("NOTIFY_SOCKET", str(place))
        tell_systemd("READY=1", "STATUS=running")
        assert systemd.recv(1000) == b"READY=1\nSTATUS=running"
    monkeypatch.delenv("NOTIFY_SOCKET")
    tell_systemd("STOPPING=1")


@pytest.mark.wide
@pytest.mark.parametrize(("drain", "grid", "arrives"), [(60.0, 3.0, True), (0.5, 60.0, False)])
def test_a_site_that_is_told_to_end_ends_within_the_stated_time(tmp_path, drain, grid, arrives):
    """A slot of 3 seconds is over within a drain of 60; for one of a minute nobody waits where the drain is shorter."""
    institution, outcome = Institution(tmp_path), []
    try:
        slow = {"grid": grid, "factor": 1, "requests": 10**9, "overruns": 10**9}
        entries = {"limits": {"drain": drain}, "timing": slow, "health": {"port": 0}, "analysts": {"ann": EVERYTHING}}
        running = institution.start(institution.write("ending", PRIVATE, SCHEMA, **entries))
        address = address_in(running)
        with institution.connect(running) as site:

            def asking():
                try:
                    outcome.append(site.answer(counted(1)))
                except hdp.HdpError as error:
                    outcome.append(error)

            thread = threading.Thread(target=asking)
            thread.start()
            until(lambda: len(running.account().history()) == 1, "a charge")
            running.process.send_signal(signal.SIGTERM)
            if arrives:
                until(lambda: httpx.get(f"{address}/ready").json().get("why") == ENDING, "a site that ends")
            assert running.process.wait(50) == 0
            thread.join()
        last = json.loads(running.log.read_text().splitlines()[-1])
        assert isinstance(outcome[0], hdp.HdpError) is not arrives
        assert ("unfinished" in last) is not arrives
        assert running.account().history()["released"].tolist() == [arrives]
    finally:
        institution.close()

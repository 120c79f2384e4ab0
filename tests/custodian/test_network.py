"""The network to a site: addresses that are none, and a proxy that the environment names."""

import contextlib
import select
import socket
import threading

import httpx
import pytest

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram


@pytest.mark.parametrize("url", ["https://", "https://[", "https://site:port", "https://:8443", "https://a b"])
def test_an_address_that_is_none_is_an_argument_error(institution, url):
    with pytest.raises((hdp.ArgumentError, hdp.SiteError), match=r"url|cannot be reached"):
        hdp.connect(url, token="token", ca=institution.authority.path)


class Proxy:
    """Passes bytes on for CONNECT, and notes to where."""

    def __init__(self):
        self.asked, self.listening = [], socket.create_server(("127.0.0.1", 0))
        self.url = f"127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._pass_on, args=self.listening.accept()[:1], daemon=True).start()

    def _pass_on(self, near):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += near.recv(1)
        method, place = head.split()[:2]
        self.asked.append((method, place.decode()))
        host, _, port = place.decode().rpartition(":")
        with near, socket.create_connection((host, int(port))) as far, contextlib.suppress(OSError):
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                for stream in select.select([near, far], [], [])[0]:
                    part = stream.recv(65536)
                    if not part:
                        return
                    (far if stream is near else near).sendall(part)


def test_a_proxy_of_the_environment_is_passed_through_sealed(institution, running, monkeypatch):
    proxy = Proxy()
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with institution.connect(running) as site:
        release = site.answer(histogram(replicate=50_001))
    assert proxy.asked == [(b"CONNECT", f"127.0.0.1:{running.port}")]
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with institution.connect(running) as site:
        assert site.answer(histogram(replicate=50_001)) == release
    assert len(proxy.asked) == 1
    proxy.listening.close()


def test_what_is_no_answer_is_not_quoted(institution, running, monkeypatch):
    """Errors of a site are shown in results, as the reason why it did not answer."""

    def broken(_):
        raise httpx.RemoteProtocolError("illegal status line: bytearray(b'patient 17')")

    with institution.connect(running) as site:
        monkeypatch.setattr(site._client._client._transport, "handle_request", broken)
        with pytest.raises(hdp.SiteError, match="sent what is no answer") as caught:
            site.account()
    assert "17" not in str(caught.value).replace(site.address, "")
    assert caught.value.__cause__ is None


def test_nobody_else_is_given_the_port_of_a_site_that_is_down(institution):
    settings = SiteSettings.from_yaml(institution.write("down", PRIVATE, SCHEMA))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((settings.service.listen.host, settings.service.listen.port))


def test_a_connection_of_tests_outlasts_its_tokens(institution, running, monkeypatch):
    tokens = [institution.token() for _ in range(2)]
    monkeypatch.setattr(institution, "token", lambda: tokens.pop())
    with institution.connect(running) as site:
        assert tokens != []
        site.account()
    assert tokens == []

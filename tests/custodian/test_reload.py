"""SIGHUP: the settings are read again, and what may change is changed; else those before stay in force."""

import datetime
import json
import signal
import socket
import ssl

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

import hdpstats.api as hdp
from hdpstats.custodian import SiteSettings, credentials
from hdpstats.custodian.credentials import Certificates, expiring, write_keys
from hdpstats.custodian.serving import described
from hdpstats.custodian.settings import Tls
from tests.custodian.institution import DAY, EVERYTHING, Authority
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram
from tests.waiting import until


@pytest.fixture
def written(institution, tmp_path_factory):
    return institution.write(
        tmp_path_factory.mktemp("reload").name, PRIVATE, SCHEMA, analysts={"ann": EVERYTHING | {"epsilon": 5}}
    )


def change(path, **changes):
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))


def lines(running):
    return [json.loads(line) for line in running.log.read_text().splitlines()]


def reloaded(running):
    """Send SIGHUP, and return the line of the log that says what came of it."""

    def told():
        return [line for line in lines(running) if "settings were" in str(line.get("event", line.get("failed", "")))]

    before = len(told())
    running.process.send_signal(signal.SIGHUP)
    until(lambda: len(told()) > before or running.process.poll() is not None, running.log.read_text, pause=0.02)
    assert running.process.poll() is None
    return told()[-1]


def test_analysts_change_while_a_site_runs(institution, written):
    running = institution.start(written)
    with institution.connect(running) as site:
        site.answer(histogram(epsilon="1"))
        change(written, analysts={"ann": {"mechanisms": ["count"], "epsilon": 5}, "eve": EVERYTHING | {"epsilon": 2}})
        with pytest.raises(hdp.SiteError):
            institution.connect(running, token=institution.token("eve"))
        line = reloaded(running)
        assert (line["event"], line["analysts"]) == ("settings were read again", ["ann", "eve"])
        with pytest.raises(hdp.SiteError, match="custodian"):
            site.answer(histogram(epsilon="1", replicate=2))
        with institution.connect(running, token=lambda: institution.token("eve")) as other:
            assert other.analyst == "eve"
            other.answer(histogram(epsilon="1", replicate=3))
            assert running.account().caps["eve"].total == hdp.Budget(epsilon=2)
            change(written, analysts={"ann": EVERYTHING | {"epsilon": 0.5}})  # less than she has received
            assert reloaded(running)["analysts"] == ["ann"]
            assert [line["stopped"] for line in lines(running) if "stopped" in line] == ["ann"]
            with pytest.raises(hdp.SiteError):
                other.answer(histogram(epsilon="1", replicate=4))
            with pytest.raises(hdp.QuotaExceeded):
                site.answer(histogram(epsilon="1/10", replicate=4))
            site.answer(histogram(epsilon="1"))  # received before


def test_what_is_wrong_or_read_once_leaves_the_settings_before_in_force(institution, written):
    running = institution.start(written)
    right = written.read_text()
    wrong = {
        "cannot be read": lambda: written.write_text("["),
        "colour": lambda: change(written, colour="red"),
        "persons changed, which needs a restart": lambda: change(written, persons={"n_max": 1}, analysts={}),
        "data, ledger, listen": lambda: change(
            written, data="site.log", ledger={"place": "l.db", "dataset": "t"}, listen={"host": "::1", "port": 0}
        ),
        "go-w": lambda: written.chmod(0o622),
        "belong together": lambda: change(
            written, tls=yaml.safe_load(right)["tls"] | {"key": str(institution.ann_files[1])}
        ),
        "was granted": lambda: running.account().grant("ann", epsilon=4),
        "No such file": written.unlink,
    }
    with institution.connect(running) as site:
        for number, (words, spoil) in enumerate(wrong.items()):
            spoil()
            written.parent.joinpath("site.log").chmod(0o600)
            line = reloaded(running)
            assert line["failed"].startswith("settings were not read again: "), line
            assert words in line["failed"]
            site.answer(histogram(epsilon="1/10", replicate=10 + number))
            written.write_text(right)
            written.chmod(0o600)
        change(written, analysts={"ann": EVERYTHING | {"epsilon": 4}})
        assert reloaded(running)["event"] == "settings were read again"


def shown_certificate(running):
    """Return the certificate that a site shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", running.port)) as plain, context.wrap_socket(plain) as channel:
        return channel.getpeercert(binary_form=True)


def test_certificates_and_keys_change_while_a_site_runs(institution, written, tmp_path):
    running = institution.start(written)
    before, tls = shown_certificate(running), yaml.safe_load(written.read_text())["tls"]
    other = Authority(tmp_path, name="other")
    files = other.certify("site")
    _, public = write_keys(tmp_path / "own")
    with institution.connect(running) as site:
        site.answer(histogram())
        change(
            written,
            tls={"certificate": str(files[0]), "key": str(files[1]), "clients": str(other.path)},
            tokens={"audience": "trial", "key": str(public)},
        )
        assert "event" in reloaded(running)
        assert shown_certificate(running) not in (None, before)
        with pytest.raises(hdp.SiteError):  # also on the connection that was open: its authority counts no more
            site.answer(histogram(replicate=2))
    token = institution.token(key=tmp_path / "own.key", certificate=(ann := other.certify("ann"))[0])
    with institution.connect(running, token=token, ca=other.path, cert=ann) as site:
        site.answer(histogram(replicate=3))
    change(
        written, tls=tls | {"crl": str(institution.authority.revoke(tmp_path / "crl.pem", institution.ann_files[0]))}
    )
    assert "event" in reloaded(running)
    with pytest.raises(hdp.SiteError):
        institution.connect(running)


def test_a_signal_while_a_site_is_opened_does_not_end_it(institution, written):
    first = "import os, signal; import hdpstats.custodian.serving as s; right = s.open_site\n"
    first += "def opened(settings):\n    os.kill(os.getpid(), signal.SIGHUP)\n    return right(settings)\n"
    first += "s.open_site = opened"
    running = institution.start(written, first=first)
    until(lambda: "settings were read again" in running.log.read_text(), running.log.read_text, pause=0.02)
    assert running.process.poll() is None


@pytest.fixture
def encrypted(institution, tmp_path):
    """The site's certificate, its key encrypted, and the file of the passphrase."""
    key = serialization.load_pem_private_key(institution.site_files[1].read_bytes(), password=None)
    cipher = serialization.BestAvailableEncryption(b"open sesame")
    secret, word = tmp_path / "encrypted.key", tmp_path / "word"
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher))
    word.write_text("open sesame\n")
    for each in (secret, word):
        each.chmod(0o600)
    return {
        "certificate": str(institution.site_files[0]),
        "key": str(secret),
        "clients": str(institution.authority.path),
        "passphrase": str(word),
    }


def test_the_passphrase_of_a_key_is_read_once_from_a_file(institution, written, encrypted, tmp_path):
    change(written, tls=encrypted)
    running = institution.start(written)
    with institution.connect(running) as site:
        site.answer(histogram())
    settings = SiteSettings.from_yaml(written)
    crl = institution.authority.revoke(tmp_path / "crl.pem")
    certificates = Certificates(settings.service.tls.model_copy(update={"crl": crl}))
    (tmp_path / "word").unlink()
    institution.authority.revoke(crl, institution.ann_files[0])  # the context is made anew
    certificates.context()
    assert not certificates.allow(
        credentials.x509.load_pem_x509_certificate(institution.ann_files[0].read_bytes()).public_bytes(
            serialization.Encoding.DER
        )
    )


def test_nobody_is_asked_for_a_passphrase(institution, written, encrypted, tmp_path):
    without = {name: each for name, each in encrypted.items() if name != "passphrase"}
    change(written, tls=without)
    with pytest.raises(hdp.ArgumentError, match=r"is encrypted: .*passphrase: FILE"):
        described(SiteSettings.from_yaml(written))
    change(written, tls=encrypted)
    (tmp_path / "word").write_text("close sesame\n")
    with pytest.raises(hdp.ArgumentError, match="passphrase be that of the key"):
        described(SiteSettings.from_yaml(written))
    (tmp_path / "word").write_text("open sesame\n")
    (tmp_path / "word").chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match="tls: passphrase: others"):
        described(SiteSettings.from_yaml(written))


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (datetime.timedelta(), "expires on"),
        (2 * DAY, "expired on"),
        (-2 * DAY, "is not valid before"),
        (-DAY / 2 + datetime.timedelta(), "expires on"),
    ],
)
def test_certificates_that_expire_are_named(institution, later, words):
    tls = Tls(certificate=institution.site_files[0], key=institution.site_files[1], clients=institution.authority.path)
    found = expiring(tls, now=lambda: datetime.datetime.now(datetime.UTC) + later)
    assert len(found) == 2
    assert all(words in each for each in found)
    assert "tls: certificate: the certificate of CN=site" in found[0]
    assert "tls: clients: " in found[1]


def test_certificates_that_are_good_for_long_are_not_named(institution, monkeypatch):
    monkeypatch.setattr(credentials, "SOON", DAY / 2)
    tls = Tls(certificate=institution.site_files[0], key=institution.site_files[1], clients=institution.authority.path)
    assert expiring(tls) == ()


def test_a_start_warns_of_certificates_that_expire_soon(running):
    told = [line for line in lines(running) if "expires on" in str(line.get("event"))]
    assert len(told) == 2
    assert {line["level"] for line in told} == {"warning"}

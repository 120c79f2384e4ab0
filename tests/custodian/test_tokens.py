"""Tokens of an OpenID Connect issuer, whose keys are read over HTTPS."""

import datetime
import http.server
import json
import ssl
import threading

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from hdpstats.custodian import credentials
from hdpstats.custodian.credentials import TokenVerifier, Unauthenticated
from hdpstats.custodian.settings import Identities
from tests.waiting import LONG


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Wait for an issuer as long as it takes."""
    monkeypatch.setattr(credentials, "LONGEST_READ", LONG)


class Issuer:
    """Signs tokens and publishes its keys; counts how often they are read."""

    def __init__(self):
        self.keys, self.read, self.url = {}, 0, ""

    def add(self, name, key):
        self.keys[name] = key

    def document(self):
        self.read += 1
        kinds = {ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm, rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm}
        shown = []
        for name, key in self.keys.items():
            algorithm = next(algorithm for kind, algorithm in kinds.items() if isinstance(key, kind))
            shown.append(algorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": name, "use": "sig"})
        return json.dumps({"keys": shown}).encode()

    def token(self, name, *, key=None, algorithm="ES256", **changes):
        now = datetime.datetime.now(datetime.UTC)
        claims = {
            "iss": "https://id",
            "aud": "trial",
            "email": "ann@uni",
            "email_verified": True,
            "sub": "0815",
            "iat": now,
        }
        claims |= {"exp": now + datetime.timedelta(minutes=5)} | changes
        return jwt.encode(claims, key or self.keys[name], algorithm=algorithm, headers={"kid": name})


@pytest.fixture(scope="module")
def issuer(started):
    institution = started[0]
    made = Issuer()
    made.add("one", ec.generate_private_key(ec.SECP256R1()))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(made.document())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*institution.site_files)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made.url, made.ca = f"https://127.0.0.1:{server.server_address[1]}/keys", institution.authority.path
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def identities(issuer):
    return Identities(audience="trial", issuer="https://id", jwks=issuer.url, ca=issuer.ca, claim="email", bound=False)


def test_an_issuers_token_names_the_analyst_by_the_agreed_claim(issuer, identities):
    verifier, before = TokenVerifier(identities), issuer.read
    assert verifier.verify(issuer.token("one"), None) == "ann@uni"
    assert verifier.verify(issuer.token("one"), None) == "ann@uni"
    assert issuer.read == before + 1


def test_tokens_of_an_issuer_that_are_not_believed(issuer, identities):
    verifier, other = TokenVerifier(identities), ec.generate_private_key(ec.SECP256R1())
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for token in (
        issuer.token("one", key=other),
        issuer.token("one", iss="https://elsewhere"),
        issuer.token("one", aud="other"),
        issuer.token("one", email=None),
        issuer.token("one", exp=past),
        issuer.token("one", key=b"0" * 32, algorithm="HS256"),
        jwt.encode({"email": "ann@uni"}, None, algorithm="none", headers={"kid": "one"}),
        "a.b.c",
    ):
        with pytest.raises(Unauthenticated):
            verifier.verify(token, None)


@pytest.mark.parametrize("verified", [None, False, "true", 1])
def test_an_address_that_the_issuer_did_not_verify_names_nobody(issuer, identities, verified):
    """Where anybody may enter any address at an issuer, it would name whomever he likes."""
    with pytest.raises(Unauthenticated, match="verify"):
        TokenVerifier(identities).verify(issuer.token("one", email_verified=verified), None)


def test_another_claim_needs_no_verified_address(issuer, identities):
    by_number = identities.model_copy(update={"claim": "sub"})
    assert TokenVerifier(by_number).verify(issuer.token("one", email_verified=False), None) == "0815"


def test_a_new_key_is_read_but_not_at_every_unknown_name(issuer, identities, monkeypatch):
    monkeypatch.setattr(credentials, "SOONEST", LONG)
    verifier = TokenVerifier(identities)
    assert verifier.verify(issuer.token("one"), None) == "ann@uni"
    issuer.add("two", rsa.generate_private_key(public_exponent=65537, key_size=2048))
    read = issuer.read
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            verifier.verify(issuer.token("two", algorithm="RS256"), None)
    assert issuer.read == read
    monkeypatch.setattr(credentials, "SOONEST", 0.0)
    assert verifier.verify(issuer.token("two", algorithm="RS256"), None) == "ann@uni"
    assert issuer.read == read + 1


def test_what_an_old_key_signed_is_verified_anew_once_keys_may_have_changed(issuer, identities, monkeypatch):
    """A key that the issuer took back must not be believed for as long as the tokens that it signed last."""
    verifier, token = TokenVerifier(identities), issuer.token("one")
    assert verifier.verify(token, None) == verifier.remembered(token, None) == "ann@uni"
    monkeypatch.setattr(credentials, "FRESH", -1.0)
    assert verifier.remembered(token, None) is None


def test_an_issuer_that_cannot_be_reached_lets_nobody_in(identities):
    verifier = TokenVerifier(Identities(audience="trial", issuer="https://id", jwks="https://127.0.0.1:1/keys"))
    with pytest.raises(Unauthenticated):
        verifier.verify(jwt.encode({}, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"), None)


def test_a_site_insists_on_bound_tokens_unless_told_otherwise(institution):
    verifier = TokenVerifier(Identities(audience="trial", key=institution.public_key))
    with pytest.raises(Unauthenticated, match="certificate"):
        verifier.verify(institution.token(certificate=None), None)
    with pytest.raises(Unauthenticated, match="certificate"):
        verifier.verify(institution.token(certificate=None), "print")


def test_a_token_that_was_believed_is_believed_until_it_expires_and_with_its_own_certificate_only(
    institution, monkeypatch
):
    verifier = TokenVerifier(Identities(audience="trial", key=institution.public_key, bound=False))
    now = datetime.datetime.now(datetime.UTC)
    shown = credentials.thumbprint(ssl.PEM_cert_to_DER_cert(institution.ann_files[0].read_text()))
    claims = {"sub": "ann", "aud": "trial", "iat": now - datetime.timedelta(minutes=1), "cnf": {"x5t#S256": shown}}
    end = now + datetime.timedelta(hours=1)
    token = jwt.encode(claims | {"exp": end}, institution.secret.read_bytes(), algorithm="ES256")
    assert verifier.remembered(token, shown) is None
    assert verifier.verify(token, shown) == verifier.remembered(token, shown) == "ann"
    assert verifier.remembered(token[:-1] + ("A" if token[-1] != "A" else "Q"), shown) is None
    for other in (None, shown[::-1]):
        with pytest.raises(Unauthenticated, match="certificate"):
            verifier.remembered(token, other)
    instants = [int(end.timestamp()) + credentials.LEEWAY - 1, int(end.timestamp()) + credentials.LEEWAY]
    monkeypatch.setattr(credentials.time, "time", lambda: instants[0])
    assert verifier.remembered(token, shown) == "ann"
    monkeypatch.setattr(credentials.time, "time", lambda: instants[1])
    assert verifier.remembered(token, shown) is None
    monkeypatch.undo()
    claims["exp"] = now - datetime.timedelta(seconds=credentials.LEEWAY + 1)
    with pytest.raises(Unauthenticated, match="Expired"):
        verifier.verify(jwt.encode(claims, institution.secret.read_bytes(), algorithm="ES256"), shown)


def test_a_clock_set_back_has_tokens_verified_anew(institution, monkeypatch):
    """By the clock of that moment a token may not be valid yet: what was found later does not count then."""
    verifier, token = (
        TokenVerifier(Identities(audience="trial", key=institution.public_key, bound=False)),
        institution.token(certificate=None),
    )
    assert verifier.verify(token, None) == verifier.remembered(token, None) == "ann"
    before = datetime.datetime.now(datetime.UTC).timestamp() - 3600.0
    monkeypatch.setattr(credentials.time, "time", lambda: before)
    assert verifier.remembered(token, None) is None


def test_a_token_bound_to_what_a_site_cannot_check_is_refused(institution):
    verifier = TokenVerifier(Identities(audience="trial", key=institution.public_key, bound=False))
    now = datetime.datetime.now(datetime.UTC)
    claims = {"sub": "ann", "aud": "trial", "iat": now, "exp": now + datetime.timedelta(minutes=1)}
    for bound in ({"jkt": "0" * 43}, {}, "x5t", {"x5t#S256": None}):
        token = jwt.encode(claims | {"cnf": bound}, institution.secret.read_bytes(), algorithm="ES256")
        with pytest.raises(Unauthenticated, match="certificate"):
            verifier.verify(token, "print")


def test_a_verifier_remembers_so_many_tokens_and_no_more(institution, monkeypatch):
    monkeypatch.setattr(credentials, "MOST_REMEMBERED", 3)
    verifier = TokenVerifier(Identities(audience="trial", key=institution.public_key, bound=False))
    handed_out = [institution.token(hours=1 + number, certificate=None) for number in range(5)]
    for token in handed_out:
        verifier.verify(token, None)
    assert [verifier.remembered(token, None) for token in handed_out] == [None, None, "ann", "ann", "ann"]

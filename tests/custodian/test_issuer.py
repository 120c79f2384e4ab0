"""A site that believes an OpenID Connect issuer: three processes, keys over HTTPS, keys that change."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import hdpstats.api as hdp
from hdpstats.custodian.credentials import TokenVerifier, Unauthenticated
from hdpstats.custodian.settings import Identities
from tests.custodian.issuer import Issuer
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram


@pytest.fixture
def issuer(institution, tmp_path):
    made = Issuer(tmp_path, institution)
    yield made
    made.stop()


@pytest.fixture
def believing(institution, issuer):
    """A site that believes the issuer, and reads its keys at every unknown name (how soon otherwise: `test_tokens`)."""
    settings = institution.write("believing", PRIVATE, SCHEMA, tokens=issuer.settings)
    running = institution.start(
        settings,
        first="from hdpstats.custodian import credentials\ncredentials.SOONEST, credentials.LONGEST_READ = -1.0, 600.0",
    )
    yield running
    running.stop()


def accepted(site):
    """Whether a site accepts the token that is current; any other refusal is raised."""
    try:
        site.account()
    except hdp.SiteError as refusal:
        if "does not accept the token" not in str(refusal):
            raise
        return False
    return True


def test_a_site_follows_an_issuers_keys(institution, issuer, believing):
    issuer.publish(one=ec.generate_private_key(ec.SECP256R1()))
    current = {"token": issuer.token("one")}
    with institution.connect(believing, token=lambda: current["token"]) as site:
        assert site.analyst == "ann"
        for number in range(20):
            site.answer(histogram(replicate=1 + number % 3))
        assert issuer.read() == 1

        # A new key: keys are read again, and both hold.
        two = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        issuer.publish(one=issuer.keys["one"], two=two)
        current["token"] = issuer.token("two")
        assert accepted(site)
        assert issuer.read() == 2
        current["token"] = issuer.token("one")
        site.account()
        remembered = current["token"]

        # The old key is withdrawn: once the site has read that, a token that it believed before is refused.
        issuer.publish(two=two)
        issuer.keys["three"] = ec.generate_private_key(ec.SECP256R1())
        current["token"] = issuer.token("three")
        assert not accepted(site)
        assert issuer.read() == 3
        current["token"] = remembered
        with pytest.raises(hdp.SiteError, match="does not accept the token"):
            site.account()
        current["token"] = issuer.token("two")
        site.account()

        # Nobody new gets in while the issuer is down; whom it named before does.
        issuer.stop()
        site.answer(histogram(replicate=1))
        for changes in ({"aud": "other"}, {"iss": "https://id.other"}, {"email": "eve"}, {"exp": 1}):
            current["token"] = issuer.token("two", **changes)
            with pytest.raises(hdp.SiteError):
                site.account()
    account = believing.account()
    assert account.verify()
    assert len(account.history()) == 3
    assert set(account.history()["analyst"]) == {"ann"}


def test_an_issuer_tells_where_its_keys_are_and_is_held_to_its_name(institution, issuer):
    issuer.publish(one=ec.generate_private_key(ec.SECP256R1()))
    found = {}
    for case, document in {
        "its own": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
        "another's": {"issuer": "https://id.other", "jwks_uri": f"{issuer.url}/keys"},
        "in the open": {"issuer": issuer.url, "jwks_uri": f"http{issuer.url[5:]}/keys"},
        "none": [],
    }.items():
        (issuer.folder / "discovery.json").write_text(json.dumps(document))
        verifier = TokenVerifier(
            Identities(audience="trial", issuer=issuer.url, ca=institution.authority.path, claim="email", bound=False)
        )
        try:
            found[case] = verifier.verify(issuer.token("one", iss=issuer.url), None)
        except Unauthenticated as error:
            found[case] = str(error)
    unknown = "signed by an unknown key"
    assert found == {"its own": "ann", "another's": unknown, "in the open": unknown, "none": unknown}

"""What a site refuses, in fixed words, with nothing charged."""

import base64
import datetime
import json
import ssl
from dataclasses import replace
from fractions import Fraction

import httpx
import jwt
import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.custodian import write_keys
from hdpstats.mechanisms.histogram import Axis, HistogramQuery
from hdpstats.privacy.budget import Spend
from hdpstats.records import codec, recipe
from hdpstats.sites.messages import CODES, public_to_bytes
from hdpstats.sites.remote import RemoteSite, _object, _refusal
from tests.custodian.institution import Authority
from tests.custodian.people import FORMULA, PRIVATE, PUBLIC, SCHEMA, SURVIVAL


def histogram(column="g", *, epsilon="1/100", replicate=1):
    """Return a cheap query that needs no public rows."""
    axis = Axis(name=column, levels=3) if column == "g" else Axis(name=column, cuts=(0.5,))
    return HistogramQuery(axes=(axis,), epsilon=Fraction(epsilon), schema_sha256=SCHEMA.sha256, replicate=replicate)


@pytest.fixture
def unchanged(running):
    """Fail if the ledger is another afterwards."""
    before = running.account().head
    yield
    assert running.account().head == before


@pytest.fixture
def raw(institution, running):
    """A client of ann's without hdpstats' manners."""
    context = ssl.create_default_context(cafile=institution.authority.path)
    context.load_cert_chain(*institution.ann_files)
    headers = {"authorization": f"Bearer {institution.token()}"}
    with httpx.Client(base_url=running.url, verify=context, headers=headers, timeout=30) as client:
        yield client


def code(response):
    """Return the code of a refusal, which says nothing else but a limit."""
    fields = response.json()
    assert set(fields) <= {"error", "limit"}
    assert response.status_code == CODES[fields["error"]].status
    return fields["error"]


def test_a_client_without_our_certificate_does_not_get_in(institution, running, tmp_path, unchanged):
    foreign = Authority(tmp_path, "authority").certify("ann")
    with pytest.raises(hdp.SiteError, match="cannot be reached"):
        institution.connect(running, cert=foreign)
    with pytest.raises(hdp.SiteError, match="cannot be reached"):
        institution.connect(running, cert=None)


def test_a_site_without_the_right_certificate_gets_nothing(institution, running, tmp_path, unchanged):
    with pytest.raises(hdp.SiteError, match="certificate verify failed"):
        institution.connect(running, ca=Authority(tmp_path, "other").path)
    with pytest.raises(hdp.SiteError, match="certificate verify failed"):
        institution.connect(running, ca=None)


def claims(**changes):
    now = datetime.datetime.now(datetime.UTC)
    usual = {"sub": "ann", "aud": "trial", "iat": now, "exp": now + datetime.timedelta(hours=1)}
    return {key: value for key, value in (usual | changes).items() if value is not None}


def signed(institution, **changes):
    return jwt.encode(claims(**changes), institution.secret.read_bytes(), algorithm="ES256")


def forged(institution, **header):
    """Return a token that is signed by nobody, or by everybody: with the public key as a shared secret."""
    words = [{"typ": "JWT"} | header, claims(iat=1, exp=2**33)]
    return ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in words) + "."


LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
BAD_TOKENS = {
    "no token": lambda institution, _: "abc",
    "expired": lambda institution, _: signed(institution, exp=LONG_AGO, iat=LONG_AGO),
    "not yet": lambda institution, _: signed(institution, iat=datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)),
    "for ever": lambda institution, _: signed(institution, exp=None),
    "for another site": lambda institution, _: signed(institution, aud="other"),
    "for no site": lambda institution, _: signed(institution, aud=None),
    "without a name": lambda institution, _: signed(institution, sub=None),
    "by another key": lambda institution, folder: institution.token(key=write_keys(folder / "other")[0]),
    "unsigned": lambda institution, _: forged(institution, alg="none"),
    "by the public key": lambda institution, _: forged(institution, alg="HS256") + "c2ln",
    "for another certificate": lambda institution, _: institution.token(certificate=institution.site_files[0]),
}


@pytest.mark.covering(cases=6)
@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_token_that_is_not_believed(institution, running, tmp_path, unchanged, token):
    with pytest.raises(hdp.SiteError) as caught:
        institution.connect(running, token=BAD_TOKENS[token](institution, tmp_path))
    assert caught.value.facts == {"code": "unauthenticated"}


def test_a_token_bound_to_ones_own_certificate_is_believed(institution, running):
    token = institution.token(certificate=institution.ann_files[0])
    with institution.connect(running, token=lambda: token) as site:
        assert site.analyst == "ann"


def test_an_analyst_whom_the_custodian_did_not_enter(institution, running, unchanged):
    with pytest.raises(hdp.SiteError) as caught:
        institution.connect(running, token=institution.token("eve"))
    assert caught.value.facts == {"code": "unknown-analyst"}


def bodies():
    text = histogram().to_json()
    fields = json.loads(text)
    return {
        "unknown key": json.dumps(fields | {"note": 1}, sort_keys=True, separators=(",", ":")),
        "unknown key within": text.replace('"axes":[', '"axes":[{"name":"g"},'),
        "key twice": text.replace('"delta":"0"', '"delta":"0","delta":"0"'),
        "other spelling": json.dumps(fields),
        "number for a text": text.replace('"1/100"', "0.01"),
        "truth for a number": text.replace('"replicate":1', '"replicate":true'),
        "infinity": text.replace('"replicate":1', '"replicate":1e999'),
        "not a number": text.replace('"replicate":1', '"replicate":NaN'),
        "another kind": text.replace("histogram/1", "sum/1"),
        "rounds together": text.replace("histogram/1", "rounds/1"),
        "nothing": "",
        "no object": "[]",
        "deep": "[" * 10_000,
        "many lists": "[" + "[]," * 9_000 + "[]]",
        "many numbers": f"[{'1,' * 99_000}1]",
        "no text": b"\xff\xfe",
        "long number": text.replace('"replicate":1', '"replicate":' + "9" * 10_000),
    }


@pytest.mark.covering(1)
@pytest.mark.parametrize("body", bodies())
@pytest.mark.parametrize("address", ["/v1/answer", "/v1/cost", "/v1/received"])
def test_a_body_that_is_no_query(raw, unchanged, body, address):
    assert code(raw.post(address, content=bodies()[body])) == "malformed"


@pytest.mark.parametrize("address", ["/v1/answer", "/v1/cost", "/v1/received"])
@pytest.mark.parametrize("text", ["[" * 100_000, "[" + "[]," * 60_000 + "[]]"])
def test_a_body_of_more_parts_than_are_read(raw, unchanged, text, address):
    response = raw.post(address, content=text)
    assert (response.status_code, response.json()) == (413, {"error": "too-large", "limit": codec.MOST_CONTAINERS})


class Deaf:
    """A connection to a site that says its facts, and is sent nothing more."""

    address = "https://site"

    def __init__(self, site, longest):
        facts, analyst = site.facts.to_dict(), {"analyst": "ann", "permissions": dict.fromkeys(KINDS)}
        self.said = {"facts": facts, **analyst, **({} if longest is None else {"longest": longest})}

    def ask(self, method, path, body=None):
        assert path == "/v1/facts"
        return self.said


KINDS = ("mechanisms", "models", "columns")


def wide(columns):
    """Return a query of a model of so many columns."""
    own = hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1))
    query = hdpf.logit(FORMULA, data=own).fit(epsilon=1, se_share=0, describe=False).query
    zeros, square = (0.0,) * columns, tuple(map(tuple, np.eye(columns).tolist()))
    geometry = replace(query.model.geometry, location=zeros, whitening=square)
    return replace(query, centre=(0.0, *zeros), model=replace(query.model, geometry=geometry))


@pytest.mark.parametrize(
    ("columns", "longest", "words"),
    [
        pytest.param(460, None, f"has 21.* items, and sites read {codec.MOST_ITEMS} at most", marks=pytest.mark.wide),
        (60, {"query": 9000, "public": 100}, "has 1.* bytes, and the site accepts 9000 at most .`limits: query`"),
    ],
)
def test_a_query_that_no_site_reads_is_not_sent(site, columns, longest, words):
    remote, query = RemoteSite(Deaf(site, longest)), wide(columns)
    match = rf"longest part is model\.geometry\.whitening, {words}.*: nothing was sent.* fewer columns"
    for asking in (remote.answer, remote.quote, lambda query: remote.check_permitted(query, ["x"])):
        with pytest.raises(hdp.SiteError, match=match) as caught:
            asking(query)
        assert caught.value.facts["code"] == "too-large"
    if longest:
        with pytest.raises(hdp.SiteError, match=r"149 public rows and 7 columns has .* accepts 100 at most"):
            remote.put_public(hdp.Study(private=site, public=PUBLIC).public)


def test_a_site_says_how_much_it_reads(raw, site):
    assert raw.get("/v1/facts").json()["longest"] == {"query": 200_000, "public": 2_000_000}
    assert site._longest == {"query": 200_000, "public": 2_000_000}


@pytest.mark.parametrize("size", ["1e999", "null", "[]", "9" * 5000])
def test_a_size_that_is_none_is_a_mistake_of_the_site(site, size):
    connection = Deaf(site, {"query": 1})
    connection.said = _object(json.dumps(connection.said).replace('{"query": 1}', f'{{"query": {size}}}')) or {}
    with pytest.raises(hdp.SiteError, match="response cannot be read"):
        RemoteSite(connection)


@pytest.mark.parametrize("limit", ["9" * 400, "1e999", "-1", '"many"'])
def test_a_refusal_with_a_number_that_is_none_is_told_without_it(limit):
    error = _refusal(413, _object(f'{{"error": "too-large", "limit": {limit}}}'))
    assert error.facts == {"code": "too-large"}
    assert "limit:" not in str(error)


def test_public_rows_that_are_none(raw, site, unchanged):
    table = hdp.Study(private=site, public=PUBLIC).public
    content = public_to_bytes(table)
    line, _, cells = content.partition(b"\n")
    fields = json.loads(line)
    wrong = {
        "another schema": fields | {"schema_sha256": "0" * 64},
        "another hash": fields | {"sha256": "0" * 64},
        "unknown column": fields | {"columns": [*fields["columns"][1:], "z"]},
        "many rows": fields | {"rows": 10**12},
    }
    for body in wrong.values():
        assert code(raw.put("/v1/public", content=json.dumps(body).encode() + b"\n" + cells)) in ("site", "schema")
    assert code(raw.put("/v1/public", content=content[:-1])) == "site"
    for body in (b"", b"[]", json.dumps({"columns": {}}).encode(), cells, content[1:]):
        assert code(raw.put("/v1/public", content=body)) == "malformed"
    assert raw.put("/v1/public", content=content).json() == {"sha256": table.sha256}


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1/facts/"),
        ("POST", "/v1/answer/"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/v1/answer"),
        ("POST", "/v1/facts"),
    ],
)
def test_other_addresses(raw, unchanged, method, path):
    assert code(raw.request(method, path)) == "not-found"


@pytest.mark.parametrize("query", ["", "?rows=5", "?rows=-1&seed=0", "?rows=5&seed=0&seed=1", "?rows=5&seed=0&path=x"])
def test_numbers_that_are_none(raw, unchanged, query):
    assert code(raw.get(f"/v1/dummy{query}")) == "malformed"


def test_more_rows_than_are_invented(raw, unchanged):
    assert code(raw.get("/v1/dummy?rows=10001&seed=0")) == "too-large"


def test_a_refusal_has_fixed_words(raw):
    responses = [raw.post("/v1/answer", content="{}"), raw.get("/v1/nothing")]
    responses.append(raw.get("/v1/facts", headers={"authorization": ""}))
    for response in responses:
        assert set(response.headers) == {"cache-control", "connection", "content-length", "content-type"}
        code(response)


@pytest.fixture
def bob(institution, running):
    with institution.connect(running, token=institution.token("bob")) as site:
        yield site


def test_queries_outside_of_ones_permission(bob, site, running):
    study, all_of_it = hdp.Study(private=bob, public=PUBLIC), hdp.Study(private=site, public=PUBLIC)
    before = running.account().head
    assert bob.permissions["models"] == ("regression",)
    for forbidden in (
        lambda: hdpf.hazard(SURVIVAL, data=study, intervals=4).fit(epsilon=1.0),
        lambda: hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, mechanism="output"),
        lambda: hdpf.logit("y ~ x + secret", data=study).fit(epsilon=1.0),
        lambda: bob.answer(histogram("secret")),
        lambda: bob.quote(histogram("secret")),
        lambda: hdp.importance_weights(study, "~ x", epsilon=1.0),
    ):
        with pytest.raises(hdp.SiteError) as caught:
            forbidden()
        assert caught.value.facts == {"code": "forbidden"}
    assert running.account().head == before
    hdpf.logit(FORMULA, data=study).fit(epsilon=8.0)
    assert set(running.account().history("bob")["mechanism"]) >= {"description/1", "objective/1"}
    bob.answer(histogram())
    hdpf.logit("y ~ x + secret", data=all_of_it).fit(epsilon=0.3)


def test_what_others_were_released_is_forbidden_too(bob, site):
    query = histogram("secret", replicate=77)
    site.answer(query)
    with pytest.raises(hdp.SiteError) as caught:
        bob.answer(query)
    assert caught.value.facts == {"code": "forbidden"}


def test_refusals_of_the_site_itself_keep_their_class_and_lose_their_words(site, unchanged):
    wrong_schema = HistogramQuery(axes=(Axis(name="g", levels=3),), epsilon=Fraction(1), schema_sha256="0" * 64)
    with pytest.raises(hdp.SiteError) as caught:
        site.answer(wrong_schema)
    assert caught.value.facts == {"code": "site"}
    with pytest.raises(hdp.InsufficientBudget) as caught:
        site.answer(histogram(epsilon="100000"))
    assert caught.value.facts == {"code": "insufficient-budget"}
    assert "100000" not in str(caught.value)


def test_a_cap_is_charged_once_and_never_passed(institution, small):
    with institution.connect(small, token=institution.token("bob")) as bob, institution.connect(small) as ann:
        total, share = small.account().spent.epsilon, bob.account()
        assert share.spent + share.remaining == Spend(Fraction(8, 10))
        query = histogram(epsilon="1/10", replicate=500)
        first = bob.answer(query)
        assert bob.account().spent.epsilon - share.spent.epsilon == Fraction(1, 10)
        assert small.account().spent.epsilon - total == Fraction(1, 10)
        mine = ann.account().spent.epsilon
        other = ann.answer(query)
        assert (other.sha256, bob.answer(query)) == (first.sha256, first)
        assert other.entry.head != first.entry.head  # each has a chain of his own
        assert ann.account().spent.epsilon - mine == Fraction(1, 10)
        assert small.account().spent.epsilon - total == Fraction(1, 10)
        assert bob.account().spent.epsilon - share.spent.epsilon == Fraction(1, 10)
        left = bob.account().remaining.epsilon
        with pytest.raises(hdp.InsufficientBudget):
            bob.answer(histogram(epsilon=str(left + Fraction(1, 1000)), replicate=501))
        assert bob.account().remaining.epsilon == left
        assert set(bob.account().history["analyst"]) <= {"bob"}
        assert len(bob.account().history) >= 1


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"token": 5}, "token"),
        ({"token": ""}, "token"),
        ({"token": "a\nb"}, "token"),
        ({"ca": "/nowhere"}, "ca"),
        ({"cert": ("/nowhere", "/nowhere")}, "cert"),
    ],
)
def test_what_connect_does_not_take(institution, running, options, argument):
    with pytest.raises(hdp.ArgumentError, match=argument):
        institution.connect(running, **options)


def test_connections_are_never_in_the_open():
    with pytest.raises(hdp.ArgumentError, match="https"):
        hdp.connect("http://127.0.0.1:1", token="t")


def test_a_site_that_is_not_there():
    with pytest.raises(hdp.SiteError, match="cannot be reached"):
        hdp.connect("https://127.0.0.1:1", token="t")


def test_a_recipe_that_the_site_does_not_know_is_refused_before_it_is_charged(institution, running, raw, unchanged):
    query = replace(histogram(replicate=91), recipe=recipe.CURRENT + 1)
    with institution.connect(running) as site, pytest.raises(hdp.SiteError, match=r"recipe.*nothing was charged"):
        site.answer(query)
    assert code(raw.post("/v1/answer", content=query.to_json())) == "unknown-recipe"
    first = replace(query, recipe=1)  # written by leaving it out: else one question would have two texts
    assert code(raw.post("/v1/answer", content=first.to_json())) == "unknown-recipe"


def test_what_was_received_is_shown_again_and_nothing_else(institution, running):
    query = histogram(replicate=92)
    with institution.connect(running) as site:
        before = running.account().balance
        assert site.received(query) is None
        assert running.account().balance == before
        given = site.answer(query)
        spent = running.account().balance
        assert spent.charged.epsilon > before.charged.epsilon
        assert site.received(query) == given
        assert site.received(query).entry.stored is not None
        with pytest.raises(hdp.SiteError):  # as answer refuses it
            site.received(replace(query, schema_sha256="0" * 64))
    assert running.account().balance == spent

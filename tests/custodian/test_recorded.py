"""What a site recorded is handed out again at an address where nothing is charged, whatever the asker believes."""

import anyio
import httpx
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.custodian import SiteSettings, application
from hdpstats.sites.remote import RemoteSite, _object, _refusal
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import PRIVATE, PUBLIC, SCHEMA

ONE, OTHER = "y ~ ns(x, df=2) + g", "y ~ g + ns(I(-x), df=2)"
"""One model, which the algebra of formulas takes for two."""
ASKED = {"epsilon": 1, "describe": False}


class InProcess:
    """A client of an application in this process, which may be exchanged as if the custodian started it anew."""

    address = "https://site"

    def __init__(self, institution, app):
        self.institution, self.app = institution, app

    def ask(self, method, path, body=None, *, analyst="ann"):
        async def send():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            headers = {"authorization": f"Bearer {self.institution.token(analyst, certificate=None)}"}
            async with httpx.AsyncClient(transport=transport, base_url=self.address, headers=headers) as client:
                return await client.request(method, path, content=body)

        response = anyio.run(send)
        fields = _object(response.text)
        if response.status_code != 200:
            raise _refusal(response.status_code, fields)
        return fields


@pytest.fixture
def serve(institution, tmp_path):
    """Return a function that makes the application of a version of the data, and its ledger."""
    tokens = {"audience": "trial", "key": str(institution.public_key), "bound": False}
    analysts = {"ann": EVERYTHING, "bob": EVERYTHING}
    settings = SiteSettings.from_yaml(institution.write("recorded", PRIVATE, SCHEMA, tokens=tokens, analysts=analysts))
    settings._file = tmp_path / "site.yaml"

    def made(version=1):
        ledger = hdp.Ledger(tmp_path / "ledger.db", dataset="trial", epsilon=50, version=version)
        return application(hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=ledger), settings), ledger

    return made


@pytest.mark.parametrize("anew", [False, True], ids=["connection kept", "connected anew"])
def test_a_corrected_data_set_has_no_recorded_release_and_charges_none(institution, serve, anew):
    app, ledger = serve()
    client = InProcess(institution, app)
    study = hdp.Study(private=RemoteSite(client), public=PUBLIC)
    hdpf.logit(ONE, data=study).fit(**ASKED)
    client.app, ledger = serve(version=2)
    if anew:
        study = hdp.Study(private=RemoteSite(client), public=PUBLIC)
    one, other = (hdpf.logit(formula, data=study) for formula in (ONE, OTHER))
    for model in (one, other):
        with pytest.raises(hdp.ArgumentError, match="no release of a model"):
            model.fit(**ASKED, reuse=True)
    assert len(ledger.history()) == 1
    second = other.fit(**ASKED)
    assert ledger.history()["version"].tolist() == [1, 2]
    assert one.fit(**ASKED, reuse=True).release == second.release
    with pytest.raises(hdp.ArgumentError, match="reuse=True"):
        one.fit(**ASKED)
    assert len(ledger.history()) == 2


def test_what_is_recorded_is_shown_to_whom_it_was_charged_and_to_nobody_else(institution, serve):
    app, ledger = serve()
    client = InProcess(institution, app)
    site = RemoteSite(client)
    query = hdpf.logit(ONE, data=hdp.Study(private=site, public=PUBLIC)).fit(**ASKED).query
    unknown = {"release": None, "entry": None, "charged": False}
    assert client.ask("POST", "/v1/recorded", query.to_json(), analyst="bob") == unknown
    own = client.ask("POST", "/v1/recorded", query.to_json())
    assert own == client.ask("POST", "/v1/answer", query.to_json()) | {"charged": True}
    assert len(ledger.history()) == 1


def test_a_charge_whose_computation_was_interrupted_is_shown_as_such(institution, serve, monkeypatch):
    app, ledger = serve()
    client = InProcess(institution, app)
    study = hdp.Study(private=RemoteSite(client), public=PUBLIC)
    one, other = (hdpf.logit(formula, data=study) for formula in (ONE, OTHER))
    with monkeypatch.context() as patched:
        patched.setattr(hdp.LocalSite, "_compute", lambda *_: 1 / 0)
        with pytest.raises(hdp.SiteError):
            one.fit(**ASKED)
    with monkeypatch.context() as patched:
        patched.setattr("hdpstats.models.model.recorded_fit", lambda *_, **__: None)
        other.fit(**ASKED)
    one.fit(**ASKED)
    assert ledger.history()["released"].tolist() == [True, True]

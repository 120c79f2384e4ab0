"""Nothing that one client sends holds the answers to another one up: what is read is little work.

How long it takes is measured by `tests/statistical/test_beside_another_client.py`.
"""

import gc
import json
import ssl

import httpx
import numpy as np
import pandas as pd
import pytest

from hdpstats._base.errors import SiteError
from hdpstats.custodian import SiteSettings, serving
from hdpstats.custodian.app import MOST_DUMMY_CELLS, read_query
from hdpstats.custodian.settings import Limits
from hdpstats.records import codec
from hdpstats.schema.schema import Schema
from hdpstats.sites.messages import RequestRefused
from tests.custodian.hard import requests, worst
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import SCHEMA, people
from tests.custodian.test_refusals import histogram
from tests.waiting import LONG


def test_parts_of_json_are_counted_before_it_is_read(monkeypatch):
    read = []
    monkeypatch.setattr(json, "loads", lambda text, **_: read.append(text))
    lists, items = codec.MOST_CONTAINERS, codec.MOST_ITEMS
    for text in ("[" * (lists + 1), "{" * (lists + 1), "[" * lists + "{", "[" + "1," * (items + 1)):
        with pytest.raises(RequestRefused, match="too-large") as caught:
            read_query(text.encode())
        assert caught.value.numbers == {"limit": items if "," in text else lists}
        with pytest.raises(ValueError, match="too many"):
            codec.bounded(text)
    assert read == []
    assert codec.bounded("[" * lists + "," * items)


def test_what_there_is_before_a_site_listens_is_not_gone_over_again(institution, monkeypatch):
    """Python's collector goes over all objects that are not frozen, several times while many lists are read."""
    frozen = []
    settings = SiteSettings.from_yaml(institution.write("frozen", people(50), SCHEMA))
    monkeypatch.setattr(serving, "protect_process", lambda: None)
    monkeypatch.setattr(serving.asyncio, "run", lambda task: (task.close(), frozen.append(gc.get_freeze_count())))
    try:
        serving.serve(settings)
    finally:
        gc.unfreeze()
    assert frozen[0] > 10_000


@pytest.mark.parametrize("what", ["lists", "lists in a query", "lists in lists", "objects", "whole numbers"])
def test_a_query_of_many_parts_is_never_parsed(what, monkeypatch):
    monkeypatch.setattr(codec, "loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(RequestRefused, match="too-large"):
        read_query(worst(Limits().query)[what])


def test_the_hardest_requests_to_every_address_are_answered_or_refused(institution):
    """With the limits that there are by default; none fails inside, and the site answers afterwards."""
    running = institution.start(institution.write("hard", people(397), SCHEMA, analysts={"ann": EVERYTHING}))
    context = ssl.create_default_context(cafile=institution.authority.path)
    context.load_cert_chain(*institution.ann_files)
    headers, found = {"authorization": f"Bearer {institution.token()}"}, set()
    for method, path, body in requests():
        with httpx.Client(base_url=running.url, verify=context, headers=headers, timeout=LONG) as client:
            try:
                found.add((path.partition("?")[0], client.request(method, path, content=body).status_code))
            except httpx.TransportError:  # a refusal may come, and the connection end, before the body has been sent
                assert len(body) > Limits().query
    assert {status for _, status in found} <= {200, 400, 404, 413, 422}
    served = {path for path, status in found if status == 200}
    assert served == {f"/v1/{name}" for name in ("facts", "dummy", "public", "cost", "answer", "ledger")}
    with institution.connect(running) as site:
        assert site.answer(histogram(replicate=2)).entry is not None
    running.stop()


@pytest.mark.wide
def test_more_invented_cells_than_are_written_quickly_are_refused(institution):
    """Of a table of many columns there are fewer rows."""
    columns = {f"x{number}": SCHEMA["x"] for number in range(199)}
    rows = pd.DataFrame(np.full((50, len(columns)), 0.5), columns=list(columns))
    running = institution.start(institution.write("wide", rows, Schema(**columns)))
    with institution.connect(running) as site:
        most = MOST_DUMMY_CELLS // 200
        assert site.dummy(most).shape == (most, 199)
        with pytest.raises(SiteError) as caught:
            site.dummy(most + 1)
    assert caught.value.facts == {"code": "too-large", "limit": most}
    running.stop()

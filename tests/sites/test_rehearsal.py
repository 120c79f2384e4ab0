"""A computation rehearsed on invented rows, and releases that were received before."""

from fractions import Fraction

import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.rehearsal import full_length
from hdpstats.mechanisms.histogram.site import PreparedHistogram
from tests.custodian.people import FORMULA, PRIVATE, PUBLIC, SCHEMA, SURVIVAL
from tests.custodian.test_refusals import histogram


@pytest.fixture
def site():
    return hdp.LocalSite(PRIVATE, schema=SCHEMA, ledger=hdp.Ledger(None, dataset="trial", epsilon=30, delta=1e-3))


def test_a_rehearsal_works_on_invented_rows_only_at_full_length(site, monkeypatch):
    met = []
    compute = PreparedHistogram.compute

    def noted(self, table):
        met.append((table.rows, full_length(), table.codes["g"].tolist()))
        return compute(self, table)

    monkeypatch.setattr(PreparedHistogram, "compute", noted)
    head = site.ledger.head
    run = site.rehearsal(histogram(), rows=17)
    assert met == []
    assert run() is None
    ((rows, full, codes),) = met
    assert (rows, full) == (17, True)
    assert codes != site._table.admit(["g"]).codes["g"].tolist()[:17]
    assert site.ledger.head == head
    assert not full_length()


def test_a_rehearsal_that_fails_says_nothing_of_its_rows(site, monkeypatch):
    def fail(self, table):
        raise ValueError(str(table.codes["g"][0]))

    monkeypatch.setattr(PreparedHistogram, "compute", fail)
    with pytest.raises(hdp.SiteError, match="nothing was charged") as caught:
        site.rehearsal(histogram(), rows=5)()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_fits_are_rehearsed(site):
    study = hdp.Study(private=site, public=PUBLIC)
    queries = [
        hdpf.logit(FORMULA, data=study).fit(epsilon=1.0).query,
        hdpf.hazard(SURVIVAL, data=study, intervals=6).fit(epsilon=1.0).query,
        hdpf.hazard(SURVIVAL, data=study, intervals=6)
        .fit(epsilon=1.0, delta=1e-5, mechanism="clipped_newton")
        .query.rounds[0],
    ]
    spent = site.ledger.spent
    for query in queries:
        site.rehearsal(query, rows=64)()
    assert site.ledger.spent == spent


def test_what_was_received_before(site):
    assert site.received(histogram(), analyst="ann") is None
    release = site.answer(histogram(), analyst="ann")
    assert site.received(histogram(), analyst="ann").to_json() == release.to_json()


def test_a_pace_holds_the_computation_between_charge_and_record(site):
    order = []

    class Pace:
        def __enter__(self):
            order.append(site.ledger.spent.epsilon)

        def __exit__(self, *_):
            order.append(bool(site.ledger.history()["released"].any()))

    site.answer(histogram(epsilon="1/10"), pace=Pace)
    assert order == [Fraction(1, 10), False]
    assert np.all(site.ledger.history()["released"])

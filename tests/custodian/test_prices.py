"""What operations take on a machine, and questions that would take too long."""

import itertools

import pytest

import hdpstats.api as hdp
from hdpstats._base.work import KINDS, Operations
from hdpstats.custodian import Overruns, prices
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.prices import MARGIN, OVERHEAD, measured, predicted
from hdpstats.custodian.settings import Timing
from hdpstats.custodian.timing import Slots
from hdpstats.mechanisms.hybrid_weights.curve_site import PreparedCurve
from hdpstats.sites.messages import RequestRefused
from tests.questions import curve, site_of


def test_every_kind_of_operation_has_a_price_that_is_measured_once(monkeypatch):
    found = measured()
    monkeypatch.setattr(prices, "_seconds", lambda task: pytest.fail("measured again"))
    assert measured() is found
    assert set(found) == set(KINDS)
    assert min(found.values()) > 0.0
    assert max(found.values()) == found["draws"]


def test_the_shortest_of_several_times_counts_and_a_burst_of_other_work_does_not(monkeypatch):
    """All kinds are measured once before any is measured again: a burst of work that meets one round meets no price."""
    calls = itertools.count()
    monkeypatch.setattr(prices, "_seconds", lambda task: [5.0, 1.0, 9.0][next(calls) // len(KINDS)])
    found = measured.__wrapped__()
    assert next(calls) == len(KINDS) * prices.REPEATS == len(KINDS) * 3
    monkeypatch.setattr(prices, "_seconds", lambda task: 1.0)
    assert found == measured.__wrapped__()


def test_a_prediction_is_what_operations_cost_and_a_margin():
    assert predicted(Operations(), measured()) == OVERHEAD
    work = Operations(steps=3.0, sorts=2.0)
    assert predicted(work, {"steps": 1.0, "sorts": 0.5}) == OVERHEAD + MARGIN * 4.0


def test_a_question_that_takes_too_long_is_refused_without_computing_anything(tmp_path, monkeypatch):
    """A curve of 420 columns with a small ridge, whose rehearsal would have taken minutes."""
    site = site_of(2000)
    monkeypatch.setattr(PreparedCurve, "compute", lambda *_: pytest.fail("something is computed"))
    overruns = Overruns(tmp_path / "overruns.db")
    slots = Slots(site, Timing(longest=20.0), prices=measured(), overruns=overruns, clock=Clock())
    query = curve("many * (x0 + x1 + x2 + x3 + x4 + x5)", 420, ridge="1/1000")
    for ask in (slots.seconds, slots.answer):
        with pytest.raises(RequestRefused) as caught:
            ask(query, analyst="ann")
        assert caught.value.code == "too-long"
        assert caught.value.numbers["seconds"] > caught.value.numbers["limit"] == 20.0
    assert site.ledger.spent.epsilon == 0
    assert isinstance(site, hdp.LocalSite)

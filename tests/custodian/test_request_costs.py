"""What the queries of a request cost in all, over every exchange in which it came."""

import dataclasses
import json

import pytest

import hdpstats.api as hdp
from hdpstats.exchange import questions
from hdpstats.sites import LocalSite
from tests.custodian.asked_by_files import SIMPLE, Place
from tests.custodian.institution import EVERYTHING


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def asking(monkeypatch, **spending):
    """Let the code behind a description ask otherwise, as the files of other sites can make that of a fit."""
    other = dataclasses.replace(questions.KINDS["describe"], ask=lambda opened, _: opened.release(**spending))
    monkeypatch.setattr(questions, "KINDS", {"describe": other})


def test_further_queries_of_a_request_that_comes_again_cost_no_more_than_it_says(place, monkeypatch):
    place.ask(*SIMPLE)  # for 0.5
    asking(monkeypatch, epsilon=0.3)
    place.answer()
    asking(monkeypatch, epsilon=0.2)
    place.answer()
    for epsilon in (0.1, 0.25, 0.5):
        asking(monkeypatch, epsilon=epsilon)
        with pytest.raises(hdp.MechanismError, match="what it was charged before"):
            place.answer()
    assert place.spent == 0.5
    lines = [json.loads(line) for line in place.settings.request_costs.read_text().splitlines()]
    assert [line["epsilon"] for line in lines] == ["3/10", "1/5"]
    assert place.settings.request_costs.stat().st_mode & 0o777 == 0o600
    asking(monkeypatch, epsilon=0.3)  # which was released, and is had again
    place.answer()
    assert place.spent == 0.5


def test_another_request_has_its_own_costs(place):
    kind, what, options = SIMPLE
    for replicate in (1, 2):
        place.ask(kind, what, options | {"replicate": replicate})
        place.answer()
        place.release.unlink()  # that of another request is not replaced
    assert place.spent == 1


def test_what_is_refused_before_a_charge_is_taken_back(tmp_path, monkeypatch):
    """An analyst with nothing left lets no file grow that every answer reads."""
    place = Place(tmp_path, analysts={"ann": EVERYTHING | {"epsilon": 0.75}})
    kind, what, options = SIMPLE
    place.ask(kind, what, options)
    place.answer()
    place.release.unlink()
    before = place.settings.request_costs.read_text()
    for replicate in (2, 3):
        place.ask(kind, what, options | {"replicate": replicate})
        with pytest.raises(hdp.InsufficientBudget):
            place.answer()
    assert place.settings.request_costs.read_text() == before
    place.ask(kind, what, {"epsilon": 0.25})
    with monkeypatch.context() as patched:
        patched.setattr(LocalSite, "_compute", lambda *_: 1 / 0)
        with pytest.raises(Exception, match=r"."):  # after its charge
            place.answer()
    assert place.spent == 0.75
    assert len(place.settings.request_costs.read_text().splitlines()) == 2


@pytest.mark.parametrize("content", ["{", "[]\n", '{"request": 1}\n', "[" * 100_000, "\xff"])
def test_costs_that_cannot_be_read_stop_before_a_charge(place, content):
    place.ask(*SIMPLE)
    place.settings.request_costs.write_text(content, encoding="latin-1")
    with pytest.raises(hdp.ArgumentError, match="cannot be read"):
        place.answer()
    assert place.spent == 0


def test_costs_that_others_may_write_are_not_believed(place):
    place.ask(*SIMPLE)
    place.settings.request_costs.touch()
    place.settings.request_costs.chmod(0o666)
    with pytest.raises(hdp.ArgumentError, match="may write"):
        place.answer()
    assert place.spent == 0

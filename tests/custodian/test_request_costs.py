"""What the queries of a request cost in all, over every exchange in which it came."""

import dataclasses
import json
import os
from fractions import Fraction

import pytest

import hdpstats.api as hdp
from hdpstats.custodian import answering, files, open_site, preview, previewing, request_costs
from hdpstats.custodian.approvals import NotApproved
from hdpstats.custodian.files import append_line, read_lines
from hdpstats.custodian.timing import Slots
from hdpstats.exchange import RequestFile, questions
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Spend
from hdpstats.sites import LocalSite
from tests.custodian.asked_by_files import PRICES, QUESTIONS, SIMPLE, Place, Seen, killed
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


def lines_of(place):
    return place.settings.request_costs.read_text().splitlines()


def copies(place, asked, number):
    """Answer copies of a request, each of them twice; return how many lines each added."""
    added = []
    for each in range(number):
        before = len(lines_of(place)) if place.settings.request_costs.exists() else 0
        place.request.unlink()
        dataclasses.replace(asked, version=f"0.0.{each}").write(place.request)
        place.answer()
        place.answer()
        added.append(len(lines_of(place)) - before)
    return added


def test_copies_that_ask_the_same_add_one_line_each_however_many_queries_they_make(place):
    asked = place.ask(*QUESTIONS["logit"])
    place.answer()
    assert len(lines_of(place)) == 2
    assert (copies(place, asked, 3), place.spent) == ([1, 1, 1], 1)


def test_each_query_that_was_released_over_a_network_is_written_down_once(place):
    asked = place.ask(*QUESTIONS["logit"])
    asked.question.ask(asked.study(Seen(open_site(place.settings))))
    assert (place.spent, place.settings.request_costs.exists()) == (1, False)
    assert (copies(place, asked, 3), place.spent) == ([2, 1, 1], 1)
    assert {json.loads(line)["free"] for line in lines_of(place)} == {"true"}


def test_lines_of_other_requests_are_not_parsed(place, monkeypatch):
    place.ask("describe", ["x"], {"epsilon": 0.25})
    found = previewing.looked_at(place.settings, place.request)
    found.costs.wait(found.met, Spend(Fraction(1, 4)))
    place.ask(*SIMPLE)
    place.answer()
    line = json.loads(lines_of(place)[1])
    others = [{**line, "request": f"{number:064x}", "query": f"{number:064x}"} for number in range(2000)]
    with place.settings.request_costs.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in others)
    parsed, cost = [], request_costs._cost
    monkeypatch.setattr(request_costs, "_cost", lambda fields: parsed.append(fields["request"]) or cost(fields))
    ledger = place.ledger
    costs = request_costs.RequestCosts(
        place.settings, ledger, line["request"], "ann", most=hdp.Budget(1), terms=open_site(place.settings).terms
    )
    assert set(parsed) == {line["request"]}
    assert not costs.only_of_other_data


def test_a_line_that_is_none_is_noticed_among_others(place):
    place.ask(*SIMPLE)
    place.answer()
    whole = place.settings.request_costs.read_text()
    for damaged in (whole.replace("}", "", 1), whole.replace('"request"', '"reqvest"'), "\0" * 100 + "\n"):
        place.settings.request_costs.write_text(damaged + whole)
        with pytest.raises(hdp.LedgerError, match="cannot be read"):
            place.answer()


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


def test_what_is_refused_after_another_was_charged_for_it_meanwhile_is_taken_back(tmp_path, monkeypatch):
    """It was charged to nobody else than the other one."""
    both = {name: EVERYTHING | {"epsilon": 5} for name in ("ann", "bob")}
    place = Place(tmp_path, requests={"approval": "required"}, analysts=both)
    place.ask(*SIMPLE)
    answer = Slots.answer

    def late(self, query, **options):
        if not place.spent:
            killed(lambda: self._site.answer(query, analyst="bob"))
        return answer(self, query, **options)

    monkeypatch.setattr(Slots, "answer", late)
    with pytest.raises(NotApproved):
        place.answer(analyst="ann", by="Dr Bos")
    assert (place.spent, lines_of(place)) == (0.5, [])


def test_a_query_that_waits_costs_its_request_nothing_and_is_no_old_one(place):
    place.ask(*SIMPLE)
    found = previewing.looked_at(place.settings, place.request)
    for _ in range(2):
        found.costs.wait(found.met, Spend(Fraction(1, 2)))
    assert [json.loads(line)["waits"] for line in lines_of(place)] == ["true"]
    place.file.write_text(place.file.read_text().replace("dataset: trial", "dataset: trial\n  version: 2"))
    assert "which the settings do not require" in preview(place.settings, place.request)
    exchange = answering.Exchange(place.settings, prices=PRICES)
    exchange.answer(RequestFile.read(place.request), analyst="ann", carried=True)
    place.file.write_text(place.file.read_text().replace("\n  version: 2", ""))
    place.answer()
    assert (place.spent, [json.loads(line).get("waits", False) for line in lines_of(place)]) == (
        1,
        ["true", False, False],
    )


@pytest.mark.parametrize("content", ["{\n", "[]\n", '{"request": 1}\n', "[" * 100_000, "\xff"])
def test_costs_that_cannot_be_read_stop_before_a_charge(place, content):
    place.ask(*SIMPLE)
    place.settings.request_costs.write_text(content, encoding="latin-1")
    with pytest.raises(hdp.LedgerError, match="cannot be read"):
        place.answer()
    assert place.spent == 0


CUTS = [lambda line, at: line[:at], lambda line, at: line[:at] + b"\0" * (len(line) - at)]


@pytest.mark.parametrize("cut", CUTS, ids=["short", "zeros"])
def test_a_power_cut_while_a_line_is_written_stops_nobody(place, cut):
    """An approval that was not written to its end approves nothing; a cost that was not is of no charge."""
    kind, what, options = SIMPLE
    place.ask(kind, what, options)
    place.answer(by="Dr Bos")
    place.release.unlink()
    for path in (place.settings.approvals, place.settings.request_costs):
        whole = path.read_bytes()
        line = whole.replace(b"Bos", b"Cox")
        for at in range(len(line)):
            path.write_bytes(whole + cut(line, at))
            if cut(line, at) != line[:-1]:
                assert read_lines(path) == whole.decode().splitlines()
            append_line(path, "{}\n")
            assert path.read_bytes() in (whole + b"{}\n", whole + line + b"{}\n")
        path.write_bytes(whole + cut(line, 100))
    place.ask(kind, what, options | {"replicate": 2})
    place.answer(by="Dr Dee")
    assert place.spent == 1
    for path in (place.settings.approvals, place.settings.request_costs):
        assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    assert "Cox" not in place.settings.approvals.read_text()


@pytest.mark.parametrize("lines", [2, 3])
def test_zeros_over_whole_lines_are_no_torn_end(place, lines):
    """What was charged there is not known any more."""
    kind, what, options = SIMPLE
    for replicate in range(1, 5):
        place.ask(kind, what, options | {"replicate": replicate})
        place.answer(by="Dr Bos")
    place.release.unlink()
    place.ask(kind, what, options | {"replicate": 9})
    for path in (place.settings.approvals, place.settings.request_costs):
        whole = path.read_bytes()
        kept = b"".join(whole.splitlines(keepends=True)[:-lines])
        path.write_bytes(kept + b"\0" * (len(whole) - len(kept)))
        with pytest.raises(hdp.LedgerError, match="cannot be read"):
            place.answer(by="Dr Bos")
        path.write_bytes(whole)
    assert place.spent == 2


def test_a_cost_is_on_the_disk_as_a_whole_before_its_charge(place, monkeypatch):
    """Which is why a line that was not written to its end is of no charge."""
    place.ask(*SIMPLE)
    seen, flush, charge = [], os.fsync, Ledger.charge

    def flushed(number):
        flush(number)
        seen.append(os.fstat(number).st_ino)

    def charged(*given, **options):
        seen.append("charge")
        return charge(*given, **options)

    monkeypatch.setattr(files.os, "fsync", flushed)
    monkeypatch.setattr(Ledger, "charge", charged)
    place.answer()
    costs = place.settings.request_costs
    between = seen[seen.index(costs.stat().st_ino) : seen.index("charge")]
    assert costs.parent.stat().st_ino in between
    place.release.unlink()
    place.ask(SIMPLE[0], SIMPLE[1], SIMPLE[2] | {"replicate": 2})

    def cut_off(number):
        if os.fstat(number).st_ino == costs.stat().st_ino:
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", cut_off)
    with pytest.raises(KeyboardInterrupt):
        place.answer()
    assert place.spent == 0.5


def test_costs_that_others_may_write_are_not_believed(place):
    place.ask(*SIMPLE)
    place.settings.request_costs.touch()
    place.settings.request_costs.chmod(0o666)
    with pytest.raises(hdp.LedgerError, match="may write"):
        place.answer()
    assert place.spent == 0

"""A qualification passes here, names what an environment changed, and is written as a report."""

import json

import numpy as np
import pytest

import hdpstats.api as hdp
from hdpstats import cli
from hdpstats._base.errors import ArgumentError
from hdpstats.audit import qualification
from hdpstats.sites import LocalSite

CHEAP = ("R1", "R2", "R5", "R6")


@pytest.fixture
def cheap(monkeypatch):
    """Leave out what draws and replays: `tests.privacy.test_guarantees` has it."""
    few = [check for check in qualification.checks() if check[0] in CHEAP]
    monkeypatch.setattr(qualification, "checks", lambda: iter(few))


def failed(name):
    """Return the outcome of one check."""
    (check,) = (each for each in qualification.checks() if each[1].startswith(name))
    return qualification._outcome(*check)


def test_every_requirement_has_checks_and_all_are_named_once():
    checks = list(qualification.checks())
    assert {number for number, _, _ in checks} == set(qualification.REQUIREMENTS)
    assert len({name for _, name, _ in checks}) == len(checks) >= 20


def test_it_passes_here_and_is_a_page(cheap, tmp_path):
    found = hdp.qualify(tmp_path / "report.html")
    assert found.passed, str(found)
    assert found.failed == ()
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in (*qualification.REQUIREMENTS.values(), "NIST: Longley", "SHA-256", "reviewed by", "there is no seed"):
        assert words in text
    assert text.count("NOT MET") == 2  # the two that this test leaves out
    found.write(tmp_path / "report.json")
    stored = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert stored["passed"] is True
    assert len(stored["outcomes"]) == len(found.to_frame()) == len(found.outcomes)
    assert str(found).endswith(f"{len(found.outcomes)} of {len(found.outcomes)} checks passed")


def test_a_number_that_the_environment_changes_is_named(monkeypatch):
    reference = json.loads(json.dumps(qualification._reference()))
    reference["r"][0]["coefficients"][1] *= 1 + 1e-6
    reference["inputs"]["histogram"][3] += 1
    monkeypatch.setattr(qualification, "_reference", lambda: reference)
    outcome = failed("R: logit, event3 ~ age + size + grade3")
    assert not outcome.passed
    assert outcome.found.startswith("age is 0.000567")
    assert not failed("Sums of invented people: histogram").passed
    assert failed("NIST: Norris").passed


def test_functions_and_doubles_that_are_not_as_required_fail(monkeypatch):
    monkeypatch.setattr(np, "exp", lambda x, right=np.exp: right(x) * (1 + 1e-12))
    assert "off by a relative 1.0" in failed("Elementary functions").found


def test_a_source_of_entropy_that_repeats_fails(monkeypatch):
    monkeypatch.setattr(qualification, "bits", lambda count: (1 << count // 2) - 1)
    assert "repeats itself" in failed("Entropy").found


def test_a_ledger_that_forgets_fails(monkeypatch):
    monkeypatch.setattr(LocalSite, "answer", lambda self, query: 1 / 0)
    outcome = failed("One answer for one charge")
    assert outcome.found.startswith("the check could not run: ")


def test_the_command_says_that_it_failed(monkeypatch, capsys):
    def wrong():
        raise qualification._NotAsRequiredError("1 is 2")

    monkeypatch.setattr(qualification, "checks", lambda: iter([("R6", "Numbers <&>", wrong)]))
    assert cli.main(["qualify"]) == 1
    said = capsys.readouterr()
    assert "FAILED  R6  Numbers <&>: 1 is 2" in said.out
    assert "1 checks failed" in said.err
    page = hdp.qualify()._repr_html_()
    assert "Numbers &lt;&amp;&gt;" in page
    assert "1 of 1 checks failed" in page


@pytest.mark.parametrize("name", ["report.pdf", "report", "missing/report.html"])
def test_a_report_that_cannot_be_written_is_refused(monkeypatch, tmp_path, name):
    monkeypatch.setattr(qualification, "checks", lambda: iter(()))
    with pytest.raises(ArgumentError, match="path"):
        hdp.qualify(tmp_path / name)

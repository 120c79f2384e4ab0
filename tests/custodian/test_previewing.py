"""The dry run: what a custodian reads is all that a request asks and costs, whatever the analyst writes into it."""

import contextlib
import json
import os
import sys
import tracemalloc

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats import __version__
from hdpstats._base.work import Operations
from hdpstats.cli import main
from hdpstats.custodian import overview, preview
from hdpstats.custodian.analysis_time import AnalysisTime
from hdpstats.custodian.answering import AnsweringSite
from hdpstats.custodian.request_costs import CARRIED_AGAIN
from hdpstats.exchange import RequestFile, files
from hdpstats.exchange.questions import Question
from hdpstats.ledger import Ledger
from hdpstats.records import codec
from hdpstats.sites import LocalSite
from tests import forked
from tests.custodian.asked_by_files import PRICES, QUESTIONS, SIMPLE, STUDY, Place, in_vain, with_entries
from tests.custodian.institution import EVERYTHING, PATIENT
from tests.custodian.people import PRIVATE, PUBLIC, SCHEMA


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def altered(place, change):
    """Change the fields of the request file, and return what its custodian reads."""
    fields = json.loads(place.request.read_text())
    change(fields)
    place.request.write_text(codec.dumps(fields))
    return preview(place.settings, place.request)


FORGED = "\napproved by Dr Bos at 2026-01-01T00:00:00Z"
HOSTILE = (FORGED, "\x1b[2J\x1b[H", "\u202e", "\ud800", "\r", "\u2028", "\x9b2J")


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_request_forges_a_line_or_moves_the_cursor(place, text):
    place.ask(*SIMPLE)
    plain = preview(place.settings, place.request).splitlines()
    for change in (
        lambda fields: fields["question"].update(what=["x", f"g{text}"]),
        lambda fields: fields["question"]["options"].update(by=f"y{text}"),
        lambda fields: fields["question"].update(kind="logit", what=f"y ~ x{text}", options={}),
    ):
        place.ask(*SIMPLE)
        try:
            words = altered(place, change)
        except hdp.HdpError as error:
            words = str(error)
        else:
            assert len(words.splitlines()) <= len(plain) + 2
            assert not any(line.startswith("approved") for line in words.splitlines())
            assert words.replace("\n", "").isprintable()
    for version in (f"{__version__}{text}", text, ""):
        place.ask(*SIMPLE)
        with pytest.raises(hdp.ArgumentError, match="hdpstats must be a version"):
            altered(place, lambda fields, version=version: fields.update(hdpstats=version))


def test_errors_on_the_console_are_printable(place, capsys):
    place.ask(*SIMPLE)
    fields = json.loads(place.request.read_text())
    fields["question"]["options"]["\x1b[2J\u202e"] = 1
    place.request.write_text(codec.dumps(fields))
    assert main(["site", "answer", str(place.file), str(place.request), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert "\\x1b[2J\\u202e is not an argument" in told
    assert told.strip().isprintable()


def test_no_option_passes_for_another_one(place):
    place.ask(*SIMPLE)
    words = altered(place, lambda fields: fields["question"]["options"].update(by="y; epsilon 0.001"))
    assert "by 'y; epsilon 0.001'" in words
    assert "may spend epsilon 0.5\n" in words


def test_all_of_the_cost_is_shown(place):
    """Its delta too, wherever it is asked, and the sum of an effect and its propensity model."""
    place.ask("describe", ["x", "g"], {"epsilon": 0.5, "delta": 1e-6})
    assert "in all it may cost epsilon = 0.5, delta = 1e-06" in preview(place.settings, place.request)
    place.ask(*QUESTIONS["effect"])
    assert "in all it may cost epsilon = 2, delta = 0" in preview(place.settings, place.request)
    place.ask("logit", "y ~ x", {"epsilon": 1, "delta": 1e-6, "mechanism": "public_hessian"})
    words = preview(place.settings, place.request)
    assert "in all it may cost epsilon = 1, delta = 1e-06" in words
    assert "has Gaussian noise, for which a part of the account is set aside: epsilon = 500.5" in words


def test_what_the_account_or_the_cap_does_not_afford_is_said(tmp_path):
    place = Place(tmp_path, analysts={"ann": EVERYTHING | {"epsilon": 0.4}})
    place.ask(*SIMPLE)
    words = preview(place.settings, place.request)
    assert "may receive epsilon = 0.4, delta = 0" in words
    assert "would be refused: more than is left" in words  # before the site was ever opened
    with pytest.raises(hdp.InsufficientBudget):
        place.answer()
    assert "would be refused: more than is left" in preview(place.settings, place.request)


def test_a_preview_is_of_the_caps_that_the_settings_say_now(tmp_path):
    """The account has the caps of the settings that the site was opened under last."""
    place = Place(tmp_path, analysts={"ann": EVERYTHING | {"epsilon": 2}})
    place.ask(*SIMPLE)
    place.answer()
    place.release.unlink()
    kind, what, options = SIMPLE
    place.ask(kind, what, options | {"replicate": 2})
    said = place.file.read_text()
    for cap, words, shown in (
        (2, "may receive epsilon = 1.5, delta = 0", "epsilon 2"),
        (0.75, "may receive epsilon = 0.25, delta = 0", "epsilon 0.75"),
        (0.25, "left; would be refused: the cap of", "epsilon 0.25"),
    ):
        place.file.write_text(said.replace("epsilon: 2\n", f"epsilon: {cap}\n"))
        found = preview(place.settings, place.request)
        assert words in found
        assert ("would be refused" in found) == (cap < 1)
        assert shown in overview(place.settings)
        assert place.ledger.caps["ann"].total.epsilon == 2
    for _ in range(2):  # once it was opened under them
        with pytest.raises(hdp.QuotaExceeded, match="covers less"):
            place.answer()
        assert "would be refused: the cap of" in preview(place.settings, place.request)
    place.file.write_text(said.replace("epsilon: 2\n", "epsilon: 0.75\n"))
    hdp.Ledger.open_existing(place.file.with_name("ledger.db")).grant(analyst="ann", epsilon=3)
    assert "would be refused: analyst 'ann' was granted (epsilon = 3" in preview(place.settings, place.request)


@pytest.mark.parametrize("value", [-5, 0, True, "1", None, [1]])
def test_no_part_of_an_epsilon_takes_from_the_other(place, value):
    place.ask(*QUESTIONS["effect"])
    with pytest.raises(hdp.ArgumentError, match="propensity_epsilon must be given, one number above 0"):
        altered(place, lambda fields: fields["question"]["spending"].update(propensity_epsilon=value))


@pytest.mark.parametrize("value", [-1, 1, 5, "x", [1e-6], True, None])
def test_a_delta_is_one_from_0_to_1(place, value):
    place.ask(*SIMPLE)
    with pytest.raises(hdp.HdpError, match="delta must be"):
        altered(place, lambda fields: fields["question"]["options"].update(delta=value))


def test_files_that_never_end_are_refused_unread(place):
    place.ask(*SIMPLE)
    place.request.unlink()
    os.mkfifo(place.request)
    with pytest.raises(hdp.ArgumentError, match="not an ordinary file"):
        preview(place.settings, place.request)
    place.request.unlink()
    place.request.symlink_to("/dev/zero")
    with pytest.raises(hdp.ArgumentError, match="not an ordinary file"):
        preview(place.settings, place.request)
    place.request.unlink()
    with place.request.open("wb") as file:
        file.truncate(2**40)  # a sparse file
    with pytest.raises(hdp.ArgumentError, match="longer than"):
        preview(place.settings, place.request)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[" + "[]," * 200_000 + "1]", '{"a":' * 50_000, '{"format":' + "9" * 5000 + "}", '"x"', "\ufeff{}"],
)
def test_texts_of_other_shapes_are_refused(place, text):
    place.request.write_text(text)
    with pytest.raises(hdp.ArgumentError, match="not a request file"):
        preview(place.settings, place.request)


@pytest.mark.parametrize("text", ['"' + '\\"' * 200_000, '"' + "\\\\" * 200_000 + '\\"' * 200_000])
def test_texts_that_do_not_end_are_gone_over_once(text):
    """Not once from each quotation mark on, which takes a processor a quarter of an hour for these."""
    with pytest.raises(hdp.ArgumentError, match="not a request file"):
        AnalysisTime(20.0).run(lambda: RequestFile.from_bytes(text.encode()))


PARTS = {
    "keys": "{" + ",".join(f'"{number:x}":0' for number in range(files.MOST_KEYS + 1)) + "}",
    "one key": "{" + '"a":0,' * files.MOST_KEYS + '"a":0}',
    "items": "[" + "0," * (files.MOST_ITEMS + 1) + "0]",
    "lists": "[" + "[]," * files.MOST_CONTAINERS + "[]]",
}


@pytest.mark.parametrize("parts", PARTS)
def test_too_many_parts_are_refused_unread(parts, monkeypatch):
    """60 MB of keys took 11 s and 1.2 GB to read."""
    read, content = [], PARTS[parts].encode()
    monkeypatch.setattr(codec, "loads", read.append)
    tracemalloc.start()
    try:
        with pytest.raises(hdp.ArgumentError, match="not a request file"):
            RequestFile.from_bytes(content)
        assert tracemalloc.get_traced_memory()[1] < len(content) + 32 * files._PART
    finally:
        tracemalloc.stop()
    assert not read


@pytest.mark.parametrize("text", ["a" * (files._PART - 13), '\\"', "\\\\", '\\\\\\"', "\u00e9"])
def test_what_is_in_a_text_is_no_part(text, monkeypatch):
    monkeypatch.setattr(files, "MOST_KEYS", 2)
    monkeypatch.setattr(files, "MOST_ITEMS", 1)
    monkeypatch.setattr(files, "MOST_CONTAINERS", 1)
    label = (text + ":,[{") * (3 if text.startswith("a") else files._PART // 4)
    content = f'{{"a":"{label}","format":"{text}:,"}}'
    with pytest.raises(hdp.ArgumentError, match="has the format"):
        RequestFile.from_bytes(content.encode())
    with pytest.raises(hdp.ArgumentError, match="not a request file"):
        RequestFile.from_bytes(content.replace('"}', '","b":0}').encode())


@pytest.mark.parametrize("before", [0, files._PART - 200])
@pytest.mark.parametrize("sign", ["", "-", "0.", "1e"])
def test_numbers_of_too_many_digits_are_refused_unread(monkeypatch, before, sign):
    """60 MB of whole numbers of 4,300 digits took 4 s to read."""
    read = []
    monkeypatch.setattr(codec, "loads", lambda text: read.append(text) or {"format": "another"})
    for digits in (files.MOST_DIGITS, files.MOST_DIGITS + 1):
        content = f'{{"{"9" * 500}":[{" " * before}1,{sign}{"7305" * 100}{"1" * (digits - 400)},2]}}'
        with pytest.raises(hdp.ArgumentError, match="format" if digits == 400 else "more than 400 digits"):
            RequestFile.from_bytes(content.encode())
    assert len(read) == 1


def test_the_name_of_a_request_is_computed_once(monkeypatch):
    asked, written = hdp.request(*SIMPLE[:2], STUDY, epsilon=0.5), []
    monkeypatch.setattr(codec, "dumps", lambda value: written.append(value) or "{}")
    assert asked.sha256 == asked.sha256
    assert len(written) == 1


def test_a_long_text_takes_no_more_memory_than_it_has_bytes():
    content = b'{"format":"' + b"a" * 2_000_000 + b'"}'
    tracemalloc.start()
    try:
        with pytest.raises(hdp.ArgumentError, match="format"):
            RequestFile.from_bytes(content)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(content)
    finally:
        tracemalloc.stop()


def test_public_rows_have_nothing_besides(place):
    """Columns of no schema and persons of no unit are in no hash, and would mean nothing."""
    place.ask(*SIMPLE)
    with pytest.raises(hdp.SiteError, match="a column 'zz"):
        altered(place, lambda fields: fields["public"]["columns"].update(zz=[1] * len(PUBLIC)))
    place.ask(*SIMPLE)
    with pytest.raises(hdp.SiteError, match="whose row each is"):
        altered(place, lambda fields: fields["public"].update(persons=[1] * len(PUBLIC)))


def test_public_rows_are_no_more_than_the_service_takes(tmp_path):
    place = Place(tmp_path, limits={"public": 2000, "query": 2000, "bytes_each": 2000})
    place.ask(*QUESTIONS["logit"])
    assert "would be refused: the request is longer" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="longer than the site accepts"):
        place.answer()
    assert place.spent == 0


def test_an_effect_that_is_refused_is_refused_before_its_propensity_is_charged(tmp_path):
    fits = {"mechanisms": ["objective", "description", "count"], "models": ["regression"]}
    place = Place(tmp_path, analysts={"ann": fits})
    kind, formula, options = QUESTIONS["effect"]
    place.ask(kind, formula, options)
    assert "not permitted to ann" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="does not permit"):
        place.answer()
    with pytest.raises(hdp.FormulaError, match="the treatment of the weighting alone"):
        place.ask(kind, "event ~ g", options)
    place.ask_unchecked(kind, "event ~ g", options)
    with pytest.raises(hdp.FormulaError, match="the treatment of the weighting alone"):
        place.answer()
    assert place.spent == 0


CHAINS = {"logit": 2, "hazard": 2, "effect": 3}
"""Questions, and how many charges each takes."""


@pytest.mark.parametrize("question", CHAINS)
def test_what_takes_too_long_is_refused_before_what_comes_first_is_charged(tmp_path, monkeypatch, question):
    place, work = Place(tmp_path), LocalSite.work
    place.ask(*QUESTIONS[question])

    def long(self, query, *, analyst):
        last = query.kind.startswith("treatment_effect" if question == "effect" else "objective")
        return Operations(steps=1e18) if last else work(self, query, analyst=analyst)

    with monkeypatch.context() as patched:
        patched.setattr(LocalSite, "work", long)
        with pytest.raises(hdp.MechanismError, match="longer than the custodian allows, and nothing was charged for"):
            place.answer()
    assert place.spent == 0
    assert not place.ledger.history().size
    assert not lines_in(place.settings.request_costs)
    place.answer()
    assert len(place.ledger.history()) == CHAINS[question]
    assert place.settings.request_costs.stat().st_size
    place.release.unlink()
    monkeypatch.setattr(LocalSite, "work", long)  # what was answered needs no time
    assert len(place.answer().answers) == CHAINS[question]


@pytest.mark.parametrize("question", CHAINS)
def test_more_charges_than_are_allowed_are_refused_before_the_first(tmp_path, question):
    most = CHAINS[question]
    place = Place(tmp_path, limits={"charges_each": most - 1})
    place.ask(*QUESTIONS[question])
    assert "would be refused: more charges" in preview(place.settings, place.request, prices=PRICES)
    with pytest.raises(hdp.QuotaExceeded, match="othing was charged for it"):
        place.answer()
    assert place.spent == 0
    assert not lines_in(place.settings.request_costs)
    place.file.write_text(place.file.read_text().replace(f"charges_each: {most - 1}", f"charges_each: {most}"))
    assert "would be refused" not in preview(place.settings, place.request, prices=PRICES)
    place.answer()
    assert len(place.ledger.history()) == most


@pytest.mark.parametrize("question", CHAINS)
def test_more_to_store_than_is_allowed_is_refused_before_the_first_charge(tmp_path, question):
    later = CHAINS[question] - 1
    place = Place(tmp_path, limits={"query": 20_000, "stored_each": (1 + 2 * later) * 20_000 - 1})
    place.ask(*QUESTIONS[question])
    assert "or more to store" in preview(place.settings, place.request, prices=PRICES)
    with pytest.raises(hdp.QuotaExceeded, match="othing was charged for it"):
        place.answer()
    assert place.spent == 0
    with_entries(place, limits={"query": 20_000, "stored_each": (1 + 2 * later) * 20_000})
    assert "would be refused" not in preview(place.settings, place.request, prices=PRICES)
    place.answer()


def test_a_dry_run_says_what_would_take_too_long(place):
    place.ask(*QUESTIONS["logit"])
    with_entries(place, timing=PATIENT | {"grid": 0.001, "longest": 0.001})
    assert "more than timing: longest allows, 0.001" in preview(place.settings, place.request, prices=PRICES)
    with pytest.raises(hdp.MechanismError, match="longer than the custodian allows"):
        place.answer()
    with_entries(place, timing=PATIENT)
    assert "would be refused" not in preview(place.settings, place.request)


@pytest.mark.parametrize("question", CHAINS)
def test_what_is_too_large_is_refused_before_what_comes_first_is_charged(tmp_path, question):
    for folder in ("whole", "less"):
        (tmp_path / folder).mkdir()
    place = Place(tmp_path / "whole")
    place.ask(*QUESTIONS[question])
    sizes = [len(query.to_json()) for query, _ in place.answer().answers]
    assert max(sizes) > sizes[0] + 50
    place = Place(tmp_path / "less", limits={"query": (sizes[0] + max(sizes)) // 2})
    place.ask(*QUESTIONS[question])
    assert "would be refused: the request is longer" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="longer than the site accepts"):
        place.answer()
    assert place.spent == 0


def lines_in(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("public", [None, PUBLIC.head(10), PUBLIC.drop(columns=["event"])])
def test_an_effect_whose_errors_would_rest_on_no_rows_is_refused_before_its_propensity_is_charged(place, public):
    place.ask_unchecked(*QUESTIONS["effect"], hdp.Study(public=public, schema=SCHEMA))
    assert "would be refused: treatment_effect needs" in preview(place.settings, place.request)
    with pytest.raises(hdp.ArgumentError, match="treatment_effect needs"):
        place.answer()
    assert place.spent == 0


def changed(**columns):
    return PUBLIC.assign(**columns)


SEPARATED = {
    "nobody treated": changed(y=0.0),
    "everybody treated": changed(y=1.0),
    "one treated": changed(y=(PUBLIC.index == 0).astype(float)),
    "decided by a covariate": changed(y=(PUBLIC["x"] > 0).astype(float)),
}
"""Public rows that tell next to nothing of who is treated."""


def test_an_effect_is_affordable_as_its_charges_are_counted(tmp_path):
    """Each is at least the floor: what an account has left may cover their sum, and not both charges."""
    ledger = {"place": "ledger.db", "dataset": "trial", "epsilon": 1.00005, "delta": 1e-3}
    place = Place(tmp_path, ledger=ledger)
    kind, formula, options = QUESTIONS["effect"]
    place.ask(kind, formula, options | {"epsilon": 1e-5})
    assert "would be refused: more than is left" in preview(place.settings, place.request)
    with pytest.raises(hdp.InsufficientBudget):
        place.answer()
    assert place.spent == 0


def test_an_effect_is_affordable_to_an_analyst_whose_propensity_was_released_to_another(tmp_path):
    caps = {"ann": EVERYTHING | {"epsilon": 1.5}, "bob": EVERYTHING | {"epsilon": 5}}
    place = Place(tmp_path, analysts=caps)
    place.ask("propensity", "y ~ x", {"epsilon": 1})
    place.answer(analyst="bob")
    place.ask(*QUESTIONS["effect"])
    assert "would be refused: more than is left" in preview(place.settings, place.request, analyst="ann")
    with pytest.raises(hdp.InsufficientBudget):
        place.answer(analyst="ann")
    assert place.ledger.spent_by("ann").epsilon == 0
    place.answer(analyst="bob")
    assert place.spent == pytest.approx(2)


ENDING = """
import os, pathlib, sys
from hdpstats.custodian import SiteSettings, answering
from hdpstats.sites import LocalSite
LocalSite._compute = lambda *_: os._exit(3)
file, request, release = map(pathlib.Path, sys.argv[1:])
answering.answer(SiteSettings.from_yaml(file), request, release, analyst="bob", prices={"steps": 1e-12})
"""


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_what_others_were_charged_in_vain_is_counted_before_an_effect_is_charged(tmp_path):
    """Whoever receives what was released to another is charged for the charges that were in vain too."""
    caps = {"ann": EVERYTHING | {"epsilon": 2.1}, "bob": EVERYTHING | {"epsilon": 5}}
    place = Place(tmp_path, analysts=caps)
    place.ask(*QUESTIONS["effect"])
    ended = forked.run([sys.executable, "-c", ENDING, *map(str, (place.file, place.request, place.release))])
    assert ended.returncode == 3, ended.stderr
    place.answer(analyst="bob")
    first = place.ledger.history()["epsilon"].iloc[0]
    assert float(place.ledger.spent_by("bob").epsilon) == place.spent == pytest.approx(2 + first)
    place.release.unlink()
    said = preview(place.settings, place.request, analyst="ann")
    assert "first query was released to another analyst" in said
    assert f"the analyst's cap is charged epsilon = {first}, delta = 0 besides" in said
    assert "would be refused: more than is left" in said
    with pytest.raises(hdp.ArgumentError, match="charged 1 times in vain for a query"):
        place.answer(analyst="ann")
    with pytest.raises(hdp.InsufficientBudget):
        place.answer(analyst="ann", by="Dr Bos")
    assert place.ledger.spent_by("ann").epsilon == 0
    place.file.write_text(place.file.read_text().replace("epsilon: 2.1", "epsilon: 2.5"))
    assert "would be refused" not in preview(place.settings, place.request, analyst="ann")
    place.answer(analyst="ann", by="Dr Bos")
    assert float(place.ledger.spent_by("ann").epsilon) == place.spent == pytest.approx(2 + first)


@pytest.mark.filterwarnings("ignore")  # of what public rows do not tell
@pytest.mark.parametrize("public", SEPARATED.values(), ids=SEPARATED)
def test_an_effect_without_a_propensity_is_refused_before_that_is_charged(place, public):
    place.ask(*QUESTIONS["effect"], hdp.Study(public=public, schema=SCHEMA))
    assert "would be refused: the propensity model is predicted" in preview(place.settings, place.request)
    with pytest.raises(hdp.ArgumentError, match="without coefficients of x"):
        place.answer()
    assert place.spent == 0
    study = hdp.Study(private=PRIVATE, public=public, schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    with pytest.raises(hdp.ArgumentError, match="nothing was charged"):
        hdp.propensity("y ~ x", study, epsilon=1)
    assert study.ledger.spent.epsilon == 0


@pytest.mark.parametrize("epsilon", [1e-7, 60, 1e14])
def test_an_effect_of_no_epsilon_is_refused_before_its_propensity_is_charged(place, epsilon):
    kind, formula, options = QUESTIONS["effect"]
    place.ask(kind, formula, options | {"epsilon": epsilon})
    assert "would be refused: epsilon" in preview(place.settings, place.request)
    with pytest.raises((hdp.ArgumentError, hdp.BudgetError), match="epsilon"):
        place.answer()
    assert place.spent == 0


@pytest.mark.parametrize("said", ["no", "false", 1])
def test_no_word_allows_a_large_epsilon(place, said):
    with pytest.raises(hdp.ArgumentError, match="allow_large_epsilon must be True or False"):
        place.ask("logit", "y ~ x", {"epsilon": 100, "allow_large_epsilon": said})


def test_what_waits_in_a_folder_is_said_to_wait_where_nobody_need_approve(place, monkeypatch):
    place.ask(*SIMPLE)
    monkeypatch.setattr(Ledger, "in_vain", in_vain(place, place.request, CARRIED_AGAIN + 1))
    assert "it was charged 3 times in vain, and waits in a folder" in preview(place.settings, place.request)
    monkeypatch.undo()
    assert "not approved by anybody, which the settings do not require" in preview(place.settings, place.request)
    place.answer()
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"]["version"] = 2
    place.file.write_text(yaml.safe_dump(entries))
    words = "charged for other data, at another version of them or under other terms, and waits in a folder until"
    assert words in preview(place.settings, place.request)
    waiting = "in a folder it waits for approval, as it was charged for other data, at another version"
    assert waiting in overview(place.settings, requests=place.request.parent)
    place.answer(by="Dr Bos")
    assert words not in preview(place.settings, place.request)
    assert waiting not in overview(place.settings, requests=place.request.parent)


def test_an_effect_that_the_account_does_not_afford_is_refused_before_its_propensity_is_charged(tmp_path):
    ledger = {"place": "ledger.db", "dataset": "trial", "epsilon": 1.5, "delta": 1e-3}
    place = Place(tmp_path, ledger=ledger)
    place.ask(*QUESTIONS["effect"])
    assert "would be refused: more than is left" in preview(place.settings, place.request)
    with pytest.raises(hdp.InsufficientBudget):
        place.answer()
    assert place.spent == 0


@pytest.mark.filterwarnings("ignore")  # of what public rows do not tell
@pytest.mark.parametrize("public", [changed(event=0.0), changed(event=1.0), changed(x=0.5)])
def test_an_effect_that_public_rows_do_tell_is_answered(place, public):
    place.ask(*QUESTIONS["effect"], hdp.Study(public=public, schema=SCHEMA))
    place.answer()
    assert place.spent == pytest.approx(2)
    assert str(place.read())


def test_an_analysis_that_takes_too_long_after_the_last_answer_leaves_the_release(tmp_path, monkeypatch):
    """What was charged and drawn is released; reading it is the analyst's own time."""
    place = Place(tmp_path, limits={"analysis": 0.5})
    place.ask(*SIMPLE)
    ask = Question.ask

    def endless(self, study):
        ask(self, study)
        while True:
            with contextlib.suppress(Exception):
                sum(range(10_000))

    with monkeypatch.context() as patched:
        patched.setattr(Question, "ask", endless)
        made = place.answer()
        assert place.spent == 0.5
        assert place.answer().to_json() == made.to_json()
    whole = place.release.read_bytes()
    assert place.read().to_json()
    place.answer()
    assert place.release.read_bytes() == whole
    assert place.spent == 0.5


def test_an_analysis_whose_time_is_over_as_an_answer_is_kept_leaves_the_release(place, monkeypatch):
    """A signal may come at any step, also where the time goes on after the site was asked."""
    paused, answered, done = AnalysisTime.paused, AnsweringSite._answered, []

    @contextlib.contextmanager
    def over_at_the_end(self):
        with paused(self):
            yield
        if done:
            raise self._too_long()

    def noted(self, query):
        done.append(answered(self, query))
        return done[-1]

    place.ask(*SIMPLE)
    with monkeypatch.context() as patched:
        patched.setattr(AnalysisTime, "paused", over_at_the_end)
        patched.setattr(AnsweringSite, "_answered", noted)
        made = place.answer()
    assert len(made.answers) == 1
    assert place.spent == 0.5
    assert place.read().to_json()


def test_a_request_of_another_version_is_said_to_be(place):
    place.ask(*SIMPLE)
    words = altered(place, lambda fields: fields.update(hdpstats="0.0.7"))
    assert f"written with hdpstats 0.0.7; this is {__version__}, which may ask otherwise" in words


def test_a_question_is_short_enough_to_be_read(place):
    study = STUDY
    with pytest.raises(hdp.ArgumentError, match="at most 50000 characters"):
        hdp.request("describe", ["x" * 100] * 600, study, epsilon=1)


def test_an_analysis_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    """Before anything is charged, at the dry run and at the answer, whatever its code catches."""
    place = Place(tmp_path, limits={"analysis": 0.2})
    place.ask(*SIMPLE)

    def endless(self, study):
        while True:
            with contextlib.suppress(Exception):
                sum(range(10_000))

    monkeypatch.setattr(Question, "ask", endless)
    assert "takes longer than 0.2 seconds" in preview(place.settings, place.request)
    with pytest.raises(hdp.SiteError, match="takes longer than"):
        place.answer()
    assert place.spent == 0

"""A site that is asked by files: one exchange, one charge, one draw, and the result that a later fit returns."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml

import hdpstats.api as hdp
from hdpstats import custodian
from hdpstats._base.errors import HdpError, SiteError
from hdpstats.cli import main
from hdpstats.custodian import answering, approvals, open_site, preview, previewing, serving
from hdpstats.custodian.answering import AnsweringSite
from hdpstats.custodian.watching import Watch
from hdpstats.exchange import ReleaseFile, RequestFile
from hdpstats.exchange.questions import Question
from hdpstats.ledger import SigningKey
from hdpstats.records import codec, recipe
from hdpstats.schema.table import PrivateTable
from tests.custodian.asked_by_files import PRICES, QUESTIONS, SIMPLE, Place, Seen, killed, with_entries, write_whole
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import PRIVATE, PUBLIC, SCHEMA


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_release_file_gives_what_a_later_fit_gives(place, question):
    asked = place.ask(*QUESTIONS[question])
    place.answer()
    spent, first = place.spent, place.release.read_bytes()
    result = place.read().to_json()
    assert spent == float(asked.question.most.epsilon)
    later = asked.question.ask(hdp.Study(private=Seen(open_site(place.settings)), public=PUBLIC))
    assert later.to_json() == result
    place.answer()  # once more
    assert (place.spent, place.release.read_bytes()) == (spent, first)


def test_a_fit_without_public_rows_that_describes_its_outcome_comes_in_one_file(place):
    asked = place.ask("linear", "secret ~ x", {"epsilon": 40}, hdp.Study(schema=SCHEMA))
    place.answer()
    assert [name.split("/")[0] for name in place.ledger.history()["mechanism"]] == ["description", "objective"]
    result = place.read()
    assert (
        "2 times that of the outcome as described, with allowance for the noise of the description, is no smaller"
        in result.estimate.note
    )
    assert place.spent == 40
    assert asked.question.ask(hdp.Study(private=Seen(open_site(place.settings)))).to_json() == result.to_json()
    assert place.spent == 40


@pytest.mark.wide
def test_a_noisy_number_of_people_comes_with_the_fit_that_asks_it(tmp_path):
    terms = {"place": "ledger.db", "dataset": "trial", "epsilon": 100, "relation": "add_or_remove_one"}
    place = Place(tmp_path, persons={"n_max": 500}, ledger=terms)
    asked = place.ask(*QUESTIONS["logit"])
    place.answer()
    assert "count/1" in set(place.ledger.history()["mechanism"])
    later = asked.question.ask(hdp.Study(private=Seen(open_site(place.settings)), public=PUBLIC))
    assert later.to_json() == place.read().to_json()
    assert place.spent == 1


def test_files_have_no_private_row(place):
    place.ask(*SIMPLE)
    place.answer()
    fields = json.loads(place.release.read_text())
    assert set(fields) == {"format", "hdpstats", "request", "facts", "columns", "answers", "sha256"}
    assert {name for each in fields["answers"] for name in each} == {"query", "release", "entry"}
    cells = [repr(cell) for cell in PRIVATE["x"][:50]]
    for file in (place.request, place.release):
        assert not [cell for cell in cells if cell in file.read_text()]


def test_an_answer_goes_on_where_it_was_interrupted(place, monkeypatch):
    place.ask(*QUESTIONS["logit"])
    answer, asked = answering.Slots.answer, []

    def interrupted(self, query, **options):
        asked.append(query)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return answer(self, query, **options)

    monkeypatch.setattr(answering.Slots, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        place.answer()
    assert not place.release.exists()
    assert place.spent == 0.15
    made = place.answer()
    assert (place.spent, len(made.answers)) == (1, 2)
    assert made.answers[0][0] == asked[0]
    assert len(place.ledger.history()) == 2


@pytest.mark.parametrize("error", [SiteError("the analysis takes longer", code="too-long"), MemoryError()])
def test_an_answer_that_is_cut_off_replaces_no_complete_one(tmp_path, monkeypatch, error):
    place, kind = Place(tmp_path), QUESTIONS["logit"]
    inbox, outbox = tmp_path / "in", tmp_path / "out"
    for folder in (inbox / "ann", outbox / "ann"):
        folder.mkdir(parents=True)
    asked = place.ask(*kind)
    shutil.copy(place.request, inbox / "ann")
    sent = outbox / "ann" / f"{asked.sha256}.json"
    answered, cut = AnsweringSite.answer, []

    def cut_off(self, query):
        if cut and self.answers:
            raise error
        return answered(self, query)

    monkeypatch.setattr(AnsweringSite, "answer", cut_off)
    cut.append(True)
    place.answer()  # what was charged so far leaves
    assert Watch(place.settings, inbox, outbox, prices=PRICES).sweep() == 1
    assert len(ReleaseFile.read(place.release).answers) == len(ReleaseFile.read(sent).answers) == 1
    cut.clear()
    assert len(place.answer().answers) == 2  # and is replaced by all of it
    assert Watch(place.settings, inbox, outbox, prices=PRICES).sweep() == 1
    whole = place.release.read_bytes()
    assert sent.read_bytes() == whole
    cut.append(True)
    with pytest.raises(answering.FewerAnswers, match="has more, and stays as it is"):
        place.answer()
    watch = Watch(place.settings, inbox, outbox, prices=PRICES)
    assert watch.sweep() == 1
    assert watch.sweep() == 0
    assert place.release.read_bytes() == sent.read_bytes() == whole
    assert [file.name for file in sent.parent.iterdir()] == [sent.name]
    assert place.read().to_json()
    place.release.write_text("{}")  # which is no release file: it is not looked at, and not replaced either
    with pytest.raises(hdp.ArgumentError, match="something else"):
        answering.answer(place.settings, place.request, place.release, prices=PRICES)
    assert place.spent == 1


def test_a_file_that_cannot_be_written_is_had_again_for_nothing(place, monkeypatch):
    place.ask(*SIMPLE)

    def full(path, content):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(answering, "write_durably", full)
        with pytest.raises(hdp.ArgumentError, match="No space left"):
            place.answer()
    assert place.spent == 0.5
    place.answer()
    assert place.spent == 0.5
    assert place.read().to_json()


def test_code_that_fails_after_the_answers_keeps_no_release_back(place, monkeypatch):
    place.ask(*SIMPLE)
    ask = Question.ask

    def failing(self, study):
        ask(self, study)
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(Question, "ask", failing)
        place.answer()
    spent = place.spent
    assert spent == 0.5
    assert place.read().to_json()
    place.answer()
    assert place.spent == spent


def test_a_preview_reads_no_row_and_writes_nothing(place, monkeypatch):
    place.ask(*QUESTIONS["logit"])

    def touched(*_, **__):
        raise AssertionError("rows were read")

    for owner, name in ((serving, "read_rows"), (PrivateTable, "from_frame"), (PrivateTable, "admit")):
        monkeypatch.setattr(owner, name, touched)
    before = {path: path.read_bytes() for path in place.file.parent.iterdir() if path.suffix != ".db-shm"}
    words = preview(place.settings, place.request)
    assert "asks for logit: 'y ~ x + log1p(k) + g'" in words
    assert "reads of each person: g, k, x, y" in words
    assert "epsilon = 0.15, delta = 0 for the first query (description); its later queries epsilon = 0.85" in words
    assert "epsilon = 1000, delta = 0.001 left" in words
    assert place.spent == 0
    after = {path: path.read_bytes() for path in place.file.parent.iterdir() if path.suffix != ".db-shm"}
    assert after == before


def test_a_preview_says_what_is_free_and_what_is_refused(tmp_path):
    few = {"mechanisms": ["description"], "models": [], "columns": ["x"]}
    place = Place(tmp_path, analysts={"ann": EVERYTHING | {"epsilon": 2}, "bob": few | {"epsilon": 1}})
    place.ask(*SIMPLE)
    assert "not permitted to bob" in preview(place.settings, place.request, analyst="bob")
    place.answer(analyst="ann")
    words = preview(place.settings, place.request, analyst="ann")
    assert "would cost nothing now" in words
    assert "ann may receive epsilon = 1.5" in words


def test_permissions_and_caps_are_those_of_the_service(tmp_path):
    few = {"mechanisms": ["description"], "models": [], "columns": ["x"]}
    place = Place(tmp_path, analysts={"ann": EVERYTHING | {"epsilon": 0.4}, "bob": few | {"epsilon": 1}})
    place.ask(*SIMPLE)
    with pytest.raises(hdp.ArgumentError, match="analyst must be one of the settings"):
        place.answer()
    with pytest.raises(hdp.SiteError, match="does not permit"):
        place.answer(analyst="bob")
    with pytest.raises(hdp.InsufficientBudget):
        place.answer(analyst="ann")
    assert place.spent == 0
    assert not place.release.exists()


def test_nothing_is_charged_before_somebody_approves(tmp_path):
    place = Place(tmp_path, requests={"approval": "required"})
    place.ask(*SIMPLE)
    with pytest.raises(hdp.ArgumentError, match="approve must name who approves"):
        place.answer()
    assert place.spent == 0
    assert "not approved yet" in preview(place.settings, place.request)
    place.answer(by="Dr Bos")
    (line,) = place.settings.approvals.read_text().splitlines()
    assert json.loads(line) | {"at": ""} == {
        "request": RequestFile.read(place.request).sha256,
        "analyst": "ann",
        "account": place.ledger.identity,
        "dataset": "trial",
        "version": 1,
        "epsilon": "1/2",
        "delta": "0",
        "by": "Dr Bos",
        "at": "",
        "settings": approvals.decided_by(place.settings, open_site(place.settings), "ann"),
    }
    assert "approved by Dr Bos at 20" in preview(place.settings, place.request)
    place.answer()  # an approval stays
    place.ask("describe", ["x", "g"], {"epsilon": 0.6})
    with pytest.raises(hdp.ArgumentError, match="approve"):
        place.answer()
    assert place.spent == 0.5


def test_a_request_replaces_no_other_file(tmp_path):
    path, study = tmp_path / "request.json", hdp.Study(public=PUBLIC, schema=SCHEMA)
    asked = hdp.request("describe", ["x"], study, epsilon=0.5, path=path)
    hdp.request("describe", ["x"], study, epsilon=0.5, path=path)  # the same
    with pytest.raises(hdp.ArgumentError, match="not replaced"):
        hdp.request("describe", ["x"], study, epsilon=0.25, path=path)
    assert RequestFile.read(path).sha256 == asked.sha256
    path.write_text("notes")
    with pytest.raises(hdp.ArgumentError, match="not replaced"):
        hdp.request("describe", ["x"], study, epsilon=0.25, path=path)
    assert path.read_text() == "notes"
    assert [each.name for each in tmp_path.iterdir()] == ["request.json"]


def test_the_file_of_another_analyst_is_not_replaced(tmp_path):
    place = Place(tmp_path, analysts={"ann": EVERYTHING, "bob": EVERYTHING})
    place.ask(*SIMPLE)
    place.answer(analyst="ann")
    first = place.release.read_bytes()
    with pytest.raises(hdp.ArgumentError, match="not replaced"):
        place.answer(analyst="bob")
    assert (place.release.read_bytes(), place.spent, place.ledger.spent_by("bob").epsilon) == (first, 0.5, 0)
    place.answer(analyst="ann")
    assert place.release.read_bytes() == first


def test_a_request_for_another_schema_is_refused(place):
    other = hdp.Schema({name: SCHEMA[name] for name in SCHEMA if name != "secret"})
    place.ask(*SIMPLE, study=hdp.Study(public=PUBLIC, schema=other))
    for run in (place.answer, lambda: preview(place.settings, place.request)):
        with pytest.raises(hdp.SiteError, match="another schema"):
            run()
    assert place.spent == 0


def test_public_rows_may_be_named(place):
    public = place.file.with_name("public.parquet")
    PUBLIC.to_parquet(public)
    place.ask("describe", ["x", "g"], {"epsilon": 0.5, "attach_public": False})
    assert "columns" not in json.loads(place.request.read_text())["public"]
    with pytest.raises(hdp.ArgumentError, match="public must be given"):
        place.answer()
    place.answer(public=public)
    with pytest.raises(hdp.SiteError, match="SHA-256"):
        place.read(public=PUBLIC[1:])
    named = place.read(public=PUBLIC).to_json()
    asked = place.ask(*SIMPLE)
    place.answer()
    assert place.spent == 0.5  # the same question
    assert place.read().to_json() == named
    assert asked.sha256 == RequestFile.read(place.request).sha256


def test_requests_for_persons_keep_whose_rows_are_whose(tmp_path):
    schema = hdp.Schema(x=hdp.Continuous(-3, 3, complete=True), y=hdp.Binary(complete=True))
    public = PUBLIC[["x", "y"]].assign(person=np.arange(len(PUBLIC)) // 2)
    study = hdp.Study(public=public, schema=schema, unit="person", max_rows_per_unit=3, n_max=200)
    asked = hdp.request("logit", "y ~ x", study, epsilon=1, path=tmp_path / "request.json")
    read = RequestFile.read(tmp_path / "request.json").public_table(schema, "person")
    assert read.sha256 == asked.public_sha256 == study.public.sha256


def test_a_signed_release_shows_who_answered(tmp_path):
    tmp_path.chmod(0o700)
    private, public = SigningKey.generate().write(tmp_path / "site")
    _, other = SigningKey.generate().write(tmp_path / "other")
    place = Place(tmp_path, signing={"key": str(private)})
    place.ask(*SIMPLE)
    place.answer()
    assert place.read(key=public).to_json() == place.read().to_json()
    with pytest.raises(hdp.LedgerError):
        place.read(key=other)
    whole = json.loads(place.release.read_text())
    forged = json.loads(place.release.read_text())
    forged["answers"][0]["entry"]["number"] += 1
    write_whole(place.release, forged)
    assert place.read().to_json()  # whoever alters a file can hash it anew
    with pytest.raises(hdp.LedgerError, match="no signature"):
        place.read(key=public)
    forged = {**whole, "facts": {**whole["facts"], "records": 10**6}}  # which standard errors would rest on
    rest = {name: value for name, value in forged.items() if name not in ("sha256", "signature")}
    place.release.write_text(codec.dumps({**forged, "sha256": codec.sha256(rest)}) + "\n")
    with pytest.raises(hdp.LedgerError, match="not what the key"):
        place.read(key=public)


def test_releases_of_other_requests_and_missing_answers_are_refused(place):
    place.ask(*SIMPLE)
    place.answer()
    fields = json.loads(place.release.read_text())
    write_whole(place.release, {**fields, "answers": []})
    with pytest.raises(hdp.SiteError, match="has no answer to what this request asks"):
        place.read()
    write_whole(place.release, fields)
    asked = place.ask("describe", ["x"], {"epsilon": 0.5})
    with pytest.raises(hdp.ArgumentError, match="answers another request"):
        place.read()
    write_whole(place.release, {**fields, "request": asked.sha256})
    with pytest.raises(hdp.SiteError, match="has no answer"):
        place.read()
    write_whole(place.release, {**fields, "format": "hdpstats release 2"})
    with pytest.raises(hdp.ArgumentError, match="format 'hdpstats release 2'"):
        place.read()


def _mutants(content, number):
    """Yield texts with a few bytes changed, left out or repeated."""
    rng = np.random.default_rng(38)
    for _ in range(number):
        start, size = int(rng.integers(len(content))), int(rng.integers(1, 4))
        middle = rng.choice(list(b'0129.,:"{}[]-ex\x00\xff'), size).astype(np.uint8).tobytes()
        kind = rng.integers(3)
        yield content[:start] + (b"", middle, content[start : start + size] * 2)[kind] + content[start + size :]


@pytest.mark.parametrize("number", [60, pytest.param(250, marks=pytest.mark.wide)])
def test_altered_files_are_refused(place, number):
    place.ask(*SIMPLE)
    place.answer()
    request, release = place.request.read_bytes(), place.release.read_bytes()
    for mutant in _mutants(release, number):
        place.release.write_bytes(mutant)
        if mutant.removesuffix(b"\n") != release.removesuffix(b"\n"):
            with pytest.raises(hdp.ArgumentError):
                ReleaseFile.read(place.release)
    spent, refused = place.spent, 0
    for mutant in _mutants(request, number):  # of which some are other requests
        place.request.write_bytes(mutant)
        try:
            preview(place.settings, place.request)
        except HdpError:
            refused += 1
    assert refused > 0.8 * number
    assert place.spent == spent


def test_what_a_newer_version_wrote_and_this_one_cannot_read_says_so(place):
    place.ask(*SIMPLE)
    place.answer()
    readers = {
        place.request: lambda: RequestFile.read(place.request),
        place.release: lambda: ReleaseFile.read(place.release),
    }
    for file, read in readers.items():
        fields = codec.loads(file.read_text())
        for version, said in (
            ("9.8.7", r"says that hdpstats .*9\.8\.7.* wrote it"),
            (fields["hdpstats"], "ask .* again"),
        ):
            file.write_text(codec.dumps({**fields, "hdpstats": version, "unknown": 1}) + "\n")
            with pytest.raises(hdp.ArgumentError, match=said) as caught:
                read()
            assert ("says that" in str(caught.value)) == (version == "9.8.7")


def _leaves(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in items:
        yield from _leaves(each, (*path, name))
    if not isinstance(value, dict | list):
        yield path


def test_a_forged_file_is_refused_or_read_and_nothing_else(place):
    place.ask(*SIMPLE)
    place.answer()
    original, rng, refused = place.release.read_text(), np.random.default_rng(38), 0
    leaves = list(_leaves(json.loads(original)["answers"])) + list(_leaves(json.loads(original)["facts"]))
    for number in rng.choice(len(leaves), 60, replace=False):
        fields = json.loads(original)
        part = fields["answers"] if leaves[number] and isinstance(leaves[number][0], int) else fields["facts"]
        *above, last = leaves[number]
        for name in above:
            part = part[name]
        part[last] = [None, -1, "1e9", [], 10**30][int(rng.integers(5))]
        write_whole(place.release, fields)
        try:
            place.read()
        except HdpError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'x,g\n1,"a\nb"\n\n2,c\n', 3),
        (b"x,g\n1," + b"a" * 140_000 + b"\n2,b\n", 2),  # more than Python's own reader takes of a cell
        (b"x,g\n1,a\x00b\n2,\x00\n", 2),
        (b"x,g\r1,a\r2,b\r", 2),
        (b"\xef\xbb\xbfx,g\r\n1,a\r\n\r\n", 2),
        (b'x,g\n1,a"b\n2,"b"c\n', 2),
        (b'x,g\n1,"a\n2,b\n3,c\n', None),  # a quote without an end
        (b"x,g\n1,\xff\n2,b\n", None),
        (b"x,g\n1,a\n2,b,c\n", None),
        (b"x,g\n", 0),
        (b"\nx,g\n1,a\n", None),
    ],
)
def test_rows_of_a_csv_file_are_counted_as_they_are_read(tmp_path, content, rows):
    place = Place(tmp_path, data="rows.csv")
    file = tmp_path / "rows.csv"
    file.write_bytes(content)
    for count in (previewing.number_of_rows, lambda settings: len(serving.private_rows(settings))):
        if rows is None:
            with pytest.raises(hdp.ArgumentError, match="data"):
                count(place.settings)
        else:
            assert count(place.settings) == rows


@pytest.mark.parametrize("cell", ["short", "a" * 140_000])
def test_no_long_cell_decides_whether_a_request_is_looked_at_approved_and_answered(tmp_path, cell):
    place = Place(tmp_path, data="rows.csv", requests={"approval": "required"})
    PRIVATE.assign(remark=["x"] * (len(PRIVATE) - 1) + [cell]).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "rows.csv").chmod(0o600)
    place.ask(*SIMPLE)
    assert f"people {len(PRIVATE)};" in preview(place.settings, place.request)
    place.answer(by="Dr Bos")
    assert (place.spent, ReleaseFile.read(place.release).facts.records) == (0.5, len(PRIVATE))


CHARGED_ALONE = re.compile(
    ".*But a query of this request was charged, and stays charged: [^`]*once the rest may be answered", re.DOTALL
)
"""What is said of a request that asks about nobody who is weighted."""


def test_a_refusal_after_a_charge_of_the_request_says_so(tmp_path, monkeypatch):
    place = Place(tmp_path, analysts={"ann": EVERYTHING | {"epsilon": 1.2}})
    place.ask(*QUESTIONS["logit"])  # in two charges
    answered = AnsweringSite.answer

    def then_used_up(self, query):
        release = answered(self, query)
        hdp.describe(hdp.Study(private=Seen(self._site)), ["x"], epsilon=0.5)
        return release

    with monkeypatch.context() as patched:
        patched.setattr(AnsweringSite, "answer", then_used_up)
        with pytest.raises(hdp.InsufficientBudget, match="Nothing was charged for it: ") as caught:
            place.answer()
    assert CHARGED_ALONE.fullmatch(str(caught.value))
    assert (caught.value.facts["charged_before"], len(place.ledger.history())) == (True, 2)


@pytest.mark.parametrize("question", ["logit", "effect"])
def test_a_refusal_says_what_an_earlier_exchange_was_charged(tmp_path, question):
    place = Place(tmp_path, analysts={"ann": EVERYTHING})
    place.ask(*QUESTIONS[question])
    few = EVERYTHING | {"columns": ["time"]}
    with_entries(place, analysts={"ann": few})
    with pytest.raises(hdp.SiteError, match="does not permit") as caught:
        place.answer()
    assert "was charged, and" not in str(caught.value)
    assert "charged_before" not in caught.value.facts
    with_entries(place, analysts={"ann": EVERYTHING})
    killed(place.answer)
    assert place.spent > 0
    with_entries(place, analysts={"ann": few})
    with pytest.raises(hdp.SiteError, match="does not permit") as caught:
        place.answer()
    assert bool(CHARGED_ALONE.fullmatch(str(caught.value))) is (question == "logit")
    assert ("had alone there, by a request `propensity`" in str(caught.value)) is (question == "effect")
    assert caught.value.facts["charged_before"] is True


def another_schema(place):
    """Declare one column more, at a new version of the data."""
    more = hdp.Schema(**{name: SCHEMA[name] for name in SCHEMA}, extra=hdp.Binary())
    PRIVATE.assign(extra=0.0).to_parquet(place.file.with_name("rows.parquet"))
    more.to_yaml(place.file.with_name("dictionary.yaml"))
    ledger = yaml.safe_load(place.file.read_text())["ledger"]
    with_entries(place, ledger=ledger | {"version": 2})


def a_key(place):
    """Have the analyst sign."""
    _, public = SigningKey.generate().write(place.file.with_name("ann"))
    with_entries(place, requests={"unsigned": "admitted", "keys": {"ann": str(public)}})


REFUSED_LATER = {
    "schema": (another_schema, "for another schema"),
    "key": (a_key, "it must be signed"),
    "another analyst too": (
        lambda place: with_entries(place, analysts={"ann": EVERYTHING, "bob": EVERYTHING}),
        "analyst must be one",
    ),
    "unsigned": (lambda place: with_entries(place, requests={"unsigned": "refused"}), "it has no signature"),
    "approval": (
        lambda place: with_entries(place, requests={"unsigned": "admitted", "approval": "required"}),
        "must name who approves",
    ),
    "rows": (lambda place: place.file.with_name("rows.parquet").write_bytes(b""), "rows.parquet"),
    "another file": (lambda place: place.release.write_text("{}"), "release.json"),
}


@pytest.mark.parametrize(("change", "why"), REFUSED_LATER.values(), ids=REFUSED_LATER)
@pytest.mark.parametrize("charged", [False, True])
def test_a_refusal_before_the_site_is_opened_says_what_was_charged(tmp_path, change, why, charged):
    place = Place(tmp_path)
    place.ask(*QUESTIONS["logit"])
    if charged:
        killed(place.answer, 2)
    change(place)
    with pytest.raises(hdp.HdpError, match=why) as caught:
        answering.answer(place.settings, place.request, place.release, prices=PRICES)
    assert caught.value.facts.get("charged_before", False) is charged
    assert bool(CHARGED_ALONE.fullmatch(str(caught.value))) is charged


@pytest.mark.parametrize("charged", [False, True])
def test_a_question_whose_code_fails_says_what_was_charged(tmp_path, monkeypatch, charged):
    place = Place(tmp_path)
    place.ask(*QUESTIONS["logit"])
    if charged:
        killed(place.answer, 2)

    def fail(*_):
        raise KeyError("x")

    monkeypatch.setattr(Question, "ask", fail)
    with pytest.raises(hdp.SiteError, match="its code fails") as caught:
        place.answer()
    assert caught.value.facts.get("charged_before", False) is charged


def test_what_another_analyst_was_charged_is_said_to_nobody_else(tmp_path):
    place = Place(tmp_path, analysts={"ann": EVERYTHING, "bob": EVERYTHING | {"columns": ["time"]}})
    place.ask(*QUESTIONS["logit"])
    place.answer(analyst="ann")
    with pytest.raises(hdp.SiteError, match="does not permit") as caught:
        answering.answer(place.settings, place.request, tmp_path / "bob.json", analyst="bob", prices=PRICES)
    assert "charged_before" not in caught.value.facts


def test_a_request_of_an_unknown_recipe_says_what_was_charged(tmp_path, monkeypatch):
    place = Place(tmp_path)
    place.ask(*QUESTIONS["logit"])
    place.answer()

    def unknown(_):
        raise hdp.SiteError("of an unknown recipe. Nothing was charged")

    monkeypatch.setattr(recipe, "check_known", unknown)
    with pytest.raises(hdp.SiteError, match="unknown recipe") as caught:
        answering.answer(place.settings, place.request, place.release, prices=PRICES)
    assert caught.value.facts["charged_before"] is True


def test_a_request_that_nobody_approved_is_refused_before_rows_are_read(tmp_path):
    place = Place(tmp_path, data="rows.csv", requests={"approval": "required"})
    (tmp_path / "rows.csv").write_bytes(b"x,g\n1,\xff\n")
    place.ask(*SIMPLE)
    with pytest.raises(approvals.NotApproved, match="who approves"):
        place.answer()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "eval"}, "model must be one of"),
        ({"options": {"data": "x"}}, "data is not an argument of describe"),
        ({"spending": {"epsilon": "1"}}, "epsilon must be given, one number"),
        ({"spending": {"epsilon": True}}, "epsilon must be given, one number"),
        ({"spending": {"epsilon": -1}}, "epsilon"),
        ({"options": {"by": {"a": 1}}}, "by must be a text"),
        ({"options": {"by": ["x"]}}, "by"),
        ({"options": {"times": [[1]]}}, "times must be a text"),
        ({"what": 5}, "formula must be a text"),
        ({"more": 1}, "not a request as hdpstats writes it"),
    ],
)
def test_a_strange_question_is_refused_before_anything_is_charged(place, change, words):
    place.ask(*SIMPLE)
    fields = json.loads(place.request.read_text())
    fields["question"] |= change
    place.request.write_text(codec.dumps(fields))
    with pytest.raises(HdpError, match=words):
        place.answer()
    assert place.spent == 0


def test_a_site_without_a_service_is_not_served(tmp_path):
    place = Place(tmp_path)
    assert not place.settings.serves
    assert serving.described(place.settings).startswith("no service\n")
    with pytest.raises(hdp.ArgumentError, match="asked by files"):
        _ = place.settings.service
    (tmp_path / "other").mkdir()
    with pytest.raises(hdp.ArgumentError, match="tls, tokens is missing"):
        _ = Place(tmp_path / "other", listen={"host": "127.0.0.1", "port": 0}).settings


def test_the_command_line_asks_answers_and_reads(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(answering, "measured", lambda: PRICES)
    monkeypatch.setattr(custodian, "protect_process", lambda: None)
    place = Place(tmp_path)
    PUBLIC.to_csv(tmp_path / "public.csv", index=False)
    files = {name: str(tmp_path / name) for name in ("dictionary.yaml", "public.csv", "result.json")}
    asking = ["request", "x,g", "--model", "describe", "--schema", files["dictionary.yaml"], "--epsilon", "0.5"]
    more = ["--public", files["public.csv"], "--option", "by=y", "--option", "quantiles=false"]
    assert main([*asking, *more, "--out", str(place.request)]) == 0
    site = ["site", "answer", str(place.file), str(place.request)]
    assert main([*site, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "asks for describe: 'x', 'g'; by 'y'; quantiles False" in shown
    assert main([*site, "--dry-run", "--approve", "Dr Bos"]) == 2
    assert main(site) == 2
    request = RequestFile.read(place.request).sha256
    assert main([*site, "--out", str(place.release), "--approve", "Dr Bos", "--sha256", request]) == 2
    approved = ["--approve", "Dr Bos", "--sha256", re.search("its SHA-256: ([0-9a-f]{64})", shown)[1]]
    assert main([*site, "--out", str(place.release), *approved]) == 0
    assert main(["result", str(place.request), str(place.release), "--out", files["result.json"]]) == 0
    direct = hdp.describe(
        hdp.Study(private=Seen(open_site(place.settings)), public=pd.read_csv(files["public.csv"])),
        ["x", "g"],
        by="y",
        quantiles=False,
        epsilon=0.5,
    )
    assert (tmp_path / "result.json").read_text() == direct.to_json()
    assert place.spent == 0.5

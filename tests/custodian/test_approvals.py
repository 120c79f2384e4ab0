"""What is approved is what is charged: that request, of that analyst, for those data, at most at that cost."""

import dataclasses
import errno
import json
import os

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats._base.errors import ChargedAgain
from hdpstats.custodian import SiteSettings, answering, approvals, approve, overview, preview
from hdpstats.custodian.approvals import NotApproved
from hdpstats.custodian.previewing import PreviewSite
from hdpstats.custodian.timing import Slots
from hdpstats.exchange import RequestFile, questions
from hdpstats.ledger import Ledger, leases
from hdpstats.sites import LocalSite
from tests.custodian.asked_by_files import PRICES, SIMPLE, Place, in_vain, killed, seen, with_entries
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import PRIVATE, SCHEMA


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, requests={"approval": "required"}, analysts={"ann": EVERYTHING, "bob": EVERYTHING})


def shown(place, **options):
    return seen(place, place.request, **options)


def test_a_file_that_was_exchanged_after_it_was_looked_at_is_not_approved(place):
    place.ask(*SIMPLE)
    before = shown(place, analyst="ann")
    place.ask("describe", ["x", "secret"], {"epsilon": 50})
    with pytest.raises(hdp.ArgumentError, match="all 64 digits"):
        place.answer(analyst="ann", by="Dr Bos", sha256=before)
    for sha256 in (before, shown(place, analyst="ann")[:12]):
        with pytest.raises(hdp.ArgumentError, match="all 64 digits"):
            approve(place.settings, place.request, by="Dr Bos", sha256=sha256, analyst="ann")
    with pytest.raises(hdp.ArgumentError, match="given together"):
        place.answer(analyst="ann", by="Dr Bos", sha256=None)
    assert not place.settings.approvals.exists() or not place.settings.approvals.read_text()
    assert place.spent == 0


def test_what_changed_since_the_dry_run_is_not_approved(place, monkeypatch):
    """Be it the settings, the version of the data, what was charged in vain, or the version that asks."""
    place.ask(*SIMPLE)
    entries = yaml.safe_load(place.file.read_text())
    for changed in (
        {"ledger": entries["ledger"] | {"version": 2}},
        {"analysts": entries["analysts"] | {"ann": EVERYTHING | {"columns": ["x", "g", "secret"]}}},
    ):
        before = shown(place, analyst="ann")
        with_entries(place, **changed)
        with pytest.raises(hdp.ArgumentError, match="is not what was looked at"):
            approve(place.settings, place.request, by="Dr Bos", sha256=before, analyst="ann")
    before = shown(place, analyst="ann")
    for target, name, value in (
        (Ledger, "in_vain", in_vain(place, place.request, 1, analyst="ann")),
        (approvals, "__version__", "9.9.9"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(target, name, value)
            with pytest.raises(hdp.ArgumentError, match="is not what was looked at"):
                approve(place.settings, place.request, by="Dr Bos", sha256=before, analyst="ann")
    with pytest.raises(hdp.ArgumentError, match="is not what was looked at"):
        approve(place.settings, place.request, by="Dr Bos", sha256=before, analyst="bob")
    assert not place.settings.approvals.exists()
    assert approve(place.settings, place.request, by="Dr Bos", sha256=before, analyst="ann").version == 2


def test_an_approval_is_for_one_analyst_and_one_version_of_the_data(place):
    place.ask(*SIMPLE)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    with pytest.raises(NotApproved):
        place.answer(analyst="bob")
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"]["version"] = 2
    place.file.write_text(yaml.safe_dump(entries))
    with pytest.raises(NotApproved):
        place.answer(analyst="ann")
    assert "not approved yet" in preview(place.settings, place.request, analyst="ann")
    assert place.spent == 0


def test_an_approval_is_for_one_data_set_of_an_account(place):
    place.ask(*SIMPLE)
    place.answer(analyst="ann", by="Dr Bos")
    ledger = place.ledger
    place_of_both = place.file.with_name("ledger.db")
    hdp.Ledger(place_of_both, dataset="other", epsilon=1000, delta=1e-3, same_people_as="trial", create=True)
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"] |= {"dataset": "other", "same_people_as": "trial"}
    place.file.write_text(yaml.safe_dump(entries))
    assert "not approved yet" in preview(place.settings, place.request, analyst="ann")
    with pytest.raises(NotApproved):
        place.answer(analyst="ann")
    assert ledger.spent.epsilon == 0.5
    place.answer(analyst="ann", by="Dr Bos")
    assert ledger.spent.epsilon == 1
    lines = place.settings.request_costs.read_text().splitlines()
    assert [json.loads(line)["dataset"] for line in lines] == ["trial", "other"]


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_what_was_charged_in_vain_needs_an_approval_of_its_own(place):
    place.ask(*SIMPLE)
    killed(lambda: place.answer(analyst="ann", by="Dr Bos"))
    assert place.spent == 0.5
    with pytest.raises(NotApproved, match="given anew"):
        place.answer(analyst="ann")
    words = preview(place.settings, place.request, analyst="ann")
    assert "of charges for this query 1 have no release" in words
    assert "before a charge was in vain" in words
    place.answer(analyst="ann", by="Dr Cox")
    by = [json.loads(line)["by"] for line in place.settings.approvals.read_text().splitlines()]
    assert by == ["Dr Bos", "Dr Cox"]
    assert (place.spent, bool(place.read().to_json())) == (1, True)


def test_going_on_under_a_charge_needs_an_approval_also_where_its_noise_is_kept(place, monkeypatch):
    """Though it charges nothing: the ledger may be away as a release is recorded."""
    place.ask(*SIMPLE)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "persist", away)
        with pytest.raises(hdp.LedgerError, match="disk is full"):
            place.answer(analyst="ann")
    assert place.spent == 0.5
    with pytest.raises(NotApproved, match="given anew"):
        place.answer(analyst="ann")
    assert (place.spent, place.release.exists()) == (0.5, False)
    place.answer(analyst="ann", by="Dr Bos")
    assert (place.spent, place.ledger.history()["released"].all()) == (0.5, True)


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_a_charge_that_others_went_beyond_is_covered_by_no_earlier_approval(tmp_path, monkeypatch):
    """A process fails after its charge; another charges the query once more, and records it."""
    place = Place(tmp_path, requests={"approval": "required"}, analysts=TWO)
    place.ask(*SIMPLE)
    asked = RequestFile.read(place.request)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    exchange, queries, answered = answering.Exchange(place.settings, prices=PRICES), [], LocalSite.answer
    with monkeypatch.context() as patched:
        patched.setattr(
            LocalSite, "answer", lambda self, query, **more: queries.append(query) or answered(self, query, **more)
        )
        patched.setattr(LocalSite, "_compute", lambda *_: 1 / 0)
        with pytest.raises(hdp.SiteError, match="did not complete"):
            exchange.answer(asked, analyst="ann", carried=True)
    monkeypatch.setattr(leases, "LAPSE", 0.0)
    child = os.fork()
    if not child:  # which has no such noise
        exchange._site.answer(queries[0], analyst="bob")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert place.spent == 1
    with pytest.raises(NotApproved):
        exchange.answer(asked, analyst="ann", carried=True)
    assert place.ledger.spent_by("ann").epsilon == 0.5
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    exchange.answer(asked, analyst="ann", carried=True)
    assert (place.spent, place.ledger.spent_by("ann").epsilon) == (1, 1)


def away(*_, **__):
    raise hdp.LedgerError("the ledger's disk is full")


TWO = {name: EVERYTHING | {"epsilon": 5} for name in ("ann", "bob")}


@pytest.mark.parametrize("approval", ["required", "none"])
@pytest.mark.parametrize("who", ["ann", "bob"])
def test_what_is_charged_meanwhile_over_a_network_is_covered_by_no_approval(tmp_path, monkeypatch, who, approval):
    """An approval is looked at before the charge, and holds for no more charges in vain than there were then."""
    place = Place(tmp_path, requests={"approval": approval}, analysts=TWO)
    place.ask(*SIMPLE)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    answer = Slots.answer

    def late(self, query, **options):
        if not place.spent:
            killed(lambda: self._site.answer(query, analyst=who))
        return answer(self, query, **options)

    monkeypatch.setattr(Slots, "answer", late)
    exchange = answering.Exchange(place.settings, prices=PRICES)
    is_free = (who, approval) == ("ann", "none")
    if is_free:  # charged in vain once, of twice that need no approval
        with pytest.warns(ChargedAgain):
            exchange.answer(RequestFile.read(place.request), analyst="ann", carried=True)
    else:
        with pytest.raises(NotApproved):
            exchange.answer(RequestFile.read(place.request), analyst="ann", carried=True)
    received = 0.5 if who == "ann" else 0
    assert (place.spent, place.ledger.spent_by("ann").epsilon) == ((1, 1) if is_free else (0.5, received))


def test_what_another_received_meanwhile_over_a_network_is_had(tmp_path, monkeypatch):
    place = Place(tmp_path, requests={"approval": "required"}, analysts=TWO)
    place.ask(*SIMPLE)
    answer = Slots.answer

    def late(self, query, **options):
        self._site.answer(query, analyst="bob")
        return answer(self, query, **options)

    monkeypatch.setattr(Slots, "answer", late)
    place.answer(analyst="ann", by="Dr Bos")
    assert (place.spent, place.ledger.spent_by("ann").epsilon) == (0.5, 0.5)


def test_approvals_that_were_written_earlier_are_read(place):
    """Where they name charges in vain over all queries, they are for none of them."""
    place.ask(*SIMPLE)
    place.answer(analyst="ann", by="Dr Bos")
    line = json.loads(place.settings.approvals.read_text()) | {"again": 1, "besides": {"0" * 64: 1}}
    place.settings.approvals.write_text(json.dumps(line) + "\n")
    found = approvals.approval_of(place.settings, answering.Exchange(place.settings)._site, line["request"], "ann")
    assert (found.by, dict(found.vain)) == ("Dr Bos", {})


def test_no_query_costs_more_than_the_request_says(place, monkeypatch):
    """Also where the code behind a kind is not what it was when the request was approved."""
    place.ask(*SIMPLE)
    dearer = dataclasses.replace(questions.KINDS["describe"], ask=lambda opened, spent: opened.release(epsilon=0.6))
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    monkeypatch.setattr(questions, "KINDS", {"describe": dearer})
    with pytest.raises(hdp.MechanismError, match="more than its request says"):
        place.answer(analyst="ann")
    assert place.spent == 0


@pytest.mark.parametrize("name", ["", "Dr\nBos", "\x1b[2K", "x" * 201])
def test_who_approves_is_a_name_on_one_line(place, name):
    place.ask(*SIMPLE)
    with pytest.raises(hdp.ArgumentError):
        place.answer(analyst="ann", by=name)
    assert place.spent == 0


def test_an_approval_that_cannot_be_written_leaves_nothing(place, monkeypatch):
    place.ask(*SIMPLE)
    place.settings.approvals.touch(mode=0o600)
    write, calls = os.write, []

    def full(number, content):
        calls.append(content)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(number, content[:40])

    with monkeypatch.context() as patched:
        patched.setattr(approvals.os, "write", full)
        with pytest.raises(hdp.LedgerError, match="No space left"):
            approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    assert place.settings.approvals.read_text() == ""
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    assert "approved by Dr Bos" in preview(place.settings, place.request, analyst="ann")


def test_a_last_line_that_an_editor_left_without_its_end_is_a_line_of_its_own(place):
    for epsilon in (0.5, 0.25):
        place.ask("describe", ["x"], {"epsilon": epsilon})
        place.answer(analyst="ann", by="Dr Bos")
        for path in (place.settings.approvals, place.settings.request_costs):
            path.write_text(path.read_text().removesuffix("\n"))
    assert "approved by Dr Bos" in preview(place.settings, place.request, analyst="ann")
    assert [
        len(path.read_text().splitlines()) for path in (place.settings.approvals, place.settings.request_costs)
    ] == [
        2,
        2,
    ]


def test_an_approval_whose_charge_was_in_vain_is_shown_to_be_used_up(place, monkeypatch):
    place.ask(*SIMPLE)
    with monkeypatch.context() as patched:
        patched.setattr(LocalSite, "_compute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.answer(analyst="ann", by="Dr Bos")
    said = overview(place.settings, requests=place.file.parent)
    assert (
        "for ann; a charge since has no release: it is computed now, or was in vain; then it waits for approval" in said
    )
    place.answer(analyst="ann", by="Dr Cox")
    said = overview(place.settings, requests=place.file.parent)
    assert "approved by Dr Cox" in said
    assert "waits for approval" not in said
    assert "in vain" not in said


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("content", ["{\n", "[]\n", '{"request": 1}\n', "[" * 100_000, "\xff"])
def test_approvals_that_cannot_be_read_approve_nothing(place, content):
    place.ask(*SIMPLE)
    place.settings.approvals.write_text(content, encoding="latin-1")
    place.settings.approvals.chmod(0o600)
    with pytest.raises(hdp.LedgerError, match="cannot be read"):
        place.answer(analyst="ann")
    place.settings.approvals.chmod(0o666)
    with pytest.raises(hdp.LedgerError, match="others than the owner may write"):
        place.answer(analyst="ann")
    assert place.spent == 0


def test_an_approval_is_of_the_bytes_that_are_answered(place, monkeypatch):
    """The file is read once: one that is exchanged between approval and answer is not what is answered."""
    place.ask(*SIMPLE)
    read, times = RequestFile.from_bytes, []

    def exchanged(content, **options):
        times.append(content)
        place.ask("describe", ["x", "secret"], {"epsilon": 50})
        return read(content, **options)

    asked, approved = RequestFile.read(place.request), shown(place, analyst="ann")
    monkeypatch.setattr(RequestFile, "from_bytes", exchanged)
    made = place.answer(analyst="ann", by="Dr Bos", sha256=approved)
    assert len(times) == 1
    assert made.request_sha256 == asked.sha256
    assert place.spent == 0.5


PERSONS = {"unit": "person", "max_rows_per_unit": 3, "n_max": 500}
FITS = {"mechanisms": "all", "models": ["regression"], "columns": ["x", "g"], "epsilon": 2}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"persons": PERSONS | {"n_max": 600}}, "n_max (then 500)"),
        ({"persons": PERSONS | {"max_rows_per_unit": 4}}, "max_rows_per_unit (then 3)"),
        ({"persons": PERSONS | {"row_order": "arbitrary"}}, "row_order (then undeclared)"),
        ({"analysts": {"ann": FITS | {"columns": ["x", "g", "secret"]}}}, "columns (then g, x)"),
        ({"analysts": {"ann": FITS | {"models": "all"}}}, "models (then regression)"),
        ({"analysts": {"ann": FITS | {"mechanisms": ["description", "count", "objective"]}}}, "mechanisms (then all)"),
        ({"analysts": {"ann": FITS | {"epsilon": 3}}}, "may receive (then epsilon 2, delta 0)"),
        ({"data": "others.parquet"}, "rows (then "),
    ],
)
def test_settings_that_decide_what_is_answered_are_part_of_an_approval(tmp_path, changed, named):
    place = Place(tmp_path, requests={"approval": "required"}, persons=PERSONS, analysts={"ann": FITS})
    (tmp_path / "others.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes())
    (tmp_path / "others.parquet").chmod(0o600)
    study = hdp.Study(schema=SCHEMA, unit="person", max_rows_per_unit=3, n_max=500)
    place.ask(*SIMPLE, study)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place))
    before = preview(place.settings, place.request)
    assert "approved by Dr Bos at" in before.splitlines()[-2]
    assert "n_max 500; row_order undeclared; people 500" in before
    with_entries(place, **changed)
    words = preview(place.settings, place.request)
    assert f"under other settings; changed since: {named}" in words
    assert "not approved yet" in words
    said = overview(place.settings, requests=tmp_path)
    assert f"under other settings; changed since: {named}" in said
    assert "waits for approval" in said
    with pytest.raises(NotApproved, match=r"approved this request at .* under other settings"):
        place.answer()
    assert place.spent == 0
    approve(place.settings, place.request, by="Dr Cox", sha256=shown(place))
    assert "approved by Dr Cox at" in preview(place.settings, place.request)


@pytest.mark.parametrize(
    ("columns", "others"), [(["all"], "all"), (["none"], []), (["g, x"], ["g", "x"]), (["x, y"], ["x", "y"])]
)
def test_no_name_of_a_column_passes_for_another_list(tmp_path, columns, others):
    place = Place(tmp_path)
    names = {name: hdp.Binary() for name in ("all", "none", "g, x", "x, y")}
    hdp.Schema({**dict(SCHEMA), **names}).to_yaml(tmp_path / "dictionary.yaml")
    decided = []
    for each in (columns, others):
        with_entries(place, analysts={"ann": EVERYTHING | {"columns": each}})
        site = PreviewSite(place.settings, place.ledger, analyst="ann", records=len(PRIVATE))
        decided.append(approvals.decided_by(place.settings, site, "ann"))
    assert decided[0] != decided[1]


def test_another_number_of_people_is_part_of_an_approval(place):
    place.ask(*SIMPLE)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    PRIVATE.head(300).to_parquet(place.file.with_name("rows.parquet"))
    assert "changed since: people (then 397)" in preview(place.settings, place.request, analyst="ann")
    with pytest.raises(NotApproved, match=r"changed since: people \(then 397\)"):
        place.answer(analyst="ann")
    assert place.spent == 0


def test_what_changes_only_when_an_answer_leaves_is_no_part_of_an_approval(place):
    place.ask(*SIMPLE)
    approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    with_entries(
        place,
        timing={"grid": 0.01, "factor": 2, "requests": 10**8, "overruns": 10**8},
        limits={"analysis": 500, "computing": 1},
        log={"file": "site.log"},
        disclosure={"purpose": "research"},
    )
    place.answer(analyst="ann")
    assert place.spent == 0.5


def test_every_entry_of_the_settings_is_a_part_of_an_approval_or_is_not():
    """Who adds one says which: whether it decides what is asked of whom, or what is released."""
    decides = {"data", "rows", "dictionary", "ledger", "persons", "analysts"}
    who_asks_and_answers = {"requests", "signing", "listen", "tls", "identities"}
    whether_served = {"acknowledged"}
    when_and_where = {"heads", "state", "disclosure", "health", "log", "limits", "timing"}
    words = {"format", "version"}
    assert set(SiteSettings.model_fields) == decides | who_asks_and_answers | whether_served | when_and_where | words


def test_an_approval_without_settings_approves_nothing(place):
    place.ask(*SIMPLE)
    made = approve(place.settings, place.request, by="Dr Bos", sha256=shown(place, analyst="ann"), analyst="ann")
    older = {name: value for name, value in dataclasses.asdict(made).items() if name != "settings"}
    place.settings.approvals.write_text(json.dumps(older) + "\n")
    with pytest.raises(NotApproved, match="not written down"):
        place.answer(analyst="ann")
    assert place.spent == 0

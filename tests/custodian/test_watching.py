"""A folder of requests: answered, refused or waiting, whoever writes what into it."""

import errno
import fcntl
import json
import math
import os
import shutil
import signal
import stat
import sys
import types
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.custodian import (
    SiteSettings,
    answering,
    approvals,
    approve,
    note,
    open_site,
    overview,
    preview,
    request_costs,
    watching,
)
from hdpstats.custodian.answering import ENDED
from hdpstats.custodian.capacity import Clock
from hdpstats.custodian.files import append_line
from hdpstats.custodian.request_costs import CARRIED_AGAIN
from hdpstats.custodian.timing import Slots
from hdpstats.custodian.watching import Watch
from hdpstats.exchange import ReleaseFile, RequestFile, RequestName, questions, read_result
from hdpstats.ledger import Ledger, SigningKey, VerifyingKey
from hdpstats.sites import LocalSite
from hdpstats.sites.site import HeldData
from tests import forked
from tests.custodian.asked_by_files import (
    PRICES,
    QUESTIONS,
    SIMPLE,
    STUDY,
    WEIGHTED,
    Place,
    Seen,
    in_vain,
    killed,
    seen,
    with_entries,
)
from tests.custodian.institution import EVERYTHING, open_account
from tests.custodian.people import PRIVATE, SCHEMA
from tests.waiting import until

CAPPED = {"analysts": {"ann": EVERYTHING | {"epsilon": 2}, "bob": EVERYTHING | {"epsilon": 1}}}


class Folders(Place):
    """A hospital with an inbox and an outbox."""

    def __init__(self, folder, **entries):
        super().__init__(folder, **entries)
        self.inbox, self.outbox = folder / "inbox", folder / "outbox"
        for path in (self.inbox, self.inbox / "ann", self.inbox / "bob", self.outbox):
            path.mkdir()

    def put(self, name, kind=SIMPLE, *, folder="ann", **options):
        (self.inbox / folder / name).unlink(missing_ok=True)
        asked = hdp.request(kind[0], kind[1], STUDY, path=self.inbox / folder / name, **kind[2], **options)
        return asked, self.outbox / "ann" / f"{asked.sha256}.json"

    def approve(self, path, *, by="Dr Bos", analyst="ann"):
        return approve(self.settings, path, by=by, sha256=seen(self, path, analyst=analyst), analyst=analyst)

    def watch(self, clock=Clock()):  # noqa: B008
        return Watch(self.settings, self.inbox, self.outbox, prices=PRICES, clock=clock)


@pytest.fixture
def place(tmp_path):
    return Folders(tmp_path, **CAPPED)


@pytest.fixture(autouse=True)
def without_haste(monkeypatch):
    """Let a round come to all files, however long they take."""
    monkeypatch.setattr(watching, "ROUND", math.inf)


def answers(place):
    return sorted(str(path.relative_to(place.outbox)) for path in place.outbox.rglob("*") if path.is_file())


def test_requests_are_answered_once_and_read_back(place):
    asked, release = place.put("one.json")
    watch = place.watch()
    assert watch.sweep() == 1
    spent, first = place.spent, release.read_bytes()
    assert spent == 0.5
    assert read_result(release, asked).to_json()
    assert stat.S_IMODE(release.stat().st_mode) == 0o640
    assert watch.sweep() == 0
    place.put("again.json")
    assert watch.sweep() == 1
    assert place.watch().sweep() == 2  # a process that starts anew
    assert (place.spent, release.read_bytes(), answers(place)) == (spent, first, [f"ann/{asked.sha256}.json"])


def test_whose_folder_a_file_is_in_says_who_asks(place):
    place.put("one.json", folder="bob")
    place.watch().sweep()
    assert place.ledger.spent_by("bob").epsilon == 0.5
    assert place.ledger.spent_by("ann").epsilon == 0
    assert [name.split("/")[0] for name in answers(place)] == ["bob"]


def test_a_signed_request_is_its_signers_wherever_it_lies(tmp_path):
    tmp_path.chmod(0o700)
    private, public = SigningKey.generate().write(tmp_path / "ann")
    place = Folders(tmp_path, **CAPPED, requests={"keys": {"ann": str(public)}, "unsigned": "refused"})
    place.put("one.json", folder=".", key=private)
    asked, _ = place.put("two.json", folder="bob", key=private)
    place.put("three.json", folder="bob")
    place.watch().sweep()
    assert answers(place) == [f"ann/{asked.sha256}.json"]
    assert place.ledger.spent_by("ann").epsilon == 0.5


def test_a_refusal_is_one_of_the_services_codes_and_holds_until_the_file_changes(place):
    asked, release = place.put("one.json", ("describe", ["x", "g"], {"epsilon": 3}))
    watch = place.watch()
    assert watch.sweep() == 1
    refused = release.with_name(f"{asked.sha256}.refused.json")
    expected = {"format": "hdpstats refusal 1", "request": asked.sha256, "error": "insufficient-budget"}
    assert json.loads(refused.read_text()) == expected
    with pytest.raises(hdp.InsufficientBudget, match="more than is left"):
        read_result(refused, asked)
    with pytest.raises(hdp.ArgumentError, match="the refusal of another request"):
        read_result(refused, hdp.request("describe", ["x"], STUDY, epsilon=0.5))
    assert watch.sweep() == 0
    assert place.spent == 0


RAISED = {"analysts": {"ann": EVERYTHING | {"epsilon": 5}, "bob": EVERYTHING | {"epsilon": 1}}}


def test_what_was_refused_is_charged_once_somebody_approved_it(place):
    asked, release = place.put("one.json", ("describe", ["x", "g"], {"epsilon": 3}))
    place.watch().sweep()
    refused = release.with_name(f"{asked.sha256}.refused.json")
    assert refused.exists()
    with_entries(place, **RAISED)
    watch = place.watch()
    assert (watch.sweep(), watch.sweep(), place.spent, refused.exists()) == (0, 0, 0, True)
    said = overview(place.settings, requests=place.inbox)
    assert "at the last look of a watched folder it waited, from ann" in said
    assert "it was refused before" in said
    place.approve(place.inbox / "ann" / "one.json", by="Dr Bos")
    assert (watch.sweep(), place.spent, release.exists(), refused.exists()) == (1, 3, True, False)
    assert "it waited" not in overview(place.settings, requests=place.inbox)


def test_what_was_refused_is_not_charged_to_another_account(place):
    place.put("one.json", ("describe", ["x", "g"], {"epsilon": 3}))
    place.watch().sweep()
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"] |= {"dataset": "second trial", "epsilon": 10}
    with_entries(place, **entries | RAISED)
    open_account(yaml.safe_load(place.file.read_text()), place.file.parent)
    assert place.watch().sweep() == 0
    for dataset in ("trial", "second trial"):
        assert hdp.Ledger.open_existing(place.file.with_name("ledger.db"), dataset=dataset).spent.epsilon == 0


def test_who_writes_a_refused_request_again_asks_anew(place):
    kind = ("describe", ["x", "g"], {"epsilon": 3})
    asked, release = place.put("one.json", kind)
    path, refused = place.inbox / "ann" / "one.json", release.with_name(f"{asked.sha256}.refused.json")
    os.utime(path, ns=(0, 2**62))  # of a computer with another clock
    place.watch().sweep()
    with_entries(place, **RAISED)
    for changed in (lambda: path.chmod(0o600), lambda: path.rename(path.with_name("two.json"))):
        changed()
        assert (place.watch().sweep(), place.spent) == (0, 0)
    os.utime(refused, ns=(0, 1))
    place.put("one.json", kind)
    assert (place.watch().sweep(), place.spent, release.exists()) == (2, 3, True)


YEAR_3000 = 32_503_680_000 * 10**9
UTIME = os.utime


LAST = 15_032_385_535 * 10**9
"""The latest time of ext4, in 2446."""


def clamping(path, times=None, *, ns=None):
    UTIME(path, times) if ns is None else UTIME(path, ns=tuple(min(each, LAST) for each in ns))


def refusing(path, times=None, *, ns=None):
    if ns is not None and max(ns) > LAST:
        raise OverflowError("timestamp out of range for platform time_t")
    UTIME(path, times) if ns is None else UTIME(path, ns=ns)


@pytest.mark.parametrize("utime", [clamping, refusing])
@pytest.mark.parametrize("written", [YEAR_3000, (2**63 - 1) * 10**9])
def test_the_refusal_of_a_file_that_is_written_in_no_time_holds_and_others_go_on(place, monkeypatch, utime, written):
    kind = ("describe", ["x", "g"], {"epsilon": 3})
    asked, release = place.put("one.json", kind)
    _, other = place.put("two.json")
    found = watching.Found

    def late(*, folder, name, mark):
        return found(folder=folder, name=name, mark=(*mark[:3], written, mark[4]) if name == "one.json" else mark)

    monkeypatch.setattr(watching, "Found", late)
    monkeypatch.setattr(os, "utime", utime)
    assert place.watch().sweep() == 2
    assert release.with_name(f"{asked.sha256}.refused.json").exists()
    assert other.exists()
    with_entries(place, **RAISED)
    for _ in range(2):
        place.watch().sweep()
        assert (place.spent, release.exists()) == (0.5, False)


def test_no_failure_of_one_file_ends_the_watch(place, monkeypatch, caplog):
    place.put("one.json", ("describe", ["x", "g"], {"epsilon": 3}))
    _, other = place.put("two.json", ("describe", ["x"], {"epsilon": 0.25}))
    watch, written = place.watch(), watching._write

    def failing(name, *given, since):
        if since:
            raise RuntimeError
        written(name, *given, since=since)

    monkeypatch.setattr(watching, "_write", failing)
    with caplog.at_level("INFO"):
        assert [watch.sweep(), watch.sweep()] == [1, 0]
    assert other.exists()
    assert sum("failed" in str(each.__dict__) and "one.json" in str(each.__dict__) for each in caplog.records) == 1
    monkeypatch.undo()
    assert watch.sweep() == 1
    assert [name for name in answers(place) if "refused" in name]


def test_files_that_are_no_requests_stop_nobody(place):
    for folder in (place.inbox, place.inbox / "ann"):
        (folder / "garbage.json").write_text("{" * 10_000)
        (folder / "empty.json").touch()
        (folder / "bytes.json").write_bytes(bytes(range(256)))
        (folder / ".hidden.json").write_text("{}")
        (folder / "half.json.part").write_text("{}")
        (folder / "folder.json").mkdir()
        (folder / "link.json").symlink_to(place.file)
        (folder / "zero.json").symlink_to("/dev/zero")
        os.mkfifo(folder / "pipe.json")
    (place.inbox / "eve").mkdir()
    (place.inbox / "eve" / "one.json").write_text("{}")
    asked, _ = place.put("one.json")
    assert place.watch().sweep() == 1
    assert answers(place) == [f"ann/{asked.sha256}.json"]


def test_no_link_leads_out_of_the_folders(place, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place.outbox / "ann").symlink_to(elsewhere)
    place.put("one.json")
    watch = place.watch()
    watch.sweep()
    assert not list(elsewhere.iterdir())
    (place.outbox / "ann").unlink()
    (place.inbox / "bob").rmdir()
    (place.inbox / "bob").symlink_to(place.inbox / "ann")
    watch.sweep()
    assert place.ledger.spent_by("bob").epsilon == 0


def test_requests_wait_for_their_approval(tmp_path):
    place = Folders(tmp_path, requests={"approval": "required"})
    _, release = place.put("one.json")
    watch = place.watch()
    watch.sweep()
    assert (watch.sweep(), place.spent, answers(place)) == (0, 0, [])
    request = place.inbox / "ann" / "one.json"
    place.approve(request, by="Dr Bos")
    assert watch.sweep() == 1
    assert release.exists()
    assert place.spent == 0.5


def test_an_approval_that_comes_while_its_request_is_found_to_wait_is_seen(tmp_path, monkeypatch):
    place = Folders(tmp_path, requests={"approval": "required"})
    _, release = place.put("one.json")
    request, answered = place.inbox / "ann" / "one.json", answering.Exchange.answer

    def approved_afterwards(self, *positional, **options):
        try:
            return answered(self, *positional, **options)
        finally:
            place.approve(request, by="Dr Bos")

    watch = place.watch()
    with monkeypatch.context() as patched:
        patched.setattr(answering.Exchange, "answer", approved_afterwards)
        assert (watch.sweep(), place.spent) == (0, 0)
    assert (watch.sweep(), release.exists()) == (1, True)


@pytest.mark.filterwarnings("ignore:this release was charged 2 times")
def test_what_was_charged_in_vain_waits_for_another_approval(tmp_path, monkeypatch):
    place = Folders(tmp_path, requests={"approval": "required"})
    _, release = place.put("one.json")
    request = place.inbox / "ann" / "one.json"
    place.approve(request, by="Dr Bos")
    ended(place, monkeypatch)
    watch = place.watch()
    assert (watch.sweep(), watch.sweep(), answers(place), place.spent) == (0, 0, [], 0.5)
    place.approve(request, by="Dr Cox")
    assert (watch.sweep(), release.exists()) == (1, True)


@pytest.mark.filterwarnings("ignore:this release was charged 4 times")
def test_a_request_that_ends_the_process_each_time_is_charged_few_times(place, monkeypatch):
    """As one does that takes more memory than there is, where the system starts the process anew."""
    _, release = place.put("one.json")
    ended(place, monkeypatch, times=CARRIED_AGAIN + 1)
    watch = place.watch()
    assert (watch.sweep(), watch.sweep(), place.spent, answers(place)) == (0, 0, 1.5, [])
    place.approve(place.inbox / "ann" / "one.json", by="Dr Bos")
    assert (watch.sweep(), release.exists(), place.spent) == (1, True, 2)


def ended(place, patched, times=1):
    """Have processes end that look into the folders and compute."""
    for _ in range(times):
        child = os.fork()
        if not child:
            patched.setattr(LocalSite, "_compute", lambda *_: os._exit(9))
            place.watch().sweep()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("approval", ["none", "required"])
@pytest.mark.filterwarnings("ignore:this release was charged")
def test_what_others_were_charged_in_vain_is_charged_once_somebody_approved_it(tmp_path, monkeypatch, approval):
    """Who receives their release is charged it too: more than the request says."""
    place = Folders(tmp_path, **CAPPED, requests={"approval": approval})
    kind, path, other = ("describe", ["x", "g"], {"epsilon": 0.25}), place.inbox / "ann" / "b.json", None
    asked, release = place.put("b.json", kind, folder="bob")
    sign = place.approve
    other = place.inbox / "bob" / "b.json"
    sign(other, analyst="bob")
    ended(place, monkeypatch)
    other.rename(other.with_suffix(".later"))
    place.put("b.json", kind)
    if approval == "required":  # given when nothing had been charged for others
        before = approvals.approval_of(place.settings, place.watch()._exchange._site, asked.sha256, "bob")
        line = asdict(before) | {"analyst": "ann", "settings": {**before.settings, "may receive": "epsilon 2, delta 0"}}
        append_line(place.settings.approvals, json.dumps(line) + "\n")
    watch = place.watch()
    assert (watch.sweep(), place.spent, place.ledger.spent_by("ann").epsilon) == (0, 0.25, 0)
    assert "waited, from ann: approve must be given" in overview(place.settings, requests=place.inbox)
    words = preview(place.settings, path, analyst="ann")
    assert "is charged epsilon = 0.25, delta = 0 besides" in words
    assert "waits until" in words or "approves it anew" in words
    first = sign(path, analyst="ann")
    assert sum(first.vain.values()) == 1
    other.with_suffix(".later").rename(other)
    path.rename(path.with_suffix(".later"))
    sign(other, analyst="bob")
    ended(place, monkeypatch)  # which the approval does not cover
    path.with_suffix(".later").rename(path)
    other.unlink()
    assert (watch.sweep(), place.spent, place.ledger.spent_by("ann").epsilon) == (0, 0.5, 0)
    assert sum(sign(path, analyst="ann").vain.values()) == 2
    assert (watch.sweep(), release.exists(), place.spent) == (1, True, 0.75)
    assert place.ledger.spent_by("ann").epsilon == 0.75


def test_old_requests_are_not_charged_at_another_version_of_the_data(place):
    _, release = place.put("one.json")
    place.watch().sweep()
    first = release.read_bytes()
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"]["version"] = 2
    place.file.write_text(yaml.safe_dump(entries))
    watch = place.watch()
    assert (watch.sweep(), place.spent, release.read_bytes()) == (0, 0.5, first)
    place.put("two.json", (*SIMPLE[:2], {"epsilon": 0.25, "replicate": 2}))
    assert (watch.sweep(), place.spent) == (1, 0.75)
    place.approve(place.inbox / "ann" / "one.json", by="Dr Bos")
    assert (watch.sweep(), place.spent, release.read_bytes() != first) == (1, 1.25, True)


def test_another_replicate_of_an_old_fit_is_charged_at_another_version_of_the_data(place):
    """All its queries are others: none is an old one. One that another request asked before is."""
    fit = ("logit", QUESTIONS["logit"][1], {"epsilon": 0.5})
    place.put("one.json", fit)
    assert place.watch().sweep() == 1
    spent = place.spent
    entries = yaml.safe_load(place.file.read_text())
    with_entries(place, ledger=entries["ledger"] | {"version": 2})
    watch = place.watch()
    changed, _ = place.put("one.json", fit)
    path = place.inbox / "ann" / "one.json"
    path.unlink()
    replace(changed, version="0.0.9").write(path)
    assert (watch.sweep(), place.spent) == (0, spent)
    assert "charged for other data" in preview(place.settings, path, analyst="ann")
    place.put("two.json", (*fit[:2], fit[2] | {"replicate": 2}))
    assert (watch.sweep(), place.spent) == (1, 2 * spent)


def test_old_requests_are_not_charged_to_another_account(place):
    """As where other people, or a new ledger, come to a site whose inbox has what was asked before."""
    place.put("one.json")
    place.watch().sweep()
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"] |= {"dataset": "second trial", "epsilon": 10}
    place.file.write_text(yaml.safe_dump(entries))
    open_account(entries, place.file.parent)
    spent = lambda: hdp.Ledger.open_existing(place.file.with_name("ledger.db"), dataset="second trial").spent.epsilon  # noqa: E731
    assert (place.watch().sweep(), spent()) == (0, 0)
    assert "waits for approval, as it was charged" in overview(place.settings, requests=place.inbox)
    place.approve(place.inbox / "ann" / "one.json", by="Dr Bos")
    assert (place.watch().sweep(), spent()) == (1, Fraction(1, 2))
    (place.inbox / "ann" / "one.json").unlink()
    place.put("two.json", (*SIMPLE[:2], {"epsilon": 0.25}))
    assert (place.watch().sweep(), spent()) == (1, Fraction(3, 4))


def test_old_requests_are_not_charged_under_other_terms(tmp_path):
    """To a ledger the same query under other terms is another one: it is not in what the request was charged."""
    persons = {"unit": "person", "max_rows_per_unit": 3, "n_max": 500}
    place = Folders(tmp_path, persons=persons)
    PRIVATE.assign(person=range(len(PRIVATE))).to_parquet(tmp_path / "rows.parquet")
    path = place.inbox / "ann" / "one.json"
    hdp.request("describe", ["x"], hdp.Study(schema=SCHEMA, **persons), epsilon=0.5, path=path)
    assert (place.watch().sweep(), place.spent) == (1, 0.5)
    entries = yaml.safe_load(place.file.read_text())
    entries["persons"]["n_max"] = 600
    place.file.write_text(yaml.safe_dump(entries))
    assert (place.watch().sweep(), place.spent) == (0, 0.5)
    assert "as it was charged for other data, at another version of them or under other terms" in overview(
        place.settings, requests=place.inbox
    )
    place.approve(path, by="Dr Bos")
    assert (place.watch().sweep(), place.spent) == (1, 1)


def test_what_was_released_for_another_request_is_not_charged_at_another_version_of_the_data(place):
    """An old request that cost nothing, as its query was released before, is an old one all the same."""
    asked, _ = place.put("one.json")
    place.watch().sweep()
    (place.inbox / "ann" / "one.json").unlink()
    replace(asked, version="0.0.9").write(place.inbox / "ann" / "two.json")
    assert (place.watch().sweep(), place.spent) == (1, 0.5)
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"]["version"] = 2
    place.file.write_text(yaml.safe_dump(entries))
    assert (place.watch().sweep(), place.spent) == (0, 0.5)


def weighted_at_the_next_version(folder, copies=0):
    """Return a hospital that answered a file, and copies of it, at version 1 and is at 2; and the propensity model."""
    place = Folders(folder)
    weighted = WEIGHTED["weighted logit"]
    asked, _ = place.put("weighted.json", weighted)
    for number in range(copies):
        replace(asked, version=f"0.0.{number}").write(place.inbox / "ann" / f"copy{number}.json")
    assert (place.watch().sweep(), place.spent) == (1 + copies, 2)
    with_entries(place, ledger=yaml.safe_load(place.file.read_text())["ledger"] | {"version": 2})
    assert (place.watch().sweep(), place.spent) == (0, 2)
    options = weighted[2]
    return place, ("propensity", options["propensity_formula"], {"epsilon": options["propensity_epsilon"]})


def test_an_old_request_waits_after_a_fit_over_a_network_was_charged_for_its_first_part(tmp_path):
    place, propensity = weighted_at_the_next_version(tmp_path)
    first = hdp.request(propensity[0], propensity[1], STUDY, **propensity[2])
    with first.in_its_recipe():
        first.question.ask(first.study(Seen(open_site(place.settings))))
    for _ in range(3):
        assert (place.watch().sweep(), place.spent) == (0, 3)
    assert "waits for approval, as it was charged for other data" in overview(place.settings, requests=place.inbox)
    path = place.inbox / "ann" / "weighted.json"
    assert "it was charged for other data" in preview(place.settings, path, analyst="ann")
    place.approve(path)
    assert (place.watch().sweep(), place.spent) == (1, 4)
    assert "other data" not in overview(place.settings, requests=place.inbox)


def test_old_copies_wait_after_another_request_was_charged_for_their_first_part(tmp_path):
    place, propensity = weighted_at_the_next_version(tmp_path, copies=2)
    place.put("propensity.json", propensity)
    place.approve(place.inbox / "ann" / "propensity.json")
    for _ in range(4):  # that one alone is answered
        assert (place.watch().sweep(), place.spent) == (1, 3)


def test_a_refusal_of_a_copy_says_that_its_query_was_charged(place):
    asked, release = place.put("one.json")
    copy = replace(asked, version="0.0.9")
    copy.write(place.inbox / "ann" / "two.json")
    assert (place.watch().sweep(), place.spent) == (2, 0.5)
    with_entries(place, analysts=CAPPED["analysts"] | {"ann": EVERYTHING | {"epsilon": 2, "columns": ["x"]}})
    for each in (asked, copy):
        release.with_name(f"{each.sha256}.json").unlink()
    place.watch().sweep()
    for each in (asked, copy):
        refused = json.loads(release.with_name(f"{each.sha256}.refused.json").read_text())
        assert (refused["error"], refused["charged_before"]) == ("forbidden", True)


def test_what_an_outbox_that_is_away_did_not_take_is_put_there_when_it_is_back(place, monkeypatch):
    asked, release = place.put("one.json")
    refused, refusal = place.put("two.json", ("describe", ["x", "g"], {"epsilon": 3}))
    watch, away = place.watch(), place.outbox.with_name("away")
    place.outbox.rename(away)
    assert (watch.sweep(), place.spent, answers(place)) == (0, 0, [])  # which requests were refused is not known
    answered = answering.Exchange.answer

    def taken_away(self, *positional, **options):
        try:
            return answered(self, *positional, **options)
        finally:
            place.outbox.rename(away)

    monkeypatch.setattr(answering.Exchange, "answer", taken_away)
    for _ in range(2):  # the first, and the second, is answered when the outbox is there, and not when it is written
        away.rename(place.outbox)
        assert watch.sweep() == 1
    assert place.spent == 0.5
    monkeypatch.undo()
    away.rename(place.outbox)
    assert (watch.sweep(), watch.sweep(), place.spent) == (2, 0, 0.5)
    assert release.exists()
    assert refusal.with_name(f"{refused.sha256}.refused.json").exists()
    assert read_result(release, asked).to_json()


def test_a_ledger_that_is_away_takes_no_place_of_a_refusal_that_holds(place):
    asked, release = place.put("one.json", ("describe", ["x", "g"], {"epsilon": 3}))
    place.watch().sweep()
    with_entries(place, **RAISED)
    watch, ledger = place.watch(), place.file.with_name("ledger.db")
    ledger.rename(ledger.with_name("away.db"))
    watch.sweep()
    refused = release.with_name(f"{asked.sha256}.refused.json")
    assert json.loads(refused.read_text())["error"] == "insufficient-budget"
    ledger.with_name("away.db").rename(ledger)
    assert (watch.sweep(), place.spent, refused.exists()) == (0, 0, True)


OPEN, FOLDER, GARBAGE, AWAY = "others may write it", "it is a folder", "it is something else", "it is away"


@contextmanager
def unusable(path, how):
    """Let a file of the site be what it cannot use, and then what it was."""
    away = path.with_name(f"{path.name}.away")
    if how is OPEN:
        shutil.copy(path, away)
        path.chmod(0o666)
    else:
        path.rename(away)
    if how is FOLDER:
        path.mkdir()
    elif how is GARBAGE:
        path.write_bytes(b"no such file\n")
    try:
        yield
    finally:
        path.rmdir() if how is FOLDER else path.unlink(missing_ok=True)
        away.rename(path)


FAULTS = [
    *((name, how) for name in ("site.answering.lock", "site.overruns.db", "heads/head.json") for how in (FOLDER,)),
    *((name, how) for name in ("site.approvals.jsonl", "site.request-costs.jsonl") for how in (OPEN, FOLDER, GARBAGE)),
    *((name, GARBAGE) for name in ("site.overruns.db", "heads/head.json", "ledger.db", "ann.pub", "bob.pub")),
    *((name, OPEN) for name in ("site.answering.lock", "ann.pub")),
    *((name, AWAY) for name in ("site.approvals.jsonl", "site.overruns.db", "ledger.db", "ann.pub", "bob.pub")),
    ("ledger.db", FOLDER),
]


@pytest.fixture
def whole(tmp_path):
    """A watched site that keeps all that a site can keep, and has answered once."""
    (tmp_path / "heads").mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    keys = {name: SigningKey.generate().write(tmp_path / name) for name in ("ann", "bob", "site")}
    public = {name: str(keys[name][1]) for name in ("ann", "bob")}
    place = Folders(
        tmp_path,
        **CAPPED,
        requests={"keys": public, "approval": "required"},
        heads={"file": "heads/head.json"},
        signing={"key": "site.key"},
    )
    note(place.settings)
    for number in range(2):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.25, "replicate": number + 1}), key=keys["ann"][0])
        place.approve(place.inbox / "ann" / f"{number}.json")
    later = place.inbox / "ann" / "1.json"
    later.rename(later.with_suffix(".later"))
    watch = place.watch()
    assert watch.sweep() == 1
    later.with_suffix(".later").rename(later)
    return place, watch


@pytest.mark.parametrize(("name", "how"), FAULTS, ids=lambda value: value.replace(" ", "-"))
def test_what_the_site_cannot_use_of_its_own_refuses_no_request(whole, name, how):
    place, watch = whole
    before = answers(place)
    with unusable(place.file.parent / name, how):
        assert (watch.sweep(), watch.sweep(), answers(place)) == (0, 0, before)
    assert watch.sweep() == 1
    assert (place.spent, len(place.ledger.history()), len(answers(place))) == (0.5, 2, 2)
    assert not [each for each in answers(place) if "refused" in each]


def test_a_folder_of_the_state_that_others_may_write_refuses_no_request(whole):
    place, watch = whole
    before = answers(place)
    place.file.parent.chmod(0o777)
    assert (watch.sweep(), answers(place)) == (0, before)
    place.file.parent.chmod(0o700)
    assert (watch.sweep(), place.spent) == (1, 0.5)


def test_a_signing_key_is_read_when_the_watch_starts(whole):
    place, watch = whole
    with unusable(place.file.with_name("site.key"), GARBAGE):
        assert (watch.sweep(), place.spent) == (1, 0.5)
    for name in answers(place):
        key = place.file.with_name("site.pub")
        ReleaseFile.read(place.outbox / name).check_signature(VerifyingKey.read(key))


def test_a_ledger_that_is_away_after_a_first_answer_cuts_no_answer_off(place, monkeypatch):
    _, release = place.put("fit.json", ("logit", QUESTIONS["logit"][1], {"epsilon": 0.5}))
    ask = answering.Exchange._ask

    def away(self, *given):
        ask(self, *given)
        raise hdp.LedgerError("it is away")

    watch = place.watch()
    with monkeypatch.context() as patched:
        patched.setattr(answering.Exchange, "_ask", away)
        assert (watch.sweep(), answers(place), place.spent > 0) == (0, [], True)
    spent = place.spent
    assert (watch.sweep(), release.exists(), place.spent) == (1, True, spent)


def test_a_fault_of_the_system_refuses_no_request(place, monkeypatch):
    _, release = place.put("one.json")
    watch = place.watch()
    with monkeypatch.context() as patched:
        patched.setattr(questions.Question, "ask", full_disk)
        assert (watch.sweep(), watch.sweep(), answers(place), place.spent) == (0, 0, [], 0)
    assert (watch.sweep(), release.exists()) == (1, True)


def test_a_request_that_ends_each_process_does_not_keep_the_others(place, monkeypatch):
    """As one does before its charge whose public rows and terms take more memory than there is."""
    deadly, release = place.put("one.json")
    place.put("two.json", ("describe", ["x"], {"epsilon": 0.25}), folder="bob")
    asking = answering.Exchange._ask

    def ending(self, asked, *rest):
        return os._exit(9) if asked.sha256 == deadly.sha256 else asking(self, asked, *rest)

    watch = place.watch()
    monkeypatch.setattr(answering.Exchange, "_ask", ending)
    for _ in range(ENDED):
        child = os.fork()
        if not child:
            watch.sweep()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [name.split("/")[0] for name in answers(place)] == ["bob"]
    watch.sweep()
    assert release.with_name(f"{deadly.sha256}.refused.json").exists()
    assert [name.split("/")[0] for name in answers(place)] == ["ann", "bob"]
    assert place.spent == 0.25
    monkeypatch.undo()
    place.request = place.inbox / "ann" / "one.json"
    place.answer(analyst="ann")  # the custodian has it answered, and then it is as any other
    assert (place.watch().sweep(), release.exists()) == (2, True)


def ending_at(place, monkeypatch, deadly):
    """Have as many processes end as may, which look into the folders and read a request."""
    reading = RequestFile.from_bytes

    def ending(content, **options):
        return os._exit(9) if RequestName.of(content) == deadly.name else reading(content, **options)

    with monkeypatch.context() as patched:
        patched.setattr(RequestFile, "from_bytes", ending)
        for _ in range(ENDED):
            child = os.fork()
            if not child:
                place.watch().sweep()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("folder", ["ann", "."])
def test_a_request_that_ends_each_process_which_reads_it_does_not_keep_the_others(tmp_path, monkeypatch, folder):
    """As one does whose public rows take more memory than there is; also one that is signed, in the inbox itself."""
    tmp_path.chmod(0o700)
    private, public = SigningKey.generate().write(tmp_path / "ann")
    keys = {} if folder == "ann" else {"requests": {"keys": {"ann": str(public)}, "unsigned": "admitted"}}
    place = Folders(tmp_path, **CAPPED, **keys)
    deadly, release = place.put("one.json", folder=folder, **({"key": private} if keys else {}))
    place.put("two.json", ("describe", ["x"], {"epsilon": 0.25}), folder="bob")
    ending_at(place, monkeypatch, deadly)
    assert [name.split("/")[0] for name in answers(place)] == ["bob"]
    monkeypatch.setattr(watching.RequestFile, "from_bytes", lambda *_, place: pytest.fail(place))
    (place.inbox / "bob" / "two.json").unlink()
    watch = place.watch()
    watch.sweep()
    refused = release.with_name(f"{deadly.sha256}.refused.json")
    assert json.loads(refused.read_text())["error"] == "ended"
    with pytest.raises(hdp.SiteError, match="until its custodian has it answered"):
        read_result(refused, deadly)
    monkeypatch.undo()
    monkeypatch.setattr(watching, "ROUND", math.inf)
    place.request = place.inbox / folder / "one.json"
    place.answer(**({} if keys else {"analyst": "ann"}))  # the custodian has it answered, and then it is as any other
    assert (place.watch().sweep(), release.exists(), refused.exists()) == (1, True, False)


def test_a_request_is_known_by_its_bytes(place):
    private = SigningKey.generate()
    for asked in (place.put("one.json")[0], place.put("two.json", key=private)[0]):
        for end in ("", "\n"):
            assert RequestName.of((asked.to_json() + end).encode()) == asked.name
        RequestName.of(asked.to_json().encode()).check_signature(private.public) if asked.signature else None
    assert RequestName.of(b"").signature is None


def test_a_refusal_says_that_an_earlier_query_was_charged(place, monkeypatch):
    asked, release = place.put("fit.json", ("logit", QUESTIONS["logit"][1], {"epsilon": 0.5}))
    answered = LocalSite.answer

    def once(self, query, **options):
        if place.spent:
            raise hdp.InsufficientBudget("it was used up meanwhile")
        return answered(self, query, **options)

    with monkeypatch.context() as patched:
        patched.setattr(LocalSite, "answer", once)
        place.watch().sweep()
    refused = release.with_name(f"{asked.sha256}.refused.json")
    assert json.loads(refused.read_text())["charged_before"] is True
    with pytest.raises(hdp.InsufficientBudget, match="But a query of this request was charged"):
        read_result(refused, asked)
    only_x = CAPPED["analysts"] | {"ann": EVERYTHING | {"epsilon": 2, "columns": ["x"]}}
    with_entries(place, analysts=only_x)  # refused before its first query, which was charged in an earlier exchange
    place.watch().sweep()
    expected = {"format": "hdpstats refusal 1", "request": asked.sha256, "error": "forbidden", "charged_before": True}
    assert json.loads(refused.read_text()) == expected


def test_a_refusal_is_signed_as_releases_are(place):
    (private, public), (_, other) = (SigningKey.generate().write(place.file.with_name(name)) for name in ("own", "not"))
    asked, release = place.put("much.json", ("describe", ["x", "g"], {"epsilon": 3}))
    refused = release.with_name(f"{asked.sha256}.refused.json")
    place.watch().sweep()
    unsigned = refused.read_text()
    with pytest.raises(hdp.InsufficientBudget):
        read_result(refused, asked)
    with pytest.raises(hdp.LedgerError, match=r"refusal without a signature, .* whoever carried it") as caught:
        read_result(refused, asked, key=public)
    assert caught.value.facts["reason"] == "unsigned"
    refused.unlink()
    with_entries(place, signing={"key": str(private)})
    place.watch().sweep()
    signed = json.loads(refused.read_text())
    for key in (None, public):
        with pytest.raises(hdp.InsufficientBudget):
            read_result(refused, asked, key=key)
    with pytest.raises(hdp.LedgerError, match="the refusal is signed with the key"):
        read_result(refused, asked, key=other)
    for altered in (signed | {"error": "forbidden"}, signed | {"charged_before": True}):
        refused.write_text(json.dumps(altered))
        with pytest.raises(hdp.LedgerError, match="the refusal is not what the key"):
            read_result(refused, asked, key=public)
    assert {name: value for name, value in signed.items() if name != "signature"} == json.loads(unsigned)
    with pytest.raises(hdp.ArgumentError, match="is a refusal and no release file"):
        ReleaseFile.read(refused)


def test_no_carrier_replaces_a_signed_release_by_a_refusal(place):
    private, public = SigningKey.generate().write(place.file.with_name("own"))
    with_entries(place, signing={"key": str(private)})
    asked, release = place.put("one.json")
    place.watch().sweep()
    read_result(release, asked, key=public)
    for signature in ({}, {"signature": None}, {"signature": {}}, {"signature": {"key": "0" * 16, "value": "0" * 128}}):
        forged = {"format": "hdpstats refusal 1", "request": asked.sha256, "error": "forbidden", **signature}
        release.write_text(json.dumps(forged))
        with pytest.raises(
            hdp.LedgerError, match="the refusal is signed with" if len(str(signature)) > 99 else "without"
        ):
            read_result(release, asked, key=public)


def forbidden(place):
    """Return what a request of ann is told that she may not ask."""
    with_entries(place, analysts=CAPPED["analysts"] | {"ann": EVERYTHING | {"epsilon": 2, "columns": ["y"]}})
    place.watch().sweep()
    (refused,) = place.outbox.rglob("*.refused.json")
    return json.loads(refused.read_text())


ELSEWHERE = {
    "version": {"ledger": {"version": 2}},
    "terms": {"persons": {"unit": "person", "max_rows_per_unit": 3, "n_max": 600}},
    "data set": {"ledger": {"dataset": "second trial"}},
    "ledger": {"ledger": {"place": "other.db"}},
}


@pytest.mark.parametrize("entries", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_refusal_says_that_the_request_was_charged_for_other_data(tmp_path, entries, interrupted):
    persons = {"unit": "person", "max_rows_per_unit": 3, "n_max": 500} if "persons" in entries else {}
    place = Folders(tmp_path, **CAPPED, persons=persons)
    PRIVATE.assign(person=range(len(PRIVATE))).to_parquet(tmp_path / "rows.parquet")
    path = place.inbox / "ann" / "one.json"
    hdp.request("describe", ["x"], hdp.Study(schema=SCHEMA, **persons), epsilon=0.5, path=path)
    do = killed if interrupted else lambda sweep: sweep()
    do(place.watch().sweep)
    assert place.spent == 0.5
    found = yaml.safe_load(place.file.read_text())
    with_entries(place, **{name: found[name] | changed for name, changed in entries.items()})
    for path in tmp_path.glob("*.cells.*"):  # a new ledger has no key of them
        path.unlink()
    open_account(yaml.safe_load(place.file.read_text()), tmp_path)
    told = forbidden(place)
    assert (told["error"], told.get("charged_before")) == ("forbidden", True)


def test_a_refusal_says_nothing_of_a_charge_that_was_not_made(place, monkeypatch):
    place.put("one.json")
    with monkeypatch.context() as patched:
        patched.setattr(Slots, "answer", lambda *_, **__: os._exit(9))  # the line of the query is written
        assert ends(place.watch().sweep) == 9
    assert place.settings.request_costs.read_text().count("\n") == 1
    told = forbidden(place)
    assert (told["error"], "charged_before" in told, place.spent) == ("forbidden", False, 0)


def test_a_request_that_ended_processes_after_a_charge_says_that_it_was_charged(place, monkeypatch):
    asked, release = place.put("fit.json", ("logit", QUESTIONS["logit"][1], {"epsilon": 0.5}))
    answered = answering.AnsweringSite.answer
    monkeypatch.setattr(
        answering.AnsweringSite, "answer", lambda self, query: os._exit(9) if self.answers else answered(self, query)
    )
    watch = place.watch()
    for _ in range(ENDED):
        assert ends(watch.sweep) == 9
    watch.sweep()
    refused = json.loads(release.with_name(f"{asked.sha256}.refused.json").read_text())
    assert (refused["error"], refused["charged_before"]) == ("ended", True)


def ends(do):
    """Return how a process ends that does something."""
    child = os.fork()
    if not child:
        do()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_ends_of_many_requests_are_counted(place):
    counted = {f"ann {number:064x}": (1 + number % ENDED, 1.0) for number in range(5_000)}
    answering._keep(place.settings.ends, counted)
    assert answering._begun(place.settings.ends) == counted


def test_a_request_that_ended_enough_processes_is_remembered_whatever_others_end(place, monkeypatch):
    monkeypatch.setattr(answering, "_REMEMBERED", 20)

    def end(number):
        with answering.taking_turns(place.settings, f"{number:064x}", "ann", most=ENDED):
            os._exit(9)

    for number in [0] * ENDED + list(range(1, answering._REMEMBERED + 2)):
        assert ends(partial(end, number)) == 9
    again = answering.taking_turns(place.settings, f"{0:064x}", "ann", most=ENDED)
    with pytest.raises(hdp.SiteError, match=f"^{ENDED} processes"), again:
        pass


def test_of_analysts_who_are_kept_for_last_the_one_comes_first_whose_process_ended_longest_ago(place, monkeypatch):
    """One who sends new requests that end a process each keeps the other's for no day."""
    _, release = place.put("b.json", ("describe", ["x"], {"epsilon": 0.25}), folder="bob")
    deadly, asking = ["bob"], answering.Exchange.answer

    def ending(self, asked, *, analyst, **more):
        return os._exit(9) if analyst in deadly else asking(self, asked, analyst=analyst, **more)

    monkeypatch.setattr(answering.Exchange, "answer", ending)
    assert ends(place.watch().sweep) == 9
    deadly[:] = ["ann"]
    for number in range(2):
        place.put("a.json", ("describe", ["x"], {"epsilon": 0.1, "replicate": number + 1}))
        assert ends(place.watch().sweep) == 9
    assert answers(place) == [f"bob/{release.name}"]


def test_an_answer_is_in_the_outbox_before_another_process_has_the_turn(place, monkeypatch):
    """Else one that was cut off could take the place of a whole one."""
    place.put("one.json")
    put, waiting = Watch._put, []

    def looking(self, *given, **more):
        with place.settings.answering.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        waiting.append(given[1].partition(".")[2])
        return put(self, *given, **more)

    monkeypatch.setattr(Watch, "_put", looking)
    watch = place.watch()
    watch.sweep()
    place.put("two.json", ("describe", ["x", "g"], {"epsilon": 3}))
    watch.sweep()
    assert waiting == ["json", "refused.json"]


def test_what_waits_is_shown_after_a_watch_of_another_folder_said_what_waits_there(tmp_path):
    place = Folders(tmp_path, **CAPPED, requests={"approval": "required"})
    asked, _ = place.put("one.json")
    watch = place.watch()
    watch.sweep()
    for name in ("in2", "out2"):
        (tmp_path / name).mkdir()
    Watch(place.settings, tmp_path / "in2", tmp_path / "out2", prices=PRICES).sweep()
    watch.sweep()
    assert asked.sha256 in place.settings.waiting.read_text()


def test_who_ends_processes_comes_after_the_others(place, monkeypatch):
    """However many such requests there are: each is refused when it ended enough, and the next one ends more."""
    deadly = [place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 1 + number / 100}))[0] for number in range(3)]
    for number in range(2):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.1 + number / 10}), folder="bob")
    asking = answering.Exchange._ask

    def ending(self, asked, *rest):
        ends = asked.sha256 in {each.sha256 for each in deadly}
        return os._exit(9) if ends else asking(self, asked, *rest)

    monkeypatch.setattr(answering.Exchange, "_ask", ending)
    watch = place.watch()
    for _ in range(2):
        child = os.fork()
        if not child:
            watch.sweep()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [name.split("/")[0] for name in answers(place)] == ["bob", "bob"]
    assert place.spent == pytest.approx(0.3)


def ended_once(place, monkeypatch, *, ago):
    """Let a process have ended so many seconds ago while it answered a request of ann that never comes again."""
    place.settings.ends.write_text(json.dumps({f"ann {'0' * 64}": [1, 1e9]}))
    place.settings.ends.chmod(0o600)
    monkeypatch.setattr(answering, "time", types.SimpleNamespace(time=lambda: 1e9 + ago))


def test_however_many_others_send_who_is_kept_for_last_has_a_turn(place, monkeypatch):
    ended_once(place, monkeypatch, ago=0)
    now, seen, asking = [0.0], [], ("describe", ["x"])
    place.put("a.json", (*asking, {"epsilon": 0.1}))
    place.put("0.json", (*asking, {"epsilon": 0.1}), folder="bob")

    def refusing(self, asked, *, analyst, carried, refused, before):
        seen.append(analyst)
        now[0] += 600.0
        if analyst == "bob":
            number = len(seen)
            place.put(f"{number}.json", (*asking, {"epsilon": 0.1, "replicate": number + 1}), folder="bob")
        raise hdp.SiteError("not today")

    monkeypatch.setattr(answering.Exchange, "answer", refusing)
    monkeypatch.setattr(watching, "ROUND", 1.0)
    watch = place.watch(Clock(now=lambda: now[0]))
    watch.sweep()
    watch.sweep()
    assert seen == ["bob", "ann", "bob"]


@pytest.mark.parametrize(("ago", "expected"), [(3600, ["bob", "ann"]), (25 * 3600, ["ann", "bob"])])
def test_nobody_is_kept_for_last_for_longer_than_a_day(place, monkeypatch, ago, expected):
    ended_once(place, monkeypatch, ago=ago)
    seen = []
    for name in ("ann", "bob"):
        place.put("a.json", ("describe", ["x"], {"epsilon": 0.1}), folder=name)

    def refusing(self, asked, *, analyst, carried, refused, before):
        seen.append(analyst)
        raise hdp.SiteError("not today")

    monkeypatch.setattr(answering.Exchange, "answer", refusing)
    place.watch().sweep()
    assert seen == expected


def test_a_process_that_starts_anew_goes_on_after_the_file_that_was_read_last(place, monkeypatch):
    """Else who ends each process in its first round has it read another's oldest file each time, answered long ago."""
    for number in range(3):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.1, "replicate": number + 1}))
        os.utime(place.inbox / "ann" / f"{number}.json", (1e9 + number,) * 2)
    place.watch().sweep()
    late, early = (
        place.put(f"{name}.json", ("describe", ["x"], {"epsilon": 0.1}), replicate=9 + number)[1]
        for number, name in enumerate(("late", "early"))
    )
    os.utime(place.inbox / "ann" / "early.json", (1e9 - 1,) * 2)
    place.put("0.json", ("describe", ["x"], {"epsilon": 0.1}), folder="bob")
    answered = answering.Exchange.answer

    def ending(self, asked, *, analyst, **more):
        return os._exit(9) if analyst == "bob" else answered(self, asked, analyst=analyst, **more)

    monkeypatch.setattr(answering.Exchange, "answer", ending)
    monkeypatch.setattr(watching, "ROUND", 0.0)
    found = []
    for _ in range(3):
        assert ends(place.watch().sweep) in (0, 9)
        found.append((late.exists(), early.exists()))
    assert found[-1] == (True, True)


@pytest.mark.parametrize("kept", ["", "[1]", '{"a": 1}', '{"a": [1e999, ""]}', "[" * 100_000])
def test_where_the_file_of_turns_says_nothing_files_are_read_from_the_oldest_on(place, kept):
    place.settings.turns.write_text(kept)
    _, release = place.put("one.json")
    assert (place.watch().sweep(), release.exists()) == (1, True)


def test_the_end_of_a_process_is_remembered_for_a_day_and_counts_until_an_answer(tmp_path, monkeypatch):
    place = Folders(tmp_path, **CAPPED, requests={"approval": "required"})
    asked, release = place.put("one.json")
    with monkeypatch.context() as patched:
        patched.setattr(RequestFile, "from_bytes", lambda *_, **__: os._exit(9))
        assert ends(place.watch().sweep) == 9
    at = answering.kept_for_last(place.settings)["ann"]
    watch = place.watch()

    def kept():
        watch.sweep()
        counted, when = answering._begun(place.settings.ends)[f"ann {asked.sha256}"]
        return counted, when == answering.kept_for_last(place.settings)["ann"] == at

    assert kept() == (1, True)  # it waits for its approval
    place.approve(place.inbox / "ann" / "one.json")
    with monkeypatch.context() as patched:
        patched.setattr(answering.Exchange, "answer", away)
        assert kept() == (1, True)
    assert (kept(), release.exists()) == ((0, True), True)
    monkeypatch.setattr(answering, "time", types.SimpleNamespace(time=lambda: at + 25 * 3600))
    watch = place.watch()
    watch.sweep()
    assert answering._begun(place.settings.ends) == {}


def away(*_, **__):
    raise hdp.LedgerError("it is away")


def test_costs_that_cannot_be_written_refuse_no_request(whole, monkeypatch):
    place, watch = whole
    before = answers(place)
    with monkeypatch.context() as patched:
        patched.setattr(request_costs, "append_line", full_disk)
        assert (watch.sweep(), place.spent, answers(place)) == (0, 0.25, before)
    assert (watch.sweep(), place.spent) == (1, 0.5)


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.filterwarnings("ignore:this release was charged")
def test_what_another_is_answered_now_is_had_when_it_is_released(place, monkeypatch):
    """A charge without a release is computed, or was in vain: nobody knows which yet."""
    _, release = place.put("one.json")
    path = place.inbox / "ann" / "one.json"
    watch = place.watch()
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "in_vain", in_vain(place, path, 1, others=True, analyst="ann"))
        assert (watch.sweep(), place.spent) == (0, 0)
    assert (watch.sweep(), place.spent) == (0, 0)
    watch._waiting = {
        file: replace(each, until=each.until - watching.COMPUTED) for file, each in watch._waiting.items()
    }
    assert (watch.sweep(), release.exists()) == (1, True)


def test_a_refusal_is_no_older_than_its_request_where_times_are_coarse(place, monkeypatch):
    asked, release = place.put("one.json", ("describe", ["x", "g"], {"epsilon": 3}))
    place.watch().sweep()
    path, refused = place.inbox / "ann" / "one.json", release.with_name(f"{asked.sha256}.refused.json")
    assert refused.stat().st_mtime_ns % (2 * 10**9) == 0
    assert refused.stat().st_mtime_ns >= path.stat().st_mtime_ns


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ESTALE])
def test_a_file_that_the_system_does_not_read_now_is_read_later(place, monkeypatch, caplog, code):
    _, release = place.put("one.json")
    watch, opened = place.watch(), os.open

    def failing(path, *rest, **options):
        if str(path) == "one.json":
            raise OSError(code, os.strerror(code))
        return opened(path, *rest, **options)

    with monkeypatch.context() as patched, caplog.at_level("INFO"):
        patched.setattr(os, "open", failing)
        assert (watch.sweep(), watch.sweep(), answers(place)) == (0, 0, [])
    assert sum(os.strerror(code) in str(each.msg) + str(each.__dict__) for each in caplog.records) == 1
    assert (watch.sweep(), release.exists(), place.spent) == (1, True, 0.5)


def test_a_folder_that_is_away_when_its_files_are_read_loses_none(place, monkeypatch):
    _, release = place.put("one.json")
    watch, folder = place.watch(), place.inbox / "ann"
    turns = watch._turns

    def away():
        found = turns()
        if folder.exists():
            folder.rename(folder.with_name("away"))
        return found

    monkeypatch.setattr(watch, "_turns", away)
    assert watch.sweep() == 0
    monkeypatch.undo()
    folder.with_name("away").rename(folder)
    assert (watch.sweep(), release.exists()) == (1, True)


def test_files_that_were_looked_at_take_nobodys_place(place, monkeypatch, caplog):
    for number in range(7):
        (place.inbox / f"garbage-{number}.json").write_text("{")
        os.utime(place.inbox / f"garbage-{number}.json", ns=(0, number))
    _, release = place.put("one.json", folder=".")
    watch = place.watch()
    read, handled = watch._handle, []
    monkeypatch.setattr(watch, "_handle", lambda file: handled.append(file.name) or read(file))
    watch.sweep()
    watch.sweep()
    assert sorted(handled) == sorted([*(f"garbage-{number}.json" for number in range(7)), "one.json"])
    monkeypatch.setattr(watching, "MOST_LISTED", 4)
    with caplog.at_level("INFO"):
        watch.sweep()
        watch.sweep()
    assert sum("more than 4 files" in str(each.__dict__) for each in caplog.records) == 1
    assert not release.exists()


def test_processes_of_several_computers_write_under_names_of_their_own(place, monkeypatch):
    names, opened = [], os.open
    monkeypatch.setattr(
        os, "open", lambda path, *more, **options: names.append(str(path)) or opened(path, *more, **options)
    )
    _, release = place.put("one.json")
    for _ in range(2):
        place.watch().sweep()
    new = [name for name in names if name.startswith(f".{release.name}.") and name.endswith(".new")]
    assert len(set(new)) == len(new) == 2
    monkeypatch.setattr(os, "rename", full_disk)
    place.watch().sweep()
    assert answers(place) == [f"ann/{release.name}"]


def test_a_file_that_is_written_again_within_one_tick_is_another_one(place):
    path = place.inbox / "ann" / "one.json"
    path.write_text("{" * 10)
    before = path.stat()
    watch = place.watch()
    watch.sweep()
    path.write_text("[" * 10)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [[len(turn) for turn in group] for group in watch._turns()] == [[1], []]


def test_a_failure_of_one_request_is_in_the_log_and_others_go_on(place, monkeypatch):
    one, _ = place.put("one.json")
    two, release = place.put("two.json", ("describe", ["x"], {"epsilon": 0.25}))
    watch, answered = place.watch(), answering.Exchange.answer

    def failing(self, asked, **options):
        if asked.sha256 == one.sha256:
            raise ZeroDivisionError
        return answered(self, asked, **options)

    monkeypatch.setattr(answering.Exchange, "answer", failing)
    watch.sweep()
    assert json.loads(release.with_name(f"{one.sha256}.refused.json").read_text())["error"] == "failed"
    assert release.exists()
    assert two.sha256 in str(release)


def short_of_memory(*_, **__):
    raise MemoryError


SHORT = [
    (watching.RequestFile, "from_bytes"),
    (watching, "sender_of"),
    (answering, "needed_approval"),
    (answering.RequestCosts, "add"),
    (LocalSite, "answer"),
    (ReleaseFile, "to_json"),
]
"""Where a site may lack memory for a request outside of the analyst's own code."""


@pytest.mark.parametrize(("owner", "name"), SHORT, ids=lambda value: getattr(value, "__name__", value))
def test_a_site_that_lacks_memory_refuses_no_request(place, monkeypatch, caplog, owner, name):
    _, release = place.put("one.json")
    watch = place.watch()
    with monkeypatch.context() as patched, caplog.at_level("INFO"):
        patched.setattr(owner, name, short_of_memory)
        assert (watch.sweep(), watch.sweep(), answers(place)) == (0, 0, [])
    assert sum("MemoryError" in str(each.__dict__) for each in caplog.records) == 1
    assert (watch.sweep(), answers(place), place.spent) == (1, [f"ann/{release.name}"], 0.5)


def test_a_request_for_which_the_site_lacks_memory_is_refused_as_one_that_ends_processes(place, monkeypatch):
    asked, release = place.put("one.json")
    place.put("two.json", ("describe", ["x"], {"epsilon": 0.25}), folder="bob")
    needed = answering.needed_approval

    def short(settings, site, one, analyst):
        return short_of_memory() if one.sha256 == asked.sha256 else needed(settings, site, one, analyst)

    monkeypatch.setattr(answering, "needed_approval", short)
    for times in range(ENDED):
        place.watch().sweep()
        assert [name.split("/")[0] for name in answers(place)] == ["bob"], times
    place.watch().sweep()
    assert release.with_name(f"{asked.sha256}.refused.json").exists()
    assert place.spent == 0.25


def test_a_request_for_whose_reading_the_site_lacks_memory_is_refused_as_one_that_ends_processes(place, monkeypatch):
    asked, _ = place.put("one.json")
    read = []
    with monkeypatch.context() as patched:
        patched.setattr(watching.RequestFile, "from_bytes", lambda *_, **__: read.append(1) or short_of_memory())
        for times in range(ENDED + 3):
            assert (place.watch().sweep(), len(answers(place))) == (0, int(times >= ENDED))
    assert (len(read), answers(place)) == (ENDED, [f"ann/{asked.sha256}.refused.json"])


def test_each_analyst_has_a_turn(place, monkeypatch):
    for number in range(3):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.1 + number / 100}))
    place.put("late.json", folder="bob")
    seen = []

    def refusing(self, asked, *, analyst, carried, refused, before):
        seen.append(analyst)
        raise hdp.SiteError("not today")

    monkeypatch.setattr(answering.Exchange, "answer", refusing)
    watch = place.watch()
    watch.sweep()
    assert seen == ["ann", "bob", "ann", "ann"]
    seen.clear()
    place.put("new.json", ("describe", ["x"], {"epsilon": 0.2}))  # what was answered is before nobody
    for number in range(3):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.3 + number / 100}), folder="bob")
    watch.sweep()
    assert seen == ["ann", "bob", "bob", "bob"]


def test_who_asks_while_the_requests_of_another_take_long_has_the_next_turn(place, monkeypatch):
    now, seen = [0.0], []
    for number in range(3):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.1 + number / 100}))

    def taking_long(self, asked, *, analyst, carried, refused, before):
        if not seen:
            place.put("late.json", folder="bob")
        seen.append(analyst)
        now[0] += 600.0
        raise hdp.SiteError("not today")

    monkeypatch.setattr(answering.Exchange, "answer", taking_long)
    monkeypatch.setattr(watching, "ROUND", 1.0)
    watch = place.watch(Clock(now=lambda: now[0]))
    for _ in range(3):
        watch.sweep()
    assert seen == ["ann", "ann", "bob", "ann"]


def test_who_writes_files_without_end_keeps_nobodys_from_another_look(tmp_path, monkeypatch):
    place = Folders(tmp_path, **CAPPED, requests={"approval": "required"})
    asked, _ = place.put("one.json", folder="bob")
    now, looks = [0.0], []
    clock = Clock(now=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    watch = place.watch(clock)
    watch.sweep()
    assert asked.sha256 in place.settings.waiting.read_text()
    garbage = [place.inbox / "ann" / f"{number}.json" for number in range(3)]
    for path in garbage:
        path.write_text("{")
    handled = watch._handled

    def rewriting(file):
        looks.append(file.folder)
        if len(looks) > 20:
            pytest.fail("the round does not end")
        now[0] += 600.0
        for path in garbage:
            os.utime(path, ns=(0, len(looks) * 10**9))
        return handled(file)

    monkeypatch.setattr(watch, "_handled", rewriting)
    monkeypatch.setattr(watching, "ROUND", 1.0)
    place.approve(place.inbox / "bob" / "one.json", analyst="bob")
    watch.sweep()
    assert looks == ["ann", "bob"]
    assert answers(place) == [f"bob/{asked.sha256}.json"]
    assert place.settings.waiting.read_text() == "[]"


def test_new_files_come_before_those_that_wait_and_each_of_these_has_a_turn(tmp_path, monkeypatch):
    place = Folders(tmp_path, **CAPPED, requests={"approval": "required"})
    monkeypatch.setattr(watching, "ROUND", -1.0)  # one turn
    watch = place.watch()
    handled, looks = watch._handled, []
    monkeypatch.setattr(watch, "_handled", lambda file: looks.append(file.name) or handled(file))
    for name in ("a", "b"):
        place.put(f"{name}.json")
        watch.sweep()
    place.put("c.json")
    for _ in range(4):
        watch.sweep()
    assert looks == ["a.json", "b.json", "c.json", "a.json", "b.json", "c.json"]


def test_the_next_round_follows_at_once_where_new_files_had_no_turn(place, monkeypatch):
    monkeypatch.setattr(watching, "ROUND", -1.0)
    for number in range(3):
        place.put(f"{number}.json", ("describe", ["x"], {"epsilon": 0.1 + number / 100}))
    watch, before = place.watch(), []
    monkeypatch.setattr(watch._ended, "wait", lambda _: before.append(len(answers(place))) or watch.end())
    watch.run(600.0)
    assert before == [3]


@pytest.mark.parametrize("name", ["_listed", "write_durably"])
def test_a_lack_of_memory_for_the_inbox_or_for_what_waits_ends_no_watch(tmp_path, monkeypatch, caplog, name):
    place = Folders(tmp_path, **CAPPED, requests={"approval": "required"})
    asked, _ = place.put("one.json")
    watch = place.watch()
    with monkeypatch.context() as patched, caplog.at_level("INFO"):
        patched.setattr(watching, name, short_of_memory)
        assert watch.sweep() == 0
    assert sum("MemoryError" in str(each.__dict__) for each in caplog.records) == 1
    watch.sweep()
    assert asked.sha256 in place.settings.waiting.read_text()


@pytest.mark.parametrize("name", ["../ann", "a/b", ".ann", "a b", ""])
def test_an_analyst_whose_name_is_none_of_a_folder_is_refused(tmp_path, name):
    place = Folders(tmp_path, analysts={name or "x/": EVERYTHING})
    with pytest.raises(hdp.ArgumentError, match="no name of a folder"):
        place.watch()


PROCESS = """
import sys
from hdpstats.custodian import answering
from hdpstats.cli import main
answering.measured = lambda: {"steps": 1e-12}
sys.exit(main())
"""


def started(place, *words):
    log = (place.file.parent / f"watch-{len(list(place.file.parent.glob('watch-*')))}.log").open("w+b")
    command = [sys.executable, "-c", PROCESS, "site", "watch", str(place.file), str(place.inbox), str(place.outbox)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return forked.Popen([*command, *words], stderr=log, stdout=log, env=environment), log


@pytest.mark.wide  # the commands import everything and compile loops
def test_two_processes_on_one_inbox_answer_once_and_end_when_told(place):
    processes = [started(place, "--every", "0.1") for _ in range(2)]
    try:
        expected = set()
        for number in range(6):
            asked, release = place.put(f"{number}.json", ("describe", ["x", "g"], {"epsilon": 0.1 + number / 100}))
            expected.add(release)
        asked, release = place.put("fit.json", ("logit", QUESTIONS["logit"][1], {"epsilon": 0.5}))
        expected.add(release)
        until(lambda: all(path.exists() for path in expected), lambda: answers(place), pause=0.05)
        for process, _ in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(60) for process, _ in processes] == [0, 0]
    finally:
        for process, log in processes:
            if process.poll() is None:
                process.kill()
            log.close()
    assert place.spent == pytest.approx(0.6 + 0.15 + 0.5)
    assert len(place.ledger.history()) == 8
    assert not [name for name in answers(place) if "refused" in name or ".new" in name]
    assert RequestFile.read(place.inbox / "ann" / "fit.json").sha256 == asked.sha256
    assert isinstance(place.settings, SiteSettings)


def test_copies_of_an_answered_request_take_nobodys_time(place, monkeypatch):
    _, release = place.put("one.json")
    watch, asked, ask = place.watch(), [], questions.Question.ask
    monkeypatch.setattr(questions.Question, "ask", lambda self, study: asked.append(self) or ask(self, study))
    watch.sweep()
    for number in range(5):
        place.put(f"copy{number}.json")
    assert (watch.sweep(), len(asked)) == (5, 1)
    release.unlink()
    place.put("anew.json")
    assert (watch.sweep(), len(asked), release.exists()) == (1, 2, True)


def test_an_answer_that_was_cut_off_replaces_none_of_another_version_that_has_more(place, monkeypatch):
    asked, release = place.put("one.json")
    place.watch().sweep()
    before = release.read_bytes()
    entries = yaml.safe_load(place.file.read_text())
    with_entries(place, ledger=entries["ledger"] | {"version": 2})
    watch = place.watch()
    assert watch._is_answered(asked.sha256, "ann") is False
    held = HeldData(dataset="trial", version=2, account=place.ledger.identity)
    assert [watch._answers_before(asked.sha256, "ann", each) for each in (None, held)] == [1, None]
    monkeypatch.setattr(
        answering.Exchange, "answer", lambda *_, before, **__: fewer(before()) if before() else pytest.fail("replaced")
    )
    assert watch.sweep() == 1
    assert release.read_bytes() == before


def fewer(number):
    raise answering.FewerAnswers(f"fewer than {number}")

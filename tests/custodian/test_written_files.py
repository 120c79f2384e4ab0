"""No command replaces a file of somebody else's; a request that is answered again replaces its own release alone."""

import json
import sys

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats._base.new_files import write_new
from hdpstats.cli import main
from hdpstats.custodian import answering
from tests.custodian.asked_by_files import SIMPLE, Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def refused(capsys, *words):
    assert main(list(map(str, words))) == 2
    said = capsys.readouterr().err
    assert "name a new file, or move that one away" in said, said


@pytest.mark.parametrize("there", ["site.yaml", "ledger.db", "rows.parquet", "request.json"])
def test_no_answer_replaces_another_file(place, there):
    place.ask(*SIMPLE)
    place.release = place.file.with_name(there)
    before = place.release.read_bytes()
    with pytest.raises(hdp.ArgumentError, match="move that one away; nothing was charged"):
        answer(place)
    assert place.release.read_bytes() == before
    assert place.spent == 0


def answer(place):
    return answering.answer(place.settings, place.request, place.release, prices={"steps": 1e-12})


def test_an_answer_replaces_the_release_of_the_same_request_and_account_alone(place, tmp_path):
    place.ask(*SIMPLE)
    answer(place)
    first = place.release.read_bytes()
    answer(place)
    assert place.release.read_bytes() == first
    place.ask("describe", ["x"], {"epsilon": 0.25})
    with pytest.raises(hdp.ArgumentError, match="move that one away; nothing was charged"):
        answer(place)
    assert place.release.read_bytes() == first
    assert place.spent == 0.5
    place.ask(*SIMPLE)
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    other.request, other.release = place.request, place.release
    with pytest.raises(hdp.ArgumentError, match="move that one away"):
        answer(other)
    assert other.spent == 0


def test_a_link_is_something_else_before_anything_is_charged(place, tmp_path):
    place.ask(*SIMPLE)
    answer(place)
    spent = place.spent
    place.release.rename(tmp_path / "there.json")
    for target in ("there.json", tmp_path / "there.json", "nowhere.json"):
        place.release.symlink_to(target)
        with pytest.raises(hdp.ArgumentError, match="move that one away; nothing was charged"):
            answer(place)
        assert place.release.is_symlink()
        place.release.unlink()
    assert place.spent == spent


def test_an_answer_replaces_no_release_of_other_data(place):
    place.ask(*SIMPLE)
    answer(place)
    first = place.release.read_bytes()
    entries = yaml.safe_load(place.file.read_text())
    entries["ledger"]["version"] = 2
    place.file.write_text(yaml.safe_dump(entries))
    with pytest.raises(hdp.ArgumentError, match="move that one away; nothing was charged"):
        answer(place)
    assert place.release.read_bytes() == first
    assert place.spent == 0.5


@pytest.mark.skipif(sys.platform != "linux", reason="files change places in one step on Linux")
def test_what_came_to_the_place_after_it_was_looked_at_is_not_replaced(tmp_path):
    place, theirs, looks = tmp_path / "release.json", tmp_path / "theirs", []
    place.write_text("an earlier one")

    def same(path):
        found = path.read_text() == "an earlier one"
        looks.append(path)
        if len(looks) == 2:  # once before anything is written, and once before the move
            theirs.write_text("theirs")
            theirs.replace(place)
        return found

    with pytest.raises(hdp.ArgumentError, match="move that one away"):
        write_new(place, "a new one", same=same)
    assert place.read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["release.json"]


def test_commands_replace_no_file(place, tmp_path, capsys):
    place.ask(*SIMPLE)
    answer(place)
    there, ledger = tmp_path / "there.json", tmp_path / "ledger.db"
    there.write_text("theirs")
    schema = tmp_path / "dictionary.yaml"
    refused(capsys, "request", "x", "--model", "describe", "--schema", schema, "--epsilon", 1, "--out", there)
    refused(capsys, "result", place.request, place.release, "--out", there)
    refused(capsys, "ledger", "head", ledger, "--out", there)
    refused(capsys, "ledger", "export", ledger, there)
    refused(capsys, "ledger", "disclosure", ledger, "--out", there)
    refused(capsys, "site", "disclosure", place.file, "--out", there)
    refused(capsys, "flare", "result", place.request, tmp_path, "--out", there)
    refused(capsys, "qualify", "--out", there)
    assert main(["ledger", "backup", str(ledger), str(there)]) == 1
    assert "no backup replaces another: name a new file" in capsys.readouterr().err
    (tmp_path / "keys.pub").write_text("theirs")
    for verb in ("key", "signing-key"):
        refused(capsys, "site", verb, tmp_path / "keys")
        assert not (tmp_path / "keys.key").exists()
    assert there.read_text() == "theirs"
    assert (tmp_path / "keys.pub").read_text() == "theirs"
    (tmp_path / "b.backup-wal").write_text("theirs")
    assert main(["ledger", "backup", str(ledger), str(tmp_path / "b.backup")]) == 1
    assert (tmp_path / "b.backup-wal").read_text() == "theirs"


def test_the_same_request_may_be_written_again(place, tmp_path, capsys):
    words = ["request", "x,g", "--model", "describe", "--schema", str(tmp_path / "dictionary.yaml"), "--epsilon"]
    out = ["--out", str(tmp_path / "asked.json")]
    assert main([*words, "1", *out]) == 0
    assert main([*words, "1", *out]) == 0
    assert main([*words, "2", *out]) == 2
    assert json.loads((tmp_path / "asked.json").read_text())["question"]["spending"] == {"epsilon": 1}

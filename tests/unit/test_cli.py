import json
import os
import sys
from fractions import Fraction

import pytest

from hdpstats import __version__
from hdpstats.cli import main
from hdpstats.ledger import Ledger, Request
from hdpstats.privacy.budget import Budget, Spend
from tests import forked


def fill(path, dataset):
    ledger = Ledger(path, dataset=dataset, epsilon=3, create=True)
    request = Request(
        dataset=dataset,
        version=1,
        schema_sha256="0" * 64,
        public_sha256=None,
        query_json='{"kind":"objective","model":{"formula":"event ~ age"}}',
        terms="replace_one, one row per person",
    )
    ledger.persist(ledger.charge(request, Spend(Fraction(1, 2))), "{}")
    return ledger


@pytest.fixture
def path(tmp_path):
    fill(tmp_path / "one.db", "rotterdam")
    return tmp_path / "one.db"


@pytest.fixture
def path_of_two(path):
    fill(path, "gbsg")
    return path


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main(["ledger", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_show_prints_totals_and_charges(run, path):
    code, out, err = run("show", path)
    assert (code, err) == (0, "")
    assert str(Ledger.open_existing(path)) in out
    assert "event ~ age" in out
    assert "objective" in out
    assert "..." not in out


def test_open_and_grant_print_the_account(run, tmp_path):
    file = tmp_path / "new.db"
    words = ("open", file, "--dataset", "d", "--epsilon", "1/3", "--delta", "1e-6", "--unit", "patient")
    code, out, err = run(*words, "--relation", "add_or_remove_one")
    assert (code, out, err) == (0, f"{Ledger.open_existing(file)}\n", "")
    assert run(*words, "--relation", "add_or_remove_one") == (0, out, "")
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert "first terms" in err
    assert run("grant", file, "--analyst", "ana", "--epsilon", "0.1", "--delta", "1e-7")[0] == 0
    code, out, _ = run("grant", file, "--analyst", "ana", "--epsilon", "0.2")
    assert (code, out) == (0, f"{Ledger.open_existing(file)}\n")
    ledger = Ledger.open_existing(file)
    assert (ledger.budget, ledger.unit, ledger.relation) == (
        Budget(Fraction(333333333, 10**9), 1e-6),
        "patient",
        "add_or_remove_one",
    )
    assert ledger.caps["ana"].total == Budget(Fraction(1, 5))
    words = ("--epsilon", "1/3", "--delta", "1e-6", "--unit", "patient", "--relation", "add_or_remove_one")
    assert run("open", file, "--dataset", "e", *words, "--same-people-as", "d")[0] == 0
    assert run("grant", file, "--analyst", "ana", "--epsilon", "1")[0] == 2
    assert run("grant", file, "--dataset", "e", "--analyst", "ana", "--epsilon", "1")[0] == 0
    assert ledger.caps["ana"].total == Budget(1)


@pytest.mark.parametrize(
    "words",
    [
        ("open", "--epsilon", "1"),
        ("open", "--dataset", "d"),
        ("open", "--dataset", "d", "--epsilon", "much"),
        ("open", "--dataset", "d", "--epsilon", "1/0"),
        ("open", "--dataset", "d", "--epsilon", "1", "--relation", "bounded"),
        ("grant", "--epsilon", "1"),
        ("grant", "--analyst", "ana"),
    ],
)
def test_an_account_is_opened_and_granted_with_what_it_needs(tmp_path, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["ledger", words[0], str(tmp_path / "new.db"), *words[1:]])
    assert caught.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_grant_needs_a_ledger_and_an_amount_that_covers_what_was_received(run, path, tmp_path):
    assert run("grant", tmp_path / "missing.db", "--analyst", "ana", "--epsilon", "1")[0] == 1
    assert run("grant", path, "--analyst", "ana", "--epsilon", "0")[0] == 2
    assert run("open", tmp_path / "new.db", "--dataset", "d", "--epsilon", "-1")[0] == 2
    assert not (tmp_path / "new.db").exists()


def test_show_can_be_asked_for_an_analyst(run, path):
    assert "event ~ age" in run("show", path)[1]
    assert "event ~ age" not in run("show", path, "--analyst", "ana")[1]


def test_show_without_charges_prints_totals_only(run, tmp_path):
    ledger = Ledger(tmp_path / "new.db", dataset="d", epsilon=1, create=True)
    assert run("show", tmp_path / "new.db") == (0, f"{ledger}\n", "")


def test_several_datasets_need_a_name(run, path_of_two):
    code, out, err = run("show", path_of_two)
    assert (code, out) == (2, "")
    assert "'rotterdam', 'gbsg'" in err
    code, out, _ = run("show", path_of_two, "--dataset", "gbsg")
    assert code == 0
    assert "dataset 'gbsg'" in out
    assert run("show", path_of_two, "--dataset", "nobody")[0] == 1


def test_verify_covers_all_datasets_and_takes_a_head(run, path_of_two):
    head = Ledger.open_existing(path_of_two, dataset="gbsg").head
    assert run("verify", path_of_two) == (0, f"6 entries verify; head {head}\n", "")
    assert run("verify", path_of_two, "--head", head)[0] == 0
    code, out, err = run("verify", path_of_two, "--head", "0" * 63 + "1")
    assert (code, out) == (1, "")
    assert "not on the chain" in err
    assert run("verify", path_of_two, "--head", "abc")[0] == 2


def test_a_damaged_file_does_not_verify(run, path, tmp_path):
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(path.read_bytes().replace(b"event ~ age", b"event ~ sex"))
    for verb in ("verify", "show"):
        code, out, err = run(verb, damaged)
        assert (code, out) == (1, "")
        assert "at entry 2" in err
        assert err.count("\n") == 1


def test_export_writes_the_file(run, path, tmp_path):
    assert run("export", path, tmp_path / "out.json") == (0, "", "")
    assert json.loads((tmp_path / "out.json").read_text())["dataset"] == "rotterdam"
    code, _, err = run("export", path, tmp_path / "out.xlsx")
    assert code == 2
    assert ".json or .csv" in err
    assert run("export", path, tmp_path / "missing" / "out.csv")[0] == 2


@pytest.mark.parametrize("words", [["show"], ["verify"], ["export"]])
def test_a_missing_file_is_refused_in_one_line_and_not_created(run, tmp_path, words):
    extra = [tmp_path / "out.csv"] if words == ["export"] else []
    code, out, err = run(*words, tmp_path / "missing.db", *extra)
    assert (code, out) == (1, "")
    assert err.startswith("hdpstats: there is no ledger")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["ledger"], ["ledger", "spend", "x"], ["ledger", "show"], ["other"]])
def test_wrong_usage_exits_with_two(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: hdpstats" in capsys.readouterr().err


def test_the_command_line_runs_as_a_process(path):
    def process(*words):
        command = [sys.executable, "-m", "hdpstats.cli", *map(str, words)]
        return forked.run(command)

    shown = process("ledger", "show", path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "rotterdam" in shown.stdout
    refused = process("ledger", "verify", path.with_name("missing.db"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Traceback" not in refused.stderr
    assert process("--version").stdout == f"hdpstats {__version__}\n"


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://site:secret@host/ledgers",
        "postgresql+psycopg://host/ledgers?user=site&password=secret",
        "postgresql://host/ledgers?sslpassword=secret",
    ],
)
@pytest.mark.parametrize("words", [["show"], ["verify"], ["open", "--dataset", "d", "--epsilon", "1"]])
def test_a_password_on_the_command_line_is_refused(capsys, place, words):
    with pytest.raises(SystemExit) as caught:
        main(["ledger", words[0], place, *words[1:]])
    shown = capsys.readouterr().err
    assert caught.value.code == 2
    assert ".pgpass" in shown
    assert "secret" not in shown


def test_a_part_for_gaussian_noise_is_opened(run, tmp_path):
    words = ("--dataset", "d", "--epsilon", "3", "--delta", "1e-6")
    part = ("--gaussian-epsilon", "1/3", "--gaussian-delta", "1e-7")
    assert run("open", tmp_path / "new.db", *words, *part)[0] == 0
    assert Ledger.open_existing(tmp_path / "new.db").balance.gaussian == Budget(Fraction(333333333, 10**9), 1e-7)


def test_warm_up_compiles_what_fits_run(monkeypatch, capsys):
    loaded = []
    monkeypatch.setattr("hdpstats.models.compiling.load", lambda: loaded.append(True))
    assert main(["warm-up"]) == 0
    assert capsys.readouterr() == ("loops over rows are compiled\n", "")
    assert loaded == [True]


def test_who_reads_the_first_line_alone_sees_no_traceback(path, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    closed = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stdout", closed)
    assert main(["ledger", "show", str(path)]) == 1
    monkeypatch.undo()
    with pytest.raises(BrokenPipeError):
        closed.close()

import csv
import json

import pytest

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, LedgerError
from hdpstats.ledger import Ledger, verify_file
from hdpstats.ledger.chain import digest


def test_json_has_terms_totals_head_and_entries_that_can_be_checked(filled, tmp_path):
    ledger = Ledger.open_existing(filled, dataset="trial")
    ledger.export(tmp_path / "trial.json")
    document = json.loads((tmp_path / "trial.json").read_text(encoding="utf-8"))
    entries = document.pop("entries")
    assert document == {
        "package": "hdpstats",
        "package_version": __version__,
        "dataset": "trial",
        "same_people": ["trial"],
        "relation": "replace_one",
        "unit": None,
        "total": {"epsilon": "3", "delta": "0"},
        "spent": {"epsilon": "3/4", "delta": "0"},
        "remaining": {"epsilon": "9/4", "delta": "0"},
        "gaussian": None,
        "analysts": {},
        "account": ledger.identity,
        "head": ledger.head,
        "hashes": list(verify_file(filled).hashes),
    }
    assert [(entry["seq"], entry["kind"]) for entry in entries] == [
        (1, "open"),
        (2, "charge"),
        (3, "release"),
        (4, "charge"),
    ]
    assert all(entry["hash"] == digest(entry) for entry in entries)
    assert json.loads(entries[1]["body"])["query"]["model"]["formula"] == "y ~ age"
    assert entries[2]["body"] == '{"params":[1.5]}'


def test_csv_has_the_same_entries(filled, tmp_path):
    ledger = Ledger.open_existing(filled, dataset="other")
    ledger.export(tmp_path / "other.csv")
    ledger.export(tmp_path / "other.JSON")
    with (tmp_path / "other.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    entries = json.loads((tmp_path / "other.JSON").read_text(encoding="utf-8"))["entries"]
    assert rows == [{name: str(value) for name, value in entry.items()} for entry in entries]
    assert [row["kind"] for row in rows] == ["open", "charge", "release"]


def test_an_export_elsewhere_is_refused(filled, tmp_path):
    ledger = Ledger.open_existing(filled, dataset="trial")
    with pytest.raises(ArgumentError, match=r"\.json or \.csv"):
        ledger.export(filled)
    with pytest.raises(LedgerError, match="cannot be written"):
        ledger.export(tmp_path / "missing" / "trial.json")
    assert ledger.verify().entries == 7

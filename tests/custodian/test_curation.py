"""Rows that are coded otherwise than declared, or that changed under their version, are not served."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import SiteSettings, described, open_site, serving
from hdpstats.custodian.files import write_durably
from hdpstats.custodian.kept_head import open_account
from hdpstats.schema.table import PrivateTable
from tests.custodian.people import PRIVATE, RECORDS

SCHEMA = hdp.Schema(
    y=hdp.Binary(),
    x=hdp.Continuous(-3, 3),
    k=hdp.Continuous(0, 40, complete=True),
    g=hdp.Categorical(["a", "b", "c"]),
    time=hdp.Duration(horizon=24, unit="months"),
    event=hdp.Binary(),
)
FIRST = PRIVATE.index == 0


@pytest.fixture
def written(institution, tmp_path_factory):
    """A function that writes rows and settings of a site, and returns the settings' path."""
    name = tmp_path_factory.mktemp("curation").name

    def write(frame=PRIVATE, **entries):
        return institution.write(name, frame, SCHEMA, **entries)

    return write


def served(path):
    return open_site(SiteSettings.from_yaml(path))


def kept(path):
    """Return the file of hashes and that of their key."""
    return path.with_suffix(".cells.json"), path.with_name("ledger.db.cells.key")


REFUSED = {
    "labels in another case": (
        {"g": PRIVATE["g"].str.upper()},
        "labels that are not declared in g",
        {"undeclared_levels": ["g"]},
    ),
    "one label that is not declared": (
        {"g": PRIVATE["g"].where(~FIRST, "planted")},
        "labels that are not declared in g",
        {"undeclared_levels": ["g"]},
    ),
    "an outcome coded 1 and 2": (
        {"y": PRIVATE["y"] + 1},
        "cells that are neither 0 nor 1 in y",
        {"undeclared_levels": ["y"]},
    ),
    "a cell of an outcome that is neither 0 nor 1": (
        {"event": PRIVATE["event"].where(~FIRST, 2)},
        "cells that are neither 0 nor 1 in event",
        {"undeclared_levels": ["event"]},
    ),
    "another unit": (
        {"k": PRIVATE["k"] * 12},
        "more than 0.2 of the cells cut at the bounds in k",
        {"cut_share": {"k": 0.8}},
    ),
    "follow-up in days": (
        {"time": PRIVATE["time"] * 30},
        "more than 0.2 of the cells cut at the bounds in time",
        {"cut_share": {"time": 1.0}},
    ),
    "many missing cells": (
        {"x": PRIVATE["x"].where(PRIVATE.index % 5 > 0)},
        "more than 0.1 of the cells without a value in x",
        {"missing_share": {"x": 0.25}},
    ),
    "a missing cell where none is declared": (
        {"k": PRIVATE["k"].where(~FIRST)},
        "more than 0 of the cells without a value in k",
        {"missing_share": {"k": 0.01}},
    ),
}


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("what", REFUSED)
def test_rows_that_hold_what_nobody_declared_are_served_when_that_is_acknowledged(written, what):
    columns, words, acknowledged = REFUSED[what]
    path = written(PRIVATE.assign(**columns))
    for refused in (served, lambda path: described(SiteSettings.from_yaml(path))):
        with pytest.raises(hdp.ArgumentError, match=words) as error:
            refused(path)
        assert "hdpstats site check SITE.YAML --rows" in str(error.value)
        assert not any(label in str(error.value) for label in ("planted", "'A'"))
    assert not any(place.exists() for place in kept(path))
    assert served(written(PRIVATE.assign(**columns), acknowledged=acknowledged)).records == RECORDS


def test_rows_that_are_refused_leave_the_ledger_as_it_was(written):
    path = written(PRIVATE.assign(g=PRIVATE["g"].str.upper()))
    before = open_account(SiteSettings.from_yaml(path)).head
    with pytest.raises(hdp.ArgumentError, match="not served"):
        served(path)
    assert open_account(SiteSettings.from_yaml(path)).head == before


def test_a_process_that_refuses_rows_says_so_without_a_cell(institution, written):
    path = written(PRIVATE.assign(g=PRIVATE["g"].where(~FIRST, "planted")))
    with pytest.raises(RuntimeError, match="hdpstats: data: the rows are not served: there are labels") as error:
        institution.start(path)
    assert "planted" not in str(error.value)


def test_follow_up_beyond_the_horizon_is_served(written):
    assert served(written(PRIVATE.assign(time=PRIVATE["time"] * 2))).records == RECORDS


def test_few_missing_cells_and_numbers_beyond_the_bounds_are_served(written):
    assert served(written(PRIVATE.assign(x=(PRIVATE["x"] * 2).where(~FIRST)))).records == RECORDS


WRONG = {
    "an unknown entry": ({"levels": ["g"]}, "levels"),
    "an unknown column": ({"undeclared_levels": ["z"]}, "'z'"),
    "no list": ({"undeclared_levels": "g"}, "list"),
    "a share of an unknown column": ({"missing_share": {"z": 0.1}}, "'z'"),
    "a cut share of an unknown column": ({"cut_share": {"z": 0.1}}, "'z'"),
    "a share that is none": ({"missing_share": {"x": 2}}, "x"),
}


@pytest.mark.parametrize("what", WRONG)
def test_acknowledgements_that_are_refused(written, what):
    entries, word = WRONG[what]
    with pytest.raises(hdp.ArgumentError, match=word):
        SiteSettings.from_yaml(written(acknowledged=entries))


CHANGED = {
    "a cell": PRIVATE.assign(x=PRIVATE["x"].where(~FIRST, -0.123)),
    "a missing cell": PRIVATE.assign(x=PRIVATE["x"].where(~FIRST)),
    "a label": PRIVATE.assign(g=PRIVATE["g"].where(~FIRST, "b" if PRIVATE["g"][0] == "a" else "a")),
    "the order of rows": PRIVATE.iloc[::-1],
    "a row less": PRIVATE.iloc[1:],
    "a time beyond the horizon": PRIVATE.assign(time=PRIVATE["time"].where(PRIVATE["time"] < 24, 25)),
}


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("what", CHANGED)
def test_rows_that_changed_are_served_as_another_version_only(written, what):
    served(written())
    path = written(CHANGED[what])
    for refused in (served, lambda path: described(SiteSettings.from_yaml(path))):
        with pytest.raises(hdp.ArgumentError, match="'version: 2' under 'ledger:'"):
            refused(path)
    second = {"ledger": {"place": "ledger.db", "dataset": "trial", "version": 2}}
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | second))
    assert served(path).ledger.version == 2
    assert served(path).ledger.version == 2
    with pytest.raises(hdp.ArgumentError, match="'version: 3' under 'ledger:'"):
        served(written(PRIVATE, ledger=second["ledger"] | {"epsilon": 1000, "delta": 1e-3}))
    assert served(written(PRIVATE)).ledger.version == 1


def test_a_schema_that_changed_needs_another_version_too(institution, written):
    path = written()
    served(path)
    other = {name: column for name, column in SCHEMA.items() if name != "k"} | {"k": hdp.Continuous(0, 50)}
    hdp.Schema(other).to_yaml(path.with_name("dictionary.yaml"))
    with pytest.raises(hdp.ArgumentError, match="or the schema are not those"):
        served(path)


def test_what_the_schema_does_not_admit_may_change(written):
    served(written())
    same = PRIVATE.assign(note="new", y=PRIVATE["y"].astype("int64"), k=PRIVATE["k"].astype("float32"))
    assert served(written(same[same.columns[::-1]])).records == RECORDS


def test_hash_and_key_are_their_owners_alone_and_the_hash_depends_on_the_key(institution, written):
    path = written()
    served(path)
    hashes, key = kept(path)
    assert [each.stat().st_mode & 0o777 for each in (hashes, key)] == [0o600, 0o600]
    assert len(bytes.fromhex(key.read_text().splitlines()[0])) == 32
    other = institution.write(f"{path.parent.name}-other", PRIVATE, SCHEMA)
    served(other)
    assert json.loads(kept(other)[0].read_text()) != json.loads(hashes.read_text())
    for place in (hashes, key):
        place.chmod(0o644)
        with pytest.raises(hdp.ArgumentError, match="others than the owner"):
            served(path)
        place.chmod(0o600)


def test_without_the_key_nothing_is_compared_in_silence(written):
    path = written()
    served(path)
    hashes, key = kept(path)
    key.unlink()
    with pytest.raises(hdp.ArgumentError, match="is gone"):
        served(path)
    hashes.write_text("{}")
    key.write_text("00" * 32)
    key.chmod(0o600)
    with pytest.raises(hdp.ArgumentError, match="cannot be read"):
        served(path)
    for place in (hashes, key):
        place.unlink()
    assert served(path).records == RECORDS


def test_a_hash_that_is_lost_while_its_key_is_there_is_noticed(written):
    path = written()
    served(path)
    hashes, key = kept(path)
    held = hashes.read_text()
    hashes.unlink()
    for refused in (served, lambda path: described(SiteSettings.from_yaml(path))):
        with pytest.raises(hdp.ArgumentError, match=r"version 1 of 'trial' was served, .*delete the line \[\"trial\""):
            refused(path)
    assert not hashes.exists()
    hashes.write_text(held)
    hashes.chmod(0o600)
    served(path)
    hashes.unlink()
    key.write_text(key.read_text().replace('["trial", "1"]\n', '["other", "1"]\n'))  # as the message says
    assert served(path).records == RECORDS
    assert served(path).records == RECORDS


def test_a_key_of_an_earlier_version_of_the_package_says_that_there_was_a_hash_and_learns_of_which(written):
    path = written()
    served(path)
    hashes, key = kept(path)
    key.write_text(key.read_text().splitlines()[0] + "\n")
    served(path)  # the hash is there: the key is told of it
    assert key.read_text().splitlines()[1:] == ['["trial", "1"]']
    key.write_text(key.read_text().splitlines()[0] + "\n")
    hashes.unlink()
    with pytest.raises(hdp.ArgumentError, match="delete the key"):
        served(path)


def test_another_site_at_the_same_ledger_has_no_hash_yet(institution, written):
    path = written()
    served(path)
    hdp.Ledger(path.with_name("ledger.db"), dataset="second", epsilon=1)
    other = path.with_name("second.yaml")
    fields = yaml.safe_load(path.read_text()) | {"ledger": {"place": "ledger.db", "dataset": "second"}}
    other.write_text(yaml.safe_dump(fields))
    other.chmod(0o600)
    for _ in range(2):
        assert served(other).records == RECORDS
        assert served(path).records == RECORDS


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("held", ["", "00" * 16, "00" * 33, "zz" * 32])
@pytest.mark.parametrize("noted", [True, False])
def test_a_key_that_is_not_whole_is_refused(written, held, noted):
    path = written()
    served(path)
    hashes, key = kept(path)
    key.write_text(held)
    if not noted:
        hashes.unlink()
    with pytest.raises(hdp.ArgumentError, match="gone or not whole"):
        served(path)


def test_the_key_is_on_the_disk_before_the_first_hash(written, monkeypatch):
    durable = []

    def noted(path, text):
        durable.append(path)
        write_durably(path, text)

    monkeypatch.setattr(serving, "write_durably", noted)
    path = written()
    served(path)
    hashes, key = kept(path)
    assert durable == [key, hashes, key]  # that a hash was made is said when it is on the disk


def test_a_check_writes_nothing_and_shows_the_rows_when_asked(written, capfd):
    path = written(PRIVATE.assign(g=PRIVATE["g"].str.upper()), acknowledged={"undeclared_levels": ["g"]})
    assert main(["site", "check", str(path)]) == 0
    plain = capfd.readouterr().out
    assert main(["site", "check", str(path), "--rows"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "'A'" not in plain
    assert "the label 'A' (" in shown
    assert "differs in case" in shown
    assert " ".join(plain.split()) in shown
    assert not any(place.exists() for place in kept(path))


def test_a_refused_check_shows_the_rows_first(written, capfd):
    path = written(PRIVATE.assign(g=PRIVATE["g"].str.upper()))
    assert main(["site", "check", str(path), "--rows"]) == 2
    seen = capfd.readouterr()
    assert "the label 'A' (" in " ".join(seen.out.split())
    assert "acknowledged: {undeclared_levels: [g]}" in seen.err


def test_who_has_which_rows_is_a_part_of_the_hash():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "id": ["a", "a", "b"]})
    schema, key = hdp.Schema(x=hdp.Continuous(0, 9)), bytes(32)

    def fingerprint(**columns):
        return PrivateTable.from_frame(frame.assign(**columns), schema, unit="id").fingerprint(key)

    assert len({fingerprint(), fingerprint(id=["a", "b", "b"]), fingerprint(id=["c", "c", "b"])}) == 3
    assert fingerprint() == fingerprint(other=1)


def test_the_hash_takes_no_memory_besides_what_is_kept():
    rows = 200_000
    frame = pd.DataFrame({"x": np.linspace(0, 1, rows), "g": np.where(np.arange(rows) % 2, "a", "b")})
    table = PrivateTable.from_frame(frame, hdp.Schema(x=hdp.Continuous(0, 1), g=hdp.Categorical(["a", "b"])))
    table.read()
    tracemalloc.start()
    try:
        table.fingerprint(bytes(32))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100_000


def test_a_form_on_a_site_says_what_its_settings_state_and_that_it_is_served(institution, capsys):
    path = institution.write(
        "disclosed", PRIVATE, SCHEMA, disclosure={"security": "One locked server.", "region": "EU"}
    )
    capsys.readouterr()
    assert main(["site", "disclosure", str(path), "--form", "nist"]) == 0
    printed = capsys.readouterr()
    assert "One locked server." in printed.out
    assert "Analysts ask a service over HTTPS" in printed.out
    assert printed.err.strip() == "hdpstats: not stated yet: other_releases, curators, access, minimisation"
    refused = institution.write("misspelled", PRIVATE, SCHEMA, disclosure={"secrecy": "high"})
    assert main(["site", "disclosure", str(refused)]) == 2
    assert "must not have 'secrecy'" in capsys.readouterr().err

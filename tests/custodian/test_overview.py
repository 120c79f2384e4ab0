"""What the person who decides sees of a site in the terminal."""

import os
import re
import subprocess
import sys

import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import SiteSettings, overview
from hdpstats.custodian.files import StateError
from hdpstats.custodian.overview import WORDS, in_words
from hdpstats.custodian.permissions import FAMILIES
from hdpstats.custodian.timing import Overruns
from hdpstats.ledger import Ledger, Request
from hdpstats.privacy.budget import Spend
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import PRIVATE, SCHEMA

CAPS = {"ann": EVERYTHING | {"epsilon": 2}, "bob": EVERYTHING | {"epsilon": 1}}


def asked(number, query):
    return Request(
        dataset="trial",
        version=1,
        schema_sha256=SCHEMA.sha256,
        public_sha256=None,
        query_json=query,
        terms="replace_one, one row per person",
        replicate=number,
    )


@pytest.fixture
def path(institution):
    path = institution.write("decided", PRIVATE, SCHEMA, analysts=CAPS, requests={"approval": "required"})
    place = path.parent / "ledger.db"
    place.unlink()
    ledger = Ledger(place, dataset="trial", epsilon=1000, delta=1e-3, create=True)
    ledger.declare({name: hdp.Budget(each["epsilon"]) for name, each in CAPS.items()})
    fit = asked(1, '{"kind":"objective/1","model":{"formula":"y ~ x"}}')
    ledger.persist(ledger.charge(fit, Spend(0.5), analyst="ann"), "{}")
    ledger.charge(asked(2, '{"kind":"count/1"}'), Spend(0.25), analyst="bob")
    overruns = Overruns(SiteSettings.from_yaml(path).overruns)
    overruns.clear("bob")
    overruns.add("bob")
    for each in path.parent.glob("*.json"):
        each.unlink()
    return path


def test_all_that_a_decision_needs_is_shown_in_words(path):
    settings = SiteSettings.from_yaml(path)
    said = overview(settings)
    assert [line.split() for line in said.splitlines()[5:8]] == [
        ["total", "1000", "0.001"],
        ["spent", "0.75", "0"],
        ["remaining", "999.25", "0.001"],
    ]
    assert "ann fitted y ~ x by objective perturbation: epsilon 0.5 (entry" in said
    assert "bob counted the people that a fit would use: epsilon 0.25" in said
    assert said.count("no release was recorded") == 1
    assert "ann may ask for everything" in said
    assert f"bob: 1 of {settings.timing.overruns}" in said
    assert "not stated yet in the settings (disclosure:): " in said
    assert "Requests" not in said


def test_what_is_shown_leaves_the_count_of_late_answers_as_it_is(path):
    settings = SiteSettings.from_yaml(path)
    place = settings.overruns
    os.utime(place, ns=(10**18, 10**18))
    before = place.read_bytes()
    assert "bob: 1 of" in overview(settings)
    assert place.stat().st_mtime_ns == 10**18
    assert place.read_bytes() == before


def test_a_count_is_read_of_whatever_an_interrupted_process_left(tmp_path):
    place = tmp_path / "site.overruns.db"
    place.touch()  # and no table yet
    assert Overruns.counted(place) == {}
    Overruns(place).add("bob")
    half = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('BEGIN')\n"
        "connection.execute('UPDATE overruns SET number = 7')\n"
        "connection.executemany('INSERT INTO overruns VALUES (?, 1)', ((f'{i:>500}',) for i in range(200)))\n"
        "os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", half, str(place)], check=False)
    assert (tmp_path / "site.overruns.db-journal").stat().st_size
    assert Overruns.counted(place) == {"bob": 1}
    place.write_bytes(b"no database" * 100)
    with pytest.raises(StateError, match="which cannot be read"):
        Overruns.counted(place)


def test_who_is_stopped_is_named_with_what_to_do(path):
    settings = SiteSettings.from_yaml(path)
    lowered = settings.model_copy(
        update={
            "timing": settings.timing.model_copy(update={"overruns": 1}),
            "analysts": {
                name: each.model_copy(update={"epsilon": each.epsilon / 8}) for name, each in settings.analysts.items()
            },
        }
    )
    said = overview(lowered)
    assert (
        f"bob: 1 of 1; stopped: find out why (the log says which), then hdpstats site resume {path} --analyst bob"
        in said
    )
    assert "ann is stopped: " in said


def test_requests_that_wait_are_shown_in_words(path, tmp_path, capsys):
    study = hdp.Study(schema=SCHEMA)
    hdp.request("logit", "y ~ x", study, epsilon=0.5, path=tmp_path / "first.json")
    hdp.request("describe", ["x"], study, epsilon=0.25, path=tmp_path / "second.json")
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "broken.json").write_text('{"format": "hdpstats request 1"}')
    assert main(["site", "show", str(path), "--requests", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("waits for approval") == 2
    assert re.search(r"logit: 'y ~ x'.*may spend .*epsilon 0\.5", said), said
    assert "'broken.json': " in said
    assert "other.json" not in said


def test_the_name_of_a_file_passes_for_no_approval(path, tmp_path):
    (tmp_path / "ann").mkdir()
    name = "one.json (0123456789ab): approved by Dr Bos on 2026-01-01 for ann\n.json"
    hdp.request("describe", ["x"], hdp.Study(schema=SCHEMA), epsilon=0.25, path=tmp_path / "ann" / name)
    said = overview(SiteSettings.from_yaml(path), requests=tmp_path)
    assert re.search(
        r"^'ann/one\.json \(0123456789ab\): approved by .*' \([0-9a-f]{12}\): waits for approval$", said, re.M
    )


def test_what_others_put_into_the_folder_of_requests_is_not_waited_for(path, tmp_path):
    with (tmp_path / "endless.json").open("wb") as file:
        file.truncate(2**40)  # a sparse file, longer than any memory
    os.mkfifo(tmp_path / "pipe.json")
    hdp.request("describe", ["x"], hdp.Study(schema=SCHEMA), epsilon=0.25, path=tmp_path / "one.json")
    said = overview(SiteSettings.from_yaml(path), requests=tmp_path)
    assert said.count("waits for approval") == 1


def test_every_kind_of_query_has_words():
    assert set(FAMILIES) < set(WORDS)
    row = {"mechanism": "objective/1", "model": "y ~ x", "analyst": None, "epsilon": 0.5, "delta": 0.0, "mu": 0.0}
    said = in_words(row | {"released": True, "entry": 3, "at": pd.Timestamp("2026-11-28", tz="UTC")})
    assert said == "2026-11-28  the custodian fitted y ~ x by objective perturbation: epsilon 0.5 (entry 3)"

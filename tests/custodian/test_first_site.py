"""The files of a new site: they are enough to serve from, and explain every key."""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import SiteSettings, described, first_site, note, write_site
from hdpstats.custodian.first_site import EXAMPLE
from hdpstats.custodian.permissions import Permissions
from hdpstats.custodian.settings_sections import Section
from hdpstats.ledger import Ledger, Statements
from tests.waiting import until


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new") / "site"
    write_site(folder, dataset="trial", analysts=["ann", "bob"])
    return folder


def uncommented(text):
    """Return settings with every default that stands in a comment: a line whose "#" is followed by no blank, or two."""
    lines = [re.sub(r"^#(?=[a-z]|  +[a-z_]+:)", "", line) for line in text.splitlines()]
    return yaml.safe_load("\n".join(line for line in lines if not line.startswith("#")))


def test_a_folder_with_something_in_it_stays_whose_it_was(tmp_path, monkeypatch):
    given = set()
    monkeypatch.setattr(first_site.os, "geteuid", lambda: 0)
    monkeypatch.setattr(first_site.os, "chown", lambda path, user, group: given.add(Path(path)))
    monkeypatch.setattr(first_site, "_user", lambda name: (65534, 65534))
    shared = tmp_path / "var"
    shared.mkdir(mode=0o755)
    (shared / "of-others").touch()
    write_site(tmp_path / "site", dataset="trial", state=shared, heads=shared / "trial.head")
    assert given >= {tmp_path / "site", tmp_path / "site" / "site.key"}
    assert shared not in given
    given.clear()
    (tmp_path / "empty").mkdir()
    write_site(tmp_path / "etc", dataset="trial", state=tmp_path / "empty", heads=tmp_path / "heads" / "trial.head")
    assert given >= {tmp_path / "etc", tmp_path / "empty", tmp_path / "heads"}


def sections(model, place=()):
    """Yield the keys of a section and those below it, as they stand in a file."""
    for name, field in model.model_fields.items():
        key = (*place, field.alias or name)
        kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
        parts = [each for each in kinds if isinstance(each, type) and issubclass(each, Section)]
        below = [each for each in parts if each is not Permissions]
        yield from sections(below[0], key) if below else [(key, field)]


def test_every_key_of_the_settings_is_explained_with_its_default(folder):
    said = uncommented((folder / "site.yaml").read_text())
    found = dict(sections(SiteSettings))
    assert len(found) > 60
    for key, field in found.items():
        value = said
        for part in key:
            assert part in value, f"{': '.join(key)} is not explained in the settings of a new site"
            value = value[part]
        if key[0] in ("limits", "timing"):
            assert value == field.default, key
    assert set(said["disclosure"]) == set(Statements.__dataclass_fields__)
    assert set(said["analysts"]["bob"]) == set(Permissions.model_fields)


def test_the_files_are_enough_for_a_site(folder, capsys):
    settings = SiteSettings.from_yaml(folder / "site.yaml")
    Ledger(settings.ledger.place, dataset="trial", epsilon=3, create=True)
    note(settings)
    said = described(settings)
    assert "https://127.0.0.1:8443" in said
    assert "bob may ask for everything" in said
    assert list(settings.dictionary) == list(EXAMPLE)
    assert "expires" not in said  # not before a month is left
    for name in ("site.key", "signing.key", "tokens.key", "ca.key", "ann.key", "rows.parquet"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600, name
    words = [
        "--key",
        folder / "tokens.key",
        "--analyst",
        "bob",
        "--audience",
        "trial",
        "--certificate",
        folder / "bob.pem",
    ]
    assert main(["site", "token", *map(str, words)]) == 0
    assert len(capsys.readouterr().out.split(".")) == 3


def test_no_file_is_replaced_and_what_cannot_be_is_refused(folder, tmp_path):
    before = {each.name: each.stat().st_mtime_ns for each in folder.iterdir()}
    with pytest.raises(hdp.ArgumentError, match="no file is replaced"):
        write_site(folder, dataset="other")
    assert {each.name: each.stat().st_mtime_ns for each in folder.iterdir()} == before
    for options, message in (
        ({"data": "rows.parquet"}, "data and schema belong together"),
        ({"data": "none.parquet", "schema": "none.yaml"}, "there is no none.parquet"),
        ({"ledger": "postgresql://me:secret@host/base"}, "without a password"),
        ({"analysts": ["../ann"]}, "a file has that name"),
        ({"port": 65535}, "port"),
    ):
        with pytest.raises(hdp.ArgumentError, match=message):
            write_site(tmp_path / "refused", **{"dataset": "trial", **options})


def test_the_unit_serves_the_settings_and_waits_for_the_drain(folder):
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(folder / "hdpstats.service")
    service = unit["Service"]
    assert service["ExecStart"].endswith(f"site serve {folder}/site.yaml")
    assert Path(service["ExecStart"].split()[0]).exists()
    settings = SiteSettings.from_yaml(folder / "site.yaml")
    assert int(service["TimeoutStopSec"]) > settings.limits.drain
    assert str(settings.state) in service["ReadWritePaths"].split()
    assert str(settings.heads.file.parent) in service["ReadWritePaths"].split()
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", folder / "hdpstats.service"], capture_output=True, text=True, check=False
        )
        ours = [line for line in done.stderr.splitlines() if "hdpstats.service" in line]
        assert [line for line in ours if "User" not in line and "not executable" not in line] == []


def test_the_container_asks_the_address_of_health(folder):
    lines = (folder / "Containerfile").read_text().splitlines()
    command = json.loads(next(line for line in lines if line.startswith("HEALTHCHECK")).partition("CMD ")[2])
    health = SiteSettings.from_yaml(folder / "site.yaml").health
    assert f"http://127.0.0.1:{health.port}/ready" in command[-1]
    assert subprocess.run([sys.executable, *command[1:]], capture_output=True, check=False).returncode == 1  # none runs
    assert json.loads(lines[-1].removeprefix("CMD ")) == ["hdpstats", "site", "serve", f"{folder}/site.yaml"]


@pytest.fixture
def reached():
    """A folder that every user reaches, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="hdpstats-site-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.wide
def test_a_service_without_rights_serves_from_settings_it_cannot_write(reached):
    """The command of unit and container, by a user without rights, who sees all but state and head read-only."""
    place, state, heads, elsewhere = (reached / name for name in ("etc", "state", "heads", "python"))
    write_site(place, dataset="trial", state=state, heads=heads / "trial.head", user="nobody", port=18443)
    settings = SiteSettings.from_yaml(place / "site.yaml")
    Ledger(settings.ledger.place, dataset="trial", epsilon=3, create=True)
    note(settings)
    owner = state.stat()
    for each in (*state.iterdir(), *heads.iterdir()):
        os.chown(each, owner.st_uid, owner.st_gid)
    steps = [f"mount --bind {each} {each}" for each in (state, heads)]
    python = Path(sys.base_prefix)
    if python.is_relative_to("/root"):  # which nobody else reaches: as if Python were installed elsewhere
        elsewhere.mkdir()
        steps += [
            f"mount --bind {python} {elsewhere}",
            "mount -t tmpfs -o mode=755 none /root",
            f"mkdir -p {python}",
            f"mount --bind {elsewhere} {python}",
        ]
    steps += [
        "mount -o remount,bind,ro /",
        f"if touch {place}/written 2>/dev/null; then exit 3; fi",
        f"exec setpriv --reuid={owner.st_uid} --regid={owner.st_gid} --clear-groups --inh-caps=-all "
        f"--bounding-set=-all --no-new-privs {sys.executable} -m hdpstats.cli site serve {place}/site.yaml",
    ]
    log = heads / "log"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(state / "compiled"), "OMP_NUM_THREADS": "1"}
    with log.open("ab") as stream:
        command = ["unshare", "--mount", "sh", "-ec", " && ".join(steps)]
        process = subprocess.Popen(command, stderr=stream, stdout=stream, env=environment)
    try:
        until(lambda: "running on" in log.read_text() or process.poll() is not None, log.read_text, pause=0.1)
        assert process.poll() is None, log.read_text()
        assert main(["site", "health", str(place / "site.yaml")]) == 0
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()

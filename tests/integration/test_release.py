"""What a release consists of agrees, is built the same each time, and is published by nothing but the workflow."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import hdpstats
from tools import release

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_all_places_name_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    described = (ROOT / "r_bridge" / "R" / "hdpstats" / "DESCRIPTION").read_text(encoding="utf-8")
    (in_r,) = re.findall(r"^Version: (\S+)$", described, re.MULTILINE)
    assert {hdpstats.__version__, PROJECT["version"], citation["version"], in_r} == {PROJECT["version"]}
    assert (ROOT / "tests" / "golden" / hdpstats.__version__ / "ledger.db").exists()
    assert PROJECT["license"] == " AND ".join(citation["license"])
    assert f"Version {hdpstats.__version__}" in (ROOT / "docs" / "about" / "cite.md").read_text(encoding="utf-8")


def test_a_release_is_published_without_a_password_and_with_attestations():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert {name for name, job in jobs.items() if "id-token" in job["permissions"]} == {"publish"}
    steps = [step for job in jobs.values() for step in job["steps"]]
    (publishing,) = [step for step in steps if "pypi-publish" in step.get("uses", "")]
    assert publishing["with"] == {"packages-dir": "packages/", "attestations": True}
    assert all(re.search(r"@v\d", step["uses"]) for step in steps if "uses" in step)
    assert "secrets." not in str(workflow)
    assert any(".ci/release" in step.get("run", "") for step in jobs["build"]["steps"])


def test_a_tag_of_another_version_builds_nothing():
    done = subprocess.run([ROOT / ".ci" / "release", "v99.0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "not that of version" in done.stderr


@pytest.mark.parametrize("name", ["ci", "release"])
def test_requirements_are_locked_with_hashes(name):
    """Those of CI are all extras but ``flare``, which `make validate` installs in an environment of its own."""
    text = (ROOT / "tools" / f"requirements-{name}.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S+?)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", text, re.MULTILINE)
    pinned = re.findall(r"^[A-Za-z]\S*==", text, re.MULTILINE)
    assert len(entries) == len(pinned) > 20
    assert not re.findall(r"^(?![A-Za-z]\S*==|    --hash=|#|$).+", text, re.MULTILINE)
    if name == "ci":
        locked = {re.sub(r"[-_.]+", "-", entry[0]).lower() for entry in entries}
        extras = dict(PROJECT["optional-dependencies"])
        assert any(line.startswith("nvflare") for line in extras.pop("flare"))
        needed = [*PROJECT["dependencies"], *(line for extra in extras.values() for line in extra)]
        names = {re.match(r"[A-Za-z0-9._-]+", line).group() for line in needed}
        assert {re.sub(r"[-_.]+", "-", each).lower() for each in names} - locked == {"hdpstats"}
        assert "nvflare" not in locked


@pytest.mark.wide
def test_two_builds_of_a_commit_have_the_same_bytes(tmp_path):
    """From folders of other names, other times and other permissions."""
    sums = []
    for name, mask in (("one", 0o022), ("another", 0o077)):
        place = tmp_path / name
        place.mkdir()
        before = os.umask(mask)
        try:
            source = release.exported("HEAD", place)
            for path in source.rglob("*.py"):
                os.utime(path, (10**9, 10**9))
            out = place / "out"
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, source]
            subprocess.run(command, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, cwd=place)
        finally:
            os.umask(before)
        (wheel,) = out.glob("*.whl")
        release.check_contents(wheel, "HEAD")
        sums.append(release.sha256(wheel))
    assert sums[0] == sums[1]
    short = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(short, "w") as lacking:
        for name in whole.namelist():
            if name != "hdpstats/py.typed":
                lacking.writestr(name, whole.read(name))
    with pytest.raises(SystemExit, match=r"hdpstats/py\.typed"):
        release.check_contents(short, "HEAD")

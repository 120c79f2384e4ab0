"""What `make lock` wrote serves what the package asks for: else it must be written anew."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRAS = ("all", "r-cells", "dev")
"""What `make setup` installs."""


def pinned(text):
    """Return the version of each package in a lock file, and how many hashes it has."""
    found = {}
    for name, version, hashes in re.findall(
        r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", text, re.M
    ):
        found[canonicalize_name(name)] = (version, hashes.count("--hash"))
    return found


def asked(project, extras):
    """Return what a package asks for with some extras, those that name its own extras opened."""
    own, waiting, wanted = (
        project["optional-dependencies"],
        list(extras),
        list(map(Requirement, project["dependencies"])),
    )
    seen = set()
    while waiting:
        extra = waiting.pop()
        if extra not in seen:
            seen.add(extra)
            for each in map(Requirement, own[extra]):
                if each.name == project["name"]:
                    waiting += each.extras
                else:
                    wanted.append(each)
    return [each for each in wanted if each.marker is None or each.marker.evaluate()]


def stale(project, lock):
    """Return what is asked for and not locked, in words."""
    found = pinned(lock)
    return [
        f"{each} (locked: {found.get(canonicalize_name(each.name), ('nothing', 0))[0]})"
        for each in asked(project, EXTRAS)
        if canonicalize_name(each.name) not in found
        or not each.specifier.contains(found[canonicalize_name(each.name)][0], prereleases=True)
    ]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def lock():
    return (ROOT / "tools" / "requirements-ci.txt").read_text(encoding="utf-8")


def test_everything_that_is_asked_for_is_locked_with_a_hash(project, lock):
    assert stale(project, lock) == [], "tools/requirements-ci.txt is older than pyproject.toml: run `make lock`"
    assert lock.count("==") == len(pinned(lock))
    assert lock.startswith("# Written by `make lock` for Python 3.")


def test_a_stale_lock_is_named(project, lock):
    newer = project | {"dependencies": [*project["dependencies"], "numpy>=99", "polars>=1"]}
    assert [each.split(" ")[0] for each in stale(newer, lock)] == ["numpy>=99", "polars>=1"]
    assert "polars>=1 (locked: nothing)" in stale(newer, lock)

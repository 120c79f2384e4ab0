"""A file of unit tests has the name of the module that it tests, so that each finds the other by its path."""

from pathlib import Path

import hdpstats

ROOT = Path(hdpstats.__file__).parents[1]
UNIT = ROOT / "tests" / "unit"


def is_named(test, modules):
    """Whether a test is named for a module, or for one and a part of it: ``test_knorm_ball`` for ``knorm``."""
    rest = test.removeprefix("test_")
    return any(rest == module or rest.startswith(f"{module}_") for module in modules)


def modules_of(folder):
    """Return the names of the modules and packages in a folder."""
    return {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}


def test_unit_tests_are_named_for_modules():
    tests = sorted(UNIT.rglob("test_*.py"))
    assert len(tests) > 100
    odd = [
        str(path.relative_to(ROOT))
        for path in tests
        if not is_named(path.stem, modules_of(ROOT / "hdpstats" / path.parent.relative_to(UNIT)))
    ]
    assert odd == []  # what crosses modules is under tests/integration, tests/privacy or tests/statistical


def test_a_test_of_another_name_is_found():
    assert is_named("test_knorm", {"knorm", "exact"})
    assert is_named("test_knorm_ball", {"knorm"})
    assert not is_named("test_ball", {"knorm"})
    assert not is_named("test_knorms", {"knorm"})
    assert {"api", "noise", "cli"} <= modules_of(ROOT / "hdpstats")

"""The layout: packages name their modules, mechanisms their guarantee and source; places that pages name exist."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import hdpstats

ROOT = Path(hdpstats.__file__).parents[1]
MODULES = sorted(path for package in ("hdpstats", "r_bridge") for path in (ROOT / package).rglob("*.py"))
MECHANISMS = sorted(path.parent for path in (ROOT / "hdpstats" / "mechanisms").glob("*/__init__.py"))


def named(docstring):
    """Return which of the two facts a mechanism's docstring names."""
    return [fact for fact in ("Guarantee:", "Source:") if fact in (docstring or "")]


def test_there_are_modules_and_mechanisms():
    assert len(MODULES) > 80
    assert {"perturbation", "clipped_newton"} <= {path.name for path in MECHANISMS}


def test_the_contract_on_queries_is_about_every_mechanism():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (contract,) = (each for each in contracts if "holds its query" in each["name"])
    files = {path.stem for path in (ROOT / "hdpstats" / "mechanisms").glob("*.py")} - {"__init__"}
    shared = {f"hdpstats.mechanisms.{name}" for name in files}
    assert contract["source_modules"] == ["hdpstats.mechanisms.*"]
    assert {each.partition(" ->")[0] for each in contract["ignore_imports"]} == shared
    assert shared <= set(contract["forbidden_modules"])


@pytest.mark.parametrize("path", MECHANISMS, ids=lambda path: path.name)
def test_a_mechanism_names_its_guarantee_and_its_source(path):
    facts = named(ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))))
    assert facts == ["Guarantee:", "Source:"]


def wrongly_listed(package):
    """Return the modules and packages in a package that its docstring does not name, and those listed that are none."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    unnamed = {name for name in modules - {"__init__"} if f"``{name}``" not in docstring}
    return sorted(unnamed | (set(re.findall(r"^\* ``(\w+)``:", docstring, re.MULTILINE)) - modules))


@pytest.mark.parametrize(
    "package",
    sorted(path.parent for path in MODULES if path.name == "__init__.py"),
    ids=lambda path: "-".join(path.relative_to(ROOT).parts),
)
def test_a_package_lists_its_modules(package):
    assert wrongly_listed(package) == []


def test_a_module_that_is_not_listed_is_found(tmp_path):
    (tmp_path / "__init__.py").write_text('"""A package.\n\n* ``one``: here.\n* ``gone``: not here.\n"""')
    for name in ("one.py", "two.py"):
        (tmp_path / name).touch()
    assert wrongly_listed(tmp_path) == ["gone", "two"]


def test_a_docstring_without_its_facts_is_found():
    assert named("Noise.\n\nGuarantee: pure epsilon.") == ["Guarantee:"]
    assert named(None) == []


def test_the_places_of_new_code_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## Rules", maxsplit=1)[0]
    named = re.findall(r"`((?:hdpstats|r_bridge|tests|tools|vignettes)/[\w./-]*)`", text)
    assert len(named) > 30
    assert [each for each in named if not (ROOT / each).exists()] == []

"""The layout: no class name is used twice, small modules have a reason, mechanisms name their guarantee and source.

Exceptions are listed by name. Whoever removes one deletes it from the list; nothing is ever added.
"""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

import hdpstats
from tests.architecture.syntax import nodes_of

ROOT = Path(hdpstats.__file__).parents[1]
MODULES = sorted(path for package in ("hdpstats", "r_bridge") for path in (ROOT / package).rglob("*.py"))
MECHANISMS = sorted(path.parent for path in (ROOT / "hdpstats" / "mechanisms").glob("*/__init__.py"))

LEAST_LINES = 40
"""Lines of code; docstrings, comments and blank lines are none."""

SMALL = {
    "_base/remembered.py": "a concept of its own, imported by all layers",
    "_base/typing.py": "imported by all, without numba",
    "_base/precision.py": "every context comes from it, without numba",
    "_base/work.py": "a concept of its own, without numba",
    "custodian/journal.py": "a concept of its own",
    "formula/api.py": "public names",
    "inference/log_rank.py": "a concept of its own",
    "kernel/__main__.py": "an entry point",
    "losses/options.py": "public names",
    "mechanisms/loading.py": "loaded where rows are read, with numba",
    "models/estimators.py": "a class for users",
    "schema/site_facts.py": "a concept of its own",
}
"""Modules that are small, beside ``__init__``; and why."""


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def class_names(source):
    """Return the names of the classes that a module defines, wherever in it."""
    return [node.name for node in nodes_of(source) if isinstance(node, ast.ClassDef)]


def repeated(sources):
    """Return the class names that occur more than once, with the modules where they do."""
    places = defaultdict(list)
    for module, source in sources.items():
        for name in class_names(source):
            places[name].append(module)
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def lines_of_code(source):
    """Return the number of lines with code; docstrings count as none."""
    documented = [node for node in nodes_of(source) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)]
    left_out = {line for node in documented for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    lines = enumerate(map(str.strip, source.splitlines()), start=1)
    return len({number for number, line in lines if line and not line.startswith("#")} - left_out)


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


def test_small_modules_have_a_reason():
    others = [path for path in MODULES if path.name != "__init__.py"]
    small = [path for path in others if lines_of_code(path.read_text(encoding="utf-8")) < LEAST_LINES]
    assert {"/".join(path.parts[-2:]) for path in small} <= set(SMALL)
    assert {"/".join(path.parts[-2:]) for path in others} >= set(SMALL)


def test_no_class_name_is_used_twice():
    found = repeated({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in MODULES})
    assert not found, found


@pytest.mark.parametrize("path", MECHANISMS, ids=lambda path: path.name)
def test_a_mechanism_names_its_guarantee_and_its_source(path):
    facts = named(ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))))
    assert facts == ["Guarantee:", "Source:"]


def test_a_breach_of_the_layout_is_found():
    sources = {"a.py": "class A:\n    class B: pass", "b.py": "def f():\n    class B: pass", "c.py": "class C: pass"}
    assert repeated(sources) == {"B": ["a.py", "b.py"]}
    assert lines_of_code('"""A."""\n\n# b\ndef f():\n    """C.\n\n    D."""\n    return (\n        1\n    )\n') == 4
    assert named("Noise.\n\nGuarantee: pure epsilon.") == ["Guarantee:"]
    assert named(None) == []


def test_the_places_of_new_code_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## Rules", maxsplit=1)[0]
    named = re.findall(r"`((?:hdpstats|r_bridge|tests|tools|vignettes)/[\w./-]*)`", text)
    assert len(named) > 30
    assert [each for each in named if not (ROOT / each).exists()] == []

"""Rules that every module of the package obeys, read from its syntax."""

import ast
from pathlib import Path

import pytest

import hdpstats
from tests.architecture.syntax import dotted, nodes_of

PACKAGE = Path(hdpstats.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
OBSERVES = PACKAGE / "audit" / "outputs.py"
DRAWS = PACKAGE / "inference" / "draws.py"
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_IMPORTS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "random", "opendp.prelude"}
RANDOM = {"numpy.random"}


def imports(nodes):
    """Return the full names that a module imports."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def attributes(nodes):
    """Return dotted names such as ``np.random.default_rng``."""
    return {dotted(node) for node in nodes if isinstance(node, ast.Attribute)}


def within(name, banned):
    return any(name == other or name.startswith(f"{other}.") for other in banned)


def breaches(source, *, draws=False, observes=False):
    """Return what a module's source does that no module may do."""
    nodes = nodes_of(source)
    found = ["assert" for node in nodes if isinstance(node, ast.Assert)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    found += [call.id for call in calls if isinstance(call, ast.Name) and call.id in BANNED_CALLS]
    found += [name for name in imports(nodes) if within(name, BANNED_IMPORTS)]
    found += [name for name in attributes(nodes) if name.endswith((".read_pickle", ".to_pickle", ".rvs"))]
    found += [node.module or "." for node in nodes if isinstance(node, ast.ImportFrom) and node.level]
    if not observes:  # filters that one thread restores are those of all
        found += [name for name in imports(nodes) | attributes(nodes) if name.endswith(".catch_warnings")]
    if not draws:
        found += [name for name in imports(nodes) if within(name, RANDOM)]
        found += [name for name in attributes(nodes) if name.startswith(("np.random", "numpy.random"))]
    return found


def test_there_are_modules():
    assert {DRAWS, OBSERVES} < set(MODULES)
    assert len(MODULES) > 80


def test_every_module_obeys_the_rules():
    found = {
        path: breaches(path.read_text(encoding="utf-8"), draws=path == DRAWS, observes=path == OBSERVES)
        for path in MODULES
    }
    assert {str(path.relative_to(PACKAGE)): each for path, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "source",
    [
        "assert x",
        "def f():\n    if x:\n        assert y, 'message'",
        "eval('1')",
        "exec(code)",
        "import pickle",
        "from pickle import loads",
        "import numpy as np\nnp.random.default_rng(1)",
        "import numpy.random",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import random",
        "def f():\n    from random import gauss",
        "norm.rvs(3)",
        "import opendp.prelude as dp",
        "from opendp import prelude",
        "frame.to_pickle(path)",
        "from . import sibling",
        "from .sibling import name",
        "import warnings\nwith warnings.catch_warnings():\n    pass",
        "from warnings import catch_warnings",
    ],
)
def test_a_breach_is_found(source):
    assert breaches(source)


@pytest.mark.parametrize("source", ["x = 1", "import re\nre.compile('x')", "from scipy.stats import beta", "# assert"])
def test_what_is_allowed_is_no_breach(source):
    assert breaches(source) == []


def test_an_audit_may_record_warnings_and_nothing_else():
    assert breaches("import warnings\nwarnings.catch_warnings(record=True)", observes=True) == []
    assert breaches("import pickle", observes=True) == ["pickle"]


def test_draws_may_use_generators_and_nothing_else():
    assert breaches("import numpy as np\nnp.random.Generator", draws=True) == []
    assert breaches("import pickle", draws=True) == ["pickle"]

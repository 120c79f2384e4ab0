"""Rules that every test obeys, read from its syntax: no chance without a seed, no clock."""

import ast
import contextlib
import re
from pathlib import Path

import pytest

import hdpstats
from tests.architecture.syntax import dotted, nodes_of

TESTS = Path(__file__).parents[1]
PACKAGES = [Path(hdpstats.__file__).parent, TESTS.parent / "r_bridge"]
ENTROPY = PACKAGES[0] / "noise" / "exact.py"
FILES = sorted(path for path in TESTS.rglob("*.py") if "_executed" not in path.parts)
GENERATORS = {"default_rng", "RandomState", "Random", "SeedSequence", "PCG64"}
SEEDED = GENERATORS | {"Generator", "Philox", "BitGenerator"}
READERS = ("os.urandom", "os.getrandom", "secrets.", "SystemRandom", "random.SystemRandom", "getrandom", "urandom")


def calls(nodes):
    """Return the calls of a module with their dotted names."""
    return [(dotted(node.func), node) for node in nodes if isinstance(node, ast.Call)]


def readers_of_entropy(source):
    """Return what reads the operating system's generator, or is imported to do so."""
    if not re.search("random|secrets|Random", source):  # as all that is looked for has one of these in it
        return []
    nodes = nodes_of(source)
    found = [name for name, _ in calls(nodes) if name.startswith(READERS)]
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name == "secrets"]
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "secrets", "random"):
            names = {alias.name for alias in node.names}
            found += sorted(names & {"urandom", "getrandom", "SystemRandom"}) + ["secrets"] * (node.module == "secrets")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/dev/"):
            found += [node.value] if node.value in ("/dev/random", "/dev/urandom") else []
    return found


def unseeded(source):
    """Return draws that nobody can repeat: generators without a seed, and the global ones of Python and numpy."""
    found, nodes = [], nodes_of(source)
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    of_all = re.compile(r"((np|numpy)\.random|random)\.\w+" if "random" in imported else r"(np|numpy)\.random\.\w+")
    for name, call in calls(nodes):
        last, given = name.rpartition(".")[2], (*call.args, *(k.value for k in call.keywords))
        none = [each for each in given if isinstance(each, ast.Constant) and each.value is None]
        if last in GENERATORS and (not given or none):
            found.append(f"{name} without a seed")
        if of_all.fullmatch(name) and last not in SEEDED:
            found.append(f"{name}: the global generator")
        if last == "rvs" and not any(k.arg == "random_state" for k in call.keywords):
            found.append(f"{name} without random_state")
    return found


def test_draws_in_tests_have_a_seed():
    found = {path: unseeded(path.read_text(encoding="utf-8")) for path in FILES}
    assert {str(path.relative_to(TESTS)): each for path, each in found.items() if each} == {}


OF_CLOCKS = re.compile(r"time|monotonic|perf_counter|sleep|wait|result|join")
"""Words of which all that `clocked` looks for has one in it."""


def scripts(nodes):
    """Return the Python code in texts of a module, for other processes or cells, in which something can be found."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OF_CLOCKS.search(node.value):
            with contextlib.suppress(SyntaxError, ValueError):
                ast.parse(node.value)
                yield node.value


def clocked(source, *, waits=False):
    """Return sleeps, timeouts below 30 seconds, and what is read from a clock; in scripts as well."""
    nodes = nodes_of(source)
    found = [each for script in scripts(nodes) for each in clocked(script, waits=waits)]
    paces = {id(node) for loop in nodes if isinstance(loop, ast.While) for node in ast.walk(loop.test)}
    for name, call in calls(nodes):
        if CLOCKS.fullmatch(name) and not waits:
            found.append(f"{name}(): count work, wait with tests.waiting.until, or measure in tests/benchmarks")
        if id(call) in paces:
            continue  # `while not stop.wait(0.2)` sets a pace, no limit
        if name in ("time.sleep", "sleep") and not waits:
            found.append(f"{name}({ast.unparse(call.args[0])}): wait with tests.waiting.until")
        last = name.rpartition(".")[2]
        limits = [k.value for k in call.keywords if k.arg == "timeout"]
        limits += call.args[:1] if last in ("wait", "result", "join", "settimeout") else []
        found += [
            f"{name}: {each.value} seconds"
            for each in limits
            if isinstance(each, ast.Constant) and type(each.value) in (int, float) and 0 < each.value < LEAST
        ]
    return found


NOT_TIMED = ("benchmarks", "statistical")
TIMED = [path for path in FILES if path.relative_to(TESTS).parts[0] not in NOT_TIMED and path != Path(__file__)]
CLOCKS = re.compile(r"time\.(\w+_)?time(_ns)?|(time\.)?(monotonic|perf_counter|process_time|thread_time)(_ns)?")
OF_R = re.compile(r"\b(Sys\.(time|sleep)|proc\.time|system\.time|setTimeLimit)\b")
LEAST = 30
WAITS = "waiting.py"
"""The helper that waits."""


def test_no_test_depends_on_the_clock():
    found = {path: clocked(path.read_text(encoding="utf-8"), waits=path == TESTS / WAITS) for path in TIMED}
    assert {str(path.relative_to(TESTS)): each for path, each in found.items() if each} == {}


def test_no_test_or_vignette_of_the_r_package_depends_on_the_clock():
    package = PACKAGES[1] / "R" / "hdpstats"
    files = [path for place in ("tests", "vignettes") for path in (package / place).rglob("*.R*")]
    assert len(files) > 15
    assert {path.name: found for path in files if (found := OF_R.findall(path.read_text(encoding="utf-8")))} == {}


def test_vignettes_read_a_clock_only_where_tests_replace_its_limits():
    files = sorted(TESTS.parent.joinpath("vignettes").glob("*.py"))
    called = {path.stem: [name for name, _ in calls(nodes_of(path.read_text(encoding="utf-8")))] for path in files}
    assert [stem for stem, names in called.items() if any(map(CLOCKS.fullmatch, names))] == ["five-hospitals"]
    assert not any(OF_R.search(path.read_text(encoding="utf-8")) for path in files[0].parent.glob("*.R"))


@pytest.mark.parametrize(
    "source",
    [
        "time.sleep(0.2)",
        "from time import sleep\nsleep(3)",
        "process.wait(timeout=20)",
        "event.wait(5)",
        "future.result(20)",
        "stream.settimeout(3.0)",
        "assert time.monotonic() - begun < 2.0",
        "while time.perf_counter() < end: pass",
        "begun = time.process_time()",
        "from time import monotonic_ns\nend = monotonic_ns() + 10**9",
        "stamp = time.time()",
        "SCRIPT = 'import time\\ntime.sleep(0.4)'",
    ],
)
def test_a_clock_is_found(source):
    assert clocked(source)


@pytest.mark.parametrize(
    "source", ["until(ready, 'it')", "process.wait(timeout=60)", "thread.join()", "event.wait(GENEROUS)", "','.join(x)"]
)
def test_waiting_for_a_condition_is_allowed(source):
    assert clocked(source) == []


def test_entropy_is_read_in_one_place():
    found = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            if each := readers_of_entropy(path.read_text(encoding="utf-8")):
                found[path] = each
    assert found == {ENTROPY: ["os.urandom"]}
    [reader] = [
        node
        for node in ast.parse(ENTROPY.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and "os.urandom" in ast.unparse(node)
    ]
    assert reader.name == "system_bytes"
    assert [argument.arg for argument in reader.args.args] == ["count"]


def test_nothing_outside_leads_to_other_entropy():
    """No variable of the environment, no option and no file is read where entropy is."""
    tree = ast.parse(ENTROPY.read_text(encoding="utf-8"))
    assert {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("os.")
    } == {"os.getpid", "os.urandom"}
    names = {name for name, _ in calls(ast.walk(tree))}
    assert not {"open", "getattr", "setattr", "__import__", "exec", "eval"} & names
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            assert "system_bytes" not in path.read_text(encoding="utf-8") or path == ENTROPY


@pytest.mark.parametrize(
    "source",
    [
        "np.random.default_rng()",
        "np.random.default_rng(None)",
        "default_rng(seed=None)",
        "np.random.normal(size=3)",
        "np.random.seed(3)",
        "import random\nrandom.random()",
        "random.Random()",
        "norm.rvs(size=3)",
        "np.random.RandomState()",
    ],
)
def test_a_draw_without_a_seed_is_found(source):
    assert unseeded(source)


@pytest.mark.parametrize(
    "source",
    [
        "np.random.default_rng(0)",
        "rng.normal()",
        "random.Random(seed)",
        "norm.rvs(size=3, random_state=rng)",
        "np.random.Generator(np.random.PCG64(5))",
    ],
)
def test_a_draw_with_a_seed_is_allowed(source):
    assert unseeded(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "os.urandom(3)",
        "from os import urandom",
        "import secrets",
        "secrets.token_bytes(3)",
        "open('/dev/urandom')",
        "random.SystemRandom()",
        "from secrets import token_hex",
    ],
)
def test_a_second_reader_of_entropy_is_found(source):
    assert readers_of_entropy(source)

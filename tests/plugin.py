"""What all tests share, doctests of the package too: seeded noise, the same examples of distributions, order, fixtures.

The top-level `conftest.py` gives pytest this plugin in each process that runs tests. See `tests/seeded.py`.
"""

import contextlib
import functools
import gc
import importlib
import math
import sys
from pathlib import Path

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

from hdpstats.inference import other_correlations, sandwich
from hdpstats.noise import exact
from hdpstats.records import estimate
from tests import covering, known_noise, seeded
from tests import few_draws as seldom

TESTS = Path(__file__).parent
OF_PART = {"vignettes": 0, "r": 1, "jupyter": 1}
"""Which of two processes begins with the tests in a folder."""

GARBAGE = (10_000, 20, 20)
"""How much is made before garbage is looked for: with 700, as is usual, that took 4% of the time of 150 tests."""

hypothesis.settings.register_profile(
    "the same examples",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=30,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "new examples", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)


def pytest_configure(config):
    """Put the source in its place before anything is collected."""
    sys.modules.setdefault("rfc3987_syntax", None)  # jsonschema would compile its grammars, and tests check no address
    system = config.getoption("--system-entropy")
    hypothesis.settings.load_profile("new examples" if system else "the same examples")
    if not system:
        seeded.begin(config.getoption("--entropy-seed"))
        config.add_cleanup(seeded.end)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Look for garbage neither while everything is imported and collected, nor in it afterwards: it all lasts."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for doctests in modules of the packages that have a prompt: it takes long in each, and imports helpers."""
    collected = yield
    if any(isinstance(each, DoctestModule) for each in collected):
        if not _has_examples(file_path):
            return [each for each in collected if not isinstance(each, DoctestModule)]
        _import_package(file_path.parent)
    return collected


def _has_examples(path):
    return TESTS not in path.parents and ">>>" in path.read_text(encoding="utf-8")


def _import_package(folder):
    """Import a package before pytest imports a module of it, which would run twice and hide a function of its name."""
    with contextlib.suppress(ImportError):  # which the doctest then shows
        importlib.import_module(".".join(folder.relative_to(TESTS.parent).parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Say which cases are not among those that stand for all, and order what is left when others are deselected."""
    covering.mark_wide(items)
    yield
    _begin_with_the_longest(items)


def _begin_with_the_longest(items):
    """Begin with what takes longest, and none of it at the end: one process with vignettes, another with R and Jupyter.

    Of two processes, each is given one half of the tests, and takes some of the other's when it has done its own.
    """
    parts = [part_of(item.path) for item in items]
    first, second, others = (
        [item for item, part in zip(items, parts, strict=True) if part == each] for each in (0, 1, None)
    )
    place = max(0, len(items) // 2 - len(first))
    items[:] = [*first, *others[:place], *second, *others[place:]]


@functools.cache
def part_of(path):
    """Return which of two processes begins with the tests of a file, or None."""
    return OF_PART.get(path.relative_to(TESTS).parts[0]) if TESTS in path.parents else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Give each file that is collected its own noise."""
    with seeded.named(f"collecting {collector.nodeid}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Give each test its own noise."""
    with seeded.named(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Give each fixture that several tests share its own noise."""
    shared = fixturedef.scope != "function"
    name = f"fixture {fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"
    with seeded.named(name) if shared else contextlib.nullcontext():
        return (yield)


@pytest.fixture
def kernel_entropy(monkeypatch):
    """Let one test read the operating system's entropy as users do."""
    if seeded.INSTALLED:
        monkeypatch.setattr(exact, "system_bytes", seeded.INSTALLED[-1].replaced)


@pytest.fixture(scope="module")
def few_draws():
    """Draw standard errors seldom, in a module of tests that look at something else."""
    with seldom.drawn():
        yield


@pytest.fixture
def any_errors(monkeypatch):
    """Let estimates keep their standard errors, however large they are, and let nothing say what pooling takes."""
    monkeypatch.setattr(sandwich, "MOST", math.inf)
    monkeypatch.setattr(estimate, "COUNTS", math.inf)
    monkeypatch.setattr(other_correlations, "MOST_COVARIATES", 0)


@pytest.fixture
def no_noise(monkeypatch):
    """Let releases be what is computed from the rows: the same with any entropy."""
    known_noise.off(monkeypatch)

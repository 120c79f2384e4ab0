"""Options, and what each process needs: the one that hands tests out to others imports nothing of the package.

``--system-entropy`` leaves the operating system's entropy in its place and lets Hypothesis look for new examples;
``make test-entropy`` runs the tests that judge randomness so. See `tests/plugin.py` and `tests/scratch.py`.
"""

import gc
import importlib
import os

from tests import scratch

collect_ignore = [f"hdpstats/engines/flare/{name}.py" for name in ("controller", "executor")]
"""They need NVIDIA FLARE, which its study alone installs (`tests/statistical/test_flare.py`); they have no example."""

SEED = "hdpstats"


def pytest_addoption(parser):
    """Add the options."""
    group = parser.getgroup("noise")
    group.addoption(
        "--system-entropy", action="store_true", help="noise from the operating system, new examples of distributions"
    )
    group.addoption("--entropy-seed", default=SEED, metavar="TEXT", help="another seed of the noise that tests draw")


def pytest_configure(config):
    """Prepare this process to run tests, or to hand them out to others."""
    scratch.use_memory()
    os.umask(0o022)  # what folders of a site may be: whoever runs the tests may have a wider one
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        importlib.import_module("tests.forked").share()
        return
    gc.disable()  # until everything is imported and collected
    config.pluginmanager.register(importlib.import_module("tests.plugin"), "tests.plugin")


def pytest_report_header(config):
    """Say where noise comes from."""
    if config.getoption("--system-entropy"):
        return "noise: the operating system's entropy"
    return f"noise: seeded by {config.getoption('--entropy-seed')!r}"

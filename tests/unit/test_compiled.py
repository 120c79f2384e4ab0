"""Compiled code that is kept, and what it was compiled from."""

import importlib.util
import os
import shutil
import subprocess
import sys

import numba
import numpy as np
import pytest

from hdpstats._base.loops import compiled

CALLED = """
from hdpstats._base.loops import compiled

FACTOR = {factor}

@compiled
def called(x):
    return FACTOR * x + {term}
"""
CALLING = """
from called import FACTOR, called
from hdpstats._base.loops import compiled

@compiled
def through(x):
    return called(x)

@compiled
def calling(x):
    return through(x) + 1000.0 * FACTOR

print(calling(1.0), sum(calling.stats.cache_hits.values()))
"""


def test_kept_code_is_used_until_a_loop_or_a_constant_that_it_uses_elsewhere_has_changed(tmp_path):
    (tmp_path / "calling.py").write_text(CALLING)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}

    def found(factor, term):
        called = tmp_path / "called.py"
        called.write_text(CALLED.format(factor=factor, term=term))
        os.utime(called, ns=(0, int(factor * 10**10 + term * 10**9)))  # each text has its own time
        done = subprocess.run(
            [sys.executable, "calling.py"], cwd=tmp_path, env=environment, text=True, capture_output=True, check=True
        )
        value, hits = done.stdout.split()
        return float(value), int(hits)

    assert found(2.0, 1.0) == (2003.0, 0)
    assert found(2.0, 1.0) == (2003.0, 1)
    assert found(2.0, 5.0) == (2007.0, 0)
    assert found(3.0, 5.0) == (3008.0, 0)
    assert found(3.0, 5.0) == (3008.0, 1)


@pytest.mark.parametrize("differs", ["types", "sources"])
def test_code_that_two_processes_keep_at_once_is_of_their_own_types_and_sources(tmp_path, monkeypatch, differs):
    kept, source = tmp_path / "kept", tmp_path / "kept_loop.py"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(kept))

    def loop(factor):
        source.write_text(f"def loop(x):\n    return {factor} * x[1]")
        os.utime(source, ns=(0, factor * 10**9))
        spec = importlib.util.spec_from_file_location("kept_loop", source)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "kept_loop", module)
        spec.loader.exec_module(module)
        return compiled(module.loop)

    def found(factor, given):
        """Compile with nothing kept, as each process that has looked before the other has kept its code."""
        shutil.rmtree(kept, ignore_errors=True)
        assert loop(factor)(given) == factor * given[1]
        files = {path: path.read_bytes() for path in kept.rglob("*.nb?")}
        assert sorted(path.suffix for path in files) == [".nbc", ".nbi"]
        return files

    numbers = np.arange(6.0)
    factor, given = (1, numbers[::2]) if differs == "types" else (2, numbers)
    other, own = found(1, numbers), found(factor, given)
    for path, code in [*own.items(), *(each for each in other.items() if each[0].suffix == ".nbc")]:
        path.write_bytes(code)  # own index is kept last, and the other's code
    again = loop(factor)
    assert again(given) == factor * given[1]
    assert sum(again.stats.cache_hits.values()) == 1
    assert found(factor, given).keys() == own.keys()  # the same names: nothing piles up

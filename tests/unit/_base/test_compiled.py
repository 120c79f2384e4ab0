"""Compiled code that is kept, and what it was compiled from."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from hdpstats._base import compiled as compiling
from hdpstats._base.compiled import compiled, kept_code
from hdpstats.families.hazard import kernels, raked
from hdpstats.public import squares

CALLED = """
from hdpstats._base.compiled import compiled

FACTOR = {factor}

@compiled
def called(x):
    return FACTOR * x + {term}
"""
CALLING = """
from called import FACTOR, called
from hdpstats._base.compiled import compiled

@compiled
def through(x):
    return called(x)

@compiled
def calling(x):
    return through(x) + 1000.0 * FACTOR

print(calling(1.0), sum(calling.stats.cache_hits.values()))
"""


@pytest.mark.wide
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


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder of its own for compiled code, in this process."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(compiling, "_FOLDERS", set())
    return tmp_path / "kept"


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """Return a new loop, as one is imported in a new process."""
    source = tmp_path / "kept_loop.py"

    def made(factor):
        source.write_text(f"def loop(x):\n    return {factor} * x[1]")
        os.utime(source, ns=(0, factor * 10**9))
        spec = importlib.util.spec_from_file_location("kept_loop", source)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "kept_loop", module)
        spec.loader.exec_module(module)
        return compiled(module.loop)

    return made


def hits(made):
    return sum(made.stats.cache_hits.values())


@pytest.mark.parametrize("differs", ["types", "sources"])
def test_code_that_two_processes_keep_at_once_is_of_their_own_types_and_sources(kept, loop, differs):
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
    assert hits(again) == 1
    assert found(factor, given).keys() == own.keys()  # the same names: nothing piles up


@pytest.mark.parametrize("changed", [(compiling, "__file__", __file__), (numba, "__version__", "0.1")])
def test_code_that_was_compiled_in_another_way_is_not_used(kept, loop, monkeypatch, changed):
    numbers = np.arange(6.0)
    for expected in (0, 1):
        made = loop(2)
        made(numbers)
        assert hits(made) == expected
    monkeypatch.setattr(*changed)
    made = loop(2)
    made(numbers)
    assert hits(made) == 0


def test_folders_of_kept_code_outside_the_package_are_named(kept, loop):
    compiling._FOLDERS.add(Path(compiling.__file__).resolve().parents[1] / "models" / "__pycache__")
    assert list(kept_code()) == []
    loop(2)
    (folder,) = kept_code()
    assert folder.parent == kept.resolve()


def test_compiling_is_said_once_and_loading_what_was_kept_is_not(kept, loop, monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_SAID", [])
    loop(2)(np.arange(6.0))
    loop(3)(np.arange(6.0))
    assert capsys.readouterr().err == f"hdpstats: {compiling.COMPILING}\n"
    compiling._SAID.clear()
    loop(3)(np.arange(6.0))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    loop(4)(np.arange(6.0))  # nobody to tell


FIRST_FIT = """
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import pandas as pd

rows = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0] * 1200, "y": [0, 1, 1, 0] * 1200})
schema = hdp.Schema(x=hdp.Continuous(0, 3, complete=True), y=hdp.Binary(complete=True))
study = hdp.Study(private=rows, schema=schema, budget=hdp.Budget(epsilon=1))
hdpf.logit("y ~ x", data=study).fit(epsilon=1)
"""


@pytest.mark.wide
def test_the_first_fit_on_a_machine_says_that_it_compiles_and_the_next_one_does_not(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, "-c", FIRST_FIT]
    first, second = (
        subprocess.run(command, env=environment, text=True, capture_output=True, check=True).stderr for _ in range(2)
    )
    assert first == f"hdpstats: {compiling.COMPILING}\n"
    assert "only once on this machine" in first
    assert second == ""


def test_what_reordered_loops_call_is_a_part_of_each():
    """Of a function of its own there would be two versions, and which one runs depends on what was compiled when."""
    for module in (kernels, raked, squares):
        loops = {
            name: each for name, each in vars(module).items() if getattr(each, "targetoptions", {}).get("fastmath")
        }
        assert loops
        called = {name for each in loops.values() for name in each.py_func.__code__.co_names} & set(loops)
        assert all(loops[name].targetoptions["inline"] == "always" for name in called)


SUMS = """
import hashlib
import numpy as np
from hdpstats.families.hazard.raked import StackedFactors, expected_sums

rng = np.random.default_rng(0)
E, G, W, K = (rng.uniform(0.2, 1.5, shape) for shape in ((1, 9), (1, 9), (1, 4, 300), (1, 4, 300)))
on = StackedFactors(E=E, G=G, W=W, K=0.1 * K, cumulative=False)
weights = rng.uniform(0.0, 1.0, (2, 4, 300))
found = expected_sums(on, rng.normal(size=(9, 3)), total=8.0, reached=rng.uniform(0.1, 1.0, (4, 9)), weights=weights)
print(hashlib.sha256(b"".join(each.tobytes() for each in found)).hexdigest())
"""


@pytest.mark.wide
def test_sums_over_public_rows_are_the_same_where_they_were_compiled_and_where_they_were_read(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SUMS]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second

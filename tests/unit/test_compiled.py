"""Compiled code that is kept, and what it was compiled from."""

import os
import subprocess
import sys

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

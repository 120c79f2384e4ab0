"""R in each of its hosts, as a process of its own: what a script prints there, and how it ends.

Where Python is the host its process is forked (`tests.forked`), and R starts in it anew.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests import forked

HOSTS = ("r_bridge.call", "r_bridge run", "Rscript")
_CALL = """
import sys, r_bridge
r_bridge.attach_functions()
r_bridge.call("function(file) { source(file); NULL }", sys.argv[1])
"""


def command(host: str, script: Path) -> list[str]:
    """Return the program that runs an R script: in the R inside Python, or in plain R, which starts Python."""
    return {
        "r_bridge.call": [sys.executable, "-c", _CALL, str(script)],
        "r_bridge run": [sys.executable, "-m", "r_bridge", "run", str(script)],
        "Rscript": ["Rscript", "--no-save", "--no-restore", str(script)],
    }[host]


def environment(library: Path, **changes: str) -> dict[str, str]:
    """Return the environment of a user who has set nothing but the library."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HDPSTATS", "RETICULATE", "R_"))}
    return kept | {"R_LIBS": str(library), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | changes


def run(host: str, code: str, *, folder: Path, library: Path, **changes: str) -> "subprocess.CompletedProcess[bytes]":
    """Run R code from a file in a folder."""
    script = folder / "script.R"
    script.write_text(code, encoding="utf-8")
    environ = environment(library, **changes)
    return forked.run(command(host, script), text=False, cwd=folder, env=environ, timeout=300)

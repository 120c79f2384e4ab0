"""R in each of its hosts: what a script prints there, and how it ends.

Where Python is the host its process is forked (`tests.forked`), and R starts in it anew. Plain R needs seconds until
its Python is ready: `Session` is one for many scripts.
"""

import os
import subprocess
import sys
import tempfile
import threading
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


TOO_LONG = 900
"""Seconds after which a script in a session is taken to hang."""

_LOOP = """
local({
  orders <- file("stdin", "r")
  while (length(order <- readLines(orders, 1L))) {
    status <- tryCatch({
      setwd(order)
      source("script.R", local = new.env(parent = globalenv()))
      0
    }, error = function(e) {
      message("Error: ", conditionMessage(e))
      1
    })
    cat("\\nended:", status, "\\n")
    flush(stdout())
  }
})
"""


class Session:
    """One plain R that runs a script after the other, each in its folder and an environment of its own."""

    def __init__(self, library: Path):
        self._library, self._process = library, None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 — `close` closes it

    def run(self, code: str, *, folder: Path) -> "subprocess.CompletedProcess[bytes]":
        """Run R code from a file in a folder, and return what `run` does."""
        (folder / "script.R").write_text(code, encoding="utf-8")
        if self._process is None or self._process.poll() is not None:
            self._start()
        before = self._errors.seek(0, os.SEEK_END)
        killer = threading.Timer(TOO_LONG, self._process.kill)  # of an R that hangs; the next script gets another
        killer.start()
        self._process.stdin.write(f"{folder}\n".encode())
        self._process.stdin.flush()
        printed = []
        for line in self._process.stdout:
            printed.append(line)
            if line.startswith(b"ended: "):
                status = int(printed.pop().split()[1])
                break
        else:
            status = self._process.wait()
        killer.cancel()
        self._errors.seek(before)
        said = b"".join(printed).removesuffix(b"\n")
        return subprocess.CompletedProcess(["R", str(folder)], status, said, self._errors.read())

    def close(self) -> None:
        """End R."""
        if self._process is not None:
            with self._process as process:
                process.stdin.close()
        self._errors.close()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ["Rscript", "--vanilla", "-e", _LOOP],
            env=environment(self._library),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

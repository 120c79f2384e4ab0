"""The variables that R's start script sets for R, read without the start of another R.

rpy2 starts R twice before the R of this process: for a path of libraries, which it reports and does not use, and for
the variables that R's start script sets. ``R CMD env`` runs that script alone, in a hundredth of the time.
"""

import os
import subprocess

from rpy2 import situation

SET_BY_THE_SCRIPT = ("R_ARCH", "R_DOC_DIR", "R_INCLUDE_DIR", "R_PAPERSIZE", "R_SHARE_DIR")
"""What the script sets that R in this process does not set for itself."""


def variables() -> tuple[tuple[str, str], ...]:
    """Return the names and values that R's start script sets."""
    script = os.path.join(situation.get_r_home() or "", "bin", "R")
    said = subprocess.run([script, "CMD", "env"], capture_output=True, text=True, check=False)  # noqa: S603
    pairs = [line.split("=", 1) for line in said.stdout.splitlines() if "=" in line]
    return tuple((name, value) for name, value in pairs if name in SET_BY_THE_SCRIPT)


def use() -> None:
    """Let rpy2 read variables so, and no path of libraries. To be called before its interface to R is imported."""
    situation.r_ld_library_path_from_subprocess = lambda _: ""
    import rpy2.rinterface

    rpy2.rinterface._getrenvvars = variables

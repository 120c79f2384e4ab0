"""What public rows cost a fit: plans, fits and summaries beside statsmodels, and the import.

From the project's root: ``python -m benchmarks.public_rows``. Every case runs in a process of its own with one thread,
one after the other. The tables are printed and written to ``benchmarks/results/public_rows.md``.
"""

import os
import subprocess

import numpy as np

from benchmarks.hazard import run
from benchmarks.logistic import ONE_THREAD, OWN_PYTHON, ROOT, machine
from benchmarks.pages import measure

RESULTS = ROOT / "benchmarks" / "results" / "public_rows.md"
WORKER = "benchmarks.workers.public_rows"
CASES = {
    "Logit, 10^4 x 10, 2,000 public rows": ("logit", 10_000, 10, 2_000),
    "Logit, 1,500 x 8, 700 public rows": ("logit", 1_500, 8, 700),
    "Logit, 2*10^4 x 40, 2,000 public rows": ("logit", 20_000, 40, 2_000),
    "Logit, 10^4 x 4, 20,000 public rows": ("logit", 10_000, 4, 20_000),
    "Hazard, 10^5 public people, 200 intervals": ("hazard", 100_000, 200),
}
IMPORTS = {
    "`import statsmodels.api`": "import statsmodels.api",
    "`import pandas`": "import pandas",
    "`import hdpstats.api`": "import hdpstats.api",
    "`from hdpstats.api import *`, which loads every name": "from hdpstats.api import *",
}
"""Statements by what they are called."""


def import_seconds(statement: str) -> float:
    """Return the CPU seconds of an import in a process of its own, which may keep and read compiled modules."""
    code = f"import time; start = time.process_time()\n{statement}\nprint(time.process_time() - start)"
    command, environment = [OWN_PYTHON, "-c", code], {**os.environ, **ONE_THREAD}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(  # noqa: S603  (a program of this project)
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)


def table(records: dict[str, dict[str, float]]) -> list[str]:
    """Return rows of CPU seconds, their ratios to the last row, and the seconds of the first call."""
    unit = list(records.values())[-1]["seconds"]
    lines = ["| step | CPU seconds | ratio | first call |", "|---|---|---|---|"]
    for name, own in records.items():
        lines.append(f"| {name} | {own['seconds']:.3f} | {own['seconds'] / unit:.1f} | {own['first']:.2f} |")
    return lines


def report(repeats: int) -> str:
    """Measure, and return the page that is printed and written."""
    lines = [
        "# Public rows",
        "",
        f"CPU time of one thread, the median of {repeats} runs after a first one, which loads and compiles code. A fit",
        "is a model opened, fitted once at epsilon = 1 and its summary printed; ratios are to the last row.",
    ]
    start = os.getloadavg()[0]
    for title, case in CASES.items():
        lines += ["", f"## {title}", "", *table(run(OWN_PYTHON, "-m", WORKER, *map(str, (*case, repeats))))]
    seconds = {name: [import_seconds(statement) for _ in range(repeats)] for name, statement in IMPORTS.items()}
    unit = np.median(next(iter(seconds.values())))
    lines += ["", "## Imports", "", "| statement | CPU seconds | ratio |", "|---|---|---|"]
    for name, each in seconds.items():
        lines.append(f"| {name} | {np.median(each):.2f} | {np.median(each) / unit:.2f} |")
    load = " to ".join(f"{each:.1f}" for each in sorted((start, os.getloadavg()[0])))
    return "\n".join([*lines, "", f"Machine: {machine()}; load average {load}.", ""])


if __name__ == "__main__":
    measure(report, RESULTS, description=__doc__, repeats=5)

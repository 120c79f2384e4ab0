"""Descriptions and survival curves beside programs that compute the same numbers, with privacy or without.

After ``sh benchmarks/make_environment.sh``, from the project's root: ``python -m benchmarks.descriptions``. The
tables are printed and written to ``benchmarks/results/descriptions.md``.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.hazard import run
from benchmarks.logistic import DIFFPRIVLIB_PYTHON, OWN_PYTHON, ROOT, machine
from benchmarks.pages import measure

RESULTS = ROOT / "benchmarks" / "results" / "descriptions.md"
PEOPLE, COLUMNS = 1_000_000, 10


def table(found: dict[str, dict[str, Any]], unit: str) -> list[str]:
    """Return rows of CPU seconds, and their ratios to the one that is named."""
    lines = ["| program | CPU seconds | ratio | first call |", "|---|---|---|---|"]
    for name, own in found.items():
        ratio = own["seconds"] / found[unit]["seconds"]
        lines.append(f"| {name} | {own['seconds']:.3f} | {ratio:.2f} | {own['first']:.2f} |")
    return lines


def report(repeats: int) -> str:
    """Measure, and return the page that is printed and written."""
    load = os.getloadavg()[0]
    sizes = (str(PEOPLE), str(COLUMNS), str(repeats))
    with tempfile.TemporaryDirectory() as folder:
        times = str(Path(folder) / "times.csv")
        own = run(OWN_PYTHON, "-m", "benchmarks.workers.descriptions", *sizes, times)
        survfit = run("Rscript", "benchmarks/workers/survfit.R", times, str(repeats))
    other = run(DIFFPRIVLIB_PYTHON, "-m", "benchmarks.workers.diffprivlib_description", *sizes[:2], "0", "1")
    versions = own["versions"] | other["versions"] | survfit["versions"]
    ours, pandas, curve, statsmodels = own["seconds"]
    lines = [
        "# Descriptions and survival curves",
        "",
        f"CPU seconds of one thread, medians of {repeats} after a first call; {PEOPLE} people; epsilon = 1.",
        "Ratios are to the program without privacy in the table's second row.",
        "",
        f"## Means, standard deviations and quartiles of {COLUMNS} columns",
        "",
        "diffprivlib, which ran once, releases each number by itself; it gives no intervals.",
        "",
        *table({name: own["seconds"][name] for name in (ours, pandas)} | {"diffprivlib: tools": other}, pandas),
        "",
        "## A survival curve",
        "",
        *table({name: own["seconds"][name] for name in (curve, statsmodels)} | {"R: survfit": survfit}, statsmodels),
        "",
        f"Machine: {machine()}; load average {load:.1f}.",
        "",
        f"Versions: {', '.join(f'{package} {number}' for package, number in sorted(versions.items()))}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measure(report, RESULTS, description=__doc__, repeats=5)

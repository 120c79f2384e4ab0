"""Counts at nearest public points: hdpstats beside scipy's k-d tree, scikit-learn, faiss and brute force.

After ``sh benchmarks/make_environment.sh``, from the project's root: ``python -m benchmarks.neighbours``. Every program
runs in a process of its own with one thread, one after the other. The tables are printed and written to
``benchmarks/results/neighbours.md``.
"""

import os
import sys
from typing import Any

from benchmarks.hazard import run
from benchmarks.logistic import DIFFPRIVLIB_PYTHON, OWN_PYTHON, ROOT, machine
from benchmarks.pages import measure

RESULTS = ROOT / "benchmarks" / "results" / "neighbours.md"
WORKER = "benchmarks/workers/neighbours.py"
ALL = ("hdpstats", "cKDTree", "scikit-learn", "faiss")
SEARCHES = {
    "10^6 private rows, 10^6 public points, p = 2": (10**6, 10**6, 2, ALL[:3]),
    "10^5 private rows, 10^5 public points, p = 10": (10**5, 10**5, 10, ALL),
    "10^4 private rows, 10^4 public points, p = 100": (10**4, 10**4, 100, ALL),
    "10^4 private rows, 10^4 public points, p = 10": (10**4, 10**4, 10, (*ALL, "brute force")),
}
NESTED = {2: "cKDTree", 10: "scikit-learn", 100: "scikit-learn"}
"""The dimensions of nested searches, and which other program is fast in them."""

LONG = 5.0
"""CPU seconds after which a program is not run again."""


def measured(program: str, sizes: tuple[int, int, int, int], repeats: int) -> dict[str, Any]:
    """Return the least CPU time of a program, the digest of its counts, and its versions."""
    python = DIFFPRIVLIB_PYTHON if program == "faiss" else OWN_PYTHON
    records: list[dict[str, Any]] = []
    while len(records) < repeats and sum(record["seconds"] for record in records) < LONG:
        records.append(run(python, WORKER, program, *map(str, sizes)))
    return min(records, key=lambda record: record["seconds"])


def table(records: dict[str, dict[str, Any]]) -> list[str]:
    """Return rows of CPU seconds, ratios to the first row, and whether all counts are the same as its."""
    unit = records["hdpstats"]
    lines = ["| program | CPU seconds | ratio | counts |", "|---|---|---|---|"]
    for name, own in records.items():
        same = "identical" if own["digest"] == unit["digest"] else "differ"
        lines.append(f"| {name} | {own['seconds']:.3f} | {own['seconds'] / unit['seconds']:.2f} | {same} |")
    return lines


def report(repeats: int) -> str:
    """Measure, and return the page that is printed and written."""
    lines = [
        "# Nearest public points",
        "",
        "Normal private rows, public points with half the variance, scaled by the public range. CPU time of one",
        f"thread, trees included, the least of {repeats} runs; programs that take longer than {LONG:.0f} s ran once.",
        "`identical`: all counts are those of hdpstats, which compares by exact double distances; ties go to the",
        "first point. faiss computes in single precision. Imports and compiling are not counted: of the loop for",
        "p = 10 about 2 s once per process, of the tree for p = 2 about 2 s once per machine, then 0.2 s per process.",
    ]
    versions: dict[str, str] = {}
    start = os.getloadavg()[0]
    for title, (n, m, p, programs) in SEARCHES.items():
        records = {program: measured(program, (n, m, p, 1), repeats) for program in programs}
        for record in records.values():
            versions |= record["versions"]
        lines += ["", f"## {title}", "", *table(records)]
    lines += ["", "## 50 nested sets of 200, 400, ..., 10^4 points, 10^4 private rows", ""]
    lines += ["| p | one pass | 50 searches: hdpstats | 50 searches: another | ratios |", "|---|---|---|---|---|"]
    for p, fast in NESTED.items():
        sizes = (10**4, 10**4, p, 50)
        own, again, other = (measured(name, sizes, repeats) for name in ("hdpstats", "50 x hdpstats", f"50 x {fast}"))
        if again["digest"] != own["digest"]:
            sys.exit("one pass and 50 searches must give the same counts")
        ratios = f"{again['seconds'] / own['seconds']:.1f}, {other['seconds'] / own['seconds']:.1f}"
        times = f"{own['seconds']:.3f} s | {again['seconds']:.2f} s | {other['seconds']:.2f} s ({fast})"
        lines.append(f"| {p} | {times} | {ratios} |")
    load = " to ".join(f"{each:.1f}" for each in sorted((start, os.getloadavg()[0])))
    named = ", ".join(f"{package} {number}" for package, number in sorted(versions.items()))
    return "\n".join([*lines, "", f"Machine: {machine()}; load average {load}.", "", f"Versions: {named}.", ""])


if __name__ == "__main__":
    measure(report, RESULTS, description=__doc__, repeats=3)

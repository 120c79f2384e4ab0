"""Private fits of rows in Parquet files beside pyarrow, which reads the same columns and does nothing with them.

From the project's root: ``python -m benchmarks.partitions``. Files are written to a temporary folder (about 170 bytes a
row). The table is printed and written to ``benchmarks/results/partitions.md``.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.hazard import run
from benchmarks.logistic import OWN_PYTHON, ROOT, machine
from benchmarks.pages import keep
from benchmarks.workers.partitions import write

RESULTS = ROOT / "benchmarks" / "results" / "partitions.md"
WORKER = "benchmarks.workers.partitions"
ROWS, SHARED, COVARIATES, FILES = 20_000_000, 4_000_000, 20, 10
PASSES = {
    "number_of_people": "complete rows, counted",
    "PreparedDescription.totals": "description",
    "loss_gradient": "gradient of a logit",
    "_hessian": "Hessian of a logit",
    "_sandwich": "Hessian and squared scores of a logit",
}


def passes(own: dict[str, Any], *, rows: int) -> list[str]:
    """Return a table of passes in one process."""
    lines = ["| pass | seconds | per million rows | speed : pyarrow's |", "|---|---|---|---|"]
    alone = (("pyarrow alone, read as here", own["pyarrow"]), ("pyarrow alone, its defaults", own["defaults"]))
    for name, seconds in (*alone, *own["passes"].items()):
        ratio = own["pyarrow"] / seconds
        lines.append(f"| {PASSES.get(name, name)} | {seconds:.2f} | {seconds / rows * 1e6:.3f} | {ratio:.2f} |")
    return lines


def workers(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Return a table of passes on one and on two workers of a cluster."""
    lines = ["| pass | one worker | two workers | ratio |", "|---|---|---|---|"]
    for name, seconds in one["passes"].items():
        other = two["passes"][name]
        lines.append(f"| {PASSES.get(name, name)} | {seconds:.2f} | {other:.2f} | {seconds / other:.2f} |")
    return lines


def report(rows: int, shared: int, fits: int) -> str:
    """Measure, and return the page that is printed and written."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large"), Path(folder, "small")
        for place, count in ((large, rows), (small, shared)):
            place.mkdir()
            write(place, count, COVARIATES, files=FILES)
        size = sum(path.stat().st_size for path in large.iterdir()) / rows
        own = run(OWN_PYTHON, "-m", WORKER, str(large), str(COVARIATES), str(fits), "0")
        shares = [run(OWN_PYTHON, "-m", WORKER, str(small), str(COVARIATES), str(fits), str(k)) for k in (1, 2)]
    versions = ", ".join(f"{package} {number}" for package, number in sorted(own["versions"].items()))
    lines = [
        "# Passes over private rows in Parquet files",
        "",
        f"A logit with its description, {COVARIATES} covariates and an outcome, {FILES} files of pandas's defaults, "
        f"{size:.0f} bytes a row; medians of {fits} fits after a first one.",
        "",
        f"## {rows} rows, one process with one thread: CPU seconds",
        "",
        *passes(own, rows=rows),
        "",
        f"A fit has {own['count']:.0f} passes. Its process has {own['peak']:.0f} MB at its peak, "
        f"{own['added']:.0f} MB more than after its imports.",
        "",
        f"## {shared} rows, workers of a Dask cluster on this machine: elapsed seconds",
        "",
        *workers(*shares),
        "",
        f"Machine: {machine()}; load average {load:.1f} before.",
        "",
        f"Versions: {versions}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows in one process (default: {ROWS})")
    parser.add_argument("--shared", type=int, default=SHARED, help=f"rows on a cluster (default: {SHARED})")
    parser.add_argument("--fits", type=int, default=3, help="fits after the first (default: 3)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="Markdown file to write")
    chosen = parser.parse_args()
    keep(report(chosen.rows, chosen.shared, chosen.fits), chosen.output)


if __name__ == "__main__":
    main()

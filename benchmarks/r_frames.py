"""A data frame of 1 000 000 x 20 to R and back: r_bridge beside rpy2's pandas2ri, in one run.

From the project's root, with the extra ``r-cells``: ``python -m benchmarks.r_frames``. The table is printed and written
to ``benchmarks/results/r_frames.md``.
"""

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.logistic import ONE_THREAD, ROOT, machine
from benchmarks.pages import keep

RESULTS = ROOT / "benchmarks" / "results" / "r_frames.md"
ROWS = 1_000_000


def run(by: str, *, repeats: int) -> dict[str, Any]:
    """Run one of the two in a process of its own."""
    done = subprocess.run(  # noqa: S603  (a program of this project)
        [sys.executable, "-W", "ignore", "-m", "benchmarks.workers.r_frames", by, str(ROWS), str(repeats)],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, "RPY2_CFFI_MODE": "ABI"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def report(own: dict[str, Any], stock: dict[str, Any], *, repeats: int) -> str:
    """Return the page that is printed and written."""
    lines = [
        "# A data frame between Python and R",
        "",
        f"{ROWS} rows: 12 columns of doubles (one with gaps), 4 of whole numbers, 2 of truths, a category, a text.",
        f"Seconds, the shortest of {repeats}, one thread.",
        "",
        "| | Python to R | R to Python |",
        "|---|---|---|",
        f"| r_bridge | {own['to_r']:.2f} | {own['from_r']:.2f} |",
        f"| rpy2's pandas2ri | {stock['to_r']:.2f} | {stock['from_r']:.2f} |",
        f"| ratio | {stock['to_r'] / own['to_r']:.0f} | {stock['from_r'] / own['from_r']:.0f} |",
        "",
        f"Machine: {machine()}.",
        "",
        f"Versions: {versions(own, stock)}.",
    ]
    return "\n".join(lines) + "\n"


def versions(*records: dict[str, Any]) -> str:
    """List the versions of what ran."""
    found = {package: number for record in records for package, number in record["versions"].items()}
    return ", ".join(f"{package} {number}" for package, number in sorted(found.items()))


def main() -> None:
    """Read the command line, run, print and write the table."""
    parser = argparse.ArgumentParser(description="Compare conversions of a data frame to R and back.")
    parser.add_argument("--repeats", type=int, default=3, help="conversions per direction (default: 3)")
    options = parser.parse_args()
    own = run("bridge", repeats=options.repeats)
    stock = run("pandas2ri", repeats=options.repeats)
    text = report(own, stock, repeats=options.repeats)
    keep(text, RESULTS)


if __name__ == "__main__":
    main()

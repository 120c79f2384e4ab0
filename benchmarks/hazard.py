"""Discrete-time hazards: hdpstats beside R's glm and glum on person-period rows, and by itself on a million people.

After ``sh benchmarks/make_environment.sh``, from the project's root: ``python -m benchmarks.hazard``. Every program
runs in a process of its own with one thread, one after the other. The tables are printed and written to
``benchmarks/results/hazard.md``.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.logistic import DIFFPRIVLIB_PYTHON, ONE_THREAD, OWN_PYTHON, ROOT, machine
from benchmarks.pages import keep
from benchmarks.spells import Spells, flchain

RESULTS = ROOT / "benchmarks" / "results" / "hazard.md"
INTERVALS = (200, 500, 1000, 2000, 4000)
PEOPLE = 1_000_000
LABELS = {
    "hdpstats": "hdpstats, spells",
    "glum": "glum, person-period rows",
    "R": "R glm, person-period rows",
}


def run(*command: str) -> dict[str, Any]:
    """Run a program and return what it printed last."""
    done = subprocess.run(  # noqa: S603  (a program of this project)
        command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=True
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def compare(spells: Spells, *, repeats: int) -> dict[str, dict[str, Any]]:
    """Fit the same spells by every program."""
    with tempfile.TemporaryDirectory() as folder:
        arrays, features, rows = (str(Path(folder) / name) for name in ("spells.npz", "baseline.csv", "spells.csv"))
        np.savez(arrays, **spells._asdict())
        columns = [f"z{position}" for position in range(1, spells.Z.shape[1] + 1)]
        np.savetxt(features, spells.A, delimiter=",", header="a1,a2,a3", comments="")
        table = np.column_stack([spells.Z, spells.exit, spells.event])
        np.savetxt(rows, table, delimiter=",", header=",".join([*columns, "exit", "event"]), comments="", fmt="%.17g")
        return {
            "hdpstats": run(OWN_PYTHON, "-m", "benchmarks.workers.hdpstats_hazard", arrays, str(20 * repeats)),
            "glum": run(DIFFPRIVLIB_PYTHON, "-m", "benchmarks.workers.glum_hazard", arrays, str(repeats)),
            "R": run("Rscript", "benchmarks/workers/glm_hazard.R", features, rows, str(repeats)),
        }


def comparison(records: dict[str, dict[str, Any]]) -> list[str]:
    """Return the table of ratios to the first program, and its own values below it."""
    unit = records["hdpstats"]
    lines = ["| fit | time | memory | difference |", "|---|---|---|---|"]
    for name, own in records.items():
        difference = np.max(np.abs(np.array(own["coefficients"]) - np.array(unit["coefficients"])))
        ratios = f"{own['seconds'] / unit['seconds']:.0f} | {own['added_mb'] / unit['added_mb']:.0f}"
        lines.append(f"| {LABELS[name]} | {ratios} | {difference:.0e} |")
    return [*lines, "", f"First row: {unit['seconds'] * 1000:.1f} ms, {unit['added_mb']:.1f} MB."]


def scaling(records: dict[int, dict[str, Any]]) -> list[str]:
    """Return the table of fits with more and more intervals."""
    first = records[INTERVALS[0]]
    lines = [
        "| intervals | person-intervals | time | numpy's 8e8 exponentials | peak of the process |",
        "|---|---|---|---|---|",
    ]
    for intervals, own in records.items():
        ratios = f"{own['seconds'] / first['seconds']:.2f} | {own['exponentials'] / first['seconds']:.2f}"
        lines.append(f"| {intervals} | {own['person_intervals']:.2e} | {ratios} | {own['peak_mb']:.0f} MB |")
    return [*lines, "", f"First row: {first['seconds']:.3f} s."]


def report(repeats: int) -> str:
    """Measure, and return the page that is printed and written."""
    spells = flchain(INTERVALS[0])
    records = compare(spells, repeats=repeats)
    module = "benchmarks.workers.hazard_scaling"
    growing = {q: run(OWN_PYTHON, "-m", module, str(PEOPLE), str(q), str(repeats)) for q in INTERVALS}
    versions = {package: number for record in records.values() for package, number in record["versions"].items()}
    lines = [
        "# Discrete-time hazards",
        "",
        "Logit link, natural cubic spline of the interval as the baseline. CPU time of one thread, median of",
        f"{repeats} fits (hdpstats on flchain: of {20 * repeats}), after a fit that loads all code.",
        "",
        f"## flchain: {len(spells.exit)} people, {INTERVALS[0]} intervals, {int(spells.exit.sum())} person-period rows",
        "",
        "* Time: ratio to the first row. The fit alone; making the person-period rows is not counted.",
        "* Memory: ratio to the first row of what the fit adds to the process, the person-period rows included.",
        "* Difference: the largest one of a coefficient from the first row.",
        "* R with its default tolerance (1e-8 of the deviance), glum with a gradient below 1e-9.",
        "",
        *comparison(records),
        "",
        f"## {PEOPLE} people, 10 covariates, more and more intervals",
        "",
        "* Time: ratio to the first row's fit; so is numpy's time for 8e8 exponentials, four passes of 200 intervals.",
        "* Peak: of a process that imports, draws the data and fits.",
        "",
        *scaling(growing),
        "",
        f"Machine: {machine()}.",
        "",
        f"Versions: {', '.join(f'{package} {number}' for package, number in sorted(versions.items()))}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line, run, print and write the tables."""
    parser = argparse.ArgumentParser(description="Compare fits of discrete-time hazards; write their ratios.")
    parser.add_argument("--repeats", type=int, default=5, help="fits of every program (default: 5)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="Markdown file to write")
    arguments = parser.parse_args()
    if not Path(DIFFPRIVLIB_PYTHON).exists():
        parser.error("glum has no environment yet: run `sh benchmarks/make_environment.sh`")
    text = report(arguments.repeats)
    keep(text, arguments.output)


if __name__ == "__main__":
    main()

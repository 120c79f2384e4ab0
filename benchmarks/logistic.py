"""Logistic regression at n = 100 000, d = 10, epsilon = 1: hdpstats beside other software, in one run.

After ``sh benchmarks/make_environment.sh``, from the project's root: ``python -m benchmarks.logistic``.
In every round all competitors read the same new data file, one after the other, each in a process of its
own with one thread. The table of ratios is printed and written to ``benchmarks/results/logistic.md``.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.designs import ar_design
from benchmarks.pages import keep

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "logistic.md"
OWN_PYTHON = sys.executable
DIFFPRIVLIB_PYTHON = str(ROOT / ".bench-venv" / "bin" / "python")
ONE_THREAD = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"], "1")
N, D, PUBLIC, EPSILON = 100_000, 10, 2_000, 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Competitor:
    """A program that fits: its row in the table, its module, its Python and its options."""

    label: str
    private: bool
    worker: str
    python: str = OWN_PYTHON
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Medians over all fits of one competitor, and the versions it ran with."""

    error: float
    seconds: float
    peak_mb: float
    versions: dict[str, str]


COMPETITORS = {
    "hdpstats-public": Competitor(
        label=f"hdpstats, {PUBLIC} public rows",
        private=True,
        worker="hdpstats_logit",
        options={"epsilon": EPSILON, "public": True},
    ),
    "hdpstats": Competitor(
        label="hdpstats, no public rows (row_norm=1)",
        private=True,
        worker="hdpstats_logit",
        options={"epsilon": EPSILON, "public": False},
    ),
    **{
        f"diffprivlib-{C:g}": Competitor(
            label=f"diffprivlib, data_norm=1, C={C:g}" + (" (default)" if C == 1 else ""),
            private=True,
            worker="diffprivlib_logit",
            python=DIFFPRIVLIB_PYTHON,
            options={"epsilon": EPSILON, "C": C},
        )
        for C in (1.0, 10.0, 0.3, 0.1)
    },
    "statsmodels": Competitor(
        label="statsmodels Logit",
        private=False,
        worker="statsmodels_logit",
        options={"rows": "private"},
    ),
    "sklearn": Competitor(label="scikit-learn, no penalty", private=False, worker="sklearn_logit"),
    "public": Competitor(
        label=f"statsmodels Logit, the {PUBLIC} public rows alone",
        private=False,
        worker="statsmodels_logit",
        options={"rows": "public"},
    ),
}


def run(competitor: Competitor, *, data: Path, repeats: int) -> dict[str, Any]:
    """Run one competitor in a fresh process and return what it printed."""
    module, options = f"benchmarks.workers.{competitor.worker}", json.dumps(competitor.options)
    done = subprocess.run(  # noqa: S603  (a program of this project)
        [competitor.python, "-m", module, str(data), str(repeats), options],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def measure(names: Sequence[str], *, rounds: int, repeats: int) -> dict[str, Figures]:
    """Run all competitors on the same data, round after round, and return their medians."""
    records: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    errors: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        for seed in range(rounds):
            X, y, X_public, y_public, beta = ar_design(N, D, PUBLIC, seed)
            np.savez(data, X=X, y=y, X_public=X_public, y_public=y_public)
            for name in names:
                record = run(COMPETITORS[name], data=data, repeats=repeats)
                distance = np.linalg.norm(np.array(record["coefficients"]) - beta, axis=1)
                errors[name].extend(distance / np.linalg.norm(beta))
                records[name].append(record)
    return {
        name: Figures(
            error=float(np.median(errors[name])),
            seconds=float(np.median([record["seconds"] for record in records[name]])),
            peak_mb=float(np.median([record["peak_mb"] for record in records[name]])),
            versions=records[name][0]["versions"],
        )
        for name in names
    }


def machine() -> str:
    """Describe this machine in a line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def versions(figures: dict[str, Figures], *, python: str) -> str:
    """List the versions of the packages in one of the two environments."""
    own = [figures[name].versions for name in figures if COMPETITORS[name].python == python]
    merged = {package: number for record in own for package, number in record.items()}
    return ", ".join(f"{package} {number}" for package, number in sorted(merged.items())) or "not used"


def table(figures: dict[str, Figures]) -> list[str]:
    """Return the rows of ratios to the first competitor, and its own values below them."""
    unit = next(iter(figures.values()))
    lines = ["| fit | epsilon | error | time | memory |", "|---|---|---|---|---|"]
    for name, own in figures.items():
        ratios = (own.error / unit.error, own.seconds / unit.seconds, own.peak_mb / unit.peak_mb)
        epsilon = f"{EPSILON:g}" if COMPETITORS[name].private else "not private"
        cells = [COMPETITORS[name].label, epsilon, *(f"{ratio:.2f}" for ratio in ratios)]
        lines.append("| " + " | ".join(cells) + " |")
    values = f"error {unit.error:.4f}, time {unit.seconds * 1000:.1f} ms, memory {unit.peak_mb:.0f} MB"
    return [*lines, "", f"First row: {values}."]


def report(figures: dict[str, Figures], *, rounds: int, repeats: int) -> str:
    """Return the page that is printed and written."""
    lines = [
        "# Logistic regression",
        "",
        f"n = {N}, d = {D}: AR(0.5) Gaussian covariates in the unit ball (`benchmarks/designs.py`).",
        f"Ratios to the first row, medians of {rounds} data sets x {repeats} fits.",
        "",
        "* Error: ||b - b*|| / ||b*||, where b* are the true coefficients.",
        "* Time: one fit with one thread, declarations included, imports and reading not.",
        "* Memory: peak of a process that imports, reads the data and fits once.",
        "* diffprivlib has a tuning constant C. Several values show it at its best;",
        "  choosing among them by the error, as a reader of this table does, is not private.",
        "",
        *table(figures),
        "",
        f"Machine: {machine()}.",
        "",
        f"Versions: {versions(figures, python=OWN_PYTHON)}.",
        f"In diffprivlib's environment: {versions(figures, python=DIFFPRIVLIB_PYTHON)}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line, run, print and write the table."""
    parser = argparse.ArgumentParser(description="Compare logistic regressions; write their ratios.")
    parser.add_argument("--rounds", type=int, default=5, help="data sets (default: 5)")
    parser.add_argument("--repeats", type=int, default=5, help="fits per data set and competitor (default: 5)")
    parser.add_argument("--only", nargs="+", choices=list(COMPETITORS), default=list(COMPETITORS))
    parser.add_argument("--output", type=Path, default=RESULTS, help="Markdown file to write")
    arguments = parser.parse_args()
    if not Path(DIFFPRIVLIB_PYTHON).exists() and any("diffprivlib" in name for name in arguments.only):
        parser.error("diffprivlib has no environment yet: run `sh benchmarks/make_environment.sh`")
    figures = measure(arguments.only, rounds=arguments.rounds, repeats=arguments.repeats)
    text = report(figures, rounds=arguments.rounds, repeats=arguments.repeats)
    keep(text, arguments.output)


if __name__ == "__main__":
    main()

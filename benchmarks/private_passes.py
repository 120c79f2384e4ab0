"""Private fits and their computations over private rows, in CPU time of one thread beside scikit-learn's lbfgs.

From the project's root: ``python -m benchmarks.private_passes``. Fits and the peer's alternate in one process for each
size. The table is printed and written to ``benchmarks/results/private_passes.md``.
"""

from typing import Any

from benchmarks.hazard import run
from benchmarks.logistic import OWN_PYTHON, ROOT, machine
from benchmarks.pages import measure

RESULTS = ROOT / "benchmarks" / "results" / "private_passes.md"
CASES = (
    ("logit", 10_000, 10, 0),
    ("logit", 100_000, 10, 0),
    ("logit", 200_000, 30, 0),
    ("logit", 1_000_000, 20, 0),
    ("hazard", 100_000, 5, 200),
)
MODELS = (100_000, 10)


def row(case: tuple[str, int, int, int], own: dict[str, Any]) -> str:
    """Return a row of the table."""
    kind, n, p, intervals = case
    name = f"{kind}, {n} x {p}" + (f", {intervals} intervals" if intervals else "")
    peer = own["peer"]
    ratios = ["", ""] if peer is None else [f"{own[part] / peer:.2f}" for part in ("fit", "private")]
    beside = "" if peer is None else f"{peer:.3f}"
    cells = [
        name,
        f"{own['fit']:.3f}",
        f"{own['private']:.3f}",
        beside,
        *ratios,
        f"{own['added']:.2f}",
        f"{own['first']:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def row_of_model(name: str, own: dict[str, Any]) -> str:
    """Return a row of the table of other models."""
    peer = own["peer"]
    beside = (
        ["", "", ""] if peer is None else [f"{peer:.3f}", f"{own['fit'] / peer:.2f}", f"{own['private'] / peer:.2f}"]
    )
    return "| " + " | ".join([name, f"{own['fit']:.3f}", f"{own['private']:.3f}", *beside]) + " |"


def report(repeats: int) -> str:
    """Measure, and return the page that is printed and written."""
    module = "benchmarks.workers.private_passes"
    found = [(case, run(OWN_PYTHON, "-m", module, *map(str, case), str(repeats))) for case in CASES]
    models = run(OWN_PYTHON, "-m", "benchmarks.workers.private_models", *map(str, MODELS), str(repeats))
    versions = found[0][1]["versions"]
    lines = [
        "# Computations over private rows",
        "",
        f"CPU seconds of one thread, medians of {repeats} fits; 2000 public rows; epsilon = 1, without a description.",
        "",
        "* Private: what the site computes from private rows, noise included.",
        "* lbfgs: scikit-learn's LogisticRegression without a penalty, on an array; the ratios are to it.",
        "* Memory: what a fit adds to the process at its peak, in sizes of the matrix of covariates.",
        "* First: the first fit in the process, which loads compiled code, or compiles it.",
        "",
        "| fit | whole | private | lbfgs | whole : lbfgs | private : lbfgs | memory | first |",
        "|---|---|---|---|---|---|---|---|",
        *(row(case, own) for case, own in found),
        "",
        f"Other models and mechanisms, {MODELS[0]} x {MODELS[1]}, delta = 1e-6 for clipped Newton steps, in a process",
        "whose code is loaded. The peers are scikit-learn's estimators without a penalty: linear and Poisson",
        "regressions, else logistic ones (for importance weights that of private against public rows).",
        "",
        "| fit | whole | private | peer | whole : peer | private : peer |",
        "|---|---|---|---|---|---|",
        *(row_of_model(name, own) for name, own in models.items()),
        "",
        f"Machine: {machine()}.",
        "",
        f"Versions: {', '.join(f'{package} {number}' for package, number in sorted(versions.items()))}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measure(report, RESULTS, description=__doc__, repeats=5)

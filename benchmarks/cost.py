"""How the time of private computations grows with people, covariates, intervals, epsilon and sites; and their errors.

From the project's root: ``python -m benchmarks.cost``. Each size is measured in a process of its own with one thread,
one after the other. The tables and the figure are written to ``benchmarks/results/cost.md`` and ``cost.png``.
"""

import argparse
import json
import os
from dataclasses import asdict, dataclass, replace
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.hazard import run
from benchmarks.logistic import OWN_PYTHON, ROOT, machine
from benchmarks.pages import keep

RESULTS = ROOT / "benchmarks" / "results" / "cost.md"
WORKER, ERRORS = "benchmarks.workers.cost", "benchmarks.workers.errors"
LARGEST = 10_000_000
SIZES = [10**k for k in range(3, 9)]
"""Numbers of people for which errors are predicted; nothing is fitted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """What is computed, and how large it is; ``intervals`` are those of a hazard."""

    kind: str = "logit"
    n: int = 20_000
    p: int = 5
    intervals: int = 50
    epsilon: float = 1.0
    sites: int = 1
    describe: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """A panel of the figure and a table of the page: what grows, its values, and what is computed at each."""

    field: str
    label: str
    values: tuple[float, ...]
    sizes: dict[str, Size]


PEER = "lbfgs, not private"
LOGIT, DESCRIBED, HAZARD = "logit", "logit, its people described", "hazard"
FITS = {LOGIT: Size(), DESCRIBED: Size(describe=True), HAZARD: Size(kind="hazard")}
OTHERS = {"description": Size(kind="description"), "survival curve": Size(kind="curves")}
STYLES = {
    **{name: (f"C{k}", "osD^v"[k]) for k, name in enumerate(FITS | OTHERS)},
    "linear": ("C5", "P"),
    "poisson": ("C6", "X"),
    PEER: ("black", "x"),
}
"""Colour and marker of each computation, the same in all panels."""

PANELS = (
    Panel(field="n", label="private people", values=(1e3, 1e4, 1e5, 1e6, LARGEST), sizes=FITS | OTHERS),
    Panel(field="p", label="covariates", values=(2, 10, 40, 80), sizes=FITS),
    Panel(field="intervals", label="intervals", values=(10, 50, 200, 1000), sizes={HAZARD: FITS[HAZARD]}),
    Panel(field="epsilon", label="epsilon", values=(0.1, 1.0, 10.0), sizes=FITS | OTHERS),
    Panel(field="sites", label="sites", values=(1, 3, 10), sizes=FITS),
)


def measured(panel: Panel, *, repeats: int, largest: int) -> dict[str, dict[float, dict[str, Any]]]:
    """Return what each computation took at each value, the peer's fit among them."""
    found: dict[str, dict[float, dict[str, Any]]] = {}
    for value in panel.values:
        if panel.field == "n" and value > largest:
            continue
        for name, size in panel.sizes.items():
            whole = value if panel.field == "epsilon" else int(value)
            grown = json.dumps(asdict(replace(size, **{panel.field: whole})))
            own = run(OWN_PYTHON, "-m", WORKER, grown, str(repeats))
            found.setdefault(name, {})[value] = own
            if name == LOGIT and panel.field in ("n", "p"):
                found.setdefault(PEER, {})[value] = own | {"seconds": own["peer"]}
    return found


def table(panel: Panel, found: dict[str, dict[float, dict[str, Any]]]) -> list[str]:
    """Return a table of CPU seconds: a row for each value, a column for each computation."""
    rows = [[panel.label, *found], ["---"] * (len(found) + 1)]
    for value in next(iter(found.values())):
        rows += [[f"{value:,g}", *(f"{each[value]['seconds']:.3f}" for each in found.values())]]
    return [f"| {' | '.join(cells)} |" for cells in rows]


def predicted_errors() -> dict[str, dict[int, float]]:
    """Return standard errors over those without noise, by computation and number of people, from plans."""
    given = (Size().p, Size().intervals, Size().epsilon, SIZES)
    found: dict[str, dict[str, float]] = run(OWN_PYTHON, "-m", ERRORS, *(json.dumps(each) for each in given))
    return {name: {int(n): ratio for n, ratio in each.items()} for name, each in found.items()}


def error_table(planned: dict[str, dict[int, float]], fits: dict[str, dict[float, dict[str, Any]]]) -> list[str]:
    """Return the table of errors: plans, and the fits whose time was measured."""
    measured = {f"{name}, fitted": each for name, each in fits.items() if name in (DESCRIBED, HAZARD)}
    rows = [["private people", *planned, *measured], ["---"] * (1 + len(planned) + len(measured))]
    for n in SIZES:
        cells = [f"{each[n]:.3f}" for each in planned.values()]
        cells += ["" if n not in each else f"{each[n]['noisier']:.3f}" for each in measured.values()]
        rows.append([f"{n:,g}", *cells])
    return [f"| {' | '.join(cells)} |" for cells in rows]


def drawn_errors(axes: Axes, planned: dict[str, dict[int, float]]) -> None:
    """Draw what noise adds to standard errors against the number of people."""
    for name, each in planned.items():
        colour, marker = STYLES[name]
        axes.plot(list(each), [ratio - 1.0 for ratio in each.values()], color=colour, marker=marker, label=name)
    axes.set(xscale="log", yscale="log", xlabel="private people", ylabel="SE / SE without noise, less 1")
    axes.set_xticks(SIZES, [f"1e{len(str(size)) - 1}" for size in SIZES])
    axes.yaxis.set_major_locator(LogLocator(numticks=20))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False, fontsize="small", loc="lower left")


def drawn(axes: Axes, panel: Panel, found: dict[str, dict[float, dict[str, Any]]]) -> None:
    """Draw the seconds of each computation against what grows."""
    for name, each in found.items():
        colour, marker = STYLES[name]
        line = "--" if name == PEER else "-"
        axes.plot(list(each), [own["seconds"] for own in each.values()], line, color=colour, marker=marker, label=name)
    axes.set(xscale="log", yscale="log", xlabel=panel.label, ylabel="CPU seconds")
    axes.set_xticks(panel.values, [f"{value:g}" for value in panel.values])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(visible=True, alpha=0.3)


def write_figure(found: list[dict[str, dict[float, dict[str, Any]]]], planned: dict[str, dict[int, float]]) -> None:
    """Write a panel for each size that grows, and one of errors."""
    mpl.use("agg")
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), layout="constrained")
    for place, panel, own in zip(axes.flat, PANELS, found, strict=False):
        drawn(place, panel, own)
    drawn_errors(axes.flat[-1], planned)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(RESULTS.with_suffix(".png"), dpi=120)


def report(repeats: int, largest: int) -> str:
    """Measure, write the figure and return the page that is printed and written."""
    load = os.getloadavg()[0]
    found = [measured(panel, repeats=repeats, largest=largest) for panel in PANELS]
    planned = predicted_errors()
    write_figure(found, planned)
    versions = found[0][LOGIT][PANELS[0].values[0]]["versions"]
    lines = [
        "# What computations cost as they grow",
        "",
        f"CPU seconds of one thread, medians of {repeats} (one where there are over 2 million cells) after a first",
        "that loads compiled code: a model opened and fitted with 2,000 public rows. Where nothing else is said",
        f"{Size().n} people, {Size().p} covariates, {Size().intervals} intervals, epsilon = {Size().epsilon:g}, one",
        "site; sites share the people. Only the second column's logit describes its people.",
        f"*{PEER}*: scikit-learn without a penalty, on an array.",
        "",
        "![CPU seconds against each size](cost.png)",
    ]
    lines += [
        "",
        "## Errors against private people",
        "",
        "Standard errors (of fits: private-only) over those of sampling alone; medians over coefficients, or the",
        "numbers of a description or a curve; the last panel of the figure. From `plan`, which spends and fits",
        "nothing; *fitted* is what the fits above report. Beside the noise, errors of fits count what weights and caps",
        "of people may do to an estimate (`hdpstats.public.row_weights`), which falls only where radii and caps grow",
        "with the number of people. Of hazards it is most of what is shown: caps grow slowly, so that errors fall",
        "more slowly than those of sampling, and their column does not fall.",
        "",
        *error_table(planned, found[0]),
    ]
    for panel, own in zip(PANELS, found, strict=True):
        lines += ["", f"## {panel.label.capitalize()}", "", *table(panel, own)]
    lines += ["", f"Machine: {machine()}; load average {load:.1f}.", ""]
    lines += [f"Versions: {', '.join(f'{package} {number}' for package, number in sorted(versions.items()))}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Read the command line, run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--largest", type=int, default=LARGEST, help=f"most people (default: {LARGEST})")
    arguments = parser.parse_args()
    keep(report(arguments.repeats, arguments.largest), RESULTS)


if __name__ == "__main__":
    main()

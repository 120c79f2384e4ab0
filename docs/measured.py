"""Pages that studies and benchmarks write: figures of their long tables, and how to repeat what they measure.

Every number of a figure is read from the page that a study wrote; `measured.toml` says which columns are drawn. The
table stays below its figure, folded. Nothing here needs Sphinx; matplotlib is needed to draw.
"""

import json
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
FIGURES = DOCS / "_thumbnails" / "measured"
STUDIES = "vignettes/validation/"
BENCHMARKS = "benchmarks/results/"


@dataclass(frozen=True)
class Number:
    """A number of a table, with the Monte-Carlo standard error that stands in brackets behind it."""

    value: float
    error: float


@dataclass(frozen=True)
class Table:
    """A table of a page: where it stands among the page's lines, the names of its columns, its cells."""

    begin: int
    end: int
    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """Return the cells of a column; ``least #2`` is the second column with the name ``least``."""
        wanted, _, which = name.partition(" #")
        places = [place for place, each in enumerate(self.names) if each == wanted]
        if len(places) < int(which or 1):
            raise KeyError(f"the table {self.names} has no column {name!r}")
        return [row[places[int(which or 1) - 1]] for row in self.cells]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What `measured.toml` says of a figure.

    Attributes
    ----------
    page, section, table
        The page, the heading above the table, and which table below it.
    rows
        Columns that name a line.
    values
        Columns that are drawn.
    names
        What the columns are called; as in the table where this is empty.
    axis
        What is measured.
    kind
        ``dots``, a line for each row, or ``scatter``, the second column against the first.
    truth
        Where a line is drawn; NaN for none.
    log
        Whether the axis is logarithmic.
    brackets
        Whether numbers in brackets are Monte-Carlo standard errors.
    """

    page: str
    section: str
    rows: tuple[str, ...]
    values: tuple[str, ...]
    axis: str
    table: int = 1
    names: tuple[str, ...] = ()
    kind: str = "dots"
    truth: float = float("nan")
    log: bool = False
    brackets: bool = True


def figures() -> list[Figure]:
    """Return the figures that are drawn."""
    read = tomllib.loads((DOCS / "measured.toml").read_text(encoding="utf-8"))
    common = {name: value for name, value in read.items() if name != "figure"}
    return [
        Figure(**common | {name: tuple(v) if isinstance(v, list) else v for name, v in each.items()})
        for each in read["figure"]
    ]


def tables(text: str) -> dict[str, list[Table]]:
    """Return the tables of a page by the heading above them."""
    found: dict[str, list[Table]] = {}
    lines = text.splitlines()
    heading, place = "", 0
    while place < len(lines):
        if lines[place].startswith("#"):
            heading = lines[place].lstrip("# ")
        if not lines[place].startswith("|"):
            place += 1
            continue
        end = place
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        rows = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in lines[place:end]]
        found.setdefault(heading, []).append(Table(place, end, rows[0], tuple(rows[2:])))
        place = end
    return found


def of(figure: Figure, text: str) -> Table:
    """Return the table that a figure shows; KeyError where the page has no such table or column."""
    table = tables(text)[figure.section][figure.table - 1]
    for name in (*figure.rows, *figure.values):
        table.column(name)
    return table


def number(cell: str) -> Number:
    """Return the number of a cell, NaN where it has none.

    >>> number("0.954 (0.014)")
    Number(value=0.954, error=0.014)
    >>> number("5%").value, number("").value
    (5.0, nan)
    """
    found = re.match(r"([-+]?[\d.]+(?:e[-+]?\d+)?)%?(?:\s*\(([\d.]+)\))?", cell)
    if found is None:
        return Number(float("nan"), float("nan"))
    return Number(float(found[1]), float(found[2]) if found[2] else float("nan"))


def described(figure: Figure, table: Table) -> str:
    """Return in words what a figure shows, for readers who hear it."""
    said = []
    for name, shown in zip(figure.values, figure.names or figure.values, strict=True):
        values = [number(cell).value for cell in table.column(name)]
        known = [value for value in values if value == value]
        said.append(f"{shown.partition(' #')[0]} from {min(known):g} to {max(known):g}")
    lines = f"{len(table.cells)} lines, by {', '.join(each or 'setting' for each in figure.rows)}"
    truth = f". A line stands at {figure.truth:g}" if figure.truth == figure.truth else ""
    return f"{figure.axis}, {lines}: {'; '.join(said)}{truth}."


def draw(figure: Figure, table: Table, place: Path) -> None:
    """Draw a figure into a file."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hdpstats", "font.size": 10}):
        height = 4.5 if figure.kind == "scatter" else 1.2 + max(0.24, 0.1 * len(figure.values)) * len(table.cells)
        canvas = Canvas(figsize=(8, height), layout="constrained")
        FigureCanvasSVG(canvas)
        axes = canvas.add_subplot()
        (_scatter if figure.kind == "scatter" else _dots)(figure, table, axes)
        place.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(place, metadata={"Date": None})


def _dots(figure: Figure, table: Table, axes) -> None:
    lines = list(zip(*(table.column(name) for name in figure.rows), strict=True))
    names = figure.names or figure.values
    last = None
    for place, line in enumerate(lines):
        if last is not None and line[0] != last and len(line) > 1:
            axes.axhline(place - 0.5, color="0.85", linewidth=0.8, zorder=0)
        last = line[0]
    for own, (column, name) in enumerate(zip(figure.values, names, strict=True)):
        read = [number(cell) for cell in table.column(column)]
        step = 0.7 / max(len(names), 4)
        heights = [place + step * (own - (len(names) - 1) / 2) for place in range(len(read))]
        errors = [2 * each.error if figure.brackets and each.error == each.error else 0 for each in read]
        axes.errorbar(
            [each.value for each in read],
            heights,
            xerr=errors if any(errors) else None,
            fmt="osD^vP"[own],
            color=("#1f5fa8", "#b8480a", "#2a7a3b", "#7a3b9a", "#555555", "#a01830")[own],
            markersize=4.5,
            linewidth=1,
            label=name.partition(" #")[0],
        )
    if figure.truth == figure.truth:
        axes.axvline(figure.truth, color="0.4", linewidth=1, linestyle="--", zorder=0)
    if figure.log:
        axes.set_xscale("log")
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(lines)), [", ".join(line) for line in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlabel(figure.axis)
    axes.set_title(", ".join(each for each in figure.rows if each), loc="left", fontsize=9)
    axes.grid(axis="x", color="0.92", zorder=0)
    if len(names) > 1:
        axes.figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _scatter(figure: Figure, table: Table, axes) -> None:
    first, second = ([number(cell).value for cell in table.column(name)] for name in figure.values)
    axes.set_axisbelow(True)
    axes.scatter(first, second, s=14, color="#1f5fa8")
    ends = [min(*first, *second), max(*first, *second)]
    axes.plot(ends, ends, color="0.4", linewidth=1, linestyle="--")
    if figure.log:
        axes.loglog()
    names = figure.names or figure.values
    axes.set_xlabel(f"{names[0]}, {figure.axis}")
    axes.set_ylabel(f"{names[1]}, {figure.axis}")
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)


def with_figures(page: str, text: str) -> str:
    """Return a page with its figures drawn, above the tables that they show, which are folded."""
    by_table: dict[Table, list[Figure]] = {}
    for figure in figures():
        if figure.page == page:
            by_table.setdefault(of(figure, text), []).append(figure)
    lines = text.splitlines()
    for table, shown in sorted(by_table.items(), key=lambda item: -item[0].begin):
        parts = []
        for figure in shown:
            own = [each for each in figures() if each.page == page].index(figure) + 1
            place = FIGURES / f"{page.rpartition('/')[2]}-{own}.svg"
            draw(figure, table, place)
            whiskers = any(number(cell).error > 0 for name in figure.values for cell in table.column(name))
            caption = (
                "Against each other; on the dashed line they are equal." if figure.kind == "scatter" else ""
            ) or (
                f"{figure.axis[0].upper()}{figure.axis[1:]}."
                + (" The dashed line: what is aimed at." if figure.truth == figure.truth else "")
                + (" Whiskers: two Monte-Carlo standard errors." if whiskers and figure.brackets else "")
            )
            parts.append(
                f":::{{figure}} /{place.relative_to(ROOT).as_posix()}\n:alt: {described(figure, table)}\n"
                f":figclass: measured\n\n{caption}\n:::\n"
            )
        folded = ["::::{dropdown} The numbers", *lines[table.begin : table.end], "::::"]
        lines[table.begin : table.end] = ["\n".join(parts), *folded]
    return "\n".join(lines) + "\n"


# How it was measured


def repeated_by(page: str) -> str:
    """Return the command that writes a page again; empty where nothing writes it."""
    stem = page.rpartition("/")[2]
    if page.startswith(BENCHMARKS):
        return f"python -m benchmarks.{stem}" if (ROOT / "benchmarks" / f"{stem}.py").exists() else ""
    if page == f"{STUDIES}guarantees":
        return "make audit"
    for study in sorted((ROOT / "tests" / "statistical").glob("test_*.py")):
        if f'"{stem}.md"' in study.read_text(encoding="utf-8"):
            return f"python -m pytest {study.relative_to(ROOT).as_posix()} -m validate -p no:randomly"
    return ""


def _git(*words: str) -> list[str]:
    """Return the words of an answer of git; none where there is no git or no repository."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    except FileNotFoundError:
        return []


def _committed(page: str) -> tuple[str, str]:
    """Return the commit that last wrote a page, and its day; nothing outside a repository or in a shallow one."""
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":
        return "", ""
    said = subprocess.run(
        ["git", "log", "-1", "--format=%h %cs", "--", f"{page}.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    return (said[0], said[1]) if len(said) == 2 else ("", "")


def facts(page: str, text: str) -> str:
    """Return a note of when, with which code and on which machine a page was measured, and how to repeat it."""
    commit, day = _committed(page)
    machine = "simulations, whose numbers do not depend on it"
    version, versions = re.search(r"hdpstats ([\d.]+\d), (\d{4}-\d\d-\d\d)", text), ""
    if version is not None:
        versions, day = f"hdpstats {version[1]}", version[2]
    if found := re.search(r"(\d+ cores, load [\d.]+)", text):
        machine = f"{found[1]} at the end"
    if page.startswith(BENCHMARKS):
        history = (ROOT / BENCHMARKS / "history.jsonl").read_text(encoding="utf-8").splitlines()
        runs = [run for run in map(json.loads, history) if run["page"] == page.rpartition("/")[2]]
        notes = re.findall(r"^(?:Machine|Versions): .*$", text, flags=re.M)
        machine = next((note.partition(": ")[2].rstrip(".") for note in notes if note.startswith("Machine")), "")
        machine = machine or "not noted by this run"
        if runs:
            day, commit = runs[-1]["time"][:10], runs[-1]["commit"] or commit
            machine += f"; load {runs[-1]['load']} at the end"
    code = ", ".join(each for each in (versions, f"commit `{commit}`" if commit else "") if each) or "see the page"
    items = [f"**Date** {day or 'see the page'}", f"**Code** {code}", f"**Machine** {machine}"]
    items.append(f"**Repeat** `{repeated_by(page)}`")
    return (
        "\n\n".join([":::{admonition} How it was measured\n:class: note", " · ".join(items[:3]), items[3]]) + "\n:::\n"
    )


def shown(page: str, text: str) -> str:
    """Return a measured page as readers see it: what was measured how below its title, figures above long tables."""
    with_drawn = with_figures(page, text)
    title, _, rest = with_drawn.partition("\n")
    return f"{title}\n\n{facts(page, text)}\n{rest}"

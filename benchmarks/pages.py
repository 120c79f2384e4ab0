"""What benchmarks of one page share: the command line, the page, and a line of the history for each run."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

HISTORY = "history.jsonl"
"""Beside the pages: a line of JSON for each run, with the tables that it printed, so that a change shows its cost."""


def measure(report: Callable[[int], str], path: Path, *, description: str | None, repeats: int) -> None:
    """Print and keep the page that ``report`` returns of so many runs of each case, ``--repeats`` of them if given."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=repeats, help=f"runs of each case (default: {repeats})")
    keep(report(parser.parse_args().repeats), path)


def keep(page: str, path: Path) -> None:
    """Print a page, write it, and add its tables, the commit and the machine to the history in the same folder."""
    sys.stdout.write(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)
    line = {
        "page": path.stem,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "load": round(os.getloadavg()[0], 2),
        "tables": tables_of(page),
        "notes": [each for each in page.splitlines() if each.startswith(("Machine:", "Versions:"))],
    }
    with path.with_name(HISTORY).open("a") as history:
        history.write(json.dumps(line) + "\n")


def tables_of(page: str) -> list[list[list[str]]]:
    r"""Return the tables of a page: of each its rows, the names of columns first, of each row its cells.

    >>> tables_of("| a | b |\n|---|---|\n| 1 | 2 |\n\ntext")
    [[['a', 'b'], ['1', '2']]]
    """
    tables: list[list[list[str]]] = []
    inside = False
    for line in page.splitlines():
        is_row = line.startswith("|")
        if is_row and not inside:
            tables.append([])
        if is_row and not set(line) <= set("|-: "):
            tables[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        inside = is_row
    return tables


def _commit() -> str:
    """Return the commit that runs, with ``+`` where files differ from it; empty where there is no repository."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],  # noqa: S607
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return found.stdout.strip()

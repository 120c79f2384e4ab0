"""The command line that benchmarks of one page share: measure, print the page and write it."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def measure(report: Callable[[int], str], path: Path, *, description: str | None, repeats: int) -> None:
    """Print and write the page that ``report`` returns of so many runs of each case, ``--repeats`` of them if given."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=repeats, help=f"runs of each case (default: {repeats})")
    page = report(parser.parse_args().repeats)
    sys.stdout.write(page)
    path.write_text(page)

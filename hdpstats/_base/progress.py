"""Progress of long work: a tqdm bar on a terminal or in a notebook after a second, silence elsewhere."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm.auto import tqdm

T = TypeVar("T")


def progress(items: Iterable[T], *, total: int | None = None, label: str = "") -> Iterator[T]:
    """Iterate over items, showing a bar when standard error is a terminal and the work takes more than a second."""
    silent = not (sys.stderr.isatty() or "ipykernel" in sys.modules)
    return iter(tqdm(items, total=total, desc=label, disable=silent, delay=1.0, leave=False))

"""Code blocks of the pages run; every public name has a page, and every word of the glossary is linked.

A block is run where its fence says ``python`` or ``r``; one that needs a site elsewhere is written as a ``code-block``
directive. Pages on how to do something begin with the study that their index shows.
"""

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "how-to" / "index.md"
PAGES = sorted([*DOCS.glob("start/*.md"), *DOCS.glob("how-to/*.md"), *DOCS.glob("understand/*.md"), DOCS / "index.md"])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def of_page(page: Path, language: str) -> list[str]:
    """Return the blocks of a page, after those that it builds on."""
    own = blocks(page, language)
    return [*blocks(INDEX, language), *own] if page.parent == INDEX.parent and page != INDEX else own


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_blocks_of_python_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, object] = {}
    for block in of_page(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    plt.close("all")

"""The pages' code blocks, and what is written by hand for them in `docs`."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "how-to" / "index.md"
PAGES = sorted([ROOT / "README.md", DOCS / "index.md", *DOCS.glob("[!r]*/*.md")])
"""Every page but the reference's, and README."""


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_of_pages", DOCS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


content = _module("content")
measured = _module("measured")


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of a page that run: their fence says ``python`` or ``r``, and is no directive."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def built_on(page: Path, language: str) -> list[str]:
    """Return the blocks that a page builds on: how to do something begins with the study that the index shows."""
    return blocks(INDEX, language) if page.parent == INDEX.parent and page != INDEX else []


def with_blocks(language: str) -> list[Path]:
    """Return the pages with blocks of a language."""
    return [page for page in PAGES if blocks(page, language)]


def named(page: Path) -> str:
    """Return a page's name, ``docs/how-to/plan``."""
    return page.relative_to(ROOT).with_suffix("").as_posix()


def keep(page: Path, block: str, printed: str, folder: Path) -> None:
    """Keep what a block printed, for the pages; nothing where it printed nothing."""
    place = content.block_place(named(page), block)
    if printed.strip():
        content.keep(place, printed.replace(f"{folder}/", "").rstrip() + "\n")

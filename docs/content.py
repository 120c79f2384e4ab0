"""What pages and their tests share: lists that are written by hand, and where tests keep what code prints.

Nothing here needs Sphinx, which tests do without.
"""

import hashlib
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PRINTED = DOCS / "_printed"
"""What vignettes printed when tests last ran them: a notebook for each, named by the hash of its source."""

NAMES: dict[str, Any] = {"hdp": hdp, "hdpf": hdpf}
RESULTS = ("Result", "SurvivalCurves", "Description", "WeightedSample", "Aggregate")
FROM_CODE = ("methods", "twins", "command-line", "settings", "files", "errors")
"""Pages of the reference that are made from code."""


GLOSSARY = "docs/about/glossary"
AS_USUAL = {"account", "cap", "head", "study", "unit"}
"""Words of the glossary that also have their usual meaning on pages; they are not linked by themselves."""


def glossary() -> list[str]:
    """Return the words of the glossary."""
    text = (ROOT / f"{GLOSSARY}.md").read_text(encoding="utf-8")
    return re.findall(r"^([a-z][^\n]*)\n  \S", text.partition("```{glossary}\n")[2], flags=re.M)


def printed_place(script: str) -> Path:
    """Return the file that holds what a vignette printed."""
    return PRINTED / f"{_name(script)}.ipynb"


def block_place(page: str, code: str) -> Path:
    """Return the file that holds what a block of code of a page printed; a page is named as ``docs/index``."""
    return PRINTED / f"{_name(page + chr(10) + code.strip())}.txt"


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def keep(place: Path, text: str) -> None:
    """Keep what code printed, whole or not at all: several processes run tests."""
    place.parent.mkdir(exist_ok=True)
    if place.exists() and place.read_text(encoding="utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).replace(place)


def resolved(name: str) -> Any:
    """Return what a dotted name such as ``hdp.Result.tidy`` stands for; AttributeError where there is none."""
    first, *others = name.split(".")
    value = NAMES[first]
    for other in others:
        value = getattr(value, other)
    return value


def introductions() -> dict[str, str]:
    """Return what stands above the tables of each page that is made from code."""
    return tomllib.loads((DOCS / "introductions.toml").read_text(encoding="utf-8"))


def purposes() -> dict[str, dict[str, list[str]]]:
    """Return the attributes of results by purpose and class."""
    return tomllib.loads((DOCS / "purposes.toml").read_text(encoding="utf-8"))


def twins() -> dict[str, dict[str, str]]:
    """Return the Python name of each function of R, by subject."""
    return tomllib.loads((DOCS / "twins.toml").read_text(encoding="utf-8"))

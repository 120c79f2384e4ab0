"""Commands that install the package work: it is on no registry, and they name a clone of it, or a folder of wheels."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = [
    path
    for folder in ("hdpstats", "r_bridge", "docs")
    for ending in ("*.py", "*.R", "*.Rd", "*.md", "DESCRIPTION")
    for path in sorted((ROOT / folder).rglob(ending))
    if not {"_build", "jupyter_execute", "generated"} & set(path.parts)
] + [ROOT / "README.md"]
FROM_A_REGISTRY = ("install 'hdpstats", 'install "hdpstats', "install hdpstats", 'install.packages("hdpstats')


def lines_from_a_registry(text: str) -> list[str]:
    """Return the lines that would install the package from a registry; not those that name a folder of wheels."""
    return [
        line
        for line in text.splitlines()
        if "--find-links" not in line and any(each in line for each in FROM_A_REGISTRY)
    ]


def test_no_text_installs_the_package_from_a_registry() -> None:
    assert len(TEXTS) > 300
    found = {str(path): lines for path in TEXTS if (lines := lines_from_a_registry(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize("line", ["pip install hdpstats", "pip install 'hdpstats[r]'", 'install.packages("hdpstats")'])
def test_such_a_line_is_found(line: str) -> None:
    assert lines_from_a_registry(f"first\n{line}") == [line]
    assert lines_from_a_registry(f"pip install --no-index --find-links wheels {line}") == []

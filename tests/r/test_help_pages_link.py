"""Every help page of R links to its page on the site, where the installer knows of one, and else names it."""

import re
import subprocess
from pathlib import Path

import pytest

from r_bridge import package
from r_bridge.package import SOURCE

HELP = sorted((SOURCE / "man").glob("*.Rd"))
IN_HTML = """
for (path in commandArgs(TRUE)[-1])
  tools::Rd2HTML(path, out = paste0(path, ".html"), macros = tools::loadPkgRdMacros(commandArgs(TRUE)[[1]]))
"""


def in_html(source: Path) -> dict[str, str]:
    """Return the help pages of a source package as HTML, by name."""
    pages = sorted((source / "man").glob("*.Rd"))
    subprocess.run(["Rscript", "--vanilla", "-e", IN_HTML, str(source), *map(str, pages)], check=True)
    return {page.stem: Path(f"{page}.html").read_text(encoding="utf-8") for page in pages}


def test_a_help_page_links_to_its_page_on_the_site(tmp_path: Path) -> None:
    found = in_html(package.build(tmp_path, vignettes=False, pages="https://example.org/some%20place/"))
    assert len(found) == len(HELP) > 30
    for name, page in found.items():
        links = re.findall(r'href="(https://example\.org[^"]*)"', page)
        assert links == [f"https://example.org/some%20place/docs/reference/r/{name}.html"]


def test_addresses_on_the_web_are_those_of_the_package(tmp_path: Path) -> None:
    own = package.SOURCE / "DESCRIPTION"
    assert "URL:" not in own.read_text(encoding="utf-8"), "no address is invented"
    assert "BugReports:" not in own.read_text(encoding="utf-8")
    faults = "https://example.org/faults"
    built = package.build(tmp_path, vignettes=False, pages="https://example.org/pages/", bugs=faults)
    description = (built / "DESCRIPTION").read_text(encoding="utf-8")
    assert description.endswith(f"\nURL: https://example.org/pages/\nBugReports: {faults}\n")


@pytest.mark.wide
def test_without_a_site_a_help_page_says_where_its_page_is(tmp_path: Path) -> None:
    for name, page in in_html(package.build(tmp_path, vignettes=False)).items():
        assert f"docs/reference/r/{name}.html" in page
        assert "example.org" not in page


def test_pages_that_make_docs_built_beside_the_source_are_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(package, "SOURCE", tmp_path / "r_bridge" / "R" / "hdpstats")
    assert package.built_pages() == ""
    home = tmp_path / "docs" / "_build" / "docs" / "index.html"
    home.parent.mkdir(parents=True)
    home.touch()
    assert package.built_pages() == f"file://{tmp_path}/docs/_build"

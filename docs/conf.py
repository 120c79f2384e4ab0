"""Configuration of the documentation: `make docs` builds it without a warning."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

import hdpstats

project = "hdpstats"
author = "The hdpstats maintainers"
version = release = hdpstats.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"
nitpicky = False

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nb_execution_mode = "off"  # vignettes are run by tests

html_theme = "pydata_sphinx_theme"
html_title = "hdpstats"
html_theme_options = {"show_nav_level": 2, "navigation_with_keys": False}
html_show_sourcelink = False


def write_r_pages(app: Sphinx) -> None:
    """Write a page for each help page of the R package, and their index."""
    folder = Path(app.srcdir) / "reference" / "r"
    folder.mkdir(exist_ok=True)
    help_pages = sorted((Path(app.srcdir).parent / "r_bridge" / "R" / "hdpstats" / "man").glob("*.Rd"))
    code = "for (path in commandArgs(TRUE)) tools::Rd2HTML(path, out = paste0(path, '.html'))"
    with tempfile.TemporaryDirectory() as scratch:
        copies = [shutil.copy(page, scratch) for page in help_pages]
        subprocess.run(["Rscript", "-e", code, *copies], check=True, stdout=subprocess.DEVNULL)
        for page, copy in zip(help_pages, copies, strict=True):
            body = Path(f"{copy}.html").read_text(encoding="utf-8").partition("</h2>")[2].partition("<hr />")[0]
            title = re.search(r"\\title\{(.*?)\}", page.read_text(encoding="utf-8"), flags=re.S)
            head = f"{page.stem}: {' '.join(title[1].split())}" if title else page.stem
            (folder / f"{page.stem}.md").write_text(f"# {head}\n\n```{{raw}} html\n{body}\n```\n", encoding="utf-8")
    names = "\n".join(f"r/{page.stem}" for page in help_pages)
    (folder.parent / "r.md").write_text(
        f"# The R package\n\n`library(hdpstats)` in R.\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n",
        encoding="utf-8",
    )


def setup(app: Sphinx) -> None:
    """Connect what is written before pages are read."""
    app.connect("builder-inited", write_r_pages)

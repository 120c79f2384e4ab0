"""Configuration of the pages: `make docs` builds them without a warning.

The source folder is the repository, so that pages link each other, and files beside them, as they do in the repository:
``sphinx-build -c docs . docs/_build``. What is a page: `include_patterns`.
"""

import sys
from pathlib import Path

import hdpstats

sys.path.insert(0, str(Path(__file__).parent))

project = "hdpstats"
author = "The hdpstats maintainers"
version = release = hdpstats.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "extension",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "vignettes/**", "benchmarks/results/*.md"]
include_patterns += ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = ["docs/*.py", "docs/jupyter_execute", "docs/_*", "**/__pycache__", "**/*.db*"]
exclude_patterns += [".*", "hdpstats", "r_bridge", "tests"]  # not walked through
templates_path = [str(Path(__file__).parent / "_templates")]
default_role = "py:obj"
nitpicky = False

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

nb_execution_mode = "off"  # tests run vignettes, and keep what they print
nb_custom_formats = {".py": "extension.read_python_vignette", ".R": "extension.read_r_vignette"}
nb_render_markdown_format = "myst"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
suppress_warnings = ["misc.highlighting_failure"]  # cells of R in notebooks of Python

html_theme = "pydata_sphinx_theme"
html_title = "hdpstats"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_js_files = [("pages.js", {"priority": 200})]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_extra_path = ["_extra"]
html_theme_options = {
    "logo": {"text": "hdpstats"},
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "search_bar_text": "Search the pages",
    "show_version_warning_banner": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
copyright = "The hdpstats developers. Code: MIT. Example data: LGPL"  # noqa: A001 (Sphinx's name)
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-none) > div.highlight > pre"

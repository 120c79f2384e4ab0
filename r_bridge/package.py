"""The R package `hdpstats`: installed into a library, attached to the R inside Python, or connected to its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import rpy2.rinterface as ri
from rpy2.situation import get_r_exec, get_r_home

from hdpstats.api import HdpError
from r_bridge import guard, session
from r_bridge.functions import dispatcher
from r_bridge.guard import guarded
from r_bridge.session import helper, r_function

SOURCE = session.R_CODE / "hdpstats"
"""The source of the R package that comes with this Python package."""


def attach_functions() -> None:
    """Attach the R package that comes with this Python package to the R inside Python, without installing it.

    It is a namespace like any other: ``library(hdpstats)`` and ``hdpstats::dp_logit`` find it.
    """
    session.start()
    if not session.hosted():
        session.hold_lock_across_forks()
    guarded(r_function("attach_package"), ri.StrSexpVector([str(SOURCE)]), dispatcher())


def connect() -> None:
    """Give the R package that started this Python the function that it calls."""
    session.adopt(guard.on_signal_in_r_session)
    put = helper("function(dispatch) assign('dispatch', dispatch, envir = asNamespace('hdpstats')$.state)")
    put(dispatcher())


def install(
    library: str | None = None, *, vignettes: bool = True, pages: str | None = None, bugs: str | None = None
) -> Path:
    """Install the R package into a library and return where.

    ``library(hdpstats)`` then finds this Python by itself: the path of its executable is a file of the package.

    Parameters
    ----------
    library
        A directory, made where there is none; the user's own library (``R_LIBS_USER``) by default.
    vignettes
        Whether to run and install the vignettes, which takes about half a minute, where `can_build` says that R can.
    pages
        The address of the documentation site, to which help pages link; by default that of `built_pages`.
    bugs
        The address where faults are reported, on the web; none by default.

    Raises
    ------
    HdpError
        If R cannot install it; with R's message.
    """
    target = Path(library).expanduser().resolve() if library else _user_library()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        source = build(Path(place), vignettes=vignettes and can_build(), pages=pages or built_pages(), bugs=bugs or "")
        done = _r("CMD", "INSTALL", "--no-test-load", f"--library={target}", str(source))
    if done.returncode:
        raise HdpError(f"R could not install the package into {target}:\n{done.stderr}")
    return target


def build(place: Path, *, vignettes: bool = True, pages: str = "", bugs: str = "") -> Path:
    """Copy the source into a folder, with the path of this Python; with vignettes, return an archive that holds them.

    Help pages link to the documentation site, where its address is given; one on the web is the package's URL. Where
    faults are reported is its BugReports.

    Raises
    ------
    HdpError
        If R cannot build the vignettes; with R's message.
    """
    source = place / SOURCE.name
    shutil.copytree(SOURCE, source)
    (source / "inst").mkdir(exist_ok=True)
    (source / "inst" / "python.txt").write_text(f"{sys.executable}\n", encoding="utf-8")
    if pages:
        address = f"{pages.rstrip('/')}/docs/reference/r/".replace("%", r"\\\%")  # read twice
        link = rf"\newcommand{{\pages}}{{On the site: \href{{{address}#1.html}}{{\file{{#1.html}}}}.}}"
        (source / "man" / "macros" / "pages.Rd").write_text(f"{link}\n", encoding="utf-8")
    with (source / "DESCRIPTION").open("a", encoding="utf-8") as description:
        for name, address in (("URL", pages), ("BugReports", bugs)):
            if address.startswith("http"):
                description.write(f"{name}: {address.replace(',', '%2C')}\n")
    if not vignettes:
        return source
    done = _r("CMD", "build", str(source), folder=str(place))
    if done.returncode:
        raise HdpError(f"R could not build the vignettes; --no-vignettes leaves them out:\n{done.stderr}")
    return next(place.glob("*.tar.gz"))


def built_pages() -> str:
    """Return the address of the site that ``make docs`` built beside this source; empty where there is none."""
    built = SOURCE.parents[2] / "docs" / "_build"
    return built.as_uri() if (built / "docs" / "index.html").exists() else ""


def can_build() -> bool:
    """Whether R has what it needs for the vignettes: knitr, rmarkdown, pandoc and reticulate."""
    packages = "all(vapply(c('knitr', 'rmarkdown', 'reticulate'), requireNamespace, NA, quietly = TRUE))"
    return _evaluated(f"cat({packages} && rmarkdown::pandoc_available())") == "TRUE"


def on_path(library: Path) -> bool:
    """Whether R looks into a library by default."""
    listed = _evaluated("cat(normalizePath(.libPaths()), sep = '\\n')").splitlines()
    return library in map(Path, listed)


def _user_library() -> Path:
    code = "cat(path.expand(strsplit(Sys.getenv('R_LIBS_USER'), .Platform$path.sep, fixed = TRUE)[[1L]][1L]))"
    version = _evaluated(code)
    if version in ("", "NA"):
        raise HdpError("R names no library of the user (R_LIBS_USER is empty): say which one by --lib DIR")
    return Path(version).resolve()


def _evaluated(code: str) -> str:
    """Return what R prints for code, without any user's profile."""
    return _r("--no-echo", "--no-save", "--no-restore", "--no-site-file", "--no-init-file", "-e", code).stdout


def _r(*arguments: str, folder: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run R as a program of its own: the one that rpy2 found."""
    program = get_r_exec(get_r_home())
    environment = {key: value for key, value in os.environ.items() if key != "R_TESTS"}
    return subprocess.run(  # noqa: S603
        [program, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )

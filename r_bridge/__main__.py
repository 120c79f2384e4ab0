"""``python -m r_bridge install | run | kernel install``: install the R package or the kernel, run an R script."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import rpy2.rinterface as ri
from rpy2.rinterface_lib import callbacks

from hdpstats.api import ArgumentError, HdpError
from r_bridge import kernel, package
from r_bridge.guard import guarded
from r_bridge.session import r_function, start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
    except HdpError as error:
        print(error, file=sys.stderr)
        status = 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m r_bridge", description="R with the functions of hdpstats")
    commands = parser.add_subparsers(required=True, metavar="install | run | kernel")
    installing = commands.add_parser("install", help="install the R package hdpstats for this Python")
    installing.add_argument("--lib", metavar="DIR", help="the library; the user's own by default")
    installing.add_argument(
        "--no-vignettes", action="store_true", help="leave the vignettes out, which takes half a minute less"
    )
    installing.add_argument(
        "--pages",
        metavar="URL",
        help="where the documentation site is, to which help pages link; else what make docs built",
    )
    installing.add_argument(
        "--bug-reports", metavar="URL", help="where faults are reported, which R's bug.report() opens; none by default"
    )
    installing.set_defaults(command=_install)
    running = commands.add_parser("run", help="run an R script with the functions attached")
    running.add_argument("script", metavar="SCRIPT.R")
    running.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    running.set_defaults(command=lambda options: run(options.script, options.arguments))
    of_kernel = commands.add_parser("kernel", help="the Jupyter kernel R (hdpstats)")
    kernels = of_kernel.add_subparsers(required=True, metavar="install")
    installing = kernels.add_parser("install", help="register the kernel with Jupyter")
    place = installing.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user")
    place.add_argument("--sys-prefix", action="store_true", help="in this Python's environment; the default")
    place.add_argument("--prefix", metavar="DIR", help="under DIR/share/jupyter/kernels")
    installing.set_defaults(command=_install_kernel)
    return parser


def _install_kernel(options: argparse.Namespace) -> int:
    print(f"installed {kernel.install(user=options.user, prefix=options.prefix)}")
    return 0


def _install(options: argparse.Namespace) -> int:
    vignettes = not options.no_vignettes
    library = package.install(options.lib, vignettes=vignettes, pages=options.pages, bugs=options.bug_reports)
    print(f"installed into {library}; in R: library(hdpstats)")
    if not options.no_vignettes and not package.can_build():
        print("without vignettes: they need pandoc, and the R packages knitr, rmarkdown and reticulate")
    if not package.on_path(library):
        print(f"R does not look there by itself: start R with R_LIBS={library}")
    return 0


def run(script: str, arguments: Sequence[str] = ()) -> int:
    """Run a script in the R inside Python, as ``Rscript`` would, and return its exit status.

    It is 0, 1 after an error, 130 after an interrupt, or what ``quit`` says. ``commandArgs(trailingOnly = TRUE)`` are
    the arguments. The functions are attached before the first line; ``library(hdpstats)`` does no harm.

    Raises
    ------
    ArgumentError
        If there is no such file.
    """
    if not Path(script).is_file():
        raise ArgumentError(f"there is no file {script!r}", argument="script")
    start(arguments)
    callbacks.cleanup = _quit
    package.attach_functions()
    try:
        status = int(guarded(r_function("run_script"), ri.StrSexpVector([script]))[0])
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    return status


def _quit(_save: object, status: int, _run_last: object) -> None:
    """End the process as R's ``quit`` asks; R would end it with status 0."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m r_bridge install | run``: install the R package, run an R script."""

import argparse
import sys
from collections.abc import Sequence

from hdpstats.api import HdpError
from r_bridge import install, launcher


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
    commands = parser.add_subparsers(required=True, metavar="install | run")
    installing = commands.add_parser("install", help="install the R package hdpstats for this Python")
    installing.add_argument("--lib", metavar="DIR", help="the library; the user's own by default")
    installing.set_defaults(command=_install)
    running = commands.add_parser("run", help="run an R script with the functions attached")
    running.add_argument("script", metavar="SCRIPT.R")
    running.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    running.set_defaults(command=lambda options: launcher.run(options.script, options.arguments))
    return parser


def _install(options: argparse.Namespace) -> int:
    library = install.install(options.lib)
    print(f"installed into {library}; in R: library(hdpstats)")
    if not install.on_path(library):
        print(f"R does not look there by itself: start R with R_LIBS={library}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

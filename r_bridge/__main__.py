"""``python -m r_bridge install | run | kernel install``: install the R package or the kernel, run an R script."""

import argparse
import sys
from collections.abc import Sequence

from hdpstats.api import HdpError
from r_bridge import install, launcher
from r_bridge.kernel import install as kernelspec


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
    installing.set_defaults(command=_install)
    running = commands.add_parser("run", help="run an R script with the functions attached")
    running.add_argument("script", metavar="SCRIPT.R")
    running.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    running.set_defaults(command=lambda options: launcher.run(options.script, options.arguments))
    _add_kernel(commands.add_parser("kernel", help="the Jupyter kernel R (hdpstats)"))
    return parser


def _add_kernel(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="install")
    installing = commands.add_parser("install", help="tell Jupyter of the kernel")
    place = installing.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user")
    place.add_argument("--sys-prefix", action="store_true", help="in this Python's environment; the default")
    place.add_argument("--prefix", metavar="DIR", help="under DIR/share/jupyter/kernels")
    installing.set_defaults(command=_install_kernel)


def _install_kernel(options: argparse.Namespace) -> int:
    print(f"installed {kernelspec.install(user=options.user, prefix=options.prefix)}")
    return 0


def _install(options: argparse.Namespace) -> int:
    library = install.install(options.lib)
    print(f"installed into {library}; in R: library(hdpstats)")
    if not install.on_path(library):
        print(f"R does not look there by itself: start R with R_LIBS={library}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The command line: ``hdpstats ledger show|verify|export FILE``.

Exit codes: 0 done, 1 refused or does not verify, 2 wrong usage. Errors are one line on standard error.
"""

import argparse
import sys
from collections.abc import Sequence

from hdpstats import __version__
from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.ledger import Ledger, verify_file


def _show(arguments: argparse.Namespace) -> None:
    ledger = Ledger.open_existing(arguments.file, dataset=arguments.dataset)
    history = ledger.history()
    print(ledger)
    if len(history):
        print()
        print(history.to_string(index=False, na_rep=""))


def _verify(arguments: argparse.Namespace) -> None:
    print(verify_file(arguments.file, head=arguments.head))


def _export(arguments: argparse.Namespace) -> None:
    Ledger.open_existing(arguments.file, dataset=arguments.dataset).export(arguments.out)


def _add_ledger(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    ledger = commands.add_parser("ledger", help="read the account of privacy spent; never changes it")
    verbs = ledger.add_subparsers(title="verbs", required=True, metavar="VERB")
    show = verbs.add_parser("show", help="print the total, what was spent, and every charge")
    verify = verbs.add_parser("verify", help="recompute every hash and every sum")
    export = verbs.add_parser("export", help="write one dataset's entries to a .json or .csv file")
    for verb in (show, verify, export):
        verb.add_argument("file", metavar="FILE", help="the ledger's file or database URL")
    for verb in (show, export):
        verb.add_argument("--dataset", metavar="NAME", help="needed where the file holds several datasets")
    verify.add_argument("--head", metavar="HEX", help="a head noted earlier, which must still be on the chain")
    export.add_argument("out", metavar="OUT", help="the file to write, .json or .csv")
    show.set_defaults(run=_show)
    verify.set_defaults(run=_verify)
    export.set_defaults(run=_export)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command sets ``run``, a function of its arguments."""
    top = argparse.ArgumentParser(prog="hdpstats", description="Hybrid differentially private statistics.")
    top.add_argument("--version", action="version", version=f"hdpstats {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_ledger(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv
        The words after ``hdpstats``; those of this process by default.
    """
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except HdpError as error:
        print(f"hdpstats: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, ArgumentError) else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

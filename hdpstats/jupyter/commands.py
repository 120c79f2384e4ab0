"""``%hdp``: what was spent, what is declared, how precise a fit would be. Nothing here spends."""

import shlex
from argparse import Namespace
from functools import cache
from typing import Any, Final

from IPython.core.error import TryNext, UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import MagicArgumentParser

import hdpstats.formula.api as hdpf
from hdpstats.api import HdpError
from hdpstats.jupyter.namespace import find, named
from hdpstats.losses import LINKS
from hdpstats.mechanisms.registry import BY_NAME

HELP = """%hdp ledger [NAME]     what was spent and what is left, at each site where there are several
%hdp schema [NAME]     what is declared about the columns
%hdp plan "FORMULA"    the standard errors that each epsilon gives; %hdp plan --help lists the options

Studies, ledgers and schemas are found among your variables. Nothing here spends."""

_VERBS = ("ledger", "schema", "plan")
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--epsilon": {"type": float, "nargs": "+", "metavar": "E", "help": "one or several; 0.1 0.5 1 3 by default"},
    "--data": {"metavar": "STUDY", "help": "the study; may be left out where there is one only"},
    "--model": {"choices": ("logit", "hazard"), "help": "by default hazard for Surv(...), else logit"},
    "--n": {"type": int, "help": "the number of private records, where the study does not say"},
    "--delta": {"type": float, "help": "the probability with which the bound may fail; 0 by default"},
    "--mechanism": {"choices": ("auto", *BY_NAME), "help": "auto by default"},
    "--se-share": {"type": float, "metavar": "SHARE", "help": "the share of epsilon for a noisy Hessian"},
    "--intervals": {"type": float, "nargs": "+", "metavar": "K", "help": "hazard: how many, or their cut points"},
    "--link": {"choices": tuple(LINKS), "help": "hazard: the link"},
}
_OF_A_PLAN: Final = ("epsilon", "n", "delta", "mechanism", "se_share")


def register(shell: InteractiveShell) -> None:
    """Register ``%hdp`` and its completion."""

    def hdp(line: str) -> Any:
        return run(shell, line)

    hdp.__doc__ = HELP
    shell.register_magic_function(hdp, "line", "hdp")
    shell.set_hook("complete_command", complete, str_key="%hdp")


def unregister(shell: InteractiveShell) -> None:
    """Take ``%hdp`` away."""
    shell.magics_manager.magics["line"].pop("hdp", None)


def run(shell: InteractiveShell, line: str) -> Any:
    """Run ``%hdp`` and return what it shows: a ledger, a schema or a plan; None for help.

    Raises
    ------
    UsageError
        One line, which IPython shows without a traceback.
    """
    words = _words(line)
    if not words or words[0] in ("help", "-h", "--help"):
        print(HELP)  # noqa: T201
        return None
    verb, *rest = words
    if verb not in _VERBS:
        raise UsageError(f"%hdp has no {verb!r}; it has {', '.join(_VERBS)}")
    if verb == "plan" and {"-h", "--help"} & set(rest):
        print(_planning().format_help())  # noqa: T201
        return None
    asked = (_planning() if verb == "plan" else _naming(verb)).parse_args(rest)
    try:
        return _plan(shell, asked) if verb == "plan" else find(shell.user_ns, verb, asked.name)
    except HdpError as error:
        raise UsageError(str(error)) from None


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{str(error).lower()} in {line!r}") from None


@cache
def _naming(verb: str) -> MagicArgumentParser:
    parser = MagicArgumentParser(f"%hdp {verb}")
    parser.add_argument("name", nargs="?", metavar="NAME")
    return parser


@cache
def _planning() -> MagicArgumentParser:
    parser = MagicArgumentParser("%%hdp plan", usage='%%hdp plan "FORMULA" [options]')
    parser.add_argument("formula", nargs="+", metavar="FORMULA", help='"event3 ~ age" or "Surv(time, event) ~ age"')
    for name, settings in _OPTIONS.items():
        parser.add_argument(name, **settings)
    return parser


def _plan(shell: InteractiveShell, asked: Namespace) -> Any:
    formula = " ".join(asked.formula)
    hazard = asked.model == "hazard" or (asked.model is None and formula.lstrip().startswith("Surv"))
    given = {key: value for key, value in vars(asked).items() if value is not None}
    own = {key: given[key] for key in ("intervals", "link") if key in given}
    if own and not hazard:
        raise UsageError(f"--{next(iter(own))} is for hazard models only")
    cuts = own.get("intervals", ())
    if len(cuts) == 1:
        own["intervals"] = int(cuts[0]) if cuts[0].is_integer() else cuts[0]
    model = (hdpf.hazard if hazard else hdpf.logit)(formula, data=find(shell.user_ns, "study", asked.data), **own)
    return model.plan(**{key: given[key] for key in _OF_A_PLAN if key in given})


def complete(shell: InteractiveShell, event: Any) -> list[str]:
    """Return what the word at the cursor may become: verbs, names of the user's objects, options."""
    words = event.text_until_cursor.lstrip().split()[1:]
    before = words if event.text_until_cursor[-1:].isspace() else words[:-1]
    if not before:
        return ["help", "ledger", "plan", "schema"]
    if before[0] in ("ledger", "schema") and len(before) == 1:
        return list(named(shell.user_ns, before[0]))
    if before[0] != "plan":
        raise TryNext
    if before[-1] == "--data":
        return list(named(shell.user_ns, "study"))
    return list(_OPTIONS.get(before[-1], {}).get("choices", _OPTIONS))

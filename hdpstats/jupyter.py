"""The IPython extension: ``%load_ext hdpstats.jupyter``.

``%hdp`` shows ledgers and schemas and plans fits; it never spends. Other packages add magics through the entry point
group `GROUP`: the entry's name is the magic's, its object a function that takes the shell and returns the function of
``(line, cell, local_ns)`` that is the magic. It is imported when the magic is first used: ``%%R`` comes this way, and R
does not start before.
"""

import shlex
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, final

from IPython.core.error import TryNext, UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import needs_local_scope, no_var_expand
from IPython.core.magic_arguments import MagicArgumentParser

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.api import HdpError
from hdpstats.display import details, page
from hdpstats.ledger.export import accounts_html, charges_html, elsewhere_words
from hdpstats.losses import LINKS
from hdpstats.mechanisms.registry import BY_NAME

GROUP = "hdpstats.jupyter"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%hdp`` with its completion, and a magic, of lines and of cells, for each entry point of `GROUP`."""

    def hdp(line: str) -> Any:
        return run(shell, line)

    hdp.__doc__ = HELP
    shell.register_magic_function(hdp, "line", "hdp")
    shell.set_hook("complete_command", complete, str_key="%hdp")
    for entry in entry_points(group=GROUP):
        shell.register_magic_function(_lazy(shell, entry), "line_cell", entry.name)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away."""
    shell.magics_manager.magics["line"].pop("hdp", None)
    for entry in entry_points(group=GROUP):
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(entry.name, None)


def _lazy(shell: InteractiveShell, entry: EntryPoint) -> Callable[..., Any]:
    @cache
    def loaded() -> Callable[..., Any]:
        function: Callable[..., Any] = entry.load()(shell)
        return function

    def magic(line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        return loaded()(line, cell, local_ns)

    magic.__doc__ = f"The magic of {entry.value}, which is imported when it is first used; its options: --help."
    marked: Callable[..., Any] = no_var_expand(needs_local_scope(magic))
    return marked


REMEDIES = {
    "ledger": 'make one with hdp.Ledger("trial.db", dataset=..., epsilon=...), or a study with budget=',
    "schema": "make one with hdp.Schema(age=hdp.Continuous(18, 100), ...)",
    "study": "make one with hdp.Study(private=..., public=..., schema=..., ledger=...)",
}
"""The words for what can be found, and how to come by it."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Accounts:
    """The accounts of several sites that are in this process, by the sites' names.

    ``elsewhere`` further sites keep theirs themselves.
    """

    ledgers: Mapping[str, hdp.Ledger]
    elsewhere: int

    @classmethod
    def of(cls, study: hdp.Study) -> "Accounts":
        """Return those of a study."""
        return cls(ledgers=study.ledgers, elsewhere=len(study.sites) - len(study.ledgers))

    def __repr__(self) -> str:
        texts = [f"{name}: {ledger}" for name, ledger in self.ledgers.items()]
        return "\n\n".join([*texts, *([elsewhere_words(self.elsewhere)] if self.elsewhere else [])])

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        histories = {name: ledger.history() for name, ledger in self.ledgers.items()}
        charges = "".join(
            details(f"{name}: {len(history)} {'charge' if len(history) == 1 else 'charges'}", charges_html(history))
            for name, history in histories.items()
        )
        count = len(self.ledgers)
        badges = [f"{count} {'account' if count == 1 else 'accounts'}"]
        return page("Ledgers of sites", accounts_html(self.ledgers, elsewhere=self.elsewhere), charges, badges=badges)


def _ledger_of(value: object) -> object:
    if isinstance(value, hdp.Study) and len(value.sites) > 1:
        return Accounts.of(value) if value.ledgers else None
    if isinstance(value, hdp.Study):
        return next(iter(value.ledgers.values()), None)
    return value if isinstance(value, hdp.Ledger) else None


def _schema_of(value: object) -> object:
    if isinstance(value, hdp.Study):
        return value.schema
    return value if isinstance(value, hdp.Schema) else None


_FROM: dict[str, Callable[[object], object]] = {
    "ledger": _ledger_of,
    "schema": _schema_of,
    "study": lambda value: value if isinstance(value, hdp.Study) else None,
}


def named(names: Mapping[str, Any], word: str) -> dict[str, object]:
    """Return the objects that ``word`` may mean by their names, each once; a study stands for its ledgers and schema.

    Names that begin with an underscore, such as IPython's own, do not count, nor do ledgers beside a study of several
    sites that has them all.
    """
    objects: dict[str, object] = {}
    public = {name: value for name, value in names.items() if not name.startswith("_")}
    for name, value in sorted(public.items(), key=_order):
        wanted = _FROM[word](value)
        if wanted is not None and not any(_parts(wanted) <= _parts(other) for other in objects.values()):
            objects[name] = wanted
    return objects


def _order(item: tuple[str, object]) -> tuple[int, bool]:
    """Sort studies of most sites first, and those of one site after what stands for itself."""
    value = item[1]
    sites = len(value.sites) if isinstance(value, hdp.Study) else 0
    return -sites if sites > 1 else 0, isinstance(value, hdp.Study)


def _parts(thing: object) -> set[int]:
    """Return which objects something consists of."""
    return {id(ledger) for ledger in thing.ledgers.values()} if isinstance(thing, Accounts) else {id(thing)}


def find(names: Mapping[str, Any], word: str, name: str | None) -> Any:
    """Return the object of that name, or the only one that ``word`` can mean.

    Raises
    ------
    UsageError
        If there is none, if there are several and none is named, or if the name is that of something else.
    """
    candidates = named(names, word)
    listed = ", ".join(candidates)
    if name is None and len(candidates) == 1:
        return next(iter(candidates.values()))
    if name is None and candidates:
        raise UsageError(f"several objects have a {word}: {listed}; name one of them")
    if name is None:
        raise UsageError(f"there is no {word} here: {REMEDIES[word]}")
    wanted = _FROM[word](names.get(name))
    if wanted is None:
        what = f"{name!r} has no {word}" if name in names else f"there is no object {name!r}"
        raise UsageError(f"{what}; {f'name one of {listed}' if candidates else REMEDIES[word]}")
    return wanted


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
    options = {key: given[key] for key in ("intervals", "link") if key in given}
    if options and not hazard:
        raise UsageError(f"--{next(iter(options))} is for hazard models only")
    cuts = options.get("intervals", ())
    if len(cuts) == 1:
        options["intervals"] = int(cuts[0]) if cuts[0].is_integer() else cuts[0]
    model = (hdpf.hazard if hazard else hdpf.logit)(formula, data=find(shell.user_ns, "study", asked.data), **options)
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

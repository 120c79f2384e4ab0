"""Find what a magic shows among the user's variables: the only one there is, or the one that is named."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from IPython.core.error import UsageError

import hdpstats.api as hdp
from hdpstats.display import details, page
from hdpstats.ledger.account import accounts_html, elsewhere_words
from hdpstats.ledger.export import charges_html

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
    found: dict[str, object] = {}
    public = {name: value for name, value in names.items() if not name.startswith("_")}
    for name, value in sorted(public.items(), key=_order):
        wanted = _FROM[word](value)
        if wanted is not None and not any(_parts(wanted) <= _parts(other) for other in found.values()):
            found[name] = wanted
    return found


def _order(item: tuple[str, object]) -> tuple[int, bool]:
    """Sort studies of most sites first, and those of one site after what stands for itself."""
    value = item[1]
    sites = len(value.sites) if isinstance(value, hdp.Study) else 0
    return -sites if sites > 1 else 0, isinstance(value, hdp.Study)


def _parts(found: object) -> set[int]:
    """Return which objects something consists of."""
    return {id(each) for each in found.ledgers.values()} if isinstance(found, Accounts) else {id(found)}


def find(names: Mapping[str, Any], word: str, name: str | None) -> Any:
    """Return the object of that name, or the only one that ``word`` can mean.

    Raises
    ------
    UsageError
        If there is none, if there are several and none is named, or if the name is that of something else.
    """
    found = named(names, word)
    listed = ", ".join(found)
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name is None and found:
        raise UsageError(f"several objects have a {word}: {listed}; name one of them")
    if name is None:
        raise UsageError(f"there is no {word} here: {REMEDIES[word]}")
    wanted = _FROM[word](names.get(name))
    if wanted is None:
        what = f"{name!r} has no {word}" if name in names else f"there is no object {name!r}"
        raise UsageError(f"{what}; {f'name one of {listed}' if found else REMEDIES[word]}")
    return wanted

"""The ledgers of a study with several sites, as one thing to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import hdpstats.api as hdp
from hdpstats.display import details, page
from hdpstats.ledger.export import charges_html
from hdpstats.sites.page import accounts_html, elsewhere_words


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

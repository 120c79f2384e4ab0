"""Several sites on a page: which there are, where they are kept, and what was spent at each."""

from collections.abc import Mapping
from typing import Final

from hdpstats.display import details, grid, notes, section
from hdpstats.ledger import Ledger
from hdpstats.privacy.relation import Relation
from hdpstats.sites.remote import RemoteSite
from hdpstats.sites.site import Site

_OPEN: Final = 5
"""Of how many accounts the bars are shown without a click."""


def sites_html(sites: Mapping[str, Site]) -> str:
    """Return a row per site: its name, its public number of people, and where its records are."""
    rows = [[name, _people(site), _place(site)] for name, site in sites.items()]
    return section("Sites", grid(["", "people", "records are"], rows, aligns="lrl"))


def _people(site: Site) -> str:
    protected = site.relation is Relation.ADD_OR_REMOVE_ONE
    return f"protected, at most {site.records}" if protected else str(site.records)


def _place(site: Site) -> str:
    return f"at {site.address}" if isinstance(site, RemoteSite) else "in this process"


def accounts_html(ledgers: Mapping[str, Ledger], *, elsewhere: int = 0) -> str:
    """Return the bars of every account; ``elsewhere`` sites keep theirs themselves."""
    accounts = "".join(section(f"Privacy spent at {name}", ledger.as_html()) for name, ledger in ledgers.items())
    shown = accounts if len(ledgers) <= _OPEN else details(f"Privacy spent at {len(ledgers)} sites", accounts)
    return shown + notes([elsewhere_words(elsewhere)] if elsewhere else [])


def elsewhere_words(count: int) -> str:
    """Say that so many sites keep their accounts themselves."""
    keep = "site keeps its account itself" if count == 1 else "sites keep their accounts themselves"
    return f"{count} {keep}: study.sites[name].account() asks for your part."

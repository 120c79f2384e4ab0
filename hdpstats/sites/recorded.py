"""What a site released to its asker before: sites that hand out these releases again, and nothing else.

A fit that is run on such sites asks what it would ask, in the same words, and either has all of its answers or stops at
the first that is missing. Nothing is charged, and no private row is touched. Whose releases these are is decided by the
site: one in this process has the ledger at hand, another one shows an analyst those that he was charged for.
"""

from collections.abc import Mapping
from typing import final

from hdpstats._base.errors import HdpError, SiteError
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites.site import Found, Recorded, Site, SiteTerms


class NotRecordedError(SiteError):
    """The site has no release of the query."""


@final
class RecordedSite(Site):
    """A site that hands out stored releases and computes nothing.

    Parameters
    ----------
    site
        Whose public facts it has.
    recorded
        Its releases.
    """

    def __init__(self, site: Site, recorded: Recorded) -> None:
        self._site, self._recorded = site, recorded
        self.forget()

    def forget(self) -> None:
        """Begin with a new fit: nothing was asked yet.

        ``lacked`` is true from the first query on that has no release, and ``begun`` from the first query about a model
        that was charged: descriptions of columns are asked in the same words whatever the model is.
        """
        self.lacked = self.begun = False

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._site.schema

    @property
    def records(self) -> int:
        """The public number of people."""
        return self._site.records

    @property
    def terms(self) -> SiteTerms:
        """Who is protected."""
        return self._site.terms

    def put_public(self, table: PublicTable) -> None:
        """Keep nothing: no release is computed."""

    def answer(self, query: Query) -> Release:
        """Return the stored release."""
        found = Found()
        try:
            found = self._recorded.find(query)
        finally:
            self.lacked = self.lacked or found.release is None
            self.begun = self.begun or (found.charged and hasattr(query, "model"))
        if found.release is None:
            raise NotRecordedError("the site has no release of this query")
        return found.release


def recorded_sites(sites: Mapping[str, Site]) -> tuple[dict[str, RecordedSite], tuple[str, ...]]:
    """Return sites that hand out what they released before, and the formulas of the models that were asked about.

    A site that does not say what it released has released nothing, as far as this goes.
    """
    found: dict[str, RecordedSite] = {}
    formulas: list[str] = []
    for name, site in sites.items():
        try:
            recorded = site.recorded()
        except HdpError:
            recorded = Recorded()
        found[name] = RecordedSite(site, recorded)
        formulas += recorded.formulas
    return found, tuple(dict.fromkeys(formulas))

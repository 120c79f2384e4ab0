"""What is public about a site's records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from hdpstats._base.errors import SiteError
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SiteFacts:
    """The public facts about a site's records.

    Attributes
    ----------
    schema : Schema
        What is declared about the columns.
    relation : Relation
        Who is a neighbour of whom.
    records : int
        The number of people where it is public, else the declared largest number.
    unit : str or None
        The column that names a person with several rows; None where every row is a person.
    most_rows : int
        The largest number of rows of one person.
    public : mapping of str to PublicTable
        The public tables that the site keeps, by their SHA-256.
    row_order : {"undeclared", "arbitrary"}
        Whether whoever holds the rows declared that their order was not made from values.
    """

    schema: Schema
    relation: Relation
    records: int
    unit: str | None = None
    most_rows: int = 1
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    row_order: str = "undeclared"

    def table(self, sha256: str | None) -> PublicTable:
        """Return the public table that a query names, or raise SiteError where the site does not have it."""
        table = self.public.get(sha256) if isinstance(sha256, str) else None
        if table is None:
            raise SiteError(
                "this site does not have the public rows that the query names; hand them over first: "
                "site.put_public(table)"
            )
        return table

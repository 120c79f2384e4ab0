"""What every site is, wherever it stands: in this process, in another, across the Internet."""

from abc import ABC, abstractmethod
from typing import final

from hdpstats.privacy.relation import Relation
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.sites.terms import Terms


class Site(ABC):
    """Private records behind a wall with one door.

    Nothing that depends on a record leaves a site but a `Release`: no count, no warning, no text of an exception.
    """

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The custodian's schema: public."""

    @property
    @abstractmethod
    def records(self) -> int:
        """The public number of people: that of the rows under ``replace_one`` without a unit, else as declared."""

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """Who is protected, and what is declared about the number of people and of their rows: public."""

    @final
    @property
    def relation(self) -> Relation:
        """Which tables are neighbours."""
        return self.terms.relation

    @final
    @property
    def unit(self) -> str | None:
        """The column that names the person, None where every row is a person."""
        return self.terms.unit

    @final
    @property
    def most_rows(self) -> int:
        """The most rows of one person that a model uses; 1 without a unit."""
        return self.terms.most_rows

    @abstractmethod
    def put_public(self, table: PublicTable) -> None:
        """Hand over public rows that later queries name by their SHA-256; the same ones again change nothing.

        A site keeps the last few tables.

        Raises
        ------
        SiteError
            The rows were checked against another schema than the site's.
        """

    @abstractmethod
    def answer(self, query: Query) -> Release:
        """Check the query, charge the ledger, compute, add noise, record the release and hand it out.

        The same query again returns the recorded release and costs nothing.

        Raises
        ------
        SiteError
            The site does not hold what the query speaks of, or could not complete it (the budget stays charged).
        MechanismError
            The proof does not cover the query; nothing is charged.
        InsufficientBudget
            The ledger refuses; nothing is charged.
        """

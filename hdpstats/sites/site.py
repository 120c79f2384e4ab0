"""What every site is, wherever it stands: in this process, in another, across the Internet."""

from abc import ABC, abstractmethod

from hdpstats.data.schema import Schema
from hdpstats.queries import Query, Release


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
        """The number of private records: public under ``replace_one``."""

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

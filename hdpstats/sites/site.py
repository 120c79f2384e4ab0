"""What every site is, and who is protected by its releases; in this process, in another, or on another machine."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

from hdpstats._base.errors import ArgumentError, SiteError
from hdpstats._base.validation import choice, integer, text
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

MOST_ROWS_OF_A_PERSON = 10**6
MOST_PEOPLE = 2**31
ROW_ORDERS = ("undeclared", "arbitrary")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTerms:
    """The public terms that private rows are held under.

    Attributes
    ----------
    relation : Relation
        Which tables are neighbours.
    unit : str or None
        The column that names the person; None where every row is a person.
    most_rows : int
        The most rows of one person that a model uses; 1 without a unit.
    n_max : int or None
        The declared number of people, where it does not follow from the number of rows. With a unit under
        ``replace_one`` it stands for the number of people everywhere, also in standard errors: declare what is publicly
        known. Where the number itself is protected it is a maximum: every noisy count is cut there.
    row_order : {"undeclared", "arbitrary"}
        ``"arbitrary"`` where whoever holds the rows declares that their order was not made from values: no column of
        the rows, and nothing that follows from one, decided the place of a row. It says nothing about who is
        protected; only `hdpstats.mechanisms.subsample.site` depends on it.

    Notes
    -----
    With a unit, a person's record is all rows with the person's name, and nobody else has that name. Neighbours differ
    in the rows of one person: exchanged for any rows with any one name that nobody else has, or with none
    (``replace_one``), or there and not there (``add_or_remove_one``). The other rows keep their order among themselves.

    No guarantee rests on ``n_max``: mechanisms derive from it the scale of the accuracy that their solvers must reach,
    and runs that would miss it go on in higher precision. Grids of sums of scores do not depend on the number of
    private rows; those of curvatures, on which no guarantee rests, follow the actual one. Rows beyond the declared
    number are used like the others.
    """

    relation: Relation
    unit: str | None
    most_rows: int
    n_max: int | None
    row_order: str = "undeclared"

    def __str__(self) -> str:
        """Say who is protected. Requests in ledgers carry this text, in which the order of rows has no part."""
        rows = "one row per person" if self.unit is None else f"at most {self.most_rows} rows per {self.unit!r}"
        most = "" if self.n_max is None else f", n_max {self.n_max}"
        return f"{self.relation.value}, {rows}{most}"

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as JSON values: what `declared` takes."""
        return {"relation": self.relation.value, **self.arguments()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "SiteTerms":
        """Read what `to_dict` wrote, and check it."""
        return cls.declared(**fields)

    def arguments(self) -> dict[str, Any]:
        """Return what `declared` takes besides the relation, as `hdpstats.sites.LocalSite` does."""
        return {
            "unit": self.unit,
            "max_rows_per_unit": None if self.unit is None else self.most_rows,
            "n_max": self.n_max,
            "row_order": self.row_order,
        }

    @classmethod
    def declared(
        cls,
        *,
        relation: object,
        unit: object,
        max_rows_per_unit: object,
        n_max: object,
        row_order: object = "undeclared",
    ) -> "SiteTerms":
        """Return checked terms, or raise an `ArgumentError` that names the argument.

        With ``unit`` both numbers are needed; without it ``n_max`` belongs to ``add_or_remove_one``, which needs it.
        """
        named = Relation(choice(relation, name="relation", options=[member.value for member in Relation]))
        hidden = named is Relation.ADD_OR_REMOVE_ONE
        if unit is None and max_rows_per_unit is not None:
            message = "max_rows_per_unit belongs to unit=, the column that names the person; give both or neither"
            raise ArgumentError(message, argument="max_rows_per_unit")
        if unit is not None and max_rows_per_unit is None:
            message = "max_rows_per_unit must be given with unit: the most rows of one person that a model may use"
            raise ArgumentError(message, argument="max_rows_per_unit")
        if n_max is None and (hidden or unit is not None):
            message = (
                "n_max must be given with relation='add_or_remove_one', which protects the number of people: declare a "
                "maximum above the number that is expected"
                if hidden
                else "n_max must be given with unit: declare the number of people, which does not follow from the rows"
            )
            raise ArgumentError(message, argument="n_max")
        if n_max is not None and not hidden and unit is None:
            message = "n_max must be None: under replace_one with one row per person the number of rows is public"
            raise ArgumentError(message, argument="n_max")
        return cls(
            relation=named,
            unit=None if unit is None else text(unit, name="unit", longest=100),
            most_rows=1 if unit is None else _whole("max_rows_per_unit", max_rows_per_unit, MOST_ROWS_OF_A_PERSON),
            n_max=None if n_max is None else _whole("n_max", n_max, MOST_PEOPLE),
            row_order=choice(row_order, name="row_order", options=ROW_ORDERS),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HeldData:
    """Which data a site holds: public facts.

    Attributes
    ----------
    dataset, version : str, int
        The custodian's name of the data, and their revision.
    account : str
        The identity of the account that answers are charged to. No two accounts have the same, whatever data sets are
        called (`hdpstats.ledger.records.Account`); empty where it is not known.
    """

    dataset: str
    version: int
    account: str


def _whole(name: str, value: object, most: int) -> int:
    return integer(value, name=name, lower=1, upper=most)


class Site(ABC):
    """Private records that only `answer` reads.

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
    def terms(self) -> SiteTerms:
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

    @property
    def place(self) -> str:
        """Where the records are, in words."""
        return "in this process"

    @property
    def held(self) -> HeldData | None:
        """Which data the site holds, as its account names them; None where it does not say so."""
        return None

    def is_same_as(self, other: "Site") -> bool:
        """Whether another site holds the same people or charges the same account, as far as can be seen from here."""
        own, held = self.held, other.held
        return self is other or (own is not None and held is not None and held.account == own.account != "")

    @final
    def _check_public(self, table: PublicTable) -> None:
        if not isinstance(table, PublicTable):
            raise ArgumentError("table must be a public table, as study.public is", argument="table")
        if table.schema.sha256 != self.schema.sha256:
            raise SiteError("the public rows were checked against another schema than this site's")

    def check_permitted(self, query: Query, columns: Collection[str]) -> None:  # noqa: B027  (all is, unless it is said)
        """Refuse a query, given the columns that it needs, that the site is known to refuse; nothing is asked of it.

        A fit calls it with its own query before it asks for the number of people, which is charged.

        Raises
        ------
        SiteError
            The custodian does not permit it.
        """

    def check_later(self, query: Query) -> None:  # noqa: B027  (nothing is known of it, unless it is said)
        """Take a query that is asked once something else was charged, or one that differs from it in numbers alone.

        A site that looks at its length and time refuses the charge before it where these are too large. A fit calls it
        with what describes its people, and with the first of several rounds; its own query it gives to
        `check_permitted`.
        """

    @abstractmethod
    def put_public(self, table: PublicTable) -> None:
        """Hand over public rows that later queries name by their SHA-256; the same ones again change nothing.

        A site keeps the last few tables.

        Raises
        ------
        SiteError
            The rows were checked against another schema than the site's.
        """

    def received(self, query: Query) -> Release | None:  # noqa: ARG002
        """Return the release that the site has of a query for whoever asks; None where it has none.

        Nothing is charged, and no row is read. A site that does not say what it has is asked by the latest recipe
        (`hdpstats.sites.recipes`).
        """
        return None

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

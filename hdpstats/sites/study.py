"""A study: private records at a site, public records at hand, and the schema that both obey."""

from os import PathLike
from pathlib import Path
from typing import final

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice
from hdpstats.data.public import PublicTable
from hdpstats.data.schema import Schema
from hdpstats.display import details, key_values, page, section
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.relation import Relation
from hdpstats.sites.local import LocalSite
from hdpstats.sites.site import Site
from hdpstats.sites.terms import Terms

Private = pd.DataFrame | str | PathLike[str] | Site | None


@final
class Study:
    """What a model is fitted to.

    Parameters
    ----------
    private
        The private records, one row per person (or several, see ``unit``): a DataFrame, the path of a Parquet file, or
        a `Site`. None allows `fit_public` and `plan` only.
    public
        Records that anybody may see, with the schema's columns (the outcome may be missing: then they give the geometry
        only). They must not contain private persons.
    schema
        What is declared about the columns; may be left out where ``private`` is a site.
    ledger
        The account that releases are charged to.
    budget
        Instead of a ledger: a total for an account that lasts as long as this process.
    relation
        ``"replace_one"``: one person's record may be any other, the number of records is public.
        ``"add_or_remove_one"``: one person may be there or not, the number is never read but through noise, which each
        fit pays for; it needs ``n_max``.
    unit
        The column that names the person, where a person has several rows; all rows of a person are protected together.
        A ledger must have been opened with it. The schema need not declare it. Cells are read as text (1, 1.0 and "1"
        are one person); private rows that name nobody contribute nothing; public rows may lack the column: then each is
        a person.
    max_rows_per_unit
        With ``unit``: the most rows of one person that a model uses, the earliest ones. A public choice.
    n_max
        Under ``add_or_remove_one`` the declared maximum of people, with room: noisy counts are cut there. With ``unit``
        under ``replace_one`` the declared number of people, which standard errors rest on, as rows do not tell it. No
        guarantee depends on it.

    Raises
    ------
    ArgumentError, SchemaError, LedgerError
        Before anything is charged.

    Examples
    --------
    >>> import pandas as pd
    >>> from hdpstats.data.columns import Binary, Continuous
    >>> schema = Schema(age=Continuous(20, 90), event=Binary())
    >>> private = pd.DataFrame({"age": [35, 61], "event": [0, 1]})
    >>> Study(private=private, schema=schema, budget=Budget(epsilon=1))
    <study: private records at 1 site, no public rows, 2 declared columns; replace_one, one row per person>
    """

    def __init__(
        self,
        *,
        private: Private = None,
        public: pd.DataFrame | None = None,
        schema: Schema | None = None,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        relation: str = "replace_one",
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        n_max: int | None = None,
    ) -> None:
        self._terms = _terms(private, relation=relation, unit=unit, max_rows_per_unit=max_rows_per_unit, n_max=n_max)
        if public is not None and public is private:
            raise ArgumentError("public must be other records than private, not the same object", argument="public")
        self._schema = _schema(schema, private)
        self._site = _site(private, schema=self._schema, ledger=ledger, budget=budget, terms=self._terms)
        self._public = (
            None if public is None else PublicTable.from_frame(public, self._schema, required=(), unit=self._terms.unit)
        )

    @property
    def schema(self) -> Schema:
        """What is declared about the columns."""
        return self._schema

    @property
    def site(self) -> Site | None:
        """The site of the private records, or None."""
        return self._site

    @property
    def public(self) -> PublicTable | None:
        """The public rows, or None."""
        return self._public

    @property
    def relation(self) -> Relation:
        """The neighbouring relation."""
        return self._terms.relation

    @property
    def unit(self) -> str | None:
        """The column that names the person, None where every row is a person."""
        return self._terms.unit

    @property
    def most_rows(self) -> int:
        """The most rows of one person that a model uses; 1 without a unit."""
        return self._terms.most_rows

    @property
    def records(self) -> int | None:
        """The public number of people: the site's, else the declared one; None where neither is known."""
        return self._terms.n_max if self._site is None else self._site.records

    @property
    def ledger(self) -> Ledger:
        """The account of the site in this process."""
        if not isinstance(self._site, LocalSite):
            raise ArgumentError("this study has no ledger at hand: its private records are not in this process")
        return self._site.ledger

    def __repr__(self) -> str:
        private = "no private records" if self._site is None else "private records at 1 site"
        public = "no public rows" if self._public is None else f"{self._public.rows} public rows"
        return f"<study: {private}, {public}, {len(self._schema)} declared columns; {self._terms}>"

    def _repr_html_(self) -> str:
        private = "none" if self._site is None else "at 1 site, which answers queries and shows no row"
        public = "none" if self._public is None else f"{self._public.rows} rows"
        account = "" if not isinstance(self._site, LocalSite) else section("Privacy spent", self._site.ledger.as_html())
        columns = details(f"Schema, {len(self._schema)} declared columns", self._schema.as_html())
        records = key_values([("Private records", private), ("Public records", public)])
        return page("Study", records, account, columns, badges=str(self._terms).split(", "))


def _terms(private: Private, *, relation: object, unit: object, max_rows_per_unit: object, n_max: object) -> Terms:
    if not isinstance(private, Site):
        return Terms.declared(relation=relation, unit=unit, max_rows_per_unit=max_rows_per_unit, n_max=n_max)
    if (unit, max_rows_per_unit, n_max) != (None, None, None):
        message = "unit, max_rows_per_unit and n_max belong to private rows; a site brings its own"
        raise ArgumentError(message, argument="unit")
    default = Relation.REPLACE_ONE.value
    if choice(relation, name="relation", options=[each.value for each in Relation]) not in (default, private.relation):
        message = f"relation must be the site's own, {private.relation.value!r}, not {relation!r}; leave it out"
        raise ArgumentError(message, argument="relation")
    return private.terms


def _schema(schema: Schema | None, private: Private) -> Schema:
    if schema is None and isinstance(private, Site):
        return private.schema
    if not isinstance(schema, Schema):
        raise ArgumentError(
            "schema must be an hdp.Schema: bounds and levels are declared, never read from private rows",
            argument="schema",
        )
    if isinstance(private, Site) and private.schema.sha256 != schema.sha256:
        raise ArgumentError("schema must equal the site's own schema; leave it out to use that one", argument="schema")
    return schema


def _site(
    private: Private, *, schema: Schema, ledger: Ledger | None, budget: Budget | None, terms: Terms
) -> Site | None:
    if private is None or isinstance(private, Site):
        if ledger is not None or budget is not None:
            raise ArgumentError("ledger and budget belong to private rows; a site brings its own", argument="ledger")
        return private
    frame = _frame(private)
    if ledger is not None and budget is not None:
        raise ArgumentError("ledger and budget were both given; keep one of them", argument="ledger")
    if ledger is None and budget is None:
        raise ArgumentError(
            "give either ledger=hdp.Ledger(...) or budget=hdp.Budget(epsilon=...): private rows without an account are "
            "not touched",
            argument="ledger",
        )
    if budget is not None:
        if not isinstance(budget, Budget):
            raise ArgumentError("budget must be an hdp.Budget", argument="budget")
        ledger = Ledger(
            None,
            dataset="private",
            epsilon=budget.epsilon,
            delta=budget.delta,
            relation=terms.relation.value,
            unit=terms.unit,
        )
    if not isinstance(ledger, Ledger):
        raise ArgumentError("ledger must be an hdp.Ledger", argument="ledger")
    if ledger.relation != terms.relation.value:
        raise ArgumentError(
            f"relation must be the ledger's own, {ledger.relation!r}, not {terms.relation.value!r}", argument="relation"
        )
    most_rows = None if terms.unit is None else terms.most_rows
    return LocalSite(
        frame, schema=schema, ledger=ledger, unit=terms.unit, max_rows_per_unit=most_rows, n_max=terms.n_max
    )


def _frame(private: pd.DataFrame | str | PathLike[str]) -> pd.DataFrame:
    if isinstance(private, pd.DataFrame):
        return private
    if not isinstance(private, str | PathLike):
        raise ArgumentError(
            f"private must be a DataFrame, the path of a Parquet file, or a site, not {type(private).__name__}",
            argument="private",
        )
    path = Path(private)
    if not path.is_file():
        raise ArgumentError(f"private must be the path of a Parquet file; {str(path)!r} is none", argument="private")
    try:
        return pd.read_parquet(path, dtype_backend="pyarrow")  # as it is stored: to convert a cell can fail
    except ImportError:
        message = "reading Parquet needs pyarrow: pip install 'hdpstats[scale]'"
        raise ArgumentError(message, argument="private") from None
    except (ValueError, OSError):
        raise ArgumentError("private is not a Parquet file that can be read", argument="private") from None

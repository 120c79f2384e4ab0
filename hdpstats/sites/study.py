"""A study: private records at a site, public records at hand, and the schema that both obey."""

import html
from os import PathLike
from pathlib import Path
from typing import final

import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice
from hdpstats.data.public import PublicTable
from hdpstats.data.schema import Schema
from hdpstats.ledger import Ledger
from hdpstats.privacy.budget import Budget
from hdpstats.privacy.relation import Relation
from hdpstats.sites.local import LocalSite
from hdpstats.sites.site import Site

Private = pd.DataFrame | str | PathLike[str] | Site | None


@final
class Study:
    """What a model is fitted to.

    Parameters
    ----------
    private
        The private records, one row per person: a DataFrame, the path of a Parquet file, or a `Site`. None allows
        `fit_public` and `plan` only.
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
    unit
        The protected unit is a person, and a person has one row; other units are not offered.

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
    <study: private records at 1 site, no public rows, 2 declared columns>
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
    ) -> None:
        self._relation = _relation(relation)
        if unit is not None:
            raise ArgumentError(
                "unit must be None: a person has one row here; aggregate repeated rows to one per person first",
                argument="unit",
            )
        if public is not None and public is private:
            raise ArgumentError("public must be other records than private, not the same object", argument="public")
        self._schema = _schema(schema, private)
        self._site = _site(private, schema=self._schema, ledger=ledger, budget=budget, relation=self._relation)
        self._public = None if public is None else PublicTable.from_frame(public, self._schema, required=())

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
        return self._relation

    @property
    def ledger(self) -> Ledger:
        """The account of the site in this process."""
        if not isinstance(self._site, LocalSite):
            raise ArgumentError("this study has no ledger at hand: its private records are not in this process")
        return self._site.ledger

    def __repr__(self) -> str:
        private = "no private records" if self._site is None else "private records at 1 site"
        public = "no public rows" if self._public is None else f"{self._public.rows} public rows"
        return f"<study: {private}, {public}, {len(self._schema)} declared columns>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{self._schema._repr_html_()}"


def _relation(relation: object) -> Relation:
    named = Relation(choice(relation, name="relation", options=[each.value for each in Relation]))
    if named is not Relation.REPLACE_ONE:
        raise ArgumentError(
            "relation must be 'replace_one': 'add_or_remove_one' hides the number of records, which the calibration "
            "here reads; it needs a declared maximum and a paid noisy count",
            argument="relation",
        )
    return named


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
    private: Private, *, schema: Schema, ledger: Ledger | None, budget: Budget | None, relation: Relation
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
        ledger = Ledger(None, dataset="private", epsilon=budget.epsilon, delta=budget.delta, relation=relation.value)
    if not isinstance(ledger, Ledger):
        raise ArgumentError("ledger must be an hdp.Ledger", argument="ledger")
    if ledger.relation != relation.value:
        raise ArgumentError(
            f"relation must be the ledger's own, {ledger.relation!r}, not {relation.value!r}", argument="relation"
        )
    return LocalSite(frame, schema=schema, ledger=ledger)


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

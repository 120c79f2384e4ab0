"""A site in this process: for a custodian's own analyses, for teaching, and behind every remote site."""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

import pandas as pd

from hdpstats._base.compiled import SMALLEST_COMPILED
from hdpstats._base.errors import ArgumentError, MechanismError, SiteError, forgets_rows
from hdpstats._base.no_warnings import silence
from hdpstats._base.rehearsal import rehearsing
from hdpstats._base.work import Operations
from hdpstats.ledger import Ledger, Request, SigningKey, StoredRelease
from hdpstats.mechanisms.base import Prepared, costly_table
from hdpstats.mechanisms.loading import load
from hdpstats.mechanisms.registry import check_kind, columns_of, prepare, release_from_json
from hdpstats.privacy.budget import Spend, as_pair, total
from hdpstats.records.query import Query, Release
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateRows, PrivateTable
from hdpstats.sites.messages import Facts, Quote
from hdpstats.sites.single_draw import drawn_once, held_charge, warn_if_charged_again
from hdpstats.sites.site import HeldData, Site, SiteTerms

MOST_PUBLIC = 8
"""Public tables that a site keeps of one owner: the latest ones."""


@final
class PublicTables:
    """Public tables by owner: an analyst, or None for who holds the rows.

    What one analyst hands over never makes a table of another one go.
    """

    def __init__(self) -> None:
        self._kept: dict[str | None, dict[str, PublicTable]] = {}
        self._lock = threading.Lock()

    def put(self, table: PublicTable, owner: str | None, most_bytes: int | None = None) -> None:
        """Keep a table; of the same owner only the latest ones stay, together of at most so many bytes or alone."""
        with self._lock:
            kept = dict(self._kept.get(owner, {}))
            kept.pop(table.sha256, None)
            latest = [*kept.items(), (table.sha256, table)][-MOST_PUBLIC:]
            while most_bytes is not None and len(latest) > 1 and sum(kept.nbytes for _, kept in latest) > most_bytes:
                latest.pop(0)
            self._kept[owner] = dict(latest)

    def of(self, owner: str | None) -> Mapping[str, PublicTable]:
        """Return the tables that queries of an owner may name, by SHA-256: his own, and those of who holds the rows."""
        return {**self._kept.get(None, {}), **self._kept.get(owner, {})}


@final
class LocalSite(Site):
    """Private rows held in this process, with their ledger.

    Parameters
    ----------
    frame
        One row per person, or with ``unit`` several. Copied; columns that the schema does not declare are left out.
        Or rows that were opened with the same schema, such as `hdpstats.schema.parquet.ParquetTable`.
    schema
        What the custodian declares about the columns.
    ledger
        The account that every release is charged to; its relation is the site's.
    unit
        The column that names the person, the ledger's own. Rows that name nobody contribute nothing.
    max_rows_per_unit
        With ``unit``: the most rows of one person that a model uses.
    n_max
        With ``unit`` or under ``add_or_remove_one``: the declared number of people; see
        `hdpstats.sites.site.SiteTerms`.
    row_order
        ``"arbitrary"`` declares that the order of the rows was not made from their values (they are sorted by none):
        subsample and aggregate of people without a unit needs it. `PrivateTable` keeps the order of ``frame``, and
        `hdpstats.schema.parquet.ParquetTable` that of the files: which rows are in which file is a part of it.
    signing_key
        The key that releases are signed with, or its file (`hdpstats.ledger.SigningKey`); without it they have no
        signature.

    Notes
    -----
    Python cannot hide memory from code in the same process: a local site protects against mistakes, and its releases
    against everybody who sees only them. Against the analyst himself the rows belong in another process.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), event=hdp.Binary())
    >>> ledger = hdp.Ledger(None, dataset="trial", epsilon=2)
    >>> site = LocalSite(hdp.datasets.load_gbsg(), schema=schema, ledger=ledger)
    >>> hdp.Study(private=site)
    <study: private records at 1 site, no public rows, 2 declared columns; replace_one, one row per person>
    """

    @forgets_rows
    def __init__(
        self,
        frame: pd.DataFrame | PrivateRows,
        *,
        schema: Schema,
        ledger: Ledger,
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        n_max: int | None = None,
        row_order: str = "undeclared",
        signing_key: SigningKey | str | Path | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise ArgumentError("schema must be an hdp.Schema", argument="schema")
        if not isinstance(ledger, Ledger):
            raise ArgumentError("ledger must be an hdp.Ledger", argument="ledger")
        self._terms = SiteTerms.declared(
            relation=ledger.relation,
            unit=unit,
            max_rows_per_unit=max_rows_per_unit,
            n_max=n_max,
            row_order=row_order,
        )
        if ledger.unit != self._terms.unit:
            raise ArgumentError(
                f"unit must be the ledger's own, {ledger.unit!r}, not {self._terms.unit!r}: an account is opened for "
                "one kind of unit, hdp.Ledger(..., unit=...)",
                argument="unit",
            )
        self._table = _opened(frame, schema, unit=self._terms.unit)
        self._ledger = ledger
        self._signing_key = None if signing_key is None else SigningKey.read(signing_key)
        self._public = PublicTables()

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._table.schema

    @property
    def records(self) -> int:
        """The public number of people: that of the rows under ``replace_one`` without a unit, else ``n_max``."""
        return self._table.rows if self._terms.n_max is None else self._terms.n_max

    @property
    def terms(self) -> SiteTerms:
        """Who is protected, under the ledger's relation."""
        return self._terms

    @property
    def ledger(self) -> Ledger:
        """The account of this site."""
        return self._ledger

    @property
    def held(self) -> HeldData:
        """Which data this is, as the account has it."""
        ledger = self._ledger
        return HeldData(dataset=ledger.dataset, version=ledger.version, account=ledger.identity)

    @property
    def facts(self) -> Facts:
        """All public facts about the site."""
        held = self.held
        return Facts(
            schema=self.schema,
            terms=self._terms,
            records=self.records,
            dataset=held.dataset,
            version=held.version,
            account=held.account,
        )

    def is_same_as(self, other: Site) -> bool:
        """Whether a charge to the one is a charge to the other."""
        return isinstance(other, LocalSite) and self._ledger.shares_account_with(other.ledger)

    def put_public(self, table: PublicTable, *, analyst: str | None = None, most_bytes: int | None = None) -> None:
        """Keep public rows for later queries; see `Site.put_public`.

        With an analyst, for his queries only; of what he handed over the latest tables stay, together of at most
        ``most_bytes``. Nobody's rows make those of another go.
        """
        self._check_public(table)
        self._public.put(table, analyst, most_bytes)

    def answer(
        self,
        query: Query,
        *,
        analyst: str | None = None,
        pace: Callable[[], AbstractContextManager[None]] = nullcontext,
        in_vain: int | None = None,
    ) -> Release:
        """Answer a query; see `Site.answer`.

        With an analyst, the release is charged to his cap too (`hdpstats.ledger.Ledger.grant`): once, and also where it
        was computed for somebody else before.

        What was answered before is read from the ledger, where it is found by the whole text of the query, the data
        set and the terms: it needs no public rows again. A query that is not answered yet is computed once, whoever
        asks at the same time (`hdpstats.sites.single_draw`).

        With a ``pace``, the computation on private rows runs within what it returns: after the charge, before the
        record. One that ends at fixed instants only hides how long the computation took, also from who looks at the
        ledger. It is called for each computation: there is a second one where the first was given up in between.

        With ``in_vain``, nothing is charged where more charges of the query have no release
        (`hdpstats.ledger.Ledger.charge`).
        """
        stored, answered_before = drawn_once(
            self._ledger,
            self._request(query),
            prepare=partial(self._ready, query, analyst),
            compute=partial(self._compute, pace),
            analyst=analyst,
            in_vain=in_vain,
        )
        return self._handed_out(query, stored, answered_before=answered_before)

    def read(self) -> None:
        """Map all declared columns and names of people now: no answer takes longer because of what cells hold.

        Who serves analysts calls it before the first question (`hdpstats.schema.table.PrivateTable`).
        """
        self._table.read()

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed hash of the rows as the schema admits them; for whoever holds the rows, never for an answer.

        See `hdpstats.schema.table.PrivateTable.fingerprint`.
        """
        return self._table.fingerprint(key)

    def has_declared_rows(self) -> bool:
        """Whether the table has at most ``records`` times ``most_rows`` rows: times are predicted for that many.

        It may be private: for whoever holds the rows, never for an answer.
        """
        return self._table.rows <= self.records * self._terms.most_rows

    def received(self, query: Query, *, analyst: str | None = None) -> Release | None:
        """Return the release that the ledger has of a query, with an analyst: of what was charged to him; else None.

        See `Site.received`.
        """
        stored = self._ledger.stored(self._request(query).id, analyst)
        return None if stored is None else self._handed_out(query, stored, answered_before=True)

    def held_charge(self, query: Query) -> int:
        """Return the number of a query's charge that this process has bits for (`hdpstats.sites.single_draw`), or 0."""
        return held_charge(self._ledger, self._request(query))

    def work(self, query: Query, *, analyst: str | None = None) -> Operations:
        """Return what the computation of a query on the declared number of rows takes at most; charges nothing.

        It is a function of public facts: of the query, the schema, the terms and the public rows that the query names.

        Raises
        ------
        SiteError, MechanismError, FormulaError, SchemaError
            As `answer` would raise before it charges.
        """
        return work_of(self._prepare(query, analyst), self.records * self._terms.most_rows)

    def rehearsal(self, query: Query, *, rows: int, analyst: str | None = None) -> Callable[[], None]:
        """Return the computation of a query on so many invented rows, all its work that may ever be needed.

        It is a function of public facts, charges and records nothing, and returns nothing. It is for checks of `work`:
        answers wait for none.

        Raises
        ------
        SiteError, MechanismError, FormulaError, SchemaError
            As `answer` would raise before it charges; the computation itself a SiteError where it fails.
        """
        prepared = self._prepare(query, analyst)
        if self._compiled:
            load(prepared.loops, in_files=False)
        return partial(rehearse, prepared, costly_table(query, self._site_facts(analyst), rows=rows))

    def quote(self, query: Query, *, analyst: str | None = None) -> Quote:
        """Say what a query would read and cost, or refuse it as `answer` would; a function of public facts only."""
        prepared = self._prepare(query, analyst)
        cost, ahead = self._ledger.charged(total(prepared.events)), self._ledger.floor.charged_together(prepared.ahead)
        return Quote(columns=tuple(sorted(prepared.needs)), cost=cost, ahead=ahead)

    def cost(self, query: Query, *, analyst: str | None = None) -> Spend:
        """Return what a query would cost by its proof, before it is rounded up for the account; charges nothing."""
        return total(self._prepare(query, analyst).events)

    def charges_ahead(self, query: Query, *, analyst: str | None = None) -> int:
        """Return how many charges of the same fit follow a query; a function of public facts."""
        return len(self._prepare(query, analyst).ahead)

    def columns(self, query: Query, *, analyst: str | None = None) -> tuple[str, ...]:
        """Return the columns that `answer` would read, in alphabetical order; needs no public rows."""
        self._check(query)
        return columns_of(query, self._site_facts(analyst))

    def _request(self, query: Query) -> Request:
        """Return what is asked, as the ledger knows it, or refuse what this site does not answer."""
        self._check(query)
        return request_of(query, dataset=self._ledger.dataset, version=self._ledger.version, terms=self._terms)

    def _check(self, query: Query) -> None:
        check_kind(query)
        if query.schema_sha256 != self.schema.sha256:
            raise SiteError("the query was written for another schema than this site's; ask the custodian for it")

    def _site_facts(self, analyst: str | None) -> SiteFacts:
        return SiteFacts(
            schema=self.schema,
            relation=self._terms.relation,
            records=self.records,
            unit=self._terms.unit,
            most_rows=self._terms.most_rows,
            public=self._public.of(analyst),
            row_order=self._terms.row_order,
        )

    def _prepare(self, query: Query, analyst: str | None) -> Prepared:
        """Check everything that can be checked without a row, and fix every constant."""
        self._check(query)
        prepared = prepare(query, self._site_facts(analyst))
        spent = as_pair(total(prepared.events))
        if spent.epsilon > query.epsilon or spent.delta > query.delta:
            raise MechanismError("the mechanism would cost more than the query offers")
        self._table.check_unchanged()
        if prepared.whole:
            self._table.check_whole(len(prepared.needs), rows=self.records * self._terms.most_rows)
        return prepared

    def _ready(self, query: Query, analyst: str | None) -> Prepared:
        """Prepare a query, and load the code of its computation, on the workers of a cluster too."""
        prepared = self._prepare(query, analyst)
        if self._compiled:
            self._table.load(partial(load, prepared.loops, in_files=self._in_files))
        for compile_loops in prepared.loads:
            self._table.load(compile_loops)
        return prepared

    @property
    def _compiled(self) -> bool:
        """Whether answers run compiled code; always where the number of rows is private."""
        return self._terms.n_max is not None or self._in_files or self._table.rows >= SMALLEST_COMPILED

    @property
    def _in_files(self) -> bool:
        return not isinstance(self._table, PrivateTable)

    def _compute(self, pace: Callable[[], AbstractContextManager[None]], prepared: Prepared) -> Release:
        with pace():
            return prepared.compute(self._table.admit(prepared.needs, key=prepared.key))

    def _handed_out(self, query: Query, stored: StoredRelease, *, answered_before: bool) -> Release:
        entry = stored.place if answered_before else replace(stored.place, stored=None)
        warn_if_charged_again(entry)
        release = release_from_json(stored.release_json).at(entry)
        if self._signing_key is None:
            return release
        return self._signing_key.signed(release, request=self._request(query).id, query=query)

    def __repr__(self) -> str:
        if not hasattr(self, "_public"):  # the last that the constructor sets
            return "<local site: not complete>"
        return f"<local site: data set {self._ledger.dataset!r}, {len(self.schema)} declared columns; {self._terms}>"


def _opened(rows: pd.DataFrame | PrivateRows, schema: Schema, *, unit: str | None) -> PrivateRows:
    """Return the rows of a site: a frame is registered; what was opened before must have its schema and no unit."""
    if not isinstance(rows, PrivateRows):
        return PrivateTable.from_frame(rows, schema, unit=unit)
    if rows.schema.sha256 != schema.sha256 or unit is not None:
        raise ArgumentError("rows in partitions must have the site's schema, and one row per person", argument="frame")
    return rows


def work_of(prepared: Prepared, rows: int) -> Operations:
    """Return what the computation of a prepared query on so many rows takes at most."""
    admitted = Operations(steps=200.0 + 20.0 * len(prepared.needs), passes=2.0 * len(prepared.needs) * rows)
    return admitted + prepared.work(rows)


def request_of(query: Query, *, dataset: str, version: int, terms: SiteTerms) -> Request:
    """Return what identifies the release of a query in the ledger of a site."""
    return Request(
        dataset=dataset,
        version=version,
        schema_sha256=query.schema_sha256,
        public_sha256=query.public_sha256,
        query_json=query.question(),
        terms=str(terms),
        replicate=query.replicate,
    )


def rehearse(prepared: Prepared, invented: PrivateTable) -> None:
    """Compute a release from invented rows, every loop at its full length, to see how long it takes.

    Nothing is charged, recorded or returned.

    Raises
    ------
    SiteError
        The computation fails on such rows, so that its time is not known.
    """
    failed = False
    try:
        with silence(), rehearsing():
            prepared.compute(invented.admit(prepared.needs, key=prepared.key)).to_json()
    except Exception:  # invented rows are public, but what a computation says may be long and of no use
        failed = True
    if failed:
        raise SiteError("the computation fails on invented rows of the declared shape; nothing was charged")

"""A site in this process: for a custodian's own analyses, for teaching, and behind every remote site."""

from dataclasses import replace
from functools import partial
from typing import final

import pandas as pd

from hdpstats._base.errors import ArgumentError, MechanismError, SiteError
from hdpstats.data.columns import NumericColumn
from hdpstats.data.schema import Schema
from hdpstats.data.table import PrivateTable
from hdpstats.design import Design, compile_design
from hdpstats.ledger import Ledger, Request, StoredRelease
from hdpstats.mechanisms import objective
from hdpstats.mechanisms.rows import rows_of
from hdpstats.privacy.accountant import total
from hdpstats.privacy.budget import Spend
from hdpstats.privacy.relation import Relation
from hdpstats.queries import LedgerEntry, ObjectiveQuery, ObjectiveRelease, Query, release_from_json
from hdpstats.sites.firewall import behind_the_wall
from hdpstats.sites.site import Site
from hdpstats.sites.terms import Terms


@final
class LocalSite(Site):
    """Private rows held in this process, with their ledger.

    Parameters
    ----------
    frame
        One row per person, or with ``unit`` several. Copied; columns that the schema does not declare are left out.
    schema
        What the custodian declares about the columns.
    ledger
        The account that every release is charged to; its relation is the site's.
    unit
        The column that names the person. Rows that name nobody contribute nothing.
    max_rows_per_unit
        With ``unit``: the most rows of one person that a model uses.
    n_max
        With ``unit`` or under ``add_or_remove_one``: the declared maximum of people. It stands for their number, which
        is never read, wherever a constant is fixed. Of more people the first n_max are kept (see
        `hdpstats.data.table.PrivateTable.from_frame`), so leave room.

    Notes
    -----
    Python cannot hide memory from code in the same process: a local site protects against mistakes, and its releases
    against everybody who sees only them. Against the analyst himself the rows belong in another process.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        schema: Schema,
        ledger: Ledger,
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        n_max: int | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise ArgumentError("schema must be an hdp.Schema", argument="schema")
        if not isinstance(ledger, Ledger):
            raise ArgumentError("ledger must be an hdp.Ledger", argument="ledger")
        self._terms = Terms.declared(
            relation=ledger.relation, unit=unit, max_rows_per_unit=max_rows_per_unit, n_max=n_max
        )
        self._table = PrivateTable.from_frame(frame, schema, unit=self._terms.unit, most_people=self._terms.n_max)
        self._ledger = ledger

    @property
    def schema(self) -> Schema:
        """The custodian's schema."""
        return self._table.schema

    @property
    def records(self) -> int:
        """The public number of people: that of the rows under ``replace_one`` without a unit, else ``n_max``."""
        return self._table.rows if self._terms.n_max is None else self._terms.n_max

    @property
    def terms(self) -> Terms:
        """Who is protected, under the ledger's relation."""
        return self._terms

    @property
    def ledger(self) -> Ledger:
        """The account of this site."""
        return self._ledger

    def answer(self, query: Query) -> ObjectiveRelease:
        """Answer a query; see `Site.answer`."""
        if not isinstance(query, ObjectiveQuery):
            raise SiteError(f"this site does not answer {type(query).__name__}")
        design, calibration = self._prepare(query)
        request = Request(
            dataset=self._ledger.dataset,
            version=self._ledger.version,
            schema_sha256=query.schema_sha256,
            public_sha256=query.public_sha256,
            query_json=query.to_json(),
            replicate=query.replicate,
        )
        stored = self._ledger.stored(request.id)
        if stored is None:
            charge = self._ledger.charge(request, Spend(query.epsilon, query.delta))
            release = behind_the_wall(partial(self._compute, query, design, calibration))
            stored = self._ledger.persist(charge, release.to_json())
        return self._handed_out(stored)

    def _prepare(self, query: ObjectiveQuery) -> tuple[Design, objective.Calibration]:
        """Check everything that can be checked without a row, and fix every constant."""
        if self.unit is not None or self.relation is not Relation.REPLACE_ONE:
            raise MechanismError("objective perturbation is proved here for replace_one and one row per person only")
        if query.schema_sha256 != self.schema.sha256:
            raise SiteError("the query was written for another schema than this site's; ask the custodian for it")
        design = compile_design(query.formula, self.schema)
        if len(design.columns) != query.geometry.dimension or design.intercept != query.geometry.intercept:
            raise SiteError("the query's geometry does not fit its formula")
        calibration = objective.calibrate(
            query,
            records=self.records,
            largest_weight=self._bound(query.weights, kind="weight", default=1.0),
            largest_offset=self._bound(query.offset, kind="offset", default=0.0),
        )
        outcome = self.schema[design.response].kind
        if outcome != calibration.loss.outcome:
            raise MechanismError(
                f"the {query.loss} loss is proved for a {calibration.loss.outcome} outcome; this site's schema "
                f"declares {design.response!r} as {outcome}"
            )
        spent = total(calibration.events)
        if spent.epsilon > query.epsilon or spent.delta > query.delta:
            raise MechanismError("the mechanism would cost more than the query offers")
        return design, calibration

    def _bound(self, name: str | None, *, kind: str, default: float) -> float:
        """Return the declared bound of a weight's or an offset's size."""
        if name is None:
            return default
        column = self.schema.get(name)
        if not isinstance(column, NumericColumn) or column.kind != kind:
            raise SiteError(f"{name!r} is not declared as a column of kind {kind} in this site's schema")
        return max(abs(column.lower), abs(column.upper))

    def _compute(self, query: ObjectiveQuery, design: Design, calibration: objective.Calibration) -> ObjectiveRelease:
        extra = [name for name in (query.weights, query.offset) if name is not None]
        table = self._table.admit([*design.needs, *extra])
        rows = rows_of(table, design=design, geometry=query.geometry, weights=query.weights, offset=query.offset)
        return objective.run(query, calibration, rows)

    def _handed_out(self, stored: StoredRelease) -> ObjectiveRelease:
        release = release_from_json(stored.release_json)
        if not isinstance(release, ObjectiveRelease):
            raise SiteError("the ledger holds an answer of another kind for this request")
        entry = LedgerEntry(
            dataset=self._ledger.dataset, version=self._ledger.version, number=stored.entry, head=stored.head
        )
        return replace(release, entry=entry)

    def __repr__(self) -> str:
        return f"<local site: data set {self._ledger.dataset!r}, {len(self.schema)} declared columns; {self._terms}>"

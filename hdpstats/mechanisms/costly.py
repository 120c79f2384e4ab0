"""The invented rows on which the answer to a query takes the longest, for whoever predicts how long it will take."""

from hdpstats.formulas.compiler import compile_survival
from hdpstats.mechanisms.base import SiteFacts
from hdpstats.mechanisms.evaluation.query import EvaluationQuery
from hdpstats.records.model import HazardModel
from hdpstats.records.query import Query
from hdpstats.schema.invented import FollowUpColumns, costly_frame
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import PrivateTable


def costly_table(query: Query, site_facts: SiteFacts, *, rows: int) -> PrivateTable:
    """Return so many invented rows of a site's schema that cost a query as much as any rows of that number could.

    It is a table like that of private rows: with what `hdpstats.mechanisms.registry.prepare` returned for the query,
    ``prepared.compute(table.admit(prepared.needs, key=prepared.key))`` does the work, under
    `hdpstats._base.loops.rehearsing` the most that it may be. For people of several rows let ``rows`` be a multiple
    of `SiteFacts.most_rows`.

    Parameters
    ----------
    query
        A query that `prepare` accepted.
    site_facts
        The public facts about the site.
    rows
        How many rows, from 1; with a unit, all rows of all people.
    """
    frame = costly_frame(
        site_facts.schema,
        rows=rows,
        unit=site_facts.unit,
        most_rows=site_facts.most_rows,
        follow_up=follow_up_of(query, site_facts.schema),
    )
    return PrivateTable.from_frame(frame, site_facts.schema, unit=site_facts.unit)


def follow_up_of(query: Query, schema: Schema) -> FollowUpColumns | None:
    """Return the survival outcome that a query is about; None where it is about none."""
    model = getattr(query, "model", None)
    if isinstance(model, HazardModel):
        formula, grid = model.formula, model.grid
    elif isinstance(query, EvaluationQuery) and query.grid is not None:
        formula, grid = query.formula, query.grid
    else:
        return None
    design = compile_survival(formula, schema)
    return FollowUpColumns(start=design.start, stop=design.stop, event=design.event, grid=grid)

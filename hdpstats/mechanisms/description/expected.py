r"""What a description is expected to find, from public rows or from rows spread over the schema: for plans.

The total map of private people (`hdpstats.mechanisms.description.people`) is applied to public rows, and what it gives
is scaled to the number of private people. Read as a release is, that gives the standard errors which a release would
report at its expectation. Columns that public rows lack, or all where there are none, are spread evenly over what the
schema declares.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.description.blocks import DescribedNumbers
from hdpstats.mechanisms.description.observed import follow_up_of
from hdpstats.mechanisms.description.people import DescribedPeople, cells_of, people_of, sums_of
from hdpstats.mechanisms.description.query import UNITS, DescriptionQuery
from hdpstats.schema.columns import Categorical, Column, NumericColumn
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import PrivateTable

SPREAD = 1000
"""Rows that stand for people where there are no public ones."""


def public_people(query: DescriptionQuery, schema: Schema, public: PublicTable | None) -> DescribedPeople:
    """Return the public people of a query; columns that public rows lack are spread over what is declared."""
    known = {} if public is None else dict(public.frame().items())
    rows = SPREAD if public is None else public.rows
    frame = pd.DataFrame(
        {name: known[name] if name in known else _spread(schema[name], rows, k) for k, name in enumerate(query.names)}
    )
    declared = Schema({name: schema[name] for name in query.names})
    if public is not None and public.persons is not None:
        persons = PrivateTable.from_frame(frame.assign(_hdp_person=public.persons), declared, unit="_hdp_person")
        return people_of(query, persons.admit(query.names))
    return people_of(query, PrivateTable.from_frame(frame, declared).admit(query.names))


def _spread(column: Column, rows: int, place: int) -> "pd.Series[float] | pd.Series[str]":
    """Return cells spread evenly over a column's values, in an order of its own."""
    at = (np.arange(rows) * (0.6180339887498949 + 0.0837 * place)) % 1.0
    if isinstance(column, Categorical):
        return pd.Series(np.array(column.levels, dtype=object)[(at * len(column.levels)).astype(int)])
    if isinstance(column, NumericColumn):
        levels = getattr(column, "labels", None)
        if column.kind == "binary":
            return pd.Series(np.array(levels or (0, 1), dtype=object)[(at >= 0.5).astype(int)])
        return pd.Series(column.lower + at * (column.upper - column.lower))
    return pd.Series(np.full(rows, np.nan))


def expected_numbers(
    query: DescriptionQuery, people: DescribedPeople, *, records: float, sds: Sequence[FloatArray], public: bool
) -> DescribedNumbers:
    """Return what so many people are expected to give, with the noise of the sites that are asked.

    Parameters
    ----------
    query
        What is asked.
    people
        The people that stand for the private ones.
    records
        The number of private people.
    sds
        Standard deviations of the noise of sums, cells and follow-up, for each site.
    public
        Whether their number is public and all of them count.
    """
    scale = records / max(len(people.group), 1)
    unit = UNITS if query.weights is not None else 1
    return DescribedNumbers(
        query=query,
        sums=np.asarray(sums_of(query, people).reshape(query.groups, query.dimension) * (scale / UNITS), dtype=float),
        noise=np.zeros((query.groups, 0, query.dimension)),
        cells=np.asarray(cells_of(query, people) * (scale / unit), dtype=float),
        follow_up=np.asarray(follow_up_of(query, people) * (scale / unit), dtype=float),
        sds=np.sqrt(np.sum(np.square(sds), axis=0)),
        records=records if public else None,
    )

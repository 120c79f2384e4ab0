"""The public rows as survival curves, by the same groups as private people: exact, without noise."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from hdpstats.mechanisms.description.cells import FollowUpCells
from hdpstats.mechanisms.description.spans import causes_of
from hdpstats.public.follow_up import FollowUp, risk_sets
from hdpstats.public.risk_sets import RiskSets
from hdpstats.records.codec import Record
from hdpstats.results.group_curves import PublicCurve
from hdpstats.schema.columns import Categorical
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicCurves(Record):
    """Public people at risk by group, to the end of the last interval, where those who are left are censored.

    Attributes
    ----------
    groups : tuple of RiskSets
        One for each group.
    people : tuple of float
        The number of rows of each group, or the total of their weights.
    """

    groups: tuple[RiskSets, ...]
    people: tuple[float, ...]

    def curves(self) -> list[PublicCurve]:
        """Return the curve of each group."""
        return [
            PublicCurve(sets=sets, size=size, known=size > 0.0)
            for sets, size in zip(self.groups, self.people, strict=True)
        ]


def public_curves(
    asked: FollowUpCells,
    grouping: tuple[str, ...],
    weights: str | None,
    schema: Schema,
    public: PublicTable | None,
    besides: tuple[str, ...] = (),
) -> PublicCurves | None:
    """Return the public rows that are complete in all columns; None where there are none, or they lack a column.

    They are complete in the columns ``besides`` as well.

    Of a person with several rows the first one counts, or with beginnings of follow-up each row from its own.
    """
    needs = (*asked.names, *grouping, *((weights,) if weights else ()), *besides)
    if public is None or not set(needs) <= set(public.names):
        return None
    table = public.raw(needs)
    columns: dict[str, Any] = {**table.codes, **table.numeric}
    group = np.zeros(table.rows, dtype=np.int64)
    sizes = [_levels(schema, name) for name in grouping]
    for name, size in zip(grouping, sizes, strict=True):
        group = group * size + columns[name].astype(np.int64)
    end, time = asked.ends[-1], columns[asked.time]
    rows = FollowUp(
        time=np.minimum(time, end),
        cause=np.where(time > end, 0, causes_of(columns[asked.event].astype(np.int64), asked.level)),
        causes=asked.causes,
        entry=None if asked.start is None else np.maximum(columns[asked.start], 0.0),
        weights=columns[weights] if weights else None,
    )
    keep = np.ones(table.rows, dtype=np.bool_) if rows.entry is None else rows.entry < rows.time
    if table.persons is not None and asked.start is None:
        first = np.unique(table.persons, return_index=True)[1]
        keep &= np.isin(np.arange(table.rows), first)
    found = [rows.take(keep & (group == number)) for number in range(int(np.prod(sizes, initial=1)))]
    return PublicCurves(
        groups=tuple(risk_sets(each, beginnings=True) for each in found),
        people=tuple(float(each.case_weights.sum()) for each in found),
    )


def _levels(schema: Schema, name: str) -> int:
    column = schema[name]
    return len(column.levels) if isinstance(column, Categorical) else 2

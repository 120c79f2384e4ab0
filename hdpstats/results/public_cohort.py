"""The public rows described as the private ones are, without noise."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pandas as pd

from hdpstats.mechanisms.description.estimate import read
from hdpstats.mechanisms.description.expected import expected_numbers, public_people
from hdpstats.mechanisms.description.quartiles import PROBABILITIES
from hdpstats.mechanisms.description.query import DescriptionQuery
from hdpstats.records.codec import Record
from hdpstats.records.frames import Frame
from hdpstats.results.description_tables import TIDY, groups_of, tidy_frame, weighted_quantile
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema

NO_SEED = "0" * 64
"""Nothing is drawn where there is no noise."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicCohort(Record):
    """The public rows described as the private ones are.

    Attributes
    ----------
    frame : DataFrame
        In tidy form, numbers within the declared bounds; standard errors are those of sampling, and there are no
        limits. Columns that public rows lack are left out.
    kurtosis : tuple of (str, float)
        Of each column of numbers, over all groups: what the sampling error of a standard deviation rests on.
    """

    frame: Frame
    kurtosis: tuple[tuple[str, float], ...]


def public_cohort(query: DescriptionQuery, schema: Schema, public: PublicTable | None) -> PublicCohort | None:
    """Return the description of public rows; None where there are none, or they lack the groups."""
    if public is None or (query.by is not None and query.by not in public.names):
        return None
    columns = tuple(each for each in query.columns if each.name in public.names)
    known = query.weights in public.names
    if not columns:
        return None
    weights = (query.weights, query.largest_weight) if known else (None, 1.0)
    own = replace(query, columns=columns, follow_up=None, weights=weights[0], largest_weight=weights[1], counted=True)
    people = public_people(own, schema, public)
    kurtosis = tuple(
        (each.name, _kurtosis(np.asarray(people.cells[each.name], dtype=float)[~people.missing[each.name]]))
        for each in columns
        if not each.levels
    )
    numbers = expected_numbers(own, people, records=float(len(people.group)), sds=[np.zeros(3)], public=False)
    frame = tidy_frame(read(numbers, seed=NO_SEED, kurtosis=dict(kurtosis)), own, schema)[list(TIDY)]
    groups = groups_of(own, schema)
    exact = []
    for row in frame.itertuples(index=False):
        estimate = row.estimate
        if row.statistic in PROBABILITIES:
            group = groups.index(row.group if isinstance(row.group, str) else None)
            there = (people.group == group) & ~people.missing[str(row.variable)]
            values = np.asarray(people.cells[str(row.variable)], dtype=float)[there]
            kept = people.weights[there]
            known = kept.sum() > 0
            estimate = weighted_quantile(values, kept, PROBABILITIES[str(row.statistic)]) if known else np.nan
        exact.append(estimate)
    return PublicCohort(frame=frame.assign(estimate=pd.Series(exact, dtype=float)), kurtosis=kurtosis)


def _kurtosis(values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float:
    centred = values - values.mean() if len(values) else values
    square = float(np.mean(centred**2)) if len(values) else 0.0
    return float(np.mean(centred**4) / square**2) if square > 0 else 3.0

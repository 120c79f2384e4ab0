r"""What a description is expected to find, from public rows or from rows spread over the schema, and by what it errs.

The total map of private people (`hdpstats.mechanisms.description.people`) is applied to public rows, and what it gives
is scaled to the number of private people. Read as a release is, that gives the standard errors which a release would
report at its expectation. Columns that public rows lack, or all where there are none, are spread evenly over what the
schema declares.

**Errors** have closed forms, the same for plans and for what is reported. Noise moves a sum of a group by
:math:`\sigma` people, independently (coordinates of a box are uncorrelated). With ``A`` people that count, ``O`` of
them with a cell that is there, and :math:`v \sigma^2` the variance of the noise in ``O``:

* a share or a mean, :math:`p = 1/2 + T_p / O`, has noise of variance :math:`\sigma^2 (1 + v (p - 1/2)^2) / O^2`;
* a last level, :math:`1 - \sum_l p_l` over ``m`` others: :math:`\sigma^2 (m + v (\sum_l (p_l - 1/2))^2) / O^2`;
* a share of missing cells, :math:`p = 1/2 + T_m / A`: :math:`\sigma^2 (1 + v_A (p - 1/2)^2) / A^2`;
* a standard deviation, :math:`s^2 = f^2 (1/2 + T_q / O) - (p - c)^2`: `sd_noise`, by the delta method.

``v`` is 0 where ``A`` is public and no cell is missing, 1 where it is public, 2 where it is :math:`2 T_0` and missing
cells are counted, 4 where it is :math:`2 T_0` and they are not. Sampling adds :math:`p (1 - p) / n`, :math:`s^2 / n`
and :math:`s^2 (\kappa - 1) / 4 n` of a standard deviation, with the kurtosis :math:`\kappa` of public rows (3 without
them); with weights ``n`` is Kish's effective size.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.description import UNITS, DescriptionQuery
from hdpstats.mechanisms.description.blocks import DescribedNumbers
from hdpstats.mechanisms.description.people import DescribedPeople, cells_of, follow_up_of, people_of, sums_of
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


def share_noise(p: FloatArray, observed: FloatArray, *, sd: FloatArray, counting: float, others: int = 1) -> FloatArray:
    """Return the standard deviation of the noise of shares or means in parts of the range.

    Parameters
    ----------
    p
        The share; of a last level, which follows from ``others`` ones, the sum of ``p_l - 1/2`` over them, plus 1/2.
    observed
        The people that it is a share of.
    sd
        The standard deviation of the noise of a sum, in people.
    counting
        The variance of the noise of their number, in squares of ``sd``.
    others
        How many sums it is read from.
    """
    return np.asarray(sd * np.sqrt(others + counting * (p - 0.5) ** 2) / observed)


def sd_noise(
    mean: FloatArray,
    square: FloatArray,
    spread: FloatArray,
    observed: FloatArray,
    *,
    centre: float,
    sd: FloatArray,
    counting: float,
) -> FloatArray:
    """Return the standard deviation of the noise of a standard deviation, in parts of the range.

    Parameters
    ----------
    mean, square
        The mean, and the mean square about the centre in squares of the farthest distance from it.
    spread
        The standard deviation.
    observed, sd, counting
        As for `share_noise`.
    centre
        The centre.
    """
    far2, slope = max(centre, 1.0 - centre) ** 2, 2.0 * (mean - centre)
    by_count = far2 * (square - 0.5) - slope * (mean - 0.5)
    variance = (far2**2 + slope**2 + counting * by_count**2) * (sd / observed) ** 2
    return np.asarray(np.sqrt(variance) / (2.0 * spread))


def quartile_noise(F: FloatArray, n: FloatArray, *, sd: float, public: bool, cells: int) -> FloatArray:
    r"""Return the standard deviation of the noise of cumulative shares (m,).

    With ``y`` the noisy counts of ``m`` cells, :math:`F_a = \sum_{b \le a} y_b / \sum_b y_b` has the gradient
    :math:`(1 - F_a) / n` in cells up to ``a`` and :math:`-F_a / n` in the others. Where the sum of all ``cells``, those
    of missing cells included, is public, the counts are shifted to it, which takes the mean gradient away.
    """
    m = len(F)
    a = np.arange(1, m + 1)
    square = a * (1.0 - F) ** 2 + (m - a) * F**2
    if public:
        square = square - (a - m * F) ** 2 / cells
    return np.asarray(sd * np.sqrt(np.maximum(square, 0.0)) / n)

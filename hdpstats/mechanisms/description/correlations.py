r"""Correlations of a described cohort, from averages of products: post-processing of released numbers.

With the average ``P`` of products of two columns about public centres in public units (`DescribedPairs`), and means
``m`` and standard deviations ``s`` of the same columns,

.. math:: r = \frac{u_1 u_2 P - (m_1 - c_1)(m_2 - c_2)}{s_1 s_2},

cut to [-1, 1]. Factors were cut to a reach, so that it is less by what lies beyond. Its error counts the noise of all
of these numbers, by draws of it, and sampling as of a normal distribution, :math:`(1 - r^2)^2 / n`.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.description.blocks import DescribedNumbers, GroupSums
from hdpstats.records.averages import CentredColumn
from hdpstats.records.estimate import normal_quantile

LEAST_VARIANCE: Final = 0.01
"""The least variance of a column, in squares of its public unit."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Correlation:
    """A correlation of two columns, or of levels of them, with its standard error and limits, and the part of noise."""

    first: CentredColumn
    second: CentredColumn
    estimate: float
    std_error: float
    low: float
    high: float
    noise: float


def correlations_of(numbers: DescribedNumbers, *, alpha: float = 0.05) -> list[Correlation]:
    """Return the correlations of a description without groups; none where products were not asked for."""
    pairs = numbers.query.pairs
    if pairs is None:
        return []
    block, z = numbers.group(0), normal_quantile(alpha)
    n = float(block.people[0] * block.size[0])
    columns = [_mean_and_sd(block, each) for each in pairs.columns]
    products = (
        2.0
        * pairs.largest
        * block.sums[:, numbers.query.first_pair : numbers.query.first_number]
        / block.people[:, None]
    )
    found = []
    for (j, k), product in zip(pairs.places, products.T, strict=True):
        (mean, sd), (other_mean, other_sd) = columns[j], columns[k]
        covariance = product - mean * other_mean
        drawn = np.clip(covariance / (sd * other_sd), -1.0, 1.0)
        r, noise = float(drawn[0]), float(np.sqrt(np.mean((drawn[1:] - drawn[0]) ** 2))) if len(drawn) > 1 else 0.0
        error = float(np.hypot(noise, (1.0 - r**2) / np.sqrt(max(n, 1.0))))
        low, high = max(r - z * error, -1.0), min(r + z * error, 1.0)
        found.append(
            Correlation(
                first=pairs.columns[j],
                second=pairs.columns[k],
                estimate=r,
                std_error=error,
                low=low,
                high=high,
                noise=noise,
            )
        )
    return found


def _mean_and_sd(block: GroupSums, column: CentredColumn) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of a column about its centre in its unit (B + 1,) each."""
    place = [each.name for each in block.query.columns].index(column.name)
    described, parts = block.query.columns[place], block.parts(place)
    if column.level is None and described.values == 2:
        width = described.upper - described.lower
        mean = described.lower + width * parts[:, 0]
        variance = width**2 * (described.far**2 * parts[:, 1] - (parts[:, 0] - described.centre) ** 2)
    else:
        mean = 1.0 - parts[:, 0] if described.levels == 2 else parts[:, column.level or 0]
        variance = mean * (1.0 - mean)
    return (mean - column.centre) / column.unit, np.sqrt(np.maximum(variance / column.unit**2, LEAST_VARIANCE))

r"""From noisy sums and counts to statistics with their errors: post-processing of released and public numbers.

Intervals are percentiles of draws: the noise is drawn again from its distribution, the whole block at once, taken away
from the sums, read as the sums themselves are, and sampling is drawn on top: a Beta distribution for shares (Jeffreys),
normal ones for means and standard deviations. The noise of a box has shorter tails than a normal distribution.

A statistic is not available (NaN) where fewer than `hdpstats.mechanisms.description.blocks.FEWEST` standard deviations
of noise of people have the cell: then the noise of a share is above 1/4; nor is a standard deviation whose noise is
above half of it. A quartile is where people are fewer than so many standard deviations times the root of the number of
cells.

Releases of several sites are read together by adding their sums and counts; their noise adds up.

**Quartiles** have intervals that invert those of the distribution function (Woodruff 1952). Cells are :math:`(c_{a-1},
c_a]`; :math:`F_a` is the noisy share of people up to the end of cell ``a``, made monotone by isotonic regression, 1 at
the end. The quantile is in the first cell with :math:`F_a \ge p`, and read off linearly in it. With :math:`s_a` the
standard error of :math:`F_a` (sampling :math:`p (1 - p) / n` and noise) the interval goes from the lower end of the
first cell with :math:`F_a + z s_a \ge p` to the upper end of the first with :math:`F_a - z s_a \ge p`.

*It covers the quantile that R's* ``quantile(type = 1)`` *defines, ties included:* :math:`Q = \min\{t: F(t) \ge p\}` is
missed on the left only if :math:`\hat F + z s < p \le F` at the end of a cell at or beyond ``Q``, and on the right only
if :math:`\hat F - z s \ge p > F` at the end of a cell before it. Ends of cells make it conservative.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import scipy

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.mechanisms.description import DescribedColumn
from hdpstats.mechanisms.description.blocks import (
    FEWEST,
    DescribedNumbers,
    GroupSums,
    quartile_noise,
    sd_noise,
    share_noise,
)
from hdpstats.mechanisms.histogram.estimate import project
from hdpstats.records.estimate import normal_quantile

PROBABILITIES: Final = {"q1": 0.25, "median": 0.5, "q3": 0.75}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Quartile:
    """A quantile with its standard error and its limits, in the unit of the column."""

    estimate: float
    std_error: float
    low: float
    high: float


def ends_of(column: DescribedColumn) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest value of each cell (m,); whole numbers where the column has only these."""
    edges = np.array([column.lower, *column.cuts, column.upper])
    if column.whole:
        lowest = np.ceil(edges[:-1])
        return lowest, np.maximum(np.floor(edges[1:]), lowest)
    return edges[:-1], edges[1:]


def quantiles(
    column: DescribedColumn,
    counts: FloatArray,
    *,
    sd: float,
    size: float,
    records: float | None,
    missing: bool,
    alpha: float,
    shares: Mapping[str, float] = PROBABILITIES,
) -> dict[str, Quartile]:
    """Return quantiles from noisy counts of cells.

    Parameters
    ----------
    column
        The column, with the cuts.
    counts
        The noisy counts, in people (m,) or with that of missing cells (m + 1,).
    sd
        The standard deviation of the noise in each.
    size
        The effective number of people in parts of their number: 1 without weights.
    records
        The public number of people in all cells; None where it is not public.
    missing
        Whether the last cell is that of missing cells.
    alpha
        One minus the level of the intervals.
    shares
        Of which shares of people they are quantiles, each by a name.
    """
    if records is not None:
        counts = counts + (records - counts.sum()) / len(counts)
    inner = counts[:-1] if missing else counts
    n = max(float(inner.sum()), 1.0)
    F = np.clip(scipy.optimize.isotonic_regression(np.cumsum(inner) / n).x, 0.0, 1.0)
    F[-1] = 1.0
    noise = quartile_noise(F, np.array(n), sd=sd, public=records is not None, cells=len(counts))
    lowest, highest = ends_of(column)
    z = normal_quantile(alpha)
    found = {}
    for name, p in shares.items():
        error = np.sqrt(p * (1.0 - p) / (n * size) + noise**2)
        error[-1] = 0.0
        below, above = F + z * error, F - z * error
        low, high = int(np.argmax(below >= p)), int(np.argmax(above >= p))
        inside = _inside(F, p, lowest, highest)
        one = _inside(F + error, p, lowest, highest), _inside(np.maximum.accumulate(F - error), p, lowest, highest)
        found[name] = Quartile(
            estimate=_whole(inside, lowest, highest) if column.whole else inside,
            std_error=float(one[1] - one[0]) / 2.0,
            low=float(lowest[low]),
            high=float(highest[high]),
        )
    return found


def _whole(place: float, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the whole number of a cell that a place in it stands for: each has the same share of the cell."""
    cell = int(np.flatnonzero(lowest <= place)[-1])
    count = float(highest[cell] - lowest[cell]) + 1.0
    part = (place - float(lowest[cell])) / max(count - 1.0, 1.0)
    return float(lowest[cell] + np.clip(np.ceil(part * count) - 1.0, 0.0, count - 1.0))


def _inside(F: FloatArray, p: float, lowest: FloatArray, highest: FloatArray) -> float:
    """Return the place where a distribution function reaches ``p``, linear within a cell."""
    cell = int(np.argmax(p - 1e-12 <= F))
    before = float(F[cell - 1]) if cell else 0.0
    part = np.clip((p - before) / max(float(F[cell]) - before, 1e-9), 0.0, 1.0)
    return float(lowest[cell] + part * (highest[cell] - lowest[cell]))


NARROWEST: Final = 1e-3
"""The smallest standard deviation that is read off, in parts of the range."""
MOST_NOISE: Final = 0.5
"""The largest noise of a standard deviation, in parts of it, with which it is reported."""
NORMAL: Final = 3.0
"""The kurtosis of a normal distribution."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Statistic:
    """One number of a description.

    Attributes
    ----------
    group, column : int
        The group, and the column of the query; -1 for numbers of people and of rows.
    level : int or None
        The level of a share; of a share of people with so many rows, the place of that group of numbers.
    name : str
        ``n``, ``rows``, ``missing``, ``share``, ``mean``, ``sd``, ``q1``, ``median`` or ``q3``.
    estimate, std_error, noise, low, high : float
        The estimate, its standard error, the part of that which is noise, and the limits; NaN where not available.
    """

    group: int
    column: int
    level: int | None
    name: str
    estimate: float
    std_error: float
    noise: float
    low: float
    high: float


def read(
    numbers: DescribedNumbers, *, seed: str, kurtosis: Mapping[str, float], alpha: float = 0.05
) -> list[Statistic]:
    """Return the statistics of noisy or expected numbers.

    Parameters
    ----------
    numbers
        Sums and counts; limits are NaN where they have no draws of noise.
    seed
        A SHA-256 that sampling is drawn from.
    kurtosis
        That of columns in public rows, for the sampling error of standard deviations.
    alpha
        One minus the level of the intervals.
    """
    query = numbers.query
    if not query.columns:
        return []
    found: list[Statistic] = []
    rng = draws.generator(seed)
    for group in range(query.groups):
        block = numbers.group(group)
        found.append(_number(block, group, alpha))
        found += _numbers_of_rows(block, group, rng, alpha)
        for place, column in enumerate(query.columns):
            found += _missing(block, group, place, rng, alpha)
            if column.levels:
                found += _shares(block, group, place, rng, alpha)
            else:
                found += _moments(block, group, place, rng, alpha, kurtosis.get(column.name, NORMAL))
            if column.cuts:
                found += _quartiles(numbers, block, group, place, alpha)
    return found


def _statistic(
    group: int,
    column: int,
    name: str,
    values: FloatArray,
    *,
    noise: float,
    sampling: float,
    alpha: float,
    level: int | None = None,
    known: bool = True,
) -> Statistic:
    """Return a statistic from its estimate and draws of it (B + 1,)."""
    drawn = known and len(values) > 1
    low, high = np.quantile(values[1:], [alpha / 2.0, 1.0 - alpha / 2.0]) if drawn else (np.nan, np.nan)
    estimate = float(values[0]) if known else np.nan
    error = float(np.hypot(noise, sampling)) if known else np.nan
    return Statistic(
        group=group,
        column=column,
        level=level,
        name=name,
        estimate=estimate,
        std_error=error,
        noise=noise if known else np.nan,
        low=float(min(low, estimate)) if drawn else np.nan,
        high=float(max(high, estimate)) if drawn else np.nan,
    )


def _number(block: GroupSums, group: int, alpha: float) -> Statistic:
    scale = block.query.largest_weight
    people = block.people if block.query.leading == 0 else np.maximum(2.0 * block.sums[:, 0], 0.0)
    noise = scale * block.sd * float(np.sqrt(block.people_noise))
    return _statistic(group, -1, "n", scale * people, noise=noise, sampling=0.0, alpha=alpha)


def _missing(block: GroupSums, group: int, place: int, rng: draws.Generator, alpha: float) -> Iterator[Statistic]:
    share = block.missing(place)
    if share is None:
        return
    people = block.people
    n = people * block.size
    noise = share_noise(share[:1], people[:1], sd=np.array([block.sd]), counting=block.people_noise)
    p = np.clip(share, 0.0, 1.0)
    yield _statistic(
        group,
        place,
        "missing",
        _with_sampling(p, n, rng),
        noise=float(noise[0]),
        sampling=_binomial(p[0], n[0]),
        alpha=alpha,
        known=bool(people[0] >= FEWEST * block.sd),
    )


def _binomial(p: float, n: float) -> float:
    return float(np.sqrt(p * (1.0 - p) / max(n, 1.0)))


def _with_sampling(p: FloatArray, n: FloatArray, rng: draws.Generator) -> FloatArray:
    """Return shares (B + 1,), with sampling drawn on all but the first."""
    drawn = rng.beta(n[1:] * p[1:] + 0.5, n[1:] * (1.0 - p[1:]) + 0.5)
    return np.concatenate([p[:1], drawn])


def _known(block: GroupSums, place: int) -> bool:
    return bool(block.observed(place)[0] >= FEWEST * block.sd)


def _shares(block: GroupSums, group: int, place: int, rng: draws.Generator, alpha: float) -> Iterator[Statistic]:
    yield from _shares_of(
        block, group, place, rng, alpha,
        observed=block.observed(place), others=block.parts(place), counting=block.observed_noise(place),
    )  # fmt: skip


def _shares_of(
    block: GroupSums,
    group: int,
    place: int,
    rng: draws.Generator,
    alpha: float,
    *,
    observed: FloatArray,
    others: FloatArray,
    counting: float,
) -> Iterator[Statistic]:
    """Return the shares of levels, from those of all ``others`` (B + 1, levels - 1) but the last."""
    n, known = observed * block.size, bool(observed[0] >= FEWEST * block.sd)
    rest = (others - 0.5).sum(axis=1)
    raw = np.column_stack([others, 1.0 - others.sum(axis=1)])
    estimates = project(raw[:1], np.ones(1))[0]
    for level in range(raw.shape[1]):
        last = level == others.shape[1]
        noise = share_noise(
            rest[:1] + 0.5 if last else raw[:1, level],
            observed[:1],
            sd=np.array([block.sd]),
            counting=counting,
            others=others.shape[1] if last else 1,
        )
        values = np.clip(raw[:, level], 0.0, 1.0)
        values[0] = estimates[level]
        yield _statistic(
            group,
            place,
            "share",
            _with_sampling(values, n, rng),
            noise=float(noise[0]),
            sampling=_binomial(values[0], n[0]),
            alpha=alpha,
            level=level,
            known=known,
        )


def _numbers_of_rows(block: GroupSums, group: int, rng: draws.Generator, alpha: float) -> Iterator[Statistic]:
    """Return the number of rows, and the shares of people with so many; none where people have one row each."""
    how = block.query.rows
    if how is None:
        return
    rows = block.rows
    noise = how.most * block.sd * float(np.sqrt(1.0 + block.people_noise / 4.0))
    known = bool(block.people[0] >= FEWEST * block.sd)
    yield _statistic(group, -1, "rows", rows, noise=noise, sampling=0.0, alpha=alpha, known=known)
    if how.ends:
        yield from _shares_of(
            block, group, -1, rng, alpha,
            observed=block.people, others=block.of_numbers, counting=block.people_noise,
        )  # fmt: skip


def _moments(
    block: GroupSums, group: int, place: int, rng: draws.Generator, alpha: float, kurtosis: float
) -> Iterator[Statistic]:
    column, observed = block.query.columns[place], block.observed(place)
    width, n, known = column.upper - column.lower, observed * block.size, _known(block, place)
    mean, square, spread = moments(column, block.parts(place))
    counting, sd = block.observed_noise(place), np.array([block.sd])
    noise = float(share_noise(mean[:1], observed[:1], sd=sd, counting=counting)[0])
    sampling = float(spread[0] / np.sqrt(n[0]))
    normal = rng.standard_normal((2, len(mean) - 1))
    means = np.concatenate([mean[:1], np.clip(mean[1:] + normal[0] * spread[1:] / np.sqrt(n[1:]), 0.0, 1.0)])
    yield _statistic(
        group, place, "mean", column.lower + width * means,
        noise=width * noise, sampling=width * sampling, alpha=alpha, known=known,
    )  # fmt: skip
    relative = np.sqrt(max(kurtosis - 1.0, 0.1) / (4.0 * n))
    noise = float(
        sd_noise(mean[:1], square[:1], spread[:1], observed[:1], centre=column.centre, sd=sd, counting=counting)[0]
    )
    spreads = np.concatenate([spread[:1], np.maximum(spread[1:] * (1.0 + normal[1] * relative[1:]), 0.0)])
    yield _statistic(
        group, place, "sd", width * spreads, noise=width * noise, sampling=width * float(spread[0] * relative[0]),
        alpha=alpha, known=known and noise <= MOST_NOISE * float(spread[0]),
    )  # fmt: skip


def moments(column: DescribedColumn, parts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, mean square about the centre (in squares of the farthest distance) and standard deviation (B,)."""
    mean, square = np.clip(parts[:, 0], 0.0, 1.0), parts[:, 1]
    variance = column.far**2 * square - (mean - column.centre) ** 2
    return mean, square, np.asarray(np.sqrt(np.maximum(variance, NARROWEST**2)))


def quantiles_of(
    numbers: DescribedNumbers,
    block: GroupSums,
    group: int,
    place: int,
    *,
    alpha: float,
    shares: Mapping[str, float] = PROBABILITIES,
) -> Mapping[str, Quartile]:
    """Return `quantiles` of a column in a group; none where there are too few people for the noise."""
    column, sd = numbers.query.columns[place], float(numbers.sds[1])
    counts, m = numbers.cells_of(group, column), len(column.cuts) + 1
    if counts[:m].sum() < max(FEWEST * sd * np.sqrt(m), 1.0):
        return {}
    return quantiles(
        column,
        counts,
        sd=sd,
        size=float(block.size[0]),
        records=numbers.records,
        missing=len(counts) > m,
        alpha=alpha,
        shares=shares,
    )


def _quartiles(
    numbers: DescribedNumbers, block: GroupSums, group: int, place: int, alpha: float
) -> Iterator[Statistic]:
    found = quantiles_of(numbers, block, group, place, alpha=alpha)
    for name in PROBABILITIES:
        each = found.get(name, Quartile(estimate=np.nan, std_error=np.nan, low=np.nan, high=np.nan))
        yield Statistic(
            group=group, column=place, level=None, name=name,
            estimate=each.estimate, std_error=each.std_error, noise=np.nan, low=each.low, high=each.high,
        )  # fmt: skip

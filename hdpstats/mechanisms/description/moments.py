r"""From a description to averages over the people of a fit, and to life tables: post-processing of released numbers.

With ``O`` people who count and a centred sum ``T`` an average is :math:`p = 1/2 + T / O`, in parts of its range. Its
noise has the variance :math:`\sigma^2 (1 + v (p - 1/2)^2) / O^2`, ``v`` being the variance of the noise in ``O`` in
units of :math:`\sigma^2` (`hdpstats.mechanisms.description.blocks`).

The average of a product of two columns, cut to :math:`\pm c`, is :math:`2 c T / O`, with noise as of a share.

Of people at risk, cells of follow-up tell the share as one less those who left before, or as those who left or stayed
after, whichever is a sum of fewer cells.

**Life tables** hold the noisy numbers of follow-up by group and public interval.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.inference.life_tables import LifeTable
from hdpstats.mechanisms.description import AtRisk, DescribedColumn
from hdpstats.mechanisms.description.blocks import FEWEST, DescribedNumbers, GroupSums, share_noise
from hdpstats.mechanisms.description.public_cells import FollowUpCells
from hdpstats.records.averages import NUMBER_OF_ROWS, CohortMoment, CohortMoments, CohortProduct, MomentKind


def people_of(numbers: DescribedNumbers) -> tuple[float, float]:
    """Return how many people a description without groups counts, or their total weight, and the sd of its noise."""
    block, scale = numbers.group(0), numbers.query.largest_weight
    return scale * float(block.people[0]), scale * block.sd * float(np.sqrt(block.people_noise))


def moments_of(
    numbers: DescribedNumbers,
    *,
    variables: Sequence[str],
    times: Sequence[float] = (),
    people: tuple[float, float] | None = None,
    counted: tuple[float, float] | None = None,
    sha256: str,
) -> CohortMoments:
    """Return the averages that a description without groups tells of.

    Parameters
    ----------
    numbers
        Of one site.
    variables
        The described columns whose averages are wanted.
    times
        The times after which shares of people at risk are wanted: interpolated between those that are known.
    people
        The number of people who count and the standard deviation of its noise, where the description does not count.
    counted
        The same, of people with several rows, wherever it is known from: the number of rows rests on it.
    sha256
        The hash of the release.
    """
    if people is not None:
        numbers = replace(numbers, records=people[0])
    number, sd = people_of(numbers) if people is None else people
    read, how = _Averages(numbers=numbers, block=numbers.group(0), people_sd=sd / numbers.query.largest_weight), None
    if numbers.query.rows is not None and counted is not None:
        how = read.rows(*counted)
    found = [
        moment
        for place, column in enumerate(numbers.query.columns)
        if column.name in variables
        for moment in read.of_column(place, column)
    ]
    return CohortMoments(
        people=number,
        people_sd=sd,
        moments=(*found, *read.numbers_of_rows(), *(read.at_risk(times) if len(times) else ())),
        weighted=numbers.query.is_weighted,
        release_sha256=sha256,
        products=tuple(each for each in read.products() if {each.first.name, each.second.name} <= set(variables)),
        rows=None if how is None else how[0],
        rows_sd=None if how is None else how[1],
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Averages:
    """Noisy numbers of people who all count, with the noise of their number, in people of the largest weight."""

    numbers: DescribedNumbers
    block: GroupSums
    people_sd: float

    def of_column(self, place: int, column: DescribedColumn) -> Iterator[CohortMoment]:
        """Return the averages of a column: the share of 1, of all levels but the last, or mean and square."""
        values = self.block.parts(place)[0]
        noise = self._noise(values)
        if column.levels == 2:
            yield _share(column, 1, 1.0 - values[0], noise[0])
        elif column.values == 1:
            yield _share(column, 1, values[0], noise[0])
        elif column.levels:
            for level, (value, sd) in enumerate(zip(values, noise, strict=True)):
                yield _share(column, level, value, sd)
        else:
            yield from self._of_numbers(column, values, noise)

    def _noise(self, values: FloatArray) -> FloatArray:
        sd, people = self.block.sd, float(self.block.people[0])
        counting = (self.people_sd / sd) ** 2 if sd else 0.0
        return share_noise(values, np.full(len(values), people), sd=np.array(sd), counting=counting)

    def _of_numbers(self, column: DescribedColumn, values: FloatArray, noise: FloatArray) -> Iterator[CohortMoment]:
        width = column.upper - column.lower
        yield CohortMoment(
            variable=column.name,
            what=MomentKind.MEAN,
            value=float(column.lower + width * values[0]),
            noise_sd=float(width * noise[0]),
            lower=column.lower,
            upper=column.upper,
        )
        scale = (width * column.far) ** 2
        yield CohortMoment(
            variable=column.name,
            what=MomentKind.SQUARE,
            value=float(scale * values[1]),
            noise_sd=float(scale * noise[1]),
            lower=column.lower,
            upper=column.upper,
            centre=column.lower + width * column.centre,
        )

    def numbers_of_rows(self) -> Iterator[CohortMoment]:
        """Return the shares of people whose number of rows is in each group but the last."""
        if self.numbers.query.rows is not None:
            values = self.block.of_numbers[0]
            for group, (value, sd) in enumerate(zip(values, self._noise(values), strict=True)):
                yield CohortMoment(
                    variable=NUMBER_OF_ROWS, what=MomentKind.ROWS, level=group, value=float(value), noise_sd=float(sd),
                    upper=float(self.numbers.query.rows.ends[group]),
                )  # fmt: skip

    def rows(self, people: float, sd: float) -> tuple[float, float]:
        """Return the number of rows of so many people, and the standard deviation of its noise."""
        how = self.numbers.query.rows
        most = 0 if how is None else how.most
        return float(self.block.rows_of(people)[0]), most * float(np.hypot(self.block.sd, sd / 2.0))

    def products(self) -> Iterator[CohortProduct]:
        """Return the averages of products of pairs of columns."""
        query = self.numbers.query
        if query.pairs is None:
            return
        pairs, scale = query.pairs, 2.0 * query.pairs.largest
        centred = self.block.sums[0, query.first_pair : query.first_number] / float(self.block.people[0])
        noise = self._noise(0.5 + centred)
        for (j, k), value, sd in zip(pairs.places, centred, noise, strict=True):
            yield CohortProduct(
                first=pairs.columns[j],
                second=pairs.columns[k],
                reach=pairs.reach,
                largest=pairs.largest,
                value=float(scale * value),
                noise_sd=float(scale * sd),
            )

    def at_risk(self, times: Sequence[float]) -> Iterator[CohortMoment]:
        """Return the shares of people who are followed up beyond some times."""
        asked = self.numbers.query.at_risk or self.numbers.query.follow_up
        if asked is None:
            return
        known, values, noise = self._features(asked) if isinstance(asked, AtRisk) else self._cells(asked)
        for time in times:
            yield CohortMoment(
                variable=asked.time,
                what=MomentKind.AT_RISK,
                value=float(np.interp(time, known, values)),
                noise_sd=float(np.interp(time, known, noise)),
                time=float(time),
            )

    def _features(self, asked: AtRisk) -> tuple[FloatArray, FloatArray, FloatArray]:
        first = self.numbers.query.first_time
        sums = self.block.sums[0, first : first + len(asked.after)]
        values = 0.5 + sums / float(self.block.people[0])
        return _from_one(asked.after, values, self._noise(values))

    def _cells(self, asked: FollowUpCells) -> tuple[FloatArray, FloatArray, FloatArray]:
        inner = self.numbers.follow_up[: asked.exits - 1].reshape(len(asked.ends), asked.causes + 1).sum(axis=1)
        people = float(self.block.people[0])
        before = np.cumsum(inner)
        after = self.numbers.follow_up[asked.exits - 1] + np.cumsum(inner[::-1])[::-1] - inner
        summed = (asked.causes + 1.0) * np.arange(1, len(asked.ends) + 1)
        rest = asked.exits - summed
        left = np.where(summed <= rest, before, after) / people
        noise = np.sqrt(float(self.numbers.sds[2]) ** 2 * np.minimum(summed, rest) + (left * self.people_sd) ** 2)
        return _from_one(asked.ends, np.where(summed <= rest, 1.0 - left, left), noise / people)


def _share(column: DescribedColumn, level: int, value: float, noise_sd: float) -> CohortMoment:
    return CohortMoment(
        variable=column.name, what=MomentKind.SHARE, level=level, value=float(value), noise_sd=float(noise_sd)
    )


def _from_one(
    times: Sequence[float], values: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return times, shares and their noise with time 0, after which everybody is followed up, in front."""
    return np.array([0.0, *times]), np.array([1.0, *values]), np.array([0.0, *noise])


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FollowUpTable:
    """Noisy numbers of follow-up, by group and interval.

    Attributes
    ----------
    events : (G, J, K) float64
        Events of each cause.
    censored, at_risk : (G, J) float64
        Censorings in an interval, and people at risk when it begins.
    sd, at_risk_sd : float64 arrays
        Standard deviations of the noise: of each event and censoring, and of `at_risk` (J,).
    known : (G,) bool
        Which groups are large enough for their noise.
    """

    events: FloatArray
    censored: FloatArray
    at_risk: FloatArray
    sd: float
    at_risk_sd: FloatArray
    known: BoolArray


def follow_up_table(numbers: DescribedNumbers) -> FollowUpTable | None:
    """Return the numbers of follow-up; None where none were asked for."""
    asked = numbers.query.follow_up
    if asked is None:
        return None
    tables, weight = life_tables(numbers), numbers.query.largest_weight
    after = np.arange(len(asked.ends), 0, -1) * (asked.cells - 1.0) / len(asked.ends) + 1.0
    return FollowUpTable(
        events=np.array([each.events for each in tables]) * weight,
        censored=np.array([each.censored for each in tables]) * weight,
        at_risk=np.array([each.at_risk[:-1] for each in tables]) * weight,
        sd=float(numbers.sds[2]) * weight,
        at_risk_sd=float(numbers.sds[2]) * np.sqrt(after) * weight,
        known=np.array([is_known(each, asked) for each in tables]),
    )


def life_tables(numbers: DescribedNumbers, *, within: bool = True) -> tuple[LifeTable, ...]:
    """Return the table of each group, in people of the largest weight; there must be numbers of follow-up.

    ``within`` says whether people leave and come anywhere in an interval, see `LifeTable`.

    Where the number of people is public, the counts of ends of follow-up are all shifted by as much as makes their sum
    that number.
    """
    query, asked = numbers.query, numbers.query.follow_up
    if asked is None:
        return ()
    counts, sd, J = numbers.follow_up, float(numbers.sds[2]), len(asked.ends)
    table, incomplete = counts[:-1].reshape(query.groups, asked.cells), float(counts[-1])
    exits, begins = table[:, : asked.exits], table[:, asked.exits :]
    if numbers.records is not None:
        exits = exits + (numbers.records - exits.sum() - incomplete) / (exits.size + 1)
    inner = exits[:, :-1].reshape(query.groups, J, asked.causes + 1)
    return tuple(
        LifeTable(
            cuts=np.array((0.0, *asked.ends)),
            events=inner[group, :, :-1],
            censored=inner[group, :, -1],
            stayed=float(exits[group, -1]),
            entered=begins[group] if asked.start else None,
            sd=sd,
            within=within,
        )
        for group in range(query.groups)
    )


def is_known(table: LifeTable, asked: FollowUpCells) -> bool:
    """Return whether a group's number of people, the sum of its ends of follow-up, is clear of its noise."""
    people = float(table.events.sum() + table.censored.sum()) + table.stayed
    return people >= FEWEST * table.sd * float(np.sqrt(asked.exits))

r"""From a description to averages of variables over the people of a fit: post-processing of released numbers.

With ``O`` people who count and a centred sum ``T`` an average is :math:`p = 1/2 + T / O`, in parts of its range. Its
noise has the variance :math:`\sigma^2 (1 + v (p - 1/2)^2) / O^2`, ``v`` being the variance of the noise in ``O`` in
units of :math:`\sigma^2` (`hdpstats.mechanisms.description.expected`).

Of people at risk, cells of follow-up tell the share as one less those who left before, or as those who left or stayed
after, whichever is a sum of fewer cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.description import AtRisk, DescribedColumn
from hdpstats.mechanisms.description.blocks import DescribedNumbers, GroupSums
from hdpstats.mechanisms.description.cells import FollowUpCells
from hdpstats.mechanisms.description.expected import share_noise
from hdpstats.records.cohort import CohortMoment, CohortMoments, MomentKind


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
    sha256
        The hash of the release.
    """
    if people is not None:
        numbers = replace(numbers, records=people[0])
    number, sd = people_of(numbers) if people is None else people
    read = _Averages(numbers=numbers, block=numbers.group(0), people_sd=sd / numbers.query.largest_weight)
    found = [
        moment
        for place, column in enumerate(numbers.query.columns)
        if column.name in variables
        for moment in read.of_column(place, column)
    ]
    return CohortMoments(
        people=number,
        people_sd=sd,
        moments=(*found, *(read.at_risk(times) if len(times) else ())),
        weighted=numbers.query.weights is not None,
        release_sha256=sha256,
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
        values = 0.5 + self.block.sums[0, -len(asked.after) :] / float(self.block.people[0])
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

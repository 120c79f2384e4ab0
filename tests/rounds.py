"""Rounds of a mechanism that releases noisy sums of scores, from people who are known to the test."""

from collections.abc import Callable

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.base import People
from hdpstats.mechanisms.score_sums import PreparedSum, SumCalibration
from hdpstats.records.several import RoundQuery, RoundRelease
from hdpstats.schema.partitions import InMemory


def noisy_sums(
    query: RoundQuery,
    calibration: SumCalibration,
    people: People,
    *,
    scores: Callable[..., FloatArray],
    release: type[RoundRelease],
    count: int = 1,
) -> FloatArray:
    """Return the sums (count, D) that rounds release; ``scores`` are those of a query and people, as at a site."""
    found = scores(query, people)
    prepared = PreparedSum(
        needs=(),
        events=(calibration.event,),
        query=query,
        calibration=calibration,
        records=1,
        release=release,
        scores=lambda _: found,
        person_loss=None,  # nothing is counted here
    )
    return np.array([prepared.compute(InMemory(people, rows=1)).total for _ in range(count)])

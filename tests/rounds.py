"""One round of a mechanism that releases noisy sums of scores, from people who are known to the test."""

from collections.abc import Callable

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.person_loss.base import People
from hdpstats.mechanisms.score_sums import PreparedSum, SumCalibration
from hdpstats.records.several import RoundQuery, RoundRelease
from hdpstats.schema.partitions import InMemory


def noisy_sum(
    query: RoundQuery,
    calibration: SumCalibration,
    people: People,
    *,
    scores: Callable[..., FloatArray],
    release: type[RoundRelease],
) -> tuple[float, ...]:
    """Return the sum that a round releases; ``scores`` are those of a query and people, as at a site."""
    prepared = PreparedSum(
        needs=(),
        events=(calibration.event,),
        query=query,
        calibration=calibration,
        records=1,
        release=release,
        scores=lambda _: scores(query, people),
    )
    return prepared.compute(InMemory(people, rows=1)).total

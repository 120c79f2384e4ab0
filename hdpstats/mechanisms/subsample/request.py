"""The query of a fit by blocks of people, from public facts: how many blocks, and the box of their estimates."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.losses.families import Family, Interval
from hdpstats.mechanisms.base import DistributionMethod, DistributionTask, SiteFacts
from hdpstats.mechanisms.statistics import UNITS
from hdpstats.mechanisms.statistics.estimate import from_blocks, inside
from hdpstats.mechanisms.subsample import SubsampleAggregate, SubsampleQuery, SubsampleRelease
from hdpstats.mechanisms.subsample.site import blocks_of_neighbours, check_order, optimal_blocks, prepare
from hdpstats.records.estimate import Estimates

ROUNDS = 50
"""Of the search for the number of blocks, which decides how wide a window is, which decides the number."""


def query_of_blocks(options: SubsampleAggregate, task: DistributionTask) -> SubsampleQuery:
    """Return the query of a fit by blocks: on the ranges, or on a window around the public estimate."""
    by, records = "rows" if task.unit is None else "persons", task.records
    place = inside(task.guess, task.ranges, records=records)
    spreads = np.sqrt(np.diag(np.linalg.inv(task.family.information(place))))
    ranges = np.array(task.ranges, dtype=np.float64).T

    def box(blocks: int) -> FloatArray:
        if not task.public or options.window is None:
            return ranges
        half = options.window * spreads * np.sqrt(blocks / records + 1.0 / task.public)
        return np.asarray(np.clip([place - half, place + half], ranges[0], ranges[1]))

    def best(blocks: int) -> int:
        (lower, upper), parties = box(blocks), task.people / records
        epsilon = float(task.epsilon) / blocks_of_neighbours(by)
        return optimal_blocks(records, epsilon=epsilon, widths=upper - lower, spreads=spreads, parties=parties)

    if options.blocks is not None and options.blocks > records:
        raise MechanismError(f"blocks must be at most {records}, the people at a site, not {options.blocks}")
    blocks = options.blocks or 1
    for _ in range(0 if options.blocks else ROUNDS):
        blocks = best(blocks)
    return SubsampleQuery(
        column=task.column,
        family=task.family.name,
        box=tuple((float(low), float(high)) for low, high in box(blocks).T),
        blocks=blocks,
        by=by,
        epsilon=task.epsilon,
        schema_sha256=task.schema_sha256,
        replicate=task.replicate,
    )


def _read(
    family: Family,
    queries: Sequence[SubsampleQuery],
    releases: Sequence[SubsampleRelease],
    *,
    people: Sequence[tuple[int, float]],
    ranges: Sequence[Interval],
    sha256: str,
) -> Estimates:
    numbers, boxes = [number for number, _ in people], [query.box for query in queries]
    return from_blocks(family, releases, people=numbers, boxes=boxes, ranges=ranges, sha256=sha256)


def _words(releases: Sequence[SubsampleRelease]) -> str:
    """Return how many blocks there were at a site, and how small."""
    low, high = min(each.blocks for each in releases), max(each.blocks for each in releases)
    fewest, number = min(each.records // each.blocks for each in releases), low if low == high else f"{low} to {high}"
    return f"subsample and aggregate (Chen and Sung, algorithm 1), {number} blocks of {fewest} people or more"


def _check(row_order: str, unit: str | None) -> None:
    if unit is None:
        check_order(row_order)


def _expected(query: SubsampleQuery, place: FloatArray, site_facts: SiteFacts) -> SubsampleRelease:
    """Return what a site would release but for the noise, where the estimate of every block is a place (d,)."""
    prepared, (lower, upper) = prepare(query, site_facts), np.array(query.box).T
    share = np.clip((place - lower) / (upper - lower), 0.0, 1.0)
    return SubsampleRelease(
        units=tuple(np.rint(query.blocks * share * UNITS).astype(np.int64).tolist()),
        noise_rate=float(prepared.noise.rate),
        records=prepared.records,
        blocks=query.blocks,
        events=prepared.events,
    )


METHOD: Final = DistributionMethod(words=_words, ask=query_of_blocks, read=_read, check=_check, expected=_expected)
"""How blocks of people fit a distribution."""

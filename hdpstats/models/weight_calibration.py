"""A description of the private people checks weights of public rows, and calibrates them: post-processing of both."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.inference.calibrated_weights import CalibratedWeights
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.models.cohort import MOST_NOISE
from hdpstats.models.given_description import check_described_study
from hdpstats.records.cohort import CohortMoment, CohortMoments, MomentKind
from hdpstats.results import WeightedSample
from hdpstats.results.description import Description
from hdpstats.schema.columns import Categorical
from hdpstats.sites import Study


def described(study: Study, columns: Sequence[str], description: object) -> CohortMoments | None:
    """Return what a description says of the columns of weights, or refuse one that is of other people; None for None.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    if description is None:
        return None
    call = f"hdp.describe(study, {list(columns)}, complete=True, epsilon=...)"
    if not isinstance(description, Description):
        raise ArgumentError(f"description must be what {call} returned", argument="description")
    check_described_study(study, description)
    query = description.query
    schema = study.schema
    own, theirs = ({name for name in names if schema[name].leaves_out} for names in (columns, query.names))
    if query.by is not None or query.weights is not None or not query.columns:
        raise ArgumentError(
            f"description must be of columns, without groups and weights: {call}", argument="description"
        )
    if own != theirs or (own and not query.complete):
        raise ArgumentError(
            f"description must be of the rows that are complete in the weighted columns: {call}", argument="description"
        )
    release = dict(description.releases)[next(iter(study.sites))]
    return moments_of(numbers_of(query, [release], 0), variables=tuple(columns), sha256=release.sha256)


def calibrated(sample: WeightedSample, known: CohortMoments | None) -> WeightedSample:
    """Return a sample whose weights are calibrated to what was described of its columns; itself without any."""
    moments = [] if known is None else [each for each in known.moments if each.what is not MomentKind.AT_RISK]
    columns = [(each, _feature(sample, each)) for each in moments]
    scaled = [(each, x, float(np.std(x))) for each, x in columns if np.std(x) > 0]
    used = [(each, x, sd) for each, x, sd in scaled if each.noise_sd < MOST_NOISE * sd]
    if known is None or not used:
        return sample
    distribution = CalibratedWeights(
        base=sample.distribution,
        features=np.column_stack([x / sd for _, x, sd in used]),
        targets=np.array([each.value / sd for each, _, sd in used]),
        noise_sd=np.array([each.noise_sd / sd for each, _, sd in used]),
        people=max(known.people, 1.0),
        seed=known.release_sha256,
    )
    names = ", ".join(dict.fromkeys(each.variable for each, _, _ in used))
    note = (
        f"Weights are calibrated to the described shares, means and squares of {names}; the guarantee is that of the "
        "weights, and what the description cost is its own entry."
    )
    return replace(sample, distribution=distribution, facts=replace(sample.facts, notes=(*sample.facts.notes, note)))


def _feature(sample: WeightedSample, moment: CohortMoment) -> FloatArray:
    """Return what an average is of, for every row (n,)."""
    column, cells = sample.schema[moment.variable], sample.rows[moment.variable]
    if isinstance(column, Categorical):
        return np.asarray(cells == column.levels[moment.level], dtype=np.float64)
    numbers = cells.to_numpy(dtype=np.float64)
    if moment.what is MomentKind.SHARE:
        return numbers
    clipped = np.clip(numbers, moment.lower, moment.upper)
    return np.asarray(clipped if moment.what is MomentKind.MEAN else (clipped - moment.centre) ** 2)

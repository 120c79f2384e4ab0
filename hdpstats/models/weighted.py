r"""Models fitted to a weighted public sample: post-processing, with errors that count sampling and privacy noise.

The estimate solves :math:`\sum_i w_i s_i(\theta) = 0` with the scores :math:`s_i` of the public rows; its covariance is
the sandwich :math:`A^{-1} \mathrm{cov}(\sum_i w_i s_i) A^{-T}`, whose middle the distribution of the weights gives
(`hdpstats.inference.weighted_moments`).

A description of the private people checks weights of public rows and calibrates them (`calibrated`), which is
post-processing of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.describe.description import check_described_study, checked_description, refused
from hdpstats.families.spec import ModelSpec, WeightedFit, WeightedScores
from hdpstats.inference.weighted_moments import sum_covariance
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.models.own_description import MOST_NOISE
from hdpstats.privacy.sensitivity import Relation
from hdpstats.raking.sample_weights import CalibratedWeights
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind
from hdpstats.records.estimate import Estimate
from hdpstats.results import Released, Result, WeightedSample
from hdpstats.results.sites import DescribedCohort
from hdpstats.schema.columns import Categorical
from hdpstats.schema.public import PublicTable
from hdpstats.sites import Site, Study
from hdpstats.sites.study import checked_study

MOST_STEPS = 50

CLOSE = 1e-10
"""A weighted sum of scores, relative to that of their sizes, that counts as zero."""

FLAT = 1e-10
"""Curvature along a direction, with columns scaled to curvature 1, below which it is taken for none."""

ROUNDED = 1e-9
"""A standard error over the largest coefficient that is taken for a rounding error, with columns of curvature 1.

No number of people gives as small a one.
"""

NO_CURVATURE = (
    "Standard errors are NaN: where the weights are, the loss has no curvature along some direction of {names}, and "
    "the sandwich formula does not apply. Leave terms out that do not vary there, or take a loss with curvature "
    "everywhere, such as least squares."
)
NO_SCORES = (
    "Standard errors of {names} are NaN: the fit leaves no residual where the weights are, so that the sandwich "
    "formula gives 0, which is not their error."
)

SHORTEST = 1e-6
"""Part of a Newton step below which no descent is looked for."""


def fit_weighted(spec: ModelSpec, sample: WeightedSample) -> Result:
    """Return the weighted maximum-likelihood fit of a model to the sample it was opened on.

    Raises
    ------
    ArgumentError
        If this kind of model cannot be fitted to weighted rows, or columns are missing.
    """
    table, weights = spec.study.public, sample.distribution.weights
    if table is None or table.rows != len(weights):
        raise ArgumentError("the model must be opened on the sample's rows; use sample.fit(...)", argument="sample")
    fit = spec.weighted(weights)
    estimate, found = fit.estimate, _root(fit, weights)
    rows = sample.facts.public_rows or None
    method = f"fit to weighted {'public rows' if rows else 'centres of cells'}; {sample.facts.method}"
    return Result(
        facts=replace(
            spec.facts(method, records=sample.facts.records, public=rows),
            records_sd=sample.facts.records_sd,
            complete_rows=sample.facts.complete_rows,
        ),
        schema=spec.study.schema,
        estimate=_with_errors(estimate, found, sample, stretch=spec.stretch, origin=spec.origin),
        released=Released(
            query=sample.queries[-1],
            release=sample.releases[-1],
            guarantee=sample.guarantee,
            description=sample.description,
            sample=sample.releases,
            sample_queries=sample.queries,
        ),
    )


def _with_errors(
    estimate: Estimate, found: WeightedScores, sample: WeightedSample, *, stretch: float, origin: FloatArray
) -> Estimate:
    """Return the estimate in the outcome's unit, with the sandwich."""
    kept = np.isfinite(estimate.values)
    values = estimate.values.copy()
    values[kept] = found.values
    values = stretch * values + origin
    sampling, privacy = (np.full((len(kept), len(kept)), np.nan) for _ in range(2))
    inverse = np.linalg.pinv(found.bread)
    for whole, part in zip((sampling, privacy), sum_covariance(sample.distribution, found.scores), strict=True):
        whole[np.ix_(kept, kept)] = stretch**2 * inverse @ part @ inverse.T
    labelled = _labelled(estimate, values, (sampling, privacy), sample)
    if _is_flat(found.bread):
        return _without_errors(labelled, kept, note=NO_CURVATURE)
    exact = kept.copy()
    exact[kept] = _is_exact(found, errors=np.diag((sampling + privacy)[np.ix_(kept, kept)]) / stretch**2)
    return _without_errors(labelled, exact, note=NO_SCORES)


def _is_flat(bread: FloatArray) -> bool:
    """Return whether the weighted curvature (p, p) is none in some direction, whatever the columns' units."""
    sizes = np.diag(bread)
    if not np.all(np.isfinite(bread)) or not np.all(sizes > 0.0):
        return True
    return bool(np.linalg.matrix_rank(bread / np.sqrt(np.outer(sizes, sizes)), tol=FLAT) < len(bread))


def _is_exact(found: WeightedScores, *, errors: FloatArray) -> BoolArray:
    """Return which variances (p,) are 0 or rounding errors: scores are 0 where the weights are.

    Columns are scaled to curvature 1; what is compared with is the largest coefficient then.
    """
    scale = np.sqrt(np.diag(found.bread))
    largest = float(np.max(np.abs(found.values) * scale, initial=0.0))
    return np.asarray(~(np.sqrt(np.maximum(errors, 0.0)) * scale > ROUNDED * largest))


def _without_errors(estimate: Estimate, unknown: BoolArray, *, note: str) -> Estimate:
    """Return the estimate with NaN for the errors of some coefficients (p,), and a note that says why."""
    if not unknown.any():
        return estimate
    names = ", ".join(term for term, is_unknown in zip(estimate.terms, unknown, strict=True) if is_unknown)
    blank = unknown[:, None] | unknown[None, :]
    sampling, privacy = (np.where(blank, np.nan, each) for each in (estimate.sampling, estimate.privacy))
    return replace(estimate, sampling=sampling, privacy=privacy).ending(note.format(names=names))


def _labelled(
    estimate: Estimate, values: FloatArray, parts: tuple[FloatArray, FloatArray], sample: WeightedSample
) -> Estimate:
    """Return the estimate with values, the two parts of the covariance, and what the sample notes."""
    sampling, privacy = parts
    return Estimate(
        label="weighted rows",
        terms=estimate.terms,
        values=values,
        sampling=sampling,
        privacy=privacy,
        note=" ".join([*([estimate.note] if estimate.note else []), *sample.facts.notes]) or None,
    )


def _root(fit: WeightedFit, weights: FloatArray) -> WeightedScores:
    """Return the scores where their weighted sum is zero, near a first value that is there if no weight is negative."""
    values, at = fit.estimate.values, fit.at
    here = at(values[np.isfinite(values)])
    if not np.any(weights < 0.0):
        return here
    for _ in range(MOST_STEPS):
        left = weights @ here.scores
        if float(np.linalg.norm(left)) <= CLOSE * float(np.linalg.norm(np.abs(weights) @ np.abs(here.scores))):
            return here
        step, length = np.linalg.lstsq(here.bread, left, rcond=None)[0], 1.0
        there = at(here.values - step)
        while np.linalg.norm(weights @ there.scores) >= np.linalg.norm(left) and length > SHORTEST:
            length *= 0.5
            there = at(here.values - length * step)
        here = there
    raise HdpError(
        "with negative weights the weighted score equations have no solution near that of the positive ones; ask "
        "for nothing new: the same call of hybrid_weights with projection='simplex' reads the same release"
    )


def both_sides(study: object) -> tuple[Site, PublicTable]:
    """Return the site and the public rows of a study, or say what it lacks."""
    study = checked_study(study, argument="study")
    if study.site is None or study.public is None:
        message = "study must have private records and public ones: hdp.Study(private=..., public=...)"
        raise ArgumentError(message, argument="study")
    if study.unit is not None:
        raise ArgumentError("study must have one row per person; this one has unit=", argument="study")
    if study.relation is Relation.REPLACE_ONE and not study.site.records:
        raise ArgumentError("study must have private records to stand for; it has none", argument="study")
    return study.site, study.public


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A description that weights are calibrated to, and what it says of their columns."""

    description: DescribedCohort
    moments: CohortMoments


def described(study: Study, columns: Sequence[str], given: object) -> Calibration | None:
    """Return what a description says of the columns of weights, or refuse one that is of other people; None for None.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    if given is None:
        return None
    call = f"hdp.describe(study, {list(columns)}, complete=True, epsilon=...)"
    description = checked_description(given, call=call)
    check_described_study(study, description)
    query = description.query
    schema = study.schema
    own, theirs = ({name for name in names if schema[name].leaves_out} for names in (columns, query.names))
    if query.by is not None or query.weights is not None or not query.columns:
        raise refused(f"be of columns, without groups and weights: {call}")
    if own != theirs or (own and not query.complete):
        raise refused(f"be of the rows that are complete in the weighted columns: {call}")
    release = dict(description.releases)[next(iter(study.sites))]
    return Calibration(
        description=DescribedCohort(charged=False, queries=description.queries, releases=description.releases),
        moments=moments_of(numbers_of(query, [release], 0), variables=tuple(columns), sha256=release.sha256),
    )


def calibrated(sample: WeightedSample, calibration: Calibration | None) -> WeightedSample:
    """Return a sample whose weights are calibrated to what was described of its columns; itself without any.

    What is used of a description depends on its noise, so that the sample rests on it whatever is used.
    """
    if calibration is None:
        return sample
    sample, known = replace(sample, description=calibration.description), calibration.moments
    moments = [each for each in known.moments if each.what is not MomentKind.AT_RISK]
    columns = [(each, _feature(sample, each)) for each in moments]
    scaled = [(each, x, float(np.std(x))) for each, x in columns if np.std(x) > 0]
    used = [(each, x, sd) for each, x, sd in scaled if each.noise_sd < MOST_NOISE * sd]
    if not used:
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
        f"Weights are calibrated to the described shares, means and squares of {names}; the guarantee includes what "
        "the description cost."
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

"""Models fitted to a noisy histogram of their columns (Lei 2011): fits and predictions.

**A prediction** is the fit to a histogram as it might come out: to each cell's share of the public rows, times the
number of private people, noise of the very distribution is added, by the same draws whatever is asked. The errors are
those that the fit to it reports, averaged over `DRAWN` of them.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import IntArray
from hdpstats.families.spec import LossSpec, ModelSpec
from hdpstats.inference.draws import Generator, nodes
from hdpstats.inference.sandwich import PredictedErrors
from hdpstats.mechanisms.histogram import HistogramQuery, HistogramRelease, PerturbedHistogram
from hdpstats.mechanisms.histogram.estimate import HistogramWeights, axes_of, centres, places
from hdpstats.mechanisms.histogram.site import cells_of, prepare
from hdpstats.models.fit_mechanism import FitMechanism, Prediction
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords
from hdpstats.models.weighted import fit_weighted
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import of_kind
from hdpstats.results import Result, WeightedSample
from hdpstats.results.facts import SampleFacts
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.sites import Study
from hdpstats.sites.recipes import answer
from hdpstats.sites.study import guarantee_of
from hdpstats.solvers.nearest_points import halving_order

CENTRES = "Rows are centres of cells: within a cell nothing is known, and intervals do not count that."

DRAWN = 4
"""Histograms over which predicted variances are averaged."""


@final
class NoisyHistogram(FitMechanism):
    """A model is fitted to the centres of cells, weighted by noisy numbers of people."""

    options = PerturbedHistogram

    def fit(self, spec: ModelSpec, options: PerturbedHistogram, request: FitRequest) -> Result:
        """Release a histogram of a model's columns and fit the model to the weighted centres of cells."""
        checked = _checked(spec)
        _check_flat(checked, options, request, records=0 if checked.study.site is None else checked.study.site.records)
        sample = perturbed_histogram(
            checked.study,
            tuple(sorted(set(checked.needs))),
            epsilon=request.epsilon,
            bins=options.bins,
            replicate=request.replicate,
        )
        return _fitted(checked, sample)

    def plan(
        self, spec: LossSpec, options: PerturbedHistogram, request: FitRequest, people: Mapping[str, int]
    ) -> Prediction:
        """Read histograms that are expected of private people like the public ones.

        Raises
        ------
        MechanismError
            If a fit would be refused, or there are no public rows with all columns.
        """
        checked, table = _checked(spec), spec.study.public
        columns = tuple(sorted(set(checked.needs)))
        if table is None or any(name not in table.names for name in columns):
            raise MechanismError(
                "the errors of a fit to a histogram are predicted from public rows with all of its columns; give the "
                "study public=, or plan mechanism 'objective'",
                available=("objective",),
            )
        records = sum(people.values())
        _check_flat(checked, options, request, records=records)
        query = _query(spec.study, columns, records=records, epsilon=request.epsilon, bins=options.bins, replicate=1)
        rows, facts = table.admitted(columns), spec.site_facts(records)
        expected = np.bincount(cells_of(query, rows), minlength=query.cells) * (records / max(rows.rows, 1))
        rng, found = nodes(), []
        for _ in range(DRAWN):
            release = _drawn(query, facts, np.rint(expected).astype(np.int64), rng)
            found.append(_fitted(checked, _sample(spec.study, query, release, records=records)).estimate)
        sampling, privacy = (
            np.sqrt(np.maximum(np.mean([np.diag(each) for each in parts], axis=0), 0.0))
            for parts in ([each.sampling for each in found], [each.privacy for each in found])
        )
        return Prediction(
            mechanism=options,
            errors=PredictedErrors(
                reported=np.hypot(sampling, privacy),
                sampling=sampling,
                privacy=privacy,
                public=None if spec.public_only is None else np.asarray(spec.public_only.bse.to_numpy()),
            ),
            reported=True,
            sites={name: SiteRecords(records=n, records_sd=0.0, most=n, request=request) for name, n in people.items()},
        )


def perturbed_histogram(
    study: Study, columns: tuple[str, ...], *, epsilon: Fraction, bins: int | None, replicate: int
) -> WeightedSample:
    """Release a histogram of the private records.

    Raises
    ------
    ArgumentError, SchemaError, MechanismError, InsufficientBudget
        Before anything is charged; MechanismError where the grid would be too fine for the number of people.
    """
    site = study.site
    if site is None:
        raise ArgumentError("a histogram needs private records; this study has none", argument="private")
    query = _query(study, columns, records=site.records, epsilon=epsilon, bins=bins, replicate=replicate)
    return _sample(study, query, of_kind(answer(site, query), HistogramRelease), records=site.records)


def _query(
    study: Study, columns: tuple[str, ...], *, records: int, epsilon: Fraction, bins: int | None, replicate: int
) -> HistogramQuery:
    rate = epsilon / study.relation.persons_changed
    axes = axes_of(study.schema, columns, people=records, rate=rate, bins=bins)
    return HistogramQuery(axes=axes, epsilon=epsilon, schema_sha256=study.schema.sha256, replicate=replicate)


def _drawn(query: HistogramQuery, facts: SiteFacts, counts: IntArray, rng: Generator) -> HistogramRelease:
    """Return a histogram of known counts as it might come out: the noise protects nobody."""
    prepared = prepare(query, facts)
    odds = -np.expm1(-float(prepared.noise.rate))
    noise = rng.geometric(odds, len(counts)) - rng.geometric(odds, len(counts))
    return HistogramRelease(
        counts=tuple((counts + noise).tolist()), noise_variance=prepared.noise.variance, events=prepared.events
    )


def _sample(study: Study, query: HistogramQuery, release: HistogramRelease, *, records: int) -> WeightedSample:
    """Return the centres of cells with their noisy counts, made weights."""
    schema, axes = study.schema, query.axes
    columns = tuple(axis.name for axis in axes)
    exact = study.relation is Relation.REPLACE_ONE and not schema.leaves_out(columns)
    distribution = HistogramWeights(
        counts=np.array(release.counts, dtype=np.int64),
        rate=query.epsilon / study.relation.persons_changed,
        cell=np.arange(query.cells, dtype=np.int64),
        records=records if exact else None,
        projection="simplex",
        seed=release.sha256,
        order=halving_order(places(axes)),
    )
    return WeightedSample(
        rows=centres(schema, axes),
        schema=schema,
        distribution=distribution,
        facts=SampleFacts(
            method=f"perturbed histogram (Lei 2011) of {query.cells} cells, no public records",
            columns=columns,
            formula=None,
            records=records if exact else max(sum(release.counts), 0),
            public_rows=0,
            notes=(CENTRES,),
            records_sd=None if exact else distribution.total_sd,
            complete_rows=None if exact else schema.leaves_out(columns),
        ),
        queries=(query,),
        releases=(release,),
        guarantee=guarantee_of(study, release),
    )


def _checked(spec: ModelSpec) -> ModelSpec:
    if spec.fits_weighted and not spec.fits_cells:
        raise MechanismError(
            "mechanism 'histogram' is not for quantiles: outcomes are put at centres of cells, where a quantile is one "
            "of few numbers and its error is not known; use mechanism 'objective', or describe for quartiles",
            available=("objective", "output"),
        )
    if not spec.fits_weighted:
        raise MechanismError("mechanism 'histogram' is not for this model", available=("objective", "output"))
    return spec


def _check_flat(spec: ModelSpec, options: PerturbedHistogram, request: FitRequest, *, records: int) -> None:
    """Refuse a loss that is flat between the centres of cells: its curvature, and so the error, is not known there.

    The centres follow from declared bounds, the number of classes and the number of people: nothing is charged.
    """
    columns = tuple(sorted(set(spec.needs)))
    if spec.study.site is None and not records:
        return  # refused as there are no private records
    query = _query(spec.study, columns, records=records, epsilon=request.epsilon, bins=options.bins, replicate=1)
    opened = spec.on(Study(public=centres(spec.study.schema, query.axes), schema=spec.study.schema))
    flat = opened.flat_between_cells()
    if flat is not None:
        reach, least = flat
        raise MechanismError(
            f"mechanism 'histogram' puts outcomes at centres of cells, and the loss has no curvature at residuals over "
            f"{reach:.3g}, less than half the distance of two centres ({least:.3g}): it is flat between them, and the "
            f"error would not be known; nothing was charged. Take hdp.losses.Huber(c) with c of at least {least:.3g}, "
            "more classes (hdp.mechanisms.PerturbedHistogram(bins=...)), or mechanism 'objective'",
            available=("objective", "output"),
        )


def _fitted(spec: ModelSpec, sample: WeightedSample) -> Result:
    return fit_weighted(spec.on(Study(public=sample.rows, schema=spec.study.schema)), sample)

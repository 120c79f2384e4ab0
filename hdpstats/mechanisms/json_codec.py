"""From JSON text back to records: the only place that knows which kinds there are."""

from typing import Any, cast

from hdpstats._base import canonical
from hdpstats._base.errors import ArgumentError, SiteError
from hdpstats.mechanisms.clipped_newton.query import (
    ClippedNewtonQuery,
    ClippedNewtonRelease,
    ClippedNewtonRounds,
    ClippedNewtonRoundsRelease,
)
from hdpstats.mechanisms.count.query import CountQuery, CountRelease
from hdpstats.mechanisms.curve.query import CurveQuery, CurveRelease
from hdpstats.mechanisms.distance.query import DistanceQuery, DistanceRelease
from hdpstats.mechanisms.evaluation.query import EvaluationQuery, EvaluationRelease
from hdpstats.mechanisms.exponential.query import ExponentialQuery, ExponentialRelease
from hdpstats.mechanisms.histogram.query import HistogramQuery, HistogramRelease
from hdpstats.mechanisms.importance_weights.query import ImportanceWeightsQuery
from hdpstats.mechanisms.neighbours.query import NeighboursQuery, NeighboursRelease
from hdpstats.mechanisms.objective.query import ObjectiveQuery, ObjectiveRelease
from hdpstats.mechanisms.output.query import OutputQuery, OutputRelease
from hdpstats.mechanisms.public_hessian.query import (
    PublicHessianQuery,
    PublicHessianRelease,
    PublicHessianRounds,
    PublicHessianRoundsRelease,
)
from hdpstats.mechanisms.selection.query import LossSelectionQuery, SelectionQuery, SelectionRelease
from hdpstats.mechanisms.statistics.query import StatisticsQuery, StatisticsRelease
from hdpstats.mechanisms.subsample.query import SubsampleQuery, SubsampleRelease
from hdpstats.records.codec import declare_kinds, from_dict
from hdpstats.records.query import Query, Release
from hdpstats.records.sites import SitesQuery, SitesRelease

_QUERIES = {
    query.kind: query
    for query in (
        ObjectiveQuery,
        OutputQuery,
        ExponentialQuery,
        ClippedNewtonQuery,
        ClippedNewtonRounds,
        PublicHessianQuery,
        PublicHessianRounds,
        CountQuery,
        EvaluationQuery,
        HistogramQuery,
        ImportanceWeightsQuery,
        NeighboursQuery,
        SelectionQuery,
        LossSelectionQuery,
        DistanceQuery,
        CurveQuery,
        StatisticsQuery,
        SubsampleQuery,
    )
}
_RELEASES = {
    release.kind: release
    for release in (
        ObjectiveRelease,
        OutputRelease,
        ExponentialRelease,
        ClippedNewtonRelease,
        ClippedNewtonRoundsRelease,
        PublicHessianRelease,
        PublicHessianRoundsRelease,
        CountRelease,
        EvaluationRelease,
        HistogramRelease,
        NeighboursRelease,
        SelectionRelease,
        DistanceRelease,
        CurveRelease,
        StatisticsRelease,
        SubsampleRelease,
    )
}

KINDS = frozenset(kind.partition("/")[0] for kind in _QUERIES)
"""The kinds of query without their versions, as custodians name them."""


declare_kinds(Query, _QUERIES | {SitesQuery.kind: SitesQuery})
declare_kinds(Release, _RELEASES | {SitesRelease.kind: SitesRelease})


def query_from_json(text: str) -> Query:
    """Read a query; raises SiteError when the text is not one."""
    return cast(Query, _read(Query, text))


def release_from_json(text: str) -> Release:
    """Read a release; raises SiteError when the text is not one."""
    return cast(Release, _read(Release, text))


def _read(base: Any, text: str) -> Any:
    try:
        return from_dict(base, canonical.loads(text))
    except ArgumentError as error:
        raise SiteError(f"this is not a {base.__name__.lower()} that hdpstats knows: {error}") from None
    except (ValueError, RecursionError):
        raise SiteError(f"this is not a {base.__name__.lower()} that hdpstats knows") from None

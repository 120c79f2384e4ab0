"""From JSON text back to records: the only place that knows which kinds there are."""

from typing import Any

from hdpstats._base import canonical
from hdpstats._base.errors import SiteError
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


def query_from_json(text: str) -> Query:
    """Read a query; raises SiteError when the text is not one."""
    try:
        fields = canonical.loads(text)
        return _query(fields.pop("kind"), fields)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise SiteError("this is not a query that hdpstats knows") from None


def release_from_json(text: str) -> Release:
    """Read a release; raises SiteError when the text is not one."""
    try:
        fields = canonical.loads(text)
        return _release(fields.pop("kind"), fields)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise SiteError("this is not a release that hdpstats knows") from None


def _query(kind: str, fields: dict[str, Any]) -> Query:
    return SitesQuery.read(fields, _query) if kind == SitesQuery.kind else _QUERIES[kind].from_dict(fields)


def _release(kind: str, fields: dict[str, Any]) -> Release:
    return SitesRelease.read(fields, _release) if kind == SitesRelease.kind else _RELEASES[kind].from_dict(fields)

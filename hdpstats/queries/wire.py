"""From JSON text back to records: the only place that knows which kinds there are."""

from typing import Any

from hdpstats._base import canonical
from hdpstats._base.errors import SiteError
from hdpstats.queries.base import Query, Release
from hdpstats.queries.count import CountQuery, CountRelease
from hdpstats.queries.curve import CurveQuery, CurveRelease
from hdpstats.queries.distance import DistanceQuery, DistanceRelease
from hdpstats.queries.evaluation import EvaluationQuery, EvaluationRelease
from hdpstats.queries.gradient import GradientQuery, GradientRelease, RoundsQuery, RoundsRelease
from hdpstats.queries.histogram import HistogramQuery, HistogramRelease
from hdpstats.queries.importance import ImportanceQuery
from hdpstats.queries.neighbours import NeighboursQuery, NeighboursRelease
from hdpstats.queries.objective import ObjectiveQuery, ObjectiveRelease
from hdpstats.queries.output import OutputQuery, OutputRelease
from hdpstats.queries.sampling import SamplingQuery, SamplingRelease
from hdpstats.queries.score import ScoreQuery, ScoreRelease, ScoreRoundsQuery, ScoreRoundsRelease
from hdpstats.queries.selection import LossSelectionQuery, SelectionQuery, SelectionRelease
from hdpstats.queries.sites import SitesQuery, SitesRelease
from hdpstats.queries.statistics import StatisticsQuery, StatisticsRelease
from hdpstats.queries.subsample import SubsampleQuery, SubsampleRelease

_QUERIES = {
    query.kind: query
    for query in (
        ObjectiveQuery,
        OutputQuery,
        SamplingQuery,
        GradientQuery,
        RoundsQuery,
        ScoreQuery,
        ScoreRoundsQuery,
        CountQuery,
        EvaluationQuery,
        HistogramQuery,
        ImportanceQuery,
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
        SamplingRelease,
        GradientRelease,
        RoundsRelease,
        ScoreRelease,
        ScoreRoundsRelease,
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

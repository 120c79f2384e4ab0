"""What crosses the wall: queries and releases, frozen records that can be written as JSON, logged and replayed."""

from hdpstats.queries.base import LedgerEntry, Query, Release
from hdpstats.queries.count import CountQuery, CountRelease
from hdpstats.queries.curve import CurveQuery, CurveRelease
from hdpstats.queries.distance import DistanceQuery, DistanceRelease
from hdpstats.queries.evaluation import EvaluationQuery, EvaluationRelease
from hdpstats.queries.geometry import Geometry
from hdpstats.queries.gradient import GradientQuery, GradientRelease, RoundsQuery, RoundsRelease
from hdpstats.queries.histogram import HistogramQuery, HistogramRelease
from hdpstats.queries.importance import Box, DensityRatioModel, ImportanceQuery
from hdpstats.queries.model import AnyModel, HazardCap, HazardModel, MultinomialModel, RegressionModel
from hdpstats.queries.neighbours import NeighboursQuery, NeighboursRelease
from hdpstats.queries.objective import ObjectiveQuery, ObjectiveRelease
from hdpstats.queries.output import OutputQuery, OutputRelease
from hdpstats.queries.point import PointQuery, PointRelease
from hdpstats.queries.points import PointColumn, PointSpace
from hdpstats.queries.sampling import SamplingQuery, SamplingRelease
from hdpstats.queries.score import ScoreQuery, ScoreRelease, ScoreRoundsQuery, ScoreRoundsRelease
from hdpstats.queries.selection import LossSelectionQuery, SelectionQuery, SelectionRelease
from hdpstats.queries.sites import SitesQuery, SitesRelease, answers_in, charged_events
from hdpstats.queries.statistics import StatisticsQuery, StatisticsRelease
from hdpstats.queries.subsample import SubsampleQuery, SubsampleRelease
from hdpstats.queries.timegrid import TimeGrid
from hdpstats.queries.wire import query_from_json, release_from_json

__all__ = [
    "AnyModel",
    "Box",
    "CountQuery",
    "CountRelease",
    "CurveQuery",
    "CurveRelease",
    "DensityRatioModel",
    "DistanceQuery",
    "DistanceRelease",
    "EvaluationQuery",
    "EvaluationRelease",
    "Geometry",
    "GradientQuery",
    "GradientRelease",
    "HazardCap",
    "HazardModel",
    "HistogramQuery",
    "HistogramRelease",
    "ImportanceQuery",
    "LedgerEntry",
    "LossSelectionQuery",
    "MultinomialModel",
    "NeighboursQuery",
    "NeighboursRelease",
    "ObjectiveQuery",
    "ObjectiveRelease",
    "OutputQuery",
    "OutputRelease",
    "PointColumn",
    "PointQuery",
    "PointRelease",
    "PointSpace",
    "Query",
    "RegressionModel",
    "Release",
    "RoundsQuery",
    "RoundsRelease",
    "SamplingQuery",
    "SamplingRelease",
    "ScoreQuery",
    "ScoreRelease",
    "ScoreRoundsQuery",
    "ScoreRoundsRelease",
    "SelectionQuery",
    "SelectionRelease",
    "SitesQuery",
    "SitesRelease",
    "StatisticsQuery",
    "StatisticsRelease",
    "SubsampleQuery",
    "SubsampleRelease",
    "TimeGrid",
    "answers_in",
    "charged_events",
    "query_from_json",
    "release_from_json",
]

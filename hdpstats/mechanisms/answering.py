"""Which mechanism answers which query, and which contrast belongs to which model."""

from collections.abc import Callable
from typing import Any, Final

from hdpstats._base.errors import SiteError
from hdpstats.mechanisms import (
    count,
    curve,
    distance,
    evaluation,
    gradient,
    histogram,
    importance,
    neighbours,
    objective,
    output,
    sampling,
    score,
    selection,
    statistics,
    subsample,
)
from hdpstats.mechanisms.base import Custody, Prepared
from hdpstats.mechanisms.contrast import Contrast
from hdpstats.mechanisms.hazard import hazard_contrast
from hdpstats.mechanisms.multinomial import multinomial_contrast
from hdpstats.mechanisms.regression import regression_contrast
from hdpstats.queries import (
    AnyModel,
    CountQuery,
    CurveQuery,
    DistanceQuery,
    EvaluationQuery,
    GradientQuery,
    HazardModel,
    HistogramQuery,
    ImportanceQuery,
    LossSelectionQuery,
    MultinomialModel,
    NeighboursQuery,
    ObjectiveQuery,
    OutputQuery,
    Query,
    SamplingQuery,
    ScoreQuery,
    SelectionQuery,
    StatisticsQuery,
    SubsampleQuery,
)

WITH_CONTRAST: Final[dict[type[Query], Callable[[Any, Contrast, Custody], Prepared]]] = {
    ObjectiveQuery: objective.prepare,
    OutputQuery: output.prepare,
    SamplingQuery: sampling.prepare,
    GradientQuery: gradient.prepare,
    ScoreQuery: score.prepare,
}
"""The mechanisms that are told one person's loss under the query's model, by query and site."""

WITHOUT_CONTRAST: Final[dict[type[Query], Callable[[Any, Custody], Prepared]]] = {
    CountQuery: count.prepare,
    EvaluationQuery: evaluation.prepare,
    HistogramQuery: histogram.prepare,
    ImportanceQuery: importance.prepare,
    NeighboursQuery: neighbours.prepare,
    SelectionQuery: selection.prepare,
    LossSelectionQuery: selection.prepare_loss,
    DistanceQuery: distance.prepare,
    CurveQuery: curve.prepare,
    StatisticsQuery: statistics.prepare,
    SubsampleQuery: subsample.prepare,
}
"""The mechanisms that are told everything by query and site."""


def prepare(query: Query, custody: Custody) -> Prepared:
    """Check everything that can be checked without a row, and fix every constant.

    Raises
    ------
    SiteError, MechanismError, FormulaError, SchemaError
        Where the query does not fit the site, or no proof covers it. Nothing was charged.
    """
    check_kind(query)
    asked: Any = query
    if type(query) in WITH_CONTRAST:
        return WITH_CONTRAST[type(query)](asked, contrast_of(asked.model, custody), custody)
    return WITHOUT_CONTRAST[type(query)](asked, custody)


def check_kind(query: Query) -> None:
    """Refuse a query that no mechanism answers."""
    if type(query) not in WITH_CONTRAST.keys() | WITHOUT_CONTRAST.keys():
        raise SiteError(f"this site does not answer {type(query).__name__}")


def columns_of(query: Query, custody: Custody) -> tuple[str, ...]:
    """Return the declared columns that an answer is computed from, in alphabetical order.

    They are what `prepare` finds, and told by query and schema alone: no public rows are needed, and no constant.
    """
    asked: Any = query
    if isinstance(query, NeighboursQuery | SelectionQuery | DistanceQuery):
        names = query.space.names
    elif isinstance(query, ImportanceQuery):
        names = importance.ratio_design(query.model, custody.schema).needs
    elif type(query) in WITH_CONTRAST:
        names = contrast_of(asked.model, custody).needs
    else:
        names = prepare(query, custody).needs
    return tuple(sorted(names))


def contrast_of(model: AnyModel, custody: Custody) -> Contrast:
    """Return one person's loss under a model, at a site."""
    if isinstance(model, HazardModel):
        return hazard_contrast(model, custody)
    if custody.unit is not None:
        raise SiteError(
            "this site's people have several rows each; a regression of one row per person does not fit them: use a "
            "hazard model in long form, or aggregate to one row per person"
        )
    if isinstance(model, MultinomialModel):
        return multinomial_contrast(model, custody.schema)
    return regression_contrast(model, custody.schema)

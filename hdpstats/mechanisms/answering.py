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
    if isinstance(query, ObjectiveQuery):
        return objective.prepare(query, contrast_of(query.model, custody), custody)
    if isinstance(query, OutputQuery):
        return output.prepare(query, contrast_of(query.model, custody), custody)
    if isinstance(query, SamplingQuery):
        return sampling.prepare(query, contrast_of(query.model, custody), custody)
    if isinstance(query, GradientQuery):
        return gradient.prepare(query, contrast_of(query.model, custody), custody)
    if isinstance(query, ScoreQuery):
        return score.prepare(query, contrast_of(query.model, custody), custody)
    answer = WITHOUT_CONTRAST.get(type(query))
    if answer is None:
        raise SiteError(f"this site does not answer {type(query).__name__}")
    return answer(query, custody)


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

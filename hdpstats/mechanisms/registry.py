"""Which mechanism answers which query, and which person_loss belongs to which model."""

from collections.abc import Callable
from typing import Any, Final

from hdpstats._base.errors import SiteError
from hdpstats.mechanisms.base import Prepared, SiteFacts
from hdpstats.mechanisms.clipped_newton import site as gradient
from hdpstats.mechanisms.clipped_newton.query import ClippedNewtonQuery
from hdpstats.mechanisms.count import site as count
from hdpstats.mechanisms.count.query import CountQuery
from hdpstats.mechanisms.curve import site as curve
from hdpstats.mechanisms.curve.query import CurveQuery
from hdpstats.mechanisms.distance import site as distance
from hdpstats.mechanisms.distance.query import DistanceQuery
from hdpstats.mechanisms.evaluation import site as evaluation
from hdpstats.mechanisms.evaluation.query import EvaluationQuery
from hdpstats.mechanisms.exponential import site as sampling
from hdpstats.mechanisms.exponential.query import ExponentialQuery
from hdpstats.mechanisms.histogram import site as histogram
from hdpstats.mechanisms.histogram.query import HistogramQuery
from hdpstats.mechanisms.importance_weights import site as importance
from hdpstats.mechanisms.importance_weights.query import ImportanceWeightsQuery
from hdpstats.mechanisms.neighbours import site as neighbours
from hdpstats.mechanisms.neighbours.query import NeighboursQuery
from hdpstats.mechanisms.objective import site as objective
from hdpstats.mechanisms.objective.query import ObjectiveQuery
from hdpstats.mechanisms.output import site as output
from hdpstats.mechanisms.output.query import OutputQuery
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.mechanisms.person_loss.hazard import hazard_person_loss
from hdpstats.mechanisms.person_loss.multinomial import multinomial_person_loss
from hdpstats.mechanisms.person_loss.regression import regression_person_loss
from hdpstats.mechanisms.public_hessian import site as score
from hdpstats.mechanisms.public_hessian.query import PublicHessianQuery
from hdpstats.mechanisms.selection import site as selection
from hdpstats.mechanisms.selection.query import LossSelectionQuery, SelectionQuery
from hdpstats.mechanisms.statistics import site as statistics
from hdpstats.mechanisms.statistics.query import StatisticsQuery
from hdpstats.mechanisms.subsample import site as subsample
from hdpstats.mechanisms.subsample.query import SubsampleQuery
from hdpstats.records.model import AnyModel, HazardModel, MultinomialModel
from hdpstats.records.query import Query

WITH_PERSON_LOSS: Final[dict[type[Query], Callable[[Any, PersonLoss, SiteFacts], Prepared]]] = {
    ObjectiveQuery: objective.prepare,
    OutputQuery: output.prepare,
    ExponentialQuery: sampling.prepare,
    ClippedNewtonQuery: gradient.prepare,
    PublicHessianQuery: score.prepare,
}
"""The mechanisms that are told one person's loss under the query's model, by query and site."""

WITHOUT_PERSON_LOSS: Final[dict[type[Query], Callable[[Any, SiteFacts], Prepared]]] = {
    CountQuery: count.prepare,
    EvaluationQuery: evaluation.prepare,
    HistogramQuery: histogram.prepare,
    ImportanceWeightsQuery: importance.prepare,
    NeighboursQuery: neighbours.prepare,
    SelectionQuery: selection.prepare,
    LossSelectionQuery: selection.prepare_loss,
    DistanceQuery: distance.prepare,
    CurveQuery: curve.prepare,
    StatisticsQuery: statistics.prepare,
    SubsampleQuery: subsample.prepare,
}
"""The mechanisms that are told everything by query and site."""


def prepare(query: Query, site_facts: SiteFacts) -> Prepared:
    """Check everything that can be checked without a row, and fix every constant.

    Raises
    ------
    SiteError, MechanismError, FormulaError, SchemaError
        Where the query does not fit the site, or no proof covers it. Nothing was charged.
    """
    check_kind(query)
    asked: Any = query
    if type(query) in WITH_PERSON_LOSS:
        return WITH_PERSON_LOSS[type(query)](asked, person_loss_of(asked.model, site_facts), site_facts)
    return WITHOUT_PERSON_LOSS[type(query)](asked, site_facts)


def check_kind(query: Query) -> None:
    """Refuse a query that no mechanism answers."""
    if type(query) not in WITH_PERSON_LOSS.keys() | WITHOUT_PERSON_LOSS.keys():
        raise SiteError(f"this site does not answer {type(query).__name__}")


def columns_of(query: Query, site_facts: SiteFacts) -> tuple[str, ...]:
    """Return the declared columns that an answer is computed from, in alphabetical order.

    They are what `prepare` finds, and told by query and schema alone: no public rows are needed, and no constant.
    """
    asked: Any = query
    if isinstance(query, NeighboursQuery | SelectionQuery | DistanceQuery):
        names = query.space.names
    elif isinstance(query, ImportanceWeightsQuery):
        names = importance.ratio_design(query.model, site_facts.schema).needs
    elif type(query) in WITH_PERSON_LOSS:
        names = person_loss_of(asked.model, site_facts).needs
    else:
        names = prepare(query, site_facts).needs
    return tuple(sorted(names))


def person_loss_of(model: AnyModel, site_facts: SiteFacts) -> PersonLoss:
    """Return one person's loss under a model, at a site."""
    if isinstance(model, HazardModel):
        return hazard_person_loss(model, site_facts)
    if site_facts.unit is not None:
        raise SiteError(
            "this site's people have several rows each; a regression of one row per person does not fit them: use a "
            "hazard model in long form, or aggregate to one row per person"
        )
    if isinstance(model, MultinomialModel):
        return multinomial_person_loss(model, site_facts.schema)
    return regression_person_loss(model, site_facts.schema)

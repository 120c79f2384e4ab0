"""The family of models that a query fits or reads, as custodians permit it."""

from typing import Any, Final

from hdpstats.mechanisms.importance_weights.query import DensityRatioModel
from hdpstats.records.model import HazardModel, MultinomialModel, RegressionModel
from hdpstats.records.query import Query

DISTRIBUTION: Final = "distribution"
"""Families of distributions of one column."""

_ANY: Final = frozenset({RegressionModel.kind, MultinomialModel.kind, HazardModel.kind})

FAMILIES: Final[dict[str, frozenset[str]]] = {
    "objective": _ANY,
    "output": _ANY,
    "exponential": _ANY,
    "clipped_newton": _ANY,
    "clipped_newton_rounds": _ANY,
    "public_hessian": frozenset({RegressionModel.kind}),
    "public_hessian_rounds": frozenset({RegressionModel.kind}),
    "curve": frozenset({RegressionModel.kind}),
    "loss_selection": frozenset({RegressionModel.kind}),
    "evaluation": frozenset({RegressionModel.kind, HazardModel.kind}),
    "importance_weights": frozenset({DensityRatioModel.kind}),
    "statistics": frozenset({DISTRIBUTION}),
    "subsample": frozenset({DISTRIBUTION}),
    "count": frozenset(),
    "histogram": frozenset(),
    "neighbours": frozenset(),
    "selection": frozenset(),
    "distance": frozenset(),
}
"""The families that each kind of query can have, by the kind without its version; none where it has no model."""


def family_of(query: Query) -> str | None:
    """Return the family of the model that a query fits or reads; None where it has none.

    A performance curve and a choice by loss are logistic fits; an evaluation reads the coefficients of a logistic fit,
    or with a grid of times those of a hazard.

    Raises
    ------
    KeyError
        The kind is not among `FAMILIES`.
    """
    asked: Any = query
    families = FAMILIES[query.kind.partition("/")[0]]
    if len(families) < 2:
        return next(iter(families), None)
    model = getattr(asked, "model", None)
    if model is not None:
        return str(model.kind)
    return RegressionModel.kind if asked.grid is None else HazardModel.kind

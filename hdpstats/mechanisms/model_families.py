"""The family of models that a query fits or reads, as custodians permit it."""

from typing import Any, Final

from hdpstats.mechanisms.importance_weights.query import DensityRatioModel
from hdpstats.records.model import HazardModel, MultinomialModel, RegressionModel
from hdpstats.records.query import Query

DISTRIBUTION: Final = "distribution"
"""Families of distributions of one column."""

_ANY: Final = frozenset({RegressionModel.family, MultinomialModel.family, HazardModel.family})

FAMILIES: Final[dict[str, frozenset[str]]] = {
    "objective": _ANY,
    "output": _ANY,
    "exponential": _ANY,
    "clipped_newton": _ANY,
    "clipped_newton_rounds": _ANY,
    "public_hessian": frozenset({RegressionModel.family}),
    "public_hessian_rounds": frozenset({RegressionModel.family}),
    "curve": frozenset({RegressionModel.family}),
    "loss_selection": frozenset({RegressionModel.family}),
    "evaluation": frozenset({RegressionModel.family, HazardModel.family}),
    "importance_weights": frozenset({DensityRatioModel.family}),
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
        return str(model.family)
    return RegressionModel.family if asked.grid is None else HazardModel.family

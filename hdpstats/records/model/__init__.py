"""What a query is about: a model of linear predictors, written down as public numbers."""

from typing import Any

from hdpstats.records.model.base import Model
from hdpstats.records.model.hazard import HazardCap, HazardModel
from hdpstats.records.model.multinomial import MultinomialModel
from hdpstats.records.model.regression import RegressionModel

__all__ = ["AnyModel", "HazardCap", "HazardModel", "Model", "MultinomialModel", "RegressionModel", "model_from_dict"]

AnyModel = RegressionModel | HazardModel | MultinomialModel
"""Any of the models."""


def model_from_dict(fields: dict[str, Any]) -> AnyModel:
    """Read what `Model.to_dict` wrote."""
    if fields["family"] == MultinomialModel.family:
        return MultinomialModel.from_dict(fields)
    if fields["family"] == HazardModel.family:
        return HazardModel.from_dict(fields)
    if fields["family"] == RegressionModel.family:
        return RegressionModel.from_dict(fields)
    raise ValueError("there is no such family of models")

"""What a query is about: a model of linear predictors, written down as public numbers."""

from hdpstats.records.model.base import QueryModel
from hdpstats.records.model.hazard import HazardCap, HazardModel
from hdpstats.records.model.multinomial import MultinomialModel
from hdpstats.records.model.regression import RegressionModel

__all__ = ["AnyModel", "HazardCap", "HazardModel", "MultinomialModel", "QueryModel", "RegressionModel"]

AnyModel = RegressionModel | HazardModel | MultinomialModel
"""Any of the models."""

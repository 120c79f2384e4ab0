"""The public names: ``import hdpstats.api as hdp``."""

from hdpstats import __version__
from hdpstats import audit as audit
from hdpstats import simulate as simulate
from hdpstats._base.errors import (
    ArgumentError,
    BudgetError,
    FormulaError,
    HdpError,
    InsufficientBudget,
    LedgerError,
    MechanismError,
    QuotaExceeded,
    SchemaError,
    SiteError,
)
from hdpstats.data import datasets
from hdpstats.data.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.data.person_period import person_period
from hdpstats.data.schema import Schema
from hdpstats.ledger import Ledger
from hdpstats.losses import options as losses
from hdpstats.mechanisms import options as mechanisms
from hdpstats.models import (
    DiscreteHazard,
    ExponentialFamily,
    Linear,
    Logit,
    MEstimator,
    Plan,
    Quantile,
    hybrid_weights,
    importance_weights,
)
from hdpstats.privacy.budget import Budget
from hdpstats.results import Aggregate, Evaluation, Result, WeightedSample, aggregate
from hdpstats.sites import LocalSite, RemoteSite, Site, Study, connect

__all__ = [
    "Aggregate",
    "ArgumentError",
    "Binary",
    "Budget",
    "BudgetError",
    "Categorical",
    "Continuous",
    "DiscreteHazard",
    "Duration",
    "Evaluation",
    "ExponentialFamily",
    "FormulaError",
    "HdpError",
    "InsufficientBudget",
    "Ledger",
    "LedgerError",
    "Linear",
    "LocalSite",
    "Logit",
    "MEstimator",
    "MechanismError",
    "Offset",
    "Plan",
    "Quantile",
    "QuotaExceeded",
    "RemoteSite",
    "Result",
    "Schema",
    "SchemaError",
    "Site",
    "SiteError",
    "Study",
    "Weight",
    "WeightedSample",
    "__version__",
    "aggregate",
    "audit",
    "connect",
    "datasets",
    "hybrid_weights",
    "importance_weights",
    "losses",
    "mechanisms",
    "person_period",
    "simulate",
]

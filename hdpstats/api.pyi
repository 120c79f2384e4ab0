from hdpstats import __version__, audit
from hdpstats import papers as simulate
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
from hdpstats.audit.qualification import CheckOutcome, Qualification, qualify
from hdpstats.describe import (
    CurvesPlan,
    CurvesRequest,
    Description,
    DescriptionPlan,
    DescriptionRequest,
    FirstTable,
    describe,
)
from hdpstats.ledger import Ledger
from hdpstats.losses import options as losses
from hdpstats.mechanisms import registry as mechanisms
from hdpstats.models import (
    DiscreteHazard,
    Distribution,
    Linear,
    Logit,
    MEstimator,
    Plan,
    Quantile,
    hybrid_weights,
    importance_weights,
    warm_up,
)
from hdpstats.privacy.budget import Budget
from hdpstats.results import (
    Aggregate,
    Evaluation,
    LogRankTest,
    RegressionTable,
    Result,
    SurvivalCurves,
    WeightedSample,
    aggregate,
    regression_table,
)
from hdpstats.schema import datasets
from hdpstats.schema.check import check
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Offset, Weight
from hdpstats.schema.schema import Schema
from hdpstats.schema.spells import person_period
from hdpstats.sites import LocalSite, RemoteSite, Site, Study, connect

__all__ = [
    "Aggregate",
    "ArgumentError",
    "Binary",
    "Budget",
    "BudgetError",
    "Categorical",
    "CheckOutcome",
    "Continuous",
    "CurvesPlan",
    "CurvesRequest",
    "Description",
    "DescriptionPlan",
    "DescriptionRequest",
    "DiscreteHazard",
    "Distribution",
    "Duration",
    "Evaluation",
    "FirstTable",
    "FormulaError",
    "HdpError",
    "InsufficientBudget",
    "Ledger",
    "LedgerError",
    "Linear",
    "LocalSite",
    "LogRankTest",
    "Logit",
    "MEstimator",
    "MechanismError",
    "Offset",
    "Plan",
    "Qualification",
    "Quantile",
    "QuotaExceeded",
    "RegressionTable",
    "RemoteSite",
    "Result",
    "Schema",
    "SchemaError",
    "Site",
    "SiteError",
    "Study",
    "SurvivalCurves",
    "Weight",
    "WeightedSample",
    "__version__",
    "aggregate",
    "audit",
    "check",
    "connect",
    "datasets",
    "describe",
    "hybrid_weights",
    "importance_weights",
    "losses",
    "mechanisms",
    "person_period",
    "qualify",
    "regression_table",
    "simulate",
    "warm_up",
]

"""The public names: ``import hdpstats.api as hdp``.

Each name is loaded when it is first asked for, so that the import itself takes little: who opens a ledger loads no
model, and who asks remote sites no code of a site.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from hdpstats import __version__
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

if TYPE_CHECKING:
    from hdpstats import audit
    from hdpstats import papers as simulate
    from hdpstats.describe import (
        CurvesPlan,
        CurvesRequest,
        Description,
        DescriptionPlan,
        DescriptionRequest,
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
    )
    from hdpstats.privacy.budget import Budget
    from hdpstats.results import (
        Aggregate,
        Evaluation,
        LogRankTest,
        Result,
        SurvivalCurves,
        WeightedSample,
        aggregate,
        model_matrix,
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
    "Quantile",
    "QuotaExceeded",
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
    "model_matrix",
    "person_period",
    "simulate",
]

_NAMES: Final = {
    "hdpstats.describe": (
        "CurvesPlan",
        "CurvesRequest",
        "Description",
        "DescriptionPlan",
        "DescriptionRequest",
        "describe",
    ),
    "hdpstats.ledger": ("Ledger",),
    "hdpstats.models": (
        "DiscreteHazard",
        "Distribution",
        "Linear",
        "Logit",
        "MEstimator",
        "Plan",
        "Quantile",
        "hybrid_weights",
        "importance_weights",
    ),
    "hdpstats.privacy.budget": ("Budget",),
    "hdpstats.results": (
        "Aggregate",
        "Evaluation",
        "LogRankTest",
        "Result",
        "SurvivalCurves",
        "WeightedSample",
        "aggregate",
    ),
    "hdpstats.schema.check": ("check",),
    "hdpstats.schema.columns": ("Binary", "Categorical", "Continuous", "Duration", "Offset", "Weight"),
    "hdpstats.schema.schema": ("Schema",),
    "hdpstats.schema.spells": ("person_period",),
    "hdpstats.sites": ("LocalSite", "RemoteSite", "Site", "Study", "connect"),
}
"""The modules that define names."""

_MODULES: Final = {
    "audit": "hdpstats.audit",
    "datasets": "hdpstats.schema.datasets",
    "losses": "hdpstats.losses.options",
    "mechanisms": "hdpstats.mechanisms.registry",
    "model_matrix": "hdpstats.results.model_matrix",
    "simulate": "hdpstats.papers",
}
"""Names that are modules themselves."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""How each mechanism fits a model, and which one is chosen where none is named: one table for each type of models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.clipped_newton import ClippedNewton
from hdpstats.mechanisms.exponential import ExponentialMechanism
from hdpstats.mechanisms.histogram import PerturbedHistogram
from hdpstats.mechanisms.objective import ObjectivePerturbation
from hdpstats.mechanisms.output import OutputPerturbation
from hdpstats.mechanisms.public_hessian import PublicHessian
from hdpstats.mechanisms.registry import BY_NAME, MECHANISMS
from hdpstats.mechanisms.statistics import SufficientStatistics
from hdpstats.models.distribution_spec import fit_distribution, predict_distribution
from hdpstats.models.hazard_spec import HazardSpec
from hdpstats.models.histogram import fit_histogram, predict_histogram
from hdpstats.models.model_spec import LossSpec, ModelSpec
from hdpstats.models.points import Prediction, fit_points, predict_points
from hdpstats.models.public_hessian import fit_public_hessian, predict_public_hessian
from hdpstats.models.request import FitRequest
from hdpstats.models.rounds import fit_clipped_newton, predict_clipped_newton
from hdpstats.records.query import MechanismOptions
from hdpstats.results import Result

CLEARLY = 0.8
"""How much smaller, as variances, errors of a regression by noisy Newton steps must be predicted to be chosen.

Without a description predictions take private covariates to be distributed as the public ones. Where they are not,
estimates by matched sums are biased, those by objective perturbation hardly, and only their standard errors are wrong.
With Rotterdam's patients as private and GBSG's as public records, whose numbers of nodes spread half as widely, the
former were off by 4 to 6 standard errors of the ordinary fit, the latter by 1. Hazards rest on public people alike by
either mechanism.
"""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitMethod:
    """What fits a model by a mechanism, and what predicts its standard errors; None where that is not possible.

    Both take the model, the mechanism and the request; the second also the numbers of private people by site.
    """

    fit: Callable[[Any, Any, FitRequest], Result]
    predict: Callable[[Any, Any, FitRequest, Mapping[str, int]], Prediction] | None = None


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitMethods:
    """The fit methods of a type of models.

    Attributes
    ----------
    methods : mapping of mechanism type to FitMethod
        What there is.
    refusal : str
        What is said of a mechanism that is not among them.
    """

    methods: Mapping[type[MechanismOptions], FitMethod]
    refusal: str

    @property
    def available(self) -> tuple[str, ...]:
        """The names of their mechanisms."""
        return tuple(name for name, kind in BY_NAME.items() if kind in self.methods)

    def of(self, mechanism: MechanismOptions) -> FitMethod:
        """Return the method of a mechanism, or raise MechanismError."""
        if type(mechanism) not in self.methods:
            raise MechanismError(self.refusal, available=self.available)
        return self.methods[type(mechanism)]


LOSS_METHODS: Final = FitMethods(
    methods={
        ObjectivePerturbation: FitMethod(fit=fit_points, predict=predict_points),
        OutputPerturbation: FitMethod(fit=fit_points, predict=predict_points),
        ExponentialMechanism: FitMethod(fit=fit_points, predict=predict_points),
        ClippedNewton: FitMethod(fit=fit_clipped_newton, predict=predict_clipped_newton),
        PublicHessian: FitMethod(fit=fit_public_hessian, predict=predict_public_hessian),
        PerturbedHistogram: FitMethod(fit=fit_histogram, predict=predict_histogram),
    },
    refusal="this mechanism is for distributions, hdpf.distribution('x ~ 1', ...), not for regressions",
)
"""Regressions and hazard models."""

_OF_DISTRIBUTIONS: Final = {each.name: each for each in MECHANISMS if each.distribution is not None}

_NAMES: Final = " or ".join(map(repr, _OF_DISTRIBUTIONS))

DISTRIBUTION_METHODS: Final = FitMethods(
    methods={
        entry.options: FitMethod(
            fit=fit_distribution,
            predict=predict_distribution,
        )
        for entry in _OF_DISTRIBUTIONS.values()
        if entry.options is not None and entry.distribution is not None
    },
    refusal=f"a family of distributions takes mechanism {_NAMES}, not one for regressions",
)
"""Parameters of a distribution."""


def methods_of(spec: ModelSpec) -> FitMethods:
    """Return the fit methods of a model."""
    return LOSS_METHODS if isinstance(spec, LossSpec) else DISTRIBUTION_METHODS


def predict(spec: ModelSpec, request: FitRequest, people: Mapping[str, int]) -> Prediction:
    """Return what a fit would report; ``people`` are the numbers of private people by site.

    Everything is computed from public rows and declarations, so that the choice depends on nothing private and costs
    nothing. Without a mechanism in the request one is chosen: objective perturbation, or noisy Newton steps where there
    is a delta, they have a proof, there are public people enough, and their errors are predicted to be smaller (of
    regressions by the factor `CLEARLY`).

    Raises
    ------
    MechanismError
        If the request names a mechanism whose errors are not known beforehand, or that has no proof for the model.
    """
    if request.mechanism is not None:
        return _predicted(spec, request.mechanism, request, people)
    if not isinstance(spec, LossSpec):
        return _predicted(spec, SufficientStatistics(), request, people)
    plain = _predicted(spec, ObjectivePerturbation(), request, people)
    if request.delta == 0:
        return plain
    try:
        rounds = _predicted(spec, ClippedNewton(), request, people)
    except MechanismError:
        return plain
    factor = 1.0 if isinstance(spec, HazardSpec) else CLEARLY
    return rounds if rounds.errors.against_public < factor * plain.errors.against_public else plain


def _predicted(
    spec: ModelSpec, mechanism: MechanismOptions, request: FitRequest, people: Mapping[str, int]
) -> Prediction:
    methods = methods_of(spec)
    found = methods.of(mechanism).predict
    if found is None:
        known = tuple(name for name in methods.available if methods.methods[BY_NAME[name]].predict is not None)
        raise MechanismError(
            f"standard errors are predicted for these mechanisms only: {', '.join(map(repr, known))}", available=known
        )
    return found(spec, mechanism, request, people)


def recommended(spec: ModelSpec, request: FitRequest) -> MechanismOptions:
    """Return the mechanism of a request that names none: the one of smaller predicted errors.

    Nothing is predicted where there is no choice: noisy Newton steps need public people, and are chosen with a delta.
    """
    if not isinstance(spec, LossSpec):
        return SufficientStatistics()
    if spec.public is None or request.delta == 0:
        return ObjectivePerturbation()
    people = {name: site.records for name, site in spec.study.sites.items()}
    return predict(spec, request, people).mechanism

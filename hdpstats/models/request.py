"""What a fit asks for, checked before anything is charged: epsilon, delta, mechanism, and whether it was asked before.

**The same model written otherwise.** A fit that would be charged again for what is released already is refused first.
Most spellings of a model make the same query, which the ledger answers from its store
(`hdpstats.formulas.column_space`). Where algebra does not tell that two formulas have the same columns, the mechanism
would be asked another question about the same model, in another geometry. So before a charge:

1. The formulas of models that the asker has releases of are compared with the one at hand
   (`hdpstats.formulas.same_space`).
2. A fit with the columns of such a formula, and everything else as asked, is tried on sites that hand out what is
   recorded and compute nothing (`hdpstats.sites.asking`). It either has all of its answers, each the release of the
   same query, or there was no such fit.
3. If there was, the fit at hand is refused, unless it was charged itself. Where its own release is recorded too, that
   is returned as ever; where it was interrupted after a charge, it goes on under that charge. ``reuse=True`` returns
   the earlier release, its coefficients mapped to the formula; ``replicate=`` asks anew.

Everything that takes part is public or was released to the asker. A map of a release is post-processing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats._base.validation import integer, truth
from hdpstats.formulas.column_space import CanonicalDesign
from hdpstats.formulas.same_space import asked_as
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from hdpstats.mechanisms.registry import named
from hdpstats.models.model_spec import LossSpec, ModelSpec
from hdpstats.privacy.budget import release_delta, release_epsilon
from hdpstats.records.query import AUTO, MechanismOptions, WithHessianShare, checked_share
from hdpstats.results import Result
from hdpstats.results.description import Description
from hdpstats.sites import Study
from hdpstats.sites.asking import RecordedSite, recorded_sites

ONLY = "site"
"""What a site is called where it does not matter which one it is."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FitRequest:
    """One fit that may spend ``epsilon`` and ``delta`` on a mechanism; ``replicate`` numbers independent draws.

    Without a mechanism the model chooses. ``epsilons`` are those of sites by name where they differ; ``epsilon`` is
    then the largest. ``description`` is one of the private cohort that was charged before; without it the fit asks
    for what it needs to know of the cohort, unless not told to ``describe``. ``share`` is the share of epsilon for a
    noisy Hessian that was asked for; None where the fit chooses it, 0 where coefficients alone are wanted.
    """

    epsilon: Fraction
    delta: Fraction
    mechanism: MechanismOptions | None
    replicate: int
    epsilons: Mapping[str, Fraction] = field(default_factory=dict)
    description: Description | None = None
    describe: bool = True
    share: Fraction | None = None

    def at(self, site: str) -> "FitRequest":
        """Return what one site is asked to spend."""
        return replace(self, epsilon=self.epsilons.get(site, self.epsilon), epsilons={})

    def check(self, sites: Collection[str]) -> None:
        """Raise ArgumentError unless epsilon is one number, or one for each site of the study."""
        if self.epsilons and set(self.epsilons) != set(sites):
            raise ArgumentError(
                f"epsilon must be a number, or a number for each of the study's sites: {', '.join(map(repr, sites))}",
                argument="epsilon",
            )


def fit_request(
    epsilon: object,
    delta: object = 0,
    mechanism: object = "auto",
    se_share: float | str = AUTO,
    *,
    replicate: object = 1,
    allow_large_epsilon: bool = False,
    description: Description | None = None,
    describe: object = True,
) -> FitRequest:
    """Check the arguments of `fit`."""
    if describe is False and description is not None:
        raise ArgumentError(
            "describe=False declines what description= gives; leave one of them out", argument="describe"
        )
    several = epsilon if isinstance(epsilon, Mapping) else {}
    amounts = {
        str(site): release_epsilon(value, allow_large_epsilon=allow_large_epsilon) for site, value in several.items()
    }
    amount = max(amounts.values()) if amounts else release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
    slack = release_delta(delta)
    options, share = named(mechanism), checked_share(se_share)
    own = options.share if isinstance(options, WithHessianShare) else None
    plain = options is None or options == ObjectivePerturbation()
    if (share and not plain) or (share is not None and own not in (None, share)):
        raise ArgumentError(
            "se_share must be given once, to fit or to an ObjectivePerturbation; no other mechanism takes it",
            argument="se_share",
        )
    return FitRequest(
        epsilon=amount,
        delta=slack,
        mechanism=ObjectivePerturbation(se_share=se_share) if share else options,
        replicate=integer(replicate, name="replicate", lower=1, upper=10**9),
        epsilons=amounts,
        description=description,
        describe=truth(describe, name="describe"),
        share=own if share is None else share,
    )


def epsilons_of(epsilon: float | Iterable[float]) -> list[Fraction]:
    """Check the values that `plan` is asked for."""
    values = list(epsilon) if isinstance(epsilon, Iterable) else [epsilon]
    if not values:
        raise ArgumentError("epsilon must name at least one value to plan for", argument="epsilon")
    return [release_epsilon(value, allow_large_epsilon=True) for value in values]


def people_of(study: Study, n: object) -> int:
    """Return the number of private people to plan for: the study's, where none is named."""
    if n is not None:
        return integer(n, name="n", lower=1, upper=10**12)
    if study.records is None:
        raise ArgumentError("n must be given, the number of private records: the study has none", argument="n")
    return study.records


FitOf = Callable[[ModelSpec, FitRequest], Callable[[], Result]]


def recorded_fit(spec: ModelSpec, request: FitRequest, fit_of: FitOf, *, reuse: bool) -> Result | None:
    """Return a fit from what is recorded already; None where the fit at hand is to be asked for.

    Parameters
    ----------
    spec : ModelSpec
        The model at hand.
    request : FitRequest
        What it is asked for.
    fit_of : callable
        Returns what fits a model as asked.
    reuse : bool
        Whether an earlier release of the same columns is wanted.

    Raises
    ------
    ArgumentError
        If there is an earlier release of the same columns and it is not wanted, or the other way round. Nothing was
        charged.
    """
    if isinstance(spec, LossSpec) and (reuse or not spec.columns.is_settled):
        sites, formulas = recorded_sites(spec.study.sites)
        study = spec.study.having(sites)
        others = list(_others(spec, formulas))
        if others or reuse:
            own = _answered(fit_of, spec.asking(spec.columns, study), request, sites, whole=True)
            if own is not None:
                return own
            if not reuse and any(site.begun for site in sites.values()):
                return None
        for formula, columns in others:
            found = _answered(fit_of, spec.asking(columns, study), request, sites, whole=False)
            if found is None:
                continue
            if reuse:
                return _noted(found, formula)
            raise ArgumentError(
                f"this model was released already, as {formula!r}: its columns span the same. Give reuse=True for that "
                f"release, mapped to this formula and at no charge, or replicate={request.replicate + 1} for a new "
                "one, which is charged",
                argument="reuse",
            )
    if reuse:
        raise ArgumentError(
            "reuse=True: no release of a model with the same columns, epsilon, delta, mechanism and replicate is "
            "recorded for you; leave reuse out, and the fit is charged where it was not asked before",
            argument="reuse",
        )
    return None


def _others(spec: LossSpec, formulas: tuple[str, ...]) -> Iterator[tuple[str, CanonicalDesign]]:
    """Yield formulas with the columns of a model, written otherwise, and these columns."""
    covariates = spec.columns.design.canonical
    left, whole = covariates.partition("~")[0] + "~ ", spec.question
    rest = whole.removeprefix(covariates)
    for formula in formulas:
        if formula == whole or not (formula.startswith(left) and formula.endswith(rest)):
            continue
        right = formula[len(left) : len(formula) - len(rest)]
        columns = asked_as(right, spec.columns, spec.study.schema)
        if columns is not None:
            yield formula, columns


def _answered(
    fit_of: FitOf, spec: LossSpec, request: FitRequest, sites: dict[str, RecordedSite], *, whole: bool
) -> Result | None:
    """Return a fit whose answers are recorded; None without one. ``whole``: all sites must have answered."""
    for site in sites.values():
        site.forget()
    try:
        found = fit_of(spec, request)()
    except HdpError:
        return None
    return None if whole and any(site.lacked for site in sites.values()) else found


def _noted(result: Result, formula: str) -> Result:
    words = (
        f"{result.facts.method}; the stored release of {formula}, whose columns span the same, mapped to this formula"
    )
    return replace(result, facts=replace(result.facts, method=words))

"""The same model written otherwise: a fit that would be charged again for what is released already is refused first.

Most spellings of a model make the same query, which the ledger answers from its store
(`hdpstats.formulas.column_space`). Where algebra does not tell that two formulas have the same columns, the mechanism
would be asked another question about the same model, in another geometry. So before a charge:

1. The formulas of models that the asker has releases of are compared with the one at hand
   (`hdpstats.formulas.same_space`).
2. A fit with the columns of such a formula, and everything else as asked, is tried on sites that hand out what is
   recorded and compute nothing (`hdpstats.sites.recorded`). It either has all of its answers, each the release of the
   same query, or there was no such fit.
3. If there was, the fit at hand is refused, unless it was charged itself. Where its own release is recorded too, that
   is returned as ever; where it was interrupted after a charge, it goes on under that charge. ``reuse=True`` returns
   the earlier release, its coefficients mapped to the formula; ``replicate=`` asks anew.

Everything that takes part is public or was released to the asker. A map of a release is post-processing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from hdpstats._base.errors import ArgumentError, HdpError
from hdpstats.formulas.column_space import CanonicalDesign
from hdpstats.formulas.same_space import asked_as
from hdpstats.models.model_spec import LossSpec, ModelSpec
from hdpstats.models.request import FitRequest
from hdpstats.results import Result
from hdpstats.sites.recorded import RecordedSite, recorded_sites

Fit = Callable[[ModelSpec], Result]


def recorded_fit(spec: ModelSpec, request: FitRequest, fit: Fit, *, reuse: bool) -> Result | None:
    """Return a fit from what is recorded already; None where the fit at hand is to be asked for.

    Parameters
    ----------
    spec : ModelSpec
        The model at hand.
    request : FitRequest
        What it is asked for.
    fit : callable
        Fit a model as asked.
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
            own = _answered(spec.asking(spec.columns, study), sites, fit, whole=True)
            if own is not None:
                return own
            if not reuse and any(site.begun for site in sites.values()):
                return None
        for formula, columns in others:
            found = _answered(spec.asking(columns, study), sites, fit, whole=False)
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


def _answered(spec: LossSpec, sites: dict[str, RecordedSite], fit: Fit, *, whole: bool) -> Result | None:
    """Return a fit whose answers are recorded; None without one. ``whole``: all sites must have answered."""
    for site in sites.values():
        site.forget()
    try:
        found = fit(spec)
    except HdpError:
        return None
    return None if whole and any(site.lacked for site in sites.values()) else found


def _noted(result: Result, formula: str) -> Result:
    words = (
        f"{result.facts.method}; the stored release of {formula}, whose columns span the same, mapped to this formula"
    )
    return replace(result, facts=replace(result.facts, method=words))

"""Fits by Newton steps with a public Hessian (Ji et al. 2014, corrected): what may be asked, the rounds, the result."""

from dataclasses import replace
from functools import partial

from hdpstats._base.errors import MechanismError
from hdpstats.inference.sandwich import public_only
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.public_hessian.estimate import Path, estimates
from hdpstats.mechanisms.public_hessian.query import (
    PublicHessian,
    PublicHessianQuery,
    PublicHessianRelease,
)
from hdpstats.mechanisms.public_hessian.request import (
    LEAST_RIDGE,
    Newton,
    advance,
    balanced_ridge,
    costs_of,
    longest_row,
    public_people,
    queries_at,
    standardised,
)
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.models.model_spec import LossSpec
from hdpstats.models.regression_spec import RegressionSpec
from hdpstats.models.request import ONLY, FitRequest, SiteRecords, ask_rounds, private_result, record_counts
from hdpstats.public.fit import WhitenedPublic, public_rows
from hdpstats.records.estimate import Estimate
from hdpstats.records.model import RegressionModel
from hdpstats.results import Result


def fit_public_hessian(spec: LossSpec, options: PublicHessian, request: FitRequest) -> Result:
    """Ask the sites round by round and read their answers.

    Raises
    ------
    MechanismError, InsufficientBudget
        Before anything is charged: what all rounds cost must be left before the first is asked.
    """
    state = open_public_hessian(spec, options, replicate=request.replicate)

    def first(site: SiteRecords) -> PublicHessianQuery:
        known = replace(state, sites={ONLY: _site(options, site)})
        return queries_at(known, known.start, (ONLY,), round=0)[ONLY]

    counts = record_counts(spec, request, first)
    state = replace(state, sites={name: _site(options, each) for name, each in counts.sites.items()})
    if options.ridge is None:
        state = replace(state, ridge=balanced_ridge(state, relation=spec.study.relation))
    end, rounds = ask_rounds(spec.study, partial(advance, state), PublicHessianRelease)
    parts = rounds.contributions(counts)
    path = Path(asked=rounds.asked, answered=rounds.answered, end=end)
    found = estimates(state, path, public_only=_public_only(spec), T=state.model.geometry.to_raw(), terms=spec.terms)
    steps = "1 step" if state.rounds == 1 else f"{state.rounds} steps"
    where = "" if len(spec.study.sites) == 1 else f" at {len(parts.given)} sites"
    facts = spec.facts(
        f"Newton's method in {steps}{where} with a public Hessian (Ji et al. 2014, corrected)",
        records=sum(state.sites[name].records for name in parts.given),
        public=state.public.number,
        model=state.model,
    )
    return private_result(spec, request, parts, facts=facts, found=found)


def _public_only(spec: LossSpec) -> Estimate | None:
    """Return the public fit as every other mechanism has it: in its own whitening, nothing cut."""
    public = spec.public
    if not isinstance(public, WhitenedPublic) or public.fit is None:
        return None
    return public_only(public.fit, public.geometry.to_raw(), terms=spec.terms)


def open_public_hessian(spec: LossSpec, options: PublicHessian, *, replicate: int) -> Newton:
    """Return everything public about a fit but its sites, or raise MechanismError where no proof covers it."""
    if not isinstance(spec, RegressionSpec) or not isinstance(spec.loss, LogisticLoss):
        raise _refusal("Newton steps with a public Hessian are for logistic regressions")
    if spec.weights is not None or spec.offset is not None:
        raise _refusal("Newton steps with a public Hessian are proved without weights and offset")
    table = spec.study.public
    if table is None or spec.public is None or spec.public.fit is None:
        raise _refusal("Newton steps with a public Hessian need (40 complete) public rows with the outcome")
    design = spec.design
    rows = public_rows(table, design, spec.response, weights=None, offset=None)
    if rows.y is None:
        raise _refusal("Newton steps with a public Hessian need public rows with the outcome")
    geometry = standardised(rows.X, intercept=design.intercept)
    norm = longest_row(geometry, lower=design.lower, upper=design.upper, truncation=options.truncation)
    return Newton(
        model=RegressionModel(formula=design.canonical, loss=spec.loss.name, geometry=geometry),
        public=public_people(rows.X, rows.y, geometry, truncation=options.truncation, norm=norm),
        truncation=options.truncation,
        norm=norm,
        ridge=LEAST_RIDGE if options.ridge is None else options.ridge,
        rounds=options.rounds,
        from_public=options.start == "public fit",
        sites={},
        schema_sha256=spec.study.schema.sha256,
        public_sha256=table.sha256,
        replicate=replicate,
    )


def _site(options: PublicHessian, site: SiteRecords) -> SiteRounds:
    epsilon, delta = site.request.epsilon, site.request.delta
    return SiteRounds(
        records=site.records,
        records_sd=site.records_sd,
        epsilon=epsilon,
        delta=delta,
        costs=costs_of(epsilon, delta, rounds=options.rounds),
    )


def _refusal(reason: str) -> MechanismError:
    return MechanismError(f"{reason}; use mechanism='objective'", available=("objective",))

"""Logistic regressions by Newton steps with a public Hessian: rounds, predictions, results.

A prediction has the rounds of a fit as they would go (`expected_path`). At every place each site's sum is taken to be
the public people's mean score there, times the site's number of people. The distribution of the noise is that of the
fit, so that `hdpstats.mechanisms.public_hessian.estimate` gives from such rounds the errors that a fit would report.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.regression.public import public_rows
from hdpstats.families.regression.spec import RegressionSpec
from hdpstats.families.spec import LossSpec, refusal
from hdpstats.inference.sandwich import PredictedErrors, penalised
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.public_hessian import PublicHessian, PublicHessianQuery, PublicHessianRelease
from hdpstats.mechanisms.public_hessian import request as public_hessian
from hdpstats.mechanisms.public_hessian.estimate import Path
from hdpstats.mechanisms.public_hessian.estimate import estimates as hessian_estimates
from hdpstats.mechanisms.public_hessian.request import Newton, Queries, Releases, advance, place_of
from hdpstats.mechanisms.public_hessian.site import calibrate
from hdpstats.mechanisms.score_sums import SiteRounds
from hdpstats.models.fit_mechanism import FitMechanism, Prediction
from hdpstats.models.private_result import ask_rounds, private_result
from hdpstats.models.request import ONLY, FitRequest
from hdpstats.models.rounds import rounds_of_sites
from hdpstats.models.site_records import SiteRecords, planned_records, record_counts
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.estimate import Estimate, Estimates
from hdpstats.records.model import RegressionModel
from hdpstats.results import Result


@final
class PublicHessianNewton(FitMechanism):
    """Newton's method with a Hessian of public people: in every round sites release noisy sums of scores."""

    options = PublicHessian

    def fit(self, spec: LossSpec, options: PublicHessian, request: FitRequest) -> Result:
        """Ask the sites round by round and read their answers.

        Raises
        ------
        MechanismError, InsufficientBudget
            Before anything is charged: what all rounds cost must be left before the first is asked.
        """
        state = open_public_hessian(spec, options, replicate=request.replicate)
        costs = partial(public_hessian.costs_of, rounds=options.rounds)

        def first(site: SiteRecords) -> PublicHessianQuery:
            known = replace(state, sites=rounds_of_sites({ONLY: site}, costs))
            return public_hessian.queries_at(known, known.start, (ONLY,), round=0)[ONLY]

        counts = record_counts(spec, request, first)
        state = _with_sites(state, options, rounds_of_sites(counts.sites, costs), spec)
        end, rounds = ask_rounds(spec.study, partial(advance, state), PublicHessianRelease)
        parts = rounds.contributions(counts)
        found = _read(spec, state, Path(asked=rounds.asked, answered=rounds.answered, end=end))
        steps = "1 step" if state.rounds == 1 else f"{state.rounds} steps"
        where = "" if len(spec.study.sites) == 1 else f" at {len(parts.given)} sites"
        facts = spec.facts(
            f"Newton's method in {steps}{where} with a public Hessian (Ji et al. 2014, corrected)",
            records=sum(state.sites[name].records for name in parts.given),
            public=state.public.number,
            model=state.model,
        )
        return private_result(spec, request, parts, facts=facts, found=found)

    def plan(
        self, spec: LossSpec, options: PublicHessian, request: FitRequest, people: Mapping[str, int]
    ) -> Prediction:
        """Read the rounds that are expected of private people like the public ones."""
        sites = planned_records(spec, request, people)
        costs = partial(public_hessian.costs_of, rounds=options.rounds)
        state = open_public_hessian(spec, options, replicate=1)
        state = _with_sites(state, options, rounds_of_sites(sites, costs), spec)
        found = _read(spec, state, expected_path(state, relation=spec.study.relation))
        private, pooled, public = found.private_only, found.pooled or found.private_only, found.penalised
        errors = PredictedErrors(
            reported=np.asarray(pooled.bse.to_numpy()),
            sampling=np.sqrt(np.diag(private.sampling)),
            privacy=np.sqrt(np.diag(private.privacy)),
            public=None if public is None else np.asarray(public.bse.to_numpy()),
        )
        return Prediction(mechanism=options, errors=errors, reported=True, sites=sites)


def _read(spec: LossSpec, state: Newton, path: Path) -> Estimates:
    """Return the estimates from the rounds of a fit, answered or expected."""
    return hessian_estimates(state, path, penalised=_penalised(spec), T=spec.to_terms(state.model), terms=spec.terms)


def _with_sites(
    state: public_hessian.Newton, options: PublicHessian, sites: Mapping[str, SiteRounds], spec: LossSpec
) -> public_hessian.Newton:
    """Return a fit with its sites, and with the ridge that suits their noise where none was given."""
    known = replace(state, sites=sites)
    if options.ridge is not None:
        return known
    return replace(known, ridge=public_hessian.balanced_ridge(known, relation=spec.study.relation))


def _penalised(spec: LossSpec) -> Estimate | None:
    """Return the public fit as every other mechanism has it: in its own whitening, nothing cut."""
    public = spec.public
    if public is None or public.fit is None:
        return None
    return penalised(public.fit, spec.columns.to_terms @ public.geometry.to_raw(), terms=spec.terms)


def open_public_hessian(spec: LossSpec, options: PublicHessian, *, replicate: int) -> public_hessian.Newton:
    """Return everything public about a fit but its sites, or raise MechanismError where no proof covers it."""
    if not isinstance(spec, RegressionSpec) or spec.loss.name != LogisticLoss.name:
        raise refusal("Newton steps with a public Hessian are for logistic regressions")
    if spec.weights is not None or spec.offset is not None:
        raise refusal("Newton steps with a public Hessian are proved without weights and offset")
    table = spec.study.public
    if table is None or spec.public is None or spec.public.fit is None:
        raise refusal("Newton steps with a public Hessian need (40 complete) public rows with the outcome")
    design = spec.asked.design
    rows = public_rows(table, design, spec.response, weights=None, offset=None)
    if rows.y is None:
        raise refusal("Newton steps with a public Hessian need public rows with the outcome")
    geometry = public_hessian.standardised(rows.X, intercept=design.intercept)
    norm = public_hessian.longest_row(geometry, lower=design.lower, upper=design.upper, truncation=options.truncation)
    return public_hessian.Newton(
        model=RegressionModel(formula=design.canonical, loss=spec.loss.name, geometry=geometry),
        public=public_hessian.public_people(rows.X, rows.y, geometry, truncation=options.truncation, norm=norm),
        truncation=options.truncation,
        norm=norm,
        ridge=public_hessian.LEAST_RIDGE if options.ridge is None else options.ridge,
        rounds=options.rounds,
        from_public=options.start == "public fit",
        sites={},
        schema_sha256=spec.study.schema.sha256,
        public_sha256=table.sha256,
        replicate=replicate,
    )


def expected_path(state: Newton, *, relation: Relation) -> Path:
    """Return the rounds of a fit to people like the public ones, none of whose sums has noise in it."""
    asked: list[Queries] = []
    answered: list[Releases] = []
    while not isinstance(place := advance(state, asked, answered), np.ndarray):
        mean = state.public.gradient(place_of(place)) / state.public.number
        asked.append(place)
        answered.append(
            {
                name: _expected(query, state.sites[name].records, mean, relation=relation)
                for name, query in place.items()
            }
        )
    return Path(asked=asked, answered=answered, end=place)


def _expected(query: PublicHessianQuery, records: int, mean: FloatArray, *, relation: Relation) -> PublicHessianRelease:
    """Return what a site of so many people would release, but for the noise, which is described only."""
    calibration = calibrate(query, relation=relation)
    return PublicHessianRelease(
        total=tuple((records * mean).tolist()),
        noise_sd=calibration.noise_sd,
        grid=float(calibration.grid),
        records=records,
        events=(calibration.event,),
    )

"""A hazard model on a study: intervals, baseline and caps from public facts, the query that a fit asks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, Final, final

import numpy as np
import scipy
from scipy.special import expit

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.families.hazard.bounds import HazardPersonLoss
from hdpstats.families.hazard.caps import flat_cap
from hdpstats.families.hazard.outcomes import SurvivalOutcomes, followed_as_public, followed_to_horizon
from hdpstats.families.hazard.public import LATE, HazardSide, hazard_side, measured_coverage, spell_scores
from hdpstats.families.hazard.public_fit import (
    Baseline,
    PublicSpells,
    completed_people,
    hazard_likelihood,
    mixed_baseline,
    public_spells,
    spells_of_rows,
)
from hdpstats.families.hazard.weighted import WeightedHazards, weighted_hazard_fit, weighted_hazards
from hdpstats.families.outcomes import Outcomes
from hdpstats.families.overlap_spec import COUNTS_ONCE, FROM_WEIGHTED_FOLLOWED, both_arms, treated_rows
from hdpstats.families.spec import (
    RADIUS,
    LossSpec,
    Risk,
    WeightedFit,
    WeightedScores,
    case_weights,
    fitted,
    of_model,
    offsets,
    refusal,
    sample_rows,
    spread_scores,
)
from hdpstats.formulas.column_space import CanonicalDesign, canonical_design
from hdpstats.formulas.compiler import SurvivalDesign, compile_survival
from hdpstats.formulas.design import Design, reference_rows
from hdpstats.losses import LINKS
from hdpstats.mechanisms.clipped_newton.estimate import ALIKE_IN_FOLLOW_UP, FOLLOWED_TO_HORIZON
from hdpstats.mechanisms.perturbation import ObjectivePerturbation
from hdpstats.mechanisms.perturbation.hazard_request import (
    OVER_TIME,
    allowance,
    choose_flat,
    choose_loss,
    choose_ridge,
    public_tau,
)
from hdpstats.mechanisms.perturbation.request import Asked, Recommended
from hdpstats.public.enough import least_rows
from hdpstats.public.moments import Coverage, Moments
from hdpstats.public.row_weights import APART, LEAST_SD, Allowance, UnseenPeople, moved_rows
from hdpstats.raking.information import with_described
from hdpstats.raking.raking import PublicVariables
from hdpstats.records.averages import CohortMoments
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry, at_radius, whiten
from hdpstats.records.model import HazardCap, HazardModel, QueryModel, TimeGrid
from hdpstats.records.query import MechanismOptions, PointQuery, unstack
from hdpstats.results import NOT_CHECKED, DeferredCheck, HazardFacts, ModelFacts, check_public
from hdpstats.results.propensity import Weighting, rows_for_errors
from hdpstats.schema.columns import Categorical, Duration
from hdpstats.schema.public import PublicTable
from hdpstats.schema.table import AdmittedTable
from hdpstats.sites import Study

LARGEST_TOTAL = 1e4
"""The largest total of a hazard cap."""

COVERED_UNLIKE: Final = {
    link: Coverage(fits=f"hazard models ({link}) with late entry by clipped scores", share=0.86, besides=LATE)
    for link in ("logit", "cloglog")
}
"""See `LossSpec.covered_unlike`: by the link."""

GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0
"""Its multiples, modulo 1, are spread evenly."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class HazardSpec(LossSpec):
    """A discrete-time hazard model on a study: everything here is public.

    Attributes
    ----------
    study, design : Study, SurvivalDesign
        The data and the columns of the formula.
    link : str
        A name of `hdpstats.losses.LINKS`.
    grid : TimeGrid
        The intervals.
    features : (q, e) float64
        Baseline features as users know them, and their names; with strata those of every stratum, (G q, G e).
    weights, offset : str or None
        Columns of the schema.
    row_norm, total : float or None
        Declared bounds: on the scaled row norm without public rows, on the sum of a person's caps.
    overlap : Weighting or None
        How people are weighted by their chance of treatment; None where they are not.
    """

    study: Study
    design: SurvivalDesign
    link: str
    grid: TimeGrid
    features: FloatArray
    feature_names: tuple[str, ...]
    weights: str | None
    offset: str | None
    row_norm: float | None
    total: float | None
    overlap: Weighting | None = None
    kind: ClassVar[str] = HazardModel.kind

    def candidates(self, delta: Fraction) -> tuple[MechanismOptions, ...]:
        """Return objective perturbation, with a delta, public people and no weighting also noisy Newton steps."""
        return LossSpec.candidates(self, delta) if self.overlap is None else (ObjectivePerturbation(),)

    @property
    def assumption(self) -> str:
        """What predicted errors rest on, in words."""
        return LossSpec.assumption.__get__(self) if self.overlap is None else FROM_WEIGHTED_FOLLOWED

    @property
    def loss_words(self) -> str:
        """The loss, in words."""
        return "this loss" if self.overlap is None else "people weighted by a propensity model"

    @property
    def classical(self) -> str:
        """How public rows alone are fitted, in words."""
        weighted = " weighted by overlap weights, errors by stacked equations with the propensity model"
        return f"maximum likelihood on public rows{'' if self.overlap is None else weighted}"

    @property
    def formula(self) -> str:
        """The formula as it was given."""
        return self.design.formula

    @cached_property
    def columns(self) -> CanonicalDesign:
        """The columns that a query is about: those of the formula span the same."""
        return canonical_design(self.design.covariates, self.study.schema)

    @cached_property
    def asked(self) -> SurvivalDesign:
        """What a query is about, times and events included."""
        return replace(self.design, covariates=self.columns.design)

    @property
    def question(self) -> str:
        """The formula of a query, strata included."""
        return self.asked.canonical

    @property
    def causes(self) -> tuple[str, ...]:
        """The kinds of event."""
        return self.design.causes(self.study.schema)

    @property
    def terms(self) -> tuple[str, ...]:
        """Baseline names, then covariates, for each cause; with several causes prefixed by it."""
        one = (*self.feature_names, *self.design.names)
        if len(self.causes) == 1:
            return one
        return tuple(f"{cause}: {name}" for cause in self.causes for name in one)

    @property
    def outcome(self) -> tuple[str, ...]:
        """The columns of the outcome, times first."""
        start = () if self.design.start is None else (self.design.start,)
        return (*start, self.design.stop, self.design.event)

    @property
    def follow_up(self) -> tuple[str, ...]:
        """The same."""
        return self.outcome

    @property
    def averaged_times(self) -> tuple[str | None, tuple[float, ...]] | None:
        """The end of follow-up and where intervals begin.

        None with late entry, strata or several rows of a person: shares of people at risk do not tell there how many
        begin an interval, in which stratum, with which covariates; and without public follow-up.
        """
        if self.public is None or self.design.strata or self.design.start is not None or self.study.unit is not None:
            return None
        return self.design.stop, tuple(self.grid.starts[1:].tolist())

    def canonical(self, formula: str) -> str:
        """Return what a formula says, in one spelling."""
        return compile_survival(formula, self.study.schema).canonical

    def risk(self, values: FloatArray, cause: object) -> Risk:
        """Return the order by the linear predictor of a cause, the first by default."""
        if self.overlap is not None:
            raise MechanismError(COUNTS_ONCE)
        if self.study.unit is not None or self.design.start is not None:
            raise ArgumentError(
                "evaluate is for people with one row who enter at time 0, Surv(time, event): with entry times or "
                "changing covariates a person has no one risk group",
                argument="formula",
            )
        if self.design.strata:
            raise ArgumentError(
                "evaluate orders people by their covariates, and strata have hazards of their own: write factor(x) in "
                "place of strata(x), or look at the strata one by one",
                argument="formula",
            )
        name = choice(self.causes[0] if cause is None else cause, name="cause", options=self.causes)
        place = self.causes.index(name)
        own = values.reshape(len(self.causes), -1)[place, len(self.feature_names) :]
        if not own.size:
            raise ArgumentError("evaluate needs a covariate: without one nobody differs in risk", argument="formula")
        return Risk(
            formula=self.design.canonical,
            coefficients=tuple(own.tolist()),
            covariates=tuple(column for column in self.design.covariates.needs if column != self.design.event),
            matrix=lambda rows: self.design.covariates.matrix(rows)[:, 1:],
            grid=self.grid,
            causes=self.causes,
            cause=place,
        )

    @property
    def fits_weighted(self) -> bool:
        """Yes, of people who are not weighted by their chance of treatment."""
        return self.overlap is None

    def weighted(self, weights: FloatArray) -> WeightedFit:
        """Return the fit to the public people, weighted (n,)."""
        if self.study.unit is not None:
            raise ArgumentError("a weighted sample has one row per person; this study has unit=", argument="unit")
        if self.design.strata:
            raise ArgumentError("weighted rows are fitted with one baseline, not with strata()", argument="formula")
        rows, complete = sample_rows(self)
        own = case_weights(rows, self.weights)
        case, shift = weights[complete] * own, offsets(rows, self.offset)
        X, causes = self.design.covariates.evaluate_unclipped(rows), len(self.causes)
        found = spells_of_rows(rows, X, self.design, self.grid, weights=case, offset=shift)
        positive = replace(found, weights=np.maximum(found.weights, 0.0))
        estimate = hazard_likelihood(
            positive, self.features, link=self.link, causes=causes, terms=self.terms, decided=False
        )
        kept = np.isfinite(estimate.values)
        columns = np.concatenate([[True], kept.reshape(causes, -1)[0, self.features.shape[1] :]])
        identified = replace(found, X=found.X[:, columns])

        def at(theta: FloatArray) -> WeightedScores:
            by_spell = spell_scores(identified, self.features, values=theta, link=self.link, causes=causes)
            scores = np.zeros((rows.rows, len(theta)))
            np.add.at(scores, found.row, own[found.row][:, None] * by_spell.scores)
            return WeightedScores(values=theta, scores=spread_scores(scores, complete), bread=by_spell.information)

        return WeightedFit(estimate=estimate, at=at)

    def check_listed(self) -> None:
        """Refuse several rows of a person: covariates that change are those of who is still followed."""
        if self.study.unit is not None:
            raise refusal(
                "clipped_newton of hazards is proved for one row per person: covariates must not vary in time"
            )

    def expected_outcomes(self, *, censoring: str) -> tuple[HazardModel, Outcomes]:
        """Return the model with a cap that ends nobody's follow-up, and the public people in it."""
        public = fitted(self.chooser)
        if self.design.strata:
            raise refusal("clipped_newton is proved for one baseline, not for strata")
        if len(self.causes) != 1:
            raise refusal("clipped_newton is proved for one kind of event, not for competing ones")
        q, p, level = self.grid.intervals, len(public.geometry.location), self.largest_offset
        highest = float(np.exp(LINKS[self.link].caps(np.array(level + self.largest_offset), 0.0)))
        total = max(1.0, q * highest * (1.0 + 1e-9))
        if total > LARGEST_TOTAL:
            raise refusal("clipped_newton cannot bound hazards with offsets of this size")
        cap = HazardCap(total=total, margin=0.0, baseline=((level,) * q,), slopes=((0.0,) * p,))
        model = self.model_at(public.baseline, at_radius(public.geometry, RADIUS), cap)
        side = public.at(model.geometry, model.cap)
        spells = side.spells
        followed = (
            followed_to_horizon(spells.entry, q)
            if censoring == "administrative"
            else followed_as_public(entry=spells.entry, last=spells.last, event=spells.cause, intervals=q)
        )
        return model, SurvivalOutcomes(spells=spells, followed=followed, whole=side.people)

    @property
    def clearly(self) -> float:
        """Smaller at all: hazards rest on public people alike by either mechanism."""
        return 1.0

    @property
    def restricts_outcomes(self) -> bool:
        """Hardly."""
        return False

    def raked_starts(self, *, censoring: str) -> FloatArray:
        """Return where intervals begin at which raked people are at risk as described; none to the horizon."""
        return np.zeros(0) if censoring == "administrative" else self.grid.starts

    @property
    def residuals_grow(self) -> float:
        """More than in regressions: hazards are exponential in covariates.

        Colon's patients with up to 33 positive nodes, public people of other ages: with 1 the clip left the slope of
        nodes 1.3 and 1.8 standard errors (epsilon 1 and 3) from the ordinary one with 300,000 people.
        """
        return 4.0

    def likeness(self, *, censoring: str) -> str:
        """Return in what private people are taken to be as public ones, in words."""
        return FOLLOWED_TO_HORIZON if censoring == "administrative" else ALIKE_IN_FOLLOW_UP

    def covered_unlike(self, censoring: str) -> Coverage | None:
        """Of late entry alone; not where everybody is taken to be followed to the horizon."""
        several = self.study.unit is not None or bool(self.design.strata) or len(self.causes) > 1
        if self.design.start is None or several or censoring == "administrative":
            return None
        return COVERED_UNLIKE.get(self.link)

    @property
    def meat(self) -> float | None:
        """The largest case weight times ``sup J / H`` of a flat cap: ``sqrt(1 + h^2)`` for the logit link.

        None where weights by propensity make a score's covariance another than its Hessian.
        """
        if self.overlap is not None:
            return None
        cap = (self.total or 4.0) / self.grid.intervals
        return self.largest_weight * (1.0 + cap)

    @property
    def least_public_rows(self) -> int:
        """How many complete public people the model needs: the coefficients of covariates count, and two more."""
        return least_rows(1 + len(self.asked.covariates.names))

    @cached_property
    def public(self) -> HazardSide | WeightedHazards | None:
        """The public people with their fit; None where too few are followed or the outcome is not public."""
        if self.overlap is not None:
            return self._weighted(self.overlap)
        table = self.study.public
        if table is None or any(name not in table.names for name in self.needs):
            return None
        rows = public_spells(table, self.asked, self.grid, weights=self.weights, offset=self.offset)
        if rows.seen.followed < self.least_public_rows:
            return None
        return hazard_side(
            rows,
            self.asked,
            self.features,
            link=self.link,
            causes=len(self.causes),
            starts=self.grid.starts,
            variables=self._variables(table, rows),
            unseen=self._unseen,
            covered_unlike=measured_coverage(
                self.asked, link=self.link, causes=len(self.causes), several=self.study.unit is not None
            ),
        )

    @property
    def chooser(self) -> HazardSide | None:
        """The public people by whom a query is chosen: of weighted people those in the arms in which they were."""
        return self.public.own if isinstance(self.public, WeightedHazards) else self.public

    def _weighted(self, overlap: Weighting) -> WeightedHazards:
        """Return the public side of people weighted by their chance of treatment, or refuse too few public rows."""
        fit = overlap.propensity.fit
        standing, propensity, table = rows_for_errors(
            self.study, overlap, self.outcome, what="a hazard model of weighted people"
        )
        X, treated = propensity.matrix(table), table.numeric[overlap.treatment]
        e = expit(X @ fit.estimate.values)
        rows = spells_of_rows(
            table,
            self.asked.covariates.matrix(table),
            self.asked,
            self.grid,
            weights=np.where(treated == 1.0, 1.0 - e, e),
            offset=np.zeros(table.rows),
        )
        return weighted_hazards(
            rows,
            self.asked,
            self.features,
            link=self.link,
            starts=self.grid.starts,
            propensity=X,
            arms=both_arms(overlap, self.study, self.asked.covariates),
            standing=standing,
            noise=fit.estimate.privacy,
            raked=fit.released.description is not None,
        )

    def _unseen(self, geometry: Geometry) -> UnseenPeople:
        """Return people whom public ones do not show."""
        design = self.asked.covariates
        return UnseenPeople.of(
            design, [name for name in design.needs if name != self.asked.event], self.study.schema, geometry
        )

    def _variables(self, table: PublicTable, rows: PublicSpells) -> PublicVariables | None:
        """Return the public people by variables, where each of them, and each private one, has one spell from 0."""
        if self.study.unit is not None or self.design.start is not None or self.design.strata:
            return None
        people = completed_people(table, self.asked, self.extra).table
        if people.persons is not None or len(rows.row) < people.rows:
            return None
        return PublicVariables(table=people, design=self.asked.covariates)

    @property
    def public_sha256(self) -> str | None:
        """The hash of the public rows that a query rests on; None without them."""
        table = self.study.public
        return None if table is None or (self.public is None and self._whitened is None) else table.sha256

    def model_at(self, baseline: Baseline, geometry: Geometry, cap: HazardCap) -> HazardModel:
        """Return what a query is about, with a baseline, in a geometry and under a cap."""
        return HazardModel(
            formula=self.asked.canonical,
            link=self.link,
            grid=self.grid,
            baseline=tuple(tuple(row) for row in baseline.mixed.tolist()),
            geometry=geometry,
            cap=cap,
            weights=self.weights,
            offset=self.offset,
            weighting=None if self.overlap is None else self.overlap.record,
        )

    def choose_model(self, sites: Sequence[Asked], *, share: Fraction) -> HazardModel:
        """Return what all sites are asked about; see `LossSpec.choose_model`."""
        side = self.chooser
        if side is not None:
            person_loss = self.person_loss(self.model_at(side.baseline, side.geometry, side.cap))
            relation = self.study.relation
            return choose_loss(
                person_loss, side, sites, total=self.total, apart=self.apart, share=share, relation=relation
            ).model
        geometry = self._whitened or self.asked.covariates.box(self.row_norm)
        cap = flat_cap(
            self.link,
            total=self.total,
            intervals=self.grid.intervals,
            causes=len(self.causes),
            covariates=len(geometry.location),
            weighs=self.study.unit is None,
        )
        copies = len(self.features) // self.grid.intervals
        cap = replace(cap, baseline=tuple(row * copies for row in cap.baseline))
        return self.model_at(self._flat_baseline, geometry, cap)

    def choose_ridge(self, model: QueryModel, *, epsilon: Fraction, share: Fraction, records: int) -> Recommended:
        """Return centre and ridge of a fit by objective perturbation; ``share`` is spent on a noisy Hessian."""
        side, spent, relation = self.chooser, epsilon * (1 - share), self.study.relation
        person_loss = self.person_loss(model)
        if side is None:
            return choose_flat(person_loss, self._flat_baseline, epsilon=spent, relation=relation)
        return choose_ridge(person_loss, side, records=records, epsilon=spent, relation=relation)

    def allowance(self, model: QueryModel, sites: Sequence[tuple[int, CohortMoments | None]] = ()) -> Allowance | None:
        """Return what weights and caps of people may do to an estimate; None where nobody is weighted.

        Without public outcomes it is that of weights of rows alone, for people of the same follow-up who are like the
        public ones, or spread evenly over the schema's bounds. A flat cap is the same for everybody.
        """
        if self.chooser is not None:
            told = partial(allowance, of_model(model, HazardModel), apart=self.apart)
            return with_described(self.chooser, sites, allowance=told)
        if not self.weights_rows(model.geometry):
            return None
        rows = whiten(model.geometry, self.asked.covariates.matrix(self._reference_rows()))
        unseen = None if self._whitened is None else self._unseen(model.geometry)
        sd = np.std(rows.X, axis=0)
        sd[0] = 1.0
        taken = moved_rows(rows.X, rows.weights, model.geometry, unseen=unseen)
        found = taken.allowance(APART / np.maximum(sd, LEAST_SD))
        level = np.linalg.solve(self._flat_baseline.mixing, self._flat_baseline.constant)
        block = scipy.linalg.block_diag(level[:, None], np.eye(len(sd) - 1))
        whole = np.kron(np.eye(len(self.causes)), np.asarray(block @ found.covariance @ block.T))
        return replace(found, covariance=whole)

    @cached_property
    def apart(self) -> float:
        """How far apart coefficients of people who count more and less may be, as public people tell it."""
        return (
            OVER_TIME * APART
            if self.chooser is None
            else public_tau(self.chooser, time_varying=self.study.unit is not None)
        )

    @property
    def _flat_baseline(self) -> Baseline:
        return mixed_baseline(self.features)

    @cached_property
    def _whitened(self) -> Geometry | None:
        """The geometry of public covariates where the outcome is not public."""
        rows = None if self.public is not None else self._public_rows(self.asked.covariates)
        if rows is None or len(rows) < least_rows(1 + rows.shape[1]):
            return None
        geometry = self.asked.covariates.whitening(rows)
        return at_radius(geometry, max(1.0, float(np.sqrt(len(geometry.location)))))

    def _public_rows(self, covariates: Design) -> FloatArray | None:
        """Return the rows of a design matrix of public people, whose outcome need not be public."""
        table = self.study.public
        names = tuple(name for name in covariates.needs if name != self.design.event)
        if table is None or any(name not in table.names for name in names):
            return None
        return covariates.matrix(table.admitted(names))

    def person_loss(self, model: QueryModel) -> HazardPersonLoss:
        """Return one person's capped loss."""
        return HazardPersonLoss(
            model=of_model(model, HazardModel),
            design=self.asked,
            largest_weight=self.largest_weight,
            largest_offset=self.largest_offset,
            most_rows=self.study.most_rows,
            time_varying=self.study.unit is not None,
        )

    def side(self, model: QueryModel) -> HazardSide | WeightedHazards | None:
        """Return the public people at the query's radius and cap."""
        return None if self.public is None else self.public.at(model.geometry, of_model(model, HazardModel).cap)

    def reference(self, model: QueryModel, described: CohortMoments | None = None) -> HazardSide:  # noqa: ARG002
        """Refuse: without public follow-up nothing predicts who will be at risk when."""
        known = self.study.public is not None and all(name in self.study.public.names for name in self.needs)
        few = (self.few_public or f"fewer than {self.least_public_rows} are complete and followed.") if known else ""
        raise ArgumentError(
            "plan needs public people with the outcome for a hazard model: they show who is at risk when"
            + (f". {few} Give the study more of them" if known else "; give the study public="),
            argument="public",
        )

    def expected_moments(self, query: PointQuery, *, records: int, described: CohortMoments | None = None) -> Moments:
        """Return the moments of the score to expect of private people, were they like the public ones.

        Without public follow-up, were they followed up to the horizon or the event under the constant hazard by which
        half of them have it, with covariates spread evenly over the schema, or like public ones.
        """
        if self.public is not None:
            return super().expected_moments(query, records=records, described=described)
        grid, people = 2.0**-30, self.person_loss(query.model).people(self._reference_rows())
        stacked = np.asarray(grid * people.stacked_hessian(np.array(query.centre), grid=grid), dtype=np.float64)
        H = unstack(stacked, query.dimension) * (max(records, 1) / people.count)
        return Moments(H=H, J=H)

    def _reference_rows(self) -> AdmittedTable:
        """Return people under a constant hazard, one row each."""
        design, public = self.asked, self.study.public
        names = [name for name in design.covariates.needs if name != design.event]
        names += [name for name, _ in design.strata if name not in names]
        if public is not None and self._whitened is not None and all(name in public.names for name in names):
            rows = public.admitted(names)
        else:
            rows = reference_rows(names, self.study.schema)
        place, none = np.arange(rows.rows), np.zeros(rows.rows)
        until = -np.log(1.0 - (place + 0.5) * GOLDEN % 1.0) / math.log(2.0)  # over the horizon
        numeric, codes = dict(rows.numeric), dict(rows.codes)
        numeric[design.stop] = self.grid.horizon * np.minimum(until, 1.0)
        numeric |= {name: none for name in (design.start, self.offset) if name is not None}
        numeric |= {name: none + 1.0 for name in (self.weights,) if name is not None}
        cause = 1 + place % len(self.causes) if design.level is None else design.level
        event = np.where(until < 1.0, cause, 0 if design.level != 0 else 1)
        if isinstance(self.study.schema[design.event], Categorical):
            codes[design.event] = event
        else:
            numeric[design.event] = event.astype(np.float64)
        persons = None if self.study.unit is None else place
        return AdmittedTable(
            numeric=numeric, codes=codes, rows=rows.rows, beyond={design.stop: until >= 1.0}, persons=persons
        )

    def to_terms(self, model: QueryModel) -> FloatArray:
        """Return the matrix from fitted coefficients to those of features and columns of the formula.

        The constants that the columns take from each other go to the baseline.
        """
        baseline = self._flat_baseline if self.public is None else self.public.baseline
        own = self.columns.to_terms
        e = len(baseline.constant)
        block = np.eye(e + len(own) - 1)
        block[:e, e:], block[e:, e:] = np.outer(baseline.constant, own[0, 1:]), own[1:, 1:]
        fitted = baseline.to_terms(model.geometry, len(self.causes))
        return np.asarray(np.kron(np.eye(len(self.causes)), block) @ fitted)

    def facts(
        self, method: str, *, records: int | None, public: int | None = None, model: QueryModel | None = None
    ) -> ModelFacts:
        """Return the public facts of a fit."""
        person = self.design.covariates.role("cluster")
        unit = "" if person is None else f"; cluster({person}) is the study's unit, the person"
        return ModelFacts(
            model="DiscreteHazard",
            formula=self.design.formula,
            response=self.design.canonical.partition(" ~ ")[0],
            method=method + unit,
            records=records,
            public_rows=public,
            weights=self.weights,
            offset=self.offset,
            loss=None,
            exponentiated=LINKS[self.link].exponentiated,
            hazard=self.hazard_facts(None if model is None else of_model(model, HazardModel)),
            propensity=None if self.overlap is None else self.overlap.propensity.formula,
        )

    def hazard_facts(self, model: HazardModel | None) -> HazardFacts:
        """Return the public facts about the time axis."""
        duration = self.study.schema[self.design.stop]
        return HazardFacts(
            link=self.link,
            grid=self.grid,
            unit_of_time=duration.unit if isinstance(duration, Duration) else None,
            start=self.design.start,
            stop=self.design.stop,
            event=self.design.event,
            causes=self.causes,
            baseline=tuple(tuple(row) for row in self.features.tolist()),
            baseline_names=self.feature_names,
            strata=tuple(name for name, _ in self.design.strata) or None,
            cap=None if model is None else cap_sentence(model),
            typical=self._typical,
        )

    @cached_property
    def _typical(self) -> tuple[float, ...] | None:
        rows = self._public_rows(self.design.covariates)
        return None if rows is None or not len(rows) else tuple(rows[:, 1:].mean(axis=0).tolist())

    def likelihood(self, *, small_sample: bool = False) -> tuple[Estimate, int]:  # noqa: ARG002
        """Return the maximum-likelihood fit to the public people as they are."""
        treated = None if self.overlap is None else treated_rows(self.overlap, self.study, self.needs)
        rows = self.public_rows(self.needs, outcome=self.needs, words="times and events")
        case, shift = case_weights(rows, self.weights), offsets(rows, self.offset)
        X = self.design.covariates.evaluate_unclipped(rows)
        found = spells_of_rows(rows, X, self.design, self.grid, weights=case, offset=shift)
        if treated is not None:
            return weighted_hazard_fit(found, treated, self.features, link=self.link, terms=self.terms), found.people
        estimate = hazard_likelihood(found, self.features, link=self.link, causes=len(self.causes), terms=self.terms)
        return estimate, found.people

    def check(self, facts: ModelFacts, values: FloatArray) -> DeferredCheck:
        """Return how coefficients discriminate and calibrate on the public people, where their outcome is public."""
        table = self.study.public
        if table is None or self.design.strata or self.overlap is not None:
            return NOT_CHECKED
        return DeferredCheck(compute=partial(check_public, facts=facts, values=values, public=table))


def cap_sentence(model: HazardModel) -> str:
    """Return in words how one person's part is limited."""
    total = f"{model.cap.total:.3g}"
    if model.cap.is_flat:
        return f"one person's hazards count up to {total} in sum, the same cap in every interval"
    factor = float(np.exp(model.cap.margin))
    if model.cap.weighs:
        return (
            f"an interval's loss saturates at {factor:.2g} times the public fit's hazard; people whose caps add up to "
            f"more than {total} count less"
        )
    return (
        f"an interval's loss saturates at {factor:.2g} times the public fit's hazard; follow-up ends before a person's "
        f"caps add up to more than {total}"
    )

"""The effect of a treatment among people weighted by their chance of it: what is asked, expected and read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import FormulaError, SchemaError, forgets_rows
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import text
from hdpstats.describe.tables import NO_SEED
from hdpstats.display import Report, Reported, columns, number
from hdpstats.families.spec import several_rows
from hdpstats.formulas.compiler import compile_design
from hdpstats.inference import draws
from hdpstats.inference.overlap_errors import OutcomeModel, PropensityErrors, WeightedPeople, outcome_model
from hdpstats.mechanisms.treatment_effect import (
    ARMS,
    BINARY,
    TreatmentEffectQuery,
    TreatmentEffectRelease,
    cells_of_arm,
)
from hdpstats.mechanisms.treatment_effect.estimate import (
    Cells,
    cells_of,
    effects_of,
    stacked_of,
)
from hdpstats.mechanisms.treatment_effect.site import prepare
from hdpstats.privacy.budget import epsilons_of, over_sites, release_epsilon, release_replicate
from hdpstats.records import codec
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import of_kind
from hdpstats.results.adjustment import Imbalance
from hdpstats.results.facts import design_of
from hdpstats.results.propensity import (
    Weighting,
    check_of_these_people,
    checked_weighting,
    complete_share,
    imbalance_left,
    resting_on,
    rows_for_errors,
)
from hdpstats.results.treatment_effect import TreatmentEffect, effects_frame, terms_of
from hdpstats.schema.columns import Binary, Continuous
from hdpstats.sites import Study
from hdpstats.sites.asking import ask
from hdpstats.sites.recipes import in_its_recipe
from hdpstats.sites.study import check_private, checked_study, guarantee_of, people_of, site_facts_of

EFFECT: Final = "the effect"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TreatmentEffectRequest:
    """A treatment effect that may be asked for: `plan` says how exact it would be, `release` spends.

    Attributes
    ----------
    study : Study
        The data.
    formula : str
        ``"outcome ~ treatment"``.
    outcome : str
        The column of the outcome.
    weighting : Weighting
        How people are weighted.
    most_rows : int or None
        Of people with several rows the most of which the outcome is averaged.
    people : WeightedPeople
        The public people who stand for the private ones.
    model : OutcomeModel
        How the outcome depends on the covariates among public people.
    public_rows : int
        How many of them there are.
    replicate : int
        The number of the draw.
    complete : float
        The share of private people who are expected to lack no cell, and so count.
    errors : PropensityErrors or None
        How the propensity's coefficients err, for plans before it was fitted; None for what its estimate says.
    """

    study: Study
    formula: str
    outcome: str
    weighting: Weighting
    most_rows: int | None
    people: WeightedPeople
    model: OutcomeModel
    public_rows: int
    replicate: int
    complete: float = 1.0
    errors: PropensityErrors | None = None

    @property
    def is_binary(self) -> bool:
        """Whether the outcome is binary."""
        return not isinstance(self.study.schema[self.outcome], Continuous)

    def query(self, epsilon: Fraction) -> TreatmentEffectQuery:
        """Return what each site is asked, the same of all of them."""
        study, column = self.study, self.study.schema[self.outcome]
        bounds = (column.lower, column.upper) if isinstance(column, Continuous) else (0.0, 1.0)
        return TreatmentEffectQuery(
            weighting=self.weighting.record,
            outcome=self.outcome,
            lower=bounds[0],
            upper=bounds[1],
            cells=cells_of_arm(binary=self.is_binary, most_rows=self.most_rows),
            most_rows=self.most_rows,
            epsilon=epsilon,
            schema_sha256=study.schema.sha256,
            public_sha256=None,
            replicate=self.replicate,
        )

    def plan(self, epsilon: float | Iterable[float], *, n: int | None = None) -> "TreatmentEffectPlan":
        """Return predicted standard errors of the effects by epsilon, at no cost.

        Outcomes are taken to be as those of public people, raked to what is known of the private ones. Who lacks a cell
        does not count: how many are complete in the propensity's columns follows from the number that its fit released,
        or as in public rows where there is none, and how many of these lack the outcome from public rows.

        Parameters
        ----------
        epsilon
            What the effect itself would cost: one value or several.
        n
            The number of private people, all at one site; by default that of the study.
        """
        records = people_of(self.study, n)
        people = {"": records}
        if n is None and self.study.sites:
            people = {name: site.records for name, site in self.study.sites.items()}
        frames = [self.planned(each, people).assign(epsilon=float(each)) for each in epsilons_of(epsilon)]
        frame = pd.concat(frames, ignore_index=True)
        names = ["epsilon", "effect", "expected", "std_error", "noise"]
        return TreatmentEffectPlan(frame=frame[names], records=records, formula=self.formula)

    def planned(self, epsilon: Fraction, people: Mapping[str, int]) -> pd.DataFrame:
        """Return the predicted effects of so many people at sites, with their standard errors and the noise in them."""
        query = self.query(epsilon)
        noise = tuple(prepare(query, site_facts_of(self.study, size)).noise_sd for size in people.values())
        counted = self.complete * sum(people.values())
        expected = expected_cells(query, self.people, self.model, records=counted, noise=noise)
        found, _, _ = self._estimate(expected, seed=NO_SEED)
        frame = effects_frame(found, binary=self.is_binary, alpha=0.05)
        parts = np.sqrt(np.maximum(np.diag(found.privacy), 0.0) / np.maximum(np.square(found.bse.to_numpy()), 1e-300))
        share = np.append(parts, [parts[2]] * (len(frame) - len(parts)))
        return frame.assign(expected=frame["estimate"], noise=frame["std_error"] * share)

    @in_its_recipe
    def release(self, epsilon: object, *, allow_large_epsilon: bool = False) -> TreatmentEffect:
        """Ask the sites, and return the effect."""
        study, weighting = self.study, self.weighting
        amount = release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
        check_private(study, "treatment_effect")
        query = self.query(amount)
        answered = ask(study, dict.fromkeys(study.sites, query))
        releases = {name: of_kind(each, TreatmentEffectRelease) for name, each in answered.releases.items()}
        guarantees = [guarantee_of(study, each) for each in releases.values()]
        own = guarantees[0] if len(study.sites) == 1 else over_sites(guarantees)
        cells = cells_of(query, list(releases.values()))
        hashes = [each.sha256 for each in (*weighting.propensity.releases, *releases.values())]
        estimate, imbalance, per_weight = self._estimate(cells, seed=codec.sha256(hashes))
        return TreatmentEffect(
            schema=study.schema,
            formula=self.formula,
            treatment=weighting.treatment,
            estimate=estimate,
            queries=tuple((name, query) for name in releases),
            releases=tuple(releases.items()),
            missing=tuple((each.site, each.reason) for each in answered.missing),
            guarantee=resting_on(own, weighting, own_name=EFFECT),
            before=weighting.propensity.releases,
            imbalance=imbalance,
            effective_share=self.people.effective_share,
            public_rows=self.public_rows,
            per_weight=per_weight,
        )

    def _estimate(self, cells: Cells, *, seed: str) -> tuple[Estimate, tuple[Imbalance, ...], tuple[float, float]]:
        """Return the effects of cells with their errors, what imbalance noise leaves, and `Stacked.per_weight`."""
        rng = draws.generator(codec.sha256(["propensity", seed]))
        errors = self.errors or PropensityErrors.of(self.weighting.propensity.estimate, rng)
        stacked = stacked_of(cells, self.people, self.model, errors)
        query = cells.query
        binary, positive = self.is_binary, query.lower >= 0.0
        terms = terms_of(self.study.schema, self.weighting.treatment, binary=binary, positive=positive)
        found = effects_of(cells, stacked, errors, binary=binary, terms=terms, seed=seed)
        names = self.weighting.propensity.estimate.terms
        left = imbalance_left(self.people, errors.privacy, names, rng)
        untreated, treated = stacked.per_weight.tolist()
        return found, left, (untreated, treated)

    def __repr__(self) -> str:
        return f"<treatment effect to ask for: {self.formula}>"


@forgets_rows
def treatment_effect(
    formula: str,
    data: Study,
    weighting: Weighting,
    epsilon: float | None = None,
    *,
    replicate: int = 1,
    allow_large_epsilon: bool = False,
) -> "TreatmentEffectRequest | TreatmentEffect":
    """Estimate the effect of a treatment on an outcome among people weighted by their chance of treatment.

    Of a binary outcome it gives the risk in each arm, their difference, ratio, odds ratio and the number needed to
    treat; of a number within declared bounds the means, their difference and, where they are from 0 on, ratio. The
    weights balance the covariates of the propensity model between the arms; the effect is that among people whose
    treatment was in doubt. Proof: `hdpstats.mechanisms.treatment_effect.site`. Errors:
    `hdpstats.inference.overlap_errors`.

    Parameters
    ----------
    formula
        ``"outcome ~ treatment"``: a column declared as `Binary` or `Continuous`, and the treatment of the weighting.
        Of people with several rows (``unit=``) the outcome is the mean over a person's rows that have one, at most
        ``max_rows_per_unit`` of them, and arm and weight are those of the row that the propensity model counts.
    data
        The study whose people the propensity model is of. Its public rows need the outcome, the treatment and the
        covariates: errors rest on them.
    weighting
        What ``hdp.propensity(...).weights("overlap")`` returned.
    epsilon
        What it costs, beside the propensity model. None returns a request, whose ``plan(epsilon)`` says what to expect.
    replicate
        2, 3, ... for a further independent draw, which is charged again.
    allow_large_epsilon
        Whether epsilon may be above 50.

    Returns
    -------
    TreatmentEffectRequest or TreatmentEffect
        Without epsilon a request, else the effect. Its guarantee includes what the propensity model cost.

    Raises
    ------
    ArgumentError, SchemaError, FormulaError, MechanismError, BudgetError
        Before anything is charged: also where the weights are predicted, from public facts, to leave an effective size
        below 0.05 of the people.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(
    ...     age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True),
    ...     event=hdp.Binary(complete=True),
    ... )
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> w = hdp.propensity("hormon ~ age", data=study, epsilon=1).weights("overlap")
    >>> ask = hdp.treatment_effect("event ~ hormon", data=study, weighting=w)
    >>> ask.plan(epsilon=[0.5, 1]).frame["effect"].nunique()
    6
    """
    study = checked_study(data)
    given = checked_weighting(weighting, study)
    check_of_these_people(given, study, what="an effect")
    asked = requested_effect(text(formula, name="formula"), study, given, replicate=release_replicate(replicate))
    return asked if epsilon is None else asked.release(epsilon, allow_large_epsilon=allow_large_epsilon)


def requested_effect(formula: str, study: Study, given: Weighting, *, replicate: int) -> TreatmentEffectRequest:
    """Return the request of an effect, or refuse what can be refused from public facts."""
    outcome = _outcome(formula, study, given)
    most = None if study.unit is None else _used(study)
    public = study.by_person(given.record.columns, averaged=outcome)
    people, model, rows = _public(public, given, outcome)
    return TreatmentEffectRequest(
        study=study,
        formula=formula,
        outcome=outcome,
        weighting=given,
        most_rows=most,
        people=people,
        model=model,
        public_rows=rows,
        replicate=replicate,
        complete=complete_share(public, given, (outcome,)),
    )


def _used(study: Study) -> int:
    """Return the most rows of a person that are used, the same at all sites, or refuse sites that differ."""
    several = several_rows(study, "person")
    return 1 if several is None else several.most_rows


def _outcome(formula: str, study: Study, weighting: Weighting) -> str:
    """Return the outcome of a formula, or refuse one that asks for something else."""
    if formula.lstrip().startswith("Surv("):
        raise FormulaError(
            "treatment_effect takes a binary outcome or a number: of times hdpf.survfit has the curves by group"
        )
    design = compile_design(formula, study.schema)
    treatment = weighting.treatment
    if design.needs != (design.response, treatment) or len(design.columns) != ARMS or not design.intercept:
        raise FormulaError(
            f"treatment_effect takes 'outcome ~ {treatment}', the treatment of the weighting alone, not {formula!r}: "
            "covariates belong in the propensity model"
        )
    outcome = design.response
    if outcome in design_of(weighting.propensity.fit).needs:
        raise FormulaError(f"the outcome {outcome!r} must not be the treatment or a covariate of the propensity model")
    if not isinstance(study.schema[outcome], Binary | Continuous):
        raise SchemaError(f"{outcome!r} must be declared as Binary() or Continuous(lower, upper)", columns=(outcome,))
    return outcome


def _public(study: Study, weighting: Weighting, outcome: str) -> tuple[WeightedPeople, OutcomeModel, int]:
    """Return who stand for the private people, how the outcome depends on covariates, and from how many rows."""
    people, design, table = rows_for_errors(study, weighting, (outcome,), what="treatment_effect")
    column = study.schema[outcome]
    y = table.numeric[outcome]
    if isinstance(column, Continuous):
        y = (y - column.lower) / (column.upper - column.lower)
    model = outcome_model(
        design.matrix(table), table.numeric[design.response], y, binary=not isinstance(column, Continuous)
    )
    return people, model, table.rows


def expected_cells(
    query: TreatmentEffectQuery,
    people: WeightedPeople,
    model: OutcomeModel,
    *,
    records: float,
    noise: tuple[float, ...],
) -> Cells:
    """Return the cells that so many people are expected to give, with the noise of their sites."""
    p, weight = model.targets(people), records * people.overlap
    if query.cells == BINARY:
        shares = np.stack([1.0 - p, p], axis=1)
    else:
        squares = _squares(people, model, p)
        shares = np.stack([1.0 - 2.0 * p + squares, 2.0 * (p - squares), squares], axis=1)
    return Cells(query=query, weights=weight * shares, noise=noise)


def _squares(people: WeightedPeople, model: OutcomeModel, p: FloatArray) -> FloatArray:
    """Return the weighted mean squares (2,) of the places of a number, or of means of a binary outcome."""
    e, means = people.propensity, model.means(people, p)
    w = people.weights * e * (1.0 - e)
    return np.asarray(np.clip((means**2 + model.variances(means)) @ w / w.sum(), p**2, p))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class TreatmentEffectPlan(Reported):
    """Predicted standard errors of a treatment effect. Nothing was spent and no private row was read.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon, effect, expected, std_error, noise`` (the part of the standard error that is privacy noise,
        that of the propensity model included).
    records : int
        The number of private people planned for.
    formula : str
        What would be asked for.
    """

    frame: pd.DataFrame
    records: int
    formula: str

    @property
    def table(self) -> pd.DataFrame:
        """Predicted standard errors, a row per effect and a column per epsilon."""
        wide = self.frame.pivot_table(index="effect", columns="epsilon", values="std_error", sort=False, dropna=False)
        wide.columns = pd.Index([f"epsilon={value:.3g}" for value in wide.columns])
        return wide

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        wide = self.table
        rows = [[number(value, 3) if np.isfinite(value) else "N/A" for value in row] for row in wide.to_numpy(float)]
        return Report(
            title=f"Predicted standard errors of {self.formula}, {self.records} private people; nothing is spent",
            heading="Predicted standard errors",
            blocks=[columns(list(wide.columns), [str(name) for name in wide.index], rows)],
            notes=[
                "Epsilon is that of the effect itself; the propensity model is as it was released.",
                "Outcomes are taken to be as those of public people, and where they are means over as many rows.",
            ],
            badges=["nothing is spent", f"{self.records} private people"],
        )

    def __repr__(self) -> str:
        return str(self)

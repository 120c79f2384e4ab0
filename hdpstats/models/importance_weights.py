r"""Weights of public rows from a density ratio: released once, analysed as often as one likes.

One release of coefficients of a logistic regression of who is private (`hdpstats.mechanisms.importance_weights.site`)
gives every public row its weight. Where counts of cells would be too thin, with many columns or continuous ones, a
log-linear ratio has few numbers to learn; it says nothing about what is not linear in the formula's columns.
"""

import bisect
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError, forgets_rows
from hdpstats._base.validation import choice, real
from hdpstats.describe.description import Description
from hdpstats.formulas import Design, compile_one_sided
from hdpstats.formulas.knots import with_public_knots
from hdpstats.mechanisms.count import CountQuery, CountRelease
from hdpstats.mechanisms.importance_weights import ColumnBox
from hdpstats.mechanisms.importance_weights.coding import PublicSample, coded_rows, public_sample
from hdpstats.mechanisms.importance_weights.estimate import DensityRatioWeights
from hdpstats.mechanisms.importance_weights.request import RIDGES, ImportanceChoice, ImportanceTerms, choose_importance
from hdpstats.mechanisms.importance_weights.site import DensityRatioPersonLoss
from hdpstats.mechanisms.registry import prepare
from hdpstats.models.site_records import left_for_fit
from hdpstats.models.weighted import both_sides, calibrated, described
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.privacy.budget import requested, total
from hdpstats.privacy.sensitivity import BallNorm, Relation
from hdpstats.records.query import PointRelease, of_kind
from hdpstats.results import WeightedSample
from hdpstats.results.facts import SampleFacts
from hdpstats.schema.columns import Binary, NumericColumn
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.sites import Site, Study
from hdpstats.sites.recipes import answer, in_its_recipe
from hdpstats.sites.study import guarantee_of

MECHANISMS = ("auto", "objective", "output")

RAISED_BY, MOST_RAISES = 1.1, 400
"""Steps in which a ridge that is too small for the noisy number of complete rows is raised: up to 10^16 times it."""

CONTINUOUS = (
    "Standard errors do not count what a log-linear ratio cannot say about continuous columns: 95 % intervals for "
    "means have covered 80 to 95 % there, and much less where private and public values differ in spread and the "
    "formula has no squares. They are right where it has a term for every combination of levels, and public rows have "
    "all of them."
)
WITHOUT_INTERCEPT = (
    "The formula has no intercept: the coding is that of Ji and Elkan (2013), which leaves most of a shift in a "
    "continuous column. Leave out 0 and - 1 to correct it."
)


@forgets_rows
@in_its_recipe
def importance_weights(
    study: Study,
    formula: str,
    *,
    epsilon: float,
    delta: float = 0.0,
    ridge: float | None = None,
    mechanism: str = "auto",
    description: Description | None = None,
    replicate: int = 1,
    allow_large_epsilon: bool = False,
) -> WeightedSample:
    """Return weights of the public rows that make them stand for the private records, by the ratio of their densities.

    Parameters
    ----------
    study
        Private records with one row per person, under ``replace_one``, and public ones that have the columns.
    formula
        A one-sided formula, ``"~ age + C(grade) + size"``: the log ratio of the densities of private and public records
        is linear in its columns, outcomes included. Without an intercept (``"~ 0 + ..."``) the coding is that of Ji and
        Elkan (2013).
    epsilon, delta
        What it costs each private person. With a delta above 0 normal noise is used where it is smaller.
    ridge
        ``lambda``, per private person, in the penalty ``lambda / 2 ||beta||^2`` of the mean losses of both samples. By
        default the smallest one, from 0.01, with which noise makes log weights vary by 0.5, as public rows predict. It
        is raised, and a note says so, where it turns out too small for the noisy number of complete rows.
    mechanism
        ``"objective"``, ``"output"``, or ``"auto"``: the one with the smaller error that public rows predict.
    description
        A description that was charged before, ``hdp.describe(study, columns, complete=True, epsilon=...)``: weights
        are calibrated to the shares, means and squares that it tells of these columns, at no further charge.
    replicate
        Number of the draw: the same call returns the stored release, another number an independent one.
    allow_large_epsilon
        Allow an epsilon above 50.

    Returns
    -------
    WeightedSample
        The public rows that are complete in the formula's columns; weights sum to the number of private records.

    Raises
    ------
    ArgumentError, FormulaError, SchemaError, SiteError, MechanismError, InsufficientBudget
        Before anything is charged: under ``add_or_remove_one`` too, where the number of private records may not be
        used, and where public rows do not differ in any column of the formula, as no weight could then differ.

    Notes
    -----
    Columns of the design that are constant in public rows, such as a level that no public row has, are left out; a note
    names them. The ridge leaves a part of every shift between private and public records uncorrected; a note says how
    much public rows predict.

    References
    ----------
    Z. Ji, C. Elkan (2013), Differential privacy based on importance weighting, *Machine Learning* 93, corrected.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> sample = importance_weights(study, "~ age + hormon", epsilon=1)
    >>> sample
    <weighted sample: 686 public rows, ...>
    >>> round(sample.frame["weight"].sum())
    2982
    """
    site, table = both_sides(study)
    if study.relation is not Relation.REPLACE_ONE:
        raise MechanismError(
            "importance weights are proved under replace_one only, as the number of private records weighs the public "
            "rows against them; use hdp.hybrid_weights",
            available=("hybrid_weights",),
        )
    asked = requested(epsilon, delta, replicate, allow_large_epsilon=allow_large_epsilon)
    design = compile_one_sided(with_public_knots(formula, study.public), study.schema)
    known = described(study, design.needs, description)
    sample = _public(table, design)
    whole = ImportanceTerms(
        records=site.records,
        epsilon=asked.epsilon,
        delta=asked.delta,
        ridges=RIDGES if ridge is None else (real(ridge, name="ridge", lower=1e-6, upper=1e6),),
        kinds=_kinds(mechanism),
        schema_sha256=study.schema.sha256,
        public_sha256=table.sha256,
        replicate=asked.replicate,
    )
    left = left_for_fit(study, design.needs, whole.epsilon, records=site.records)
    tried = choose_importance(sample, replace(whole, epsilon=left))
    site.put_public(table)
    counts: list[tuple[CountQuery, CountRelease]] = []
    if left < whole.epsilon:
        query = _count(site, table, tried, design, epsilon=whole.epsilon - left)
        counts.append((query, of_kind(answer(site, query), CountRelease)))
    terms = replace(whole, epsilon=left, counted=bool(counts), records=counts[0][1].count if counts else site.records)
    chosen, raised = _after_count(sample, terms) if counts else (tried, False)
    release = of_kind(answer(site, chosen.query), PointRelease)
    complete = table.complete(design.needs)
    weighted = WeightedSample(
        rows=table.frame()[complete].reset_index(drop=True),
        schema=study.schema,
        distribution=density_ratio_distribution(chosen, release, sample, records=terms.records),
        facts=SampleFacts(
            method=_method(chosen),
            columns=design.needs,
            formula=design.canonical,
            records=terms.records,
            public_rows=int(complete.sum()),
            notes=(
                *([_raised_note(chosen, terms)] if raised else []),
                *_notes(chosen, sample, study.schema, incomplete=table.rows - int(complete.sum())),
            ),
            records_sd=counts[0][1].noise_sd if counts else None,
            complete_rows=True if counts else None,
        ),
        queries=(*(query for query, _ in counts), chosen.query),
        releases=(*(count for _, count in counts), release),
        guarantee=guarantee_of(study, *(count for _, count in counts), release),
    )
    return calibrated(weighted, known)


def _count(site: Site, table: PublicTable, tried: ImportanceChoice, design: Design, *, epsilon: Fraction) -> CountQuery:
    """Return the question for the number of complete private rows, asked before that for the ratio as ``tried``."""
    site_facts = SiteFacts(
        schema=table.schema, relation=site.relation, records=site.records, public={table.sha256: table}
    )
    prepared = prepare(tried.query, site_facts)
    site.check_permitted(tried.query, prepared.needs)
    return CountQuery(
        epsilon=epsilon,
        columns=tuple(sorted(set(design.needs))),
        ahead=(total(prepared.events), *prepared.ahead),
        schema_sha256=tried.query.schema_sha256,
        replicate=tried.query.replicate,
    )


def _after_count(sample: PublicSample, terms: ImportanceTerms) -> tuple[ImportanceChoice, bool]:
    """Return the query for the noisy number of rows, and whether its ridge is larger than any that was asked for.

    The number has been charged, so that the fit must not be refused now. A ridge per person that was possible with the
    number of all rows may be too small with fewer complete ones: it is then raised to the smallest possible one. This
    follows from public facts and the released number.
    """
    try:
        return choose_importance(sample, terms), False
    except MechanismError:
        larger = [max(terms.ridges) * RAISED_BY**k for k in range(1, MOST_RAISES + 1)]
        place = bisect.bisect_left(larger, True, hi=MOST_RAISES - 1, key=lambda ridge: _possible(sample, terms, ridge))
        return choose_importance(sample, replace(terms, ridges=(larger[place],))), True


def _possible(sample: PublicSample, terms: ImportanceTerms, ridge: float) -> bool:
    try:
        choose_importance(sample, replace(terms, ridges=(ridge,)))
    except MechanismError:
        return False
    return True


def _raised_note(chosen: ImportanceChoice, terms: ImportanceTerms) -> str:
    return (
        f"ridge = {max(terms.ridges):g} is too small for {terms.records} complete private rows, the noisy number, at "
        f"this epsilon: it was raised to {chosen.ridge:.3g}."
    )


def density_ratio_distribution(
    chosen: ImportanceChoice, release: PointRelease, sample: PublicSample, *, records: int
) -> DensityRatioWeights:
    """Return the distribution of the weights that a release gives public rows."""
    model = chosen.query.model
    rows, on_minimiser = coded_rows(model.coding, sample.X), chosen.query.perturbs == "output"
    noise: NoiseDistribution | NormalDistribution
    if chosen.query.delta > 0:
        noise = NormalDistribution(dimension=model.dimension, sd=release.noise_sd)
    elif on_minimiser:
        noise = NoiseDistribution(norm=BallNorm(), dimension=model.dimension, rate=release.noise_rate)
    else:
        person_loss = DensityRatioPersonLoss(model=model, design=sample.design, public=rows, records=records)
        noise = NoiseDistribution(norm=person_loss.norm, dimension=model.dimension, rate=release.noise_rate)
    return DensityRatioWeights(
        coefficients=np.array(release.theta),
        rows=rows.X,
        mallows=rows.weights,
        ridge=chosen.ridge,
        noise=noise,
        on_minimiser=on_minimiser,
        records=records,
        seed=release.sha256,
    )


def _public(table: PublicTable, design: Design) -> PublicSample:
    rows = table.admitted(design.needs)
    sample = public_sample(design.matrix(rows), design)
    if not sample.columns:
        raise ArgumentError(
            f"the {rows.rows} complete public rows are the same in every column of the formula: all weights would be "
            "equal whatever the private records are; give public rows that differ, or other columns",
            argument="public",
        )
    return sample


def _kinds(mechanism: object) -> tuple[str, ...]:
    name = choice(mechanism, name="mechanism", options=MECHANISMS)
    return MECHANISMS[1:] if name == "auto" else (name,)


def _method(chosen: ImportanceChoice) -> str:
    coding = "columns in a box" if isinstance(chosen.query.model.coding, ColumnBox) else "publicly whitened columns"
    return (
        f"importance weights (Ji and Elkan 2013) by {chosen.query.perturbs} perturbation, {coding}, "
        f"ridge {chosen.ridge:.3g}"
    )


def _notes(chosen: ImportanceChoice, sample: PublicSample, schema: Schema, *, incomplete: int) -> tuple[str, ...]:
    """Return what is publicly known and must be said."""
    notes = [
        f"The ridge leaves about {100.0 * chosen.left:.0f} % of a shift between private and public records in the "
        f"log weights, and noise makes these vary by about {chosen.sd:.2g}, as public rows predict."
    ]
    if incomplete:
        notes.append(f"{incomplete} public rows lack one of the columns and are left out.")
    if sample.constant:
        named = ", ".join(map(repr, sample.constant))
        notes.append(f"All public rows are the same in {named}: the weights cannot carry over anything about it.")
    read = [schema[name] for name in sample.design.needs]
    if any(isinstance(column, NumericColumn) and not isinstance(column, Binary) for column in read):
        notes.append(CONTINUOUS)
    if not sample.design.intercept:
        notes.append(WITHOUT_INTERCEPT)
    return tuple(notes)

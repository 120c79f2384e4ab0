r"""Weights of public rows that make them stand for private people: counts of nearest public points, released once.

The steps: choose how many public points to use (`select`), count private people at the nearest of them
with noise, turn counts into weights, and share the weight of a point equally among the public rows nearest to it. Only
the first two touch private rows. With ``select=False``, the default for combinations of levels, all different public
points are used.

Wang et al. (2018) publish the chosen points alone. Sharing costs nothing and keeps what public rows say about private
people of the same neighbourhood: variation within it, and columns that were not weighted.

References
----------
Wang, Ji, Kim, Wang, Xiong and Jiang (2018), Selecting optimal subset to release under differentially private
    M-estimators from hybrid datasets.
"""

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats._base.validation import choice, exact, text
from hdpstats.describe.description import Description
from hdpstats.formulas import compile_design
from hdpstats.formulas.compiler import without_roles
from hdpstats.formulas.knots import with_public_knots
from hdpstats.mechanisms.histogram.estimate import PROJECTIONS
from hdpstats.mechanisms.hybrid_weights import UNITS, CurveRelease, DistanceQuery
from hdpstats.mechanisms.hybrid_weights.candidates import part_of, public_points, spread_of
from hdpstats.models.hybrid_steps import EpsilonParts, ReleasedWeights, WeightsRequest, release_weights
from hdpstats.models.weighted import both_sides, calibrated, described
from hdpstats.privacy.budget import requested
from hdpstats.results.facts import SampleFacts
from hdpstats.results.weighted_sample import WeightedSample
from hdpstats.schema.columns import Binary, Categorical
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import check_names
from hdpstats.sites import Study
from hdpstats.sites.recipes import in_its_recipe
from hdpstats.sites.study import guarantee_of

SELECT = ("none", "distance", "loss", "curve")

CONTINUOUS = (
    "Standard errors do not count that public rows stand for private people who are only near them: with continuous "
    "columns 95 % intervals may cover less, and much less where private people lie beyond the public range."
)


@forgets_rows
@in_its_recipe
def hybrid_weights(
    study: Study,
    columns: Iterable[str],
    *,
    epsilon: float,
    select: bool | str | None = None,
    model: str | None = None,
    projection: str = "simplex",
    share: float = 0.1,
    distance_share: float = 0.0,
    description: Description | None = None,
    replicate: int = 1,
    allow_large_epsilon: bool = False,
) -> WeightedSample:
    """Return weights of the public rows that make them stand for the private records, for a pure epsilon in all.

    Parameters
    ----------
    study
        Private records with one row per person, and public ones that have the columns.
    columns
        The columns in which the weighted rows shall stand for the private records, outcomes included.
    epsilon
        What it costs each private person, everything together.
    select
        False: every different public point is counted at, which suits few of them, such as combinations of levels; the
        default where all columns are categorical or binary, else True.
        True or ``"distance"``: a part of epsilon chooses how many points to count at, by how far private people are
        from them. ``"loss"``: counts are released first, at the most points; coefficients of ``model`` are computed
        from them with more and more points merged, and a part of epsilon chooses those that fit private people best.
        ``"curve"``: the same, and that part is spent on the error of each size in predicting private people, up to 10
        noisy numbers that share it, so that each has 10 times the noise of one: only for many people or a large
        epsilon.
    model
        With ``"loss"`` and ``"curve"``: the formula of a logistic model, such as ``"event ~ age"``.
    projection
        ``"simplex"``: weights that are not negative and sum to the number of records, neighbourhood by neighbourhood.
        ``"clip"``: negative counts are set to 0. ``"none"``: weights may be negative, which most software refuses;
        means and fits are then free of the bias of a projection, and their standard errors exact in the noise.
    share
        The part of epsilon that is spent on the choice.
    distance_share
        A part of epsilon for the mean distance of private people from the points: a bound on the bias, in the notes.
    description
        A description that was charged before, ``hdp.describe(study, columns, complete=True, epsilon=...)``: weights
        are calibrated to the shares, means and squares that it tells of these columns, at no further charge.
    replicate
        Number of the draw: the same call returns the stored release, another number an independent one.
    allow_large_epsilon
        Allow an epsilon above 50.

    Raises
    ------
    ArgumentError, SchemaError, SiteError, MechanismError, InsufficientBudget
        Before anything is charged.

    Notes
    -----
    Rows that lack one of the columns are left out. A column in which all public rows are the same is left out of
    distances, and a note names it; so it does levels that no public row has. Under ``add_or_remove_one``, and
    where private rows may have missing cells, the number of people who count is private: the weights sum to the sum of
    the noisy counts.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=1),
    ... )
    >>> sample = hybrid_weights(study, ["age", "hormon"], epsilon=1, select=True)
    >>> round(sample.frame["weight"].sum()), len(sample.frame)
    (2982, 686)
    """
    site, table = both_sides(study)
    names = _names(columns, table)
    kind = _kind(select, model, table, names)
    asked = requested(epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon)
    known = described(study, names, description)
    request = WeightsRequest(
        site=site,
        table=table,
        public=public_points(table, names),
        columns=names,
        select=kind,
        model=model,
        projection=choice(projection, name="projection", options=PROJECTIONS),
        parts=_epsilon_parts(
            asked.epsilon,
            choosing=share if kind != "none" else None,
            measuring=distance_share,
        ),
        replicate=asked.replicate,
    )
    site.put_public(table)
    return calibrated(_sample(study, request, release_weights(request)), known)


def _names(columns: object, table: PublicTable) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ArgumentError("columns must be a list of column names", argument="columns")
    names = check_names(table.schema, [text(name, name="columns") for name in columns])
    if not names:
        raise ArgumentError("columns must name at least one column", argument="columns")
    table.complete(names)
    return names


def _kind(select: object, model: object, table: PublicTable, names: tuple[str, ...]) -> str:
    if select is None:
        select = any(not isinstance(table.schema[name], Binary | Categorical) for name in names)
    named = ("distance" if select else "none") if isinstance(select, bool) else select
    kind = choice(named, name="select", options=SELECT)
    if (kind in ("loss", "curve")) != (model is not None):
        message = "model, a formula, belongs to select='loss' and select='curve': give both or neither"
        raise ArgumentError(message, argument="model")
    if model is not None:
        design = without_roles(compile_design(with_public_knots(text(model, name="model"), table), table.schema))
        if not isinstance(table.schema[design.response], Binary):
            raise ArgumentError(f"model must have a binary outcome; {design.response!r} is none", argument="model")
        if not np.any(table.complete(design.needs)):
            raise ArgumentError("model needs public rows that are complete in its columns", argument="model")
    return kind


def _epsilon_parts(epsilon: Fraction, *, choosing: object, measuring: object) -> EpsilonParts:
    choice_share = Fraction(0) if choosing is None else exact(choosing, name="share")
    if choosing is not None and not 0 < choice_share < 1:
        raise ArgumentError(f"share must be in (0, 1), not {choosing!r}", argument="share")
    distance_share = exact(measuring, name="distance_share")
    if not (distance_share >= 0 and choice_share + distance_share < 1):
        raise ArgumentError(
            "distance_share must be 0 or more, and leave something to count with", argument="distance_share"
        )
    choosing_part, measuring_part = part_of(epsilon, choice_share), part_of(epsilon, distance_share)
    counting = epsilon - choosing_part - measuring_part
    return EpsilonParts(counting=counting, choosing=choosing_part, measuring=measuring_part)


def _sample(study: Study, request: WeightsRequest, released: ReleasedWeights) -> WeightedSample:
    complete = request.table.complete(request.columns)
    total = released.distribution.cell_weights.sum()
    return WeightedSample(
        rows=request.table.frame()[complete].reset_index(drop=True),
        schema=study.schema,
        distribution=released.distribution,
        facts=SampleFacts(
            method=f"hybrid weights (Wang et al. 2018): noisy counts at {len(released.support)} public points",
            columns=request.columns,
            formula=None,
            records=request.site.records if released.distribution.records is not None else max(round(float(total)), 0),
            public_rows=int(complete.sum()),
            notes=tuple(_notes(request, released)),
            records_sd=None if request.counts_all else released.distribution.total_sd,
            complete_rows=None if request.counts_all else study.schema.leaves_out(request.public.space.names),
        ),
        queries=released.queries,
        releases=released.releases,
        guarantee=guarantee_of(study, *released.releases),
    )


def _notes(request: WeightsRequest, released: ReleasedWeights) -> list[str]:
    """Return what is publicly known and must be said."""
    notes, schema = [], request.table.schema
    incomplete = request.table.rows - int(request.table.complete(request.columns).sum())
    if incomplete:
        notes.append(f"{incomplete} public rows lack one of the columns and are left out.")
    if request.public.left_out:
        named = ", ".join(map(repr, request.public.left_out))
        notes.append(f"All public rows are the same in {named}: the weights cannot carry over anything about it.")
    for column in request.columns:
        declared = schema[column]
        if isinstance(declared, Categorical) and column not in request.public.left_out:
            present = set(request.table.admitted(request.columns).codes[column].tolist())
            absent = [repr(level) for code, level in enumerate(declared.levels) if code not in present]
            if absent:
                notes.append(
                    f"No public row has {column!r} {' or '.join(absent)}: private people who do are counted at others."
                )
    notes += _combinations_note(request)
    curves = [release for release in released.releases if isinstance(release, CurveRelease)]
    notes += [_curve_note(release) for release in curves]
    if released.distance is not None:
        notes.append(_distance_note(request, released))
    numeric = [column.name for column in request.public.space.columns if column.levels is None]
    if any(not isinstance(schema[name], Binary) for name in numeric):
        notes.append(CONTINUOUS)
    return notes


def _combinations_note(request: WeightsRequest) -> list[str]:
    """Return a note where public rows lack a combination of levels, none of which is absent by itself."""
    columns = [request.table.schema[name] for name in request.columns]
    levels = [len(column.levels) if isinstance(column, Categorical) else 2 for column in columns]
    present, possible = len(np.unique(request.public.points, axis=0)), math.prod(levels)
    discrete = all(isinstance(column, Binary | Categorical) for column in columns)
    if not discrete or request.public.left_out or present >= possible:
        return []
    return [
        f"Public rows have {present} of the {possible} combinations of levels: private people with another are counted "
        "at the nearest of these."
    ]


def _curve_note(release: CurveRelease) -> str:
    shown = ", ".join(f"{value:.3g}" for value in release.errors)
    return (
        "Errors of the sizes, smallest first, in predicting private people (Euclidean norm, noise "
        f"{release.noise_sd:.2g} each): {shown}."
    )


def _distance_note(request: WeightsRequest, released: ReleasedWeights) -> str:
    """Say how far private people are from the points, and public rows from theirs: what bounds the bias of a mean."""
    release, query = released.distance, released.queries[-1]
    if release is None or not isinstance(query, DistanceQuery):
        return ""
    weights = np.maximum(released.distribution.cell_weights, 0.0)
    people = max(float(weights.sum()), 1.0)
    step = query.reach / UNITS / people
    away, error = max(release.units * step, 0.0), release.noise_sd * step
    spread = float(weights @ spread_of(request.public, released.support, released.distribution.cell)) / people
    return (
        f"Private people are at a mean distance of {away:.3g} (noise {error:.1g}) from the public points, in ranges of "
        f"the columns; the public rows that stand for them at {spread:.3g}. The mean of a function that changes by at "
        f"most 1 per unit of distance is biased by at most {away + spread:.3g}, noise aside."
    )

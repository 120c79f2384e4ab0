"""What is asked for weights of public rows, in which order, and what the answers give."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np

from hdpstats._base.no_warnings import silence
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.families.regression.likelihood import maximum_likelihood
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.formulas import compile_design
from hdpstats.formulas.compiler import without_roles
from hdpstats.formulas.knots import with_public_knots
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.histogram.estimate import HistogramWeights
from hdpstats.mechanisms.hybrid_weights import (
    LARGEST,
    CurveQuery,
    CurveRelease,
    DistanceQuery,
    DistanceRelease,
    LossSelectionQuery,
    NeighboursQuery,
    NeighboursRelease,
    SelectionQuery,
    SelectionRelease,
)
from hdpstats.mechanisms.hybrid_weights.candidates import Candidates, PublicPoints, candidates_of, penalties
from hdpstats.mechanisms.registry import prepare
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.privacy.budget import Spend
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.query import Query, Release, of_kind
from hdpstats.schema.public import PublicTable, reach_of
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.sites import Site
from hdpstats.sites.recipes import answer
from hdpstats.solvers.nearest_points import halving_order, nearest

SMALLEST_EXCESS, LARGEST_EXCESS = 1e-6, 2.0
"""How much more loss than under the best candidate counts at most."""

LARGEST_COEFFICIENT, STEP = 1e6, 2.0**-20
"""Coefficients are rounded, so that the last bits of a linear algebra library do not make another query of one."""

LEAST, MOST = Fraction(1, 10**6), Fraction(10**6)

LENGTH = 0.95
"""Part of the public rows that a performance curve leaves as long as they are."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicFits:
    """A logistic model on the public rows, to be fitted with many weights.

    Attributes
    ----------
    formula : str
        Its canonical spelling.
    X, y : (c, D), (c,) float64
        The rows that are complete in its columns too.
    complete : (n,) bool
        Which of the rows that are complete in the weighted columns these are.
    terms : tuple of str
        The columns of ``X``.
    """

    formula: str
    X: FloatArray
    y: FloatArray
    complete: BoolArray
    terms: tuple[str, ...]

    @classmethod
    def of(cls, table: PublicTable, model: str, *, columns: tuple[str, ...]) -> "PublicFits":
        """Read the formula of a model of rows that are complete in the weighted columns."""
        design = without_roles(compile_design(with_public_knots(model, table), table.schema))
        both = table.complete((*columns, *design.needs))
        rows = table.admitted((*columns, *design.needs))
        return cls(
            formula=design.canonical,
            X=design.matrix(rows),
            y=rows.numeric[design.response],
            complete=both[table.complete(columns)],
            terms=design.names,
        )

    def coefficients(self, weights: FloatArray) -> FloatArray:
        """Return the fit (D,) with weights (n,); 0 for columns that the weighted rows do not identify."""
        with silence():
            positive = np.maximum(weights[self.complete], 0.0)
            rows = RegressionRows.of(LogisticLoss(), self.X, self.y, weights=positive)
            estimate = maximum_likelihood(rows, terms=self.terms, decided=False)
        values = np.where(np.isfinite(estimate.values), estimate.values, 0.0)
        return np.asarray(np.rint(np.clip(values, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT) / STEP) * STEP)

    def scale(self) -> tuple[FloatArray, Fraction]:
        """Return the root mean square of each column (D,), 1 where it is 0, and the length of nearly all rows."""
        squares = np.mean(self.X**2, axis=0)
        scale = np.array([float(f"{value:.6g}") for value in np.sqrt(np.where(squares > 1e-12, squares, 1.0))])
        length = float(np.quantile(np.linalg.norm(self.X / scale, axis=1), LENGTH))
        return scale, min(max(Fraction(f"{length:.6g}"), LEAST), MOST)

    def excess(self, coefficients: FloatArray) -> float:
        """Return the largest excess of a loss over the best candidate's (K, D) in a public row: what may count."""
        eta = self.X @ coefficients.T
        losses = np.logaddexp(0.0, eta) - self.y[:, None] * eta
        most = float(np.max(losses - losses.min(axis=1, keepdims=True), initial=0.0))
        return float(f"{min(max(most, SMALLEST_EXCESS), LARGEST_EXCESS):.6g}")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class EpsilonParts:
    """Parts of epsilon for counts, for the choice of a size and for the distance; they add up to the whole."""

    counting: Fraction
    choosing: Fraction
    measuring: Fraction


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightsRequest:
    """Everything public about a request for weights.

    Attributes
    ----------
    site, table, public
        Private rows, public rows, and these as points.
    columns : tuple of str
        What the weighted rows shall agree in.
    select : str
        ``"none"``, ``"distance"``, ``"loss"`` or ``"curve"``.
    model : str or None
        The formula that chooses.
    projection : str
        From counts to weights.
    parts : EpsilonParts
        How epsilon is shared.
    replicate : int
        The number of the draw.
    """

    site: Site
    table: PublicTable
    public: PublicPoints
    columns: tuple[str, ...]
    select: str
    model: str | None
    projection: str
    parts: EpsilonParts
    replicate: int

    @property
    def identity(self) -> Mapping[str, Any]:
        """The fields that every query has alike: the hashes of schema and public rows, and the number of the draw."""
        return {
            "schema_sha256": self.table.schema.sha256,
            "public_sha256": self.table.sha256,
            "replicate": self.replicate,
        }

    @property
    def counts_all(self) -> bool:
        """Whether the number of people that count is public: under ``replace_one``, if none can have a missing cell."""
        replaced = self.site.relation is Relation.REPLACE_ONE
        return replaced and not self.table.schema.leaves_out(self.public.space.names)

    @property
    def site_facts(self) -> SiteFacts:
        """The public facts about the site's records."""
        return SiteFacts(
            schema=self.table.schema,
            relation=self.site.relation,
            records=self.site.records,
            unit=self.site.unit,
            most_rows=self.site.most_rows,
            public={self.table.sha256: self.table},
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReleasedWeights:
    """Weights from released counts.

    Attributes
    ----------
    distribution : HistogramWeights
        The weights of the public rows that are complete in the columns.
    support : (m,) int64
        The rows that are the points of its cells.
    distance : DistanceRelease or None
        Where it was asked for.
    queries, releases : tuples
        What was asked and answered.
    """

    distribution: HistogramWeights
    support: IntArray
    distance: DistanceRelease | None
    queries: tuple[Query, ...]
    releases: tuple[Release, ...]


def release_weights(request: WeightsRequest) -> ReleasedWeights:
    """Ask the site for everything; the first query is refused where the account could not afford all of them."""
    candidates = None if request.select == "none" else candidates_of(request.public)
    if candidates is None or len(candidates.sizes) == 1:
        parts = request.parts
        return _measured(request, _counted(request, None, parts.counting + parts.choosing, later=(parts.measuring,)))
    return _measured(request, (_by_distance if request.select == "distance" else _by_model)(request, candidates))


def _counted(
    request: WeightsRequest, support: IntArray | None, epsilon: Fraction, *, later: tuple[Fraction, ...]
) -> ReleasedWeights:
    """Ask for noisy counts; ``later`` is the epsilon of each later query."""
    query = NeighboursQuery(
        space=request.public.space,
        support=None if support is None else tuple(support.tolist()),
        epsilon=epsilon,
        **request.identity,
        ahead=_charges(*later),
    )
    release = of_kind(answer(request.site, query), NeighboursRelease)
    rows = request.public.first if support is None else support
    anchors = request.public.points[rows]
    distribution = HistogramWeights(
        counts=np.array(release.counts, dtype=np.int64),
        rate=epsilon / request.site.relation.persons_changed,
        cell=nearest(request.public.points, anchors),
        records=request.site.records if request.counts_all else None,
        projection=request.projection,
        seed=release.sha256,
        order=halving_order(anchors),
    )
    return ReleasedWeights(
        distribution=distribution, support=rows, distance=None, queries=(query,), releases=(release,)
    )


def _by_distance(request: WeightsRequest, candidates: Candidates) -> ReleasedWeights:
    """Choose a size by distances and noise, then count at so many points."""
    parts = request.parts
    rate = parts.counting / request.site.relation.persons_changed
    query = SelectionQuery(
        space=request.public.space,
        order=tuple(candidates.order.tolist()),
        sizes=candidates.sizes,
        reach=candidates.reach,
        penalties=penalties(candidates.sizes, TwoSidedGeometric(rate=rate).variance),
        epsilon=parts.choosing,
        **request.identity,
        ahead=_charges(parts.counting, parts.measuring),
    )
    release = of_kind(answer(request.site, query), SelectionRelease)
    support = candidates.order[: candidates.sizes[release.choice]]
    counted = _counted(request, support, parts.counting, later=(parts.measuring,))
    return replace(counted, queries=(query, *counted.queries), releases=(release, *counted.releases))


def _by_model(request: WeightsRequest, candidates: Candidates) -> ReleasedWeights:
    """Count at the most points, merge them to fewer, and choose the coefficients that suit private people best.

    Whether the site would answer the second query is tried before the first is charged.
    """
    parts, fits = request.parts, PublicFits.of(request.table, str(request.model), columns=request.columns)
    question = _loss_query if request.select == "loss" else _curve_query
    prepare(question(request, fits, np.zeros((len(candidates.sizes), len(fits.terms)))), request.site_facts)
    counted = _counted(request, candidates.order, parts.counting, later=(parts.choosing, parts.measuring))
    merged = [_merged(request, counted, candidates.order[:size]) for size in candidates.sizes]
    coefficients = np.stack(
        [fits.coefficients(replace(each.distribution, projection="simplex").weights) for each in merged]
    )
    query = question(request, fits, coefficients)
    release = answer(request.site, query)
    if isinstance(release, CurveRelease):
        chosen = merged[int(np.argmin(release.errors))]
    else:
        chosen = merged[of_kind(release, SelectionRelease).choice]
    return replace(chosen, queries=(*counted.queries, query), releases=(*counted.releases, release))


def _loss_query(request: WeightsRequest, fits: PublicFits, coefficients: FloatArray) -> LossSelectionQuery:
    return LossSelectionQuery(
        formula=fits.formula,
        candidates=_rows(coefficients),
        reach=fits.excess(coefficients),
        epsilon=request.parts.choosing,
        **request.identity,
        ahead=_charges(request.parts.measuring),
    )


def _curve_query(request: WeightsRequest, fits: PublicFits, coefficients: FloatArray) -> CurveQuery:
    """Return the query for the curve, with a ridge that makes a person's own part of it the larger one."""
    scale, radius = fits.scale()
    ridge = radius**2 / Fraction(max(math.isqrt(request.site.records), 1))
    return CurveQuery(
        formula=fits.formula,
        candidates=_rows(np.clip(coefficients * scale, -LARGEST, LARGEST)),
        scale=tuple(scale.tolist()),
        radius=radius,
        ridge=min(max(ridge, LEAST), MOST),
        epsilon=request.parts.choosing,
        **request.identity,
        ahead=_charges(request.parts.measuring),
    )


def _charges(*epsilons: Fraction) -> tuple[Spend, ...]:
    """Return the charges of later queries, those that will be asked."""
    return tuple(Spend(epsilon) for epsilon in epsilons if epsilon > 0)


def _rows(matrix: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


def _merged(request: WeightsRequest, counted: ReleasedWeights, support: IntArray) -> ReleasedWeights:
    """Return the counts of many points added up at the nearest of fewer."""
    anchors = request.public.points[support]
    parent = nearest(request.public.points[counted.support], anchors)
    sums = np.zeros(len(support), dtype=np.int64)
    np.add.at(sums, parent, counted.distribution.counts)
    distribution = replace(
        counted.distribution,
        counts=sums,
        cell=parent[counted.distribution.cell],
        order=halving_order(anchors),
        noises=np.bincount(parent, minlength=len(support)),
    )
    return replace(counted, distribution=distribution, support=support)


def _measured(request: WeightsRequest, released: ReleasedWeights) -> ReleasedWeights:
    """Ask for the distance of private people from the points, where a part of epsilon is set aside for it."""
    if not request.parts.measuring:
        return released
    query = DistanceQuery(
        space=request.public.space,
        support=None if np.array_equal(released.support, request.public.first) else tuple(released.support.tolist()),
        reach=reach_of(request.public.space, request.table.schema),
        epsilon=request.parts.measuring,
        **request.identity,
    )
    release = of_kind(answer(request.site, query), DistanceRelease)
    return replace(
        released, distance=release, queries=(*released.queries, query), releases=(*released.releases, release)
    )

"""What is asked for weights of public rows, in which order, and what the answers give."""

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.formulas import compile_design
from hdpstats.formulas.points import reach_of
from hdpstats.losses import LogisticLoss
from hdpstats.mechanisms.base import SiteFacts
from hdpstats.mechanisms.curve.query import CurveQuery, CurveRelease
from hdpstats.mechanisms.distance.query import DistanceQuery, DistanceRelease
from hdpstats.mechanisms.histogram.estimate import HistogramWeights
from hdpstats.mechanisms.hybrid_weights.steps import Candidates, PublicPoints, candidates_of, penalties
from hdpstats.mechanisms.neighbours.query import NeighboursQuery, NeighboursRelease
from hdpstats.mechanisms.person_loss.base import sensitivity_factor
from hdpstats.mechanisms.registry import prepare
from hdpstats.mechanisms.selection.query import LARGEST, LossSelectionQuery, SelectionQuery, SelectionRelease
from hdpstats.noise.geometric import TwoSidedGeometric
from hdpstats.privacy.budget import Spend
from hdpstats.privacy.relation import Relation
from hdpstats.public.likelihood import maximum_likelihood
from hdpstats.records.query import Query, Release, of_kind
from hdpstats.schema.public import PublicTable
from hdpstats.sites import Site
from hdpstats.solvers.nearest import halving_order, nearest

SMALLEST_EXCESS, LARGEST_EXCESS = 1e-6, 2.0
"""How much more loss than under the best candidate counts at most."""

LARGEST_COEFFICIENT, STEP = 1e6, 2.0**-20
"""Coefficients are rounded, so that the last bits of a linear algebra library do not make another question of one."""

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
        design = compile_design(model, table.schema)
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            estimate = maximum_likelihood(
                self.X,
                self.y,
                weights=np.maximum(weights[self.complete], 0.0),
                offset=np.zeros(len(self.y)),
                loss=LogisticLoss(),
                terms=self.terms,
            )
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
class Prices:
    """What counts, the choice of a size and the distance cost; they add up to the whole epsilon."""

    counting: Fraction
    choosing: Fraction
    measuring: Fraction


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Desk:
    """Where a purchase is made.

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
    prices : Prices
        What is paid for what.
    replicate : int
        The number of the purchase.
    """

    site: Site
    table: PublicTable
    public: PublicPoints
    columns: tuple[str, ...]
    select: str
    model: str | None
    projection: str
    prices: Prices
    replicate: int

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
class Bought:
    """What a purchase brought.

    Attributes
    ----------
    distribution : HistogramWeights
        The weights of the public rows that are complete in the columns.
    support : (m,) int64
        The rows that are the points of its cells.
    distance : DistanceRelease or None
        Where it was paid for.
    queries, releases : tuples
        What was asked and answered.
    """

    distribution: HistogramWeights
    support: IntArray
    distance: DistanceRelease | None
    queries: tuple[Query, ...]
    releases: tuple[Release, ...]


def buy(desk: Desk) -> Bought:
    """Ask everything; the first question is refused where the account could not pay for all of them."""
    candidates = None if desk.select == "none" else candidates_of(desk.public)
    if candidates is None or len(candidates.sizes) == 1:
        prices = desk.prices
        return _measured(desk, _counted(desk, None, prices.counting + prices.choosing, later=(prices.measuring,)))
    return _measured(desk, (_by_distance if desk.select == "distance" else _by_model)(desk, candidates))


def _counted(desk: Desk, support: IntArray | None, epsilon: Fraction, *, later: tuple[Fraction, ...]) -> Bought:
    """Buy noisy counts; ``later`` is what further questions will cost."""
    query = NeighboursQuery(
        space=desk.public.space,
        support=None if support is None else tuple(support.tolist()),
        epsilon=epsilon,
        schema_sha256=desk.table.schema.sha256,
        public_sha256=desk.table.sha256,
        ahead=_charges(*later),
        replicate=desk.replicate,
    )
    release = of_kind(desk.site.answer(query), NeighboursRelease)
    rows = desk.public.first if support is None else support
    anchors = desk.public.points[rows]
    distribution = HistogramWeights(
        counts=np.array(release.counts, dtype=np.int64),
        rate=epsilon / sensitivity_factor(desk.site.relation),
        cell=nearest(desk.public.points, anchors),
        records=desk.site.records if desk.site.relation is Relation.REPLACE_ONE else None,
        projection=desk.projection,
        seed=release.sha256,
        order=halving_order(anchors),
    )
    return Bought(distribution=distribution, support=rows, distance=None, queries=(query,), releases=(release,))


def _by_distance(desk: Desk, candidates: Candidates) -> Bought:
    """Choose a size by distances and noise, then count at so many points."""
    prices = desk.prices
    rate = prices.counting / sensitivity_factor(desk.site.relation)
    query = SelectionQuery(
        space=desk.public.space,
        order=tuple(candidates.order.tolist()),
        sizes=candidates.sizes,
        reach=candidates.reach,
        penalties=penalties(candidates.sizes, TwoSidedGeometric(rate=rate).variance),
        epsilon=prices.choosing,
        schema_sha256=desk.table.schema.sha256,
        public_sha256=desk.table.sha256,
        ahead=_charges(prices.counting, prices.measuring),
        replicate=desk.replicate,
    )
    release = of_kind(desk.site.answer(query), SelectionRelease)
    support = candidates.order[: candidates.sizes[release.choice]]
    counted = _counted(desk, support, prices.counting, later=(prices.measuring,))
    return replace(counted, queries=(query, *counted.queries), releases=(release, *counted.releases))


def _by_model(desk: Desk, candidates: Candidates) -> Bought:
    """Count at the most points, merge them to fewer, and choose the coefficients that suit private people best.

    Whether the site would answer the second question is tried before the first is charged.
    """
    prices, fits = desk.prices, PublicFits.of(desk.table, str(desk.model), columns=desk.columns)
    question = _loss_query if desk.select == "loss" else _curve_query
    prepare(question(desk, fits, np.zeros((len(candidates.sizes), len(fits.terms)))), desk.site_facts)
    counted = _counted(desk, candidates.order, prices.counting, later=(prices.choosing, prices.measuring))
    merged = [_merged(desk, counted, candidates.order[:size]) for size in candidates.sizes]
    coefficients = np.stack(
        [fits.coefficients(replace(each.distribution, projection="simplex").weights) for each in merged]
    )
    query = question(desk, fits, coefficients)
    release = desk.site.answer(query)
    if isinstance(release, CurveRelease):
        chosen = merged[int(np.argmin(release.errors))]
    else:
        chosen = merged[of_kind(release, SelectionRelease).choice]
    return replace(chosen, queries=(*counted.queries, query), releases=(*counted.releases, release))


def _loss_query(desk: Desk, fits: PublicFits, coefficients: FloatArray) -> LossSelectionQuery:
    return LossSelectionQuery(
        formula=fits.formula,
        candidates=_rows(coefficients),
        reach=fits.excess(coefficients),
        epsilon=desk.prices.choosing,
        schema_sha256=desk.table.schema.sha256,
        public_sha256=desk.table.sha256,
        ahead=_charges(desk.prices.measuring),
        replicate=desk.replicate,
    )


def _curve_query(desk: Desk, fits: PublicFits, coefficients: FloatArray) -> CurveQuery:
    """Return the question for the curve, with a ridge that makes a person's own part of it the larger one."""
    scale, radius = fits.scale()
    ridge = radius**2 / Fraction(max(math.isqrt(desk.site.records), 1))
    return CurveQuery(
        formula=fits.formula,
        candidates=_rows(np.clip(coefficients * scale, -LARGEST, LARGEST)),
        scale=tuple(scale.tolist()),
        radius=radius,
        ridge=min(max(ridge, LEAST), MOST),
        epsilon=desk.prices.choosing,
        schema_sha256=desk.table.schema.sha256,
        public_sha256=desk.table.sha256,
        ahead=_charges(desk.prices.measuring),
        replicate=desk.replicate,
    )


def _charges(*epsilons: Fraction) -> tuple[Spend, ...]:
    """Return what later questions will cost, those that will be asked."""
    return tuple(Spend(epsilon) for epsilon in epsilons if epsilon > 0)


def _rows(matrix: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


def _merged(desk: Desk, counted: Bought, support: IntArray) -> Bought:
    """Return the counts of many points added up at the nearest of fewer."""
    anchors = desk.public.points[support]
    parent = nearest(desk.public.points[counted.support], anchors)
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


def _measured(desk: Desk, bought: Bought) -> Bought:
    """Buy the distance of private people from the points, where it is to be paid for."""
    if not desk.prices.measuring:
        return bought
    query = DistanceQuery(
        space=desk.public.space,
        support=None if np.array_equal(bought.support, desk.public.first) else tuple(bought.support.tolist()),
        reach=reach_of(desk.public.space, desk.table.schema),
        epsilon=desk.prices.measuring,
        schema_sha256=desk.table.schema.sha256,
        public_sha256=desk.table.sha256,
        replicate=desk.replicate,
    )
    release = of_kind(desk.site.answer(query), DistanceRelease)
    return replace(bought, distance=release, queries=(*bought.queries, query), releases=(*bought.releases, release))

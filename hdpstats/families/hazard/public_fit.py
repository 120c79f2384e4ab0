"""A hazard model on public people alone: their spells, their baseline features and their fit.

Baseline features ``A`` (q, e) are mixed to ``A B`` so that the unit ball is the smallest ellipsoid about their rows;
covariates are whitened by public people. The public fit is a posterior mode, as in
`hdpstats.families.regression.public`, with the baseline drawn towards a constant hazard; its covariance is a sandwich,
as case weights are not numbers of people.

`hazard_likelihood` is the ordinary fit: what R's ``glm`` computes on rows of persons and periods, which are never
formed. Coefficients that have no finite value are NaN (`hdpstats.families.existence`).
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import final

import numpy as np
import scipy

from hdpstats._base.errors import HdpError, HdpWarning
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.families.existence import Existence, SignedRows, existence, has_maximum, longest_of, polished
from hdpstats.families.hazard.likelihood import HazardData, HazardFit, Likelihood, fit_hazard
from hdpstats.families.regression.likelihood import ALIASED_IN_GLM, identified, orthogonal, unidentified
from hdpstats.formulas.compiler import SurvivalDesign
from hdpstats.losses import LINKS
from hdpstats.public.invented import Completed, completed, unknown_directions
from hdpstats.public.moments import Penalty, PublicFit, coefficient_parts, each_column, spread_along
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import DIGITS, Geometry, on_grid
from hdpstats.records.model import TimeGrid
from hdpstats.schema.public import PublicTable
from hdpstats.schema.spells import in_strata, spells_of
from hdpstats.schema.table import AdmittedTable

DESIGN_STEPS = 100
"""Steps towards the smallest ellipsoid about the baseline features."""

LEAST_SIZE = 1e-6
"""Baseline features are taken to vary by at least this share of the largest in every direction: some may be aliased."""

BASELINE_SPREAD, SLOPE_SPREAD = 8.0, 0.6
"""Prior standard deviations of mixed baseline coefficients and of whitened slopes: fixed, and weak on purpose.

Spreads chosen by evidence are smaller, and their shrinkage biases what is pooled with the private estimate: with 200
public people and eight intervals pooled 95 % intervals of S(t) then covered 0.85. The logarithm of a hazard that rises
and falls leaves a constant by several units: with half as much for the baseline pooled curves of 4,000 people were off
by a standard error in its first third.
"""

BASELINE_UNIT = 3.0
"""How much more hazards of an average person may differ between sources than effects of covariates may.

Patients of a registry and of a trial (Rotterdam, gbsg) differ by .16 to .3 in the logarithms of hazards over time, and
by .02 to .1 in effects per standard deviation. With 1 a pooled baseline of 300,000 people, epsilon 1, was covered in .6
to .75 of fits, with 3 in .85.
"""

LEAST_CHANGE = 1e-4
"""Added to the mean square change of log hazards along a direction, over the largest: public people may tell none."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Baseline:
    """Baseline features in two coordinates.

    Attributes
    ----------
    features : (q, e) float64
        ``A``: as users know them.
    mixing : (e, e) float64
        ``B``: the model is fitted with ``A B``.
    constant : (e,) float64
        ``kappa`` with ``A kappa = 1``.
    """

    features: FloatArray
    mixing: FloatArray
    constant: FloatArray

    @property
    def mixed(self) -> FloatArray:
        """``A B`` (q, e), rows of norm at most 1."""
        return on_grid(self.features @ self.mixing)

    def to_terms(self, geometry: Geometry, causes: int) -> FloatArray:
        """Return the matrix from fitted coefficients to those of features and design columns, causes one by one.

        ``z = W (x - m)`` and ``A_s kappa = 1`` turn ``(alpha, beta)`` into ``(B alpha - kappa m'W'beta, W'beta)``.
        """
        raw, e = geometry.to_raw(), len(self.constant)
        block = np.zeros((e + len(raw) - 1, e + len(raw) - 1))
        block[:e, :e] = self.mixing
        block[:e, e:] = np.outer(self.constant, raw[0, 1:])
        block[e:, e:] = raw[1:, 1:]
        return np.asarray(np.kron(np.eye(causes), block), dtype=np.float64)


def mixed_baseline(features: FloatArray) -> Baseline:
    """Return features (q, e) mixed so that their rows have norm at most 1, with the largest determinant of the mixing.

    The unit ball is the smallest ellipsoid about the rows then (John 1948). So noise of one length in all directions
    moves a baseline least, whatever basis the formula has. The ellipsoid is that of the D-optimal design over the
    intervals, which the multiplicative algorithm finds (Silvey, Titterington and Torsney 1978).

    >>> mixed = mixed_baseline(np.array([[1.0, 0.0], [1.0, 8.0]])).mixed
    >>> np.abs(mixed @ mixed.T).round(9).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    left, sizes, right = np.linalg.svd(features, full_matrices=False)
    design = np.full(len(features), 1.0 / len(features))
    for _ in range(DESIGN_STEPS):
        root = np.linalg.cholesky(left.T @ (design[:, None] * left))
        lengths = np.sum(np.linalg.solve(root, left.T) ** 2, axis=0)
        design *= lengths / np.sum(design * lengths)
    spread = np.maximum(sizes, LEAST_SIZE * sizes[0])
    mixing = (right.T / spread) @ np.linalg.inv(root).T
    rounding = math.sqrt(features.shape[1]) * 2.0 ** -(DIGITS + 1)  # of a row on the grid
    mixing /= np.max(np.linalg.norm(features @ mixing, axis=1)) * (1.0 + rounding)
    constant = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
    return Baseline(features=features, mixing=mixing, constant=np.asarray(constant, dtype=np.float64))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicSpells:
    """Spells of complete public rows.

    ``X`` (m, 1 + p) design rows of the spells, intercept first; ``row``, which row each spell is of, ``weights``,
    ``offset``, ``person``, ``entry``, ``exit``, ``cause`` (m,); ``people`` in number. ``groups`` (people,) says for
    which lacking value a person was invented (`hdpstats.public.invented`), 0 for public people; None stands for 0
    everywhere.
    """

    X: FloatArray
    row: IntArray
    weights: FloatArray
    offset: FloatArray
    person: IntArray
    entry: IntArray
    exit: IntArray
    cause: IntArray
    people: int
    groups: IntArray | None = None

    def take(self, kept: BoolArray) -> "PublicSpells":
        """Return some of the spells, of as many people."""
        return replace(self, **{each.name: getattr(self, each.name)[kept] for each in fields(self)[:-2]})

    def data(self, A: FloatArray, Z: FloatArray, *, cause: int) -> HazardData:
        """Return the spells with events of one cause, given baseline features and covariates of the spells."""
        return HazardData(
            A=A,
            Z=Z,
            entry=self.entry,
            exit=self.exit,
            event=(self.cause == cause).astype(np.int64),
            weights=self.weights,
            offset=self.offset,
        )

    @property
    def seen(self) -> "PublicSpells":
        """The spells of public people, without those who were invented."""
        return self if self.groups is None else self.take(self.groups[self.person] == 0)

    @property
    def followed(self) -> int:
        """How many people are at risk in some interval."""
        return len(np.unique(self.person[self.exit > self.entry]))

    def at_risk(self, intervals: int) -> FloatArray:
        """Return how many spells are at risk in each interval (q,)."""
        steps = np.zeros(intervals + 1)
        np.add.at(steps, self.entry, 1.0)
        np.add.at(steps, self.exit, -1.0)
        return np.asarray(np.cumsum(steps)[:-1], dtype=np.float64)


def public_spells(
    table: PublicTable, design: SurvivalDesign, grid: TimeGrid, *, weights: str | None, offset: str | None
) -> PublicSpells:
    """Return the spells of the complete public rows of a design, clipped to the schema's bounds as private ones are.

    Those of people who are invented for values that all rows lack come last.
    """
    found = completed_people(table, design, [name for name in (weights, offset) if name is not None])
    rows = found.table
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    shift = rows.numeric[offset] if offset is not None else np.zeros(rows.rows)
    spells = spells_of_rows(rows, design.covariates.matrix(rows), design, grid, weights=case, offset=shift)
    if not found.invented.any():
        return spells
    groups = np.zeros(spells.people, dtype=np.int64)
    groups[spells.person] = found.invented[spells.row]
    return replace(spells, groups=groups)


def completed_people(table: PublicTable, design: SurvivalDesign, extra: Sequence[str]) -> Completed:
    """Return the complete public rows of a design, and people invented for values that they lack."""
    rows = table.admitted([*design.needs, *extra])
    outcome = (design.start, design.stop, design.event)
    names = [name for name in design.covariates.needs if name not in outcome]
    found = completed(rows, table.schema, names) if rows.persons is None else None
    none = np.zeros(rows.rows, dtype=np.int64)
    return Completed(table=rows, source=np.arange(rows.rows), invented=none) if found is None else found


def spells_of_rows(
    rows: AdmittedTable,
    X: FloatArray,
    design: SurvivalDesign,
    grid: TimeGrid,
    *,
    weights: FloatArray,
    offset: FloatArray,
) -> PublicSpells:
    """Return the spells of rows (n) with their design rows ``X`` (n, 1 + p), weights and offsets (n,)."""
    found = spells_of(
        rows,
        start=design.start,
        stop=design.stop,
        event=design.event,
        level=design.level,
        grid=grid,
        most_rows=None,
    )
    found = in_strata(found, rows, design.strata, intervals=grid.intervals)
    return PublicSpells(
        X=X[found.row],
        row=found.row,
        weights=weights[found.row],
        offset=offset[found.row],
        person=found.person,
        entry=found.entry,
        exit=found.exit,
        cause=found.cause,
        people=found.people,
    )


def fit_public(
    rows: PublicSpells, baseline: Baseline, geometry: Geometry, Z: FloatArray, *, link: str, causes: int
) -> PublicFit:
    """Return the posterior modes of all causes."""
    fits = [mode_of(rows, baseline, Z, link=link, cause=cause + 1) for cause in range(causes)]
    penalties = [fit.penalty for fit in fits if fit.penalty is not None]
    fit = PublicFit(
        theta=np.concatenate([fit.theta for fit in fits]),
        covariance=scipy.linalg.block_diag(*(fit.covariance for fit in fits)),
        information=scipy.linalg.block_diag(*(fit.information for fit in fits)),
        parts=_parts(baseline, geometry, rows.at_risk(len(baseline.features)) + 1.0, causes=causes),
        penalty=Penalty(
            B=scipy.linalg.block_diag(*(each.B for each in penalties)),
            centre=np.concatenate([each.centre for each in penalties]),
            sampling=scipy.linalg.block_diag(*(each.sampling for each in penalties)),
        ),
        prior=f"a normal prior with a standard deviation of {SLOPE_SPREAD:g} for whitened slopes and "
        f"{BASELINE_SPREAD:g} for the baseline, about a constant hazard",
    )
    flat = unknown_directions(np.column_stack([np.ones(len(Z)), Z]))
    return fit if flat is None else spread_along(fit, _in_all_causes(baseline, flat, causes=causes))


def _in_all_causes(baseline: Baseline, directions: FloatArray, *, causes: int) -> FloatArray:
    """Return directions of an intercept and slopes (1 + p, k) as those of every cause's baseline and slopes."""
    level = np.linalg.solve(baseline.mixing, baseline.constant)
    return np.kron(np.eye(causes), np.vstack([np.outer(level, directions[0]), directions[1:]]))


def _parts(baseline: Baseline, geometry: Geometry, weights: FloatArray, *, causes: int) -> tuple[FloatArray, ...]:
    """Return the directions in which sources may differ: of each cause the level, the shape in time, each slope.

    A unit of the level, and of each direction of the shape, changes logarithms of hazards by a root mean square of
    `BASELINE_UNIT`, under ``weights`` (q,) of the intervals; these changes are orthogonal. Intervals in which few
    people are at risk may differ by more.
    """
    e, mixed = len(baseline.constant), baseline.mixed
    gram = mixed.T @ (mixed * (weights / np.sum(weights))[:, None])
    root = np.linalg.cholesky(gram + LEAST_CHANGE * np.max(np.diag(gram)) * np.eye(e)).T
    level = np.linalg.solve(baseline.mixing, baseline.constant)
    turned = BASELINE_UNIT * np.linalg.solve(root, np.linalg.qr(np.column_stack([root @ level, np.eye(e)]))[0])
    slopes = coefficient_parts(geometry)[:, int(geometry.intercept) :]
    block = scipy.linalg.block_diag(turned, slopes[int(geometry.intercept) :])
    whole = [np.kron(np.eye(causes)[:, [cause]], block) for cause in range(causes)]
    parts = [part for each in whole for part in (each[:, :1], each[:, 1:e], *each_column(each[:, e:]))]
    return tuple(part for part in parts if part.size)


def mode_of(rows: PublicSpells, baseline: Baseline, Z: FloatArray, *, link: str, cause: int) -> PublicFit:
    """Return the posterior mode of the hazard of one cause."""
    mixed = baseline.mixed
    e, p = mixed.shape[1], Z.shape[1]
    data = rows.data(mixed, Z, cause=cause)
    exposure = float(np.sum(rows.weights * (rows.exit - rows.entry)))
    events = float(np.sum(rows.weights * (rows.cause == cause)))
    level = float(LINKS[link].predictor(np.array((events + 0.5) / (exposure + 1.0))))
    constant = np.linalg.solve(baseline.mixing, baseline.constant)
    centre = np.concatenate([level * constant, np.zeros(p)])
    ridge = np.concatenate([np.full(e, BASELINE_SPREAD**-2.0), np.full(p, SLOPE_SPREAD**-2.0)])
    fit = fit_hazard(data, link, ridge=ridge, centre=centre, start=centre)
    meat = Likelihood(replace(data, weights=data.weights**2), LINKS[link], ridge=ridge).hessian(fit.theta)
    inverse = np.asarray(np.linalg.inv(fit.information + np.diag(ridge)), dtype=np.float64)
    covariance = inverse @ meat @ inverse
    penalty = Penalty.of(covariance, inverse=inverse, precision=np.diag(ridge), centre=centre, phi=1.0)
    return PublicFit(theta=fit.theta, covariance=covariance, information=fit.information, penalty=penalty)


def hazard_likelihood(
    rows: PublicSpells,
    features: FloatArray,
    *,
    link: str,
    causes: int,
    terms: tuple[str, ...],
    decided: bool = True,
) -> Estimate:
    """Return the maximum-likelihood fit, cause by cause, with its model-based covariance.

    Parameters
    ----------
    rows
        Spells; their weights are prior weights as in ``glm``.
    features
        Baseline features (q, e), among which a constant can be formed.
    link, causes
        The link, and how many kinds of event there are.
    terms
        Names of the coefficients, baseline first, for each cause.
    decided
        Whether coefficients that have no finite value are NaN. Else all stay where the iteration ended, and a
        `RuntimeWarning` says so.

    Notes
    -----
    A covariate that the spells do not identify is NaN (R's NA): of aliased columns the first is kept. Where all are
    finite, the steps of the iteration and further ones lead to the maximum, or a `RuntimeWarning` says otherwise.
    """
    X = rows.X[:, 1:]
    e, p = features.shape[1], X.shape[1]
    kept = identified(np.column_stack([np.ones(len(X)), X])[rows.weights > 0], tolerance=ALIASED_IN_GLM)[1:]
    Z, back = _standardised(X[:, kept], features, rows.weights)
    places = np.concatenate([np.ones(e, dtype=bool), kept])
    values = np.full((causes, e + p), np.nan)
    covariance = np.full((causes * (e + p), causes * (e + p)), np.nan)
    aliased, infinite = np.tile(~places, (causes, 1)), np.zeros((causes, e + p), dtype=bool)
    for cause in range(causes):
        data = rows.data(features, Z, cause=cause + 1)
        fit = fit_hazard(data, link)
        theta, inverse = fit.theta, np.linalg.pinv(fit.information)
        known = np.ones(len(theta), dtype=bool)
        found = None
        if decided:
            found = None if _is_certain(data, fit) else _existence(data, X[:, kept])
        elif not fit.converged:
            found = _maximum(data, X[:, kept])
            if found is None:
                warnings.warn(SEPARATED, HdpWarning, stacklevel=5)
        if found is not None:
            likelihood = Likelihood(data, LINKS[link])
            away: FloatArray = np.asarray(np.linalg.solve(back, found.away))
            far = polished(theta, away, gradient=likelihood.gradient, hessian=likelihood.hessian)
            if np.all(found.finite):
                far.warn()
            theta, inverse, known = far.theta, far.covariance, found.finite
            aliased[cause, places], infinite[cause, places] = ~known & (found.away == 0), ~known & (found.away != 0)
        values[cause, places] = np.where(known, back @ theta, np.nan)
        where = cause * (e + p) + np.flatnonzero(places)[known]
        covariance[np.ix_(where, where)] = (back @ inverse @ back.T)[np.ix_(known, known)]
    if causes > 1:
        finite = np.isfinite(np.diag(covariance))
        block = np.kron(np.eye(causes), np.ones((e + p, e + p))) == 0
        covariance[block & finite[:, None] & finite[None, :]] = 0.0
    return Estimate(
        label="maximum likelihood",
        terms=terms,
        values=values.ravel(),
        sampling=covariance,
        privacy=0.0 * covariance,
        note=unidentified(*([terms[i] for i in np.flatnonzero(which)] for which in (aliased, infinite)), of=len(terms)),
    )


def _maximum(data: HazardData, X: FloatArray) -> Existence | None:
    """Return what `_existence` finds where all coefficients are finite; None where one is not, or it is undecided."""
    try:
        found = _existence(data, X)
    except HdpError:
        return None
    return found if bool(np.all(found.finite)) else None


SEPARATED = (
    "fitted hazards numerically 0 or 1 occurred: the public rows are separated (an interval or a level without events) "
    "and the likelihood has no maximum; some coefficients and standard errors mean little"
)


def _is_certain(data: HazardData, fit: HazardFit) -> bool:
    """Return whether there is a maximum near where the iteration ended."""
    e, here = data.A.shape[1], fit.reached

    def longest(inverse: FloatArray) -> float:
        return longest_of(data.A, inverse[:e, :e]) + longest_of(data.Z, inverse[e:, e:])

    return has_maximum(here.gradient, here.hessian, longest, bound=fit.self_concordance)


def _existence(data: HazardData, X: FloatArray) -> Existence:
    """Return which coefficients of the baseline and of covariates ``X`` (m, p) are finite, and how the others grow."""
    entry, spans = data.entry, np.where(data.weights > 0.0, data.exit - data.entry, 0)
    r = np.repeat(np.arange(len(spans)), spans)
    l = entry[r] + np.arange(len(r)) - np.repeat(np.cumsum(spans) - spans, spans)  # noqa: E741
    happened = (data.event[r] == 1) & (l == data.exit[r] - 1)
    scale = np.concatenate([np.max(np.abs(each), axis=0, initial=1e-150) for each in (data.A, X)])
    e = data.A.shape[1]
    rows = SignedRows(left=data.A / scale[:e], right=X / scale[e:], l=l, r=r, sign=np.where(happened, 1.0, -1.0))
    found = existence(rows)
    return replace(found, away=found.away / scale)


def _standardised(X: FloatArray, features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centred covariates that are orthogonal, and the matrix (e + p, e + p) back to coefficients of ``X``."""
    e, p = features.shape[1], X.shape[1]
    location = np.average(X, axis=0, weights=weights) if np.sum(weights) > 0 else np.zeros(p)
    scale = np.sqrt(np.maximum(np.mean((X - location) ** 2, axis=0), np.finfo(float).tiny))
    constant = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
    Z, apart = orthogonal((X - location) / scale)
    back = np.eye(e + p)
    back[:e, e:] = -np.outer(constant, (location / scale) @ apart)
    back[e:, e:] = apart / scale[:, None]
    return Z, back

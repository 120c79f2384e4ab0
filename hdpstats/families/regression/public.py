r"""The public side: rows, whitened rows, and a public fit that is always there.

The public fit is a posterior mode in whitened coordinates under a normal prior whose spread is chosen by the
Laplace evidence of the public rows (MacKay 1992). It exists under separation and collinearity, and its
sandwich is the covariance that pooling uses. It costs nothing: no private row takes part.

A loss that is no likelihood has no scale of its own: half a squared residual is not in units of its variance. There the
loss is divided by ``phi = tr(H^-1 J) / D`` first, its Hessian then being about the covariance of its score,
and the spreads are in units of ``sqrt(phi / h) / 2``, ``h`` a row's mean curvature: 1 for the logistic loss, half a
residual standard deviation for squares.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, final

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.base import summed
from hdpstats.families.multinomial.rows import MultinomialRows
from hdpstats.families.regression.clustered import adjusted, clustered_meat
from hdpstats.families.regression.rows import RegressionRows, cut_numbers, whose
from hdpstats.families.several_rows import SeveralRows, row_weights
from hdpstats.formulas import Design
from hdpstats.formulas.design import whitened_matrix
from hdpstats.formulas.outcome import Response
from hdpstats.losses import LogisticLoss, PredictorLoss, SmoothedQuantile
from hdpstats.losses.base import three_digits
from hdpstats.public.enough import FEWEST_ROWS
from hdpstats.public.invented import completed, unknown_directions
from hdpstats.public.moments import (
    Coverage,
    Moments,
    Penalty,
    PublicFit,
    WhitenedRows,
    averaged_squares,
    averaged_sum,
    averaged_sums,
    coefficient_parts,
    each_column,
    shrunk,
    spread_where_unknown,
    squares,
)
from hdpstats.public.sandwich import SandwichSide, Window
from hdpstats.raking.curvature import RakeableSide, raked, raked_meat, raked_sums
from hdpstats.raking.people import WhitenedPeople, whitened_people
from hdpstats.raking.raking import PublicVariables, RakedPeople
from hdpstats.records.geometry import Geometry, mallows_weights
from hdpstats.records.sandwich import SandwichPart
from hdpstats.schema.persons import by_appearance
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable
from hdpstats.solvers import minimise
from hdpstats.solvers.newton import AMPLE, newton
from hdpstats.solvers.objective import Rows, SmoothObjective

PRIOR_SPREADS = (0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0)
"""Prior standard deviations of whitened slopes among which the evidence chooses."""

INTERCEPT_SPREAD = 3.0
WIDE_SPREAD = 10.0
"""Of the intercept under a likelihood, and under other losses, whose outcomes have a scale of about 1."""

CLOSE = 1e-8
"""The evidence of a likelihood's mode is known to this while spreads are compared; the best mode is then completed."""

RESIDUALS = "Residuals are taken to be as large as those of public rows."
FOLLOW_UP = "Follow-up is taken to end, and times to differ from the model, as those of public rows."

COVERED = {"own": Coverage(fits="logistic regressions by a user's own loss", share=0.76)}
COVERED_SEVERAL = {
    "squares": Coverage(fits="linear regressions of people with two rows each", share=0.93),
    "logistic": Coverage(fits="logistic regressions of people with two rows each", share=0.82),
}
"""See `hdpstats.public.moments.PublicSide.covered_unlike`: by the loss, of people with one row and with several."""

WEAK = 1e-4
"""Ridge of the fit that finds ``phi``, relative to the number of rows times their largest curvature."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicRows:
    """Complete public rows, clipped to the schema's bounds as private rows are.

    ``X`` (n, D) design with the intercept first, of the ``table``; ``y`` (n,) as the loss reads it, or None where the
    outcome is not public; ``weights``, ``offset`` (n,). ``groups`` (n,) says for which lacking value a row was
    invented, 0 for none; None stands for 0 everywhere. ``person`` (n,) says whose each row is, those of a person
    together; None where every row is a person.
    """

    table: AdmittedTable
    X: FloatArray
    y: FloatArray | None
    weights: FloatArray
    offset: FloatArray
    groups: IntArray | None = None
    person: IntArray | None = None

    def completed(self, design: Design, schema: Schema, *, outcome: Sequence[str]) -> "PublicRows":
        """Return the rows with people invented for values that they lack in columns that are no outcome."""
        names = [name for name in design.needs if name not in outcome]
        found = completed(self.table, schema, names)
        if found is None:
            return self
        return PublicRows(
            table=found.table,
            X=design.matrix(found.table),
            y=None if self.y is None else self.y[found.source],
            weights=self.weights[found.source],
            offset=self.offset[found.source],
            groups=found.invented,
            person=None if self.person is None else with_invented(self.person, found.source, found.invented),
        )


def _first(stacks: Moments) -> Moments:
    """Return the first matrices of stacks."""
    return Moments(H=stacks.H[0], J=stacks.J[0])


def with_invented(person: IntArray, source: IntArray, invented: IntArray) -> IntArray:
    """Return whose each row is: rows that were invented of one person for one value are those of a further person."""
    whose = invented * (int(person.max(initial=-1)) + 1) + person[source]
    return np.asarray(np.unique(whose, return_inverse=True)[1], dtype=np.int64)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WhitenedPublic(WhitenedRows, RakeableSide, SandwichSide):
    r"""Public rows of a regression in a geometry.

    With case weight ``a`` and Mallows weight ``w`` a person has ``H = a w l'' x x'`` and ``J = a^2 w^2 l'^2 x x'``.
    ``l''`` and ``l'^2`` are the row's own where its outcome ``y`` is public, `PredictorLoss.typical` otherwise, and for
    a loss that is not `PredictorLoss.robust`. ``bread`` is the loss whose curvature counts, where that of ``loss``
    itself would rest on too few rows. ``variables`` are the rows by variables, for losses whose coverage with raked
    rows was measured (`PredictorLoss.raked`).

    **Several rows of a person** (``several``). ``weights`` count :math:`w(n)` (`hdpstats.families.several_rows`),
    ``person`` (n,) says whose each row is. ``H`` and ``J`` are then averages over people, ``J`` of the outer products
    of their scores. A row's score is :math:`\sqrt{\ell''}` times a standardised residual ``t`` of the public fit,
    adjusted for few people (`hdpstats.families.regression.clustered`), so that correlations within a person are those
    of public people, whatever the coefficients; for a loss that is `PredictorLoss.robust` ``t`` is the score itself.
    ``t`` is None, and nothing is known of ``J``, where public rows do not tell whose they are, lack the outcome, or are
    of few people; ``J`` is then ``most`` times what it is for single rows, which bounds it.
    """

    loss: PredictorLoss
    offset: FloatArray
    y: FloatArray | None = None
    bread: PredictorLoss | None = None
    variables: PublicVariables | None = None
    t: FloatArray | None = None
    most: float = 1.0

    @property
    def known(self) -> bool:
        """Whether standard errors may rest on `moments`."""
        if self.several:
            return self.t is not None
        return self.loss.modelled or self.y is not None

    @property
    def modelled(self) -> bool:
        """Whether a model says the curvature."""
        return self.loss.modelled

    @property
    def taken_from_outcomes(self) -> str:
        """How raked rows are like public ones beside covariates; nothing where outcomes are not public."""
        if not self.loss.robust or self.y is None:
            return ""
        return RESIDUALS if self.loss.outcomes else FOLLOW_UP

    @property
    def covered_unlike(self) -> Coverage | None:
        """Of own losses but those of residuals alone, and of linear and logistic fits to people with several rows."""
        if self.several:
            return COVERED_SEVERAL.get(self.loss.name)
        return None if self.loss.raked else COVERED.get(self.loss.name)

    @property
    def canonical(self) -> bool:
        """Whether curvature does not depend on outcomes."""
        return not self.loss.robust

    @property
    def along_the_way(self) -> bool:
        """Whether the mean curvature between two coefficients is taken: of all losses but those of a location.

        It is that of residuals as large as the public ones at each point; of counts almost that of the mean alone.
        """
        return not self.located

    @property
    def located(self) -> bool:
        """Whether curvature is that of public outcomes near the predictor."""
        return self.loss.robust and self.y is not None and self.loss.located

    @property
    def of_outcomes(self) -> bool:
        """Whether curvature is that of public outcomes."""
        return not self.modelled and self.y is not None

    @property
    def scaled(self) -> bool:
        """Whether the loss has the scale of a likelihood."""
        return not self.loss.robust

    @property
    def slopes(self) -> slice:
        """The covariates, where there are any."""
        return slice(int(self.geometry.intercept) if self.geometry.location else 0, None)

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.geometry.dimension

    def moments(self, theta: FloatArray, *, records: float, row_weights: FloatArray | None = None) -> Moments:
        """Return ``H`` and ``J`` of ``records`` private people; see `PublicSide.moments`."""
        curvature, square = self._typical(theta)
        X, weight, levelled = self.X, self.weights * self.mallows, self._levelled
        if self.several:
            return self._of_people(curvature, square, records=records, row_weights=row_weights)
        curvatures, meat = weight * curvature, weight**2 * square
        if row_weights is not None:
            parts = (row_weights, curvatures), (row_weights, meat)
            return averaged_squares(X, *parts, records=records, levelled=levelled)
        H, J = (X.T @ (each[:, None] * X) for each in (curvatures, meat))
        return averaged_sums(H, J, records=records, people=self.people, levelled=levelled)

    def hessian(self, theta: FloatArray, *, records: float) -> FloatArray:
        """Return ``H`` of `moments`."""
        if self.several:
            return self.moments(theta, records=records).H
        curvatures = self.weights * self.mallows * self._typical(theta)[0]
        H = self.X.T @ (curvatures[:, None] * self.X)
        return averaged_sum(H, records=records, people=self.people, levelled=self._levelled)

    def _of_people(
        self, curvature: FloatArray, square: FloatArray, *, records: float, row_weights: FloatArray | None
    ) -> Moments:
        """Return the moments of people with several rows; ``row_weights`` (B, people) are of people."""
        X, weight, count = self.X, self.weights * self.mallows, self.people
        share = np.full((1, count), 1.0 / count) if row_weights is None else row_weights
        of_rows = share if self.person is None else share[:, self.person]
        H = squares(X, of_rows, weight * curvature)
        if self.t is None or self.person is None:
            J = self.most * squares(X, of_rows, weight**2 * square)
        else:
            size = weight * self.t if self.loss.robust else weight * np.sqrt(curvature) * self.t
            scores = summed(self.person, size[:, None] * X, people=count)
            J = squares(scores, share, np.ones(count))
        H, J = (records * shrunk(each, rows=count, levelled=self._levelled) for each in (H, J))
        return Moments(H=H[0], J=J[0]) if row_weights is None else Moments(H=H, J=J)

    def at_radii(self, geometries: Sequence[Geometry], *, records: float) -> Moments:
        """Return the moments at the centre in geometries of other radii; see `WhitenedRows.at_radii`."""
        if self.several:
            return WhitenedRows.at_radii(self, geometries, records=records)
        curvature, square = self._typical(self.centre)
        lengths = np.sum(self.X[:, int(self.geometry.intercept) :] ** 2, axis=1)
        weight = self.weights * np.array([mallows_weights(lengths, each) for each in geometries])
        curved = curvature / self.people
        parts = (weight, curved), (weight**2, curved if square is curvature else square / self.people)
        return averaged_squares(self.X, *parts, records=records, levelled=self._levelled)

    def with_weights(self, weights: FloatArray) -> FloatArray:
        """Return Hessians of one person under other Mallows weights; see `WhitenedRows.with_weights`."""
        return self._information(weights, self._typical(self.centre)[0])

    def borne(self, weights: FloatArray) -> FloatArray:
        """Return what rows bear; see `WhitenedRows.borne`.

        Where curvature is that of a row's own outcome, as for Huber's loss, everybody has the mean one: a row of
        outlying outcome has none, and pulls at the estimate all the same.
        """
        if self.modelled or self.y is None:
            return self.with_weights(weights / self.left)
        whole = float(np.mean(self._typical(self.centre)[0] / self.left))
        return self._information(weights, np.full(len(self.X), whole))

    @property
    def left(self) -> FloatArray:
        """What saturation of the loss leaves of each row's information at the centre."""
        return self.loss.kept(self.X @ self.centre + self.offset)

    def left_of_unseen(self, X: FloatArray) -> FloatArray:
        """Return the same for unseen people."""
        return self.loss.kept(X @ self.centre)

    def _information(self, weights: FloatArray, curvature: FloatArray) -> FloatArray:
        """Return one person's Hessians (k, D, D) under weights (k, n) of rows of a curvature (n,)."""
        curvature = curvature / self.people
        half = len(weights) // 2
        parts = [(self.weights * each, curvature) for each in (weights[:half], weights[half:])]
        found = averaged_squares(self.X, *parts, records=1.0, levelled=self._levelled)
        return np.concatenate([found.H, found.J])

    @property
    def unit(self) -> float:
        """That of the public fit; without outcomes 1 for a likelihood, else half a residual standard deviation."""
        if self.fit is not None:
            return self.fit.unit
        if not self.loss.robust:
            return 1.0
        curvature, square = self._typical(self.centre)
        level = max(float(np.mean(curvature)), 1e-12)
        return 0.5 * float(np.sqrt(max(float(np.mean(square)), 1e-12))) / level

    @property
    def scores(self) -> FloatArray | None:
        """The gradient of each row's loss at the public fit, case weights included; None without outcomes."""
        if self.fit is None or self.y is None:
            return None
        eta = self.X @ self.fit.theta + self.offset
        return np.asarray((self.weights * self.loss.score(eta, self.y))[:, None] * self.X)

    @property
    def _levelled(self) -> tuple[slice, ...]:
        return (slice(int(self.geometry.intercept), None),)

    def _typical(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the curvature and the squared score of each row (n,)."""
        eta = self.X @ theta + self.offset
        if self.loss.robust and self.y is not None:
            return (self.bread or self.loss).curvature(eta, self.y), self.loss.score(eta, self.y) ** 2
        return self.loss.typical(eta)

    def windows(self, halvings: int) -> tuple[float | None, ...]:
        """Return the window of public rows, its half, ..., none narrower than that of the loss."""
        if not isinstance(self.loss, SmoothedQuantile):
            return (None,)
        widest = self.loss.h if not isinstance(self.bread, SmoothedQuantile) else self.bread.h
        widths = [three_digits(widest * 0.5**k) for k in range(halvings + 1)]
        return tuple(each for k, each in enumerate(widths) if k == 0 or each >= self.loss.h)

    def sandwich_at(self, width: float | None) -> Window:
        """Return how large public people's Hessians and squared scores are at the public fit."""
        curvature, square = self._sandwich(self.centre, width)
        lengths, weight = np.sum(self.X**2, axis=1), self.weights * self.mallows
        level = float(np.mean(curvature))
        if self.person is None:
            scores = float(np.mean(weight**2 * square * lengths))
        else:
            scores = float(np.mean(np.sum(self._scores_of_people(self.centre, self.person) ** 2, axis=1)))
        return Window(
            width=width,
            curvature=float(np.sum(weight * curvature * lengths)) / self.people,
            scores=scores,
            part=max(level**2 / max(float(np.mean(curvature**2)), 1e-300), 1.0 / self.people),
        )

    def cut_moments(
        self, theta: FloatArray, part: SandwichPart, *, row_weights: FloatArray | None = None
    ) -> tuple[Moments, Moments]:
        """Return averages of moments, whole and cut; see `SandwichSide.cut_moments`.

        Squared scores of a 0/1 outcome are expectations over it by the model: where it is rare, few public rows have
        it, and these would say next to nothing of what cutting takes away.
        """
        share = np.full((1, self.people), 1.0 / self.people) if row_weights is None else row_weights
        curvature, square = self._sandwich(theta, part.width)
        weight, lengths = self.weights * self.mallows, np.sum(self.X**2, axis=1)
        if self.person is not None:
            whole, cut = self._cut_of_people(theta, part, self.person, weight * curvature, share)
        else:
            curved, meat = weight * curvature, weight**2 * square
            short = cut_numbers(meat, lengths, bound=part.scores)
            if isinstance(self.loss, LogisticLoss):
                meat, short = self._of_chances(theta, weight, lengths, bound=part.scores)
            curves = squares(self.X, share, curved), squares(self.X, share, meat)
            cuts = (cut_numbers(curved, lengths, bound=part.curvature), short)
            whole = Moments(H=curves[0], J=curves[1])
            cut = Moments(H=squares(self.X, share, cuts[0]), J=squares(self.X, share, cuts[1]))
        return (whole, cut) if row_weights is not None else (_first(whole), _first(cut))

    def _of_chances(
        self, theta: FloatArray, weight: FloatArray, lengths: FloatArray, *, bound: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return expected squared scores (n,) of rows with a 0/1 outcome, whole and cut."""
        p = self.loss.mean(self.X @ theta + self.offset)
        of_ones, of_zeros = weight**2 * (1.0 - p) ** 2, weight**2 * p**2
        one, zero = (cut_numbers(each, lengths, bound=bound) for each in (of_ones, of_zeros))
        return p * of_ones + (1.0 - p) * of_zeros, p * one + (1.0 - p) * zero

    def _scores_of_people(self, theta: FloatArray, person: IntArray) -> FloatArray:
        """Return the scores (people, D) of people with several rows, by their outcomes: zeros where none are public."""
        if self.y is None:
            return np.zeros((self.people, self.dimension))
        scores = self.weights * self.mallows * self.loss.score(self.X @ theta + self.offset, self.y)
        return summed(person, scores[:, None] * self.X, people=self.people)

    def _cut_of_people(
        self, theta: FloatArray, part: SandwichPart, person: IntArray, curved: FloatArray, share: FloatArray
    ) -> tuple[Moments, Moments]:
        """Return stacks of `cut_moments` of people with several rows, who are cut as private ones are."""
        X, count, scores = self.X, self.people, self._scores_of_people(theta, person)
        traces = np.bincount(person, weights=curved * np.sum(X**2, axis=1), minlength=count)
        left = np.minimum(1.0, part.curvature / np.maximum(traces, 1e-150))[person]
        factors = cut_numbers(np.ones(count), np.sum(scores**2, axis=1), bound=part.scores)
        H, of_cut = (squares(X, share[:, person], each) for each in (curved, curved * left))
        J, of_short = (squares(scores, share, each) for each in (np.ones(count), factors))
        return Moments(H=H, J=J), Moments(H=of_cut, J=of_short)

    def _sandwich(self, theta: FloatArray, width: float | None) -> tuple[FloatArray, FloatArray]:
        """Return curvatures over a window, and squared scores (n,): of own outcomes where they are public."""
        eta = self.X @ theta + self.offset
        if self.y is None:
            return self.loss.typical(eta)
        return self.loss.with_width(width).curvature(eta, self.y), self.loss.score(eta, self.y) ** 2

    @property
    def covariates(self) -> IntArray:
        """The coordinates of the slopes."""
        return np.arange(int(self.geometry.intercept), self.dimension)

    @property
    def undetermined(self) -> bool:
        """Whether people do not vary along some direction of the whitened covariates."""
        return unknown_directions(self.X) is not None

    def whitened(self, people: RakedPeople) -> WhitenedPeople:
        """Return raked public people in the geometry."""
        return whitened_people(self.geometry, people)

    def as_raked(self, people: WhitenedPeople) -> "WhitenedPublic":
        """Return raked people in place of public ones; see `RakeableSide.as_raked`."""
        y, X = self.y, np.ascontiguousarray(people.X[0])
        if y is not None and self.loss.of_residuals:
            y = y + (X - self.X) @ self.centre
        weights = self.weights * people.weights[0] * self.people
        return replace(self, X=X, mallows=people.mallows[0], weights=weights, y=y)

    def raked_moments(self, theta: FloatArray, *, records: float, people: WhitenedPeople) -> Moments:
        """Return ``H`` and ``J`` of ``records`` people who are raked public ones; see `PublicSide.raked_moments`."""
        return self.raked_over([theta], records=records, people=people)

    def raked_over(self, places: Sequence[FloatArray], *, records: float, people: WhitenedPeople) -> Moments:
        """Return the mean of the same at some coefficients; see `RakeableSide.raked_over`.

        Curvatures and squared scores of rows are averaged, but for people with several rows: their scores are added
        before they are squared.
        """
        weight = self.weights * people.mallows
        if self.several and self.t is not None:
            if len(places) > 1:
                return RakeableSide.raked_over(self, places, records=records, people=people)
            curvature, _ = self._over(places, people)
            (H,) = raked_sums(people, (weight * curvature)[None])
            size = weight * self.t if self.loss.robust else weight * np.sqrt(curvature) * self.t
            return Moments(H=records * H, J=records * raked_meat(people, size[:, :, None] * people.X))
        curvature, square = self._over(places, people)
        found = raked(people, weight * curvature, weight**2 * square)
        return Moments(H=records * found.H, J=records * found.J)

    def raked_hessian(self, places: Sequence[FloatArray], *, records: float, people: WhitenedPeople) -> FloatArray:
        """Return ``H`` of `raked_over`."""
        (H,) = raked_sums(people, (self.weights * people.mallows * self._over(places, people)[0])[None])
        return np.asarray(records * H)

    def _over(self, places: Sequence[FloatArray], people: WhitenedPeople) -> tuple[FloatArray, FloatArray]:
        """Return the mean curvature and squared score of each row of raked people (B, n) at some coefficients."""
        curvatures, squares = [], []
        for eta, theta in zip(people.predictor(np.stack(places)), places, strict=True):
            moved, own = eta + self.offset, self.X @ theta + self.offset
            curvature, square = self.loss.over(moved, own=own, y=self.y)
            if self.bread is not None:
                curvature, _ = self.bread.over(moved, own=own, y=self.y)
            curvatures.append(curvature)
            squares.append(square)
        return _mean(curvatures), _mean(squares)

    def raked_hessian_change(self, theta: FloatArray, steps: FloatArray, *, people: WhitenedPeople) -> FloatArray:
        """Return how curvature over raked people changes; see `RakeableSide.raked_hessian_change`."""
        eta, along = people.predictor(theta) + self.offset, people.predictor(steps)
        changes = self.loss.typical(eta + along)[0] - self.loss.typical(eta - along)[0]
        return people.products(self.weights * people.mallows * changes, along, steps)


def _mean(several: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of arrays; of one it is that one."""
    total = several[0]
    for each in several[1:]:
        total = total + each
    return total / len(several) if len(several) > 1 else total


def public_rows(
    table: PublicTable,
    design: Design,
    response: Response,
    *,
    weights: str | None,
    offset: str | None,
    several: SeveralRows | None = None,
) -> PublicRows:
    """Return the complete public rows of a design; the outcome may be absent as a whole column.

    Where people have ``several`` rows their weights count the number of these.
    """
    extra = [name for name in (weights, offset) if name is not None]
    read = [name for name in (response.stop, response.column) if name is not None]
    covariates = [name for name in design.needs if name not in read]
    outcome = read if all(name in table.names for name in read) else []
    rows = table.admitted([*covariates, *outcome, *extra])
    case = rows.numeric[weights] if weights is not None else np.ones(rows.rows)
    if several is not None:
        used = rows.used(most_rows=several.most_rows)
        rows, case = used, used.numeric[weights] if weights is not None else np.ones(used.rows)
        if rows.persons is not None:
            case = case * row_weights(rows.persons, np.ones(rows.rows, dtype=np.bool_), several.correlation)
    return PublicRows(
        table=rows,
        X=design.matrix(rows),
        y=response.of(rows) if outcome else None,
        weights=case,
        offset=rows.numeric[offset] / response.stretch if offset is not None else np.zeros(rows.rows),
        person=None if several is None or rows.persons is None else by_appearance(rows.persons),
    )


def whitened_public(
    rows: PublicRows,
    design: Design,
    loss: PredictorLoss,
    *,
    bread: PredictorLoss | None = None,
    several: SeveralRows | None = None,
) -> WhitenedPublic:
    """Return the public rows in their own whitening (radius 1 until `objective` chooses it), with the public fit."""
    geometry = design.whitening(rows.X)
    whitened = whitened_matrix(geometry, rows.X)
    fit, t = None, None
    if rows.y is not None:
        real = np.ones(len(rows.X), dtype=bool) if rows.groups is None else rows.groups == 0
        columns = np.asfortranarray(whitened.X[real])  # by columns, as compiled loops take them
        seen = RegressionRows.of(loss, columns, rows.y[real], weights=rows.weights[real], offset=rows.offset[real])
        seen = replace(seen, person=None if rows.person is None else rows.person[real])
        fit = fitted_public(seen, geometry, bread=bread)
        if seen.person is not None and seen.count >= FEWEST_ROWS:
            t = np.zeros(len(rows.X))
            t[real] = _residuals(seen, replace(seen, loss=bread or loss), theta=fit.theta)
            t[~real] = t[real][np.arange(int(np.sum(~real))) % max(int(np.sum(real)), 1)]
    return WhitenedPublic(
        loss=loss,
        geometry=geometry,
        X=whitened.X,
        mallows=whitened.weights,
        weights=rows.weights,
        offset=rows.offset,
        fit=fit,
        y=rows.y,
        bread=bread,
        groups=rows.groups,
        variables=PublicVariables(table=rows.table, design=design, person=rows.person)
        if loss.raked and (several is None or t is not None)
        else None,
        several=several is not None,
        person=rows.person,
        t=t,
        most=1.0 if several is None else float(several.total),
    )


def fitted_public(seen: RegressionRows, geometry: Geometry, *, bread: PredictorLoss | None = None) -> PublicFit:
    """Return the fit to public rows that are whitened by a geometry; ``bread`` is the loss whose curvature counts."""
    loss, first, parts = seen.loss, int(geometry.intercept), coefficient_parts(geometry)
    curved = replace(seen, loss=bread or loss)
    if loss.robust:
        fit = _robust_fit(seen, curved, first=first, parts=parts)
    else:
        meat = None if seen.person is None else partial(_meat_at, curved)
        fit = likelihood_fit(seen, curved, first=first, parts=parts, meat_of_people=meat)
    return spread_where_unknown(fit, seen.X)


_Rows = TypeVar("_Rows", RegressionRows, MultinomialRows)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Mode:
    """A posterior mode under a normal prior about 0 of a precision (D, D), its Hessian, and the Laplace log-evidence.

    ``ridge`` (d,) are the precisions of the coefficients of one level.
    """

    ridge: FloatArray
    precision: FloatArray
    theta: FloatArray
    hessian: FloatArray
    evidence: float

    @property
    def inverse(self) -> FloatArray:
        """The inverse (D, D) of the Hessian."""
        return np.asarray(np.linalg.inv(self.hessian), dtype=np.float64)


@final
class _UnderPriors(SmoothObjective):
    """Losses under one prior after another; their gradient and Hessian are kept for where they were asked last."""

    def __init__(self, rows: Rows) -> None:
        self.ridge = self.centre = np.zeros(rows.dimension)
        self.precision = np.diag(self.ridge)
        self._losses = rows.penalised(ridge=self.ridge)
        self._gradients: dict[tuple[bytes, bytes], FloatArray] = {}
        self._hessians: dict[tuple[bytes, bytes], FloatArray] = {}

    @property
    def mass(self) -> float:
        """That of the losses."""
        return self._losses.mass

    def gradient(self, theta: FloatArray, rest: FloatArray | None = None) -> FloatArray:
        """Return the gradient (D,) at ``theta + rest``."""
        rest = np.zeros_like(theta) if rest is None else rest
        of_losses = _kept(self._gradients, (theta, rest), self._losses.gradient)
        return np.asarray(of_losses + self.precision @ (theta + rest))

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (D, D), the prior's precision included."""
        none = np.zeros_like(theta)
        return np.asarray(_kept(self._hessians, (theta, none), lambda at, _: self._losses.hessian(at)) + self.precision)


def _kept(
    found: dict[tuple[bytes, bytes], FloatArray],
    point: tuple[FloatArray, FloatArray],
    compute: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """Return what was computed at a point, if it was the last one, else compute it."""
    place = (point[0].tobytes(), point[1].tobytes())
    if place not in found:
        found.clear()
        found[place] = compute(*point)
    return found[place]


def _of_levels(ridge: FloatArray, others: int) -> FloatArray:
    """Return the precision (D, D) of a prior under which it does not matter which level of an outcome is the reference.

    Coefficients of all levels, the reference among them, are taken for independent of precisions ``ridge`` (d,), and
    what is estimated are their differences from those of the reference: of covariance ``I + 11'`` between levels, of
    precision ``I - 11' / (M + 1)``, in units of one of them. With one predictor it is the diagonal matrix.
    """
    levels = np.eye(others) - (1.0 / (others + 1.0) if others > 1 else 0.0)
    return np.asarray(np.kron(levels, np.diag(ridge)), dtype=np.float64)


def _best(
    rows: RegressionRows | MultinomialRows,
    *,
    first: int,
    unit: float,
    wide: float,
    phi: float,
    close: float | None = None,
) -> tuple[_Mode, list[_Mode]]:
    """Return the mode under the spread of largest evidence, in units of ``unit``, and those under all of them.

    The first coefficients of a level are intercepts.

    Priors are normal with precisions ``ridge / phi`` (`_of_levels`), the loss is divided by phi. With ``close`` spreads
    are compared where the objective is about so much above its minimum.
    """
    under, others = _UnderPriors(rows), rows.dimension // rows.X.shape[1]

    def mode(ridge: FloatArray, start: FloatArray, close: float | None) -> _Mode:
        precision = _of_levels(ridge, others)
        under.precision = precision
        if close is None and others == 1:
            theta = minimise(rows.penalised(ridge=ridge), start=start).theta
        else:
            theta = newton(under, start=start, budget=AMPLE, tolerance=close or 0.0)
        hessian = under.hessian(theta)
        curved = 0.5 * (float(np.linalg.slogdet(precision)[1]) - float(np.linalg.slogdet(hessian)[1]))
        value = rows.value(theta) + 0.5 * float(theta @ precision @ theta)
        return _Mode(ridge=ridge, precision=precision, theta=theta, hessian=hessian, evidence=curved - value / phi)

    def modes() -> Iterator[_Mode]:
        start = np.zeros(rows.dimension)
        for spread in PRIOR_SPREADS:
            ridge = np.full(rows.X.shape[1], phi * (spread * unit) ** -2.0)
            ridge[:first] = phi * wide**-2.0
            found = mode(ridge, start, close)
            start = found.theta
            yield found

    every = list(modes())
    best = max(every, key=lambda mode: mode.evidence)
    return best if close is None else mode(best.ridge, best.theta, None), every


def _over_spreads(
    best: _Mode, every: Sequence[_Mode], *, meat: FloatArray, parts: FloatArray, phi: float = 1.0
) -> FloatArray:
    r"""Return `PublicFit.spreads` (D, D): second moments about the best mode, averaged over the prior's spreads.

    .. math:: \sum_s p_s \Big\{H_s^{-1} (M + \phi P_s) H_s^{-1} + (\theta_s - \hat\theta)(\theta_s - \hat\theta)'
              + \sum_j e_{sj}\, B_s q_j q_j' B_s'\Big\}, \qquad
              e_{sj} = \max(0,\; \tilde\beta_j^2 - \tilde v_j - \phi\, r_j P_s^{-1} r_j'),

    ``p_s`` in proportion to the evidence of spread ``s``, all taken for equally likely beforehand, ``H_s`` the Hessian
    at its mode with its prior ``P_s``, and ``M`` (D, D) the covariance of the score (Hoeting et al. 1999).

    **One large coefficient among many small ones.** One spread for all shrinks it by what the small ones ask for,
    along its direction ``q_j`` (``parts`` (D, q)) by :math:`B_s = H_s^{-1} P_s` times itself. Its square is estimated
    by that of its estimate :math:`\tilde\beta_j = r_j \tilde\theta` under the widest prior, of variance
    :math:`\tilde v_j`; ``r_j`` are rows of the pseudo-inverse of the directions. Where that is more than the prior's
    variance the rest is added. Without it a logit with one slope of .45 among 20, of which 320 public rows were
    pooled with 4,800 private ones at epsilon 1, covered that slope in .83 and erred by 1.47 times the private-only
    estimate (``vignettes/decisions`` 0106; measured in ``vignettes/validation/pooling.md``).
    """
    evidence = np.array([mode.evidence for mode in every])
    shares = np.exp(evidence - np.max(evidence))
    found, rows, widest = np.zeros_like(meat), np.linalg.pinv(parts), every[-1]
    sampling = widest.inverse @ meat @ widest.inverse
    squares = (rows @ widest.theta) ** 2 - np.einsum("jk,kl,jl->j", rows, sampling, rows)
    for share, mode in zip(shares / np.sum(shares), every, strict=True):
        apart, beside = mode.theta - best.theta, np.linalg.solve(mode.precision, rows.T)
        excess = np.maximum(squares - phi * np.einsum("jk,kj->j", rows, beside), 0.0)
        pulled = mode.inverse @ mode.precision @ parts
        found += share * (mode.inverse @ (meat + phi * mode.precision) @ mode.inverse)
        found += share * (np.outer(apart, apart) + (pulled * excess) @ pulled.T)
    return found


def likelihood_fit(
    rows: _Rows,
    bread: _Rows,
    *,
    first: int,
    parts: FloatArray,
    meat_of_people: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
) -> PublicFit:
    """Return the posterior mode under the prior spread of largest evidence, with its sandwich covariance.

    ``bread`` has the loss whose curvature counts; ``first`` columns of a level are intercepts; ``parts`` (D, q) are the
    directions of coefficients. ``meat_of_people`` returns the sum of outer products of people's scores at coefficients,
    with the inverse Hessian, where people have several rows.
    """
    best, every = _best(rows, first=first, unit=1.0, wide=INTERCEPT_SPREAD, phi=1.0, close=CLOSE)
    inverse, prior = best.inverse, best.precision
    information = best.hessian - prior
    if meat_of_people is not None:
        meat = meat_of_people(best.theta, inverse) + prior
    else:
        meat = replace(bread, weights=rows.weights**2).curvature(best.theta) + prior
    covariance = inverse @ meat @ inverse
    return PublicFit(
        theta=best.theta,
        covariance=covariance,
        information=information,
        parts=each_column(parts),
        spreads=_over_spreads(best, every, meat=meat - prior, parts=parts),
        penalty=Penalty.of(covariance, inverse=inverse, precision=prior, centre=np.zeros_like(best.theta), phi=1.0),
        prior=prior_words(float(best.ridge[-1]) ** -0.5, INTERCEPT_SPREAD if first else None),
    )


def prior_words(slopes: float, intercept: float | None) -> str:
    """Return in words the standard deviations of a normal prior; ``intercept`` None where there is none."""
    words = f"a normal prior with a standard deviation of {slopes:.3g} for whitened slopes"
    return words if intercept is None else f"{words} and {intercept:.3g} for the intercept"


def _robust_fit(rows: RegressionRows, bread: RegressionRows, *, first: int, parts: FloatArray) -> PublicFit:
    """Return the same for a loss without a scale: divided by ``phi``, with the rows' own squared scores as the meat."""
    n, D = rows.X.shape
    weak = np.full(D, WEAK * n * float(rows.loss.smoothness))
    H, J = _sandwich(rows, bread, theta=minimise(rows.penalised(ridge=weak), start=np.zeros(D)).theta)
    phi = max(float(np.trace(np.linalg.solve(H + np.diag(weak), J))) / D, 1e-12)
    unit = 0.5 * np.sqrt(phi / max(float(np.trace(H)) / float(np.sum(rows.X * rows.X)), 1e-12))
    best, every = _best(rows, first=first, unit=float(unit), wide=WIDE_SPREAD, phi=phi)
    prior = best.precision
    H, J = _sandwich(rows, bread, theta=best.theta)
    inverse = np.asarray(np.linalg.inv(H + prior), dtype=np.float64)
    if rows.person is None:
        J = J * (n / max(n - D, 1))
    else:
        J = _meat_of_people(rows, bread, theta=best.theta, inverse=inverse)
    covariance = inverse @ (J + phi * prior) @ inverse
    spread = float(best.ridge[-1] / phi) ** -0.5
    return PublicFit(
        theta=best.theta,
        covariance=covariance,
        information=H / phi,
        unit=float(unit),
        parts=each_column(parts),
        spreads=_over_spreads(best, every, meat=J, parts=parts, phi=phi),
        penalty=Penalty.of(covariance, inverse=inverse, precision=prior, centre=np.zeros_like(best.theta), phi=phi),
        prior=prior_words(spread, WIDE_SPREAD if first else None),
    )


def _sandwich(rows: RegressionRows, bread: RegressionRows, *, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Hessian of the rows' losses and the sum of their squared scores at coefficients (D, D)."""
    X, eta = rows.X, rows.predictor(theta)
    curvatures, scores = rows.weights * bread.loss.curvature(eta, rows.y), rows.weights * rows.loss.score(eta, rows.y)
    return X.T @ (curvatures[:, None] * X), X.T @ ((scores**2)[:, None] * X)


def _curvatures(rows: RegressionRows, bread: RegressionRows, *, theta: FloatArray) -> FloatArray:
    """Return the curvature of each row's loss (n,); without a model for outcomes the mean of all in its place."""
    found = bread.loss.curvature(bread.predictor(theta), bread.y)
    return np.full(len(found), np.mean(found)) if rows.loss.robust else np.asarray(found)


def _residuals(rows: RegressionRows, bread: RegressionRows, *, theta: FloatArray) -> FloatArray:
    """Return `WhitenedPublic.t` of rows (n,), each person's adjusted for few people."""
    curvatures, person = _curvatures(rows, bread, theta=theta), whose(rows)
    H = rows.X.T @ ((rows.weights * curvatures)[:, None] * rows.X)
    inverse = np.asarray(np.linalg.pinv(H), dtype=np.float64)
    scores = rows.loss.score(rows.predictor(theta), rows.y)
    t = adjusted(rows.X, person, weights=rows.weights, curvatures=curvatures, scores=scores, inverse=inverse)
    return t * np.sqrt(curvatures) if rows.loss.robust else t


def _meat_at(rows: RegressionRows, theta: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return `_meat_of_people` of a likelihood."""
    return _meat_of_people(rows, rows, theta=theta, inverse=inverse)


def _meat_of_people(
    rows: RegressionRows, bread: RegressionRows, *, theta: FloatArray, inverse: FloatArray
) -> FloatArray:
    """Return the sum of the outer products of people's scores (D, D), adjusted for few people."""
    curvatures = _curvatures(rows, bread, theta=theta)
    scores = rows.loss.score(rows.predictor(theta), rows.y)
    return clustered_meat(
        rows.X, whose(rows), weights=rows.weights, curvatures=curvatures, scores=scores, inverse=inverse
    )

r"""Public rows re-weighted and re-scaled to averages of private people: raking by variables.

Private covariates mostly differ from public ones in prevalences, means and spreads. Given those of the private people
(`hdpstats.records.averages`), public row ``i`` with base weight :math:`q_i` gets

1. the weight :math:`w_i \propto q_i \exp(a'f_i)`, ``f`` the 0/1 indicators of levels of which the private share is
   known, such that :math:`\sum_i w_i f_i` are these shares, none below .01: exponential tilting, the distribution
   nearest to the public one in Kullback-Leibler divergence (`hdpstats.raking.tilting`), with :math:`|a_j| \le 6`.
2. for each number ``x`` of which the private mean is known
   :math:`x' = \mu + (\sigma / \sigma_w)(x - \bar x_w)`, cut to the bounds of the schema.

3. where averages of products are known too (`hdpstats.records.averages.CohortProduct`): the product of two indicators
   is one more feature ``f`` of the tilt; for pairs with a number the numbers are mixed linearly, so that they have
   the correlations that products tell (`hdpstats.raking.correlations`).

The design is then built anew from these *variables*, so that interactions, splines and transforms are those of the
raked people. **People with several rows** are weighted as a whole: ``f`` is the average of a person's rows, weighted as
the model weights them, and has the 0/1 indicators of numbers of rows of which the private share is known; numbers are
moved row by row. Averages are over rows, with the weights of the model.

Right where private people are distributed as the public ones tilted by levels, shifted and scaled number by number, and
mixed; where no products are known correlations are the public ones. (Re-weighting numbers as well cannot leave the
public rows' support, and fails where private people do.)

Numbers here are in public units: less the public mean, over the public standard deviation with one pseudo-row spread
over the declared range, as in `hdpstats.records.geometry.from_public`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.compiled import compiled
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.formulas import Design
from hdpstats.public.squares import weighted_squares
from hdpstats.raking.correlations import Pairs, mixing, pairs_of
from hdpstats.raking.tilting import tilted_weights, tilts
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind
from hdpstats.schema.table import AdmittedTable

LEAST_SHARE = 0.01
"""The least share of a level."""

LARGEST = 6.0
"""The largest tilt."""

PENALTY = 1e-3
"""Of the tilts of pairs of levels, whose joint shares are then met up to a thousandth times a tilt.

Where no public person has some levels at once, no weights may have the wanted joint shares. Tilts without a penalty
have no limit then; each was cut to the largest one, and shares came out quite otherwise (.22 for .73 of README's
patients). Tilts of the levels themselves have none: their shares can be met, and those of rare ones must be, as
curvature is in proportion to them (of 1 % a thousandth times a tilt made 1.3 %).
"""

VARIANCES = (0.2, 9.0)
"""Variances of raked numbers are cut to these, in squares of public standard deviations."""

CORRECTIONS = 15
"""Fixed-point steps that account for the bounds to which numbers were cut."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicVariables:
    """Public rows by variables, complete and within the schema's bounds, with the design that is built from them.

    ``person`` (n,) says whose each row is of people with several, those of a person together; None for one row each.
    """

    table: AdmittedTable
    design: Design
    person: IntArray | None = None

    @property
    def people(self) -> int:
        """The number of people."""
        return self.table.rows if self.person is None else int(self.person.max(initial=-1)) + 1

    def of_rows(self, of_people: FloatArray) -> FloatArray:
        """Return what belongs to each row (B, n) of what belongs to people (B, people)."""
        return of_people if self.person is None else of_people[:, self.person]

    def added(self, of_rows: FloatArray) -> FloatArray:
        """Return the sums over each person's rows (people, k) of numbers of rows (n, k)."""
        if self.person is None:
            return of_rows
        return np.add.reduceat(of_rows, np.flatnonzero(np.diff(self.person, prepend=-1)), axis=0)

    def matrix(self, numbers: Mapping[str, FloatArray], *, count: int) -> FloatArray:
        """Return designs (count, n, p) with some of the numbers replaced, (count, n) each."""
        n = self.table.rows
        if not numbers:
            return np.broadcast_to(self.design.matrix(self.table), (count, n, len(self.design.columns)))
        read = self.design.needs
        numeric = {
            name: numbers[name].reshape(-1) if name in numbers else np.tile(values, count)
            for name, values in self.table.numeric.items()
            if name in read
        }
        codes = {name: np.tile(values, count) for name, values in self.table.codes.items() if name in read}
        rows = AdmittedTable(numeric=numeric, codes=codes, rows=count * n)
        return np.moveaxis(self.design.by_columns(rows).reshape(-1, count, n), 0, 2)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RakedPeople:
    """Public people as private ones might be, B times.

    Attributes
    ----------
    weights : (B, n) float64
        Their weights, 1 in sum; where people count with case weights, these are multiplied later. Of people with
        several rows those of each row's person: 1 in sum over people.
    X : (B, n, p) float64
        Their rows of the design; columns lie one after the other in memory.
    at_risk : (B, J) float64
        The share of private people at risk after each of `times`, which never grows; J may be 0.
    times : (J,) float64
        Increasing times.
    person : (n,) int64 or None
        Whose each row is, of people with several.
    """

    weights: FloatArray
    X: FloatArray
    at_risk: FloatArray
    times: FloatArray
    person: IntArray | None = None

    def at_risk_at(self, starts: FloatArray) -> FloatArray:
        """Return the shares at risk after other times from 0 on (B, q): on lines between the known ones."""
        times = np.concatenate([[0.0], self.times])
        known = np.column_stack([np.ones(len(self.at_risk)), self.at_risk])
        place = np.clip(np.searchsorted(times, starts, side="right") - 1, 0, max(len(times) - 2, 0))
        part = np.clip((starts - times[place]) / (times[place + 1] - times[place]), 0.0, 1.0)
        return np.asarray(known[:, place] + part * (known[:, place + 1] - known[:, place]))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Averages:
    """Averages of private people, B times: of indicators, numbers and squares in public units, at risk, products."""

    shares: FloatArray
    means: FloatArray
    squares: FloatArray
    at_risk: FloatArray
    products: FloatArray

    def take(self, part: slice) -> "Averages":
        """Return some of them."""
        return Averages(
            shares=self.shares[part],
            means=self.means[part],
            squares=self.squares[part],
            at_risk=self.at_risk[part],
            products=self.products[part],
        )


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RakedVariables:
    """The variables of which averages are known, as features of public rows.

    Attributes
    ----------
    public : PublicVariables
        The rows and the design.
    known : CohortMoments
        The averages.
    case_weights : (n,) float64
        By which averages count public rows: 1 for each, or case weights.
    shares, means, squares, at_risk : tuple of CohortMoment
        What is used of them, shares of people with so many rows among those of levels; ``squares`` are of the same
        numbers as ``means``, None where one is not known.
    constant : tuple of str
        Variables that are left as they are, though averages are known: all public rows agree.
    indicators : (n, kb) float64
        Of the levels; with ``level_scale`` (kb,) of public units.
    squared : (kc,) bool
        Of which numbers the square is known.
    numbers : (n, kc) float64
        In public units; with ``centre``, ``scale`` (kc,) of the units.
    bounds, clipped : (2, kc) float64
        Bounds of the schema, and those of the averages, in public units.
    about : (kc,) float64
        What squares are taken about, in public units.
    pairs : Pairs
        Of which products averages are known.
    """

    public: PublicVariables
    known: CohortMoments
    case_weights: FloatArray
    shares: tuple[CohortMoment, ...]
    means: tuple[CohortMoment, ...]
    squares: tuple[CohortMoment | None, ...]
    at_risk: tuple[CohortMoment, ...]
    constant: tuple[str, ...]
    indicators: FloatArray
    level_scale: FloatArray
    squared: BoolArray
    numbers: FloatArray
    centre: FloatArray
    scale: FloatArray
    bounds: FloatArray
    clipped: FloatArray
    about: FloatArray
    pairs: Pairs

    @property
    def base(self) -> FloatArray:
        """What averages count public rows by, 1 in sum (n,)."""
        return np.asarray(self.case_weights / self.case_weights.sum())

    @property
    def cut(self) -> FloatArray:
        """The numbers within the bounds of the averages (n, kc)."""
        return np.clip(self.numbers, *self.clipped)

    @property
    def tilted_features(self) -> FloatArray:
        """What weights depend on (n, kt): the indicators, and products of those whose joint share is known."""
        first, second = self.pairs.places[:, self.pairs.joint]
        return np.column_stack([self.indicators, self.indicators[:, first] * self.indicators[:, second]])

    def tilted(self, base: FloatArray, averages: Averages, *, start: FloatArray, steps: int) -> FloatArray:
        """Return tilts (B, kt) with which rows of base weights (B, n) have given shares of the levels."""
        shares = self.feasible(averages.shares)
        both = self.pairs.both(averages.products, shares)
        goal = np.column_stack([shares, both])
        penalty = np.repeat([0.0, PENALTY], [shares.shape[1], both.shape[1]])
        return tilts(self.tilted_features, base, goal, start=start, steps=steps, penalty=penalty, largest=LARGEST)

    def feasible(self, shares: FloatArray) -> FloatArray:
        """Return shares of levels (B, kb) that people can have: all of a variable's, the last one included, positive.

        Those below 0 are reflected, as the density of what a share might be given noise ends there.
        """
        averages = np.empty_like(shares)
        names = [(each.what, each.variable) for each in self.shares]
        for name in dict.fromkeys(names):
            own = [place for place, each in enumerate(names) if each == name]
            whole = np.column_stack([shares[:, own], 1.0 - shares[:, own].sum(axis=1)])
            whole = np.maximum(np.abs(whole), LEAST_SHARE)
            averages[:, own] = whole[:, :-1] / whole.sum(axis=1, keepdims=True)
        return averages

    def weights(self, base: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return weights (B, n), 1 in sum, of rows of base weights (B, n) under tilts (B, kt)."""
        return tilted_weights(self.tilted_features, base, tilt)

    def moved(self, weights: FloatArray, means: FloatArray, variances: FloatArray, products: FloatArray) -> FloatArray:
        """Return the numbers (kc, B, n) with weighted means and variances (B, kc), cut to the schema's bounds.

        They are in the unit of the schema. ``products`` (B, kp) tell their covariances, with indicators and each other.
        """
        if not np.all(self.pairs.joint):
            return self._mixed(weights, means, variances, products)
        x = self.numbers
        first = weights @ x
        own = np.maximum(weights @ x**2 - first**2, 1e-3)
        stretch = np.sqrt(variances / own)
        moved, level = np.empty((x.shape[1], *weights.shape)), (means - stretch * first) * self.scale + self.centre
        _move(np.ascontiguousarray(x.T), stretch * self.scale, level, self.bounds * self.scale + self.centre, moved)
        return moved

    def _mixed(self, weights: FloatArray, means: FloatArray, variances: FloatArray, products: FloatArray) -> FloatArray:
        """Return `moved` numbers where some covariances are known."""
        features = np.column_stack([self.indicators, self.numbers])
        first = weights @ features
        squares = weighted_squares(features[None], weights[:, None])[:, 0]
        goal = np.concatenate([first[:, : self.pairs.indicators], means], axis=1)
        maps = mixing(
            self.pairs,
            squares - first[:, :, None] * first[:, None, :],
            deviations=np.sqrt(variances),
            wanted=self.pairs.covariances(products, goal),
        )
        level = (means - (first[:, None, :] @ maps)[:, 0]) * self.scale + self.centre
        slopes = np.concatenate([maps * self.scale, level[:, None, :]], axis=1)
        columns = np.vstack([features.T, np.ones(len(features))])
        moved = np.moveaxis(slopes, 2, 0).reshape(-1, len(columns)) @ columns
        moved = moved.reshape(len(self.scale), len(weights), len(features))
        low, high = (self.bounds * self.scale + self.centre)[:, :, None, None]
        return np.asarray(np.clip(moved, low, high, out=moved))

    def people(self, weights: FloatArray, numbers: FloatArray, at_risk: FloatArray) -> RakedPeople:
        """Return people of weights (B, n), numbers (kc, B, n) in the schema's unit and shares at risk (B, J)."""
        columns = {each.variable: own for each, own in zip(self.means, numbers, strict=True)}
        person = self.public.person
        if person is not None:
            weights = weights / np.sum(weights[:, np.diff(person, prepend=-1) > 0], axis=1, keepdims=True)
        elif self.known.weighted:
            weights = weights / np.sum(weights * self.case_weights, axis=1, keepdims=True)
        return RakedPeople(
            weights=weights,
            X=self.public.matrix(columns, count=len(weights)),
            at_risk=np.minimum.accumulate(np.clip(at_risk, 0.0, 1.0), axis=1),
            times=np.array([each.time for each in self.at_risk]),
            person=person,
        )

    @property
    def counts(self) -> bool:
        """Whether averages count rows by `case_weights`."""
        return self.known.weighted or self.public.person is not None


@compiled
def _move(columns: FloatArray, slope: FloatArray, level: FloatArray, bounds: FloatArray, out: FloatArray) -> None:
    """Write columns (k, n) times slopes plus levels (B, k), cut to bounds (2, k), to ``out`` (k, B, n)."""
    for j in range(len(columns)):
        low, high = bounds[0, j], bounds[1, j]
        for b in range(len(slope)):
            a, c, to = slope[b, j], level[b, j], out[j, b]
            for i in range(len(to)):
                value = columns[j, i] * a + c
                to[i] = low if value < low else (high if value > high else value)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Raking:
    """How public rows are raked: around the people of one point, from which others are not far.

    Attributes
    ----------
    variables : RakedVariables
        The features.
    averages : Averages
        Those of the point (1 of each).
    tilt : (kt,) float64
        The tilt there.
    first, second : (kc,) float64
        What is added to means and squares, so that those of the numbers as they were cut are the wanted ones.
    third : (kp,) float64
        The same for products.
    """

    variables: RakedVariables
    averages: Averages
    tilt: FloatArray
    first: FloatArray
    second: FloatArray
    third: FloatArray

    def raked(self, averages: Averages, *, base: FloatArray, steps: int = 3) -> RakedPeople:
        """Return people of averages (B of each) with base weights of people (B, people)."""
        on = self.variables
        base = on.public.of_rows(base)
        whole = base * on.case_weights if on.counts else base
        whole = whole / whole.sum(axis=1, keepdims=True)
        tilt = on.tilted(whole, averages, start=self.tilt, steps=steps)
        means = averages.means + self.first
        variances = np.clip(averages.squares + self.second - (means - on.about) ** 2, *VARIANCES)
        numbers = on.moved(on.weights(whole, tilt), means, variances, averages.products + self.third)
        return on.people(on.weights(base, tilt), numbers, averages.at_risk)


def raking_at(variables: RakedVariables, averages: Averages) -> Raking:
    """Return the raking around averages (1 of each)."""
    base = variables.base[None]
    tilt = variables.tilted(base, averages, start=np.zeros(variables.tilted_features.shape[1]), steps=12)
    w = variables.weights(base, tilt)
    means, squares, products, about = averages.means, averages.squares, averages.products, variables.about
    variances = np.clip(squares - (means - about) ** 2, *VARIANCES)
    for _ in range(CORRECTIONS):
        raw = (variables.moved(w, means, variances, products)[:, 0].T - variables.centre) / variables.scale
        x = np.clip(raw, *variables.clipped)
        seen = variables.pairs.of(np.column_stack([variables.indicators, raw]).T) @ w[0]
        products = products + np.where(variables.pairs.joint, 0.0, averages.products - seen)
        wanted = variances + (means - about) ** 2 + squares - w @ (x - about) ** 2
        means = means + averages.means - w @ x
        variances = np.clip(wanted - (means - about) ** 2, *VARIANCES)
    return Raking(
        variables=variables,
        averages=averages,
        tilt=tilt[0],
        first=(means - averages.means)[0],
        second=(variances + (means - about) ** 2 - squares)[0],
        third=(products - averages.products)[0],
    )


def raked_variables(public: PublicVariables, known: CohortMoments, *, case_weights: FloatArray) -> RakedVariables:
    """Return the features of public rows of which averages are known and that the design reads."""
    table, read = public.table, set(public.design.needs) - {public.design.response}
    boxes = dict(public.design.boxes)
    counted = case_weights if known.weighted or public.person is not None else np.ones(table.rows)
    base = counted / counted.sum()
    constant: list[str] = []

    def varies(moment: CohortMoment, values: FloatArray) -> bool:
        if float(np.ptp(values)) > 0.0:
            return True
        constant.append(moment.variable)
        return False

    indicators = {each: _indicator(table, each) for each in known.of(MomentKind.SHARE) if each.variable in read}
    indicators = {each: _of_people(public, values, counted) for each, values in indicators.items()}
    indicators |= _numbers_of_rows(public, known)
    indicators = {each: values for each, values in indicators.items() if varies(each, values)}
    numbers = {each: table.numeric[each.variable] for each in known.of(MomentKind.MEAN) if each.variable in boxes}
    numbers = {each: values for each, values in numbers.items() if varies(each, values)}
    squares = {each.variable: each for each in known.of(MomentKind.SQUARE)}
    levels, X = (
        np.column_stack([*each.values()]) if each else np.zeros((table.rows, 0)) for each in (indicators, numbers)
    )
    low = np.array([boxes[each.variable].lower for each in numbers])
    high = np.array([boxes[each.variable].upper for each in numbers])
    centre = base @ X
    scale = pseudo_scale(base @ (X - centre) ** 2, high - low, rows=table.rows)
    level_scale = pseudo_scale(base @ (levels - base @ levels) ** 2, np.ones(len(indicators)), rows=table.rows)
    about = np.array([squares[each.variable].centre if each.variable in squares else np.nan for each in numbers])
    kept = np.array([[each.lower for each in numbers], [each.upper for each in numbers]])
    return RakedVariables(
        public=public,
        known=known,
        case_weights=counted,
        shares=tuple(indicators),
        means=tuple(numbers),
        squares=tuple(squares.get(each.variable) for each in numbers),
        at_risk=tuple(sorted((each for each in known.of(MomentKind.AT_RISK) if each.time > 0), key=_time)),
        constant=tuple(dict.fromkeys(constant)),
        indicators=levels,
        level_scale=level_scale,
        squared=~np.isnan(about),
        numbers=(X - centre) / scale,
        centre=centre,
        scale=scale,
        bounds=(np.array([low, high]) - centre) / scale,
        clipped=(kept - centre) / scale,
        about=np.where(np.isnan(about), 0.0, (about - centre) / scale),
        pairs=pairs_of(
            known.products,
            _places([*indicators], [*numbers], numeric=set(table.numeric)),
            centre=np.concatenate([np.zeros(len(indicators)), centre]),
            scale=np.concatenate([np.ones(len(indicators)), scale]),
            indicators=len(indicators),
        ),
    )


def _of_people(public: PublicVariables, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the average (n,) of each row's person's values, weighted; the values themselves for one row each."""
    if public.person is None:
        return values
    sums = public.added(np.column_stack([weights * values, weights]))
    return np.asarray((sums[:, 0] / np.maximum(sums[:, 1], np.finfo(float).tiny))[public.person])


def _numbers_of_rows(public: PublicVariables, known: CohortMoments) -> dict[CohortMoment, FloatArray]:
    """Return which rows (n,) are of people with so many, for each known share of such people."""
    if public.person is None:
        return {}
    numbers, before, found = np.bincount(public.person)[public.person], 0.0, {}
    for each in known.of(MomentKind.ROWS):
        found[each] = ((numbers > before) & (numbers <= each.upper)).astype(np.float64)
        before = each.upper
    return found


def _places(
    shares: Sequence[CohortMoment], means: Sequence[CohortMoment], *, numeric: Collection[str]
) -> dict[tuple[str, int | None], int]:
    """Return the place of each feature by column and level; numbers of 0 and 1 are known without a level, too."""
    places: dict[tuple[str, int | None], int] = {(each.variable, each.level): k for k, each in enumerate(shares)}
    places |= {(each.variable, None): k for k, each in enumerate(shares) if each.variable in numeric}
    return places | {(each.variable, None): len(shares) + k for k, each in enumerate(means)}


def _time(moment: CohortMoment) -> float:
    return moment.time


def pseudo_scale(variance: FloatArray, reach: FloatArray, *, rows: int) -> FloatArray:
    """Return standard deviations from public variances, with one pseudo-row spread over the range."""
    return np.sqrt((rows * variance + reach**2 / 12.0) / (rows + 1))


def _indicator(table: AdmittedTable, moment: CohortMoment) -> FloatArray:
    cells = table.codes[moment.variable] if moment.variable in table.codes else table.numeric[moment.variable]
    return np.asarray(cells == moment.level, dtype=np.float64)

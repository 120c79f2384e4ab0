r"""A performance curve with noise: how far candidates' predictions are from a private ridge fit's; pure epsilon.

Wang et al. (2018, algorithm 2) release :math:`t_i = \|p(\theta_i) - p(\hat\theta)\|_2`, the distance of the private
people's probabilities under a candidate from those under the private fit, with noise for a change by 1. But the fit
itself changes with a person, and with it all probabilities: without a penalty :math:`t_i` can change by
:math:`\sqrt n / 2` (``tests/privacy/test_curve.py`` has such neighbours). And all ``k`` of them are released, each of
which costs.

**Sensitivity.** Rows have length at most ``R``; :math:`\hat\theta` minimises the mean logistic loss plus
:math:`\tfrac{\lambda}{2} \|\theta\|^2`. Replacing a person moves the sum of gradients by at most :math:`2 R`, hence
:math:`\hat\theta` by at most :math:`2 R / (n \lambda)` (strong convexity), hence every other person's probability by at
most :math:`R / 4` times that; the person's own changes by at most 1. A row with a missing cell is a row of zeros: its
gradient is 0 and its probabilities do not differ, so that the bounds hold for it too. With the reverse triangle
inequality

.. math:: |t_i - t_i'| \le S = \sqrt{1 + (n - 1) \frac{R^2}{16} \Big(\frac{2 R}{n \lambda} + 2 \eta\Big)^2},

:math:`\eta = 2^{-20}` being the certified distance of the computed fit from the exact one. Each difference of
probabilities is rounded to an integer number of :math:`2^{-20}`, squares are added as integers and the root is rounded
down; in these units an error of half a unit and of the floating-point evaluation, :math:`\delta`, in each difference
moves a root by at most :math:`\sqrt n (\tfrac12 + \delta)`, the last rounding moves it by less than 1:
:math:`2^{20} S + \sqrt n (1 + 2 \delta) + 1` bounds the change.

**Work.** The fit is that of `hdpstats.solvers.accelerated`: a fixed budget of Newton steps, or else a number of steps
that follows from ``R``, :math:`\lambda` and the number of people and leads within :math:`2^{-21}` of the exact
minimiser surely. A query for which doubles cannot do that is refused (`fit_work`).

**Guarantee.** Two-sided geometric noise of rate :math:`\epsilon / k` over that bound in each of ``k`` numbers is
epsilon-DP. The number of people must be public: ``replace_one`` only.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations
from hdpstats.families.base import ROUNDING
from hdpstats.families.regression.rows import linear_work, ridge_objective, row_error
from hdpstats.formulas import Design
from hdpstats.losses.logistic import LogisticLoss
from hdpstats.mechanisms.base import Prepared, binary_design, check_one_row
from hdpstats.mechanisms.hybrid_weights import CurveQuery, CurveRelease
from hdpstats.mechanisms.minimiser import MOST_STEPS, too_much
from hdpstats.noise.discrete import TwoSidedGeometric
from hdpstats.privacy.budget import MechanismName, PrivacyEvent
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.partitions import Parts
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import AdmittedTable, joined
from hdpstats.solvers.accelerated import Work, farthest, minimise_within, minimising_work, smoothness_of, work_of
from hdpstats.solvers.kernels import product_work, row_products
from hdpstats.solvers.objective import UNIT, rounded_cells

UNITS = 2**20
ACCURACY = Fraction(1, 2**20)
"""Certified distance of the private fit from the exact minimiser, its rounding to doubles included."""

SOLVED = ACCURACY / 2
MOST_PEOPLE = 2**20
"""So that squares of differences, at most 2^40 each, add up below 2^62."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedCurve(Prepared):
    """A curve with its noise and its work fixed."""

    query: CurveQuery
    design: Design
    noise: TwoSidedGeometric
    work_of_fit: Work

    @property
    def whole(self) -> bool:
        """It is no sum over partitions."""
        return True

    def work(self, rows: int) -> Operations:
        """Return what the fit with all its steps and the predictions of all candidates take at most."""
        D, K = len(self.query.scale), len(self.query.candidates)
        fit = minimising_work(
            linear_work(rows, D, functions=LogisticLoss.functions, by_columns=False, bounded=False), self.work_of_fit
        )
        predicted = product_work(rows, D, by_columns=False)
        compared = Operations(steps=40.0, passes=20.0 * rows, functions=3.0 * rows)
        cut = Operations(steps=60.0 + 4.0 * D, passes=30.0 * rows * D)
        return self.noise.work(K) + self.design.work(rows) + cut + fit + (K + 1.0) * (predicted + compared)

    def compute(self, rows: Parts[AdmittedTable]) -> CurveRelease:
        """Draw the noise, fit, compare, add and release."""
        table = rows.gathered(joined)
        noise = self.noise.draws(len(self.query.candidates))
        exact = curve_units(self.query, self.design, table, work=self.work_of_fit)
        return CurveRelease(
            errors=tuple((unit + z) / UNITS for unit, z in zip(exact, noise, strict=True)),
            noise_sd=math.sqrt(self.noise.variance) / UNITS,
            events=self.events,
        )


def curve_units(query: CurveQuery, design: Design, table: AdmittedTable, *, work: Work) -> list[int]:
    """Return the curve in integer units, without noise; a row with a missing cell is a row of zeros."""
    X = cut_rows(design.matrix(table) / np.array(query.scale), float(query.radius)) * table.complete[:, None]
    fitted = _probability(row_products(X, _fit(X, table.numeric[design.response], work)))
    found = []
    for candidate in query.candidates:
        apart = np.rint(np.abs(_probability(row_products(X, np.array(candidate))) - fitted) * UNITS).astype(np.int64)
        found.append(math.isqrt(int((apart * apart).sum())))
    return found


def cut_rows(X: FloatArray, radius: float) -> FloatArray:
    """Return rows (n, D) of Euclidean length at most ``radius`` up to rounding, each a function of itself alone."""
    squares = np.zeros(len(X))
    for column in X.T:
        squares += column * column
    return np.asarray(X * np.minimum(1.0, radius / np.sqrt(np.maximum(squares, radius**2)))[:, None])


def _fit(X: FloatArray, y: FloatArray, work: Work) -> FloatArray:
    """Return a point (D,) that is surely within `SOLVED` of the ridge fit."""
    objective = ridge_objective(LogisticLoss(), X, y, ridge=work.ridge)
    with np.errstate(all="ignore"):
        return minimise_within(objective, start=objective.centre, work=work)


def fit_work(query: CurveQuery, records: int) -> Work:
    """Return the public work of the fit, or raise MechanismError where doubles cannot come within `SOLVED`.

    With ``n`` people the loss at zero is ``n log 2``, the gradient has the Lipschitz constant ``n R^2 / 4``; its float
    error is that of `LinearObjective.gradient_error` for rows of length ``R``.
    """
    n, D, ridge = records, len(query.scale), records * float(query.ridge)
    R = float(query.radius * ROUNDING)
    curvature, excess = n * R * R / 4.0, 1.01 * n * math.log(2.0)
    size = farthest(ridge=ridge, excess=excess)
    per_row = R * (float(row_error(LogisticLoss(), D, sizes=R * size)) + 8.0 * UNIT)
    error = 1.01 * (n * per_row + rounded_cells(n, D, summand=R) + 8.0 * UNIT * ridge * size)
    work = work_of(ridge=ridge, curvature=curvature, error=error, size=size, excess=excess, radius=float(SOLVED))
    if work is None or work.steps > MOST_STEPS:
        raise too_much(smoothness_of(ridge=ridge, curvature=curvature) / ridge, None if work is None else work.steps)
    return work


def _probability(eta: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(eta, -700.0, 700.0))))


def prepare(query: CurveQuery, site_facts: SiteFacts) -> PreparedCurve:
    """Read the formula and fix the noise."""
    check_one_row(site_facts, "a performance curve is for people")
    if site_facts.relation is not Relation.REPLACE_ONE:
        raise MechanismError(
            "a performance curve rests on the number of people, which is protected here; choose by distance or loss"
        )
    if not 1 <= site_facts.records <= MOST_PEOPLE:
        raise MechanismError(f"a performance curve is for 1 to {MOST_PEOPLE} people; choose by distance or loss")
    design = binary_design(query.formula, site_facts.schema, coefficients=len(query.scale), what="a performance curve")
    rate = query.epsilon / (len(query.candidates) * sensitivity(query, site_facts.records))
    return PreparedCurve(
        needs=design.needs,
        events=(PrivacyEvent(ran=MechanismName.CURVE, epsilon=query.epsilon),),
        ahead=query.ahead,
        query=query,
        design=design,
        noise=TwoSidedGeometric(rate=rate),
        work_of_fit=fit_work(query, site_facts.records),
    )


def sensitivity(query: CurveQuery, records: int) -> int:
    """Return a bound on the change of `curve_units` when one of so many people is replaced.

    Linear predictors are off by at most ``2 (D + 2) 2^-53 R |theta|`` (Higham 2002, section 3.1), probabilities by a
    quarter of that and a few units in the last place, and the private fit is no longer than
    ``sqrt(2 log 2 / lambda)``, as its penalty is at most the loss at zero.
    """
    n, R, ridge = records, float(query.radius * ROUNDING), float(query.ridge)
    moved = 2.0 * R / (n * ridge) + 2.0 * float(ACCURACY)
    longest = max(float(np.linalg.norm(candidate)) for candidate in query.candidates)
    longest = max(longest, math.sqrt(2.0 * math.log(2.0) / ridge) + float(ACCURACY))
    off = UNITS * ((len(query.scale) + 2) * 2.0**-53 * R * longest + 2.0**-48)
    reach = math.sqrt(1.0 + (n - 1) * (R / 4.0 * moved) ** 2)
    return math.ceil((UNITS * reach + math.sqrt(n) * (1.0 + 2.0 * off) + 1.0) * (1.0 + 2.0**-40))

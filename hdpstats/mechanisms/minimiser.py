r"""The certified minimiser of a penalised sum of losses, by work that is a public constant.

Output and objective perturbation build on it. What it does to the rows depends on public facts only, as far as time
tells (`Effort`, from the query, the declared bounds of the design and the declared number of people):

1. Newton's method with a fixed budget of Hessians and gradients (`hdpstats.solvers.newton.SMALL`). It ends earlier at a
   point whose gradient certifies the accuracy, which is nearly always.
2. Else a fixed number of accelerated gradient steps, which lead within the accuracy *surely*, float errors included,
   from anywhere and for every sum of convex losses within the declared bounds (`hdpstats.solvers.accelerated`).

A query for which floats cannot do that, or not in `MOST_STEPS`, is refused before anything is charged.

Numbers in growing precision (`hdpstats.solvers.refine`) are out of reach of an accepted query whose declarations are
true: they are for more people than ``n_max``, and for noise longer than any that occurs (chance below 2^-60). The
distance from the minimiser, on which the guarantee rests, is certain there too; what the work tells is not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats.mechanisms.person_loss.base import People, PersonLoss
from hdpstats.records.point import MinimiserQuery
from hdpstats.solvers import minimise
from hdpstats.solvers.accelerated import Work, farthest, minimise_within, smoothness_of, work_of
from hdpstats.solvers.newton import SMALL
from hdpstats.solvers.objective import UNIT
from hdpstats.solvers.refine import refine

MOST_STEPS = 200_000
"""Accelerated steps of a minimisation: reached at condition numbers of about ten millions."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """The public work of a private minimisation.

    Attributes
    ----------
    work : Work
        Accuracy and steps.
    count : int
        The largest `People.count` for which they hold.
    noise : float
        The longest perturbation for which they hold.
    """

    work: Work
    count: int
    noise: float

    @property
    def radius(self) -> Fraction:
        """The public accuracy to which the minimiser is certified."""
        return Fraction(self.work.radius)


def certified(
    query: MinimiserQuery, people: People, *, effort: Effort, perturbation: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """Return a point that is surely within ``effort.radius`` of the exact minimiser for a perturbation (D,)."""
    centre, linear = np.array(query.centre), np.array([float(value) for value in perturbation])
    objective = people.objective(ridge=np.full(len(centre), float(query.ridge)), centre=centre, linear=linear)
    if people.count <= effort.count and float(np.linalg.norm(linear)) <= effort.noise:
        with np.errstate(all="ignore"):
            theta = minimise_within(objective, start=centre, work=effort.work)
        return tuple(Fraction(value) for value in theta.tolist())
    solution = minimise(objective, start=centre, budget=SMALL)
    if math.isfinite(solution.radius) and Fraction(solution.radius) <= effort.radius:
        return tuple(Fraction(value) for value in solution.theta.tolist())
    start = solution.theta if np.all(np.isfinite(solution.theta)) else centre
    return refine(objective, start=start, radius=effort.radius, linear=perturbation).theta


def effort_of(query: MinimiserQuery, person_loss: PersonLoss, *, noise: float, records: int) -> Effort:
    r"""Return the public work of a minimisation where the perturbation is no longer than ``noise``.

    With ``n`` people whose losses at the centre are at most ``l`` above their infima, and noise of length ``W``,

    .. math:: F(c) - F^* \le E = \min\Big\{\frac{(n G + W)^2}{2 \lambda},\; n l + \frac{W^2}{2 \lambda}\Big\}:

    the first by strong convexity, ``G`` bounding a person's gradient, the second as the minimum of the ridge plus the
    noise is ``-W^2 / 2 lambda``. That bounds the length of the minimiser, hence the float error ``e`` of gradients
    near it (`PersonLoss.rounding`; ridge, noise and the rounding of steps on top). The accuracy is ``6 e / lambda``: a
    public choice, which sets the size of the smoothing noise and of nothing else.

    Raises
    ------
    MechanismError
        If floats cannot reach that accuracy, or not in `MOST_STEPS`.
    """
    ridge, start = float(query.ridge), np.array(query.centre)
    centre = float(np.linalg.norm(start))
    by_slope = (person_loss.slope(records) + noise) ** 2 / (2.0 * ridge)
    by_loss = records * person_loss.largest_loss(start) + noise**2 / (2.0 * ridge)
    excess = 1.01 * (by_loss if by_loss < by_slope else by_slope)
    size, curvature = centre + farthest(ridge=ridge, excess=excess), person_loss.curvature(records)
    error = 1.01 * (person_loss.rounding(size, people=records) + 8.0 * UNIT * (ridge * (size + centre) + noise))
    work = work_of(ridge=ridge, curvature=curvature, error=error, size=size, excess=excess)
    if work is None or work.steps > MOST_STEPS:
        raise too_much(smoothness_of(ridge=ridge, curvature=curvature) / ridge, None if work is None else work.steps)
    return Effort(work=work, count=person_loss.counted(records), noise=noise)


def too_much(condition: float, steps: int | None) -> MechanismError:
    """Return why a minimisation is refused."""
    what = (
        "doubles cannot compute the private minimum exactly enough for so small a ridge or so wide declared ranges"
        if steps is None
        else f"the private minimum may take {steps} steps, more than {MOST_STEPS}"
    )
    return MechanismError(
        f"{what}: the losses can bend the objective {condition:.2g} times as much as the ridge does; use a larger "
        "ridge, public rows or a smaller row_norm, a smaller n_max, or declare narrower offsets and weights"
    )


def on_lattice(theta: Sequence[Fraction], grid: Fraction) -> tuple[int, ...]:
    """Return the lattice point nearest to exact numbers, halves upwards."""
    return tuple(math.floor(value / grid + Fraction(1, 2)) for value in theta)

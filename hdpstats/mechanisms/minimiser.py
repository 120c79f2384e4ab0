"""The certified minimiser of a penalised sum of losses: what output and objective perturbation build on."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hdpstats.mechanisms.contrast import Contrast, People
from hdpstats.queries.point import MinimiserQuery
from hdpstats.solvers import minimise
from hdpstats.solvers.objective import UNIT
from hdpstats.solvers.refine import refine


def certified(
    query: MinimiserQuery, people: People, *, radius: Fraction, perturbation: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """Return a point that is surely within ``radius`` of the exact minimiser for a perturbation (D,)."""
    centre = np.array(query.centre)
    objective = people.objective(
        ridge=np.full(len(centre), float(query.ridge)),
        centre=centre,
        linear=np.array([float(value) for value in perturbation]),
    )
    solution = minimise(objective, start=centre)
    if math.isfinite(solution.radius) and Fraction(solution.radius) <= radius:
        return tuple(Fraction(value) for value in solution.theta.tolist())
    start = solution.theta if np.all(np.isfinite(solution.theta)) else centre
    return refine(objective, start=start, radius=radius, linear=perturbation).theta


def accuracy(query: MinimiserQuery, contrast: Contrast, *, noise: float, records: int) -> Fraction:
    r"""Return the public accuracy to which the minimiser is certified where the perturbation has the size ``noise``.

    From ``F(theta*) <= F(c)``: ``||theta* - c|| <= W / lambda + sqrt((W / lambda)^2 + 2 n L / lambda)`` with
    ``W`` the size of the noise and ``L`` the largest loss at the centre. The rounding of the gradient at that
    distance, four times over, is what float arithmetic reaches; runs that should not are refined until they do, so
    this is a choice of scale and no part of a proof.
    """
    D, ridge, start = contrast.dimension, float(query.ridge), np.array(query.centre)
    centre, reach = float(np.linalg.norm(start)), noise / ridge
    size = centre + reach + math.sqrt(reach**2 + 2.0 * records * contrast.largest_loss(start) / ridge)
    sizes = ridge * (size + centre) * math.sqrt(D) + noise
    return Fraction(4.0 * (contrast.rounding(size, people=records) + 8.0 * UNIT * sizes) / ridge)


def on_lattice(theta: Sequence[Fraction], grid: Fraction) -> tuple[int, ...]:
    """Return the lattice point nearest to exact numbers, halves upwards."""
    return tuple(math.floor(value / grid + Fraction(1, 2)) for value in theta)

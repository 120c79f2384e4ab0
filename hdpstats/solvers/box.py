r"""The minimiser of a strongly convex objective on a lattice inside a box, certified by its gradient.

At a lattice point ``k`` of a box ``|k_j| <= K_j`` write ``a_j >= 0`` for the slope into the box where ``k_j`` lies on
its boundary and the objective rises from there, and 0 elsewhere. By convexity, for other points at distances ``t``,

.. math:: F(k + t) - F(k) \ge \sum_j a_j |t_j| + \tfrac{\lambda}{2} \|t\|^2 - v, \qquad v = \sum_j (|g_j| - a_j)\,w_j,

``g`` being the gradient and ``w`` the widths of the box: ``v`` says what the point lacks to be the minimiser.

The work is public. A fixed number of rounds takes Newton steps in the coordinates that are free where they halve
``v``, and projected gradient steps where not. If they do not do, a fixed number of accelerated projected steps does
(Nesterov 2004, section 2.2.4): with ``mu`` the ridge, :math:`L \ge \tfrac54 L_0` for a function of smoothness ``L_0``,
:math:`q = \sqrt{\mu / L}` and ``P`` the projection,

.. math:: y = \frac{x + q z}{1 + q}, \qquad x^+ = P(y - g / L), \qquad
          z^+ = (1 - q) z + q y - \frac{q}{\mu} G, \qquad G = L (y - x^+).

**Proof.** Let the computed gradient ``g`` be off by ``a``, of length ``e`` at most. By smoothness, strong convexity and
:math:`\langle g - G, u - x^+ \rangle \ge 0` for ``u`` in the box

.. math:: F(u) \ge F(x^+) + \langle G, u - y \rangle + \frac{0.6}{L} \|G\|^2 + \frac{\mu}{2} \|u - y\|^2
          - \langle a, u - x^+ \rangle.

Weigh it with ``1 - q`` at ``u = x`` and with ``q`` at the minimiser ``u = theta*``, and add
:math:`\tfrac{\mu}{2} \|z^+ - \theta^*\|^2`. All products cancel but :math:`\langle a, G / L - q (w - \theta^*) \rangle`
with :math:`w = (1 - q) z + q y`, and :math:`0.1 \|G\|^2 / L` is left over: so
:math:`V = F(x) - F^* + \tfrac{\mu}{2} \|z - \theta^*\|^2` obeys

.. math:: V^+ \le (1 - q) V + q e \sqrt{2 V / \mu} + 2.5\,e^2 / L
          \le (1 - \tfrac78 q) V + 6.5\,q e^2 / \mu,

which ends below :math:`7.5\,e^2 / \mu`. One more projected step from ``x`` has :math:`0.6 \|G\|^2 \le L V + e \|G\|`,
hence :math:`\|G\| \le 1.3 \sqrt{L V} + 1.7 e`. There gradients are off from those of ``G`` by :math:`L_0 \|G\| / L`, by
that of rounding to the lattice and by ``2 e``, the bound on float errors adds ``e`` in each coordinate, and what the
box stops is in the slopes: so the point lacks at most :math:`\|w\| (2.34 \sqrt{L V} + (5.5 + \sqrt{D}) e + \tfrac12 L_0
\sqrt{D}\,\mathrm{grid})`, ``w`` being the widths of the box. Rounding of the steps is as a gradient that is off by
``32 u L`` times the size of the points.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.rehearsal import full_length
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats._base.work import Operations
from hdpstats.solvers.newton import SMALL, minimise, minimise_work, newton_step
from hdpstats.solvers.objective import UNIT, ObjectiveWork, Penalised

ROUNDS = 20
"""Tries of a Newton step in the free coordinates."""

LARGER = 1.25
"""``L`` over ``L_0``."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """The lattice points ``(origin + k) grid`` with ``|k_j| <= steps_j``, (D,) each; ``grid`` is a power of two."""

    origin: tuple[int, ...]
    steps: tuple[int, ...]
    grid: float

    @property
    def corner(self) -> FloatArray:
        """The largest ``k`` (D,)."""
        return np.array(self.steps, dtype=np.float64)

    def at(self, k: FloatArray) -> FloatArray:
        """Return coefficients (D,): exact while integers stay below 2^53."""
        return np.asarray((np.array(self.origin, dtype=np.float64) + k) * self.grid)

    def nearest(self, theta: FloatArray) -> FloatArray:
        """Return the lattice point ``k`` (D,) nearest to coefficients."""
        places = np.rint(theta / self.grid - np.array(self.origin, dtype=np.float64))
        return np.asarray(np.clip(places, -self.corner, self.corner))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LatticeMinimum:
    """A lattice point ``k`` with the slopes ``a`` into the box there, (D,) each."""

    k: tuple[int, ...]
    slopes: tuple[float, ...]


def projected_steps(
    *, ridge: float, smoothness: float, error: float, excess: float, widths: float, grid: float, D: int, lacking: float
) -> int | None:
    """Return how many accelerated projected steps lead to a point that lacks at most ``lacking``, or None.

    Parameters
    ----------
    ridge, smoothness
        ``mu`` and ``L_0``.
    error
        ``e``, at all points that are reached (`reached`), rounding of the steps included.
    excess
        ``F - F*`` at the middle of the box.
    widths
        The Euclidean norm of the widths of the box.
    grid, D
        Of the lattice.
    lacking
        What is asked for.
    """
    L = LARGER * smoothness
    left = lacking / widths - (5.5 + math.sqrt(D)) * error - 0.5 * smoothness * math.sqrt(D) * grid
    if not (left > 0.0 and 0.0 < L < math.inf and excess < math.inf):
        return None
    wanted = (left / 2.34) ** 2 / L - 7.5 * error**2 / ridge
    if not wanted > 0.0:
        return None
    rate = 0.875 * math.sqrt(ridge / L) * (1.0 - 2.0**-20)
    return max(1, math.ceil(math.log(max(2.0 * excess / wanted, 1.0)) / rate))


def reached(*, ridge: float, excess: float) -> float:
    """Return how far from the minimiser the points of the accelerated projected steps can be."""
    return math.sqrt(4.0 * excess / ridge) * 1.01


def steps_rounding(*, smoothness: float, size: float) -> float:
    """Return by how much a gradient would be off that did what rounding of the steps does, at points of a size."""
    return 32.0 * UNIT * LARGER * smoothness * size


def lattice_minimum(objective: Penalised, box: Box, *, smoothness: float, lacking: float, steps: int) -> LatticeMinimum:
    """Return a lattice point that lacks at most ``lacking``, float errors included.

    Parameters
    ----------
    objective
        The function, its ridge the same in all coordinates.
    box
        The lattice.
    smoothness
        A bound on the largest eigenvalue of its Hessian.
    lacking
        What the point may lack.
    steps
        `projected_steps`.
    """
    by_newton = _by_newton(objective, box, smoothness=smoothness, lacking=lacking)
    if by_newton is not None and not full_length():
        return by_newton
    theta = _by_projection(objective, box, smoothness=smoothness, steps=steps)
    while True:  # once: the proof says so
        k = box.nearest(theta)
        slopes, lack = _lack(objective, box, k)
        if lack <= lacking:
            sure = LatticeMinimum(k=tuple(int(value) for value in k), slopes=tuple(slopes.tolist()))
            return sure if by_newton is None else by_newton
        theta = _projected(objective, box, theta, smoothness)


def lattice_work(of: ObjectiveWork, steps: int) -> Operations:
    """Return what `lattice_minimum` takes at most: Newton's rounds, the projected steps, and two points more."""
    rounds = of.of(gradients=3.0 * ROUNDS, hessians=ROUNDS, errors=2.0 * ROUNDS, steps=ROUNDS)
    projected = of.of(gradients=steps + 8.0, hessians=0.0, errors=4.0, steps=0.0)
    return minimise_work(of, SMALL) + rounds + projected


def _by_newton(objective: Penalised, box: Box, *, smoothness: float, lacking: float) -> LatticeMinimum | None:
    """Return a point that lacks little, if some rounds find one; a rehearsal makes them all."""
    lower, upper = box.at(-box.corner), box.at(box.corner)
    theta = np.clip(minimise(objective, start=0.5 * (lower + upper), budget=SMALL).theta, lower, upper)
    theta = np.where(np.isfinite(theta), theta, 0.5 * (lower + upper))
    best, minimum = np.inf, None
    for _ in range(ROUNDS):
        k = box.nearest(theta)
        slopes, lack = _lack(objective, box, k)
        if lack <= lacking and minimum is None:
            minimum = LatticeMinimum(k=tuple(int(value) for value in k), slopes=tuple(slopes.tolist()))
            if not full_length():
                break
        gradient = objective.gradient(theta)
        free = ~(((theta <= lower) & (gradient > 0.0)) | ((theta >= upper) & (gradient < 0.0)))
        best = min(best, lack)
        tried = np.asarray(np.clip(theta - _free_step(objective, theta, gradient, free), lower, upper))
        if _lack(objective, box, box.nearest(tried))[1] <= 0.5 * best:
            theta = tried
        else:
            theta = np.clip(theta - gradient / smoothness, lower, upper)
    return minimum


def _by_projection(objective: Penalised, box: Box, *, smoothness: float, steps: int) -> FloatArray:
    """Return where the accelerated projected steps end, and one more."""
    lower, upper = box.at(-box.corner), box.at(box.corner)
    L, mu = LARGER * smoothness, float(objective.ridge[0])
    q = math.sqrt(mu / L)
    x = z = np.asarray(0.5 * (lower + upper))
    for _ in range(steps):
        y = (x + q * z) / (1.0 + q)
        x = np.clip(y - objective.gradient(y) / L, lower, upper)
        z = (1.0 - q) * z + q * y - (y - x) / q
    return _projected(objective, box, x, L)


def _projected(objective: Penalised, box: Box, theta: FloatArray, smoothness: float) -> FloatArray:
    step = objective.gradient(theta) / smoothness
    return np.asarray(np.clip(theta - step, box.at(-box.corner), box.at(box.corner)))


def _lack(objective: Penalised, box: Box, k: FloatArray) -> tuple[FloatArray, float]:
    """Return the slopes into the box at a lattice point, and what it lacks, float errors included."""
    theta = box.at(k)
    gradient, error = objective.gradient(theta), objective.gradient_error(theta)
    inwards = np.where(k <= -box.corner, gradient, np.where(k >= box.corner, -gradient, 0.0))
    slopes = np.asarray(np.maximum(inwards, 0.0))
    widths = 2.0 * box.corner * box.grid
    return slopes, float((np.abs(gradient) - slopes + error) @ widths) * (1.0 + 2.0**-20)


def _free_step(objective: Penalised, theta: FloatArray, gradient: FloatArray, free: BoolArray) -> FloatArray:
    """Return Newton's step in the free coordinates, 0 in the others."""
    step, places = np.zeros_like(theta), np.flatnonzero(free)
    hessian = objective.hessian(theta)
    if len(places):
        step[places] = newton_step(hessian[np.ix_(places, places)], gradient[places])
    return step

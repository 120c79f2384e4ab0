r"""A minimiser whose number of steps is public: triple momentum, with the computed gradient's error in its proof.

``F`` is a sum of losses, a ridge ``mu`` and a linear function; ``theta*`` is its minimiser. All that is used of the
losses is that their sum is convex and that its gradient has the Lipschitz constant ``l_0``: kinks of the gradient are
allowed. With :math:`l \ge \max(\tfrac54 l_0, 3 \mu)`, :math:`L = \mu + l` and :math:`q = \sqrt{\mu / L} \le \tfrac12`

.. math:: z^+ = (1 - q) z + q y - \frac{g}{q L}, \qquad
          y^+ = \frac{1 - q}{1 + q} \Big(y - \frac{g}{L}\Big) + \frac{2 q}{1 + q} z^+,

``g`` being the computed gradient at ``y``; the first ``y`` and ``z`` are the start, from which ``z`` does not move in
the first step (Van Scoy, Freeman and Lynch 2018; the proof shifts the objective as Zhou, So and Cheng 2020 do).

**Exact steps.** :math:`h(\theta) = F(\theta) - F^* - \tfrac{\mu}{2} \|\theta - \theta^*\|^2` is convex, at least 0, and
its gradient has the constant ``l_0``, so that for all points (Nesterov 2004, theorem 2.1.5)

.. math:: h(a) \ge h(b) + \langle \nabla h(b), a - b \rangle + \frac{\|\nabla h(a) - \nabla h(b)\|^2}{2 l_0}.

Let :math:`T^+ = h(y) - \|\nabla h(y)\|^2 / 2l + \tfrac{c}{2} \|z^+ - \theta^*\|^2` with :math:`c = 2 \mu L / l`, and
``T`` the same one step before. Weigh the inequality between the last ``y`` and this one by :math:`(1 - q)^2`, that
between ``theta*`` and this ``y`` by the rest of 1. By the rule for ``y`` all products cancel, and
:math:`T^+ \le (1 - q)^2 T - (1 - (1 - q)^2) \|\nabla h(y)\|^2 / 8 l`; the last term is what is left of the second
inequality as :math:`l \ge \tfrac54 l_0`.

**Errors.** Let the gradient that enters the rule for ``z`` be off by ``a``, that for ``y`` by ``b``, both of length
``e_k`` at most. They add

.. math:: \frac{2}{l} \langle \nabla h, a \rangle - \frac{1 - q}{(1 + q) L} \langle \nabla h, b \rangle
          + \frac{\|a\|^2}{l} - \frac{2 q}{1 + q} \langle z - \theta^*, a \rangle.

The first two are at most :math:`3 e_k \|\nabla h\| / l`, hence at most the term that is left over plus
:math:`18 e_k^2 / \{l (1 - (1 - q)^2)\}`. With :math:`l = \mu (1 - q^2) / q^2` that and :math:`e_k^2 / l` are

.. math:: \kappa\, q\, e_k^2 / \mu, \qquad \kappa = \frac{1}{1 - q^2} \Big(\frac{18}{2 - q} + q\Big),

which is 9 for a small ``q`` and at most 17. As :math:`\tfrac{c}{2} \|z - \theta^*\|^2 \le T` and ``c >= 2 mu``

.. math:: T^+ \le (1 - q)^2 T + \kappa\, q\, e_k^2 / \mu + 2 q e_k \sqrt{T / \mu}.

Nothing is multiplied by the condition number: the error that is left is of the order of ``e / mu``, as for one
gradient.

**Errors that grow with the distance.** Errors of gradients and rounding are larger far away: ``e_k`` is at most ``e``,
for points as long as ``theta*``, plus ``eta`` :math:`\sqrt{\mu B}`, where ``B`` bounds ``T`` at the present step. With
:math:`\eta \le 2^{-14}` and any ``m > 0`` (:math:`2 x y \le x^2 / m + m y^2`) ``B`` may be the sequence

.. math:: B^+ = \{1 - q (2 - q - 1/m - 2^{-12})\} B + q (\kappa + 1 + m) e^2 / \mu.

(Of :math:`\kappa (x + \eta y)^2` with ``y`` the root of ``mu B`` and ``x = e``, at most :math:`(\kappa + 1) x^2` and
:math:`\kappa (\kappa + 1) \eta^2 y^2`; with :math:`2 \eta y^2` of the last term the latter is below 2^-12 of
``y^2``.) Errors keep ``B`` at

.. math:: f = \frac{\kappa + 1 + m}{2 - q - 1/m - 2^{-12}} \quad \text{times} \; e^2 / \mu,

and after ``k`` steps ``z`` is within :math:`(M - \tfrac12) e / \mu` of ``theta*`` where

.. math:: k \ge \frac{\log(B_0 \mu / e^2 \{(M - 1/2)^2 - f\})}{q (2 - q - 1/m - 2^{-12})}.

The least ``M`` is taken to be :math:`\tfrac12 + \sqrt{1 + f}` with ``m = 6``: 3.62 where ``q`` is small, as it is with
many people, and 4.83 at most. Smaller numbers, with another ``m``, would be .3 less at most and take more steps.

**Start.** With :math:`F(s) - F^* \le E`, strong convexity gives :math:`\|s - \theta^*\|^2 \le 2 E / \mu`, hence
:math:`T_0 \le E + (\mu L / l - \mu/2) \|s - \theta^*\|^2 \le \tfrac83 E`, as :math:`L / l \le \tfrac43`. Let
:math:`B_0 = \max(\tfrac83 E, e^2 / \mu)`. The second counts where the start is nearer to ``theta*`` than errors keep
points. It takes no further step, as :math:`(M - 1/2)^2 - f \ge 1`. As ``f >= 1``, no ``B`` is below ``e^2 / mu``.

**Where the points are.** ``z`` is within :math:`\sqrt{B / \mu}` of ``theta*``, and ``y`` within three times that: a
gradient step of length ``1 / L`` brings no point away from ``theta*``, ``y`` is a mean of such a step and of ``z``, and
``B`` falls by no more than :math:`(1 - q)^2` in a step, so that :math:`3 (1 - q) / (1 + q) \sqrt B + 2 q / (1 + q)
\sqrt{B^+} \le (3 - \tfrac23 q) \sqrt{B^+}`. What is left, :math:`\tfrac23 q \sqrt{B^+ / \mu}`, exceeds what errors add,
:math:`\tfrac{1 - q}{1 + q} e_k / L \le q^2 (1 + 2^{-14}) \sqrt{B^+ / \mu}`, as :math:`e \le \sqrt{\mu B^+}`.
An error that is affine in the length of a point, ``e`` at the length ``S`` of ``theta*``, is therefore covered by
:math:`\eta = 3 e / (\mu S)`.

**A point that is found in any way** counts where the length of its computed gradient is at most `Work.near`
:math:`= \{\mu r (1 - 2^{-13}) - \tfrac32 e\} / (1 + 2^{-20})`, ``r = M e / mu``. Let
``d`` be its distance from ``theta*``. The computed length is off by a factor of less than ``1 + 2^-20``. The error of
the gradient is affine in the length of the point, no more than ``e`` at the length ``S``, and the point is at most
``S + d`` long: so it is at most ``e + e d / S``, whatever ``d`` is. By strong convexity

.. math:: \mu d \le \|\nabla F\| \le \mu r (1 - 2^{-13}) - \tfrac32 e + e + \frac{e}{S} d, \qquad
          d \le \frac{\mu r (1 - 2^{-13}) - e / 2}{\mu - e / S} \le r - \frac{e}{2 \mu},

as :math:`\eta \le 2^{-14}` says that :math:`e / S \le 2^{-14} \mu / 3`. Hence its length is at most ``S + r``, and the
error there at most :math:`e + 2^{-14} \mu r / 3`: less than :math:`e + 2^{-13} \mu r`, which `Work.near` leaves for it.
A point that is an unevaluated sum is rounded to its first part, which moves it by less than ``e / (2 mu)``, see below.
All of these are public constants: no error bound of the rows themselves is computed. That errors are affine in the
length supposes that nothing overflows: predictors of whitened rows (`hdpstats.records.geometry.LARGEST`, 1e50) do not
at points of at most `hdpstats.solvers.newton.FARTHEST` (1e100), and accelerated steps are near ``theta*``.

**Rounding of the steps.** The method keeps ``d = z - y`` and ``y``, with :math:`w = z^+ - y = (1 - q) d - g / (q L)`,
:math:`d^+ = \frac{1 - q}{1 + q} (w + g / L)` and :math:`y^+ = y + w - d^+`. All but ``y`` are short near ``theta*``,
and ``y`` is kept as an unevaluated sum of two doubles, at which the gradient is computed. With unit roundoff ``u`` that
is as a gradient that is off by ``4 u^2 L S``, which is counted in ``e``, and by less than
:math:`80 u L \sqrt{B / \mu}`, counted in ``eta``. The result is rounded once: that moves it by ``u S``, and as ``e`` is
made to be at least ``4 u mu S``, by less than half of ``e / mu``.

References
----------
B. Van Scoy, R. Freeman, K. Lynch (2018), The fastest known globally convergent first-order method for minimizing
    strongly convex functions, *IEEE Control Systems Letters* 2.
K. Zhou, A. So, J. Cheng (2020), Boosting first-order methods by shifting objective, *NeurIPS*.
O. Devolder, F. Glineur, Y. Nesterov (2014), First-order methods of smooth convex optimization with inexact oracle,
    *Mathematical Programming* 146: for general inexact gradients errors grow with the number of steps.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.precision import two_sum
from hdpstats._base.rehearsal import full_length
from hdpstats._base.typing import FloatArray
from hdpstats._base.work import Operations
from hdpstats.solvers.newton import CHORD, SMALL, WorkBudget, approach, approach_work, minimise, minimise_work
from hdpstats.solvers.objective import UNIT, ObjectiveWork, Penalised

LEAST_SPLIT, MOST_SPLIT = 6.0, 64.0
"""``m`` is ``M``, but no smaller than the first and no larger than the second."""

MARGIN = 2.0**-12
"""What errors that grow with the distance take off the rate."""

UP = 1.0 + 2.0**-20

REST = WorkBudget(hessians=SMALL.hessians - CHORD.hessians, gradients=SMALL.gradients - CHORD.gradients)
"""What Newton's method may do where the steps before it did not arrive."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """The public work of a minimisation, and what it surely leads to.

    Attributes
    ----------
    ridge, smoothness : float
        ``mu`` and ``L``.
    error : float
        ``e``: bounds what the computed gradient is off, rounding of the steps included, at points as long as the
        minimiser can be.
    excess : float
        ``E``: how far above its minimum the objective is at the start.
    radius : float
        ``M e / mu``.
    steps : int
        Gradients after the first.
    """

    ridge: float
    smoothness: float
    error: float
    excess: float
    radius: float
    steps: int

    @property
    def near(self) -> float:
        """A computed gradient that is no longer than this certifies the radius, whatever led to the point.

        Of ``mu r`` it leaves ``e + 2^-13 mu r`` for the error of the gradient there, ``e / 2`` for rounding the point.
        """
        return (self.ridge * self.radius * (1.0 - 2.0**-13) - 1.5 * self.error) / UP

    @property
    def condition(self) -> float:
        """``L / mu``."""
        return self.smoothness / self.ridge


def farthest(*, ridge: float, excess: float) -> float:
    """Return how far from the start the minimiser can be."""
    return math.sqrt(2.0 * excess / ridge) * UP


def smoothness_of(*, ridge: float, curvature: float) -> float:
    """Return ``L`` for losses whose sum has a gradient with the constant ``curvature``."""
    return (ridge + max(1.25 * curvature, 3.0 * ridge)) * UP


def least_errors(q: float) -> float:
    """Return the least ``M``.

    >>> round(least_errors(1e-4), 3), round(least_errors(0.5), 3)
    (3.619, 4.831)
    """
    return (0.5 + math.sqrt(1.0 + kept_errors(q, LEAST_SPLIT))) * UP


def kept_errors(q: float, m: float) -> float:
    """Return ``f``."""
    kappa = (18.0 / (2.0 - q) + q) / (1.0 - q * q)
    return (kappa + 1.0 + m) / (2.0 - q - 1.0 / m - MARGIN)


def work_of(
    *,
    ridge: float,
    curvature: float,
    error: float,
    size: float,
    excess: float,
    radius: float | None = None,
    most: int | None = None,
) -> Work | None:
    """Return the work that leads within a radius of the minimiser, or None where doubles cannot.

    Parameters
    ----------
    ridge
        ``mu``.
    curvature
        ``l_0``.
    error
        What the computed gradient is off at most at points of length ``size``, affine in the length.
    size
        ``S``: a length that the minimiser has at most.
    excess
        ``E``.
    radius
        At least `least_errors` times ``e / mu``, which is the default.
    most
        How many steps there may be where the radius is the default one: ``e``, a bound, and with it the radius are
        raised so far.
    """
    L = smoothness_of(ridge=ridge, curvature=curvature)
    e = (error + 4.0 * UNIT * (ridge + UNIT * L) * size) * UP
    if not (e > 0.0 and max(e, L, size, excess) < math.inf):
        return None
    q = math.sqrt(ridge / L)
    least = least_errors(q)
    times = least if radius is None else radius * ridge / e
    m = min(max(times, LEAST_SPLIT), MOST_SPLIT)
    left = (times - 0.5) ** 2 - kept_errors(q, m)
    rate = q * (2.0 - q - 1.0 / m - MARGIN)
    if radius is None:
        if most is not None:
            e = max(e, math.sqrt(8.0 / 3.0 * excess * ridge / left) * math.exp(-0.5 * most * rate / UP) * UP)
        radius = times * e / ridge
    eta = 3.0 * e / (ridge * size) + 80.0 * UNIT * L / ridge
    if not (times >= least and eta <= 2.0**-14):
        return None
    first = 8.0 / 3.0 * (excess * ridge / e) / e
    steps = max(1, math.ceil(math.log(max(first / left, 1.0)) / rate * UP))
    return Work(ridge=ridge, smoothness=L, error=e, excess=excess, radius=radius, steps=steps)


def minimise_within(objective: Penalised, *, start: FloatArray, work: Work) -> FloatArray:
    """Return a point that is within ``work.radius`` of the minimiser: by a few steps of Newton's, or else surely.

    ``work`` must hold for the objective and the start.
    """
    theta, done = approach(objective, start=start, near=work.near)
    if done and not full_length():
        return theta
    solution = minimise(objective, start=theta, budget=REST)
    if not done and solution.radius <= work.radius:
        theta, done = solution.theta, True
        if not full_length():
            return theta
    norm = solution.gradient_norm + work.smoothness * float(np.linalg.norm(solution.rest))
    close = norm * UP <= math.sqrt(2.0 * work.ridge * work.excess)
    last = accelerate(objective, start=solution.theta if close else start, work=work)
    return theta if done else last


def minimising_work(of: ObjectiveWork, work: Work) -> Operations:
    """Return what `minimise_within` takes at most: the steps of Newton's, and all accelerated ones."""
    accelerated = of.of(gradients=work.steps + 1.0, hessians=0.0, errors=0.0, steps=0.0)
    return approach_work(of) + minimise_work(of, REST) + accelerated


def accelerate(objective: Penalised, *, start: FloatArray, work: Work) -> FloatArray:
    """Return a point that is within ``work.radius`` of the minimiser, after ``work.steps`` steps or fewer.

    It ends early at a point whose gradient certifies the radius. ``work`` must hold for the objective, and the start
    be no more than ``work.excess`` above the minimum.
    """
    q = math.sqrt(work.ridge / work.smoothness)
    short, long, back = q * q / work.ridge, q / work.ridge, (1.0 - q) / (1.0 + q)
    near_minimum: FloatArray | None = None
    z = start
    d = back * (short * objective.gradient(start))
    y, rest = two_sum(start, -d)
    for _ in range(work.steps):
        gradient = objective.gradient(y, rest)
        if near_minimum is None and float(np.linalg.norm(gradient)) <= work.near:
            near_minimum = y
            if not full_length():
                break
        w = (1.0 - q) * d - long * gradient
        z = y + (rest + w)
        d = back * (w + short * gradient)
        y, rest = two_sum(y, (w - d) + rest)
    return z if near_minimum is None else near_minimum

r"""How far one person can move a capped discrete-time hazard model: gradient, curvature, and both together.

A person with weight ``w`` (Mallows times case weight), covariates ``z`` and baseline features ``A_s``,
``||A_s|| <= 1``, contributes to the gradient

.. math:: g = w \Big(\sum_s c_s x^s - e\,x^t\Big), \qquad x^s = (A_s, z),

with ``0 <= c_s <= h_s``, ``sum h_s <= H`` and ``0 <= e <= 1`` (`hdpstats.losses.hazard_links`). Let ``w <= m``,
``w ||z|| <= m R`` and ``w (1 + ||z||^2) <= m L``, ``M = sqrt(1 + R^2)`` and ``C = sum c_s``.

**Gradient.** ``||sum c_s A_s - e A_t|| <= C + e`` and ``|C - e| ||z||`` is the length of the rest, so
``||g|| <= m N(C, e)`` with ``N(C, e)^2 = (C + e)^2 + R^2 (C - e)^2``: a norm of a linear map, hence convex, hence below
the bilinear interpolation of its corners on ``[0, H] x [0, 1]``:

========================  =======================================================================
``(C, e)``                corner
========================  =======================================================================
``(H, 0)``, ``(0, 1)``    ``H M`` and ``M``
``(H, 1)``                ``sqrt((H + 1)^2 + R^2 (H - 1)^2)``
``(H, 1)``, causes        the larger of that and ``M sqrt(H^2 + 1)``: survival terms of other causes are
                          orthogonal to the event's; caps are summed over causes
``(H, 1)``, time-varying  ``(H + 1) M``: covariates may change sign between intervals, nothing cancels
========================  =======================================================================

**Curvature.** With coupled losses ``c' = c (1 - (c/h)^2)`` and ``-e' = e (1 - e^2)``. By Jensen's inequality
``sum c_s (c_s/h_s)^2 >= C (C/H)^2``, so the trace of the person's Hessian is at most
``m L {C (1 - (C/H)^2) + e (1 - e^2)}``, over causes and time-varying rows alike. In general it is at most
``m L (k_c H + k_e)``.

**Weighing down.** A person whose caps :math:`h_s` from entry to the horizon add up to ``T`` counts by
:math:`\omega = \min(1, H/T)`. The intervals at risk are among these, so that :math:`\tilde C = \sum c_s \le T`; with
:math:`C = \omega \tilde C \le \omega T \le H` and :math:`e' = \omega e \le 1` the gradient is
:math:`\omega (\sum c_s x^s - e x^t)` and has the bound ``m N(C, e')`` as above, and so have several causes, whose caps
are in ``T``. The trace is at most ``m L`` times

.. math:: \omega \tilde C \{1 - (\tilde C/T)^2\} + \omega e (1 - e^2) \le C \{1 - (C/H)^2\} + e' (1 - e'^2):

where :math:`\omega T = H`, :math:`\tilde C/T = C/H`; where :math:`\omega = 1`, :math:`T \le H`; and
:math:`e \ge e'`. So :math:`(C, e')` lies in the same rectangle and ``F`` below is a bound for it. Without a coupling
the trace is at most :math:`m L \omega (k_c T + k_e) \le m L (k_c H + k_e)`. Determinants of flat caps
(`flat_determinant`) are for :math:`\omega = 1` and only fall with it. All of this holds for any weight that is at most
``H`` over the caps at risk; that it does not depend on follow-up is for the estimate's sake.

**Coupled loss.** Objective perturbation with noise density ``exp(-rho ||b||)`` and ridge ``lambda`` has, when the
person is added or removed, a log density ratio of at most (proof in ``explanation/objective-perturbation``; the
determinant is at most the exponential of the trace)

.. math:: F(C, e) = \rho m N(C, e) + \frac{m L}{\lambda}\{C (1 - (C/H)^2) + e (1 - e^2)\}.

The opposite direction has the good determinant: ``rho m G``, ``G`` the largest corner. Replacing one person is
removing one and adding another: ``rho m G + sup F``. ``F`` is a polynomial; its supremum is bounded from above by its
Bernstein coefficients on a subdivision of the rectangle (Farouki 2012, section 5.1), so the bound is certain and, where
curvature is slack, exactly ``rho m G``: **then the determinant is free.**
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from hdpstats._base.caching import remembered
from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.privacy.sensitivity import DOWN, Relation

PIECES = 24
"""Subdivisions of each side of the rectangle."""

UP = 1.0 + 2.0**-32
"""Inflation of constants: a person's caps, as gradients have them, add up to at most ``UP H``.

Gradients have the cap of an interval as a double, within 17 ``u`` of the exponential of the exact sum of two doubles,
``fl(gamma + d)`` and the level ``l``. Where it is a product of factors, sums of caps
(`hdpstats.families.hazard.spells`) are of the same doubles, else of exponentials of ``fl(fl(gamma + l) + d)``. With
``u = 2^-53``, ``|gamma| <= 10^6`` and exponents of at most 700 in size (others are cut, or count for nothing) the
exponents differ by at most ``u {|gamma| + |d| + (700 + |d|) + 700}``: by less than ``1.01 10^6 u`` (margins are of size
20 at most), and caps by as much of themselves, however ``gamma`` and ``l`` cancel. A sum in doubles, over at most 10^4
intervals, as many spells and 10^3 causes, is below the exact one by at most ``2.2 10^4 u`` of it; exponentials, the
weight and its products err by less than 60 ``u``. Rows of ``A`` may exceed 1 by 2^-40. Together this is below
``1.1 10^6 u < 2^-32.9``.
"""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HazardBounds:
    """The constants of one person with weight ``m = 1``; multiply by the largest weight.

    Attributes
    ----------
    total : float
        ``H``.
    radius, leverage : float
        ``R`` and ``L``.
    corners : tuple of float
        Bounds on the gradient's norm at (H, 0), (0, 1) and (H, 1).
    smoothness : tuple of float or None
        ``(k_c, k_e)``, or None for coupled losses.
    """

    total: float
    radius: float
    leverage: float
    corners: tuple[float, float, float]
    smoothness: tuple[float, float] | None

    @property
    def gradient_bound(self) -> float:
        """``G``: a bound on the norm of one person's gradient."""
        return max(self.corners)

    @property
    def trace(self) -> float:
        """A bound on the trace of one person's Hessian."""
        survived, event = (0.385, 0.385) if self.smoothness is None else self.smoothness
        return self.leverage * (survived * self.total + event)


def hazard_bounds(
    *,
    total: float,
    radius: float,
    leverage: float,
    causes: int,
    time_varying: bool,
    smoothness: tuple[float, float] | None,
) -> HazardBounds:
    """Return the constants of the module's table, rounded up.

    Corners are those of the rectangle that ends at ``UP H``: near ``H = 1`` the last one grows faster than ``H`` does.
    """
    H, R, M = total * UP, radius, math.hypot(1.0, radius)
    both = math.hypot(H + 1.0, R * (H - 1.0))
    if causes > 1:
        both = max(both, M * math.hypot(H, 1.0))
    if time_varying:
        both = (H + 1.0) * M
    return HazardBounds(
        total=total,
        radius=R,
        leverage=leverage * UP,
        corners=(H * M * UP, M * UP, both * UP),
        smoothness=smoothness,
    )


def hazard_loss(bounds: HazardBounds, *, noise: float, curvature: float, relation: Relation) -> float:
    """Return (an upper bound on) the privacy loss of objective perturbation.

    Parameters
    ----------
    bounds
        The constants of one person.
    noise
        ``rho m``: rate of the noise times the largest weight.
    curvature
        ``m / lambda``: largest weight over the ridge.
    relation
        Add or remove one person, or replace one.
    """
    present = _largest(bounds, noise=noise, curvature=curvature)
    other = noise * bounds.gradient_bound if relation is Relation.REPLACE_ONE else 0.0
    return present + other


def hazard_noise(bounds: HazardBounds, *, epsilon: Fraction, curvature: Fraction, relation: Relation) -> Fraction:
    """Return the largest certified ``rho m`` whose loss is at most ``epsilon``, rounded down.

    Raises
    ------
    MechanismError
        When the ridge is so small that the determinant alone exceeds epsilon.
    """
    target, largest = float(epsilon) * DOWN, float(curvature) / DOWN
    low, high = 0.0, target / bounds.gradient_bound
    if hazard_loss(bounds, noise=low, curvature=largest, relation=relation) > target:
        raise MechanismError(
            f"the ridge is too small for epsilon = {float(epsilon):g}: its determinant alone costs more; use a larger "
            "ridge",
            epsilon=epsilon,
        )
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = hazard_loss(bounds, noise=middle, curvature=largest, relation=relation) <= target
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low * DOWN)


def _largest(bounds: HazardBounds, *, noise: float, curvature: float) -> float:
    """Return an upper bound on ``sup F``."""
    if bounds.smoothness is not None:
        return noise * bounds.gradient_bound + curvature * bounds.trace
    gradient, hessian = _coefficients(bounds)
    return float(np.max(noise * gradient + curvature * hessian)) / DOWN


@remembered(8)
def _coefficients(bounds: HazardBounds) -> tuple[FloatArray, FloatArray]:
    """Return Bernstein coefficients (k,) of both parts of ``F``, which ``rho m`` and ``m / lambda`` multiply.

    Pairs are left out that another one exceeds in both: as neither factor is negative, and products and sums of doubles
    never fall where their terms rise, the largest sum is another's, to the last bit.
    """
    cubic, at = _bernstein()
    x, e = at[:, None], at[None, :]
    survive, event, both = bounds.corners
    gradient = (x * (1.0 - e) * survive + (1.0 - x) * e * event + x * e * both).ravel()
    hessian = (bounds.leverage * (bounds.total * cubic[:, None] + cubic[None, :])).ravel()
    order = np.lexsort((-hessian, -gradient))
    gradient, hessian = gradient[order], hessian[order]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], hessian[:-1]]))
    return gradient[hessian > before], hessian[hessian > before]


def _bernstein() -> tuple[FloatArray, FloatArray]:
    """Return Bernstein coefficients of ``x - x^3`` on pieces of [0, 1], and where those of ``x`` lie."""
    left = np.arange(PIECES) / PIECES
    width = 1.0 / PIECES
    a0, a1, a2, a3 = left - left**3, width * (1.0 - 3.0 * left**2), -3.0 * left * width**2, -(width**3)
    cubic = np.column_stack([a0, a0 + a1 / 3.0, a0 + (2.0 * a1 + a2) / 3.0, a0 + a1 + a2 + a3])
    at = left[:, None] + width * np.arange(4) / 3.0
    return cubic.ravel(), at.ravel()


def flat_determinant(A: FloatArray, *, radius: float, survived: float, event: float, ridge: float) -> float:
    r"""Return ``J = sup log det(I + H_z / lambda)`` over one person, each interval with the same curvature bound.

    ``J = max_t log det(I + [k_s sum_{s<t} x^s x^s' + max(k_s, k_e) x^t x^t'] / lambda)`` with ``x^s = (A_s, R)``: a
    matrix of ``e + 1`` rows, because one person's rows ``(A_s, z)`` span no more.

    *Proof.* A person's Hessian is at most ``sum k_s x^s x^s'`` in Loewner order; the determinant increases in it and,
    for fixed ``A``, in ``w ||z||^2 <= R^2``. It is attained at zero coefficients by a person at risk until ``t`` on
    otherwise empty data.
    """
    X = np.column_stack([A, np.full(len(A), radius)])
    total, largest = np.zeros((X.shape[1], X.shape[1])), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for row in X:
            outer = np.outer(row, row) / ridge
            largest = max(largest, _log_determinant(total + max(survived, event) * outer, rows=len(X)))
            total = total + survived * outer
        return max(largest, _log_determinant(total, rows=len(X))) * (1.0 + 2.0**-30) + 2.0**-40


def _log_determinant(matrix: FloatArray, *, rows: int) -> float:
    """Return an upper bound of ``log det(I + S)`` for a sum ``S`` of ``rows`` squares, computed as ``matrix``.

    The sum and its computed eigenvalues err by less than ``(rows + 64 n) 2^-52`` times the trace, which is added to
    each. Elimination would lose the ones of ``I`` beside large entries, and with them factors of the determinant.
    """
    trace = float(np.trace(matrix))
    if not math.isfinite(trace):
        return math.inf
    error = (rows + 64 * len(matrix)) * 2.0**-52 * trace
    return float(np.sum(np.log1p(np.maximum(np.linalg.eigvalsh(matrix), 0.0) + error)))

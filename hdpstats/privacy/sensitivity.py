r"""How far one person can move a query: a number that never travels without its norm and its relation.

The relation says who is a neighbour of whom. Two queries need more than a number: objective perturbation, whose
minimiser depends on the noise through a determinant, and sums of logistic scores at public coefficients.

**The determinant in objective perturbation, coupled.** For the logistic loss noise and curvature are analysed together.

Write the private objective as :math:`\sum_i a_i \ell(\theta; z_i) + \tfrac12 \|\theta - c\|^2_\Lambda + b'\theta`
with noise density :math:`\propto \exp(-\rho K(b))`. Its minimiser has density
:math:`\nu(b_D(\theta))\,|\det \partial b_D|` (the map from noise to minimiser is a diffeomorphism). Under
replace-one, with K-halfwidth ``h`` (every record's gradient satisfies :math:`K(\nabla\ell) \le h u`, where
:math:`u = |\ell'| \le 1`), the log density ratio is at most

.. math:: \rho h (u + u') + \rho c + \log\{1 + 4 r\, u (1 - u)\},

where ``c`` is the widening of the noise cells, ``r`` bounds :math:`\tfrac14 a\,x'\Lambda^{-1}x` and the last
term is the determinant of the record that is present; the other record's determinant has the good sign. The
logistic loss couples the two terms, because :math:`u = 1 - p` and :math:`\ell'' = p(1 - p)` belong to the same
record. With :math:`\rho h = e_b / 2` the supremum is

.. math:: \tfrac12 e_b + \sup_p\,\{\tfrac12 e_b (1 - p) + \log(1 + 4 r p (1 - p))\}.

The bracket is concave in ``p`` with slope :math:`4r - e_b/2` at 0: **if 8 r <= e_b the determinant is free** and the
whole of :math:`e_b` goes into noise. Otherwise the supremum is attained at the smaller root of a quadratic. The full
proof, step by step, is the vignette ``explanation/objective-perturbation``.

**Several rows of a person.** Rows ``j`` with weights that add up to at most ``W`` times the largest one of a row count
as one record. By the triangle inequality :math:`K(g) \le W h \bar u`, :math:`\bar u` being the mean of their
:math:`u_j`, and as :math:`u (1 - u)` is concave (Jensen's inequality) the trace of their Hessian over the ridge is at
most :math:`4 r W \bar u (1 - \bar u)`. So all of the above holds with :math:`W h`, :math:`W r` and :math:`\bar u`, but
for the determinant: a Hessian of rank ``k`` has :math:`\log\det(I + H/\Lambda) \le k \log(1 + \operatorname{tr} / k)`,
in place of :math:`\log(1 + \operatorname{tr})`. The slope of the bracket at ``p = 0`` is the same for every ``k``, and
so is the condition under which the determinant is free.

Where a person is added or removed the record ``u'`` is absent: with :math:`\rho h = e_b` the loss is the bracket alone
with :math:`e_b` in place of :math:`e_b / 2`, and the determinant is free if 4 r <= e_b.

**The determinant, uncoupled.** For any convex loss with a Lipschitz score it costs a part of epsilon.

The objective is :math:`\sum_i \ell_i(\theta) + \tfrac{\lambda}{2}\|\theta - c\|^2 + b'\theta` with noise of density
:math:`\nu(b) \propto \exp(-\rho K(b))`. Its gradient vanishes where :math:`b = b_D(\theta) = -\lambda(\theta - c) -
\sum_i \nabla\ell_i(\theta)`: a strongly monotone, Lipschitz map, hence a bi-Lipschitz bijection, so that by the area
formula the minimiser has the density :math:`\nu(b_D(\theta)) \det(\lambda I + \sum_i H_i(\theta))` almost everywhere;
``l`` need not be twice differentiable at every point. For neighbours ``D``, ``D'``

* the first factors differ by at most :math:`\exp(\rho S)`, ``S`` bounding ``K`` of the difference of their gradients:
  twice a person's where one is replaced, once where one is added or removed;
* with ``M`` the matrix that they share, :math:`\det(M + H) / \det(M + H') \le \det(M + H) / \det M \le
  \det(I + H / \lambda)`, as :math:`H' \ge 0` and :math:`M \ge \lambda I`. Only the record that is present counts, and
  once. For a Hessian :math:`H = \ell''\,x x'` of rank one that is :math:`1 + \ell''\|x\|^2 / \lambda`, for one of rank
  ``k`` at most :math:`(1 + \operatorname{tr} H / k \lambda)^k`, by the inequality of the means of eigenvalues.

So the loss is :math:`\rho S + J` with :math:`J = \log(1 + \sup \ell''\|x\|^2 / \lambda)`, and the rest of epsilon is
for noise. Where noise is drawn on a lattice and thought of as spread over its cells, ``S`` grows by a cell.

**A sum of logistic scores at public coefficients.** One person moves it by less than twice the longest score.

The score of a row ``x`` with outcome ``y`` of -1 or 1 is :math:`g(u) = u\,\sigma(-\theta'u)`, ``u = y x``, where
:math:`\sigma(t) = 1/(1 + e^{-t})`. For rows of norm at most ``M`` each score is shorter than ``M``, so that replacing
one moves the sum by less than ``2 M``. At coefficients that are public when the sum is asked for less is enough, as
a long score needs a row against ``theta``, and two such rows have scores of like direction.

*Replacing one.* With :math:`r = M \|\theta\|` the diameter of the set of scores is ``M D(r)``,

.. math:: D(r) = \max_{0 \le x \le 1} 2\,\sigma(r x) \sqrt{1 - x^2}, \qquad D(0) = 1,\quad D(r) < 2 .

*Proof.* Let ``M = 1``, :math:`e = -\theta/\|\theta\|`, :math:`u = a e + b` with ``b`` orthogonal to ``e``, and ``s``
the coefficient :math:`\sigma(r a)`; likewise ``u'``. The distance of the scores has the square
:math:`(sa - s'a')^2 + \|sb - s'b'\|^2`, which is at most :math:`(sa - s'a')^2 + (s \sin\varphi + s' \sin\varphi')^2`
with :math:`a = \cos\varphi`, :math:`a' = \cos\varphi'`, as :math:`\|b\| \le \sin\varphi`. This is

.. math:: F^2 = s^2 + s'^2 - 2 s s' \cos(\varphi + \varphi') = (s - s')^2 + 4 s s' \sin^2\psi, \qquad
          \psi = (\varphi + \varphi')/2 .

With :math:`A = r \cos\psi \cos\delta`, :math:`B = r \sin\psi \sin\delta`, :math:`\delta = (\varphi' - \varphi)/2`, the
coefficients are :math:`\sigma(A + B)` and :math:`\sigma(A - B)`. Let :math:`C = \cosh A`, :math:`E = \cosh B`,
:math:`T = C + E`, :math:`k = \sin\psi`. Then :math:`s s' = e^A/2T`, :math:`s - s' = \sinh B / T`,
:math:`\sigma(A)^2 = e^A / 2(C + 1)`, and

.. math:: F^2 = \frac{E^2 - 1}{T^2} + \frac{2 e^A k^2}{T}, \qquad
          4\sigma(A)^2 k^2 - F^2 = \frac{E - 1}{(C + 1) T^2}\,\{2 e^A k^2 T - (E + 1)(C + 1)\} .

Where :math:`F > 1`, the first formula gives :math:`2 e^A k^2 T > T^2 - E^2 + 1 = C^2 + 2 C E + 1`, and the bracket is
larger than :math:`C^2 + C E - C - E = (C - 1)(C + E) \ge 0`. So :math:`F \le \max\{1, 2\sigma(A) \sin\psi\}`. With
:math:`A \le r |\cos\psi|` the second is at most ``D(r)``, whose value at ``x = 0`` is the first. Rows
:math:`x e \pm \sqrt{1 - x^2}\,e_\perp` attain it in two dimensions or more. As ``2 sigma(r x)`` increases with ``r``,
so does ``D``.

*Adding or removing one.* :math:`\|g(u)\| \le M \sigma(r)`, as :math:`a \le \|u\| \le M` and :math:`\sigma`
increases; :math:`u = M e` attains it.

*Certificate.* :math:`\ell(x) = \log\{2\sigma(r x)\} + \tfrac12 \log(1 - x^2)` is concave, so that from *any*
:math:`x_0` in (0, 1) its tangent bounds it: :math:`\ell(x) \le \ell(x_0) + |\ell'(x_0)|`. The point is found in floats;
the bound is evaluated there in 200 binary digits, and rounded up.

References
----------
K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), Differentially private empirical risk minimization, have twice ``J``.
Z. Ji, X. Jiang, S. Wang, L. Xiong, L. Ohno-Machado (2014), Differentially private distributed logistic regression using
private and public data, have ``2 M``.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, final

from mpmath import mpf

from hdpstats._base.errors import MechanismError
from hdpstats._base.precision import numbers_of


class Relation(StrEnum):
    """Neighbouring relation between two sets of private records, one record per person: all rows of that person.

    ``REPLACE_ONE``: one person's record is replaced by another; the number of records is the same and
    public. The relation of the five papers that the package implements.

    ``ADD_OR_REMOVE_ONE``: one person's record is added or taken away; the number of records is private.
    """

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"

    @property
    def persons_changed(self) -> int:
        """By how many persons' records neighbours differ: 2 where one is replaced, 1 where one is added or removed.

        What one person alone moves a sum by, in any norm, times this number bounds its change between neighbours
        (triangle inequality).
        """
        return 2 if self is Relation.REPLACE_ONE else 1

    def between(self, unit: str, *, of_all_rows: bool = False) -> str:
        """Say the relation in plain words for a kind of unit with one record, or with rows that count as one record.

        >>> Relation.ADD_OR_REMOVE_ONE.between("patient", of_all_rows=True)
        'data sets are neighbours when all rows of one patient are added or taken away; their number is not public'
        """
        what, verb = (f"all rows of one {unit}", "are") if of_all_rows else (f"one {unit}'s record", "is")
        if self is Relation.REPLACE_ONE:
            other = f"those of any other {unit}" if of_all_rows else "any other"
            size = "how many rows these are is protected too" if of_all_rows else "their size is public"
            return f"data sets are neighbours when {what} {verb} exchanged for {other}; {size}"
        return f"data sets are neighbours when {what} {verb} added or taken away; their number is not public"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class BallNorm:
    """The Euclidean norm divided by a radius: ``K(v) = ||v|| / radius``. The L2 norm has radius 1."""

    kind: ClassVar[str] = "ball"
    radius: Fraction = Fraction(1)

    @property
    def longest(self) -> float:
        """The Euclidean length of the longest vector of the unit ball."""
        return float(self.radius)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CylinderNorm:
    """``K(t, v) = max(|t|, ||v|| / radius)``: its unit ball is a cylinder around the first coordinate.

    It is the convex hull of the gradients ``s (1, z)`` with ``|s| <= 1`` and ``||z|| <= radius`` of a
    linear predictor with an intercept, hence the smallest norm ball that holds them (Awan and Slavkovic
    2021: among K-norm mechanisms the hull is optimal).
    """

    kind: ClassVar[str] = "cylinder"
    radius: Fraction

    @property
    def longest(self) -> float:
        """The Euclidean length of the longest vector of the unit ball."""
        return math.hypot(1.0, float(self.radius))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class BoxNorm:
    """``K(b) = max_j |b_j| / radii_j``: its unit ball is a box.

    For vectors whose coordinates are bounded one by one and may take all combinations of their bounds, such as
    differences between rows of many zeros and ones.
    """

    kind: ClassVar[str] = "box"
    radii: tuple[Fraction, ...]

    @property
    def longest(self) -> float:
        """The Euclidean length of the longest vector of the unit ball."""
        return math.hypot(*(float(radius) for radius in self.radii))


Norm = BallNorm | CylinderNorm | BoxNorm


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sensitivity:
    """The largest change ``sup K(q(D) - q(D'))`` of a query over neighbouring data sets."""

    value: Fraction
    norm: Norm
    relation: Relation

    def __post_init__(self) -> None:
        """Refuse a sensitivity that is not positive: a query that nobody moves needs no noise."""
        if not self.value > 0:
            raise MechanismError(f"a sensitivity must be above 0, not {self.value}")


DOWN = 1.0 - 2.0**-30
"""Safety factor of every float that enters a guarantee: float error here is below 2^-45."""


def coupled_loss(
    noise_epsilon: float, curvature_ratio: float, *, relation: Relation = Relation.REPLACE_ONE, rank: int = 1
) -> float:
    """Return the privacy loss of noise ``e_b`` at curvature ratio ``r``.

    Parameters
    ----------
    noise_epsilon
        ``e_b``: the noise rate times the K-distance between the gradients of neighbours, twice the halfwidth of one
        record's gradient under replace-one and once under add-or-remove.
    curvature_ratio
        ``r``: the supremum of a quarter of the weighted squared row length in the metric of the ridge.
    relation
        Who is a neighbour of whom.
    rank
        The largest rank ``k`` of one person's Hessian.
    """
    replaced = relation is Relation.REPLACE_ONE
    half, r = noise_epsilon / (2.0 if replaced else 1.0), curvature_ratio
    if 4.0 * r <= half:
        return noise_epsilon
    a = half / rank
    b, c = 2.0 + a, 1.0 - half / (4.0 * r)  # of a p^2 - b p + c = 0: divided by 4 r, so that nothing overflows
    p = min(1.0, 2.0 * c / (b + math.sqrt(b * b - 4.0 * a * c)))
    return (half if replaced else 0.0) + half * (1.0 - p) + rank * math.log1p(4.0 * r * p * (1.0 - p) / rank)


def coupled_noise_epsilon(
    epsilon: Fraction, curvature_ratio: Fraction, *, relation: Relation = Relation.REPLACE_ONE, rank: int = 1
) -> Fraction:
    """Return the largest certified ``e_b`` whose coupled loss is at most ``epsilon``, rounded down.

    Exact (``e_b = epsilon``) where the determinant is free; otherwise found by bisection and lowered by 2^-30.

    Raises
    ------
    MechanismError
        When the ridge is so small that the determinant alone exceeds epsilon.
    """
    if (8 if relation is Relation.REPLACE_ONE else 4) * curvature_ratio <= epsilon:
        return epsilon
    r, target = float(curvature_ratio) / DOWN, float(epsilon) * DOWN
    low, high = 0.0, target
    if coupled_loss(low, r, relation=relation, rank=rank) > target:
        raise MechanismError(
            f"the ridge is too small for epsilon = {float(epsilon):g}: its determinant alone costs "
            f"{coupled_loss(low, r, relation=relation, rank=rank):.3g}; use a larger ridge",
            epsilon=epsilon,
        )
    for _ in range(200):
        middle = 0.5 * (low + high)
        fits = coupled_loss(middle, r, relation=relation, rank=rank) <= target
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low * DOWN)


UP = 1.0 + 2.0**-40
"""Safety factor of every float that enters a guarantee."""


def rank_one_jacobian(ratio: Fraction) -> Fraction:
    """Return ``log(1 + ratio)``, rounded up: ``ratio`` is a Hessian's trace over the ridge.

    >>> float(rank_one_jacobian(Fraction(1, 10))) >= math.log(1.1)
    True
    """
    return Fraction(math.log1p(float(ratio) * UP) * UP)


def jacobian_of_rank(ratio: Fraction, rank: int) -> Fraction:
    """Return ``k log(1 + ratio / k)``, rounded up: the same for a Hessian of a rank ``k`` at most.

    >>> jacobian_of_rank(Fraction(1, 10), 1) == rank_one_jacobian(Fraction(1, 10))
    True
    >>> float(jacobian_of_rank(Fraction(1, 10), 6) / rank_one_jacobian(Fraction(1, 10))) < 1.05
    True
    """
    return rank * rank_one_jacobian(ratio / rank)


def uncoupled_rate(epsilon: Fraction, *, jacobian: Fraction, width: Fraction) -> Fraction:
    """Return the largest ``rho`` with ``rho width + jacobian <= epsilon``; ``width`` counts the lattice cell.

    Raises
    ------
    MechanismError
        If the determinant alone costs epsilon.
    """
    if jacobian >= epsilon:
        raise MechanismError(
            f"the ridge is too small for epsilon = {float(epsilon):g}: its determinant alone costs "
            f"{float(jacobian):.3g}; use a larger ridge",
            epsilon=epsilon,
        )
    return (epsilon - jacobian) / width


BITS = 48
"""Binary digits after the point of the factors, which are rounded up."""

_FAR = Fraction(2**40)
"""Beyond it the factors are 2 and 1 for every purpose."""

_CONTEXT = numbers_of(200)


def sensitivity_at(radius: Fraction, *, norm: Fraction, relation: Relation) -> Fraction:
    """Return the largest change of a sum of scores of rows of norm at most ``norm`` at coefficients in a radius.

    ``radius`` bounds the Euclidean norm of the coefficients, which must be public. Rounded up by less than 2^-40 of it.

    >>> float(sensitivity_at(Fraction(0), norm=Fraction(3), relation=Relation.REPLACE_ONE))
    3.0
    """
    factor = diameter if relation is Relation.REPLACE_ONE else length
    return norm * factor(norm * radius)


def diameter(r: Fraction) -> Fraction:
    """Return ``D(r)``, r >= 0, rounded up: the diameter of the scores over the largest norm of a row.

    >>> [round(float(diameter(Fraction(r))), 3) for r in (0, 1, 2, 4, 16)]
    [1.0, 1.099, 1.27, 1.533, 1.902]
    """
    if r == 0:
        return Fraction(1)
    if r > _FAR:
        return Fraction(2)
    start = _CONTEXT.mpf(_maximum(float(r)))
    exact, one = _number(r), _CONTEXT.mpf(1)
    squared = one - start * start
    slope = exact / (one + _CONTEXT.exp(exact * start)) - start / squared
    value = 2 * _logistic(exact * start) * _CONTEXT.sqrt(squared) * _CONTEXT.exp(abs(slope))
    return min(_upwards(value), Fraction(2))


def length(r: Fraction) -> Fraction:
    """Return the logistic function of r >= 0, rounded up: the longest score over the largest norm of a row.

    >>> round(float(length(Fraction(1))), 4)
    0.7311
    """
    if r == 0:
        return Fraction(1, 2)
    return Fraction(1) if r > _FAR else min(_upwards(_logistic(_number(r))), Fraction(1))


def _maximum(r: float) -> float:
    """Return a point of (0, 1) next to where ``2 sigma(r x) sqrt(1 - x^2)`` is largest, by bisection of its slope."""
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2.0
        rises = r * math.exp(-min(r * middle, 700.0)) * (1.0 - middle**2) > middle * (1.0 + math.exp(-r * middle))
        low, high = (middle, high) if rises else (low, middle)
    return low


def _logistic(x: mpf) -> mpf:
    return 1 / (1 + _CONTEXT.exp(-x))


def _number(value: Fraction) -> mpf:
    return _CONTEXT.mpf(value.numerator) / value.denominator


def _upwards(value: mpf) -> Fraction:
    """Return a multiple of 2^-48 above the value: rounding errors of the few operations are below 2^-190 of it."""
    return Fraction(int(_CONTEXT.floor(_CONTEXT.ldexp(value, BITS))) + 1, 1 << BITS)

r"""How far one person moves a sum of logistic scores at public coefficients: less than twice the longest score.

The score of a row ``x`` with outcome ``y`` of -1 or 1 is :math:`g(u) = u\,\sigma(-\theta'u)`, ``u = y x``, where
:math:`\sigma(t) = 1/(1 + e^{-t})`. For rows of norm at most ``M`` each score is shorter than ``M``, so that replacing
one moves the sum by less than ``2 M``. At coefficients that are public when the sum is asked for less is enough, as
a long score needs a row against ``theta``, and two such rows have scores of like direction.

**Replacing one.** With :math:`r = M \|\theta\|` the diameter of the set of scores is ``M D(r)``,

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

**Adding or removing one.** :math:`\|g(u)\| \le M \sigma(r)`, as :math:`a \le \|u\| \le M` and :math:`\sigma`
increases; :math:`u = M e` attains it.

**Certificate.** :math:`\ell(x) = \log\{2\sigma(r x)\} + \tfrac12 \log(1 - x^2)` is concave, so that from *any*
:math:`x_0` in (0, 1) its tangent bounds it: :math:`\ell(x) \le \ell(x_0) + |\ell'(x_0)|`. The point is found in floats;
the bound is evaluated there in 200 binary digits, and rounded up.

References
----------
Z. Ji, X. Jiang, S. Wang, L. Xiong, L. Ohno-Machado (2014), Differentially private distributed logistic regression using
private and public data, have ``2 M``.
"""

import math
from fractions import Fraction

from mpmath import MPContext, mpf

from hdpstats.privacy.sensitivity import Relation

BITS = 48
"""Binary digits after the point of the factors, which are rounded up."""

_FAR = Fraction(2**40)
"""Beyond it the factors are 2 and 1 for every purpose."""

_CONTEXT = MPContext()
_CONTEXT.prec = 200


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

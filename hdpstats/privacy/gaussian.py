r"""Gaussian differential privacy: certified bounds between (epsilon, delta) and the one parameter ``mu``.

A mechanism is ``mu``-GDP when no test can distinguish two neighbouring data sets better than it could distinguish
:math:`N(0, 1)` from :math:`N(\mu, 1)` (Dong, Roth and Su 2022). A query that one person moves by at most ``S`` in the
Euclidean norm, plus noise :math:`N(0, s^2 I)`, is exactly :math:`S/s`-GDP, and adaptively chosen mechanisms compose
exactly to :math:`\sqrt{\sum \mu_t^2}`: nothing is lost by counting in ``mu`` (or in its square, which adds up), and a
pair (epsilon, delta) is read off at the end. ``mu``-GDP is (epsilon, delta)-DP if and only if (Balle and Wang 2018)

.. math:: \delta \ge \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon\, \Phi(-\mu/2 - \epsilon/\mu).

Objective perturbation with Gaussian noise is *not* ``mu``-GDP: its noise and the gradient of the person who changes
are evaluated at the same minimiser and depend on each other. Its delta is bounded by `objective_delta` and
by `fixed_sign_multiplier`; what they allow is an (epsilon, delta), and composes as one.

Arguments and values are exact fractions. A delta is evaluated by erfc and exp in 320 binary digits or more, where all
rounding together is below 2^-200 of the terms; 2^-128 of them is added, and the sum is rounded upwards. The inverses
return points at which that upper bound was evaluated and holds.

References
----------
B. Balle, Y.-X. Wang (2018), Improving the Gaussian mechanism for differential privacy: analytical calibration and
    optimal denoising.
J. Dong, A. Roth, W. J. Su (2022), Gaussian differential privacy.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from mpmath import MPContext, mpf

from hdpstats._base.caching import remembered
from hdpstats._base.errors import MechanismError
from hdpstats._base.precision import numbers_of

LARGEST_RANK = 500
_LEAST = Fraction(1, 1 << 2000)
_SIGNIFICANT_BITS = 64
_RELATIVE_STEP = Fraction(1, 1 << 40)

REMEMBERED = 4096
"""Values that are kept: a request asks for the same few many times, and one takes some milliseconds."""


@remembered(LARGEST_RANK + 1)
def _context(rank: int) -> MPContext:
    """Return numbers of at least 320 binary digits. Its precision is never changed, so that threads may share it."""
    return numbers_of(320 + 8 * rank)


def _number(context: MPContext, value: Fraction) -> mpf:
    return context.mpf(value.numerator) / value.denominator


def _upwards(value: mpf) -> Fraction:
    """Return a fraction of 64 binary digits at or above the value, in [2^-2000, 1]."""
    sign, mantissa, exponent, length = value._mpf_
    if sign or not mantissa:
        return _LEAST
    cut = max(0, length - _SIGNIFICANT_BITS)
    rounded = Fraction(-(-int(mantissa) >> cut)) * (Fraction(2) ** int(exponent + cut))
    return min(max(rounded, _LEAST), Fraction(1))


def delta_of(epsilon: Fraction, mu: Fraction) -> Fraction:
    """Return the least delta for which ``mu``-GDP is (epsilon, delta)-DP, rounded up to 64 binary digits.

    Zero where ``mu`` is 0; otherwise at least 2^-2000.

    >>> round(float(delta_of(Fraction(1), Fraction(1, 4))), 9)
    2.924e-06
    """
    return delta_of_square(epsilon, mu * mu)


@remembered(REMEMBERED)
def delta_of_square(epsilon: Fraction, mu_squared: Fraction) -> Fraction:
    """Return `delta_of` for a sum of squares, whose root need not be rational.

    Beyond 60 standard deviations the value is below 2^-2000, and above mu = 200 it is rounded up to 1.
    """
    if mu_squared == 0:
        return Fraction(0)
    far = epsilon - mu_squared / 2
    if far > 0 and far * far > 3600 * mu_squared:
        return _LEAST
    if mu_squared > 40000:
        return Fraction(1)
    context = _context(0)
    exponent, square = _number(context, epsilon), _number(context, mu_squared)
    mu = context.sqrt(square)
    first = _upper_tail(context, exponent / mu - mu / 2)
    second = context.exp(exponent) * _upper_tail(context, exponent / mu + mu / 2)
    return _upwards(first - second + context.ldexp(first, -128))


def _upper_tail(context: MPContext, x: mpf) -> mpf:
    return context.erfc(x / context.sqrt(2)) / 2


@remembered(REMEMBERED)
def mu_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ``mu`` whose `delta_of` at epsilon is at most delta, rounded down by at most 2^-40 of it.

    Raises
    ------
    MechanismError
        Unless 0 < delta < 1 and epsilon >= 0: without a delta no Gaussian noise suffices.

    Examples
    --------
    >>> round(float(mu_of(Fraction(1), Fraction(1, 10**6))), 4)
    0.2367
    """
    _check(epsilon, delta)
    return _largest(lambda mu: delta_of(epsilon, mu) <= delta)


def epsilon_of(delta: Fraction, mu_squared: Fraction) -> Fraction:
    """Return the least epsilon at which sqrt(mu_squared)-GDP is (epsilon, delta)-DP, rounded up by at most 2^-40 of it.

    Raises
    ------
    MechanismError
        If delta is 0 and mu_squared is not: Gaussian noise has no pure guarantee.

    Examples
    --------
    >>> round(float(epsilon_of(Fraction(1, 10**6), Fraction(2367, 10000) ** 2)), 3)
    1.0
    """
    if delta_of_square(Fraction(0), mu_squared) <= delta:
        return Fraction(0)
    _check(Fraction(0), delta)
    low, high = Fraction(0), Fraction(1)
    while delta_of_square(high, mu_squared) > delta:
        low, high = high, 2 * high
    while high - low > _RELATIVE_STEP * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of_square(middle, mu_squared) <= delta else (middle, high)
    return high


def objective_delta(epsilon: Fraction, *, jacobian: Fraction, multiplier: Fraction, rank: int) -> Fraction:
    r"""Return an upper bound of the delta of objective perturbation with Gaussian noise, any convex loss.

    The minimiser of :math:`\sum_i \ell_i(\theta) + \tfrac12 \|\theta - c\|^2_\Lambda + b'\theta`,
    :math:`b \sim N(0, s^2 I)`, has density :math:`\nu(b_D(\theta)) |\det \partial b_D(\theta)|` with
    :math:`b_D(\theta) = -\Lambda(\theta - c) - \sum_i \nabla\ell_i(\theta)`. Let :math:`\Delta(\theta)` be the
    difference of the gradients of the two persons who are exchanged (or the gradient of the one who is added or taken
    away), so that :math:`b_{D'} = b_D + \Delta`. At a minimiser from ``D`` the log density ratio is

    .. math:: L \le J + (\|b_{D'}\|^2 - \|b_D\|^2) / 2 s^2 = J + \langle b, \Delta \rangle / s^2
              + \|\Delta\|^2 / 2 s^2,

    where ``J`` bounds the log ratio of determinants. :math:`\Delta` depends on ``b`` through the minimiser; but if it
    is never longer than ``G`` and stays in an ``r``-dimensional space that is fixed by the two persons, then
    :math:`\langle b, \Delta \rangle \le G s X` with ``X`` the norm of ``r`` standard normal variables, a chi variable.
    As :math:`(1 - e^{\epsilon - L})_+` grows with ``L``,

    .. math:: \delta \le E\,(1 - \exp(\epsilon - J - g^2/2 - g X))_+, \qquad g = G/s.

    The integral is elementary. With :math:`a = \max(0, (\epsilon - J)/g - g/2)`, where the positive part begins,
    :math:`I_k(x) = \int_x^\infty y^k e^{-y^2/2} dy` and the square completed,

    .. math:: \delta\, 2^{r/2 - 1} \Gamma(r/2) \le
              I_{r-1}(a) - e^{\epsilon - J} \sum_j \binom{r-1}{j} (-g)^{r-1-j} I_j(a + g).

    The minimiser is never computed exactly, nor ``b`` drawn with all its digits. If instead a point that is surely
    within some distance of it is released, plus noise whose densities at points of that distance differ by a factor
    of at most :math:`e^{e_0/2}`, then whatever is released is (epsilon + e_0, e^(e_0/2) delta)-DP: that factor is used
    once on the way from one data set to its exact minimiser, where delta is added, and once from the other's back.

    Parameters
    ----------
    epsilon
        At which epsilon (nats).
    jacobian
        ``J``: a bound of the log ratio of determinants, such as log det(I + H / Lambda) of one person's Hessian.
    multiplier
        ``g`` >= 0: the bound ``G`` of the gradients' difference divided by the standard deviation ``s``.
    rank
        ``r``: the dimension of the space of gradient differences, 2 when a record of a generalised linear model is
        exchanged and 1 when it is added or taken away; at most 500.

    Raises
    ------
    MechanismError
        If the rank is not from 1 to 500.
    """
    if not 1 <= rank <= LARGEST_RANK:
        raise MechanismError(f"the rank must be from 1 to {LARGEST_RANK}, not {rank}", rank=rank)
    left, g = epsilon - jacobian, multiplier
    start = left - g * g / 2
    if start > 0 and start > (60 + math.isqrt(rank) + 1) * g:
        return _LEAST
    if g > 200:
        return Fraction(1)
    context = _context(rank)
    begin = max(Fraction(0), start / g) if g else Fraction(0)
    first = _moments(context, begin, rank - 1)[rank - 1]
    tilted = _moments(context, begin + g, rank - 1)
    factor, slope = context.exp(_number(context, left)), -_number(context, g)
    terms = [factor * math.comb(rank - 1, j) * slope ** (rank - 1 - j) * tilted[j] for j in range(rank)]
    size = first + sum(abs(term) for term in terms)
    scale = context.mpf(2) ** (context.mpf(rank) / 2 - 1) * context.gamma(context.mpf(rank) / 2)
    return _upwards((first - sum(terms) + context.ldexp(size, -128 - 4 * rank)) / scale)


def _moments(context: MPContext, start: Fraction, highest: int) -> list[mpf]:
    """Return the integrals of y^k exp(-y²/2) beyond ``start`` >= 0, k = 0 to highest; by parts, all terms positive."""
    x = _number(context, start)
    density = context.exp(-x * x / 2)
    moments = [context.sqrt(2 * context.pi) * _upper_tail(context, x), density]
    for k in range(2, highest + 1):
        moments.append(x ** (k - 1) * density + (k - 1) * moments[k - 2])
    return moments


@remembered(REMEMBERED)
def objective_multiplier(epsilon: Fraction, delta: Fraction, jacobian: Fraction, rank: int) -> Fraction:
    """Return the largest ``g`` whose `objective_delta` is at most delta, rounded down by at most 2^-40 of it.

    The noise of objective perturbation is then ``s = G / g``, for gradient differences of at most ``G``.

    Raises
    ------
    MechanismError
        If the determinant alone costs more than epsilon (jacobian > epsilon), delta is not in (0, 1), or the rank is
        too large.

    Examples
    --------
    >>> g = objective_multiplier(Fraction(1), Fraction(1, 10**6), Fraction(1, 10), rank=2)
    >>> round(float(2 / g), 2)  # standard deviations in units of R, for gradients that differ by up to 2 R
    10.43
    """
    _check(epsilon - jacobian, delta)
    return _largest(lambda g: objective_delta(epsilon, jacobian=jacobian, multiplier=g, rank=rank) <= delta)


def fixed_sign_multiplier(epsilon: Fraction, delta: Fraction, jacobian: Fraction) -> Fraction:
    r"""Return the largest ``g = G / s`` that keeps (epsilon, delta) when a person is added or taken away, rounded down.

    For losses of one linear predictor per person whose derivative keeps its sign given the record, as the logistic
    loss of an outcome 0 or 1. (A person whose gradient sums several terms, as in a hazard model, needs
    `objective_delta`.) In its notation :math:`\Delta = t u` with a vector ``u`` that the record fixes,
    :math:`\|u\| \le G`, and some :math:`t \in [0, 1]`. The bound of ``L`` is convex in ``t``, so it is largest at an
    end: :math:`L \le J + \max(0, \langle b, u \rangle / s^2 + \|u\|^2 / 2 s^2)`. For epsilon
    >= J the first end adds nothing, and the second is the privacy loss of the Gaussian mechanism:

    .. math:: \delta(\epsilon) \le \delta_{G/s}(\epsilon - J).

    In the other direction of the pair (the person is absent from the data at hand) the determinants have the good
    sign, and the same bound holds with J = 0.

    Raises
    ------
    MechanismError
        If jacobian > epsilon or delta is not in (0, 1).
    """
    _check(epsilon - jacobian, delta)
    return mu_of(epsilon - jacobian, delta)


def _check(epsilon: Fraction, delta: Fraction) -> None:
    if not epsilon >= 0:
        raise MechanismError(
            "no epsilon is left for the noise, since the determinant costs more than all of it; use a larger ridge",
            epsilon=epsilon,
        )
    if not 0 < delta < 1:
        raise MechanismError(
            f"Gaussian noise needs a delta above 0 and below 1, not {float(delta):g}; give one, or ask for a mechanism "
            "with a pure guarantee",
            delta=delta,
        )


def _largest(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return a point that holds, within 2^-40 of itself below one that does not, for a rule that small points meet."""
    low = Fraction(1)
    while not holds(low):
        low /= 2
    high = 2 * low
    while holds(high):
        low, high = high, 2 * high
    while high - low > _RELATIVE_STEP * low:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low

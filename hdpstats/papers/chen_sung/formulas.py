r"""Mean squared errors of Chen and Sung's distributed estimators of a scalar, as printed and as corrected.

``M`` parties hold ``N`` records each, :math:`I` is the information of a record, :math:`\Lambda` the length of the range
of the parameter, :math:`\Lambda_T` that of the statistic, ``k`` the number of blocks of a party.

**Blocks (theorem 3.2).** Estimates of blocks of ``t = N / k`` records have bias :math:`O(t^{-3/2})` once corrected,
with a square :math:`C (k / N)^3` that averaging over parties leaves, and Laplace noise of scale ``s`` has variance
:math:`2 s^2`:

.. math:: \frac{1}{M N} \Bigl( \frac{1}{I} + \frac{2 N \Lambda^2}{k^2 \epsilon^2} + \frac{C M k^3}{N^2} \Bigr).

Printed are :math:`N \Lambda^2 / (k^2 \epsilon^2)` and :math:`k^2 M / N^2`. The least is at :math:`k^* = (4 \Lambda^2
N^3 / (3 C M \epsilon^2))^{1/5}`; noise and bias then vanish beside :math:`1 / I` if and only if :math:`\epsilon` is
large against :math:`N^{-1/6} M^{1/3}` (printed: :math:`N^{1/6} M^{-1/3}`, both signs turned round).

**Statistics (theorem 3.3).** With the noise that is needed, :math:`\Lambda_T / (N \epsilon)`, and
:math:`d\theta/d\tau = 1 / I` in canonical parameters:

.. math:: \frac{1}{M N} \Bigl( \frac{1}{I} + \frac{2 \Lambda_T^2}{N \epsilon^2 I^2} \Bigr).

Printed is :math:`\frac{1}{I} + 32^{1/4} \Lambda_T / \sqrt{N \epsilon I} + \sqrt 2 \Lambda_T / (\epsilon N)`: there the
derivative is bounded by the variance of the statistic, of which it is the inverse, and the variance of the noise is
taken for :math:`\sqrt 2` times its scale. Efficient if and only if :math:`\epsilon` is large against
:math:`N^{-1/2}` (printed: :math:`N^{-1}`).
"""

import math

from hdpstats._base.validation import integer, real

_MOST = 10**12


def _checked(parties: int, records: int, epsilon: float, width: float, information: float) -> tuple[float, ...]:
    numbers = {"epsilon": epsilon, "width": width, "information": information}
    counts = {"parties": parties, "records": records}
    return (
        *(float(integer(value, name=name, lower=1, upper=_MOST)) for name, value in counts.items()),
        *(real(value, name=name, lower=0.0, open_lower=True) for name, value in numbers.items()),
    )


def mse_blocks(
    *, parties: int, records: int, epsilon: float, blocks: int, width: float, information: float, bias: float = 0.0
) -> float:
    """Return the mean squared error of averaged blocks, corrected; ``bias`` is ``C``, 0 for exactly unbiased ones.

    Examples
    --------
    >>> round(4e4 * mse_blocks(parties=10, records=4000, epsilon=2.0, blocks=80, width=1.5, information=1.0), 3)
    1.703
    """
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    return (1.0 / info + 2.0 * N * (length / (blocks * eps)) ** 2 + bias * M * blocks**3 / N**2) / (M * N)


def mse_blocks_printed(
    *, parties: int, records: int, epsilon: float, blocks: int, width: float, information: float
) -> float:
    """Return the mean squared error of theorem 3.2 as printed."""
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    return (1.0 / info + N * (length / (blocks * eps)) ** 2 + blocks**2 * M / N**2) / (M * N)


def best_blocks(*, parties: int, records: int, epsilon: float, width: float, bias: float = 1.0) -> float:
    """Return ``k*``, not rounded.

    Examples
    --------
    >>> round(best_blocks(parties=10, records=4000, epsilon=2.0, width=1.5))
    86
    """
    M, N, eps, length, _ = _checked(parties, records, epsilon, width, 1.0)
    return float((4.0 * length**2 * N**3 / (3.0 * bias * M * eps**2)) ** 0.2)


def mse_statistics(*, parties: int, records: int, epsilon: float, width: float, information: float) -> float:
    """Return the mean squared error of averaged statistics, corrected; ``width`` is the range of the statistic."""
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    return (1.0 / info + 2.0 * length**2 / (N * (eps * info) ** 2)) / (M * N)


def mse_statistics_printed(*, parties: int, records: int, epsilon: float, width: float, information: float) -> float:
    """Return the mean squared error of theorem 3.3 as printed."""
    M, N, eps, length, info = _checked(parties, records, epsilon, width, information)
    cross = 32.0**0.25 * length / math.sqrt(N * eps * info)
    return float((1.0 / info + cross + math.sqrt(2.0) * length / (eps * N)) / (M * N))

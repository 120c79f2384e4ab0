"""Exact Laplace and Gaussian noise on doubles, from OpenDP; the only importer of it.

OpenDP treats a double as the rational number it is, adds discrete noise on the grid 2^-1074·Z (Canonne,
Kamath & Steinke 2020) and rounds once, so that the last bits tell nothing. What it leaves to the caller is
done here: values that are not finite read 0 (OpenDP would pass NaN on unnoticed and take an infinity for the
largest double), and the loss that OpenDP certifies for the noise is compared, exactly, with the loss that was
asked for before any value is touched.

OpenDP's constructors take doubles and round their losses upwards. The scale is therefore raised by one part
in 2^40, so that the scale of the textbook, sensitivity / epsilon, is always enough.

References
----------
C. L. Canonne, G. Kamath, T. Steinke (2020), The discrete Gaussian for differential privacy.
M. Bun, T. Steinke (2016), Concentrated differential privacy: simplifications, extensions, and lower bounds.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.noise.lattice import finite, positive_rational

_SCALE_MARGIN = 1 + Fraction(1, 1 << 40)


def laplace(values: npt.ArrayLike, *, scale: Fraction, sensitivity: Fraction, epsilon: Fraction) -> FloatArray:
    """Return the values plus independent Laplace noise: pure epsilon-differential privacy.

    Parameters
    ----------
    values
        Vector of doubles, shape (d,); entries that are not finite read 0.
    scale
        Scale b of the density exp(-|z| / b) / (2 b), in the unit of the values; variance 2 b².
    sensitivity
        Bound of the L1 distance that one person can move the vector.
    epsilon
        Loss (nats) that the release may cost; sensitivity / scale <= epsilon is needed.

    Returns
    -------
    ndarray, shape (d,)
        The noisy values.

    Raises
    ------
    MechanismError
        If OpenDP does not certify a loss in (0, epsilon].
    ArgumentError
        If scale, sensitivity or epsilon is not a fraction in [2^-256, 2^256].

    Examples
    --------
    >>> noisy = laplace([1.0, 2.0], scale=Fraction(2), sensitivity=Fraction(1), epsilon=Fraction(1, 2))
    >>> noisy.shape
    (2,)
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    _enable()
    space = vector_domain(atom_domain(T=float, nan=False)), l1_distance(T=float)
    measurement = make_laplace(*space, scale=_double_scale(scale))
    _certify(measurement, sensitivity=sensitivity, loss=epsilon, name="epsilon")
    return _invoke(measurement, values)


def gaussian(values: npt.ArrayLike, *, scale: Fraction, sensitivity: Fraction, rho: Fraction) -> FloatArray:
    """Return the values plus independent Gaussian noise: rho-zero-concentrated differential privacy.

    Parameters
    ----------
    values
        Vector of doubles, shape (d,); entries that are not finite read 0.
    scale
        Standard deviation of the noise, in the unit of the values.
    sensitivity
        Bound of the L2 distance that one person can move the vector.
    rho
        Loss (zCDP) that the release may cost; sensitivity² / (2 scale²) <= rho is needed.

    Returns
    -------
    ndarray, shape (d,)
        The noisy values.

    Raises
    ------
    MechanismError
        If OpenDP does not certify a loss in (0, rho].
    ArgumentError
        If scale, sensitivity or rho is not a fraction in [2^-256, 2^256].

    Examples
    --------
    >>> noisy = gaussian([1.0, 2.0], scale=Fraction(10), sensitivity=Fraction(1), rho=Fraction(1, 200))
    >>> noisy.shape
    (2,)
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    _enable()
    space = vector_domain(atom_domain(T=float, nan=False)), l2_distance(T=float)
    measurement = make_gaussian(*space, scale=_double_scale(scale))
    _certify(measurement, sensitivity=sensitivity, loss=rho, name="rho")
    return _invoke(measurement, values)


def _enable() -> None:
    """Admit the constructors that OpenDP calls contributed; its other features stay off."""
    from opendp.mod import enable_features

    enable_features("contrib")


def _double_up(x: Fraction) -> float:
    """Return the least double at or above x."""
    nearest = float(x)
    return nearest if nearest >= x else math.nextafter(nearest, math.inf)


def _double_scale(scale: Fraction) -> float:
    """Return the scale as a double, raised by the margin."""
    return _double_up(positive_rational(scale, name="scale") * _SCALE_MARGIN)


def _certify(measurement: Any, *, sensitivity: Fraction, loss: Fraction, name: str) -> None:
    """Raise unless OpenDP certifies that the measurement costs more than 0 and at most the loss."""
    distance = _double_up(positive_rational(sensitivity, name="sensitivity"))
    allowed = positive_rational(loss, name=name)
    certified: float = measurement.map(distance)
    if not (0.0 < certified < math.inf and certified <= allowed):
        raise MechanismError(
            f"the noise costs {name} = {certified:.12g} for sensitivity {float(sensitivity):.12g}, "
            f"and {float(allowed):.12g} was asked for; raise the scale or {name}",
            certified=certified,
            allowed=allowed,
        )


def _invoke(measurement: Any, values: npt.ArrayLike) -> FloatArray:
    """Run the measurement on finite doubles."""
    return np.array(measurement(finite(values)), dtype=np.float64)

"""Standard errors of what simulation studies measure."""

import numpy as np


def share_error(share: float | np.ndarray, repeats: int) -> np.ndarray:
    """Return the standard error of a share, or of several, of so many data sets."""
    return np.sqrt(share * (1.0 - np.asarray(share)) / repeats)


def ratios(errors: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return root mean squared errors over others (p,), and their standard errors, from errors (repeats, p) of each.

    Both are of the same data sets.
    """
    ratio, apart = _apart(errors, others)
    return ratio, apart.std(axis=0) / np.sqrt(len(apart))


def mean_ratio(errors: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the mean over coefficients of such ratios, and its standard error."""
    ratio, apart = _apart(errors, others)
    return float(ratio.mean()), float(apart.mean(axis=1).std() / np.sqrt(len(apart)))


def _apart(errors: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ratios (p,) and what each data set moves them by, times the number of data sets (repeats, p)."""
    square, other = np.mean(errors**2, axis=0), np.mean(others**2, axis=0)
    ratio = np.sqrt(square / other)
    return ratio, 0.5 * ratio * (errors**2 / square - others**2 / other)

r"""Algorithms 1 and 2 of Nguyen and Hui (2017): output and objective perturbation of a discrete-time regression.

Both regularise the mean loss with ``Lambda ||f||^2 / 2``, that is the sum with the ridge ``n Lambda``.
"""

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import integer, real
from hdpstats.inference.draws import Generator, generator
from hdpstats.papers.nguyen_hui.bounds import determinant_bound, gradient_sensitivity, smallest_ridge
from hdpstats.papers.nguyen_hui.patients import Patients, fit
from hdpstats.papers.trials import LARGEST_SEED

MOST_DRAWS = 1_000_000


def output_perturbation(
    patients: Patients, *, epsilon: float, regularisation: float, seed: int, draws: int = 1
) -> FloatArray:
    """Draw from Algorithm 1, extended output perturbation. NOT private: seeded noise in floating point, many draws.

    The regularised fit plus a vector with density proportional to ``exp(-epsilon ||b|| / t)``, where
    ``t = gradient_sensitivity / (n Lambda)``.

    Parameters
    ----------
    epsilon : number
        What one draw would cost if its noise were secret and exact.
    regularisation : number
        The paper's ``Lambda``.
    seed : int
    draws : int

    Returns
    -------
    (draws, e + p) float64
    """
    epsilon, regularisation, rng, draws = _check(epsilon, regularisation, seed, draws)
    ridge = patients.people * regularisation
    scale = gradient_sensitivity(patients.data.A) / ridge / epsilon
    return fit(patients, ridge=ridge).theta + _gamma_vectors(rng, patients.dimension, scale, draws)


def objective_perturbation(
    patients: Patients, *, epsilon: float, regularisation: float, seed: int, draws: int = 1, corrected: bool = False
) -> FloatArray:
    """Draw from Algorithm 2, extended objective perturbation. NOT private: seeded, and Theorem 4.4 is wrong as printed.

    What the bound on the determinant leaves of epsilon, at least half of it, buys a linear term with density
    proportional to ``exp(-epsilon' ||b|| / t)``, ``t = gradient_sensitivity``; where ``Lambda`` is too small for that,
    a further ridge ``Delta`` is added.

    Parameters
    ----------
    epsilon : number
        What one draw would cost if the theorem held and its noise were secret and exact.
    regularisation : number
        The paper's ``Lambda``.
    seed : int
    draws : int
    corrected : bool
        Whether the bound on the determinant takes the squared norm of a row, as it must, or the norm, as printed.

    Returns
    -------
    (draws, e + p) float64
    """
    epsilon, regularisation, rng, draws = _check(epsilon, regularisation, seed, draws)
    ridge = patients.people * regularisation
    left = epsilon - determinant_bound(patients.data.A, ridge, corrected=corrected)
    if left < epsilon / 2.0:
        ridge = smallest_ridge(patients.data.A, epsilon / 2.0, corrected=corrected)
        left = epsilon / 2.0
    noise = _gamma_vectors(rng, patients.dimension, gradient_sensitivity(patients.data.A) / left, draws)
    start = fit(patients, ridge=ridge).theta
    return np.array([fit(patients, ridge=ridge, linear=b, start=start).theta for b in noise])


def _check(epsilon: float, regularisation: float, seed: int, draws: int) -> tuple[float, float, Generator, int]:
    """Return the arguments of both algorithms, checked, and the generator."""
    return (
        real(epsilon, name="epsilon", lower=0.0, open_lower=True),
        real(regularisation, name="regularisation", lower=0.0, open_lower=True),
        generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):x}"),
        integer(draws, name="draws", lower=1, upper=MOST_DRAWS),
    )


def _gamma_vectors(rng: Generator, dimension: int, scale: float, draws: int) -> FloatArray:
    """Return vectors (draws, dimension) with density proportional to ``exp(-||b|| / scale)``."""
    directions = rng.standard_normal((draws, dimension))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return np.asarray(directions * rng.gamma(float(dimension), scale, draws)[:, None])

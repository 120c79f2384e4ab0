r"""Algorithms 1 and 2 of Ji et al. (2014): as printed, as meant, and corrected. NOT private.

They differ in three things.

*Hessian.* Printed is :math:`H = \sum_i \log\{e^{-b'x_i} / (1 + e^{-b'x_i})^2\} - (n_0 \lambda / N) I`, a number plus a
matrix. Meant is :math:`H = -\sum_i x_i x_i' p_i (1 - p_i) - (n_0 \lambda / N) I`. Taken at its word, with the number as
a multiple of the identity, the printed form is a method of steepest ascent with steps of ``1 / (1.39 N)`` or less.

*Noise.* Printed is a density proportional to :math:`\exp(-\epsilon_0 \|b\| / 2 M)`. Coefficients at which gradients are
asked for are public, so that :math:`M D(r)` is enough (`hdpstats.privacy.logistic_score`), half of it at 0.

*Start.* Algorithm 2 starts at 0; the results speak of a start at the public fit.

The coefficients after a round of noise may be anywhere: nothing says that the steps converge.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from scipy.special import expit

from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, integer, real
from hdpstats.inference.draws import Generator, generator
from hdpstats.papers.ji2014.split import Split
from hdpstats.papers.trials import LARGEST_SEED
from hdpstats.papers.wang.hospitals import Hospital, fit
from hdpstats.privacy.logistic_score import diameter

MOST_DRAWS: Final = 100_000
MOST_ROUNDS: Final = 100


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A reading of the algorithm: whether its Hessian is a matrix, its noise is for ``2 M``, its start is public."""

    matrix: bool
    twice_the_norm: bool
    from_public: bool


FORMS: Final = {
    "printed": Form(matrix=False, twice_the_norm=True, from_public=False),
    "meant, from 0": Form(matrix=True, twice_the_norm=True, from_public=False),
    "meant": Form(matrix=True, twice_the_norm=True, from_public=True),
    "corrected": Form(matrix=True, twice_the_norm=False, from_public=True),
}
"""The printed algorithm, what it means (from 0 as algorithm 2, from the public fit as the results), and corrected."""


def distributed_newton(
    split: Split, *, ridge: float, epsilon: float, seed: int, rounds: int = 2, form: str = "corrected", draws: int = 1
) -> FloatArray:
    """Return coefficients (draws, D) after the rounds, with noise drawn anew each time.

    >>> from hdpstats.papers.ji2014.split import breast_cancer, random_split
    >>> split = random_split(breast_cancer(), "event3", seed=1, public=0.1)
    >>> distributed_newton(split, ridge=1.0, epsilon=1.0, seed=2, draws=3).shape
    (3, 10)
    """
    chosen = FORMS[choice(form, name="form", options=tuple(FORMS))]
    number = integer(draws, name="draws", lower=1, upper=MOST_DRAWS)
    steps = integer(rounds, name="rounds", lower=1, upper=MOST_ROUNDS)
    weak = real(ridge, name="ridge", lower=0.0, open_lower=True)
    share = real(epsilon, name="epsilon", lower=0.0, open_lower=True) / steps
    rng = generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):064x}")
    people = split.public.records + split.private.records
    zero = np.zeros(split.public.X.shape[1])
    start = fit(split.public, ridge=weak * split.public.records / people) if chosen.from_public else zero
    return np.array([_walk(split, start, rng, chosen, ridge=weak, epsilon=share, rounds=steps) for _ in range(number)])


def _walk(
    split: Split, start: FloatArray, rng: Generator, form: Form, *, ridge: float, epsilon: float, rounds: int
) -> FloatArray:
    """Return the coefficients after the rounds, ``epsilon`` being that of one."""
    b, share = start, split.public.records / split.train.records
    for _ in range(rounds):
        wide = 2.0 if form.twice_the_norm else float(diameter(Fraction(split.norm * float(np.linalg.norm(b)))))
        scale = split.norm * wide / epsilon
        noise = sum((ball_noise(rng, scale, len(b)) for _ in split.sites), np.zeros(len(b)))
        upwards = gradient(split.train, b) + noise - ridge * b
        b = b - share * np.linalg.solve(hessian(split.public, b, ridge=share * ridge, matrix=form.matrix), upwards)
    return b


def ball_noise(rng: Generator, scale: float, dimension: int) -> FloatArray:
    """Return a vector (D,) of density proportional to ``exp(-||b|| / scale)``."""
    direction = rng.standard_normal(dimension)
    return np.asarray(rng.gamma(dimension, scale) / np.linalg.norm(direction) * direction)


def gradient(people: Hospital, b: FloatArray) -> FloatArray:
    """Return the gradient (D,) of the log-likelihood."""
    return np.asarray(people.X.T @ (people.y - expit(people.X @ b)))


def hessian(public: Hospital, b: FloatArray, *, ridge: float, matrix: bool) -> FloatArray:
    """Return the paper's ``H`` (D, D), penalty included: as it is meant, or the printed number times the identity."""
    eta, identity = public.X @ b, np.eye(len(b))
    if not matrix:
        number = float(np.sum(-np.logaddexp(0.0, eta) - np.logaddexp(0.0, -eta)))  # the logarithm of p (1 - p)
        return np.asarray((number - ridge) * identity)
    p = expit(eta)
    return np.asarray(-(public.X.T * (p * (1.0 - p))) @ public.X - ridge * identity)

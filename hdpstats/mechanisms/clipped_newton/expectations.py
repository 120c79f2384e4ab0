"""Expectations of clipped scores over public people and all outcomes that each of them might have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.score_sums import clipped
from hdpstats.public.outcomes import NUMBERS, Outcomes

WEAK = 1e-7
"""Information added in every direction, relative to the mean: where nobody is followed there is none."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Expected:
    """Expectations of one person's averaged clipped score under coefficients.

    Attributes
    ----------
    mean : (D,) float64
        ``E g``.
    information : (D, D) float64
        ``-E g (grad log p)'``.
    covariance : (D, D) float64
        ``cov(g)`` over people and outcomes.
    given : (people, D) float64
        ``m(x) = E(g | x)`` of each public person, but for those who contribute nothing.
    """

    mean: FloatArray
    information: FloatArray
    covariance: FloatArray
    given: FloatArray


def expected(
    outcomes: Outcomes, theta: FloatArray, *, asked: Sequence[tuple[FloatArray, float]], clip: float
) -> Expected:
    """Return the expectations under ``theta`` of scores at other coefficients, averaged with weights that sum to 1."""
    D, n, outcomes = outcomes.dimension, outcomes.whole, outcomes.at(theta)
    mean, information, square = np.zeros(D), np.zeros((D, D)), np.zeros((D, D))
    given = np.zeros((outcomes.people, D))
    for people in outcomes.blocks():
        distribution = outcomes.distribution(theta, people)
        g = _averaged(outcomes, asked, people, clip)
        likely = distribution.probability[:, :, None] * g
        given[people] = likely.sum(axis=1)
        likely, mean_here = _counted(outcomes, likely, given[people], people)
        mean += mean_here
        flat = likely.reshape(-1, D)
        information -= flat.T @ distribution.score.reshape(-1, D)
        square += flat.T @ g.reshape(-1, D)
    mean /= n
    whole = 1.0 if outcomes.share is None else float(outcomes.share.sum())
    covariance = square / n - np.outer(mean, mean) / whole
    return Expected(mean=mean, information=information / n, covariance=covariance, given=given)


def _counted(outcomes: Outcomes, likely: FloatArray, given: FloatArray, people: slice) -> tuple[FloatArray, FloatArray]:
    """Return likely scores (b, K, D) and their sum (D,), each person's times its share relative to equal ones."""
    if outcomes.share is None:
        return likely, given.sum(axis=0)
    relative = outcomes.share[people] * outcomes.whole
    return relative[:, None, None] * likely, relative @ given


def between_people(given: FloatArray, *, whole: int) -> FloatArray:
    """Return the covariance of numbers (people, D) over ``whole`` people, those not listed having zeros."""
    mean = given.sum(axis=0) / whole
    return np.asarray((given.T @ given - whole * np.outer(mean, mean)) / max(whole - 1, 1))


def spread_of_slopes(
    outcomes: Outcomes, theta: FloatArray, *, asked: Sequence[tuple[FloatArray, float]], root: FloatArray, clip: float
) -> FloatArray:
    r"""Return by how much ``m(x)`` changes differ between people where coefficients change (D, D).

    With :math:`A_x = -E\{\bar g\, \nabla\log p_\theta(Y \mid x)' \mid x\}` the mean of a person's score changes by
    :math:`A_x d` where the truth is :math:`d` away from ``theta`` (the sign aside): the covariance over people of that,
    averaged over ``d`` of covariance ``root root'``. Of people with shares it is that of the weighted mean, times their
    number.
    """
    D, n, outcomes = outcomes.dimension, outcomes.whole, outcomes.at(theta)
    mean, square = np.zeros((D, D)), np.zeros((D, D))
    for people in outcomes.blocks():
        distribution = outcomes.distribution(theta, people)
        likely = distribution.probability[:, :, None] * _averaged(outcomes, asked, people, clip)
        likely = np.swapaxes(likely, 1, 2)
        step = max(1, NUMBERS // (D * D))
        for start in range(0, len(likely), step):
            moved = likely[start : start + step] @ (distribution.score[start : start + step] @ root)
            if outcomes.share is not None:
                here = slice(people.start + start, people.start + start + len(moved))
                moved *= (n * outcomes.share[here])[:, None, None]
            mean += moved.sum(axis=0)
            side_by_side = np.swapaxes(moved, 0, 1).reshape(D, -1)
            square += side_by_side @ side_by_side.T
    mean /= n
    repeated = 1.0 if outcomes.share is None else n * float(np.sum(outcomes.share**2))
    return np.asarray(square / n - repeated * mean @ mean.T)


def drawn_means(
    outcomes: Outcomes, theta: FloatArray, *, asked: Sequence[tuple[FloatArray, float]], clip: float, sets: int
) -> FloatArray:
    """Return ``E g`` over each of so many sets of people, one after the other, who have shares (sets, D)."""
    given, outcomes = np.zeros((outcomes.people, outcomes.dimension)), outcomes.at(theta)
    for people in outcomes.blocks():
        chances = outcomes.chances_of(theta, people)
        for at, share in asked:
            given[people] += share * outcomes.shortened(at, chances, people, clip=clip)
    return np.asarray((outcomes.counted[:, None] * given).reshape(sets, -1, outcomes.dimension).sum(axis=1))


def _averaged(outcomes: Outcomes, asked: Sequence[tuple[FloatArray, float]], people: slice, clip: float) -> FloatArray:
    """Return the averaged clipped scores (b, K, D) of a block of people under each outcome."""
    parts = []
    for at, share in asked:
        scores = outcomes.gradients(at, people)
        parts.append(share * clipped(scores.reshape(-1, outcomes.dimension), clip).reshape(scores.shape))
    return np.asarray(sum(parts))


def score_quantile(outcomes: Outcomes, theta: FloatArray, *, level: float) -> float:
    """Return a quantile of the length of a person's score at ``theta`` under ``theta``, over public people."""
    sizes, shares = [], []
    for people in outcomes.blocks():
        sizes.append(np.linalg.norm(outcomes.gradients(theta, people), axis=2).ravel())
        shares.append(outcomes.distribution(theta, people).probability.ravel())
    size, share = np.concatenate(sizes), np.concatenate(shares)
    order = np.argsort(size, kind="stable")
    below = np.cumsum(share[order])
    return float(size[order][min(int(np.searchsorted(below, level * below[-1])), len(size) - 1)])


def response_of(A: FloatArray) -> FloatArray:
    """Return ``A^-1`` (D, D), with little information added in every direction."""
    return np.linalg.inv(A + WEAK * (np.trace(A) / len(A)) * np.eye(len(A)))


def root_of(covariance: FloatArray) -> FloatArray:
    """Return the symmetric root (D, D) of a covariance, of which rounding may have made an eigenvalue negative."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0.0)) @ vectors.T)

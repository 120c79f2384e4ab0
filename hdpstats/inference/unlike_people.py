r"""What predicted standard errors may become if private people are unlike public ones: the range of a plan.

A plan takes the curvature ``H`` of the public rows. With rows :math:`z' = A z` it would be :math:`H' = w A H A'`.
Looked at are

- one correlation of two variables, moved as `hdpstats.inference.other_correlations` moves it, or none;
- covariates that spread `SPREADS` times as much as in public rows, about their means;
- means that are `AWAY` standard deviations away, where there is an intercept: the first of the variables that rest on
  the moved correlation, the second of all others, up and down;
- ``w``: as often as the linear predictor is moved by the first of `AWAY` of its standard deviations, where curvature
  depends on coefficients alone.

The part of the covariance that is due to sampling becomes :math:`A^{-\top} C A^{-1} / w`. Noise in the score of the
covariance ``N`` becomes :math:`H'^{-1} N H'^{-1}` in place of :math:`H^{-1} N H^{-1}`. Of each coefficient the largest
and the smallest factor of both parts are taken over all of these, and the estimate so changed is pooled with the public
fit as the plan pools it. Where residuals vary by a standard deviation that nothing public tells, sampling errors are in
proportion to it. Where anything is open, both ends are `WITHIN` farther: as near as plans are where people are alike.
It is no bound: people may differ more, and in other ways.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.inference.other_correlations import MovedCorrelations, given_others, moved_correlations, names_of
from hdpstats.inference.sandwich import PredictedCovariance, predicted_errors
from hdpstats.public.moments import PublicFit
from hdpstats.public.row_weights import Allowance

SPREADS: Final = (0.6, 1.3)
"""Spreads of private covariates over those of public ones: those of the studies of unlike people."""

AWAY: Final = (0.6, 0.4)
"""How many standard deviations means of private covariates are away: those of the same studies."""

WITHIN: Final = 1.1
"""Within how many times a predicted standard error that of a fit is where private people are like the public ones."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ErrorRange:
    """Between which standard errors (p,) a fit may report if private people are unlike public ones, and in what.

    ``correlations``, ``spreads``, ``means`` say what was looked at of covariates; ``residuals`` is how many times as
    large residuals may be as they are taken to be, at least and at most, 1 where that is known.
    """

    low: FloatArray
    high: FloatArray
    correlations: bool
    spreads: bool
    means: bool
    residuals: tuple[float, float] = (1.0, 1.0)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlannedPeople:
    """What a prediction rests on, as far as private people may be unlike.

    Attributes
    ----------
    private : PredictedCovariance
        What the private estimate errs by, in whitened coordinates, without what all sites err by alike.
    hessian : callable
        From coefficients (D,) to the curvature (D, D).
    noise : callable
        From a curvature to the covariance of the noise in the score; up to a factor.
    centre : FloatArray
        The coefficients (D,) that are predicted at.
    T, terms
        From whitened coefficients to those that the terms name (p, D), and these.
    blocks
        The coordinates of slopes of each predictor.
    intercepts
        The coordinate of the intercept of each predictor; none without one, or where a baseline is in its place.
    canonical
        Whether curvature depends on coefficients alone.
    fit, apart, weights, allowance
        The public fit, and what else `predicted_errors` is given.
    correlations_known, spreads_known
        What a description tells of the private people.
    residuals
        How many times as large residuals may be as they are taken to be, at least and at most.
    """

    private: PredictedCovariance
    hessian: Callable[[FloatArray], FloatArray]
    noise: Callable[[FloatArray], FloatArray]
    centre: FloatArray
    T: FloatArray
    terms: Sequence[str]
    blocks: Sequence[IntArray]
    intercepts: Sequence[int] = ()
    canonical: bool = False
    fit: PublicFit | None = None
    apart: FloatArray | float = 0.0
    weights: Allowance | None = None
    allowance: FloatArray | None = None
    correlations_known: bool = False
    spreads_known: bool = False
    residuals: tuple[float, float] = (1.0, 1.0)


def error_range(people: PlannedPeople) -> ErrorRange | None:
    """Return between which standard errors a fit may report; None where public facts do not tell it."""
    T = people.T
    if T.shape[0] != T.shape[1] or not people.blocks:
        return None
    found = _Curvature.of(people)
    factors = _factors(people, found)
    largest, smallest = np.max(factors, axis=1), np.min(factors, axis=1)
    correlations = found.moves is not None and not people.correlations_known
    spreads = not people.spreads_known and len(found.slopes) > 0
    within = WITHIN if correlations or spreads or people.residuals != (1.0, 1.0) else 1.0
    return ErrorRange(
        low=_reported(people, sampling=smallest[0] * people.residuals[0], privacy=smallest[1]) / within,
        high=_reported(people, sampling=largest[0] * people.residuals[1], privacy=largest[1]) * within,
        correlations=correlations,
        spreads=spreads,
        means=spreads and len(people.intercepts) > 0,
        residuals=people.residuals,
    )


def _reported(people: PlannedPeople, *, sampling: FloatArray, privacy: FloatArray) -> FloatArray:
    """Return standard errors (p,) where the two parts of those of the private estimate are so many times as large."""
    T, back = people.T, np.linalg.inv(people.T)

    def scaled(covariance: FloatArray, by: FloatArray) -> FloatArray:
        return np.asarray(back @ (np.outer(by, by) * (T @ covariance @ T.T)) @ back.T)

    private = PredictedCovariance(
        sampling=scaled(people.private.sampling, sampling), privacy=scaled(people.private.privacy, privacy)
    ).allowing(people.allowance)
    return predicted_errors(private, people.fit, T=T, apart=people.apart, weights=people.weights).reported


def _factors(people: PlannedPeople, at: "_Curvature") -> FloatArray:
    """Return how many times as large (2, k, p) errors by sampling and by noise are, of all kinds of people."""
    T, private, H = people.T, people.private, at.H
    least, most = _levels(people, at)
    root = np.linalg.inv(_root(H, people.noise))

    def size(covariance: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(np.diag(T @ covariance @ T.T)))

    before, found = [size(private.sampling), size(private.privacy)], [np.ones((2, len(T)))]
    for A, spread in _kinds(people, at):
        level = 1.0 if spread == 1.0 else least if spread < 1.0 else most
        inverse = np.linalg.inv(A)
        turned = _root(level * A @ H @ A.T, people.noise) @ root
        after = [size(inverse.T @ private.sampling @ inverse / level), size(turned @ private.privacy @ turned.T)]
        pairs = zip(before, after, strict=True)
        found.append(np.array([np.divide(new, old, out=np.ones_like(old), where=old > 0.0) for old, new in pairs]))
    return np.stack(found, axis=1)


def _root(H: FloatArray, noise: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a root (D, D) of the covariance of an estimate with noise in the score."""
    return np.linalg.solve(H, np.linalg.cholesky(noise(H)))


def _levels(people: PlannedPeople, at: "_Curvature") -> tuple[float, float]:
    """Return how many times as large curvature may be where the linear predictor is moved: at least and at most."""
    found = [1.0]
    if people.canonical and people.intercepts and len(at.slopes) and not people.spreads_known:
        for sign in (1.0, -1.0):
            theta = people.centre.copy()
            for intercept, block in zip(people.intercepts, people.blocks, strict=True):
                theta[intercept] += sign * AWAY[0] * float(np.linalg.norm(people.centre[block]))
            moved = people.hessian(theta)
            found.append(float(np.trace(moved[at.slopes][:, at.slopes]) / np.trace(at.H[at.slopes][:, at.slopes])))
    return min(found), max(found)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Curvature:
    """The curvature in whitened coordinates ``H`` (D, D) and in those of the terms, and what is moved of it.

    ``slopes`` are the coordinates of all slopes, ``others`` the rest, ``across`` (slopes, others) the regression of
    the columns on the rest, ``spread`` (p,) the standard deviations of the first predictor's columns, 0 without an
    intercept, ``moves`` their correlations.
    """

    H: FloatArray
    in_terms: FloatArray
    slopes: IntArray
    others: IntArray
    across: FloatArray
    spread: FloatArray
    moves: MovedCorrelations | None

    def moved(self, move: int) -> tuple[FloatArray, BoolArray]:
        """Return the matrix of columns (p, p) of a move, and which of them (p,) are of its first variable."""
        if self.moves is None:
            return np.eye(len(self.spread)), np.zeros(len(self.spread), dtype=bool)
        return self.moves.columns(move), self.moves.a[move] != 0.0

    @classmethod
    def of(cls, people: PlannedPeople) -> "_Curvature":
        """Return it for planned people."""
        H, back = people.hessian(people.centre), np.linalg.inv(people.T)
        in_terms = back.T @ H @ back
        slopes = np.concatenate(people.blocks)
        others, first = np.setdiff1d(np.arange(len(H)), slopes), len(people.blocks[0])
        across = np.linalg.solve(in_terms[np.ix_(others, others)], in_terms[np.ix_(others, slopes)]).T
        own = given_others(in_terms, slopes)[:first, :first]
        spread = np.zeros(first)
        if people.intercepts:
            spread = np.sqrt(np.diag(own) / in_terms[people.intercepts[0], people.intercepts[0]])
        names = names_of(people.terms, people.blocks[0], predictors=len(people.blocks))
        return cls(
            H=H,
            in_terms=in_terms,
            slopes=slopes,
            others=others,
            across=across,
            spread=spread,
            moves=moved_correlations(own, names),
        )


def _kinds(people: PlannedPeople, at: _Curvature) -> Iterator[tuple[FloatArray, float]]:
    """Yield matrices ``A`` (D, D) that whitened rows are multiplied by, with how many times as much they spread."""
    p = len(at.spread)
    larger = smaller = [(np.eye(p), np.arange(p) == 0)]
    if at.moves is not None and not people.correlations_known:
        larger = larger + [at.moved(move) for move in dict.fromkeys(np.argmax(at.moves.ratios, axis=0).tolist())]
        smaller = smaller + [at.moved(move) for move in dict.fromkeys(np.argmin(at.moves.ratios, axis=0).tolist())]
    still = np.zeros(p)
    for turned, _ in [*larger, *smaller]:
        yield _whitened(people, at, turned, still), 1.0
    if people.spreads_known:
        return
    for turned, first in larger:
        own, rest = AWAY[0] * at.spread * first, AWAY[1] * at.spread * ~first
        for away in (still, own + rest, own - rest, rest - own, -own - rest) if people.intercepts else (still,):
            yield _whitened(people, at, SPREADS[0] * turned, away), SPREADS[0]
    for turned, _ in smaller:
        yield _whitened(people, at, SPREADS[1] * turned, still), SPREADS[1]


def _whitened(people: PlannedPeople, at: _Curvature, turned: FloatArray, away: FloatArray) -> FloatArray:
    """Return the matrix of whitened rows whose columns are ``turned`` (p, p) about their means and moved (p,)."""
    predictors = len(people.blocks)
    columns, A = np.kron(np.eye(predictors), turned), np.eye(len(at.H))
    means = at.across.copy()
    for k, intercept in enumerate(people.intercepts):
        means[k * len(away) : (k + 1) * len(away), np.searchsorted(at.others, intercept)] += away
    A[np.ix_(at.slopes, at.slopes)] = columns
    A[np.ix_(at.slopes, at.others)] = means - columns @ at.across
    return np.asarray(people.T.T @ A @ np.linalg.inv(people.T).T)

r"""Expectations of clipped scores over public people and all outcomes that each of them might have.

**Raked people.** Where something was released about a site's private people, the public ones are raked to it. The
private sum of clipped scores is matched with :math:`n\,E\,m(X; \theta)` over raked people
(`hdpstats.raking.raking`) at the posterior means of the described averages. What these expectations err by is the
covariance of :math:`n\,E\,m` over draws: weights of the public people from the Bayesian bootstrap, which all sites
share, and averages from the posterior, each site's own (`hdpstats.raking.posterior`).

`raked_outcomes` lists the outcomes of raked people, set by set.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.families.outcomes import NUMBERS, Outcomes
from hdpstats.inference import draws
from hdpstats.mechanisms.score_sums import clipped
from hdpstats.public.moments import PublicSide
from hdpstats.raking.curvature import rakeable
from hdpstats.raking.information import raked_information
from hdpstats.raking.people import whitened_people
from hdpstats.raking.posterior import cohort_posterior, notes_on
from hdpstats.raking.raking import RakedPeople, raked_variables, raking_at
from hdpstats.records import codec
from hdpstats.records.averages import CohortMoments
from hdpstats.records.geometry import Geometry

WEAK = 1e-7
"""Information added in every direction, relative to the mean: where nobody is followed there is none."""

KEPT = 20_000_000
"""Numbers of averaged scores that are kept while coefficients are searched for."""


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
        ``m(x) = E(g | x)`` of each public person, of all rows where there are several, but for those who contribute
        nothing.
    """

    mean: FloatArray
    information: FloatArray
    covariance: FloatArray
    given: FloatArray


def expected(
    outcomes: Outcomes,
    theta: FloatArray,
    *,
    asked: Sequence[tuple[FloatArray, float]],
    clip: float,
    kept: dict[Hashable, FloatArray] | None = None,
    key: Hashable = None,
) -> Expected:
    """Return the expectations under ``theta`` of scores at other coefficients, averaged with weights that sum to 1.

    Averaged scores that do not depend on ``theta`` are ``kept``, up to `KEPT` numbers in all, and taken from there by
    calls with the same ``key``, which stands for the same people, ``asked`` and ``clip``.
    """
    D, n, outcomes = outcomes.dimension, outcomes.whole, outcomes.at(theta)
    mean, information, square = np.zeros(D), np.zeros((D, D)), np.zeros((D, D))
    given, apart = np.zeros((2, outcomes.people, D))
    uneven = outcomes.several or outcomes.share is not None
    for people in outcomes.blocks():
        distribution = outcomes.distribution(theta, people)
        g = None if kept is None else kept.get((key, people.start))
        if g is None:
            g = _averaged(outcomes, asked, people, clip)
            if kept is not None and outcomes.fixed and sum(map(np.size, kept.values())) + g.size <= KEPT:
                kept[key, people.start] = g
        chances = distribution.probability
        given[people] = (chances[:, None, :] @ g)[:, 0]
        if outcomes.several:
            apart[people] = outcomes.deviations(g, chances, people)
        if uneven:
            chances = chances * (outcomes.counted[people] * n)[:, None]
        flat = (chances[:, :, None] * g).reshape(-1, D)
        mean += flat.sum(axis=0)
        information -= flat.T @ distribution.score.reshape(-1, D)
        square += flat.T @ g.reshape(-1, D)
    mean /= n
    whole = 1.0 if outcomes.share is None or outcomes.several else float(outcomes.share.sum())
    if outcomes.several:
        given, apart = outcomes.together(given), outcomes.together(apart)
        shares = outcomes.shares_of_people[:, None] * n
        square = given.T @ (shares * given) + apart.T @ (shares * apart)
    covariance = square / n - np.outer(mean, mean) / whole
    return Expected(mean=mean, information=information / n, covariance=covariance, given=given)


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
    of_rows = np.zeros((outcomes.people, D, D)) if outcomes.several else None
    for people in outcomes.blocks():
        distribution = outcomes.distribution(theta, people)
        likely = distribution.probability[:, :, None] * _averaged(outcomes, asked, people, clip)
        likely = np.swapaxes(likely, 1, 2)
        step = max(1, NUMBERS // (D * D))
        for start in range(0, len(likely), step):
            moved = likely[start : start + step] @ (distribution.score[start : start + step] @ root)
            if of_rows is not None:
                of_rows[people.start + start : people.start + start + len(moved)] = moved
                continue
            if outcomes.share is not None:
                here = slice(people.start + start, people.start + start + len(moved))
                moved *= (n * outcomes.share[here])[:, None, None]
            mean += moved.sum(axis=0)
            side_by_side = np.swapaxes(moved, 0, 1).reshape(D, -1)
            square += side_by_side @ side_by_side.T
    if of_rows is not None:
        shares = n * outcomes.shares_of_people
        moved = outcomes.together(of_rows) * shares[:, None, None]
        mean, square = moved.sum(axis=0), np.einsum("iab,icb->ac", moved, moved)
        return np.asarray(square / n - float(np.sum(shares**2)) / n * (mean / n) @ (mean / n).T)
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
    """Return a quantile of the length of a person's score, or a row's, at ``theta`` under ``theta``."""
    sizes, shares = [], []
    for people in outcomes.blocks():
        sizes.append(np.linalg.norm(outcomes.gradients(theta, people), axis=2).ravel())
        chances = outcomes.distribution(theta, people).probability
        shares.append((chances * outcomes.counted[people, None] if outcomes.several else chances).ravel())
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


def raked_outcomes(
    outcomes: Outcomes, people: RakedPeople, geometry: Geometry, *, case_weights: FloatArray, starts: FloatArray
) -> Outcomes:
    """Return the outcomes of raked public people (B n,), set by set, whose shares are 1 in each set.

    Parameters
    ----------
    outcomes
        Those of the public people as they are.
    people
        The raked ones.
    geometry, case_weights
        The geometry of the outcomes, and the public people's case weights (n,).
    starts
        Where intervals begin (q,), if follow-up is to be as described; empty where it is that of public people.
    """
    whitened = whitened_people(geometry, people)
    return outcomes.raked(
        whitened,
        weights=(case_weights * whitened.mallows).ravel(),
        share=people.weights.ravel(),
        at_risk=people.at_risk_at(starts) if starts.size and people.times.size else None,
    )


def some_sets(outcomes: Outcomes, sets: slice, *, size: int) -> Outcomes:
    """Return some of the sets of ``size`` raked people each."""
    return outcomes.some(slice(sets.start * size, sets.stop * size), sets)


DRAWS, FEWEST_DRAWS = 200, 40
"""Draws of which the covariance of an expectation is taken; fewer where they hold more than `MOST_NUMBERS`."""

PLACES = 20
"""Where the truth might be: an even number, as places are symmetric about an estimate."""

MOST_NUMBERS = 4_000_000
"""Numbers that the scores of all people, outcomes and draws may have."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RakedSite:
    """A site's people as raked public ones.

    Attributes
    ----------
    outcomes : Outcomes
        The people at the posterior means, with all their outcomes.
    drawn : Outcomes
        Draws of them, set by set.
    sets : int
        How many draws there are.
    total : float or None
        The total of the case weights, which stands for the number of people where these count.
    notes : tuple of str
        What estimates rest on, and what raking could not mend.
    correlated : bool
        Whether correlations were described; else they are those of the public people.
    """

    outcomes: Outcomes
    drawn: Outcomes
    sets: int
    total: float | None
    notes: tuple[str, ...]
    correlated: bool

    def deviations(
        self,
        theta: FloatArray,
        *,
        asked: Sequence[tuple[FloatArray, float]],
        clip: float,
        root: FloatArray | None = None,
    ) -> FloatArray:
        """Return by how much the mean clipped score of one person differs between draws (sets, D), 0 on average.

        With the ``root`` (D, D) of the covariance of what ``theta`` errs by, draws are compared with the people at the
        posterior means where the truth might be, some of the draws at each of `PLACES`.
        """
        if root is None:
            means = drawn_means(self.drawn, theta, asked=asked, clip=clip, sets=self.sets)
            return np.asarray(means - means.mean(axis=0))
        found, size, ours = [], self.drawn.people // self.sets, self.outcomes.coarse()
        edges = np.linspace(0, self.sets, PLACES + 1).astype(np.int64).tolist()
        normal = draws.generator(codec.sha256(["places", len(theta)])).standard_normal((PLACES, len(theta)))
        normal[PLACES // 2 :] = -normal[: PLACES // 2]
        for start, stop, place in zip(edges[:-1], edges[1:], theta + normal @ root.T, strict=True):
            some = some_sets(self.drawn, slice(start, stop), size=size)
            here = drawn_means(some, place, asked=asked, clip=clip, sets=stop - start)
            found.append(here - drawn_means(ours, place, asked=asked, clip=clip, sets=1))
        means = np.concatenate(found)
        return np.asarray(means - means.mean(axis=0))


def raked_site(
    public: PublicSide, outcomes: Outcomes, geometry: Geometry, known: CohortMoments, *, starts: FloatArray
) -> RakedSite | None:
    """Return a site's people; None where the public side cannot be raked, or to no use.

    ``outcomes`` are those of the public people in a ``geometry``; ``starts``: see `raked_outcomes`.
    """
    side = rakeable(public)
    if side is None or side.variables is None or side.undetermined or outcomes.people < side.people:
        return None
    if raked_information(side, known, records=max(round(known.people), 1), records_sd=known.people_sd) is None:
        return None
    posterior = cohort_posterior(raked_variables(side.variables, known, case_weights=side.case_weights))
    raking, n = raking_at(posterior.variables, posterior.mean), side.people
    coarse = outcomes.coarse()
    sets = int(np.clip(MOST_NUMBERS // (outcomes.people * coarse.size * coarse.dimension), FEWEST_DRAWS, DRAWS))
    shared = draws.generator(codec.sha256(["public people", n]))
    base = draws.dirichlet(shared, n, sets, groups=side.invented)
    rng = draws.generator(codec.sha256(["raked sums", known.release_sha256]))
    at, drawn = (
        raked_outcomes(listed, people, geometry, case_weights=side.case_weights, starts=starts)
        for listed, people in (
            (outcomes, raking.raked(posterior.mean, base=np.full((1, n), 1.0 / n))),
            (coarse, raking.raked(posterior.draw(rng, sets, opposite=False), base=base)),
        )
    )
    return RakedSite(
        outcomes=at,
        drawn=drawn,
        sets=sets,
        total=known.people if known.weighted and not outcomes.several else None,
        notes=notes_on(raking, dimension=outcomes.dimension, what="Estimates and standard errors"),
        correlated=bool(raking.variables.pairs.known),
    )

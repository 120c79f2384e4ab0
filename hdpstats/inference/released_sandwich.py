r"""Moments of the private score that were released themselves, combined with what public people tell of them.

Of ``n`` people noisy sums :math:`\sum_i \min\{1, c / \|A_i\|\} A_i` were released at the released coefficients, of
Hessians :math:`A_i = \nabla^2 \ell_i` and of squared scores :math:`A_i = s_i s_i'` (`hdpstats.records.sandwich`). What
cutting took away is added as public rows have it, in proportion: with the averages :math:`W` and :math:`C` of public
people's matrices and of the cut ones, and the release ``R``,

.. math:: R + n \kappa (W - C), \qquad \kappa = \operatorname{tr}(C^{-1} R) / (n D).

So noise of ``R`` enters twice, and where few public people are cut much ``W`` and ``C`` err as well: of an outcome of
3 % most of the squared scores may be cut away.

Public people tell the same matrix, :math:`M_0 = V \Lambda V'`. Both are combined entry by entry along its principal
directions, in units of its eigenvalues: there the entries of the completed ``R`` have errors of known standard
deviations :math:`\sigma_{jk}` (without cutting :math:`\sigma / \sqrt{\lambda_j \lambda_k}` of diagonal entries, others
that over :math:`\sqrt 2`; and by sampling of the public people, as the Bayesian bootstrap has it), and those of
:math:`R - M_0` differ by :math:`\tau` beside, how far private people are from public ones: the one of `APART` of
largest likelihood. What is taken is

.. math:: M_0 + V \{B \circ V'(R - M_0) V\} V', \qquad b_{jk} = \frac{\tau^2}{\tau^2 + \sigma_{jk}^2}.

Draws of what the truth may be take draws of :math:`M_0` (weightings of public rows, and what is not known of a
description), the completion under the same weightings, and noise that is added to ``R`` anew: their spread is that of
the posterior where :math:`M_0` errs by :math:`\tau`. With many people every ``b`` is nearly 1, and neither the
assumption that private people vary as public ones do, nor that the model is true, is left in standard errors.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.information import Information
from hdpstats.public.moments import Moments, PublicSide
from hdpstats.public.sandwich import SandwichSide, sandwich_side
from hdpstats.records.query import PointQuery, PointRelease, unstack
from hdpstats.records.sandwich import SandwichPart

APART: Final = (0.3, 0.45, 0.7, 1.0, 1.5)
"""How far private people's moments may be from public ones, relative to these."""

SMALLEST: Final = 0.1
"""The smallest eigenvalue of combined moments over those that public people tell."""

COUNTED, SHARED = 0.8, 40
"""Where a release counts so much, this many draws of errors share one of moments: public people's hardly matter."""

RATIOS: Final = (0.1, 10.0)
"""Bounds of the proportion in which is added what cutting took away."""


LITTLE: Final = 0.1
"""Where cutting takes away no more than this share, it is not drawn how far public people tell it wrongly."""

BOOTSTRAPS, PEOPLE = 40, 400_000
"""Weightings of public people for the error of what cutting takes away; fewer where people times these are more."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Part:
    """A released matrix (D, D), completed, with the standard deviation of its stacked entries, and how it is combined.

    ``axes`` (D, D) are principal directions of what public people tell, ``gains`` (D, D) what the release counts there.
    ``released`` is the matrix as released, of so many ``records``, ``whole`` and ``cut`` are averages of public people.
    """

    matrix: FloatArray
    released: FloatArray
    whole: FloatArray
    cut: FloatArray
    records: int
    sd: float
    axes: FloatArray
    gains: FloatArray

    @property
    def completed_much(self) -> bool:
        """Whether cutting takes away so much of public people's matrices that it matters how well they tell it."""
        return _taken(self.whole, self.cut) > LITTLE

    @property
    def share(self) -> float:
        """What the release counts along the direction of the median gain."""
        return float(np.median(np.diag(self.gains)))

    def combined(self, told: FloatArray, released: FloatArray) -> FloatArray:
        """Return what is combined of what public people tell and of the release, (D, D) or stacks (B, D, D)."""
        V = self.axes
        return _kept_positive(told + V @ (self.gains * (V.T @ (released - told) @ V)) @ V.T, told)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SandwichInformation(Information):
    """Moments that a site released, combined with those that public people tell of it (``told``).

    They were released at the coefficients ``theta`` (D,), by what was ``asked``; ``side`` are the public people.
    """

    told: Information
    side: SandwichSide
    theta: FloatArray
    asked: SandwichPart
    curvature: _Part
    scores: _Part

    @property
    def source(self) -> object:
        """That of public people; noise is the site's own."""
        return self.told.source

    @property
    def hidden(self) -> bool:
        """Whether public people tell more of curvature or of scores than what was released."""
        return self._share < 0.5

    @property
    def _share(self) -> float:
        """What the release counts, of that part of which it counts less."""
        return min(self.curvature.share, self.scores.share)

    @property
    def canonical(self) -> bool:
        """Whether curvature does not depend on outcomes."""
        return self.told.canonical

    @property
    def along_the_way(self) -> bool:
        """Whether the mean of curvature between two coefficients is taken for how scores change on the way."""
        return self.told.along_the_way

    @property
    def located(self) -> bool:
        """Whether curvature is mostly that of public outcomes near the predictor."""
        return self.told.located and self.curvature.share < 0.5

    @property
    def of_outcomes(self) -> float:
        """The part of public outcomes, as far as public rows count."""
        return (1.0 - self.curvature.share) * self.told.of_outcomes

    @property
    def spread_of_size(self) -> float:
        """That of public moments, as far as they count."""
        return (1.0 - self._share) * self.told.spread_of_size

    def repeated(self, errors: int) -> int:
        """Return how many errors may share a draw."""
        repeated = self.told.repeated(errors)
        return repeated if self._share < COUNTED or errors % SHARED else max(repeated, SHARED)

    @property
    def planned_draws(self) -> int:
        """Over how many draws a plan averages."""
        return self.told.planned_draws

    def at(self, theta: FloatArray) -> Moments:
        """Return the combined moments."""
        known = self.told.at(theta)
        return Moments(
            H=self.curvature.combined(known.H, self.curvature.matrix),
            J=self.scores.combined(known.J, self.scores.matrix),
        )

    def hessian_change(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return what public people tell."""
        return self.told.hessian_change(theta, steps)

    def draw(self, rng: draws.Generator, *, count: int) -> FloatArray:
        """Return draws of the public source."""
        return self.told.draw(rng, count=count)

    def given(self, drawn: FloatArray, *, theta: FloatArray, rng: draws.Generator) -> Moments:
        """Return moments that belong to draws of the public source, with noise drawn anew."""
        known = self.told.given(drawn, theta=theta, rng=rng)
        whole, cut = (
            Moments(H=self.curvature.whole, J=self.scores.whole),
            Moments(H=self.curvature.cut, J=self.scores.cut),
        )
        if self.curvature.completed_much or self.scores.completed_much:
            whole, cut = self.side.cut_moments(self.theta, self.asked, row_weights=drawn)
        H = self._drawn(self.curvature, whole.H, cut.H, rng=rng, count=len(drawn))
        J = self._drawn(self.scores, whole.J, cut.J, rng=rng, count=len(drawn))
        return Moments(H=self.curvature.combined(known.H, H), J=self.scores.combined(known.J, J))

    def _drawn(
        self, part: _Part, whole: FloatArray, cut: FloatArray, *, rng: draws.Generator, count: int
    ) -> FloatArray:
        """Return completed matrices (count, D, D) with noise drawn anew."""
        noise = draws.symmetric(rng, len(self.theta), sd=part.sd, count=count)
        return _completed(part.released + noise, whole, cut, records=part.records)


def with_sandwich(
    told: Information, public: PublicSide, query: PointQuery, release: PointRelease, *, records: int
) -> Information:
    """Return what is known of a site with its released moments; ``told`` where it released none.

    ``public`` are the public people at the query's geometry, and ``records`` the number of private ones.
    """
    part, released, side = query.sandwich, release.sandwich, sandwich_side(public)
    if part is None or released is None or side is None:
        return told
    theta, D, n = np.array(release.theta), query.dimension, max(records, 1)
    known, (whole, cut) = told.at(theta), side.cut_moments(theta, part)
    drawn = whole, cut
    if max(_taken(whole.H, cut.H), _taken(whole.J, cut.J)) > LITTLE:
        count = min(BOOTSTRAPS, max(4, PEOPLE // side.people))
        weightings = draws.dirichlet(
            draws.generator(release.sha256, "cut away"), side.people, count, groups=side.invented
        )
        drawn = side.cut_moments(theta, part, row_weights=weightings)
    H, J = (unstack(np.array(each), D) for each in (released.hessian, released.scores))
    return SandwichInformation(
        told=told,
        side=side,
        theta=theta,
        asked=part,
        curvature=_part(H, whole.H, cut.H, (drawn[0].H, drawn[1].H), known.H, sd=released.hessian_sd, records=n),
        scores=_part(J, whole.J, cut.J, (drawn[0].J, drawn[1].J), known.J, sd=released.scores_sd, records=n),
    )


def _part(
    released: FloatArray,
    whole: FloatArray,
    cut: FloatArray,
    drawn: tuple[FloatArray, FloatArray],
    told: FloatArray,
    *,
    sd: float,
    records: int,
) -> _Part:
    """Return a released matrix completed by what cutting took away of public people, and what it counts.

    ``drawn`` are the averages of public people, whole and cut, under weightings of them.
    """
    matrix = _completed(released, whole, cut, records=records)
    eigenvalues, axes = np.linalg.eigh(told)
    scale = np.sqrt(np.outer(eigenvalues, eigenvalues))
    differences = axes.T @ (matrix - told) @ axes / scale
    others = axes.T @ (_completed(released, *drawn, records=records) - matrix) @ axes / scale
    noise = _noise(axes.T @ (whole - cut) @ axes, axes.T @ _inverse(cut) @ axes, sd=sd) / scale**2
    noise = noise + np.mean(others.reshape(-1, *scale.shape) ** 2, axis=0)
    return _Part(
        matrix=matrix,
        released=released,
        whole=whole,
        cut=cut,
        records=records,
        sd=sd,
        axes=axes,
        gains=_gains(_apart(differences, noise), noise),
    )


def _completed(released: FloatArray, whole: FloatArray, cut: FloatArray, *, records: int) -> FloatArray:
    """Return released matrices (..., D, D) with what cutting took away, as averages of public people have it."""
    ratio = np.sum(_inverse(cut) * released, axis=(-2, -1)) / (records * released.shape[-1])
    return np.asarray(released + records * np.clip(ratio, *RATIOS)[..., None, None] * (whole - cut))


def _inverse(cut: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.pinv(cut, hermitian=True))


def _taken(whole: FloatArray, cut: FloatArray) -> float:
    """Return which share of public people's matrices cutting takes away."""
    return 1.0 - float(np.trace(cut)) / max(float(np.trace(whole)), 1e-300)


def _noise(away: FloatArray, inverse: FloatArray, *, sd: float) -> FloatArray:
    r"""Return the variances (D, D) that noise of a released matrix has in the completed one.

    With noise ``N`` they are those of :math:`N + (W - C) \operatorname{tr}(C^{-1} N) / D`; ``away`` is ``W - C`` and
    ``inverse`` the inverse of ``C``, (D, D). The covariance of an entry of ``N`` with :math:`\operatorname{tr}(A N)` is
    :math:`\sigma^2 A_{jk}`, as noise is round in the Frobenius norm.
    """
    D = len(away)
    along = inverse / D
    own = np.where(np.eye(D, dtype=bool), 1.0, 0.5)
    return np.asarray(sd**2 * (own + 2.0 * away * along + away**2 * np.sum(along**2)))


def _gains(apart: float, noise: FloatArray) -> FloatArray:
    variances = apart**2 * np.where(np.eye(len(noise), dtype=bool), 1.0, 0.5)
    return np.asarray(variances / (variances + noise))


def _apart(differences: FloatArray, noise: FloatArray) -> float:
    """Return the one of `APART` under which differences (D, D) with noise of some variances are most likely."""
    i, j = np.triu_indices(len(noise))

    def likelihood(apart: float) -> float:
        variances = (apart**2 * np.where(i == j, 1.0, 0.5)) + noise[i, j]
        return float(np.sum(-np.log(variances) - differences[i, j] ** 2 / variances))

    return max(APART, key=likelihood)


def _kept_positive(found: FloatArray, told: FloatArray) -> FloatArray:
    """Return matrices with eigenvalues relative to ``told`` of at least `SMALLEST`."""
    root: FloatArray = np.asarray(np.linalg.cholesky(told), dtype=np.float64)
    inner = np.linalg.solve(root, np.swapaxes(np.linalg.solve(root, found), -1, -2))
    eigenvalues, vectors = np.linalg.eigh(0.5 * (inner + np.swapaxes(inner, -1, -2)))
    if bool(np.all(eigenvalues >= SMALLEST)):
        return found
    out = root @ vectors
    return np.asarray((out * np.maximum(eigenvalues, SMALLEST)[..., None, :]) @ np.swapaxes(out, -1, -2))

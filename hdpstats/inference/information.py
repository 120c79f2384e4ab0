r"""What is known about the curvature of private likelihoods, and about the noise of a release.

Curvature is known from public rows, or from released noisy Hessians. That is uncertain, and sites may share the
uncertainty: where all are judged by the same public rows, all of them err alike. So draws are made of *sources*, one
draw for all sites of a source, and each site's moments follow.

**The noise of a release** is read as a perturbation ``b`` of the private score, wherever it entered (`ScoreNoise`): the
released point solves ``s(theta) + Lambda (theta - c) + b = 0``. Noise in the objective is ``b`` itself; noise ``v`` on
the minimiser is, linearised, :math:`b = -(H + \Lambda) v`. Where both are added, as objective perturbation smooths what
it computed, their covariances add up. A draw with density :math:`\propto \exp(-s F)` of an objective ``F`` is its
minimiser with normal noise of covariance :math:`(H + \Lambda)^{-1} / s`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.noise.distributions import NoiseDistribution, NormalDistribution
from hdpstats.public.moments import Moments, PublicSide, mean_of
from hdpstats.records.query import PointRelease, unstack

CLEAR = 3.0
"""Smallest trusted eigenvalue of the noisy Hessian, in standard deviations of the noise along one direction."""


LEAST_SIZE = 0.05
"""The smallest number of people, over the noisy one, that is drawn."""

REPEATED = (1, 2, 5, 10, 20, 40)
"""So many draws of errors may share one draw of curvature."""

WEIGHTED = 200_000
"""Terms of public people's losses that all draws of curvature of one site may have, as far as `REPEATED` allows."""

WIDE, SHARED_WIDE = 24, 100
"""From so many coefficients on a draw of curvature may be shared by so many draws of errors.

A term then takes ten times as long as with eight coefficients: half as many terms are computed as `WEIGHTED` says.
"""


MOST_PLANNED, FEWEST_PLANNED = 100, 12
"""Draws of curvature over which a plan averages; fewer where that is more than `WEIGHTED` terms in all."""


class Information(ABC):
    """Hessian and score covariance of one site's records in whitened coordinates, with their uncertainty."""

    @property
    @abstractmethod
    def source(self) -> object:
        """What the uncertainty comes from: sites with equal sources share their draws."""

    @property
    def canonical(self) -> bool:
        """Whether moments at other coefficients tell how scores change."""
        return False

    @property
    def along_the_way(self) -> bool:
        """Whether the mean of curvature between two coefficients is taken for how scores change on the way."""
        return self.canonical

    @property
    def located(self) -> bool:
        """Whether curvature vanishes far from public outcomes."""
        return False

    @property
    def of_outcomes(self) -> float:
        """The part of curvature that is of public outcomes, of which no model says how private ones are distributed."""
        return 0.0

    @property
    @abstractmethod
    def spread_of_size(self) -> float:
        """The standard deviation of the noise in the number of people over that number; 0 where nothing rests on it."""

    def repeated(self, errors: int) -> int:  # noqa: ARG002
        """Return how many of a number of drawn errors may share one draw of the source; a divisor of it."""
        return 1

    @property
    def planned_draws(self) -> int:
        """Over how many draws a plan averages; 0 where it takes the best guess for the truth."""
        return 0

    @abstractmethod
    def at(self, theta: FloatArray) -> Moments:
        """Return the best guess at coefficients ``theta`` (D,)."""

    def over(self, places: Sequence[FloatArray]) -> Moments:
        """Return the mean of the best guesses at some coefficients (D,)."""
        return mean_of([self.at(place) for place in places])

    def hessian_over(self, places: Sequence[FloatArray]) -> FloatArray:
        """Return the mean (D, D) of the best guesses' Hessians at some coefficients (D,), to the bit that of `over`."""
        return np.asarray(np.mean([self.at(place).H for place in places], axis=0))

    def hessian_change(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return ``sum_k {H(theta + s_k) - H(theta - s_k)} s_k`` (D,) of steps (k, D)."""
        hessians = ((self.hessian_over([theta + step]), self.hessian_over([theta - step])) for step in steps)
        return np.asarray(sum((ahead - back) @ step for (ahead, back), step in zip(hessians, steps, strict=True)))

    @abstractmethod
    def draw(self, rng: draws.Generator, *, count: int) -> FloatArray:
        """Return ``count`` draws of the source."""

    @abstractmethod
    def given(self, drawn: FloatArray, *, theta: FloatArray, rng: draws.Generator) -> Moments:
        """Return the moments (count, D, D) that belong to draws of the source; what is a site's own is drawn here."""


def is_wide(side: PublicSide) -> bool:
    """Return whether a model has so many coefficients that fewer draws of curvature are made."""
    return side.dimension >= WIDE


def draw_jointly(
    rng: draws.Generator, informations: Sequence[Information], *, thetas: Sequence[FloatArray], count: int
) -> list[Moments]:
    """Return draws (count, D, D) of what the truth might be at each site; sites of one source vary together.

    Where moments are in proportion to a noisy number of people, that is drawn too, for each site by itself.
    """
    drawn: dict[object, FloatArray] = {}
    for each in informations:
        if each.source not in drawn:
            drawn[each.source] = each.draw(rng, count=count)
    moments = [
        each.given(drawn[each.source], theta=theta, rng=rng) for each, theta in zip(informations, thetas, strict=True)
    ]
    return [_of_sizes(rng, at, spread=each.spread_of_size) for at, each in zip(moments, informations, strict=True)]


def _of_sizes(rng: draws.Generator, moments: Moments, *, spread: float) -> Moments:
    """Return moments (count, D, D) times what the number of people may be, over what it was taken to be."""
    if spread == 0.0:
        return moments
    size = np.maximum(1.0 + spread * draws.opposite_normals(rng, len(moments.H), 1), LEAST_SIZE)[:, :, None]
    return replace(moments, H=size * moments.H, J=size * moments.J)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OverPublicPeople(Information):
    """Model-based moments over public people, in proportion to a site's number of private people.

    Attributes
    ----------
    public : PublicSide
        The public side at the site's radius and cap.
    records, records_sd : float
        The number of people who count (with case weights their total) and the noise in it.
    """

    public: PublicSide
    records: float
    records_sd: float = 0.0

    @property
    def source(self) -> object:
        """The public people."""
        return "public people", self.public.people

    @property
    def spread_of_size(self) -> float:
        """That of the number of people."""
        return self.records_sd / self.records

    @property
    def canonical(self) -> bool:
        """Whether curvature does not depend on outcomes."""
        return self.public.canonical

    @property
    def along_the_way(self) -> bool:
        """Whether the mean of curvature between two coefficients is taken for how scores change on the way."""
        return self.public.along_the_way

    @property
    def located(self) -> bool:
        """Whether curvature vanishes far from public outcomes."""
        return self.public.located

    @property
    def of_outcomes(self) -> float:
        """All of it or nothing."""
        return float(self.public.of_outcomes)

    def repeated(self, errors: int) -> int:
        """Return the least number with which no more than `WEIGHTED` terms are computed, or the largest there is.

        Where there are many coefficients more may share one, see `WIDE`.
        """
        terms = errors * self.public.people * self.public.cells
        wide = is_wide(self.public)
        most, among = (WEIGHTED // 2, (*REPEATED, SHARED_WIDE)) if wide else (WEIGHTED, REPEATED)
        may: list[int] = [each for each in among if errors % each == 0]
        return next((each for each in may if terms <= each * most), may[-1])

    @property
    def planned_draws(self) -> int:
        """As many as there is time for; none with people invented for a level that public rows lack."""
        if self.public.invented is not None:
            return 0
        return min(MOST_PLANNED, max(FEWEST_PLANNED, WEIGHTED // (self.public.people * self.public.cells)))

    def draw(self, rng: draws.Generator, *, count: int) -> FloatArray:
        """Return random weightings (count, people) of the public rows in opposite pairs."""
        return draws.dirichlet(rng, self.public.people, count, groups=self.public.invented, opposite=True)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicInformation(OverPublicPeople):
    """Model-based moments over public rows; drawn by the Bayesian bootstrap of those rows.

    For fits without a description: right as far as private covariates are distributed as the public ones. The public
    rows are the same for all sites, at each site's own radius and cap.
    """

    def at(self, theta: FloatArray) -> Moments:
        """Return the moments over public rows."""
        return self.public.moments(theta, records=self.records)

    def hessian_over(self, places: Sequence[FloatArray]) -> FloatArray:
        """Return the mean Hessian over public rows."""
        return np.asarray(np.mean([self.public.hessian(place, records=self.records) for place in places], axis=0))

    def given(self, drawn: FloatArray, *, theta: FloatArray, rng: draws.Generator) -> Moments:  # noqa: ARG002
        """Return the moments under weightings of the public rows."""
        return self.public.moments(theta, records=self.records, row_weights=drawn)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NoisyHessian:
    """A Hessian ``H + N`` (D, D) that was released; ``noise_sd`` is that of each of its stacked entries."""

    H: FloatArray
    noise_sd: float

    @property
    def is_clear(self) -> bool:
        """Whether it stands clear of its noise."""
        return is_clear(self.H, noise_sd=self.noise_sd)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReleasedInformation(Information):
    """A share of a released Hessian, whatever the coefficients; drawn by adding noise of the same distribution again.

    ``J <= meat H``, and ``J = meat H`` is conservative. For a likelihood's loss ``meat`` is the largest case weight,
    as Mallows weights are at most 1. The share is 1 for a site's own Hessian.
    """

    hessian: NoisyHessian
    meat: float
    share: float = 1.0
    relative_sd: float = 0.0

    @property
    def source(self) -> object:
        """The Hessian."""
        return self.hessian

    @property
    def spread_of_size(self) -> float:
        """That of the share; a site's own Hessian says by itself how many people there are."""
        return self.relative_sd

    def at(self, theta: FloatArray) -> Moments:  # noqa: ARG002
        """Return the released Hessian's share."""
        return self._moments(self.hessian.H)

    def draw(self, rng: draws.Generator, *, count: int) -> FloatArray:
        """Return Hessians with fresh noise, eigenvalues kept above a tenth of the smallest released one."""
        H = self.hessian.H
        noise = draws.symmetric(rng, len(H), sd=self.hessian.noise_sd, count=count)
        eigenvalues, vectors = np.linalg.eigh(H + noise)
        kept = np.maximum(eigenvalues, 0.1 * float(np.linalg.eigvalsh(H)[0]))
        return np.asarray(np.einsum("bij,bj,bkj->bik", vectors, kept, vectors))

    def given(self, drawn: FloatArray, *, theta: FloatArray, rng: draws.Generator) -> Moments:  # noqa: ARG002
        """Return the share of each drawn Hessian."""
        return self._moments(drawn)

    def _moments(self, whole: FloatArray) -> Moments:
        H = self.share * whole
        return Moments(H=H, J=self.meat * H)


def is_clear(H: FloatArray, *, noise_sd: float) -> bool:
    """Return whether a Hessian's smallest eigenvalue stands clear of noise of ``noise_sd`` along each direction."""
    return float(np.linalg.eigvalsh(H)[0]) > CLEAR * noise_sd


TRIED = 64
"""Draws of noise by which the chance is judged that a Hessian stands clear of it."""


def chance_of_clear(H: FloatArray, *, noise_sd: float, spreads: Sequence[float]) -> float:
    """Return how likely a Hessian with noise is to stand clear of it (`is_clear`), averaged over ``spreads``.

    Parameters
    ----------
    H
        The Hessian that is expected (D, D), without noise.
    noise_sd
        The standard deviation of the noise along each direction.
    spreads
        Factors that the Hessian in truth may have.

    The draws of noise are the same ones every time. They are not needed below 3 standard deviations, where the chance
    is taken for 0, nor far above the largest eigenvalue of the noise, about ``sqrt(2 D)``.
    """
    ratio, far = H / noise_sd, CLEAR + 3.0 + float(np.sqrt(2.0 * len(H)))
    smallest = float(np.linalg.eigvalsh(ratio)[0])
    between = [spread for spread in spreads if CLEAR < spread * smallest < far]
    chances = [1.0 for spread in spreads if spread * smallest >= far]
    if between:
        noise = draws.symmetric(draws.nodes(), len(H), sd=1.0, count=TRIED)
        chances += [float(np.mean(np.linalg.eigvalsh(each * ratio + noise)[:, 0] > CLEAR)) for each in between]
    return sum(chances) / len(spreads)


def released_hessian(release: PointRelease) -> NoisyHessian | None:
    """Return the Hessian of a release, or None where it has none."""
    if release.hessian is None:
        return None
    H = unstack(np.array(release.hessian), len(release.theta))
    return NoisyHessian(H=H, noise_sd=release.hessian_noise_sd)


def added(hessians: Sequence[NoisyHessian]) -> NoisyHessian:
    """Return the Hessian of several sites' records together: noises of all of them add up."""
    return NoisyHessian(
        H=np.sum([each.H for each in hessians], axis=0),
        noise_sd=float(np.sqrt(sum(each.noise_sd**2 for each in hessians))),
    )


class ScoreNoise(ABC):
    """The distribution of ``b`` (D,), given the Hessian ``H`` of the private losses."""

    @abstractmethod
    def covariance(self, H: FloatArray) -> FloatArray:
        """Return the covariance of ``b`` (D, D); for a stack of Hessians (B, D, D) one each, or one for all."""

    @abstractmethod
    def standard(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return what draws of ``b`` are made of whatever ``H`` is, (count, k), of mean 0 and covariance one."""

    @abstractmethod
    def of(self, standard: FloatArray, H: FloatArray) -> FloatArray:
        """Return draws of ``b`` (N, D) from `standard` ones (N, k), for Hessians (B, D, D) N / B in turn."""

    def draw(self, rng: draws.Generator, H: FloatArray, *, each: int = 1) -> FloatArray:
        """Return ``each`` draws of ``b`` in turn for a stack of Hessians (B, D, D), shape (B each, D)."""
        return self.of(self.standard(rng, each * len(H)), H)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class InObjective(ScoreNoise):
    """Noise of a distribution that entered the objective."""

    distribution: NoiseDistribution | NormalDistribution

    def covariance(self, H: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the distribution's covariance."""
        return np.diag(self.distribution.variance)

    def standard(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return draws of the distribution in standard deviations."""
        return _standard(rng, self.distribution, count)

    def of(self, standard: FloatArray, H: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return draws of the distribution."""
        return standard * np.sqrt(self.distribution.variance)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OnMinimiser(ScoreNoise):
    """Noise of a distribution that was added to the minimiser under a ridge."""

    distribution: NoiseDistribution | NormalDistribution
    ridge: float

    def covariance(self, H: FloatArray) -> FloatArray:
        """Return ``(H + Lambda) V (H + Lambda)``."""
        penalised = H + self.ridge * np.eye(H.shape[-1])
        return np.asarray(penalised @ np.diag(self.distribution.variance) @ penalised)

    def standard(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return draws of the distribution in standard deviations."""
        return _standard(rng, self.distribution, count)

    def of(self, standard: FloatArray, H: FloatArray) -> FloatArray:
        """Return ``-(H + Lambda) v``."""
        noise = standard * np.sqrt(self.distribution.variance)
        return np.asarray(-draws.through(H, noise) - self.ridge * noise)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Smoothed(ScoreNoise):
    """Noise in the objective, and on the minimiser further noise that does not depend on it.

    Draws of the further noise come from a generator of their own: those of everything else stay as they are without it.
    """

    inside: InObjective
    after: OnMinimiser

    def covariance(self, H: FloatArray) -> FloatArray:
        """Return the sum of both covariances."""
        return self.inside.covariance(H) + self.after.covariance(H)

    def standard(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return independent draws of both, side by side."""
        (own,) = rng.spawn(1)
        return np.hstack([self.inside.standard(rng, count), self.after.standard(own, count)])

    def of(self, standard: FloatArray, H: FloatArray) -> FloatArray:
        """Return the sum of both."""
        inside, after = np.hsplit(standard, 2)
        return self.inside.of(inside, H) + self.after.of(after, H)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Tempered(ScoreNoise):
    """A draw at a temperature ``s`` in place of the minimiser under a ridge."""

    temperature: float
    ridge: float
    dimension: int

    def covariance(self, H: FloatArray) -> FloatArray:
        """Return ``(H + Lambda) / s``."""
        return np.asarray((H + self.ridge * np.eye(H.shape[-1])) / self.temperature)

    def standard(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return standard normal draws."""
        return rng.standard_normal((count, self.dimension))

    def of(self, standard: FloatArray, H: FloatArray) -> FloatArray:
        """Return normal draws."""
        return draws.normals((H + self.ridge * np.eye(self.dimension)) / self.temperature, standard)


def _standard(rng: draws.Generator, distribution: NoiseDistribution | NormalDistribution, count: int) -> FloatArray:
    """Return draws (count, D) of a distribution in standard deviations of each coordinate."""
    return draws.perturbation(rng, distribution, count=count) / np.sqrt(distribution.variance)

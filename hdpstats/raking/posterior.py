r"""Curvature from public rows that are raked to what was released about the private people.

**Posterior of the averages.** In public units an average of the private people is taken to be
:math:`t_j \sim N(p_j, \tau^2 + v_j / n_{pub})`, ``p_j`` that of the ``n_pub`` public rows and ``v_j`` its variance over
them, with one :math:`\tau` for shares and means and one for squares, half-Cauchy of scale `SCALE`. Given what was
released, :math:`T_j \sim N(t_j, \sigma_j^2)`, the posterior of :math:`\tau` is computed on a grid, and ``t_j`` given
:math:`\tau` is normal about :math:`p_j + g_j (T_j - p_j)` with the variance :math:`g_j \sigma_j^2`,
:math:`g_j = (\tau^2 + v_j / n_{pub}) / (\tau^2 + v_j / n_{pub} + \sigma_j^2)`. Far above the noise this is the released
number; below it is drawn towards the public one and keeps the uncertainty that the noise leaves. Shares at risk have no
such prior.

**Information.** ``H`` and ``J`` are sums over public rows that are raked to the averages (`hdpstats.raking.variables`), in
the unchanged geometry. The best guess is their mean over `AVERAGED` draws of the averages, at equal weights of the
public rows (not their value at the mean of the averages: where these are noisy a variance near its floor would make
:math:`H^{-1}` explode). Draws take weights of the public rows from the Bayesian bootstrap, which sites share, and
averages from the posterior, each site's own: noise, sampling of public rows and what is left of the difference between
private and public people all count. Proof that all of this is post-processing: averages are released, rows are public.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.inference.information import OverPublicPeople
from hdpstats.public.moments import Moments, PublicSide, RakeableSide, rakeable
from hdpstats.public.people import WhitenedPeople
from hdpstats.raking.variables import (
    LEAST_SHARE,
    Averages,
    RakedVariables,
    Raking,
    raked_variables,
    raking_at,
)
from hdpstats.records import codec
from hdpstats.records.averages import CohortMoment, CohortMoments

SCALE = 0.5
"""Of the prior of ``tau``: by how much, in public standard deviations, private averages differ from public ones."""

TAUS = np.concatenate([[1e-3], np.geomspace(0.01, 3.0, 40)])
"""The values that ``tau`` may have."""

AVERAGED, FEWEST = 60, 12
"""Draws of the averages over which curvature is averaged; fewer where that is more than `WORK`."""

WORK = 250_000
"""Terms of people's losses that such draws may have in all."""

AT_A_TIME = 32_768
"""Raked people who are computed at a time."""


RAKED = (
    "{what} take public rows as re-weighted and re-scaled to the described shares, means and spreads of the "
    "private covariates, with the correlations that they have in public rows."
)
RESIDUALS = "Residuals are taken to be as large as those of public rows."
CONSTANT = "All public rows agree in {names}: the private people could not be represented in that."
RARE = "The private share of {names} is below 1 % or above 99 %: standard errors take it as 1 % or 99 %."
FAR = "Private values of {names} lie mostly beyond the range that was described: standard errors may be off."
FEW = "Few public people resemble the private ones (effectively {size:.0f}): standard errors may be off."

UNUSABLE = (
    "The description of the private people could not be used for this model: of some terms, public rows that are "
    "re-scaled to it say next to nothing."
)

FARTHEST_RATIO = 100.0
"""By how much more than in the median direction a variance over raked rows may exceed that over public ones.

A treatment that half of the public people and 1 % of the private ones have is at 25 (``vignettes/decisions`` 0057).
"""

FARTHEST = 0.6
"""A mean square above this share of its bound says that most numbers were cut."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shrunk:
    """The posterior of some averages that share one ``tau``.

    ``released``, ``public``, ``noise`` (k,): the averages as released, those of public rows, the variances of the
    noise; ``spread`` (G, k): the prior variances at each of `TAUS`; ``chances`` (G,): the posterior of ``tau``.
    """

    released: FloatArray
    public: FloatArray
    noise: FloatArray
    spread: FloatArray
    chances: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The posterior means (k,)."""
        gain = self.chances @ (self.spread / (self.spread + self.noise))
        return np.asarray(self.public + gain * (self.released - self.public))

    def draw(self, rng: draws.Generator, count: int) -> FloatArray:
        """Return draws (count, k)."""
        spread = self.spread[rng.choice(len(TAUS), size=count, p=self.chances)]
        gain = spread / (spread + self.noise)
        centre = self.public + gain * (self.released - self.public)
        return np.asarray(centre + np.sqrt(gain * self.noise) * rng.standard_normal(gain.shape))


def shrunk(released: FloatArray, *, public: FloatArray, noise: FloatArray, sampling: FloatArray) -> Shrunk:
    """Return the posterior of averages (k,) with noise and sampling of the public ones of these variances (k,)."""
    spread = TAUS[:, None] ** 2 + sampling
    total = spread + noise
    likelihood = -0.5 * np.sum(np.log(total) + (released - public) ** 2 / total, axis=1)
    logs = likelihood - np.log1p((TAUS / SCALE) ** 2) + np.log(np.gradient(TAUS))
    chances = np.exp(logs - logs.max())
    return Shrunk(released=released, public=public, noise=noise, spread=spread, chances=chances / chances.sum())


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CohortPosterior:
    """What is known of the averages of a site's private people.

    ``first`` is of shares and means, ``second`` of the squares that are known; both in public units.
    """

    variables: RakedVariables
    first: Shrunk
    second: Shrunk

    @property
    def mean(self) -> Averages:
        """The posterior means, 1 of each."""
        return self._averages(self.first.mean[None], self.second.mean[None], self._at_risk)

    def draw(self, rng: draws.Generator, count: int) -> Averages:
        """Return draws of the averages."""
        first, second = self.first.draw(rng, count), self.second.draw(rng, count)
        noise = np.array([each.noise_sd for each in self.variables.at_risk])
        return self._averages(first, second, self._at_risk + noise * rng.standard_normal((count, len(noise))))

    @property
    def _at_risk(self) -> FloatArray:
        return np.array([each.value for each in self.variables.at_risk])[None]

    def _averages(self, first: FloatArray, second: FloatArray, at_risk: FloatArray) -> Averages:
        """Return averages from those of the two groups; numbers without a square keep their public variance."""
        on, kb = self.variables, len(self.variables.shares)
        means = first[:, kb:]
        squares = on.base @ on.cut**2 - (on.base @ on.cut) ** 2 + (means - on.about) ** 2
        squares[:, on.squared] = second
        return Averages(shares=first[:, :kb] * on.level_scale, means=means, squares=squares, at_risk=at_risk)


def cohort_posterior(variables: RakedVariables) -> CohortPosterior:
    """Return what is known of the averages of the people whom variables were described of."""
    on = variables
    levels, squares = on.indicators / on.level_scale, ((on.cut - on.about) ** 2)[:, on.squared]
    square = [each for each in on.squares if each is not None]
    scale = on.scale[on.squared]
    return CohortPosterior(
        variables=on,
        first=_shrunk(
            on,
            np.column_stack([levels, on.cut]),
            np.concatenate([_values(on.shares) / on.level_scale, (_values(on.means) - on.centre) / on.scale]),
            np.concatenate([_noise(on.shares) / on.level_scale, _noise(on.means) / on.scale]),
        ),
        second=_shrunk(on, squares, _values(square) / scale**2, _noise(square) / scale**2),
    )


def redrawn(known: CohortMoments, *, count: int) -> list[CohortMoments]:
    """Return what the averages may be, as released with noise of the same size again."""
    rng = draws.generator(codec.sha256(["redrawn", known.release_sha256]))
    noise = np.array([each.noise_sd for each in known.moments])
    return [
        replace(
            known,
            moments=tuple(
                replace(each, value=each.value + float(shift))
                for each, shift in zip(known.moments, noise * rng.standard_normal(len(noise)), strict=True)
            ),
        )
        for _ in range(count)
    ]


def notes_on(raking: Raking, *, dimension: int, what: str = "Standard errors") -> tuple[str, ...]:
    """Return in words what rests on raked rows, and what raking could not mend."""
    on, at = raking.variables, raking.averages
    rare = [
        each.variable
        for each, share in zip(on.shares, at.shares[0], strict=True)
        if not LEAST_SHARE <= share <= 1.0 - LEAST_SHARE
    ]
    bound = np.max((on.clipped - on.about) ** 2, axis=0)
    cut = (on.squared & (at.squares[0] > FARTHEST * bound)).tolist()
    far = [each.variable for each, is_far in zip(on.means, cut, strict=True) if is_far]
    w = on.weights(on.base[None], raking.tilt[None])[0]
    size = 1.0 / float(np.sum(w**2))
    return (
        RAKED.format(what=what),
        *_named(CONSTANT, on.constant),
        *_named(RARE, rare),
        *_named(FAR, far),
        *((FEW.format(size=size),) if size < 2 * dimension else ()),
    )


def _named(sentence: str, names: Sequence[str]) -> tuple[str, ...]:
    return (sentence.format(names=", ".join(dict.fromkeys(names))),) if names else ()


def _values(moments: Sequence[CohortMoment]) -> FloatArray:
    return np.array([each.value for each in moments])


def _noise(moments: Sequence[CohortMoment]) -> FloatArray:
    return np.array([each.noise_sd for each in moments])


def _shrunk(on: RakedVariables, features: FloatArray, released: FloatArray, noise_sd: FloatArray) -> Shrunk:
    """Return the posterior of averages of features (n, k) of which so much was released (k,)."""
    public = on.base @ features
    sampling = on.base @ (features - public) ** 2 * float(np.sum(on.base**2))
    return shrunk(released, public=public, noise=noise_sd**2, sampling=sampling)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RakedInformation(OverPublicPeople):
    """Moments over public rows that are raked to what was released about a site's private people.

    Attributes
    ----------
    public : RakeableSide
        The public side.
    posterior : CohortPosterior
        What is known of their averages.
    raking : Raking
        How rows are raked.
    averaged : tuple of WhitenedPeople
        The draws over which curvature is averaged.
    at_centre : Moments
        The moments at the public centre.
    """

    public: RakeableSide
    posterior: CohortPosterior
    raking: Raking
    averaged: tuple[WhitenedPeople, ...]
    at_centre: Moments

    @property
    def notes(self) -> tuple[str, ...]:
        """What standard errors rest on, and what raking could not mend."""
        own = (RESIDUALS,) if self.public.by_residuals else ()
        return (*notes_on(self.raking, dimension=self.public.dimension), *own)

    def at(self, theta: FloatArray) -> Moments:
        """Return the moments averaged over what is known of the averages."""
        if np.array_equal(theta, self.public.centre):
            return self.at_centre
        return _mean_moments(self.public, theta, self.averaged, records=self.records)

    def hessian_change(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return the same of the moments averaged over what is known of the averages."""
        changes = [self.public.raked_hessian_change(theta, steps, people=each) for each in self.averaged]
        return np.asarray(self.records * np.concatenate(changes).mean(axis=0))

    def given(self, drawn: FloatArray, *, theta: FloatArray, rng: draws.Generator) -> Moments:
        """Return moments under weightings of the public rows and draws of the averages."""
        averages = self.posterior.draw(rng, len(drawn))
        people = _whitened_in_parts(self.public, self.raking, averages, base=drawn)
        return _moments(self.public, theta, people, records=self.records)


def _moments(side: RakeableSide, theta: FloatArray, people: Iterable[WhitenedPeople], *, records: float) -> Moments:
    """Return the moments of all draws (B, D, D)."""
    found = [side.raked_moments(theta, records=records, people=each) for each in people]
    return Moments(H=np.concatenate([each.H for each in found]), J=np.concatenate([each.J for each in found]))


def _mean_moments(
    side: RakeableSide, theta: FloatArray, people: Iterable[WhitenedPeople], *, records: float
) -> Moments:
    """Return the moments averaged over all draws (D, D)."""
    found = _moments(side, theta, people, records=records)
    return Moments(H=found.H.mean(axis=0), J=found.J.mean(axis=0))


def _whitened_in_parts(
    side: RakeableSide, raking: Raking, averages: Averages, *, base: FloatArray
) -> Iterator[WhitenedPeople]:
    """Yield people of averages (B of each) with base weights (B, n), some draws at a time."""
    step = max(1, AT_A_TIME // side.people)
    for part in (slice(start, start + step) for start in range(0, len(base), step)):
        yield side.whitened(raking.raked(averages.take(part), base=base[part]))


def raked_information(
    public: PublicSide, known: CohortMoments, *, records: int, records_sd: float
) -> RakedInformation | None:
    """Return what is known of a site's curvature; None where its public side cannot be raked, or to no use."""
    side = rakeable(public)
    if side is None or side.variables is None:
        return None
    variables = raked_variables(side.variables, known, case_weights=side.case_weights)
    posterior = cohort_posterior(variables)
    raking = raking_at(variables, posterior.mean)
    rng = draws.generator(codec.sha256(["raked", known.release_sha256]))
    count = min(AVERAGED, max(FEWEST, WORK // (side.people * side.cells)))
    base = np.full((count, side.people), 1.0 / side.people)
    averaged = tuple(_whitened_in_parts(side, raking, posterior.draw(rng, count), base=base))
    people = known.people if known.weighted else float(records)
    found = RakedInformation(
        public=side,
        records=people,
        records_sd=known.people_sd if known.weighted else records_sd,
        posterior=posterior,
        raking=raking,
        averaged=averaged,
        at_centre=_mean_moments(side, side.centre, averaged, records=people),
    )
    return found if is_usable(found) else None


def is_usable(raked: RakedInformation) -> bool:
    """Return whether raked rows tell of all slopes, compared with public rows as they are.

    Along the principal directions of :math:`H^{-1}` over raked rows relative to that over public ones, both of slopes
    alone and at the public centre, no ratio is above `FARTHEST_RATIO` times their median, or 1 where that is less.
    Where re-scaled rows leave the support of some columns of the design, as those of splines, hardly anything is known
    along these, and their errors would reach all coefficients. The median takes out how long people are followed. It
    rests on public rows and on what was released.
    """
    public, kept = raked.public, np.ix_(raked.public.covariates, raked.public.covariates)
    try:
        over_public = np.linalg.inv(public.moments(public.centre, records=max(round(raked.records), 1)).H)[kept]
        root = np.linalg.inv(np.linalg.cholesky(over_public))
        ratios = np.linalg.eigvalsh(root @ np.linalg.inv(raked.at_centre.H)[kept] @ root.T)
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(ratios <= FARTHEST_RATIO * max(1.0, *ratios[: (len(ratios) + 1) // 2])))

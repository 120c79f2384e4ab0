r"""What is known of the averages of private people of whom a noisy description was released.

**Posterior of the averages.** In public units an average of the private people is taken to be
:math:`t_j \sim N(p_j, \tau^2 + v_j / n_{pub})`, ``p_j`` that of the ``n_pub`` public rows and ``v_j`` its variance over
them, with one :math:`\tau` for shares and means and one for squares, half-Cauchy of scale `SCALE`. Given what was
released, :math:`T_j \sim N(t_j, \sigma_j^2)`, the posterior of :math:`\tau` is computed on a grid, and ``t_j`` given
:math:`\tau` is normal about :math:`p_j + g_j (T_j - p_j)` with the variance :math:`g_j \sigma_j^2`,
:math:`g_j = (\tau^2 + v_j / n_{pub}) / (\tau^2 + v_j / n_{pub} + \sigma_j^2)`. Far above the noise this is the released
number; below it is drawn towards the public one and keeps the uncertainty that the noise leaves. Shares at risk have no
such prior.

Averages of products have a :math:`\tau` each: where one pair of many correlates otherwise than in public rows it is
believed, and the others are left near these. All are half-Cauchy of one scale, that of `SCALES_OF_PAIRS` of largest
likelihood. With `FEWEST_SHIFTED` pairs or more the prior means are shifted by the median of the differences between
released and public averages: where all covariates correlate more than in public rows, each noisy average is drawn
towards what the others say.

Proof that all of this is post-processing: averages are released, rows are public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.inference import draws
from hdpstats.raking.raking import LEAST_SHARE, Averages, RakedVariables, Raking
from hdpstats.records import codec
from hdpstats.records.averages import CohortMoment, CohortMoments

SCALE = 0.5
"""Of the prior of ``tau``: by how much, in public standard deviations, private averages differ from public ones."""

SCALES_OF_PAIRS = (0.02, 0.05, 0.1, 0.2, 0.4)
"""The scales that averages of products may have."""

FEWEST_SHIFTED = 6
"""So many pairs tell by how much averages of products differ in general."""

TAUS = np.concatenate([[1e-3], np.geomspace(0.01, 3.0, 40)])
"""The values that ``tau`` may have."""


RAKED = (
    "{what} take public rows as re-weighted and re-scaled to the described shares, means and spreads of the "
    "private covariates, with the correlations that they have in public rows."
)
RAKED_PEOPLE = (
    "{what} take public people as re-weighted and re-scaled to the described shares, means and spreads of the rows of "
    "private people and to how many of these have how many rows, with the correlations, also within a person, that "
    "they have in public rows."
)
CONSTANT = "All public rows agree in {names}: the private people could not be represented in that."
RARE = "The private share of {names} is below 1 % or above 99 %: standard errors take it as 1 % or 99 %."
CORRELATED = (
    "{what} take public rows as re-weighted, re-scaled and mixed to the described shares, means, spreads and "
    "correlations of the private covariates."
)
FAR = "Private values of {names} lie mostly beyond the range that was described: standard errors may be off."
FEW = "Few public people resemble the private ones (effectively {size:.0f}): standard errors may be off."

UNLIKE = (
    "Private people lie more than a standard deviation from public ones in {names}. Public coefficients may then not "
    "hold for private people: compare the private-only estimates."
)

UNLIKE_FROM = 1.0
"""From so many public standard deviations between two means on people are said to be unlike public ones.

It was 1.1 where pooled intervals of a linear fit to real outcomes covered a slope in .86 (flchain).
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

    def draw(self, rng: draws.Generator, count: int, *, opposite: bool = False) -> FloatArray:
        """Return draws (count, k); with ``opposite`` in opposite pairs, of ``tau`` as well."""
        if opposite:
            place = np.searchsorted(np.cumsum(self.chances), draws.opposite_uniforms(rng, count))
            spread = self.spread[np.minimum(place, len(TAUS) - 1)]
        else:
            spread = self.spread[rng.choice(len(TAUS), size=count, p=self.chances)]
        gain = spread / (spread + self.noise)
        centre = self.public + gain * (self.released - self.public)
        return np.asarray(centre + np.sqrt(gain * self.noise) * _normals(rng, *gain.shape, opposite=opposite))


def shrunk(
    released: FloatArray, *, public: FloatArray, noise: FloatArray, sampling: FloatArray, scale: float = SCALE
) -> Shrunk:
    """Return the posterior of averages (k,) with noise and sampling of the public ones of these variances (k,).

    ``scale`` is that of the prior of their common ``tau``.
    """
    spread = TAUS[:, None] ** 2 + sampling
    total = spread + noise
    likelihood = -0.5 * np.sum(np.log(total) + (released - public) ** 2 / total, axis=1)
    logs = likelihood - np.log1p((TAUS / scale) ** 2) + np.log(np.gradient(TAUS))
    chances = np.exp(logs - logs.max())
    return Shrunk(released=released, public=public, noise=noise, spread=spread, chances=chances / chances.sum())


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CohortPosterior:
    """What is known of the averages of a site's private people.

    ``first`` is of shares and means, ``second`` of the squares that are known; both in public units. ``products`` are
    of one product each.
    """

    variables: RakedVariables
    first: Shrunk
    second: Shrunk
    products: tuple[Shrunk, ...]

    @property
    def mean(self) -> Averages:
        """The posterior means, 1 of each."""
        products = np.concatenate([np.zeros(0), *(each.mean for each in self.products)])
        return self._averages(self.first.mean[None], self.second.mean[None], self._at_risk, products[None])

    def draw(self, rng: draws.Generator, count: int, *, opposite: bool = False) -> Averages:
        """Return draws of the averages; with ``opposite`` in opposite pairs.

        Later rounds of clipped Newton steps are asked by what independent draws say: those stay as they are.
        """
        first, second = (each.draw(rng, count, opposite=opposite) for each in (self.first, self.second))
        noise = np.array([each.noise_sd for each in self.variables.at_risk])
        at_risk = self._at_risk + noise * _normals(rng, count, len(noise), opposite=opposite)
        products = np.concatenate(
            [np.zeros((count, 0)), *(each.draw(rng, count, opposite=opposite) for each in self.products)], axis=1
        )
        return self._averages(first, second, at_risk, products)

    @property
    def _at_risk(self) -> FloatArray:
        return np.array([each.value for each in self.variables.at_risk])[None]

    def _averages(self, first: FloatArray, second: FloatArray, at_risk: FloatArray, products: FloatArray) -> Averages:
        """Return averages from those of the two groups; numbers without a square keep their public variance."""
        on, kb = self.variables, len(self.variables.shares)
        means = first[:, kb:]
        squares = on.base @ on.cut**2 - (on.base @ on.cut) ** 2 + (means - on.about) ** 2
        squares[:, on.squared] = second
        shares = first[:, :kb] * on.level_scale
        return Averages(shares=shares, means=means, squares=squares, at_risk=at_risk, products=products)


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
        products=_shrunk_products(on),
    )


def _shrunk_products(on: RakedVariables) -> tuple[Shrunk, ...]:
    """Return the posterior of each average of a product."""
    products = on.pairs.of(np.column_stack([on.indicators, on.numbers]).T)
    released = np.array([each.value for each in on.pairs.known])
    noise = np.array([each.noise_sd for each in on.pairs.known]) ** 2
    public = products @ on.base
    sampling = (products - public[:, None]) ** 2 @ on.base * float(np.sum(on.base**2))
    if len(released) >= FEWEST_SHIFTED:
        public = public + np.median(released - public)
    scale = max(
        SCALES_OF_PAIRS,
        key=lambda each: _likelihood(released - public, noise=noise, sampling=sampling, scale=each),
    )
    parts = zip(released[:, None], public[:, None], noise[:, None], sampling[:, None], strict=True)
    return tuple(shrunk(value, public=at, noise=own, sampling=drawn, scale=scale) for value, at, own, drawn in parts)


def _likelihood(differences: FloatArray, *, noise: FloatArray, sampling: FloatArray, scale: float) -> float:
    """Return the logarithm of the likelihood of differences (k,) of which each has a ``tau`` of its own."""
    chances = np.gradient(TAUS) / (1.0 + (TAUS / scale) ** 2)
    total = TAUS[:, None] ** 2 + sampling + noise
    each = (chances / chances.sum()) @ (np.exp(-0.5 * differences**2 / total) / np.sqrt(total))
    return float(np.sum(np.log(np.maximum(each, 1e-300))))


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


def _assumed(on: RakedVariables) -> str:
    """Return what is said of raked rows, with ``{what}`` in it."""
    if on.public.person is not None:
        return RAKED_PEOPLE
    return CORRELATED if on.pairs.known else RAKED


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
    apart = distances(on, at) > UNLIKE_FROM
    unlike = [each.variable for each, is_so in zip([*on.shares, *on.means], apart.tolist(), strict=True) if is_so]
    w = on.public.added(on.weights(on.base[None], raking.tilt[None])[0][:, None])
    size = 1.0 / float(np.sum(w**2))
    return (
        _assumed(on).format(what=what),
        *_named(CONSTANT, on.constant),
        *_named(RARE, rare),
        *_named(FAR, far),
        *_named(UNLIKE, unlike),
        *((FEW.format(size=size),) if size < 2 * dimension else ()),
    )


def distances(on: RakedVariables, at: Averages) -> FloatArray:
    """Return how far shares and means (kb + kc,) of averages, 1 of each, are from public ones, in public units.

    These are standard deviations, of a share those of the level's indicator.
    """
    shares = (at.shares[0] - on.base @ on.indicators) / on.level_scale
    return np.asarray(np.abs(np.concatenate([shares, at.means[0]])))


def _named(sentence: str, names: Sequence[str]) -> tuple[str, ...]:
    return (sentence.format(names=", ".join(dict.fromkeys(names))),) if names else ()


def _normals(rng: draws.Generator, count: int, columns: int, *, opposite: bool) -> FloatArray:
    """Return standard normal draws (count, columns), with ``opposite`` in opposite pairs."""
    return draws.opposite_normals(rng, count, columns) if opposite else rng.standard_normal((count, columns))


def _values(moments: Sequence[CohortMoment]) -> FloatArray:
    return np.array([each.value for each in moments])


def _noise(moments: Sequence[CohortMoment]) -> FloatArray:
    return np.array([each.noise_sd for each in moments])


def _shrunk(on: RakedVariables, features: FloatArray, released: FloatArray, noise_sd: FloatArray) -> Shrunk:
    """Return the posterior of averages of features (n, k) of which so much was released (k,)."""
    public = on.base @ features
    if on.public.person is None:
        sampling = on.base @ (features - public) ** 2 * float(np.sum(on.base**2))
    else:
        sampling = np.sum(on.public.added(on.base[:, None] * (features - public)) ** 2, axis=0)
    return shrunk(released, public=public, noise=noise_sd**2, sampling=sampling)

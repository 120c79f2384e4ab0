r"""Standard errors of released points: a noise-convolved sandwich by Monte Carlo, for one site or several.

A site's released point solves ``s(theta) + Lambda (theta - c) + b = 0`` with ``s`` the private score. Linearised,

.. math:: \hat\theta - \theta_0 = -(H + \Lambda)^{-1}\{S + b + \Lambda(\theta_0 - c)\}, \qquad S \sim N(0, J).

The ridge is taken out (it is known): :math:`u = \hat\theta + \hat H^{-1}\Lambda(\hat\theta - c)` is the *private-only*
estimate, with error about :math:`-H^{-1}(S + b)`; ``H`` is a mean of the curvature on the way that the ridge pulled
(`hdpstats.inference.combination`). Those of several sites are combined by inverse variances
(`hdpstats.inference.combination`). Where there is a public fit ``u`` is pooled with it (`hdpstats.inference.pooling`),
so that public coefficients which differ from the private ones lose their say.
Unshrinking errs where ``H`` does, in proportion to what the ridge pulled: that distance is drawn given all sources.

The distribution of the errors is drawn, not assumed normal: ``b`` from the exact distribution of the mechanism, ``S``
normal, ``H`` and ``J`` from what is known of them (`hdpstats.models.estimates`; they are estimates too). Several
sites' errors are drawn jointly. Scores and noises are each site's own and average out. The weighting of the public rows
that all curvatures rest on and the pull :math:`\theta_0 - c` are the same at all sites; so what unshrinking misses is
missed everywhere alike, and would not average out over a thousand sites. So is what weights of people may do to an
estimate (`hdpstats.public.row_weights`): a normal error that is added to the average, counts where it is pooled with
the public fit, and is a part of the covariance due to privacy, as without privacy nobody would be weighted. Where
private people are unlike public ones it has a cause in common with what separates their coefficients
(`hdpstats.inference.pooling`). Tests of heterogeneity leave it out: all sites err by the same. Everything here is
post-processing of released and public numbers. Coverage is measured in ``vignettes/validation``.

**Before anything is spent** the same covariances are known in closed form at public coefficients, for what a fit would
report (`predicted_errors`): the private estimate has covariance ``H^-1 (J + B) H^-1``, estimates of several sites are
averaged by inverse variance, and the average is pooled with the public fit, public and private people assumed alike.
Curvature is averaged over where the truth may be, as a fit averages it (`hdpstats.inference.combination`), here about
the public coefficients. What is not known of it is averaged over too (`planned_covariance`): a fit takes the ridge out
with the best guess ``H`` of a curvature that is in truth :math:`\tilde H`. With
:math:`A = (I + H^{-1} \Lambda)(\tilde H + \Lambda)^{-1}` its estimate errs by

.. math:: -A (S + b) + M p, \qquad M = H^{-1} \Lambda - A \Lambda, \qquad p = \theta_0 - c.

``M`` is 0 where :math:`\tilde H = H`, and large where the ridge is large and public rows are few. Here :math:`\tilde H`
is drawn from what a fit would know of it: random weightings of the public rows, the same at all sites, as a fit has it.
Given it the covariances are in closed form; they are averaged. Of the pull ``p`` the second moments are those that
pooling expects where private and public people are alike (`hdpstats.inference.pooling.expected_pull`). Without a public
fit it is not known how far the ridge pulls: that part is then left out. Of a level that public rows lack the pull is
not known either: with people invented for one (`hdpstats.public.invented`) plans take curvature for known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.progress import progress
from hdpstats._base.typing import BoolArray, FloatArray
from hdpstats.inference import draws
from hdpstats.inference.combination import (
    Combined,
    InformedPoint,
    ReleasedPoint,
    combine_points,
    common,
    likely,
    missed,
    scalar_weight,
    shares,
    weighted,
)
from hdpstats.inference.information import Information, PublicInformation, ScoreNoise, draw_jointly
from hdpstats.inference.meta_analysis import heterogeneity
from hdpstats.inference.pooling import Pooling, disagreement, expected_covariance, expected_pull, positive_part
from hdpstats.public.moments import Moments, PublicFit, PublicSide
from hdpstats.public.row_weights import Allowance
from hdpstats.records.estimate import ErrorDistribution, Estimate, Estimates, SiteEstimate

DRAWS = 4000
CHUNK = 500
"""Errors that are drawn in all, and draws of curvature at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Errors:
    """Draws of an error (B, D), in two independent parts."""

    sampling: FloatArray
    privacy: FloatArray

    @property
    def whole(self) -> FloatArray:
        """Their sum."""
        return self.sampling + self.privacy


def combine(
    sites: Sequence[InformedPoint],
    *,
    fit: PublicFit | None,
    T: FloatArray,
    terms: tuple[str, ...],
    note: str | None = None,
    notes: Sequence[str | None] = (),
    allowance: FloatArray | None = None,
    unlike: float = 0.0,
    missing: Callable[[Estimate], BoolArray] | None = None,
) -> Estimates:
    """Return the private-only estimate and, where there is a public fit, the penalised and the pooled one.

    ``T`` (p, D) maps whitened coefficients to those that ``terms`` (p) name; ``notes`` are of each site's estimate;
    ``allowance`` (D, D) is the covariance of an error that all sites share, ``unlike`` its correlation with what
    separates private from public coefficients (`Scales.towards`). ``missing`` returns which coefficients (p,) of the
    private-only estimate are not reported: they are not compared with the public ones.
    """
    combined = combine_points(sites, fit, allowance=allowance)
    own, (apart, along) = _errors(sites, combined)
    towards = np.zeros_like(apart)
    if unlike and combined.pooling is not None and combined.allowance.any():
        towards = -unlike * along @ combined.pooling.scales.towards(combined.allowance).T
    else:
        unlike = 0.0
    shared = towards + _common(sites, (1.0 - unlike**2) * combined.allowance, count=len(apart))
    error = _Errors(
        sampling=weighted(combined.shares, [each.sampling for each in own]),
        privacy=weighted(combined.shares, [each.privacy for each in own]) + shared,
    )
    private = _estimate("private only", terms, combined.private, T, error, note)
    alone = (
        [private]
        if len(sites) == 1
        else [
            _estimate("private only", terms, theta, T, replace(each, privacy=each.privacy + shared), words)
            for theta, each, words in zip(combined.unshrunk, own, notes, strict=True)
        ]
    )
    pooled = agree = None
    if combined.pooling is not None:
        of_both = _pooled(error, apart, combined.pooling)
        alike = _in_common(towards, apart, combined.pooling)
        pooled = _estimate("pooled", terms, combined.pooled, T, of_both, note, in_common=alike)
        seeds = [each.part.release.sha256 for each in sites]
        known = None if missing is None else ~missing(private)
        agree = disagreement(combined.private, error.whole, pooling=combined.pooling, seeds=seeds, T=T, known=known)
    return Estimates(
        penalised=None if fit is None else penalised(fit, T, terms=terms),
        private_only=private,
        pooled=pooled,
        sites=tuple(
            SiteEstimate(estimate=each, weight=scalar_weight(share))
            for each, share in zip(alone, combined.shares, strict=True)
        ),
        heterogeneity=None
        if len(sites) == 1
        else heterogeneity(
            np.array(combined.unshrunk), combined.variances, np.array([each.whole for each in own]), T=T
        ),
        disagreement=agree,
        public_shares=None if combined.pooling is None else public_shares(combined.pooling, T),
    )


def public_shares(pooling: Pooling, T: FloatArray) -> FloatArray:
    r"""Return the public fit's share in each pooled coefficient (p,), from 0 to 1.

    Of a coefficient :math:`t'\theta`, ``t`` a row of ``T`` (p, D), it is one minus the variance of the pooled estimate
    over that of the private-only one, given the scales of what separates private from public coefficients:

    .. math:: 1 - \frac{t' K V_u t}{t' V_u t}, \qquad K V_u = \{V_u^{-1} + (V_{pub} + T_\tau)^{-1}\}^{-1},

    averaged over the draws of these scales (`hdpstats.inference.pooling`; :math:`T_\tau` is the covariance of what
    separates coefficients). As information is the inverse of a variance, it is the part of the pooled information on
    the coefficient that private people do not give.

    ``K V_u`` is positive semidefinite and at most ``V_u``, so that it is from 0 to 1. ``t`` is in numerator and
    denominator, so that it does not depend on the unit of a column, nor on how other columns are coded. Where all
    matrices are diagonal it is that element of ``I - K``, by how much the coefficient follows the public one. The
    diagonal of ``I - K`` itself is no share where coefficients are correlated: it may be negative, or above 1.
    """
    private = np.einsum("ij,jk,ik->i", T, pooling.private, T)
    pooled = np.einsum("ij,jk,ik->i", T, pooling.weight @ pooling.private, T)
    return np.asarray(np.clip(1.0 - pooled / private, 0.0, 1.0))


def _common(sites: Sequence[InformedPoint], allowance: FloatArray, *, count: int) -> FloatArray:
    """Return draws (count, D) of the error that all sites share; no random number is drawn where there is none."""
    if not allowance.any():
        return np.zeros((count, len(sites[0].part.theta)))
    rng = draws.generator(*(each.part.release.sha256 for each in sites), "weights of people")
    return draws.normal(rng, allowance, count)


def penalised(fit: PublicFit, T: FloatArray, *, terms: tuple[str, ...]) -> Estimate:
    """Return the public fit that pooling takes, a posterior mode under a weak prior, in the design's coordinates."""
    covariance = T @ fit.error @ T.T
    return Estimate(
        label="public, penalised",
        terms=terms,
        values=T @ fit.theta,
        sampling=covariance,
        privacy=np.zeros_like(covariance),
        note=f"Public rows, penalised: the mode under {fit.prior}.",
    )


def _errors(sites: Sequence[InformedPoint], found: Combined) -> tuple[list[_Errors], tuple[FloatArray, FloatArray]]:
    """Return joint draws of the sites' errors, and of how the public fit errs (B, D), in whitened coordinates.

    What curvature of other outcomes misses at each site is a part of its privacy. The public fit's errors come with the
    standard normal numbers behind them (`Pooling.apart_along`).
    """
    rng = draws.generator(*(each.part.release.sha256 for each in sites))
    repeated = min(each.information.repeated(DRAWS) for each in sites)
    turns = max(1, DRAWS // (repeated * CHUNK))
    chunks = [
        _chunk(rng, sites, found, count=DRAWS // (repeated * turns), repeated=repeated)
        for _ in progress(range(turns), label="standard errors")
    ]
    apart, along = (np.concatenate(each) for each in zip(*(public for _, public in chunks), strict=True))
    seeds = (*(each.part.release.sha256 for each in sites), "curvature of other outcomes")
    missing = found.pulls.draw(draws.generator(*seeds), len(apart))
    own = [
        _Errors(
            sampling=np.concatenate([errors[j].sampling for errors, _ in chunks]),
            privacy=np.concatenate([errors[j].privacy for errors, _ in chunks]) + missing[j],
        )
        for j in range(len(sites))
    ]
    return own, (apart, along)


def _chunk(
    rng: draws.Generator, sites: Sequence[InformedPoint], found: Combined, *, count: int, repeated: int
) -> tuple[list[_Errors], tuple[FloatArray, FloatArray]]:
    """Return some of the draws: what is known of curvatures, scores and noises, the pull, the public error.

    They are of ``count`` draws of what is known of curvatures, each with as many draws of errors as ``repeated`` says.
    """
    identity = np.eye(len(found.pooled))
    places = [[point for place in found.places for point in each.between(place)] for each in sites]
    drawn = _moments(rng, sites, places, count=count)
    moved = [_moves(rng, each.part.noise, at, count=count * repeated) for each, at in zip(sites, drawn, strict=True)]
    truth = _truth(rng, found, count=count * repeated)
    errors = []
    for j, (each, (score, noise)) in enumerate(zip(sites, moved, strict=True)):
        ridge = each.part.ridge
        back = identity + ridge * np.linalg.inv(found.secants[j])
        pulled = found.pooled - each.part.centre + truth
        solve: FloatArray = np.asarray(np.linalg.inv(drawn[j].H + ridge * identity), dtype=np.float64)
        sampled, noised = -draws.through(solve, score + ridge * pulled), -draws.through(solve, noise)
        errors.append(_Errors(sampling=sampled @ back.T + pulled @ (back - identity).T, privacy=noised @ back.T))
    if found.pooling is None:
        return errors, (np.zeros_like(truth), np.zeros_like(truth))
    return errors, found.pooling.apart_along(rng, len(truth))


def _moves(rng: draws.Generator, noise: ScoreNoise, at: Moments, *, count: int) -> tuple[FloatArray, FloatArray]:
    """Return draws (count, D) of a site's score and of its noise, which are matched together."""
    D = at.J.shape[1]
    standard = draws.matched(np.hstack([rng.standard_normal((count, D)), noise.standard(rng, count)]))
    return draws.normals(at.J, standard[:, :D]), noise.of(standard[:, D:], at.H)


def _moments(
    rng: draws.Generator, sites: Sequence[InformedPoint], places: Sequence[Sequence[FloatArray]], *, count: int
) -> list[Moments]:
    """Return draws (count, D, D) of what moments might be at each site, as many at each of its points (D,).

    Where a site has fewer points than others, each of them takes the turns of several.
    """
    known = [each.information for each in sites]
    most = max(len(each) for each in places)
    turns = list(zip(*([each[k * len(each) // most] for k in range(most)] for each in places), strict=True))
    numbers = [len(part) for part in np.array_split(np.arange(count), most)]
    drawn = [draw_jointly(rng, known, thetas=at, count=number) for at, number in zip(turns, numbers, strict=True)]
    return [
        Moments(H=np.concatenate([at.H for at in each]), J=np.concatenate([at.J for at in each]))
        for each in zip(*drawn, strict=True)
    ]


def _truth(rng: draws.Generator, found: Combined, *, count: int) -> FloatArray:
    """Return draws of how far ``theta_0`` is from the pooled point, given all sources: where the ridges shrank from.

    Where ``H`` is not what it was taken to be, unshrinking errs in proportion to it.
    """
    return np.zeros((count, len(found.pooled))) if found.pooling is None else found.pooling.truth(rng, count)


def _pooled(error: _Errors, apart: FloatArray, pooling: Pooling) -> _Errors:
    """Return draws of the pooled estimate's error."""
    return _Errors(sampling=pooling.errors(error.sampling, apart), privacy=pooling.through(error.privacy))


def _in_common(towards: FloatArray, apart: FloatArray, pooling: Pooling) -> FloatArray | None:
    """Return what the covariance (D, D) of the pooled estimate has more as two of its parts err alike; None if nothing.

    They are what weights of people move the private estimate ``towards`` the public fit, and how far that is ``apart``.
    """
    if not towards.any():
        return None
    return positive_part(pooling.errors(np.zeros_like(apart), apart).T @ pooling.through(towards) / len(apart))


def _estimate(
    label: str,
    terms: tuple[str, ...],
    theta: FloatArray,
    T: FloatArray,
    error: _Errors,
    note: str | None,
    *,
    in_common: FloatArray | None = None,
) -> Estimate:
    """Return an estimate; what its two parts have ``in_common`` (D, D) counts as a part of privacy."""
    sampling, privacy = error.sampling @ T.T, error.privacy @ T.T
    return Estimate(
        label=label,
        terms=terms,
        values=T @ theta,
        sampling=_covariance(sampling),
        privacy=_covariance(privacy) + (0.0 if in_common is None else T @ in_common @ T.T),
        distribution=ErrorDistribution.of_draws(sampling + privacy),
        note=note,
    )


def _covariance(error: FloatArray) -> FloatArray:
    """Return second moments about zero: the error's bias counts."""
    return np.asarray(error.T @ error / len(error))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictedCovariance:
    """Covariance of a private estimate in whitened coordinates, in two parts (D, D): sampling and privacy noise."""

    sampling: FloatArray
    privacy: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """Their sum."""
        return self.sampling + self.privacy

    def allowing(self, allowance: FloatArray | None) -> "PredictedCovariance":
        """Return it with the covariance (D, D) of an error that all sites share, as a part of privacy."""
        return self if allowance is None else replace(self, privacy=self.privacy + allowance)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictedErrors:
    """Predicted standard errors per coefficient (p,), in the design's coordinates.

    ``reported``: of what a fit would report; ``sampling``, ``privacy``: the private-only estimate's two parts;
    ``public``: of the penalised public fit, or None. ``parts`` are the covariances (p, p) of the two parts; None where
    a plan does not tell them. ``compared``: by what mechanisms are compared; None where it is ``reported``.
    """

    reported: FloatArray
    sampling: FloatArray
    privacy: FloatArray
    public: FloatArray | None
    parts: tuple[FloatArray, FloatArray] | None = None
    compared: FloatArray | None = None

    def without(self, which: BoolArray) -> "PredictedErrors":
        """Return them with NaN for some coefficients (p,) that a fit would not report; mechanisms compare as before."""
        return replace(self, reported=np.where(which, np.nan, self.reported), compared=self._compared)

    @property
    def _compared(self) -> FloatArray:
        return self.reported if self.compared is None else self.compared

    @property
    def against_public(self) -> float:
        """Variance of what would be reported over that of the public fit, averaged over coefficients; 1 without one.

        Coefficients that would not be reported do not count.
        """
        return 1.0 if self.public is None else float(np.nanmean((self._compared / self.public) ** 2))

    @property
    def against_sampling(self) -> float:
        """Standard error of the private-only estimate over that of sampling alone: the median over coefficients."""
        return float(np.nanmedian(np.hypot(self.sampling, self.privacy) / self.sampling))


def of_point(
    public: PublicSide, *, noise: ScoreNoise, records: int, known: Information | None = None
) -> PredictedCovariance:
    """Return what a site's estimate errs by: a released point of ``records`` people with some noise.

    ``known`` is what was released of them; without it they are taken for people like the public ones.
    """
    centre = public.centre
    return _at(public.moments(centre, records=max(records, 1)) if known is None else known.at(centre), noise)


def _at(moments: Moments, noise: ScoreNoise) -> PredictedCovariance:
    """Return what an unshrunk point errs by, were its moments known."""
    inverse = np.linalg.inv(moments.H)
    return PredictedCovariance(
        sampling=inverse @ moments.J @ inverse, privacy=inverse @ noise.covariance(moments.H) @ inverse
    )


def averaged(sites: Sequence[PredictedCovariance]) -> PredictedCovariance:
    """Return what the average of the sites' estimates by inverse variance errs by."""
    weights = shares([site.covariance for site in sites])
    pairs = list(zip(weights, sites, strict=True))
    return PredictedCovariance(
        sampling=np.asarray(sum(W @ site.sampling @ W.T for W, site in pairs)),
        privacy=np.asarray(sum(W @ site.privacy @ W.T for W, site in pairs)),
    )


MOST = 0.75
"""The largest standard error at which a coefficient is determined.

Whitened, in units of the loss's scale: about 2.6 for the log odds of a level of 9 % of the people, 5.4 for one of 2 %.
A 95 % interval of the former then spans e^10. In a logistic regression it is the information of seven persons who
differ from the others by a standard deviation of the column.
"""


MOST_OF_LEVEL = 2.0
"""The largest standard error at which the difference between two values of a column, such as a level, is estimable.

In units of the loss's scale: the log odds of a level against the others. It is the information 1/4, the most that one
person who has the level tells in a logistic regression, at even odds; at a probability of 10 % it is that of three.
`MOST` counts average persons, of whom few have a rare level: at a share of 2 % its seven persons are 0.14 with the
level. The smaller of the two limits holds: this one for shares below 17 %, where columns are uncorrelated.
"""


CLEARLY = 0.3
"""Where errors at the public fit are below this share of the largest they are below it over where the truth may be."""


ALIKE = 1e-6
"""Numbers of a column are the same that differ by at most this share of its range, and coordinates are 0."""


def not_estimable(errors: FloatArray, public: PublicSide, *, T: FloatArray) -> BoolArray:
    """Return which slopes (p,) have standard errors (p,) so large that they stand for less than a few persons.

    They are persons who differ by a standard deviation of the column (`MOST`). Of a column that has two values in
    public rows, as the indicator of a level, it must not be less than one person with the rarer one tells either
    (`MOST_OF_LEVEL`).
    """
    average, level = _largest(public, T=T)
    return np.asarray(errors > np.fmin(average, level))


def not_clearly_small(errors: FloatArray, public: PublicSide, *, T: FloatArray) -> BoolArray:
    """Return which slopes (p,) have drawn standard errors (p,) that do not speak against `not_estimable`.

    Of a rare level they are above its limit, too: never is less than one person's information said of an estimate that
    is reported with more. Of other columns they are above the share `CLEARLY` of the limit.
    """
    average, level = _largest(public, T=T)
    return np.asarray(errors > np.where(level < average, level, CLEARLY * average))


def _largest(public: PublicSide, *, T: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the limits (p,) by `MOST` and by `MOST_OF_LEVEL`: none (infinite) of intercepts, NaN where no level."""
    fit, length = public.fit, np.linalg.norm(T, axis=1)
    unit = 1.0 if fit is None else fit.unit
    rest = np.delete(np.abs(T), public.counted, axis=1)
    slopes = np.max(rest, axis=1, initial=0.0) <= ALIKE * length
    average = np.where(slopes, MOST * unit * length, np.inf)
    return average, np.where(slopes, MOST_OF_LEVEL * unit / two_values(public, T=T), np.nan)


def two_values(public: PublicSide, *, T: FloatArray) -> FloatArray:
    """Return how far apart the two values of each coefficient's column (p,) are; NaN of a column with more or one.

    Columns are those by which coefficients ``T theta`` are multiplied in public rows, in units of the loss: for
    the indicator of a level it is one over the outcome's scale.
    """
    rows, blocks = public.sloped_rows
    back, found = np.linalg.pinv(T), np.full(len(T), np.nan)
    for block in blocks:
        columns = rows @ back[block]
        low, high = columns.min(axis=0, initial=np.inf), columns.max(axis=0, initial=-np.inf)
        spread = high - low
        away = np.minimum(columns - low, high - columns).max(axis=0, initial=0.0)
        varies = spread > ALIKE * np.linalg.norm(back, axis=0)
        found = np.where(varies & (away <= ALIKE * spread), spread, found)
    return found


Predicted = Callable[[Sequence[FloatArray], bool], FloatArray]
"""The covariance (D, D) that is predicted of a private estimate with moments averaged over some coefficients (D,).

People are taken to be like the public ones, or, where the second argument is true, to be as is known of them besides.
"""


def few_persons(sites: Sequence[InformedPoint], public: PublicSide, *, T: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return `few_by` of estimates from the released points of ``sites``."""

    def predicted(places: Sequence[FloatArray], known: bool) -> FloatArray:
        return averaged(
            [_at((each.information if known else _alike(each, public)).over(places), each.part.noise) for each in sites]
        ).covariance

    return few_by(predicted, public, T=T)


def few_by(predicted: Predicted, public: PublicSide, *, T: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return which slopes (p,) are predicted to stand for less than a few persons: of the private and pooled estimate.

    Coefficients are taken to be near the public ones, and people to be like the public ones; where errors are too large
    for these, people are taken to be as is known of them besides, and errors must be too large for them, too.
    """
    fit, none = public.fit, np.zeros(len(T), dtype=bool)
    if fit is None:
        return none, none
    covariance = predicted((public.centre,), False)
    if not not_estimable(_standard_errors(T, covariance) / CLEARLY, public, T=T).any():
        return none, none
    places = (public.centre,)
    if not public.located:
        places = tuple(public.centre + likely(covariance, fit))
    alone, pooled = ~none, ~none
    for known in (False, True):
        covariance = predicted(places, known)
        alone = alone & not_estimable(_standard_errors(T, covariance), public, T=T)
        if not alone.any():
            return none, none
        errors = _standard_errors(T, expected_covariance(covariance, fit))
        pooled = pooled & not_estimable(errors, public, T=T)
    return alone, pooled


def _alike(site: InformedPoint, public: PublicSide) -> Information:
    """Return what is known of a site's curvature where its people are taken for people like the public ones."""
    return PublicInformation(public=public, records=max(site.part.records, 1))


def undetermined(private: PredictedCovariance, fit: PublicFit | None, *, T: FloatArray) -> BoolArray:
    """Return of which coefficients (p,) public rows say nothing, and private people are predicted to say too little."""
    if fit is None or fit.unknown is None:
        return np.zeros(len(T), dtype=bool)
    length = np.linalg.norm(T, axis=1)
    touched = np.max(np.abs(T @ fit.unknown), axis=1) > 1e-6 * length
    return np.asarray(touched & (_standard_errors(T, private.covariance) > MOST * fit.unit * length))


def predicted_errors(
    private: PredictedCovariance,
    fit: PublicFit | None,
    *,
    T: FloatArray,
    apart: FloatArray | float = 0.0,
    side: PublicSide | None = None,
    weights: Allowance | None = None,
) -> PredictedErrors:
    """Return predicted standard errors, in the coordinates that ``T`` (p, D) maps whitened coefficients to.

    NaN where they are too large for a fit to report the coefficient: `undetermined`, or `not_estimable` of a public
    ``side``. ``apart`` (D,) and ``weights``: see `hdpstats.inference.pooling.expected_covariance`.
    """
    total, public = private.covariance, None
    if fit is not None:
        public = _standard_errors(T, fit.error)
        total = expected_covariance(total, fit, apart=apart, weights=weights)
    known, reported = np.where(undetermined(private, fit, T=T), np.nan, 1.0), _standard_errors(T, total)
    if fit is not None and side is not None:
        reported = np.where(not_estimable(reported, side, T=T), np.nan, reported)
    return PredictedErrors(
        reported=known * reported,
        sampling=known * _standard_errors(T, private.sampling),
        privacy=known * _standard_errors(T, private.privacy),
        public=public,
        parts=(T @ private.sampling @ T.T, T @ private.privacy @ T.T),
    )


def _standard_errors(T: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.sqrt(np.diag(T @ covariance @ T.T))


def planned_covariance(
    sites: Sequence[InformedPoint], *, centre: FloatArray, fit: PublicFit | None
) -> PredictedCovariance:
    """Return what the average by inverse variance of points that sites are expected to release errs by.

    ``centre`` are the public coefficients, ``fit`` is the public fit.
    """
    at = [each.information.at(centre) for each in sites]
    known = [_at(moments, each.part.noise) for each, moments in zip(sites, at, strict=True)]
    places = (centre,)
    if fit is not None and not any(each.information.located for each in sites):
        places = tuple(centre + likely(averaged(known).covariance, fit))
        at = [each.information.over(places) for each in sites]
        known = [_at(moments, each.part.noise) for each, moments in zip(sites, at, strict=True)]
    count = min(each.information.planned_draws for each in sites)
    if not count:
        return averaged(known)
    covariances = [each.covariance for each in known]
    if fit is not None:
        pull = expected_pull(averaged(known).covariance, fit)
        of_others = [_expected_to_miss(each, moments, pull) for each, moments in zip(sites, at, strict=True)]
        covariances = [each + more for each, more in zip(covariances, of_others, strict=True)]
    weights = shares(covariances)
    drawn = _moments(draws.nodes(), sites, [places] * len(sites), count=count)
    parts = [_unshrunk(each.part, best, moments) for each, best, moments in zip(sites, at, drawn, strict=True)]
    sampling = np.asarray(sum(W @ each.sampling @ W.T for W, (each, _) in zip(weights, parts, strict=True)))
    privacy = np.asarray(sum(W @ each.privacy @ W.T for W, (each, _) in zip(weights, parts, strict=True)))
    if fit is not None:
        left = np.asarray(sum(W @ M for W, (_, M) in zip(weights, parts, strict=True)))
        sampling = sampling + np.mean(left @ pull @ np.swapaxes(left, 1, 2), axis=0)
        privacy = privacy + common(weights, of_others)
    return PredictedCovariance(sampling=sampling, privacy=privacy)


def _expected_to_miss(site: InformedPoint, at: Moments, pull: FloatArray) -> FloatArray:
    """Return what curvature of other outcomes is expected to miss (D, D) at a site.

    ``pull`` (D, D) are second moments of how far private coefficients are from the ridge's centre. The released ones
    are nearer by as much as they were pulled, and vary by scores and noise besides.
    """
    if not site.information.of_outcomes:
        return np.zeros_like(pull)
    ridge = site.part.ridge
    solve = ridge * np.linalg.inv(at.H + ridge * np.eye(len(at.H)))
    released = solve @ (at.H @ pull @ at.H + at.J + site.part.noise.covariance(at.H)) @ solve
    return site.information.of_outcomes**2 * missed(at.H, released)


def _unshrunk(part: ReleasedPoint, at: Moments, drawn: Moments) -> tuple[PredictedCovariance, FloatArray]:
    """Return what the point errs by where curvature is as ``drawn`` (B of each), and ``M`` (B, D, D)."""
    identity = np.eye(len(at.H))
    taken = part.ridge * np.linalg.inv(at.H)
    A = (identity + taken) @ np.linalg.inv(drawn.H + part.ridge * identity)
    back = np.swapaxes(A, 1, 2)
    predicted = PredictedCovariance(
        sampling=np.mean(A @ drawn.J @ back, axis=0),
        privacy=np.mean(A @ part.noise.covariance(drawn.H) @ back, axis=0),
    )
    return predicted, np.asarray(taken - part.ridge * A)

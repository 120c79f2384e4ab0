r"""The public side of a hazard model among people who are weighted by their chance of treatment.

A hazard model of the treatment, and of covariates of the propensity model beside it, whose people are weighted by
overlap weights is a marginal structural model (Hernan, Brumback and Robins 2000): it describes survival of the people
whose treatment was in doubt, had all of them been in either arm. It is fitted to private people alone. What its errors
are is read from public people who stand for them, each of them once in either arm
(`hdpstats.families.regression.weighted` has the derivation, `hdpstats.families.stacked` the equations).

**A person's score** is the sum over the intervals in which the person is at risk: with ``c_s`` and ``e_s`` the scores
of surviving an interval and of the event in it, after an event in ``t`` and after censoring at the end of ``t``

.. math:: u = \sum_{s < t} c_s x^s - e_t x^t, \qquad u = \sum_{s \le t} c_s x^s, \qquad x^s = (A_s, z),

times what the Mallows weight and caps leave. A person's hazard is that of the person's covariates, and not that of the
model, which holds among weighted people: so the scores of successive intervals have means other than zero and go
together, and moments are taken over whole follow-ups. There are ``2 q``, of known probabilities
(`hdpstats.families.hazard.outcomes`): :math:`\mu_a = E[u]`, :math:`M_a = E[u u']`, and of the derivatives
:math:`\sum_s P(\text{at risk in } s)\{(1 - p_s) c_s' - p_s e_s'\} x^s x^{s\prime}`.

**Hazards** of a person in an arm are :math:`p_s = g^{-1}(A_s'c + z'd + x'b)`, ``g`` the link, with ``b`` from public
people and ``(c, d)`` such that the weighted score at ``theta`` is 0.

**Follow-up**, were there no events, is alike whatever the arm and covariates. A fit asks which shares :math:`R_s` of
its people, who are not weighted there, are at risk when intervals begin: the chance of not being censored before ``s``
is then :math:`R_s / E[(1 - e) S_{s-1}(0) + e S_{s-1}(1)]`, with the survival ``S`` of both arms and the chance ``e`` of
treatment of the people who stand for private ones, and never grows. Where nothing was described, it is that of the
public people: the product-limit estimate of their censoring. Errors are not drawn over the noise of :math:`R_s`.

**Choices** of a query (geometry, caps, centre and ridge) are made by the public people in the arms in which they were,
weighted by the private model's chance of these; they decide how large errors are, and neither the guarantee nor what is
estimated.

References
----------
M. A. Hernan, B. Brumback, J. M. Robins (2000), Marginal structural models to estimate the causal effect of zidovudine
on the survival of HIV-positive men. S. R. Cole, M. A. Hernan (2004), Adjusted survival curves with inverse probability
weights. F. Li, K. L. Morgan, A. M. Zaslavsky (2018), Balancing covariates via propensity score weighting.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, final

import numpy as np
import scipy

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.families.hazard.outcomes import SurvivalOutcomes, followed_as_public
from hdpstats.families.hazard.public import WEAK, HazardSide, hazard_side, spell_scores
from hdpstats.families.hazard.public_fit import Baseline, PublicSpells, hazard_likelihood, mode_of
from hdpstats.families.stacked import ExpectedScores, OverlapSide, TreatedRows, spread_covariance
from hdpstats.formulas.compiler import SurvivalDesign
from hdpstats.inference.overlap_errors import WeightedPeople
from hdpstats.public.moments import PublicFit
from hdpstats.public.row_weights import UnseenPeople
from hdpstats.records.averages import CohortMoments, MomentKind
from hdpstats.records.estimate import Estimate
from hdpstats.records.geometry import Geometry, mallows_weights, whiten
from hdpstats.records.model import HazardCap

STEPS, CLOSE, FARTHEST = 60, 1e-10, 2.0
"""Newton steps of the constants ``(c, d)``, the length of a step that is short, and the largest one of predictors."""

NUMBERS: Final = 2**22
"""Numbers of scores of follow-ups that are held at a time."""

KEPT: Final = 8
"""Coefficients whose expectations are kept: estimates, errors and the part of the propensity's noise ask for them."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedHazards(OverlapSide):
    """Public people who stand for weighted private ones, each in both arms: see the module's docstring.

    Attributes
    ----------
    own : HazardSide
        The public people in the arms in which they were, weighted, in the geometry and under the cap: of choices.
    arms : SurvivalOutcomes
        The people (2 m,) who stand for private ones with what may happen to them, untreated and then treated; weights
        are what Mallows weights and caps leave.
    lean : (m,) float64
        ``x'b``, up to a constant.
    standing, noise, rows, share
        See `OverlapSide`.
    raked : bool
        Whether people were raked to a description of the private ones.
    at_risk : (q,) float64 or None
        The shares of private people at risk when intervals begin; None where follow-up is as in public people.
    """

    own: HazardSide
    arms: SurvivalOutcomes
    lean: FloatArray
    standing: WeightedPeople
    noise: FloatArray
    rows: int
    raked: bool
    share: float = 1.0
    at_risk: FloatArray | None = None

    @property
    def geometry(self) -> Geometry:  # type: ignore[override]
        """How they are whitened."""
        return self.own.geometry

    @property
    def cap(self) -> HazardCap:
        """How much one of them may weigh."""
        return self.own.cap

    @property
    def baseline(self) -> Baseline:
        """The features of the baseline."""
        return self.own.baseline

    @property
    def fit(self) -> PublicFit:  # type: ignore[override]
        """The fit to the public people in their own arms, weighted: where a query is centred."""
        return self.own.fit

    @property
    def unseen(self) -> UnseenPeople | None:  # type: ignore[override]
        """None: both arms are shown."""
        return None

    @property
    def taken_alike(self) -> str:
        """What of private people `moments` take to be distributed as that of the public ones, in words."""
        covariates, follow_up = "" if self.raked else "covariates, ", "follow-up, " if self.at_risk is None else ""
        before = f"{covariates}{follow_up}"
        return f"{before}and outcomes given covariates," if before else "outcomes given covariates"

    @property
    def weak(self) -> float:
        """That of intervals which follow-up never reaches."""
        return WEAK

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.own.dimension

    @property
    def centre(self) -> FloatArray:
        """The public fit."""
        return self.own.centre

    @property
    def counted(self) -> IntArray:
        """The coordinates of slopes."""
        return self.own.counted

    @property
    def row_blocks(self) -> tuple[Sequence[IntArray], int]:
        """Covariates alone: the intercept of a whitened row stands for the baseline."""
        return self.own.row_blocks

    @property
    def sloped_rows(self) -> tuple[FloatArray, Sequence[IntArray]]:
        """Those of the public people in their own arms."""
        return self.own.sloped_rows

    @property
    def cells(self) -> int:
        """The number of intervals."""
        return self.own.cells

    def at(self, geometry: Geometry, cap: HazardCap) -> "WeightedHazards":
        """Return the same people at another radius and under another cap."""
        own, spells = self.own.at(geometry, cap), self.arms.spells
        capped = replace(
            spells,
            weights=mallows_weights(np.sum(spells.Z**2, axis=1), geometry),
            cap_baseline=own.spells.cap_baseline,
            cap_slopes=own.spells.cap_slopes,
            margin=cap.margin,
            total=cap.total,
        ).weighed(intervals=self.cells)
        return replace(self, own=own, arms=replace(self.arms, spells=capped))

    def followed_as(self, known: CohortMoments | None) -> "WeightedHazards":
        """Return the same people, of whom such shares are at risk as are known of the private ones.

        Shares that never grow are those nearest to the released ones, whose noise is alike (isotonic regression): the
        running minimum of noisy shares would be too small. Between the times of a description they are on lines.
        """
        moments = () if known is None else known.of(MomentKind.AT_RISK)
        told = {each.time: each.value for each in moments if each.time > 0}
        if not told:
            return self
        times = np.array([0.0, *sorted(told)])
        falling = scipy.optimize.isotonic_regression([told[time] for time in sorted(told)], increasing=False).x
        shares = np.clip([1.0, *falling], 0.0, 1.0)
        return replace(self, at_risk=np.interp(self.own.starts, times, shares))

    def expected(self, theta: FloatArray) -> ExpectedScores:
        """Return what is expected of scores at ``theta``, over all follow-ups."""
        return self._kept(np.ascontiguousarray(theta).tobytes())

    @cached_property
    def _kept(self) -> Callable[[bytes], ExpectedScores]:
        """`_expected`, which keeps some answers."""
        return lru_cache(maxsize=KEPT)(lambda theta: self._expected(np.frombuffer(theta)))

    def _expected(self, theta: FloatArray) -> ExpectedScores:
        D, m = self.dimension, self.people
        constants = self._constants(theta)
        true = self._leaning.at(constants)
        i, j = np.triu_indices(D)
        mean, square, curvature = np.zeros((2 * m, D)), *np.zeros((2, 2 * m, len(i)))
        everywhere = slice(0, self.cells)
        for part in self._pieces():
            gradients, chances = self.arms.gradients(theta, part), true.chances_of(constants, part)
            weighted = gradients * chances[:, :, None]
            mean[part] = weighted.sum(axis=1)
            square[part] = (np.swapaxes(weighted, 1, 2) @ gradients)[:, i, j]
            cells = self._curvature(theta, constants, true, part)
            self.arms.spells.add_outer(curvature[part], cells, part, everywhere, 0)
        return ExpectedScores(
            mean=mean.reshape(2, m, D), square=square.reshape(2, m, -1), curvature=curvature.reshape(2, m, -1)
        )

    def _curvature(self, theta: FloatArray, constants: FloatArray, true: SurvivalOutcomes, part: slice) -> FloatArray:
        """Return the expected curvature (b, q) of people in each interval, weights included."""
        spells, everywhere = self.arms.spells, slice(0, self.cells)
        p = spells.loss.hazard(true.spells.predictor(constants, part, everywhere, 0))
        lost = np.cumsum(np.log1p(-np.minimum(p, 1.0 - 1e-12)), axis=1)
        before = np.exp(np.column_stack([np.zeros(len(lost)), lost[:, :-1]]))
        eta = spells.predictor(theta, part, everywhere, 0)
        cells = spells.loss.cells(eta, spells.log_caps(part, everywhere, 0))
        at_risk = true.reached[part] * before
        curvature = (1.0 - p) * cells.survived_curvature + p * cells.event_curvature
        return np.asarray(spells.weights[part, None] * at_risk * curvature)

    @property
    def _leaning(self) -> SurvivalOutcomes:
        """What may happen to people whose hazards depend on their covariates, given the constants.

        Of each its share among the private people, who are not weighted: shares at risk are of these.
        """
        spells, e = self.arms.spells, self.standing.propensity
        return replace(
            self.arms,
            spells=replace(spells, offset=np.tile(self.lean, 2), weights=np.ones(len(spells.Z))),
            share=np.concatenate([self.standing.weights * (1.0 - e), self.standing.weights * e]),
            at_risk=None if self.at_risk is None else self.at_risk[None],
        )

    def _pieces(self) -> Iterator[slice]:
        """Yield the people (2 m,) piece by piece."""
        size = max(1, NUMBERS // (2 * self.cells * self.dimension))
        for start in range(0, 2 * self.people, size):
            yield slice(start, min(start + size, 2 * self.people))

    def _constants(self, theta: FloatArray) -> FloatArray:
        """Return ``(c, d)`` (D,), at which the expected weighted score at ``theta`` is 0.

        Follow-up as described is that at each step's constants, on which it hardly depends.
        """
        true, spells, e = self._leaning, self.arms.spells, self.own.baseline.mixed.shape[1]
        overlap = np.tile(self.standing.weights * self.case_weights, 2)
        constants = theta.copy()
        for _ in range(STEPS):
            true = true.at(constants)
            missing, slopes = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
            for part in self._pieces():
                known = true.distribution(constants, part)
                gradients = self.arms.gradients(theta, part) * (overlap[part, None] * known.probability)[:, :, None]
                missing -= gradients.sum(axis=(0, 1))
                slopes += gradients.reshape(-1, len(theta)).T @ known.score.reshape(-1, len(theta))
            step = np.linalg.lstsq(slopes, missing, rcond=None)[0]
            moved = spells.A @ step[:e]
            length = float(np.max(np.abs(moved), initial=0.0) + np.max(np.abs(spells.Z @ step[e:]), initial=0.0))
            constants = constants + step * min(1.0, FARTHEST / max(length, 1e-300))
            if length < CLOSE:
                break
        return constants


def weighted_hazards(
    rows: PublicSpells,
    design: SurvivalDesign,
    features: FloatArray,
    *,
    link: str,
    starts: FloatArray,
    propensity: FloatArray,
    arms: tuple[FloatArray, FloatArray],
    standing: WeightedPeople,
    noise: FloatArray,
    raked: bool,
) -> WeightedHazards:
    """Return the public side of people weighted by their chance of treatment.

    Parameters
    ----------
    rows
        Public people with the outcome, weighted by the private model's chance of the treatment that they had.
    design, features, link, starts
        Those of the hazard model.
    propensity : (n, p) float64
        The rows of the propensity model of the same people.
    arms : tuple of (m, 1 + p) float64
        The design's rows of the people who stand for private ones, had they been untreated and treated.
    standing
        These people.
    noise, raked
        See `WeightedHazards`.
    """
    whole = np.concatenate(arms)
    geometry = design.covariates.whitening(whole)
    own = hazard_side(rows, design, features, link=link, causes=1, starts=starts, geometry=geometry)
    Z, none = whiten(geometry, whole).X[:, 1:], np.zeros(len(whole), dtype=np.int64)
    spells = replace(
        own.spells,
        Z=Z,
        entry=none,
        last=none + len(features),
        cause=none,
        weights=np.ones(len(whole)),
        offset=np.zeros(len(whole)),
        whole=None,
    )
    followed = followed_as_public(entry=rows.entry, last=rows.exit, event=rows.cause, intervals=len(features))
    return WeightedHazards(
        own=own,
        arms=SurvivalOutcomes(
            spells=spells, followed=np.tile(followed.mean(axis=0), (len(whole), 1)), whole=len(whole)
        ),
        lean=_lean(rows, own.baseline, propensity, link=link, people=standing.X),
        standing=standing,
        noise=noise,
        rows=rows.people,
        raked=raked,
    ).at(own.geometry, own.cap)


def _lean(rows: PublicSpells, baseline: Baseline, X: FloatArray, *, link: str, people: FloatArray) -> FloatArray:
    """Return ``x'b`` of people (m, p) from public ones, whose rows of the propensity model are ``X`` (n, p).

    The hazard is fitted to these and to the model's own terms, with the weak prior of public fits.
    """
    varies, own = np.ptp(X, axis=0) > 0.0, np.ptp(rows.X, axis=0) > 0.0
    covariates, terms = X[rows.row][:, varies], rows.X[:, own]
    columns = np.column_stack([covariates, terms])
    scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    alike = replace(rows, weights=np.ones(len(rows.X)))
    slopes = mode_of(alike, baseline, scaled, link=link, cause=1).theta[len(baseline.constant) :]
    return np.asarray((people[:, varies] / covariates.std(axis=0)) @ slopes[: covariates.shape[1]])


def weighted_hazard_fit(
    observed: PublicSpells, treated: TreatedRows, features: FloatArray, *, link: str, terms: tuple[str, ...]
) -> Estimate:
    """Return the weighted fit to public people, with errors by the equations of both models stacked.

    It is what ``glm`` gives on rows of persons and periods with the weights as prior weights; scores of the periods of
    a person are added up, so that errors are over persons. ``observed`` are spells of the rows with an outcome among
    the ``treated`` ones, not weighted.
    """
    rows = replace(observed, weights=treated.weights[observed.row])
    estimate = hazard_likelihood(rows, features, link=link, causes=1, terms=terms)
    known = np.isfinite(estimate.values)
    e = features.shape[1]
    identified = replace(rows, X=rows.X[:, np.concatenate([[True], known[e:]])])
    kept = features[:, known[:e]]
    found = spell_scores(identified, kept, values=estimate.values[known], link=link, causes=1)
    scores = np.zeros((len(treated.weights), found.scores.shape[1]))
    np.add.at(scores, rows.row, found.scores)
    return replace(estimate, sampling=spread_covariance(treated.sandwich(scores, found.information), known))

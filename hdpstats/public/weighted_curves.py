r"""Curves of public rows under overlap weights, with errors that count the estimation of the propensity model.

Rows of the arm ``a`` weigh :math:`w_i`, from the maximum-likelihood coefficients :math:`\hat\alpha` of a logistic
propensity model of the same rows. Hazards are :math:`h_{jk} = d_{jk} / Y_j`, weighted, at the distinct times
:math:`t_j`, so that curves are the weighted Kaplan-Meier's and Aalen-Johansen's. A function of them with the
derivatives :math:`c_{jk}` has the influence function

.. math:: \phi_i = w_i u_i + \Bigl(\sum_l \dot w_l u_l\Bigr)' I^{-1} x_i (a_i - e_i), \qquad
    u_i = \sum_{jk} c_{jk} (dN_{ijk} - h_{jk} Y_{ij}) / Y_j,

with ``I`` the information of the propensity model; its variance is :math:`\sum_i \phi_i^2`. Without the second term it
is R's ``survfit(..., robust = TRUE)``, whose weights are known. The log-rank score has the influence of Lin and Wei
(1989), :math:`u_i = \sum_j \omega_j ([g_i = g] - \pi_{gj}) (dN_{ij} - Y_{ij} e^{\beta_{g_i}} D_j / S_j)`.

References
----------
D. Y. Lin, L. J. Wei (1989), The robust inference for the Cox proportional hazards model, JASA 84, 1074-1078.
H. Mao, L. Li, W. Yang, Y. Shen (2018), On the propensity score weighting analysis with survival outcome, Statistics in
Medicine 37, 3745-3763.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.public.follow_up import FollowUp, risk_sets
from hdpstats.public.risk_sets import RiskSets, ratio
from hdpstats.records.codec import Record


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRows(Record):
    """Public rows of two arms, weighted by their chance of treatment.

    Attributes
    ----------
    X : (n, p) float64
        Design rows of the propensity model.
    treated : (n,) float64
        0 or 1.
    chance : (n,) float64
        The fitted chance of treatment.
    time, cause : (n,) arrays
        When follow-up ended, and by which cause: 0 for none.
    causes : int
        How many there are.
    inverse : (p, p) float64
        The inverse of the information of the propensity model.
    others : (p, p) float64
        The sum of squared influences of the rows of that model which lack the outcome.
    """

    X: FloatArray
    treated: FloatArray
    chance: FloatArray
    time: FloatArray
    cause: IntArray
    causes: int
    inverse: FloatArray
    others: FloatArray

    @property
    def weights(self) -> FloatArray:
        """The overlap weight of each row (n,)."""
        return np.where(self.treated == 1.0, 1.0 - self.chance, self.chance)

    def until(self, end: float) -> "WeightedRows":
        """Return the rows with those who are left at a time censored then."""
        late = self.time > end
        return replace(self, time=np.where(late, end, self.time), cause=np.where(late, 0, self.cause))

    @cached_property
    def coefficients(self) -> FloatArray:
        """What each row moves the propensity's coefficients by (n, p)."""
        return np.asarray((self.X * (self.treated - self.chance)[:, None]) @ self.inverse)

    @cached_property
    def by_coefficients(self) -> FloatArray:
        """The derivative of each weight by them (n, p)."""
        slope = self.chance * (1.0 - self.chance) * np.where(self.treated == 1.0, -1.0, 1.0)
        return np.asarray(self.X * slope[:, None])

    def own(self, arm: int) -> BoolArray:
        """Return who is of an arm (n,)."""
        return np.asarray(self.treated == arm)

    @cached_property
    def arms(self) -> "tuple[ArmSets, ArmSets]":
        """Who is at risk when, untreated and treated."""
        untreated, treated = (self._arm(arm) for arm in (0, 1))
        return untreated, treated

    def _arm(self, arm: int) -> "ArmSets":
        own = self.own(arm)
        rows = FollowUp(time=self.time[own], cause=self.cause[own], causes=self.causes, weights=self.weights[own])
        return ArmSets(rows=self, arm=arm, sets=risk_sets(rows))

    def moved_by(self, u: FloatArray) -> "Influence":
        """Return what rows move an estimate by, of which the derivatives by weights are ``u`` (n,)."""
        slope = u @ self.by_coefficients
        return Influence(rows=self.weights * u + self.coefficients @ slope, slope=slope)

    def covariance(self, first: "Influence", second: "Influence") -> float:
        """Return the covariance of two estimates, from what rows move them by."""
        return float(first.rows @ second.rows + first.slope @ self.others @ second.slope)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Influence:
    """What each row moves an estimate by (n,), and how that depends on the propensity's coefficients (p,)."""

    rows: FloatArray
    slope: FloatArray


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ArmSets:
    """Weighted rows of one arm at risk, and what moves estimates that are read from them."""

    rows: WeightedRows
    arm: int
    sets: RiskSets

    @cached_property
    def hazards(self) -> FloatArray:
        """Hazards (T, K)."""
        return np.asarray(self.sets.events / self.sets.at_risk[:, None])

    @cached_property
    def _stay(self) -> FloatArray:
        """One less the hazard of any event (T,); NaN where everybody fails."""
        stay = 1.0 - self.hazards.sum(axis=1)
        return np.where(stay > 1e-12, stay, np.nan)

    def influence(self, by_hazards: FloatArray) -> Influence:
        """Return what rows move a function of hazards by, from its derivatives (T, K)."""
        rows, sets = self.rows, self.sets
        per = by_hazards / sets.at_risk[:, None]
        passed = np.cumsum((per * self.hazards).sum(axis=1))
        own = rows.own(self.arm)
        place, cause = np.searchsorted(sets.times, rows.time[own]), rows.cause[own]
        u = np.zeros(len(rows.time))
        u[own] = np.where(cause > 0, per[place, np.maximum(cause - 1, 0)], 0.0) - passed[place]
        return rows.moved_by(u)

    def of_logarithm(self, time: float) -> Influence:
        """Return that of the logarithm of survival at a time."""
        past = self.sets.times <= time
        c = np.where(past, -1.0 / self._stay, 0.0)
        return self.influence(np.repeat(c[:, None], self.rows.causes, axis=1))

    def of_incidence(self, cause: int, time: float) -> Influence:
        """Return that of the incidence of a cause at a time."""
        curves, past = self.sets.curves, self.sets.times <= time
        F = curves.incidence[:, cause]
        end = F[past][-1] if past.any() else 0.0
        later = np.where(past, ratio(end - F, self._stay, where=np.isfinite(self._stay), other=0.0), 0.0)
        c = np.repeat(-later[:, None], self.rows.causes, axis=1)
        c[:, cause] += np.where(past, np.append(1.0, curves.survival[:-1]), 0.0)
        return self.influence(c)

    def of_mean(self, upto: float) -> Influence:
        """Return that of the restricted mean."""
        times, S = self.sets.times, self.sets.curves.survival
        inside = times < upto
        areas = S[inside] * np.diff(np.append(times[inside], upto))
        c = np.zeros(len(times))
        after = np.cumsum(areas[::-1])[::-1]
        c[inside] = np.where(after > 0.0, -after / self._stay[inside], 0.0)
        return self.influence(np.repeat(c[:, None], self.rows.causes, axis=1))

    def errors(self, times: FloatArray, cause: int | None = None) -> FloatArray:
        """Return standard errors at times (m,): of the logarithm of survival, or of the incidence of a cause."""
        found = []
        for time in times.tolist():
            moved = self.of_logarithm(time) if cause is None else self.of_incidence(cause, time)
            found.append(self.rows.covariance(moved, moved))
        return np.asarray(np.sqrt(np.array(found)), dtype=np.float64)

"""Spells behind the wall: scores, losses and curvatures of each person, from that person's spells alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats.losses.hazard import CappedTerms
from hdpstats.losses.links import logit_losses
from hdpstats.mechanisms.person_loss.base import People
from hdpstats.solvers import CappedSpells, HazardObjective
from hdpstats.solvers.kernels import row_products

NUMBERS = 2**20
"""Numbers of Hessians that are held at a time, however many people there are and however many spells one brings."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class HazardPeople(People):
    """Spells behind the wall; ``person`` (m,) says whose each is, 0 to ``number`` - 1."""

    spells: CappedSpells
    person: IntArray
    number: int

    @property
    def count(self) -> int:
        """The number of people."""
        return self.number

    def objective(self, *, ridge: FloatArray, centre: FloatArray, linear: FloatArray) -> HazardObjective:
        """Return the penalised, perturbed sum of losses."""
        return HazardObjective(spells=self.spells, ridge=ridge, centre=centre, linear=linear)

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each person's weighted loss (people, D), from that person's spells alone.

        To the last bit: sums run over intervals and features in their order, one elementwise operation at a time. A
        matrix product would depend on where in the table a person stands.
        """
        whole = self.spells
        of_spells = np.zeros((len(whole.Z), whole.causes * whole.block))
        for cause in range(whole.causes):
            self._add_scores(of_spells[:, cause * whole.block : (cause + 1) * whole.block], theta, cause)
        out = np.zeros((self.number, of_spells.shape[1]))
        np.add.at(out, self.person, whole.weights[:, None] * of_spells)
        return out

    def _add_scores(self, out: FloatArray, theta: FloatArray, cause: int) -> None:
        """Add the unweighted scores of a cause (0-based) to the spells' block of coefficients (m, e + p)."""
        whole, e = self.spells, self.spells.A.shape[1]
        slope = np.zeros(len(whole.Z))
        for s, here, cells, ends in self._periods(theta, cause):
            score = np.where(ends, -cells.event, cells.survived)
            slope[here] += score
            for j, feature in enumerate(whole.A[s].tolist()):
                out[here, j] += feature * score
        out[:, e:] += slope[:, None] * whole.Z

    def _periods(self, theta: FloatArray, cause: int) -> Iterator[tuple[int, IntArray, CappedTerms, BoolArray]]:
        """Yield every interval (0-based) with the spells at risk in it, their losses and whether each ends in an event.

        The losses are those of a cause (0-based).
        """
        for s, here, eta, log_cap, ends in self._places(theta, cause):
            yield s, here, self.spells.loss.cells(eta, log_cap), ends

    def _places(
        self, theta: FloatArray, cause: int
    ) -> Iterator[tuple[int, IntArray, FloatArray, FloatArray, BoolArray]]:
        """Yield every interval (0-based) with the spells at risk in it, predictors, log caps and ends in events."""
        whole, e = self.spells, self.spells.A.shape[1]
        part = theta[cause * whole.block : (cause + 1) * whole.block]
        level = row_products(whole.Z, part[e:]) + whole.offset
        caps = row_products(whole.Z, whole.cap_slopes[cause]) + whole.offset
        for s, baseline in enumerate(row_products(whole.A, part[:e]).tolist()):
            here = np.flatnonzero((whole.entry <= s) & (s < whole.last))
            log_cap = whole.loss.caps(whole.cap_baseline[cause, s] + caps[here], whole.margin)
            ends = (whole.last[here] == s + 1) & (whole.cause[here] == cause + 1)
            yield s, here, baseline + level[here], log_cap, ends

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return each person's weighted loss (people,), for the logit link."""
        whole = self.spells
        of_spells = np.zeros(len(whole.Z))
        for cause in range(whole.causes):
            for _, here, eta, log_cap, ends in self._places(theta, cause):
                survived, event = logit_losses(eta, log_cap)
                of_spells[here] += np.where(ends, event, survived)
        out = np.zeros(self.number)
        np.add.at(out, self.person, whole.weights * of_spells)
        return out

    def stacked_hessian(self, theta: FloatArray, *, grid: float) -> IntArray:
        """Return the stacked sum of the people's Hessians, each rounded to multiples of ``grid`` before it is added.

        What is rounded depends on the own person alone, to the last bit: see `scores`.
        """
        (i, j), D = np.triu_indices(len(theta)), len(theta)
        factor = np.where(i == j, 1.0, math.sqrt(2.0)) / grid
        total, size = np.zeros(len(i), dtype=np.int64), max(1, NUMBERS // D**2)
        for first in range(0, self.number, size):
            start, stop = np.searchsorted(self.person, [first, first + size]).tolist()
            matrices = np.zeros((min(size, self.number - first), D, D))
            for begin in range(start, stop, size):
                part = slice(begin, min(begin + size, stop))
                some = replace(self, spells=self.spells.take(part), person=self.person[part])
                np.add.at(matrices, some.person - first, some._hessians(theta))
            total += np.rint(matrices[:, i, j] * factor).astype(np.int64).sum(axis=0)
        return total

    def _hessians(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of each spell's weighted loss (m, D, D)."""
        Z, e, block = self.spells.Z, self.spells.A.shape[1], self.spells.block
        out = np.zeros((len(Z), len(theta), len(theta)))
        for cause in range(self.spells.causes):
            plain, first, second = self._curvature_moments(theta, cause)
            i, j, k = cause * block, cause * block + e, (cause + 1) * block
            cross = first[:, :, None] * Z[:, None, :]
            out[:, i:j, i:j] = second
            out[:, i:j, j:k] = cross
            out[:, j:k, i:j] = np.swapaxes(cross, 1, 2)
            out[:, j:k, j:k] = plain[:, None, None] * (Z[:, :, None] * Z[:, None, :])
        return out

    def _curvature_moments(self, theta: FloatArray, cause: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return every spell's weighted sums of the curvatures times 1, ``A_s`` and ``A_s A_s'``."""
        whole, (m, e) = self.spells, (len(self.spells.Z), self.spells.A.shape[1])
        plain, first, second = np.zeros(m), np.zeros((m, e)), np.zeros((m, e, e))
        for s, here, cells, ends in self._periods(theta, cause):
            curvature = whole.weights[here] * np.where(ends, cells.event_curvature, cells.survived_curvature)
            plain[here] += curvature
            features = [(j, feature) for j, feature in enumerate(whole.A[s].tolist()) if feature]
            for j, feature in features:
                first[here, j] += feature * curvature
                for k, other in features:
                    second[here, j, k] += feature * other * curvature
        return plain, first, second

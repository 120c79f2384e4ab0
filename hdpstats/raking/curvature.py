"""Curvature over raked people: what the public side of a model must know of it, and sums over their rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.public.moments import Moments, PublicSide, mean_of
from hdpstats.public.squares import weighted_squares
from hdpstats.raking.people import WhitenedPeople
from hdpstats.raking.raking import PublicVariables, RakedPeople


class RakeableSide(PublicSide, ABC):
    """A public side whose people can be re-weighted and re-scaled to what was released about private ones."""

    @property
    @abstractmethod
    def variables(self) -> PublicVariables | None:
        """The people by variables, one row each; None where `raked_moments` has no proof or no measured coverage."""

    @property
    @abstractmethod
    def covariates(self) -> IntArray:
        """The coordinates of slopes, of all causes."""

    @property
    def taken_from_outcomes(self) -> str:
        """What `raked_moments` takes from public outcomes, in a sentence; empty where it takes nothing."""
        return ""

    @abstractmethod
    def whitened(self, people: RakedPeople) -> WhitenedPeople:
        """Return raked public people in the side's geometry."""

    @abstractmethod
    def as_raked(self, people: WhitenedPeople) -> Self:
        """Return raked people (the first draw of them) in place of public ones, with their weights as case weights.

        Everybody keeps the residual, or how long the follow-up was.
        """

    @abstractmethod
    def raked_moments(self, theta: FloatArray, *, records: float, people: WhitenedPeople) -> Moments:
        """Return ``H`` and ``J`` (B, D, D) of ``records`` private people who are raked public ones; see `raked`."""

    def raked_over(self, places: Sequence[FloatArray], *, records: float, people: WhitenedPeople) -> Moments:
        """Return the mean (B, D, D) of `raked_moments` at some coefficients (D,).

        Sums over people are linear in the curvature of their rows: a side that computes it first has one sum for all.
        """
        return mean_of([self.raked_moments(each, records=records, people=people) for each in places])

    def raked_hessian(self, places: Sequence[FloatArray], *, records: float, people: WhitenedPeople) -> FloatArray:
        """Return ``H`` of `raked_over`, to the bit."""
        return self.raked_over(places, records=records, people=people).H

    def raked_hessian_change(self, theta: FloatArray, steps: FloatArray, *, people: WhitenedPeople) -> FloatArray:
        """Return ``sum_k {H(theta + s_k) - H(theta - s_k)} s_k`` (B, D) per record, for steps (k, D).

        It is computed from `raked_hessian`; a side whose curvature rests on no outcomes does without matrices.
        """
        changes = []
        for step in steps:
            ahead, back = (self.raked_hessian([at], records=1.0, people=people) for at in (theta + step, theta - step))
            changes.append((ahead - back) @ step)
        return np.asarray(sum(changes))


def rakeable(side: PublicSide | None) -> RakeableSide | None:
    """Return a side whose people can be raked and are known by variables; None for others."""
    return side if isinstance(side, RakeableSide) and side.variables is not None else None


def raked(people: WhitenedPeople, curvature: FloatArray, square: FloatArray) -> Moments:
    """Return `raked_sums` for the curvature and the squared score (B, n) of people's rows.

    So ``H`` is positive definite, though raked people may not vary along some direction. Where the two are the same, as
    those of a likelihood whose people all count alike, so are ``H`` and ``J``.
    """
    same = np.array_equal(curvature, square)
    H, *others = raked_sums(people, np.stack([curvature] if same else [curvature, square]))
    return Moments(H=H, J=others[0] if others else H)


def raked_sums(people: WhitenedPeople, factors: FloatArray) -> list[FloatArray]:
    r"""Return weighted sums of ``c x x'`` (B, D, D) for each of some factors ``c`` (k, B, n) of people's rows.

    They are shrunk by :math:`n_e / (n_e + D)`, :math:`n_e = 1 / \sum_i w_i^2`, towards `rounded`
    :math:`G = \sum_i w_i x_i x_i'` times the ratio of the slopes' traces, with the intercept's own entry: as if
    curvature did not depend on covariates.
    """
    return [_shrunk(people, whole) for whole in weighted_squares(people.X, people.weights * factors)]


def raked_meat(people: WhitenedPeople, scores: FloatArray, others: FloatArray | None = None) -> FloatArray:
    """Return the weighted sum (B, D, D) of outer products of people's scores, from those of rows (B, n, D), shrunk.

    With ``others`` (B, n, D) products are of the ones with the others.
    """
    one, weights = people.added(scores), people.of_people(people.weights)
    other = one if others is None else people.added(others)
    return _shrunk(people, np.swapaxes(one * weights[:, :, None], 1, 2) @ other)


def _shrunk(people: WhitenedPeople, whole: FloatArray) -> FloatArray:
    """Return sums (B, D, D) shrunk as `raked_sums` says."""
    slopes, level = people.slopes, np.ones(len(whole))
    if whole[:, slopes, slopes].size:
        level = np.trace(whole[:, slopes, slopes], axis1=1, axis2=2) / np.trace(
            people.squares[:, slopes, slopes], axis1=1, axis2=2
        )
    target = level[:, None, None] * people.rounded
    target[:, : slopes.start, : slopes.start] = whole[:, : slopes.start, : slopes.start]
    return np.asarray(people.share * whole + (1.0 - people.share) * target)

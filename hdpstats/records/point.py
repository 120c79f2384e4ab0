"""What queries have in common that release coefficients at once, and their releases."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TypeVar

import numpy as np

from hdpstats._base.errors import MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import check_size
from hdpstats.records.limits import MOST_COEFFICIENTS, MOST_WITH_HESSIAN
from hdpstats.records.model import AnyModel
from hdpstats.records.query import ChargedQuery, ChargedRelease

_Q = TypeVar("_Q", bound="PointQuery")


@dataclass(frozen=True, kw_only=True, slots=True)
class MinimiserQuery(ChargedQuery, ABC):
    """Release a point near the minimiser of a penalised sum of losses, whatever the losses are of.

    It has at most 2000 coefficients, 150 with a noisy Hessian (`hdpstats.records.limits`).

    Attributes
    ----------
    centre : tuple of float
        Where the ridge pulls to, in whitened coordinates (D,).
    ridge : Fraction
        The ridge ``lambda`` (sum scale), the same in every whitened direction.
    delta : Fraction
        Above 0 where the noise has no pure guarantee.
    hessian_share : Fraction
        The share of epsilon that is spent on a noisy Hessian for standard errors; with 0 there is none.
    """

    centre: tuple[float, ...]
    ridge: Fraction
    hessian_share: Fraction = Fraction(0)

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coefficients."""

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself, or is too large."""
        check_size("coefficients", self.dimension, MOST_COEFFICIENTS, remedy="take fewer terms, levels or causes")
        if self.hessian_share:
            remedy = "take fewer terms, or standard errors from public rows: hessian_share=0"
            check_size("coefficients with a noisy Hessian", self.dimension, MOST_WITH_HESSIAN, remedy=remedy)
        if len(self.centre) != self.dimension:
            raise MechanismError(f"the centre must have {self.dimension} numbers, not {len(self.centre)}")
        if not all(abs(value) < 1e12 for value in self.centre):
            raise MechanismError("the centre must hold finite numbers")
        if not (self.ridge > 0 and 0 < self.epsilon <= 10**6 and 0 <= self.hessian_share <= Fraction(9, 10)):
            raise MechanismError("the query needs ridge > 0, 0 < epsilon <= 1e6 and a Hessian's share from 0 to 0.9")
        if not 0 <= self.delta < 1:
            raise MechanismError("the query needs a delta in [0, 1)")
        if max(each.denominator for each in (self.epsilon, self.delta, self.hessian_share)) > 10**30:
            raise MechanismError("epsilon, delta and the Hessian's share must be fractions of at most 30 digits")
        if not Fraction(1, 10**60) <= self.ridge <= 10**60:
            raise MechanismError("the ridge must be in [1e-60, 1e60]: beyond, the solver's certificates overflow")
        if Fraction(float(self.ridge)) != self.ridge:
            raise MechanismError("the ridge must be a binary64 number, so that every site solves the same problem")


@dataclass(frozen=True, kw_only=True, slots=True)
class PointQuery(MinimiserQuery, ABC):
    """Release coefficients of a model, near the minimiser of a penalised sum of losses.

    Attributes
    ----------
    model : AnyModel
        What is fitted.
    """

    model: AnyModel

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.model.dimension

    def asked_as(self, kind: type[_Q], **changes: object) -> _Q:
        """Return a query of another kind about the same minimiser, with changes."""
        same = {each.name: getattr(self, each.name) for each in fields(PointQuery)}
        return kind(**(same | changes))


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRelease(ChargedRelease, ABC):
    """Released coefficients. Everything but ``theta`` and ``hessian`` is a public constant.

    Attributes
    ----------
    theta : tuple of float
        The coefficients in whitened coordinates (D,), every number a multiple of ``grid``.
    hessian : tuple of float or None
        The noisy weighted Hessian at ``theta``, stacked by columns of its upper triangle, or None.
    noise_rate : float
        Rate of K-norm noise, density proportional to ``exp(-rate K(b))``; 0 for other noise.
    noise_sd : float
        Standard deviation of normal noise in each coordinate; 0 for other noise.
    hessian_noise_sd : float
        Standard deviation of each coordinate of the stacked Hessian's noise (0 without a Hessian).
    grid : float
        The lattice of ``theta`` (a power of two).
    records : int
        The number of people: public under replace-one, else declared.
    """

    theta: tuple[float, ...]
    hessian: tuple[float, ...] | None
    noise_rate: float
    noise_sd: float = 0.0
    hessian_noise_sd: float
    grid: float
    records: int


def unstack(stacked: FloatArray, dimension: int) -> FloatArray:
    """Return the symmetric matrix (D, D) of a stacked Hessian."""
    i, j = np.triu_indices(dimension)
    matrix = np.zeros((dimension, dimension))
    matrix[i, j] = stacked / np.where(i == j, 1.0, math.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T

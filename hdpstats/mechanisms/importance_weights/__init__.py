r"""Weights of public rows from a density ratio: a logistic regression of who is private.

Objective perturbation in which only private rows are protected. Guarantee: pure epsilon. Source: Ji and Elkan (2013),
corrected. Use: a weighted public sample with many columns, or continuous ones.
Proof: `hdpstats.mechanisms.importance_weights.site`.

What a density ratio is about: a one-sided formula and a public coding of its columns.

The log ratio of the densities of private and of public rows is modelled as :math:`\beta'x` with the coded row ``x``.
The coefficients are those of a logistic regression of who is private, by objective or by output perturbation; the
query names the public rows by their hash, and the site knows them.

* ``coding``: How the columns of a density ratio are coded, from public rows and declarations.
* ``estimate``: Weights from a released density ratio, and the distribution of their errors.
* ``request``: The query of importance weights: coding, ridge and noise, all from public rows and declarations.
* ``site``: Coefficients of a density ratio: a logistic regression of who is private, in which only private rows are
  protected.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats.records.codec import LEFT_OUT, Record
from hdpstats.records.geometry import Geometry
from hdpstats.records.query import MinimiserQuery

MOST_COLUMNS = 500


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnBox:
    r"""A public coding of design columns in which each is bounded on its own, for columns of zeros and ones.

    A row ``x`` of the design becomes :math:`u_j = (x_j - m_j) / s_j` and has the weight

    .. math:: w(u) = \min\{1,\; \text{upper}_j / u_j \;(u_j > 0),\; \text{lower}_j / u_j \;(u_j < 0)\},

    the largest one with :math:`w u_j \in [\text{lower}_j, \text{upper}_j]` for all columns: rows beyond the box are
    weighted down, a function of the covariates only, never clipped and never dropped.

    Attributes
    ----------
    location, scale : tuple of float
        ``m`` and ``s`` (d,).
    lower, upper : tuple of float
        The box (d,); it holds 0.
    intercept : bool
        Whether a column of ones comes first.
    """

    kind: ClassVar[str] = "box"
    location: tuple[float, ...]
    scale: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    intercept: bool

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit, and numbers beyond which weights are not exact to their last digits."""
        if len({len(self.location), len(self.scale), len(self.lower), len(self.upper)}) != 1:
            raise MechanismError("a box must have as many locations as scales, lower and upper bounds")
        if not all(math.isfinite(value) and abs(value) <= 1e15 for value in self.location):
            raise MechanismError("a box must have finite locations below 1e15")
        if not all(1e-15 <= value <= 1e15 for value in self.scale):
            raise MechanismError("a box must have scales in [1e-15, 1e15]")
        for low, high in zip(self.lower, self.upper, strict=True):
            if not (-1e6 <= low <= 0.0 <= high <= 1e6 and high - low >= 1e-6):
                raise MechanismError("a box must hold 0 and have sides from 1e-6 to 2e6")

    @property
    def dimension(self) -> int:
        """``D``: the number of coefficients, intercept included."""
        return len(self.location) + int(self.intercept)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DensityRatioModel(Record):
    """The log ratio of the densities of private and of public rows, linear in coded columns.

    Attributes
    ----------
    formula : str
        A one-sided formula, read again by the site against its own schema.
    columns : tuple of str
        The columns of its design that take part, without the intercept: those that vary in public rows.
    coding : Geometry or ColumnBox
        How they are coded.
    complete : int or None
        The noisy number of private rows that are complete in the formula's columns, which public rows weigh together;
        None where the schema declares that all are.
    """

    kind: ClassVar[str] = "density ratio"
    formula: str
    columns: tuple[str, ...]
    coding: Geometry | ColumnBox
    complete: Annotated[int | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse a coding of other columns."""
        if not 1 <= len(self.columns) <= MOST_COLUMNS or len(set(self.columns)) != len(self.columns):
            raise MechanismError(f"a density ratio needs 1 to {MOST_COLUMNS} different columns")
        if len(self.coding.location) != len(self.columns):
            raise MechanismError(f"the coding must have {len(self.columns)} locations, one per column")

    @property
    def dimension(self) -> int:
        """The number of coefficients, intercept included."""
        return self.coding.dimension


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ImportanceWeightsQuery(MinimiserQuery):
    """Release the coefficients of a log density ratio of private to public rows.

    Answered by an `ObjectiveRelease` or an `OutputRelease`.

    Attributes
    ----------
    model : DensityRatioModel
        The columns and their coding.
    perturbs : str
        What noise is added to: "objective" or "output".
    """

    kind: ClassVar[str] = "importance_weights/1"
    model: DensityRatioModel
    perturbs: str

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return self.model.dimension

    @property
    def smooths(self) -> bool:
        """Whether noise enters the objective."""
        return self.perturbs == "objective"

    def __post_init__(self) -> None:
        """Refuse a query that contradicts itself."""
        MinimiserQuery.__post_init__(self)
        if self.perturbs not in ("objective", "output"):
            raise MechanismError("the noise of a density ratio is added to the 'objective' or to the 'output'")
        if self.for_errors or self.public_sha256 is None:
            raise MechanismError("a density ratio names its public rows, which give its Hessian: it releases none")

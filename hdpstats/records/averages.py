r"""What is known of a private cohort: averages of its variables over complete people, with the noise in them.

Averages are of *variables of the schema*, not of columns of a design: interactions, splines and transforms follow from
variables. With ``x`` the value of a variable, coerced as the schema says, and expectations over the private people who
count (who are complete in all variables of the description; weighted by their case weights where there are any):

* **share** of a level of a categorical variable, or of 1 of a binary one: :math:`E\,1\{x = \text{level}\}`. All levels
  but one, whichever that is, as the last one follows.
* **mean** of a number, clipped to public bounds: :math:`E\,u`, :math:`u = \min\{\max(x, lower), upper\}`.
* **square** of the same clipped number about a public centre: :math:`E (u - centre)^2`.
* **product** of two of these about public centres, each in a public unit and cut to public bounds (`CentredColumn`):
  :math:`E \min\{\max(t_1 t_2, -c), c\}`. It tells a correlation.
* **at risk** after a public time: the share of people whose follow-up, whether it ends with an event or with
  censoring, ends after that time.
* **rows**, of people with several: the share of people whose number of complete rows is in a public group of numbers.
  Averages of variables are then over all of a person's rows, which weigh as the model says
  (`hdpstats.families.several_rows`), and so are these shares.

Each is released with noise: a number divided by the (perhaps noisy) number of people, with the standard deviation of
the noise in the quotient. Sampling of the people is not counted in it: the people are those whose likelihood was
perturbed. Nothing here is private.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, final

import numpy as np
import numpy.typing as npt

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.records.codec import LEFT_OUT, Record


class MomentKind(StrEnum):
    """What an average is of."""

    SHARE = "share"
    MEAN = "mean"
    SQUARE = "square"
    AT_RISK = "at risk"
    ROWS = "rows"


NUMBER_OF_ROWS: Final = "number of rows"
"""What averages of kind `MomentKind.ROWS` are of."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CohortMoment(Record):
    """One average over the people of a cohort.

    Attributes
    ----------
    variable : str
        The variable; of people at risk, the column of times.
    what : MomentKind
        What is averaged.
    value : float
        The average as released: not cut to where it must lie.
    noise_sd : float
        The standard deviation of the privacy noise in it; 0 where it is exact.
    level : int
        Of a share: the place of the level among the declared ones, 1 for a binary variable; of rows the place of the
        group. Otherwise 0.
    lower, upper : float
        Of rows: ``upper`` is the largest number in the group. Of a mean and a square: the bounds that numbers were
        clipped to, in the variable's unit; those that the schema declares, or narrower ones.
    centre : float
        Of a square: what it is taken about, in the variable's unit.
    time : float
        Of people at risk: the time, in the variable's unit.
    """

    variable: str
    what: MomentKind
    value: float
    noise_sd: float
    level: int = 0
    lower: float = 0.0
    upper: float = 1.0
    centre: float = 0.0
    time: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that are none."""
        numbers = (self.value, self.noise_sd, self.lower, self.upper, self.centre, self.time)
        if not all(map(math.isfinite, numbers)) or self.noise_sd < 0 or not self.lower < self.upper or self.level < 0:
            raise ArgumentError(
                f"the {self.what} of {self.variable!r} needs finite numbers, lower < upper and noise_sd and level >= 0",
                argument="moments",
            )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CentredColumn(Record):
    r"""A number, or the indicator of a level, about a public centre in a public unit: public constants.

    A person whose value is ``v`` has :math:`t = (v - centre) / unit`, cut to a reach that is said elsewhere.

    Attributes
    ----------
    name : str
        The column.
    centre, unit : float
        Of the number in its own unit, or of the indicator.
    level : int or None
        The place of the level whose indicator is meant; None, which JSON leaves out, for a number.
    """

    name: str
    centre: float
    unit: float
    level: Annotated[int | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse what is no number, and no unit."""
        if not (math.isfinite(self.centre) and math.isfinite(self.unit) and self.unit > 0):
            raise ArgumentError(f"{self.name!r} needs a finite centre and a unit above 0", argument="columns")
        if self.level is not None and self.level < 0:
            raise ArgumentError(f"a level of {self.name!r} must be 0 or more", argument="columns")

    def of(self, cells: npt.NDArray[np.generic], *, reach: float) -> FloatArray:
        """Return ``t`` for cells (n,), numbers or codes of levels: a total map, cell by cell."""
        values = cells.astype(np.float64) if self.level is None else (cells == self.level).astype(np.float64)
        return np.asarray(np.clip((values - self.centre) / self.unit, -reach, reach))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CohortProduct(Record):
    """The average of a product of two columns over the people of a cohort.

    Attributes
    ----------
    first, second : CentredColumn
        The columns.
    reach, largest : float
        What each factor, and the product, is cut to, up and down.
    value, noise_sd : float
        The average as released, and the standard deviation of the privacy noise in it.
    """

    first: CentredColumn
    second: CentredColumn
    reach: float
    largest: float
    value: float
    noise_sd: float

    def of(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return cut products of two cut factors."""
        return np.asarray(np.clip(first * second, -self.largest, self.largest))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CohortMoments(Record):
    """What was released about the private people of one site who count in a fit.

    Attributes
    ----------
    people : float
        Their number, or with case weights the total of these (in the weights' unit): released or public.
    people_sd : float
        The standard deviation of the noise in it; 0 where it is public.
    moments : tuple of CohortMoment
        The averages; at most one of a kind for each variable, and for shares of each level, for people at risk of each
        time.
    weighted : bool
        Whether people count with their case weights.
    rows, rows_sd : float or None
        Of people with several rows: the number of rows that count, and the standard deviation of the noise in it.
    release_sha256 : str
        The hash of the release that all of it was read from: draws of what the noise leaves open follow from it.
    products : tuple of CohortProduct
        Averages of products of two columns; none where they were not asked for.
    """

    people: float
    people_sd: float
    moments: tuple[CohortMoment, ...]
    weighted: bool = False
    release_sha256: str
    products: tuple[CohortProduct, ...] = ()
    rows: Annotated[float | None, LEFT_OUT] = None
    rows_sd: Annotated[float | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse a cohort of nobody, and averages of the same twice."""
        if not (math.isfinite(self.people) and self.people > 0 and math.isfinite(self.people_sd)) or self.people_sd < 0:
            raise ArgumentError("people must be above 0, with a people_sd from 0 on", argument="people")
        keys = [(moment.variable, moment.what, moment.level, moment.time) for moment in self.moments]
        if len(set(keys)) < len(keys):
            raise ArgumentError("moments must be of different kinds, levels, times or variables", argument="moments")

    def of(self, what: MomentKind) -> tuple[CohortMoment, ...]:
        """Return the averages of one kind, in their order."""
        return tuple(moment for moment in self.moments if moment.what == what)

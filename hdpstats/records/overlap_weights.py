r"""How people are weighted by their chance of treatment: overlap weights at public coefficients.

With :math:`e(x) = 1 / (1 + e^{-x'\alpha})`, the chance of treatment of a person with the covariates ``x``, a treated
person weighs :math:`1 - e(x)` and an untreated one :math:`e(x)` (Li, Morgan and Zaslavsky 2018). The weighted people
are those whose treatment was in doubt: comparisons of the weighted groups are about them. A weight lies in [0, 1]
whatever the coefficients, so that one person moves a weighted sum by no more than an unweighted one.

The coefficients are numbers that were released before, or that follow from such: the record is public.

References
----------
F. Li, K. L. Morgan, A. M. Zaslavsky (2018), Balancing covariates via propensity score weighting, JASA 113, 390-400.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats._base.errors import MechanismError
from hdpstats._base.validation import check_size
from hdpstats.records.codec import Record

MOST_COEFFICIENTS = 500


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OverlapWeights(Record):
    """Overlap weights at public coefficients of a logistic propensity model.

    Attributes
    ----------
    formula : str
        ``"treatment ~ covariates"``; a site reads it against its own schema.
    columns : tuple of str
        The columns that it reads, the treatment first.
    coefficients : tuple of float
        Of the columns of its design, in their order.
    """

    kind: ClassVar[str] = "overlap"
    formula: str
    columns: tuple[str, ...]
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse coefficients that are no numbers of use."""
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise MechanismError("weights need the columns that they read, each once and the treatment first")
        check_size("coefficients", len(self.coefficients), MOST_COEFFICIENTS, remedy="take fewer terms or levels")
        if not (self.coefficients and all(math.isfinite(value) and abs(value) < 1e12 for value in self.coefficients)):
            raise MechanismError("weights need one coefficient or more, all of them finite numbers below 1e12")


DIGITS = 24
"""Binary digits of a coefficient in a query: far more than noise leaves, and the same on every machine."""


def rounded(value: float) -> float:
    """Return a number with `DIGITS` binary digits.

    >>> rounded(1.0), abs(rounded(0.1) - 0.1) < 1e-8
    (1.0, True)
    """
    part, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(part, DIGITS)), exponent - DIGITS)

r"""How several rows of a person count in a regression: weights that follow from their number alone.

Person ``i`` has ``n_i`` complete rows among the at most ``m`` that are used (`AdmittedTable.used`). With the public
function

.. math:: w(n) = 1 / \{1 + (n - 1) r\}, \qquad 0 \le r \le 1,

the estimating equation is :math:`\sum_i w(n_i) \sum_j \psi(y_{ij}, x_{ij}'\theta)\, x_{ij} = 0`: a marginal model, by
generalised estimating equations with an independence working correlation and weights of clusters (Liang and Zeger 1986;
Williamson, Datta and Satten 2003; Seaman, Pavlou and Copas 2014). With ``r = 0`` every row counts the same, with
``r = 1`` every person. Where the outcome does not depend on ``n`` given the covariates both estimate the same
coefficients, and else those of the average row, and of the average person.

**What one person can change.** :math:`n w(n)` increases with ``n``, so that the weights of a person's rows add up to at
most

.. math:: W = m / \{1 + (m - 1) r\} \le \min(m, 1/r).

A person's score lies in ``W`` times the convex hull of 0 and the scores of a row: every bound on a gradient, in any
norm, is ``W`` times that of a row. So is that on the trace of the Hessian, a sum of those of rows; its rank is at most
``m``. A row with a missing cell is left out before ``n`` is counted, by a total map of that person's rows, and is
within all bounds. With ``r = 0`` all of it is group privacy of rows.

**Errors without public people.** A person's score is a weighted sum of the rows' ones. By the inequality of Cauchy and
Schwarz its outer product is at most ``W`` times the weighted sum of those of rows: so the covariance of scores is at
most ``W`` times what it would be for single rows, whatever the correlation of a person's outcomes.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import BoolArray, FloatArray, IntArray
from hdpstats._base.validation import real


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SeveralRows:
    """How rows of a person count: public facts.

    Attributes
    ----------
    most_rows : int
        ``m``, above 1.
    correlation : float
        ``r``.
    """

    most_rows: int
    correlation: float

    @property
    def total(self) -> Fraction:
        """``W``."""
        return total_weight(self.most_rows, self.correlation)


NAMED: Final = {"person": 1.0, "independence": 0.0}
"""The values of ``correlation=`` that have names."""


def checked_correlation(correlation: object, *, most_rows: int) -> float | None:
    """Return ``r``, or None where every row is a person; refuse what is neither one of `NAMED` nor in [0, 1]."""
    named = NAMED.get(correlation) if isinstance(correlation, str) else None
    if isinstance(correlation, str) and named is None:
        words = ", ".join(map(repr, NAMED))
        raise ArgumentError(
            f"correlation must be {words} or a number from 0 to 1, not {correlation!r}", argument="correlation"
        )
    r = real(correlation, name="correlation", lower=0.0, upper=1.0) if named is None else named
    if most_rows == 1:
        if correlation != "person":
            raise ArgumentError(
                "correlation is for people with several rows: give the study unit= and max_rows_per_unit= above 1",
                argument="correlation",
            )
        return None
    return r


def total_weight(most_rows: int, correlation: float | None) -> Fraction:
    """Return ``W``, exactly.

    >>> total_weight(6, 0.25), total_weight(6, 1.0), total_weight(1, None)
    (Fraction(8, 3), Fraction(1, 1), Fraction(1, 1))
    """
    return Fraction(1) if correlation is None else most_rows / (1 + (most_rows - 1) * Fraction(correlation))


def row_weights(persons: IntArray, complete: BoolArray, correlation: float) -> FloatArray:
    """Return ``w(n)`` of each row (n,), by the number of complete rows of its person; 0 of incomplete ones.

    >>> row_weights(np.array([0, 0, 1, 1]), np.array([True, True, True, False]), 0.5).round(3).tolist()
    [0.667, 0.667, 1.0, 0.0]
    """
    numbers = np.bincount(persons, weights=complete)[persons] if len(persons) else np.zeros(0)
    return np.asarray(complete / (1.0 + (np.maximum(numbers, 1.0) - 1.0) * correlation))


def estimand(correlation: float) -> str:
    """Return in words whose coefficients are estimated.

    >>> estimand(1.0), estimand(0.0), estimand(0.3)
    ('the average person', 'the average row', 'between the average row and the average person, r = 0.3')
    """
    named = {1.0: "the average person", 0.0: "the average row"}
    return named.get(correlation, f"between the average row and the average person, r = {correlation:g}")

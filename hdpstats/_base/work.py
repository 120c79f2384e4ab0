r"""How much a computation does at most, counted beforehand from public facts, and what that takes.

A computation on private rows says what it does at most (`Operations`): a few counts, each of a kind of operation. They
follow from the query, the schema and the declared number of rows, and from nothing else. With the seconds that one
operation of each kind takes on a machine (`Prices`, measured on invented numbers), the computation takes no longer than

.. math:: \sum_k \mathrm{count}_k \times \mathrm{price}_k.

What is counted for a step is the most that it may be, whatever the rows are: a loop with its largest number of steps,
and of two ways to compute the same the longer one or both.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, final

Prices = Mapping[str, float]
"""Seconds of one operation of each kind, by the names of the attributes of `Operations`."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """Numbers of operations, by kind.

    Attributes
    ----------
    steps
        Operations of the interpreter, such as a call of an operation on arrays, however short these are.
    passes
        Numbers that simple operations on arrays write: sums, products, comparisons, copies.
    functions
        Numbers of which an exponential, a logarithm or a power is taken.
    products
        Multiplications with an addition, of rows with coefficients and of scores with rows.
    squares
        Multiplications with an addition, of matrices with matrices.
    cubes
        The cube of the size of a matrix whose eigenvalues are found.
    sorts
        Numbers to be sorted or looked up, times the binary logarithm of among how many.
    draws
        Exact random numbers, of one coordinate each.

    Examples
    --------
    >>> one = Operations(steps=2, passes=100)
    >>> one + 3 * one == Operations(steps=8, passes=400)
    True
    >>> one.seconds({"steps": 1e-6, "passes": 1e-9})
    2.1e-06
    """

    steps: float = 0.0
    passes: float = 0.0
    functions: float = 0.0
    products: float = 0.0
    squares: float = 0.0
    cubes: float = 0.0
    sorts: float = 0.0
    draws: float = 0.0

    def __add__(self, other: "Operations") -> "Operations":
        """Return the work of both."""
        return Operations(**{name: getattr(self, name) + getattr(other, name) for name in KINDS})

    def __rmul__(self, times: float) -> "Operations":
        """Return the work of so many times the same."""
        return Operations(**{name: times * getattr(self, name) for name in KINDS})

    def seconds(self, prices: Prices) -> float:
        """Return what it takes; kinds without a price take nothing."""
        return math.fsum(getattr(self, name) * prices.get(name, 0.0) for name in KINDS)


KINDS: Final = tuple(each.name for each in fields(Operations))
"""The kinds of operations."""


def sorting(count: float, among: float | None = None) -> float:
    """Return what is counted in `Operations.sorts` for so many numbers, sorted or looked up ``among`` so many.

    >>> sorting(8), sorting(10, 2)
    (24.0, 10.0)
    """
    return count * max(math.log2(max(count if among is None else among, 2.0)), 1.0)

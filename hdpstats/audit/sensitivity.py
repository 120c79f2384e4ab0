"""A search for the neighbours between which a statistic moves most, against the claim that noise was scaled to.

Any function of a data frame may be searched. A search that finds more than the claim refutes it; one that finds the
claim shows that no smaller one is true; one that finds less proves nothing.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, integer, real
from hdpstats.privacy.sensitivity import Relation

Statistic = Callable[[pd.DataFrame], npt.ArrayLike]

NORMS: Final[Mapping[str, Callable[[FloatArray], float]]] = {
    "l1": lambda v: float(np.sum(np.abs(v))),
    "l2": lambda v: float(np.linalg.norm(v)),
    "max": lambda v: float(np.max(np.abs(v), initial=0.0)),
}
"""Norms by name: of a vector of differences."""

_ENDS: Final = (0.0, 0.5, 1.0)
_STEPS: Final = (2.0**-3, 2.0**-5, 2.0**-8, 2.0**-12)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FoundSensitivity:
    """The two neighbouring data sets that a search found.

    Attributes
    ----------
    distance : float
        How far the statistic moves between them; infinite where it is no number on one of them.
    claim : float
        What was claimed.
    data, neighbour : DataFrame
        They differ in the last row of ``data``, which ``neighbour`` has another of, or lacks.
    """

    distance: float
    claim: float
    data: pd.DataFrame
    neighbour: pd.DataFrame

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted; rounding of doubles refutes nothing."""
        return self.distance > self.claim * (1.0 + 1e-9)

    @property
    def share(self) -> float:
        """The distance over the claim."""
        return self.distance / self.claim

    def __str__(self) -> str:
        word = "exceeds" if self.exceeds else "is within"
        return f"found {self.distance:.6g}, which {word} the claimed {self.claim:.6g} ({self.share:.4f} of it)"


def sensitivity_search(
    statistic: Statistic,
    *,
    box: Mapping[str, tuple[float, float] | Sequence[str]],
    claim: float,
    norm: str | Callable[[FloatArray], float] = "l2",
    relation: str = "replace_one",
    missing: bool = False,
    others: int = 2,
    tries: int = 256,
) -> FoundSensitivity:
    """Search for the neighbours between which a statistic moves most.

    Deterministic: corners of the box for the row that differs, a Sobol design over all rows, and from the best pair one
    cell after another to its bounds, its middle, each of its levels and missing, until nothing moves it further.

    Parameters
    ----------
    statistic
        From a frame to the number or numbers to which noise would be added. It must be the same function of the rows
        whenever it is called.
    box
        What each column may hold: ``(lower, upper)``, or a list of levels.
    claim
        The largest distance between neighbours that the noise was scaled to.
    norm
        ``"l1"``, ``"l2"``, ``"max"``, or a function of the vector of differences.
    relation
        ``"replace_one"`` or ``"add_or_remove_one"``.
    missing
        Whether cells may be missing (NaN, None).
    others
        How many rows both data sets have.
    tries
        The size of the design.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Examples
    --------
    >>> clipped = lambda frame: frame["x"].clip(0, 10).sum()
    >>> sensitivity_search(clipped, box={"x": (-100, 100)}, claim=10).share
    1.0
    >>> sensitivity_search(lambda frame: frame["x"].sum(), box={"x": (-100, 100)}, claim=10).exceeds
    True
    """
    claim = real(claim, name="claim", lower=0.0, open_lower=True)
    shared = integer(others, name="others", lower=0, upper=10_000)
    design = integer(tries, name="tries", lower=1, upper=10**6)
    between = Relation(choice(relation, name="relation", options=[member.value for member in Relation]))
    if not box:
        raise ArgumentError("box must name at least one column", argument="box")
    measure = norm if callable(norm) else NORMS[choice(norm, name="norm", options=list(NORMS))]
    search = _Search(statistic, dict(box), measure, between, shared, missing)
    return search.run(claim, design)


class _Search:
    """Cells are numbers of [0, 1], or NaN where missing: (others + 2, columns), the last two rows the ones apart."""

    def __init__(
        self,
        statistic: Statistic,
        box: dict[str, Any],
        measure: Callable[[FloatArray], float],
        relation: Relation,
        others: int,
        missing: bool,
    ) -> None:
        self._statistic, self._box, self._measure = statistic, box, measure
        self._relation, self._others, self._missing = relation, others, missing

    def run(self, claim: float, tries: int) -> FoundSensitivity:
        rows, width = self._others + 2, len(self._box)
        best, most = np.full((rows, width), 0.5), -math.inf
        for cells in itertools.chain(self._corners(rows, width, tries), self._design(rows, width, tries)):
            found = self._distance(cells)
            if found > most:
                best, most = cells, found
            if most == math.inf:
                break
        best, most = self._climb(best, most)
        one, two = self._frames(best)
        return FoundSensitivity(distance=most, claim=claim, data=one, neighbour=two)

    def _corners(self, rows: int, width: int, tries: int) -> Any:
        """Yield the first corners of the two rows that are apart; the others are in the middle."""
        ends = [*_ENDS, math.nan] if self._missing else list(_ENDS)
        for corner in itertools.islice(itertools.product(ends, repeat=2 * width), tries):
            yield np.array([*[[0.5] * width] * (rows - 2), corner[:width], corner[width:]])

    def _design(self, rows: int, width: int, tries: int) -> Any:
        from scipy.stats import qmc

        size = rows * width
        points = np.asarray(qmc.Sobol(size, scramble=False).random_base2(math.ceil(math.log2(tries + 1))))[1:]
        return (point.reshape(rows, width) for point in points)

    def _climb(self, cells: FloatArray, value: float) -> tuple[FloatArray, float]:
        moved = value < math.inf
        while moved:
            moved = False
            for place in reversed(list(np.ndindex(cells.shape))):
                for cell in self._values(place[1], float(cells[place])):
                    tried = cells.copy()
                    tried[place] = cell
                    found = self._distance(tried)
                    if found > value * (1.0 + 1e-12):
                        cells, value, moved = tried, found, True
        return cells, value

    def _values(self, column: int, cell: float) -> list[float]:
        declared = list(self._box.values())[column]
        if _is_interval(declared):
            near = [] if math.isnan(cell) else [cell + sign * step for step in _STEPS for sign in (1.0, -1.0)]
            values = [*_ENDS, *(value for value in near if 0.0 < value < 1.0)]
        else:
            values = [(k + 0.5) / len(declared) for k in range(len(declared))]
        return [*values, math.nan] if self._missing else values

    def _distance(self, cells: FloatArray) -> float:
        one, two = (np.atleast_1d(np.asarray(self._statistic(frame), dtype=float)) for frame in self._frames(cells))
        if one.shape != two.shape:
            return math.inf
        moved = self._measure(one - two)
        return moved if math.isfinite(moved) else math.inf

    def _frames(self, cells: FloatArray) -> tuple[pd.DataFrame, pd.DataFrame]:
        columns = {name: _column(declared, cells[:, k]) for k, (name, declared) in enumerate(self._box.items())}
        shared = list(range(len(cells) - 2))
        second = shared if self._relation is Relation.ADD_OR_REMOVE_ONE else [*shared, len(cells) - 1]
        one, two = (
            pd.DataFrame({name: column[rows] for name, column in columns.items()})
            for rows in ([*shared, len(cells) - 2], second)
        )
        return one, two


def _is_interval(declared: Any) -> bool:
    return len(declared) == 2 and not any(isinstance(end, str) for end in declared)


def _column(declared: Any, cells: FloatArray) -> npt.NDArray[Any]:
    if _is_interval(declared):
        lower, upper = map(float, declared)
        return np.asarray(lower + (upper - lower) * cells)
    levels = list(cast(Sequence[str], declared))
    places = [None if math.isnan(cell) else min(int(cell * len(levels)), len(levels) - 1) for cell in cells]
    return np.array([None if place is None else levels[place] for place in places], dtype=object)

"""Arguments checked before they are used: those that R gives by name, and those of reference fits.

Of arguments from R, only the shape is checked here. An argument of the wrong kind is quoted in the message of the
function that gets it; a table or a vector of many values could be somebody's data, and is refused before.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Final

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats.api import ArgumentError

_TABLES: Final = frozenset({"data", "public", "frame", "newdata", "at"})
"""Arguments that may be tables; the functions that get them never quote them."""

_LISTS: Final = frozenset({"private", "results"})
"""Arguments that may be tables or lists of anything; these are never quoted either."""

_VECTORS: Final = frozenset(
    {"columns", "levels", "knots", "times", "intervals", "probabilities", "between", "names", "cert"}
)
"""Arguments that may have several values, all of them declared or public, or names of files."""

_NAMED_VECTORS: Final = frozenset({"columns", "ranges"})
"""Arguments that are lists of such."""

_PER_SITE: Final = frozenset({"n_max", "row_order"})
"""Arguments that may have one value for each site, by its name."""

_COUNTS: Final = frozenset(
    {"replicate", "n", "df", "n_max", "max_rows_per_unit", "version", "rounds", "bins", "blocks", "quorum"}
)

_R_CLASSES: Final = {
    hdp.Study: "dp_study",
    hdp.RemoteSite: "dp_site",
    hdp.Result: "dp_result",
    hdp.Aggregate: "dp_aggregate",
    hdp.WeightedSample: "dp_weighted_sample",
}

_MOST_INTERVALS: Final = 10_000
_MOST_KNOTS: Final = 20


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in inspect.signature(function).parameters.values() if each.kind in kinds]


def check(function: Callable[..., Any], given: Iterable[str], *, name: str, also: Iterable[str] = ()) -> None:
    """Refuse arguments that a function does not have, and the lack of those that it needs.

    ``also`` are further names that ``name`` takes, for the message.

    Raises
    ------
    ArgumentError
        Which ones, and what the function takes.
    """
    parameters = inspect.signature(function).parameters.values()
    passed, known = set(given), argument_names(function)
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    unknown = [] if open_ended else sorted(passed - set(known))
    if unknown:
        takes = ", ".join([*also, *(each for each in known if each not in also)])
        raise ArgumentError(f"{name} has no argument {unknown[0]!r}; it takes {takes or 'none'}", argument=unknown[0])
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    absent = [each.name for each in required if each.name in known and each.name not in passed]
    if absent:
        raise ArgumentError(f"{name} needs {absent[0]}, which is missing or NULL", argument=absent[0])


def checked_call(function: Callable[..., Any], given: Mapping[str, Any], *, name: str) -> Any:
    """Call a function with arguments by name, after `check`."""
    check(function, given, name=name)
    return function(**given)


def instance(value: object, *kinds: type, argument: str = "x") -> Any:
    """Return a value that is an object of the first of these kinds, or of another of them.

    Raises
    ------
    ArgumentError
        If it is none; the message has the R class of the first kind.
    """
    if not isinstance(value, kinds):
        expected = _R_CLASSES[kinds[0]]
        raise ArgumentError(f"{argument} must be a {expected}, not {type(value).__name__}", argument=argument)
    return value


def single_values(given: Mapping[str, Any], *, vectors: Iterable[str] = ()) -> dict[str, Any]:
    """Return the arguments; a vector of length 1 with a name, as ``quantile`` returns it, becomes its value.

    Parameters
    ----------
    given
        The arguments by name, and lists of named elements, whose elements are treated alike.
    vectors
        Names, beyond those that are known here, of arguments that may have several values.

    Raises
    ------
    ArgumentError
        If another argument is a table or has several values: its name, and nothing of what it holds.
    """
    return {name: _single_value(name, value, vectors) for name, value in given.items()}


def _single_value(name: str, value: Any, vectors: Iterable[str]) -> Any:
    if isinstance(value, dict) and name not in _LISTS:
        return single_values(value, vectors=value if name in _NAMED_VECTORS else vectors)
    if name in _TABLES or name in _LISTS:
        return value
    if isinstance(value, pd.DataFrame):
        raise ArgumentError(f"{name} must not be a table; a column is given by its name", argument=name)
    several = name in _VECTORS or name in vectors or (name in _PER_SITE and _has_names(value))
    if several or not isinstance(value, pd.Series | np.ndarray | list):
        return value
    if len(value) != 1:
        raise ArgumentError(
            f"{name} takes one value, not {len(value)} of them; a column is given by its name", argument=name
        )
    return next(iter(value))


def _has_names(value: Any) -> bool:
    return isinstance(value, pd.Series) and not isinstance(value.index, pd.RangeIndex)


def per_site(value: Any, sites: Collection[str], *, name: str, requirement: str) -> Any:
    """Return ``c(Oslo = 1, Bergen = 0.5)`` as the numbers of these sites by name; anything else as it is.

    At one site a vector of length 1 is a number, whatever its name is: ``c(epsilon = 1)`` is what R makes of a total.
    ``requirement`` is what the argument must be or have, before the names of the sites.

    Raises
    ------
    ArgumentError
        If the names are other ones; the message has those of the sites, and nothing of what was given.
    """
    if not isinstance(value, pd.Series | np.ndarray | list):
        return value
    if len(value) == 1 and len(sites) <= 1:
        return next(iter(value))
    names = list(value.index) if isinstance(value, pd.Series) and _has_names(value) else []
    if len(names) != len(sites) or set(names) != set(sites):
        raise ArgumentError(f"{name} must {requirement} {', '.join(map(repr, sites))}", argument=name)
    return dict(zip(names, value, strict=True))


def whole(value: Any) -> Any:
    """Return R's 24 as Python's 24; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def whole_counts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of which those that count are whole numbers: R has none by default."""
    return {name: whole(value) if name in _COUNTS else value for name, value in given.items()}


def elements(value: Any) -> list[Any]:
    """Return the elements of an R vector of any length, or of a list; None for NA."""
    if isinstance(value, pd.Series):
        return [None if pd.isna(each) else each for each in value.tolist()]
    return list(value) if isinstance(value, list | tuple) else [value]


def column_names(columns: Any, most: int) -> list[str]:
    """Return names of columns; what cannot be names, such as the values of a column, is refused and not quoted."""
    names = elements(columns)
    if len(names) > most or not all(isinstance(name, str) for name in names):
        raise ArgumentError("columns must be names of the schema's columns, each once", argument="columns")
    return names


def choice(value: object, name: str, options: Sequence[str]) -> str:
    """Return one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ArgumentError(f"{name} must be one of {', '.join(options)}, not {value!r}", argument=name)
    return value


def number(value: object, name: str, *, above: float = float("-inf")) -> float:
    """Return a finite number, above a bound where there is one."""
    if isinstance(value, bool) or not isinstance(value, Real) or not above < float(value) < float("inf"):
        bound = f" above {above:g}" if above > float("-inf") else ""
        raise ArgumentError(f"{name} must be a finite number{bound}, not {value!r}", argument=name)
    return float(value)


def level_of(value: object) -> float:
    """Return a level of confidence."""
    level = number(value, "conf_level", above=0.0)
    if not level < 1.0:
        raise ArgumentError(f"conf_level must be below 1, not {value!r}", argument="conf_level")
    return level


def grid_of(intervals: object, horizon: float | None) -> tuple[Any, int]:
    """Return the cut points, or ``{"count": q}`` where R finds them, and how many there are."""
    if not isinstance(intervals, bool) and isinstance(intervals, Integral):
        count = int(intervals)
        if not 1 <= count <= _MOST_INTERVALS:
            raise ArgumentError(
                f"intervals must be 1 to {_MOST_INTERVALS} in number, not {count}", argument="intervals"
            )
        return {"count": count}, count
    if isinstance(intervals, str | Real) or not isinstance(intervals, Iterable):
        raise ArgumentError("intervals must be a whole number or cut points", argument="intervals")
    cuts = _increasing(intervals, "intervals")
    if cuts[0] <= 0.0 or (horizon is not None and cuts[-1] > horizon):
        raise ArgumentError("intervals must have cut points above 0 and up to the horizon", argument="intervals")
    cuts += [] if horizon is None or cuts[-1] == horizon else [horizon]
    return pd.Series(cuts), len(cuts)


def knots_of(df: object, knots: Sequence[float] | None, intervals: int) -> "pd.Series[float]":
    """Return the knots of the baseline's spline, shares of the number of intervals."""
    most = min(_MOST_KNOTS, intervals)
    if most < 2:
        raise ArgumentError("a spline needs 2 intervals or more; choose baseline='dummies'", argument="baseline")
    if knots is None:
        if not isinstance(df, Integral) or not 2 <= int(df) <= most:
            raise ArgumentError(f"df must be a whole number from 2 to {most}, not {df!r}", argument="df")
        return pd.Series([place / (int(df) - 1) for place in range(int(df))])
    places = _increasing(knots, "knots")
    if not 2 <= len(places) <= most or places[0] < 0.0 or places[-1] > 1.0:
        raise ArgumentError(f"knots must be 2 to {most} shares from 0 to 1", argument="knots")
    return pd.Series(places)


def _increasing(values: Iterable[Any], name: str) -> list[float]:
    numbers = [number(value, name) for value in values]
    if not numbers or not all(a < b for a, b in pairwise(numbers)):
        raise ArgumentError(f"{name} must be numbers that increase", argument=name)
    return numbers

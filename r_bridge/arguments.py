"""Arguments that come from R by name: checked against a Python function before it is called.

What is checked here is shape alone. Whoever gets an argument of the wrong kind quotes it in its message; a table or a
vector of many values could be somebody's data, and is refused before.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from hdpstats.api import ArgumentError

_TABLES: Final = frozenset({"data", "public", "frame", "newdata", "at"})
"""Arguments that may be tables; their receivers never quote them."""

_LISTS: Final = frozenset({"private", "results"})
"""Arguments that may be tables or lists of anything; nor does anybody quote these."""

_VECTORS: Final = frozenset({"columns", "levels", "knots", "times", "intervals", "probabilities", "between", "names"})
"""Arguments that may have several values, all of them declared or public."""

_NAMED_VECTORS: Final = frozenset({"columns", "ranges"})
"""Arguments that are lists of such."""

_OF_SITES: Final = frozenset({"n_max", "row_order"})
"""Arguments that may have one value for each site, by its name."""


def accepted(function: Callable[..., Any]) -> list[str]:
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
    passed, known = set(given), accepted(function)
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


def single(given: Mapping[str, Any], *, vectors: Iterable[str] = ()) -> dict[str, Any]:
    """Return the arguments, of which a vector of length 1 with a name, as ``quantile`` returns it, is a value.

    Parameters
    ----------
    given
        The arguments by name; lists of named elements are looked into.
    vectors
        Names, beyond those that are known here, of arguments that may have several values.

    Raises
    ------
    ArgumentError
        If another argument is a table or has several values: its name, and nothing of what it holds.
    """
    return {name: _single(name, value, vectors) for name, value in given.items()}


def _single(name: str, value: Any, vectors: Iterable[str]) -> Any:
    if isinstance(value, dict) and name not in _LISTS:
        return single(value, vectors=value if name in _NAMED_VECTORS else vectors)
    if name in _TABLES or name in _LISTS:
        return value
    if isinstance(value, pd.DataFrame):
        raise ArgumentError(f"{name} must not be a table; a column is given by its name", argument=name)
    if name in _VECTORS or name in vectors or (name in _OF_SITES and _has_names(value)):
        return value
    if isinstance(value, pd.Series | np.ndarray | list):
        if len(value) != 1:
            raise ArgumentError(
                f"{name} takes one value, not {len(value)} of them; a column is given by its name", argument=name
            )
        return next(iter(value))
    return value


def _has_names(value: Any) -> bool:
    return isinstance(value, pd.Series) and not isinstance(value.index, pd.RangeIndex)


def of_sites(value: Any, sites: Collection[str], *, name: str, words: str) -> Any:
    """Return ``c(Oslo = 1, Bergen = 0.5)`` as the numbers of these sites by name; anything else as it is.

    At one site a vector of length 1 is a number, whatever its name is: ``c(epsilon = 1)`` is what R makes of a total.
    ``words`` are what the argument must, before the names of the sites.

    Raises
    ------
    ArgumentError
        If the names are other ones; it tells those of the sites, and nothing of what was given.
    """
    if not isinstance(value, pd.Series | np.ndarray | list):
        return value
    if len(value) == 1 and len(sites) <= 1:
        return next(iter(value))
    names = list(value.index) if isinstance(value, pd.Series) and _has_names(value) else []
    if len(names) != len(sites) or set(names) != set(sites):
        raise ArgumentError(f"{name} must {words} {', '.join(map(repr, sites))}", argument=name)
    return dict(zip(names, value, strict=True))


def whole(value: Any) -> Any:
    """Return R's 24 as Python's 24; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def many(value: Any) -> list[Any]:
    """Return the elements of an R vector of any length, or of a list."""
    if isinstance(value, pd.Series):
        return [None if pd.isna(each) else each for each in value.tolist()]
    return list(value) if isinstance(value, list | tuple) else [value]

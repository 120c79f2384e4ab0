"""Arguments that come from R by name: checked against a Python function before it is called."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hdpstats.api import ArgumentError


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

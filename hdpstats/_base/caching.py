"""Values of functions that are kept for later calls, until `forget`.

A service calls `forget` after each request: which values are kept depends on what was asked, and what one analyst asked
is not to make another's answer faster. So every function that keeps values of arguments which may come from a request
is a `remembered` one. `functools.cache` is for what there is once in a process: what is compiled, versions, types.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
_FORGETTING: list[Callable[[], None]] = []


def remembered(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the values of a function for so many arguments, the latest used ones, until `forget`.

    >>> @remembered(2)
    ... def twice(number):
    ...     print("computed")
    ...     return 2 * number
    >>> twice(3), twice(3)
    computed
    (6, 6)
    >>> forget()
    >>> twice(3)
    computed
    6
    """

    def wrapped(function: Callable[P, R]) -> Callable[P, R]:
        cached = lru_cache(maxsize=most)(function)
        _FORGETTING.append(cached.cache_clear)
        return cast("Callable[P, R]", cached)

    return wrapped


def forget() -> None:
    """Keep no value of any `remembered` function."""
    for each in _FORGETTING:
        each()

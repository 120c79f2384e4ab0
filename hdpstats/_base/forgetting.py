"""Failures that hold no private row: neither in the frames of their tracebacks, nor in what they were caused by.

Whoever builds a study hands rows to a function. Where that fails, Python keeps the frames of all functions on the way,
with their arguments, for as long as the error lives: in `sys.last_value`, in a notebook's ``%debug``, in reports of
errors that are sent away. The caller's own frames hold the rows anyway; the package's must not.
"""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hdpstats._base.errors import HdpError

P = ParamSpec("P")
T = TypeVar("T")


def forgets_rows(function: Callable[P, T]) -> Callable[P, T]:
    """Let a failure of a function keep none of what the function was given or had made.

    The frames of the failure are emptied, those of errors that led to it too; these are cut off, since their messages
    may quote cells. An error of this package and one that ends the program pass. Any other, which nobody meant a user
    to see, is replaced by one that names its type and its place in the code. A call that does not fit the function's
    arguments is a `TypeError` as ever.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        before = sys.exception()  # of the caller: not ours to touch
        unknown: HdpError | None = None
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            begun = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            _empty(error, before)
            if isinstance(error, HdpError | MemoryError) or not isinstance(error, Exception) or not begun:
                if error.__cause__ is not None:
                    error.__cause__ = None
                error.__context__ = before
                raise
            unknown = _internal(error)
        finally:
            del args, kwargs
        raise unknown

    return call


def _empty(error: BaseException, before: BaseException | None) -> None:
    """Empty the frames of an error and of those that led to it, up to what the caller was dealing with."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or each is before or id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _internal(error: Exception) -> HdpError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rsplit('/', 1)[-1]}, line {frame.lineno}"
    return HdpError(
        f"the rows could not be taken: an internal error of type {type(error).__name__} ({place}), whose message is "
        "left out as it may quote a cell; are they a plain table?"
    )

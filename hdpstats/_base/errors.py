"""The errors a user can meet, one family; and failures that hold no private row.

A message states the fact, its cause and the remedy, and speaks of declared or public things only: of
arguments, of the schema, of column names, of public rows and of the ledger. It never quotes a private value.
The facts are attributes too, so that a program (or R) can read them.

**Failures without rows.** Whoever builds a study hands rows to a function. Where that fails, Python keeps the frames of
all functions on the way, with their arguments, for as long as the error lives: in `sys.last_value`, in a notebook's
``%debug``, in reports of errors that are sent away. The caller's own frames hold the rows anyway; the package's must
not (`forgets_rows`).
"""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class HdpError(Exception):
    """Root of every error that hdpstats raises on purpose. Keyword facts become attributes."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = dict(facts)

    def __getattr__(self, name: str) -> object:
        if name == "facts" or name not in self.facts:
            raise AttributeError(f"{type(self).__name__} has no fact {name!r}")
        return self.facts[name]


class ArgumentError(HdpError, ValueError):
    """An argument has a wrong type or value."""


class CapTooSmall(ArgumentError):  # noqa: N818  (what a caller needs to know of it)
    """A cap does not cover what the analyst has received."""


class SchemaError(HdpError):
    """A column is missing, declared twice, or declared in a way that cannot hold."""


class FormulaError(HdpError):
    """A formula cannot be read, or asks for something that would have to be learned from private rows."""


class BudgetError(HdpError):
    """A release would cost more privacy than is left, or more than is sensible."""


class InsufficientBudget(BudgetError):  # noqa: N818  (the public name of the contract)
    """The ledger refuses: the charge would exceed the total, or the cap of an analyst, whom the fact ``analyst`` names.

    Facts: requested, remaining, total, analyst (None where the total refuses).
    """


class QuotaExceeded(BudgetError):  # noqa: N818  (as InsufficientBudget)
    """The ledger refuses: the analyst has caused as many charges, or stored as much, as the custodian allows him.

    Facts: analyst.
    """


class MechanismError(HdpError):
    """The mechanism's proof does not cover the request. The message lists what does work."""


class SiteError(HdpError):
    """A site refused a query or could not complete it. Never carries data."""


class LedgerError(HdpError):
    """A ledger cannot be opened, does not verify, or was opened with other terms."""


class Superseded(LedgerError):  # noqa: N818  (a refusal that only a site meets, which then asks for the stored release)
    """A release comes too late: its request was charged again, since its computation was thought to have ended."""


class HdpWarning(RuntimeWarning):
    """Numbers rest on something that a user should know. The message quotes no cell."""


class NothingCharged(LedgerError):  # noqa: N818  (what a caller needs to know of it)
    """A ledger is not written: its kept head cannot be read, the ledger is behind it, or a disk has no room."""


class ChargedMeanwhile(NothingCharged):
    """A request was charged by somebody else since it was looked at how often it has been; nothing was charged now."""


class ChargedAgain(UserWarning):
    """A release was charged more than once: a process that computed it before ended without recording it."""


class OlderRecipe(UserWarning):
    """A call was charged before under an older recipe of queries: that release is returned, and nothing is charged."""


def forgets_rows(function: Callable[P, T]) -> Callable[P, T]:
    """Let a failure of a function keep none of what the function was given or had made.

    The frames of the failure are emptied, those of errors that led to it too; these are cut off, since their messages
    may quote cells. Errors of this package pass, so do its warnings where these are errors, and what ends the program.
    Any other, which nobody meant a user to see, is replaced by one that names its type and its place in the code. A
    call that does not fit the function's arguments is a `TypeError` as ever.
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
            ours = isinstance(error, HdpError | HdpWarning | ChargedAgain | OlderRecipe | MemoryError)
            if ours or not isinstance(error, Exception) or not begun:
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
        f"what was given could not be taken: an internal error of type {type(error).__name__} ({place}), whose message "
        "is left out as it may quote a cell; are rows a plain table?"
    )

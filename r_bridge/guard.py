"""Calls into R whose errors, warnings and interrupts arrive in Python as what they are."""

import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import rpy2.rinterface as ri

import hdpstats.api as hdp
from hdpstats.api import HdpError
from r_bridge.interrupts import in_r
from r_bridge.session import quoted, r_function, start
from r_bridge.vectors import fields, from_r_strings, text


class RError(RuntimeError):
    """An error of R: its message, and the condition's ``classes``, most special first."""

    def __init__(self, message: str, *, classes: tuple[str, ...]) -> None:
        super().__init__(message)
        self.classes = classes


class RWarning(UserWarning):
    """A warning of R."""


def guarded(function: Any, /, *arguments: Any, **named: Any) -> Any:
    """Call an R function with R objects and return the R object that it returns; calls and symbols stay what they are.

    Raises
    ------
    RError
        If R raises an error; where the condition is that of an error of `hdpstats`, that one.
    KeyboardInterrupt
        If R was interrupted.
    """
    start()
    with in_r():
        reply = r_function("guarded")(
            function, *map(quoted, arguments), **{name: quoted(each) for name, each in named.items()}
        )
    parts = fields(reply)
    for message in from_r_strings(parts["warned"]):
        warnings.warn(str(message), RWarning, stacklevel=2)
    if "interrupt" in parts:
        raise KeyboardInterrupt
    if "message" in parts:
        kinds = tuple(map(str, from_r_strings(parts["classes"])))
        raise exception_of(text(parts["message"]), kinds, parts["fields"])
    return parts["value"]


@cache
def sourced(path: Path) -> Any:
    """Return the R environment of the functions in an R file, or in the R files of a directory."""
    return guarded(r_function("sourced"), ri.StrSexpVector([str(path)]))


def exception_of(message: str, classes: tuple[str, ...], facts: Any) -> Exception:
    """Return the Python exception for an R condition: an error of `hdpstats` if R's class is that of one."""
    kind = next((ERRORS[name] for name in classes if name in ERRORS), None)
    if kind is None:
        return RError(message, classes=classes)
    return kind(message, **{key: each[0] for key, each in fields(facts).items()})


def condition_class(kind: type) -> str:
    """Return the R class for a Python class of errors.

    >>> condition_class(hdp.InsufficientBudget), condition_class(hdp.HdpError)
    ('dp_insufficient_budget', 'dp_error')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__.removeprefix("Hdp")).lower()
    return f"dp_{words}"


ERRORS: dict[str, type[HdpError]] = {
    condition_class(kind): kind for kind in vars(hdp).values() if isinstance(kind, type) and issubclass(kind, HdpError)
}
"""The errors of `hdpstats` by their R classes."""

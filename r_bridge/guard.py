"""Calls into R whose errors, warnings and interrupts arrive in Python as what they are."""

import re
import warnings
from typing import Any

import hdpstats.api as hdp
from hdpstats.api import HdpError
from r_bridge.interrupts import in_r
from r_bridge.session import helper, quoted, start
from r_bridge.strings import from_r_strings

_GUARD = """function(.function, ...) {
  warned <- character()
  caught <- function(e) {
    plain <- function(x) is.atomic(x) && length(x) == 1L && !is.null(x)
    list(
      message = conditionMessage(e), classes = class(e),
      fields = Filter(plain, unclass(e)[setdiff(names(e), c("message", "call"))])
    )
  }
  reply <- tryCatch(
    withCallingHandlers(list(value = .function(...)), warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      tryInvokeRestart("muffleWarning")
    }),
    error = caught,
    interrupt = function(e) list(interrupt = TRUE)
  )
  c(reply, list(warned = warned))
}"""


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
        If R raises an error; where the condition stands for an error of `hdpstats`, that one.
    KeyboardInterrupt
        If R was interrupted.
    """
    start()
    with in_r():
        reply = helper(_GUARD)(
            function, *map(quoted, arguments), **{name: quoted(each) for name, each in named.items()}
        )
    parts = dict(zip(from_r_strings(reply.do_slot("names")), reply, strict=True))
    for message in from_r_strings(parts["warned"]):
        warnings.warn(str(message), RWarning, stacklevel=2)
    if "interrupt" in parts:
        raise KeyboardInterrupt
    if "message" in parts:
        raise exception_of(
            str(from_r_strings(parts["message"])[0]), tuple(map(str, from_r_strings(parts["classes"]))), parts["fields"]
        )
    return parts["value"]


def exception_of(message: str, classes: tuple[str, ...], fields: Any) -> Exception:
    """Return the Python exception for an R condition; the error of `hdpstats` that it stands for, if any."""
    for name in classes:
        kind = ERRORS.get(name)
        if kind is not None:
            keys = [] if len(fields) == 0 else from_r_strings(fields.do_slot("names"))
            return kind(message, **{str(key): each[0] for key, each in zip(keys, fields, strict=True)})
    return RError(message, classes=classes)


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

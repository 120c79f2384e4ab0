"""The one Python function that R calls: name and arguments in, a tagged list out, never an exception.

rpy2 turns an exception of a Python function that R calls into NULL. So everything is caught here, and R's side
(``backend.R``) raises what the reply says. A reply holds no traceback, and only those messages that are written for
users: errors of `hdpstats`, of R functions, of files and imports. Other exceptions could quote cells; of them the reply
tells the type and the place in the code.
"""

import contextlib
import io
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import rpy2.rinterface as ri

from hdpstats.api import ArgumentError, HdpError
from r_bridge import handles, interrupts
from r_bridge.arguments import check, single
from r_bridge.from_r import from_r
from r_bridge.functions import EPSILONS, FUNCTIONS, amount
from r_bridge.guard import RError, condition_class
from r_bridge.to_r import to_r

_FOR_USERS = (HdpError, RError, OSError, ImportError)


@cache
def dispatcher() -> Any:
    """Return the R function of ``(name, arguments)``."""
    return ri.rternalize(answer)


def answer(name: Any, arguments: Any) -> Any:
    """Run the function of that name and return the reply: ``status`` is "value", "error" or "interrupt"."""
    try:
        with interrupts.in_python():
            reply = _run(name, arguments)
    except KeyboardInterrupt:
        reply = to_r({"status": "interrupt"})
    except BaseException as error:
        reply = _report(error)
    return reply


def _run(name: Any, arguments: Any) -> Any:
    handles.sweep()
    function = FUNCTIONS.get(name[0])
    if function is None:
        raise HdpError(f"this version of hdpstats has no function {name[0]!r}: install the R package that came with it")
    given = from_r(arguments) if len(arguments) else {}
    if not isinstance(given, dict):
        raise ArgumentError("arguments must all have names", argument="arguments")
    check(function, given, name=str(name[0]))
    given = single(given, vectors=("epsilon",) if name[0] in EPSILONS else ())
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        value = function(**given)
    messages = list(dict.fromkeys(str(each.message) for each in caught))
    return to_r({"status": "value", "value": value, "warnings": messages, "printed": printed.getvalue()})


def _report(error: BaseException) -> Any:
    try:
        fields = {key: value for key, value in _fields(error).items() if value is not None}
        report = {"status": "error", "classes": _classes(error), "message": _message(error), "fields": fields}
        return to_r(report)
    except BaseException as second:
        return to_r(
            {"status": "error", "classes": ["dp_internal_error"], "message": type(second).__name__, "fields": {}}
        )


def _classes(error: BaseException) -> list[str]:
    """Return the S3 classes of an error, most special first, without "error" and "condition"."""
    if isinstance(error, HdpError):
        return [condition_class(kind) for kind in type(error).__mro__ if issubclass(kind, HdpError)]
    if isinstance(error, RError):
        return [kind for kind in error.classes if kind not in ("error", "condition")]
    return ["dp_error"] if isinstance(error, _FOR_USERS) else ["dp_internal_error", "dp_error"]


def _message(error: BaseException) -> str:
    if isinstance(error, _FOR_USERS):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"an internal error of type {type(error).__name__}{place}; please report it"


def _fields(error: BaseException) -> dict[str, Any]:
    """Return the facts of an error that R can hold: numbers, texts, and amounts as c(epsilon=, delta=)."""
    return {key: _fact(value) for key, value in error.facts.items()} if isinstance(error, HdpError) else {}


def _fact(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list) and all(isinstance(each, str) for each in value):
        return list(value)
    if hasattr(value, "epsilon") and hasattr(value, "delta"):
        return amount(value)
    return None

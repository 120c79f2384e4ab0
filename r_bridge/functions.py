"""What R may call by name, and the one Python function that it calls: arguments in, a tagged list out.

rpy2 turns an exception of a Python function that R calls into NULL. So everything is caught here, and R's side
(``backend.R``) raises what the reply says. A reply holds no traceback, and only those messages that are written for
users: errors of `hdpstats`, of R functions, of files and imports. Other exceptions could quote cells; of them the reply
has the type and the place in the code.
"""

import contextlib
import inspect
import io
import platform
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import rpy2.rinterface as ri

import hdpstats.api as hdp
from hdpstats.api import ArgumentError, HdpError
from r_bridge import effects, fits, handles, interrupts, results, studies
from r_bridge.arguments import check, converted, single_values
from r_bridge.from_r import from_r
from r_bridge.guard import RError, condition_class
from r_bridge.handles import r_names
from r_bridge.messages import in_r
from r_bridge.to_r import to_r

_FOR_USERS = (HdpError, RError, OSError, ImportError)


def versions() -> dict[str, str]:
    """Return the versions of what runs."""
    return {"hdpstats": hdp.__version__, "python": platform.python_version(), "pandas": pd.__version__}


def _public(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that a module defines, by name."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return {name: each for name, each in functions if each.__module__ == module.__name__ and not name.startswith("_")}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_public(studies),
    **_public(results),
    **_public(effects),
    **fits.FUNCTIONS,
    **results.METHODS,
    "aggregate": handles.aggregate,
    "budget": hdp.Budget,
    "curves_from_json": hdp.SurvivalCurves.from_json,
    "description_from_json": hdp.Description.from_json,
    "result_from_json": hdp.Result.from_json,
    "sample_from_json": hdp.WeightedSample.from_json,
    "schema_from_yaml": hdp.Schema.from_yaml,
    "versions": versions,
    **{
        f"load_{name}": getattr(hdp.datasets, f"load_{name}")
        for name in ("rotterdam", "gbsg", "flchain", "nwtco", "colon")
    },
}
"""The functions by the names that R uses."""


@cache
def dispatcher() -> Any:
    """Return the R function of ``(name, arguments)``."""
    return ri.rternalize(answer)


def answer(name: Any, arguments: Any) -> Any:
    """Run the function of that name and return the reply: ``status`` is "value", "error" or "interrupt"."""
    printed, caught = io.StringIO(), list[warnings.WarningMessage]()
    try:
        with interrupts.in_python():
            reply = _run(name, arguments, printed, caught)
    except KeyboardInterrupt:
        reply = to_r({"status": "interrupt"})
    except BaseException as error:
        reply = _report(error, _said(printed, caught))
    return reply


def _said(printed: io.StringIO, caught: list[warnings.WarningMessage]) -> dict[str, Any]:
    """Return what a function printed and warned of, also where an error ended it."""
    messages = [in_r(each) for each in dict.fromkeys(str(each.message) for each in caught)]
    return {"warnings": messages, "printed": printed.getvalue()}


def _run(name: Any, arguments: Any, printed: io.StringIO, caught: list[warnings.WarningMessage]) -> Any:
    handles.release_collected()
    function = FUNCTIONS.get(name[0])
    if function is None:
        raise HdpError(f"this version of hdpstats has no function {name[0]!r}: install the R package that came with it")
    with r_names():
        given = from_r(arguments) if len(arguments) else {}
    if not isinstance(given, dict):
        raise ArgumentError("arguments must all have names", argument="arguments")
    check(function, given, name=str(name[0]))
    given = single_values(given, vectors=("epsilon",) if name[0] in fits.SEVERAL_EPSILONS else ())
    with warnings.catch_warnings(record=True) as found, contextlib.redirect_stdout(printed):
        for kind in (RuntimeWarning, UserWarning):  # in R they are warnings, whatever Python's filters make of them
            warnings.simplefilter("always", kind)
        try:
            value = function(**converted(given))
        finally:
            caught += found
    return to_r({"status": "value", "value": value, **_said(printed, caught)})


def _report(error: BaseException, said: dict[str, Any]) -> Any:
    try:
        facts = error.facts.items() if isinstance(error, HdpError) else ()
        fields = {key: _fact(value) for key, value in facts}
        known = {key: value for key, value in fields.items() if value is not None}
        return to_r(
            {"status": "error", "classes": _classes(error), "message": _message(error), "fields": known, **said}
        )
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
    if isinstance(error, HdpError):
        return in_r(str(error))
    if isinstance(error, _FOR_USERS):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"an internal error of type {type(error).__name__}{place}; please report it"


def _fact(value: Any) -> Any:
    """Return a fact of an error as R can hold it: a number, a text, or an amount as c(epsilon=, delta=); else None."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list) and all(isinstance(each, str) for each in value):
        return list(value)
    return handles.amount(value) if hasattr(value, "epsilon") and hasattr(value, "delta") else None

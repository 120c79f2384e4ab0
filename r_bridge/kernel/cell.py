"""Run the code of a cell: expression by expression, values and plots shown as they come, warnings at the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import rpy2.rinterface as ri

from hdpstats.api import HdpError
from r_bridge.guard import RError, guarded
from r_bridge.kernel import bundles
from r_bridge.kernel.bundles import Bundle
from r_bridge.kernel.tools import fields, text, tool
from r_bridge.numbers import integers
from r_bridge.strings import from_r_strings, to_r_strings

Show = Callable[[Bundle, bool], None]
"""Shows a bundle; the flag says whether it is the value of the cell's last expression."""


@final
@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a cell stopped: the class of the condition, its message, and the lines that a notebook shows.

    The lines hold calls without values that were not typed into the cell, so that no data get into a notebook by way
    of ``do.call``.
    """

    name: str
    message: str
    traceback: list[str]


INTERRUPTED = Failure(name="interrupt", message="interrupted", traceback=["Interrupted"])


@final
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a cell ended: with a failure, with ``quit()``, or with neither."""

    failure: Failure | None = None
    quits: bool = False


_DONE = Outcome()


def run(code: str, show: Show) -> Outcome:
    """Run a cell in R's global environment.

    Whatever happens, plots drawn so far are shown and warnings are written.
    """
    outcome = _caught(lambda: _expressions(code, show))
    ending = _caught(lambda: _end(show))
    return outcome if ending is _DONE else ending


def evaluate(code: str) -> Bundle | Failure:
    """Return what the value of an expression looks like, or why it has none."""
    shown: list[Bundle] = []
    outcome = run(code, lambda bundle, _last: shown.append(bundle))
    return outcome.failure or (shown[-1] if shown else Bundle(data={"text/plain": ""}))


def _caught(action: Callable[[], Outcome]) -> Outcome:
    """Return what an action returns; interrupts and errors outside of the cell's code, as of a device, are failures."""
    try:
        return action()
    except KeyboardInterrupt:
        return Outcome(failure=INTERRUPTED)
    except (RError, HdpError) as error:
        name, message = getattr(error, "classes", (type(error).__name__,))[0], str(error)
    except Exception as error:
        name, message = type(error).__name__, "an internal error of the kernel; please report it"
    return Outcome(failure=Failure(name=name, message=message, traceback=[f"Error: {message}"]))


def _end(show: Show) -> Outcome:
    try:
        _show_pages(show, end=True)
    finally:
        guarded(tool("warn"))
    return _DONE


def _expressions(code: str, show: Show) -> Outcome:
    reply = _reply("read", to_r_strings([code]))
    if "failure" in reply:
        return Outcome(failure=_failure(reply["failure"]))
    expressions = reply["value"]
    for number in range(1, len(expressions) + 1):
        outcome = _expression(expressions, number, show)
        if outcome is not _DONE:
            return outcome
        _show_pages(show, end=False)
    return _DONE


def _expression(expressions: Any, number: int, show: Show) -> Outcome:
    reply = _reply("run", expressions, integers([number]))
    if "visible" in reply and reply["visible"][0]:
        value = reply["value"]
        reply = _reply("describe", value)
        if "value" in reply:
            bundle = bundles.of_value(value, reply["value"])
            if bundle is not None:
                show(bundle, number == len(expressions))
    if "failure" in reply:
        return Outcome(failure=_failure(reply["failure"]))
    return Outcome(quits=True) if "quit" in reply else _DONE


def _reply(name: str, *arguments: Any) -> dict[str, Any]:
    return fields(guarded(tool(name), *arguments))


def _show_pages(show: Show, *, end: bool) -> None:
    for page in guarded(tool("take_pages"), ri.BoolSexpVector([end])):
        show(bundles.of_page(page), False)


def _failure(found: Any) -> Failure:
    parts = fields(found)
    name, message, call = text(parts["classes"]), text(parts["message"]), text(parts["call"])
    frames = [str(each) for each in from_r_strings(parts["traceback"])]
    lines = [f"Error in {call}: {message}" if call else f"Error: {message}"]
    if len(frames) > 1:
        lines += ["Traceback:", *(f"{number}. {frame}" for number, frame in enumerate(frames, 1))]
    return Failure(name=name, message=message, traceback=lines)

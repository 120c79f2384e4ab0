"""Run the code of a cell: expression by expression, values and plots shown as they come, warnings at the end."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import rpy2.rinterface as ri

from hdpstats.api import HdpError
from r_bridge.guard import RError, guarded, sourced
from r_bridge.vectors import fields, from_r_strings, integers, raw_bytes, text, to_r_strings

_R_CODE: Final = Path(__file__).parent / "R"
_LARGEST_SVG: Final = 2_000_000
"""Bytes of a drawing above which only the picture is shown: a notebook with it would be slow to open."""


@final
@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Contents by media type; ``page`` is true for what a front end shows beside the notebook, such as help."""

    data: dict[str, str]
    metadata: dict[str, Any] = field(default_factory=dict)
    page: bool = False


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


def tool(name: str) -> Any:
    """Return the R function of that name in ``R/``, whose functions are off the search path."""
    return sourced(_R_CODE)[name]


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
        reply = _reply("describe", reply["value"])
        if "value" in reply:
            bundle = _bundle_of_value(reply["value"])
            if bundle is not None:
                show(bundle, number == len(expressions))
    if "failure" in reply:
        return Outcome(failure=_failure(reply["failure"]))
    return Outcome(quits=True) if "quit" in reply else _DONE


def _reply(name: str, *arguments: Any) -> dict[str, Any]:
    return fields(guarded(tool(name), *arguments))


def _show_pages(show: Show, *, end: bool) -> None:
    for page in guarded(tool("take_pages"), ri.BoolSexpVector([end])):
        show(_bundle_of_page(page), False)


def _failure(condition: Any) -> Failure:
    parts = fields(condition)
    name, message, call = text(parts["classes"]), text(parts["message"]), text(parts["call"])
    frames = [str(call) for call in from_r_strings(parts["traceback"])]
    lines = [f"Error in {call}: {message}" if call else f"Error: {message}"]
    if len(frames) > 1:
        lines += ["Traceback:", *(f"{number}. {frame}" for number, frame in enumerate(frames, 1))]
    return Failure(name=name, message=message, traceback=lines)


def _bundle_of_value(described: Any) -> Bundle | None:
    """Return the bundle of a value that R has described; None if there is nothing to show, as for a plot's value."""
    data = {name: text(part) for name, part in fields(described).items()}
    page = data.pop("page", None) is not None
    return Bundle(data=data, page=page) if data else None


def _bundle_of_page(page: Any) -> Bundle:
    """Return the bundle of a page of plots: PNG and SVG of the same size on the screen."""
    parts = fields(page)
    size = {"width": round(parts.pop("width")[0]), "height": round(parts.pop("height")[0])}
    data = {"text/plain": "plot"}
    metadata: dict[str, Any] = {}
    for kind, content in parts.items():
        written = raw_bytes(content)
        if kind == "image/png":
            data[kind], metadata[kind] = base64.b64encode(written).decode(), size
        elif len(written) <= _LARGEST_SVG or len(parts) == 1:
            data[kind], metadata[kind] = written.decode(), {"isolated": True}  # else glyphs of two plots share names
    return Bundle(data=data, metadata=metadata)
